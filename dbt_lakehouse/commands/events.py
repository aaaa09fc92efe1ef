"""`lakehouse events`: the events of landed messages, decoded again, without Spark."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.commands.explain.explain_output import events_lines
from dbt_lakehouse.commands.keys import UnusableKeyError, refuse_no_json
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of, sql_literal
from dbt_lakehouse.stored.landed import Landed, landed, spans
from dbt_lakehouse.stored.messages import JSON, TIMES, event_row
from dbt_lakehouse.stored.topics import landed_topics, refuse_missing
from dbt_lakehouse.texts import time_text
from python_udfs.core.events import Event
from python_udfs.text.numbers import canonical_number

LIMIT: Final = 100
"""The default number of events in text output."""

Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""
IsWanted = Callable[[Event], bool]
Write = Callable[[bytes], object]
_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


class Choice(NamedTuple):
    """The choice of events; None for any."""

    topic: str
    partition: int | None = None
    first: int | None = None
    """The lowest offset."""
    last: int | None = None
    """The highest offset."""
    key: str | None = None
    """JSON with names and values of an event's key or one of its rows."""

    @property
    def condition(self) -> str:
        """DuckDB's SQL condition that a message may have a chosen event."""
        conditions = [f"topic = {sql_literal(self.topic)}"]
        for column, operator, number in (
            ("partition", "=", self.partition),
            ("offset", ">=", self.first),
            ("offset", "<=", self.last),
        ):
            if number is not None:
                conditions.append(f'"{column}" {operator} {number}')
        return " and ".join(conditions)


Found = tuple[Landed, Sequence[Event], int]
"""A message with chosen events, these events, and the number of all its events."""


def find(reader: Reader, other_events: str, choice: Choice) -> Iterator[Found]:
    """Find the messages with chosen events, in the order of their places.

    Events that no message contains, which a tombstone of a compacted topic stands for, come from
    the table ``other_events``. Raises ``ConfigurationError`` for a topic that has not landed,
    ``UnusableKeyError``, and the errors of reading.
    """
    is_wanted = _is_wanted(choice.key)
    found = spans(reader, choice.condition)
    if not found:
        refuse_missing([choice.topic], landed_topics(reader))
    for span in found:
        judged = _judged(reader, other_events, span)
        for message in landed(reader, other_events, span):
            place = (message.topic, message.partition, message.offset)
            events = [*message.events(), *judged.get(place, ())]
            if chosen := [event for event in events if is_wanted(event)]:
                yield message, chosen, len(events)


def write_json(found: Iterable[Found], limit: int | None, write: Write) -> None:
    """Write events as JSON lines, with the fields that `lakehouse decode` prints."""
    rows = (
        {
            "topic": message.topic,
            "partition": message.partition,
            "offset": message.offset,
            "event_index": event.event_index,
            "timestamp": _time(message),
            "format": message.format,
            **event_row(event),
        }
        for message, events, _ in found
        for event in events
    )
    for row in islice(rows, limit):
        write(_line(_encode(row)))


def write_text(found: Iterable[Found], limit: int | None, write: Write) -> None:
    """Write events as text, grouped by message."""
    left = LIMIT if limit is None else limit
    is_first = True
    for message, events, number in found:
        if left:
            place = f"{message.topic}, partition {message.partition}, offset {message.offset}"
            what = "forgotten" if message.is_forgotten else message.format or "of no format"
            lines = [] if is_first else [""]
            lines.append(f"{place}, {_time(message) or 'without a time'}: {what}")
            lines += [*events_lines(events[:left], number), ""]
            write("\n".join(lines).encode(errors="backslashreplace"))
        if len(events) > left:
            write(b"\nthere are more: --limit\n")
            return
        left -= len(events)
        is_first = False
    if is_first:
        write(b"no such event has landed\n")


def _time(message: Landed) -> str | None:
    return None if message.timestamp is None else time_text(message.timestamp)


def _line(row: bytes) -> bytes:
    # A decoder may pass on white space between the tokens of a JSON payload. There can be no
    # other line break: in strings it is escaped.
    is_one = b"\n" not in row and b"\r" not in row
    return (row if is_one else msgspec.json.format(row, indent=-1)) + b"\n"


# --- keys -----------------------------------------------------------------------------------------


def _is_wanted(key: str | None) -> IsWanted:
    """A function that tells whether an event has a key. Raises ``UnusableKeyError``."""
    if key is None:
        return lambda event: True
    refuse_no_json(key)
    wanted = _values(key)
    if not isinstance(wanted, dict) or not wanted:
        raise UnusableKeyError('--key: expected an object with a key\'s values, like {"id": 7}')

    def is_wanted(event: Event) -> bool:
        return any(_has(row, wanted) for row in (event.record_key, event.before, event.after))

    return is_wanted


def _has(row: bytes | None, wanted: dict[str, Any]) -> bool:
    values = None if row is None else _values(row)
    return isinstance(values, dict) and all(
        name in values and values[name] == value for name, value in wanted.items()
    )


def _values(text: str | bytes) -> Any:
    """The values of a JSON text. Equal numbers are equal however they are written, even as text."""
    return json.loads(text, parse_int=canonical_number, parse_float=canonical_number)


# --- tombstones -----------------------------------------------------------------------------------


def _judged(reader: Reader, other_events: str, condition: str) -> dict[Place, list[Event]]:
    """The events that tombstones stand for, by the places of their messages."""
    found: dict[Place, list[Event]] = defaultdict(list)
    if other_events not in reader.names:
        return found
    columns = [f"epoch_ms({name})" if name in TIMES else name for name in Event._fields]
    for topic, partition, offset, *values in rows_of(
        reader,
        f'select topic, "partition", "offset", {", ".join(columns)}'
        f" from {reader.quoted(reader.known(other_events))}"
        f" where added_by = 'tombstone' and {condition} order by event_index",
    ):
        event = dict(zip(Event._fields, values, strict=True))
        texts = {name: event[name] and event[name].encode() for name in JSON}
        found[topic, partition, offset].append(Event(**{**event, **texts}))
    return found
