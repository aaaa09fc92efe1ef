"""``arcion_json``: the JSON CDC format that Arcion Replicant writes to Kafka.

Implements Arcion's page "JSON CDC format for CDC changes in Kafka target", for the sources MySQL,
PostgreSQL, Oracle, SAP ASE and SQL Server. It is Debezium's envelope with a schema block:

    key    {"schema": {...}, "payload": {"r_regionkey": "0"}}     or "default"
    value  {"schema": {...}, "payload": {
             "before": null, "after": {"r_regionkey": "0", "r_name": "AFRICA", ...},
             "source": {"connector": "MYSQL", "db": "tpch", "schema": null, "table": "region",
                        "ts_ms": null, "server_id": "1", "thread": 160, ...},
             "op": "r", "ts_ms": null, "transaction": {"id": "", "total_order": null}}}

Quirks of the page's samples:

- Values are text (``"0"``) that the schema block types (int32); later revisions ship numbers.
- Fields declared not optional are null, others are not declared (``thread``) or declared with
  another type (``server_id``).
- A table without a primary or unique key has the key ``"default"``. After a delete comes a
  tombstone, which is the text ``"default"``, or ``null`` in later revisions.
- In snapshot mode positions and times are null. An absent image is null, ``{}`` or absent.
- ``source.ts_ms`` is the source's local time.
- A changed key is shipped as a delete and an insert.
"""

from collections.abc import Sequence

from python_udfs.core.events import Decoded, Event
from python_udfs.core.fast_path import FastPath
from python_udfs.debezium import envelope
from python_udfs.debezium.fast_envelopes import DebeziumFormat


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """The change event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    return envelope.decode(key, value, text_values=True)


_FAST_PATH = FastPath(decode, DebeziumFormat(text_values=True))


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
