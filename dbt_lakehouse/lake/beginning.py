"""Begin a lake: its schema ``bronze`` notes when it was begun and in which catalog.

Whenever the lake is opened, the note is compared with the catalog
(``dbt_lakehouse.lake.wholeness``), and maintenance leaves older files alone.
"""

from contextlib import closing
from datetime import datetime
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.lake.buckets import is_in_bucket
from dbt_lakehouse.lake.catalog import (
    CATALOG,
    CATALOG_TYPE,
    CATALOG_URI,
    FILE_IO,
    WAREHOUSE,
    catalog_name,
    contents,
    properties,
    sqlite_file,
)
from dbt_lakehouse.lake.iceberg import lake_catalog
from dbt_lakehouse.lake.wholeness import (
    BEGUN,
    PLACE,
    beginning,
    begins_anew,
    begun_at,
    committed,
    filled,
    known_later,
    refuse_filled,
)
from dbt_lakehouse.spark.java import settings_of
from dbt_lakehouse.spark.jvm import cause_of, hadoop_settings, java_class
from dbt_lakehouse.texts import sql_text

_BRONZE: Final = f"{CATALOG}.bronze"


def begin(spark: SparkSession) -> None:
    """Begin a lake in an empty catalog, or add the notes that an earlier version did not write.
    Raises ``ConfigurationError`` if the warehouse has the files of another lake.
    """
    settings = settings_of(spark)
    file = sqlite_file(settings.get(CATALOG_URI, ""))
    notes = _notes(spark)
    if notes is None:
        refuse_filled(catalog_name(settings), settings[WAREHOUSE])
        _refuse_filled_bucket(spark, settings)
        spark.sql(
            f"create schema if not exists {_BRONZE} with dbproperties"
            f" ({_assignments(beginning(file))})"
        )
    elif file is not None:
        at = {PLACE: str(file.resolve())}
        before = committed(settings[WAREHOUSE])
        if begins_anew() and known_later(notes, contents(settings).entries, before):
            at[BEGUN] = beginning(file)[BEGUN]
        if not at.items() <= notes.items():
            spark.sql(f"alter schema {_BRONZE} set dbproperties ({_assignments(at)})")


def lake_begun_at(spark: SparkSession) -> datetime | None:
    """The time at which the session's lake was begun; None for a lake from before that
    was noted.
    """
    return begun_at(_notes(spark) or {})


def _notes(spark: SparkSession) -> dict[str, str] | None:
    # Namespace.of takes an array.
    identifier = java_class("org.apache.iceberg.catalog.TableIdentifier").parse("bronze.any")
    try:
        found = lake_catalog(spark).loadNamespaceMetadata(identifier.namespace())
    except Py4JJavaError as error:
        if cause_of(error, "NoSuchNamespaceException") is None:
            raise
        return None
    return dict(found)


def _refuse_filled_bucket(spark: SparkSession, settings: dict[str, str]) -> None:
    warehouse = settings[WAREHOUSE].rstrip("/")
    # Only a REST catalog's server knows where it has its files.
    if settings.get(CATALOG_TYPE) != "jdbc" or not is_in_bucket(warehouse) or begins_anew():
        return
    storage = java_class("org.apache.iceberg.CatalogUtil").loadFileIO(
        settings[FILE_IO], properties(settings), hadoop_settings(spark.sparkContext)
    )
    with closing(storage):
        files = storage.listPrefix(f"{warehouse}/bronze/").iterator()
        if files.hasNext():
            what = str(files.next().location())
            raise filled(catalog_name(settings), warehouse, what)


def _assignments(noted: dict[str, str]) -> str:
    return ", ".join(f"{sql_text(name)} = {sql_text(value)}" for name, value in noted.items())
