"""Texts that are put together in many places: SQL literals, and words of messages."""

from collections.abc import Iterable


def texts(values: Iterable[str]) -> str:
    """SQL literals of any texts, separated by commas."""
    return ", ".join(
        "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" for value in values
    )


def counted(number: int, noun: str) -> str:
    """A number of things, whose plural has an s: ``1 topic``, ``2,000 topics``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
