"""Layouts of the Debezium family's messages: their common part, and decoders made for it.

A shape has a message's names, and the source's names of the table. Names may be absent, so shapes
of messages of one table are merged into one, with the names of both. Types come from the schema
block. All messages of a table have the same bytes before the payload, including the schema block:
their prefix. A shape may also leave open which columns images have, in which order: then they are
dicts.

    {"schema":{"type":"struct","fields":[...]},"payload":{"before":null,"after":{...},...}}
    |---------------------- prefix ----------------------|----------- payload ------------|

The images' declared types become types that their decoder checks; columns whose values need a
conversion are then converted one after the other, by the converters that ``envelope`` uses.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypedDict

import msgspec
from msgspec import Raw, UnsetType

from python_udfs.core.events import DELETE, INSERT, SNAPSHOT, UPDATE
from python_udfs.debezium import cells
from python_udfs.debezium.envelope import NOTES
from python_udfs.debezium.source_block import COLLECTION, DATABASES, SCHEMAS, TABLES, location
from python_udfs.debezium.types import NOTHING, Schema, schema_of
from python_udfs.text.json_lines import FAILURES
from python_udfs.text.structs import merged_names, shared_struct_of, struct_of

OPERATIONS: Final = {"r": SNAPSHOT, "c": INSERT, "u": UPDATE, "d": DELETE}
IMAGES: Final = ("before", "after")
# Not a set: an op that was sent may be an object, which has no hash.
_OPS: Final = tuple(OPERATIONS)
# Fields of a source block that identify the table.
_PLACE: Final = ("connector", *DATABASES, *SCHEMAS, *TABLES, COLLECTION)
# Possible names of a wrapper's fields, and metadata's own names.
_TAKEN: Final = NOTES | {"schema", "payload"}
# For fields that are not columns. An object or array is not plain there: it may be too deep.
_SCALAR: Final = str | int | bool | None

# An update's fields in MongoDB: nothing in them can be deep.
_UPDATE: Final = dict[str, str | list[str | dict[str, str | int]] | None]
_KEY_OF_DOCUMENT: Final = ("id",)

_load = msgspec.json.Decoder(dict[str, Any], float_hook=Raw).decode

_MAX_NAMES: Final = 2000


class Shape(NamedTuple):
    """The names of a message's parts, in their order, and the source's names of the table."""

    key: tuple[str, ...] | None
    place: tuple[tuple[str, str | None], ...]
    """Fields of the source, each with its value."""
    envelope: tuple[str, ...]
    source: tuple[str, ...]
    transaction: tuple[str, ...]
    """Empty if no message has had one yet; the same for images."""
    before: tuple[str, ...]
    after: tuple[str, ...]
    any_columns: bool = False
    """Whether images may have any columns in any order; none are listed then."""

    @property
    def of_mongodb(self) -> bool:
        """Whether images are documents kept as text, so the layout lists no field names."""
        return any(name == "collection" for name, _ in self.place)

    @property
    def connector(self) -> str | None:
        """The source's connector; None if it names none."""
        return dict(self.place).get("connector")

    @property
    def names(self) -> int:
        return sum(map(len, self._parts))

    @property
    def _parts(self) -> tuple[tuple[str, ...], ...]:
        return self.envelope, self.source, self.transaction, self.before, self.after

    def with_any_columns(self) -> "Shape":
        """The same shape for images of any columns."""
        return self._replace(before=(), after=(), any_columns=True)

    def merged(self, other: "Shape") -> "Shape | None":
        """The common shape of messages of both; None without one."""
        if self[:2] != other[:2]:
            return None
        if self.any_columns != other.any_columns:
            return self.with_any_columns().merged(other.with_any_columns())
        parts = []
        for names, more in zip(self._parts, other._parts, strict=True):
            of_both = merged_names(names, more)
            if of_both is None:
                return None
            parts.append(of_both)
        envelope, source, transaction, before, after = parts
        shape = Shape(*self[:2], envelope, source, transaction, before, after, self.any_columns)
        return shape if shape.names <= _MAX_NAMES else None


Converters = Sequence[tuple[str, Schema]]
"""Attributes of a row's Struct, or names of a dict, whose values are converted, and their
converters.
"""


class _Row(NamedTuple):
    """A row of columns as an image or a key."""

    struct: Any
    """Its type: a Struct, or of dicts."""
    converters: Converters
    nothing: Any
    """An image that lacks all columns; None if it may not."""


class Layout:
    """The decoders of a shape, and the common part of its messages' events."""

    __slots__ = (
        "change",
        "key",
        "key_decoder",
        "metadata",
        "of_envelope",
        "of_source",
        "prefixes",
        "rows",
        "schema_name",
        "shape",
        "structs",
        "where",
    )

    def __init__(
        self,
        shape: Shape,
        key_prefix: bytes,
        prefix: bytes,
        text_values: bool = False,
        may_lack: bool = True,
    ) -> None:
        """``may_lack``: images may lack columns, and the other parts some names.

        Raises ``ValueError`` if messages of that shape can't be plain.
        """
        key_schema = _schema(key_prefix, text_values)
        schema = _schema(prefix, text_values)
        place = dict(shape.place)
        source = struct_of(
            {
                name: type(None)
                if name in place and place[name] is None
                else Literal[place[name]]
                if name in place
                else (int | None if name == "ts_ms" else _SCALAR) | UnsetType
                for name in shape.source
            },
            may_lack,
        )
        self.rows: dict[str, _Row] = {}
        """The rows of images."""
        if not shape.of_mongodb:
            self.rows = {
                name: _any_row(declared) if shape.any_columns else _row(columns, declared, may_lack)
                for name, columns, declared in (
                    ("before", shape.before, schema.before),
                    ("after", shape.after, schema.after),
                )
            }
        types: dict[str, Any] = dict.fromkeys(shape.envelope, _SCALAR | UnsetType)
        if shape.of_mongodb:
            types |= dict.fromkeys(IMAGES, str | None | UnsetType)
            types["updateDescription"] = _UPDATE | None | UnsetType
        types |= {name: row.struct | None | UnsetType for name, row in self.rows.items()}
        types |= {"op": Literal["r", "c", "u", "d"], "source": source}
        transaction = shared_struct_of(
            dict.fromkeys(shape.transaction, _SCALAR | UnsetType), may_lack
        )
        for name, known in (("transaction", transaction | None), ("ts_ms", int | None)):
            if name in types:
                types[name] = known | UnsetType
        self.shape = shape
        self.prefixes = key_prefix, prefix
        self.key = None if shape.key is None else _row(shape.key, key_schema, False)
        self.key_decoder = msgspec.json.Decoder(
            Any if self.key is None else self.key.struct, float_hook=Raw
        )
        change = struct_of({name: types[name] for name in shape.envelope}, may_lack)
        self.change = msgspec.json.Decoder(change, float_hook=Raw)
        self.structs: dict[tuple[str, ...], type[msgspec.Struct]] = {
            (): change,
            ("source",): source,
            ("transaction",): transaction,
            **{(name,): row.struct for name, row in self.rows.items()},
        }
        """The Structs of the parts with names, by path; by index, if no name may be absent."""
        self.of_envelope = {name: f"f{index}" for index, name in enumerate(shape.envelope)}
        self.of_source = {name: f"f{index}" for index, name in enumerate(shape.source)}
        self.schema_name = schema.name
        self.where = location("$", place)
        named = [
            *["event_key"] * (shape.key is not None),
            *(name for name in ("connector", "snapshot") if name in shape.source),
            *(name for name in shape.envelope if name not in (*IMAGES, "op")),
            *["schema_name"] * (schema.name is not None),
            *["bson"] * shape.of_mongodb,
        ]
        self.metadata = shared_struct_of(dict.fromkeys(named, Any), False)


def _schema(prefix: bytes, text_values: bool) -> Schema:
    """The compiled schema block of a prefix, which may be empty. Raises ``ValueError``."""
    schema = schema_of(prefix, text_values) if prefix else NOTHING
    if schema is None:
        raise ValueError
    return schema


def shape_of(key: bytes | None, value: bytes, *, may_have_cells: bool = True) -> Shape | None:
    """The shape of a message's payloads; None if they aren't plain. ``may_have_cells`` as in
    ``envelope.read_content``.
    """
    try:
        fields = _load(value)
        key_fields = None if key is None else _load(key)
    except FAILURES:
        return None
    source, transaction = fields.get("source"), fields.get("transaction")
    before, after = fields.get("before"), fields.get("after")
    if type(source) is not dict:
        return None
    of_mongodb = "collection" in source
    image = str if of_mongodb else dict
    table = (COLLECTION,) if of_mongodb else TABLES
    if (
        not _TAKEN.isdisjoint(fields)
        or fields.get("op") not in _OPS
        or not all(part is None or type(part) is image for part in (before, after))
        or not (transaction is None or type(transaction) is dict)
        or (key_fields is not None and (not key_fields or not _TAKEN.isdisjoint(key_fields)))
        or (
            of_mongodb
            and ("table" in source or tuple(key_fields or _KEY_OF_DOCUMENT) != _KEY_OF_DOCUMENT)
        )
        or not any(type(source.get(name)) is str for name in table)
        or any(source.get(name) is not None and type(source[name]) is not str for name in _PLACE)
        or (may_have_cells and _may_have_cells(source.get("connector"), key_fields, before, after))
    ):
        return None
    return Shape(
        None if key_fields is None else tuple(sorted(key_fields)),
        tuple((name, sent) for name, sent in source.items() if name in _PLACE),
        tuple(fields),
        tuple(source),
        tuple(transaction or ()),
        () if of_mongodb else tuple(before or ()),
        () if of_mongodb else tuple(after or ()),
    )


def _may_have_cells(connector: str | None, key: Any, *images: Any) -> bool:
    """Whether a message may be of cells, which are not single values."""
    if connector is not None:
        connector = connector.lower()
        # No other key of such a table is plain either, see ``fast_envelopes._rows_of_columns``.
        is_fork = connector == cells.POSTGRESQL and cells.are_pairs(key)
        return is_fork or connector in cells.CONNECTORS
    return any(type(image) is dict and cells.are_cells(image) for image in images)


def mixed(shapes: Sequence[Shape]) -> Shape | None:
    """The shape of messages of all these and of others like them, whatever their images' columns;
    None without one.
    """
    first, *others = shapes
    if first.of_mongodb:
        return None
    shape: Shape | None = first.with_any_columns()
    for other in others:
        shape = None if shape is None else shape.merged(other)
    return shape


def _row(columns: tuple[str, ...], schema: Schema | None, may_lack: bool) -> _Row:
    """A row of those columns. Raises ``ValueError`` if it is declared as something else."""
    if schema is None:
        schema = NOTHING
    if not schema.is_row:
        raise ValueError
    types: dict[str, Any] = {}
    converters = []
    for place, name in enumerate(columns):
        declared = schema.fields.get(name, NOTHING)
        # Not Raw: that would be encoded as it was sent, whatever it is.
        types[name] = Any if declared.kept is None else declared.kept
        if may_lack and types[name] is not Any:
            types[name] |= UnsetType
        if declared.kept is None:
            converters.append((f"f{place}", declared))
    struct = shared_struct_of(types, may_lack)
    return _Row(struct, converters, struct() if may_lack else None)


def _any_row(schema: Schema | None) -> _Row:
    """A row of any columns; with a schema of its own, of those that this declares. Raises
    ``ValueError`` if it is declared as something else.
    """
    if schema is None:
        return _Row(dict[str, Any], (), {})
    if not schema.is_row:
        raise ValueError
    types = {
        name: Any if declared.kept is None else declared.kept
        for name, declared in schema.fields.items()
    }
    converters = [(name, each) for name, each in schema.fields.items() if each.kept is None]
    make: Any = TypedDict
    return _Row(make("Image", types, total=False), converters, {})
