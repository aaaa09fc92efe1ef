"""``debezium_unwrapped_avro``: rows of Debezium's ExtractNewRecordState in Avro, with the schemas
in a schema registry.

Frames, schemas and keys are as in ``debezium_avro`` (``avro``); rows, what is added to them, null
values and headers as in ``debezium_unwrapped_json`` (``unwrapped``). What comes of a message is
what comes of the same one in JSON with its schema block.

It is a format of its own because of null values: here they delete the row of the key, of envelopes
they say nothing. A value doesn't tell which they are, for the keys are the same.
"""

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadShape, DecodeError
from python_udfs.core.events import Event, Headers, invalid
from python_udfs.debezium import avro, unwrapped
from python_udfs.debezium.envelope import Content
from python_udfs.debezium.types import Notes


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> list[Event]:
    """The change event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    try:
        event_key = avro.read_key(key, notes)
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
