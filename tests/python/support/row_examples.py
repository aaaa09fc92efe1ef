"""Examples by hand: a few changes of a row or two, for a test to say what must come of them.

Times are minutes after the start of the streams. An example has a partition and keys of its own,
so that all of them can be in one lake.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from support.expected_gold import EPOCH
from support.row_events import NOTHING, Event, Image, Source, Value
from support.row_streams import beside_others, key_number
from support.streams import MINUTE, START, clone_partition

# Numbers of examples begin here; no stream's clone has them.
_FIRST: Final = 50
# The minute at which an example's first message is sent if it doesn't say; the next a minute later.
SENT: Final = 100


class Sent(NamedTuple):
    """When an example's message is sent, if not as its place says; None: nobody knows."""

    minute: int | None


class Step(NamedTuple):
    """One change of an example: its source time, the columns it names, the run it lands in."""

    operation: str
    time: int | None
    named: Image = NOTHING
    key: int = 0
    run: int = 0
    sent: Sent | None = None
    expires: int | None = None
    before: Image | None = None
    previous_key: int | None = None
    has_set: bool = True
    of_table: str | None = None
    other_key: int | None = None
    lsn: int | None = None


def write(time: int | None, named: Image = NOTHING, **details: Any) -> Step:
    """An Aerospike write."""
    return Step("upsert", time, named, **details)


def insert(time: int | None, named: Image = NOTHING, **details: Any) -> Step:
    """An insert that Debezium reports."""
    return Step("insert", time, named, **details)


def update(time: int | None, named: Image = NOTHING, **details: Any) -> Step:
    """An update that Debezium reports."""
    return Step("update", time, named, **details)


def delete(time: int | None, **details: Any) -> Step:
    """A delete."""
    return Step("delete", time, **details)


def truncate(time: int | None, **details: Any) -> Step:
    """A truncate, which deletes all rows of the table."""
    return Step("truncate", time, **details)


def row(level: int | None = None, label: str | None = None, note: str | None = None) -> Image:
    """All columns of a row, null where nothing is said."""
    columns: dict[str, Value] = {"level": level, "label": label, "note": note, "seen": None}
    return columns


def example_key(number: int, key: int = 0) -> int:
    """A key of the example with that number."""
    return key_number(_FIRST + number, key)


def events_of(source: Source, number: int, steps: Sequence[Step]) -> list[tuple[int, Event]]:
    """The events of an example, each with its run."""
    events = []
    for offset, step in enumerate(steps):
        sent = Sent(SENT + offset) if step.sent is None else step.sent
        event = Event(
            source,
            partition_of(number),
            offset,
            _milliseconds(sent.minute),
            step.operation,
            key=None
            if step.operation == "truncate" or not source.has_key
            else (example_key(number, step.key)),
            time_ms=_milliseconds(step.time),
            named=step.named,
            before=step.before,
            previous_key=(
                None if step.previous_key is None else example_key(number, step.previous_key)
            ),
            expires_s=None if step.expires is None else (START + step.expires * MINUTE) // 1000,
            has_set=step.has_set,
            of_table=step.of_table,
            other_key=None if step.other_key is None else example_key(number, step.other_key),
            lsn=step.lsn,
        )
        events.append((step.run, beside_others(event)))
    return events


def partition_of(number: int) -> int:
    """The partition of the example with that number."""
    return clone_partition(_FIRST + number, 0)


def minute(moment: datetime | None) -> float | None:
    """A time of a table in the examples' minutes."""
    if moment is None:
        return None
    return (moment - EPOCH - timedelta(milliseconds=START)) / timedelta(minutes=1)


def _milliseconds(minutes: int | None) -> int | None:
    return None if minutes is None else START + minutes * MINUTE
