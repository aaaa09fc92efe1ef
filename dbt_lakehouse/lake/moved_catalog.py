"""Catalogs that are closed: the lake has moved to another one, or is on its way (`lakehouse
migrate-catalog`).

Two catalogs that both name a table would each commit to it without seeing the other's commits, and
one's rows would be lost. A catalog is closed by a property of its schema ``bronze``, which says
why, and a command that opens the lake by it says so.
"""

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import CLOSED
from dbt_lakehouse.lake.iceberg import lake_catalog
from dbt_lakehouse.spark.jvm import cause_of, java_class


def refuse_closed(spark: SparkSession) -> None:
    """Raises ``ConfigurationError`` if the session's catalog is closed."""
    if reason := closed(lake_catalog(spark)):
        raise ConfigurationError(reason)


def closed(catalog: Any) -> str | None:
    """Why a catalog (Iceberg's) is closed; None if it isn't."""
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
