"""Texts that are put together in many places: SQL literals, and words of messages."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def sql_text(text: str) -> str:
    """A SQL string literal of any text."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_texts(texts: Iterable[str]) -> str:
    """SQL literals, separated by commas."""
    return ", ".join(map(sql_text, texts))


def counted(number: int, noun: str) -> str:
    """A number of things, whose plural has an s: ``1 topic``, ``2,000 topics``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time_text(micros: int) -> str:
    """A moment, in microseconds since the epoch, as ISO 8601: ``2026-11-21T10:00:00.123Z``."""
    text = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"
