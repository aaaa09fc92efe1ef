"""The references of histories, partial rows and keyless tables by hand: small logs with obvious
results. Those of the tests through dbt (test_history and others) are examples too.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dbt_lakehouse.reference.fold import Change, Position, State, fold, fold_partial, reference_fold
from dbt_lakehouse.reference.history import (
    Copies,
    RowChange,
    SourceRow,
    Version,
    history,
    multiset,
    reference_history,
)

FOREVER = 10**15


def at(place: int | None, offset: int | None = None) -> Position:
    """A position by its log time."""
    return Position(place, "t", 0, place or 0 if offset is None else offset, 0)


def change(place: int, time: int | None, *values: str | None, **details: Any) -> Change:
    """A write at ``place`` in the log that the source dates ``time``; "-": as it was."""
    unchanged = [place for place, value in enumerate(values) if value == "-"]
    texts = [None if value == "-" else value for value in values]
    return Change("upsert", time, 0, at(place), None, texts, unchanged)._replace(**details)


def delete(place: int, time: int | None) -> Change:
    """A delete."""
    return Change("delete", time, 0, at(place), None)


def truncate(place: int, time: int | None) -> Change:
    """A truncate."""
    return Change("truncate", time, 0, at(place), None)


# --- partial rows ---------------------------------------------------------------------------------


def folded(*changes: Change, by_time: bool = True, as_of: int = FOREVER) -> State:
    """The state after the changes, the same in whatever order they are handed over."""
    state = fold_partial(changes, order_by_source_time=by_time, as_of=as_of)
    again = fold_partial(reversed(changes), order_by_source_time=by_time, as_of=as_of)
    assert state == again
    assert state is not None
    return state


def summary(state: State) -> tuple[bool, list[str | None], int | None, int | None, int | None]:
    """Whether there is a row, its values, its place, and the times of its event and of all."""
    values = list(state.values)
    return (
        state.is_live,
        values,
        state.position.log_time,
        state.occurred_at,
        state.max_occurred_at,
    )


def test_no_events_no_state() -> None:
    assert fold_partial([], order_by_source_time=True, as_of=0) is None


def test_late_events_on_different_columns_both_count() -> None:
    log = change(1, 30, "a", "-", "-"), change(2, 20, "-", "b", "-"), change(3, 10, "-", "-", "c")
    assert summary(folded(*log)) == (True, ["a", "b", "c"], 1, 30, 30)


def test_each_column_ends_with_its_own_newest_value() -> None:
    log = change(1, 30, "a", "-"), change(2, 20, "x", "b"), change(3, 10, "y", "z")
    assert summary(folded(*log)) == (True, ["a", "b"], 1, 30, 30)


def test_null_is_a_value() -> None:
    log = change(1, 10, "a", "b"), change(2, 20, None, "-")
    assert summary(folded(*log)) == (True, [None, "b"], 2, 20, 20)


def test_behind_a_delete_nothing_is_kept() -> None:
    log = change(1, 10, "a", "b"), delete(2, 20), change(3, 30, "c", "-")
    assert summary(folded(*log)) == (True, ["c", None], 3, 30, 30)
    assert summary(folded(*log[:2])) == (False, [], 2, 20, 20)


def test_a_late_delete_takes_what_is_older() -> None:
    log = change(1, 10, "a", "b"), change(2, 30, "c", "-"), delete(3, 20)
    assert summary(folded(*log)) == (True, ["c", None], 2, 30, 30)


def test_an_event_without_a_time_comes_with_the_newest_before_it() -> None:
    log = change(1, 30, "a", "-"), change(2, None, "x", "b"), change(3, 20, "-", "late")
    assert summary(folded(*log)) == (True, ["x", "b"], 2, None, 30)
    # The newest before it in the log, not of all; the first of all without any.
    log = change(1, None, "a", "b"), change(2, 20, "c", "-"), change(3, 10, "-", "d")
    assert summary(folded(*log)) == (True, ["c", "d"], 2, 20, 20)


def test_without_source_time_order_the_log_decides() -> None:
    log = change(1, 30, "a", "b"), change(2, 20, "c", "-"), delete(3, 10), change(4, 5, "-", "d")
    assert summary(folded(*log[:2], by_time=False)) == (True, ["c", "b"], 2, 20, 30)
    assert summary(folded(*log, by_time=False)) == (True, [None, "d"], 4, 5, 30)


def test_a_truncate_starts_anew() -> None:
    log = change(1, 50, "a", "b"), truncate(2, 20), change(3, 30, "c", "-")
    assert summary(folded(*log)) == (True, ["c", None], 3, 30, 30)
    assert summary(folded(*log[:2])) == (False, [], 2, 20, 20)
    # What is older than the truncate is left out.
    assert summary(folded(*log[:2], change(3, 10, "d", "-"))) == (False, [], 2, 20, 20)


def test_a_truncate_of_another_table_leaves_what_there_is() -> None:
    log = change(1, 10, "a", "b", source="a"), truncate(2, 20)._replace(source="b")
    assert summary(folded(*log)) == (True, ["a", "b"], 1, 10, 10)
    later = change(3, 30, "c", "-", source="b")
    assert summary(folded(*log, later)) == (True, ["c", "b"], 3, 30, 30)
    assert folded(*log, later).source == "b"
    own = truncate(4, 40)._replace(source="b")
    assert summary(folded(*log, later, own)) == (False, [], 4, 40, 40)


def test_an_expired_row_leaves_nothing() -> None:
    first = change(1, 10, "a", "b", expires_at=50)
    assert summary(folded(first, change(2, 49, "c", "-"))) == (True, ["c", "b"], 2, 49, 49)
    assert summary(folded(first, change(2, 50, "c", "-"))) == (True, ["c", None], 2, 50, 50)
    # Without a time, the log time says when.
    assert summary(folded(first, change(50, None, "c", "-"))) == (True, ["c", None], 50, None, 10)
    assert summary(folded(first, change(49, None, "c", "-"))) == (True, ["c", "b"], 49, None, 10)
    # A write in between has ended the expiry.
    log = first, change(2, 60, "c", "-"), change(3, 20, "-", "d")
    assert summary(folded(*log)) == (True, ["c", "d"], 2, 60, 60)


def test_the_expiry_is_that_of_the_newest_event() -> None:
    lasting, late = change(1, 20, "a", "-"), change(2, 10, "-", "b", expires_at=50)
    assert summary(folded(lasting, late, as_of=100)) == (True, ["a", "b"], 1, 20, 20)
    expiring = change(1, 20, "a", "-", expires_at=50)
    assert folded(expiring, change(2, 10, "-", "b"), as_of=49).is_live
    assert not folded(expiring, change(2, 10, "-", "b"), as_of=50).is_live


def test_a_null_has_the_text_that_the_event_gives_it() -> None:
    # Spark's text of a column that is null is not null itself.
    log = [change(1, 10, "{}", "{}")._replace(unchanged=[1]), change(2, 20, "{}", "b")]
    assert summary(folded(log[0])) == (True, ["{}", "{}"], 1, 10, 10)
    assert summary(folded(*log)) == (True, ["{}", "b"], 2, 20, 20)


def test_the_sql_function_folds_partial_rows_too() -> None:
    log = [change(1, 30, "a", "-"), change(2, 20, "x", "b", expires_at=7)]
    rows = [(*each[:3], tuple(each.position), *each[4:]) for each in log]
    assert reference_fold(rows, True, 6, True) == folded(*log, as_of=6)


# Writes and deletes of a row of two columns: the values of a write, "-" for those it leaves.
partial_events = st.lists(
    st.one_of(st.none(), st.tuples(*[st.sampled_from([None, "a", "b", "-"])] * 2)), max_size=7
)


@given(partial_events, st.randoms(use_true_random=False))
@settings(max_examples=300, deadline=None)
def test_every_order_of_partial_events_gives_the_same_row(
    events: list[tuple[str | None, ...] | None], dice: Any
) -> None:
    """With known and distinct times; and it is what each column's newest event says."""
    newest: dict[int, str | None] = {}
    places = dice.sample(range(len(events)), len(events))
    log = []
    for time, (event, place) in enumerate(zip(events, places, strict=True)):
        if event is None:
            newest.clear()
            log.append(delete(place, time)._replace(values=[None, None]))
        else:
            newest |= {column: value for column, value in enumerate(event) if value != "-"}
            log.append(change(place, time, *event))
    state = fold_partial(log, order_by_source_time=True, as_of=FOREVER)
    if state is None:
        assert not events
        return
    assert state.is_live == (events[-1] is not None)
    if state.is_live:
        assert list(state.values) == [newest.get(0), newest.get(1)]


@given(
    st.lists(
        st.tuples(st.integers(0, 5) | st.none(), st.sampled_from(["write", "delete", "truncate"])),
        max_size=7,
    ),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_of_full_images_both_folds_give_the_same_row(
    events: list[tuple[int | None, str]], by_time: bool
) -> None:
    make = {"delete": delete, "truncate": truncate}
    log = [
        make[kind](place, time) if kind in make else change(place, time, str(place))
        for place, (time, kind) in enumerate(events)
    ]
    partial = fold_partial(log, order_by_source_time=by_time, as_of=0)
    full = fold(log, order_by_source_time=by_time, as_of=0)
    if full is None or partial is None:
        assert full is partial
        return
    assert full._replace(values=()) == partial._replace(values=())
    assert not full.is_live or list(full.values) == list(partial.values)


# --- histories ------------------------------------------------------------------------------------


def versions(
    *changes: Change, by_time: bool = True, as_of: int = FOREVER, tracked: list[int] | None = None
) -> list[tuple[int | None, int | None, int | None, list[str | None]]]:
    """From, to, the place of the last event and the values of each version."""
    found = history(changes, order_by_source_time=by_time, as_of=as_of, tracked=tracked)
    again = history(reversed(changes), order_by_source_time=by_time, as_of=as_of, tracked=tracked)
    assert found == again
    assert all(each.is_current == (each.valid_to is None) for each in found)
    return [
        (each.valid_from, each.valid_to, each.position.log_time, list(each.values))
        for each in found
    ]


def test_no_events_no_versions() -> None:
    assert versions() == []
    assert versions(delete(1, 10)) == []


def test_a_version_says_its_last_event() -> None:
    (version,) = history(
        [change(1, 10, "a", expires_at=99)], order_by_source_time=True, as_of=98, tracked=None
    )
    assert version == Version(10, None, at(1), 10, 99, ("a",))


def test_a_late_event_splits_a_version() -> None:
    log = change(1, 10, "a"), change(2, 30, "c"), change(3, 20, "b")
    assert versions(*log) == [(10, 20, 1, ["a"]), (20, 30, 3, ["b"]), (30, None, 2, ["c"])]
    # In the order of the log it only takes the place of the one it follows.
    assert versions(*log, by_time=False) == [(10, 30, 1, ["a"]), (30, None, 3, ["b"])]


def test_absence_lies_between_a_delete_and_a_write() -> None:
    log = change(1, 10, "a"), delete(2, 20), change(3, 30, "b"), delete(4, 40)
    assert versions(*log) == [(10, 20, 1, ["a"]), (30, 40, 3, ["b"])]


def test_states_of_no_length_are_no_versions() -> None:
    assert versions(change(1, 10, "a"), change(2, 10, "b")) == [(10, None, 2, ["b"])]
    assert versions(change(1, 10, "a"), delete(2, 10)) == []
    log = change(1, 10, "a"), change(2, 20, "b"), delete(3, 20), change(4, 20, "d")
    assert versions(*log) == [(10, 20, 1, ["a"]), (20, None, 4, ["d"])]


def test_unchanged_columns_keep_what_the_life_had() -> None:
    log = change(1, 10, "a", "x"), change(2, 20, "b", "-"), delete(3, 30), change(4, 40, "-", "y")
    assert versions(*log) == [
        (10, 20, 1, ["a", "x"]),
        (20, 30, 2, ["b", "x"]),
        (40, None, 4, [None, "y"]),
    ]
    # By the order of the history, not of the log.
    late = change(1, 10, "a", "x"), change(2, 30, "c", "-"), change(3, 20, "-", "z")
    assert versions(*late) == [
        (10, 20, 1, ["a", "x"]),
        (20, 30, 3, ["a", "z"]),
        (30, None, 2, ["c", "z"]),
    ]


def test_unchanged_columns_keep_nothing_of_an_expired_row() -> None:
    log = change(1, 10, "a", "x", expires_at=20), change(2, 30, "b", "-")
    assert versions(*log) == [(10, 20, 1, ["a", "x"]), (30, None, 2, ["b", None])]


def test_a_state_without_length_passes_its_values_on() -> None:
    log = change(1, 10, "a", "x"), change(2, 20, "b", "y"), change(3, 20, "c", "-")
    assert versions(*log) == [(10, 20, 1, ["a", "x"]), (20, None, 3, ["c", "y"])]
    log = change(1, 10, "a", "x"), delete(2, 20), change(3, 20, "c", "-")
    assert versions(*log) == [(10, 20, 1, ["a", "x"]), (20, None, 3, ["c", None])]


def test_an_unknown_time_is_the_log_time_or_the_next_known_one() -> None:
    assert versions(change(7, None, "a")) == [(7, None, 7, ["a"])]
    assert versions(change(7, None, "a"), change(8, 9, "b")) == [
        (7, 9, 7, ["a"]),
        (9, None, 8, ["b"]),
    ]
    assert versions(change(7, None, "a"), change(8, 5, "b")) == [(5, None, 8, ["b"])]
    # Any known one behind it counts, and nothing begins before what comes before it.
    log = change(7, None, "a"), change(8, 9, "b"), change(9, 5, "c")
    assert versions(*log, by_time=False) == [(5, 9, 7, ["a"]), (9, None, 9, ["c"])]
    assert versions(change(6, 9, "a"), change(7, None, "b")) == [(9, None, 7, ["b"])]


def test_unknown_times_come_with_the_newest_before_them() -> None:
    log = change(1, 30, "a"), change(50, None, "b"), change(51, 40, "d"), change(52, 20, "z")
    assert versions(*log) == [
        (20, 30, 52, ["z"]),
        (30, 40, 1, ["a"]),
        (40, None, 51, ["d"]),
    ]


def test_without_any_time_a_version_has_no_beginning() -> None:
    nowhere = change(0, None, "a")._replace(position=at(None, 1))
    assert versions(nowhere) == [(None, None, None, ["a"])]
    later = change(0, None, "b")._replace(position=at(None, 2))
    assert versions(nowhere, later) == [(None, None, None, ["b"])]
    assert versions(nowhere, change(9, None, "c")) == [(None, 9, None, ["a"]), (9, None, 9, ["c"])]
    assert versions(nowhere, change(9, 5, "c")) == [(5, None, 9, ["c"])]
    assert versions(nowhere._replace(expires_at=5), as_of=5) == [(None, 5, None, ["a"])]


def test_expiry_closes_a_version() -> None:
    write = change(1, 10, "a", expires_at=50)
    assert versions(write, as_of=49) == [(10, None, 1, ["a"])]
    assert versions(write, as_of=50) == [(10, 50, 1, ["a"])]
    assert versions(write, change(2, 40, "b"), as_of=60) == [
        (10, 40, 1, ["a"]),
        (40, None, 2, ["b"]),
    ]
    assert versions(write, change(2, 70, "b"), as_of=60) == [
        (10, 50, 1, ["a"]),
        (70, None, 2, ["b"]),
    ]
    assert versions(change(1, 10, "a", expires_at=10), as_of=10) == []
    # Expired before it was written, but not by now: it is in the table, so it is a version.
    assert versions(change(1, 10, "a", expires_at=9), as_of=8) == [(10, None, 1, ["a"])]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 9) | st.none(),
            st.sampled_from(["a", "b", "delete"]),
            st.integers(0, 12) | st.none(),
        ),
        max_size=6,
    ),
    st.booleans(),
    st.sampled_from([None, [0]]),
)
@settings(max_examples=300, deadline=None)
def test_time_ends_versions_that_are_current_and_no_others(
    events: list[tuple[int | None, str, int | None]], by_time: bool, tracked: list[int] | None
) -> None:
    """So a run without news looks at current rows alone, whatever clocks are ahead of it."""
    log = [
        delete(place, time) if what == "delete" else change(place, time, what, expires_at=expiry)
        for place, (time, what, expiry) in enumerate(events)
    ]
    before: list[Version] = []
    for as_of in range(14):
        now = history(log, order_by_source_time=by_time, as_of=as_of, tracked=tracked)
        ended = [each for each in before if not each.is_current]
        assert now[: len(ended)] == ended
        open_before = [each for each in before if each.is_current]
        if not any(each.expires_at == as_of for each in open_before):
            assert now[len(ended) :] == open_before or as_of == 0
        before = now


def test_a_truncate_is_a_delete_in_the_log() -> None:
    log = change(1, 10, "a", "x"), truncate(2, 20), change(3, 30, "b", "-")
    expected = [(10, 20, 1, ["a", "x"]), (30, None, 3, ["b", None])]
    assert versions(*log, by_time=False) == expected
    assert versions(*log) == expected


def test_a_truncate_is_no_event_of_a_key_that_has_none_before_it() -> None:
    # So its time, however wrong, says nothing of the key's versions.
    assert versions(truncate(1, 99), change(2, 10, "a"), by_time=False) == [(10, None, 2, ["a"])]
    twice = change(1, 10, "a"), truncate(2, 20), truncate(3, 99), change(4, 30, "b")
    assert versions(*twice, by_time=False) == [(10, 20, 1, ["a"]), (30, None, 4, ["b"])]
    log = change(1, 10, "a"), truncate(2, 99), change(3, 30, "b")
    assert versions(*log, by_time=False) == [(10, 99, 1, ["a"]), (99, None, 3, ["b"])]


def test_a_truncate_of_another_table_is_none_of_a_key() -> None:
    a, b = change(1, 10, "a", "x", source="a"), change(3, 30, "b", "-", source="b")
    other, own = truncate(2, 20)._replace(source="b"), truncate(4, 40)._replace(source="b")
    assert versions(a, other, by_time=False) == [(10, None, 1, ["a", "x"])]
    expected = [(10, 30, 1, ["a", "x"]), (30, 40, 3, ["b", "x"])]
    assert versions(a, other, b, own) == versions(a, other, b, own, by_time=False) == expected
    # Not even if its own table's comes next.
    own = truncate(5, 50)._replace(source="a")
    assert versions(a, other, own) == [(10, 50, 1, ["a", "x"])]


def test_a_truncate_parts_what_is_ordered_by_source_time() -> None:
    # Older than the truncate, but behind it: left out.
    assert versions(truncate(1, 20), change(2, 10, "a")) == []
    assert versions(truncate(1, 20), change(2, 20, "a")) == [(20, None, 2, ["a"])]
    # Newer than the truncate, but before it in the log: gone, as it is from the table.
    assert versions(change(1, 30, "a"), truncate(2, 20)) == []
    log = change(1, 30, "a"), truncate(2, 20), change(3, 25, "b")
    assert versions(*log) == [(30, None, 3, ["b"])]


def test_only_tracked_columns_make_versions() -> None:
    log = [change(1, 10, "a", "x"), change(2, 20, "a", "y"), change(3, 30, "b", "y")]
    assert versions(*log, tracked=[0]) == [(10, 30, 2, ["a", "y"]), (30, None, 3, ["b", "y"])]
    assert versions(*log, tracked=[1]) == [(10, 20, 1, ["a", "x"]), (20, None, 3, ["b", "y"])]
    assert versions(*log, tracked=[0, 1]) == versions(*log)
    nulls = change(1, 10, None, "x"), change(2, 20, None, "y")
    assert versions(*nulls, tracked=[0]) == [(10, None, 2, [None, "y"])]


def test_an_absence_parts_equal_versions() -> None:
    log = change(1, 10, "a"), delete(2, 20), change(3, 30, "a")
    assert versions(*log, tracked=[0]) == [(10, 20, 1, ["a"]), (30, None, 3, ["a"])]
    log = change(1, 10, "a", expires_at=20), delete(2, 25), change(3, 25, "a")
    assert versions(*log, tracked=[0]) == [(10, 20, 1, ["a"]), (25, None, 3, ["a"])]
    # One of no length is none.
    log = change(1, 10, "a"), delete(2, 20), change(3, 20, "a")
    assert versions(*log, tracked=[0]) == [(10, None, 3, ["a"])]
    log = change(1, 10, "a", expires_at=20), delete(2, 20), change(3, 20, "a")
    assert versions(*log, tracked=[0]) == [(10, None, 3, ["a"])]


def test_the_sql_function_is_the_history() -> None:
    log = [change(1, 10, "a", "x"), change(2, 30, "a", "-"), delete(3, 20)]
    rows = [(*each[:3], tuple(each.position), *each[4:]) for each in log]
    expected = history(log, order_by_source_time=True, as_of=0, tracked=[0])
    assert reference_history(rows, True, 0, [0]) == expected
    assert len(expected) == 2


# --- tables without a key -------------------------------------------------------------------------

A, B = ("a", None), ("b", None)


def rows(*changes: RowChange) -> dict[str, tuple[int, int | None]]:
    """How many there are of each row, and the place of its newest event."""
    found = multiset(changes)
    assert found == multiset(reversed(changes))
    return {
        f"{row.source or ''}{row.values[0]}": (copies.number, copies.position.log_time)
        for row, copies in found.items()
    }


def insert(place: int, row: tuple[str | None, ...]) -> RowChange:
    """A row added."""
    return RowChange("insert", at(place), None, row)


def removal(place: int, row: tuple[str | None, ...]) -> RowChange:
    """A row removed."""
    return RowChange("delete", at(place), row, None)


def replacement(
    place: int, before: tuple[str | None, ...] | None, after: tuple[str | None, ...]
) -> RowChange:
    """A row replaced."""
    return RowChange("update", at(place), before, after)


def test_rows_are_counted() -> None:
    assert rows() == {}
    assert multiset([insert(1, A)]) == {SourceRow(A): Copies(1, at(1))}
    assert rows(insert(1, A), insert(2, A), insert(3, B)) == {"a": (2, 2), "b": (1, 3)}
    assert rows(insert(1, A), insert(2, A), removal(3, A)) == {"a": (1, 3)}
    assert rows(insert(1, A), removal(2, A)) == {}


def test_what_was_said_beside_a_row_is_of_the_newest_event_that_added_it() -> None:
    def beside(*changes: RowChange) -> dict[str | None, tuple[str | None, ...]]:
        said = [each._replace(beside=(f"{each.position.log_time}",)) for each in changes]
        return {row.values[0]: copies.beside for row, copies in multiset(said).items()}

    assert beside(insert(1, A), insert(2, A), insert(3, B)) == {"a": ("2",), "b": ("3",)}
    assert beside(insert(1, A), insert(2, A), removal(3, A)) == {"a": ("2",)}
    assert beside(insert(1, A), removal(2, A), insert(3, A)) == {"a": ("3",)}
    assert beside(insert(1, A), replacement(2, A, B), insert(3, A)) == {"a": ("3",), "b": ("2",)}
    assert beside(insert(1, A), replacement(2, A, A)) == {"a": ("2",)}


def test_there_are_never_less_than_none() -> None:
    assert rows(removal(1, A), removal(2, A), insert(3, A)) == {"a": (1, 3)}
    assert rows(insert(1, A), removal(2, A), removal(3, A), insert(4, A)) == {"a": (1, 4)}


def test_an_update_removes_and_adds() -> None:
    assert rows(insert(1, A), replacement(2, A, B)) == {"b": (1, 2)}
    assert rows(insert(1, A), replacement(2, A, A)) == {"a": (1, 2)}
    assert rows(insert(1, A), replacement(2, None, B)) == {"a": (1, 1), "b": (1, 2)}
    assert rows(replacement(1, A, B)) == {"b": (1, 1)}


def test_a_truncate_removes_all() -> None:
    truncated = RowChange("truncate", at(2))
    assert rows(insert(1, A), truncated) == {}
    assert rows(insert(1, A), truncated, insert(3, A), insert(4, B)) == {"a": (1, 3), "b": (1, 4)}


def test_equal_rows_of_two_tables_are_two() -> None:
    log = [
        insert(place, A)._replace(source=source) for place, source in ((1, "x"), (2, "y"), (3, "y"))
    ]
    assert rows(*log) == {"xa": (1, 1), "ya": (2, 3)}
    assert rows(*log, removal(4, A)._replace(source="y")) == {"xa": (1, 1), "ya": (1, 4)}
    truncated = RowChange("truncate", at(4), source="y")
    assert rows(*log, truncated) == {"xa": (1, 1)}
    assert rows(*log, truncated._replace(source="x")) == {"ya": (2, 3)}
