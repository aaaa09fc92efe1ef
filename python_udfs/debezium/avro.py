"""``debezium_avro``: Debezium's envelopes in Avro, with the schemas in a schema registry.

Key and value each are framed as Confluent's serializers do it, and Apicurio's in that mode:

    00               magic byte
    00 00 00 07      the schema's id in the registry, big-endian
    ...              the value in Avro's binary encoding, by that schema

The schemas are those that Confluent's AvroConverter makes of Kafka Connect's (``avro_schemas``).
What comes of a message is what comes of the same one from JsonConverter with its schema block
(``envelope``): before the images are converted, values are as JSON has them (``text.avro``).
Source: "Wire format" and "Schema Registry API" of Confluent's Schema Registry documentation.

A decoder asks no registry. Who calls it says beforehand which schema has which id, by ``know``; an
id never gets another schema. Those that messages name are told by ``ids_of``.

Policies:

- An id that nobody knows, or whose schema is no Avro schema, is ``unknown_schema``, in a key too:
  a row without its key would be a wrong one. A key's bytes that don't fit their schema are no
  error, as in the whole family.
- A key without the frame is read as in ``debezium_json``: JSON or nothing that names a row.
- Each message is read by its own schema alone: what a later one adds or lacks is there, or isn't.
- Bytes behind the value are ``trailing_bytes``; what else is no Avro, see ``text.avro``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

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
from python_udfs.core.events import INVALID, Decoded, Event, invalid
from python_udfs.core.limits import MAX_PAYLOAD_BYTES
from python_udfs.core.short_way import ShortWay
from python_udfs.debezium import envelope
from python_udfs.debezium.alike import DebeziumFormat
from python_udfs.debezium.avro_schemas import AvroSchema, compile_schema
from python_udfs.debezium.envelope import (
    Content,
    Key,
    key_of,
    metadata_of,
    read_content,
    tombstone,
)
from python_udfs.debezium.types import Notes
from python_udfs.text.avro import BadSchema

AVRO: Final = "AVRO"
_FRAME: Final = 5
# A larger one is seldom like others, and may be much larger as JSON.
_LARGEST_SHORT: Final = 32 * 1024


class Registered(NamedTuple):
    """What a registry has under an id."""

    kind: str
    """``AVRO``, ``PROTOBUF`` or ``JSON``."""
    texts: tuple[str, ...]
    """The schema last, before it those that it refers to, each behind what it refers to itself."""


_known: Final[dict[int, Registered | None]] = {}
_compiled: Final[dict[int, AvroSchema]] = {}


def know(schemas: Mapping[int, Registered | None]) -> None:
    """Decode messages by these schemas; None for an id that the registry doesn't know."""
    for number, registered in schemas.items():
        if number not in _known or _known[number] != registered:
            _known[number] = registered
            _compiled.pop(number, None)


def is_known(number: int) -> bool:
    """Whether there is a schema for the id."""
    return _known.get(number) is not None


def ids_of(texts: Iterable[bytes | None]) -> set[int]:
    """The ids that keys and values name."""
    return {
        int.from_bytes(text[1:_FRAME], "big")
        for text in texts
        if text and text[0] == 0 and len(text) >= _FRAME
    }


def schema_message(text: bytes | None) -> bytes | None:
    """What a JsonConverter would ship of a key or a value, but for the payload, which is null; None
    if it has no schema.
    """
    try:
        return schema_of(text).prefix + b"null}" if text else None
    except DecodeError:
        return None


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """The change event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    event_key = Key(None, {}, notes)
    try:
        event_key = read_key(key, notes)
        if not value:
            return [tombstone(event_key)]
        return [read_content(event_key, take_apart(value, notes.budget))]
    except DecodeError as error:
        return [invalid(error, metadata=metadata_of({}, event_key, event_key.notes))]


_encode: Final = msgspec.json.Encoder().encode
_SHORT_WAY: Final = ShortWay(envelope.decode, DebeziumFormat())


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages, faster the more of them are alike: as the JSON that they would
    be, by the short way of that. What it can't decode goes the careful way.
    """
    places: list[int] = []
    json_keys: list[bytes | None] = []
    json_values: list[bytes | None] = []
    rest: list[int] = []
    for place, (key, value) in enumerate(zip(keys, values, strict=True)):
        try:
            if not value or len(value) > _LARGEST_SHORT or (key and key[0] == 0 and len(key) < 5):
                rest.append(place)
                continue
            json_values.append(_json_of(value))
            json_keys.append(_json_of(key) if key and key[0] == 0 else key)
            places.append(place)
        except DecodeError:
            del json_values[len(places) :]
            rest.append(place)
    found = _SHORT_WAY.decode_batch(json_keys, json_values)
    decoded = Decoded([([places[each] for each in own], columns) for own, columns in found.columns])
    for own, events in found.events.items():
        if events[0].operation == INVALID:
            # Its sentence is to have Avro's paths.
            rest.append(places[own])
        else:
            decoded.events[places[own]] = events
    for place in rest:
        decoded.events[place] = decode(keys[place], values[place])
    return decoded


def _json_of(text: bytes) -> bytes:
    """A framed text as a JsonConverter would have shipped it. Raises ``DecodeError``."""
    avro = schema_of(text)
    payload, end = avro.read(text, _FRAME, Budget(len(text)))
    if end < len(text):
        raise TrailingBytes(_behind(end, text))
    return b"%b%b}" % (avro.prefix, _encode(payload))


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


def take_apart(text: bytes, budget: Budget) -> Content:
    """The value of a framed text, and what its schema declares. Raises ``DecodeError``."""
    if len(text) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{len(text)} bytes: at most {MAX_PAYLOAD_BYTES} are decoded")
    avro = schema_of(text)
    payload, end = avro.read(text, _FRAME, budget)
    if end < len(text):
        raise TrailingBytes(_behind(end, text))
    return Content(payload, avro.schema, False, of_rows="debezium_unwrapped_avro")


def schema_of(text: bytes) -> AvroSchema:
    """The schema of a framed text, which has a byte at least. Raises ``DecodeError``."""
    if text[0] != 0:
        hint = ": is it JSON? Its format is debezium_json" if text[:1] == b"{" else ""
        raise BadShape(
            "at byte 0: expected 0x00, the magic byte of Confluent's framing, got"
            f" 0x{text[0]:02x}{hint}"
        )
    if len(text) < _FRAME:
        raise Truncated(f"at byte 1: expected the 4 bytes of a schema's id, got {len(text) - 1}")
    number = int.from_bytes(text[1:_FRAME], "big")
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
        raise UnknownSchema(f"{where}: is no Avro schema that can be used: {error}") from None
