"""Which of our generic tests suits which kind of table. A test in the yml of another kind of
table says so, and names the tests to use there.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.runs.graph import fold_of_model, log_node, node_of
from dbt_lakehouse.texts import did_you_mean

_OF_COLUMNS: Final = ("unique_combination", "not_null_columns")
"""The tests of any table, whose arguments name columns."""


class _Kind(NamedTuple):
    """A kind of table: its name, and the tests that it allows beside those of any table."""

    name: str
    tests: tuple[str, ...] = ()
    others: str = "unique_combination and not_null_columns, whose arguments name columns"
    """The tests to use if the kind has no tests of its own."""


_GOLD: Final = _Kind(
    "a gold table with a key, made by current_state",
    ("unique_key", "equals_refold", "no_absent_keys"),
)
_KEYLESS: Final = _Kind(
    "a table without a key", others="unique_combination, with the columns _row and _copy"
)
_HISTORY: Final = _Kind("a history", ("is_history",))
_LOG: Final = _Kind("a change log", ("no_misfits", "no_unknown_columns", "one_change_per_position"))
_OTHER: Final = _Kind("a table that our macros do not build")


def _kind_of(graph: Mapping[str, Any], node: Any) -> _Kind:
    meta = node.config.meta
    if "current_state" in meta:
        return _KEYLESS if fold_of_model(graph, node).keyless else _GOLD
    if "history" in meta:
        return _HISTORY
    return _LOG if "change_log" in meta else _OTHER


def node_to_test(graph: Mapping[str, Any], relation: Any, test: str) -> Any:
    """The model of the relation under test. Raises ``CompilationError`` if the test does not suit
    the table's kind.
    """
    node = node_of(graph, relation)
    if refusal := _refusal(graph, node, test):
        raise CompilationError(refusal)
    return node


def _refusal(graph: Mapping[str, Any], node: Any, test: str) -> str | None:
    kind = _kind_of(graph, node)
    of = next((each for each in (_GOLD, _HISTORY, _LOG) if test in each.tests), kind)
    if of is kind:
        return None
    return (
        f"{test} is a test of {of.name}, and {node.name} is {kind.name}: remove the test from its"
        f" yml; suitable tests are {', '.join(kind.tests) or kind.others}"
    )


def mistakes(nodes: Mapping[str, Any], macros: Iterable[Any], project: str) -> list[str]:
    """A sentence for each generic test of the root project that can't run: an unknown one, one of
    another kind of table, or one of ours that names a column which its model's contract lacks. dbt
    itself compiles a test only in the build. ``macros`` are those of dbt's manifest.
    """
    known = [
        each.name.removeprefix("test_") for each in macros if str(each.name).startswith("test_")
    ]
    sentences = []
    for test in nodes.values():
        said = getattr(test, "test_metadata", None)
        model = nodes.get(getattr(test, "attached_node", None) or "")
        if said is None or model is None or test.package_name != project:
            continue
        if said.namespace is None and (mistake := _mistake(nodes, model, said, known)):
            sentences.append(f"{test.original_file_path}, {model.name}: {mistake}")
    return sentences


def _mistake(nodes: Mapping[str, Any], model: Any, said: Any, known: Collection[str]) -> str | None:
    if said.name not in known:
        return f"there is no data test {said.name}{did_you_mean(said.name, known)}"
    if said.name in _OF_COLUMNS:
        return _unknown_column(model, said)
    # With operations, one_change_per_position is for any table.
    if "operations" in said.kwargs:
        return None
    try:
        return _refusal(nodes, model, said.name)
    except CompilationError:
        # The model itself has a mistake, of which its own compilation tells.
        return None


def _unknown_column(model: Any, said: Any) -> str | None:
    given = said.kwargs.get("columns")
    # Seeds have no contract.
    contract = getattr(model, "contract", None)
    if not isinstance(given, list) or contract is None or not contract.enforced:
        return None
    there = {str(name).lower() for name in model.columns}
    for name in map(str, given):
        if name.lower() not in there:
            meant = did_you_mean(name, model.columns)
            return f"{said.name} names the column {name}{meant}, which the contract lacks"
    return None


def refuse_other_gold(graph: Mapping[str, Any], history: Any, relation: Any) -> None:
    """Raise ``CompilationError`` unless a relation is a gold table that ``is_history`` can
    compare with a history (a model): of the same log, with all of its columns.
    """
    gold = node_of(graph, relation)
    log = log_node(graph, history)
    if _kind_of(graph, gold) is not _GOLD or log_node(graph, gold) is not log:
        raise CompilationError(
            f"is_history of {history.name}: {gold.name} is not a gold table of {log.name}, which"
            " the history is of: `current` names the one that is"
        )
    held = fold_of_model(graph, gold).columns
    missing = [name for name in fold_of_model(graph, history).columns if name not in held]
    if missing:
        raise CompilationError(
            f"is_history of {history.name}: {gold.name} has no {', '.join(missing)}, which the"
            " history has, so the two can't be compared: give both models the same `columns`"
        )
