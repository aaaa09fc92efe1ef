"""Tables as Iceberg's Java library knows them: what they are, without a Spark job for it."""

import json
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import SparkSession


def java_class(name: str) -> Any:
    """A class of the JVM by its whole name. Where ``jvm.org.apache.Table`` stands, py4j has the JVM
    look through all jars for a class ``org``, and for one ``org.apache``, each time.
    """
    gateway: Any = SparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def load_table(spark: SparkSession, name: str) -> Any:
    """The table as it is now, ``org.apache.iceberg.Table``; the name has the catalog in front."""
    spark3_util = java_class("org.apache.iceberg.spark.Spark3Util")
    return spark3_util.loadIcebergTable(spark._jsparkSession, name)


def properties_of(table: Any) -> dict[str, str]:
    """The properties of a loaded table."""
    # As JSON: each entry of a Java map costs a round trip.
    to_json = java_class("com.fasterxml.jackson.databind.ObjectMapper")().writeValueAsString
    properties: dict[str, str] = json.loads(to_json(table.properties()))
    return properties
