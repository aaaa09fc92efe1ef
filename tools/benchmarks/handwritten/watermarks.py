"""What the handwritten jobs have read, kept in the summaries of the snapshots that they write."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession

_READ: Final = "job.read-snapshot"
_SETTING: Final = f"spark.sql.iceberg.snapshot-property.{_READ}"


class Tables(NamedTuple):
    """The tables of a job; ``bronze`` has the columns of ``bronze.raw_payloads``."""

    bronze: str
    change_log: str
    gold: str


class News(NamedTuple):
    """Rows that have been appended since a table was last read, as of a snapshot of it."""

    rows: DataFrame
    snapshot: int
    first: bool
    """Whether it was never read before."""


def _table(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)


def _last_read(spark: SparkSession, reader: str) -> int | None:
    """The newest snapshot of ``reader`` that says what it has read."""
    table = _table(spark, reader)
    snapshot = table.currentSnapshot()
    while snapshot is not None:
        read = snapshot.summary().get(_READ)
        if read is not None:
            return int(read)
        parent = snapshot.parentId()
        snapshot = None if parent is None else table.snapshot(parent)
    return None


@contextmanager
def noted(spark: SparkSession, read: News) -> Iterator[None]:
    """Writes meanwhile note that they hold what was read."""
    spark.conf.set(_SETTING, str(read.snapshot))
    try:
        yield
    finally:
        spark.conf.unset(_SETTING)


def news(spark: SparkSession, source: str, reader: str) -> News | None:
    """What ``reader`` has not read of ``source`` yet; None if that is nothing."""
    current = _table(spark, source).currentSnapshot()
    if current is None:
        return None
    until = int(current.snapshotId())
    since = _last_read(spark, reader)
    if since == until:
        return None
    if since is None:
        rows = spark.read.option("versionAsOf", until).table(source)
    else:
        rows = (
            spark.read.option("start-snapshot-id", since)
            .option("end-snapshot-id", until)
            .table(source)
        )
    return News(rows, until, since is None)
