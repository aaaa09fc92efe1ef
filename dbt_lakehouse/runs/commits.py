"""Commits of the pipeline's tables: rows, with the marks of what they were made of in the same
commit.

Iceberg writes the settings ``spark.sql.iceberg.snapshot-property.*`` of a session into the summary
of each snapshot that the session's statements make; each thread of dbt has a session of its own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake import iceberg
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.tables import NO_SNAPSHOT
from dbt_lakehouse.runs import tables
from dbt_lakehouse.runs.model_run import carried, kept_anew


class OvertakenError(LakehouseError):
    """Another writer has added rows to a table since this command has looked at it."""

    exit_code = 1


@contextmanager
def noting(spark: SparkSession, notes: Mapping[str, str]) -> Iterator[None]:
    """Write notes into the summaries of a session's commits while the context lasts."""
    for name, value in notes.items():
        spark.conf.set(tables.SUMMARY + name, value)
    try:
        yield
    finally:
        for name in notes:
            spark.conf.unset(tables.SUMMARY + name)


def refuse_overtaken(spark: SparkSession, name: str, seen: str | None) -> None:
    """Raise ``OvertakenError`` if rows of a table have changed since the snapshot ``seen``, by
    which new rows were chosen. ``seen`` None: the rows were not chosen by the table.

    An optimistic lock of our own: Iceberg's MERGE compares only with the table as it finds it
    when it begins. It can't see what a process had read before it was held up and lost its lease.
    Compaction and commits without rows don't count.
    """
    table = None if seen is None else tables.look_at(spark, name)
    if table is None or table.snapshot == seen:
        return
    for snapshot in table.chain:
        if snapshot.name == seen:
            return
        if snapshot.changes_rows:
            break
    else:
        if seen == NO_SNAPSHOT:
            return
    raise OvertakenError(
        f"{name} has got rows of another command since this one began, so nothing was written:"
        " run it again"
    )


def append(rows: DataFrame, name: str, notes: Mapping[str, str], seen: str | None) -> None:
    """Append rows to a table, by column name, in one commit.

    ``seen`` is the snapshot of the table by which the rows were chosen. Raises
    ``OvertakenError``, and appends nothing, if rows have been added since; compaction does not
    count.
    """
    chosen_by = None if seen is None or seen == NO_SNAPSHOT else int(seen)
    try:
        with noting(rows.sparkSession, notes):
            iceberg.append(rows, f"{CATALOG}.{name}", chosen_by, {})
    except iceberg.ConcurrentAppendError as error:
        raise OvertakenError(
            f"{name} has got rows of another command since this one began, so nothing was added:"
            " run it again"
        ) from error


def note(spark: SparkSession, name: str, notes: Mapping[str, str]) -> None:
    """Note these in a table's commit without rows; without notes, don't commit."""
    if not notes:
        return
    update: Any = tables.load(spark, name).newFastAppend()
    for key, value in notes.items():
        update.set(key, value)
    update.commit()


def carry_on(spark: SparkSession, name: str) -> None:
    """Repeat in a table's newest commit all that earlier ones note, and point its properties to
    that commit, since the earlier ones will expire.
    """
    table = tables.look_at(spark, name)
    if table is not None and (notes := carried(table)):
        note(spark, name, notes)
        table = tables.look_at(spark, name)
    if table is not None and (values := kept_anew(table)):
        tables.set_properties(spark, name, values)
