"""``lindorm_json``: messages of a Lindorm data subscription, in Debezium's format 2.0.

Implements Alibaba Cloud's page "Lindorm: Data format", for SQL tables and HBase tables:

    {"schema": {}, "payload": {"op": "c", "ts_ms": 1725258859839,
       "after": {"ROW": "dXNlcjE=", "f_name": "bHVja3k="},
       "source": {"version": "v2.0", "db": "ld-xxxx", "namespace": "default",
                  "table": "customers", "ts_ms": 1725258833727}}}

- ``schema`` may be empty; it may come before or behind ``payload``.
- ``source`` names no connector: ``db`` is the instance, ``namespace`` the schema.
- ``before`` may be absent.
- A column delete is an update whose ``after`` lacks the column.
- HBase rows have the key ``ROW`` and columns ``family_column``; all values are base64 and stay so,
  because only the table's model knows their types.
- The page documents no Kafka key: a table's model declares its key columns.
"""

from collections.abc import Sequence

from python_udfs.core.events import Decoded, Event
from python_udfs.core.fast_path import FastPath
from python_udfs.debezium import envelope
from python_udfs.debezium.fast_envelopes import DebeziumFormat


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """The change event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    return envelope.decode(key, value)


_FAST_PATH = FastPath(decode, DebeziumFormat())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
