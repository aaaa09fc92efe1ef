"""``debezium_avro``: Debezium's envelopes in Avro, with the schemas in a schema registry.

Key and value each have the frame of Confluent's serializers, or of Apicurio's in that mode:

    00               magic byte
    00 00 00 07      the schema's id in the registry, big-endian
    ...              the value in Avro's binary encoding, by that schema

The schemas are Confluent's AvroConverter's versions of Kafka Connect's (``avro_schemas``). A
message gives the same events as from JsonConverter with its schema block (``envelope``): before the
images are converted, values are in JSON's form (``text.avro``). Source: "Wire format" and "Schema
Registry API" of Confluent's Schema Registry documentation.

A decoder contacts no registry. Its caller passes the schemas by id beforehand, to ``know``; an id
never gets another schema. ``ids_of`` gives the ids that messages name.

Policies:

- An unknown id, or one whose schema is not an Avro schema, is ``unknown_schema``, in a key too,
  because a row without its key would be wrong. A key's bytes that don't fit their schema are not an
  error, as in the whole family.
- A key without the frame is read as in ``debezium_json``: it is JSON or identifies no row.
- Each message is read only with its own schema, so columns may come and go.
- Bytes after the value are ``trailing_bytes``; for other invalid bytes see ``text.avro``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from python_udfs.core.budget import Budget
from python_udfs.core.errors import (
    BadShape,
    DecodeError,
    TooLarge,
    TrailingBytes,
    Truncated,
    UnknownSchema,
)
from python_udfs.core.events import Decoded, Event, EventColumns, Headers, invalid
from python_udfs.core.fast_path import FastPath, Format, Messages, Names
from python_udfs.core.limits import MAX_PAYLOAD_BYTES
from python_udfs.debezium import cells, envelope
from python_udfs.debezium.avro_schemas import AvroSchema, compile_schema
from python_udfs.debezium.envelope import (
    Content,
    Key,
    key_of,
    metadata_of,
    read_content,
    tombstone,
)
from python_udfs.debezium.fast_envelopes import Rows, columns_of
from python_udfs.debezium.layouts import IMAGES, OPERATIONS, Layout, Shape, shape_of
from python_udfs.debezium.types import Notes, has_placeholder
from python_udfs.text.avro import BadSchema, Node, Read

if TYPE_CHECKING:
    from python_udfs.text.avro_columns import Make, Path, ReadMany

AVRO: Final = "AVRO"
_FRAME: Final = 5
# A larger one is seldom like others, and may be much larger as JSON.
_LARGEST_SHORT: Final = 32 * 1024
SINGLE: Final = frozenset({"null", "boolean", "int", "long", "string"})
"""Kinds of values that metadata takes as they are."""


class Registered(NamedTuple):
    """A registry's entry for an id."""

    kind: str
    """``AVRO``, ``PROTOBUF`` or ``JSON``."""
    texts: tuple[str, ...]
    """The schema last, and before it the schemas that it refers to, each after those that it
    refers to itself.
    """


_known: Final[dict[int, Registered | None]] = {}
_compiled: Final[dict[int, AvroSchema]] = {}


def know(schemas: Mapping[int, Registered | None]) -> None:
    """Decode messages by these schemas; None for an id that the registry doesn't know."""
    for number, registered in schemas.items():
        if number not in _known or _known[number] != registered:
            _known[number] = registered
            _compiled.pop(number, None)


def is_known(number: int) -> bool:
    """Whether the schema of an id is known."""
    return _known.get(number) is not None


def ids_of(texts: Iterable[bytes | None]) -> set[int]:
    """The ids that keys and values name."""
    return {_id_of(text) for text in texts if text and text[0] == 0 and len(text) >= _FRAME}


def schema_message(text: bytes | None) -> bytes | None:
    """The JsonConverter's message for a key or a value, with null as its payload; None without a
    schema.
    """
    try:
        return schema_of(text).prefix + b"null}" if text else None
    except DecodeError:
        return None


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    event_key = Key(None, {}, notes)
    try:
        event_key = read_key(key, notes)
        if headers:
            event_key = with_other_key(event_key, headers, notes.budget)
        if not value:
            return [tombstone(event_key)]
        return [read_content(event_key, take_apart(value, notes.budget))]
    except DecodeError as error:
        return [invalid(error, metadata=metadata_of({}, event_key, event_key.notes))]


def frames_of(key: bytes | None, value: bytes | None) -> Names:
    """The frames, which name the schemas; empty for a message that is read alone."""
    if not value or len(value) > _LARGEST_SHORT or (key and key[0] != 0):
        return ()
    return (key or b"")[:_FRAME], value[:_FRAME]


class FramedReader:
    """Reads many messages with the same frames."""

    def __init__(self, frames: Names, makes: "Mapping[Path, Make]", key_row: "Make") -> None:
        """``makes`` as in ``avro_columns.reader_of``, for values; ``key_row`` makes keys from
        their values, in the order of the schema. Raises ``ValueError`` for schemas that aren't
        plain, and if the packages that read by column aren't installed.
        """
        # Arrow takes a moment to load, and many commands don't use it.
        try:
            from python_udfs.text import avro_columns
        except ModuleNotFoundError as error:
            if error.name not in ("pyarrow", "pyruhvro"):
                raise
            raise ValueError(str(error)) from None

        self._key_frame, self._frame = frames
        self._schemas: Final = {frame: schema_of(frame) for frame in frames if frame}
        self._read = avro_columns.reader_of(self._schemas[self._frame].node, makes)
        self._read_key: ReadMany | None = None
        if self._key_frame:
            node = self._schemas[self._key_frame].node
            self._read_key = avro_columns.reader_of(node, {(): key_row})

    def read(
        self, places: Sequence[int], keys: Messages, values: Messages
    ) -> tuple[Sequence[int], list[Any], list[Any]]:
        """The places of the messages that could be read, their values, and their keys, empty
        without keys.
        """
        if any(_compiled.get(_id_of(frame)) is not each for frame, each in self._schemas.items()):
            # The schema of another registry that was used before.
            return (), [], []
        texts = _behind_frame(self._frame, map(values.__getitem__, places))
        key_texts = _behind_frame(self._key_frame, map(keys.__getitem__, places))
        if has_placeholder(b"\n".join(filter(None, key_texts))):
            key_texts = [None if text and has_placeholder(text) else text for text in key_texts]
        if None in texts or None in key_texts:
            framed = [None not in pair for pair in zip(texts, key_texts, strict=True)]
            places = list(compress(places, framed))
            texts = list(compress(texts, framed))
            key_texts = list(compress(key_texts, framed))
        if not texts:
            return (), [], []
        read, changes = self._read(texts)
        row_keys: list[Any] = []
        if self._read_key is not None:
            if len(read) < len(texts):
                key_texts = list(map(key_texts.__getitem__, read))
            read_keys, row_keys = self._read_key(key_texts)
            if len(read_keys) < len(read):
                changes = list(map(changes.__getitem__, read_keys))
                read = list(map(read.__getitem__, read_keys))
        return list(map(places.__getitem__, read)), changes, row_keys


def _behind_frame(frame: bytes, texts: Iterable[bytes | None]) -> list[Any]:
    """The text after the frame of each; None for another frame, or if it is too large."""
    if not frame:
        return [None if text else b"" for text in texts]
    return [
        text[_FRAME:] if text and text.startswith(frame) and len(text) <= _LARGEST_SHORT else None
        for text in texts
    ]


class _Layout(Layout):
    """The decoders of a shape, from Avro."""

    __slots__ = ("reader",)

    def __init__(self, shape: Shape, frames: Names) -> None:
        key, value = (schema_of(frame) if frame else None for frame in frames)
        if value is None or not _has_plain_parts(value.node, shape.of_mongodb):
            raise ValueError("fields that are not single values")
        super().__init__(shape, key.prefix if key else b"", value.prefix, may_lack=False)
        make_key: Make = tuple
        if key is not None and self.key is not None:
            make_key = _in_order(self.key.struct, [name for name, _ in key.node.fields])
        self.reader = FramedReader(frames, self.structs, make_key)


class AvroFormat(Format[Shape, _Layout, Rows]):
    """Recognizes envelopes in Avro, and decodes them together."""

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        return frames_of(key, value)

    def shape(self, names: Names, key: bytes | None, value: bytes) -> Shape | None:
        try:
            shape = shape_of(json_of(key) if key else None, json_of(value))
            node = schema_of(value).node
        except DecodeError:
            return None
        if shape is None:
            return None
        # All messages have the same names, and null images have none.
        parts = {name: part.optional or part for name, part in node.fields}
        if shape.connector is None and any(
            has_cells(parts[name]) for name in IMAGES if name in parts
        ):
            return None

        def names_of(part: str, known: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(name for name, _ in parts[part].fields) if part in parts else known

        return shape._replace(
            before=names_of("before", shape.before),
            after=names_of("after", shape.after),
            transaction=names_of("transaction", shape.transaction),
        )

    def layout(self, names: Names, shape: Shape) -> _Layout:
        return _Layout(shape, names)

    def rows(
        self, layout: _Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> Rows | None:
        places, changes, row_keys = layout.reader.read(places, keys, values)
        rows = Rows(places, [values[place] or b"" for place in places], changes, row_keys)
        flags = _are_of(layout, changes)
        if False in flags:
            rows.keep(flags)
        return rows if rows.places else None

    def columns(self, layout: _Layout, rows: Rows) -> EventColumns | None:
        return columns_of(layout, rows)


def has_cells(node: Node) -> bool:
    """Whether a record may be a row of cells."""
    return any(
        part.kind == "record" and cells.has_names(name for name, _ in part.fields)
        for part in (field.optional or field for _, field in node.fields)
    )


def _are_of(layout: _Layout, changes: Sequence[Any]) -> list[bool]:
    """Which changes are of the layout's table, and have an operation."""
    operations = map(attrgetter(layout.of_envelope["op"]), changes)
    flags = [each in OPERATIONS for each in operations]
    sources = list(map(attrgetter(layout.of_envelope["source"]), changes))
    for name, expected in layout.shape.place:
        found = list(map(attrgetter(layout.of_source[name]), sources))
        if found.count(expected) < len(found):
            flags = [flag and each == expected for flag, each in zip(flags, found, strict=True)]
    return flags


def _has_plain_parts(node: Node, of_mongodb: bool) -> bool:
    """Whether everything but the columns is a single value of a type that metadata takes as it
    is.
    """
    for name, field in node.fields:
        part = field.optional or field
        if name in IMAGES:
            plain = part.kind == ("string" if of_mongodb else "record")
        elif name in ("source", "transaction"):
            plain = part.kind == "record" and all(
                (each.optional or each).kind in SINGLE for _, each in part.fields
            )
        else:
            plain = part.kind in SINGLE or (of_mongodb and name == "updateDescription")
        if not plain:
            return False
    return True


def _in_order(struct: type[msgspec.Struct], names: Sequence[str]) -> Callable[..., Any]:
    """A function that makes a key from values in this order; its fields are sorted by name."""
    if list(names) == sorted(names):
        return struct
    ordered = itemgetter(*sorted(range(len(names)), key=names.__getitem__))
    return lambda *values: struct(*ordered(values))


_encode: Final = msgspec.json.Encoder().encode
_FAST_PATH: Final = FastPath(decode, AvroFormat())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Messages, values: Messages) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)


def json_of(text: bytes) -> bytes:
    """The payload of a framed text as a JsonConverter would ship it. Raises ``DecodeError``."""
    return _encode(take_apart(text, Budget(len(text))).payload)


def _behind(end: int, text: bytes) -> str:
    return f"the value ends at byte {end}, and {len(text) - end} more follow"


def read_key(key: bytes | None, notes: Notes) -> Key:
    """A Kafka key, which may be JSON. Raises ``UnknownSchema``."""
    if not key or key[0] != 0 or len(key) < _FRAME:
        return envelope.read_key(key, False, notes)
    try:
        schema_of(key)
    except UnknownSchema as error:
        raise UnknownSchema(f"the key: {error}") from None
    return key_of(key, lambda: take_apart(key, notes.budget), notes)


def with_other_key(key: Key, headers: Headers | None, budget: Budget) -> Key:
    """``envelope.with_other_key``: a header's value can be JSON too."""

    def take_apart_key(text: bytes) -> Content:
        return take_apart(text, budget) if text[0] == 0 else envelope.take_apart_key(text)

    return envelope.with_other_key(key, headers, take_apart_key)


def take_apart(text: bytes, budget: Budget) -> Content:
    """The value of a framed text, and its schema's declaration. Raises ``DecodeError``."""
    avro, payload = read_framed(text, attrgetter("read"), budget)
    return Content(payload, avro.schema, False, of_rows="debezium_unwrapped_avro")


def read_framed(
    text: bytes, reader_of: Callable[[AvroSchema], Read], budget: Budget
) -> tuple[AvroSchema, Any]:
    """The schema of a framed text, and its reader's result for everything that follows. Raises
    ``DecodeError``.
    """
    if len(text) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{len(text)} bytes: at most {MAX_PAYLOAD_BYTES} are decoded")
    avro = schema_of(text)
    payload, end = reader_of(avro)(text, _FRAME, budget)
    if end < len(text):
        raise TrailingBytes(_behind(end, text))
    return avro, payload


def _id_of(frame: bytes) -> int:
    return int.from_bytes(frame[1:_FRAME], "big")


def schema_of(text: bytes) -> AvroSchema:
    """The schema of a framed text of at least one byte. Raises ``DecodeError``."""
    if text[0] != 0:
        hint = ": is it JSON? Its format is debezium_json" if text[:1] == b"{" else ""
        raise BadShape(
            "at byte 0: expected 0x00, the magic byte of Confluent's framing, got"
            f" 0x{text[0]:02x}{hint}"
        )
    if len(text) < _FRAME:
        raise Truncated(f"at byte 1: expected the 4 bytes of a schema's id, got {len(text) - 1}")
    number = _id_of(text)
    avro = _compiled.get(number)
    if avro is None:
        avro = _compiled[number] = _compile(number)
    return avro


def _compile(number: int) -> AvroSchema:
    where = f"at byte 1: schema {number}"
    registered = _known.get(number)
    if registered is None:
        reason = "the schema registry doesn't know it" if number in _known else "nobody has asked"
        if number not in _known:
            reason += " the schema registry for it: SCHEMA_REGISTRY_URL says where that is"
        raise UnknownSchema(f"{where}: {reason}")
    if registered.kind != AVRO:
        raise UnknownSchema(f"{where}: expected an Avro schema, got one of {registered.kind}")
    try:
        return compile_schema(registered.texts)
    except (BadSchema, DecodeError) as error:
        raise UnknownSchema(f"{where}: is not a usable Avro schema: {error}") from None
