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

Sources: Connect's JsonConverter; the "Data type mappings" of Debezium's connector pages; for
unavailable values, UnchangedToastedPlaceholder in Debezium's PostgreSQL connector.

Policies, beside those of ``values``, which converts what has no parts:

- A value that doesn't fit its declared type stays as it was sent, and ``Notes.untyped`` names it. A
  null is null, declared optional or not; columns that are not declared stay as sent; declared
  columns that are absent stay absent.
- A value that Debezium could not read (PostgreSQL TOAST, Oracle LOB) is the plain text
  ``__debezium_unavailable_value`` whatever the column's type and ``binary.handling.mode``, with a
  schema block or without.
"""

import base64
from functools import lru_cache, partial
from typing import Annotated, Any, Final

from msgspec import Meta, Raw

from python_udfs.core.errors import BadField
from python_udfs.core.paths import shorten, step_text
from python_udfs.debezium.values import (
    FLOATS,
    INTEGER_TEXT,
    INTEGERS,
    TEMPORAL,
    AsSent,
    Leaf,
    Misfit,
    binary,
    boolean,
    decimal,
    floating,
    integer,
    misfit,
    variable_scale_decimal,
)
from python_udfs.text import json_text

UNAVAILABLE: Final = "__debezium_unavailable_value"
_UNAVAILABLE_BYTES: Final = UNAVAILABLE.encode()
# Bytes as binary.handling.mode has them: base64 (URL-safe: the same text) and hex, of either case.
_UNAVAILABLE_BINARY: Final = (
    base64.b64encode(_UNAVAILABLE_BYTES).decode(),
    _UNAVAILABLE_BYTES.hex(),
    _UNAVAILABLE_BYTES.hex().upper(),
)
# java.util.UUID.nameUUIDFromBytes, for arrays of UUIDs.
_UNAVAILABLE_UUID: Final = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
# The forms it takes in columns of other types: hstore, also as JSON, bytes, and the arrays.
_UNAVAILABLE_OBJECT: Final = {UNAVAILABLE: UNAVAILABLE}
_UNAVAILABLE_TEXTS: Final = frozenset(
    {*_UNAVAILABLE_BINARY, f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}'}
)
_UNAVAILABLE_ARRAYS: Final[tuple[list[Any], ...]] = (
    *([text] for text in (UNAVAILABLE, *_UNAVAILABLE_BINARY, _UNAVAILABLE_UUID)),
    # A number for each byte, for arrays of numbers, also of doubles.
    list(_UNAVAILABLE_BYTES),
    [Raw(f"{byte}.0") for byte in _UNAVAILABLE_BYTES],
)
# Compact text without any of these has no unavailable value. The latter are only in arrays.
UNAVAILABLE_MARKS: Final = (_UNAVAILABLE_BYTES, *map(str.encode, _UNAVAILABLE_BINARY))
UNAVAILABLE_ARRAY_MARKS: Final = (b"[95", f'["{_UNAVAILABLE_UUID}'.encode())

# Schema blocks that are kept compiled, and how large one may be.
_CACHED_SCHEMAS: Final = 1024
_MAX_CACHED_BYTES: Final = 256 * 1024


class Notes:
    """What can't be told from the converted values: which ones don't fit, and lost texts."""

    __slots__ = ("as_sent", "untyped")

    def __init__(
        self, untyped: list[str] | None = None, as_sent: dict[str, str] | None = None
    ) -> None:
        self.untyped = untyped if untyped is not None else []
        self.as_sent = as_sent if as_sent is not None else {}


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
        "kept",
        "name",
        "names",
    )

    def __init__(self, type_name: str = "", name: str | None = None) -> None:
        self.name = name
        self.names = 0
        """How many JSON names the block consists of."""
        self.brackets = 0
        """How many brackets open in it."""
        self.kept: Any = Any
        """The msgspec type of values that ``convert`` returns as they are, unseen; None if it has
        to see each one."""
        self.fields: dict[str, Schema] = {}
        self._type = type_name
        self._leaf: Leaf | None = None
        self._leaves: list[tuple[str, Leaf]] = []
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

    @property
    def is_row(self) -> bool:
        """Whether ``convert`` does no more with an object than to convert its ``fields``."""
        return self._leaf is None and self._items is None

    def convert_column(self, values: list[Any]) -> list[Any] | None:
        """What ``convert`` gives for each of the values; None if it has a note on any of them."""
        leaf = self._leaf
        if leaf is not None:
            try:
                return [None if value is None else leaf(value) for value in values]
            except (Misfit, AsSent):
                return None
        notes = Notes()
        converted = [self.convert(value, "", notes) for value in values]
        return None if notes.untyped or notes.as_sent else converted

    def convert(self, value: Any, path: str, notes: Notes) -> Any:
        """The converted ``value``; objects and arrays are changed in place."""
        if value is None:
            return None
        if self._leaf is not None:
            return _convert_leaf(self._leaf, value, path, notes)
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
                except (Misfit, AsSent):
                    value[name] = _convert_leaf(leaf, sent, path + step_text(name), notes)
        for name, part in self._parts:
            sent = get(name)
            if sent is not None:
                value[name] = part.convert(sent, path + step_text(name), notes)
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
                value[name] = items.convert(item, path + step_text(name), notes)
        elif value != UNAVAILABLE:
            notes.untyped.append(path)
        return value


def _convert_leaf(leaf: Leaf, value: Any, path: str, notes: Notes) -> Any:
    try:
        return leaf(value)
    except Misfit:
        if value != UNAVAILABLE:
            notes.untyped.append(path)
        return value
    except AsSent as converted:
        notes.as_sent[path] = value
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
        raise BadField(f"$.schema: the name {shorten(repr(duplicate))} comes twice in one object")
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
        schema._leaf = partial(variable_scale_decimal, text_values)
        schema.kept = None
    elif type_name == "struct":
        _compile_fields(schema, block, where, text_values)
        schema.kept = None
    elif type_name == "array" or type_name == "map":
        part = "items" if type_name == "array" else "values"
        if part in block:
            items = _compile_block(block[part], f"{where}.{part}", text_values)
            if not items.is_identity:
                schema._items = items
                schema.kept = None
    else:
        schema._leaf = _logical(name, block, text_values)
        if schema._leaf is not None:
            schema.kept = None
        elif type_name in _TYPES:
            schema._leaf, schema.kept = _TYPES[type_name]
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
            raise BadField(f"{at}.field: the field {shorten(repr(name))} is declared twice")
        schema.fields[name] = compiled
        if compiled._leaf is not None:
            schema._leaves.append((name, compiled._leaf))
        elif not compiled.is_identity or compiled._type in ("struct", "array", "map"):
            schema._parts.append((name, compiled))


def _logical(name: str | None, block: dict[str, Any], text_values: bool) -> Leaf | None:
    """The converter of a logical type without parts; None if that's no name of one."""
    if name == "org.apache.kafka.connect.data.Decimal":
        parameters = block.get("parameters")
        scale = parameters.get("scale") if isinstance(parameters, dict) else None
        if isinstance(scale, str) and INTEGER_TEXT.fullmatch(scale):
            scale = int(scale)
        # Without a scale nobody can tell the value: it stays as sent and is noted.
        return partial(decimal, scale, text_values) if type(scale) is int else misfit
    return TEMPORAL.get(name)


def _integer(bits: int) -> tuple[Leaf, Any]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return partial(integer, low, high), Annotated[int, Meta(ge=low, le=high)] | None


_TYPES: Final[dict[str, tuple[Leaf, Any]]] = {
    **{name: _integer(bits) for name, bits in INTEGERS.items()},
    # Each is looked at: as a float it would lose digits.
    **dict.fromkeys(FLOATS, (floating, None)),
    "boolean": (boolean, bool | None),
    "bytes": (binary, str | None),
}
"""Types that aren't logical and have no parts: their converter, and ``Schema.kept``. The values of
others stay as they are.
"""


# --- Unavailable values ---------------------------------------------------------------------------


def plain_placeholders(image: dict[str, Any]) -> None:
    """Give every column that stands for an unavailable value the plain text, in place."""
    for name, value in image.items():
        kind = type(value)
        if kind is str:
            unavailable = value in _UNAVAILABLE_TEXTS
        elif kind is list:
            unavailable = value in _UNAVAILABLE_ARRAYS
        else:
            unavailable = kind is dict and value == _UNAVAILABLE_OBJECT
        if unavailable:
            image[name] = UNAVAILABLE
