"""Tables through Iceberg's Java library, without a Spark job."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from dbt_lakehouse.lake.broken_metadata import refuse_damage
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.tables import KEPT_FOR, Table
from dbt_lakehouse.spark.java import new_object, own_object
from dbt_lakehouse.spark.jvm import activate, cause_of, java_class, java_session

_HERE: Final = Path(__file__).parent

# Running readers may still need this many snapshots of a table that is not pinned.
_SNAPSHOTS_KEPT: Final = 100
_SNAPSHOTS_AT_MOST: Final = 500
# The gold tables of a run append to `deleted_keys` at the same time. Each commit may lose to those
# of all others in turn, and Iceberg gives up after four, each of which waits for 100 ms or more.
_OF_MANY_WRITERS: Final = {"commit.retry.num-retries": "30", "commit.retry.min-wait-ms": "10"}


class ConcurrentAppendError(Exception):
    """Another writer has appended since the snapshot by which the rows were chosen."""


def lake_catalog(spark: SparkSession) -> Any:
    """The session's lake as Iceberg's ``org.apache.iceberg.catalog.Catalog``."""
    return catalog_of(spark).icebergCatalog()


def catalog_of(spark: SparkSession) -> Any:
    """The lake's ``org.apache.iceberg.spark.SparkCatalog`` in a session."""
    activate(spark)
    return java_session(spark).sessionState().catalogManager().catalog(CATALOG)


def known_tables() -> Any:
    """An empty ``KnownTables``: each ``settle(SparkCatalog)`` shares with that catalog which
    metadata were read. Metadata list all snapshots of a table, 2 KB each, and a cycle of the
    stream reads them a hundred times for one table.
    """
    return new_object(_HERE / "KnownTables.java")


def commits_since(metadata: Any, before: Table) -> str | None:
    """What has come to an ``org.apache.iceberg.TableMetadata`` since an earlier state of the table
    with a snapshot, as JSON; None if more has changed.
    """
    found: str | None = own_object(_HERE / "Commits.java").since(
        metadata,
        before.snapshot,
        before.chain[-1].name,
        len(before.chain) + len(before.others),
        len(before.log),
    )
    return found


def has_schema(spark: SparkSession, name: str) -> bool:
    """Whether the lake has the schema. Spark takes ten times as long to find that there is nothing
    to create.
    """
    # Namespace.of takes an array.
    return bool(lake_catalog(spark).namespaceExists(_identifier(f"{name}.any").namespace()))


def has_table(spark: SparkSession, name: str) -> bool:
    """Whether the lake has the table ``schema.table``."""
    return bool(lake_catalog(spark).tableExists(_identifier(name)))


def _identifier(name: str) -> Any:
    return java_class("org.apache.iceberg.catalog.TableIdentifier").parse(name)


def load_table(spark: SparkSession, name: str) -> Any:
    """The table as it is now, an ``org.apache.iceberg.Table``; the name has the catalog in front.

    Raises ``DamageError``.
    """
    refuse_damage(spark, name)
    spark3_util = java_class("org.apache.iceberg.spark.Spark3Util")
    return spark3_util.loadIcebergTable(java_session(spark), name)


def append(
    rows: DataFrame, table: str, chosen_by: int | None, properties: Mapping[str, str]
) -> None:
    """Append rows with all columns of the table, in any order, in one commit with snapshot
    properties; the name has the catalog in front.

    ``chosen_by`` is the snapshot by which the new rows were chosen, None for an empty table.
    Raises ``ConcurrentAppendError``, and appends nothing, if rows have been added since;
    compaction and deletes do not count.
    """
    # A plain append never conflicts. An overwrite that deletes nothing appends too, and Iceberg
    # validates it against all rows added since the given snapshot.
    writer = rows.writeTo(table)
    for name, value in _validation(chosen_by).items():
        writer = writer.option(name, value)
    for name, value in properties.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    try:
        writer.overwrite(lit(False))
    except Py4JJavaError as error:
        conflict = cause_of(error, "ValidationException")
        if conflict is None:
            raise
        raise ConcurrentAppendError(conflict.getMessage()) from error


def _validation(chosen_by: int | None) -> dict[str, str]:
    """Write options for the validation. As session settings, Iceberg would ignore them."""
    since = {} if chosen_by is None else {"validate-from-snapshot-id": str(chosen_by)}
    return {"isolation-level": "serializable", **since}


def tend_own_state(
    spark: SparkSession, name: str, before: Callable[[], None] = lambda: None
) -> None:
    """Keep a table of the lake's own state fit for runs and landings that commit to it many times;
    the name has the catalog in front.

    Once there are five hundred snapshots, calls ``before`` and expires them, except for the last
    hundred and those of the last hour: each commit writes the list of all snapshots, and each
    reader reads it first. It waits until four hundred can go, and a quarter of all, for it looks at
    the files of those that stay too. A table without retries of its own gets some.
    """
    table = load_table(spark, name)
    properties = table.properties()
    if missing := {key: _OF_MANY_WRITERS[key] for key in _OF_MANY_WRITERS if key not in properties}:
        update = table.updateProperties()
        for key, value in missing.items():
            update.set(key, value)
        update.commit()
    oldest = datetime.now(UTC) - KEPT_FOR
    if not _is_worth_expiring(table.operations().current(), oldest):
        return
    before()
    catalog, _, path = name.partition(".")
    # Not by Table.expireSnapshots: it deletes a file with several deletion vectors as soon as one
    # of them has been replaced (Iceberg 1.12).
    spark.sql(
        f"call {catalog}.system.expire_snapshots(table => '{path}',"
        f" older_than => timestamp '{oldest:%F %T}', retain_last => {_SNAPSHOTS_KEPT})"
    )


def _is_worth_expiring(metadata: Any, oldest: datetime) -> bool:
    number = int(metadata.snapshots().size())
    if number < _SNAPSHOTS_AT_MOST:
        return False
    old = own_object(_HERE / "Commits.java").before(metadata, int(oldest.timestamp() * 1000))
    least = _SNAPSHOTS_AT_MOST - _SNAPSHOTS_KEPT
    return min(int(old), number - _SNAPSHOTS_KEPT) >= max(least, number // 4)
