"""Texts in SQL."""

from collections.abc import Iterable


def texts(values: Iterable[str]) -> str:
    """SQL literals of any texts, separated by commas."""
    return ", ".join(
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values
    )
