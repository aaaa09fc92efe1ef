"""Changes of rows as their sources make them: the messages they come in, and what the references
take of them.

Each event says what happened, once; from it come the bytes of its Kafka message on one side and
the reference's ``Change`` on the other, so no decoder and no SQL stands between the two.
"""

import json
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aerospike_encoder import pack
from streams import BLOB, BOOLEAN, DOUBLE, INTEGER, STRING, UNAVAILABLE, Message

from dbt_lakehouse.reference.fold import Change, Position
from dbt_lakehouse.reference.history import RowChange

Value = str | int | bool | None
Image = Mapping[str, Value]

# The value columns of every source table here, and their types.
COLUMNS: Final = {
    "level": "bigint",
    "label": "string",
    "note": "string",
    "seen": "timestamp_ntz",
}
# The database of the tables that Debezium reads.
DATABASE: Final = "shop"
NOTHING: Final[Image] = MappingProxyType({})

WRITES: Final = ("snapshot", "insert", "update", "upsert")
_DEBEZIUM_OPS: Final = {
    "snapshot": "r",
    "insert": "c",
    "update": "u",
    "delete": "d",
    "truncate": "t",
}
_PARTICLE_TYPES: Final[dict[type, int]] = {
    type(None): 0,
    bool: BOOLEAN,
    int: INTEGER,
    float: DOUBLE,
    str: STRING,
    bytes: BLOB,
}


class Source(NamedTuple):
    """A source table. ``partial``: a column that an image doesn't name is left as it was.

    With ``tables`` it is several of one shape, of which ``table`` is the common name.
    """

    topic: str
    schema: str
    table: str
    partial: bool = False
    order_by_source_time: bool = False
    has_key: bool = True
    tables: tuple[str, ...] = ()

    @property
    def is_aerospike(self) -> bool:
        """Whether it is an Aerospike set; Debezium's connectors read all others."""
        return self.topic.startswith("aerospike.")


class Event(NamedTuple):
    """One change, and the place of the Kafka message that it comes in.

    ``named`` is what the image names: with None for null, with UNAVAILABLE for what Debezium can't
    say. ``before`` is the image before, ``previous_key`` the key that an update has replaced,
    ``of_table`` the one of several source tables.
    """

    source: Source
    partition: int
    offset: int
    sent_ms: int | None
    operation: str
    key: int | None = None
    time_ms: int | None = None
    named: Image = NOTHING
    before: Image | None = None
    previous_key: int | None = None
    expires_s: int | None = None
    has_set: bool = True
    of_table: str | None = None

    @property
    def table(self) -> str:
        """The source table, be it one of several."""
        return self.of_table or self.source.table

    @property
    def table_if_several(self) -> str | None:
        """The source table where the log is of several, as the references take it."""
        return self.table if self.source.tables else None


def key_value(source: Source, key: int) -> int | str:
    """A key as the tables hold it."""
    return b64encode(_digest(key)).decode() if source.is_aerospike else key


def _digest(key: int) -> bytes:
    return key.to_bytes(20)


# --- messages -------------------------------------------------------------------------------------


def message(event: Event) -> Message:
    """The Kafka message of an event."""
    key, value = _aerospike(event) if event.source.is_aerospike else _debezium(event)
    return Message(event.source.topic, event.partition, event.offset, event.sent_ms, key, value)


def _aerospike(event: Event) -> tuple[None, bytes]:
    assert event.key is not None
    shipped_set = event.source.table if event.has_set else None
    key = [event.source.schema, shipped_set, _digest(event.key), None]
    if event.operation == "delete":
        # Connectors before 4.0 date no delete.
        dates = [] if event.time_ms is None else [3, 0, event.time_ms]
        return None, pack([1, 2, [key, 0, *dates]])
    bins = [[name, _PARTICLE_TYPES[type(value)], 0, value] for name, value in event.named.items()]
    return None, pack([1, 1, [key, 1, event.expires_s or 0, event.time_ms, bins]])


def _debezium(event: Event) -> tuple[bytes | None, bytes]:
    source = {"connector": "postgresql", "db": DATABASE, "schema": event.source.schema}
    value: dict[str, Any] = {
        "before": None,
        "after": None,
        "source": {**source, "table": event.table, "ts_ms": event.time_ms},
        "op": _DEBEZIUM_OPS[event.operation],
    }
    key = {} if event.key is None else {"id": event.key}
    if event.operation in WRITES:
        value["after"] = {**key, **event.named}
    previous = key if event.previous_key is None else {"id": event.previous_key}
    if event.before is not None or event.previous_key is not None:
        value["before"] = {**previous, **(event.before or {})}
    return (_compact(key) if key else None), _compact(value)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


# --- what the references take ---------------------------------------------------------------------


def placed(events: Iterable[Event]) -> list[tuple[Event, Position]]:
    """The events with their places in the log, if these are all that the log has.

    An event's log time is the largest timestamp so far in its partition.
    """
    found = []
    newest: dict[tuple[str, int], int | None] = {}
    for event in sorted(events, key=lambda each: (each.source.topic, each.partition, each.offset)):
        place = event.source.topic, event.partition
        times = [time for time in (newest.get(place), event.sent_ms) if time is not None]
        newest[place] = max(times, default=None)
        found.append((event, Position(micros(newest[place]), *place, event.offset, 0)))
    return found


def changes_by_key(source: Source, events: Iterable[Event]) -> dict[int, list[Change]]:
    """The changes of each key of a source table, from all events that have landed.

    An update that replaces its key deletes the old one too; a truncate is a change of every key; a
    delete that doesn't say its set is one of the keys that the set is known to hold.
    """
    changes: dict[int, list[Change]] = defaultdict(list)
    without_set: dict[int, list[Change]] = defaultdict(list)
    truncates = []
    for event, position in placed(events):
        if event.source != source:
            continue
        change = _change(event, position)
        if event.operation == "truncate":
            truncates.append(change)
            continue
        assert event.key is not None
        (changes if event.has_set else without_set)[event.key].append(change)
        if event.previous_key is not None:
            changes[event.previous_key].append(_change(event, position, deletes=True))
    return {key: [*own, *without_set[key], *truncates] for key, own in changes.items()}


def _change(event: Event, position: Position, deletes: bool = False) -> Change:
    is_write = event.operation in WRITES and not deletes
    image = _resolved(event)
    unchanged = [
        place
        for place, column in enumerate(COLUMNS)
        if (column not in image and event.source.partial)
        or (event.named.get(column) == UNAVAILABLE and image[column] in (None, UNAVAILABLE))
    ]
    values = [None if place in unchanged else text for place, text in enumerate(_row(image))]
    return Change(
        operation="delete" if deletes else event.operation,
        occurred_at=micros(event.time_ms),
        kafka_timestamp=micros(event.sent_ms),
        position=position,
        expires_at=None if event.expires_s is None else event.expires_s * 1_000_000,
        values=values if is_write else [None] * len(COLUMNS),
        unchanged=unchanged if is_write else (),
        source=event.table_if_several,
    )


def row_changes(source: Source, events: Iterable[Event]) -> list[RowChange]:
    """The changes of a table without a key, from all events that have landed in any topic."""
    table = source.schema, source.table
    return [
        RowChange(
            event.operation,
            position,
            before=None if event.before is None else _row(event.before),
            after=_row(_resolved(event)) if event.operation in WRITES else None,
            source=event.table_if_several,
        )
        for event, position in placed(events)
        if (event.source.schema, event.source.table) == table
    ]


def _resolved(event: Event) -> Image:
    """The image, with the values before for those that Debezium can't say."""
    before = event.before or {}
    return {
        column: before.get(column) if value == UNAVAILABLE else value
        for column, value in event.named.items()
    }


def _row(image: Image) -> tuple[str | None, ...]:
    values = [image.get(column) for column in COLUMNS]
    return tuple(None if value is None else json.dumps(value) for value in values)


def micros(milliseconds: int | None) -> int | None:
    """Microseconds, as the references count them."""
    return None if milliseconds is None else milliseconds * 1000
