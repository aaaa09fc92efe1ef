"""The one list of wire formats: a format is a row of ``FORMATS``.

Adding a format is one module with ``decode(key, value) -> list[Event]`` and one row here.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from python_udfs import aws_dms as aws_dms_json
from python_udfs import change_stream
from python_udfs import cockroachdb as cockroachdb_json
from python_udfs.aerospike import avro as aerospike_avro
from python_udfs.aerospike import flat_json as aerospike_flat_json
from python_udfs.aerospike import json as aerospike_json
from python_udfs.aerospike import messagepack as aerospike_messagepack
from python_udfs.binlog import canal as canal_json
from python_udfs.binlog import fast_canal, fast_maxwell
from python_udfs.binlog import maxwell as maxwell_json
from python_udfs.core.errors import DecoderFailed, UnknownFormat
from python_udfs.core.events import (
    INVALID,
    Decode,
    Decoded,
    DecodeHeaded,
    Event,
    Headers,
    invalid,
)
from python_udfs.core.fast_path import FastPath
from python_udfs.debezium import arcion as arcion_json
from python_udfs.debezium import avro as debezium_avro
from python_udfs.debezium import fast_rows
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium import lindorm as lindorm_json
from python_udfs.debezium import unwrapped as debezium_unwrapped_json
from python_udfs.debezium import unwrapped_avro as debezium_unwrapped_avro
from python_udfs.debezium.envelope import names_other_key

Messages = Sequence[bytes | None]
"""The keys or the values of many messages."""

FORMATS: Final[dict[str, Decode]] = {
    "aerospike_messagepack": aerospike_messagepack.decode,
    "aerospike_json": aerospike_json.decode,
    "aerospike_flat_json": aerospike_flat_json.decode,
    "aerospike_avro": aerospike_avro.decode,
    "arcion_json": arcion_json.decode,
    "lindorm_json": lindorm_json.decode,
    "debezium_json": debezium_json.decode,
    "debezium_unwrapped_json": debezium_unwrapped_json.decode,
    "debezium_avro": debezium_avro.decode,
    "debezium_unwrapped_avro": debezium_unwrapped_avro.decode,
    "aws_dms_json": aws_dms_json.decode,
    "cockroachdb_json": cockroachdb_json.decode,
    "maxwell_json": maxwell_json.decode,
    "canal_json": canal_json.decode,
    "mongodb_json": change_stream.decode,
}

AEROSPIKE_FORMATS: Final = (
    "aerospike_messagepack",
    "aerospike_json",
    "aerospike_flat_json",
    "aerospike_avro",
)
"""The formats of records, which have a namespace, a set and a digest."""
AVRO_FORMATS: Final = ("debezium_avro", "debezium_unwrapped_avro", "aerospike_avro")
"""The formats whose messages name schemas of a registry."""
UNWRAPPED_FORMATS: Final = ("debezium_unwrapped_json", "debezium_unwrapped_avro")
"""The formats of rows without an envelope."""
NULL_DELETES: Final = (*UNWRAPPED_FORMATS, "mongodb_json")
"""The formats in which a null value may be a delete, which names no table."""

HEADED: Final[dict[str, DecodeHeaded]] = {
    "debezium_json": debezium_json.decode,
    "debezium_avro": debezium_avro.decode,
    "debezium_unwrapped_json": debezium_unwrapped_json.decode,
    "debezium_unwrapped_avro": debezium_unwrapped_avro.decode,
}
"""Formats whose messages also have information in their headers. No other decoder reads headers."""

# Formats that are faster by the batch than one by one.
_BATCHES: Final[dict[str, Callable[[Messages, Messages], Decoded]]] = {
    "aerospike_messagepack": aerospike_messagepack.decode_batch,
    "aerospike_json": aerospike_json.decode_batch,
    "aerospike_flat_json": aerospike_flat_json.decode_batch,
    "arcion_json": arcion_json.decode_batch,
    "lindorm_json": lindorm_json.decode_batch,
    "debezium_json": debezium_json.decode_batch,
    "debezium_unwrapped_json": fast_rows.decode_batch,
    "debezium_avro": debezium_avro.decode_batch,
    "debezium_unwrapped_avro": debezium_unwrapped_avro.decode_batch,
    "maxwell_json": fast_maxwell.decode_batch,
    "canal_json": fast_canal.decode_batch,
}

# Of the formats in _BATCHES.
_FAST_PATHS: Final[dict[str, Callable[[], FastPath]]] = {
    "aerospike_messagepack": aerospike_messagepack.fast_path,
    "aerospike_json": aerospike_json.fast_path,
    "aerospike_flat_json": aerospike_flat_json.fast_path,
    "arcion_json": arcion_json.fast_path,
    "lindorm_json": lindorm_json.fast_path,
    "debezium_json": debezium_json.fast_path,
    "debezium_unwrapped_json": fast_rows.fast_path,
    "debezium_avro": debezium_avro.fast_path,
    "debezium_unwrapped_avro": debezium_unwrapped_avro.fast_path,
    "maxwell_json": fast_maxwell.fast_path,
    "canal_json": fast_canal.fast_path,
}


def fast_path_of(format: str | None) -> FastPath | None:
    """What ``decode_batch`` has learned of a format's tables; None if it decodes each message
    alone.
    """
    return _FAST_PATHS[format]() if format in _BATCHES else None


def decode_batch(
    format: str | None,
    keys: Messages,
    values: Messages,
    headers: Sequence[Headers | None] | None = None,
) -> Decoded:
    """Decode Kafka messages of one wire format into their change events; each has one or more.

    Only the formats in ``HEADED`` use ``headers``. ``format`` None (no configuration matches the
    message) gives ``unknown_format`` events. A format name that is not in ``FORMATS`` is a wrong
    configuration: ``ValueError``. Nothing else is raised: if a decoder does, its messages are
    decoded again, each for itself, and those for which it still does have a ``decoder_failed``
    event.
    """
    if format is None:
        error = UnknownFormat("no entry of vars.topics matches this payload")
        return Decoded(events={place: [invalid(error)] for place in range(len(values))})
    decode = FORMATS.get(format)
    if decode is None:
        raise ValueError(f"unknown wire format {format!r}: use one of {', '.join(FORMATS)}")
    if headers is not None and format in HEADED:
        return _decode_headed(format, keys, values, headers)
    of_many = _BATCHES.get(format)
    if of_many is not None:
        try:
            return of_many(keys, values)
        except Exception:
            # A bug, of the batch or of one message; the careful path tells which.
            pass
    return Decoded(
        events={
            place: _decode_one(decode, key, value)
            for place, (key, value) in enumerate(zip(keys, values, strict=True))
        }
    )


def _decode_headed(
    format: str, keys: Messages, values: Messages, headers: Sequence[Headers | None]
) -> Decoded:
    """Decode messages with and without information in their headers separately, the latter
    together.
    """
    has_said = debezium_unwrapped_json.has_said if format in UNWRAPPED_FORMATS else names_other_key
    saying = [place for place, each in enumerate(headers) if each and has_said(each)]
    if not saying:
        return decode_batch(format, keys, values)
    others = sorted(set(range(len(values))).difference(saying))
    found = decode_batch(
        format, [keys[place] for place in others], [values[place] for place in others]
    )
    decoded = Decoded([([others[each] for each in own], of) for own, of in found.columns])
    decoded.events = {others[own]: events for own, events in found.events.items()}
    for place in saying:
        decoded.events[place] = decode_payload(format, keys[place], values[place], headers[place])
    return decoded


def _decode_one(decode: Callable[..., list[Event]], *message: Any) -> list[Event]:
    try:
        events = decode(*message)
        if not events:
            raise AssertionError("no event was made of the message, not even one that says why")
        return events
    except Exception as error:
        return [invalid(DecoderFailed.by(error))]


def decode_payload(
    format: str | None,
    key: bytes | None,
    value: bytes | None,
    headers: Headers | None = None,
) -> list[Event]:
    """``decode_batch`` of one message by the careful path. Returns its events."""
    decode = FORMATS.get(format or "")
    if decode is None:
        return decode_batch(format, [key], [value]).payloads()[0]
    headed = HEADED.get(format or "") if headers else None
    if headed is not None:
        return _decode_one(headed, key, value, headers)
    return _decode_one(decode, key, value)


def shows_format(format: str, event: Event) -> bool:
    """Whether an event is evidence for the format by which its payload was decoded.

    Nearly any JSON object could be an unwrapped row, and any with an ``_id`` a document.
    """
    if format in UNWRAPPED_FORMATS:
        return debezium_unwrapped_json.is_likely(event) and change_stream.may_be_row(event)
    if format == "mongodb_json":
        return change_stream.is_likely(event)
    return event.operation != INVALID


_NO_TEXTS: Final = {"event_index": "int", "occurred_at": "timestamp", "expires_at": "timestamp"}
# The SQL types of Event's fields, in its order.
EVENT_TYPES: Final = {name: _NO_TEXTS.get(name, "string") for name in Event._fields}
