"""The tables that hold the data of a gold table's keys, from the models' declarations."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dbt_lakehouse.commands.hashed_keys import clear_types
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake import names
from dbt_lakehouse.runs.graph import built_of, fold_of_model, is_of_log, log_node
from dbt_lakehouse.runs.inventory import WANTED, Kind
from dbt_lakehouse.runs.source_filter import Wanted
from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.texts import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BuiltTable(NamedTuple):
    """A table that dbt builds."""

    schema: str
    name: str

    @property
    def path(self) -> str:
        """Its name in SQL."""
        return f"lake.{self.schema}.`{self.name}`"

    @property
    def label(self) -> str:
        """Its name for people and in the tables' marks."""
        return f"{self.schema}.{self.name}"


BRONZE = BuiltTable(*names.BRONZE.split("."))


def exists(spark: "SparkSession", table: BuiltTable) -> bool:
    """Whether it has been built."""
    return spark.catalog.tableExists(table.path)


class Log(NamedTuple):
    """A change log, and the events that it takes."""

    table: BuiltTable
    sources: list[list[str | None]] | None
    """Database, schema and table of these; None for any."""
    namespace: str | None
    """Aerospike's; None for other sources."""


class Pipeline(NamedTuple):
    """The tables between bronze and the change logs."""

    other_events: BuiltTable
    log_times: BuiltTable
    quarantine: BuiltTable
    set_less_deletes: BuiltTable
    deleted_keys: BuiltTable
    logs: list[BuiltTable]
    """All typed change logs."""
    models: list[BuiltTable]
    """All tables of the target."""
    wanted: dict[str, Wanted]
    """What the readers of other_events that are not change logs want of it, by their labels."""


class Entity(NamedTuple):
    """A source table with its change log and the tables made from that."""

    log: BuiltTable
    tables: list[BuiltTable]
    """Gold and history: the tables made from the log."""
    key: list[str]
    """The key columns."""
    types: list[str]
    """The types of the key columns, as the log declares them; for hashed ones, before hashing."""
    hashed: frozenset[str]
    """The columns that are hashed in the log (``typed.masks``)."""
    fields: dict[str, str]
    """Each column's name at the source."""
    namespace: str | None
    """Aerospike's; None for other sources."""
    neighbours: list[Log]
    """Other change logs whose events may be in the same payloads."""
    dependents: list[BuiltTable]
    """The tables that other models make from these."""


def node_with_keys(graph: Mapping[str, Any], name: str) -> Any:
    """The model of a gold table or history, from the table's name.

    Raises ``ConfigurationError`` if there is none, or it has no key.
    """
    name = name.removeprefix("gold.")
    models = [node for node in graph.values() if node.resource_type == "model"]
    node = next((each for each in models if each.name == name), None)
    if node is None or not is_of_log(node):
        known = sorted(
            each.name
            for each in models
            if "current_state" in each.config.meta and not fold_of_model(graph, each).keyless
        )
        raise ConfigurationError(
            f"{name} is not a gold table with a key{did_you_mean(name, known)}; these are:"
            f" {', '.join(known) or 'none'}"
        )
    if fold_of_model(graph, node).keyless:
        raise ConfigurationError(f"{name} has no key, so nothing identifies the rows to forget")
    return node


def read_models(project: Project, name: str | None) -> tuple[Pipeline, Entity | None]:
    """The pipeline, and the entity of the gold table of this name, if one is named.

    Raises ``ConfigurationError`` if there is no such table, it has no key, or the pipeline lacks
    a model.
    """
    graph = read_manifest(project).nodes
    nodes = [node for node in graph.values() if node.resource_type == "model"]
    if name is None:
        return _pipeline(nodes), None
    node = node_with_keys(graph, name)
    fold, log = fold_of_model(graph, node), log_node(graph, node)
    readers = built_of(graph, log.unique_id)
    declared = log.config.meta["change_log"]
    key = [column.strip("`") for column in fold.key]
    fields = {spec["column"]: spec["field"] for spec in declared["columns"]}
    clear = clear_types(declared, key)
    namespace = fold.namespace
    return _pipeline(nodes), Entity(
        log=_table(log),
        tables=[_table(each) for each in readers],
        key=key,
        types=[clear.get(column, fold.types[column]) for column in key],
        hashed=frozenset(clear),
        fields={"_digest": "digest"} if namespace else {each: fields[each] for each in key},
        namespace=namespace,
        neighbours=_neighbours(nodes, log),
        dependents=_dependents(nodes, [log, *readers]),
    )


def _pipeline(nodes: list[Any]) -> Pipeline:
    by_name = {node.name: _table(node) for node in nodes}
    names = (
        "other_events",
        "log_times",
        "quarantined_payloads",
        "set_less_deletes",
        "deleted_keys",
    )
    if missing := [name for name in names if name not in by_name]:
        raise ConfigurationError(
            f"the project has no model {', '.join(missing)}, which may hold data of a key: enable"
            " it again, or take it from the package"
        )
    other_events, log_times, quarantine, set_less_deletes, deleted_keys = (
        by_name[name] for name in names
    )
    return Pipeline(
        other_events=other_events,
        log_times=log_times,
        quarantine=quarantine,
        set_less_deletes=set_less_deletes,
        deleted_keys=deleted_keys,
        logs=[each.table for each in _logs(nodes)],
        models=[_table(node) for node in nodes],
        wanted={
            quarantine.label: WANTED[Kind.QUARANTINE],
            set_less_deletes.label: WANTED[Kind.DELETES],
        },
    )


def _logs(nodes: list[Any]) -> list[Log]:
    declared = {
        _table(node): node.config.meta["change_log"]
        for node in nodes
        if "change_log" in node.config.meta
    }
    return [Log(table, each["sources"], each["namespace"]) for table, each in declared.items()]


def _neighbours(nodes: list[Any], log: Any) -> list[Log]:
    """The other change logs that may take events from the same payloads. For Aerospike's records,
    whose batches mix sets, that is every log; for other rows, those that share a source table.
    """
    logs = {each.table: each for each in _logs(nodes)}
    own = logs.pop(_table(log))

    def is_neighbour(other: Log) -> bool:
        if own.namespace is not None or other.namespace is not None:
            return None not in (own.namespace, other.namespace)
        if own.sources is None or other.sources is None:
            return True
        return any(source in other.sources for source in own.sources)

    return [each for each in logs.values() if is_neighbour(each)]


def _dependents(nodes: list[Any], made: list[Any]) -> list[BuiltTable]:
    """The tables of models that read the given models, directly or indirectly."""
    known = {node.unique_id for node in made}
    found: list[BuiltTable] = []
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


def _table(node: Any) -> BuiltTable:
    return BuiltTable(node.schema, node.alias)
