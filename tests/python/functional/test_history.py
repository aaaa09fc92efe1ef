"""History tables through dbt: random streams and examples by hand against the reference."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest
from support.expected_gold import Row
from support.history_tables import (
    EXAMPLES,
    HISTORIES,
    KEYS,
    METERS,
    SOURCES,
    TABLES,
    TICKETS,
    TRACKED,
    Version,
)
from support.row_events import COLUMNS, WRITES, Source, key_value
from support.row_examples import events_of, example_key, minute, partition_of
from support.row_lake import LAST, RUNS, expected_history
from support.streams import MINUTE, START, UNAVAILABLE

if TYPE_CHECKING:
    from support.built_rows import Built, Refreshed

pytest_plugins = ["support.built_rows"]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: "Built", run: int, table: str) -> None:
    assert built.differences[run][table] == []


def versions_of(rows: Iterable[Row], source: Source, number: int) -> list[Version]:
    """The versions of row 0 of an example, among the rows of a history."""
    place = key_value(source, example_key(number))
    versions = []
    for each in rows:
        if each[KEYS[source]] == place:
            assert each["is_current"] == (each["valid_to"] is None)
            version = Version(
                minute(each["valid_from"]),
                minute(each["valid_to"]),
                each["_position"]["offset"],
                {name: each[name] for name in COLUMNS},
            )
            versions.append(version)
    return sorted(versions, key=lambda each: each.valid_from or 0)


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)


@each_example
def test_examples(built: "Built", number: int) -> None:
    example = EXAMPLES[number]
    source = example.source
    for name, (of_source, tracked) in HISTORIES.items():
        if of_source == source:
            versions = (tracked and example.levels) or example.versions
            assert versions_of(built.rows[name], source, number) == versions


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    example = EXAMPLES[number]
    source = example.source
    events = [event for _, event in events_of(source, number, example.steps)]
    history = expected_history(source, events, LAST)
    assert versions_of(history.rows.values(), source, number) == example.versions
    levels = expected_history(source, events, LAST, TRACKED)
    assert versions_of(levels.rows.values(), source, number) == (example.levels or example.versions)


def test_the_stream_holds_every_situation(built: "Built") -> None:
    streamed = [each for each in built.lake.landed if each.partition < partition_of(0)]
    meters = [each for each in streamed if each.source == METERS]
    assert any(each.expires_s is not None for each in meters)
    assert any(not each.has_set for each in meters)
    tickets = [each for each in streamed if each.source == TICKETS]
    assert any(each.operation == "truncate" for each in tickets)
    assert any(each.previous_key is not None for each in tickets)
    assert any(UNAVAILABLE in each.named.values() for each in tickets)
    for events in (meters, tickets):
        assert any(each.time_ms is None and each.operation in WRITES for each in events)
    for name in HISTORIES:
        assert {each["is_current"] for each in built.rows[name]} == {True, False}
    assert len(built.rows["meters_levels"]) < len(built.rows["meters_history"])


def test_current_versions_are_the_rows_of_the_table(built: "Built") -> None:
    for name, (source, _) in HISTORIES.items():
        columns = [KEYS[source], *COLUMNS, "_position"]
        current = [
            str([each[column] for column in columns])
            for each in built.rows[name]
            if each["is_current"]
        ]
        rows = [str([each[column] for column in columns]) for each in built.rows[source.table]]
        assert sorted(current) == sorted(rows), name


def test_a_report_counts_rows_that_are_new_and_gone(built: "Built") -> None:
    """Whatever took them, deletes without a set and expiry too; of all tables of the lake, each
    with its newest event.
    """
    for run in built.reported:
        for name, (told, new, gone) in run.items():
            assert told.new is not None and told.gone is not None, name
            # A truncate takes a row whose key is written again: another row.
            again = told.gone - gone
            assert again == told.new - new >= 0, name
            assert again == 0 or name not in (*TABLES, *HISTORIES) or "tickets" in name, name
            assert told.newest_event is not None, name
    # An event that is late takes versions away.
    assert built.reported[1]["meters_history"][2] and built.reported[1]["tickets_history"][2]


def test_no_run_made_a_table_anew(built: "Built") -> None:
    assert {len(built.identities[table]) for table in TABLES} == {1}


# In CI, the first run makes all tables from nothing, with streams that come whole in it too, and
# test_scenarios has a full refresh.
@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_a_full_refresh_gives_the_same_rows(
    built: "Built", refreshed: "Refreshed", table: str
) -> None:
    assert refreshed[table] == built.rows[table]


def test_the_data_tests_pass(built: "Built") -> None:
    tests = {f"{name}_is_history" for name in HISTORIES}
    tests |= {f"{source.table}_equals_refold" for source in SOURCES}
    assert tests <= built.data_tests
    assert not tests & built.failing_tests


def of_example(name: str, valid_from: int | None = None) -> str:
    """The condition of the versions of an example's row 0, or of one of them."""
    (number,) = (n for n, example in enumerate(EXAMPLES) if example.name == name)
    source = EXAMPLES[number].source
    condition = f"{KEYS[source]} = '{key_value(source, example_key(number))}'"
    if valid_from is None:
        return condition
    moment = f"timestamp_millis({START + valid_from * MINUTE})"
    return f"{condition} and valid_from = {moment}"


EACH, BACK = "each event begins a version", "a row that comes back leaves a gap"
LOG, ONLY = "the log decides, and no version begins before the one before it", "sent twice"
LATE, NEW_KEY = "what lands late takes its place in the log", "and begins the new row's"


# One change of each history, so that one run of the tests judges three. One run is in CI.
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {
                "meters_history": f"set valid_to = valid_to + interval 1 minute where "
                f"{of_example(EACH, 10)}",
                "meters_levels": f"set valid_to = valid_to - interval 1 minute where "
                f"{of_example(EACH, 10)}",
                "tickets_history": f"set valid_to = valid_from where {of_example(LOG, 30)}",
            },
            id="overlap, gap, no length",
        ),
        pytest.param(
            {
                "meters_history": f"set is_current = true, valid_to = null where "
                f"{of_example('a delete closes the last version')}",
                "meters_levels": f"set label = 'other' where {of_example(ONLY)}",
                "tickets_history": f"set is_current = false where {of_example(LOG, 40)}",
            },
            id="a deleted row is current, another value, a current version isn't called so",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "meters_history": f"set valid_to = valid_to - interval 1 minute where "
                f"{of_example(BACK, 10)}",
                "meters_levels": f"set _position.offset = 99 where {of_example(EACH, 30)}",
                "tickets_history": f"set valid_to = valid_to - interval 1 minute where "
                f"{of_example(LATE, 10)}",
            },
            id="ends that no event explains, another position",
            marks=pytest.mark.long,
        ),
        pytest.param(
            {
                "meters_history": f"set level = 9 where {of_example(EACH, 10)}",
                "meters_levels": f"set valid_from = valid_from - interval 1 minute where "
                f"{of_example(EACH, 10)}",
                "tickets_history": f"set valid_to = valid_to + interval 1 minute where "
                f"{of_example(NEW_KEY)}",
            },
            id="a value of a closed version, too early a begin, too late an end",
            marks=pytest.mark.long,
        ),
    ],
)
def test_an_altered_history_is_found(built: "Built", changes: dict[str, str]) -> None:
    lake = built.lake.lake
    tests = {table: f"{table}_is_history" for table in changes}
    counts = {
        table: lake.sql(
            f"select count(*) as rows from gold.{table} {change[change.index('where') :]}"
        )
        for table, change in changes.items()
    }
    assert all(found == [{"rows": 1}] for found in counts.values()), counts
    statements = [f"update gold.{table} {change}" for table, change in changes.items()]
    with lake.tampered(*statements):
        found = built.lake.data_tests(*tests.values())
        assert found == dict.fromkeys(tests.values(), "fail")


def test_missing_versions_are_found(built: "Built") -> None:
    statements = [
        f"delete from gold.meters_history where {of_example(EACH, 20)}",
        f"delete from gold.meters_levels where {of_example(EACH, 30)}",
        f"delete from gold.tickets_history where {of_example(LATE, 20)}",
    ]
    with built.lake.lake.tampered(*statements):
        tests = {f"{table}_is_history" for table in HISTORIES}
        assert built.lake.data_tests(*tests) == dict.fromkeys(tests, "fail")


def test_a_run_with_nothing_new_commits_nothing(built: "Built") -> None:
    assert not built.changed_by_nothing & {*TABLES}
