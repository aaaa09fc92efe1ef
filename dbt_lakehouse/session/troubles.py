"""What Spark and its JVM say when something fails, as text that a user can act on and that tells no
secrets: no passwords, and no values of the data.
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

# Values that conditions of class 22 of SQL's states, data exceptions, are about: quoted or numbers.
# Where there is the error and not its text alone, Spark says what they are (``_about_values``).
_DATA_EXCEPTION: Final = re.compile(r"SQLSTATE: 22")
_VALUE: Final = re.compile(
    r"""(?x) '(?:[^'\\]|\\.)*' | (?<![\w(,.:])(?<!SQLSTATE:[ ])-?\d[\d.:Ee+-]*(?=\s)"""
)
# The same of Java's and Python's own errors.
_JAVA_VALUE: Final = re.compile(
    r"""(For input string: |Text |invalid literal for [^:]*: )("[^"]*"|'[^']*')"""
)
# Classes of SQL's states that are about values once a statement runs: data exceptions, constraints
# (a map's key is there twice), texts that are not of a format.
_OF_VALUES: Final = ("22", "23", "42")


def without_values(text: str) -> str:
    """What Spark says, with ``***`` in the place of secrets and of values of the data."""
    text = _JAVA_VALUE.sub(rf"\1{HIDDEN}", without_secrets(text))
    return _VALUE.sub(HIDDEN, text) if _DATA_EXCEPTION.search(text) else text


class Trouble(NamedTuple):
    """Something that goes wrong with machines and files, however it is said: a pattern of Java's
    messages, and what to tell of it. ``{0}`` is the message, names are the pattern's groups.
    """

    pattern: re.Pattern[str]
    sentence: str


_ENDED: Final = (
    "Spark's process has ended before the command was done: it was killed, or has too little memory"
    " (spark.driver.memory in the profile, LAKEHOUSE_DRIVER_MEMORY in the one that comes with"
    " cdc_lakehouse), or the machine has; what was committed is whole, start again"
)
_FILE: Final = r"Failed to \w+(?: input stream for)?(?: file)?: (?P<file>\S+?): "
_DAMAGED: Final = "{file} is cut short or damaged{of_table}: {repair}"
# Where Spark was when it read a file of a table, or wrote one.
_OF_FILES: Final = re.compile(
    r"(?:org\.apache\.iceberg\.(?:\w+\.)*(?:[Pp]arquet|[Aa]vro|puffin|deletes|data|Manifest|Base)"
    r"|org\.apache\.(?:parquet|avro|orc)\.|github\.luben\.zstd)"
)
# The first that fits.
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
            " the system's log; what was committed is whole",
        ),
        (
            r"(?P<said>Connection to \S+ (?:refused|timed out)|The connection attempt failed)",
            "the catalog's database can't be reached ({said}): is it running, and is"
            " spark.sql.catalog.lake.uri right?",
        ),
        (
            r"terminating connection due to|This connection has been closed|the database system is"
            r" (?:shutting down|starting up)|An I/O error occurred while sending to the backend",
            "the catalog's database has gone away: what was committed is whole, start again once it"
            " is back",
        ),
        (
            r"Python worker exited unexpectedly",
            "a Python worker of Spark has died: killed, most likely for want of memory (the"
            " system's log says so); what was committed is whole, start again",
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
            " committed is whole",
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
        # What waits for a job while Spark ends itself, for want of memory, hears no more than that.
        (r"SparkContext was shut ?down|[Cc]annot call methods on a stopped SparkContext", _ENDED),
    )
)


def trouble_text(message: str) -> str | None:
    """What to tell of a message if it is a trouble that is known; None if it isn't."""
    for trouble in TROUBLES:
        if found := trouble.pattern.search(message):
            groups = found.groupdict()
            if "file" in groups:
                groups["of_table"], groups["repair"] = repair_of(groups["file"])
            return trouble.sentence.format(message, **groups)
    return None


def damage_text(error: BaseException, statement: str = "") -> str | None:
    """Which file is damaged, of an error that Spark has met in files of tables without naming one;
    None of another error, and if no file is. It is looked for in the tables that the statement
    names, and then in all others.
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
    """What went wrong, in one line: a trouble that is known, else the messages of a Java error and
    its causes, or Python's.
    """
    message = _messages(error)
    return without_values(trouble_text(message) or damage_text(error) or message)


def known_trouble(error: BaseException, statement: str = "") -> str | None:
    """What to tell of an error of Spark's that is no mistake of ours; None if it may be one."""
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
    """What there is to tell of an error without a message: its class, and what Java says behind."""
    origin = java_error(error)
    return type(error).__name__ if origin is None else _reasons(origin)


def _reasons(cause: Any) -> str:
    """The messages of a Java error and of its causes, the class of each without one."""
    reasons: list[str] = []
    while cause is not None:
        lines = (cause.getMessage() or "").strip().splitlines()
        reason = " ".join(lines[0].split()) if lines else cause.getClass().getSimpleName()
        if not any(reason in other or other in reason for other in reasons):
            reasons.append(reason)
        cause = cause.getCause()
    return ": ".join(reasons)


def _about_values(error: BaseException) -> str | None:
    """What Spark says of an error whose cause are values of the data, without the values; None of
    another error. Whatever is above or beneath it in Java may repeat them.
    """
    cause = java_error(error)
    while cause is not None:
        if is_instance_of(gateway(), cause, "org.apache.spark.sql.AnalysisException"):
            # About the statement, before it runs.
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
    """What a user can act on of what Spark says to a statement."""
    if known := known_trouble(error, statement):
        return known
    if about_values := _about_values(error):
        return about_values
    text = str(error)
    # The mistake is shown in its place in the SQL.
    if not isinstance(error, ParseException):
        if isinstance(error, AnalysisException):
            # Behind it comes the query's plan.
            text = text.partition(";\n")[0]
        elif isinstance(error, CapturedException):
            # Behind it comes where in the statement, and in Java, it was.
            text = text.partition("\n")[0]
        else:
            return error_text(error)
    return without_values(text.strip() or _class_text(error))


def log_text(error: Exception) -> str:
    """All that Spark says to a statement: with the query's plan, or where Java was."""
    return _about_values(error) or without_values(str(error))
