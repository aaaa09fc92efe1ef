"""The Spark session of the lake: its settings, its SQL functions, its schemas.

It is opened with the profile's ``server_side_parameters``, for dbt's adapter and for the command
line alike.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, ParseException, PySparkRuntimeError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from dbt_lakehouse.config.paths import CACHE, LOG4J, LOOPBACK, ROOT
from dbt_lakehouse.errors import ConfigurationError, SessionError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.landing.kafka.settings import PREFIX as KAFKA_PREFIX
from dbt_lakehouse.spark import class_archive
from dbt_lakehouse.spark.functions import register_functions
from dbt_lakehouse.spark.jars import ensure_jars, java_option
from dbt_lakehouse.spark.java_errors import error_text
from dbt_lakehouse.spark.sessions import Sessions

CATALOG: Final = "lake"
WAREHOUSE: Final = f"spark.sql.catalog.{CATALOG}.warehouse"
CATALOG_TYPE: Final = f"spark.sql.catalog.{CATALOG}.type"
CATALOG_URI: Final = f"spark.sql.catalog.{CATALOG}.uri"
SQLITE: Final = "jdbc:sqlite:"

# What another Spark installation may have exported; each would lead this one astray.
FOREIGN_ENVIRONMENT: Final = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH")

_opened: Sessions | None = None


def opened_sessions() -> Sessions:
    """The sessions of the lake that this process has opened last. Raises ``RuntimeError`` if there
    is none.
    """
    if _opened is None:
        raise RuntimeError("no session of the lake is open: open_session comes first")
    return _opened


def has_ended(patience: float) -> bool:
    """Whether Spark's process has ended, or does within so many seconds."""
    # None under spark-submit, where Spark is this process's parent.
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        return False
    return True


def open_session(parameters: Mapping[str, str]) -> SparkSession:
    """Open the lake with the profile's parameters, or return the session that already has it open.

    Relative paths in the catalog's settings are relative to the checkout. Creates the schemas and
    the bronze table where they are missing. Raises ``ConfigurationError`` and ``SessionError``.
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
    properties = [
        f"-D{name}={temporary}"
        for name in ("java.io.tmpdir", "org.sqlite.tmpdir", "derby.system.home")
    ]
    properties.append(f"-Dlog4j2.configurationFile={LOG4J.as_uri()}")
    class_path = os.pathsep.join(str(path) for path in ensure_jars())
    builder = (
        SparkSession.builder.appName("cdc_lakehouse")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.executor.extraClassPath", class_path)
        .config(
            "spark.driver.extraJavaOptions",
            f"{' '.join(map(java_option, properties))} {class_archive.java_options()}",
        )
        .config("spark.local.dir", str(temporary))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = _started(builder)
    register_functions(spark)
    _prepare(spark)
    if _opened is None or _opened.base.sparkContext is not spark.sparkContext:
        _opened = Sessions(spark)
    return spark


def _started(builder: SparkSession.Builder) -> SparkSession:
    """The session that a builder makes. Raises ``SessionError``."""
    look_at = (
        "look at spark.master and spark.driver.* in the profile (its memory is"
        " LAKEHOUSE_DRIVER_MEMORY where the project's own profile is used)"
    )
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        # Its output has gone to standard error.
        raise SessionError(
            f"Spark's JVM ended before it was ready, what it said is above: {look_at}, and at"
            " JAVA_HOME, Java 17 or later"
        ) from error
    except (Py4JJavaError, CapturedException) as error:
        raise SessionError(f"Spark does not start: {error_text(error)}: {look_at}") from error


def _prepare(spark: SparkSession) -> None:
    """Create the schemas and bronze's table where they are missing. Raises ``SessionError``."""
    try:
        for schema in ("bronze", "silver", "gold"):
            spark.sql(f"create schema if not exists {CATALOG}.{schema}")
        bronze.create_table(spark)
    except (AnalysisException, ParseException):
        # A mistake of ours.
        raise
    except (Py4JJavaError, CapturedException) as error:
        spark.stop()
        raise SessionError(
            f"the lake can't be used: {error_text(error)}: look at spark.sql.catalog.{CATALOG}.*"
            " in the profile, and at what they name (docs/catalogs.md)"
        ) from error


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
        # Not as_uri: Hadoop takes %20 for the name of a folder.
        settings[WAREHOUSE] = f"file://{ROOT / settings[WAREHOUSE]}"
    uri = settings.get(CATALOG_URI, "")
    if uri.startswith(SQLITE):
        path = ROOT / uri.removeprefix(SQLITE)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"the folder of the lake's catalog, {path.parent}, can't be made: {error.strerror};"
                f" {CATALOG_URI} in the profile names it, by LAKEHOUSE_LAKE in the project's own"
            ) from error
        settings[CATALOG_URI] = f"{SQLITE}{path}"
    return settings
