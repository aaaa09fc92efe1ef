"""Needless waits of Spark's JVM for which there is no setting."""

from pathlib import Path
from typing import Final

from pyspark import SparkContext

from dbt_lakehouse.spark.java import compiled
from dbt_lakehouse.spark.jvm import (
    close_connection,
    gateway,
    hadoop_settings,
    java_array,
    java_class,
)

_HERE: Final = Path(__file__).parent


def spare_waits(context: SparkContext) -> None:
    """Let the JVM of a new session create files and answer without waiting.

    Without its native library, which PySpark doesn't bring, Hadoop starts a process (``chmod``)
    for each file that it creates, and one for the file of its checksum: 40 of them for each table
    of a run. And py4j sends an answer of more than 8 KB, such as a table's metadata, in pieces.
    The JVM's TCP (Nagle's algorithm) holds each piece until the one before is acknowledged, which
    Linux does after 40 ms: 17 times in a run of one table.
    """
    _use_own_local_files(context)
    _answer_at_once()


def _use_own_local_files(context: SparkContext) -> None:
    file_system = java_class("org.apache.hadoop.fs.FileSystem")
    scheme = java_class("java.net.URI")("file:///")
    own = compiled(_HERE / "LocalFiles.java")
    settings = java_class("org.apache.hadoop.conf.Configuration")(hadoop_settings(context))
    settings.setClassLoader(own.getClassLoader())
    settings.set("fs.file.impl", own.getName())
    # Hadoop caches one for each scheme, whatever the settings of the next caller; a closed one
    # leaves the cache.
    file_system.get(scheme, settings).close()
    file_system.get(scheme, settings)


def _answer_at_once() -> None:
    (made,) = compiled(_HERE / "Answers.java").getConstructors()
    listener = made.newInstance(java_array("java.lang.Object", []))
    gateway().java_gateway_server.addListener(listener)
    # This thread's connection is older than the listener; the next command opens another.
    close_connection()
