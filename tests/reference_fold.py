"""The semantics of current state as a plain fold: what every gold table is held against.

It follows the definition word for word and shares nothing with the SQL that builds gold. As the SQL
function ``reference_fold`` it serves ``dbt test``; the scenario tests call ``fold`` themselves.

    for each key, its events in log order:
        truncate: row = none; state.max = event.occurred_at; state.position = event.position
        late = event.occurred_at < state.max, both known, and the table is ordered by source time
        if not late: apply it; state.position, state.occurred_at = the event's own; state.max =
        max(both); a column that the event leaves as it was keeps what the row had
    at the end of a run: a row with expires_at <= as_of is absent, but its state stays
"""

from collections.abc import Iterable, Sequence
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
    """One event of a key, or a truncate; times in UTC microseconds since the epoch.

    ``values`` are the row's columns as text, in some fixed order; ``unchanged`` are the places of
    those that the event leaves as they were.
    """

    operation: str
    occurred_at: int | None
    kafka_timestamp: int | None
    position: Position
    expires_at: int | None
    values: Sequence[str | None] = ()
    unchanged: Sequence[int] = ()


class State(NamedTuple):
    """What is left of a key: whether it has a row, the event that made it so, and the row."""

    is_live: bool
    position: Position
    occurred_at: int | None
    max_occurred_at: int | None
    values: Sequence[str | None] = ()


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
        if change.operation == "truncate":
            state = State(
                is_live=False, position=change.position, occurred_at=time, max_occurred_at=time
            )
            continue
        newest = state.max_occurred_at if state else None
        if order_by_source_time and time is not None and newest is not None and time < newest:
            continue
        times = [known for known in (time, newest) if known is not None]
        values = list(change.values)
        for place in change.unchanged:
            if state and state.is_live:
                values[place] = state.values[place]
        state = State(
            is_live=change.operation != "delete",
            position=change.position,
            occurred_at=time,
            max_occurred_at=max(times, default=None),
            values=values,
        )
        expires_at = change.expires_at
    if state and expires_at is not None and expires_at <= as_of:
        state = state._replace(is_live=False)
    return state


# The SQL function's types: the changes of one key in any order, and what became of them.
POSITION_TYPE = "struct<log_time:bigint,topic:string,partition:int,offset:bigint,event_index:int>"
STATE_TYPE = (
    f"struct<is_live:boolean,position:{POSITION_TYPE},occurred_at:bigint,max_occurred_at:bigint,"
    "values:array<string>>"
)


def reference_fold(
    rows: list[tuple[Any, ...]], order_by_source_time: bool, as_of: int
) -> State | None:
    """``fold`` for Spark: each row is a ``Change`` whose position is a row too."""
    changes = [Change(*row)._replace(position=Position(*row[3])) for row in rows]
    return fold(changes, order_by_source_time=order_by_source_time, as_of=as_of)
