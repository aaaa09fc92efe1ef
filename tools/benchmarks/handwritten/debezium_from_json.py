"""Debezium envelopes of one table to its current state, as one would write it with ``from_json``.

Native all the way: no Python sees a row. A payload that is not as expected becomes a row of nulls
in the change log. There is nothing of events that no log takes, no quarantine, no truncate and
no change of a key.
"""

from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tools.benchmarks.handwritten.merging import Target, merge_last
from tools.benchmarks.handwritten.watermarks import Tables, news, noted

_COLUMNS: Final = {
    "order_id": "bigint",
    "customer_id": "int",
    "status": "string",
    "amount": "decimal(18,2)",
    "currency": "string",
    "placed_at": "timestamp",
    "shipped_at": "bigint",
    "note": "string",
}
_POSITION: Final = {"occurred_at": "timestamp", "partition": "int", "offset": "bigint"}
_TOPIC: Final = "debezium.sales.orders"
# A key's changes are in one partition, so offsets are their order.
_GOLD: Final = Target("order_id", ("offset",), {**_COLUMNS, **_POSITION})


def _struct(columns: dict[str, str]) -> str:
    return f"struct<{', '.join(f'{name}: {type}' for name, type in columns.items())}>"


_ENVELOPE: Final = (
    f"before {_struct(_COLUMNS)}, after {_struct(_COLUMNS)}, source struct<ts_ms: bigint>,"
    " op string"
)


def create_tables(spark: SparkSession, tables: Tables) -> None:
    """Create change log and gold."""
    _GOLD.create(spark, tables)


def write_log(spark: SparkSession, tables: Tables) -> None:
    """Append what is new in bronze to the change log."""
    if payloads := news(spark, tables.bronze, tables.change_log):
        envelope = F.from_json(F.col("value").cast("string"), _ENVELOPE)
        # Not filtered: a condition on the envelope would have Spark parse each one twice.
        changes = (
            payloads.rows.where(F.col("topic") == _TOPIC)
            .select("partition", "offset", envelope.alias("envelope"))
            .withColumn("row", F.coalesce("envelope.after", "envelope.before"))
            .select(
                F.col("envelope.op").eqNullSafe("d").alias("is_delete"),
                "row.*",
                F.timestamp_millis(F.col("envelope.source.ts_ms")).alias("occurred_at"),
                "partition",
                "offset",
            )
        )
        with noted(spark, payloads):
            changes.writeTo(tables.change_log).append()


def merge(spark: SparkSession, tables: Tables) -> None:
    """Merge what is new in the change log into gold."""
    merge_last(spark, tables, _GOLD)
