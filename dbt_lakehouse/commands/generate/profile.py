"""The profile of a topic's events: its tables, their columns, keys and types.

A ``TopicProfile`` is made from messages, one by one, and the profiles of parts are merged;
nothing in it grows with the number of events. It is pure Python: Spark only distributes the
messages (``scan``).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.commands.generate.key_evidence import KeyEvidence, add_truncate
from dbt_lakehouse.commands.generate.schema_blocks import Block, Declared, Holds, block_of
from dbt_lakehouse.commands.generate.source_order import order_said
from dbt_lakehouse.commands.generate.values import Values
from python_udfs.binlog.canal import is_binary
from python_udfs.binlog.labels import Labels, has_labels, labels_of
from python_udfs.core.events import (
    CHANGES,
    DELETE,
    INVALID,
    TRUNCATE,
    UPDATE,
    Event,
    Headers,
)
from python_udfs.core.row_images import PARTIAL
from python_udfs.debezium.avro import schema_message
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.registry import (
    AEROSPIKE_FORMATS,
    AVRO_FORMATS,
    NULL_DELETES,
    UNWRAPPED_FORMATS,
    decode_payload,
)
from python_udfs.text import json_text
from python_udfs.typed.images import is_of_document

_DECODER: Final = msgspec.json.Decoder(float_hook=msgspec.Raw)
_MAX_PARTS: Final = 64
_MAX_EVIDENCE: Final = 8
# In these formats an update never changes a row's key.
_KEYS_STAY: Final = frozenset({"debezium_json", "debezium_avro"})


NO_TIME: Final = -(2**63)
"""The timestamp of a message without one: before all others."""


class Position(NamedTuple):
    """The place of a message. It compares in the log's order, unless timestamps go back."""

    timestamp: int
    """Microseconds since the epoch, or ``NO_TIME``."""
    topic: str
    partition: int
    offset: int


class TableId(NamedTuple):
    """The source table of an event; for Aerospike, namespace and set."""

    database: str | None
    schema: str | None
    table: str | None
    is_aerospike: bool = False

    @property
    def order(self) -> tuple[tuple[bool, str], ...]:
        """A sort key for tables, even if their names differ only in missing parts."""
        return tuple((part is not None, part or "") for part in self[:3])

    def __str__(self) -> str:
        if self.is_aerospike:
            return f"{self.schema}.{self.table}" if self.table else f"{self.schema} (no set)"
        return ".".join(part for part in self[:3] if part) or "(no table)"


@dataclass(slots=True, eq=False)
class Column:
    """A field of a table's row images and keys."""

    first: tuple[Position, int]
    """The position at which it first appeared or was declared, and its index there."""
    values: Values = field(default_factory=Values)
    declared: dict[Declared, tuple[Position, Position]] = field(default_factory=dict)
    """Each declaration with its first and its last position."""
    in_image: bool = False
    """False for a field that only keys have."""
    afters: int = 0
    """The number of images after a change in which it has a value."""
    unavailable: int = 0
    """The number of changes that leave it unchanged without giving its value."""
    defaulted: int = 0
    """The number of rows after a change in which it may be null, and has its schema's default."""

    def declare(self, declared: Declared, first: Position, last: Position) -> None:
        """Record a declaration between two positions."""
        known = self.declared.get(declared, (first, last))
        self.declared[declared] = (min(known[0], first), max(known[1], last))

    def types(self) -> list[str | None]:
        """The types that schemas declared, in the order of their last messages."""
        newest_last = sorted(self.declared.items(), key=lambda item: item[1][1])
        return [declared.type for declared, _ in newest_last]

    def merge(self, other: "Column") -> None:
        """Add the values of another part."""
        self.first = min(self.first, other.first)
        self.values.merge(other.values)
        for declared, (first, last) in other.declared.items():
            self.declare(declared, first, last)
        self.in_image |= other.in_image
        self.afters += other.afters
        self.unavailable += other.unavailable
        self.defaulted += other.defaulted


@dataclass(slots=True, eq=False)
class TableProfile:
    """The profile of one source table."""

    blocks: dict[Block, tuple[Position, Position]] = field(default_factory=dict)
    """Schema blocks with their first and last position, until ``settle``."""
    events: int = 0
    images: int = 0
    """The number of row images."""
    afters: int = 0
    """The number of images after a change, which are complete."""
    formats: set[str] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    orders: set[str | None] = field(default_factory=set)
    """The source orders in which its events give their places, None for none."""
    columns: dict[str, Column] = field(default_factory=dict)
    keys: dict[tuple[str, ...], Position] = field(default_factory=dict)
    """The names of the keys' fields, and the last position with such a key."""
    evidence: dict[tuple[str, ...], KeyEvidence] = field(default_factory=dict)
    truncates: list[tuple[Any, ...]] = field(default_factory=list)
    """The first positions of truncates."""
    keyless: int = 0
    """The number of row changes without a key."""
    whole_updates: int = 0
    """The number of updates that have the row before them."""
    without_before: int = 0
    """The number of updates and deletes that lack it."""
    snapshots_begun: int = 0
    snapshots_ended: int = 0
    """The number of events that are marked as the first, or the last, of a snapshot of
    the table.
    """
    labels: dict[tuple[str, Labels], None] = field(default_factory=dict)
    """Columns of labels (ENUM, SET), with the known facts about them."""
    parts: set[str] = field(default_factory=set)
    """Paths inside of fields that updates have changed, a sample."""
    schemas: dict[tuple[str, ...], Position] = field(default_factory=dict)
    """The columns of each schema version in its order, and its last position."""

    def column(self, name: str, position: Position, place: int) -> Column:
        """The column of a field, created if it is new."""
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = Column((position, place))
        elif (position, place) < column.first:
            column.first = (position, place)
        return column

    def declare(self, block: Block, position: Position) -> None:
        """Record a message's schema block."""
        first, last = self.blocks.get(block, (position, position))
        self.blocks[block] = (min(first, position), max(last, position))

    def settle(self) -> None:
        """Turn the recorded blocks into declarations of the columns."""
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
        """Add the profile of another part."""
        self.events += other.events
        self.images += other.images
        self.afters += other.afters
        self.formats |= other.formats
        self.topics |= other.topics
        self.orders |= other.orders
        self.keyless += other.keyless
        self.whole_updates += other.whole_updates
        self.without_before += other.without_before
        self.snapshots_begun += other.snapshots_begun
        self.snapshots_ended += other.snapshots_ended
        self.labels |= other.labels
        self.parts |= other.parts
        for name, column in other.columns.items():
            known = self.columns.get(name)
            if known is None:
                self.columns[name] = column
            else:
                known.merge(column)
        for names, evidence in other.evidence.items():
            if names in self.evidence or len(self.evidence) < _MAX_EVIDENCE:
                self.evidence.setdefault(names, KeyEvidence()).merge(evidence)
        for position in other.truncates:
            add_truncate(self.truncates, position)
        for mine, theirs in ((self.keys, other.keys), (self.schemas, other.schemas)):
            for names, position in theirs.items():
                mine[names] = max(mine.get(names, position), position)

    def ordered_columns(self) -> list[str]:
        """Fields in the order of the newest schema, then the others in order of appearance."""
        newest = max(self.schemas, key=lambda names: self.schemas[names], default=())
        place = {name: index for index, name in enumerate(newest)}
        return sorted(
            self.columns,
            key=lambda name: (place.get(name, len(place)), self.columns[name].first),
        )


class TopicProfile:
    """The tables of a topic, and everything else in it."""

    def __init__(self) -> None:
        self.messages = 0
        self.tables: dict[TableId, TableProfile] = {}
        self.errors: Counter[str] = Counter()
        """Payloads that can't be decoded, by error code."""
        self.error_example = ""

    @property
    def undecodable(self) -> str | None:
        """A note on undecodable messages; None without any."""
        if not self.errors:
            return None
        errors = ", ".join(f"{count} {code}" for code, count in sorted(self.errors.items()))
        return (
            f"payloads that can't be decoded say nothing here: {errors} (such as:"
            f" {self.error_example}). A build quarantines them: `lakehouse quarantine`"
        )

    def add(
        self,
        format_name: str,
        key: bytes | None,
        value: bytes | None,
        position: Position,
        headers: Headers | None = None,
    ) -> None:
        """Record one message."""
        self.messages += 1
        is_aerospike = format_name in AEROSPIKE_FORMATS
        for event in decode_payload(format_name, key, value, headers):
            if event.operation == INVALID:
                self.errors[event.error_code or ""] += 1
                self.error_example = self.error_example or (event.error_detail or "")
                continue
            if event.operation not in CHANGES or _is_null_value(format_name, event):
                continue
            table = self._table(event, format_name, position, is_aerospike)
            if is_aerospike:
                _add_bins(table, event, position)
                continue
            bson = _bson(event)
            defaults: dict[str, Any] = {}
            of_value = Holds.ROW if format_name in UNWRAPPED_FORMATS else Holds.ENVELOPE
            # The blocks of MongoDB's messages only say that documents are text.
            for text, holds in ((value, of_value), (key, Holds.KEY)) if bson is None else ():
                if format_name in AVRO_FORMATS:
                    text = schema_message(text)
                block = block_of(text, holds)
                if block is not None:
                    table.declare(block, position)
                    defaults |= block.defaults
            if event.operation == TRUNCATE:
                add_truncate(table.truncates, (*position, event.event_index))
            else:
                _add_row(table, event, position, format_name, defaults)
                if bson is not None:
                    _declare_bson(table, bson, position)
                if format_name == "canal_json":
                    _declare_types(table, event, position)

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
        is_envelope = format_name in _KEYS_STAY
        table.orders.add(order_said(event.metadata) if is_envelope else None)
        return table

    def settle(self) -> None:
        """Complete the profile, before it is merged or read."""
        for table in self.tables.values():
            table.settle()

    def merge(self, other: "TopicProfile") -> None:
        """Add the profile of another part."""
        self.messages += other.messages
        self.errors.update(other.errors)
        self.error_example = self.error_example or other.error_example
        for table_id, table in other.tables.items():
            known = self.tables.get(table_id)
            if known is None:
                self.tables[table_id] = table
            else:
                known.merge(table)


def _is_null_value(format_name: str, event: Event) -> bool:
    """Whether an event is a null value that deletes a row: it does not tell the table, which may
    have another name in rows.
    """
    is_row = event.before is not None or event.operation != DELETE
    # A change event that deletes names its table.
    is_null = format_name in UNWRAPPED_FORMATS or event.source_table is None
    return format_name in NULL_DELETES and not is_row and is_null


# --- Rows -----------------------------------------------------------------------------------------


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = _DECODER.decode(text)
    except json_text.FAILURES:
        fields = json_text.parse_slowly(text, msgspec.Raw)
    if type(fields) is not dict:
        raise TypeError("a decoder's images and keys are objects")
    return fields


def _add_row(
    table: TableProfile,
    event: Event,
    position: Position,
    format_name: str,
    defaults: Mapping[str, Any],
) -> None:
    metadata = event.metadata or b""
    table.snapshots_begun += b'"snapshot":"first' in metadata
    table.snapshots_ended += b'"snapshot":"last' in metadata
    if event.operation in (UPDATE, DELETE):
        table.without_before += event.before is None
        table.whole_updates += event.operation == UPDATE and event.before is not None
    images = []
    for image in (event.before, event.after):
        if image is not None:
            table.images += 1
            fields = _object(image)
            images.append(fields)
            partial = fields.pop(PARTIAL, None) if is_of_document(event.record_key) else None
            if partial and len(table.parts) < _MAX_PARTS:
                table.parts.update(path for part in partial.values() for path in part)
            _add_fields(table, fields, position, in_image=True)
            if image is event.after and partial is None:
                table.afters += 1
                for name, value in fields.items():
                    table.columns[name].afters += value is not None
                    if name in defaults and type(value) is not msgspec.Raw:
                        table.columns[name].defaulted += value == defaults[name]
    if event.record_key is None:
        table.keyless += 1
        return
    key = _object(event.record_key)
    names = tuple(key)
    table.keys[names] = max(table.keys.get(names, position), position)
    _add_fields(table, key, position, in_image=False)
    if names in table.evidence or len(table.evidence) < _MAX_EVIDENCE:
        evidence = table.evidence.setdefault(names, KeyEvidence())
        place = (*position, event.event_index)
        evidence.add(event, place)
        if event.operation == UPDATE and len(images) == 2 and format_name in _KEYS_STAY:
            evidence.add_update(event, names, (images[0], images[1]), place)


def _declare_types(table: TableProfile, event: Event, position: Position) -> None:
    """Record Canal's base64 columns, which look like text, and columns with labels."""
    metadata = _object(event.metadata or b"{}")
    types, sql_types = (metadata.get(name) or {} for name in ("mysqlType", "sqlType"))
    for name, declared in types.items():
        if name not in table.columns or type(declared) is not str:
            continue
        if is_binary(declared):
            table.columns[name].declare(Declared(declared, "binary"), position, position)
        elif has_labels(declared):
            table.labels[name, labels_of(declared, sql_types.get(name))] = None


# The types that MongoDB's types become; those of decimals follow from the values.
_BSON_TYPES: Final = {
    "objectId": "string",
    "date": "timestamp",
    "double": "double",
    "long": "bigint",
    "symbol": "string",
    "javascript": "string",
    "regex": "string",
    "decimal": None,
    "int": "int",
}
_BINARY: Final = "binData"


def _bson(event: Event) -> dict[str, Any] | None:
    """The types of the documents of a MongoDB event; None for any other."""
    if b'"bson":' not in (event.metadata or b""):
        return None
    found = _object(event.metadata or b"{}").get("bson")
    return found if type(found) is dict else None


def _declare_bson(table: TableProfile, bson: dict[str, Any], position: Position) -> None:
    """Record the types of documents' fields."""
    for types in bson.values():
        for name, told in types.items() if type(types) is dict else ():
            if name not in table.columns or type(told) is not str:
                continue
            is_binary = told.startswith(_BINARY)
            if is_binary or told in _BSON_TYPES:
                type_name = "binary" if is_binary else _BSON_TYPES[told]
                table.columns[name].declare(Declared(f"`{told}`", type_name), position, position)


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

# The names of a bin's type in metadata.bins, in MessagePack and in JSON. The types of lists, maps
# and GeoJSON follow from the values, and a nil has none.
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
    # Flat JSON does not tell the type of most bins.
    notes = _object(event.metadata).get("bins", {}) if event.metadata is not None else {}
    for place, (name, value) in enumerate(after.items()):
        column = table.column(name, position, place)
        column.in_image = True
        note = notes.get(name, {})
        nested = note.get("nested", {})
        declared = _BIN_TYPES.get(note.get("type"))
        if nested == {"$": "bin"}:
            # A particle type outside of the documentation (serialized objects of Python and
            # others).
            declared, nested = Declared(f"type {note['type']}", "binary"), {}
        if declared is not None:
            column.declare(declared, position, position)
        if value is not None:
            column.values.add(value)
            # Binary values in a list look like text, and NaN counts as a number.
            if any(kind != "float" for kind in nested.values()):
                column.values.opaque = True
