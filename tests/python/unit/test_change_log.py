"""What a run of a change log does, without Spark: its steps in their order, and its statements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pyarrow as pa
import pytest
from dbt_common.exceptions import CompilationError, DbtRuntimeError
from support.metadata import UUID, commit, row, table

from dbt_lakehouse.build.change_log import ChangeLog, change_log_sql
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.log_rows import Log
from dbt_lakehouse.build.model import Built, Model
from dbt_lakehouse.build.truncate_order import Placed
from dbt_lakehouse.declared import declarations, redeclared, widening
from dbt_lakehouse.declared.message_keys import REFUSAL
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.log_input import LogInput, Part
from dbt_lakehouse.runs.marks import Mark, noted
from dbt_lakehouse.runs.model_run import DECLARED, NodeRun

EVENTS, PAYLOADS = "silver.other_events", "bronze.raw_payloads"


@dataclass(frozen=True)
class Relation:
    schema: str = "silver"
    identifier: str = "orders_changes"

    def __str__(self) -> str:
        return f"{self.schema}.{self.identifier}"


OWN: Final = Relation()


def declare(**but: Any) -> Log:
    of = {
        "columns": {"note": "string", "amount": "int"},
        "source_table": "orders",
        "source_schema": None,
        "source_database": None,
        "key": {"id": "int"},
        "keyless": False,
        "partial": False,
        "order_by_source_time": None,
    }
    return declarations.change_log(of | but)


def made_of(log: Log, properties: Mapping[str, str] | None = None) -> Table:
    """The table of a log that has read the first commits of what it reads."""
    text = redeclared.declared(log)
    read = noted({name: Mark(UUID, "1000", 1) for name in (EVENTS, PAYLOADS)})
    notes = {**read, DECLARED: declarations.digest(text)}
    kept = {f"{DECLARED}.{notes[DECLARED]}": text, **(properties or {})}
    return table([commit(1, notes=notes)], properties=kept)


@dataclass
class RecordedLake:
    """What a log asks, with what it is told: statements are kept, and none is run."""

    tables: dict[str, Table]
    log: Log
    keys: Sequence[Mapping[str, Any]] = ()
    """What the question of messages' keys finds."""
    numbers: Sequence[Mapping[str, Any]] = ()
    """What that of outgrown numbers does."""
    placed: Placed = field(default_factory=Placed)
    has_updates: bool = False
    contract: str | None = None
    """What is wrong with the contract of a gold table of the log; None for nothing."""
    topics: Any = None
    run: NodeRun = field(init=False)
    done: list[tuple[str, str]] = field(default_factory=list)
    """What was done, and the statement or what it is of."""
    properties: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Each part of the lake is all of it.
        self.sql = self.catalog = self.runs = self.commits = self
        self.declared = self.events = self.functions = self

    @property
    def steps(self) -> list[str]:
        return [step for step, _ in self.done]

    def statement(self, step: str) -> str:
        """That of the last step of this kind."""
        return [sql for each, sql in self.done if each == step][-1]

    def begin_run(
        self, this: Any, upstreams: Any, of: Any, full_refresh: bool, **more: Any
    ) -> NodeRun:
        found = NodeRun(self.tables.get, this, upstreams, of, full_refresh=full_refresh, **more)
        self.run = found
        return found

    def run_of(self, this: Any) -> NodeRun:
        return self.run

    def followed(self, log: Log, relation: Any) -> Log:
        own = self.tables.get(str(relation))
        return log if own is None else widening.followed(log, own.properties)

    def look_at(self, relation: Any) -> Table | None:
        return self.tables.get(str(relation))

    def may_have_rows(self, relation: Any, conditions: Any, since: int = 0) -> bool:
        return str(relation) in self.tables

    def may_have_key_updates(self, log: Any, since: int = 0) -> bool:
        return self.has_updates

    def check_contracts_behind(self, log: Any, declared: Log) -> None:
        if self.contract is not None:
            raise CompilationError(self.contract)

    def place_truncates(self, *asked: Any) -> Placed:
        return self.placed

    def log_input(self, run: NodeRun, log: Log, part: Part) -> LogInput:
        return LogInput(
            payloads=f"{part.value}_payloads",
            topics=["t"],
            format="'maxwell_json'",
            added=f"{part.value}_events",
            log_times=None,
            excluded=None,
            may_name=None,
            none=EVENTS,
        )

    def typed_rows(self, name: str, log: Log, keys: Any, former: Any) -> str:
        return f"typed_{name}" if former is None else f"formerly_typed_{name}"

    def log_function(
        self, name: str, log: Log, keys: Any, former: Any, texts: Sequence[str], schemas: bool
    ) -> str:
        return f"{'' if former is None else 'formerly_'}decode_{'_'.join([name, *texts])}"

    def typed_misfits(self, name: str, log: Log, columns: Sequence[str]) -> str:
        return f"fitting_{'_'.join(columns)}"

    def pinned_own(self, this: Any) -> str:
        return f"{this} version as of 1000"

    def query(self, sql: str) -> list[Mapping[str, Any]]:
        self.done.append(("ask", sql))
        if "json_object_keys" in sql:
            return [*self.keys]
        return [*self.numbers] if "is_bigint" in sql else []

    def arrow(self, sql: str) -> pa.Table:
        return pa.table({"_lh_place": ["1"]})

    def hold(self, name: str, rows: pa.Table) -> None:
        self.done.append(("hold", name))

    def evaluate(self, name: str, query: str) -> int:
        self.done.append(("evaluate", name))
        return 1

    def drop_evaluated(self, prefix: str) -> None:
        self.done.append(("drop", prefix))

    def observed(self, this: Any, query: str, aggregates: Mapping[str, str] | None) -> str:
        return query

    def write(self, this: Any, query: str, notes: Any = None, counted: Any = None) -> str:
        self.done.append(("append" if self.run.is_incremental else "replace", query))
        if REFUSAL in query and self.keys:
            raise DbtRuntimeError("a message key of other columns than declared")
        return "OK"

    append = replace = write

    def change(self, this: Any, statement: str) -> None:
        self.done.append(("change", statement))

    def follow_schema(self, this: Any, query: str) -> None:
        self.done.append(("follow schema", query))

    def note(self, this: Any) -> None:
        self.done.append(("note", str(this)))

    def note_moved(self, this: Any) -> None:
        pass

    def tell(self, message: str) -> None:
        self.done.append(("tell", message))

    def count(self, table: str, counters: Mapping[str, int], as_of: str) -> None:
        self.done.append(("count", f"{table} {counters}"))

    def set_properties(self, this: Any, properties: Mapping[str, str]) -> None:
        self.properties |= properties
        own = self.tables.get(str(this))
        if own is not None:
            own.properties.update(properties)

    def compiled(self, full_refresh: bool | None = False) -> str:
        decoding = Decoding(cast(Lake, self), None, runs=full_refresh is not None)
        return change_log_sql(OWN, "orders", self.log, [EVENTS, PAYLOADS], decoding, full_refresh)

    def build(self, full_refresh: bool = False) -> Built:
        sql = self.compiled(full_refresh)
        node = {"name": "orders", "config": {"meta": {"change_log": self.log}}}
        model = Model(OWN, node, sql, "2026-11-27 10:00:00", lambda query: f"create {query}")
        return ChangeLog(cast(Lake, self), model).build()


def lake(log: Log, *, made: Table | None = None, news: bool = True, **more: Any) -> RecordedLake:
    """One with a log's table, if it is there, and with news for it or without."""
    upstream = table(row(1, 2) if news else row(1))
    tables = {EVENTS: upstream, PAYLOADS: upstream}
    return RecordedLake(tables if made is None else {**tables, str(OWN): made}, log, **more)


def test_a_first_run_writes_what_is_compiled() -> None:
    of = lake(declare())
    built = of.build()
    assert of.steps == ["replace"]
    assert of.statement("replace") == f"create {of.compiled()}" == built.statement
    assert built.doubts == []


def test_what_is_only_compiled_is_of_all_events() -> None:
    of = lake(declare())
    sql = of.compiled(None)
    assert f"from {PAYLOADS} as payloads" in sql and f"select * from {EVENTS}" in sql
    assert REFUSAL not in sql and not hasattr(of, "run")


def test_new_events_are_appended() -> None:
    of = lake(declare(), made=made_of(declare()))
    of.build()
    assert of.steps == ["append"]
    assert "new_payloads" in of.statement("append") and "new_events" in of.statement("append")


def test_the_events_that_its_author_chooses_are_decoded_once_with_the_texts_that_he_names() -> None:
    of = lake(
        declare(where="contains(after, 'x')"), made=made_of(declare(where="contains(after, 'x')"))
    )
    of.build()
    assert "decode_orders_after(" in of.statement("append")
    assert "decode_payload" not in of.statement("append")
    assert of.statement("append").count("(contains(after, 'x'))") == 2


def test_a_contract_of_gold_stops_a_log_that_is_another_one_and_no_other() -> None:
    for made in (None, made_of(declare(columns={}))):
        of = lake(declare(), made=made)
        of.contract = "orders: note is declared int"
        with pytest.raises(CompilationError, match="note is declared int"):
            of.build()
        assert of.steps == []
    of = lake(declare(), made=made_of(declare()))
    of.contract = "orders: note is declared int"
    of.build()
    assert of.steps == ["append"]


def test_nothing_is_done_without_any() -> None:
    of = lake(declare(), made=made_of(declare()), news=False)
    assert of.build() == Built("nothing new", None, [])
    assert of.done == []


def _group(*names: str, first: int, last: int, **more: Any) -> dict[str, Any]:
    of = {"topic": "t", "partition": 0, "names": list(names), "images": 1, "without_key": 0}
    of |= {"source_database": None, "source_schema": None, "source_table": "orders"}
    times = {"first_time": first, "last_time": last, "fields": ["id", "note"]}
    return of | times | {"first_offset": first, "last_offset": last} | more


def test_messages_with_other_keys_stop_a_table_before_anything_is_written() -> None:
    keys = [_group("id", first=1, last=5), _group("note", first=6, last=9)]
    of = lake(declare(), made=made_of(declare()), keys=keys)
    with pytest.raises(CompilationError, match="newer ones have others"):
        of.build()
    assert of.steps == ["append", "ask"]
    assert "so far_payloads" in of.statement("ask")


def test_keys_that_are_the_author_s_own_are_taken_and_told() -> None:
    of = lake(declare(), made=made_of(declare()), keys=[_group("note", first=1, last=9)])
    built = of.build()
    assert of.steps == ["append", "ask", "append"]
    assert REFUSAL not in of.statement("append")
    assert "the messages' own keys are of (note)" in built.doubts[0]
    assert of.run.keeps["lakehouse.message_keys"] == [["note"]]


def test_a_key_that_is_declared_anew_types_what_came_before_by_its_own_keys() -> None:
    keys = [_group("note", first=1, last=5), _group("id", first=6, last=9)]
    of = lake(declare(), keys=keys)
    of.build()
    assert of.steps == ["replace", "ask", "replace"]
    assert "formerly_decode_orders_record_key_after(" in of.statement("replace")
    assert "formerly_typed_orders(" in of.statement("replace")
    assert "`former_id`" in of.statement("replace")


def test_another_error_is_none_of_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> str:
        raise DbtRuntimeError("no space left")

    of = lake(declare())
    monkeypatch.setattr(of, "replace", fail)
    with pytest.raises(DbtRuntimeError, match="no space left"):
        of.build()
    assert of.done == []


def test_a_column_that_is_declared_later_is_filled_before_new_rows_come() -> None:
    later = declare(columns={"note": "string", "amount": "int", "city": "string"})
    of = lake(later, made=made_of(declare()))
    of.build()
    assert of.steps == ["follow schema", "change", "tell", "append"]
    assert "before_payloads" in of.statement("change")
    assert "before_events" in of.statement("change")
    assert "`city` = source.`city`" in of.statement("change")
    assert "`city` is not null\n" in of.statement("change")
    assert "arrays_overlap(_changed_columns, array('city'))" in of.statement("change")
    assert of.statement("tell") == f"{OWN}: filled city from earlier events"


def test_a_wider_type_is_filled_from_what_did_not_fit() -> None:
    wider = declare(columns={"note": "string", "amount": "bigint"})
    of = lake(wider, made=made_of(declare()), news=False)
    assert of.build().message == "columns filled"
    assert of.steps == ["follow schema", "change", "tell", "note"]
    assert "fitting_amount(_misfits)" in of.statement("change")
    assert of.statement("tell") == f"{OWN}: filled amount from misfits"


def test_columns_follow_numbers_that_have_outgrown_them() -> None:
    numbers = [
        {"column": "amount", "whole": 11, "fraction": 0, "is_bigint": True, "is_double": True}
    ]
    log = declare(follow="widening")
    of = lake(log, made=made_of(log), news=False, numbers=numbers)
    of.build()
    assert of.steps == ["ask", "follow schema", "change", "tell", "note"]
    assert "where false" in of.statement("follow schema")
    assert widening.looked_at(of.properties) == ({"amount": "bigint"}, 1)
    # Nobody looks at the same misfits again.
    of.done.clear()
    of.build()
    assert "ask" not in of.steps


# 0.1 is a float of its own, which is another double than 0.1.
def test_a_float_that_becomes_a_double_is_filled_from_its_events() -> None:
    before = declare(columns={"note": "string", "weight": "float"})
    wider = declare(columns={"note": "string", "weight": "double"})
    of = lake(wider, made=made_of(before), news=False)
    assert of.build().message == "columns filled"
    assert of.steps == ["follow schema", "change", "tell", "note"]
    assert "before_events" in of.statement("change")
    assert "`weight` = source.`weight`" in of.statement("change")
    assert of.statement("tell") == f"{OWN}: filled weight from earlier events"


def test_a_float_that_follows_is_filled_so_too_and_takes_over_values_again() -> None:
    numbers = [
        {"column": "weight", "whole": 1, "fraction": 11, "is_bigint": False, "is_double": True}
    ]
    log = declare(columns={"note": "string", "weight": "float"}, follow="widening")
    of = lake(log, made=made_of(log), news=False, numbers=numbers, has_updates=True)
    of.build()
    assert widening.looked_at(of.properties)[0] == {"weight": "double"}
    follows = of.steps[of.steps.index("follow schema") :]
    assert follows[:3] == ["follow schema", "change", "tell"]
    assert of.statement("tell") == f"{OWN}: filled weight from earlier events"
    filled, taken_over = [sql for step, sql in of.done if step == "change"][-2:]
    assert "before_events" in filled
    assert "silver__orders_changes__sources" in taken_over


def test_rows_of_key_updates_take_over_values() -> None:
    of = lake(declare(), made=made_of(declare()), news=False, has_updates=True)
    of.build()
    view = "silver__orders_changes__"
    assert of.done[:-2] == [
        ("evaluate", f"{view}updates"),
        ("hold", f"{view}resting"),
        ("evaluate", f"{view}found"),
        ("ask", of.statement("ask")),
        ("hold", f"{view}sources"),
    ]
    assert of.done[-1] == ("drop", view)
    assert of.statement("change").startswith(f"merge into {OWN} as target")
    assert "lakehouse.key_updates" in of.properties


@pytest.mark.parametrize("more", [{"key": {}, "keyless": True}, {}])
def test_a_log_without_any_asks_for_none(more: Mapping[str, Any]) -> None:
    log = declare(**more)
    of = lake(log, made=made_of(log), news=False, has_updates=bool(more))
    of.build()
    assert of.done == []


def test_what_a_truncate_leaves_open_is_told() -> None:
    of = lake(declare(), placed=Placed("places", ties=2, crossed=3, newest=7))
    built = of.build()
    assert "left join places as places" in of.statement("replace")
    assert "3 rows or truncates contradict their source" in built.doubts[0]
    assert of.steps == ["replace", "tell", "count"]
    assert of.statement("count") == f"{OWN} {{'truncate_ties': 2}}"


def test_a_log_is_made_anew_where_earlier_rows_leave_a_truncate_no_place() -> None:
    of = lake(declare(), made=made_of(declare()), placed=Placed("places", crossed=3, newest=7))
    of.compiled()
    assert not of.run.is_incremental
    assert "3 rows or truncates came after rows" in (of.run.reason or "")
    assert "left anti join" in of.statement("ask")
