"""The reference fold by hand: each rule of current state as a small log with an obvious result."""

from typing import Any

import pytest

from dbt_lakehouse.reference.fold import (
    DAY_IN_MICROSECONDS,
    Change,
    Position,
    State,
    fold,
    known_time,
    reference_fold,
)

FOREVER = 10**15


def change(
    place: int,
    time: int | None,
    operation: str = "upsert",
    *,
    expires_at: int | None = None,
    kafka: int | None = 0,
    **position: Any,
) -> Change:
    """An event at ``place`` in the log (its log time) that the source dates ``time``."""
    where = Position(place, "t", 0, place, 0)._replace(**position)
    return Change(operation, time, kafka, where, expires_at)


def folded(*changes: Change, as_of: int = FOREVER, by_time: bool = True) -> State:
    """The state after the changes, the same in whatever order they are handed over."""
    state = fold(changes, order_by_source_time=by_time, as_of=as_of)
    assert state == fold(reversed(changes), order_by_source_time=by_time, as_of=as_of)
    assert state is not None
    return state


def row(state: State) -> tuple[bool, int | None, int | None, int | None]:
    """Whether there is a row, the place of its event, that event's time, the newest time."""
    return state.is_live, state.position.log_time, state.occurred_at, state.max_occurred_at


def test_no_events_no_state() -> None:
    assert fold([], order_by_source_time=True, as_of=0) is None


@pytest.mark.parametrize("operation", ["snapshot", "insert", "update", "upsert"])
def test_any_write_makes_a_row(operation: str) -> None:
    assert row(folded(change(1, 10, operation))) == (True, 1, 10, 10)


def test_the_later_write_replaces_the_earlier() -> None:
    assert row(folded(change(1, 10), change(2, 20))) == (True, 2, 20, 20)


def test_delete_and_reinsert() -> None:
    write, delete = change(1, 10), change(2, 20, "delete")
    assert row(folded(write, delete)) == (False, 2, 20, 20)
    assert row(folded(write, delete, change(3, 30))) == (True, 3, 30, 30)


def test_late_write_is_rejected() -> None:
    assert row(folded(change(1, 20), change(2, 10))) == (True, 1, 20, 20)


def test_late_write_does_not_bring_a_deleted_row_back() -> None:
    log = change(1, 10), change(2, 20, "delete"), change(3, 15)
    assert row(folded(*log)) == (False, 2, 20, 20)


def test_delete_before_the_first_write() -> None:
    assert row(folded(change(1, 20, "delete"), change(2, 10))) == (False, 1, 20, 20)


def test_late_delete_is_rejected() -> None:
    assert row(folded(change(1, 20), change(2, 10, "delete"))) == (True, 1, 20, 20)


def test_tie_is_not_late() -> None:
    assert row(folded(change(1, 10), change(2, 10))) == (True, 2, 10, 10)
    assert row(folded(change(1, 10), change(2, 10, "delete"))) == (False, 2, 10, 10)


def test_without_source_time_order_only_the_log_counts() -> None:
    assert row(folded(change(1, 20), change(2, 10), by_time=False)) == (True, 2, 10, 20)
    log = change(1, 20), change(2, 10, "delete")
    assert row(folded(*log, by_time=False)) == (False, 2, 10, 20)


def test_unknown_time_applies_and_leaves_the_newest_time() -> None:
    assert row(folded(change(1, 20), change(2, None))) == (True, 2, None, 20)
    # So what is older than that is still late,
    assert row(folded(change(1, 20), change(2, None), change(3, 10))) == (True, 2, None, 20)
    # and what comes after nothing but unknown times is not.
    assert row(folded(change(1, None), change(2, 10))) == (True, 2, 10, 10)
    assert row(folded(change(1, None))) == (True, 1, None, None)


def test_rejected_event_leaves_no_trace() -> None:
    log = change(1, 20), change(2, 10, expires_at=5), change(3, 15)
    assert row(folded(*log)) == (True, 1, 20, 20)


def test_duplicate_moves_the_position_only() -> None:
    assert row(folded(change(1, 10), change(5, 10))) == (True, 5, 10, 10)
    # A duplicate of what has been replaced since is late.
    assert row(folded(change(1, 10), change(2, 20), change(5, 10))) == (True, 2, 20, 20)


def test_a_clock_more_than_a_day_ahead_is_unknown() -> None:
    kafka = 1_000
    ahead = kafka + DAY_IN_MICROSECONDS
    assert known_time(change(1, ahead, kafka=kafka)) == ahead
    assert known_time(change(1, ahead + 1, kafka=kafka)) is None
    assert known_time(change(1, ahead + 1, kafka=None)) == ahead + 1
    assert known_time(change(1, None, kafka=kafka)) is None
    # A wrong clock does not freeze its key.
    log = change(1, ahead + 1, kafka=kafka), change(2, 2_000, kafka=kafka)
    assert row(folded(*log)) == (True, 2, 2_000, 2_000)


def test_expiry() -> None:
    write = change(1, 10, expires_at=100)
    assert folded(write, as_of=99).is_live
    assert not folded(write, as_of=100).is_live
    # Its state stays: an older write can't bring the row back, a newer one does.
    assert row(folded(write, change(2, 5), as_of=100)) == (False, 1, 10, 10)
    assert row(folded(write, change(2, 11), as_of=100)) == (True, 2, 11, 11)
    # The last write's expiry counts, be it earlier or none.
    assert not folded(write, change(2, 11, expires_at=50), as_of=60).is_live
    assert folded(write, change(2, 11, expires_at=None), as_of=10**6).is_live


def test_a_delete_with_an_expiry_is_a_delete() -> None:
    assert not folded(change(1, 10, "delete", expires_at=100), as_of=0).is_live


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"log_time": None}, {"log_time": 0}),
        ({"log_time": 1, "topic": "z"}, {"log_time": 2, "topic": "a"}),
        ({"topic": "a", "partition": 9}, {"topic": "b", "partition": 0}),
        ({"partition": 2, "offset": 9}, {"partition": 10, "offset": 0}),
        ({"offset": 2, "event_index": 9}, {"offset": 10, "event_index": 0}),
        ({"event_index": 2}, {"event_index": 10}),
    ],
)
def test_log_order(first: dict[str, Any], second: dict[str, Any]) -> None:
    log = change(5, None, **first), change(5, None, **second)
    assert folded(*log).position == log[1].position


def of(source: str, each: Change) -> Change:
    """The event as one of that source table."""
    return each._replace(source=source)


def truncate(place: int, source: str | None = None, time: int | None = None) -> Change:
    return change(place, time, "truncate")._replace(source=source)


def test_a_truncate_empties_the_table() -> None:
    assert row(folded(change(1, 10), truncate(2, time=20))) == (False, 2, 20, 20)
    assert row(folded(change(1, 10), truncate(2), change(3, 5))) == (True, 3, 5, 5)


def test_a_truncate_takes_only_what_came_from_its_table() -> None:
    a, b = of("a", change(1, 10)), of("b", change(2, 20))
    assert row(folded(a, truncate(3, "b"))) == (True, 1, 10, 10)
    assert row(folded(a, truncate(3, "a", 30))) == (False, 3, 30, 30)
    # A row came from the event that was applied last.
    assert folded(a, b).source == "b"
    assert row(folded(a, b, truncate(3, "a"), by_time=False)) == (True, 2, 20, 20)
    assert row(folded(a, b, truncate(3, "b", 30), by_time=False)) == (False, 3, 30, 30)
    # A late one leaves it where it came from.
    late = of("b", change(2, 5))
    assert row(folded(a, late, truncate(3, "b"))) == (True, 1, 10, 10)
    assert not folded(a, late, truncate(3, "a")).is_live
    # What was deleted stays so; a truncate of another table is no news of it.
    deleted = of("b", change(3, 30, "delete"))
    assert row(folded(a, deleted, truncate(4, "a", 40))) == (False, 3, 30, 30)


@pytest.mark.parametrize("partial", [False, True])
def test_a_truncate_before_all_of_a_keys_events_is_of_another_row(partial: bool) -> None:
    """In a log of several tables, none of which the key is known to be from."""
    log = [truncate(0, "a", 40), truncate(0, "b", 50), of("a", change(1, 10))]
    rows = [(*each[:3], tuple(each.position), *each[4:]) for each in log]
    state = reference_fold(rows, False, 0, partial)
    assert state is not None and row(state) == (True, 1, 10, 10)


def test_what_is_kept_of_a_row_is_what_its_tables_truncates_have_left() -> None:
    first = of("a", change(1, 10)._replace(values=["old", "old"]))
    then = of("a", change(3, 30)._replace(values=["new", None], unchanged=[1]))
    assert folded(first, truncate(2, "b"), then).values == ["new", "old"]
    assert folded(first, truncate(2, "a"), then).values == ["new", None]


def test_the_sql_function_is_the_fold() -> None:
    truncated = truncate(4, "b", 30)
    log = [change(1, 20), change(2, 10, "delete"), change(3, 20, expires_at=7), truncated]
    rows = [(*each[:3], tuple(each.position), *each[4:]) for each in log]
    assert reference_fold(rows, True, 6) == fold(log, order_by_source_time=True, as_of=6)
    assert reference_fold(rows, True, 7) == fold(log, order_by_source_time=True, as_of=7)
