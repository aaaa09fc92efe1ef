"""``bronze.raw_payloads``: every Kafka message exactly as it came, and the only way to append to
it.
"""

import uuid
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake import iceberg
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import load_table
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.tables import ROW_GROUPS, ROW_LINEAGE
from dbt_lakehouse.spark.jvm import java_class
from python_udfs.core.events import FORGOTTEN

TABLE: Final = f"{CATALOG}.{BRONZE}"
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
# The headers of a message from which `lakehouse forget` has removed bytes.
FORGOTTEN_HEADERS: Final = (
    f"array(named_struct('key', '{FORGOTTEN}', 'value', cast(null as binary)))"
)
IS_FORGOTTEN: Final = f"exists(headers, header -> header.key = '{FORGOTTEN}')"
# Tells messages apart; the hash alone skips nulls. Null where something was forgotten: such a
# message can't be compared with the copy in Kafka or a capture.
FINGERPRINT: Final = f"if({IS_FORGOTTEN}, null, xxhash64(key, key is null, value, value is null))"

# A log which reads one of many topics skips most of a file.
FILES: Final = ROW_GROUPS

# Identifies a commit in its snapshot's summary.
_LANDING_ID: Final = "lakehouse.landing-id"


class ExpiredCommitError(LakehouseError):
    """The rows are appended, but the snapshot that has their number is already gone."""

    exit_code = 1


class Commit(NamedTuple):
    """A landing: its snapshot and the number of rows that it added."""

    snapshot: int
    rows: int


def create_table(spark: SparkSession) -> None:
    """Create the table if it is missing. It is not a dbt model, so no full refresh can drop it."""
    own = {**FILES, **ROW_LINEAGE}
    files = "".join(f", '{name}' = '{value}'" for name, value in own.items())
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
        comment 'One row per Kafka message, byte for byte. Rows are only ever added'
        tblproperties (
            'write.distribution-mode' = 'none',
            'write.spark.fanout.enabled' = 'true'{files}
        )
        """
    )


def current_snapshot(spark: SparkSession) -> int | None:
    """The id of the table's current snapshot; None while it is empty."""
    snapshot = load_table(spark, TABLE).currentSnapshot()
    return None if snapshot is None else int(snapshot.snapshotId())


def is_in_history(spark: SparkSession, snapshot: int) -> bool:
    """Whether a snapshot still exists and is an ancestor of the current one."""
    table = load_table(spark, TABLE)
    return table.currentSnapshot() is not None and bool(
        java_class("org.apache.iceberg.util.SnapshotUtil").isAncestorOf(table, snapshot)
    )


def added_between(since: int | None, until: int | None) -> str | None:
    """A relation, for SQL, of the rows that were added after the snapshot ``since``, an ancestor
    of ``until``; None without such rows. ``since`` is None before the first snapshot.
    """
    if since == until:
        return None
    if since is None:
        return TABLE
    return f"{TABLE} with ('start-snapshot-id' = '{since}', 'end-snapshot-id' = '{until}')"


def append(rows: DataFrame, chosen_by: int | None) -> Commit:
    """Append rows (all columns of the table, in any order) in one commit.

    ``chosen_by`` is the snapshot by which the new rows were chosen. Raises
    ``iceberg.ConcurrentAppendError``, and appends nothing, if rows have been added since. An
    error of ``commit_of`` comes after the append.
    """
    landing_id = str(uuid.uuid4())
    iceberg.append(rows.select(*COLUMNS), TABLE, chosen_by, {_LANDING_ID: landing_id})
    return commit_of(rows.sparkSession, landing_id)


def commit_of(spark: SparkSession, landing_id: str) -> Commit:
    """The commit of a landing that has just succeeded. Raises ``ExpiredCommitError``."""
    table = load_table(spark, TABLE)
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        summary = snapshot.summary()
        if summary.get(_LANDING_ID) == landing_id:
            return Commit(snapshot.snapshotId(), int(summary.get("added-records") or 0))
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)
    raise ExpiredCommitError(
        f"messages have landed in {TABLE}, but their snapshot was expired before they could be"
        " counted: start again, landing continues after them. Let expire_snapshots keep at least"
        " the last minutes"
    )
