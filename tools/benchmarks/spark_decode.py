"""The decode UDF in Spark, Parquet to Spark's noop sink, on all cores.

Aerospike writes: beside the same function in plain Python (its rate on one core, times the cores),
and beside a plain row UDF that returns the same events. Debezium envelopes: beside Spark's own
``from_json`` with a schema of the same fields, and columns made of them as one would. Wall seconds
count; the UDF reads the SQL of ``BenchmarkLake.decoded``.
"""

import os
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from dbt_lakehouse.spark.functions import SQL_FUNCTIONS
from python_udfs import registry
from tools.benchmarks.decoders import arrow_batches, decode_batches, usual_stream
from tools.benchmarks.lake import BenchmarkLake, write_project
from tools.benchmarks.measuring import Figure, Options, medians
from tools.benchmarks.payloads import SHAPES, USUAL_SHAPES, chosen_shapes, write_parquet

PLAIN_BAR: Final = 0.7
ROW_UDF_BAR: Final = 2.5
FROM_JSON_BAR: Final = 1.5

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ROW = "order_id bigint, customer_id int, status string, amount string, currency string"
_ROW += ", placed_at string, shipped_at bigint, note string"
ENVELOPE: Final = (
    f"before struct<{_ROW}>, after struct<{_ROW}>, source struct<version string, connector string,"
    " name string, ts_ms bigint, snapshot string, db string, sequence string, schema string,"
    " table string, txId bigint, lsn bigint, xmin bigint>, op string, ts_ms bigint"
)
"""The envelope of the usual Debezium messages, for ``from_json``."""

FROM_JSON: Final = f"""
    select
        topic, partition, offset, timestamp,
        envelope.op,
        envelope.source.db,
        envelope.source.schema,
        envelope.source.table,
        from_json(cast(key as string), 'order_id bigint').order_id,
        envelope.before,
        envelope.after,
        timestamp_millis(envelope.source.ts_ms) as occurred_at,
        envelope.source,
        envelope.ts_ms
    from (select *, from_json(cast(value as string), '{ENVELOPE}') as envelope from payloads)
"""
"""What one would make of them with ``from_json``."""

_ROW_UDF: Final = """
    select topic, partition, offset, timestamp, 'aerospike_messagepack' as format, event.*
    from payloads lateral view inline(decode_in_rows('aerospike_messagepack', key, value)) event
"""


def _spark_value(value: Any) -> Any:
    return value.decode() if type(value) is bytes else value


def _spark_time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)


def _decode_in_rows(format: str, key: bytes | None, value: bytes | None) -> list[tuple[Any, ...]]:
    """The registry's function as an ordinary UDF has to return it."""
    rows = []
    for event in registry.decode_payload(format, key, value):
        times = (_spark_time(event.occurred_at), _spark_time(event.expires_at))
        rows.append((*map(_spark_value, event[:8]), *times, *map(_spark_value, event[10:])))
    return rows


def to_noop(rows: DataFrame) -> None:
    """Have every column of every row computed and thrown away."""
    rows.write.format("noop").mode("overwrite").save()


def read_payloads(spark: SparkSession, folder: Path, shape: str, options: Options) -> None:
    """Make the payloads, and a temporary view of them."""
    files = write_parquet(
        folder / shape, SHAPES[shape], options.events, per_file=max(1, options.events // 8)
    )
    spark.read.parquet(*(str(file) for file in files)).createOrReplaceTempView("payloads")


def _aerospike(spark: SparkSession, decoded: str, options: Options) -> list[Figure]:
    read_payloads(spark, options.folder, "aerospike", options)
    returns = SQL_FUNCTIONS["decode_payload"].returns
    spark.udf.register("decode_in_rows", udf(_decode_in_rows, returns, useArrow=False))
    stream = usual_stream(SHAPES["aerospike"], options)
    batches = arrow_batches(SHAPES["aerospike"], stream, True)
    cores = len(os.sched_getaffinity(0))
    seconds = medians(
        {
            "plain": partial(decode_batches, batches),
            "udf": lambda: to_noop(spark.sql(decoded)),
            "row udf": lambda: to_noop(spark.sql(_ROW_UDF)),
        },
        options.rounds,
    )
    rate = options.events / seconds["udf"]
    plain = len(stream) / seconds["plain"]
    row_udf = options.events / seconds["row udf"]
    return [
        Figure(
            "spark_decode",
            f"aerospike, UDF to plain Python x {cores} cores",
            rate / (plain * cores),
            PLAIN_BAR,
            measured={"payloads/s": rate, "plain Python payloads/s, one core": plain},
        ),
        Figure(
            "spark_decode",
            "aerospike, UDF to row UDF",
            rate / row_udf,
            ROW_UDF_BAR,
            measured={"payloads/s": rate, "row UDF payloads/s": row_udf},
        ),
    ]


def _debezium(spark: SparkSession, decoded: str, options: Options) -> Figure:
    read_payloads(spark, options.folder, "debezium", options)
    seconds = medians(
        {
            "udf": lambda: to_noop(spark.sql(decoded)),
            "from_json": lambda: to_noop(spark.sql(FROM_JSON)),
        },
        options.rounds,
    )
    return Figure(
        "spark_decode",
        "debezium, UDF to native from_json",
        seconds["from_json"] / seconds["udf"],
        FROM_JSON_BAR,
        measured={name + " payloads/s": options.events / taken for name, taken in seconds.items()},
    )


def _other_shape(spark: SparkSession, name: str, decoded: str, options: Options) -> Figure:
    read_payloads(spark, options.folder, name, options)
    stream = usual_stream(SHAPES[name], options)
    seconds = medians(
        {
            "plain": partial(decode_batches, arrow_batches(SHAPES[name], stream, True)),
            "udf": lambda: to_noop(spark.sql(decoded)),
        },
        options.rounds,
    )
    cores = len(os.sched_getaffinity(0))
    rate, plain = options.events / seconds["udf"], len(stream) / seconds["plain"]
    return Figure(
        "spark_decode",
        f"{name}, UDF to plain Python x {cores} cores",
        rate / (plain * cores),
        measured={"payloads/s": rate, "plain Python payloads/s, one core": plain},
    )


def measure(options: Options) -> list[Figure]:
    """The usual shapes against their bars, and a figure for each other one that is asked for."""
    lake = BenchmarkLake(options.folder, write_project(options.folder / "project"))
    decoded = lake.decoded("payloads")
    spark = lake.open_session()
    figures: list[Figure] = []
    for name in chosen_shapes(options.shapes) if options.shapes else USUAL_SHAPES:
        if name == "aerospike":
            figures += _aerospike(spark, decoded, options)
        elif name == "debezium":
            figures.append(_debezium(spark, decoded, options))
        else:
            figures.append(_other_shape(spark, name, decoded, options))
    return figures
