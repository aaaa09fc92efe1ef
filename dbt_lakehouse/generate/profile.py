"""What the events of a topic say about its tables: which there are, their columns, keys and types.

A ``TopicProfile`` is made of messages, one by one, and profiles of parts are merged into that of
the whole; nothing in it grows with the number of events. It is pure Python: Spark only deals the
messages out (``scan``).
"""

from collections import Counter
from typing import Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.generate.types import Values, decimal_type
from python_udfs import json_text
from python_udfs.connect_types import UNAVAILABLE
from python_udfs.events import (
    DELETE,
    INSERT,
    INVALID,
    SNAPSHOT,
    TRUNCATE,
    UPDATE,
    UPSERT,
    Event,
)
from python_udfs.registry import decode_payload

AEROSPIKE: Final = frozenset({"aerospike_messagepack", "aerospike_json"})
_ROW_OPERATIONS: Final = frozenset({SNAPSHOT, INSERT, UPDATE, UPSERT, DELETE})
_DECODER: Final = msgspec.json.Decoder(float_hook=msgspec.Raw)
_RAW_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Position(NamedTuple):
    """Where a message is. Compares as the log does, but for timestamps that go back."""

    timestamp: int
    """Microseconds since the epoch; the smallest number for none."""
    topic: str
    partition: int
    offset: int


class Declared(NamedTuple):
    """What a schema says about a column."""

    source: str
    """For the description: `int64`, `io.debezium.time.MicroTimestamp`."""
    type: str | None
    """The Spark type; None if the schema leaves it to the values."""


class TableId(NamedTuple):
    """The source table of an event; Aerospike: namespace and set."""

    database: str | None
    schema: str | None
    table: str | None
    is_aerospike: bool = False

    def __str__(self) -> str:
        if self.is_aerospike:
            return f"{self.schema}.{self.table}" if self.table else f"{self.schema} (no set)"
        return ".".join(part for part in self[:3] if part) or "(no table)"


class Column:
    """A field of a table's row images and keys."""

    __slots__ = ("afters", "declared", "first", "in_image", "unavailable", "values")

    def __init__(self, first: tuple[Position, int]) -> None:
        self.first = first
        """Where it was seen or declared first, and its place there."""
        self.values = Values()
        self.declared: dict[Declared, tuple[Position, Position]] = {}
        """Each declaration with its first and its last position."""
        self.in_image = False
        """False for what only keys have."""
        self.afters = 0
        """In how many images after a change it has a value."""
        self.unavailable = 0
        """How many values Debezium could not read."""

    def declare(self, declared: Declared, first: Position, last: Position) -> None:
        """Note that a schema between two positions has it."""
        known = self.declared.get(declared, (first, last))
        self.declared[declared] = (min(known[0], first), max(known[1], last))

    def types(self) -> list[str | None]:
        """The types that schemas declared, in the order of their last messages."""
        newest_last = sorted(self.declared.items(), key=lambda item: item[1][1])
        return [declared.type for declared, _ in newest_last]

    def merge(self, other: "Column") -> None:
        """Take over what was seen elsewhere."""
        self.first = min(self.first, other.first)
        self.values.merge(other.values)
        for declared, (first, last) in other.declared.items():
            self.declare(declared, first, last)
        self.in_image |= other.in_image
        self.afters += other.afters
        self.unavailable += other.unavailable


class TableProfile:
    """All that the messages say about one source table."""

    __slots__ = (
        "afters",
        "blocks",
        "columns",
        "events",
        "formats",
        "images",
        "keyless",
        "keys",
        "schemas",
        "topics",
    )

    def __init__(self) -> None:
        self.blocks: dict[Block, tuple[Position, Position]] = {}
        """Schema blocks with their first and last position, until ``settle``."""
        self.events = 0
        self.images = 0
        """How many row images there were."""
        self.afters = 0
        """How many of them show a row after a change: those are whole."""
        self.formats: set[str] = set()
        self.topics: set[str] = set()
        self.columns: dict[str, Column] = {}
        self.keys: dict[tuple[str, ...], Position] = {}
        """The names of the keys' fields, and where such a key was last."""
        self.keyless = 0
        """How many changes of a row came without a key."""
        self.schemas: dict[tuple[str, ...], Position] = {}
        """The columns of each schema version in its order, and where it was last."""

    def column(self, name: str, position: Position, place: int) -> Column:
        """The column of a field, made if it is new."""
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Column((position, place))
        elif (position, place) < column.first:
            column.first = (position, place)
        return column

    def declare(self, block: "Block", position: Position) -> None:
        """Note that a message has a schema block."""
        first, last = self.blocks.get(block, (position, position))
        self.blocks[block] = (min(first, position), max(last, position))

    def settle(self) -> None:
        """Turn the noted blocks into what they say about the columns."""
        for block, (first, last) in self.blocks.items():
            for place, (name, declarations) in enumerate(block.columns.items()):
                column = self.column(name, first, place)
                column.in_image |= block.is_image
                for declared in declarations:
                    column.declare(declared, first, last)
            if block.is_image:
                names = tuple(block.columns)
                self.schemas[names] = max(self.schemas.get(names, last), last)
        self.blocks.clear()

    def merge(self, other: "TableProfile") -> None:
        """Take over what was seen elsewhere."""
        self.events += other.events
        self.images += other.images
        self.afters += other.afters
        self.formats |= other.formats
        self.topics |= other.topics
        self.keyless += other.keyless
        for name, column in other.columns.items():
            known = self.columns.get(name)
            if known is None:
                self.columns[name] = column
            else:
                known.merge(column)
        for mine, theirs in ((self.keys, other.keys), (self.schemas, other.schemas)):
            for names, position in theirs.items():
                mine[names] = max(mine.get(names, position), position)

    def ordered_columns(self) -> list[str]:
        """Fields as the newest schema has them, then the others as they came."""
        newest = max(self.schemas, key=lambda names: self.schemas[names], default=())
        place = {name: index for index, name in enumerate(newest)}
        return sorted(
            self.columns,
            key=lambda name: (place.get(name, len(place)), self.columns[name].first),
        )


class TopicProfile:
    """The tables of a topic, and what else was in it."""

    def __init__(self) -> None:
        self.messages = 0
        self.tables: dict[TableId, TableProfile] = {}
        self.errors: Counter[str] = Counter()
        """Payloads that can't be decoded, by error code."""
        self.error_example = ""

    def add(
        self, format_name: str, key: bytes | None, value: bytes | None, position: Position
    ) -> None:
        """Take one message into account."""
        self.messages += 1
        is_aerospike = format_name in AEROSPIKE
        for event in decode_payload(format_name, key, value):
            if event.operation == INVALID:
                self.errors[event.error_code or ""] += 1
                self.error_example = self.error_example or (event.error_detail or "")
                continue
            if event.operation not in _ROW_OPERATIONS and event.operation != TRUNCATE:
                continue
            table = self._table(event, format_name, position, is_aerospike)
            if is_aerospike:
                _add_bins(table, event, position)
                continue
            for text, is_image in ((value, True), (key, False)):
                block = _block_of(text, is_image)
                if block is not None:
                    table.declare(block, position)
            if event.operation != TRUNCATE:
                _add_row(table, event, position)

    def _table(
        self, event: Event, format_name: str, position: Position, is_aerospike: bool
    ) -> TableProfile:
        table_id = TableId(
            event.source_database, event.source_schema, event.source_table, is_aerospike
        )
        table = self.tables.get(table_id)
        if table is None:
            table = self.tables[table_id] = TableProfile()
        table.events += 1
        table.formats.add(format_name)
        table.topics.add(position.topic)
        return table

    def settle(self) -> None:
        """Make the profile complete: before it is merged or read."""
        for table in self.tables.values():
            table.settle()

    def merge(self, other: "TopicProfile") -> None:
        """Take over what was seen elsewhere."""
        self.messages += other.messages
        self.errors.update(other.errors)
        self.error_example = self.error_example or other.error_example
        for table_id, table in other.tables.items():
            known = self.tables.get(table_id)
            if known is None:
                self.tables[table_id] = table
            else:
                known.merge(table)


# --- Rows -----------------------------------------------------------------------------------------


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = _DECODER.decode(text)
    except json_text.FAILURES:
        fields = json_text.parse_slowly(text, msgspec.Raw)
    if type(fields) is not dict:
        raise TypeError("a decoder's images and keys are objects")
    return fields


def _add_row(table: TableProfile, event: Event, position: Position) -> None:
    for image in (event.before, event.after):
        if image is not None:
            table.images += 1
            fields = _object(image)
            _add_fields(table, fields, position, in_image=True)
            if image is event.after:
                table.afters += 1
                for name, value in fields.items():
                    table.columns[name].afters += value is not None
    if event.record_key is None:
        table.keyless += 1
        return
    key = _object(event.record_key)
    names = tuple(key)
    table.keys[names] = max(table.keys.get(names, position), position)
    _add_fields(table, key, position, in_image=False)


def _add_fields(
    table: TableProfile, fields: dict[str, Any], position: Position, in_image: bool
) -> None:
    for place, (name, value) in enumerate(fields.items()):
        column = table.column(name, position, place)
        column.in_image |= in_image
        if value == UNAVAILABLE:
            column.unavailable += 1
        elif value is not None:
            column.values.add(value)


# --- Aerospike's bins -----------------------------------------------------------------------------

# What metadata.bins calls a bin's type, in MessagePack and in JSON. Lists, maps and GeoJSON are
# left to their values, and a nil says nothing.
_BIN_TYPES: Final[dict[Any, Declared]] = {
    1: Declared("INTEGER", "bigint"),
    2: Declared("DOUBLE", "double"),
    3: Declared("STRING", "string"),
    4: Declared("BLOB", "binary"),
    7: Declared("JAVA OBJ", "binary"),
    17: Declared("BOOLEAN", "boolean"),
    18: Declared("HLL", "binary"),
    19: Declared("MAP", None),
    20: Declared("LIST", None),
    23: Declared("GEOJSON", "string"),
    "int": Declared("int", "bigint"),
    "float": Declared("float", "double"),
    "str": Declared("str", "string"),
    "blob": Declared("blob", "binary"),
    "bool": Declared("bool", "boolean"),
    "map": Declared("map", None),
    "list": Declared("list", None),
    "geojson": Declared("geojson", "string"),
}


def _add_bins(table: TableProfile, event: Event, position: Position) -> None:
    if event.after is None:
        return
    table.images += 1
    after = _object(event.after)
    notes = _object(event.metadata)["bins"] if event.metadata is not None else {}
    for place, (name, value) in enumerate(after.items()):
        column = table.column(name, position, place)
        column.in_image = True
        note = notes.get(name, {})
        nested = note.get("nested", {})
        declared = _BIN_TYPES.get(note.get("type"))
        if nested == {"$": "bin"}:
            # Of a particle type that no page lists (Python's and others' serialized objects).
            declared, nested = Declared(f"type {note['type']}", "binary"), {}
        if declared is not None:
            column.declare(declared, position, position)
        if value is not None:
            column.values.add(value)
            # Binary values in a list look like text; NaN among numbers is one of them.
            if any(kind != "float" for kind in nested.values()):
                column.values.opaque = True


# --- Connect's schema blocks ----------------------------------------------------------------------


class _Wrapper(msgspec.Struct):
    """A message's schema block as text, its payload passed over."""

    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_WRAPPER: Final = msgspec.json.Decoder(_Wrapper)
_BLOCK: Final = msgspec.json.Decoder()
_MAX_CACHED: Final = 2048

_LOGICAL_TYPES: Final[dict[str, str]] = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "string",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "string",
    "io.debezium.time.MicroTime": "string",
    "io.debezium.time.NanoTime": "string",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "string",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTime": "string",
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "io.debezium.time.MicroDuration": "string",
    "io.debezium.time.NanoDuration": "string",
    "io.debezium.data.VariableScaleDecimal": "string",
}
_PLAIN_TYPES: Final[dict[str, str]] = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "float32": "double",
    "float64": "double",
    "float": "double",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
    "struct": "string",
}


def declared_type(block: Any) -> Declared:
    """What a column's schema block says, the type of its values as ``connect_types`` makes them."""
    if type(block) is not dict:
        return Declared("", None)
    type_name, name = block.get("type"), block.get("name")
    parameters = block.get("parameters")
    if type(parameters) is not dict:
        parameters = {}
    shown = f"`{type_name}`"
    if type(name) is str:
        shown += f", `{name}`"
    # The connectors' column.propagate.source.type.
    source_type = parameters.get("__debezium.source.column.type")
    if type(source_type) is str:
        shown = f"`{source_type}`, shipped as {shown}"
    return Declared(shown, _type_of_block(type_name, name, block, parameters))


def _type_of_block(
    type_name: Any, name: Any, block: dict[str, Any], parameters: dict[str, Any]
) -> str | None:
    if name == "org.apache.kafka.connect.data.Decimal":
        return _type_of_decimal(parameters)
    if type(name) is str and name in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[name]
    if type_name == "array":
        return _type_of_parts("array<{}>", block.get("items"))
    if type_name == "map":
        keys = block.get("keys")
        if type(keys) is dict and keys.get("type") == "string":
            return _type_of_parts("map<string,{}>", block.get("values"))
        # Its entries are shipped as pairs.
        return "string"
    return _PLAIN_TYPES.get(type_name) if type(type_name) is str else None


def _type_of_decimal(parameters: dict[str, Any]) -> str | None:
    scale = _whole(parameters.get("scale"))
    precision = _whole(parameters.get("connect.decimal.precision"))
    if scale is None:
        return None
    if scale < 0:
        return "string" if precision is None else decimal_type(precision - scale, 0)
    return decimal_type(38 if precision is None else precision, scale)


def _whole(value: Any) -> int | None:
    if type(value) is str and value.lstrip("-").isdecimal() and len(value) < 8:
        return int(value)
    return value if type(value) is int else None


def _type_of_parts(form: str, block: Any) -> str | None:
    if type(block) is not dict or block.get("type") in ("struct", "array", "map"):
        return "string"
    part = declared_type(block).type
    return None if part is None else form.format(part)


class Block:
    """The columns that a message's schema block declares, each in one or more ways. One that comes
    again is the same object.
    """

    __slots__ = ("columns", "is_image")

    def __init__(self, columns: dict[str, tuple[Declared, ...]], is_image: bool) -> None:
        self.columns = columns
        self.is_image = is_image
        """False for a key's."""


_cached: dict[tuple[bytes, bool], Block] = {}


def _block_of(text: bytes | None, is_image: bool) -> Block | None:
    """The schema block of a JsonConverter text, None if it has none."""
    if not text or not text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    try:
        raw = _WRAPPER.decode(text.removeprefix(b"\xef\xbb\xbf")).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A key that is no JSON, or a text so unusual that only the decoder's slow path reads it.
        return None
    if raw is msgspec.UNSET:
        return None
    schema = bytes(raw)
    block = _cached.get((schema, is_image))
    if block is None:
        block = Block(_declared_columns(schema, is_image), is_image)
        if len(_cached) >= _MAX_CACHED:
            _cached.clear()
        _cached[schema, is_image] = block
    return block if block.columns else None


def _declared_columns(schema: bytes, is_image: bool) -> dict[str, tuple[Declared, ...]]:
    found: dict[str, tuple[Declared, ...]] = {}
    try:
        whole = _BLOCK.decode(schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    for block in _image_blocks(whole) if is_image else [whole]:
        for field in _fields(block):
            declared = declared_type(field)
            name = field["field"]
            known = found.get(name, ())
            found[name] = known if declared in known else (*known, declared)
    return found


def _image_blocks(schema: Any) -> list[Any]:
    return [field for field in _fields(schema) if field["field"] in ("before", "after")]


def _fields(block: Any) -> list[Any]:
    fields = block.get("fields") if type(block) is dict else None
    if type(fields) is not list:
        return []
    return [each for each in fields if type(each) is dict and type(each.get("field")) is str]
