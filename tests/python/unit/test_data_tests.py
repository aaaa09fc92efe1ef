"""Each generic test of ours, written into the yml of each kind of table: it is of that kind, or it
says in a sentence of which kind it is, and what there is instead.
"""

from types import SimpleNamespace
from typing import Any, Final

import pytest
from dbt_common.exceptions import CompilationError
from test_model_run import declare

from dbt_lakehouse.build.data_tests import mistakes, node_to_test, refuse_other_gold
from dbt_lakehouse.build.kinds import TESTS
from dbt_lakehouse.config.paths import ROOT


def node(name: str, *reads: str, **meta: Any) -> Any:
    """A model as dbt's manifest has it."""
    return SimpleNamespace(
        resource_type="model",
        unique_id=f"model.{name}",
        name=name,
        alias=name,
        schema="gold",
        config=SimpleNamespace(meta=meta),
        depends_on=SimpleNamespace(nodes=[f"model.{each}" for each in reads]),
    )


ALL: Final = {"columns": None, "track_columns": None}
NODES: Final = [
    node("orders_changes", change_log=declare()),
    node("orders", "orders_changes", current_state=ALL),
    node("orders_history", "orders_changes", history=ALL),
    node("narrow", "orders_changes", current_state={"columns": ["note"]}),
    node("notes_changes", change_log=declare(key={}, keyless=True)),
    node("notes", "notes_changes", current_state=ALL),
    node("sessions_changes", change_log=declare(namespace="web", set="sessions")),
    node("sessions", "sessions_changes", current_state=ALL),
    # A model of the user's own, on top of ours.
    node("report", "orders"),
    node("own", owner="ana"),
]
GRAPH: Final = {each.unique_id: each for each in NODES}
GOLD: Final = ("unique_key", "equals_refold", "no_absent_keys")
HISTORY: Final = ("is_history",)
LOG: Final = ("no_misfits", "no_unknown_columns", "one_change_per_position")
# What singular tests select from has no macro of its own.
SELECTED: Final = (
    "added_rows",
    "as_read",
    "events_in_place",
    "topics_that_look_compacted",
    "undecoded_topics",
)
# Those that name columns are of any table, and so is one_change_per_position that names operations.
OF_ANY: Final = ("unique_combination", "not_null_columns")


def relation(name: str) -> Any:
    return SimpleNamespace(identifier=name, schema="gold")


def test_all_tests_are_here() -> None:
    files = (ROOT / "macros/data_tests").glob("*.sql")
    found = {file.stem: file.read_text() for file in files if "{% test " in file.read_text()}
    assert found.keys() == {*GOLD, *HISTORY, *LOG, *OF_ANY}
    for name, text in found.items():
        assert f"dbt.sql_of_test('{name}', model" in text
    assert TESTS.keys() == {*found, *SELECTED}


@pytest.mark.parametrize("test", [*GOLD, *HISTORY, *LOG])
@pytest.mark.parametrize(
    ("name", "own", "what"),
    [
        ("orders", GOLD, "a gold table with a key, made by current_state"),
        ("sessions", GOLD, "a gold table with a key, made by current_state"),
        ("notes", (), "a table without a key"),
        ("orders_history", HISTORY, "a history"),
        ("orders_changes", LOG, "a change log"),
        ("notes_changes", LOG, "a change log"),
        ("report", (), "a table that our macros do not build"),
        ("own", (), "a table that our macros do not build"),
    ],
)
def test_a_test_is_of_a_kind_of_tables(
    name: str, own: tuple[str, ...], what: str, test: str
) -> None:
    if test in own:
        assert node_to_test(GRAPH, relation(name), test).name == name
        return
    with pytest.raises(CompilationError) as caught:
        node_to_test(GRAPH, relation(name), test)
    told = " ".join(str(caught.value).split())
    assert f"{test} is a test of a" in told
    assert f"{name} is {what}" in told
    others = "unique_combination and not_null_columns, whose arguments name columns"
    if name == "notes":
        others = "unique_combination, with the columns _row and _copy"
    suits = ", ".join(own) or others
    assert told.endswith(f"remove the test from its yml; suitable tests are {suits}")


def test_what_is_no_model_or_has_a_condition() -> None:
    with pytest.raises(CompilationError, match="is not a model of the project"):
        node_to_test(GRAPH, relation("raw_payloads"), "equals_refold")
    with pytest.raises(CompilationError, match="takes no `where`"):
        node_to_test(GRAPH, "(select * from gold.orders where true)", "equals_refold")


@pytest.mark.parametrize(
    ("current", "told"),
    [
        ("orders", None),
        ("narrow", "narrow has no `amount`, which the history has"),
        ("sessions", "sessions is not a gold table of orders_changes"),
        ("orders_changes", "orders_changes is not a gold table of orders_changes"),
        ("report", "report is not a gold table of orders_changes"),
    ],
)
def test_a_history_is_held_against_gold_of_its_log(current: str, told: str | None) -> None:
    history = GRAPH["model.orders_history"]
    if told is None:
        refuse_other_gold(GRAPH, history, relation(current))
        return
    with pytest.raises(CompilationError, match=told):
        refuse_other_gold(GRAPH, history, relation(current))


@pytest.mark.parametrize(
    ("model", "test", "arguments", "told"),
    [
        ("orders", "uniqe_key", {}, "there is no data test uniqe_key (did you mean unique_key?)"),
        ("orders", "no_misfits", {}, "no_misfits is a test of a change log, and orders is a gold"),
        (
            "orders",
            "not_null_columns",
            {"columns": ["ID", "amuont"]},
            "not_null_columns names the column amuont (did you mean amount?), which the contract",
        ),
        ("orders", "unique_key", {}, None),
        ("orders", "not_null", {}, None),
        ("orders", "unique_combination", {"columns": ["id", "amount"]}, None),
        ("own", "unique_combination", {"columns": ["any"]}, None),
        ("own", "one_change_per_position", {"operations": ["delete"]}, None),
    ],
)
def test_a_test_that_can_not_run_is_told_when_the_project_is_parsed(
    model: str, test: str, arguments: dict[str, Any], told: str | None
) -> None:
    tested = GRAPH[f"model.{model}"]
    tested.columns = {"id": None, "amount": None}
    tested.contract = SimpleNamespace(enforced=model == "orders")
    node = SimpleNamespace(
        test_metadata=SimpleNamespace(name=test, namespace=None, kwargs=arguments),
        attached_node=tested.unique_id,
        package_name="shop",
        original_file_path="models/gold/all.yml",
    )
    macros = [SimpleNamespace(name=f"test_{each}") for each in (*TESTS, "not_null")]
    nodes = {**GRAPH, "test": node}
    found = mistakes(nodes, macros, "shop")
    assert [each.startswith(f"models/gold/all.yml, {model}: {told}") for each in found] == (
        [True] if told else []
    )
    assert mistakes(nodes, macros, "another") == []
