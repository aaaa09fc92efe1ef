"""Counts of rows that were appended to bronze, by topic and partition; positions follow from them.

Spark counts rows by a statement. The rows of one small commit are counted in Python, from its
files: a small landing would wait longer for Spark to plan the statement than for its append.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import load_table
from dbt_lakehouse.landing.kafka.partitions import Partition, partition_relation
from dbt_lakehouse.landing.lags import Buckets, bucket_of_millis, bucket_sql

# The most that Python counts: a fraction of a second, and a few MB.
_MOST_ROWS: Final = 20_000
_MOST_BYTES: Final = 8 << 20
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Python has no time outside of these, in microseconds.
_TIMES: Final = range(
    (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1),
    (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1) + 1,
)


class Appended(NamedTuple):
    """The rows of a partition: how many are at or behind its floor; and the last one's offset and
    Kafka timestamp, None without a valid one. ``ages`` are those of rows that have just landed.
    """

    behind_floor: int
    landed_offset: int
    landed_timestamp: datetime | None
    ages: Buckets


def counted_by_spark(
    spark: SparkSession, added: str, floors: Mapping[Partition, int], landed: datetime | None
) -> dict[Partition, Appended]:
    """Count rows of bronze (an SQL relation). A partition's floor is an offset, 0 by default. If
    the rows have just ``landed``, their ages as of then are counted.
    """
    age = "cast(null as int)"
    if landed is not None:
        # Some messages have no timestamp, or an invalid one.
        millis = f"{_millis(landed)} - unix_millis(timestamp)"
        age = f"if(timestamp >= '1970-01-01', {bucket_sql(millis)}, null)"
    partition_relation(spark, floors, "floor").createOrReplaceTempView("position_floors")
    counted = spark.sql(
        f"""
        select
            topic,
            partition,
            age,
            count(*) as messages,
            count_if(offset >= coalesce(floor, 0)) as behind_floor,
            max(offset) as landed_offset,
            -- Python has no time behind these.
            max_by(
                if(timestamp between '0001-01-01' and '9999-12-31', timestamp, null), offset
            ) as landed_timestamp
        from (select topic, partition, offset, timestamp, {age} as age from {added})
        left join position_floors using (topic, partition)
        group by topic, partition, age
        """
    )
    place = itemgetter("topic", "partition")
    found = {}
    # With Arrow, since `collect` makes times local ones.
    for key, group in groupby(sorted(counted.toArrow().to_pylist(), key=place), key=place):
        rows = list(group)
        newest = max(rows, key=itemgetter("landed_offset"))
        found[key] = Appended(
            sum(row["behind_floor"] for row in rows),
            newest["landed_offset"],
            newest["landed_timestamp"],
            {row["age"]: row["messages"] for row in rows if row["age"] is not None},
        )
    return found


def counted_in_commit(
    spark: SparkSession, commit: bronze.Commit, floors: Mapping[Partition, int], landed: datetime
) -> dict[Partition, Appended] | None:
    """Count the rows of a small landing, as ``counted_by_spark`` does; None if it is not small, or
    only Spark can read it.
    """
    rows = None if commit.rows > _MOST_ROWS else _rows_of(spark, commit)
    return None if rows is None else counted(rows, floors, landed)


def counted(
    rows: Iterable[tuple[str, int, int, int | None]],
    floors: Mapping[Partition, int],
    landed: datetime,
) -> dict[Partition, Appended]:
    """Count rows: topic, partition, offset, and timestamp in microseconds since 1970."""
    millis = _millis(landed)
    behind: dict[Partition, int] = {}
    last: dict[Partition, tuple[int, int | None]] = {}
    ages: dict[Partition, dict[int, int]] = {}
    for topic, partition, offset, time in rows:
        key = topic, partition
        behind[key] = behind.get(key, 0) + (offset >= floors.get(key, 0))
        if key not in last or offset > last[key][0]:
            last[key] = offset, time
        of_key = ages.setdefault(key, {})
        if time is not None and time >= 0:
            age = bucket_of_millis(millis - time // 1_000)
            of_key[age] = of_key.get(age, 0) + 1
    return {
        key: Appended(behind[key], offset, _datetime(time), ages[key])
        for key, (offset, time) in last.items()
    }


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000)


def _datetime(time: int | None) -> datetime | None:
    # Not by a float, which has too few digits.
    if time is None or time not in _TIMES:
        return None
    return _EPOCH + timedelta(microseconds=time)


def _rows_of(spark: SparkSession, commit: bronze.Commit) -> list[Any] | None:
    table = load_table(spark, bronze.TABLE)
    snapshot, io = table.snapshot(commit.snapshot), table.io()
    files = [] if snapshot is None else list(snapshot.addedDataFiles(io))
    if sum(file.fileSizeInBytes() for file in files) > _MOST_BYTES:
        return None
    try:
        rows = [row for file in files for row in _rows_in(io, file)]
    except (pa.ArrowException, OSError):
        # Of a format, or with a codec, that Arrow lacks.
        return None
    return rows if len(rows) == commit.rows else None


def _rows_in(io: Any, file: Any) -> Iterator[Any]:
    stream = io.newInputFile(file.location()).newStream()
    try:
        content = stream.readAllBytes()
    finally:
        stream.close()
    read = pq.read_table(pa.BufferReader(content), columns=[*_COLUMNS])
    times = read["timestamp"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    others = (read[name].to_pylist() for name in _COLUMNS[:-1])
    return zip(*others, times.to_pylist(), strict=True)
