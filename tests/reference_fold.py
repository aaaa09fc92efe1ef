"""The semantics of current state as a plain fold: what every gold table is held against.

It follows the definition word for word and shares nothing with the SQL that builds gold. As the SQL
function ``reference_fold`` it serves ``dbt test``; the scenario tests call ``fold`` themselves.

    for each key, its events in log order:
        late = event.occurred_at < state.max, both known, and the table is ordered by source time if
        not late: apply it; state.position, state.occurred_at = the event's own; state.max =
        max(both)
    at the end of a run: a row with expires_at <= as_of is absent, but its state stays
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

# A source time further ahead of Kafka's timestamp than this comes from a wrong clock and counts as
# unknown.
DAY_IN_MICROSECONDS = 24 * 60 * 60 * 1_000_000


class Position(NamedTuple):
    """Log order: ``log_time`` (microseconds), then the rest. A missing log time comes first."""

    log_time: int | None
    topic: str
    partition: int
    offset: int
    event_index: int


class Change(NamedTuple):
    """One event of a key; times in UTC microseconds since the epoch."""

    operation: str
    occurred_at: int | None
    kafka_timestamp: int | None
    position: Position
    expires_at: int | None


class State(NamedTuple):
    """What is left of a key: whether it has a row, and the event that made it so."""

    is_live: bool
    position: Position
    occurred_at: int | None
    max_occurred_at: int | None


def known_time(change: Change) -> int | None:
    """The change's time, unless it is unknown or can't be right."""
    if change.occurred_at is None or change.kafka_timestamp is None:
        return change.occurred_at
    ahead = change.occurred_at - change.kafka_timestamp
    return None if ahead > DAY_IN_MICROSECONDS else change.occurred_at


def log_order(change: Change) -> tuple[bool, int, str, int, int, int]:
    """The sort key of a change in the log."""
    log_time, *rest = change.position
    topic, partition, offset, event_index = rest
    return (log_time is not None, log_time or 0, topic, partition, offset, event_index)


def fold(changes: Iterable[Change], *, order_by_source_time: bool, as_of: int) -> State | None:
    """The state of one key after all its changes, or None if it has none."""
    state: State | None = None
    expires_at: int | None = None
    for change in sorted(changes, key=log_order):
        time = known_time(change)
        newest = state.max_occurred_at if state else None
        if order_by_source_time and time is not None and newest is not None and time < newest:
            continue
        times = [known for known in (time, newest) if known is not None]
        state = State(
            is_live=change.operation != "delete",
            position=change.position,
            occurred_at=time,
            max_occurred_at=max(times, default=None),
        )
        expires_at = change.expires_at
    if state and expires_at is not None and expires_at <= as_of:
        state = state._replace(is_live=False)
    return state


# The SQL function's types: the changes of one key in any order, and what became of them.
POSITION_TYPE = "struct<log_time:bigint,topic:string,partition:int,offset:bigint,event_index:int>"
STATE_TYPE = (
    f"struct<is_live:boolean,position:{POSITION_TYPE},occurred_at:bigint,max_occurred_at:bigint>"
)


def reference_fold(
    rows: list[tuple[Any, ...]], order_by_source_time: bool, as_of: int
) -> State | None:
    """``fold`` for Spark: each row is a ``Change`` whose position is a row too."""
    changes = [
        Change(operation, occurred_at, kafka_timestamp, Position(*position), expires_at)
        for operation, occurred_at, kafka_timestamp, position, expires_at in rows
    ]
    return fold(changes, order_by_source_time=order_by_source_time, as_of=as_of)
