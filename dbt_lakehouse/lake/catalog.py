"""The lake's catalog: its name for Spark, and its settings."""

from typing import Final

CATALOG: Final = "lake"
WAREHOUSE: Final = f"spark.sql.catalog.{CATALOG}.warehouse"
CATALOG_TYPE: Final = f"spark.sql.catalog.{CATALOG}.type"
CATALOG_URI: Final = f"spark.sql.catalog.{CATALOG}.uri"
SQLITE: Final = "jdbc:sqlite:"
