"""Gold tables that keep deleted rows, through dbt: streams and examples against the reference."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import history_tables
import partial_tables
import pytest
import shard_tables
from dbt_common.exceptions import CompilationError
from expected_gold import Row
from history_tables import METERS, TICKETS
from lakes import Lake, as_of_text
from partial_tables import GAUGES
from row_events import COLUMNS, NOTHING, Event, Image, Source, key_value
from row_examples import (
    Step,
    delete,
    events_of,
    example_key,
    insert,
    minute,
    row,
    truncate,
    update,
    write,
)
from row_lake import (
    LAST,
    RUNS,
    RowLake,
    add_change_log,
    differences,
    expected_state,
    expected_with_deleted,
    key_column,
    log_of,
)
from row_streams import BATCHINGS, debezium_stream, in_runs
from shard_tables import BRANCHES
from small_project import Gold, add_gold, current_state, history, small_project
from streams import UNAVAILABLE

from dbt_lakehouse.build.deleted_rows import rows_of_all
from dbt_lakehouse.commands.forget.command import Options, forget
from dbt_lakehouse.commands.why.command import why
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.report import Reason
from dbt_lakehouse.declared import fold_of_log
from dbt_lakehouse.declared.declarations import change_log
from dbt_lakehouse.runs.graph import fold_of_model, node_named
from dbt_lakehouse.session.dbt_commands import read_manifest

# Ordered by source time, and truncated.
CLEARED: Final = Source("debezium.shop.cleared", "shop", "cleared", True, True)
# A truncate is one of all keys of its table, so the example of it has a table of its own.
EMPTIED: Final = Source("debezium.shop.emptied", "shop", "emptied")
SOURCES: Final = (METERS, TICKETS, GAUGES, CLEARED, BRANCHES, EMPTIED)
TABLES: Final = [source.table for source in SOURCES]
MODULES: Final = (history_tables, partial_tables, shard_tables)
HISTORY: Final = "meters_history"


class Deleted(NamedTuple):
    """The deleted row 0 of an example: when it was deleted, in minutes, by which step, and what it
    was.
    """

    at: float
    step: int
    image: Image


class Example(NamedTuple):
    """Changes of row 0; what is kept of it, None if it is live."""

    name: str
    source: Source
    steps: list[Step]
    deleted: Deleted | None


ONE, TWO, THREE = row(1), row(2), row(3)
# The numbers of the other modules' examples end below.
FIRST: Final = 300
EXAMPLES: Final = [
    Example("a delete", TICKETS, [insert(10, ONE), delete(20)], Deleted(20, 1, ONE)),
    Example(
        "deleted twice: the first counts",
        TICKETS,
        [insert(10, ONE), delete(20), delete(30, run=1)],
        Deleted(20, 1, ONE),
    ),
    Example(
        "a row that comes back is live",
        TICKETS,
        [insert(10, ONE), delete(20), insert(30, TWO, run=1)],
        None,
    ),
    Example(
        "and is deleted again",
        TICKETS,
        [insert(10, ONE), delete(20), insert(30, row(2), run=1), delete(40, run=2)],
        Deleted(40, 3, TWO),
    ),
    Example(
        "a column that was left as it was",
        TICKETS,
        [
            insert(10, row(1, "a", "long")),
            update(20, row(2, "b", UNAVAILABLE)),
            delete(30, run=1),
        ],
        Deleted(30, 2, row(2, "b", "long")),
    ),
    Example(
        "what the delete ships, if nothing else is known",
        TICKETS,
        [delete(20, before=row(1, "a", "whole"))],
        Deleted(20, 0, row(1, "a", "whole")),
    ),
    Example("nothing is known", TICKETS, [delete(20, before=NOTHING)], Deleted(20, 0, row())),
    Example(
        "what lands late is before the delete",
        TICKETS,
        [insert(10, ONE), update(15, TWO, run=1), delete(20)],
        Deleted(20, 2, TWO),
    ),
    Example(
        "an update of the key deletes the old row",
        TICKETS,
        [insert(10, ONE), update(20, TWO, key=1, previous_key=0, run=1)],
        Deleted(20, 1, ONE),
    ),
    Example(
        "a late write into a deleted row's past",
        METERS,
        [write(10, ONE), delete(30), write(20, TWO, run=1)],
        Deleted(30, 1, TWO),
    ),
    Example(
        "one from before its last write changes nothing",
        METERS,
        [write(20, TWO), delete(30), write(10, ONE, run=1)],
        Deleted(30, 1, TWO),
    ),
    Example(
        "a write behind the delete brings it back",
        METERS,
        [write(10, ONE), delete(30), write(40, TWO, run=1)],
        None,
    ),
    Example(
        "a delete that comes late",
        METERS,
        [write(10, ONE), delete(30), delete(20, run=1)],
        Deleted(20, 2, ONE),
    ),
    Example(
        "a delete without a set",
        METERS,
        [write(10, ONE), delete(20, has_set=False, run=1)],
        Deleted(20, 1, ONE),
    ),
    Example(
        "a row that expires rests on its write",
        METERS,
        [write(10, ONE, expires=200)],
        Deleted(200, 0, ONE),
    ),
    Example(
        "a delete of an expired row deletes nothing",
        METERS,
        [write(10, ONE, expires=20), delete(30, run=1)],
        Deleted(20, 0, ONE),
    ),
    Example(
        "late events on different columns",
        GAUGES,
        [
            write(10, row(1, "old", "old")),
            delete(50),
            write(40, {"level": 4}, run=1),
            write(30, {"label": "new"}, run=2),
        ],
        Deleted(50, 1, row(4, "new", "old")),
    ),
    Example(
        "a truncate deletes, though it lands late",
        EMPTIED,
        [insert(10, ONE), truncate(20, run=1), delete(30)],
        Deleted(20, 1, ONE),
    ),
]


def kept(rows: Sequence[Row], source: Source, number: int) -> Deleted | None:
    """What a table keeps of row 0 of an example."""
    place = key_value(source, example_key(FIRST + number))
    (found,) = (each for each in rows if each[key_column(source)] == place)
    at = minute(found["_deleted_at"])
    image = {name: found[name] for name in COLUMNS}
    return None if at is None else Deleted(at, found["_position"]["offset"], image)


class Built(NamedTuple):
    """A lake in which all has come in three runs: how tables differed after each, their rows in the
    end, and which a run with nothing new has changed.
    """

    lake: RowLake
    differences: list[dict[str, list[str]]]
    rows: dict[str, list[Row]]
    changed_by_nothing: list[str]


def gold_of(source: Source, *, deleted_rows: bool = True) -> Gold:
    gold = current_state(log_of(source), deleted_rows=deleted_rows)
    more = [{test: {"name": f"{source.table}_{test}"}} for test in ("unique_key", "no_absent_keys")]
    return replace(gold, data_tests=[*gold.data_tests, *more])


def stream(clone: int) -> list[Event]:
    events = [event for module in MODULES for event in module.stream(clone)]
    events += debezium_stream(CLEARED, clone, clone, truncates=0.1)
    return [event for event in events if event.source in SOURCES]


def rows_of(lake: RowLake) -> dict[str, list[Row]]:
    return {table: sorted(lake.lake.read(f"gold.{table}"), key=str) for table in TABLES}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("deleted")
    project = small_project(folder / "project", quarantine=True)
    for source in SOURCES:
        add_change_log(project, source)
        add_gold(project, gold_of(source))
    add_gold(project, history(log_of(METERS), HISTORY))
    lake = RowLake(Lake(folder, project))
    batches = in_runs([stream(clone) for clone in range(len(BATCHINGS))], len(RUNS))
    for number, example in enumerate(EXAMPLES):
        for run, event in events_of(example.source, FIRST + number, example.steps):
            batches[run].append(event)
    found = []
    for as_of, batch in zip(RUNS, batches, strict=True):
        lake.run(events=batch, as_of=as_of)
        rows = rows_of(lake)
        found.append(
            {
                source.table: differences(
                    expected_with_deleted(source, lake.landed, as_of), rows[source.table]
                )
                for source in SOURCES
            }
        )
    before = {table: lake.lake.current_snapshot(f"gold.{table}") for table in TABLES}
    lake.run()
    changed = [
        table for table in TABLES if lake.lake.current_snapshot(f"gold.{table}") != before[table]
    ]
    return Built(lake, found, rows, changed)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: Built, run: int, table: str) -> None:
    assert built.differences[run][table] == []


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)


@each_example
def test_examples(built: Built, number: int) -> None:
    source = EXAMPLES[number].source
    assert kept(built.rows[source.table], source, number) == EXAMPLES[number].deleted


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    source = EXAMPLES[number].source
    events = [event for _, event in events_of(source, FIRST + number, EXAMPLES[number].steps)]
    rows = [*expected_with_deleted(source, events, LAST).rows.values()]
    assert kept(rows, source, number) == EXAMPLES[number].deleted


def test_the_stream_holds_every_situation(built: Built) -> None:
    for table in TABLES[:-1]:
        assert {each["_deleted_at"] is None for each in built.rows[table]} == {True, False}
    # Of whole rows, each has a level or a text.
    unknown = [each for each in built.rows["tickets"] if not any(each[name] for name in COLUMNS)]
    assert unknown


def test_a_run_with_nothing_new_commits_nothing(built: Built) -> None:
    assert built.changed_by_nothing == []


def test_the_data_tests_pass_and_find_what_is_wrong(built: Built) -> None:
    names = [
        f"{table}_{test}"
        for table in TABLES
        for test in ("equals_refold", "unique_key", "no_absent_keys")
    ]
    names.append(f"{HISTORY}_is_history")
    assert built.lake.data_tests(*names) == dict.fromkeys(names, "pass")
    assert built.lake.lake.broken_sums() == []
    with built.lake.lake.tampered(
        "update gold.tickets set label = 'other' where _deleted_at is not null",
        "update gold.meters set _deleted_at = null where _deleted_at is not null",
        "delete from gold.gauges where _deleted_at is not null",
        "update gold.branches set _deleted_at = _occurred_at where _deleted_at is null",
    ):
        wrong = [f"{table}_equals_refold" for table in ("tickets", "meters", "gauges", "branches")]
        assert built.lake.data_tests(*wrong) == dict.fromkeys(wrong, "fail")


def test_why_a_deleted_row_is_no_live_one(built: Built) -> None:
    """With a delete without a set, which the table has read for itself."""
    reader = built.lake.lake.reader()
    with built.lake.lake.dbt_folders():
        graph = read_manifest(built.lake.lake.load()).nodes
    number = next(n for n, each in enumerate(EXAMPLES) if each.name == "a delete without a set")
    key = json.dumps({"digest": key_value(METERS, example_key(FIRST + number))})
    answer = why(reader, keyed_table(graph, "meters"), key)
    assert (answer.reason, answer.differences, answer.row) == (Reason.DELETED, [], None)
    assert [each.fate for each in answer.events] == ["applied", "delete"]


@pytest.mark.parametrize(
    ("source", "deletes"),
    [
        (METERS, "silver.set_less_deletes"),
        # It needs less.
        pytest.param(TICKETS, None, marks=pytest.mark.long),
    ],
    ids=["meters", "tickets"],
)
def test_as_one_statement_it_is_the_same(built: Built, source: Source, deletes: str | None) -> None:
    """What `dbt show` shows."""
    lake = built.lake.lake
    with lake.dbt_folders():
        graph = read_manifest(lake.load()).nodes
    table = source.table
    fold = fold_of_model(graph, node_named(graph, table))
    held = f"select * from gold.{table}"
    shown = rows_of_all(fold, f"silver.{table}_changes", deletes, as_of_text(LAST))
    for one, other in ((shown, held), (held, shown)):
        assert lake.sql(f"select * from ({one}) except all select * from ({other})") == []


# In CI, test_source_order (test_another_order_makes_the_log_and_its_tables_anew) changes a
# declaration, and what tables hold with deleted rows and without is compared with the
# reference.
@pytest.mark.long
def test_it_is_turned_off_and_on(built: Built) -> None:
    """Each makes the table anew, from the log: it has what it would have had from the start."""
    project = built.lake.lake.project
    for source in (METERS, TICKETS):
        add_gold(project, gold_of(source, deleted_rows=False))
    built.lake.run("-s", "meters", "tickets")
    for source in (METERS, TICKETS):
        expected = expected_state(source, built.lake.landed, LAST)
        rows = built.lake.lake.read(f"gold.{source.table}")
        assert differences(expected, rows) == []
        assert "_deleted_at" not in rows[0]
    for source in (METERS, TICKETS):
        add_gold(project, gold_of(source))
    statuses = built.lake.lake.outcomes("run", "-s", "meters", "tickets", as_of=as_of_text(LAST))
    assert {each.status for each in statuses.values()} == {"success"}
    assert "gold.meters is rebuilt: its declaration has changed (deleted rows)" in (
        built.lake.lake.log_text()
    )
    assert rows_of(built.lake) == built.rows
    tests = [f"{table}_no_absent_keys" for table in ("meters", "tickets")]
    assert built.lake.data_tests(*tests) == dict.fromkeys(tests, "pass")


def test_a_forgotten_key_has_no_deleted_row(built: Built) -> None:
    lake = built.lake.lake
    key = example_key(FIRST)
    assert [each["id"] for each in built.rows["tickets"]].count(key) == 1
    with lake.dbt_folders():
        forget(lake.load(), Options(table="tickets", keys=[json.dumps({"id": key})]))
    for rows in (lake.read("gold.tickets"), lake.read("silver.tickets_changes")):
        assert key not in [each["id"] for each in rows]
    built.lake.run("-s", "+tickets")
    left = [each for each in built.rows["tickets"] if each["id"] != key]
    assert sorted(lake.read("gold.tickets"), key=str) == left


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ({"key": {}, "keyless": True}, "a table without a key keeps no deleted rows"),
        (
            {"key": {"id": "bigint"}, "columns": {"_deleted_at": "timestamp"}},
            "a table with deleted_rows has a column _deleted_at of its own",
        ),
    ],
)
def test_what_can_keep_no_deleted_rows(log: dict[str, Any], message: str) -> None:
    of: dict[str, Any] = {"source_table": "orders", "source_schema": None, "source_database": None}
    of |= {"topic": None, "where": None, "keyless": False, "partial": False}
    declared = change_log({**of, "order_by_source_time": None, "columns": {}, **log})
    with pytest.raises(CompilationError, match=message):
        fold_of_log.fold(declared, deleted_rows=True)
