"""Gold tables that keep deleted rows, through dbt: streams and examples against the reference."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pytest
from dbt_common.exceptions import CompilationError
from support.deleted_tables import (
    EXAMPLES,
    FIRST,
    HISTORY_TEST,
    TABLES,
    Deleted,
    gold_of,
    table_of,
)
from support.expected_gold import Row
from support.history_tables import METERS, TICKETS
from support.lakes import as_of_text
from support.partial_tables import GAUGES
from support.row_events import COLUMNS, Source, key_value
from support.row_examples import events_of, example_key, minute
from support.row_lake import (
    LAST,
    RUNS,
    differences,
    expected_state,
    expected_with_deleted,
    key_column,
)
from support.shard_tables import BRANCHES
from support.small_project import add_gold

from dbt_lakehouse.build.deleted_rows import rows_of_all
from dbt_lakehouse.commands.forget.forget_steps import Options, forget
from dbt_lakehouse.commands.why.events import keyed_table
from dbt_lakehouse.commands.why.explained_row import why
from dbt_lakehouse.commands.why.why_output import Reason
from dbt_lakehouse.declared import fold_of_log
from dbt_lakehouse.declared.declarations import change_log
from dbt_lakehouse.runs.graph import fold_of_model, node_named
from dbt_lakehouse.session.dbt_commands import read_manifest

if TYPE_CHECKING:
    from support.built_rows import Built

pytest_plugins = ["support.built_rows"]


def kept(rows: Iterable[Row], source: Source, number: int) -> Deleted | None:
    """What a table keeps of row 0 of an example."""
    place = key_value(source, example_key(FIRST + number))
    (found,) = (each for each in rows if each[key_column(source)] == place)
    at = minute(found["_deleted_at"])
    image = {name: found[name] for name in COLUMNS}
    return None if at is None else Deleted(at, found["_position"]["offset"], image)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("run", range(len(RUNS)))
def test_tables_equal_the_reference_after_each_run(built: "Built", run: int, table: str) -> None:
    assert built.differences[run][table] == []


each_example = pytest.mark.parametrize(
    "number", range(len(EXAMPLES)), ids=[example.name for example in EXAMPLES]
)


@each_example
def test_examples(built: "Built", number: int) -> None:
    source = EXAMPLES[number].source
    assert kept(built.rows[table_of(source)], source, number) == EXAMPLES[number].deleted


@each_example
def test_the_reference_gives_the_examples(number: int) -> None:
    source = EXAMPLES[number].source
    events = [event for _, event in events_of(source, FIRST + number, EXAMPLES[number].steps)]
    rows = [*expected_with_deleted(source, events, LAST).rows.values()]
    assert kept(rows, source, number) == EXAMPLES[number].deleted


def test_the_stream_holds_every_situation(built: "Built") -> None:
    for table in TABLES[:-1]:
        assert {each["_deleted_at"] is None for each in built.rows[table]} == {True, False}
    # Of whole rows, each has a level or a text.
    unknown = [
        each for each in built.rows["tickets_kept"] if not any(each[name] for name in COLUMNS)
    ]
    assert unknown


def test_a_run_with_nothing_new_commits_nothing(built: "Built") -> None:
    assert not built.changed_by_nothing & {*TABLES}


def test_the_data_tests_pass_and_find_what_is_wrong(built: "Built") -> None:
    names = [
        f"{table}_{test}"
        for table in TABLES
        for test in ("equals_refold", "unique_key", "no_absent_keys")
    ]
    names.append(HISTORY_TEST)
    assert built.lake.data_tests(*names) == dict.fromkeys(names, "pass")
    assert built.broken_sums == []
    with built.lake.lake.tampered(
        "update gold.tickets_kept set label = 'other' where _deleted_at is not null",
        "update gold.meters_kept set _deleted_at = null where _deleted_at is not null",
        "delete from gold.gauges_kept where _deleted_at is not null",
        "update gold.branches_kept set _deleted_at = _occurred_at where _deleted_at is null",
    ):
        altered = (TICKETS, METERS, GAUGES, BRANCHES)
        wrong = [f"{table_of(source)}_equals_refold" for source in altered]
        assert built.lake.data_tests(*wrong) == dict.fromkeys(wrong, "fail")


def test_why_a_deleted_row_is_no_live_one(built: "Built") -> None:
    """With a delete without a set, which the table has read for itself."""
    reader = built.lake.lake.reader()
    with built.lake.lake.dbt_folders():
        graph = read_manifest(built.lake.lake.load()).nodes
    number = next(n for n, each in enumerate(EXAMPLES) if each.name == "a delete without a set")
    key = json.dumps({"digest": key_value(METERS, example_key(FIRST + number))})
    answer = why(reader, keyed_table(graph, table_of(METERS)), key)
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
def test_as_one_statement_it_is_the_same(
    built: "Built", source: Source, deletes: str | None
) -> None:
    """What `dbt show` shows."""
    lake = built.lake.lake
    with lake.dbt_folders():
        graph = read_manifest(lake.load()).nodes
    table = table_of(source)
    fold = fold_of_model(graph, node_named(graph, table))
    held = f"select * from gold.{table}"
    shown = rows_of_all(fold, f"silver.{source.table}_changes", deletes, as_of_text(LAST))
    for one, other in ((shown, held), (held, shown)):
        assert lake.sql(f"select * from ({one}) except all select * from ({other})") == []


# In CI, test_source_order (test_another_order_makes_the_log_and_its_tables_anew) changes a
# declaration, and what tables hold with deleted rows and without is compared with the
# reference.
@pytest.mark.long
def test_it_is_turned_off_and_on(built: "Built") -> None:
    """Each makes the table anew, from the log: it has what it would have had from the start."""
    lake = built.lake.lake
    tables = [table_of(source) for source in (METERS, TICKETS)]
    for source in (METERS, TICKETS):
        add_gold(lake.project, gold_of(source, deleted_rows=False))
    built.lake.run("-s", *tables)
    for source in (METERS, TICKETS):
        expected = expected_state(source, built.lake.landed, LAST)
        rows = lake.read(f"gold.{table_of(source)}")
        assert differences(expected, rows) == []
        assert "_deleted_at" not in rows[0]
    for source in (METERS, TICKETS):
        add_gold(lake.project, gold_of(source))
    statuses = lake.outcomes("run", "-s", *tables, as_of=as_of_text(LAST))
    assert {each.status for each in statuses.values()} == {"success"}
    rebuilt = "gold.meters_kept is rebuilt: its declaration has changed (deleted rows)"
    assert rebuilt in lake.log_text()
    for table in TABLES:
        assert sorted(lake.read(f"gold.{table}"), key=str) == built.rows[table]
    tests = [f"{table}_no_absent_keys" for table in tables]
    assert built.lake.data_tests(*tests) == dict.fromkeys(tests, "pass")


def test_a_forgotten_key_has_no_deleted_row(built: "Built") -> None:
    lake, table = built.lake.lake, table_of(TICKETS)
    key = example_key(FIRST)
    assert [each["id"] for each in built.rows[table]].count(key) == 1
    # What other tests look at is there again behind this one.
    with lake.tampered():
        with lake.dbt_folders():
            forget(lake.load(), Options(table=table, keys=[json.dumps({"id": key})]))
        for rows in (lake.read(f"gold.{table}"), lake.read("silver.tickets_changes")):
            assert key not in [each["id"] for each in rows]
        built.lake.run("-s", f"+{table}")
        left = [each for each in built.rows[table] if each["id"] != key]
        assert sorted(lake.read(f"gold.{table}"), key=str) == left
    lake.sql("drop table bronze.forgotten purge")


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
