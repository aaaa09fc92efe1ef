"""Keep the marks of readers valid when rows of the table that they read are rewritten.

To forget a key, or to purge, is to commit rewritten rows without anything new. A mark (``marks``)
survives that only as long as its snapshot is kept; after the snapshot has expired, a rewritten
row looks like a new one. So the marks of all readers that had read everything are moved past the
commit.

A change log has marks on other_events and on bronze, and follows other_events: it reads bronze as
far as other_events has.

Names of tables are ``schema.table``.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.lake.tables import TAKEN
from dbt_lakehouse.runs import commits, marks, source_filter, tables
from dbt_lakehouse.runs.inventory import LakeTable
from dbt_lakehouse.runs.marks import HistoryLost, Window
from dbt_lakehouse.runs.source_filter import Wanted

_LOG_TIMES: Final = "log_times"


def readers_in(spark: SparkSession) -> dict[str, list[str]]:
    """The lake's tables with marks on others, of any target, by the table that they have read."""
    found: dict[str, list[str]] = {}
    for schema in tables.schemas_of(spark):
        for name in tables.tables_in(spark, schema):
            table = tables.look_at(spark, ".".join(quoted([schema, name])))
            # A mark of log_times says up to where its rows were found; nothing is read by it.
            if table is not None and name != _LOG_TIMES:
                for upstream in marks.marks_of(table):
                    found.setdefault(upstream, []).append(f"{schema}.{name}")
    return found


def has_read_all(spark: SparkSession, reader: str, upstream: str, wanted: Wanted = None) -> bool:
    """Whether the reader's next run has nothing left to read of what it wants of the upstream; a
    change log wants what it declares.
    """
    followed = _followed(spark, reader, upstream)
    if followed is not None:
        return has_read_all(spark, followed, upstream) and has_read_all(spark, reader, followed)
    table, read = tables.look_at(spark, reader), tables.look_at(spark, upstream)
    mark = None if table is None else marks.marks_of(table).get(upstream)
    if table is None or mark is None or read is None:
        return False
    try:
        reading = marks.reading(mark, read)
    except HistoryLost:
        return False
    if reading.window is Window.SINCE_SEQUENCE:
        return spark.sql(f"select 1 from {reading.sql(upstream)} limit 1").isEmpty()
    return not source_filter.may_have(read, reading, wanted or LakeTable(reader, table).wanted)


def _followed(spark: SparkSession, reader: str, upstream: str) -> str | None:
    """The table that a reader of an upstream follows: other_events; otherwise None."""
    table = tables.look_at(spark, reader)
    for name in () if table is None else marks.marks_of(table).keys() - {upstream}:
        other = tables.look_at(spark, name)
        if other is not None and other.noted(TAKEN) and upstream in marks.marks_of(other):
            return name
    return None


def notes_of_reading(spark: SparkSession, reader: str, upstream: str) -> dict[str, str]:
    """The notes of a reader that needs nothing more of an upstream as it is now; empty if it has
    noted that already.
    """
    table, read = tables.look_at(spark, reader), tables.look_at(spark, upstream)
    assert table is not None and read is not None
    held, mark = marks.marks_of(table), marks.mark_of(read)
    return {} if held.get(upstream) == mark else marks.noted({**held, upstream: mark})


@contextmanager
def rewriting(spark: SparkSession, readers: Mapping[str, Wanted], upstream: str) -> Iterator[None]:
    """Change rows of a table, without adding any, within the context. Readers that have read all
    that they want of it before have read all of it afterwards.
    """
    done = [
        reader
        for reader, wanted in readers.items()
        if has_read_all(spark, reader, upstream, wanted)
    ]
    # No reader is ahead of the table that it reads.
    done.sort(key=lambda reader: _followed(spark, reader, upstream) is not None)
    # Before the change too: an interrupted one is repeated, and then finds marks whose snapshots
    # have not expired.
    _move_on(spark, done, upstream)
    yield
    _move_on(spark, done, upstream)


def _move_on(spark: SparkSession, readers: Sequence[str], upstream: str) -> None:
    for reader in readers:
        commits.note(spark, reader, notes_of_reading(spark, reader, upstream))
