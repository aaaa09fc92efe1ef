"""What Spark's JVM throws, as a line of text."""

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException

# As drivers repeat the addresses of databases, and Kafka's client its login.
_PASSWORD: Final = re.compile(
    r"""(?i)(password\s*=\s*)(?:"[^"]*"|'[^']*'|[^\s&;,"']+)|(//[^\s/:@]*:)[^\s/@]+(?=@)"""
)


def error_text(error: Exception) -> str:
    """What went wrong, in one line: the messages of a Java error and its causes, or Python's;
    passwords as ``***``.
    """
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    if cause is None:
        return _without_passwords(" ".join(str(error).split()))
    reasons: list[str] = []
    while cause is not None:
        lines = (cause.getMessage() or cause.getClass().getSimpleName()).splitlines()
        reason = " ".join(lines[0].split()) if lines else ""
        if not any(reason in other or other in reason for other in reasons):
            reasons.append(reason)
        cause = cause.getCause()
    return _without_passwords(": ".join(reasons))


def statement_error_text(error: AnalysisException | Py4JJavaError) -> str:
    """What a user can act on of what Spark says to a statement."""
    if isinstance(error, Py4JJavaError):
        return error_text(error)
    # Behind it comes the query's plan; a mistake of syntax is shown in its place in the SQL.
    text = str(error) if isinstance(error, ParseException) else str(error).partition(";\n")[0]
    return _without_passwords(text)


def _without_passwords(text: str) -> str:
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", text)
