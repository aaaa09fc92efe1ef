"""Remove from the files what the tables' current rows no longer hold.

A deleted row stays in its data file until that is rewritten. The old file stays as long as an
earlier snapshot names it, and its columns' bounds stay in the manifests that list it as deleted.
So: rewrite the data files with deleted rows, rewrite the manifests, expire all earlier snapshots,
and delete the files that nothing names.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.forget.entities import BuiltTable
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake.catalog import CATALOG_URI, SQLITE
from dbt_lakehouse.lake.tables import NO_SNAPSHOT
from dbt_lakehouse.maintenance import orphans
from dbt_lakehouse.maintenance.marks_kept import rewriting
from dbt_lakehouse.runs import commits, tables
from dbt_lakehouse.runs.source_filter import Wanted

_MANIFEST_SIZE: Final = "commit.manifest.target-size-bytes"
_DAY_MS: Final = 24 * 60 * 60 * 1000


class PurgeError(LakehouseError):
    """Snapshots can't be expired. The message gives the remedy."""


class Purged(NamedTuple):
    """The purge of a table's files."""

    rewritten_files: int
    expired_snapshots: int
    deleted_files: int
    older_files: int
    """Orphan files from before the lake was begun: another lake's, which stay."""


def purge(spark: SparkSession, table: BuiltTable, readers: Mapping[str, Wanted]) -> Purged:
    """Leave only files with a table's current rows.

    ``readers`` are the tables with a mark on it, with their conditions. Each step can be
    repeated. Raises ``PurgeError``.
    """
    refs = set(tables.load(spark, table.label).refs().keySet()) - {"main"}
    if refs:
        names = ", ".join(sorted(refs))
        raise PurgeError(
            f"{table.label} has branches or tags ({names}), which keep snapshots with what was"
            " forgotten: drop them, then purge again"
        )
    with rewriting(spark, readers, table.label):
        rewritten = spark.sql(
            f"call lake.system.rewrite_data_files(table => '{table.label}', options => map("
            # Each file with a deleted row, and no other.
            "'delete-file-threshold', '1', 'min-input-files', '2147483647', 'max-file-size-bytes',"
            f" '{2**62}', 'min-file-size-bytes', '0', 'remove-dangling-deletes', 'true'))"
        ).collect()[0]
        _rewrite_manifests(spark, table)
        commits.carry_on(spark, table.label)
    before = _snapshots(spark, table)
    spark.sql(
        f"call lake.system.expire_snapshots(table => '{table.label}', retain_last => 1,"
        f" older_than => timestamp_millis({_now_ms() + _DAY_MS}))"
    )
    unnamed = _delete_unnamed(spark, table)
    return Purged(
        rewritten["rewritten_data_files_count"],
        before - _snapshots(spark, table),
        len(unnamed.ours),
        len(unnamed.older),
    )


def _rewrite_manifests(spark: SparkSession, table: BuiltTable) -> None:
    now = tables.look_at(spark, table.label)
    if now is None or now.snapshot == NO_SNAPSHOT:
        return
    row = spark.sql(f"select sum(length) as size from {table.path}.manifests").collect()[0]
    # Iceberg leaves a single manifest alone unless it has to split it.
    with _property(spark, table, _MANIFEST_SIZE, str(max(1, (row["size"] or 0) // 2))):
        spark.sql(f"call lake.system.rewrite_manifests(table => '{table.label}')")


@contextmanager
def _property(spark: SparkSession, table: BuiltTable, name: str, value: str) -> Iterator[None]:
    """Set a table's property within the context."""
    now = tables.look_at(spark, table.label)
    before = now.properties.get(name) if now is not None else None
    spark.sql(f"alter table {table.path} set tblproperties ('{name}' = '{value}')")
    try:
        yield
    finally:
        if before is None:
            spark.sql(f"alter table {table.path} unset tblproperties ('{name}')")
        else:
            spark.sql(f"alter table {table.path} set tblproperties ('{name}' = '{before}')")


def _snapshots(spark: SparkSession, table: BuiltTable) -> int:
    return int(tables.load(spark, table.label).snapshots().size())


def _delete_unnamed(spark: SparkSession, table: BuiltTable) -> orphans.Orphans:
    """Delete orphan files, such as those of failed commits; those of another lake stay.

    With a catalog that is local to this host, all of them: there is no other writer, since we
    hold the locks. Otherwise only those older than a day: another host's files have no name until
    it commits.
    """
    is_local = (spark.conf.get(CATALOG_URI, "") or "").startswith(SQLITE)
    span = timedelta(seconds=1) if is_local else -timedelta(days=1)
    found = orphans.find(spark, table.label, datetime.now(UTC) + span)
    orphans.delete(spark, table.label, found.ours)
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
