"""Tables as Iceberg's Java library knows them: what they are, without a Spark job for it."""

import json
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession


def load_table(spark: SparkSession, name: str) -> Any:
    """The table as it is now, ``org.apache.iceberg.Table``; the name has the catalog in front."""
    jvm: Any = spark._jvm
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)


def properties_of(table: Any) -> dict[str, str]:
    """The properties of a loaded table."""
    jvm: Any = SparkContext._jvm
    # As JSON: each entry of a Java map costs a round trip.
    to_json = jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString
    properties: dict[str, str] = json.loads(to_json(table.properties()))
    return properties
