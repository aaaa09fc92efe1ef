r"""Kafka Connect's types, with Debezium's logical types: a schema block becomes converters.

JsonConverter repeats the schema block in every message, so it is compiled once and found again by
its bytes. A column's converter takes the value as JSON shipped it and returns what the row image
holds; ``msgspec.Raw`` stands for a JSON number whose digits matter.

| type or logical type | shipped as | becomes |
|---|---|---|
| int8 ... int64 | number, or text of one | number |
| int64 of a BIGINT UNSIGNED | the column's 64 bits, signed | number from 0 |
| float32, float64 (float, double) | number, text of one or NaN, Infinity | number or that text |
| boolean | true, false, also as text | boolean |
| string, Enum, EnumSet, Json, Uuid, Xml, Ltree, Interval | text | as sent |
| Enum, a label of the list ``allowed`` that has ``\,`` | text | with ``,`` |
| ZonedTime | time with its offset | as sent |
| bytes, Bits | base64 | as sent |
| Decimal | base64 of the big-endian two's complement; number; text | number with its scale |
| VariableScaleDecimal | {scale, value: base64} | number with that scale |
| Date (Connect's and Debezium's) | days since 1970-01-01 | 2026-11-21 |
| Time, MicroTime, NanoTime | milli-, micro-, nanoseconds of the day | 10:00:00.123 (6, 9 digits) |
| Timestamp, MicroTimestamp, NanoTimestamp | ... since 1970-01-01T00:00 | 2026-11-21T10:00:00.123 |
| Connect's Timestamp | milliseconds since 1970-01-01T00:00Z | 2026-11-21T10:00:00.123Z |
| ZonedTimestamp | ISO 8601 text | the same instant with seconds and Z, fraction as sent |
| IsoDate, IsoTime, IsoTimestamp | ISO 8601 text with Z, although it is local | without the Z |
| Year | number | number |
| MicroDuration, NanoDuration | micro-, nanoseconds | PT26H3M4.000005S |
| struct, array, geometry | object, array | the same, its parts converted |
| map | object if its keys are strings, else array of [key, value] | the same, both converted |

Sources: Connect's JsonConverter; the "Data type mappings" of Debezium's connector pages; for
unavailable values, UnchangedToastedPlaceholder in Debezium's PostgreSQL connector.

Policies, besides those of ``values``, which converts values without parts:

- A value that doesn't fit its declared type stays as it was sent, and ``Notes.untyped`` names it. A
  null is null, declared optional or not; columns that are not declared stay as sent; declared
  columns that are absent stay absent.
- An int64 is a BIGINT UNSIGNED if ``__debezium.source.column.type`` among its parameters says so
  (``column.propagate.source.type``); without it the two are indistinguishable.
- MySQL's and MariaDB's connectors write ``\,`` for a comma of an ENUM's label in ``allowed``, the
  list of labels. A value from the log is a label in the list's form, one of a snapshot the label
  itself: the former becomes the latter.
- A map's keys that are names of an object become the text of their converted value. A name that
  doesn't fit, or is an instant without seconds or with another offset than Z, stays, and the path
  of its value is in ``untyped``. If two would become one, all stay, and the map's path is in
  ``untyped``.
- A value that Debezium could not read (PostgreSQL TOAST, Oracle LOB) is the plain text
  ``__debezium_unavailable_value`` whatever the column's type and ``binary.handling.mode``, with a
  schema block or without.
"""

import base64
import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Raw

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, DecodeError, TooLarge
from python_udfs.core.paths import Path, PathTexts, shorten
from python_udfs.core.recent import Recent
from python_udfs.debezium.temporal_columns import OF_MANY, OfMany
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
    label,
    misfit,
    string,
    unsigned,
    variable_scale_decimal,
)
from python_udfs.text import json_text

UNAVAILABLE: Final = "__debezium_unavailable_value"
_UNAVAILABLE_BYTES: Final = UNAVAILABLE.encode()
# Bytes in the modes of binary.handling.mode: base64 (URL-safe: the same text) and hex, in either
# case.
_UNAVAILABLE_BINARY: Final = (
    base64.b64encode(_UNAVAILABLE_BYTES).decode(),
    _UNAVAILABLE_BYTES.hex(),
    _UNAVAILABLE_BYTES.hex().upper(),
)
# java.util.UUID.nameUUIDFromBytes, for arrays of UUIDs.
_UNAVAILABLE_UUID: Final = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
# Its forms in columns of other types: hstore, also as JSON, bytes, and the arrays.
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
# Compact text without any of these has no unavailable value.
_UNAVAILABLE_MARKS: Final = (
    _UNAVAILABLE_BYTES,
    *map(str.encode, _UNAVAILABLE_BINARY),
    _UNAVAILABLE_UUID.encode(),
    # The first of the numbers: searching for a short text takes ten times as long as for a long
    # one.
    b",".join(b"%d" % byte for byte in _UNAVAILABLE_BYTES[:8]),
    b",".join(b"%d.0" % byte for byte in _UNAVAILABLE_BYTES[:8]),
)

# Cached schema blocks, and the largest size of one. Compiled it takes about fifteen times as
# much.
_MOST_COMPILED: Final = 1024
_MOST_COMPILED_BYTES: Final = 24 * 1024 * 1024
COMPILED_FACTOR: Final = 15
_MAX_PREFIX: Final = 256 * 1024

# The beginning and end of a prefix.
_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = b',"payload":'

_PARTED: Final = frozenset({"struct", "array", "map"})
"""Types of values that have parts."""
# The size of an object beside its text.
_OBJECT_BYTES: Final = 56
_encode = msgspec.json.Encoder().encode

# The growth allowed for each value of a column that expands, in ``convert_column``: the values of
# a row, of at most 2,000 columns, stay within any payload's budget.
_MOST_EXPANDED: Final = 4096
# Decimals of a larger scale expand: others take about as many bytes as before.
_PLAIN_SCALE: Final = 64


class Notes:
    """Notes on what the converted values don't show: values that don't fit, and lost texts.
    Notes, and the growth of values, are spent from the payload's budget.
    """

    __slots__ = ("_paths", "as_sent", "budget", "untyped")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        # Most messages need none.
        self._paths: PathTexts | None = None
        self.untyped: list[str] = []
        self.as_sent: dict[str, str] = {}

    def to_go_on(self) -> "Notes":
        """A copy of these notes to extend, while these stay the same."""
        more = Notes(self.budget)
        more.untyped += self.untyped
        more.as_sent |= self.as_sent
        return more

    def unfit(self, path: Path, value: Any) -> Any:
        """``value``, with a note that it doesn't fit unless it stands for an unavailable one."""
        if value != UNAVAILABLE:
            self.untyped.append(self._text(path))
        return value

    def take(self, leaf: Leaf, value: Any, path: Path) -> Any:
        """The result for a value that the converter can't convert plainly."""
        try:
            return leaf(value)
        except Misfit:
            return self.unfit(path, value)
        except AsSent as converted:
            self.as_sent[self._text(path)] = value
            return converted.value

    def _text(self, path: Path) -> str:
        if self._paths is None:
            self._paths = PathTexts()
        written = self._paths.of(path)
        self.budget.spend_text(written)
        return written


_NO_FIELDS: Final[Mapping[str, "Schema"]] = MappingProxyType({})


class Schema:
    """A compiled schema block, or a part of one: the converters of its values."""

    __slots__ = (
        "_items",
        "_keys",
        "_leaf",
        "_leaves",
        "_of_many",
        "_parts",
        "_type",
        "expands",
        "fields",
        "kept",
        "name",
        "names",
    )

    def __init__(self, type_name: str = "", name: str | None = None) -> None:
        self.name = name
        self.names = 0
        """The number of JSON names in the block."""
        self.kept: Any = Any
        """The msgspec type of values that ``convert`` returns unchanged and unseen; None if it
        has to check each one.
        """
        self.expands = False
        """Whether a converted value may be far larger than the one that was sent."""
        self.fields: Mapping[str, Schema] = _NO_FIELDS
        self._type = type_name
        self._leaf: Leaf | None = None
        self._of_many: OfMany | None = None
        self._leaves: Mapping[str, Leaf] = {}
        """Columns with a converter of their own; one that needs none isn't here."""
        self._parts: Mapping[str, Schema] = {}
        """Columns with parts: structs, arrays and maps."""
        self._items: Schema | None = None
        """The elements of an array, the values of a map."""
        self._keys: Schema | None = None
        """The keys of a map."""

    @property
    def before(self) -> "Schema | None":
        return self.fields.get("before")

    @property
    def after(self) -> "Schema | None":
        return self.fields.get("after")

    @property
    def is_row(self) -> bool:
        """Whether ``convert`` only converts an object's ``fields``."""
        return self._leaf is None and self._type not in ("array", "map")

    def convert_column(self, values: list[Any], unfit: set[int]) -> list[Any]:
        """The results of ``convert`` for each of the values. The places of values with a note,
        and of those that become far larger, are added to ``unfit``.
        """
        usual = None if self._of_many is None else self._of_many(values)
        if usual is not None:
            return usual
        leaf = self._leaf
        if leaf is not None and not self.expands:
            try:
                return [None if value is None else leaf(value) for value in values]
            except (Misfit, AsSent):
                pass
        converted = []
        notes = Notes(Budget(0))
        most = _MOST_EXPANDED if self.expands else notes.budget.bytes
        for place, value in enumerate(values):
            notes.budget.left = most
            try:
                converted.append(self.convert(value, None, notes))
            except TooLarge:
                converted.append(None)
                unfit.add(place)
            if notes.untyped or notes.as_sent:
                unfit.add(place)
                notes = Notes(notes.budget)
        return converted

    def convert(self, value: Any, path: Path, notes: Notes) -> Any:
        """The converted ``value``; objects and arrays are changed in place. Raises ``TooLarge``
        if the result would be far larger than the input.
        """
        if value is None:
            return None
        leaf = self._leaf
        if leaf is not None:
            try:
                return _spent(notes, value, leaf(value))
            except (Misfit, AsSent):
                return notes.take(leaf, value, path)
        kind = self._type
        if kind == "struct":
            return self._convert_struct(value, path, notes)
        if kind == "array":
            if type(value) is not list:
                return notes.unfit(path, value)
            if self._items is not None:
                self._items.convert_all(value, path, notes)
        elif kind == "map":
            return self._convert_map(value, path, notes)
        return value

    def convert_all(self, values: list[Any], path: Path, notes: Notes) -> None:
        """``convert`` for each of the values, in place."""
        leaf = self._leaf
        for index, value in enumerate(values):
            if value is None:
                continue
            if leaf is None:
                values[index] = self.convert(value, (path, index), notes)
                continue
            try:
                values[index] = _spent(notes, value, leaf(value))
            except (Misfit, AsSent):
                values[index] = notes.take(leaf, value, (path, index))

    def _convert_struct(self, value: Any, path: Path, notes: Notes) -> Any:
        if type(value) is not dict:
            return notes.unfit(path, value)
        get = value.get
        leaves, parts = self._leaves, self._parts
        # Many small values may be declared as structs of many fields: missing fields must cost
        # nothing.
        if 2 * len(value) < len(leaves):
            leaves = {name: leaves[name] for name in value if name in leaves}
        if 2 * len(value) < len(parts):
            parts = {name: parts[name] for name in value if name in parts}
        for name, leaf in leaves.items():
            sent = get(name)
            if sent is not None:
                try:
                    converted = leaf(sent)
                except (Misfit, AsSent):
                    converted = notes.take(leaf, sent, (path, name))
                if type(converted) is Raw:
                    _spent(notes, sent, converted)
                value[name] = converted
        for name, part in parts.items():
            sent = get(name)
            if sent is not None:
                value[name] = part.convert(sent, (path, name), notes)
        return value

    def _convert_map(self, value: Any, path: Path, notes: Notes) -> Any:
        keys, items = self._keys, self._items
        if type(value) is dict:
            if items is not None:
                for name, item in value.items():
                    value[name] = items.convert(item, (path, name), notes)
            if keys is not None and keys._leaf is not string:
                _convert_names(keys, value, path, notes)
        elif type(value) is list:
            # Connect ships a map with other keys than strings as [key, value] pairs.
            for index, pair in enumerate(value):
                if type(pair) is not list or len(pair) != 2:
                    notes.unfit((path, index), pair)
                    continue
                if keys is not None:
                    pair[0] = keys.convert(pair[0], ((path, index), 0), notes)
                if items is not None:
                    pair[1] = items.convert(pair[1], ((path, index), 1), notes)
        else:
            notes.unfit(path, value)
        return value


def _spent(notes: Notes, sent: Any, converted: Any) -> Any:
    """The result for a value without parts, after spending its size."""
    if converted is not sent:
        kind = type(converted)
        if kind is Raw:
            notes.budget.spend(_OBJECT_BYTES + len(bytes(converted)))
        elif kind is str:
            notes.budget.spend(_OBJECT_BYTES + len(converted))
    return converted


def _convert_names(keys: Schema, value: dict[str, Any], path: Path, notes: Notes) -> None:
    """Convert the keys of a map that is shipped as an object."""
    leaf = keys._leaf
    if leaf is None:
        if keys._type in _PARTED:
            notes.unfit(path, value)
        return
    names = []
    for name in value:
        try:
            key = leaf(name)
        except (Misfit, AsSent):
            key = notes.unfit((path, name), name)
        names.append(_spent(notes, name, key if type(key) is str else _encode(key).decode()))
    if len(set(names)) < len(names):
        notes.unfit(path, value)
    elif names != list(value):
        values = list(value.values())
        value.clear()
        value.update(zip(names, values, strict=True))


NOTHING: Final = Schema()
"""The schema of a message without one: values stay as they were sent."""


# --- Schema blocks --------------------------------------------------------------------------------


# By a block or by a prefix: no text is both.
_compiled: Final[Recent[tuple[bytes, bool], Schema]] = Recent(_MOST_COMPILED, _MOST_COMPILED_BYTES)


def read_schema(block: bytes, text_values: bool) -> Schema:
    """The compiled schema block; ``null`` and ``{}`` give one that converts nothing.

    Raises ``BadField`` unless it is a schema block.
    """
    schema = _compiled.get((block, text_values))
    if schema is None:
        schema = _compile(block, text_values)
        if len(block) <= _MAX_PREFIX:
            _compiled.add((block, text_values), schema, COMPILED_FACTOR * len(block))
    return schema


def _compile(text: bytes, text_values: bool) -> Schema:
    block = json_text.parse(text)
    if block is None:
        return NOTHING
    duplicate = json_text.duplicate_name(text)
    if duplicate is not None:
        raise BadField(f"$.schema: the name {shorten(repr(duplicate))} comes twice in one object")
    schema = _compile_block(block, "$.schema", text_values)
    schema.names = _names(block)
    return schema


class Prefixes:
    """Finds the prefixes of messages' payloads, for keys or for values."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = _SCHEMA + _PAYLOAD

    def of(self, message: bytes) -> bytes:
        """Everything before the payload, ``{"schema":{...},"payload":``, if the schema block
        comes first; otherwise empty.
        """
        if not message.startswith(_SCHEMA):
            return b""
        if not message.startswith(self._last):
            end = message.find(_PAYLOAD, 0, _MAX_PREFIX)
            if end < 0:
                return b""
            self._last = message[: end + len(_PAYLOAD)]
        # Usually that of the previous message: the same object, with a known hash.
        return self._last


PREFIXES_OF_KEYS: Final = Prefixes()
PREFIXES_OF_VALUES: Final = Prefixes()


def schema_of(prefix: bytes, text_values: bool) -> Schema | None:
    """The compiled schema block of a prefix; None if it contains anything else, or less."""
    schema = _compiled.get((prefix, text_values))
    if schema is None:
        try:
            # A block alone may have a byte order mark, and be one level deeper.
            json_text.parse(prefix + b"null}")
            block = prefix.removeprefix(_SCHEMA).removesuffix(_PAYLOAD)
            schema = _compile(block, text_values)
        except DecodeError:
            return None
        _compiled.add((prefix, text_values), schema, COMPILED_FACTOR * len(prefix))
    return schema


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
    schema.expands = name == _VARIABLE or (name == _DECIMAL and (_scale(block) or 0) > _PLAIN_SCALE)
    if name == _VARIABLE:
        schema._leaf = partial(variable_scale_decimal, text_values)
        schema.kept = None
    elif type_name == "struct":
        _compile_fields(schema, block, where, text_values)
        schema.kept = None
    elif type_name == "array":
        _compile_parts(schema, block, where, text_values, "items")
        kept = Any if schema._items is None else schema._items.kept
        # By its method, the operator's: the type isn't known before.
        schema.kept = None if kept is None else list.__class_getitem__(kept) | None
    elif type_name == "map":
        _compile_parts(schema, block, where, text_values, "keys", "values")
        schema.kept = None
    else:
        schema._leaf = _logical(name, block, text_values) or _label_of(name, block)
        schema._of_many = OF_MANY.get(name)
        if schema._leaf is not None:
            schema.kept = None
        elif type_name == "int64" and _is_unsigned(block):
            schema._leaf, schema.kept = unsigned, None
        elif type_name in _TYPES:
            schema._leaf, schema.kept = _TYPES[type_name]
            if text_values and type_name != "string":
                # Most are text, which is checked.
                schema.kept = None
    return schema


def _compile_parts(
    schema: Schema, block: dict[str, Any], where: str, text_values: bool, *names: str
) -> None:
    """Compile the items of an array, or the keys and values of a map."""
    for name in names:
        if name in block:
            part = _compile_block(block[name], f"{where}.{name}", text_values)
            schema.expands |= part.expands
            if name == "keys":
                schema._keys = part
            else:
                schema._items = part


def _is_unsigned(block: dict[str, Any]) -> bool:
    source_type = _parameter(block, "__debezium.source.column.type")
    return isinstance(source_type, str) and _UNSIGNED_BIGINT.match(source_type) is not None


def _compile_fields(schema: Schema, block: dict[str, Any], where: str, text_values: bool) -> None:
    fields = block.get("fields")
    if fields is None:
        return
    if not isinstance(fields, list):
        raise BadField(f"{where}.fields: expected an array")
    found: dict[str, Schema] = {}
    leaves: dict[str, Leaf] = {}
    parts: dict[str, Schema] = {}
    for index, field in enumerate(fields):
        at = f"{where}.fields[{index}]"
        compiled = _compile_block(field, at, text_values)
        name = field.get("field")
        if not isinstance(name, str):
            raise BadField(f"{at}.field: expected the name of a field")
        if name in found:
            raise BadField(f"{at}.field: the field {shorten(repr(name))} is declared twice")
        found[name] = compiled
        schema.expands |= compiled.expands
        if compiled._leaf is not None:
            leaves[name] = compiled._leaf
        elif compiled._type in _PARTED:
            parts[name] = compiled
    schema.fields, schema._leaves, schema._parts = found, leaves, parts


def _label_of(name: str | None, block: dict[str, Any]) -> Leaf | None:
    """The converter of an ENUM that has labels with commas; None for all others."""
    allowed = _parameter(block, "allowed") if name == _ENUM else None
    if not isinstance(allowed, str) or _ESCAPED_COMMA not in allowed:
        return None
    listed = _BETWEEN_LABELS.split(allowed)
    return partial(
        label,
        {each: each.replace(_ESCAPED_COMMA, ",") for each in listed if _ESCAPED_COMMA in each},
    )


_ENUM: Final = "io.debezium.data.Enum"
_ESCAPED_COMMA: Final = "\\,"
_BETWEEN_LABELS: Final = re.compile(r"(?<!\\),")
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
_UNSIGNED_BIGINT: Final = re.compile(r"BIGINT\b.*\bUNSIGNED\b", re.IGNORECASE)


def _logical(name: str | None, block: dict[str, Any], text_values: bool) -> Leaf | None:
    """The converter of a logical type without parts; None for an unknown name."""
    if name == _DECIMAL:
        scale = _scale(block)
        # Without a scale the value is unknown: it stays as sent and is noted.
        return misfit if scale is None else partial(decimal, scale, text_values)
    return TEMPORAL.get(name)


def _parameter(block: dict[str, Any], name: str) -> Any:
    parameters = block.get("parameters")
    return parameters.get(name) if isinstance(parameters, dict) else None


def _scale(block: dict[str, Any]) -> int | None:
    scale = _parameter(block, "scale")
    if isinstance(scale, str) and INTEGER_TEXT.fullmatch(scale):
        return int(scale)
    return scale if type(scale) is int else None


def _integer(bits: int) -> tuple[Leaf, Any]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return partial(integer, low, high), Annotated[int, Meta(ge=low, le=high)] | None


_TYPES: Final[dict[str, tuple[Leaf, Any]]] = {
    **{name: _integer(bits) for name, bits in INTEGERS.items()},
    # Each is checked: as a float it would lose digits.
    **{name: (partial(floating, largest), None) for name, largest in FLOATS.items()},
    "boolean": (boolean, bool | None),
    # Each is checked: it may not be base64.
    "bytes": (binary, None),
    "string": (string, str | None),
}
"""Non-logical types without parts: their converter, and ``Schema.kept``. Values of other types
stay as they are.
"""


# --- Unavailable values ---------------------------------------------------------------------------


def plain_placeholders(image: dict[str, Any]) -> None:
    """Replace every column that stands for an unavailable value by the plain text, in place."""
    for name, value in image.items():
        if is_unavailable(value):
            image[name] = UNAVAILABLE


def has_placeholder(text: bytes) -> bool:
    """Whether a compact text may have an unavailable value, in any of its forms."""
    return any(mark in text for mark in _UNAVAILABLE_MARKS)


def is_unavailable(value: Any) -> bool:
    """Whether a column's value stands for an unavailable one, in another form than plain text."""
    kind = type(value)
    if kind is str:
        return value in _UNAVAILABLE_TEXTS
    if kind is list:
        return value in _UNAVAILABLE_ARRAYS
    return kind is dict and value == _UNAVAILABLE_OBJECT
