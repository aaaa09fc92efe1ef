"""The uniform change event: what every decoder returns, one per change in a payload.

The fields are an event's contract (``silver.other_events`` has them as columns); the caller adds
position and Kafka timestamp. JSON columns are UTF-8 JSON text in ``bytes``, ready for an Arrow
string array or for ``msgspec.Raw``.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Final, NamedTuple

from python_udfs.core.errors import DecodeError
from python_udfs.core.row_images import RowImages

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

FORGOTTEN = "lakehouse.forgotten"
"""The header of a message from which `lakehouse forget` has removed bytes, and the placeholder of
a removed record in a batch, and in its key.
"""

KEY_UPDATE_NOTES = frozenset({"old_key", "new_key"})
"""Metadata's names of the other key of a key update. SQL interprets any field of that name, so
every format moves a payload's field of the same name aside.
"""

# The first and last millisecond that a Spark timestamp, a Python datetime and ISO 8601 text can
# all hold: 0001-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z.
MIN_TIME_MS = -62_135_596_800_000
MAX_TIME_MS = 253_402_300_799_999


WITH_ROW: Final = (SNAPSHOT, INSERT, UPDATE, UPSERT)
"""The operations after which a row exists."""
OF_ROWS: Final = (*WITH_ROW, DELETE)
"""The operations of one row."""
CHANGES: Final = frozenset({*OF_ROWS, TRUNCATE})
"""The operations that change a row."""

Source = tuple[str | None, str | None, str | None]
"""Database, schema and table of an event."""


class Event(NamedTuple):
    """One change. See ``shared/models/silver/other_events.yml`` for the meaning of each field."""

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
    """JSON object of the rest of the payload, or None if there is no rest."""
    error_code: str | None = None
    error_detail: str | None = None

    @property
    def source(self) -> Source:
        """The table."""
        return self.source_database, self.source_schema, self.source_table


SOURCE_FIELDS: Final = ("source_database", "source_schema", "source_table")
"""The fields of an event that name its source table."""
HEAD_FIELDS: Final = tuple(
    each for each in Event._fields if each not in {"before", "after", "error_code", "error_detail"}
)
"""The fields of a row's change that the row does not contain."""


def fields_with(texts: Collection[str]) -> list[str]:
    """``HEAD_FIELDS`` and those of ``texts`` that are not among them, in ``Event``'s order."""
    return [each for each in Event._fields if each in HEAD_FIELDS or each in texts]


Decode = Callable[[bytes | None, bytes | None], list[Event]]
"""Decodes one Kafka message, from its key and its value."""
Headers = Sequence[tuple[str, bytes | None]]
"""Names and values of a message's headers."""
DecodeHeaded = Callable[[bytes | None, bytes | None, Headers | None], list[Event]]
"""Decodes a message that also has information in its headers."""


Lines = Callable[[], bytes]
"""Writes a column of JSON texts as one text: the rows' texts with a line break after each (inside
JSON there is none), ``null`` for a missing one.
"""


class EventColumns(NamedTuple):
    """Events of one table by column, from payloads with one event each. Each changes a row; those
    of Aerospike are writes. None of them is part of a key update.

    Texts are written on demand: until then their source is kept, which takes ten times the
    memory. A column that is None has no value in any row.
    """

    operation: str | Sequence[str]
    """One operation for all rows, or each row's."""
    source_database: str | None
    source_schema: str | None
    source_table: str | None
    record_key: Lines | None
    before: Lines | None
    after: Lines | None
    occurred_at: Sequence[int | None]
    expires_at: Sequence[int | None] | None
    metadata: Lines
    key_names: tuple[str, ...] = ()
    """The names in each record key; empty if there are none, or only the texts have them."""
    images: RowImages | None = None
    """Both images as they were decoded; None if there are only texts."""

    @property
    def source(self) -> Source:
        """The table."""
        return self.source_database, self.source_schema, self.source_table

    def events(self) -> list[Event]:
        """The same events, one object each."""
        rows = zip(
            repeat(0),
            repeat(self.operation) if isinstance(self.operation, str) else self.operation,
            repeat(self.source_database),
            repeat(self.source_schema),
            repeat(self.source_table),
            texts_of(self.record_key) or repeat(None),
            texts_of(self.before) or repeat(None),
            texts_of(self.after) or repeat(None),
            self.occurred_at,
            self.expires_at or repeat(None),
            texts_of(self.metadata) or repeat(None),
            repeat(None),
            repeat(None),
        )
        # In half the time of Event().
        return [tuple.__new__(Event, row) for row in rows]


@dataclass
class Decoded:
    """The events of many messages, by the messages' places. Each message is in exactly one of the
    two.
    """

    columns: list[tuple[Sequence[int], EventColumns]] = field(default_factory=list)
    """Messages that were decoded together."""
    events: dict[int, list[Event]] = field(default_factory=dict)
    """All others."""

    def payloads(self) -> list[list[Event]]:
        """The events of each message, in their order."""
        payloads = self.events.copy()
        for places, columns in self.columns:
            payloads.update(
                (place, [event]) for place, event in zip(places, columns.events(), strict=True)
            )
        return [payloads[place] for place in range(len(payloads))]


def texts_of(lines: Lines | None) -> list[bytes | None] | None:
    """The texts of a column's rows."""
    if lines is None:
        return None
    return [None if line == b"null" else line for line in lines().splitlines()]


def invalid(error: DecodeError, event_index: int = 0, metadata: bytes | None = None) -> Event:
    """The event that reports ``error`` for the record at ``event_index`` of its payload."""
    return Event(
        event_index, INVALID, metadata=metadata, error_code=error.code, error_detail=str(error)
    )
