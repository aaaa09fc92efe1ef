"""The one list of wire formats, and of the SQL functions made from Python.

A wire format is a row of ``FORMATS``; a SQL function is a row of ``SQL_FUNCTIONS``. Adding a format is one module
with ``decode(key, value) -> list[Event]`` and one row here.
"""

from collections.abc import Callable
from typing import Final

from python_udfs import (
    aerospike_json,
    aerospike_messagepack,
    arcion_json,
    debezium_json,
    lindorm_json,
)
from python_udfs.errors import UnknownFormat
from python_udfs.events import Event, invalid

Decode = Callable[[bytes | None, bytes | None], list[Event]]

FORMATS: Final[dict[str, Decode]] = {
    "aerospike_messagepack": aerospike_messagepack.decode,
    "aerospike_json": aerospike_json.decode,
    "arcion_json": arcion_json.decode,
    "lindorm_json": lindorm_json.decode,
    "debezium_json": debezium_json.decode,
}


def decode_payload(format: str | None, key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message of a wire format into its change events; never empty.

    ``format`` None (no configuration matches the topic) gives one ``unknown_format`` event. A format name that is
    not in ``FORMATS`` is a wrong configuration: ``ValueError``.
    """
    if format is None:
        return [invalid(UnknownFormat("no entry of vars.topics matches the topic of this payload"))]
    decode = FORMATS.get(format)
    if decode is None:
        raise ValueError(f"unknown wire format {format!r}: use one of {', '.join(FORMATS)}")
    return decode(key, value)
