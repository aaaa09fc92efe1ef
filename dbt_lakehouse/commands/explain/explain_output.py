"""The output of `lakehouse explain`, as text and JSON."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from dbt_lakehouse.commands.explain.columns import shown
from dbt_lakehouse.commands.explain.debezium import SCHEMA, UNDECLARED
from dbt_lakehouse.commands.explain.nodes import ELIDED, Node, Tree
from dbt_lakehouse.stored.messages import event_json
from dbt_lakehouse.texts import counted, printable
from python_udfs.core.events import Event

_json: Final = msgspec.json.Encoder(decimal_format="number").encode
_CONTAINERS: Final = frozenset({"array", "map", "object"})
# The limits of the text unless everything is requested.
_EVENTS: Final = 20
_LONGEST_COLUMN: Final = 1_000
_BYTES: Final = 8
_HEX_BYTES: Final = 256
_HEX_LINE: Final = 16
# The rightmost column at which an annotation begins.
_WIDEST: Final = 64


class Wrong(Struct):
    """A decoder's error."""

    event_index: int
    code: str
    sentence: str
    position: int | None
    """The position of the byte; None if the error is about the message as a whole."""


def _wrong_of(event: Event) -> Wrong | None:
    """The error of an event; None if it has none."""
    if event.error_code is None:
        return None
    return Wrong(event.event_index, event.error_code, event.error_detail or "", None)


class Part(Struct):
    """A key or a value."""

    tree: Tree
    payload: bytes


class Explanation(Struct):
    """An explained message."""

    format: str
    how: str
    """The reason for this format."""
    others: list[str]
    """Other formats that fit equally well."""
    events: list[Event]
    key: Part | None = None
    value: Part | None = None
    wrong: list[Wrong] = field(default_factory=list)

    def json(self) -> str:
        """As JSON, for scripts."""
        return _json(
            {
                "format": self.format,
                "how": self.how,
                "others": self.others,
                "key": self.key and _part_json(self.key),
                "value": self.value and _part_json(self.value),
                "wrong": self.wrong,
                "events": [event_json(event) for event in self.events],
            }
        ).decode()

    def text(self, *, everything: bool = False) -> str:
        """As text."""
        lines = [f"{self.format} ({self.how})"]
        for title, part in (("key", self.key), ("value", self.value)):
            if part is None:
                lines += ["", f"{title}: none"]
            else:
                lines += ["", f"{title}: {counted(part.tree.size, 'byte')}"]
                lines += _tree_lines(part, everything)
        wrong = {each.event_index: each for each in self.wrong}
        shown_events = self.events if everything else self.events[:_EVENTS]
        for event in shown_events:
            title = f"event {event.event_index}" if len(self.events) > 1 else "event"
            lines += ["", *event_lines(title, event, wrong.get(event.event_index), everything)]
        if len(shown_events) < len(self.events):
            lines += ["", f"{counted(len(self.events) - _EVENTS, 'more event')}: --all has them"]
        return "\n".join(lines)


def _part_json(part: Part) -> dict[str, Any]:
    tree = part.tree
    told: dict[str, Any] = {"size": tree.size, "root": tree.root, "rest": tree.rest}
    if tree.rest is not None:
        told["rest_b64"] = b64encode(part.payload[tree.rest :]).decode()
    return told


# --- the tree -------------------------------------------------------------------------------------


def _tree_lines(part: Part, everything: bool) -> list[str]:
    tree = part.tree
    width = max(len(str(tree.size)), 4)
    rows = [] if tree.root is None else list(_rows(tree.root, everything))
    arrow = min(max((len(text) for _, text, right in rows if right), default=0), _WIDEST)
    lines = [f"{'at':>{width}} {'size':>{width}}"] if rows else []
    for node, text, right in rows:
        place = f"{node.start:>{width}} {node.end - node.start:>{width}}  "
        lines.append(f"{place}{text:<{arrow}}  {right}".rstrip() if right else place + text)
    if tree.rest is not None:
        lines += _rest_lines(part.payload, tree.rest, width, everything)
    return lines


def _rows(root: Node, everything: bool) -> Iterator[tuple[Node, str, str]]:
    """The lines of the tree: node, text, and what the node became."""
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        is_left_out = not everything and node.name == SCHEMA and _is_fine(node)
        label = _label(node) if depth or node.name else "the whole: "
        text = f"{'  ' * depth}{label}{_value(node)}"
        right = [f"-> {'; '.join(node.became)}"] if node.became else []
        right += [f"<-- {code}" for code in node.wrong]
        if is_left_out and node.children:
            text += ", whose types are shown below; --all prints it"
        yield node, text, "  ".join(right)
        if not is_left_out:
            waiting += [(child, depth + 1) for child in reversed(node.children)]


def _is_fine(node: Node) -> bool:
    """Whether a node contains no error."""
    return not node.wrong and all(map(_is_fine, node.children))


def _label(node: Node) -> str:
    if node.kind == ELIDED:
        return ""
    place = "key" if node.step is None else str(node.step)
    if isinstance(node.step, int):
        place = f"[{node.step}]"
    return f"{shown(node.name or place)}: "


def _value(node: Node) -> str:
    if node.kind == ELIDED:
        return f"... {counted(node.size, 'more value')}: --all prints them"
    if node.kind in _CONTAINERS:
        text = f"{node.kind} of {node.size:,}"
    elif isinstance(node.value, bytes):
        text = f"{node.kind} of {counted(len(node.value), 'byte')}: {node.value[:_BYTES].hex(' ')}"
        text += " ..." if len(node.value) > _BYTES else ""
    elif isinstance(node.value, str) and node.kind in ("str", "string"):
        text = f"{node.kind} {_quoted(node.value)}"
    elif node.value is None:
        text = node.kind
    else:
        text = f"{node.kind} {shown(_plain(node.value))}"
    remarks = [each for each in (node.note, _declared(node.declared)) if each]
    return f"{text} ({'; '.join(remarks)})" if remarks else text


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """A string as JSON writes it."""
    return shown(_json(text[:_LONGEST_COLUMN].encode(errors="replace").decode()).decode())


def _declared(type_name: str) -> str:
    """A declared type, without the common prefixes of Connect and Debezium."""
    if not type_name or type_name == UNDECLARED:
        return type_name
    return f"declared {type_name.removeprefix('org.apache.kafka.').removeprefix('io.')}"


def _rest_lines(payload: bytes, rest: int, width: int, everything: bool) -> list[str]:
    left = len(payload) - rest
    if not left:
        return [f"{rest:>{width}} {0:>{width}}  -- the payload ends here"]
    lines = [f"{rest:>{width}} {left:>{width}}  -- not read:"]
    most = left if everything else _HEX_BYTES
    for at in range(rest, min(rest + most, len(payload)), _HEX_LINE):
        line = payload[at : min(at + _HEX_LINE, rest + most)]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in line)
        lines.append(f"{at:>{width}} {'':>{width}}  {line.hex(' '):<{3 * _HEX_LINE}} {text}")
    if left > most:
        lines.append(f"{'':>{width}} {'':>{width}}  ... {counted(left - most, 'more byte')}")
    return lines


# --- events ---------------------------------------------------------------------------------------


def events_lines(events: Sequence[Event], number: int) -> list[str]:
    """Lines for events of a message with ``number`` events; without positions, which an event
    alone does not tell.
    """
    return [
        f"  {line}"
        for event in events
        for line in event_lines(
            f"event {event.event_index}" if number > 1 else "event",
            event,
            _wrong_of(event),
            everything=False,
        )
    ]


def event_lines(title: str, event: Event, wrong: Wrong | None, everything: bool) -> list[str]:
    """The lines of a decoded event, one for each column."""
    if wrong is not None:
        at = "" if wrong.position is None else f" at byte {wrong.position}"
        return [f"{title}: invalid, {wrong.code}{at}", f"  {printable(wrong.sentence)}"]
    columns = event_json(event)
    del columns["event_index"]
    width = max(map(len, columns))
    lines = [f"{title}: {columns.pop('operation')}"]
    for name, value in columns.items():
        text = bytes(value).decode() if isinstance(value, msgspec.Raw) else str(value)
        text = printable(text) if everything else shown(text, _LONGEST_COLUMN)
        lines.append(f"  {name:<{width}}  {text}")
    return lines
