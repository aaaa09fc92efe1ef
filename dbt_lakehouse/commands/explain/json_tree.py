"""JSON text as a tree, up to the byte at which the decoders' scanner fails."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dbt_lakehouse.commands.explain.nodes import ELIDED, Limits, Node, Tree
from python_udfs.aerospike.batches import Batch
from python_udfs.core.errors import NotJson, TrailingBytes, Truncated
from python_udfs.text import json_text

_TOKEN: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{},:]|[^\s\[\]{},:"]++', re.DOTALL
)
_KINDS: Final = {
    b"{": "object",
    b"[": "array",
    b"true": "boolean",
    b"false": "boolean",
    b"null": "null",
}
# Faults after which nothing can be read. With others, the brackets still match.
_ENDS: Final = (NotJson, TrailingBytes, Truncated)
UNKNOWN: Final = "unknown"
"""The kind of a node that is not JSON."""
_QUOTE: Final = ord('"')
# A longer number is shown by its beginning.
_LONGEST_VALUE: Final = 1_000


def tree_of(
    text: bytes, limits: Limits, wanted: Collection[int] = (), *, trailing_commas: bool = False
) -> Tree:
    """The tree of a JSON text. The elements at the places ``wanted`` of the outer array are not
    elided.
    """
    if text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    rest = _fault(text, trailing_commas)
    builder = _Builder(text, limits, wanted)
    if rest is not None:
        builder.keep_open_at(rest)
    root = builder.value(0, len(text) if rest is None else rest)
    if rest is None and text.strip():
        # The first fault need not end reading, and a later one may.
        end = root.end if root else 0
        behind = len(text) - len(text[end:].lstrip())
        rest = behind if behind < len(text) else None
    return Tree(len(text), root, rest)


def _fault(text: bytes, trailing_commas: bool) -> int | None:
    fault = json_text.fault(text, trailing_commas=trailing_commas)
    return fault.position if fault and isinstance(fault.error, _ENDS) else None


def tree_of_batch(text: bytes, batch: Batch, limits: Limits, wanted: Collection[int] = ()) -> Tree:
    """``tree_of`` for a batch that can't be parsed as a whole: each element is read separately."""
    if text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    builder = _Builder(text, limits)
    rest = None if batch.rest is None else _rest_of_batch(text, batch, batch.rest)
    end = len(text.rstrip()) if rest is None else rest
    if batch.whole and batch.rest is not None:
        end = batch.rest + 1
    root = Node(len(text) - len(text.lstrip()), end, "array", size=batch.size)
    for index, (start, end) in enumerate(batch.spans()):
        if index in wanted:
            builder.begin_anew()
        elif builder.is_full(root, 1):
            elide(root, start, end)
            continue
        element = text[start:end]
        fault = _fault(element, True)
        node = builder.value(start, end if fault is None else start + fault)
        node = node or Node(start, end, UNKNOWN)
        if node.end < end:
            node.children.append(Node(node.end, end, UNKNOWN))
            node.end = end
        node.step = index
        root.children.append(node)
    if rest is not None and batch.rest is not None and not batch.whole:
        broken = builder.value(batch.rest, rest)
        if broken is not None:
            broken.step = len(batch.starts)
            root.children.append(broken)
    return Tree(len(text), root, rest)


def _rest_of_batch(text: bytes, batch: Batch, position: int) -> int:
    """Where reading ends in the text behind the last complete element of a batch."""
    # As the decoder does, which puts an element in place of the text read so far.
    before = b"[".ljust(position - len(batch.stand_in)) + batch.stand_in
    fault = json_text.fault(before + text[position:], trailing_commas=True)
    return fault.position if fault and isinstance(fault.error, _ENDS) else len(text)


@dataclass(slots=True)
class _Open:
    """An array or object that has not ended yet."""

    node: Node
    name: str | None = None
    """The name of the next value in an object."""

    @property
    def last(self) -> Node | None:
        """The elided part, if it is the newest."""
        newest = self.node.children[-1] if self.node.children else None
        return newest if newest is not None and newest.kind == ELIDED else None


def elide(node: Node, start: int, end: int) -> None:
    """Count a part without a node."""
    if not node.children or node.children[-1].kind != ELIDED:
        node.children.append(Node(start, end, ELIDED))
    elided = node.children[-1]
    elided.size += 1
    elided.end = end


class _Builder:
    """Without recursion: no nesting can exhaust the stack. It assumes JSON."""

    def __init__(self, text: bytes, limits: Limits, wanted: Collection[int] = ()) -> None:
        self._text = text
        self._limits = limits
        self._wanted = wanted
        self._nodes = 0
        self._kept: set[int] = set()

    def begin_anew(self) -> None:
        """Allow as many nodes for the next value as for the first."""
        self._nodes = 0

    def keep_open_at(self, end: int) -> None:
        """Never elide a container that is open at ``end``: it is where the fault is."""
        started: list[int] = []
        for match in _TOKEN.finditer(self._text, 0, end):
            first = match[0][0]
            if first in b"[{":
                started.append(match.start())
            elif first in b"]}" and started:
                started.pop()
        self._kept.update(started)

    def is_full(self, node: Node, depth: int) -> bool:
        """Whether a node gets no more parts."""
        limits = self._limits
        return (
            depth >= limits.depth
            or len(node.children) >= (limits.names if node.kind == "object" else limits.children)
            or self._nodes >= limits.nodes
        )

    def value(self, start: int, end: int) -> Node | None:
        """The value that begins there; it ends where it is complete, or at ``end``."""
        root: Node | None = None
        stack: list[_Open] = []
        passed = 0  # levels below the innermost node
        for match in _TOKEN.finditer(self._text, start, end):
            token, at = match[0], match.start()
            first = token[0]
            top = stack[-1] if stack else None
            if first in b"]}":
                if passed:
                    passed -= 1
                    if not passed and top is not None and top.last is not None:
                        top.last.end = match.end()
                elif top is not None:
                    stack.pop()
                    top.node.end = match.end()
                if not stack:
                    break
                continue
            if first in b",:":
                continue
            if passed:
                passed += first in b"[{"
                continue
            if top is not None and top.node.kind == "object" and top.name is None:
                top.name = _string(token)
                continue
            if top is not None and self._is_elided(top, len(stack), at):
                elide(top.node, at, match.end())
                top.name = None
                top.node.size += 1
                passed = int(first in b"[{")
                continue
            node = self._node(token, at, match.end())
            if top is None:
                root = node
            else:
                node.step = top.node.size if top.name is None else top.name
                top.name = None
                top.node.size += 1
                top.node.children.append(node)
            if first in b"[{":
                stack.append(_Open(node))
            elif top is None:
                break
        for each in stack:
            # Truncated: everything left belongs to it.
            each.node.end = end
            if each.last is not None:
                each.last.end = end
        return root

    def _is_elided(self, top: _Open, depth: int, at: int) -> bool:
        if depth == 1 and top.node.kind == "array" and top.node.size in self._wanted:
            self.begin_anew()
            return False
        if not self.is_full(top.node, depth):
            return False
        return at not in self._kept or depth >= self._limits.depth

    def _node(self, token: bytes, start: int, end: int) -> Node:
        self._nodes += 1
        kind = _KINDS.get(token, UNKNOWN)
        value: Any = None
        if token[0] == _QUOTE:
            kind, value = "string", _string(token)
        elif kind not in ("object", "array", "null"):
            # As written: its digits may matter.
            value = token[:_LONGEST_VALUE].decode(errors="replace")
            if token[0] in b"-0123456789":
                kind = "number"
        return Node(start, end, kind, value=value)


def _string(token: bytes) -> str:
    """The text of a JSON string, even if it is truncated, or ends in half a character."""
    try:
        text: str = msgspec.json.decode(token, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = token[1:].removesuffix(b'"').decode(errors="replace")
    return text
