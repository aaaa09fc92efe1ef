"""Read, write and partly change YAML files.

``ruamel.yaml`` keeps comments, quotes and order. It does not keep all spacing, nor how null is
written. So the difference that a change makes to its rendering of a file is applied to the file's
own lines, and every line outside of the change stays as it is.
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
# The indentation of mappings and of the items of sequences, and the place of the dash: ours
# first.
_INDENTS: Final = ((2, 4, 2), (2, 2, 0), (4, 4, 2), (4, 4, 0), (4, 6, 4))


class _Resolver(VersionedResolver):
    """YAML 1.1's resolver, as dbt reads it: there `yes` and `on` are not texts."""

    @property
    def processing_version(self) -> Any:
        return (1, 1)


def loaded(text: str) -> Any:
    """The content of a YAML text, as plain Python values. Raises ``YAMLError``."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Resolver = _Resolver
    return yaml.load(text)


def scalar(text: str) -> str:
    """A text as a document writes it: in double quotes if it needs quotes."""
    return DoubleQuotedScalarString(text) if dumped([text])[4:5] in "'\"" else text


def dumped(document: Any) -> str:
    """A YAML text in the project's style."""
    return _dumped(_round_trip(_INDENTS[0]), document)


def changed(text: str, change: Callable[[Any], None]) -> str:
    """The text of a document after a change.

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
    """The styles that the text may have."""
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
    """The number of lines that two texts have in common."""
    differences = _differences(text.splitlines(), rendering.splitlines())
    return sum(end - start for tag, start, end, _, _ in differences if tag == "equal")


def _carried_over(own: list[str], before: list[str], after: list[str]) -> str | None:
    """The own lines with the difference between two renderings of them applied; None if its place
    is not clear.
    """
    # Maps each line of the first rendering to that of the file; after it come the file's own
    # lines.
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
    """Insert new items after an item of a list, -1 for before all.

    ruamel attaches blank lines and comments to the item before them: those on the lines after the
    item move behind the new ones.
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
    """Remove and return what is on the lines after an item."""
    holder, key, slot = _end(items, index)
    tokens = holder.ca.items.get(key)
    token = tokens[slot] if tokens else None
    if token is None:
        return ""
    on_line, _, rest = token.value.partition("\n")
    if isinstance(holder[key], FoldedScalarString):
        # Its own line end is part of the token.
        on_line, rest = "", token.value
    if on_line:
        token.value = f"{on_line}\n"
    else:
        tokens[slot] = None
    return str(rest)


def _end(items: CommentedSeq, index: int) -> tuple[Any, Any, int]:
    """Where ruamel keeps the text after an item: the map or list with its last value, that
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
