"""Relations between models in the project's graph: the log of a gold table, the meaning of its
columns, and the readers of the lake's own tables.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

import jinja2
from dbt_common.exceptions import CompilationError
from jinja2 import nodes

from dbt_lakehouse.declared import fold_of_log
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.lake.tables import ROW_LINEAGE, Table
from dbt_lakehouse.runs import marks
from dbt_lakehouse.runs.marks import Mark
from dbt_lakehouse.runs.model_run import LEAVES, kept

# In unit tests, relations are common table expressions with this prefix before the model's name.
_FIXTURE: Final = "__dbt__cte__"
# Docs blocks of technical columns that differ from the column's name.
_BLOCKS: Final = {"_operation": "change_operation"}


def _models(graph: Mapping[str, Any]) -> Iterator[Any]:
    return (node for node in graph.values() if node.resource_type == "model")


def node_named(graph: Mapping[str, Any], name: str) -> Any:
    """The model of a name, in any package."""
    for node in _models(graph):
        if node.name == name:
            return node
    raise CompilationError(f"the project has no model {name}")


def node_of(graph: Mapping[str, Any], relation: Any) -> Any:
    """The model of a relation; the relation may be a unit test's fixture or belong to a deferred
    target.
    """
    if isinstance(relation, str):
        # dbt turns a model into a query for a test with a condition.
        raise CompilationError("this test is of a whole table, and takes no `where` in its config")
    name = relation.identifier.removeprefix(_FIXTURE)
    found = [node for node in _models(graph) if node.alias == name]
    exact = [node for node in found if node.schema == relation.schema]
    if exact or found:
        return (exact or found)[0]
    raise CompilationError(f"{relation} is not a model of the project")


def log_of(graph: Mapping[str, Any], relation: Any) -> Mapping[str, Any]:
    """The declaration of a change log."""
    if isinstance(relation, str):
        raise CompilationError(
            f"current_state and history take a model, and not its name: ref('{relation}')"
        )
    node = node_of(graph, relation)
    log: Mapping[str, Any] | None = node.config.meta.get("change_log")
    if log is None:
        raise CompilationError(
            f"{node.name} is not a change log: current_state and history take a model that is made"
            " by change_log or aerospike_change_log"
        )
    return log


def change_log_nodes(graph: Mapping[str, Any]) -> list[Any]:
    """The models of all change logs."""
    return [node for node in _models(graph) if "change_log" in node.config.meta]


def change_logs(graph: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The declarations of all change logs."""
    return [node.config.meta["change_log"] for node in change_log_nodes(graph)]


def log_node(graph: Mapping[str, Any], node: Any) -> Any:
    """The model of the change log of a gold table or history."""
    for log in _logs(graph, node):
        return log
    raise CompilationError(f"{node.name} is of no change log")


def _logs(graph: Mapping[str, Any], node: Any) -> Iterator[Any]:
    """The change logs that a model reads."""
    upstreams = (graph.get(unique_id) for unique_id in node.depends_on.nodes)
    return (each for each in upstreams if each is not None and "change_log" in each.config.meta)


def is_of_log(node: Any) -> bool:
    """Whether a model is a gold table or a history."""
    return not node.config.meta.keys().isdisjoint({"current_state", "history"})


def fold_of_model(
    graph: Mapping[str, Any], node: Any, declared: Mapping[str, Any] | None = None
) -> Fold:
    """The fold of a gold table's or history's model. ``declared`` is its change log's declaration
    with the types that columns which follow the source have by now; None for the log's model.
    """
    log = declared or log_node(graph, node).config.meta["change_log"]
    meta = node.config.meta
    if "history" in meta:
        of = meta["history"]
        return fold_of_log.fold(
            log,
            of["columns"],
            of["track_columns"],
            is_history=True,
            # Not in a manifest of an earlier version.
            bitemporal=of.get("bitemporal", False),
        )
    of = meta["current_state"]
    # The latter is not in a manifest of an earlier version.
    return fold_of_log.fold(log, of["columns"], deleted_rows=of.get("deleted_rows", False))


def built_of(graph: Mapping[str, Any], log: str) -> list[Any]:
    """The models of the gold tables and histories of a change log, by its unique id."""
    return [
        node
        for node in _models(graph)
        if is_of_log(node) and any(each.unique_id == log for each in _logs(graph, node))
    ]


def columns_of_model(node: Any, of: Fold) -> list[str]:
    """The columns of a gold table or history."""
    if "history" in node.config.meta:
        return of.version_columns
    return of.rows_columns if of.keyless else of.gold_columns


def of_namespaces(graph: Mapping[str, Any]) -> list[Any]:
    """The models of gold tables and histories of Aerospike sets, whose rows can expire."""
    return [
        node
        for node in _models(graph)
        if is_of_log(node)
        and any(
            log.config.meta["change_log"]["namespace"] is not None for log in _logs(graph, node)
        )
    ]


def gold_of_namespaces(graph: Mapping[str, Any]) -> list[Any]:
    """The models of gold tables of Aerospike sets that read deleted_keys: not those that keep
    deleted rows.
    """
    return [
        node
        for node in of_namespaces(graph)
        if "current_state" in node.config.meta and not fold_of_model(graph, node).deleted_rows
    ]


def mark_on(table: Table, upstream: str) -> Mark | None:
    """The mark of a table on an upstream."""
    return marks.marks_of(table).get(upstream)


def may_leave(log: Table) -> bool:
    """Whether any event of a change log may leave columns unchanged: one does, or events came
    since that was last known.
    """
    return kept(log, LEAVES) is not False


def descriptions(manifest: Any, model: Any) -> dict[str, str]:
    """The descriptions of a model's columns, by name: its own, and for change logs and histories
    those of the docs blocks and of the gold table with the same columns.
    """
    described = {}
    blocks = getattr(manifest, "docs", {})
    meta = model["config"]["meta"]
    if "change_log" in meta or "history" in meta:
        for block in blocks.values():
            described[f"_{block.name}"] = block.block_contents
            described[block.name] = block.block_contents
        described |= {
            column: described[f"_{name}"] for column, name in _BLOCKS.items() if name in described
        }
        graph = manifest.nodes
        log = model["unique_id"] if "change_log" in meta else None
        log = log or log_node(graph, graph[model["unique_id"]]).unique_id
        for node in _models(graph):
            if "current_state" in node.config.meta and log in node.depends_on.nodes:
                described |= {
                    name: column.description
                    for name, column in node.columns.items()
                    if not name.startswith("_")
                }
    own = {name: column["description"] for name, column in model["columns"].items()}
    return {**own, **described, **{name: text for name, text in own.items() if text}}


def table_ddl(node: Any, relation: str) -> str:
    """The DDL of a model's table with the columns of its description. Runs go on from it by its
    row lineage.
    """
    columns = described_columns(node)
    partitions = node.config.get("partition_by") or []
    by = f" partitioned by ({', '.join(partitions)})" if partitions else ""
    ((name, version),) = ROW_LINEAGE.items()
    return (
        f"create table if not exists {relation} ({columns}) using iceberg{by}"
        f" tblproperties ('{name}' = '{version}')"
    )


def described_columns(node: Any, without: Container[str] = ()) -> str:
    """The columns of a model's description with their types, as SQL; empty without any."""
    return ", ".join(
        f"{quoted([name])[0]} {column.data_type}"
        for name, column in node.columns.items()
        if name not in without
    )


def refuse_other_sql(model: Any, macro: str) -> None:
    """Stop a model that contains anything but the call of its macro and its config.

    Raises ``CompilationError`` that says where other SQL belongs.
    """
    template = jinja2.Environment(extensions=["jinja2.ext.do"]).parse(model["raw_code"])
    if all(_is_call(node, macro) for node in template.body):
        return
    raise CompilationError(
        f"{model['name']}: a model that calls {macro} is that call, and no other SQL: runs and"
        " tests would not see it. A condition on the events belongs in the change log"
        ' (change_log(..., where="...")); one on the rows, and anything else, in a model on top of'
        " this one"
    )


def _is_call(node: Any, macro: str) -> bool:
    if not isinstance(node, nodes.Output):
        # A ``set`` or ``do`` outputs no text.
        return isinstance(node, nodes.Assign | nodes.ExprStmt)
    return all(
        (isinstance(part, nodes.TemplateData) and _is_comment(part.data))
        or (isinstance(part, nodes.Call) and _called(part.node) in (macro, "config"))
        for part in node.nodes
    )


def _called(node: nodes.Node) -> str | None:
    """The name of the called macro, without its package."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    return node.name if isinstance(node, nodes.Name) else None


def _is_comment(text: str) -> bool:
    lines = (line.strip() for line in text.splitlines())
    return all(not line or line.startswith("--") for line in lines)
