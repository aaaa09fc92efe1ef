"""What a model's run decides from its table and those that it reads."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from dbt_common.exceptions import CompilationError
from support.metadata import UUID, commit, is_behind, row, table

from dbt_lakehouse.declared import declarations, fold_of_log, redeclared
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import graph
from dbt_lakehouse.runs.decisions import Newest
from dbt_lakehouse.runs.marks import Mark, Window, marks_of, noted
from dbt_lakehouse.runs.model_run import (
    AS_OF,
    DECLARED,
    HORIZON,
    LEAVES,
    NEWEST,
    PURGED,
    NodeRun,
    carried,
    keeping,
    kept,
)

OWN, LOG, DELETES = "gold.orders", "silver.orders_changes", "silver.set_less_deletes"


def declare(key: Mapping[str, str] | None = None, **but: Any) -> dict[str, Any]:
    """What a change log's meta keeps."""
    arguments = {
        "columns": {"note": "string", "amount": "int"},
        "source_table": "orders",
        "source_schema": None,
        "source_database": "shop",
        "key": {"id": "int"} if key is None else key,
        "keyless": False,
        "partial": False,
        "order_by_source_time": None,
    }
    return declarations.change_log(arguments | but)


def fold(some: list[str] | None = None, **but: Any) -> Fold:
    return fold_of_log.fold(declare(**but), some)


def read(**numbers: int) -> dict[str, str]:
    """Notes of marks on upstreams, up to those of their commits."""
    names = {"log": LOG, "deletes": DELETES}
    return noted({names[name]: Mark(UUID, f"{at * 1000}", at) for name, at in numbers.items()})


def made_of(of: Any, notes: Mapping[str, str]) -> Table:
    """A model's table, of one commit."""
    text = redeclared.declared(of)
    notes = {**notes, DECLARED: declarations.digest(text)}
    return table([commit(1, notes=notes)], properties={f"{DECLARED}.{notes[DECLARED]}": text})


def run(
    tables: Mapping[str, Table],
    of: Any = None,
    upstreams: tuple[str, ...] = (LOG,),
    *,
    full_refresh: bool = False,
    merges: bool = False,
    refolds: bool = False,
) -> NodeRun:
    return NodeRun(
        tables.get, OWN, upstreams, of, full_refresh=full_refresh, merges=merges, refolds=refolds
    )


def test_a_first_build_reads_all() -> None:
    found = run({LOG: table(row(1, 2))}, fold())
    assert (found.is_incremental, found.reason, found.has_news) == (False, None, True)
    assert found.rows(LOG) == f"(select * from {LOG} version as of 2000)"
    assert found.rows_before(LOG) == f"(select * from {LOG} where false)"
    assert (found.snapshot_of(LOG), found.sequence_read(LOG)) == ("2000", 0)
    assert is_behind(found, LOG)
    assert not found.is_small
    assert not found.is_redeclared
    digest = declarations.digest(redeclared.declared(fold()))
    assert found.notes({"lakehouse.as_of": 7}) == {
        **read(log=2),
        DECLARED: digest,
        "lakehouse.as_of": "7",
    }
    assert found.properties() == {f"{DECLARED}.{digest}": redeclared.declared(fold())}


def test_a_full_refresh_reads_all_and_does_not_look_at_the_table() -> None:
    tables = {OWN: made_of(fold(), read(log=2)), LOG: table(row(1, 2))}
    found = run(tables, fold(), full_refresh=True)
    assert (found.table, found.is_incremental, found.reason) == (None, False, None)
    assert found.readings[LOG].window is Window.WHOLE
    assert found.noted(DECLARED) is None


def test_a_run_goes_on_where_the_last_one_was() -> None:
    tables = {OWN: made_of(fold(), read(log=2)), LOG: table([*row(1, 2), commit(3, 2)])}
    found = run(tables, fold())
    assert (found.is_incremental, found.reason, found.has_news) == (True, None, True)
    assert "'start-snapshot-id' = '2000'" in found.rows(LOG)
    assert found.rows_before(LOG) == f"(select * from {LOG} version as of 2000)"
    assert (found.snapshot_of(LOG), found.sequence_read(LOG)) == ("3000", 2)
    assert found.has_news_of(LOG)
    assert not found.may_read_again(LOG)
    assert is_behind(found, LOG)
    assert found.is_small
    assert not found.is_redeclared
    assert found.notes().items() >= read(log=3).items()


def test_nothing_new() -> None:
    tables = {OWN: made_of(fold(), read(log=2)), LOG: table(row(1, 2))}
    found = run(tables, fold())
    assert (found.is_incremental, found.has_news, is_behind(found, LOG)) == (True, False, False)
    # A commit without rows is none to read, and one to be behind of.
    tables[LOG] = table([*row(1, 2), commit(3, 2, "overwrite")])
    found = run(tables, fold())
    assert (found.has_news, is_behind(found, LOG)) == (False, True)


def test_what_was_read_is_known_by_number_when_its_snapshot_has_expired() -> None:
    tables = {OWN: made_of(fold(), read(log=2)), LOG: table([commit(5, 4)])}
    found = run(tables, fold())
    assert found.rows_before(LOG) == (
        f"(select * from {LOG} where _last_updated_sequence_number <= 2)"
    )
    assert found.may_read_again(LOG)
    assert not found.is_small


@pytest.mark.parametrize(("rows", "is_small"), [(199_999, True), (200_000, False)])
def test_how_many_rows_are_few(rows: int, is_small: bool) -> None:
    """Those that are appended; what is compacted has been read."""
    log = [*row(1, 2), commit(3, 2), commit(4, 3, "replace", 10**6), commit(5, 4, rows=rows)]
    tables = {OWN: made_of(fold(), read(log=2)), LOG: table(log)}
    assert run(tables, fold()).is_small is is_small


@pytest.mark.parametrize(
    ("total", "new", "suits"),
    [("5000000", 200_000, True), ("5000001", 1, False), ("7", 200_001, False), (None, 1, False)],
)
def test_little_that_is_new_to_a_small_table(total: str | None, new: int, suits: bool) -> None:
    notes = {**read(log=2), **({"total-records": total} if total else {})}
    log = table([*row(1, 2), commit(3, 2, rows=new)])
    tables = {OWN: made_of(fold(), notes), LOG: log}
    assert run(tables, fold()).suits_small is suits
    assert not run(tables, fold(), full_refresh=True).suits_small
    assert not run({LOG: log}, fold()).suits_small


@pytest.mark.parametrize(
    ("total", "new", "spares", "spares_for_a_log"),
    [
        (200_000, 5_000, True, True),
        (200_001, 1, False, True),
        (5_000_001, 1, False, False),
        (7, 5_001, False, False),
    ],
)
def test_code_is_not_compiled_for_a_few_rows(
    total: int, new: int, spares: bool, spares_for_a_log: bool
) -> None:
    notes = {**read(log=2), "total-records": str(total)}
    log = table([*row(1, 2), commit(3, 2, rows=new)])
    for of, expected in ((fold(), spares), (declare(), spares_for_a_log)):
        tables = {OWN: made_of(of, notes), LOG: log}
        assert run(tables, of).spares_compiling is expected
        assert not run(tables, of, full_refresh=True).spares_compiling


def test_a_table_that_does_not_say_what_it_was_made_of() -> None:
    found = run({OWN: table(row(1)), LOG: table(row(1, 2))}, fold())
    assert (found.is_incremental, found.is_exchanged) == (False, False)
    assert found.reason == "its upstream tables are not recorded"
    assert found.rows(LOG).endswith("version as of 2000)")


def test_an_exchanged_upstream() -> None:
    tables = {OWN: made_of(fold(), noted({"silver.other": Mark(UUID, "1000", 1)}))}
    found = run(tables | {LOG: table(row(1))}, fold())
    assert found.is_exchanged
    assert found.reason == f"it was made of silver.other, and its model reads {LOG} now"
    # One that is read besides.
    tables = {OWN: made_of(fold(), read(log=1)), LOG: table(row(1)), DELETES: table(row(1))}
    found = run(tables, fold(), (LOG, DELETES))
    assert found.is_exchanged
    assert found.reason == f"it was made of other tables, and its model reads {DELETES} now"


def test_another_declaration_that_reads_more_is_no_exchange() -> None:
    """Its rows are of the same log, so what a rebuild would lose is looked for."""
    kept = replace(fold(), deleted_rows=True)
    tables = {LOG: table(row(1)), DELETES: table(row(1))}
    found = run({OWN: made_of(fold(), read(log=1)), **tables}, kept, (LOG, DELETES))
    assert (found.reason, found.is_exchanged) == (
        "its declaration has changed (deleted rows)",
        False,
    )
    assert not found.kept_deleted_rows
    found = run({OWN: made_of(kept, read(log=1, deletes=1)), **tables}, fold())
    assert found.reason == "its declaration has changed (deleted rows)"
    assert found.kept_deleted_rows


def test_a_mark_on_what_is_no_longer_read() -> None:
    tables = {OWN: made_of(fold(), read(log=1, deletes=1)), LOG: table(row(1))}
    found = run(tables, fold())
    assert found.is_incremental
    assert found.notes().items() >= read(log=1).items()
    assert not found.notes().keys() & read(deletes=1).keys()


def test_an_upstream_that_is_gone() -> None:
    found = run({OWN: made_of(fold(), read(log=1))}, fold())
    assert found.reason == f"{LOG} is not there any more"
    first = run({}, fold())
    for gone in (found, first):
        assert not gone.is_incremental
        for ask in (gone.rows, gone.rows_before, gone.snapshot_of, gone.has_news_of):
            with pytest.raises(CompilationError, match=f"{LOG} is not there, and this model reads"):
                ask(LOG)


def test_an_upstream_with_another_history() -> None:
    tables = {OWN: made_of(fold(), read(log=2)), LOG: table(row(1, 2), current=1)}
    found = run(tables, fold())
    assert found.reason == f"{LOG} was rolled back after it was read"
    assert not found.is_exchanged
    assert found.readings[LOG].window is Window.WHOLE
    # What it was then can be looked at.
    assert found.rolled_back_from == "2000"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (table(row(1)), "was rolled back"),
        (table(row(1, 2), uuid="another"), "was dropped and created again"),
    ],
    ids=("expired", "another"),
)
def test_what_was_read_is_not_there_any_more(log: Table, reason: str) -> None:
    found = run({OWN: made_of(fold(), read(log=2)), LOG: log}, fold())
    assert found.reason == f"{LOG} {reason} after it was read"
    assert found.rolled_back_from is None


@pytest.mark.parametrize(("read_up_to", "is_trimmed"), [(1, True), (2, True), (3, False)])
def test_rows_that_were_deleted_from_what_is_folded_anew(read_up_to: int, is_trimmed: bool) -> None:
    deleted = commit(3, 2, operation="delete", rows=0)
    tables = {OWN: made_of(fold(), read(log=read_up_to)), LOG: table([*row(1, 2), deleted])}
    reason = f"rows of {LOG} were deleted after it was read"
    assert run(tables, fold(), refolds=True).reason == (reason if is_trimmed else None)
    # Others take what is new, and keep what they have of the rest.
    assert run(tables, fold()).reason is None


def test_deletes_that_were_forgotten_before_they_were_read() -> None:
    """Of an Aerospike set, whose model was not there meanwhile."""
    aerospike = fold(key={}, namespace="users", set="orders")
    notes = {**read(log=2, deletes=2), PURGED: "2"}
    for of, purged, reason in (
        (aerospike, "2", None),
        (aerospike, "3", f"{DELETES} has forgotten deletes that it had not read"),
        (fold(), "3", None),
    ):
        deletes = table([*row(1, 2), commit(3, 2, rows=0, notes={PURGED: purged})])
        tables = {OWN: made_of(of, notes), LOG: table(row(1, 2)), DELETES: deletes}
        assert run(tables, of, (LOG, DELETES)).reason == reason


def test_a_table_that_merges_reads_again_what_has_another_history() -> None:
    """Or what it has never read; a table without marks, and one of others, goes on too."""
    anew = table(row(1), uuid="another")
    for notes in (read(deletes=2), read(log=1), {}):
        found = run(
            {OWN: table([commit(1, notes=notes)]), DELETES: anew}, None, (DELETES,), merges=True
        )
        assert (found.is_incremental, found.reason, found.is_exchanged) == (True, None, False)
        assert found.rows(DELETES) == f"(select * from {DELETES} version as of 1000)"
        assert found.rows_before(DELETES) == f"(select * from {DELETES} where false)"
    found = run({OWN: table(row(1))}, None, (DELETES,), merges=True)
    assert found.reason == f"{DELETES} is not there any more"


def test_an_upstream_that_was_empty() -> None:
    own = made_of(fold(), noted({LOG: Mark(UUID, "none", 0)}))
    found = run({OWN: own, LOG: table()}, fold())
    assert (found.is_incremental, found.has_news, is_behind(found, LOG)) == (True, False, False)
    found = run({OWN: own, LOG: table(row(1))}, fold())
    assert (found.is_incremental, found.has_news, is_behind(found, LOG)) == (True, True, True)
    assert found.rows_before(LOG) == f"(select * from {LOG} where false)"


WIDER = {"note": "string", "amount": "bigint"}
MORE = {"note": "string", "amount": "int", "tax": "float"}


@pytest.mark.parametrize(
    ("after", "to_fill", "reason"),
    [
        ({"columns": MORE}, {"tax": None}, None),
        ({"columns": WIDER}, {"amount": "int"}, None),
        ({"columns": {"amount": "int", "note": "string"}}, {}, None),
        ({"columns": {"note": "string"}}, {}, "it has no column amount any more"),
        (
            {"columns": {"note": "string", "amount": "string"}},
            {},
            "column amount is declared otherwise",
        ),
        (
            {"columns": {"note": {"type": "string", "name": "n"}, "amount": "int"}},
            {},
            "column note is declared otherwise",
        ),
        ({"where": "offset > 7"}, {}, "its declaration has changed (conditions)"),
        ({"source_database": "other"}, {}, "its declaration has changed (conditions)"),
        ({"key": {"id": "int", "line": "int"}}, {}, "its declaration has changed (key)"),
        (
            {"key": {"id": "bigint"}},
            {},
            "the type of its key column id has changed (int to bigint)",
        ),
        ({"partial": True}, {}, "its declaration has changed (partial)"),
        ({"order_by_source_time": True}, {}, "its declaration has changed (order by source time)"),
        ({"order_by": "mysql"}, {}, "its declaration has changed (order by)"),
        ({"key": {}, "keyless": True}, {}, "its declaration has changed (key)"),
    ],
)
def test_a_declaration_that_has_changed(
    after: dict[str, Any], to_fill: dict[str, str | None], reason: str | None
) -> None:
    now = declare(**after)
    found = run({OWN: made_of(declare(), read(log=1)), LOG: table(row(1))}, now)
    assert (found.to_fill, found.reason) == (to_fill, reason)
    assert found.is_incremental is (reason is None)
    # Nothing new is read, and there is something to do nevertheless.
    assert found.has_news
    assert found.is_redeclared
    # What new columns are filled from may leave them as they were, and nobody has looked.
    assert (LEAVES in found.properties()) is (None in to_fill.values())


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (fold(["note"]), fold(), None),
        (fold(), fold(["note"]), "it has no column amount any more"),
        (fold(), fold(key={"id": "int", "line": "int"}), "its declaration has changed (key)"),
        # That a log has other conditions is its own matter: it is made anew itself.
        (fold(), fold(source_database="other"), None),
        (
            fold(),
            fold(source_database=["shop", "store"]),
            "its declaration has changed (several sources)",
        ),
        (
            fold(key={}, keyless=True),
            fold(key={}, keyless=True, columns=MORE),
            "the columns of a table without a key have changed",
        ),
    ],
)
def test_a_fold_that_has_changed(before: Fold, after: Fold, reason: str | None) -> None:
    found = run({OWN: made_of(before, read(log=1)), LOG: table(row(1))}, after)
    assert found.reason == reason
    assert LEAVES not in found.properties()


def test_a_key_of_another_type_is_rebuilt() -> None:
    """A log has former keys in `_previous_key` too, whose type is not widened in place."""
    tables = {OWN: made_of(fold(), read(log=1)), LOG: table(row(1))}
    found = run(tables, fold(key={"id": "bigint"}))
    reason = "the type of its key column id has changed (int to bigint)"
    assert (found.to_fill, found.reason) == ({}, reason)
    assert run(tables, fold(key={"id": "string"})).reason == "column id is declared otherwise"


def test_a_declaration_that_is_not_known() -> None:
    """A table that was made of another, whose property somebody has removed; or of none."""
    own = table([commit(1, notes={**read(log=1), DECLARED: "of another"})])
    for each in (own, table([commit(1, notes=read(log=1))])):
        found = run({OWN: each, LOG: table(row(1))}, fold())
        assert found.reason == "its earlier declaration is not known"
    # The property of the same one is not needed.
    digest = declarations.digest(redeclared.declared(fold()))
    own = table([commit(1, notes={**read(log=1), DECLARED: digest})])
    assert run({OWN: own, LOG: table(row(1))}, fold()).is_incremental


def test_what_is_noted_is_that_of_a_table_that_goes_on() -> None:
    own = made_of(fold(), {**read(log=1), AS_OF: "then", NEWEST: "5|"})
    found = run({OWN: own, LOG: table(row(1))}, fold())
    assert found.noted(AS_OF) == "then"
    assert found.newest == Newest(5, None)
    assert run({OWN: own, LOG: table(row(1), uuid="another")}, fold()).newest is None


def test_what_is_kept_speaks_of_the_rows_that_there_were() -> None:
    def after(*more: dict[str, Any], value: Any = False) -> Any:
        text = keeping(table(row(1, 2)), value)
        return kept(table([*row(1, 2), *more], properties={LEAVES: text}), LEAVES)

    assert after() is False
    assert after(value={"a": [1, None]}) == {"a": [1, None]}
    assert after(commit(3, 2, "replace"), commit(4, 3, rows=None)) is False
    assert after(commit(3, 2)) is None
    assert after(commit(3, 1)) is None
    # Its snapshot has expired.
    text = keeping(table(row(1, 2)), False)
    assert kept(table([commit(3, 2, "replace")], properties={LEAVES: text}), LEAVES) is None
    for text in ("", "{}", keeping(table(), False)):
        assert kept(table(row(1), properties={LEAVES: text}), LEAVES) is None
    assert kept(table(), LEAVES) is None
    assert json.loads(keeping(table(), 1)) == {"snapshot": "none", "value": 1}


def test_a_log_may_leave_columns_unless_it_is_known_that_it_does_not() -> None:
    log = table(row(1, 2))
    assert graph.may_leave(log)
    assert graph.may_leave(table(row(1, 2), properties={LEAVES: keeping(log, True)}))
    assert not graph.may_leave(table(row(1, 2), properties={LEAVES: keeping(log, False)}))


def test_what_is_carried_on_is_all_that_is_noted() -> None:
    """Not only what the newest commit does not say, for it is the next one to expire."""
    first = {**read(log=1), AS_OF: "then", NEWEST: "5|6", HORIZON: "long ago", DECLARED: "d"}
    commits = [commit(1, notes={**first, "other": "of Iceberg"}), commit(2, 1, "replace")]
    assert carried(table(commits)) == first
    now = {**read(log=2), DECLARED: "d", NEWEST: "7|8"}
    commits.append(commit(3, 2, notes=now))
    expected = {**first, **now}
    assert carried(table(commits)) == expected
    commits.append(commit(4, 3, rows=None, notes=expected))
    assert carried(table(commits)) == {}
    alone = table(commits[-1:])
    assert marks_of(alone) == marks_of(table(commits))
    assert alone.noted(HORIZON) == "long ago"
    assert carried(alone) == carried(table()) == {}


def test_marks_on_what_is_no_longer_read_are_not_carried_on() -> None:
    before = commit(1, notes=read(log=1, deletes=1))
    now = commit(2, 1, notes=read(log=2))
    assert carried(table([before, now, commit(3, 2)])) == read(log=2)
