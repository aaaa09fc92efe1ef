"""Needless waits of Spark's JVM, and of calls to it, for which there is no setting."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from py4j import protocol
from pyspark import SparkContext
from pyspark.sql.types import NumpyArrayConverter, NumpyScalarConverter

from dbt_lakehouse.spark.java import compiled, own_object
from dbt_lakehouse.spark.jvm import (
    close_connection,
    gateway,
    hadoop_settings,
    java_class,
)

_HERE: Final = Path(__file__).parent


class _Scalars(NumpyScalarConverter):
    def can_convert(self, obj: Any) -> bool:
        numpy = sys.modules.get("numpy")
        return numpy is not None and isinstance(obj, numpy.generic)


class _Arrays(NumpyArrayConverter):
    def can_convert(self, obj: Any) -> bool:
        numpy = sys.modules.get("numpy")
        return numpy is not None and isinstance(obj, numpy.ndarray) and obj.ndim == 1


class _Arguments:
    """All of py4j's converters as one, which does not ask them about what is never converted: each
    asks for attributes by ``inspect``, 16 µs for a text, and a run of one table makes 1,700 calls.
    """

    _PLAIN: Final = frozenset({str, int, bool, float, bytes, type(None)})

    def __init__(self, converters: Sequence[Any]) -> None:
        self._converters: Final = converters

    def can_convert(self, argument: Any) -> bool:
        """Whether py4j has to make a Java object of the argument."""
        return type(argument) not in self._PLAIN and self._of(argument) is not None

    def convert(self, argument: Any, client: Any) -> Any:
        """The Java object."""
        found = self._of(argument)
        assert found is not None
        return found.convert(argument, client)

    def _of(self, argument: Any) -> Any:
        return next((each for each in self._converters if each.can_convert(argument)), None)


def spare_checks() -> None:
    """Convert the arguments of calls to Java without needless checks. To tell NumPy's types,
    PySpark imports its helpers of tests at the first call, and with them pandas where it is
    installed, for up to a second.
    """
    own = {NumpyScalarConverter: _Scalars, NumpyArrayConverter: _Arrays}
    known = protocol.INPUT_CONVERTER
    if not any(isinstance(each, _Arguments) for each in known):
        known[:] = [_Arguments([own.get(type(each), lambda of=each: of)() for each in known])]


@contextmanager
def spare_waits(context: SparkContext) -> Iterator[None]:
    """Let the JVM of a new session create files and answer without waiting, from the end of the
    block on, which creates the session meanwhile.

    Without its native library, which PySpark doesn't bring, Hadoop starts a process (``chmod``)
    for each file that it creates, and one for the file of its checksum: 40 of them for each table
    of a run. And py4j sends an answer of more than 8 KB, such as a table's metadata, in pieces.
    The JVM's TCP (Nagle's algorithm) holds each piece until the one before is acknowledged, which
    Linux does after 40 ms: 17 times in a run of one table.

    And Iceberg sleeps for 10 ms when it waits for its own threads, most of whose tasks take less
    than one: 60 times in a run of one table.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="compiler") as pool:
        # A third of a second, most of it to load the compiler.
        classes = pool.submit(_compiled)
        yield
    files, answers, tasks = classes.result()
    _use_own_local_files(context, files)
    tasks.settle()
    _answer_at_once(answers)


def _compiled() -> tuple[Any, Any, Any]:
    try:
        files = compiled(_HERE / "LocalFiles.java")
        answers, tasks = (own_object(_HERE / f"{name}.java") for name in ("Answers", "ShortTasks"))
        return files, answers, tasks
    finally:
        # The thread's own, for which the JVM holds a thread.
        close_connection()


def _use_own_local_files(context: SparkContext, own: Any) -> None:
    file_system = java_class("org.apache.hadoop.fs.FileSystem")
    scheme = java_class("java.net.URI")("file:///")
    settings = java_class("org.apache.hadoop.conf.Configuration")(hadoop_settings(context))
    settings.setClassLoader(own.getClassLoader())
    settings.set("fs.file.impl", own.getName())
    # Hadoop caches one for each scheme, whatever the settings of the next caller; a closed one
    # leaves the cache.
    file_system.get(scheme, settings).close()
    file_system.get(scheme, settings)


def _answer_at_once(listener: Any) -> None:
    gateway().java_gateway_server.addListener(listener)
    # This thread's connection is older than the listener; the next command opens another.
    close_connection()
