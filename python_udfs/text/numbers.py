"""Numbers in keys: a unique text for each number, however it was written.

A source may ship a number in a key with a different scale each time (Oracle's ``NUMBER``: 10 in a
snapshot, 1E+1 from the log), and it is still the same key. In record keys and in the key columns of
change logs a number has the text that ``canonical_number`` gives; in all other columns, and inside
objects and arrays, it stays as it was sent.
"""

import re
from typing import Any, Final

from msgspec import Raw

_MOST_ZEROS: Final = 400
"""A number with more trailing zeros is written with an exponent: no database has one, and no
double is so large.
"""
_MOST_ZEROS_BEFORE: Final = 38
"""So is a number with more leading zeros after the point: Spark's decimals have this many
digits.
"""


def canonical_number(text: str) -> str:
    """The text of a JSON number: ``10`` of ``1E+1`` and ``10.0``, ``2.5`` of ``2.50``, ``0`` of
    ``-0.0``.
    """
    mantissa, _, exponent = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    written = (whole + fraction).lstrip("0")
    digits = written.rstrip("0")
    if not digits:
        return "0"
    if len(exponent) > _LONGEST_EXPONENT:
        # Too many digits for an int, and for any real number: it stays as it is.
        return text
    scale = len(fraction) - int(exponent or 0) - (len(written) - len(digits))
    if -_MOST_ZEROS <= scale <= 0:
        return sign + digits + "0" * -scale
    if 0 < scale <= len(digits) + _MOST_ZEROS_BEFORE:
        digits = digits.zfill(scale + 1)
        return f"{sign}{digits[:-scale]}.{digits[-scale:]}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}E{len(digits) - 1 - scale:+d}"


_LONGEST_EXPONENT: Final = 4000
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)


def is_canonical_number(text: str) -> bool:
    """Whether a text is the result of ``canonical_number`` for some number."""
    return _NUMBER.fullmatch(text) is not None and canonical_number(text) == text


def plain_number(value: Any) -> Any:
    """A JSON value; a number is in the form of ``canonical_number``. A number with a fraction, an
    exponent or very many digits is ``Raw``.
    """
    if type(value) is Raw:
        return Raw(canonical_number(bytes(value).decode()).encode())
    return value


def plain_numbers(columns: dict[str, Any]) -> dict[str, Any]:
    """The columns of a key, each number in its unique form."""
    return {name: plain_number(value) for name, value in columns.items()}
