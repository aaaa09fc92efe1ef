"""Which of our generic tests suits which kind of table. A test in the yml of another kind of
table says so, and names the tests to use there.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.runs.graph import fold_of_model, log_node, node_of


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
_OTHER: Final = _Kind("none that our macros make")


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
    kind = _kind_of(graph, node)
    if test in kind.tests:
        return node
    of = next(each for each in (_GOLD, _HISTORY, _LOG) if test in each.tests)
    raise CompilationError(
        f"{test} is a test of {of.name}, and {node.name} is {kind.name}: remove the test from its"
        f" yml; suitable tests are {', '.join(kind.tests) or kind.others}"
    )


def refuse_other_gold(graph: Mapping[str, Any], history: Any, relation: Any) -> None:
    """Raise ``CompilationError`` unless a relation is a gold table that ``is_history`` can
    compare with a history (a model): of the same log, with all of its columns.
    """
    gold = node_of(graph, relation)
    log = log_node(graph, history)
    if _kind_of(graph, gold) is not _GOLD or log_node(graph, gold) is not log:
        raise CompilationError(
            f"is_history of {history.name}: {gold.name} is no gold table of {log.name}, which the"
            " history is of: `current` names the one that is"
        )
    held = fold_of_model(graph, gold).columns
    missing = [name for name in fold_of_model(graph, history).columns if name not in held]
    if missing:
        raise CompilationError(
            f"is_history of {history.name}: {gold.name} has no {', '.join(missing)}, which the"
            " history has, so the two can't be compared: give both models the same `columns`"
        )
