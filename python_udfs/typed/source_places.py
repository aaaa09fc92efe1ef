"""The place of an event in its source's own order, as a text that compares as the places do:
PostgreSQL's LSN, MySQL's position in the binlog, a version in the row.

A place has one part or more, each a number, an LSN or nothing, with spaces between them. Of two
places the first part that differs decides; nothing comes before all else. Texts compare
bytewise, and a number is

    p, its count of digits, its digits          12 is p0212, 9 is p019
    n, both as what they lack to nines, ~       -12 is n9787~, -9 is n980~

with a point and the digits behind it where it has any. So a number of more digits is greater, and
one below zero smaller.

    part        what the source says
    number      an integer or a decimal number, as such or as text
    file        a name that ends in a number (mysql-bin.000003, a GTID): that number
    commit      a number: the last commit, or the event's own, in front of its place
    sequence    Debezium's pair of LSNs, of the last commit and the event: ["24023119","24023128"]
    lsn         SQL Server's LSN in hexadecimal: 00000027:00000ac0:0002

A snapshot's row has only the place of the last commit; without one, the place where it was read.
It does not show uncommitted writes of transactions up to then, so it comes before them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

import msgspec

_NUMBER: Final = re.compile(r"(-?)0*([0-9]{1,99})(?:\.([0-9]+))?")
_FILE: Final = re.compile(r".*?([0-9]{1,99})", re.DOTALL)
_LSN: Final = re.compile("[0-9a-f]{8}:[0-9a-f]{8}:[0-9a-f]{4}")
_NINES: Final = str.maketrans("0123456789", "9876543210")
_decode_pair = msgspec.json.Decoder(tuple[int | str | None, int | str]).decode

NUMBER: Final = "number"
"""The form of a column's values."""
COMMIT, SEQUENCE = "commit", "sequence"


def number(text: str) -> str | None:
    """The text of a number; None for any other text, or a number of more than 99 digits."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    sign, digits, rest = found[1], found[2].lstrip("0") or "0", (found[3] or "").rstrip("0")
    point = f".{rest}" if rest else ""
    if sign and (digits, rest) != ("0", ""):
        return f"n{99 - len(digits):02}{(digits + point).translate(_NINES)}~"
    return f"p{len(digits):02}{digits}{point}"


def _file(text: str) -> str | None:
    found = _FILE.fullmatch(text)
    return None if found is None else number(found[1])


def _lsn(text: str) -> str | None:
    return text.lower() if _LSN.fullmatch(text.lower()) else None


_FORMS: Final[Mapping[str, Callable[[str], str | None]]] = {
    NUMBER: number,
    COMMIT: number,
    "file": _file,
    "lsn": _lsn,
}


def source_place(forms: Sequence[str], said: Sequence[object], *, is_read: bool) -> str | None:
    """The place of an event from its parts, texts or values of columns. None if the first part is
    missing or has another form: then the place is unknown; a missing later part comes first.
    ``is_read``: whether the event is a snapshot's row.
    """
    if forms[0] == SEQUENCE:
        forms, said = [COMMIT, NUMBER, *forms[1:]], [*_pair(said[0]), *said[1:]]
    parts = [
        None if value is None else _FORMS[form](_text(value))
        for form, value in zip(forms, said, strict=True)
    ]
    if is_read and forms[0] == COMMIT:
        return next((part for part in parts if part is not None), None)
    if parts[0] is None:
        return None
    return " ".join(part or "" for part in parts)


def _pair(text: object) -> tuple[object, object]:
    try:
        return _decode_pair(str(text))
    except msgspec.DecodeError:
        return None, None


def _text(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)
