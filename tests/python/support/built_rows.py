"""The lake of test_history, test_partial_rows, test_keyless, test_key_updates, test_pictures,
test_shards, test_compacted, test_deleted_rows and test_beliefs, for a dbt run is dear.

A plugin of those tests: random streams in several batchings and the examples by hand have come in
three runs, and what was seen on the way is kept.
"""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from dbt_lakehouse.report.facts import TableFacts
from dbt_lakehouse.report.gather import gather
from support import (
    belief_tables,
    compacted_tables,
    deleted_tables,
    history_tables,
    key_update_tables,
    keyless_tables,
    partial_tables,
    pictured,
    shard_tables,
)
from support.expected_gold import Row
from support.lakes import Lake
from support.row_events import Event
from support.row_lake import LONG, RUNS, Expected, RowLake, differences
from support.row_streams import BATCHINGS, in_runs
from support.small_project import remove_model, small_project

MODULES = (
    history_tables,
    partial_tables,
    keyless_tables,
    shard_tables,
    compacted_tables,
    key_update_tables,
    deleted_tables,
)


# The rows of each table.
Refreshed = dict[str, list[Row]]


class Built(NamedTuple):
    """The lake, and by table: how it differed from the reference after each run, what a report of
    the run says of it beside the rows that are new and gone by their keys, its identities, its rows
    in the end, and those of its change log; the tables that a run with nothing new has changed; the
    data tests, and those of them that failed; the sums that did not agree.
    """

    lake: RowLake
    differences: list[dict[str, list[str]]]
    reported: list[dict[str, tuple[TableFacts, int, int]]]
    identities: dict[str, set[int | None]]
    rows: dict[str, list[Row]]
    changes: dict[str, list[Row]]
    changed_by_nothing: set[str]
    data_tests: set[str]
    failing_tests: set[str]
    broken_sums: list[str]


def _is_whole(session: pytest.Session) -> bool:
    """Whether tests that CI leaves out are among the session's."""
    return any(each.get_closest_marker("long") for each in session.items)


def _in_fewer_runs(batches: list[list[Event]]) -> list[list[Event]]:
    """The batches, of which the second has what the third would have, but for three sources: these
    have both orders, whole rows and partial ones, a second merge, and a purge before it.
    """
    three = (history_tables.METERS, history_tables.TICKETS, partial_tables.GAUGES)
    first, second, last = batches
    moved = [each for each in last if each.source not in three]
    return [first, [*second, *moved], [each for each in last if each.source in three]]


def _keys(expected: Expected, rows: list[Row]) -> set[str]:
    return {str([row[name] for name in expected.key]) for row in rows}


def _rows(lake: RowLake, tables: list[str]) -> dict[str, list[Row]]:
    return {table: sorted(lake.lake.read(f"gold.{table}"), key=str) for table in tables}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Built:
    """All tables, built in three runs and looked at; in CI, of most tables in two."""
    folder = tmp_path_factory.mktemp("rows")
    # Keys are forgotten where there is a quarantine.
    project = small_project(folder / "project", quarantine=True)
    for module in (*MODULES, belief_tables):
        module.add_models(project)
    is_whole = _is_whole(request.session)
    left_out = () if is_whole else LONG
    for table in left_out:
        remove_model(project, table)
    lake = RowLake(Lake(folder, project))
    clones = [
        [event for module in MODULES for event in module.stream(clone)]
        for clone in range(len(BATCHINGS))
    ]
    batches = in_runs(clones, len(RUNS))
    for module in (*MODULES, pictured):
        for run, event in module.example_events():
            batches[run].append(event)
    if not is_whole:
        batches = _in_fewer_runs(batches)

    found = []
    reported = []
    keys: dict[str, set[str]] = {}
    identities: dict[str, set[int | None]] = {}
    for as_of, batch in zip(RUNS, batches, strict=True):
        lake.run(events=batch, as_of=as_of)
        expected = {
            table: rows
            for module in MODULES
            for table, rows in module.expected(lake.landed, as_of).items()
            if table not in left_out
        }
        actual = _rows(lake, [*expected])
        found.append({table: differences(rows, actual[table]) for table, rows in expected.items()})
        told = gather(lake.lake.reader(), "gold", "silver", [], datetime.now(UTC)).gold
        before, keys = keys, {table: _keys(expected[table], actual[table]) for table in expected}
        reported.append(
            {
                name: (
                    each,
                    len(keys[name] - before.get(name, set())),
                    len(before.get(name, set()) - keys[name]),
                )
                for each in told
                if (name := each.name.removeprefix("gold.")) in keys
            }
        )
        for table in expected:
            identity = lake.lake.build(f"gold.{table}")
            identities.setdefault(table, set()).add(identity)
    tables = lake.lake.tables()
    logs = [each for each in expected if f"silver.{each}_changes" in tables]
    changes = {table: lake.lake.read(f"silver.{table}_changes") for table in logs}

    snapshots = lake.lake.current_snapshots(tables)
    lake.run()
    changed = {
        table.removeprefix("gold.")
        for table, snapshot in lake.lake.current_snapshots(snapshots).items()
        if snapshot != snapshots[table] and table.startswith("gold.")
    }
    # Those that test_history and test_partial_rows look at: each takes a second.
    tests = lake.data_tests(
        *(
            name
            for module in (history_tables, partial_tables)
            for name in (
                *(f"{each}_is_history" for each in module.HISTORIES if each not in left_out),
                *(f"{source.table}_equals_refold" for source in module.SOURCES),
            )
        )
    )
    broken_sums = lake.lake.broken_sums()
    return Built(
        lake,
        found,
        reported,
        identities,
        rows=actual,
        changes=changes,
        changed_by_nothing=changed,
        data_tests={*tests},
        failing_tests={name for name, status in tests.items() if status != "pass"},
        broken_sums=broken_sums,
    )


@pytest.fixture(scope="session")
def refreshed(built: Built) -> Refreshed:
    """The rows of all tables after a full refresh, in the same lake."""
    logs = (f"{table}_changes" for table in built.changes)
    built.lake.run("--full-refresh", "-s", "other_events", *logs, *built.rows)
    return _rows(built.lake, [*built.rows])
