"""What Spark's JVM throws, as a line of text."""

from py4j.protocol import Py4JJavaError


def error_text(error: Exception) -> str:
    """What went wrong, in one line: the messages of a Java error and its causes, or Python's."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    if cause is None:
        return " ".join(str(error).split())
    reasons: list[str] = []
    while cause is not None:
        lines = (cause.getMessage() or cause.getClass().getSimpleName()).splitlines()
        reason = " ".join(lines[0].split()) if lines else ""
        if not any(reason in other or other in reason for other in reasons):
            reasons.append(reason)
        cause = cause.getCause()
    return ": ".join(reasons)
