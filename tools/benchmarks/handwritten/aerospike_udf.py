"""Aerospike MessagePack records of one set to their current state, as one would write it with a
Python function over msgpack.

Spark can't read MessagePack, so a function has to. ``arrow_udf`` is the fastest of Spark's ways to
have one, and needs no pandas: a batch of payloads crosses at once, values go straight into Arrow
arrays, and only the bins that the table has are looked at. (A row UDF, ``useArrow`` or not,
converts each struct that it returns on its own.) Batches of records, records of
connectors before 4.0 and deletes without a set are not expected, nor a payload that is no
MessagePack: it fails the job.
"""

import base64
from typing import Any, Final

import msgpack
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from tools.benchmarks.handwritten.merging import Target, merge_last
from tools.benchmarks.handwritten.watermarks import Tables, news, noted

_BINS: Final = {
    "name": "string",
    "email": "string",
    "visits": "bigint",
    "balance": "double",
    "active": "boolean",
    "segments": "array<string>",
    "limits": "map<string,bigint>",
}
_RECORD: Final = {
    "digest": "string",
    **_BINS,
    "occurred_at": "timestamp",
    "expires_at": "timestamp",
}
_TOPIC: Final = "aerospike.users.profiles"
# Connectors can re-order, so the time of the write comes first.
_GOLD: Final = Target(
    "digest", ("occurred_at", "offset"), {**_RECORD, "partition": "int", "offset": "bigint"}
)
_CHANGE: Final = ", ".join(
    f"{name} {type}" for name, type in {"is_delete": "boolean", **_RECORD}.items()
)
_ARROW: Final = pa.struct(
    [
        ("is_delete", pa.bool_()),
        ("digest", pa.string()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("visits", pa.int64()),
        ("balance", pa.float64()),
        ("active", pa.bool_()),
        ("segments", pa.list_(pa.string())),
        ("limits", pa.map_(pa.string(), pa.int64())),
        ("occurred_at", pa.timestamp("us", tz="UTC")),
        ("expires_at", pa.timestamp("us", tz="UTC")),
    ]
)
_DELETE: Final = 2


def create_tables(spark: SparkSession, tables: Tables) -> None:
    """Create change log and gold."""
    _GOLD.create(spark, tables)


def _values(bins: list[list[Any]]) -> tuple[Any, ...]:
    """The values of the table's bins, in its order."""
    found = {name: value for name, _, _, value in bins}
    limits = found.get("limits")
    return (
        found.get("name"),
        found.get("email"),
        found.get("visits"),
        found.get("balance"),
        found.get("active"),
        found.get("segments"),
        None if limits is None else list(limits.items()),
    )


_NO_VALUES: Final = (None,) * len(_BINS)


def _unpacked(payloads: pa.Array) -> pa.Array:
    """Payloads (binary) to a struct of is_delete and the record's columns each."""
    rows = []
    for value in payloads.to_pylist():
        _, type_, payload = msgpack.unpackb(value)
        if type_ == _DELETE:
            key, _, _, _, lut = payload
            expiry, values = 0, _NO_VALUES
        else:
            key, _, expiry, lut, bins = payload
            values = _values(bins)
        digest = base64.b64encode(key[2]).decode()
        expires = expiry * 1_000_000 if expiry and expiry > 0 else None
        rows.append((type_ == _DELETE, digest, *values, lut * 1000, expires))
    columns = zip(*rows, strict=True) if rows else ([] for _ in _ARROW)
    return pa.StructArray.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)],
        fields=list(_ARROW),
    )


def write_log(spark: SparkSession, tables: Tables) -> None:
    """Append what is new in bronze to the change log."""
    if payloads := news(spark, tables.bronze, tables.change_log):
        # PySpark's stubs know only the form without type hints.
        make_udf: Any = arrow_udf
        unpacked = make_udf(_unpacked, _CHANGE)
        changes = (
            payloads.rows.where(F.col("topic") == _TOPIC)
            .select(unpacked("value").alias("change"), "partition", "offset")
            .select("change.*", "partition", "offset")
        )
        with noted(spark, payloads):
            changes.writeTo(tables.change_log).append()


def merge(spark: SparkSession, tables: Tables, as_of: str) -> None:
    """Merge what is new in the change log into gold, and delete what has expired at ``as_of``, a
    timestamp.
    """
    merge_last(spark, tables, _GOLD)
    spark.sql(f"delete from {tables.gold} where expires_at <= timestamp '{as_of}'")
