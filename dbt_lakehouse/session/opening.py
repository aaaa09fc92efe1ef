"""The Spark session of the lake: its settings, its SQL functions, its schemas.

It is opened with the profile's ``server_side_parameters``, for dbt's adapter and for the command
line alike.
"""

import atexit
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import PREFIX as KAFKA_PREFIX
from dbt_lakehouse.config.paths import LOG4J, LOOPBACK, cache_folder
from dbt_lakehouse.errors import SessionError, comes_of
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.beginning import begin
from dbt_lakehouse.lake.broken_metadata import look_for_damage, refuse_bucket, refuse_damage
from dbt_lakehouse.lake.buckets import need_s3
from dbt_lakehouse.lake.catalog import (
    CATALOG,
    CATALOG_URI,
    SQLITE,
    absolute,
    checkpoint,
    read_only,
    refuse_unfit_to_write,
    sqlite_file,
)
from dbt_lakehouse.lake.iceberg import has_schema, has_table
from dbt_lakehouse.lake.moved_catalog import refuse_closed
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.redaction import is_secret
from dbt_lakehouse.session.pool import Sessions
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark import class_archive
from dbt_lakehouse.spark.functions import register_functions
from dbt_lakehouse.spark.functions_archive import functions_archive, is_local
from dbt_lakehouse.spark.jars import JARS, S3_JARS, Jar, are_held, ensure_jars
from dbt_lakehouse.spark.java import java_option, own_interrupts, start_ahead, start_java
from dbt_lakehouse.spark.jvm import (
    accumulator_server,
    forget_gateway,
    gateway,
    is_stopped,
    running_context,
)
from dbt_lakehouse.spark.jvm_latency import spare_checks, spare_waits
from dbt_lakehouse.telling import working

# Variables that another Spark installation may have exported; each would mislead this one.
FOREIGN_ENVIRONMENT: Final = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH")

_DAEMON: Final = "dbt_lakehouse.spark.daemon"

# PySpark's loggers that write an error with all of its values to standard error, besides raising
# it.
_TELLTALE_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

# The loggers that write a traceback when an interrupt, or Spark's end, cuts a call to Java.
_LOGGERS_OF_PY4J: Final = (None, "py4j.clientserver", "py4j.java_gateway")

XML_ACCESS: Final = tuple(
    f"javax.xml.accessExternal{kind}" for kind in ("DTD", "Schema", "Stylesheet")
)
"""Java properties, empty so that reading a document fetches nothing: `xpath` of a payload would
fetch the DTD that the payload names.
"""

# Spark's classes fill 80 MB. Java's own limit is 21 MB, and it collects the whole heap to raise it:
# four times until then.
_METASPACE: Final = "-XX:MetaspaceSize=128m"

# Settings by which spark-submit makes the JVM.
_OF_THE_JVM: Final = (
    "spark.driver.",
    "spark.kerberos.",
    "spark.kubernetes.",
    "spark.master",
    "spark.submit.",
    "spark.yarn.",
)
# Java patterns of names or values that Spark itself must not print.
_REDACTED: Final = (
    "(?i)pass(?:word|wd|phrase)|pwd|secret|token|credential|jaas|authorization"
    "|(?:access|account|api|private|encryption|keystore)[._-]?key|://[^/@]*:[^@]*@"
)

# The largest size of Java's arrays and of the setting.
_MOST_BYTES: Final = 2**31 - 1

# Connections to SQLite catalogs that this user can only read.
_READERS: Final[dict[Path, sqlite3.Connection]] = {}
# SQLite catalogs that this process may write to.
_WRITTEN: Final[set[Path]] = set()

_opened: Sessions | None = None


def opened_sessions() -> Sessions:
    """The sessions of the lake that this process has opened last. Raises ``RuntimeError`` if
    there is no open lake.
    """
    if _opened is None:
        raise RuntimeError("no session of the lake is open: open_session comes first")
    return _opened


def has_ended(patience: float) -> bool:
    """Whether Spark's process has ended, or ends within ``patience`` seconds."""
    # None under spark-submit, where Spark is this process's parent.
    process = getattr(gateway(), "proc", None)
    if process is None:
        return False
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        return False
    return True


def open_session(parameters: Mapping[str, str], root: Path) -> SparkSession:
    """Open the lake with the profile's parameters, or return the session that already has it
    open.

    Relative paths in the catalog's settings are relative to ``root``, the project's folder.
    Creates missing schemas and the bronze table. Raises ``ConfigurationError``, also for a lake
    that has moved to another catalog, and ``SessionError``.
    """
    with working("opening the lake"):
        # Before Spark starts, which takes longer.
        refuse_unfit_to_write(_absolute(parameters, root))
        spark = start_session(parameters, root)
        _prepare(spark)
    return spark


def begin_to_start(parameters: Mapping[str, str], root: Path) -> None:
    """Begin to start the JVM of ``open_session`` with these parameters, in the background. Touches
    no lake and fetches no jars. Raises ``ConfigurationError``.
    """
    settings = _absolute(parameters, root)
    _use_own_environment(settings)

    def for_command_line() -> dict[str, str] | None:
        if not are_held(_jars(settings)):
            return None
        return _for_command_line(_with_ours(settings))

    start_ahead(for_command_line)


def start_session(parameters: Mapping[str, str], root: Path) -> SparkSession:
    """``open_session`` without checking whether the lake has moved; creates nothing in it."""
    settings = _absolute(parameters, root)
    catalog = sqlite_file(settings.get(CATALOG_URI, ""))
    if catalog is None:
        return _start(settings)
    with _folder_of(catalog):
        if catalog.exists() and not os.access(catalog.parent, os.W_OK):
            settings[CATALOG_URI] = _for_readers(catalog)
        elif catalog not in _WRITTEN:
            # For any end of the process except a signal: also with an error, or by Ctrl-C.
            _WRITTEN.add(catalog)
            atexit.register(checkpoint, catalog)
        return _start(settings)


def _start(settings: Mapping[str, str]) -> SparkSession:
    global _opened
    active = SparkSession.getActiveSession()
    if active is None and _opened is not None and not is_stopped(_opened.base.sparkContext):
        # A thread without an active session, or whose last command ended with an error.
        active = _opened.base
    if active is not None and active.conf.get(CATALOG_URI, "") != settings.get(CATALOG_URI, ""):
        # A process may serve several lakes in succession (tests do), and Spark never drops a
        # catalog.
        active.stop()
    spark = _opened_with(settings)
    if _opened is None or _opened.base.sparkContext is not spark.sparkContext:
        _opened = Sessions(spark)
    return spark


def open_to_read(
    parameters: Mapping[str, str], root: Path, ours: Mapping[str, str]
) -> SparkSession:
    """Open an existing lake in a process without an open one, with further settings and a
    read-only catalog (``read_only``).

    Raises ``ConfigurationError`` and ``SessionError``.
    """
    spark = _opened_with({**read_only(_absolute(parameters, root)), **ours})
    refuse_closed(spark)
    return spark


def _opened_with(settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings and the functions of the lake."""
    _use_own_environment(settings)
    for name in _TELLTALE_LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    for logger in _LOGGERS_OF_PY4J:
        logging.getLogger(logger).addFilter(_is_not_told)
    with_ours = _with_ours(settings)
    with working("starting Spark"):
        spark = _started(with_ours)
    register_functions(spark)
    try:
        refuse_bucket(spark)
    except Py4JJavaError as error:
        raise _unusable(spark, error) from error
    look_for_damage(spark)
    return spark


def _use_own_environment(settings: Mapping[str, str]) -> None:
    for name in FOREIGN_ENVIRONMENT:
        os.environ.pop(name, None)
    os.environ["PYSPARK_PYTHON"] = settings.get("spark.pyspark.python") or sys.executable
    if is_local(settings):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)


def _is_not_told(record: logging.LogRecord) -> bool:
    """Whether the caller of Java does not get the error itself, and so does not report it."""
    told = (KeyboardInterrupt, Py4JNetworkError)
    return record.exc_info is None or not comes_of(record.exc_info[1], *told)


def _with_ours(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings, with our own for Spark; settings that extend one of ours come after it."""
    temporary = cache_folder("tmp")
    properties = [
        f"-D{name}={temporary}"
        for name in ("java.io.tmpdir", "org.sqlite.tmpdir", "derby.system.home")
    ]
    properties.append(f"-Dlog4j2.configurationFile={LOG4J.as_uri()}")
    no_access = [f"-D{name}=" for name in XML_ACCESS]
    jars = [str(path) for path in ensure_jars(_jars(settings))]
    class_path = os.pathsep.join(jars)
    given = [*map(java_option, properties), *no_access, _METASPACE]
    options = f"{' '.join(given)} {class_archive.java_options()}"
    ours = {
        "spark.driver.extraClassPath": (class_path, os.pathsep),
        # Of duplicates, Java takes the last.
        "spark.driver.extraJavaOptions": (options, " "),
    }
    of_workers = {}
    if is_local(settings):
        of_workers["spark.python.daemon.module"] = _DAEMON
    else:
        # Workers have none of this machine's files: Spark sends them.
        ours["spark.jars"] = (",".join(jars), ",")
        ours["spark.executor.extraJavaOptions"] = (" ".join(no_access), " ")
        ours["spark.submit.pyFiles"] = (str(functions_archive()), ",")
    return {
        "spark.app.name": "cdc_lakehouse",
        "spark.local.dir": str(temporary),
        # For Spark's own, empty catalog, which otherwise creates a folder in the working
        # directory.
        "spark.sql.warehouse.dir": str(temporary),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.redaction.regex": _REDACTED,
        # Iceberg writes a checksum into each page: otherwise changed bytes would become wrong
        # rows.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        **of_workers,
        **settings,
        # Our SQL has user-given names and values, and Spark would replace ${env:...} in it.
        "spark.sql.variable.substitute": "false",
        # PySpark writes a larger function, with the data shipped with it, to a file: the mask key
        # too, beside many schemas.
        "spark.broadcast.UDFCompressionThreshold": str(_MOST_BYTES),
        **{
            name: f"{value}{separator}{settings[name]}" if name in settings else value
            for name, (value, separator) in ours.items()
        },
    }


def _jars(settings: Mapping[str, str]) -> tuple[Jar, ...]:
    return JARS + S3_JARS if need_s3(settings) else JARS


def _started(settings: Mapping[str, str]) -> SparkSession:
    """A session with these settings. Raises ``SessionError``.

    The command line of Spark's JVM is readable by all users of the machine. It has only settings
    that the JVM needs from the start, none of which could be a secret.
    """
    look_at = (
        "at spark.master and spark.driver.* in the profile (its memory is"
        " LAKEHOUSE_DRIVER_MEMORY in the one that comes with cdc_lakehouse)"
    )
    spare_checks()
    try:
        if running_context() is None:
            _end_java_without(settings["spark.driver.extraClassPath"])
            java = gateway() or start_java(_for_command_line(settings), f"{look_at}, and ")
            conf = SparkConf(_jvm=java.jvm).setAll([*settings.items()])
            try:
                with own_interrupts():
                    context = SparkContext(conf=conf, gateway=java)
            except KeyboardInterrupt:
                # It has done nothing yet, and would log everything that fails from now on.
                if java.proc is not None:
                    java.proc.kill()
                raise
            _hear_its_end_quietly(context)
            with spare_waits(context):
                return _session(settings)
        return _session(settings)
    except (Py4JJavaError, CapturedException) as error:
        raise SessionError(f"Spark does not start: {error_text(error)}: look {look_at}") from error


def _session(settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _hear_its_end_quietly(context: SparkContext) -> None:
    """Silence the traceback that a killed Spark causes on stderr, in the thread that reads
    accumulator updates, before the command reports the end.
    """
    server = accumulator_server(context)
    tell = server.handle_error

    def handle_error(request: Any, address: Any) -> None:
        if not isinstance(sys.exc_info()[1], EOFError | ConnectionError):
            tell(request, address)

    server.handle_error = handle_error


def _end_java_without(class_path: str) -> None:
    """End the JVM of another lake if it lacks a jar, since a running JVM can't be given one."""
    java = gateway()
    # Under spark-submit, Spark is this process's parent.
    if java is None or not hasattr(java, "proc"):
        return
    there = java.jvm.System.getProperty("java.class.path").split(os.pathsep)
    if {*class_path.split(os.pathsep)} <= {*there}:
        return
    forget_gateway()
    java.shutdown()
    # The JVM ends with its standard input.
    java.proc.communicate()


def _for_command_line(settings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in settings.items()
        if name.startswith(_OF_THE_JVM) and not is_secret(name)
    }


def _prepare(spark: SparkSession) -> None:
    """Create missing schemas and bronze's table. Raises ``SessionError``, ``DamageError`` and, if
    the lake has moved, ``ConfigurationError``.
    """
    refuse_damage(spark, bronze.TABLE)
    try:
        opened_sessions().know_tables()
        refuse_closed(spark)
        begin(spark)
        for schema in ("silver", "gold"):
            if not has_schema(spark, schema):
                spark.sql(f"create schema if not exists {CATALOG}.{schema}")
        if not has_table(spark, BRONZE):
            bronze.create_table(spark)
    except (AnalysisException, ParseException):
        # A bug of ours.
        raise
    except (Py4JJavaError, CapturedException) as error:
        raise _unusable(spark, error) from error


def _unusable(spark: SparkSession, error: Exception) -> SessionError:
    spark.stop()
    return SessionError(
        f"the lake can't be used: {error_text(error)}: look at spark.sql.catalog.{CATALOG}.*"
        " in the profile, and at what they name (docs/catalogs.md)"
    )


@contextmanager
def _folder_of(catalog: Path) -> Iterator[None]:
    """Create the folder of a SQLite catalog. If the block fails while the folder is empty, it is
    removed again. Raises ``SessionError``.
    """
    folders = (catalog.parent, *catalog.parent.parents)
    missing = [*takewhile(lambda folder: not folder.exists(), folders)]
    try:
        try:
            catalog.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SessionError(
                f"the folder of the lake's catalog, {catalog.parent}, can't be made:"
                f" {error.strerror};"
                f" {CATALOG_URI} in the profile names it, by the environment variable"
                " LAKEHOUSE_LAKE in the one that comes with cdc_lakehouse"
            ) from error
        yield
    except BaseException:
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


def _absolute(parameters: Mapping[str, str], root: Path) -> dict[str, str]:
    # Spark does not need Kafka's settings, and would show them on its command line.
    return {
        name: value
        for name, value in absolute(parameters, root).items()
        if not name.startswith(KAFKA_PREFIX)
    }


def _for_readers(catalog: Path) -> str:
    """The address of a SQLite catalog whose folder this user can't write. Its write-ahead log
    exists while another process has the catalog open, and only then are there changes.
    """
    readers = f"{SQLITE}{catalog}?open_mode=1&busy_timeout=30000"
    if catalog in _READERS:
        return readers
    if catalog.with_name(f"{catalog.name}-wal").exists():
        reader = sqlite3.connect(f"{catalog.as_uri()}?mode=ro", uri=True)
        # It may have been removed just now.
        with suppress(sqlite3.Error):
            reader.execute("select 1 from sqlite_master").fetchone()
            # The log stays while this connection is open, even after all others have closed the
            # catalog.
            _READERS[catalog] = reader
            return readers
        reader.close()
    return f"{SQLITE}file:{catalog}?immutable=1"
