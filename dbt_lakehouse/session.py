"""The Spark session of the lake: its settings, its SQL functions, its schemas.

dbt-spark's ``session`` method uses whatever Spark session the process has, so this module opens it
first, with the profile's ``server_side_parameters``. The same function serves the command line.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from dbt_lakehouse import bronze, class_archive
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.functions import register_functions
from dbt_lakehouse.jars import ensure_jars
from dbt_lakehouse.kafka.settings import PREFIX as KAFKA_PREFIX
from dbt_lakehouse.paths import CACHE, LOG4J, LOOPBACK, ROOT

CATALOG: Final = "lake"
WAREHOUSE: Final = f"spark.sql.catalog.{CATALOG}.warehouse"
CATALOG_TYPE: Final = f"spark.sql.catalog.{CATALOG}.type"
CATALOG_URI: Final = f"spark.sql.catalog.{CATALOG}.uri"
SQLITE: Final = "jdbc:sqlite:"

# What another Spark installation may have exported; each would lead this one astray.
FOREIGN_ENVIRONMENT: Final = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH")

_opened: SparkSession | None = None


def opened_session() -> SparkSession:
    """The session that this process has opened last. Spark's own ways to it take the JVM some 5 ms,
    and a run asks for it with each statement. Raises ``RuntimeError`` if there is none.
    """
    if _opened is None:
        raise RuntimeError("no session of the lake is open: open_session comes first")
    return _opened


def has_ended(patience: float) -> bool:
    """Whether Spark's process has ended, or does within so many seconds."""
    gateway: Any = SparkContext._gateway
    try:
        gateway.proc.wait(patience)
    except subprocess.TimeoutExpired:
        return False
    return True


def open_session(parameters: Mapping[str, str]) -> SparkSession:
    """Open the lake with the profile's parameters, or return the session that already has it open.

    Relative paths in the catalog's settings are relative to the checkout. Creates the schemas and
    the bronze table where they are missing. Raises ``ConfigurationError``.
    """
    global _opened
    settings = _resolved(parameters)
    active = SparkSession.getActiveSession()
    if active is not None and active.conf.get(CATALOG_URI, "") != settings.get(CATALOG_URI, ""):
        # One process may serve several lakes one after the other (tests do); Spark keeps a catalog
        # for good.
        active.stop()
    for name in FOREIGN_ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    temporary = CACHE / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    class_path = os.pathsep.join(str(path) for path in ensure_jars())
    builder = (
        SparkSession.builder.appName("cdc_lakehouse")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.executor.extraClassPath", class_path)
        .config(
            "spark.driver.extraJavaOptions",
            f"-Djava.io.tmpdir={temporary} -Dorg.sqlite.tmpdir={temporary} "
            f"-Dderby.system.home={temporary} -Dlog4j2.configurationFile={LOG4J} "
            f"{class_archive.java_options()}",
        )
        .config("spark.local.dir", str(temporary))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register_functions(spark)
    for schema in ("bronze", "silver", "gold"):
        spark.sql(f"create schema if not exists {CATALOG}.{schema}")
    bronze.create_table(spark)
    _opened = spark
    return spark


def _resolved(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters with the lake's relative paths made absolute, and the folder of a SQLite
    catalog made.
    """
    # Kafka's are none of Spark's, and Spark would show them on its command line.
    settings = {
        name: str(value) for name, value in parameters.items() if not name.startswith(KAFKA_PREFIX)
    }
    if WAREHOUSE not in settings:
        raise ConfigurationError(
            f"the profile's server_side_parameters lack {WAREHOUSE}: see profiles/profiles.yml"
        )
    # A REST catalog's warehouse is a name that the server knows.
    if settings.get(CATALOG_TYPE) == "jdbc" and "://" not in settings[WAREHOUSE]:
        settings[WAREHOUSE] = (ROOT / settings[WAREHOUSE]).as_uri()
    uri = settings.get(CATALOG_URI, "")
    if uri.startswith(SQLITE):
        path = ROOT / uri.removeprefix(SQLITE)
        path.parent.mkdir(parents=True, exist_ok=True)
        settings[CATALOG_URI] = f"{SQLITE}{path}"
    return settings
