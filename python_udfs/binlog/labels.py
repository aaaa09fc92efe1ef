"""The labels of MySQL's ENUM and SET, which Canal ships as indexes.

MySQL's log has the index of an ENUM's label, from 1 on, and a bit for each label of a SET. Canal
and TiCDC pass those on unchanged (``sqlType`` 4 and -7), together with the list of labels:

    {"state": "2", "tags": "5"}     with mysqlType    {"state": "enum('new','done')",
    {"state": "done", "tags": "a,c"}                   "tags": "set('a','b','c')"}

In the list a quote in a label is doubled, and invisible characters are escaped with a backslash.
Sources: LogEventConvert and RowsLogBuffer of Canal; ``content-compatible`` of TiCDC, without which
it has no list; "The ENUM Type" and "The SET Type" of MySQL's manual.

- Index 0 is the empty label, MySQL's mark of an invalid value. A SET without labels is empty too.
- Text other than digits is a label. Digits are an index if ``sqlType`` says so; else a label if
  there is such a label, otherwise an index.
- Without a list a value stays as it is. Digits beyond the list stay too, and are noted.
"""

import re
from typing import Any, Final, NamedTuple

from python_udfs.core.recent import Recent

_LABELLED: Final = re.compile(r"\s*(?:enum|set)\b", re.IGNORECASE | re.ASCII)
_LABEL: Final = re.compile(
    r"""\s*(?:'((?:[^'\\]|''|\\.)*+)'|"((?:[^"\\]|""|\\.)*+)")\s*""", re.DOTALL
)
_ESCAPED: Final = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "Z": "\x1a"}
_PLACE: Final = re.compile(r"0|[1-9][0-9]{0,19}", re.ASCII)
# sqlType of values that are places: INTEGER of an ENUM; BIT of a SET, and Canal's value for null
# there.
_OF_ENUM: Final = frozenset({4})
_OF_SET: Final = frozenset({-7, -2, -3, -4, 2004})
_MOST_OF_SET: Final = 64
# The labels of a longer type are not read. Their texts take this many times its bytes.
_LONGEST_LIST: Final = 64 * 1024
_LABEL_BYTES: Final = 40


class Labels(NamedTuple):
    """The known facts about the values of an ENUM or a SET."""

    texts: tuple[str, ...]
    """Empty if they are not listed."""
    known: frozenset[str]
    is_set: bool
    are_places: bool
    """Whether values that are digits are places, by ``sqlType``."""

    def text(self, value: str) -> str | None:
        """The label of a value, or the labels of a SET; None for digits without a place."""
        if not self.texts or not _PLACE.fullmatch(value):
            return value
        if value in self.known and not self.are_places:
            return value
        place = int(value)
        if not self.is_set and place <= len(self.texts):
            return self.texts[place - 1] if place else ""
        if self.is_set and place >> len(self.texts) == 0:
            return ",".join(text for bit, text in enumerate(self.texts) if place >> bit & 1)
        return value if value in self.known else None

    @property
    def may_be_places(self) -> bool:
        """Whether a label could be mistaken for a place."""
        most = 2 ** len(self.texts) - 1 if self.is_set else len(self.texts)
        return any(_PLACE.fullmatch(text) and int(text) <= most for text in self.texts)


_lists: Final[Recent[str, tuple[tuple[str, ...], frozenset[str]]]] = Recent(256, 16 * 1024 * 1024)


def has_labels(mysql_type: str) -> bool:
    """Whether one of MySQL's types is ENUM or SET."""
    return _LABELLED.match(mysql_type) is not None


def labels_of(mysql_type: str, sql_type: Any) -> Labels:
    """The labels of an ENUM or SET column, from both of its types."""
    is_set = mysql_type.lstrip()[:1] in "sS"
    listed = _lists.get(mysql_type)
    if listed is None:
        texts = _list(mysql_type) if len(mysql_type) <= _LONGEST_LIST else ()
        if is_set and len(texts) > _MOST_OF_SET:
            texts = ()
        listed = texts, frozenset(texts)
        _lists.add(mysql_type, listed, _LABEL_BYTES * len(mysql_type))
    of_places = _OF_SET if is_set else _OF_ENUM
    return Labels(*listed, is_set, type(sql_type) is int and sql_type in of_places)


def _list(mysql_type: str) -> tuple[str, ...]:
    """The labels in a type; empty if it has no list."""
    texts: list[str] = []
    end = mysql_type.find("(")
    while end >= 0 and (found := _LABEL.match(mysql_type, end + 1)):
        texts.append(_ESCAPED.sub(_unescaped, found[1] if found[2] is None else found[2]))
        end = found.end()
        if mysql_type[end : end + 1] == ")":
            return tuple(texts)
        if mysql_type[end : end + 1] != ",":
            break
    return ()


def _unescaped(escape: re.Match[str]) -> str:
    if escape[1] is None:
        return escape[0][0]
    return _ESCAPES.get(escape[1], escape[1])
