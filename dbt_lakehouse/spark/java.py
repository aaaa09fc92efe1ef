"""The Java for Spark: found as Spark finds it, started, and called."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import SessionError
from dbt_lakehouse.masking import MASK_KEY
from dbt_lakehouse.redaction import is_known
from dbt_lakehouse.spark.jvm import java_class, java_session

# Only Spark's machine learning uses this module, and Java warns of it at each start.
_OF_VECTORS: Final = "--add-modules=jdk.incubator.vector"
# For a JVM that ends before optimized compilation would pay off.
_FOR_A_MOMENT: Final = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
OLDEST: Final = 17
"""The oldest Java that Spark runs in."""
_MAJOR: Final = re.compile(r"(?:1\.)?(\d+)")
_RELEASE: Final = re.compile(r'^JAVA_VERSION="(\d[^"]*)"', re.MULTILINE)
_ARGUMENTS: Final = "PYSPARK_SUBMIT_ARGS"
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


def start_java(conf: SparkConf | None = None, advice: str = "") -> Any:
    """The gateway to a new JVM for Spark. Raises ``SessionError``, with the advice, if there is
    no Java or it ends at once.
    """
    java = find_java()
    try:
        with _interrupted_later():
            return _launched(java, conf)
    except (PySparkRuntimeError, subprocess.CalledProcessError) as error:
        if isinstance(error, PySparkRuntimeError) and (
            error.getCondition() != "JAVA_GATEWAY_EXITED"
        ):
            raise
        # Its output has gone to standard error.
        raise SessionError(
            f"Spark's JVM ({java}) ended before it was ready, its output is above: look"
            f" {advice}whether it is Java {OLDEST} or later; JAVA_HOME selects another"
        ) from error


def _launched(java: str, conf: SparkConf | None) -> Any:
    """PySpark's gateway to a JVM with the command line that Spark's launcher makes for
    ``bin/spark-class``, without ``_OF_VECTORS``.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Under spark-submit, Spark is this process's parent.
        return launch_gateway()
    home = _find_spark_home()
    # The variables that the script and PySpark set for it.
    ours = {
        "PYTHONHASHSEED": "0",
        "SPARK_CONF_DIR": f"{home}/conf",
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": home,
        "SPARK_SCALA_VERSION": "2.13",
        # Spark gets what the profile takes from these as settings.
        **dict.fromkeys(filter(_is_told, os.environ)),
    }
    settings = [part for each in (conf or SparkConf(False)).getAll() for part in _setting(*each)]
    given = shlex.split(os.environ.get(_ARGUMENTS, "pyspark-shell"))
    # The launcher needs only its own jar of all of Spark's, and starts in half of the time.
    (jar,) = Path(home, "jars").glob("spark-launcher_*.jar")
    launcher = [java, *_FOR_A_MOMENT, "-cp", str(jar), "org.apache.spark.launcher.Main"]
    with environment(ours):
        made = subprocess.run(
            [*launcher, "org.apache.spark.deploy.SparkSubmit", *settings, *given],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        program, *arguments = made.partition("\0\n")[2].split("\0")[:-1]
        command = shlex.join(each for each in arguments if each != _OF_VECTORS)
        with environment({_ARGUMENTS: command}):
            # PySpark's own script would be the program, and these its arguments.
            return launch_gateway(None, {"executable": shutil.which(program)})


def _is_told(variable: str) -> bool:
    """Whether an environment variable is a secret that the JVM does not need."""
    return (
        variable == MASK_KEY
        or variable.startswith(_SECRETS)
        or (is_known(os.environ[variable]) and not variable.startswith(_OF_AWS))
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


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings of a session, including those of its Spark context."""
    # As JSON: each entry of a Java map costs a round trip.
    mapper = java_class("com.fasterxml.jackson.databind.ObjectMapper")
    settings: dict[str, str] = json.loads(
        mapper().writeValueAsString(java_session(spark).conf().getAllAsJava())
    )
    return settings
