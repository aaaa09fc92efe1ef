"""Handles of Spark's JVM that PySpark keeps private, each with its purpose: the one file to read
for the next version of Spark.

PySpark has no public access to Spark's own classes. No other module uses its private attributes;
they only call methods of Java and Scala on a handle. Classes that Spark doesn't promise to keep
are used by ``evaluated_views``, ``landing/leftovers``, ``landing/kafka/progress`` and
``commands/serve``, private fields of Iceberg's by ``lake/KnownTables.java``.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession


def gateway() -> Any:
    """py4j's ``JavaGateway`` to the JVM, None before it has started. Its ``proc`` is the process,
    and ``java_gateway_server`` the server in the JVM.
    """
    return SparkContext._gateway


def forget_gateway() -> None:
    """Make the next session start a JVM: PySpark would call the one that has ended."""
    SparkContext._gateway = SparkContext._jvm = None


def close_connection() -> None:
    """Make this thread's next command open another connection to the JVM."""
    gateway()._gateway_client.get_thread_connection().close()


def java_class(name: str) -> Any:
    """A class of the JVM by its full name. For ``jvm.org.apache.Table``, py4j would make the JVM
    search all jars for a class ``org``, and for one ``org.apache``, each time.
    """
    return JavaClass(name, gateway()._gateway_client)


def scala_object(name: str) -> Any:
    """A Scala ``object``, by its full name."""
    return getattr(java_class(f"{name}$"), "MODULE$")


def java_array(element: str, values: Sequence[Any]) -> Any:
    """A Java array of the named class."""
    array = gateway().new_array(java_class(element), len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array


def packages(spark: SparkSession) -> Any:
    """All classes of the JVM, by packages as attributes
    (``packages(spark).java.util.Properties``), for code that needs many of them.
    """
    return spark._jvm


def java_session(spark: SparkSession) -> Any:
    """``org.apache.spark.sql.classic.SparkSession``: its state has the catalogs, the parser and
    the functions. Its clones have the same functions without registering them again.
    """
    return spark._jsparkSession


def java_context(context: SparkContext) -> Any:
    """``org.apache.spark.SparkContext``: running and finished jobs, and how to cancel them."""
    java: Any = context._jsc
    return java.sc()


def is_stopped(context: SparkContext) -> bool:
    """Whether the context has been stopped in this process."""
    return context._jsc is None


def hadoop_settings(context: SparkContext) -> Any:
    """``org.apache.hadoop.conf.Configuration``, with which Iceberg's catalogs and files are
    opened.
    """
    java: Any = context._jsc
    return java.hadoopConfiguration()


def query_execution(rows: DataFrame) -> Any:
    """``org.apache.spark.sql.execution.QueryExecution``: the plans of a query, its metrics, and
    the result of a command.
    """
    return rows._jdf.queryExecution()


def schema_ddl(rows: DataFrame) -> str:
    """The columns in the form of ``create table``, types as Spark writes them."""
    ddl: str = rows._jdf.schema().toDDL()
    return ddl


def activate(spark: SparkSession) -> None:
    """Make a session active in this thread. Spark loads a catalog with the settings of the active
    session, whichever session asks for it.
    """
    java_class("org.apache.spark.sql.classic.SparkSession").setActiveSession(java_session(spark))


def java_map(values: Mapping[str, str]) -> Any:
    """A ``java.util.HashMap``, in one round trip."""
    mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")
    return mapper().readValue(json.dumps(values), java_class("java.util.HashMap")._java_lang_class)


@contextmanager
def job_properties(context: SparkContext, properties: Any) -> Iterator[None]:
    """Give the jobs of this thread these properties (a ``java.util.Map``): their tasks see those
    that begin with ``spark.sql.`` as settings, the defaults of all others.
    """
    of_thread = java_context(context).getLocalProperties()
    of_thread.putAll(properties)
    try:
        yield
    finally:
        of_thread.keySet().removeAll(properties.keySet())


def java_error(error: BaseException) -> Any:
    """The ``java.lang.Throwable`` behind an error of py4j's or PySpark's; None behind others."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def running_context() -> SparkContext | None:
    """The context of this process, if there is one that has not been stopped."""
    context: SparkContext | None = SparkContext._active_spark_context
    return context


def accumulator_server(context: SparkContext) -> Any:
    """The ``socketserver`` that receives accumulator updates from the JVM."""
    server: Any = context._accumulatorServer
    return server


def cause_of(error: Py4JJavaError, class_name: str) -> Any:
    """The Java error or the cause of it that has this simple class name; None without one."""
    cause = error.java_exception
    while cause is not None and cause.getClass().getSimpleName() != class_name:
        cause = cause.getCause()
    return cause
