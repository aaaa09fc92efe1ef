"""The output of `lakehouse why`."""

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

import msgspec

from dbt_lakehouse.commands.why.messages import Found
from dbt_lakehouse.queries.drawing import cell, shown, table_text
from dbt_lakehouse.texts import counted, printable

UNREAD: Final = "unread"
"""The fate of an event that gold has not been built with."""

FATES: Final = {
    "applied": "applied",
    "changes_nothing": "applied, changes nothing",
    "delete": "deletes the row",
    "late": "late: rejected",
    "late_in_place": "late: put in its place",
    "truncate": "empties the table",
    "before_truncate": "before a truncate",
    "other_table": "not its own: of another source table",
    UNREAD: "not read yet: next dbt run",
}
"""The fates of an event as text."""
_MESSAGES: Final = {
    Found.FORGOTTEN: "forgotten",
    Found.MISSING: "no longer in bronze as it was decoded",
}
# The fields of a message in the text; JSON has all of them.
_SHOWN: Final = ("operation", "before", "after")
_HEADER: Final = (
    "",
    "log time",
    "topic",
    "partition",
    "offset",
    "event",
    "operation",
    "source time",
    "what became of it",
)
_json: Final = msgspec.json.Encoder(decimal_format="number").encode


class Reason(StrEnum):
    """The reason for the row's presence or absence, by the events that gold has read."""

    LIVE = "live"
    DELETED = "deleted"
    EXPIRED = "expired"
    TRUNCATED = "truncated"
    UNREAD_BY_SNAPSHOT = "unread_by_snapshot"
    """A full snapshot did not read it, and no later event names it."""
    UNREAD = "unread"
    """Its first event waits for the next run."""
    UNKNOWN = "unknown"
    """No event of the key is known: there was none, or it was forgotten."""


@dataclass
class Ending:
    """The last row of a full snapshot."""

    topic: str
    partition: int
    offset: int
    log_time: str


@dataclass
class Told:
    """An event, its place, and its fate."""

    topic: str
    partition: int
    offset: int
    event_index: int
    log_time: str | None
    operation: str
    occurred_at: str | None
    expires_at: str | None
    fate: str
    decides: bool
    """Whether this event decides the row's presence or absence."""
    is_clock_ahead: bool
    """Whether its time is so far ahead of Kafka's that it counts as unknown."""
    is_key_change: bool
    """Whether it is an update that changed the row's key."""
    has_set: bool
    message: str
    """The state of its message in bronze: there, forgotten or missing."""
    decoded: dict[str, Any] | None
    snapshot: Ending | None = None
    """For the truncate of a full snapshot, that snapshot's end."""

    @property
    def place(self) -> str:
        """The place of its message as text."""
        is_record = self.event_index > 0 and not self.is_left_over
        record = f", record {self.event_index}" if is_record else ""
        return f"{self.topic}, partition {self.partition}, offset {self.offset}{record}"

    @property
    def is_left_over(self) -> bool:
        """Whether it is a delete of which compaction has left only a tombstone."""
        said = None if self.decoded is None else self.decoded["operation"]
        return self.operation == "delete" and said == "tombstone"

    @property
    def said(self) -> str:
        """The content of its message as text."""
        if self.decoded is None:
            return _MESSAGES[Found(self.message)]
        shown = {name: value for name, value in self.decoded.items() if name in _SHOWN}
        return _json(shown).decode()

    @property
    def story(self) -> str:
        """Its fate as text."""
        remarks = [FATES[self.fate]]
        if self.snapshot is not None:
            remarks.append("a full snapshot begins, and rows that it did not read are deleted")
        if self.is_key_change:
            remarks.append("the key became another")
        if not self.has_set:
            remarks.append("names no set")
        if self.is_left_over:
            remarks.append("a tombstone is what compaction has left of it")
        if self.is_clock_ahead:
            remarks.append("its clock is ahead: time unknown")
        return "; ".join(remarks)


@dataclass
class Answer:
    """The explanation of a key's row."""

    table: str
    key: dict[str, Any]
    reason: Reason
    as_of: str
    """The moment that the table was last built for."""
    row: dict[str, Any] | None
    """The row in gold."""
    events: list[Told]
    differences: list[str]
    """The differences between gold and the result of the events."""
    expired_at: str | None = None
    forgotten: int = 0
    """The number of requests to forget keys of the table, whichever keys."""
    notes: list[str] = field(default_factory=list)
    order: str = "log"
    """Whose order the events are in: ``log``, or ``source`` with ``order_by``."""

    def json(self) -> str:
        """As JSON, for scripts."""
        return _json(self).decode()

    def text(self) -> str:
        """As text."""
        lines = [printable(f"{self.table} {cell(self.key)}: {self.verdict}")]
        lines += [f"DIFFERENT: {printable(each)}" for each in self.differences]
        if self.row is not None:
            width = max(map(len, self.row))
            lines += [
                "",
                *(f"  {name:<{width}}  {shown(each)}" for name, each in self.row.items()),
            ]
        if self.events:
            lines += ["", f"{counted(len(self.events), 'event')} in the order of the {self.order}:"]
            lines += [table_text(_HEADER, [_line(each) for each in self.events]).rstrip()]
            lines += ["", "what their messages say:"]
            lines += [printable(f"  {each.place}: {each.said}") for each in self.events]
        lines += [printable(f"note: {each}") for each in self.notes]
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """Whether there is a row, and why."""
        decisive = next((each for each in self.events if each.decides), None)
        place = "" if decisive is None else decisive.place
        if self.reason is Reason.LIVE:
            return f"a row, by the event at {place}"
        if self.reason is Reason.DELETED:
            return f"no row: deleted by the event at {place}"
        if self.reason is Reason.UNREAD_BY_SNAPSHOT and decisive and decisive.snapshot:
            end = decisive.snapshot
            return (
                f"no row: not read by the snapshot of its table that began at {place}, and ended at"
                f" {end.log_time} (partition {end.partition}, offset {end.offset})"
            )
        if self.reason is Reason.TRUNCATED:
            return f"no row: the truncate at {place} emptied the table"
        if self.reason is Reason.EXPIRED:
            return f"no row: it expired at {self.expired_at}, and the table is as of {self.as_of}"
        if self.reason is Reason.UNREAD:
            return "no row yet: the next `dbt run` reads its first event"
        if self.forgotten:
            asked = counted(self.forgotten, "request")
            return (
                "no row: no event of it is known. It has never been seen, or was forgotten:"
                f" bronze.forgotten has {asked} for this table, and does not say whose"
            )
        return "no row: no event of this table has ever named it"


def _line(event: Told) -> list[Any]:
    return [
        "*" if event.decides else "",
        event.log_time,
        event.topic,
        event.partition,
        event.offset,
        event.event_index,
        event.operation,
        event.occurred_at,
        event.story,
    ]


def decoded(text: str) -> Answer:
    """An answer from the JSON of ``Answer.json``. Raises ``msgspec.DecodeError``."""
    return msgspec.json.Decoder(Answer, float_hook=Decimal).decode(text)
