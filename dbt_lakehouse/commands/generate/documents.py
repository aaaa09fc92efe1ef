"""YAML files: read, written, and changed where only a part of them is to be another.

``ruamel.yaml`` keeps comments, quotes and order. It does not keep all spacing, nor how null is
written; so what a change does to its rendering of a file is carried over to the file's own lines,
and every line that the change is not about stays as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.emitter import Emitter
from ruamel.yaml.error import CommentMark, YAMLError
from ruamel.yaml.resolver import VersionedResolver
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, FoldedScalarString
from ruamel.yaml.tokens import CommentToken

__all__ = [
    "CommentedMap",
    "CommentedSeq",
    "YAMLError",
    "changed",
    "dumped",
    "insert",
    "loaded",
    "scalar",
]

_NEVER: Final = 1_000_000
# How far mappings and the items of sequences are indented, and where the dash stands: ours first.
_INDENTS: Final = ((2, 4, 2), (2, 2, 0), (4, 4, 2), (4, 4, 0), (4, 6, 4))


class _Resolver(VersionedResolver):
    """Of YAML 1.1, as dbt reads it: there `yes` and `on` are no texts."""

    @property
    def processing_version(self) -> Any:
        return (1, 1)


def loaded(text: str) -> Any:
    """What a YAML text says, as plain Python values. Raises ``YAMLError``."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _Resolver
    return yaml.load(text)


def scalar(text: str) -> str:
    """A text as it is written in a document: in double quotes if it needs any."""
    return DoubleQuotedScalarString(text) if dumped([text])[4:5] in "'\"" else text


def dumped(document: Any) -> str:
    """A YAML text in the project's style."""
    return _dumped(_round_trip(_INDENTS[0]), document)


def changed(text: str, change: Callable[[Any], None]) -> str:
    """The text after a change to the document that it is.

    ``change`` gets ruamel's maps and sequences, and alters them in place.
    """
    before, yaml = max(
        ((_dumped(yaml, yaml.load(text)), yaml) for yaml in _fitting(text)),
        key=lambda rendering: _common(text, rendering[0]),
    )
    document = yaml.load(text)
    change(document)
    after = _dumped(yaml, document)
    merged = _carried_over(text.splitlines(True), before.splitlines(True), after.splitlines(True))
    if merged is not None and _says(merged) == loaded(after):
        return merged
    return after


def _says(text: str) -> Any:
    try:
        return loaded(text)
    except YAMLError:
        return None


class _SpacedEmitter(Emitter):
    """Writes `{ a: b }`, for files that do."""

    def write_indicator(
        self,
        indicator: Any,
        need_whitespace: Any,
        whitespace: bool = False,
        indention: bool = False,
    ) -> None:
        if indicator.endswith("{"):
            indicator += " "
        elif indicator == "}":
            indicator = " }"
        super().write_indicator(indicator, need_whitespace, whitespace, indention)


def _round_trip(indents: tuple[int, int, int]) -> YAML:
    yaml = YAML()
    yaml.Resolver = _Resolver
    yaml.preserve_quotes = True
    yaml.width = _NEVER
    mapping, sequence, offset = indents
    yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
    return yaml


def _fitting(text: str) -> list[YAML]:
    """Ways of writing, one of which may be the text's."""
    ways = [_round_trip(indents) for indents in _INDENTS]
    if "{ " in text:
        for yaml in ways:
            yaml.Emitter = _SpacedEmitter
    return ways


def _dumped(yaml: YAML, document: Any) -> str:
    stream = StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


def _common(text: str, rendering: str) -> int:
    """How many lines two texts have in common."""
    differences = _differences(text.splitlines(), rendering.splitlines())
    return sum(end - start for tag, start, end, _, _ in differences if tag == "equal")


def _carried_over(own: list[str], before: list[str], after: list[str]) -> str | None:
    """The own lines with what is different between two renderings of them; None if it is not clear
    where that belongs.
    """
    # To each line of the first rendering, that of the file; behind what only the file has.
    place: dict[int, int] = {}
    for _, start, end, own_start, own_end in _differences(before, own):
        if end - start == own_end - own_start:
            place |= {start + index: own_start + index for index in range(end - start + 1)}
        else:
            place |= {start: own_start, end: own_end}
    place[0], place[len(before)] = 0, len(own)
    lines: list[str] = []
    for tag, start, end, after_start, after_end in _differences(before, after):
        if tag != "equal":
            lines += after[after_start:after_end]
        elif start in place and end in place:
            lines += own[place[start] : place[end]]
        else:
            return None
    return "".join(lines)


def _differences(one: list[str], other: list[str]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, one, other, autojunk=False).get_opcodes()


# --- Items of a list ------------------------------------------------------------------------------


def insert(items: CommentedSeq, behind: int, new: Sequence[Mapping[str, Any]]) -> None:
    """Put new items behind one of a list, -1 for in front of all.

    To ruamel, blank lines and comments belong to what stands before them: those on the lines
    behind the item then stand behind the new ones.
    """
    rest = _take_rest(items, behind) if behind >= 0 else ""
    for number, item in enumerate(new, behind + 1):
        items.insert(number, item)
    if rest:
        last = behind + len(new)
        holder, key, slot = _end(items, last)
        holder.ca.items[key] = [None, None, None, None]
        holder.ca.items[key][slot] = CommentToken(f"\n{rest}", CommentMark(0))


def _take_rest(items: CommentedSeq, index: int) -> str:
    """Cut off what stands on the lines behind an item."""
    holder, key, slot = _end(items, index)
    tokens = holder.ca.items.get(key)
    token = tokens[slot] if tokens else None
    if token is None:
        return ""
    on_line, _, rest = token.value.partition("\n")
    if isinstance(holder[key], FoldedScalarString):
        # Its own end of line is part of it.
        on_line, rest = "", token.value
    if on_line:
        token.value = f"{on_line}\n"
    else:
        tokens[slot] = None
    return str(rest)


def _end(items: CommentedSeq, index: int) -> tuple[Any, Any, int]:
    """Where ruamel keeps what stands behind an item: the map or list with its last value, that
    value's key, and the slot.
    """
    holder: Any = items
    key: Any = index
    while True:
        value = holder[key]
        is_block = isinstance(value, CommentedMap | CommentedSeq) and not value.fa.flow_style()
        if not is_block or not value:
            return holder, key, 2 if isinstance(holder, CommentedMap) else 0
        holder, key = value, list(value)[-1] if isinstance(value, CommentedMap) else len(value) - 1
