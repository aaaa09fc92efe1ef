"""What Spark and its JVM say when something fails, as text that a user can act on and that tells no
secrets: no passwords, and no values of the data.
"""

import re
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.errors.exceptions.captured import CapturedException

# As drivers repeat the addresses of databases, catalogs their settings, and Kafka's client its
# login.
_SECRET: Final = re.compile(
    r"""(?ix)
    (["']?\b[\w.-]*(?:password|passwd|secret|token|credential|access[.]?key)[\w.-]*["']?\s*[=:]\s*)
    (?:"[^"]*"|'[^']*'|[^\s&;,"']+)
    |(//[^\s/:@]*:)[^\s/@]+(?=@)
    """
)
# Values that conditions of class 22 of SQL's states, data exceptions, are about: quoted or numbers.
_DATA_EXCEPTION: Final = re.compile(r"SQLSTATE: 22")
_VALUE: Final = re.compile(
    r"""(?x) '(?:[^'\\]|\\.)*' | (?<![\w(,.:])(?<!SQLSTATE:[ ])-?\d[\d.:Ee+-]*(?=\s)"""
)
# The same of Java's and Python's own errors.
_JAVA_VALUE: Final = re.compile(
    r"""(For input string: |Text |invalid literal for [^:]*: )("[^"]*"|'[^']*')"""
)
_HIDDEN: Final = "***"


def without_secrets(text: str) -> str:
    """A text with ``***`` in the place of passwords and the like, and of values of the data."""
    text = _SECRET.sub(lambda found: f"{found[1] or found[2]}{_HIDDEN}", text)
    text = _JAVA_VALUE.sub(rf"\1{_HIDDEN}", text)
    return _VALUE.sub(_HIDDEN, text) if _DATA_EXCEPTION.search(text) else text


def error_text(error: Exception) -> str:
    """What went wrong, in one line: the messages of a Java error and its causes, or Python's."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    if cause is None:
        return without_secrets(" ".join(str(error).split()))
    reasons: list[str] = []
    while cause is not None:
        lines = (cause.getMessage() or cause.getClass().getSimpleName()).splitlines()
        reason = " ".join(lines[0].split()) if lines else ""
        if not any(reason in other or other in reason for other in reasons):
            reasons.append(reason)
        cause = cause.getCause()
    return without_secrets(": ".join(reasons))


def cause_of(error: Py4JJavaError, class_name: str) -> Any:
    """What of a Java error and its causes is of that class (its simple name), None if none is."""
    cause = error.java_exception
    while cause is not None and cause.getClass().getSimpleName() != class_name:
        cause = cause.getCause()
    return cause


def statement_error_text(error: Exception) -> str:
    """What a user can act on of what Spark says to a statement."""
    if isinstance(error, ParseException):
        # The mistake is shown in its place in the SQL.
        return without_secrets(str(error))
    if isinstance(error, AnalysisException):
        # Behind it comes the query's plan.
        return without_secrets(str(error).partition(";\n")[0])
    if isinstance(error, CapturedException):
        # Behind it comes where in the statement, and in Java, it was.
        return without_secrets(str(error).partition("\n")[0])
    return error_text(error)
