"""The fast path for unwrapped rows: rows of one layout are decoded together.

It takes rows without a schema block that have the same names in the same order, and the same
keys. A row and key that are decoded and encoded again must give the bytes that were sent. Rows
that may hold an unavailable value, or cells, take the careful path.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, compress
from operator import attrgetter, eq, not_
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import structs

from python_udfs.core.events import DELETE, MAX_TIME_MS, UPSERT, Decoded, EventColumns
from python_udfs.core.fast_path import MAX_BYTES, FastPath, Format, Messages, Names
from python_udfs.core.limits import MAX_DEPTH
from python_udfs.core.row_images import ColumnImages
from python_udfs.debezium import cells, unwrapped
from python_udfs.debezium.fast_envelopes import convert_in_place
from python_udfs.debezium.keys import key_rows
from python_udfs.debezium.layouts import Converters
from python_udfs.debezium.types import has_placeholder
from python_udfs.text.counting import count_brackets
from python_udfs.text.json_lines import FAILURES, FLAT_BYTES, may_be_deep, read_lines

_load = msgspec.json.Decoder(dict[str, Any]).decode
_encode_lines = msgspec.json.Encoder().encode_lines
_canonical_lines = msgspec.json.Encoder(order="sorted").encode_lines

_MAX_NAMES_BYTES: Final = 1024
_TABLE: Final = b'"__table":'
# For types that are created at run time.
_literal: Any = Literal


class Shape(NamedTuple):
    """The common properties of a table's rows."""

    key: tuple[str, ...]
    """The names in the Kafka key; empty without one."""
    names: tuple[str, ...]
    """The names in the row, in their order."""
    source: tuple[tuple[str, str | None], ...]
    """The fields that name its table, if it is named, and the connector, with their values."""


class Part(NamedTuple):
    """A field of the metadata."""

    name: str
    struct: type[msgspec.Struct] | None
    """The Struct of its parts; None for a single value."""
    places: list[int]


class Layout(NamedTuple):
    """The decoders of a shape's rows."""

    shape: Shape
    decoder: msgspec.json.Decoder[Any]
    key: msgspec.json.Decoder[Any] | None
    columns: list[int]
    """The indexes of the row's own columns."""
    image: type[msgspec.Struct]
    added: dict[str, int]
    """The indexes of added fields."""
    parts: list[Part]
    metadata: type[msgspec.Struct]
    row: type[msgspec.Struct]
    key_row: type[msgspec.Struct]
    schema_name: str | None = None
    converters: Converters = ()
    """Attributes of rows whose values are converted, and their converters."""
    key_converters: Converters = ()


class UnwrappedRows(Format[Shape, Layout, "Rows"]):
    """Recognizes unwrapped rows, and decodes them together."""

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        if not value or len(value) > MAX_BYTES or unwrapped.may_be_wrapped(value):
            return ()
        start = value.find(_TABLE)
        end = value.find(b",", start) if start > 0 else value.find(b":")
        name = value[max(start, 0) : end]
        return (name,) if len(name) < _MAX_NAMES_BYTES else ()

    def shape(self, names: Names, key: bytes | None, value: bytes) -> Shape | None:
        try:
            row = _load(value)
            columns = _load(key) if key else {}
        except FAILURES:
            return None
        if "op" in row or (key and (not columns or unwrapped.may_be_wrapped(key))):
            return None
        if unwrapped.HEARTBEAT in columns or unwrapped.may_be_no_row(row):
            return None
        added = [name[2:] for name in row if unwrapped.is_added_name(name)]
        telling = _CONNECTOR | (_NAMING if "deleted" in added else frozenset())
        source = tuple((name, row[f"__{name}"]) for name in added if name in telling)
        if not all(value is None or type(value) is str for _, value in source):
            return None
        if any(
            name in _CONNECTOR and (value or "").lower() in cells.CONNECTORS
            for name, value in source
        ):
            return None
        return Shape(tuple(columns), tuple(row), source)

    def layout(self, names: Names, shape: Shape) -> Layout:
        fields = {f"field_{place}": name for place, name in enumerate(shape.names)}
        added = {
            name[2:]: place
            for place, name in enumerate(shape.names)
            if unwrapped.is_added_name(name)
        }
        if len(fields) == len(added) or len({_place_of(name) for name in added}) < len(added):
            raise ValueError("a row without columns, or two fields for one place of metadata")
        types: dict[str, Any] = {
            "op": _literal[(*unwrapped.OPERATIONS, None)],
            "deleted": Literal["true", "false"],
            "source_ts_ms": int | None,
            **{name: _literal[value] for name, value in shape.source},
        }
        row = msgspec.defstruct(
            "Row",
            [
                (field, types.get(name[2:], Any) if unwrapped.is_added_name(name) else Any)
                for field, name in fields.items()
            ],
            rename=fields,
        )
        key_row = _struct("Key", shape.key)
        key = msgspec.json.Decoder(key_row, float_hook=msgspec.Raw) if shape.key else None
        columns = [place for place in range(len(fields)) if place not in added.values()]
        parts = _parts(added)
        return Layout(
            shape,
            msgspec.json.Decoder(row, float_hook=msgspec.Raw),
            key,
            columns,
            _struct("Image", [shape.names[place] for place in columns]),
            added,
            parts,
            metadata_struct(shape, parts),
            row,
            key_row,
        )

    def rows(
        self, layout: Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> "Rows | None":
        fitting = [
            place
            for place in places
            if bool(keys[place]) is (layout.key is not None)
            and (value := values[place]) is not None
            and len(value) <= MAX_BYTES
        ]
        fitting = _plain_places(fitting, values, unwrapped.may_be_wrapped)
        if layout.shape.key:
            fitting = _plain_places(fitting, keys, _is_extended)
        texts: list[Any] = [values[place] for place in fitting]
        read = read_lines(layout.decoder, _encode_lines, texts) if texts else None
        if read is None:
            return None
        rows = Rows(fitting, read[0], [])
        flags = list(map(eq, texts, read[1]))
        if layout.key is not None:
            key_texts: list[Any] = [keys[place] for place in fitting]
            read_keys = read_lines(layout.key, _encode_lines, key_texts)
            if read_keys is None:
                return None
            rows.keys = read_keys[0]
            flags = [a and b for a, b in zip(flags, map(eq, key_texts, read_keys[1]), strict=True)]
        if False in flags:
            rows.keep(flags)
        return rows if rows.places else None

    def columns(self, layout: Layout, rows: "Rows") -> EventColumns | None:
        unfit: set[int] = set()
        convert_in_place(layout.converters, rows.rows, unfit)
        convert_in_place(layout.key_converters, rows.keys, unfit)
        if unfit:
            rows.keep([place not in unfit for place in range(len(rows.places))])
        if {"deleted", "op"} <= layout.added.keys():
            deleted, op = (rows.field(layout.added[name]) for name in ("deleted", "op"))
            # A row that contradicts itself about being deleted takes the careful path.
            rows.keep(
                [not (gone == "true" and of in _LIVE) for gone, of in zip(deleted, op, strict=True)]
            )
        if not rows.places:
            return None
        added = {name: rows.field(place) for name, place in layout.added.items()}
        nothing: list[Any] = [None] * len(rows.places)
        operations = [
            DELETE if deleted == "true" else unwrapped.OPERATIONS.get(op, UPSERT)
            for deleted, op in zip(
                added.get("deleted", nothing), added.get("op", nothing), strict=True
            )
        ]
        is_deleted = [operation == DELETE for operation in operations]
        source = dict(layout.shape.source)
        database, schema, table = (
            next(filter(None, map(source.get, fields)), None) for fields in unwrapped.NAMING
        )
        return EventColumns(
            operations,
            database,
            schema,
            table,
            None if layout.key is None else partial(_record_keys, layout, rows),
            partial(_images, layout, rows, is_deleted) if True in is_deleted else None,
            partial(_images, layout, rows, list(map(not_, is_deleted)))
            if False in is_deleted
            else None,
            [
                time if time and 0 < time <= MAX_TIME_MS else None
                for time in added.get("source_ts_ms", nothing)
            ],
            None,
            partial(_metadata, layout, rows),
            layout.shape.key,
            ColumnImages(is_deleted, partial(_columns, layout, rows), _encode_lines),
        )


class Rows:
    """Rows of a layout that are plain as far as is known; lists have the same order."""

    __slots__ = ("keys", "places", "rows")

    def __init__(self, places: Sequence[int], rows: list[Any], keys: list[Any]) -> None:
        self.places = places
        self.rows = rows
        self.keys = keys
        """Empty without keys."""

    def keep(self, flags: Sequence[bool]) -> None:
        """Drop rows whose flag is false."""
        self.places = list(compress(self.places, flags))
        self.rows = list(compress(self.rows, flags))
        self.keys = list(compress(self.keys, flags))

    def field(self, place: int) -> list[Any]:
        """A field of each row."""
        return list(map(attrgetter(f"field_{place}"), self.rows))


_NAMING: Final = frozenset(chain(*unwrapped.NAMING))
_CONNECTOR: Final = frozenset({"connector", "source_connector"})
_LIVE: Final = frozenset(op for op, of in unwrapped.OPERATIONS.items() if of != DELETE)


def _plain_places(
    places: list[int], messages: Sequence[Any], is_unusual: Callable[[bytes], bool]
) -> list[int]:
    """The places of messages without a mark of what the careful path has to decode; ``is_unusual``
    says whether a text has one of its own. All are searched at once: usually none has any.
    """

    def has_mark(text: bytes) -> bool:
        return is_unusual(text) or cells.MARK in text or has_placeholder(text)

    places = [place for place in places if messages[place].startswith(b"{")]
    texts: list[Any] = [messages[place] for place in places]
    # No mark has a line break. Each text has an object's bracket, and usually there are few others.
    together = b"\n".join(texts)
    if count_brackets(together) - len(texts) < MAX_DEPTH - 1 and not has_mark(together):
        return places
    return [
        place
        for place, text in zip(places, texts, strict=True)
        if not (len(text) > FLAT_BYTES and may_be_deep(text)) and not has_mark(text)
    ]


def _is_extended(key: bytes) -> bool:
    return unwrapped.EXTENDED in key


def _place_of(name: str) -> tuple[str, ...]:
    """The place in the metadata of an added field."""
    ((part, fields),) = unwrapped.as_envelope({name: None}).items()
    return (part, *fields) if fields else (part,)


def _parts(added: Mapping[str, int]) -> list[Part]:
    """The metadata's parts of the added fields, in the careful path's order."""
    parts: dict[str, dict[str, int]] = {}
    for name, place in added.items():
        part, *field = _place_of(name)
        parts.setdefault(part, {})[field[0] if field else ""] = place
    source = parts.get("source", {})
    found = [Part(n, None, [source[n]]) for n in ("connector", "snapshot") if n in source]
    for part, fields in parts.items():
        if part != "op":
            struct = None if "" in fields else _struct("Part", list(fields))
            found.append(Part(part, struct, list(fields.values())))
    return found


def metadata_struct(
    shape: Shape, parts: Sequence[Part], schema_name: str | None = None
) -> type[msgspec.Struct]:
    """The Struct of the metadata of a shape's events."""
    names = [*["event_key"] * bool(shape.key), *(part.name for part in parts)]
    return _struct("Metadata", names + ["schema_name"] * (schema_name is not None))


def _record_keys(layout: Layout, rows: "Rows") -> bytes:
    return _canonical_lines(key_rows(layout.key_row, rows.keys))


def _images(layout: Layout, rows: "Rows", is_there: list[bool]) -> bytes:
    """The images of some of the rows."""
    images = map(layout.image, *map(rows.field, layout.columns))
    return _encode_lines(
        [image if each else None for image, each in zip(images, is_there, strict=True)]
    )


def _columns(layout: Layout, rows: "Rows") -> dict[str, Sequence[Any]]:
    """The images by column."""
    columns = list(zip(*map(structs.astuple, rows.rows), strict=True))
    return {layout.shape.names[place]: columns[place] for place in layout.columns}


def _metadata(layout: Layout, rows: "Rows") -> bytes:
    columns: list[Sequence[Any]] = []
    if layout.key is not None:
        columns.append(list(map(msgspec.Raw, _canonical_lines(rows.keys).splitlines())))
    for part in layout.parts:
        values = list(map(rows.field, part.places))
        columns.append(values[0] if part.struct is None else list(map(part.struct, *values)))
    if layout.schema_name is not None:
        columns.append([layout.schema_name] * len(rows.places))
    if not columns:
        return b"null\n" * len(rows.places)
    return _encode_lines(list(map(layout.metadata, *columns)))


def _struct(title: str, names: Sequence[str]) -> type[msgspec.Struct]:
    """A Struct with these names, which may be any."""
    fields = {f"field_{place}": name for place, name in enumerate(names)}
    return msgspec.defstruct(title, [(field, Any) for field in fields], rename=fields)


_FAST_PATH: Final = FastPath(unwrapped.decode, UnwrappedRows())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``unwrapped.decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
