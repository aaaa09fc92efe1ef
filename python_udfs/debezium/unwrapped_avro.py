"""``debezium_unwrapped_avro``: rows of Debezium's ExtractNewRecordState in Avro, with the schemas
in a schema registry.

Frames, schemas and keys are as in ``debezium_avro`` (``avro``); rows, what is added to them, null
values and headers as in ``debezium_unwrapped_json`` (``unwrapped``). A message gives the same
events as in JSON with its schema block.

It is a separate format because of null values: here they delete the row of the key, while after
envelopes they mean nothing. The message itself doesn't show which, because the keys are the same.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadShape, DecodeError
from python_udfs.core.events import Decoded, Event, EventColumns, Headers, invalid
from python_udfs.core.fast_path import FastPath, Format, Messages, Names
from python_udfs.debezium import avro, fast_rows, unwrapped
from python_udfs.debezium.avro_schemas import AvroSchema
from python_udfs.debezium.envelope import Content
from python_udfs.debezium.layouts import Converters
from python_udfs.debezium.types import Notes, has_placeholder
from python_udfs.text.avro import Node


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    try:
        event_key = avro.with_other_key(avro.read_key(key, notes), headers, notes.budget)
    except DecodeError as error:
        return [invalid(error)]
    return [unwrapped.read(event_key, value, headers, _take_apart)]


def _take_apart(value: bytes, budget: Budget) -> Content:
    if value[0] == ord("{"):
        raise BadShape(
            "at byte 0: expected 0x00, the magic byte of Confluent's framing, got 0x7b: is it JSON?"
            " Its format is debezium_unwrapped_json"
        )
    return avro.take_apart(value, budget)


class _Layout(NamedTuple):
    """The decoders of a shape, from Avro."""

    shape: fast_rows.Shape
    rows: fast_rows.Layout
    reader: avro.FramedReader


class AvroRows(Format[fast_rows.Shape, _Layout, fast_rows.Rows]):
    """Recognizes unwrapped rows in Avro, and decodes them together."""

    def __init__(self) -> None:
        self._rows: Final = fast_rows.UnwrappedRows()

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        return avro.frames_of(key, value)

    def shape(self, names: Names, key: bytes | None, value: bytes) -> fast_rows.Shape | None:
        try:
            as_json = avro.json_of(value)
            shape = self._rows.shape((), avro.json_of(key) if key else None, as_json)
            name = avro.schema_of(value).schema.name
        except DecodeError:
            return None
        return None if unwrapped.is_message(name) else shape

    def layout(self, names: Names, shape: fast_rows.Shape) -> _Layout:
        rows = self._rows.layout((), shape)
        key, value = (avro.schema_of(frame) if frame else None for frame in names)
        if value is None or not all(_is_plain(part, name) for name, part in value.node.fields):
            raise ValueError("an added field is not a single value")
        if any(avro.has_cells(each.node) for each in (key, value) if each is not None):
            raise ValueError("rows that may be of cells")
        rows = rows._replace(
            metadata=fast_rows.metadata_struct(shape, rows.parts, value.schema.name),
            schema_name=value.schema.name,
            converters=_converters(value, [shape.names[place] for place in rows.columns], rows.row),
            key_converters=_converters(key, shape.key, rows.key_row) if key else [],
        )
        reader = avro.FramedReader(names, {(): rows.row}, rows.key_row)
        return _Layout(shape, rows, reader)

    def rows(
        self, layout: _Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> fast_rows.Rows | None:
        places = [
            place
            for place in places
            if not has_placeholder(values[place] or b"") and _EXTENDED not in (keys[place] or b"")
        ]
        places, found, row_keys = layout.reader.read(places, keys, values)
        rows = fast_rows.Rows(places, found, row_keys)
        flags = _are_of(layout, rows)
        if False in flags:
            rows.keep(flags)
        return rows if rows.places else None

    def columns(self, layout: _Layout, rows: fast_rows.Rows) -> EventColumns | None:
        return self._rows.columns(layout.rows, rows)


# In a key that may be MongoDB's.
_EXTENDED: Final = b'"$'


def _is_plain(node: Node, name: str) -> bool:
    part = node.optional or node
    if not unwrapped.is_added_name(name):
        return True
    kinds = _KINDS.get(name)
    return part.kind in (avro.SINGLE if kinds is None else kinds)


_KINDS: Final = {
    "__op": ("string",),
    "__deleted": ("string",),
    "__source_ts_ms": ("int", "long"),
}


def _converters(schema: AvroSchema, names: Sequence[str], row: type[msgspec.Struct]) -> Converters:
    """The converters of the columns with these names."""
    attributes = dict(zip(row.__struct_encode_fields__, row.__struct_fields__, strict=True))
    declared = ((attributes[name], schema.schema.fields.get(name)) for name in names)
    return [(name, each) for name, each in declared if each is not None and each.kept is None]


def _are_of(layout: _Layout, rows: fast_rows.Rows) -> list[bool]:
    """Which rows are of the layout's table, and have an operation."""
    flags = [True] * len(rows.places)
    expected = {
        **{name: (value,) for name, value in layout.shape.source},
        "op": (None, *unwrapped.OPERATIONS),
        "deleted": ("true", "false"),
    }
    for name, place in layout.rows.added.items():
        if name in expected:
            known = expected[name]
            flags = [
                flag and each in known for flag, each in zip(flags, rows.field(place), strict=True)
            ]
    return flags


_FAST_PATH: Final = FastPath(decode, AvroRows())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Messages, values: Messages) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
