"""Tables without a key through dbt: random streams and examples by hand against the reference.

The rows are a multiset: an insert adds one, a delete removes one, an update does both. Two topics
feed the table.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from support.expected_gold import Row
from support.keyless_tables import ARCHIVED, EXAMPLES, NOTES, TABLE, events_of_example
from support.row_events import COLUMNS
from support.row_examples import partition_of
from support.row_lake import RUNS, expected_rows, typed

if TYPE_CHECKING:
    from support.built_rows import Built, Refreshed

pytest_plugins = ["support.built_rows"]


@pytest.mark.parametrize("run", range(len(RUNS)))
def test_the_table_equals_the_reference_after_each_run(built: "Built", run: int) -> None:
    assert built.differences[run][TABLE] == []


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)


def left_of(rows: Iterable[Row], number: int) -> list[str]:
    """The copies that are left of an example's rows, each with the step of its position."""
    left = []
    for each in rows:
        if each["_position"]["partition"] == partition_of(number):
            image = {name: each[name] for name in COLUMNS}
            image["label"] = each["label"].removeprefix(f"example {number} ")
            left.append(str((image, each["_position"]["offset"])))
    return sorted(left)


@each_example
def test_examples(built: "Built", number: int) -> None:
    assert left_of(built.rows[TABLE], number) == sorted(map(str, EXAMPLES[number].left))


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    events = [event for _, event in events_of_example(number)]
    rows = expected_rows(NOTES, events).rows.values()
    assert left_of(rows, number) == sorted(map(str, EXAMPLES[number].left))


def test_the_stream_holds_every_situation(built: "Built") -> None:
    topics = {NOTES.topic, ARCHIVED.topic}
    landed = [each for each in built.lake.landed if each.source.topic in topics]
    assert {event.operation for event in landed} == {
        *("snapshot", "insert", "update", "delete", "truncate")
    }
    streamed = [each for each in landed if each.partition < partition_of(0)]
    assert {event.source.topic for event in streamed} == topics
    assert any(each["_copy"] > 2 for each in built.rows[TABLE])


def test_equal_rows_have_one_name_and_numbers(built: "Built") -> None:
    rows = built.rows[TABLE]
    images = {(*(each[name] for name in COLUMNS), each["_row"]) for each in rows}
    assert len(images) == len({image[:-1] for image in images}) == len({i[-1] for i in images})
    assert len({(each["_row"], each["_copy"]) for each in rows}) == len(rows)


def test_the_log_names_the_row_that_an_update_replaced(built: "Built") -> None:
    replaced = {
        (event.source.topic, event.partition, event.offset): (
            typed(event.before)
            if event.operation == "update" and event.before is not None
            else None
        )
        for event in built.lake.landed
        if event.source in (NOTES, ARCHIVED)
    }
    changes = built.changes[TABLE]
    assert len(changes) == len(replaced)
    for change in changes:
        position = change["_position"]
        before = replaced[position["topic"], position["partition"], position["offset"]]
        assert change["_previous_key"] == before, change


def test_no_run_made_the_table_anew(built: "Built") -> None:
    assert len(built.identities[TABLE]) == 1


# In CI, the first run makes all tables from nothing, with streams that come whole in it too, and
# test_scenarios has a full refresh.
@pytest.mark.long
def test_a_full_refresh_gives_the_same_rows(built: "Built", refreshed: "Refreshed") -> None:
    assert refreshed[TABLE] == built.rows[TABLE]


def test_a_run_with_nothing_new_commits_nothing(built: "Built") -> None:
    assert TABLE not in built.changed_by_nothing
