"""Which tables hold the data of a gold table's keys, from what the models declare."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from dbt_lakehouse.config.project import Project
from dbt_lakehouse.dbt.commands import run_dbt
from dbt_lakehouse.errors import ConfigurationError


class Table(NamedTuple):
    """A table that dbt builds."""

    schema: str
    name: str

    @property
    def path(self) -> str:
        """As SQL names it."""
        return f"lake.{self.schema}.`{self.name}`"

    @property
    def label(self) -> str:
        """As people and the tables' properties name it."""
        return f"{self.schema}.{self.name}"


BRONZE = Table("bronze", "raw_payloads")


class Pipeline(NamedTuple):
    """The tables between bronze and the change logs."""

    change_events: Table
    quarantine: Table
    set_less_deletes: Table
    deleted_keys: Table
    logs: list[Table]
    """All typed change logs."""
    incremental: list[Table]
    """All that remember what they have read."""


class Entity(NamedTuple):
    """A source table with its change log and what is made of that."""

    log: Table
    tables: list[Table]
    """Gold, history: what is made of the log."""
    key: list[str]
    """The key columns."""
    fields: dict[str, str]
    """The name of each at the source."""
    namespace: str | None
    """Aerospike's; None for the other sources."""
    conditions: list[str]
    """SQL that says which rows of change_events the log takes."""
    dependents: list[Table]
    """What other models make of these tables."""


def read_models(project: Project, name: str | None) -> tuple[Pipeline, Entity | None]:
    """The pipeline, and the entity that the gold table of this name belongs to, if one is named.

    Raises ``ConfigurationError`` if there is none, or it has no key.
    """
    nodes = [
        node for node in run_dbt(project, "parse").nodes.values() if node.resource_type == "model"
    ]
    by_name = {node.name: node for node in nodes}
    if name is None:
        return _pipeline(by_name, nodes), None
    name = name.removeprefix("gold.")
    node = by_name.get(name)
    fold = None if node is None else _fold(node)
    if node is None or fold is None:
        if node is not None and "rows" in _meta(node):
            raise ConfigurationError(
                f"{name} has no key, so nothing tells whose its rows are: forgetting needs a key"
            )
        known = sorted(each.name for each in nodes if "fold" in _meta(each))
        raise ConfigurationError(
            f"{name} is no table of keys; such are {', '.join(known) or 'none'}"
        )
    log = by_name[node.refs[0].name]
    readers = [each for each in nodes if _fold(each) and each.refs[0].name == log.name]
    keys = {tuple(_key_of(each)) for each in readers}
    if len(keys) > 1:
        raise ConfigurationError(
            f"the tables of {log.name} have different keys: {', '.join(sorted(map(str, keys)))}"
        )
    declared = _meta(log)["change_log"]
    key = _key_of(node)
    fields = {spec["column"]: spec["field"] for spec in declared["columns"]}
    namespace = fold["namespace"]
    return _pipeline(by_name, nodes), Entity(
        log=_table(log),
        tables=[_table(each) for each in readers],
        key=key,
        fields={"_digest": "digest"} if namespace else {each: fields[each] for each in key},
        namespace=namespace,
        conditions=list(declared["conditions"]),
        dependents=_dependents(nodes, [log, *readers]),
    )


def _pipeline(by_name: dict[str, Any], nodes: Iterable[Any]) -> Pipeline:
    return Pipeline(
        change_events=_table(by_name["change_events"]),
        quarantine=_table(by_name["quarantined_payloads"]),
        set_less_deletes=_table(by_name["set_less_deletes"]),
        deleted_keys=_table(by_name["deleted_keys"]),
        logs=[_table(node) for node in nodes if "change_log" in _meta(node)],
        incremental=[_table(node) for node in nodes if node.config.materialized == "incremental"],
    )


def _dependents(nodes: list[Any], made: list[Any]) -> list[Table]:
    """Tables of models that read the given models, or read what does."""
    known = {node.unique_id for node in made}
    found: list[Table] = []
    while True:
        more = [
            node
            for node in nodes
            if node.unique_id not in known and known.intersection(node.depends_on.nodes)
        ]
        if not more:
            return found
        known.update(node.unique_id for node in more)
        found += [_table(node) for node in more if node.config.materialized != "view"]


def _meta(node: Any) -> dict[str, Any]:
    meta: dict[str, Any] = node.config.meta or {}
    return meta


def _fold(node: Any) -> dict[str, Any] | None:
    """The arguments of a model with a row, or rows, for each key."""
    meta = _meta(node)
    return meta.get("fold") or meta.get("history")


def _key_of(node: Any) -> list[str]:
    fold = _fold(node) or {}
    return [column.strip("`") for column in fold["key"]]


def _table(node: Any) -> Table:
    return Table(node.schema, node.alias)
