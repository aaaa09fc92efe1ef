"""Tables as Iceberg's Java library knows them: what they are, without a Spark job for it."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

from dbt_lakehouse.lake.broken_metadata import refuse_damage
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.spark.jvm import activate, cause_of, java_class, java_session

# Readers at work may still need so many snapshots of a table that is not read as of a time.
_SNAPSHOTS_KEPT: Final = 100
_SNAPSHOTS_AT_MOST: Final = 500
_KEPT_FOR: Final = timedelta(hours=1)


class ConcurrentAppendError(Exception):
    """Somebody else has appended since the snapshot that the rows were chosen by."""


def lake_catalog(spark: SparkSession) -> Any:
    """The session's lake as Iceberg has it, ``org.apache.iceberg.catalog.Catalog``."""
    return catalog_of(spark).icebergCatalog()


def catalog_of(spark: SparkSession) -> Any:
    """The lake's ``org.apache.iceberg.spark.SparkCatalog`` of a session."""
    activate(spark)
    return java_session(spark).sessionState().catalogManager().catalog(CATALOG)


def load_table(spark: SparkSession, name: str) -> Any:
    """The table as it is now, ``org.apache.iceberg.Table``; the name has the catalog in front.

    Raises ``DamageError``.
    """
    refuse_damage(spark, name)
    spark3_util = java_class("org.apache.iceberg.spark.Spark3Util")
    return spark3_util.loadIcebergTable(java_session(spark), name)


def append(
    rows: DataFrame, table: str, chosen_by: int | None, properties: Mapping[str, str]
) -> None:
    """Append rows with all columns of the table, in any order, in one commit, whose snapshot gets
    the properties; the name has the catalog in front.

    ``chosen_by`` is the snapshot that told which rows are new, None that of an empty table. Raises
    ``ConcurrentAppendError``, and appends nothing, if rows have been added since; compaction and
    deletes do not count.
    """
    # A plain append never conflicts. An overwrite of nothing appends too, and Iceberg compares it
    # with everything that was added since the given snapshot.
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
    """Options of a write. They are no settings of a session: Iceberg would pass over those."""
    since = {} if chosen_by is None else {"validate-from-snapshot-id": str(chosen_by)}
    return {"isolation-level": "serializable", **since}


def expire_own_history(
    spark: SparkSession, name: str, before: Callable[[], None] = lambda: None
) -> None:
    """Expire the snapshots of a table but the last hundred and those of the last hour, once there
    are five hundred; the name has the catalog in front. ``before`` is called first if so.

    For tables of the lake's own state that each run, or each landing, writes many times: a commit
    writes down all snapshots that there are, and whoever reads the table reads that first.
    """
    if int(load_table(spark, name).snapshots().size()) < _SNAPSHOTS_AT_MOST:
        return
    before()
    catalog, _, table = name.partition(".")
    oldest = datetime.now(UTC) - _KEPT_FOR
    # Not by Table.expireSnapshots, which deletes a file of several deletion vectors as soon as one
    # of them has been replaced (Iceberg 1.12).
    spark.sql(
        f"call {catalog}.system.expire_snapshots(table => '{table}',"
        f" older_than => timestamp '{oldest:%F %T}', retain_last => {_SNAPSHOTS_KEPT})"
    )
