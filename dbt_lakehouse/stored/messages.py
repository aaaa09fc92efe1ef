"""Messages and their events, for commands that show some."""

from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from dbt_lakehouse.texts import time_text
from python_udfs.core.events import FORGOTTEN, Event, Headers

JSON: Final = ("record_key", "before", "after", "metadata")
"""The fields of an event that are JSON texts."""
TIMES: Final = ("occurred_at", "expires_at")
"""The fields of an event that are times."""


def event_row(event: Event) -> dict[str, Any]:
    """An event as `lakehouse decode` prints it."""
    values = event._asdict()
    for name in JSON:
        if values[name] is not None:
            values[name] = msgspec.Raw(values[name])
    for name in TIMES:
        if values[name] is not None:
            values[name] = time_text(values[name] * 1000)
    return values


def event_json(event: Event) -> dict[str, Any]:
    """The same, without nulls."""
    return {name: value for name, value in event_row(event).items() if value is not None}


def is_forgotten(headers: Iterable[Mapping[str, Any]] | None) -> bool:
    """Whether `lakehouse forget` has removed bytes from the message with these headers."""
    return any(header["key"] == FORGOTTEN for header in headers or ())


def pairs_of(headers: Iterable[Mapping[str, Any]] | None) -> Headers:
    """bronze's headers in the form that decoders take."""
    return [(header["key"], bytes_of(header["value"])) for header in headers or ()]


def bytes_of(base64: str | None) -> bytes | None:
    """Bytes from bronze, which queries return as base64."""
    return None if base64 is None else b64decode(base64)
