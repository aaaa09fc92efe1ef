"""``bronze.raw_payloads``: every Kafka message exactly as it came, and the one way to append to
it.
"""

import uuid
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

TABLE: Final = "lake.bronze.raw_payloads"
COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "landed_at",
)
# What tells messages apart; the hash alone passes over nulls.
FINGERPRINT: Final = "xxhash64(key, key is null, value, value is null)"

# Names a commit in the summary of its snapshot.
_LANDING_ID: Final = "lakehouse.landing-id"


class ConcurrentAppendError(Exception):
    """Somebody else has appended since the snapshot that the rows were chosen by."""


class Commit(NamedTuple):
    """A landing: its snapshot and the number of rows that it added."""

    snapshot: int
    rows: int


def create_table(spark: SparkSession) -> None:
    """Create the table if it is missing. It is no dbt model, so that no full refresh can drop
    it.
    """
    spark.sql(
        f"""
        create table if not exists {TABLE} (
            topic string not null comment 'Kafka topic',
            partition int not null comment 'Kafka partition',
            offset bigint not null comment 'Kafka offset',
            timestamp timestamp comment 'Kafka timestamp',
            timestamp_type int comment '0 CreateTime, 1 LogAppendTime',
            key binary comment 'message key as bytes, null if the message has none',
            value binary comment 'message value as bytes, null for a Kafka tombstone',
            headers array<struct<key: string, value: binary>> comment 'message headers in order',
            landed_at timestamp not null comment 'when the row was appended here'
        )
        using iceberg
        partitioned by (days(landed_at))
        tblproperties (
            'write.distribution-mode' = 'none',
            'write.spark.fanout.enabled' = 'true',
            -- A message may have 10 MB: a hundred of them between two looks at the size of a row
            -- group, the default, are 1 GB for each writer.
            'write.parquet.row-group-check-min-record-count' = '10'
        )
        """
    )


def current_snapshot(spark: SparkSession) -> int | None:
    """The id of the table's current snapshot; None while it is empty."""
    row = spark.sql(f"select snapshot_id from {TABLE}.refs where name = 'main'").first()
    return None if row is None else int(row.snapshot_id)


def append(rows: DataFrame, chosen_by: int | None) -> Commit:
    """Append rows (all columns of the table, in any order) in one commit.

    ``chosen_by`` is the snapshot that told which rows are new. Raises ``ConcurrentAppendError``,
    and appends nothing, if rows have been added since; compaction does not count.
    """
    landing_id = str(uuid.uuid4())
    # A plain append never conflicts. An overwrite of nothing appends too, and Iceberg compares it
    # with everything that was added since the given snapshot.
    writer = (
        rows.select(*COLUMNS)
        .writeTo(TABLE)
        .option("isolation-level", "serializable")
        .option(f"snapshot-property.{_LANDING_ID}", landing_id)
    )
    if chosen_by is not None:
        writer = writer.option("validate-from-snapshot-id", str(chosen_by))
    try:
        writer.overwrite(lit(False))
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause is not None:
            if cause.getClass().getSimpleName() == "ValidationException":
                raise ConcurrentAppendError(cause.getMessage()) from error
            cause = cause.getCause()
        raise
    commit = rows.sparkSession.sql(
        "select snapshot_id, cast(summary['added-records'] as bigint) as added"
        f" from {TABLE}.snapshots where summary['{_LANDING_ID}'] = '{landing_id}'"
    ).collect()[0]
    return Commit(snapshot=commit.snapshot_id, rows=commit.added)
