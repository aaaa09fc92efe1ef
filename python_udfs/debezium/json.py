"""``debezium_json``: change events as Debezium's connectors write them.

Implements the envelope of Debezium's relational connectors (MySQL, MariaDB, PostgreSQL, Oracle,
SQL Server, Db2, ...), with Kafka Connect's JsonConverter in each of its forms:
``{"schema": ..., "payload": ...}``, ``{"schema": null, "payload": ...}``, ``{"payload": ...}`` and,
with ``schemas.enable=false``, the bare envelope:

    {"before": null, "after": {"id": 1004, "first_name": "Anne"}, "op": "c",
     "ts_ms": 1559729471739, "transaction": null,
     "source": {"connector": "mysql", "db": "inventory", "table": "customers",
                "ts_ms": 1559729468000, "snapshot": "false", ...}}

Ops are ``r`` (snapshot), ``c``, ``u``, ``d``, ``t`` (truncate) and ``m`` (logical message). Schema
changes, heartbeats and transaction markers are recognised, and MongoDB's envelopes, whose images
are texts (``mongodb``); unwrapped rows and payloads framed by a schema registry are ``invalid``
with a sentence that says what they are.
"""

from collections.abc import Sequence

from python_udfs.core.events import Decoded, Event, Headers
from python_udfs.core.fast_path import FastPath
from python_udfs.debezium import envelope
from python_udfs.debezium.fast_envelopes import DebeziumFormat


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> list[Event]:
    """The change event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    return envelope.decode(key, value, headers=headers)


_FAST_PATH = FastPath(decode, DebeziumFormat())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
