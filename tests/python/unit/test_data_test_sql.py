"""Data tests as dbt compiles them, without Spark: which rows they look at, what they ask before,
and what a command that tests is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from dbt.context import exceptions_jinja
from support.metadata import row, table
from test_change_log import declare, made_of
from test_templates import faults

from dbt_lakehouse.build.context import Context
from dbt_lakehouse.build.kinds import TESTS
from dbt_lakehouse.build.lake import Lake, LogOfProject
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.declared import declarations
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.log_input import LogInput, Part
from dbt_lakehouse.runs.model_run import NodeRun

EVENTS, PAYLOADS, LOG = "silver.other_events", "bronze.raw_payloads", "silver.orders_changes"
AEROSPIKE: Final = declarations.declare(
    "aerospike_change_log",
    {"namespace": "web", "set": "s", "columns": {"note": "string"}, "partial": False}
    | {"order_by_source_time": None},
    {},
)["change_log"]

TABLES: Final[dict[str, Table]] = {EVENTS: table(row(1, 2)), PAYLOADS: table(row(1, 2))}


@dataclass
class RecordedLake:
    """What tests ask, with what they are told: the queries are kept, and none is run."""

    added: str | None = None
    log: Mapping[str, Any] = field(default_factory=declare)
    found: list[dict[str, Any]] = field(default_factory=list)
    said: Mapping[str, bool | None] = field(default_factory=dict)
    logs: list[LogOfProject] = field(default_factory=list)
    is_of_run: bool = False
    topics: Any = None
    """``vars.topics``."""
    only_compiles: bool = False
    queries: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Each part of the lake is all of it.
        self.sql = self.catalog = self.runs = self.declared = self.events = self

    def query(self, sql: str) -> list[dict[str, Any]]:
        self.queries.append(sql)
        return self.found

    def added_rows(self, table: Any) -> str | None:
        return self.added

    def log_to_test(self, table: Any, test: str) -> Mapping[str, Any]:
        return self.log

    def topics_with_changes(self, events: Any) -> list[str]:
        return ["decoded"]

    def compaction_of(self, topics: list[str]) -> Mapping[str, bool | None]:
        return {topic: self.said.get(topic) for topic in topics}

    def look_at(self, name: Any) -> Table | None:
        return TABLES.get(str(name))

    def as_read(self, upstream: Any, reader: Any) -> str:
        return f"{upstream} version as of 7"

    def looked_input(self, run: NodeRun, topics: list[str]) -> LogInput:
        self.queries.append(f"decoded {topics}")
        return LogInput(None, topics, "f", "added", None, None, None, EVENTS)

    def logs_to_look_at(self) -> list[LogOfProject]:
        return self.logs

    def log_input(self, run: NodeRun, log: Any, part: Part) -> LogInput:
        return LogInput(None, None, "f", f"unread_by_{run.own}", None, None, None, EVENTS)

    def events_to_give(self, events: Any) -> str:
        return "false"

    def run_to_test(self, relation: Any) -> NodeRun | None:
        return cast(NodeRun, "run") if self.is_of_run else None

    def sql_of(self, test: str, table: str, command: str = "build", **arguments: Any) -> str:
        """The compiled SQL of a test."""
        dbts = {
            "flags": SimpleNamespace(WHICH=command),
            "model": {"resource_type": "test"},
            "var": {"undecoded_topics": ["known"]}.get,
            "exceptions": {"warn": self.warned.append},
        }
        of = DataTest(cast(Lake, self), Context(dbts), test, table, arguments)
        sql = TESTS[test](of)
        assert faults(sql) == []
        return sql


UNDECODED: Final = [{"topic": "it's", "payloads": 1}, {"topic": "t", "payloads": 2}]


def test_a_command_that_tests_is_told_of_each_undecoded_topic() -> None:
    lake = RecordedLake(found=UNDECODED)
    sql = lake.sql_of("undecoded_topics", EVENTS, quarantined="q")
    assert " ".join(sql.split()) == (
        "(select * from values ('it\\'s', 1), ('t', 2) as found (topic, payloads))"
    )
    one, other = lake.warned
    assert one.startswith("topic it's: none of it could be decoded, 1 payload is quarantined. ")
    assert other.startswith("topic t: none of it could be decoded, 2 payloads are quarantined")
    (query,) = lake.queries
    assert "topic <> 'decoded'" in query and "topic <> 'known'" in query


@pytest.mark.parametrize("command", ["compile", "generate", "run"])
def test_another_command_asks_for_no_topic(command: str) -> None:
    lake = RecordedLake(found=UNDECODED)
    sql = lake.sql_of("undecoded_topics", EVENTS, command, quarantined="q")
    assert "from q" in sql and (lake.queries, lake.warned) == ([], [])


def test_nothing_found_is_a_relation_of_the_same_columns() -> None:
    lake = RecordedLake()
    sql = lake.sql_of("undecoded_topics", EVENTS, quarantined="q")
    assert "from q" in sql and sql.rstrip().endswith("limit 0)") and lake.warned == []


COMPACTED: Final = [
    {"topic": topic, "tombstones": 2, "partition": 0, "offset": 9} for topic in ("a", "b", "c")
]


def test_a_topic_looks_compacted_of_which_nobody_says_whether_it_is() -> None:
    lake = RecordedLake(found=COMPACTED, said={"a": True, "b": False})
    sql = lake.sql_of("topics_that_look_compacted", EVENTS, payloads=PAYLOADS)
    assert "values ('c', 2, 0, 9) as found (topic, tombstones, partition, offset)" in " ".join(
        sql.replace("\n    ", " ").split()
    )
    (warned,) = lake.warned
    assert warned.startswith("topic c looks compacted: 2 tombstones have no delete before, so rows")
    topics, decoded, asked = lake.queries
    assert "select distinct topic" in topics and decoded == "decoded ['a', 'b', 'c']"
    assert f"from {PAYLOADS} version as of 7" in asked

    compiled = RecordedLake(only_compiles=True)
    sql = compiled.sql_of(
        "topics_that_look_compacted", EVENTS, command="compile", payloads=PAYLOADS
    )
    assert compiled.queries == [] and f"from {EVENTS}" in sql


def test_events_are_in_one_place_of_all_that_there_are() -> None:
    """Of a log that is there its rows, of one that is to be made anew what it will read."""
    tables = {**TABLES, "silver.read": made_of(declare())}
    logs = [
        LogOfProject(name, declare(), NodeRun(tables.get, name, [EVENTS], declare()))
        for name in ("silver.read", "silver.new")
    ]
    assert [each.run.is_incremental for each in logs] == [True, False]
    lake = RecordedLake(logs=logs)
    of_all = lake.sql_of("events_in_place", EVENTS, payloads="p")
    assert "from silver.read" in of_all and "from silver.new" not in of_all
    assert "unread_by_silver.new" in of_all and "semi join" not in of_all
    lake.is_of_run = True
    assert "left semi join p using" in lake.sql_of("events_in_place", EVENTS, payloads="p")


@pytest.mark.parametrize("test", ["unique_combination", "one_change_per_position"])
def test_only_files_with_added_positions_are_read(test: str) -> None:
    arguments: dict[str, Any] = {"columns": ["topic", "offset"], "operations": None}
    place = '{"topic": "t", "partition": 0, "first": 5, "last": 7}'
    lake = RecordedLake(added="added", found=[{"place": place}])
    assert "offset between 5 and 7" in lake.sql_of(test, LOG, **arguments)
    of_all = RecordedLake()
    assert "between" not in of_all.sql_of(test, LOG, **arguments)
    assert of_all.queries == []


def test_columns_that_are_no_position_are_looked_at_in_the_whole_table() -> None:
    lake = RecordedLake(added="added")
    assert "where" not in lake.sql_of("unique_combination", LOG, columns=["id"])
    assert lake.queries == []


@pytest.mark.parametrize(
    ("log", "operations", "told"),
    [
        (declare(), None, "'snapshot', 'insert', 'update', 'upsert', 'delete', 'truncate'"),
        (AEROSPIKE, None, "'upsert', 'delete'"),
        (AEROSPIKE, ["insert"], "'insert'"),
    ],
)
def test_a_log_has_the_operations_of_its_source(
    log: Mapping[str, Any], operations: list[str] | None, told: str
) -> None:
    lake = RecordedLake(log=log)
    sql = lake.sql_of("one_change_per_position", LOG, operations=operations)
    assert f"_operation in ({told})" in sql


@pytest.mark.parametrize(
    ("log", "key"),
    [
        (declare(key={"id": "int", "it's": "int"}), "(`id` is null or `it's` is null)"),
        (AEROSPIKE, "(`_digest` is null)"),
        (declare(key={}, keyless=True), None),
    ],
)
def test_a_change_without_its_key_is_a_misfit(log: Mapping[str, Any], key: str | None) -> None:
    sql = RecordedLake(log=log).sql_of("no_misfits", LOG)
    assert ("no key" in sql) == (key is not None)
    assert key is None or key in sql


def test_what_is_null_is_looked_for_among_added_rows() -> None:
    assert "from added" in RecordedLake(added="added").sql_of("not_null_columns", LOG, columns="a")
    assert f"from {LOG}" in RecordedLake().sql_of("not_null_columns", LOG, columns=["a", "b"])


@pytest.mark.parametrize(
    ("command", "kind", "builds", "decodes"),
    [
        ("run", "model", True, True),
        ("build", "model", True, True),
        ("build", "unit_test", False, False),
        ("test", "test", False, True),
        ("compile", "model", False, False),
        ("show", "model", False, True),
        ("generate", "model", False, False),
        ("run-operation", None, False, True),
    ],
)
def test_what_a_command_does_with_a_node(
    command: str, kind: str | None, builds: bool, decodes: bool
) -> None:
    model = {} if kind is None else {"model": {"resource_type": kind}}
    of = Context({"flags": SimpleNamespace(WHICH=command), **model})
    assert (of.is_building, of.is_decoding) == (builds, decodes)


def test_a_warning_is_dbts(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[Any] = []
    monkeypatch.setattr(
        exceptions_jinja, "warn_or_error", lambda event, node: warned.append(event.msg)
    )
    # dbt's own function has no types.
    dbts = exceptions_jinja.wrapped_exports(None)  # type: ignore[no-untyped-call]
    Context({"exceptions": dbts}).warn("it looks compacted")
    assert warned == ["it looks compacted"]
