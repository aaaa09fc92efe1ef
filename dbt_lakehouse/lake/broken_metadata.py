"""Find tables whose metadata is truncated, or in a bucket that can't be read, before Spark reads
them.

Iceberg treats both as a passing network error: it retries for a minute and a half, and no setting
changes that. So metadata is checked when the lake is opened, and a statement on such a table
fails at once.
"""

import re
import time
from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.errors import DamageError, LakehouseError
from dbt_lakehouse.lake.buckets import is_in_bucket, need_s3
from dbt_lakehouse.lake.catalog import (
    CATALOG_TYPE,
    FILE_IO,
    cut_short,
    entries,
    properties,
)
from dbt_lakehouse.lake.integrity import refuse_table
from dbt_lakehouse.spark.java import settings_of
from dbt_lakehouse.spark.jvm import hadoop_settings, java_class, java_session
from dbt_lakehouse.telling import tell

# The names in a parsed statement, as Spark prints it. Iceberg also reads a table that is dropped
# or replaced.
_NAMED: Final = re.compile(r"Unresolved\w+ \[([^\]]+)\]")

# Long enough to check a table of a gigabyte.
_SECONDS: Final = 20.0

# Damage found when the lake was opened, by schema and table. Usually empty, and then nothing is
# checked again.
_found: Final[dict[tuple[str, ...], DamageError]] = {}


def look_for_damage(spark: SparkSession) -> None:
    """Check the metadata of all tables, and report truncated files."""
    _found.clear()
    _found.update(_damage(spark))
    for error in _found.values():
        tell(str(error))


def refuse_bucket(spark: SparkSession) -> None:
    """Raise ``Py4JJavaError`` if the lake is in a bucket that can't be read."""
    settings = settings_of(spark)
    # A REST catalog's server reads metadata itself.
    if settings.get(CATALOG_TYPE) != "jdbc" or not need_s3(settings):
        return
    try:
        tables = [each for each in entries(settings) if is_in_bucket(each.metadata)]
    except LakehouseError:
        return
    for each in tables[:1]:
        storage = java_class("org.apache.iceberg.CatalogUtil").loadFileIO(
            settings[FILE_IO], properties(settings), hadoop_settings(spark.sparkContext)
        )
        stream = storage.newInputFile(each.metadata).newStream()
        try:
            stream.read()
        finally:
            stream.close()
            storage.close()


def refuse_damage(spark: SparkSession, name: str) -> None:
    """Raise ``DamageError`` if the table (``schema.table``, or with the catalog in front) is
    truncated now, and was so when the lake was opened.
    """
    # The name of a temporary view has one part.
    table = tuple(name.replace("`", "").split(".")[-2:])
    if table in _found and (error := _damage(spark).get(table)):
        raise error


def refuse_damage_in(spark: SparkSession, statement: str) -> None:
    """``refuse_damage`` for each table that a statement names."""
    if not _found:
        return
    plan = java_session(spark).sessionState().sqlParser().parsePlan(statement).toString()
    for name in _NAMED.findall(plan):
        if len(parts := name.split(", ")) > 1:
            refuse_damage(spark, ".".join(parts))


def find_damage(statement: str) -> DamageError | None:
    """The first damaged file of the open lake's tables, those that a statement names first; None
    if none is found within ``_SECONDS``.
    """
    spark = SparkSession.getActiveSession()
    if spark is None:
        return None
    try:
        tables = [each for each in entries(settings_of(spark)) if not each.is_view]
    except LakehouseError:
        return None
    bare = statement.replace("`", "")
    until = time.monotonic() + _SECONDS
    for table in sorted(tables, key=lambda each: str(each) not in bare):
        try:
            refuse_table(table.metadata, until=until)
        except DamageError as error:
            return error
    return None


def _damage(spark: SparkSession) -> dict[tuple[str, ...], DamageError]:
    settings = settings_of(spark)
    if settings.get(CATALOG_TYPE) != "jdbc":
        return {}
    try:
        tables = entries(settings)
    except LakehouseError:
        # A new lake, a catalog that only Java can read, or a case that Iceberg explains better.
        return {}
    return {(each.schema, each.name): error for each in tables if (error := cut_short(each))}
