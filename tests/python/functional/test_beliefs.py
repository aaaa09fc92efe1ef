"""Histories of two times through dbt: what was believed after each run, against the reference."""

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.belief_tables import SOURCES, gold_of, table_of
from support.expected_gold import Row, micros_of
from support.history_tables import KEYS, TICKETS
from support.lakes import as_of_text
from support.row_events import Source, changes_by_key, key_value
from support.row_lake import RUNS, RowLake, expected_history, moment
from support.small_project import add_gold

from dbt_lakehouse.reference.beliefs import Belief, beliefs
from dbt_lakehouse.reference.history import Version
from dbt_lakehouse.reference.history import history as versions_of

if TYPE_CHECKING:
    from support.built_rows import Built

pytest_plugins = ["support.built_rows"]


def believed(lake: RowLake, source: Source) -> dict[str, list[Belief]]:
    """What the table must have, by key."""
    runs: dict[str, list[tuple[int, list[Version]]]] = {}
    for number, as_of in enumerate(RUNS, 1):
        landed = [event for batch in lake.batches[:number] for event in batch]
        for key, changes in changes_by_key(source, landed).items():
            versions = versions_of(
                changes,
                order_by_source_time=source.order_by_source_time,
                as_of=micros_of(as_of),
            )
            runs.setdefault(str(key_value(source, key)), []).append((micros_of(as_of), versions))
    return {key: beliefs(each) for key, each in runs.items()}


def as_row(of: Belief) -> tuple[Any, ...]:
    version = of.version
    return (
        moment(version.valid_from),
        moment(version.valid_to),
        version.position.offset,
        moment(of.recorded_from),
        moment(of.recorded_to),
        version.is_current and of.recorded_to is None,
    )


def of_table(row: Row) -> tuple[Any, ...]:
    return (
        row["valid_from"],
        row["valid_to"],
        row["_position"]["offset"],
        row["recorded_from"],
        row["recorded_to"],
        row["is_current"],
    )


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.table)
def test_a_table_has_all_that_was_ever_believed(built: "Built", source: Source) -> None:
    expected = [
        (key, *as_row(each))
        for key, all_of_it in believed(built.lake, source).items()
        for each in all_of_it
    ]
    rows = built.lake.lake.read(f"gold.{table_of(source)}")
    found = [(str(row[KEYS[source]]), *of_table(row)) for row in rows]
    assert sorted(found, key=str) == sorted(expected, key=str)
    ended = [each for each in found if each[-2] is not None]
    assert ended and len(ended) < len(found)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.table)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_what_was_believed_at_a_moment_is_the_history_of_then(
    built: "Built", source: Source, run: int
) -> None:
    lake = built.lake
    at = f"timestamp '{as_of_text(RUNS[run])}'"
    found = lake.lake.sql(
        f"select {KEYS[source]}, valid_from, valid_to, _position.offset"
        f" from gold.{table_of(source)}"
        f" where recorded_from <= {at} and coalesce(recorded_to > {at}, true)"
    )
    landed = [event for batch in lake.batches[: run + 1] for event in batch]
    history = expected_history(source, landed, RUNS[run]).rows.values()
    columns = (KEYS[source], "valid_from", "valid_to")
    expected = [(*(row[name] for name in columns), row["_position"]["offset"]) for row in history]
    assert Counter(tuple(each.values()) for each in found) == Counter(expected)


def test_runs_beside_it(built: "Built") -> None:
    """The data test; nothing new; an earlier moment; a rebuild that nobody has asked for."""
    lake, table = built.lake.lake, table_of(TICKETS)
    tests = built.lake.data_tests(*map(table_of, SOURCES))
    assert tests and set(tests.values()) == {"pass"}
    assert not built.changed_by_nothing & {*map(table_of, SOURCES)}
    earlier = lake.outcomes("run", "-s", table, as_of=as_of_text(RUNS[0]))
    assert "what was recorded since goes away with --full-refresh" in earlier[table].message
    try:
        add_gold(lake.project, gold_of(TICKETS, ["level"]))
        refused = lake.outcomes("run", "-s", table, as_of=as_of_text(RUNS[-1]))
        assert "has versions that no longer hold" in refused[table].message
    finally:
        add_gold(lake.project, gold_of(TICKETS))


def test_the_reference_by_hand() -> None:
    def version(number: int) -> Version:
        return Version(number, None, None, None, None, ())  # type: ignore[arg-type]

    one, two = version(1), version(2)
    assert beliefs([(10, [one]), (20, [one, two]), (30, [two]), (30, [one])]) == [
        Belief(one, 10, 30),
        Belief(two, 20, 30),
        Belief(one, 30, None),
    ]
    assert beliefs([(10, [one]), (10, [two])]) == [Belief(two, 10, None)]
