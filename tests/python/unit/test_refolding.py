"""Histories, tables without a key and their data tests, without Spark: what a run of theirs does,
and that its statements are whole for every shape of a table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest
from dbt_common.exceptions import CompilationError
from support.metadata import UUID, commit, row, table
from test_declarations import aerospike_log, log
from test_model_run import made_of
from test_templates import faults

from dbt_lakehouse.build.folding import Refolding
from dbt_lakehouse.build.history import History, history_sql
from dbt_lakehouse.build.keyless import KeylessRows, current_rows_sql
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import Model
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.build.tested import FOLD_TESTS, FoldTests
from dbt_lakehouse.declared import fold_of_log
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.marks import Mark, noted
from dbt_lakehouse.runs.model_run import AS_OF, NodeRun

NOW, LATER = "2026-11-27 10:00:00.000000", "2026-11-27 11:00:00.000000"


@dataclass(frozen=True)
class Relation:
    """A table as dbt names it."""

    schema: str
    identifier: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


OWN, GOLD = Relation("gold", "orders"), Relation("gold", "current_orders")
LOG: Final = Relation("silver", "orders_changes")
SET_LESS, REMEMBERED = Relation("silver", "set_less_deletes"), Relation("silver", "deleted_keys")
BESIDE: Final = {"type": "bigint", "from": "metadata", "path": "source.lsn"}


@dataclass
class RecordedLake:
    """What a model asks, with what it is told: the statements are kept, and none is run. Those that
    find out whether what is new comes last are kept apart; it does not if it ``is_late``.
    """

    run: NodeRun
    touched: int = 1
    may_have: bool = False
    resting: bool = False
    is_late: bool = True
    held: Mapping[str, str] = field(default_factory=lambda: {"id": "int", "note": "string"})
    lost: int = 0
    statements: list[str] = field(default_factory=list)
    judging: list[str] = field(default_factory=list)
    notes: list[Mapping[str, Any]] = field(default_factory=list)
    views: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Each part of the lake is all of it.
        self.sql = self.catalog = self.runs = self.commits = self.declared = self

    def query(self, sql: str) -> list[dict[str, Any]]:
        if sql.endswith("limit 1"):
            self.judging.append(sql)
            return []
        if "as unplaced" in sql:
            self.judging.append(sql)
            return [{"late": int(self.is_late), "unplaced": 1, "log_time": 0, "time": 0}]
        self.statements.append(sql)
        return [{"lost": self.lost}]

    def evaluate(self, name: str, query: str) -> int:
        self.views.append(name)
        if name.endswith(("__news", "__open")):
            self.judging.append(query)
            return 1
        self.statements.append(query)
        return self.touched

    def define(self, name: str, query: str) -> None:
        self.views.append(name)
        self.judging.append(query)

    def hold_key_ranges_of(self, name: str, rows: str, column: str) -> list[list[str]]:
        return [["1", "2"]]

    def drop_evaluated(self, prefix: str) -> None:
        self.views = [view for view in self.views if not view.startswith(prefix)]

    def write_table(self, this: Any, statement: str, notes: Mapping[str, Any]) -> str:
        self.statements.append(statement)
        self.notes.append(notes)
        return "written"

    replace = write_table

    def note(self, this: Any, notes: Mapping[str, Any]) -> None:
        self.notes.append(notes)

    def note_moved(self, this: Any) -> None:
        pass

    def tell(self, message: str) -> None:
        pass

    def follow_schema(self, this: Any, query: str) -> None:
        self.statements.append(query)

    def check_contract(self, model: Any, of: Fold, columns: list[str]) -> None:
        of.typed(columns)

    def run_of(self, this: Any) -> NodeRun:
        return self.run

    def run_to_test(self, relation: Any) -> NodeRun | None:
        return self.run if self.run.is_incremental else None

    def look_at(self, relation: Any) -> Table:
        return table([commit(1, notes={AS_OF: NOW})])

    def log_of_model(self, model: Any) -> Relation:
        return LOG

    def relation_of(self, name: str) -> Relation:
        return Relation("silver", name)

    def pinned_own(self, this: Any) -> str:
        return f"{this} version as of 1000"

    def columns_of(self, relation: Any) -> Mapping[str, str]:
        return self.held

    def columns_kept(self, this: Any, of: Fold) -> list[str]:
        return of.columns

    def may_have_rows(self, relation: Any, conditions: Any, since: int = 0) -> bool:
        return self.may_have

    def may_have_new_rows(self, run: NodeRun, upstream: Any, conditions: Any) -> bool:
        return self.may_have

    def has_key_updates(self, run: NodeRun, upstream: Any) -> bool:
        return self.resting

    def data_tests(self, of: Fold, current: Relation | None = None) -> FoldTests:
        return FoldTests(cast(Lake, self), OWN, of, LATER, current)


def run_of(
    of: Fold,
    upstreams: list[Relation],
    *,
    made: Fold | None = None,
    notes: Mapping[str, str] | None = None,
    news: bool = True,
) -> NodeRun:
    """A run of a table that was made of a fold, or of a new one, with news upstream or without."""
    tables = {str(each): table(row(1, 2, 3) if news else row(1, 2)) for each in upstreams}
    if made is not None:
        marks = noted({str(each): Mark(UUID, "2000", 2) for each in upstreams})
        tables[str(OWN)] = made_of(made, {**marks, **(notes or {})})
    return NodeRun(tables.get, OWN, upstreams, of, refolds=True)


def upstreams_of(of: Fold) -> list[Relation]:
    return [LOG] if of.namespace is None else [LOG, SET_LESS]


def built(kind: type[Refolding], lake: RecordedLake, sql: str) -> str:
    """The message of a table that is built."""
    model = Model(OWN, {"name": "orders"}, sql, LATER, lambda query: f"create table t as {query}")
    return kind(cast(Lake, lake), model).build().message


KEYED: Final = {
    "plain": log(),
    "of a composite key": log(key={"id": "int", "line no": "string"}),
    "ordered by source time": log(order_by_source_time=True),
    "partial": log(partial=True),
    "partial and ordered by source time": log(partial=True, order_by_source_time=True),
    "of several sources": log(source_schema="*"),
    "without columns": log(columns={}),
    "with what the source says beside": log(columns={"note": "string", "lsn": BESIDE}),
    "of a namespace": aerospike_log(columns={"note": "string"}),
    "of a namespace, partial": aerospike_log(columns={"note": "string"}, partial=True),
    "of a namespace, as logged": aerospike_log(order_by_source_time=False),
}
KEYLESS: Final = {
    "plain": log(key={}, keyless=True),
    "of several sources": log(key={}, keyless=True, source_schema="*"),
    "with what the source says beside": log(
        key={}, keyless=True, columns={"note": "string", "lsn": BESIDE}
    ),
}
each_keyed = pytest.mark.parametrize("shape", KEYED)
each_keyless = pytest.mark.parametrize("shape", KEYLESS)


def history_of(shape: str, tracked: bool = False, columns: list[str] | None = None) -> Fold:
    names = [name for name in fold_of_log.fold(KEYED[shape]).columns if name[1] != "_"]
    track = [names[0].strip("`")] if tracked and names else None
    return fold_of_log.fold(KEYED[shape], columns, track, is_history=True)


@each_keyed
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("may_have", [False, True])
def test_statements_of_a_history_are_whole(shape: str, tracked: bool, may_have: bool) -> None:
    of = history_of(shape, tracked)
    upstreams = upstreams_of(of)
    run = run_of(of, upstreams, made=history_of(shape, tracked, None if tracked else []))
    assert run.is_incremental
    assert bool(run.to_fill) == (not tracked and "without" not in shape), run.to_fill
    lake = RecordedLake(run, may_have=may_have, resting=may_have)
    sql = history_sql(OWN, of, upstreams, LATER, run)
    assert "left semi join gold__orders__touched using" in sql
    assert built(History, lake, sql) == "written"
    # What is touched, the versions, the table; before that, the schema of one that is made anew.
    assert len(lake.statements) == 3 + bool(run.to_fill)
    assert [faults(each) for each in lake.statements] == [[] for _ in lake.statements]
    assert [faults(each) for each in lake.judging] == [[] for _ in lake.judging]
    assert (lake.notes, lake.views) == ([{AS_OF: LATER}], [])


@each_keyed
def test_what_is_shown_of_a_history_is_what_a_first_run_makes_it_of(shape: str) -> None:
    of = history_of(shape)
    upstreams = upstreams_of(of)
    run = run_of(of, upstreams)
    shown, sql = (history_sql(OWN, of, upstreams, LATER, each) for each in (None, run))
    for each in upstreams:
        assert f"from {each} version as of 3000" in sql
    assert sql.replace(" version as of 3000", "") == shown
    assert "touched" not in shown
    assert faults(shown) == []
    lake = RecordedLake(run)
    assert built(History, lake, sql) == "written"
    # Its open versions are together, for later runs.
    whole = render("versions_in_order", versions=sql, key=of.key)
    assert lake.statements == [f"create table t as {whole}"]
    assert "sort by is_current, " in whole


@each_keyless
def test_statements_of_a_table_without_a_key_are_whole(shape: str) -> None:
    of = fold_of_log.fold(KEYLESS[shape])
    sql = current_rows_sql(of, LOG)
    assert faults(sql) == []
    first = RecordedLake(run_of(of, [LOG]))
    assert built(KeylessRows, first, sql) == "written"
    assert first.statements == [f"create table t as {sql}"]
    lake = RecordedLake(run_of(of, [LOG], made=of))
    assert built(KeylessRows, lake, sql) == "written"
    touched, rows, merge = lake.statements
    assert [faults(each) for each in lake.statements] == [[], [], []]
    assert [faults(each) for each in lake.judging] == [[] for _ in lake.judging]
    assert "'start-snapshot-id' = '2000'" in touched
    # All that the log has of them.
    assert f"from {LOG} version as of 3000 as changes" in rows
    assert "left semi join gold__orders__touched using (_row)" in merge


PLACED_BY_LOG: Final = [
    each
    for each, declared in KEYED.items()
    if declared["namespace"] is None and each != "of several sources"
]


@pytest.mark.parametrize("shape", PLACED_BY_LOG)
@pytest.mark.parametrize("tracked", [False, True])
def test_news_that_comes_last_is_folded_from_open_versions(shape: str, tracked: bool) -> None:
    of = history_of(shape, tracked)
    lake = RecordedLake(run_of(of, [LOG], made=of), is_late=False)
    assert built(History, lake, history_sql(OWN, of, [LOG], LATER, lake.run)) == "written"
    folded, merge = lake.statements
    assert "select * from gold__orders__known_and_news" in folded
    assert "target.is_current" in merge
    # The news, the open versions, the judgement of each key, what it says of all of them, the log's
    # answer, and what is folded.
    assert len(lake.judging) == 6
    assert [faults(each) for each in lake.statements + lake.judging] == [[]] * 8
    assert (lake.notes, lake.views) == ([{AS_OF: LATER}], [])


@each_keyless
def test_steps_that_come_last_are_counted_with_the_copies(shape: str) -> None:
    of = fold_of_log.fold(KEYLESS[shape])
    lake = RecordedLake(run_of(of, [LOG], made=of), is_late=False)
    assert built(KeylessRows, lake, current_rows_sql(of, LOG)) == "written"
    _touched, rows, _merge = lake.statements
    assert "gold__orders__known_steps" in rows
    # Whether there is a truncate, the news, what is said of all rows, the log's answer, the steps.
    assert len(lake.judging) == 5
    assert [faults(each) for each in lake.statements + lake.judging] == [[]] * 8


def test_a_history_without_news_is_left_alone() -> None:
    of = history_of("plain")
    lake = RecordedLake(run_of(of, [LOG], made=of, news=False))
    assert built(History, lake, "select 1") == "nothing new"
    assert (lake.statements, lake.notes) == ([], [])


@pytest.mark.parametrize(
    ("shape", "why"), [("of a namespace", {"may_have": True}), ("plain", {"resting": True})]
)
def test_a_history_without_news_may_have_something_to_do(shape: str, why: dict[str, Any]) -> None:
    """Rows that expire, and rows that got values of another key's."""
    of = history_of(shape)
    lake = RecordedLake(run_of(of, upstreams_of(of), made=of, news=False), **why)
    assert built(History, lake, "select 1") == "written"


def test_what_is_read_is_noted_if_nothing_is_touched() -> None:
    of = history_of("plain")
    lake = RecordedLake(run_of(of, [LOG], made=of), touched=0)
    assert built(History, lake, "select 1") == "nothing is touched"
    assert len(lake.statements) == 1
    assert lake.notes == [{AS_OF: LATER}]


def test_a_new_truncate_touches_all_keys() -> None:
    of = history_of("plain")
    touched = {}
    for may_have in (False, True):
        lake = RecordedLake(run_of(of, [LOG], made=of), may_have=may_have)
        built(History, lake, "select 1")
        touched[may_have] = lake.statements[0]
    assert "_operation = 'truncate'" in touched[True]
    assert "_operation = 'truncate'" not in touched[False]


def test_a_moment_before_the_tables_is_refused() -> None:
    of = history_of("of a namespace")
    later = "2026-11-27 12:00:00.000000"
    lake = RecordedLake(run_of(of, upstreams_of(of), made=of, notes={AS_OF: later}))
    with pytest.raises(CompilationError, match="rows that expired in between"):
        built(History, lake, "select 1")
    assert lake.statements == []


@pytest.mark.parametrize(
    ("kind", "of", "what"),
    [
        (History, history_of("plain"), "of its rows have values"),
        (KeylessRows, fold_of_log.fold(KEYLESS["plain"]), "of its rows are"),
    ],
)
def test_what_a_rebuild_would_lose_is_counted(kind: type[Refolding], of: Fold, what: str) -> None:
    lake = RecordedLake(run_of(of, [LOG], made=of))
    model = Model(OWN, {"name": "orders"}, "", LATER, str)
    (loss,) = kind(cast(Lake, lake), model).losses()
    assert loss.what == what
    assert faults(loss.query) == []


@pytest.mark.parametrize("was", [True, False])
def test_a_value_is_not_held_against_its_mask(was: bool) -> None:
    masked, plain = (
        fold_of_log.fold(log(key={}, keyless=True, columns={"note": note, "amount": "int"}))
        for note in ({"type": "string", "mask": "last4"}, "string")
    )
    before, after = (masked, plain) if was else (plain, masked)
    lake = RecordedLake(run_of(after, [LOG], made=before))
    model = Model(OWN, {"name": "orders"}, "", LATER, str)
    (loss,) = KeylessRows(cast(Lake, lake), model).losses()
    assert loss.query.count("to_json(struct(`amount`)") == 2


def test_nothing_can_be_compared_in_a_history_of_another_key() -> None:
    of = history_of("plain")
    # Such a key is one that got a mask, too: a number and its hash.
    for held in ({"other": "int"}, {"id": "string"}):
        lake = RecordedLake(run_of(of, [LOG], made=of), held=held)
        assert [*History(cast(Lake, lake), Model(OWN, {}, "", LATER, str)).losses()] == []
    narrower = RecordedLake(run_of(of, [LOG], made=of), held={"id": "smallint"})
    assert [*History(cast(Lake, narrower), Model(OWN, {}, "", LATER, str)).losses()] != []


@each_keyed
@pytest.mark.parametrize("may_have", [False, True])
def test_data_tests_are_whole(shape: str, may_have: bool) -> None:
    """Of the keys that the command may have changed, or of all."""
    of, gold = history_of(shape, tracked=True), fold_of_log.fold(KEYED[shape])
    history = RecordedLake(run_of(of, upstreams_of(of), made=of), may_have=may_have)
    queries = {"is_history": FOLD_TESTS["is_history"](history.data_tests(of, GOLD))}
    lake = RecordedLake(run_of(gold, [LOG, REMEMBERED], made=gold), may_have=may_have)
    others = FOLD_TESTS.keys() - queries
    queries |= {name: FOLD_TESTS[name](lake.data_tests(gold)) for name in others}
    for name, sql in queries.items():
        assert faults(sql) == [], name
        assert ("'start-snapshot-id' = '2000'" in sql) is not may_have, name
    # As of when the table was built, not of now.
    assert NOW in queries["equals_refold"] and LATER not in queries["equals_refold"]
