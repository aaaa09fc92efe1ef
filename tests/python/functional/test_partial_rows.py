"""Partial rows through dbt: random streams and examples by hand against the references.

Images name only some of the columns; absent, null and deleted are three different things.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from support.expected_gold import Row
from support.partial_tables import (
    EXAMPLES,
    GAUGES,
    HISTORIES,
    KEYS,
    ORDERS,
    PARCELS,
    SHUFFLED_NUMBER,
    SHUFFLED_ROW,
    SOURCES,
    TABLES,
    Example,
    shuffled_events,
)
from support.row_events import COLUMNS, WRITES, Source, key_value
from support.row_examples import events_of, example_key, partition_of
from support.row_lake import LAST, RUNS, each_table, expected_state
from support.streams import UNAVAILABLE

if TYPE_CHECKING:
    from support.built_rows import Built, Refreshed

pytest_plugins = ["support.built_rows"]


@each_table(TABLES)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: "Built", run: int, table: str) -> None:
    assert built.differences[run][table] == []


def row_of(rows: Iterable[Row], source: Source, number: int, key: int = 0) -> Any:
    """An example's row among those of a table: its image and its step, or None."""
    place = key_value(source, example_key(number, key))
    found = [
        ({name: each[name] for name in COLUMNS}, each["_position"]["offset"])
        for each in rows
        if each[KEYS[source]] == place
    ]
    assert len(found) <= 1
    return found[0] if found else None


def left_of(example: Example) -> Any:
    """What ``row_of`` must find."""
    return None if example.image is None else (example.image, example.step)


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)


@each_example
def test_examples(built: "Built", number: int) -> None:
    example = EXAMPLES[number]
    assert row_of(built.rows[example.source.table], example.source, number) == left_of(example)


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    example = EXAMPLES[number]
    events = [event for _, event in events_of(example.source, number, example.steps)]
    rows = expected_state(example.source, events, LAST).rows.values()
    assert row_of(rows, example.source, number) == left_of(example)


def test_every_order_of_partial_events_gives_the_same_row(built: "Built") -> None:
    rows = [row_of(built.rows["gauges"], GAUGES, SHUFFLED_NUMBER, key) for key in range(ORDERS)]
    assert [image for image, _ in rows] == [SHUFFLED_ROW] * ORDERS


def test_the_reference_says_so_too() -> None:
    events = [event for _, event in shuffled_events()]
    expected = expected_state(GAUGES, events, LAST).rows.values()
    rows = [row_of(expected, GAUGES, SHUFFLED_NUMBER, key) for key in range(ORDERS)]
    assert [image for image, _ in rows] == [SHUFFLED_ROW] * ORDERS


def test_the_stream_holds_every_situation(built: "Built") -> None:
    streamed = [each for each in built.lake.landed if each.partition < partition_of(0)]
    for source in SOURCES:
        events = [each for each in streamed if each.source == source]
        writes = [each for each in events if each.operation in WRITES]
        assert any(set(each.named) < set(COLUMNS) for each in writes)
        assert any(None in each.named.values() for each in writes)
        assert any(each.time_ms is None for each in events)
        if not source.is_aerospike:
            assert any(UNAVAILABLE in each.named.values() for each in writes)
            assert any(each.previous_key is not None for each in writes)
    operations = {each.operation for each in streamed if each.source == PARCELS}
    assert operations == {"snapshot", "insert", "update", "delete", "truncate"}


@pytest.mark.parametrize("source", SOURCES, ids=[source.table for source in SOURCES])
def test_the_log_names_the_columns_that_an_event_leaves_as_they_were(
    built: "Built", source: Source
) -> None:
    events = {
        (event.partition, event.offset): event
        for event in built.lake.landed
        if event.source == source
    }
    seen = set()
    for change in built.changes[source.table]:
        place = change["_position"]["partition"], change["_position"]["offset"]
        event = events[place]
        seen.add(place)
        unchanged = change["_unchanged_columns"]
        if event.operation not in WRITES:
            assert not unchanged
            continue
        before = event.before or {}
        unsaid = [name for name in COLUMNS if name not in {**before, **event.named}] + [
            name
            for name, value in event.named.items()
            if value == UNAVAILABLE and before.get(name) is None
        ]
        assert sorted(unchanged) == sorted(unsaid), change
    # A delete without a set is in no table's log.
    assert seen == {place for place, event in events.items() if event.has_set}


def test_the_placeholder_is_in_no_table(built: "Built") -> None:
    for table in {*TABLES} & built.rows.keys():
        for each in built.rows[table]:
            assert UNAVAILABLE not in each.values(), table


def test_no_run_made_a_table_anew(built: "Built") -> None:
    tables = {*TABLES} & built.rows.keys()
    assert {len(built.identities[table]) for table in tables} == {1}


# In CI, the first run makes all tables from nothing, with streams that come whole in it too, and
# test_scenarios has a full refresh.
@pytest.mark.long
@each_table(TABLES)
def test_a_full_refresh_gives_the_same_rows(
    built: "Built", refreshed: "Refreshed", table: str
) -> None:
    assert refreshed[table] == built.rows[table]


def test_the_data_tests_pass(built: "Built") -> None:
    tests = {f"{name}_is_history" for name in HISTORIES.keys() & built.rows.keys()}
    tests |= {f"{source.table}_equals_refold" for source in SOURCES}
    assert tests <= built.data_tests
    assert not tests & built.failing_tests
    assert built.broken_sums == []
