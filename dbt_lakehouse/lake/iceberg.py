"""Tables as Iceberg's Java library knows them: what they are, without a Spark job for it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import SparkSession

from dbt_lakehouse.lake.catalog import CATALOG_URI, refuse_damage

# What readers at work may still need of a table whose earlier states nobody asks for.
_SNAPSHOTS_KEPT: Final = 100
_SNAPSHOTS_AT_MOST: Final = 500
_KEPT_FOR: Final = timedelta(hours=1)


def java_class(name: str) -> Any:
    """A class of the JVM by its whole name. Where ``jvm.org.apache.Table`` stands, py4j has the JVM
    look through all jars for a class ``org``, and for one ``org.apache``, each time.
    """
    gateway: Any = SparkContext._gateway
    return JavaClass(name, gateway._gateway_client)


def load_table(spark: SparkSession, name: str) -> Any:
    """The table as it is now, ``org.apache.iceberg.Table``; the name has the catalog in front.

    Raises ``DamageError``.
    """
    refuse_damage(spark.conf.get(CATALOG_URI, "") or "", *name.split(".")[-2:])
    spark3_util = java_class("org.apache.iceberg.spark.Spark3Util")
    return spark3_util.loadIcebergTable(spark._jsparkSession, name)


def properties_of(table: Any) -> dict[str, str]:
    """The properties of a loaded table."""
    # As JSON: each entry of a Java map costs a round trip.
    to_json = java_class("com.fasterxml.jackson.databind.ObjectMapper")().writeValueAsString
    properties: dict[str, str] = json.loads(to_json(table.properties()))
    return properties


def expire_own_history(spark: SparkSession, name: str) -> None:
    """Expire the snapshots of a table but the last hundred and those of the last hour, once there
    are five hundred; the name has the catalog in front.

    For tables of the lake's own state that each run, or each landing, writes many times: a commit
    writes down all snapshots that there are, and whoever reads the table reads that first.
    """
    if int(load_table(spark, name).snapshots().size()) < _SNAPSHOTS_AT_MOST:
        return
    catalog, _, table = name.partition(".")
    oldest = datetime.now(UTC) - _KEPT_FOR
    # Not by Table.expireSnapshots, which deletes a file of several deletion vectors as soon as one
    # of them has been replaced (Iceberg 1.12).
    spark.sql(
        f"call {catalog}.system.expire_snapshots(table => '{table}',"
        f" older_than => timestamp '{oldest:%F %T}', retain_last => {_SNAPSHOTS_KEPT})"
    )
