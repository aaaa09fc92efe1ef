"""Tables of several source tables through dbt: random streams and examples by hand, of which the
truncates delete what came from their own source table, against the reference.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from support.expected_gold import Row
from support.row_events import COLUMNS, Event, placed
from support.row_examples import events_of, example_key, partition_of
from support.row_lake import LAST, RUNS, Expected, expected_rows, expected_state
from support.shard_tables import (
    BRANCHES,
    EQUALS,
    EXAMPLES,
    GOLD,
    HISTORY,
    SOURCES,
    STREAMED,
    VISITS,
    events_of_equals,
)

if TYPE_CHECKING:
    from support.built_rows import Built, Refreshed

pytest_plugins = ["support.built_rows"]


@pytest.mark.parametrize("table", GOLD)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: "Built", run: int, table: str) -> None:
    assert built.differences[run][table] == []


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)
each_equals = pytest.mark.parametrize(
    "number", range(len(EQUALS)), ids=[example.name for example in EQUALS]
)


def row_of(rows: Iterable[Row], number: int) -> tuple[Row, str] | None:
    """Row 0 of an example, and the table that it is from."""
    for each in rows:
        if each["id"] == example_key(number):
            return {name: each[name] for name in COLUMNS}, each["_source"]["table"]
    return None


def expected_of(number: int) -> tuple[Row, str] | None:
    example = EXAMPLES[number]
    if example.image is None or example.table is None:
        return None
    return dict(example.image), example.table


@each_example
def test_examples(built: "Built", number: int) -> None:
    assert row_of(built.rows[BRANCHES.table], number) == expected_of(number)
    current = [row for row in built.rows[HISTORY] if row["is_current"]]
    assert row_of(current, number) == expected_of(number)


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    events = [event for _, event in events_of(BRANCHES, number, EXAMPLES[number].steps)]
    rows = expected_state(BRANCHES, events, LAST).rows.values()
    assert row_of(rows, number) == expected_of(number)


def left_of(rows: Iterable[Row], number: int) -> list[str]:
    """The tables of the rows that are left of an example without a key."""
    own = [each for each in rows if each["_position"]["partition"] == partition_of(number)]
    return sorted(each["_source"]["table"] for each in own)


@each_equals
def test_examples_without_a_key(built: "Built", number: int) -> None:
    assert left_of(built.rows[VISITS.table], number) == EQUALS[number].left


@each_equals
def test_the_reference_gives_the_examples_without_a_key(number: int) -> None:
    expected: Expected = expected_rows(VISITS, [event for _, event in events_of_equals(number)])
    assert left_of(expected.rows.values(), number) == EQUALS[number].left


def test_the_streams_hold_every_situation(built: "Built") -> None:
    for source in SOURCES:
        found = set()
        for run, batch in enumerate(built.lake.batches):
            own = [each for each in batch if _is_streamed(each, source.topic)]
            found |= {f"{each.operation} of {each.table}" for each in own}
            behind = [
                place
                for earlier in built.lake.batches[:run]
                for each, place in placed(earlier)
                if _is_streamed(each, source.topic)
            ]
            late = [
                each
                for each, place in placed(own)
                if each.operation == "truncate" and any(place[1:] < other[1:] for other in behind)
            ]
            found |= {f"late truncate of {each.table}" for each in late}
        assert found >= {
            f"{what} of {table}"
            for what in ("insert", "update", "delete", "truncate", "late truncate")
            for table in STREAMED
        }


def _is_streamed(event: Event, topic: str) -> bool:
    return event.source.topic == topic and event.partition < partition_of(0)


@pytest.mark.parametrize("table", GOLD)
def test_no_run_made_the_tables_anew(built: "Built", table: str) -> None:
    assert len(built.identities[table]) == 1
    assert table not in built.changed_by_nothing


# In CI, the first run makes all tables from nothing, with streams that come whole in it too, and
# test_scenarios has a full refresh.
@pytest.mark.long
@pytest.mark.parametrize("table", GOLD)
def test_a_full_refresh_gives_the_same_rows(
    built: "Built", refreshed: "Refreshed", table: str
) -> None:
    assert refreshed[table] == built.rows[table]
