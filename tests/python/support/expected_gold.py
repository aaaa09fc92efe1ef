"""What gold must hold after a set of messages, worked out in plain Python, and what it holds.

The way from bytes to rows without Spark: ``decode_payload`` (what ``lakehouse decode`` prints), a
running maximum for the log time, and ``reference.fold.fold``. It shares no SQL with the pipeline.
"""

import json
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from dbt_lakehouse.reference.fold import Change, Position, State, fold
from python_udfs.core.events import Event
from python_udfs.registry import decode_payload
from support import streams
from support.lakes import Lake
from support.streams import Message

Row = dict[str, Any]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FORMATS: Final = {
    streams.PROFILES: "aerospike_messagepack",
    streams.SESSIONS: "aerospike_messagepack",
    streams.ORDERS: "debezium_json",
}
WRITES: Final = ("snapshot", "insert", "update", "upsert")


class Logged(NamedTuple):
    """An event with its place in the log."""

    message: Message
    log_time: int | None
    event: Event

    @property
    def change(self) -> Change:
        """The event as the reference takes it."""
        topic, partition, offset, timestamp_ms = self.message[:4]
        return Change(
            self.event.operation,
            _micros(self.event.occurred_at),
            _micros(timestamp_ms),
            Position(_micros(self.log_time), topic, partition, offset, self.event.event_index),
            _micros(self.event.expires_at),
        )


class Table(NamedTuple):
    """A gold table: its key, where its rows come from, and how its columns are read from JSON."""

    name: str
    key: str
    source_schema: str
    source_table: str
    order_by_source_time: bool
    columns: dict[str, Callable[[Any], Any]]


def _same(value: Any) -> Any:
    return value


def _number(value: Any) -> float:
    return float(value)


def _money(value: Any) -> Decimal:
    return Decimal(value).quantize(Decimal("0.01"))


PROFILES: Final = Table(
    "profiles",
    "_digest",
    "users",
    "profiles",
    True,
    {
        "email": _same,
        "display_name": _same,
        "age": _same,
        "balance": _number,
        "is_vip": _same,
        "preferences": _same,
        "visited_cities": _same,
        "home": _same,
        "avatar": b64decode,
        "visitors": b64decode,
        "legacy_obj": b64decode,
        "places": _same,
    },
)
SESSIONS: Final = Table(
    "sessions",
    "_digest",
    "web",
    "sessions",
    True,
    {
        "user_id": _same,
        "user_agent": _same,
        "started_at": _same,
        "page_views": _same,
        "landing_page": _same,
        "cart": _same,
        "cart_total": _number,
        "utm": _same,
    },
)
ORDERS: Final = Table(
    "orders",
    "order_id",
    "sales",
    "orders",
    False,
    {
        "customer_id": _same,
        "status": _same,
        "amount": _money,
        "currency": _same,
        "placed_at": datetime.fromisoformat,
        "shipped_at": lambda value: value,
        "note": _same,
    },
)
TABLES: Final = (PROFILES, SESSIONS, ORDERS)
GOLD: Final = {table.name: table for table in TABLES}
# Everything that the three tables need, and the quarantine.
MODELS: Final = ("+profiles", "+sessions", "+orders", "quarantined_payloads")
# Where a gold column has another name than the field of the image.
_RENAMED: Final = {"shipped_at": "shipped_at_micros"}


def log_of(messages: Iterable[Message]) -> list[Logged]:
    """All events of the messages, each with its log time.

    That is the largest timestamp so far in the event's partition.
    """
    log = []
    newest: dict[tuple[str, int], int | None] = {}
    for message in sorted(messages, key=lambda each: each[:3]):
        place = message[:2]
        known = [time for time in (newest.get(place), message.timestamp_ms) if time is not None]
        newest[place] = max(known, default=None)
        for event in decode_payload(FORMATS[message.topic], message.key, message.value):
            log.append(Logged(message, newest[place], event))
    return log


def changes_by_key(table: Table, log: Iterable[Logged]) -> dict[Any, list[Logged]]:
    """The changes of each key of the table: with the namespace's deletes without a set, the
    table's truncates, and updates to another key as deletes.
    """
    changes: dict[Any, list[Logged]] = defaultdict(list)
    deletes: dict[Any, list[Logged]] = defaultdict(list)
    truncates = []
    for logged in log:
        event = logged.event
        if event.source_schema != table.source_schema:
            continue
        if event.source_table == table.source_table:
            if event.operation == "truncate":
                truncates.append(logged)
            elif event.operation in (*WRITES, "delete"):
                key = _key(table, event)
                changes[key].append(logged)
                previous = _image(event.before).get(table.key, key)
                if event.operation == "update" and previous != key:
                    gone = event._replace(operation="delete", before=None, after=None)
                    changes[previous].append(logged._replace(event=gone))
        elif event.source_table is None and event.operation == "delete":
            deletes[_key(table, event)].append(logged)
    return {key: [*own, *deletes[key], *truncates] for key, own in changes.items()}


def states(table: Table, log: Iterable[Logged], as_of: datetime) -> dict[Any, tuple[State, Event]]:
    """The state of each key of the table and the event that made it so, absent keys too."""
    found = {}
    for key, own in changes_by_key(table, log).items():
        events = {logged.change.position: logged.event for logged in own}
        state = fold(
            [_with_values(table, logged) for logged in own],
            order_by_source_time=table.order_by_source_time,
            as_of=micros_of(as_of),
        )
        assert state is not None
        found[key] = state, events[state.position]
    return found


def expected_rows(table: Table, log: Iterable[Logged], as_of: datetime) -> dict[Any, Row]:
    """The rows of the gold table by key, with all its columns."""
    rows = {}
    for key, (state, event) in states(table, log, as_of).items():
        if not state.is_live:
            continue
        row: Row = {table.key: key}
        if table.key == "_digest":
            row |= {"_namespace": table.source_schema, "_set": table.source_table}
        for (field, convert), text in zip(table.columns.items(), state.values, strict=True):
            value = None if text is None else json.loads(text, parse_float=Decimal)
            row[_RENAMED.get(field, field)] = None if value is None else convert(value)
        position = state.position
        row |= {
            "_occurred_at": _time(state.occurred_at),
            "_max_occurred_at": _time(state.max_occurred_at),
            "_position": {
                "log_time": _time(position.log_time),
                **{name: getattr(position, name) for name in position._fields[1:5]},
            },
        }
        if table.key == "_digest":
            row["_expires_at"] = _time(_micros(event.expires_at))
        rows[key] = row
    return rows


def differences(lake: Lake, messages: Iterable[Message], as_of: datetime) -> list[str]:
    """How gold, as PyIceberg reads it, differs from the reference for these messages."""
    log = log_of(messages)
    found = []
    for name, table in GOLD.items():
        expected = expected_rows(table, log, as_of)
        actual = gold(lake, name)
        for key in sorted({*expected, *actual}, key=str):
            if expected.get(key) != actual.get(key):
                found.append(f"{name} {key}: {expected.get(key)} expected, not {actual.get(key)}")
    return found


def gold(lake: Lake, name: str) -> dict[Any, Row]:
    """A gold table by key, read with PyIceberg."""
    return by_key(name, lake.read(f"gold.{name}"))


def by_key(name: str, rows: list[Row]) -> dict[Any, Row]:
    """Rows of a gold table by key, maps as dicts."""
    for row in rows:
        if row.get("utm") is not None:
            row["utm"] = dict(row["utm"])
    keyed = {row[GOLD[name].key]: row for row in rows}
    assert len(keyed) == len(rows), f"{name}: a key has two rows"
    return keyed


def micros_of(moment: datetime) -> int:
    """UTC microseconds since the epoch."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def _with_values(table: Table, logged: Logged) -> Change:
    """The event as the reference takes it, with the row's values as JSON."""
    before, after = _image(logged.event.before), _image(logged.event.after)
    values: list[str | None] = []
    unchanged = []
    for place, field in enumerate(table.columns):
        value = after.get(field)
        if value == streams.UNAVAILABLE:
            value = before.get(field)
            if value in (None, streams.UNAVAILABLE):
                unchanged.append(place)
                value = None
        values.append(None if value is None else json.dumps(value, default=str))
    return logged.change._replace(values=values, unchanged=unchanged)


def _image(text: bytes | str | None) -> Row:
    image: Row = json.loads(text) if text else {}
    return image


def _key(table: Table, event: Event) -> Any:
    if table.key == "_digest":
        return json.loads(event.record_key or b"null")["digest"]
    # Like the model: from the image, else from the message key.
    for text in (event.after, event.before, event.record_key):
        if text is not None:
            return json.loads(text)[table.key]
    raise AssertionError(f"an event of {table.name} without a key: {event}")


def _micros(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else milliseconds * 1000


def _time(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + timedelta(microseconds=micros)
