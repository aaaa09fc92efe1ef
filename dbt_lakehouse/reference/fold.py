"""The semantics of current state as a plain fold, with which every gold table is compared.

It follows the definition word for word and shares nothing with the SQL that builds gold. ``dbt
test`` calls it as the SQL function ``reference_fold``; the scenario tests call ``fold`` directly.

    for each key, its events in log order:
        truncate of the source table that its state came from, or of the log's only one:
        row = none; state.max = event.occurred_at; state.position = event.position
        late = event.occurred_at < state.max, both known, and the table is ordered by source time
        if not late: apply it; state.position, state.occurred_at = the event's own; state.max =
        max(both); a column that the event leaves as it was keeps what the row had
    at the end of a run: a row with expires_at <= as_of is absent, but its state stays

A log can have several source tables. A state comes from the source table of the event that was
applied last, so another table's truncate does not change it.

``fold_partial`` is for partial rows: each event's row rests on the row that the one before it
left.

    for each key, its events in the order of its history: the log's, or by (time, log order), where
    the time of one without a time is the newest known time before it in the log:
        delete, truncate of the source table of the key's event before it in the log: row = none
        else: a column that the event leaves as it was keeps what the row had, if there was a row
        that had not expired by then; else it is null
    the state is that after the last event; state.max = the newest known time since the last such
    truncate, that one's own counts
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

# A source time further ahead of Kafka's timestamp than this comes from a wrong clock and counts as
# unknown.
DAY_IN_MICROSECONDS = 24 * 60 * 60 * 1_000_000


class Position(NamedTuple):
    """Log order: ``log_time`` (microseconds), then the rest. A missing log time comes first. If
    the source orders the log, the source's place comes before all that; an event without one is
    first.
    """

    log_time: int | None
    topic: str
    partition: int
    offset: int
    event_index: int
    source: str | None = None


class Change(NamedTuple):
    """One event of a key, or a truncate; times in UTC microseconds since the epoch.

    ``values`` are the row's columns as text, in some fixed order; ``unchanged`` are the indexes
    of those that the event leaves unchanged. ``source`` is its source table; None where the log
    has only one.
    """

    operation: str
    occurred_at: int | None
    kafka_timestamp: int | None
    position: Position
    expires_at: int | None
    values: Sequence[str | None] = ()
    unchanged: Sequence[int] = ()
    source: str | None = None


class State(NamedTuple):
    """The final state of a key: whether it has a row, the event that decided it, the row, and the
    source table of that event.
    """

    is_live: bool
    position: Position
    occurred_at: int | None
    max_occurred_at: int | None
    values: Sequence[str | None] = ()
    expires_at: int | None = None
    source: str | None = None


def known_time(change: Change) -> int | None:
    """The change's time, unless it is unknown or impossible."""
    if change.occurred_at is None or change.kafka_timestamp is None:
        return change.occurred_at
    ahead = change.occurred_at - change.kafka_timestamp
    return None if ahead > DAY_IN_MICROSECONDS else change.occurred_at


class Order(NamedTuple):
    """The sort key of a change in the log."""

    has_source: bool
    source: bytes
    has_log_time: bool
    log_time: int
    topic: str
    partition: int
    offset: int
    event_index: int


def log_order(change: Change) -> Order:
    """The sort key of a change in the log."""
    log_time, topic, partition, offset, event_index, source = change.position
    return Order(
        source is not None,
        (source or "").encode(),
        log_time is not None,
        log_time or 0,
        topic,
        partition,
        offset,
        event_index,
    )


def fold(changes: Iterable[Change], *, order_by_source_time: bool, as_of: int) -> State | None:
    """The state of one key after all its changes, or None without changes."""
    state: State | None = None
    for _, after in states_along(changes, order_by_source_time=order_by_source_time):
        state = after
    return _expired(state, as_of)


def states_along(
    changes: Iterable[Change], *, order_by_source_time: bool
) -> Iterator[tuple[Change, State | None]]:
    """The changes in log order, each with the state after it: the previous state, if it is
    rejected.
    """
    state: State | None = None
    for change in sorted(changes, key=log_order):
        time = known_time(change)
        newest = state.max_occurred_at if state else None
        if change.operation == "truncate":
            if change.source is None or (state and state.source == change.source):
                state = State(
                    is_live=False,
                    position=change.position,
                    occurred_at=time,
                    max_occurred_at=time,
                    source=change.source,
                )
        elif not (order_by_source_time and is_before(time, newest)):
            values = list(change.values)
            for place in change.unchanged:
                if state and state.is_live:
                    values[place] = state.values[place]
            state = State(
                is_live=change.operation != "delete",
                position=change.position,
                occurred_at=time,
                max_occurred_at=newest_of(time, newest),
                values=values,
                expires_at=change.expires_at,
                source=change.source,
            )
        yield change, state


def _expired(state: State | None, as_of: int) -> State | None:
    if state and state.expires_at is not None and state.expires_at <= as_of:
        return state._replace(is_live=False)
    return state


def fold_partial(
    changes: Iterable[Change], *, order_by_source_time: bool, as_of: int
) -> State | None:
    """``fold`` for events that leave columns unchanged: the last row of the history."""
    order = history_order(own_changes(changes), by_source_time=order_by_source_time)
    if not order:
        return None
    last, row = order[-1], rows_along(order)[-1]
    newest: int | None = None
    for change in sorted(order, key=log_order):
        time = known_time(change)
        newest = time if change.operation == "truncate" else newest_of(newest, time)
    state = State(
        is_live=row is not None,
        position=last.position,
        occurred_at=known_time(last),
        max_occurred_at=newest,
        values=row or (),
        expires_at=None if row is None else last.expires_at,
        source=last.source,
    )
    return _expired(state, as_of)


def own_changes(changes: Iterable[Change]) -> list[Change]:
    """A key's events in log order, without the truncates that don't change it: those of other
    source tables than that of the key's latest event before, if there is one.
    """
    own: list[Change] = []
    source: str | None = None
    for change in sorted(changes, key=log_order):
        if change.operation != "truncate":
            source = change.source
        elif change.source != source:
            continue
        own.append(change)
    return own


def history_order(changes: Iterable[Change], *, by_source_time: bool) -> list[Change]:
    """A key's events in the order of its history.

    By source time, a truncate starts afresh: events before it in the log stay before it, and events
    behind it that are older by their time are left out.
    """
    log = sorted(changes, key=log_order)
    if not by_source_time:
        return log
    order: list[Change] = []
    since_truncate: list[tuple[int | None, Change]] = []
    newest: int | None = None
    truncated_at: int | None = None
    for change in log:
        time = known_time(change)
        if change.operation == "truncate":
            order += _by_time(since_truncate)
            since_truncate = []
            newest = truncated_at = time
        elif is_before(time, truncated_at):
            continue
        newest = newest_of(newest, time)
        since_truncate.append((newest if time is None else time, change))
    return order + _by_time(since_truncate)


def _by_time(timed: list[tuple[int | None, Change]]) -> list[Change]:
    # They are in log order, and a stable sort keeps that among equals.
    timed.sort(key=lambda each: (each[0] is not None, each[0] or 0))
    return [change for _, change in timed]


def rows_along(order: Sequence[Change]) -> list[tuple[str | None, ...] | None]:
    """The row after each event, None without one."""
    rows: list[tuple[str | None, ...] | None] = []
    row: tuple[str | None, ...] | None = None
    expires_at: int | None = None
    for change in order:
        time = known_time(change)
        now = change.position.log_time if time is None else time
        if expires_at is not None and now is not None and expires_at <= now:
            row = None
        if change.operation in ("delete", "truncate"):
            row, expires_at = None, None
        else:
            values = list(change.values)
            if row is not None:
                # Otherwise they are what the event has there: the text of a null.
                for place in change.unchanged:
                    values[place] = row[place]
            row = tuple(values)
            expires_at = change.expires_at
        rows.append(row)
    return rows


def newest_of(*times: int | None) -> int | None:
    """The newest of the known times."""
    return max((time for time in times if time is not None), default=None)


def is_before(time: int | None, other: int | None) -> bool:
    """Whether both times are known, and the first is the earlier."""
    return time is not None and other is not None and time < other


# The SQL function's types: the changes of one key in any order, and their result.
POSITION_TYPE = (
    "struct<log_time:bigint,topic:string,partition:int,offset:bigint,event_index:int,source:string>"
)
STATE_TYPE = (
    f"struct<is_live:boolean,position:{POSITION_TYPE},occurred_at:bigint,max_occurred_at:bigint,"
    "values:array<string>,expires_at:bigint,source:string>"
)


def reference_fold(
    rows: list[tuple[Any, ...]], order_by_source_time: bool, as_of: int, partial: bool = False
) -> State | None:
    """Both folds for Spark: each row is a ``Change`` whose position is a row too."""
    changes = [Change(*row)._replace(position=Position(*row[3])) for row in rows]
    folded = fold_partial if partial else fold
    return folded(changes, order_by_source_time=order_by_source_time, as_of=as_of)
