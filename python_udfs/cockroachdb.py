"""``cockroachdb_json``: messages of CockroachDB's changefeeds in Kafka with ``envelope=wrapped``.

Implements the pages "Changefeed Message Envelope" and "Changefeed Messages" of CockroachDB 25.2,
and its ``encoder_json.go``, for ``format=json``:

    key    ["rome", 7]      the key's values, in the order of the primary key
    value  {"after": {"city": "rome", "id": 7, "price": 26.30},
            "before": {"city": "rome", "id": 7, "price": 22.30},
            "key": ["rome", 7], "topic": "vehicles",
            "updated": "1701102296662969433.0000000000",
            "mvcc_timestamp": "1701102296662969433.0000000000"}
    value  {"resolved": "1701102296662969433.0000000000"}

``after`` is the row, null if it was deleted; all else depends on options of the changefeed.
Results:

    after and before a row                    update
    after a row, before null                  insert, also of rows of the initial scan
    after a row, no before (without diff)     upsert
    after null, before a row                  delete
    after and before null                     message: the deleted row did not exist
    resolved                                  message

``occurred_at`` is ``mvcc_timestamp``, else ``updated``, both nanoseconds and a counter. For a row
of the initial scan or of a backfill, ``updated`` is the time of the scan. All fields but the images
are in ``metadata`` by their own names; ``event_key`` is the Kafka key.

Quirks: no message names its table, so the topic is the table. After a pause messages come again,
including older ones, until the newest has come again. If a table's column families are split, a
message has the columns of one family, and the key.

Policies:

- There is no ``record_key``: the key's values have no names. A model declares the key's columns.
- A delete without ``before`` is ``bad_field``, because its row is unknown; set ``diff``.
- An enriched envelope is ``bad_shape``: its format is ``debezium_json``.
- So are rows without an envelope (``envelope=bare``, ``row``), which don't mark deletes.
- A message without a value (``envelope=key_only``, deletes of ``row``) is a ``tombstone``.
- Values stay as they were sent: decimals with their digits, times as text, without a zone or in
  UTC, BYTES as hexadecimal text behind ``\\x``, NaN and infinities as text. So does JSON's null as
  ``encode_json_value_null_as_object`` writes it.
- An invalid time, or one not after 1970, gives no ``occurred_at``; it is in ``metadata`` all the
  same.
- A name that comes twice in one object is ``bad_field``.
"""

import re
from typing import Any, Final

from python_udfs.core.errors import BadField, BadShape, DecodeError
from python_udfs.core.events import (
    DELETE,
    INSERT,
    MAX_TIME_MS,
    MESSAGE,
    TOMBSTONE,
    UPDATE,
    UPSERT,
    Event,
    invalid,
)
from python_udfs.debezium.envelope import is_resolved
from python_udfs.text.json_as_sent import encode, kind_of, load_key, load_whole, metadata_of

TIMES: Final = ("mvcc_timestamp", "updated")
"""The fields with a change's time, the best first."""
_AFTER: Final = "after"
_BEFORE: Final = "before"
# Fields of the enriched envelope that the wrapped one never has; with a schema they are in
# "payload".
_ENRICHED: Final = frozenset({"op", "source", "ts_ns", "payload"})
# Nanoseconds since 1970, and a counter; older versions mark some with a question mark.
_HLC: Final = re.compile(r"([0-9]{1,19})\.[0-9]{10}\??", re.ASCII)


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    _, key_metadata = load_key(key)
    try:
        message = load_whole(value) if value else None
        if message is None:
            return [Event(0, TOMBSTONE, metadata=_text(key_metadata))]
        return [_event(message, key_metadata)]
    except DecodeError as error:
        return [invalid(error, metadata=_text(key_metadata))]


def _event(message: Any, key_metadata: dict[str, Any]) -> Event:
    if type(message) is not dict:
        raise BadShape(f"$: expected an object, got {kind_of(message)}")
    if is_resolved(message):
        return Event(0, MESSAGE, metadata=_text(metadata_of(message, key_metadata)))
    _refuse_others(message)
    occurred_at = _occurred_at(message)
    after, before = _image(message, _AFTER), _image(message, _BEFORE)
    if after is None and before is None:
        if _BEFORE not in message:
            raise BadField(
                f"$.{_BEFORE}: missing, so nothing names the row that was deleted: create the"
                " changefeed with diff"
            )
        metadata = _text(metadata_of(message, key_metadata))
        return Event(0, MESSAGE, occurred_at=occurred_at, metadata=metadata)
    if after is None:
        operation = DELETE
    elif before is not None:
        operation = UPDATE
    else:
        operation = INSERT if _BEFORE in message else UPSERT
    for name in (_AFTER, _BEFORE):
        message.pop(name, None)
    return Event(
        0,
        operation,
        before=None if before is None else encode(before),
        after=None if after is None else encode(after),
        occurred_at=occurred_at,
        metadata=_text(metadata_of(message, key_metadata)),
    )


def _refuse_others(message: dict[str, Any]) -> None:
    """Raise for anything but a wrapped envelope."""
    found = sorted(_ENRICHED & message.keys())
    if found:
        raise BadShape(f"$.{found[0]}: an enriched envelope has it: its format is debezium_json")
    if _AFTER not in message:
        raise BadShape(
            f"$.{_AFTER}: missing, as in rows without an envelope: create the changefeed with"
            " envelope=wrapped and diff"
        )


def _image(message: dict[str, Any], name: str) -> dict[str, Any] | None:
    image = message.get(name)
    if image is None:
        return None
    if type(image) is not dict or not image:
        got = "an empty one" if image == {} else kind_of(image)
        raise BadField(f"$.{name}: expected an object with the columns of a row or null, got {got}")
    return image


def _occurred_at(message: dict[str, Any]) -> int | None:
    found = None
    for name in TIMES:
        text = message.get(name)
        if type(text) is not str and text is not None:
            raise BadField(f"$.{name}: expected a string, got {kind_of(text)}")
        match = _HLC.fullmatch(text or "")
        if match is not None and found is None:
            time = int(match[1]) // 1_000_000
            found = time if 0 < time <= MAX_TIME_MS else None
    return found


def _text(metadata: dict[str, Any]) -> bytes | None:
    return encode(metadata) if metadata else None
