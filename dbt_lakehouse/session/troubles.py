"""Errors of Spark and its JVM, as text on which a user can act. It contains no secrets: no
passwords, and no values of the data.
"""

import re
from typing import Any, Final, NamedTuple

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException

from dbt_lakehouse.lake import buckets
from dbt_lakehouse.lake.integrity import repair_of
from dbt_lakehouse.redaction import HIDDEN, without_secrets
from dbt_lakehouse.spark.jvm import gateway, java_class, java_error

# Values, quoted or numeric, in messages of SQLSTATE class 22, data exceptions. If the error
# itself is available, Spark tells its values (``_about_values``).
_DATA_EXCEPTION: Final = re.compile(r"SQLSTATE: 22")
_VALUE: Final = re.compile(
    r"""(?x) '(?:[^'\\]|\\.)*' | (?<![\w(,.:])(?<!SQLSTATE:[ ])-?\d[\d.:Ee+-]*(?=\s)"""
)
# The same for Java's and Python's own errors.
_JAVA_VALUE: Final = re.compile(
    r"""(For input string: |Text |invalid literal for [^:]*: )("[^"]*"|'[^']*')"""
)
# SQLSTATE classes about values once a statement runs: data exceptions, constraints (a duplicate
# key in a map), texts in the wrong format.
_OF_VALUES: Final = ("22", "23", "42")


def without_values(text: str) -> str:
    """A message of Spark, with ``***`` in place of secrets and of values of the data."""
    text = _JAVA_VALUE.sub(rf"\1{HIDDEN}", without_secrets(text))
    return _VALUE.sub(HIDDEN, text) if _DATA_EXCEPTION.search(text) else text


class Trouble(NamedTuple):
    """A known trouble with machines and files: a pattern of Java's messages, and our message.
    ``{0}`` is Java's message; the other names are the pattern's groups.
    """

    pattern: re.Pattern[str]
    sentence: str


_ENDED: Final = (
    "Spark's process has ended before the command was done: it was killed, or has too little memory"
    " (spark.driver.memory in the profile, LAKEHOUSE_DRIVER_MEMORY in the one that comes with"
    " cdc_lakehouse), or the machine has; what was committed is complete, start again"
)
_FILE: Final = r"Failed to \w+(?: input stream for)?(?: file)?: (?P<file>\S+?): "
_DAMAGED: Final = "{file} is cut short or damaged{of_table}: {repair}"
# The stack frames of reading or writing a table's file.
_OF_FILES: Final = re.compile(
    r"(?:org\.apache\.iceberg\.(?:\w+\.)*(?:[Pp]arquet|[Aa]vro|puffin|deletes|data|Manifest|Base)"
    r"|org\.apache\.(?:parquet|avro|orc)\.|github\.luben\.zstd)"
)
# The first match counts.
TROUBLES: Final = tuple(
    Trouble(re.compile(pattern, re.DOTALL), sentence)
    for pattern, sentence in (
        *buckets.TROUBLES,
        (
            r"No FileSystem for scheme \"(?P<scheme>[^\"]+)",
            "files at {scheme}:// need a file access of Iceberg's that is not there:"
            " docs/catalogs.md (Object storage) has how to add it",
        ),
        (
            r"\[SQLITE_BUSY",
            "the lake's catalog is locked by another process, and stayed so for as long as"
            " busy_timeout in spark.sql.catalog.lake.uri says: wait for that process or end it"
            " (`fuser` of the catalog's file names it)",
        ),
        (
            r"\[SQLITE_(?:READONLY|CANTOPEN|PERM)",
            "the lake's catalog can't be written: let this user write the file that"
            " spark.sql.catalog.lake.uri names, and its folder",
        ),
        (
            r"\[SQLITE_IOERR",
            "the disk of the lake's catalog (spark.sql.catalog.lake.uri) fails: look at it and at"
            " the system's log; what was committed is complete",
        ),
        (
            r"(?P<said>Connection to \S+ (?:refused|timed out)|The connection attempt failed)",
            "the catalog's database can't be reached ({said}): is it running, and is"
            " spark.sql.catalog.lake.uri right?",
        ),
        (
            r"terminating connection due to|This connection has been closed|the database system is"
            r" (?:shutting down|starting up)|An I/O error occurred while sending to the backend",
            "the catalog's database has gone away: what was committed is complete, start again once"
            " it is back",
        ),
        (
            r"Python worker exited unexpectedly",
            "a Python worker of Spark has died: killed, most likely for want of memory (the"
            " system's log says so); what was committed is complete, start again",
        ),
        (
            _FILE + r".*(?:No space left on device|Disk quota exceeded)",
            "the disk of {file} is full: make room, and start again; nothing is half written",
        ),
        (
            r"No space left on device|Disk quota exceeded|\[SQLITE_FULL",
            "the disk is full: make room where the lake (spark.sql.catalog.lake.warehouse) and"
            " the cache's tmp are, and start again; nothing is half written",
        ),
        (
            _FILE + r".*(?:does not exist|No such file|NoSuchKey|Location does not exist)",
            "{file} is missing{of_table}: {repair}",
        ),
        (
            _FILE + r".*(?:EOFException|end of stream|[Ee]nd-of-input|is not a Parquet file"
            r"|[Ii]nvalid|Not a valid|Not an Avro|corrupt|[Cc]hecksum)",
            _DAMAGED,
        ),
        (
            r"(?:Checksum error: |Invalid CRC for deletion vector )(?P<file>\S+?)[,:]?(?: |$)",
            _DAMAGED,
        ),
        (
            r"Invalid update timestamp \d+: before|Expected sorted (?:snapshot|previous) ",
            "this machine's clock is behind that of the table's newest commit, by more than the"
            " minute that Iceberg lets pass: set the clock right and start again; what was"
            " committed is complete",
        ),
        (
            r"Read-only file system",
            "the lake's storage (spark.sql.catalog.lake.warehouse) is read-only: the system's log"
            " says why; mount it writable and start again, nothing is half written",
        ),
        (
            r"Permission denied|Mkdirs failed|AccessDenied",
            "{0}: the lake's storage can't be written: let this user write"
            " spark.sql.catalog.lake.warehouse",
        ),
        (
            r"OutOfMemoryError|Java heap space|GC overhead limit",
            "Spark has too little memory: raise spark.driver.memory in the profile"
            " (LAKEHOUSE_DRIVER_MEMORY in the one that comes with cdc_lakehouse)",
        ),
        # A thread waiting for a job hears no more than that when Spark ends for want of memory.
        (r"SparkContext was shut ?down|[Cc]annot call methods on a stopped SparkContext", _ENDED),
    )
)


def trouble_text(message: str) -> str | None:
    """Our message for a known trouble; None for any other message."""
    for trouble in TROUBLES:
        if found := trouble.pattern.search(message):
            groups = found.groupdict()
            if "file" in groups:
                groups["of_table"], groups["repair"] = repair_of(groups["file"])
            return trouble.sentence.format(message, **groups)
    return None


def damage_text(error: BaseException, statement: str = "") -> str | None:
    """The message about the damaged file, for an error from table files that does not name one;
    None for any other error, or if no damaged file is found. The search begins with the tables
    that the statement names, then covers all others.
    """
    if not isinstance(error, Py4JJavaError | CapturedException):
        return None
    java = java_error(error)
    told = "" if java is None else java_class("org.apache.spark.util.Utils").exceptionString(java)
    if not _OF_FILES.search(told):
        return None
    from dbt_lakehouse.lake.broken_metadata import find_damage

    found = find_damage(statement)
    return None if found is None else str(found)


def error_text(error: Exception) -> str:
    """The error in one line: our message for a known trouble, otherwise the messages of a Java
    error and its causes, or Python's.
    """
    message = _messages(error)
    return without_values(trouble_text(message) or damage_text(error) or message)


def known_trouble(error: BaseException, statement: str = "") -> str | None:
    """Our message for an error of Spark that is not a bug of ours; None if it may be one."""
    if isinstance(error, Py4JNetworkError | ConnectionRefusedError):
        return _ENDED
    if not isinstance(error, Py4JJavaError | CapturedException):
        return None
    told = trouble_text(_messages(error)) or damage_text(error, statement)
    return None if told is None else without_values(told)


def _messages(error: Exception) -> str:
    """The messages of a Java error and its causes, or Python's, in one line."""
    if about_values := _about_values(error):
        return about_values
    if isinstance(error, Py4JJavaError) and error.java_exception is not None:
        return _reasons(error.java_exception)
    return " ".join(str(error).split()) or _class_text(error)


def _class_text(error: Exception) -> str:
    """The text for an error without a message: its class, and Java's messages behind it."""
    origin = java_error(error)
    return type(error).__name__ if origin is None else _reasons(origin)


def _reasons(cause: Any) -> str:
    """The messages of a Java error and its causes, or the class of one without a message."""
    reasons: list[str] = []
    while cause is not None:
        lines = (cause.getMessage() or "").strip().splitlines()
        reason = " ".join(lines[0].split()) if lines else cause.getClass().getSimpleName()
        if not any(reason in other or other in reason for other in reasons):
            reasons.append(reason)
        cause = cause.getCause()
    return ": ".join(reasons)


def _about_values(error: BaseException) -> str | None:
    """Spark's message for an error caused by values of the data, without the values; None for any
    other error. The Java errors above or beneath it may repeat the values.
    """
    cause = java_error(error)
    while cause is not None:
        if is_instance_of(gateway(), cause, "org.apache.spark.sql.AnalysisException"):
            # An error of the statement, before it runs.
            return None
        if is_instance_of(gateway(), cause, "org.apache.spark.SparkThrowable") and (
            cause.getSqlState() or ""
        ).startswith(_OF_VALUES):
            # Types and settings are in double quotes, functions in backticks.
            parameters = {
                name: text if text.startswith(('"', "`")) else HIDDEN
                for name, text in cause.getMessageParameters().items()
            }
            helper = java_class("org.apache.spark.SparkThrowableHelper")
            return " ".join(helper.getMessage(cause.getCondition(), parameters).split())
        cause = cause.getCause()
    return None


def statement_error_text(error: Exception, statement: str = "") -> str:
    """Spark's error for a statement, as text on which a user can act."""
    if known := known_trouble(error, statement):
        return known
    if about_values := _about_values(error):
        return about_values
    text = str(error)
    # The mistake is shown at its place in the SQL.
    if not isinstance(error, ParseException):
        if isinstance(error, AnalysisException):
            # After that comes the query's plan.
            text = text.partition(";\n")[0]
        elif isinstance(error, CapturedException):
            # After that comes the place in the statement and in Java.
            text = text.partition("\n")[0]
        else:
            return error_text(error)
    return without_values(text.strip() or _class_text(error))


def log_text(error: Exception) -> str:
    """Spark's complete error for a statement, with the query's plan or Java's stack trace."""
    return _about_values(error) or without_values(str(error))
