"""Closed catalogs: the lake has moved to another catalog, or is about to (`lakehouse
migrate-catalog`).

Two catalogs that both name a table would each commit to it without seeing the other's commits,
and one's rows would be lost. A catalog is closed by a property of its schema ``bronze`` with the
reason. A command that opens the lake by it fails with that reason.
"""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import CLOSED
from dbt_lakehouse.lake.iceberg import lake_catalog
from dbt_lakehouse.spark.jvm import cause_of, java_class


def refuse_closed(spark: SparkSession) -> None:
    """Raise ``ConfigurationError`` if the session's catalog is closed."""
    if reason := closed(lake_catalog(spark)):
        raise ConfigurationError(reason)


def closed(catalog: Any) -> str | None:
    """The reason why an Iceberg catalog is closed; None if it is open."""
    try:
        reason: str | None = catalog.loadNamespaceMetadata(_bronze()).get(CLOSED)
    except Py4JJavaError as error:
        # A new lake.
        if cause_of(error, "NoSuchNamespaceException") is None:
            raise
        return None
    return reason


def close(catalog: Any, reason: str) -> None:
    """Close a catalog that has the schema ``bronze``."""
    catalog.setProperties(_bronze(), {CLOSED: reason})


def reopen(catalog: Any) -> None:
    """Open it again."""
    catalog.removeProperties(_bronze(), {CLOSED})


def _bronze() -> Any:
    # Namespace.of takes an array.
    return java_class("org.apache.iceberg.catalog.TableIdentifier").parse("bronze.any").namespace()
