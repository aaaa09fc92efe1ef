"""The uniform change event: what every decoder returns, one per change in a payload.

The fields are the columns of ``silver.change_events`` that come out of a payload; position and
Kafka timestamp are added by whoever holds them. JSON columns are UTF-8 JSON text in ``bytes``,
ready for an Arrow string array or for ``msgspec.Raw``.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from python_udfs.errors import DecodeError

# Operations that change a row.
SNAPSHOT = "snapshot"
INSERT = "insert"
UPDATE = "update"
UPSERT = "upsert"
DELETE = "delete"
TRUNCATE = "truncate"
# Operations of payloads that change no row.
TOMBSTONE = "tombstone"
MESSAGE = "message"
SCHEMA_CHANGE = "schema_change"
INVALID = "invalid"

# First and last millisecond that a Spark timestamp, a Python datetime and ISO 8601 text can all
# hold: 0001-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z.
MIN_TIME_MS = -62_135_596_800_000
MAX_TIME_MS = 253_402_300_799_999


class Event(NamedTuple):
    """One change. See the contract of ``silver.change_events`` for the meaning of each field."""

    event_index: int
    operation: str
    source_database: str | None = None
    source_schema: str | None = None
    source_table: str | None = None
    record_key: bytes | None = None
    """Canonical JSON (sorted keys, compact) of the key, or None."""
    before: bytes | None = None
    """JSON object of the row image before the change, or None."""
    after: bytes | None = None
    """JSON object of the row image after the change, or None."""
    occurred_at: int | None = None
    """UTC milliseconds since the epoch, between MIN_TIME_MS and MAX_TIME_MS, or None."""
    expires_at: int | None = None
    """UTC milliseconds since the epoch, between MIN_TIME_MS and MAX_TIME_MS, or None."""
    metadata: bytes | None = None
    """JSON object of whatever else the payload said, or None if there is nothing else."""
    error_code: str | None = None
    error_detail: str | None = None


class UpsertColumns(NamedTuple):
    """Upserts of one table by column: what each of many payloads holds one of."""

    source_schema: str
    source_table: str | None
    record_key: bytes
    """The texts of the column with a line break behind each; in JSON none can be inside."""
    after: bytes
    """As ``record_key``."""
    occurred_at: Sequence[int | None]
    expires_at: Sequence[int | None]
    metadata: bytes
    """As ``record_key``."""

    def events(self) -> list[Event]:
        """The same as one event each."""
        rows = zip(
            repeat(0),
            repeat(UPSERT),
            repeat(None),
            repeat(self.source_schema),
            repeat(self.source_table),
            self.record_key.splitlines(),
            repeat(None),
            self.after.splitlines(),
            self.occurred_at,
            self.expires_at,
            self.metadata.splitlines(),
            repeat(None),
            repeat(None),
        )
        # In half the time that Event() takes.
        return [tuple.__new__(Event, row) for row in rows]


def invalid(error: DecodeError, event_index: int = 0, metadata: bytes | None = None) -> Event:
    """The event that reports ``error`` for the record at ``event_index`` of its payload."""
    return Event(
        event_index, INVALID, metadata=metadata, error_code=error.code, error_detail=str(error)
    )
