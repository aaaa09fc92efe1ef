"""Aerospike's outbound connector for Kafka with ``format: kafka-avro``: the schemas in a registry.

Implements the vendor's pages "Kafka Avro serialization format" and "Avro serialization format for
Aerospike Kafka source (outbound) connector". A value has the frame of Confluent's serializers
(``debezium.avro``). Its schema is that of the connector's configuration: a field for each bin, and
one with the name of ``metadata-key``:

    metadata  {"namespace": string, "set": string, "userKey": long | double | bytes | string,
               "digest": bytes, "msg": "write" | "delete", "gen": int, "lut": long, "exp": int,
               "durable": boolean}

``userKey`` is present if the server stores it, ``exp`` only in writes, ``durable`` in deletes. "The
writes and deletes are written with different schemas." By the page, writes have no metadata if no
``metadata-key`` is configured.

The readable parts of the pages don't say the following, so each variant is read:

- The schema of deletes: their metadata is a member as in writes, or the whole record.
- Kafka keys: framed records of the four parts of a key, or JSON as in flat JSON.
- The types of a configured schema: any of Avro's, including unions; metadata as record or map; the
  digest as bytes, fixed or base64 text.

A message gives the event of the same record in flat JSON (``flat_json``), and its metadata is found
in the same places. In addition ``metadata.bins`` has the type of each bin by the names of
``aerospike_json``, as its value was shipped, and ``user_key_type`` can be ``bin``. Policies:

- A null field of the record, or of its metadata, is absent in the record: a schema names all
  fields, and a bin of Aerospike's holds no null. Nulls in maps, and inside a bin, stay.
- For a union only the value counts, without the name of its branch.
- Logical types are ignored: Aerospike has none, so a value stays a number or bytes.
- A payload is one record: no page describes a batch. An array is ``bad_shape``.
- ``format: avro`` writes no frame, so the schema is unknown: ``bad_shape``.
- An unknown schema id is ``unknown_schema``; in a key only if the message has no value, because
  records name their keys themselves.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Final

from python_udfs.aerospike.flat_json import event_of_flat, key_of, metadata_name, parse_key
from python_udfs.aerospike.json import invalid_record, is_key, tombstone_of
from python_udfs.aerospike.records import (
    NON_FINITE,
    EventKeys,
    NestedKinds,
    event_key_metadata,
    event_keys,
)
from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadShape, DecodeError, TooLarge, UnknownSchema
from python_udfs.core.events import Event
from python_udfs.core.paths import Path, step_text
from python_udfs.debezium.avro import read_framed, schema_of
from python_udfs.debezium.avro_schemas import AvroSchema
from python_udfs.text.avro import Node, Read, reader_of

_MAGIC: Final = b"\0"
_TYPES: Final = {
    "boolean": "bool",
    "int": "int",
    "long": "int",
    "float": "float",
    "double": "float",
    "string": "str",
    "enum": "str",
    "bytes": "blob",
    "fixed": "blob",
    "array": "list",
    "map": "map",
    "record": "map",
}
# Kinds whose values are the same in JSON as in Avro.
_AS_JSON: Final = frozenset({"null", "boolean", "int", "long", "string", "enum"})
# Each set has one schema for writes and one for deletes, and occasionally a new one.
_MOST_READERS: Final = 256


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    budget = Budget(len(key or b"") + len(value or b""))
    keys = event_keys(key, partial(_read_key, budget=budget), DecodeError, is_key)
    metadata = event_key_metadata(keys, 0, 1)
    try:
        if not value:
            return [_tombstone(keys)]
        return [_record(value, metadata, budget)]
    except DecodeError as error:
        return [invalid_record(error, 0, metadata)]


def _tombstone(keys: EventKeys | None) -> Event:
    if keys is not None and not keys.keys and keys.raw.startswith(_MAGIC):
        try:
            schema_of(keys.raw)
        except UnknownSchema as error:
            raise UnknownSchema(f"the key: {error}") from None
        except DecodeError:
            pass  # Like any key that is not a record's.
    return tombstone_of(keys)


def _record(value: bytes, columns: dict[str, Any], budget: Budget) -> Event:
    """The event of a value; ``columns`` is the metadata so far."""
    if not value.startswith(_MAGIC):
        hint = "is it JSON? Its format is aerospike_flat_json"
        if value[0] not in b"{[":
            hint = "the connector's mode is to be kafka-avro, for avro's messages name no schema"
        raise BadShape(
            "at byte 0: expected 0x00, the magic byte of Confluent's framing, got"
            f" 0x{value[0]:02x}: {hint}"
        )
    node, shipped = _read(value, budget)
    if node.kind not in ("record", "map"):
        raise BadShape(f"$: expected a record or a map, got Avro's {node.kind}")
    nested = NestedKinds(budget)
    record, notes = {}, {}
    for name, part, item in _members(node, shipped):
        if item is None and node.kind == "record":
            continue
        try:
            record[name] = item if part.kind in _AS_JSON else _plain(part, item, None, nested)
        except TooLarge as error:
            raise TooLarge(f"${step_text(name)}{error}") from None
        if item is not None:
            kinds = nested.of_bin()
            notes[name] = {"type": _TYPES[part.kind]} | ({"nested": kinds} if kinds else {})
    of_metadata = metadata_name(record, "$")
    if of_metadata is not None and isinstance(record[of_metadata], dict):
        fields = record[of_metadata].items()
        record[of_metadata] = {name: each for name, each in fields if each is not None}
    return event_of_flat(record, of_metadata, 0, "$", columns, partial(_note, notes))


def _note(notes: Mapping[str, Any], bins: dict[str, Any], metadata: dict[str, Any]) -> None:
    metadata["bins"] = {name: notes[name] for name in bins if name in notes}


def _read_key(raw: bytes, budget: Budget) -> Any:
    """Parse a Kafka key as ``[namespace, set, digest, user key]``; None for anything else."""
    if not raw.startswith(_MAGIC):
        return parse_key(raw)
    node, shipped = _read(raw, budget)
    return key_of(_plain(node, shipped, None, NestedKinds(budget)))


# --- Values ---------------------------------------------------------------------------------------


def _read(text: bytes, budget: Budget) -> tuple[Node, Any]:
    """The value of a framed text in Avro's form, with its type."""
    avro, shipped = read_framed(text, _reader, budget)
    return _settled(avro.node, shipped)


def _reader(avro: AvroSchema) -> Read:
    return _reader_of(avro.node)


@lru_cache(_MOST_READERS)
def _reader_of(node: Node) -> Read:
    return reader_of(node, as_connect=False)


def _settled(node: Node, value: Any) -> tuple[Node, Any]:
    """A value and its type, without union branches."""
    while node.kind == "union":
        branch, value = value
        node = node.branches[branch]
    return node, value


def _members(node: Node, value: Mapping[str, Any]) -> Iterator[tuple[str, Node, Any]]:
    """The members of a record or a map, each with its type."""
    if node.items is None:
        for name, part in node.fields:
            yield name, *_settled(part, value[name])
    else:
        for name, item in value.items():
            yield name, *_settled(node.items, item)


def _plain(node: Node, value: Any, path: Path, nested: NestedKinds) -> Any:
    """A value in JSON's form, except for bytes; ``nested`` gets what JSON can't express."""
    kind = node.kind
    if node.items is not None and node.items.kind in _AS_JSON:
        return value
    if kind in ("record", "map"):
        # A comprehension would add another frame for each level, of which there may be many.
        members = {}
        for name, part, item in _members(node, value):
            is_plain = part.kind in _AS_JSON
            members[name] = item if is_plain else _plain(part, item, (path, name), nested)
        return members
    if node.items is not None:
        elements = []
        for index, item in enumerate(value):
            part, item = _settled(node.items, item)
            is_plain = part.kind in _AS_JSON
            elements.append(item if is_plain else _plain(part, item, (path, index), nested))
        return elements
    if kind in ("bytes", "fixed"):
        if path is not None:
            nested.add(path, "bin")
    elif kind in ("float", "double") and not isfinite(value):
        nested.add(path, "float")
        return NON_FINITE[repr(value)]
    return value
