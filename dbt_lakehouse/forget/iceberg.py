"""Tables as Iceberg's Java library knows them: what they are, without a Spark job for it."""

from typing import Any

from pyspark.sql import SparkSession

from dbt_lakehouse.forget.entities import Table


def load_table(spark: SparkSession, table: Table) -> Any:
    """The table as it is now, ``org.apache.iceberg.Table``."""
    # By way of Any: they are what PySpark and py4j have, not what they declare.
    context: Any = spark.sparkContext
    session: Any = spark
    loader = context._jvm.org.apache.iceberg.spark.Spark3Util
    return loader.loadIcebergTable(session._jsparkSession, table.path)


def properties_of(loaded: Any) -> dict[str, str]:
    """The properties of a loaded table."""
    return {entry.getKey(): entry.getValue() for entry in loaded.properties().entrySet()}
