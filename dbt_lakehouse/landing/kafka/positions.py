"""Where to continue Kafka's topics, derived from bronze itself.

``bronze.topic_partitions`` has one row per topic and partition: how far it is landed and, for
Kafka's topics, how far it lags. It is a summary of bronze as of one snapshot, so that a run reads
only what was added since. Without it, or if its snapshot is no longer in bronze's history (a
rollback, expired snapshots), the run reads all of bronze. It can be dropped at any time.

A partition's ``next_offset`` is the first offset that may be missing: everything before it is in
bronze, was removed by Kafka (compaction, aborted transactions) or is in ``bronze.kafka_gaps``.
Rows at and behind it can exist, from a run that was killed after its append, or from captures. If
these rows leave no gap, they advance ``next_offset``; otherwise messages read from there on are
compared with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import has_table, load_table, tend_own_state
from dbt_lakehouse.lake.names import TOPIC_PARTITIONS
from dbt_lakehouse.lake.small_tables import overwrite, rows_of
from dbt_lakehouse.landing.kafka.admin import PartitionLog
from dbt_lakehouse.landing.kafka.appended import Appended, counted_by_spark, counted_in_commit
from dbt_lakehouse.landing.kafka.partitions import Partition
from dbt_lakehouse.landing.lags import Buckets

TABLE: Final = f"{CATALOG}.{TOPIC_PARTITIONS}"
_GAPS: Final = "bronze.kafka_gaps"
GAPS: Final = f"{CATALOG}.{_GAPS}"
_AGES: Final = (
    "landed_ages map<int, bigint> comment 'messages of this landing by their age at checked_at:"
    " under b those of 1.1^b to 1.1^(b+1) ms; null if none was landed'"
)


class Position(NamedTuple):
    """How far one partition is landed.

    ``landed_offset`` and ``landed_timestamp`` are the last row's in bronze, None without rows.
    ``topic_id`` is the one that Kafka last gave the topic, None while only captures were landed.
    ``landed_ages`` are the ages of the rows that have just landed.
    """

    next_offset: int
    landed_offset: int | None
    landed_timestamp: datetime | None
    topic_id: str | None
    landed_ages: Buckets = MappingProxyType({})

    @property
    def read_to(self) -> int:
        """The offset behind everything ever read or landed: no log of this topic ends before it."""
        landed = 0 if self.landed_offset is None else self.landed_offset + 1
        return max(self.next_offset, landed)

    @property
    def overlaps(self) -> bool:
        """Whether bronze holds rows at or behind ``next_offset``."""
        return self.landed_offset is not None and self.landed_offset >= self.next_offset


class Positions(NamedTuple):
    """The positions by topic and partition, as of a snapshot of bronze (None: it is empty)."""

    snapshot: int | None
    by_partition: dict[Partition, Position]


def create_tables(spark: SparkSession) -> None:
    """Create the tables of positions and gaps if they are missing. Spark takes longer to find that
    there is nothing to create.
    """
    if not has_table(spark, TOPIC_PARTITIONS):
        _create_positions(spark)
    # A table from an earlier version may lack this column.
    elif load_table(spark, TABLE).schema().findField("landed_ages") is None:
        spark.sql(f"alter table {TABLE} add columns ({_AGES})")
    if not has_table(spark, _GAPS):
        _create_gaps(spark)


def _create_positions(spark: SparkSession) -> None:
    spark.sql(
        f"""
        create table if not exists {TABLE} (
            topic string not null comment 'topic as bronze.raw_payloads names it',
            partition int not null comment 'Kafka partition',
            topic_id string comment 'id that Kafka gave the topic, null if only captures landed',
            next_offset bigint not null comment 'where the next run continues',
            landed_offset bigint comment 'largest offset in bronze',
            landed_timestamp timestamp comment 'Kafka timestamp of that message',
            log_start_offset bigint comment 'first offset that the broker holds',
            log_end_offset bigint comment 'offset behind the last message that can be read',
            lag_messages bigint comment 'log_end_offset - next_offset: at most so many are missing',
            lag_seconds double comment 'checked_at - landed_timestamp if messages are missing',
            checked_at timestamp comment 'when the broker was asked',
            bronze_snapshot_id bigint comment 'snapshot of bronze.raw_payloads that this sums up',
            {_AGES}
        )
        using iceberg
        comment 'One row per topic and partition: its landed offsets, and their lag'
        """
    )


def _create_gaps(spark: SparkSession) -> None:
    spark.sql(
        f"""
        create table if not exists {GAPS} (
            topic string not null comment 'topic as bronze.raw_payloads names it',
            partition int not null comment 'Kafka partition',
            first_offset bigint not null comment 'first offset that was not landed',
            next_offset bigint not null comment 'first offset behind the gap',
            messages_at_most bigint not null comment 'offsets in the gap; not each was a message',
            reason string not null comment 'retention: Kafka had deleted them',
            accepted_at timestamp not null comment 'when somebody chose to go on without them'
        )
        using iceberg
        comment 'One row per accepted gap: messages that Kafka deleted before they landed'
        """
    )


def read_positions(spark: SparkSession, logs: Sequence[PartitionLog]) -> Positions:
    """The position of each partition: those in bronze, and those of ``logs`` (at their start, if
    none of their messages has landed).
    """
    # In this order: another host may land and save in between, and the summary's snapshot must
    # not be later than the one that it is updated to.
    rows = rows_of(spark, TABLE)
    snapshot = bronze.current_snapshot(spark)
    summed_up = rows[0]["bronze_snapshot_id"] if rows else None
    if summed_up is None or not bronze.is_in_history(spark, summed_up):
        rows, summed_up = (), None
    positions = {
        (row["topic"], row["partition"]): Position(
            row["next_offset"], row["landed_offset"], row["landed_timestamp"], row["topic_id"]
        )
        for row in rows
    }
    known_topics = {
        (topic, position.topic_id)
        for (topic, _), position in positions.items()
        if position.topic_id is not None
    }
    for log in logs:
        key = (log.topic, log.partition)
        known = positions.get(key)
        if known is None and (log.topic, log.topic_id) in known_topics:
            # A partition added since the topic was last landed, so none of its messages has
            # landed.
            positions[key] = Position(0, None, None, log.topic_id)
        elif known is None or (known.landed_offset is None and known.topic_id != log.topic_id):
            positions[key] = Position(log.start, None, None, None)
        elif known.topic_id is None:
            # Only captures so far, and Kafka no longer has the messages before its log's start.
            positions[key] = known._replace(next_offset=max(known.next_offset, log.start))
    added = bronze.added_between(summed_up, snapshot)
    if added is not None:
        _move(positions, counted_by_spark(spark, added, _floors(positions), None))
    for log in logs:
        key = (log.topic, log.partition)
        known = positions[key]
        landed_offset = known.landed_offset
        if known.topic_id is None and landed_offset is not None and landed_offset + 1 < log.start:
            # The messages between the last landed one and the log's start are gone.
            positions[key] = known._replace(next_offset=landed_offset + 1)
    for gap in rows_of(spark, GAPS):
        key = (gap["topic"], gap["partition"])
        if key in positions:
            position = positions[key]
            positions[key] = position._replace(
                next_offset=max(position.next_offset, gap["next_offset"])
            )
    return Positions(snapshot, positions)


def behind_own_append(
    spark: SparkSession,
    logs: Sequence[PartitionLog],
    positions: Positions,
    commit: bronze.Commit,
    checked_at: datetime,
) -> Positions:
    """The positions after an append that was chosen by ``positions``: no other process has added
    rows in between. They include the ages of the appended rows at ``checked_at`` (UTC).
    """
    if positions.snapshot is not None and not bronze.is_in_history(spark, positions.snapshot):
        return read_positions(spark, logs)
    by_partition = dict(positions.by_partition)
    floors = _floors(by_partition)
    appended = counted_in_commit(spark, commit, floors, checked_at)
    if appended is None:
        added = bronze.added_between(positions.snapshot, commit.snapshot)
        assert added is not None
        appended = counted_by_spark(spark, added, floors, checked_at)
    _move(by_partition, appended)
    return Positions(commit.snapshot, by_partition)


def _floors(positions: Mapping[Partition, Position]) -> dict[Partition, int]:
    return {key: position.next_offset for key, position in positions.items()}


def _move(positions: dict[Partition, Position], appended: Mapping[Partition, Appended]) -> None:
    """Move the positions by rows of bronze that they don't include yet, which were counted by
    their floors.
    """
    for key, rows in appended.items():
        known = positions.get(key, Position(0, None, None, None))
        last, next_offset = rows.landed_offset, known.next_offset
        # Offsets are unique, so if as many rows as fit lie between floor and last, none is
        # missing. Earlier rows count only if they leave no hole either.
        if not known.overlaps and rows.behind_floor == last + 1 - next_offset > 0:
            next_offset = last + 1
        if known.landed_offset is None or last > known.landed_offset:
            known = known._replace(landed_offset=last, landed_timestamp=rows.landed_timestamp)
        positions[key] = known._replace(next_offset=next_offset, landed_ages=rows.ages)


def advanced(positions: Positions, ends: Mapping[Partition, int]) -> Positions:
    """The positions, moved at least to where ``ends`` says that their partition was read."""
    moved = {
        key: position._replace(next_offset=max(position.next_offset, ends.get(key, 0)))
        for key, position in positions.by_partition.items()
    }
    return positions._replace(by_partition=moved)


def save_positions(
    spark: SparkSession, positions: Positions, logs: Iterable[PartitionLog], checked_at: datetime
) -> None:
    """Replace the table of positions, with the lag behind ``logs`` as of ``checked_at`` (UTC)."""
    rows = [
        {**row, "landed_ages": [*position.landed_ages.items()] or None}
        for row, (_, position) in zip(
            lags(positions, logs, checked_at), sorted(positions.by_partition.items()), strict=True
        )
    ]
    # Two hosts may do it at the same time: the rows of each are true as of its own snapshot.
    overwrite(spark, TABLE, rows)
    tend_own_state(spark, TABLE)


def lags(
    positions: Positions, logs: Iterable[PartitionLog], checked_at: datetime
) -> list[dict[str, object]]:
    """A row of ``bronze.topic_partitions`` for each position, ordered by topic and partition."""
    by_partition = {(log.topic, log.partition): log for log in logs}
    rows = []
    for (topic, partition), position in sorted(positions.by_partition.items()):
        log = by_partition.get((topic, partition))
        lag = None if log is None else max(0, log.end - position.next_offset)
        seconds = None
        if lag == 0:
            seconds = 0.0
        elif lag and position.landed_timestamp is not None:
            seconds = max(0.0, (checked_at - position.landed_timestamp).total_seconds())
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                "topic_id": position.topic_id if log is None else log.topic_id,
                "next_offset": position.next_offset,
                "landed_offset": position.landed_offset,
                "landed_timestamp": position.landed_timestamp,
                "log_start_offset": None if log is None else log.start,
                "log_end_offset": None if log is None else log.end,
                "lag_messages": lag,
                "lag_seconds": seconds,
                "checked_at": None if log is None else checked_at,
                "bronze_snapshot_id": positions.snapshot,
            }
        )
    return rows


def rows_like(spark: SparkSession, table: str, rows: Sequence[dict[str, object]]) -> DataFrame:
    """Python rows as a relation with the columns of a table, in a single partition."""
    schema = to_arrow_schema(spark.table(table).schema)
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema)).coalesce(1)
