"""Kafka Connect's types, with Debezium's logical types: a schema block becomes converters.

JsonConverter repeats the schema block in every message, so it is compiled once and found again by
its bytes. A column's converter takes the value as JSON shipped it and returns what the row image
holds; ``msgspec.Raw`` stands for a JSON number whose digits matter.

| type or logical type | shipped as | becomes |
|---|---|---|
| int8 ... int64 | number, or text of one | number |
| float32, float64 (float, double) | number, text of one or NaN, Infinity | number or that text |
| boolean | true, false, also as text | boolean |
| string, Enum, EnumSet, Json, Uuid, Xml, Ltree, Interval, ZonedTime | text | as sent |
| bytes, Bits | base64 | as sent |
| Decimal | base64 of the big-endian two's complement; number; text | number with its scale |
| VariableScaleDecimal | {scale, value: base64} | number with that scale |
| Date (Connect's and Debezium's) | days since 1970-01-01 | 2026-11-21 |
| Time, MicroTime, NanoTime | milli-, micro-, nanoseconds of the day | 10:00:00.123 (6, 9 digits) |
| Timestamp, MicroTimestamp, NanoTimestamp | ... since 1970-01-01T00:00 | 2026-11-21T10:00:00.123 |
| Connect's Timestamp | milliseconds since 1970-01-01T00:00Z | 2026-11-21T10:00:00.123Z |
| ZonedTimestamp | ISO 8601 text | the same instant with Z, fraction as sent |
| IsoDate, IsoTime, IsoTimestamp | ISO 8601 text with Z, although it is local | without the Z |
| Year | number | number |
| MicroDuration, NanoDuration | micro-, nanoseconds | PT26H3M4.000005S |
| struct, array, map, geometry | object, array | the same, its parts converted |

Sources: Connect's JsonConverter; the "Data type mappings" of Debezium's connector pages; for the
encodings of infinity and of unavailable values, PostgresValueConverter and
UnchangedToastedPlaceholder in Debezium's PostgreSQL connector.

Policies:

- A value that doesn't fit its declared type stays as it was sent, and ``Notes.untyped`` names it. A
  null is null, declared optional or not; columns that are not declared stay as sent; declared
  columns that are absent stay absent.
- Years beyond 9999 and before 0000 have a sign, as in ISO 8601 and Java: ``+12345-01-01``.
- PostgreSQL's infinity is ``infinity`` and ``-infinity``, also where Debezium ships it as a number
  (PGStatement's 9223372036825200000, a long's largest, a date's overflow).
- Times may be negative or longer than a day (MySQL): ``-838:59:59.000000``.
- A Decimal with negative scale is ``15E+2``: plain digits would claim a precision it hasn't.
- A value that Debezium could not read (PostgreSQL TOAST, Oracle LOB) is the plain text
  ``__debezium_unavailable_value`` whatever the column's type, with a schema block or without.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from msgspec import Raw

from python_udfs import json_text
from python_udfs.errors import BadField

UNAVAILABLE: Final = "__debezium_unavailable_value"
_UNAVAILABLE_BYTES: Final = UNAVAILABLE.encode()
_UNAVAILABLE_BASE64: Final = base64.b64encode(_UNAVAILABLE_BYTES).decode()
_BASE64_MARK: Final = _UNAVAILABLE_BASE64.encode()
# java.util.UUID.nameUUIDFromBytes, for arrays of UUIDs.
_UNAVAILABLE_UUID: Final = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
# The forms it takes in columns of other types: bytes, hstore as JSON, and the arrays.
_UNAVAILABLE_TEXTS: Final = frozenset({_UNAVAILABLE_BASE64, f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'})
_UNAVAILABLE_ARRAYS: Final[tuple[list[Any], ...]] = (
    [UNAVAILABLE],
    [_UNAVAILABLE_BASE64],
    [_UNAVAILABLE_UUID],
    # A number for each byte, for arrays of numbers.
    list(_UNAVAILABLE_BYTES),
)
# A text without any of these, and without an array that begins with 95, has no unavailable value.
UNAVAILABLE_MARKS: Final = (_UNAVAILABLE_BYTES, _BASE64_MARK, _UNAVAILABLE_UUID.encode())
_encode = msgspec.json.Encoder().encode

_MIN_LONG: Final = -(2**63)
_MAX_LONG: Final = 2**63 - 1
_INTEGERS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_FLOATS: Final = frozenset({"float32", "float64", "float", "double"})
_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_INFINITE_TIMES: Final = frozenset({"infinity", "-infinity"})

_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]{1,19}")
_WHOLE_NUMBER: Final = re.compile(rb"(-?[0-9]{1,19})\.0+")
_NUMBER_TEXT: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_DATE_TEXT: Final = re.compile(r"[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}")
_TIME_TEXT: Final = re.compile(r"-?[0-9]{2,}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?")
_LOCAL_TEXT: Final = re.compile(
    r"[+-]?[0-9]{4,}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?"
)
_ZONED_TEXT: Final = re.compile(
    r"([+-]?[0-9]{4,9})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(\.[0-9]{1,9})?)?"
    r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?)"
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
# Beyond so many leading or trailing zeros a number is written with an exponent.
_MAX_ZEROS: Final = 16_384

# Schema blocks that are kept compiled, and how large one may be.
_CACHED_SCHEMAS: Final = 1024
_MAX_CACHED_BYTES: Final = 256 * 1024


class Misfit(Exception):
    """A value that doesn't fit its declared type. It never leaves this module."""


class _AsSent(Exception):
    """A value whose text form lacks something that the text as sent had."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class Notes:
    """What can't be told from the converted values: which ones don't fit, and lost texts."""

    __slots__ = ("as_sent", "untyped")

    def __init__(
        self, untyped: list[str] | None = None, as_sent: dict[str, str] | None = None
    ) -> None:
        self.untyped = untyped if untyped is not None else []
        self.as_sent = as_sent if as_sent is not None else {}


# A converter of a value without parts: value -> converted, or Misfit. Never called with None.
_Leaf = Callable[[Any], Any]


class Schema:
    """A compiled schema block, or a part of one: the converters of its values."""

    __slots__ = (
        "_items",
        "_leaf",
        "_leaves",
        "_parts",
        "_type",
        "brackets",
        "fields",
        "name",
        "names",
    )

    def __init__(self, type_name: str = "", name: str | None = None) -> None:
        self.name = name
        self.names = 0
        """How many JSON names the block consists of."""
        self.brackets = 0
        """How many brackets open in it."""
        self.fields: dict[str, Schema] = {}
        self._type = type_name
        self._leaf: _Leaf | None = None
        self._leaves: list[tuple[str, _Leaf]] = []
        """Columns with a converter of their own; one that needs none isn't here."""
        self._parts: list[tuple[str, Schema]] = []
        """Columns with parts: structs, arrays and maps."""
        self._items: Schema | None = None
        """The elements of an array, the values of a map."""

    @property
    def before(self) -> "Schema | None":
        return self.fields.get("before")

    @property
    def after(self) -> "Schema | None":
        return self.fields.get("after")

    @property
    def is_identity(self) -> bool:
        return not (self._leaf or self._leaves or self._parts or self._items)

    def convert(self, value: Any, path: str, notes: Notes) -> Any:
        """The converted ``value``; objects and arrays are changed in place."""
        if value is None:
            return None
        if self._leaf is not None:
            return _convert_leaf(self._leaf, value, path, "", notes)
        if self._type == "struct":
            return self._convert_struct(value, path, notes)
        if self._items is not None:
            return self._convert_items(value, path, notes)
        return value

    def _convert_struct(self, value: Any, path: str, notes: Notes) -> Any:
        if type(value) is not dict:
            if value != UNAVAILABLE:
                notes.untyped.append(path)
            return value
        get = value.get
        for name, leaf in self._leaves:
            sent = get(name)
            if sent is not None:
                try:
                    value[name] = leaf(sent)
                except (Misfit, _AsSent):
                    value[name] = _convert_leaf(leaf, sent, path, name, notes)
        for name, part in self._parts:
            sent = get(name)
            if sent is not None:
                value[name] = part.convert(sent, f"{path}.{name}", notes)
        return value

    def _convert_items(self, value: Any, path: str, notes: Notes) -> Any:
        items = self._items
        assert items is not None
        if type(value) is list:
            if self._type == "map":
                # Connect ships a map whose keys are no strings as [key, value] pairs.
                for index, pair in enumerate(value):
                    if type(pair) is list and len(pair) == 2:
                        pair[1] = items.convert(pair[1], f"{path}[{index}][1]", notes)
                    else:
                        notes.untyped.append(f"{path}[{index}]")
            else:
                for index, item in enumerate(value):
                    value[index] = items.convert(item, f"{path}[{index}]", notes)
        elif type(value) is dict and self._type == "map":
            for name, item in value.items():
                value[name] = items.convert(item, f"{path}.{name}", notes)
        elif value != UNAVAILABLE:
            notes.untyped.append(path)
        return value


def _convert_leaf(leaf: _Leaf, value: Any, path: str, name: str, notes: Notes) -> Any:
    try:
        return leaf(value)
    except Misfit:
        if value != UNAVAILABLE:
            notes.untyped.append(f"{path}.{name}" if name else path)
        return value
    except _AsSent as converted:
        notes.as_sent[f"{path}.{name}" if name else path] = value
        return converted.value


NOTHING: Final = Schema()
"""The schema of a message without one: values stay as they were sent."""


# --- Schema blocks --------------------------------------------------------------------------------


def read_schema(text: bytes, text_values: bool) -> Schema:
    """The compiled schema block; ``null`` and ``{}`` give one that converts nothing.

    Raises ``BadField`` if it is no schema block.
    """
    if len(text) > _MAX_CACHED_BYTES:
        return _compile(text, text_values)
    return _compile_cached(text, text_values)


def _compile(text: bytes, text_values: bool) -> Schema:
    block = json_text.parse(text)
    if block is None:
        return NOTHING
    duplicate = json_text.duplicate_name(text)
    if duplicate is not None:
        raise BadField(f"$.schema: the name {duplicate!r} comes twice in one object")
    schema = _compile_block(block, "$.schema", text_values)
    schema.names = _names(block)
    schema.brackets = text.count(b"[") + text.count(b"{")
    return schema


_compile_cached = lru_cache(_CACHED_SCHEMAS)(_compile)


def _names(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_names, value.values()))
    return sum(map(_names, value)) if isinstance(value, list) else 0


def _compile_block(block: Any, where: str, text_values: bool) -> Schema:
    if not isinstance(block, dict):
        raise BadField(f"{where}: expected an object, a schema block")
    type_name = block.get("type", "")
    if not isinstance(type_name, str):
        raise BadField(f"{where}.type: expected the name of a type")
    name = block.get("name")
    if name is not None and not isinstance(name, str):
        raise BadField(f"{where}.name: expected a string")
    schema = Schema(type_name, name)
    if name == "io.debezium.data.VariableScaleDecimal":
        schema._leaf = partial(_variable_scale_decimal, text_values)
    elif type_name == "struct":
        _compile_fields(schema, block, where, text_values)
    elif type_name == "array" or type_name == "map":
        part = "items" if type_name == "array" else "values"
        if part in block:
            items = _compile_block(block[part], f"{where}.{part}", text_values)
            schema._items = None if items.is_identity else items
    else:
        schema._leaf = _leaf(type_name, name, block, text_values)
    return schema


def _compile_fields(schema: Schema, block: dict[str, Any], where: str, text_values: bool) -> None:
    fields = block.get("fields")
    if fields is None:
        return
    if not isinstance(fields, list):
        raise BadField(f"{where}.fields: expected an array")
    for index, field in enumerate(fields):
        at = f"{where}.fields[{index}]"
        compiled = _compile_block(field, at, text_values)
        name = field.get("field")
        if not isinstance(name, str):
            raise BadField(f"{at}.field: expected the name of a field")
        if name in schema.fields:
            raise BadField(f"{at}.field: the field {name!r} is declared twice")
        schema.fields[name] = compiled
        if compiled._leaf is not None:
            schema._leaves.append((name, compiled._leaf))
        elif not compiled.is_identity or compiled._type in ("struct", "array", "map"):
            schema._parts.append((name, compiled))


def _leaf(
    type_name: str, name: str | None, block: dict[str, Any], text_values: bool
) -> _Leaf | None:
    """The converter of a type without parts; None if its values stay as they are."""
    if name == "org.apache.kafka.connect.data.Decimal":
        parameters = block.get("parameters")
        scale = parameters.get("scale") if isinstance(parameters, dict) else None
        if isinstance(scale, str) and _INTEGER_TEXT.fullmatch(scale):
            scale = int(scale)
        # Without a scale nobody can tell the value: it stays as sent and is noted.
        return partial(_decimal, scale, text_values) if type(scale) is int else _misfit
    if name in _TEMPORAL:
        return _TEMPORAL[name]
    if type_name in _INTEGERS:
        bits = _INTEGERS[type_name]
        return partial(_integer, -(1 << bits - 1), (1 << bits - 1) - 1)
    if type_name in _FLOATS:
        return _float
    if type_name == "boolean":
        return _boolean
    if type_name == "bytes":
        return _bytes
    return None


# --- Numbers --------------------------------------------------------------------------------------


def _misfit(value: Any) -> Any:
    raise Misfit


def _whole(value: Any) -> int:
    """An integer, also as text (Arcion) or with a fraction of zeros; else ``Misfit``."""
    if type(value) is int:
        return int(value)
    if type(value) is str:
        if _INTEGER_TEXT.fullmatch(value):
            return int(value)
    elif type(value) is Raw:
        match = _WHOLE_NUMBER.fullmatch(bytes(value))
        if match:
            return int(match[1])
    raise Misfit


def _integer(low: int, high: int, value: Any) -> int:
    number: int = value if type(value) is int else _whole(value)
    if low <= number <= high:
        return number
    raise Misfit


def _float(value: Any) -> Any:
    if type(value) is Raw or type(value) is int:
        return value
    if type(value) is str:
        if _NUMBER_TEXT.fullmatch(value):
            return Raw(value)
        if value in _NOT_FINITE:
            return value
    raise Misfit


def _boolean(value: Any) -> bool:
    if type(value) is bool:
        return value
    if type(value) is str:
        lower = value.lower()
        if lower == "true" or lower == "false":
            return lower == "true"
    raise Misfit


def _bytes(value: Any) -> str:
    if type(value) is str:
        return value
    raise Misfit


def _decimal(scale: int, text_values: bool, value: Any) -> Any:
    """A Decimal of a known scale, shipped as base64, as a number or as the text of one."""
    if type(value) is str:
        if value in _NOT_FINITE:
            return value
        is_number = _NUMBER_TEXT.fullmatch(value) is not None
        # Digits alone may be base64 too: which one it is depends on the producer.
        if not (is_number and text_values):
            unscaled = _unscaled(value)
            if unscaled is not None:
                return Raw(_decimal_text(unscaled, scale))
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


def _variable_scale_decimal(text_values: bool, value: Any) -> Any:
    """``{scale, value}``: a Decimal that brings its own scale. A number already is one."""
    if type(value) is dict:
        if value.keys() != {"scale", "value"} or value["value"] is None:
            raise Misfit
        return _decimal(_whole(value["scale"]), text_values, value["value"])
    return _float(value)


def _unscaled(text: str) -> int | None:
    """The integer in base64 of its big-endian two's complement; None if it is no such thing."""
    try:
        number = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if not number or len(number) > _MAX_DECIMAL_BYTES:
        return None
    return int.from_bytes(number, "big", signed=True)


def _decimal_text(unscaled: int, scale: int) -> str:
    """``unscaled * 10**-scale`` with exactly ``scale`` digits behind the point."""
    # CPython limits the digits of str(int); Decimal does not.
    digits = str(Decimal(abs(unscaled)))
    return _placed("-" if unscaled < 0 else "", digits, scale)


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
    number = _whole(value)
    if _MIN_LONG <= number <= _MAX_LONG:
        return number
    raise Misfit


def _date_text(days: int) -> str:
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
    """The inverse of ``_date_text``: days since 1970-01-01."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    day_of_era = 365 * year_of_era + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


def _clock_text(units: int, per_second: int, digits: int) -> str:
    """A duration of at least zero as hours, minutes, seconds and a fraction."""
    seconds, fraction = divmod(units, per_second)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour:02d}:{minute:02d}:{second:02d}.{fraction:0{digits}d}"


def _is_text(value: Any, pattern: re.Pattern[str]) -> bool:
    """Whether a temporal value was shipped as text that already has its form."""
    return type(value) is str and (pattern.fullmatch(value) is not None or value in _INFINITE_TIMES)


def _date(value: Any) -> str:
    if _is_text(value, _DATE_TEXT):
        return str(value)
    days = _long(value)
    return _INFINITE_DAYS.get(days) or _date_text(days)


def _time(digits: int, value: Any) -> str:
    if _is_text(value, _TIME_TEXT):
        return str(value)
    units = _long(value)
    return ("-" if units < 0 else "") + _clock_text(abs(units), 10**digits, digits)


def _timestamp(digits: int, infinite: dict[int, str], zone: str, value: Any) -> str:
    if _is_text(value, _LOCAL_TEXT if not zone else _ZONED_TEXT):
        return str(value)
    units = _long(value)
    if units in infinite:
        return infinite[units]
    per_second = 10**digits
    days, rest = divmod(units, 86_400 * per_second)
    return f"{_date_text(days)}T{_clock_text(rest, per_second, digits)}{zone}"


def _duration(digits: int, value: Any) -> str:
    """An ISO 8601 duration in hours, minutes and seconds: a day may have other than 24 hours."""
    if type(value) is str and value.lstrip("+-").startswith("P"):
        return value
    units = _long(value)
    hour, minute, second = _clock_text(abs(units), 10**digits, digits).split(":")
    sign = "-" if units < 0 else ""
    return f"{sign}PT{int(hour)}H{int(minute)}M{second.lstrip('0').zfill(digits + 2)}S"


def _zoned_timestamp(value: Any) -> str:
    """An instant: with ``Z`` as it is, with another offset moved to ``Z`` and noted."""
    if type(value) is not str:
        raise Misfit
    match = _ZONED_TEXT.fullmatch(value)
    if match is None:
        if value in _INFINITE_TIMES:
            return value
        raise Misfit
    sign = match[8]
    if sign is None:
        return value
    year, month, day, hour, minute, second = (int(match[group] or 0) for group in range(1, 7))
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        raise Misfit
    if _date_text(_days(year, month, day))[-5:] != f"{month:02d}-{day:02d}":
        raise Misfit
    offset = int(match[9]) * 3600 + int(match[10] or 0) * 60 + int(match[11] or 0)
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
    seconds += offset if sign == "-" else -offset
    days, rest = divmod(seconds, 86_400)
    clock = _clock_text(rest, 1, 1).partition(".")[0]
    raise _AsSent(f"{_date_text(days)}T{clock}{match[7] or ''}Z")


def _local_iso(pattern: re.Pattern[str], value: Any) -> str:
    """Text of a local date or time that is shipped with a Z it doesn't mean."""
    if type(value) is str:
        if value in _INFINITE_ISO_TIMESTAMPS:
            return _INFINITE_ISO_TIMESTAMPS[value]
        local = value.removesuffix("Z")
        if pattern.fullmatch(local) or value in _INFINITE_TIMES:
            return local
    raise Misfit


_TEMPORAL: Final[dict[str | None, _Leaf]] = {
    "org.apache.kafka.connect.data.Date": _date,
    "org.apache.kafka.connect.data.Time": partial(_time, 3),
    "org.apache.kafka.connect.data.Timestamp": partial(_timestamp, 3, _INFINITE_MILLIS, "Z"),
    "io.debezium.time.Date": _date,
    "io.debezium.time.Time": partial(_time, 3),
    "io.debezium.time.MicroTime": partial(_time, 6),
    "io.debezium.time.NanoTime": partial(_time, 9),
    "io.debezium.time.Timestamp": partial(_timestamp, 3, _INFINITE_MILLIS, ""),
    "io.debezium.time.MicroTimestamp": partial(_timestamp, 6, _INFINITE_MICROS, ""),
    "io.debezium.time.NanoTimestamp": partial(_timestamp, 9, _INFINITE_NANOS, ""),
    "io.debezium.time.ZonedTimestamp": _zoned_timestamp,
    "io.debezium.time.IsoDate": partial(_local_iso, _DATE_TEXT),
    "io.debezium.time.IsoTime": partial(_local_iso, _TIME_TEXT),
    "io.debezium.time.IsoTimestamp": partial(_local_iso, _LOCAL_TEXT),
    "io.debezium.time.MicroDuration": partial(_duration, 6),
    "io.debezium.time.NanoDuration": partial(_duration, 9),
}


# --- Unavailable values ---------------------------------------------------------------------------

_type_of: Callable[[Any], type] = type


def plain_placeholders(image: dict[str, Any], text: bytes) -> None:
    """Give every column that stands for an unavailable value the plain text, in place.

    ``text`` is the message that the image comes from: it tells quickly that there is none.
    """
    if text.find(_UNAVAILABLE_BYTES) >= 0 or text.find(_BASE64_MARK) >= 0:
        for name, value in image.items():
            if type(value) is str:
                if value in _UNAVAILABLE_TEXTS:
                    image[name] = UNAVAILABLE
            elif value == {UNAVAILABLE: UNAVAILABLE}:
                image[name] = UNAVAILABLE
    if list in map(_type_of, image.values()):
        for name, value in image.items():
            if type(value) is list and [_plain(item) for item in value[:30]] in _UNAVAILABLE_ARRAYS:
                image[name] = UNAVAILABLE


def _plain(item: Any) -> Any:
    """An element of an array, 95.0 as 95."""
    try:
        return _whole(item) if type(item) is Raw else item
    except Misfit:
        return item
