"""What `make soak` expects of what runs remember and count: silver.deleted_keys, fold_counters.

A reference can't say all of it: what is counted as late or expired depends on how much of a key a
run has looked at. Then it says at least and at most.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from dbt_lakehouse.reference.fold import (
    Change,
    Position,
    State,
    fold,
    fold_partial,
    is_before,
    known_time,
    log_order,
    newest_of,
)
from support.expected_gold import Row, micros_of
from support.row_events import Event, Source, changes_by_key, key_value, micros, placed
from support.row_lake import moment

# What a table has read, and as of when.
Read = tuple[Sequence[Event], datetime]
Place = tuple[str, int, int]


# --- deleted keys ---------------------------------------------------------------------------------


def wrong_tombstones(
    sources: Iterable[Source],
    read: Mapping[str, Sequence[Event]],
    moments: Mapping[str, datetime],
    deletes: Sequence[Event],
    rows: Iterable[Row],
) -> Iterable[str]:
    """In what `silver.deleted_keys` does not say of absent keys what the references say, where
    nothing is purged of it. ``deletes`` are the events that it has read itself.
    """
    held = {(row["scope"], row["record_key"]): row for row in rows}
    for source in sources:
        if source.is_aerospike:
            yield from _wrong_deletes_without_set(source, deletes, held)
        if source.has_key:
            yield from _wrong_states(source, read[source.table], moments[source.table], held)


def _wrong_deletes_without_set(
    source: Source, events: Sequence[Event], held: Mapping[tuple[str, str], Row]
) -> Iterable[str]:
    by_key: dict[int, list[tuple[int | None, Position]]] = {}
    for event, position in placed(events):
        if event.source == source and event.is_change and not event.has_set:
            assert event.key is not None
            time = _known_time(event, position)
            by_key.setdefault(event.key, []).append((time, position))
    for key, deletes in by_key.items():
        timed = [each for each in deletes if each[0] is not None]
        untimed = [place for time, place in deletes if time is None]
        newest = max(timed, key=lambda each: (each[0] or 0, _order(each[1])), default=None)
        null = max(untimed, key=_order, default=None)
        wanted = (newest[0], newest[1], null) if newest else (None, null, null)
        yield from _differs(f"aerospike:{source.schema}", _text(source, key), wanted, held)


def _wrong_states(
    source: Source,
    events: Sequence[Event],
    as_of: datetime,
    held: Mapping[tuple[str, str], Row],
) -> Iterable[str]:
    scope = f"gold.{source.table}"
    for key, changes in changes_by_key(source, events).items():
        state = _state(source, changes, as_of)
        # What a truncate takes away is remembered by itself.
        if state.is_live or any(each.operation == "truncate" for each in changes):
            continue
        text = _text(source, key)
        own = held.get((scope, text))
        others = held.get((f"aerospike:{source.schema}", text)) if source.is_aerospike else None
        if others is None:
            wanted = state.max_occurred_at, state.position, None
            yield from _differs(scope, text, wanted, held, but_null=True)
            continue
        # A delete without a set is remembered for all tables of its namespace.
        times = [row["max_occurred_at"] for row in (own, others) if row and row["max_occurred_at"]]
        if max(times, default=None) != moment(state.max_occurred_at):
            told = f"{own} and {others}, not {moment(state.max_occurred_at)}"
            yield f"silver.deleted_keys has of {scope} {text} {told}"


def _differs(
    scope: str,
    key: str,
    wanted: tuple[int | None, Position | None, Position | None],
    held: Mapping[tuple[str, str], Row],
    *,
    but_null: bool = False,
) -> Iterable[str]:
    row = held.get((scope, key))
    if row is None:
        yield f"silver.deleted_keys has nothing of {scope} {key}, {wanted} expected"
        return
    time, position, null = wanted
    expected = moment(time), _struct(position), _struct(null)
    found = row["max_occurred_at"], row["position"], row["null_position"]
    # Of a table, it depends on what was folded together.
    count = 2 if but_null else 3
    if found[:count] != expected[:count]:
        yield f"silver.deleted_keys has of {scope} {key} {found}, {expected} expected"


def _struct(position: Position | None) -> Row | None:
    if position is None:
        return None
    fields = {**position._asdict(), "log_time": moment(position.log_time)}
    del fields["source"]
    return fields


def _text(source: Source, key: int) -> str:
    column = "digest" if source.is_aerospike else "id"
    return json.dumps({column: key_value(source, key)}, separators=(",", ":"))


# --- counters -------------------------------------------------------------------------------------


def wrong_counters(
    source: Source, before: Read, now: Read, rows: Sequence[Row], *, forgets: bool
) -> Iterable[str]:
    """In what the counters of a table's plain run are not what they should be. ``forgets`` says
    whether states are purged, so that keys may be looked up in their log for it.
    """
    wanted = _expected_counters(source, before, now, forgets=forgets)
    must_be = wanted["new_events"][0] > 0 or wanted["expired_keys"][0] > 0
    if len(rows) != 1:
        if len(rows) > 1 or must_be:
            yield f"silver.fold_counters has {len(rows)} rows of gold.{source.table}, not 1"
        return
    (row,) = rows
    for name, (least, most) in wanted.items():
        if row[name] is None or not least <= row[name] <= most:
            told = f"{row[name]}, not {f'{least} to {most}' if least < most else least}"
            yield f"silver.fold_counters: {name} of gold.{source.table} is {told}"


def _expected_counters(
    source: Source, before: Read, now: Read, *, forgets: bool
) -> dict[str, tuple[int, int]]:
    """At least and at most, by the counter's name."""
    (events_before, as_of_before), (events, as_of) = before, now
    seen = {(*_place(each), 0) for each in events_before}
    changes, changes_before = changes_by_key(source, events), changes_by_key(source, events_before)
    # A tombstone that was read before stands for a delete once an earlier change has landed.
    seen |= {_event(each) for own in changes_before.values() for each in own}
    new = {key: [each for each in own if _event(each) not in seen] for key, own in changes.items()}
    earlier = {key: _state(source, own, as_of_before) for key, own in changes_before.items()}
    sent = {_place(each): each for each in events if each.source == source}
    if source.is_aerospike:
        states = {key: _state(source, own, as_of) for key, own in changes.items()}
        return _of_namespace(source, changes, new, earlier, states, sent, as_of)
    count = sum(map(len, new.values()))
    if source.is_ordered:
        # Rows that say no place have others' keys looked up.
        return {"new_events": (0, count), "expired_keys": (0, 0)}
    if any(each.operation == "truncate" for each in sent.values()):
        # What comes before one no longer matters.
        return {"new_events": (0, count), "expired_keys": (0, 0)}
    touched = [key for key, own in new.items() if own]
    # An update that replaces its key is a change of both, and its time counts once.
    ahead = sum(
        _is_ahead(each) and sent[_place(each.position)].previous_key != key
        for key in touched
        for each in new[key]
    )
    counters = {
        "new_events": (count, count),
        "touched_keys": (len(touched), len(touched)),
        "clock_ahead_events": (ahead, ahead),
        "late_events": (
            sum(sum(_late(source, changes[key], new[key])) for key in touched),
            sum(sum(_late(source, changes[key], changes[key])) for key in touched),
        ),
        "expired_keys": (0, 0),
    }
    if not forgets:
        misplaced = sum(
            key in earlier and min(map(log_order, new[key])) <= _order(earlier[key].position)
            for key in touched
        )
        # Of partial rows, an earlier time alone is reason enough.
        is_exact = not (source.partial and source.order_by_source_time)
        counters["refolded_keys"] = misplaced, misplaced if is_exact else len(touched)
    return counters


def _of_namespace(
    source: Source,
    changes: Mapping[int, Sequence[Change]],
    new: Mapping[int, Sequence[Change]],
    earlier: Mapping[int, State],
    states: Mapping[int, State],
    sent: Mapping[Place, Event],
    as_of: datetime,
) -> dict[str, tuple[int, int]]:
    """Deletes without a set are in no table's log, and may hit keys without news of their own."""
    own = {
        key: [each for each in news if sent[_place(each.position)].has_set]
        for key, news in new.items()
    }
    count, keys = sum(map(len, own.values())), sum(map(bool, own.values()))
    live = {key for key, state in earlier.items() if state.is_live}
    expired = {key for key, state in states.items() if _has_expired(state, as_of)}
    fresh = {key for key, news in new.items() if news}
    return {
        "new_events": (count, count),
        "touched_keys": (keys, len(changes)),
        "late_events": (
            sum(sum(_late(source, changes[key], own[key])) for key in changes),
            sum(sum(_late(source, changes[key], changes[key])) for key in changes),
        ),
        "expired_keys": (len(expired & live), len(expired & (live | fresh))),
    }


def _late(source: Source, changes: Sequence[Change], counted: Sequence[Change]) -> Iterable[bool]:
    """Of the counted ones of a key's changes, whether they come after a newer one in the log."""
    if not source.order_by_source_time:
        return
    places = {_place(each.position) for each in counted}
    newest: int | None = None
    for change in sorted(changes, key=log_order):
        time = known_time(change)
        if _place(change.position) in places:
            yield is_before(time, newest)
        newest = newest_of(newest, time)


def _state(source: Source, changes: Sequence[Change], as_of: datetime) -> State:
    state = (fold_partial if source.partial else fold)(
        changes, order_by_source_time=source.order_by_source_time, as_of=micros_of(as_of)
    )
    assert state is not None
    return state


def _has_expired(state: State, as_of: datetime) -> bool:
    return state.expires_at is not None and state.expires_at <= micros_of(as_of)


def _is_ahead(change: Change) -> bool:
    return change.occurred_at is not None and known_time(change) is None


def _known_time(event: Event, position: Position) -> int | None:
    return known_time(
        Change(event.operation, micros(event.time_ms), micros(event.sent_ms), position, None)
    )


def _event(change: Change) -> tuple[str, int, int, int]:
    """The coordinates of a change's event."""
    return (*_place(change.position), change.position.event_index)


def _order(position: Position) -> tuple[Any, ...]:
    return log_order(Change("", None, None, position, None))


def _place(of: Position | Event) -> Place:
    topic = of.topic if isinstance(of, Position) else of.source.topic
    return topic, of.partition, of.offset
