"""Commits of the pipeline's tables: rows, and in the same commit what they were made of.

Iceberg writes the settings ``spark.sql.iceberg.snapshot-property.*`` of a session into the summary
of each snapshot that the session's statements make; each thread of dbt has a session of its own.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from dbt_lakehouse.dbt import tables
from dbt_lakehouse.dbt.node_run import carried
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake.tables import NO_SNAPSHOT
from dbt_lakehouse.lake.catalog import CATALOG

_SUMMARY: Final = "spark.sql.iceberg.snapshot-property."


class OvertakenError(LakehouseError):
    """Somebody else has added rows to a table since this command has looked at it."""

    exit_code = 1


@contextmanager
def noting(spark: SparkSession, notes: Mapping[str, str]) -> Iterator[None]:
    """Have the commits of a session note these."""
    for name, value in notes.items():
        spark.conf.set(_SUMMARY + name, value)
    try:
        yield
    finally:
        for name in notes:
            spark.conf.unset(_SUMMARY + name)


def append(rows: DataFrame, name: str, notes: Mapping[str, str], seen: str) -> None:
    """Append rows to a table, by the names of their columns, in one commit.

    ``seen`` is the snapshot of the table by which the rows were chosen. Raises ``OvertakenError``,
    and appends nothing, if rows have been added since; compaction does not count.
    """
    # A plain append never conflicts. An overwrite of nothing appends too, and Iceberg compares it
    # with everything that was added since the given snapshot.
    writer = rows.writeTo(f"{CATALOG}.{name}").option("isolation-level", "serializable")
    if seen != NO_SNAPSHOT:
        writer = writer.option("validate-from-snapshot-id", seen)
    with noting(rows.sparkSession, notes), _told(name):
        writer.overwrite(lit(False))


@contextmanager
def _told(name: str) -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause is not None:
            if cause.getClass().getSimpleName() == "ValidationException":
                raise OvertakenError(
                    f"{name} has got rows of another command since this one began, so nothing was"
                    " added: run it again"
                ) from error
            cause = cause.getCause()
        raise


def note(spark: SparkSession, name: str, notes: Mapping[str, str]) -> None:
    """Have a table note these, in a commit without rows; none if there is nothing to note."""
    if not notes:
        return
    update: Any = tables.load(spark, name).newFastAppend()
    for key, value in notes.items():
        update.set(key, value)
    update.commit()


def carry_on(spark: SparkSession, name: str) -> None:
    """Have a table's newest commit say all that earlier ones say of it, for those will expire."""
    table = tables.look_at(spark, name)
    if table is not None:
        note(spark, name, carried(table))
