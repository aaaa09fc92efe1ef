"""A value of a declared type from its text: the careful path, which defines the result.

``columns.typed_column`` gives the same for a whole column. A text that doesn't fit its type has
no value: nothing is rounded, cut or guessed. A type is a Spark SQL type in lower case:

    string, boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), date, timestamp,
    timestamp_ntz, binary, array<type>, map<string,type>

A text is a value if Spark's ``try_cast`` accepts it, in UTC and with ANSI rules, except where
that is too lenient; so a text has the same value wherever it is typed:

- White space and control characters around integers, booleans, dates and times don't count
  (``_BLANK``), those up to the space around decimals and floats, but for the digits of floats.
- Digits of decimals may be those of any script, as Java's ``BigDecimal`` has it.
- Floats are Java's: with a suffix (``1d``), in hexadecimal (``0x1p3``), infinities and NaN in
  Spark's spellings too (``inf``). A number beyond the type does not become infinity, and one that
  is too small for it does not become zero. 17 digits distinguish all doubles, 9 digits all floats:
  a number with more is another one, except for floats that are written as doubles.
- Dates and times have the shape of ISO 8601, years four digits or more and a sign if they like.
  The calendar is the Gregorian one for all years, with a year 0. A time with a zone has seconds.
"""

import math
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Final

from python_udfs.typed.images import json_elements, json_entries

Value = object
"""A value of a type: str, bool, int, float, ``Decimal`` of the type's scale, bytes, list or dict of
such; a date is its days since 1970-01-01, a time its microseconds since then: Python's own begin
with year 1 and end with 9999.
"""
Read = Callable[[str], Value | None]

_BLANK: Final = "".join(map(chr, (*range(33), 127)))
"""The characters that Spark trims: white space and control characters, bytewise, so only ASCII."""
_JAVA_BLANK: Final = "".join(map(chr, range(33)))
"""The characters that Java's ``String.trim`` trims."""
# Java's $ is before a line's end too.
_LINE_END: Final = "(?:\r\n|[\n\r\x85\u2028\u2029])?"

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_DECIMAL_TYPE: Final = re.compile(r"decimal *(?:\( *(\d+) *(?:, *(\d+) *)?\))?")
MOST_DIGITS: Final = 38
_FARTHEST_EXPONENT: Final = 1000
"""Beyond this exponent Java would write out all digits of a number."""


def typed(text: str | None, type: str) -> Value | None:
    """The value of a type in a text; None for None, and for a text that does not fit the type.

    Raises ``ValueError`` for a type that a change log's column can't have.
    """
    read = reader(type)
    return None if text is None else read(text)


def is_value(text: str | None, type: str) -> bool | None:
    """Whether a text is a value of a type; None for None."""
    return None if text is None else typed(text, type) is not None


@lru_cache(256)
def reader(type: str) -> Read:
    """``typed`` of one type's texts."""
    if read := _READERS.get(type):
        return read
    if type.startswith("decimal"):
        precision, scale = decimal_digits(type)
        return lambda text: _decimal(text, precision, scale)
    if type.startswith(ARRAY) and type.endswith(">"):
        element = reader(element_type(type))
        return lambda text: _elements(text, element)
    if type.startswith(MAP) and type.endswith(">"):
        element = reader(element_type(type))
        return lambda text: _entries(text, element)
    raise ValueError(
        f"a change log column can't have type {type!r}: use a scalar type"
        f" ({', '.join(_READERS)}, decimal(precision,scale)), array<scalar>, map<string,scalar>, or"
        " string for JSON text"
    )


ARRAY: Final = "array<"
MAP: Final = "map<string,"


def element_type(type: str) -> str:
    """The type of an array's elements or a map's values."""
    return type.removeprefix(ARRAY).removeprefix(MAP).removesuffix(">").strip()


def decimal_digits(type: str) -> tuple[int, int]:
    """Digits and scale of a decimal type. Raises ``ValueError`` for one that Spark lacks."""
    found = _DECIMAL_TYPE.fullmatch(type)
    digits = (int(found[1] or 10), int(found[2] or 0)) if found else (0, 0)
    if not 1 <= digits[0] <= MOST_DIGITS or digits[1] > digits[0]:
        raise ValueError(
            f"{type!r} is not a decimal type: write decimal(precision,scale), like decimal(12,2),"
            f" with {MOST_DIGITS} digits at most"
        )
    return digits


# --- Booleans and numbers -------------------------------------------------------------------------

_TRUE: Final = frozenset({"t", "true", "y", "yes", "1"})
_FALSE: Final = frozenset({"f", "false", "n", "no", "0"})


def _boolean(text: str) -> bool | None:
    word = text.strip(_BLANK).lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


_INTEGER: Final = re.compile("[+-]?[0-9]+")
_LONGEST_INTEGER: Final = 4000
"""Python makes no int of more than 4300 digits."""


def _integer(text: str, bits: int) -> int | None:
    digits = text.strip(_BLANK)
    if not _INTEGER.fullmatch(digits):
        return None
    if len(digits) > _LONGEST_INTEGER:
        sign = "-" if digits.startswith("-") else ""
        digits = sign + (digits.lstrip("+-0") or "0")
        if len(digits) > _LONGEST_INTEGER:
            return None
    value = int(digits)
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


_BIG_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def _decimal(text: str, precision: int, scale: int) -> Decimal | None:
    if "e" in text or "E" in text:
        lower = text.lower()
        mantissa = lower.partition("e")[0]
        exponent = _integer(lower.rpartition("e")[2], 32)
        if exponent is None or abs(exponent) >= _FARTHEST_EXPONENT:
            return None
        digits = len(mantissa.replace(".", "").rstrip("0"))
        fraction = digits - len(mantissa.partition(".")[0]) - exponent
        if fraction > scale and mantissa.strip("-.0"):
            return None
    elif "." in text and len(text.rpartition(".")[2].rstrip("0 ")) > scale:
        return None
    number = text.strip(_JAVA_BLANK)
    # Java's characters are UTF-16: digits beyond it don't count.
    if not _BIG_DECIMAL.fullmatch(number) or max(number) > "\uffff":
        return None
    return _fitting(Decimal(number), precision, scale)


def _fitting(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """A number with the scale of its type; None if it has too many digits."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) + exponent > MOST_DIGITS:
        # Including zero, if its exponent requires it.
        return None
    written = "".join(map(str, digits))
    significant = written.rstrip("0")
    if not significant:
        return Decimal((0, (0,), -scale))
    zeros = exponent + len(written) - len(significant) + scale
    if zeros < 0 or len(significant) + zeros > precision:
        return None
    return Decimal((sign, tuple(map(int, significant)) + (0,) * zeros, -scale))


_DECIMAL_FLOAT: Final = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
)
_HEXADECIMAL_FLOAT: Final = re.compile(
    r"([+-]?)0[xX](?:([0-9a-fA-F]+)\.?|([0-9a-fA-F]*)\.([0-9a-fA-F]+))"
    r"[pP]([+-]?)0*([0-9]+)[fFdD]?"
)
_JAVA_NANS: Final = frozenset({"+NaN", "-NaN"})
# Spark's own, in any case; Java's others are among them.
_NO_NUMBERS: Final = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_NOT_DIGITS: Final = str.maketrans("", "", "+-. ")
DOUBLE_DIGITS: Final = 17
FLOAT_DIGITS: Final = 9


def _double(text: str) -> float | None:
    number = text.strip(_JAVA_BLANK)
    if "n" in number or "N" in number:
        return _no_number(number)
    value = _nearest_double(number)
    if value is None or math.isinf(value) or (value == 0 and not _is_zero(number)):
        return None
    if len(text) > DOUBLE_DIGITS and _digits(text) > DOUBLE_DIGITS:
        return None
    return value


def _float(text: str) -> float | None:
    number = text.strip(_JAVA_BLANK)
    if "n" in number or "N" in number:
        return _no_number(number)
    double = _nearest_double(number)
    if double is None:
        return None
    value = _nearest_float(double, number)
    if math.isinf(value) or (_digits(text) > FLOAT_DIGITS and value != double):
        return None
    return None if value == 0 and not _is_zero(number) else value


def _no_number(number: str) -> float | None:
    return math.nan if number in _JAVA_NANS else _NO_NUMBERS.get(number.lower())


def _digits(text: str) -> int:
    """The number of digits with which a number is written."""
    return len(text.lower().partition("e")[0].translate(_NOT_DIGITS).strip("0"))


# All digits before an exponent are zeros. Also for RE2.
ZERO: Final = "[+-]?(?:0[xX][0.]*[pP].*|[0.]*(?:[eE].*|[fFdD])?)"
_is_zero: Final = re.compile(ZERO).fullmatch


def _nearest_double(number: str) -> float | None:
    if found := _DECIMAL_FLOAT.fullmatch(number):
        return float(found[1])
    exact = _hexadecimal(number)
    return float(exact) if isinstance(exact, Fraction) else exact


def _hexadecimal(number: str) -> Fraction | float | None:
    """A hexadecimal number; one that is zero or infinite for any type is returned as that. None
    for anything else.
    """
    found = _HEXADECIMAL_FLOAT.fullmatch(number)
    if found is None:
        return None
    sign, digits, whole, fraction, exponent_sign, exponent_digits = found.groups(default="")
    mantissa = int(digits + whole + fraction, 16)
    exponent = min(int(exponent_digits[:10]), 10**9) * (-1 if exponent_sign == "-" else 1)
    exponent -= 4 * len(fraction)
    unit = -1 if sign == "-" else 1
    if mantissa == 0 or mantissa.bit_length() + exponent < _LEAST_BITS:
        return unit * 0.0
    if mantissa.bit_length() + exponent > _MOST_BITS:
        return unit * math.inf
    return unit * mantissa * Fraction(2) ** exponent


_LEAST_BITS, _MOST_BITS = -1080, 1024


def _nearest_float(double: float, number: str) -> float:
    """The float nearest to a number. The one nearest to its nearest double may differ, where that
    double is in the middle between two floats.
    """
    exponent = max(math.frexp(double)[1], _LEAST_FLOAT_EXPONENT)
    if math.isinf(double):
        return double
    in_halves = math.ldexp(double, _FLOAT_BITS + 1 - exponent)
    if in_halves.is_integer() and in_halves % 2:
        found = _DECIMAL_FLOAT.fullmatch(number)
        exact = Fraction(found[1]) if found else _hexadecimal(number)
        assert isinstance(exact, Fraction)
        if exact != Fraction(double):
            double = math.nextafter(double, math.inf if exact > Fraction(double) else -math.inf)
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(double))[0])
    except OverflowError:
        return math.copysign(math.inf, double)


_FLOAT: Final = struct.Struct("<f")
_FLOAT_BITS: Final = 24
_LEAST_FLOAT_EXPONENT: Final = -125


# --- Dates and times ------------------------------------------------------------------------------

_DATE_SHAPE: Final = "([+-]?)([0-9]{4,})-([0-9]{2})-([0-9]{2})"
_TIME_SHAPE: Final = "[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.]([0-9]{0,6})0*)?)?"
_ZONE_SHAPE: Final = "(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)"
_DATE: Final = re.compile(_DATE_SHAPE + _LINE_END)
_DATE_TIME: Final = re.compile(_DATE_SHAPE + _TIME_SHAPE + _LINE_END)
_INSTANT: Final = re.compile(_DATE_SHAPE + _TIME_SHAPE + _ZONE_SHAPE + _LINE_END)
_NO_BLANK: Final = ("\x85", "\u2028", "\u2029")
"""Ends of lines that Spark doesn't trim."""
_DATE_YEAR_DIGITS: Final = 7
_TIME_YEAR_DIGITS: Final = 6
_DAYS_BEFORE: Final = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_FIRST_DAY: Final = 719_528
"""1970-01-01, in days since 0000-01-01."""
_DAY_US: Final = 86_400_000_000
_MOST_ZONE_MINUTES: Final = 18 * 60


def _date(text: str) -> int | None:
    found = _DATE.fullmatch(text)
    if found is None or text.endswith(_NO_BLANK):
        return None
    days = _days(found, _DATE_YEAR_DIGITS)
    return days if days is not None and -(1 << 31) <= days < 1 << 31 else None


def _days(found: re.Match[str], most_year_digits: int) -> int | None:
    """Days since 1970-01-01 of a date in the first groups of a match; None if it does not exist."""
    if len(found[2]) > most_year_digits:
        return None
    year, month, day = int(found[2]), int(found[3]), int(found[4])
    if found[1] == "-":
        year = -year
    if not 1 <= month <= 12 or day < 1:
        return None
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    in_month = _DAYS_BEFORE[month] - _DAYS_BEFORE[month - 1] + (is_leap and month == 2)
    if day > in_month:
        return None
    years_before = year - 1
    # A year 0 was a leap year too.
    leap_days = years_before // 4 - years_before // 100 + years_before // 400 + 1
    days = year * 365 + leap_days + _DAYS_BEFORE[month - 1] + (is_leap and month > 2)
    return days + day - 1 - _FIRST_DAY


def _microseconds(found: re.Match[str]) -> int | None:
    """Microseconds since 1970-01-01 of a date and time in the first groups of a match."""
    days = _days(found, _TIME_YEAR_DIGITS)
    hour, minute, second = int(found[5]), int(found[6]), int(found[7] or 0)
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    seconds = (hour * 60 + minute) * 60 + second
    return days * _DAY_US + seconds * 1_000_000 + int((found[8] or "").ljust(6, "0"))


def _in_range(microseconds: int | None) -> int | None:
    if microseconds is None or not -(1 << 63) <= microseconds < 1 << 63:
        return None
    return microseconds


def _timestamp_ntz(text: str) -> int | None:
    found = _DATE_TIME.fullmatch(text)
    if found is None or text.endswith(_NO_BLANK):
        return None
    return _in_range(_microseconds(found))


def _timestamp(text: str) -> int | None:
    found = _INSTANT.fullmatch(text)
    # Spark finds no zone behind minutes.
    if found is None or found[7] is None or text.endswith(_NO_BLANK):
        return None
    local = _microseconds(found)
    if local is None:
        return None
    minutes = int(found[11] or 0)
    offset = int(found[10] or 0) * 60 + minutes
    if minutes > 59 or offset > _MOST_ZONE_MINUTES:
        return None
    return _in_range(local - (-offset if found[9] == "-" else offset) * 60_000_000)


# --- Binary and collections -----------------------------------------------------------------------

_BASE64: Final = re.compile("([A-Za-z0-9+/]*)(?:(={1,2})|(?:\r\n|[\n\r\u2028\u2029])?)")
"""Ends with padding; without any, a line end may follow."""


def _binary(text: str) -> bytes | None:
    found = _BASE64.fullmatch(text)
    if found is None:
        return None
    digits, padding = found.groups(default="")
    # Padding may be missing, but not half of it.
    if len(digits) % 4 == 1 or (padding and (len(digits) + len(padding)) % 4):
        return None
    return b64decode(digits + "=" * (-len(digits) % 4))


def _elements(text: str, read: Read) -> list[Value | None] | None:
    elements = json_elements(text)
    if elements is None:
        return None
    values = [None if each is None else read(each) for each in elements]
    return values if _all_fit(elements, values) else None


def _entries(text: str, read: Read) -> dict[str, Value | None] | None:
    entries = json_entries(text)
    if entries is None:
        return None
    values = [None if each is None else read(each) for each in entries.values()]
    if not _all_fit(entries.values(), values):
        return None
    return dict(zip(entries, values, strict=True))


def _all_fit(texts: Iterable[str | None], values: Iterable[Value | None]) -> bool:
    return all(text is None or value is not None for text, value in zip(texts, values, strict=True))


_READERS: Final[dict[str, Read]] = {
    "string": lambda text: text,
    "boolean": _boolean,
    **{name: partial(_integer, bits=bits) for name, bits in INTEGER_BITS.items()},
    "float": _float,
    "double": _double,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp_ntz,
    "binary": _binary,
}
SCALARS: Final = frozenset(_READERS)
"""The names of the types without parts; decimals also have digits."""
