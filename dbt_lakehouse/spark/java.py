"""The Java for Spark: found as Spark finds it, started, and called."""

import atexit
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LakehouseError, SessionError
from dbt_lakehouse.masking import MASK_KEY
from dbt_lakehouse.redaction import is_known
from dbt_lakehouse.spark.jvm import gateway, java_class, java_session

# Only Spark's machine learning uses this module, and Java warns of it at each start.
_OF_VECTORS: Final = "--add-modules=jdk.incubator.vector"
# Ctrl-C is for Python, which cancels Spark's jobs. A shell ignores it for the JVM, since code of
# Python's between fork and exec may find another thread's locks taken.
_DEAF: Final = ("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh")
# For a JVM that ends before optimized compilation would pay off.
_FOR_A_MOMENT: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OLDEST: Final = 17
"""The oldest Java that Spark runs in."""
_MAJOR: Final = re.compile(r"(?:1\.)?(\d+)")
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(\d[^"]*)"', re.MULTILINE)
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
_GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"
_GATEWAY_SECRET: Final = "PYSPARK_GATEWAY_SECRET"
# Secret environment variables by dbt's naming, and those that AWS's client reads in the JVM.
_SECRETS: Final = "DBT_ENV_SECRET_"
_OF_AWS: Final = "AWS_"


def java_option(option: str) -> str:
    """A JVM option quoted for a text of several options, which Spark splits at blanks: a path may
    contain blanks.
    """
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def find_java() -> str:
    """The path of the Java program. Raises ``SessionError`` if there is none, or its installation
    says that it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        place = f"JAVA_HOME is {home}, without a bin/java" if home else "no `java` is on the PATH"
        raise SessionError(
            f"Spark needs Java {OLDEST} or later, and {place}: install it, or let JAVA_HOME name it"
        )
    version = _version_beside(Path(java))
    if version is not None and major_of(version) < OLDEST:
        raise SessionError(
            f"Spark needs Java {OLDEST} or later, and {java} is {version}: let JAVA_HOME name"
            " another"
        )
    return java


def major_of(version: str) -> int:
    """The major version of a Java version text: 8 for ``1.8.0_392``, 17 for ``17.0.9``."""
    found = _MAJOR.match(version)
    return 0 if found is None else int(found[1])


def _version_beside(java: Path) -> str | None:
    """The version in an installation's own file, since asking Java itself takes longer; None
    without such a file.
    """
    try:
        text = (java.resolve().parents[1] / "release").read_text(errors="replace")
    except OSError:
        return None
    found = _RELEASE.search(text)
    return None if found is None else found[1]


class _Launched(NamedTuple):
    """A JVM that waits for py4j's calls."""

    process: "subprocess.Popen[bytes]"
    port: int
    secret: str


class _EndedError(Exception):
    """The JVM ended before it was ready."""


class _Ahead(NamedTuple):
    """A JVM that is being started for a session to come, with the command line for it."""

    settings: "Future[Mapping[str, str] | None]"
    launched: "Future[_Launched]"
    unwanted: threading.Event
    thread: threading.Thread

    def give_up(self) -> None:
        """End the JVM, even in the middle of its start."""
        self.unwanted.set()
        self.thread.join()
        if self.launched.done() and self.launched.exception() is None:
            launched = self.launched.result()
            launched.process.kill()
            launched.process.communicate()


_ahead: _Ahead | None = None


def start_ahead(settings: Callable[[], Mapping[str, str] | None]) -> None:
    """Begin to start a JVM that ``start_java`` takes if it is called with the same settings, and
    that ends with this process otherwise. ``settings`` runs in the thread that starts it, and
    returns None if none should start. Errors are those of ``start_java``, and wait for it.
    """
    global _ahead
    if _ahead is not None or gateway() is not None or _GATEWAY_PORT in os.environ:
        return
    given = dict(os.environ)
    asked: Future[Mapping[str, str] | None] = Future()
    launched: Future[_Launched] = Future()
    unwanted = threading.Event()

    def start() -> None:
        try:
            found = settings()
        except (LakehouseError, OSError):
            # Opening the lake reports it.
            found = None
        # Any error: whoever waits for an answer would wait forever.
        except Exception as error:
            asked.set_exception(error)
            return
        asked.set_result(found)
        if found is None:
            return
        try:
            launched.set_result(_launched(find_java(), found, given, unwanted))
        except Exception as error:
            launched.set_exception(error)

    # A daemon: a command that ends early must not wait for it.
    thread = threading.Thread(target=start, name="java", daemon=True)
    _ahead = _Ahead(asked, launched, unwanted, thread)
    thread.start()
    atexit.register(_give_up)


def _give_up() -> None:
    global _ahead
    ahead, _ahead = _ahead, None
    if ahead is not None:
        ahead.give_up()


def _taken(settings: Mapping[str, str]) -> "Future[_Launched] | None":
    """The JVM that was started ahead, once; None if there is none with these settings."""
    global _ahead
    if _ahead is None:
        return None
    if _ahead.settings.result() != settings:
        _give_up()
        return None
    ahead, _ahead = _ahead, None
    return ahead.launched


def start_java(settings: Mapping[str, str] | None = None, advice: str = "") -> Any:
    """The gateway to a new JVM for Spark, with the settings that its command line needs. Raises
    ``SessionError``, with the advice, if there is no Java or it ends at once.
    """
    java = find_java()
    if _GATEWAY_PORT in os.environ:
        # Under spark-submit, Spark is this process's parent.
        return launch_gateway()
    settings = settings or {}
    try:
        with _interrupted_later():
            ahead = _taken(settings)
            launched = (
                _launched(java, settings, os.environ, threading.Event())
                if ahead is None
                else ahead.result()
            )
            return _connected(launched)
    except (_EndedError, subprocess.CalledProcessError) as error:
        # Its output has gone to standard error.
        raise SessionError(
            f"Spark's JVM ({java}) ended before it was ready, its output is above: look"
            f" {advice}whether it is Java {OLDEST} or later; JAVA_HOME selects another"
        ) from error


def _connected(launched: _Launched) -> Any:
    """PySpark's gateway to the JVM."""
    address = {_GATEWAY_PORT: str(launched.port), _GATEWAY_SECRET: launched.secret}
    with environment(address):
        connected = launch_gateway()
    connected.proc = launched.process
    return connected


def _launched(
    java: str,
    settings: Mapping[str, str],
    given: Mapping[str, str],
    unwanted: threading.Event,
) -> _Launched:
    """A JVM with the command line that Spark's launcher makes for ``bin/spark-class``, without
    ``_OF_VECTORS``. Raises ``_EndedError``, also if it has become unwanted.

    PySpark's ``launch_gateway`` does the same, with this process's environment, which is not a
    thread's to change.
    """
    home = _find_spark_home()
    variables = {
        # Spark gets what the profile takes from the others as settings.
        **{name: value for name, value in given.items() if not _is_told(name, value)},
        # Those that the script and PySpark set for it.
        "PYTHONHASHSEED": "0",
        "SPARK_CONF_DIR": f"{home}/conf",
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": home,
        "SPARK_SCALA_VERSION": "2.13",
    }
    options = [part for each in settings.items() for part in _setting(*each)]
    more = shlex.split(given.get(_ARGUMENTS, "pyspark-shell"))
    # The launcher needs only its own jar of all of Spark's, and starts in half of the time.
    (jar,) = Path(home, "jars").glob("spark-launcher_*.jar")
    launcher = [java, *_FOR_A_MOMENT, "-cp", str(jar), "org.apache.spark.launcher.Main"]
    made = subprocess.run(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", *options, *more],
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    command = made.partition("\0\n")[2].split("\0")[:-1]
    with tempfile.TemporaryDirectory() as folder:
        # Java renames the file into place once it is complete.
        told = Path(folder, "connection")
        process = subprocess.Popen(
            [*_DEAF, *(each for each in command if each != _OF_VECTORS)],
            env={**variables, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)},
            # It ends with this.
            stdin=subprocess.PIPE,
        )
        while not told.exists():
            if unwanted.is_set():
                process.kill()
            if process.poll() is not None and not told.exists():
                process.communicate()
                raise _EndedError
            time.sleep(0.01)
        with told.open("rb") as stream:
            return _Launched(process, read_int(stream), UTF8Deserializer().loads(stream))


def _is_told(variable: str, value: str) -> bool:
    """Whether an environment variable is a secret that the JVM does not need."""
    return (
        variable == MASK_KEY
        or variable.startswith(_SECRETS)
        or (is_known(value) and not variable.startswith(_OF_AWS))
    )


def _setting(name: str, value: str) -> tuple[str, str]:
    return "--conf", f"{name}={value}"


@contextmanager
def environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables within the context; None removes a variable."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Restore the interrupt handler that ``SparkContext`` replaces: PySpark's handler first calls
    Java in the middle of a call to Java, to which py4j answers with errors of its own.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _interrupted_later() -> Iterator[None]:
    """Delay the first interrupt to the end of the block: PySpark removes the folder into which
    its JVM, which no interrupt reaches, is about to write.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    waiting = False

    def wait(number: int, frame: Any) -> None:
        nonlocal waiting
        waiting = True
        signal.signal(number, before)

    signal.signal(signal.SIGINT, wait)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def compiled(source: Path) -> Any:
    """The class in a Java file of the same name, a ``java.lang.Class``, compiled by the compiler
    that Spark has for generated code.
    """
    compiler = java_class("org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(
        java_class("java.lang.Thread").currentThread().getContextClassLoader()
    )
    compiler.cook(source.read_text())
    return compiler.getClassLoader().loadClass(source.stem)


def own_object(source: Path) -> Any:
    """The object of our class in a Java file, one for each JVM. Its methods keep no state."""
    with _MAKING:
        return _own_object(gateway(), source)


def new_object(source: Path) -> Any:
    """A new object of our class in a Java file."""
    with _MAKING:
        (constructor,) = _own_class(gateway(), source).getConstructors()
    return constructor.newInstance(None)


# Two threads that miss an entry of a cache at the same time would both compile.
_MAKING: Final = threading.RLock()


# Of the running JVM, and of the one before.
@lru_cache(16)
def _own_object(jvm: Any, source: Path) -> Any:
    return new_object(source)


@lru_cache(16)
def _own_class(jvm: Any, source: Path) -> Any:
    """``compiled`` once: py4j confuses two classes of the same name."""
    return compiled(source)


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings of a session, including those of its Spark context."""
    # As JSON: each entry of a Java map costs a round trip.
    mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")
    settings: dict[str, str] = json.loads(
        mapper().writeValueAsString(java_session(spark).conf().getAllAsJava())
    )
    return settings
