"""Converters of Kafka Connect's and Debezium's values without parts: a column's single value.

A converter takes the value as JSON shipped it, never null, and returns what the row image holds;
``msgspec.Raw`` stands for a JSON number whose digits matter. It raises ``Misfit`` for a value that
doesn't fit, and ``AsSent`` with a converted one that has less information than the text as sent.
``types`` lists the types and finds each one's converter.

Sources: the "Data type mappings" of Debezium's connector pages; for the encodings of infinity,
PostgresValueConverter in Debezium's PostgreSQL connector and PGStatement in PostgreSQL's driver.

Policies:

- Years beyond 9999 and before 0000 have a sign, as in ISO 8601 and Java: ``+12345-01-01``.
- PostgreSQL's infinity is ``infinity`` and ``-infinity``, also where Debezium ships it as a number
  (PGStatement's 9223372036825200000, a long's largest, a date's overflow).
- Times may be negative or longer than a day (MySQL): ``-838:59:59.000000``.
- A Decimal with negative scale is ``15E+2``: plain digits would claim a precision it lacks.
- A double is accepted for an integer if it is whole (MicroDuration was once a double, which Jackson
  writes as ``1500000.0`` and ``9.3E10``). A fraction of a unit has no documented meaning: a misfit.
- A number beyond the range of its float32 or float64 (``1e400``) is a misfit.
- Dates and times as text must exist: months, days of the month and leap years of the proleptic
  Gregorian calendar, hours to 23, minutes and seconds to 59, offsets to 18 hours as in Java. A
  second 60 is a misfit, because all source databases store the next minute's first. 24:00:00 is a
  time of day (PostgreSQL's ``time``), with nothing behind it, and no part of a date-time.
- Years as text have four digits; with a sign, four to nine.
- MySQL's BIGINT UNSIGNED in a Java long (``bigint.unsigned.handling.mode=long``) is the column's 64
  bits: a negative one is 2^64 too small, and what it stands for is a number up to 2^64 - 1.
"""

import base64
import binascii
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import lru_cache, partial
from typing import Any, Final

from msgspec import Raw

_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1
INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
# The largest magnitude that rounds to a float32, and a double's.
_FLOAT32: Final = (2 - 2**-24) * 2.0**127
FLOATS: Final = {
    "float32": _FLOAT32,
    "float": _FLOAT32,
    "float64": sys.float_info.max,
    "double": sys.float_info.max,
}
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INFINITE_TIMES: Final = frozenset({"infinity", "-infinity"})

INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]{1,19}")
_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", re.ASCII
)
_NUMBER_TEXT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DATE: Final = r"((?:[0-9]{4}|[+-][0-9]{4,9})-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01]))"
SECOND: Final = r"[0-5][0-9](?:\.[0-9]{1,9})?"
OF_DAY: Final = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_OFFSET: Final = r"(?:Z|([+-])([0-9]{2})(?::?([0-5][0-9])(?::?([0-5][0-9]))?)?)"
_DATE_TEXT: Final = re.compile(_DATE)
# MySQL's are negative, and longer than a day.
_TIME_TEXT: Final = re.compile(rf"-?[0-9]{{2,9}}:[0-5][0-9]:{SECOND}")
_LOCAL_TEXT: Final = re.compile(rf"{_DATE}T{OF_DAY}:{SECOND}")
_ZONED_TEXT: Final = re.compile(rf"{_DATE}T({OF_DAY})(?::([0-5][0-9])(\.[0-9]{{1,9}})?)?{_OFFSET}")
# The usual form: no part of it has to be checked again.
_UTC_TEXT: Final = re.compile(rf"{_DATE}T{OF_DAY}:{SECOND}Z")
_ZONED_TIME_TEXT: Final = re.compile(
    rf"(?:{OF_DAY}(?::{SECOND})?|24:00(?::00(?:\.0{{1,9}})?)?){_OFFSET}"
)
_LONGEST_OFFSET: Final = 18 * 3600
_DURATION_TEXT: Final = re.compile(
    r"[+-]?P(?=[-+0-9T])(?:[+-]?[0-9]{1,19}[YMWD])*+"
    r"(?:T(?:[+-]?[0-9]{1,19}(?:\.[0-9]{1,9})?[HMS])++)?"
)

# PGStatement.DATE_POSITIVE_INFINITY and DATE_NEGATIVE_INFINITY; Debezium takes them for
# milliseconds or for microseconds, by version and by the way of the value.
_PG_INFINITY: Final = 9223372036825200000
_PG_MINUS_INFINITY: Final = -9223372036832400000
_INFINITE_MICROS: Final = {
    _PG_INFINITY: "infinity",
    _PG_MINUS_INFINITY: "-infinity",
    _MAX_LONG: "infinity",
    _MIN_LONG: "-infinity",
}
_INFINITE_MILLIS: Final = _INFINITE_MICROS | {
    _PG_INFINITY // 1000: "infinity",
    _PG_MINUS_INFINITY // 1000: "-infinity",
}
# In nanoseconds PGStatement's numbers are days of the years 2262 and 1677.
_INFINITE_NANOS: Final = {_MAX_LONG: "infinity", _MIN_LONG: "-infinity"}
_INFINITE_DAYS: Final = {
    2**31 - 1: "infinity",
    -(2**31): "-infinity",
    # PostgresValueConverter's infinite LocalDates: +5877611-06-21, in older versions
    # -5877611-06-21 (the sign was lost in an overflow), and -5877611-06-22.
    2146033979: "infinity",
    -2147472692: "infinity",
    -2147472691: "-infinity",
}
_INFINITE_ISO_TIMESTAMPS: Final = {
    "+294247-01-10T04:00:25.2Z": "infinity",
    "+294247-01-10T04:00:25.200Z": "infinity",
    "+294247-01-10T04:00:54.775807Z": "infinity",
    "-290308-12-21T19:59:27.6Z": "-infinity",
    "-290308-12-21T19:59:27.600Z": "-infinity",
    "-290308-12-21T19:59:05.224192Z": "-infinity",
}

# PostgreSQL's numeric has at most 131,072 digits before the point and 16,383 behind it.
_MAX_DECIMAL_BYTES: Final = 65_536
_MAX_DECIMAL_DIGITS: Final = 150_000
# Up to this many bits Decimal(int) is fast; all digits of a product are kept.
_FEW_BITS: Final = 1024
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)
# With more leading or trailing zeros a number is written with an exponent.
_MAX_ZEROS: Final = 16_384


class Misfit(Exception):
    """A value that doesn't fit its declared type. ``Schema`` catches it and keeps the value."""


class AsSent(Exception):
    """A value whose text form lacks something that the text as sent had."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


# A converter of a value without parts: value -> converted, or Misfit. Never called with None.
Leaf = Callable[[Any], Any]


# --- Numbers --------------------------------------------------------------------------------------


def misfit(value: Any) -> Any:
    """A converter for values that can't be known: always raises ``Misfit``."""
    raise Misfit


def whole(value: Any) -> int:
    """An integer, also as text (Arcion) or as a double (``7.0``, ``1.5E10``); else ``Misfit``."""
    if type(value) is int:
        return int(value)
    if type(value) is Raw:
        value = _rescaled(bytes(value).decode(), 0)
    if type(value) is str and INTEGER_TEXT.fullmatch(value):
        return int(value)
    raise Misfit


def integer(low: int, high: int, value: Any) -> int:
    """An integer from ``low`` to ``high``, both included."""
    number: int = value if type(value) is int else whole(value)
    if low <= number <= high:
        return number
    raise Misfit


def unsigned(value: Any) -> int:
    """An unsigned integer of 64 bits, shipped as those bits: ``-1`` is 2^64 - 1."""
    number = value if type(value) is int else whole(value)
    if _MIN_LONG <= number < 2**64:
        return number % 2**64
    raise Misfit


def floating(largest: float, value: Any) -> Any:
    """A number with all its digits, or the text of NaN and the infinities."""
    if type(value) is str and _NUMBER_TEXT.fullmatch(value):
        value = Raw(value)
    if type(value) is Raw:
        if -largest <= float(bytes(value)) <= largest:
            return value
    elif type(value) is int:
        if -largest <= value <= largest:
            return value
    elif type(value) is str and value in _NOT_FINITE:
        return value
    raise Misfit


def boolean(value: Any) -> bool:
    """True or false, also as text in any case."""
    if type(value) is bool:
        return value
    if type(value) is str:
        lower = value.lower()
        if lower == "true" or lower == "false":
            return lower == "true"
    raise Misfit


def binary(value: Any) -> str:
    """Base64 as it was sent."""
    if type(value) is str and _BASE64.fullmatch(value):
        return value
    raise Misfit


def string(value: Any) -> str:
    """Text as it was sent."""
    if type(value) is str:
        return value
    raise Misfit


def label(listed: Mapping[str, str], value: Any) -> str:
    """A label of an ENUM, unescaped if its list has it in another form."""
    text = string(value)
    return listed.get(text, text)


def decimal(scale: int, text_values: bool, value: Any) -> Any:
    """A Decimal of a known scale, shipped as base64, as a number or as the text of one."""
    if type(value) is str:
        is_number = _NUMBER_TEXT.fullmatch(value) is not None
        is_special = value in _NOT_FINITE
        # Digits alone and "Infinity" are base64 too: which one it is depends on the producer.
        if not (text_values and (is_number or is_special)):
            unscaled = _unscaled(value)
            if unscaled is not None:
                return Raw(_decimal_text(unscaled, scale))
        if is_special:
            return value
        if not is_number:
            raise Misfit
        text = value
    elif type(value) is int:
        text = str(value)
    elif type(value) is Raw:
        text = bytes(value).decode()
    else:
        raise Misfit
    return Raw(_rescaled(text, scale))


def variable_scale_decimal(text_values: bool, value: Any) -> Any:
    """``{scale, value}``: a Decimal that brings its own scale. A number already is one."""
    if type(value) is dict:
        if value.keys() != {"scale", "value"} or value["value"] is None:
            raise Misfit
        return decimal(whole(value["scale"]), text_values, value["value"])
    if type(value) is str:
        if _NUMBER_TEXT.fullmatch(value):
            return Raw(value)
        if value in _NOT_FINITE:
            return value
    elif type(value) is Raw or type(value) is int:
        return value
    raise Misfit


def _unscaled(text: str) -> int | None:
    """The integer in base64 of its big-endian two's complement; None for any other text."""
    try:
        number = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not number or len(number) > _MAX_DECIMAL_BYTES:
        return None
    return int.from_bytes(number, "big", signed=True)


def _decimal_text(unscaled: int, scale: int) -> str:
    """``unscaled * 10**-scale`` with exactly ``scale`` digits behind the point."""
    digits = str(_decimal_of(abs(unscaled)))
    return _placed("-" if unscaled < 0 else "", digits, scale)


def _decimal_of(number: int) -> Decimal:
    """An integer of any size. CPython limits the digits of ``str(int)``, and both that and
    ``Decimal(int)`` take four times as long for twice the digits.
    """
    bits = number.bit_length()
    if bits <= _FEW_BITS:
        return Decimal(number)
    half = _FEW_BITS << ((bits - 1) // _FEW_BITS).bit_length() - 1
    high, low = number >> half, number & ((1 << half) - 1)
    return _EXACT.fma(_decimal_of(high), _two_to(half), _decimal_of(low))


@lru_cache(16)
def _two_to(bits: int) -> Decimal:
    """2 to a power that is a power of two."""
    if bits <= _FEW_BITS:
        return _EXACT.power(2, bits)
    half = _two_to(bits // 2)
    return _EXACT.multiply(half, half)


def _placed(sign: str, digits: str, scale: int) -> str:
    if scale == 0:
        return sign + digits
    if scale < 0 or scale - len(digits) > _MAX_ZEROS:
        return f"{sign}{digits}E{-scale:+d}"
    digits = digits.zfill(scale + 1)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def _rescaled(text: str, scale: int) -> str:
    """The number in ``text`` with exactly ``scale`` digits behind the point.

    ``Misfit`` if that would drop a digit other than 0.
    """
    if len(text) > _MAX_DECIMAL_DIGITS:
        raise Misfit
    mantissa, _, exponent = text.lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    if len(exponent) > 18:
        raise Misfit
    digits = (whole + fraction).lstrip("0")
    surplus = len(fraction) - int(exponent or 0) - scale
    if not digits:
        return _placed(sign, "0", scale)
    if surplus > 0:
        if surplus > len(digits) or digits[-surplus:].strip("0"):
            raise Misfit
        digits = digits[:-surplus]
    elif surplus < -_MAX_ZEROS:
        raise Misfit
    else:
        digits += "0" * -surplus
    return _placed(sign, digits or "0", scale)


# --- Dates and times ------------------------------------------------------------------------------


def _long(value: Any) -> int:
    number = value if type(value) is int else whole(value)
    if _MIN_LONG <= number <= _MAX_LONG:
        return number
    raise Misfit


@lru_cache(4096)
def date_text(days: int) -> str:
    """A day since 1970-01-01 in the proleptic Gregorian calendar; years beyond 9999 have a sign."""
    ordinal = days + 719_163
    if 1 <= ordinal <= 3_652_059:
        return date.fromordinal(ordinal).isoformat()
    # Howard Hinnant's civil_from_days: eras of 400 years that begin on 0000-03-01.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = year_of_era + era * 400 + (month <= 2)
    if 0 <= year <= 9999:
        shown = f"{year:04d}"
    else:
        shown = f"{year:+05d}"
    return f"{shown}-{month:02d}-{day:02d}"


def _days(year: int, month: int, day: int) -> int:
    """The inverse of ``date_text``: days since 1970-01-01."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = 365 * year_of_era + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


# One or two digits as two.
_TWO_DIGITS: Final = tuple(f"{number:02d}" for number in range(60))


@lru_cache(4096)
def _minutes_text(minutes: int) -> str:
    return f"{minutes // 60:02d}:{_TWO_DIGITS[minutes % 60]}:"


def _clock_text(units: int, per_second: int) -> str:
    """A non-negative duration as hours, minutes, seconds and a fraction with as many digits as a
    second has zeros.
    """
    minutes, units = divmod(units, 60 * per_second)
    second, fraction = divmod(units, per_second)
    # After a 1, all digits are there.
    shown = str(per_second + fraction)[1:]
    return f"{_minutes_text(minutes)}{_TWO_DIGITS[second]}.{shown}"


@lru_cache(4096)
def is_day(text: str) -> bool:
    """Whether a date with a month from 1 to 12 and a day from 1 to 31 exists."""
    year, month, day = int(text[:-6]), int(text[-5:-3]), int(text[-2:])
    return day <= 28 or date_text(_days(year, month, day))[-5:] == text[-5:]


def _is_text(value: Any, pattern: re.Pattern[str]) -> bool:
    """Whether a temporal value was shipped as text already in its form."""
    if type(value) is not str:
        return False
    match = pattern.fullmatch(value)
    if match is None:
        return value in _INFINITE_TIMES
    return pattern.groups == 0 or is_day(match[1])


def _date(value: Any) -> str:
    if _is_text(value, _DATE_TEXT):
        return str(value)
    days = _long(value)
    return _INFINITE_DAYS.get(days) or date_text(days)


def _time(per_second: int, value: Any) -> str:
    if _is_text(value, _TIME_TEXT):
        return str(value)
    units = _long(value)
    return ("-" if units < 0 else "") + _clock_text(abs(units), per_second)


def _timestamp(per_second: int, infinite: dict[int, str], zone: str, value: Any) -> str:
    if type(value) is str and not INTEGER_TEXT.fullmatch(value):
        if zone:
            return _zoned_timestamp(value)
        if _is_text(value, _LOCAL_TEXT):
            return value
    units = _long(value)
    if units in infinite:
        return infinite[units]
    days, rest = divmod(units, 86_400 * per_second)
    return f"{date_text(days)}T{_clock_text(rest, per_second)}{zone}"


def _duration(per_second: int, value: Any) -> str:
    """An ISO 8601 duration in hours, minutes and seconds, since a day may have other than 24
    hours.
    """
    if type(value) is str and _DURATION_TEXT.fullmatch(value):
        return value
    units = _long(value)
    hour, minute, second = _clock_text(abs(units), per_second).split(":")
    sign = "-" if units < 0 else ""
    return (
        f"{sign}PT{int(hour)}H{int(minute)}M{second.lstrip('0').zfill(len(str(per_second)) + 1)}S"
    )


def _zoned_timestamp(value: Any) -> str:
    """An instant: with seconds and ``Z`` as it is. Without seconds it gets them, with another
    offset it is converted to ``Z``; both are noted.
    """
    if type(value) is not str:
        raise Misfit
    match = _UTC_TEXT.fullmatch(value)
    if match is not None and is_day(match[1]):
        return value
    match = _ZONED_TEXT.fullmatch(value)
    if match is None:
        if value in _INFINITE_TIMES:
            return value
        raise Misfit
    written, minutes, second, fraction, sign, *offsets = match.groups()
    if not is_day(written):
        raise Misfit
    if sign is None:
        # Z, without seconds: no column of times would take it.
        raise AsSent(f"{written}T{minutes}:00Z")
    offset = _offset(offsets)
    day = _days(int(written[:-6]), int(written[-5:-3]), int(written[-2:]))
    seconds = day * 86_400 + int(minutes[:2]) * 3600 + int(minutes[3:]) * 60 + int(second or 0)
    seconds += offset if sign == "-" else -offset
    days, rest = divmod(seconds, 86_400)
    clock = _clock_text(rest, 1).partition(".")[0]
    raise AsSent(f"{date_text(days)}T{clock}{fraction or ''}Z")


def _zoned_time(value: Any) -> str:
    """A time of day with its offset, as it was sent."""
    if type(value) is str:
        match = _ZONED_TIME_TEXT.fullmatch(value)
        if match is not None:
            _offset(match.groups()[1:])
            return value
    raise Misfit


def _offset(parts: Sequence[str | None]) -> int:
    """The seconds of an offset of hours, minutes and seconds."""
    hours, minutes, seconds = (int(part or 0) for part in parts)
    offset = hours * 3600 + minutes * 60 + seconds
    if offset > _LONGEST_OFFSET:
        raise Misfit
    return offset


def _local_iso(pattern: re.Pattern[str], value: Any) -> str:
    """Text of a local date or time, which is shipped with a meaningless Z."""
    if type(value) is str:
        if value in _INFINITE_ISO_TIMESTAMPS:
            return _INFINITE_ISO_TIMESTAMPS[value]
        local = value.removesuffix("Z")
        if _is_text(local, pattern):
            return local
    raise Misfit


def _interval(value: Any) -> str:
    """An ISO 8601 duration of years, months and days too, as it was sent."""
    if type(value) is str and (_DURATION_TEXT.fullmatch(value) or value in _INFINITE_TIMES):
        return value
    raise Misfit


TEMPORAL: Final[dict[str | None, Leaf]] = {
    "org.apache.kafka.connect.data.Date": _date,
    "org.apache.kafka.connect.data.Time": partial(_time, 10**3),
    "org.apache.kafka.connect.data.Timestamp": partial(_timestamp, 10**3, _INFINITE_MILLIS, "Z"),
    "io.debezium.time.Date": _date,
    "io.debezium.time.Time": partial(_time, 10**3),
    "io.debezium.time.MicroTime": partial(_time, 10**6),
    "io.debezium.time.NanoTime": partial(_time, 10**9),
    "io.debezium.time.Timestamp": partial(_timestamp, 10**3, _INFINITE_MILLIS, ""),
    "io.debezium.time.MicroTimestamp": partial(_timestamp, 10**6, _INFINITE_MICROS, ""),
    "io.debezium.time.NanoTimestamp": partial(_timestamp, 10**9, _INFINITE_NANOS, ""),
    "io.debezium.time.ZonedTimestamp": _zoned_timestamp,
    "io.debezium.time.ZonedTime": _zoned_time,
    "io.debezium.time.IsoDate": partial(_local_iso, _DATE_TEXT),
    "io.debezium.time.IsoTime": partial(_local_iso, _TIME_TEXT),
    "io.debezium.time.IsoTimestamp": partial(_local_iso, _LOCAL_TEXT),
    "io.debezium.time.Interval": _interval,
    # Avro's, for which Connect has no name (``avro_schemas``).
    "timestamp-micros": partial(_timestamp, 10**6, _INFINITE_MICROS, "Z"),
    "timestamp-nanos": partial(_timestamp, 10**9, _INFINITE_NANOS, "Z"),
    "io.debezium.time.MicroDuration": partial(_duration, 10**6),
    "io.debezium.time.NanoDuration": partial(_duration, 10**9),
}
