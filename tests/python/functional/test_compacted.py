"""Compacted topics through dbt: random streams and examples by hand, of whose deletes only
tombstones are left, against the reference, and against what was never compacted.
"""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from support.compacted_tables import (
    EXAMPLES,
    FIRST_SEED,
    GOLD,
    HISTORY,
    RACKS,
    STOCK,
    STREAMED,
    TRAYS,
    stream,
)
from support.expected_gold import Row
from support.history_tables import TICKETS
from support.row_events import (
    COLUMNS,
    TOMBSTONE,
    Event,
    Source,
    changes_by_key,
    place_order,
    placed,
)
from support.row_examples import events_of, example_key, partition_of
from support.row_lake import LAST, RUNS, each_table, expected_state
from support.row_streams import BATCHINGS, debezium_stream, key_number, with_tombstones

if TYPE_CHECKING:
    from support.built_rows import Built, Refreshed

pytest_plugins = ["support.built_rows"]


@each_table(GOLD)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: "Built", run: int, table: str) -> None:
    assert built.differences[run][table] == []


# In CI, the first run makes all tables from nothing, with streams that come whole in it too, and
# test_scenarios has a full refresh.
@pytest.mark.long
@each_table(GOLD)
def test_a_full_refresh_gives_the_same_rows(
    built: "Built", refreshed: "Refreshed", table: str
) -> None:
    assert refreshed[table] == built.rows[table]


@each_table(GOLD)
def test_no_run_made_a_table_anew_nor_changed_it_without_news(built: "Built", table: str) -> None:
    assert len(built.identities[table]) == 1
    assert table not in built.changed_by_nothing


def images(rows: Iterable[Row]) -> dict[int, Row]:
    """The rows of the streams by key, without where they are from."""
    streamed = key_number(len(BATCHINGS), 0)
    found = {row["id"]: {name: row[name] for name in COLUMNS} for row in rows}
    return {key: row for key, row in found.items() if key < streamed}


def in_order(events: Iterable[Event]) -> dict[int | None, list[tuple[int, int]]]:
    """The partitions and offsets of each key's events, in the order of the log."""
    found: dict[int | None, list[tuple[int, int]]] = {}
    for event, position in sorted(placed(events), key=lambda each: place_order(each[1])):
        found.setdefault(event.key, []).append((position.partition, position.offset))
    return found


def reordered(whole: Iterable[Event], left: Iterable[Event]) -> set[int | None]:
    """The keys of several partitions whose order rested on the time of a message that is gone."""
    now = in_order(left)
    before = in_order(whole)
    return {key for key, own in now.items() if [each for each in before[key] if each in own] != own}


@pytest.mark.parametrize("source", STREAMED, ids=[source.table for source in STREAMED])
def test_compaction_makes_no_difference(built: "Built", source: Source) -> None:
    # The same table, of a topic that keeps all messages.
    kept = source._replace(is_compacted=False)
    whole = [
        event
        for clone in range(len(BATCHINGS))
        for event in with_tombstones(
            debezium_stream(kept, FIRST_SEED + clone, clone, lane=STREAMED.index(source))
        )
    ]
    left = [event for clone in range(len(BATCHINGS)) for event in stream(clone)]
    own = [event for event in left if event.source == source]
    assert 0.3 * len(whole) < len(own) < 0.9 * len(whole)
    others = reordered(whole, own)
    wanted = images(expected_state(kept, whole, LAST).rows.values())
    assert len(others) < 0.2 * len(wanted)

    def same(rows: dict[int, Row]) -> dict[int, Row]:
        return {key: row for key, row in rows.items() if key not in others}

    assert same(images(built.rows[source.table])) == same(wanted)
    # That it is no difference rests on tombstones.
    without = [event for event in own if event.operation != TOMBSTONE]
    assert same(images(expected_state(source, without, LAST).rows.values())) != same(wanted)


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)


def image_of(rows: Iterable[Row], number: int) -> Row | None:
    """Row 0 of an example."""
    for each in rows:
        if each["id"] == example_key(number):
            return {name: each[name] for name in COLUMNS}
    return None


@each_example
def test_examples(built: "Built", number: int) -> None:
    wanted = EXAMPLES[number].image
    assert image_of(built.rows[STOCK.table], number) == wanted
    left = [
        row
        for row in built.changes[STOCK.table]
        if row["id"] == example_key(number) and row["_position"]["event_index"] == 1
    ]
    assert {row["_operation"] for row in left} <= {"delete"}
    assert len(left) == EXAMPLES[number].left


# In CI, test_history has what follows deletes.
@pytest.mark.long
@each_example
def test_examples_in_the_history(built: "Built", number: int) -> None:
    current = [row for row in built.rows[HISTORY] if row["is_current"]]
    assert image_of(current, number) == EXAMPLES[number].image


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    events = [event for _, event in events_of(STOCK, number, EXAMPLES[number].steps)]
    rows = expected_state(STOCK, events, LAST).rows.values()
    assert image_of(rows, number) == EXAMPLES[number].image


def test_a_tombstone_that_may_be_of_two_tables_deletes_nothing(built: "Built") -> None:
    for source in (RACKS, TRAYS):
        (row,) = built.rows[source.table]
        assert row["id"] == example_key(0)
    (event,) = (
        each
        for each in built.lake.lake.read("silver.other_events")
        if each["topic"] == RACKS.topic and each["operation"] == "invalid"
    )
    assert (event["partition"], event["event_index"]) == (partition_of(0), 1)
    assert "(shop.rooms.racks, shop.rooms.trays)" in event["error_detail"]


def test_deletes_have_the_table_that_their_rows_had(built: "Built") -> None:
    judged = [
        each
        for each in built.lake.lake.read("silver.other_events")
        if each["metadata"] == '{"compacted":true}' and each["operation"] == "delete"
    ]
    by_table = {each["source_table"] for each in judged}
    assert by_table == {source.table for source in STREAMED}
    assert all(json.loads(each["record_key"]).keys() == {"id"} for each in judged)
    wanted = {
        (change.position.topic, change.position.partition, change.position.offset)
        for source in STREAMED
        for changes in changes_by_key(source, built.lake.landed).values()
        for change in changes
        if change.position.event_index == 1
    }
    assert {(each["topic"], each["partition"], each["offset"]) for each in judged} >= wanted


def test_where_all_is_kept_a_tombstone_is_nothing(built: "Built") -> None:
    """Also of a row that is there."""
    events = [each for each in built.lake.landed if each.source == TICKETS]
    lone = [each for each in events if each.operation == TOMBSTONE]
    live = {row["id"] for row in built.rows[TICKETS.table]}
    assert live & {each.key for each in lone}
    changes = built.changes[TICKETS.table]
    assert {row["_position"]["event_index"] for row in changes} == {0}
    places = {(row["_position"]["partition"], row["_position"]["offset"]) for row in changes}
    assert not places & {(each.partition, each.offset) for each in lone}
