"""The server: a Spark of its own, opened as dbt opens one. Each client has a session that can
only read.
"""

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from dbt_lakehouse.commands.serve.access import CONNECT_TOKEN, KEYSTORE_PASSWORD, Access
from dbt_lakehouse.commands.serve.functions import (
    FUNCTIONS,
    FUNCTIONS_REFUSED,
    METADATA,
    OPTIONS,
    OPTIONS_REFUSED,
)
from dbt_lakehouse.commands.serve.listing import Listing
from dbt_lakehouse.commands.serve.rules import (
    CONNECT_EXECUTED,
    CONNECT_FIELDS,
    CONNECT_SETTINGS_TOLD,
    PLANS,
    PLANS_ANALYZED,
    SETTINGS,
)
from dbt_lakehouse.config.paths import LOOPBACK, cache_folder
from dbt_lakehouse.errors import ConfigurationError, SessionError
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import catalog_of
from dbt_lakehouse.runs.log_decoders import register_decoders
from dbt_lakehouse.session.opening import XML_ACCESS, has_ended, open_to_read
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark.functions import SQL_FUNCTIONS
from dbt_lakehouse.spark.java import compiled
from dbt_lakehouse.spark.jvm import java_array, java_class, java_session, scala_object
from dbt_lakehouse.telling import tell

# How often the listed tables are updated.
_LISTING_SECONDS: Final = 5.0
_HERE: Final = Path(__file__).parent
_POOLS: Final = (
    "<allocations><pool name='default'><schedulingMode>FAIR</schedulingMode></pool></allocations>"
)
_OPEN_TO_ALL: Final = "org.apache.spark.sql.connect.SparkConnectPlugin"
_ANALYSIS: Final = "org.apache.spark.sql.catalyst.analysis"
_HIVE: Final = "org.apache.spark.sql.hive.thriftserver"


def answer(project: Project, access: Access, stopping: Callable[[], threading.Event]) -> None:
    """``door.serve``, after ``access`` was checked."""
    if _OPEN_TO_ALL in project.parameters.get("spark.plugins", ""):
        raise ConfigurationError(
            f"spark.plugins in the profile has {_OPEN_TO_ALL}, a server that lets its clients do"
            " whatever Spark can: take it out, and give --connect PORT"
        )
    with TemporaryDirectory(dir=cache_folder("tmp"), prefix="serve-") as folder:
        _answer(project, access, stopping, folder)


def _answer(
    project: Project, access: Access, stopping: Callable[[], threading.Event], folder: str
) -> None:
    spark = open_to_read(project.parameters, project.root, _settings(folder))
    stopped = stopping()
    listing = Listing(spark, project.gold)
    listing.refresh()
    _restrict(spark, project.gold, {*SQL_FUNCTIONS, *register_decoders(spark, project.silver)})
    memory = _made("Memory")
    connections = _listen(spark, access, memory)
    connect = None if access.connect is None else _connect(spark, access.connect, memory)
    port = connections.getPortNumber()
    tls = ";ssl=true" if access.keystore else ""
    tell(f"serving at jdbc:hive2://{access.host}:{port}/{tls}")
    if connect is not None:
        token = ";token=..." if os.environ.get(CONNECT_TOKEN) else ""
        tell(f"serving at sc://localhost:{connect.port()}/{token}")
    while not stopped.wait(_LISTING_SECONDS):
        if has_ended(patience=0):
            raise SessionError(
                "Spark's process has ended: it was killed, or the machine has too little memory"
            )
        # A catalog that fails now may answer the next time.
        with suppress(Py4JJavaError, CapturedException):
            listing.refresh()
    connections.stop()
    if connect is not None:
        connect.stop()
    with warnings.catch_warnings():
        # The signal may have ended Spark too.
        warnings.simplefilter("ignore", RuntimeWarning)
        spark.stop()


def _settings(folder: str) -> dict[str, str]:
    """Spark's settings of a server, in addition to the profile; their files are made in the
    folder.
    """
    pools = Path(folder) / "pools.xml"
    pools.write_text(_POOLS)
    return {
        "spark.app.name": "lakehouse serve",
        # Otherwise a short query waits for all tasks of an earlier long one.
        "spark.scheduler.mode": "FAIR",
        "spark.scheduler.allocation.file": pools.as_uri(),
        # A client that requests millions of rows gets them in parts, and the server never holds
        # all of them.
        "spark.sql.thriftServer.incrementalCollect": "true",
        # Only adaptive execution computes aggregates when the query is sent, within the client's
        # time limit, and not with its first row.
        "spark.sql.adaptive.enabled": "true",
        # Otherwise a query could read files.
        "spark.sql.runSQLOnFiles": "false",
        # Otherwise a schema in a query could name any class, which Spark would instantiate.
        "spark.sql.udt.allowCreatingUDTFromString": "false",
        # For Spark's own catalog, which holds only the listed tables; it creates folders.
        "spark.sql.warehouse.dir": folder,
        # Otherwise a value that exceeds memory ends the server, and not only its query.
        "spark.executor.killOnFatalError.depth": "0",
        # Spark Connect has no TLS.
        "spark.connect.grpc.binding.address": LOOPBACK,
        # Its clients send plans, not data.
        "spark.connect.grpc.maxInboundMessageSize": "16m",
        # If a query is stopped while it writes a batch, Spark never frees the batch.
        "spark.connect.grpc.arrow.maxBatchSize": "4m",
        "spark.sql.connect.serverStacktrace.enabled": "false",
    }


def _restrict(spark: SparkSession, schema: str, own: Iterable[str]) -> None:
    """Restrict all sessions made from this one to reading, and to Spark's functions that are known
    to be harmless and those of our ``own``.
    """
    for name in XML_ACCESS:
        # Whatever the profile allows models, and spark-submit has started.
        java_class("java.lang.System").setProperty(name, "")
    registry = scala_object(f"{_ANALYSIS}.FunctionRegistry").builtin()
    identifier = java_class("org.apache.spark.sql.catalyst.FunctionIdentifier")
    ours = java_session(spark).sessionState().functionRegistry()
    for name in own:
        known = identifier(name)
        information = ours.lookupFunction(known).get()
        registry.registerFunction(known, information, ours.lookupFunctionBuilder(known).get())
    functions = _made(
        "Functions",
        _java_set({*FUNCTIONS, *own}),
        _java_map(FUNCTIONS_REFUSED),
        _java_set(each.lower() for each in OPTIONS),
        _java_map({name.lower(): reason for name, reason in OPTIONS_REFUSED.items()}),
        _java_set(METADATA),
    )
    # Settings of this process; the others belong to each session. Spark computes the default
    # values of columns with the first two, outside any session.
    functions.accept(registry)
    functions.accept(scala_object(f"{_ANALYSIS}.TableFunctionRegistry").builtin())
    functions.accept(scala_object(f"{_ANALYSIS}.FunctionRegistry").internal())
    lake = catalog_of(spark)
    rule = _made(
        "ReadOnly", _java_set(PLANS), _java_set(SETTINGS), functions, CATALOG, lake, schema
    )
    # A session makes its parser and analyzer when it begins; this one already has its own.
    java_session(spark).sessionState().analyzer()
    extensions = java_session(spark).extensions()
    extensions.injectParser(rule)
    extensions.injectCheckRule(_made("Analyzed", _java_set(PLANS_ANALYZED), lake))


def _listen(spark: SparkSession, access: Access, memory: Any) -> Any:
    """Start the server. Returns its connections. Raises ``SessionError``."""
    conf = java_class("org.apache.hadoop.hive.conf.HiveConf")()
    for name, value in {
        "hive.server2.transport.mode": "binary",
        "hive.server2.authentication": "NONE",
        "hive.server2.enable.doAs": "false",
        # It decides nothing here, and unlike Hive's own it does not ask a metastore to list
        # tables.
        "hive.security.authorization.manager": "org.apache.hadoop.hive.ql.security.authorization"
        ".StorageBasedAuthorizationProvider",
        "hive.server2.logging.operation.enabled": "false",
        "hive.server2.global.init.file.location": "",
        # Otherwise the end of a session would create a metastore in a Hive database.
        "hive.metastore.rawstore.impl": "none",
        # How soon the end of a cancelled query is noticed.
        "hive.server2.long.polling.timeout": "1s",
        # For clients that left without closing.
        "hive.server2.session.check.interval": "10m",
        "hive.server2.idle.session.timeout": "12h",
        "hive.server2.idle.operation.timeout": "2h",
        "hive.server2.thrift.bind.host": access.host,
    }.items():
        conf.set(name, value)
    hive = scala_object(f"{_HIVE}.HiveThriftServer2")
    events = java_class(f"{_HIVE}.ui.HiveThriftServer2EventManager")
    getattr(hive, "eventManager_$eq")(events(java_session(spark).sparkContext()))
    server = java_class(f"{_HIVE}.HiveThriftServer2")(java_session(spark))
    service = java_class(f"{_HIVE}.SparkSQLCLIService")(server, java_session(spark))
    connections = _made(
        "Connections",
        service,
        access.host,
        access.port,
        str(access.keystore) if access.keystore else None,
        access.keystore_password,
        str(access.users) if access.users else None,
        _java_set(SETTINGS),
        _query_timeout(spark),
        memory,
    )
    try:
        for each in (service, connections):
            each.init(conf)
            each.start()
    except Py4JJavaError as error:
        raise SessionError(
            f"the server does not start: {error_text(error)}: look at --host and --port, and at"
            f" --keystore, which {KEYSTORE_PASSWORD} must open"
        ) from error
    return connections


def _connect(spark: SparkSession, port: int, memory: Any) -> Any:
    """Start the server of Spark Connect. Raises ``SessionError``."""
    context = java_session(spark).sparkContext()
    context.env().conf().set("spark.connect.grpc.binding.port", str(port))
    try:
        return _made(
            "Connect",
            context,
            _java_set(CONNECT_FIELDS),
            _java_set(CONNECT_EXECUTED),
            _java_set(SETTINGS),
            _java_set(CONNECT_SETTINGS_TOLD),
            _query_timeout(spark),
            memory,
        )
    except Py4JJavaError as error:
        raise SessionError(
            f"Spark Connect does not start: {error_text(error)}: look at --connect"
        ) from error


def _query_timeout(spark: SparkSession) -> int:
    entry = scala_object("org.apache.spark.sql.internal.SQLConf").THRIFTSERVER_QUERY_TIMEOUT()
    seconds: int = java_session(spark).sessionState().conf().getConf(entry)
    return seconds


def _made(name: str, *arguments: Any) -> Any:
    """An object of one of the Java classes beside this module, compiled by Spark's own compiler."""
    (constructor,) = compiled(_HERE / f"{name}.java").getConstructors()
    return constructor.newInstance(java_array("java.lang.Object", arguments))


def _java_set(texts: Iterable[str]) -> Any:
    made = java_class("java.util.HashSet")()
    for text in texts:
        made.add(text)
    return made


def _java_map(texts: Mapping[str, str]) -> Any:
    made = java_class("java.util.HashMap")()
    for name, text in texts.items():
        made.put(name, text)
    return made
