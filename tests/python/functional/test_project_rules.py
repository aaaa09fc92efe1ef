"""The rules of dbt-project-evaluator, checked in dbt's manifest, without Spark: the package is in
no registry of Python packages, and would build some hundred models of its own in the lake.

Its rules are all here but those of the staging layer and its prefixes: layers are the folders and
schemas bronze, silver and gold, and a table is called after what it holds. What is found and meant
to be so is listed with its reason; anything else fails, and so does an entry that is not found.
"""

import copy
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import pytest
from dbt.cli.main import dbtRunner

from dbt_lakehouse.config.paths import ROOT

Node = Mapping[str, Any]

# The package's own thresholds.
LEAVES_OF_A_FANOUT: Final = 3
TOO_MANY_PARENTS: Final = 7
# What tells that no two rows are the same; each asks for its columns to have values too.
KEY_TESTS: Final = {"unique_key", "unique_combination", "one_change_per_position", "is_history"}
HARD_CODED: Final = re.compile(r"\b(?:from|join)\s+[`\"]?\w+[`\"]?\.[`\"]?\w+", re.IGNORECASE)
NAMES: Final = {"change_log": r"\w+_changes", "history": r"\w+_history"}

_OF_THE_LAKE: Final = "the lake's own state, which every gold table reads and writes"
_BY_COMMANDS: Final = "written by commands, for people to read; no news is no fault"
_WRITTEN_BY_COMMANDS: Final = [
    f"bronze.{name}"
    for name in (
        "topic_partitions",
        "topic_policies",
        "kafka_gaps",
        "maintained",
        "forgotten",
        "avro_schemas",
    )
]
_LAST_EVENTS: Final = "tells how fresh each source table is; models read bronze.raw_payloads"
_LOGS: Final = sorted(path.stem for path in (ROOT / "models" / "silver").glob("*_changes.sql"))
# What is meant to be so, by rule.
MEANT: Final[Mapping[str, Mapping[str, str]]] = {
    "direct_join_to_source": {
        "quarantined_payloads": "the bytes of a payload that gave no event are nowhere else",
        "other_events": "log times that are not a payload's own are beside bronze",
        **dict.fromkeys(_LOGS, "a log decodes bronze as far as other_events has looked at it"),
    },
    "source_fanout": {"bronze.raw_payloads": "the same"},
    "model_fanout": dict.fromkeys(
        ("deleted_keys", "fold_counters", "set_less_deletes"), _OF_THE_LAKE
    ),
    "root_models": dict.fromkeys(
        ("fold_counters", "log_times"), "runs write its rows, its SQL is their shape"
    ),
    "unused_sources": {
        **dict.fromkeys(_WRITTEN_BY_COMMANDS, _BY_COMMANDS),
        "last_events": _LAST_EVENTS,
    },
    "sources_without_freshness": dict.fromkeys(_WRITTEN_BY_COMMANDS, _BY_COMMANDS),
    "duplicate_sources": {"last_events": _LAST_EVENTS},
    "missing_primary_key_tests": {"fold_counters": "a run adds a row to it, and has no number"},
}


class Graph:
    """A manifest, as the rules ask it."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        every = {**manifest["nodes"], **manifest["sources"], **manifest["exposures"]}
        self.nodes: Final[dict[str, Node]] = {
            name: node for name, node in every.items() if node["resource_type"] != "operation"
        }
        self.groups: Final = {each["name"] for each in manifest["groups"].values()}
        self.children: Final[dict[str, set[str]]] = defaultdict(set)
        for name in self.nodes:
            for parent in self.parents(name):
                self.children[parent].add(name)

    def of_type(self, *types: str) -> Iterator[tuple[str, Node]]:
        """The nodes of some types, by id."""
        return ((name, each) for name, each in self.nodes.items() if each["resource_type"] in types)

    def models(self) -> Iterator[tuple[str, Node]]:
        return self.of_type("model")

    def sources(self) -> Iterator[tuple[str, Node]]:
        return self.of_type("source")

    def parents(self, name: str, *types: str) -> list[str]:
        """What a node reads, of some types or of all."""
        found = self.nodes[name].get("depends_on", {}).get("nodes", [])
        return [
            each
            for each in dict.fromkeys(found)
            if each in self.nodes and (not types or self.nodes[each]["resource_type"] in types)
        ]

    def children_of(self, name: str, *types: str) -> list[str]:
        """Who reads a node."""
        return [each for each in self.children[name] if self.nodes[each]["resource_type"] in types]

    def tests(self, name: str) -> list[Node]:
        """The data tests of a node."""
        return [self.nodes[each] for each in self.children_of(name, "test")]

    def label(self, name: str) -> str:
        """What a finding calls a node; sources that are there for their freshness are one."""
        node = self.nodes[name]
        if node["resource_type"] != "source":
            return str(node["name"])
        if node["source_name"] == "last_events":
            return "last_events"
        return f"{node['source_name']}.{node['name']}"


def direct_join_to_source(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        if graph.parents(name, "source") and graph.parents(name, "model"):
            yield graph.label(name)


def gold_dependent_on_source(graph: Graph) -> Iterator[str]:
    for name, node in graph.models():
        if _layer(node) == "gold" and graph.parents(name, "source"):
            yield graph.label(name)


def silver_dependent_on_gold(graph: Graph) -> Iterator[str]:
    for name, node in graph.models():
        if _layer(node) == "silver" and any(
            _layer(graph.nodes[each]) == "gold" for each in graph.parents(name, "model")
        ):
            yield graph.label(name)


def duplicate_sources(graph: Graph) -> Iterator[str]:
    places = Counter((each["schema"], each["identifier"]) for _, each in graph.sources())
    for name, node in graph.sources():
        is_second = node["name"] != node["identifier"]
        if places[node["schema"], node["identifier"]] > 1 and is_second:
            yield graph.label(name)


def hard_coded_references(graph: Graph) -> Iterator[str]:
    for name, node in graph.models():
        text = re.sub(r"(?s){#.*?#}|--[^\n]*", "", node["raw_code"])
        if HARD_CODED.search(text):
            yield graph.label(name)


def model_fanout(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        children = graph.children_of(name, "model")
        leaves = [each for each in children if not graph.children_of(each, "model", "exposure")]
        if len(leaves) >= LEAVES_OF_A_FANOUT:
            yield graph.label(name)


def source_fanout(graph: Graph) -> Iterator[str]:
    for name, _ in graph.sources():
        if len(graph.children_of(name, "model")) > 1:
            yield graph.label(name)


def multiple_sources_joined(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        if len(graph.parents(name, "source")) > 1:
            yield graph.label(name)


def rejoining_of_upstream_concepts(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        parents = graph.parents(name, "model", "source")
        for between in parents:
            is_only_for_it = [*graph.children_of(between, "model", "source")] == [name]
            if is_only_for_it and set(graph.parents(between)) & set(parents):
                yield graph.label(name)


def root_models(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        if not graph.parents(name):
            yield graph.label(name)


def too_many_joins(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        if len(graph.parents(name)) >= TOO_MANY_PARENTS:
            yield graph.label(name)


def unused_sources(graph: Graph) -> Iterator[str]:
    for name, _ in graph.sources():
        if not graph.children_of(name, "model", "exposure"):
            yield graph.label(name)


def sources_without_freshness(graph: Graph) -> Iterator[str]:
    for name, node in graph.sources():
        freshness = node["config"]["freshness"] or {}
        limits = [freshness.get(each) or {} for each in ("warn_after", "error_after")]
        if not any(each.get("count") for each in limits):
            yield graph.label(name)


def missing_primary_key_tests(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        kinds = {(each.get("test_metadata") or {}).get("name") for each in graph.tests(name)}
        if not kinds & KEY_TESTS and not {"unique", "not_null"} <= kinds:
            yield graph.label(name)


def untested_models(graph: Graph) -> Iterator[str]:
    for name, _ in graph.models():
        if not graph.tests(name):
            yield graph.label(name)


def undocumented(graph: Graph) -> Iterator[str]:
    for name, node in graph.of_type("model", "source", "exposure"):
        if not node["description"] or not node.get("source_description", "yes"):
            yield graph.label(name)
        for column in node.get("columns", {}).values():
            if not column["description"]:
                yield f"{graph.label(name)}.{column['name']}"


def naming_conventions(graph: Graph) -> Iterator[str]:
    """A change log and a history are called so, and nothing else is."""
    for name, node in graph.models():
        kind = node["config"]["materialized"]
        for of, pattern in NAMES.items():
            if (re.fullmatch(pattern, node["name"]) is not None) != (kind == of):
                yield graph.label(name)


def directories(graph: Graph) -> Iterator[str]:
    """A model lies in the folder of its schema, with its YAML; sources in bronze's."""
    for name, node in graph.of_type("model", "source"):
        path = PurePosixPath(node["original_file_path"])
        folder = node["schema"] if node["resource_type"] == "model" else "bronze"
        yaml = PurePosixPath((node.get("patch_path") or f"://{path}").partition("://")[2])
        parts = path.parent.parts[-2:], yaml.parent
        if parts != (("models", folder), path.parent):
            yield graph.label(name)


def exposures_of_views_or_sources(graph: Graph) -> Iterator[str]:
    for name, _ in graph.of_type("exposure"):
        for parent in graph.parents(name):
            node = graph.nodes[parent]
            if node["config"].get("materialized", "view") in ("view", "ephemeral"):
                yield graph.label(name)


def exposures_dependent_on_private_models(graph: Graph) -> Iterator[str]:
    for name, _ in graph.of_type("exposure"):
        if any(graph.nodes[each].get("access") == "private" for each in graph.parents(name)):
            yield graph.label(name)


def public_models_without_contract(graph: Graph) -> Iterator[str]:
    for name, node in graph.models():
        if node["access"] == "public" and not node["config"]["contract"]["enforced"]:
            yield graph.label(name)


def chained_views(graph: Graph) -> Iterator[str]:
    for name, node in graph.models():
        if node["config"]["materialized"] in ("view", "ephemeral"):
            yield graph.label(name)


def models_without_owner(graph: Graph) -> Iterator[str]:
    for name, node in graph.models():
        if node["config"]["group"] not in graph.groups:
            yield graph.label(name)


RULES: Final[tuple[Callable[[Graph], Iterator[str]], ...]] = (
    direct_join_to_source,
    gold_dependent_on_source,
    silver_dependent_on_gold,
    duplicate_sources,
    hard_coded_references,
    model_fanout,
    source_fanout,
    multiple_sources_joined,
    rejoining_of_upstream_concepts,
    root_models,
    too_many_joins,
    unused_sources,
    sources_without_freshness,
    missing_primary_key_tests,
    untested_models,
    undocumented,
    naming_conventions,
    directories,
    exposures_of_views_or_sources,
    exposures_dependent_on_private_models,
    public_models_without_contract,
    chained_views,
    models_without_owner,
)


def _layer(node: Node) -> str:
    return PurePosixPath(node["original_file_path"]).parent.name


MODEL: Final = "model.cdc_lakehouse."
RAW: Final = "source.cdc_lakehouse.bronze.raw_payloads"
FORGOTTEN: Final = "source.cdc_lakehouse.bronze.forgotten"


def _read(model: str, *more: str) -> Callable[[Any], None]:
    return lambda manifest: manifest["nodes"][MODEL + model]["depends_on"]["nodes"].extend(more)


def _say(model: str, **values: Any) -> Callable[[Any], None]:
    return lambda manifest: manifest["nodes"][MODEL + model].update(values)


def _configure(model: str, **values: Any) -> Callable[[Any], None]:
    return lambda manifest: manifest["nodes"][MODEL + model]["config"].update(values)


def _without_tests(manifest: Any) -> None:
    for each in manifest["nodes"].values():
        if each["resource_type"] == "test" and "regions" in each["name"]:
            each["depends_on"]["nodes"].clear()


# What breaks each rule that the project keeps everywhere, and what is found then.
BREAKS: Final[Mapping[Callable[[Graph], Iterator[str]], tuple[Callable[[Any], None], str]]] = {
    gold_dependent_on_source: (_read("orders", RAW), "orders"),
    silver_dependent_on_gold: (_read("orders_changes", MODEL + "regions"), "orders_changes"),
    hard_coded_references: (_say("orders", raw_code="select 1 from silver.t"), "orders"),
    multiple_sources_joined: (_read("other_events", FORGOTTEN), "other_events"),
    rejoining_of_upstream_concepts: (_read("regions", MODEL + "other_events"), "regions"),
    too_many_joins: (
        _read("regions", *(f"{MODEL}{each}" for each in ("orders", "products", "devices"))),
        "regions",
    ),
    untested_models: (_without_tests, "regions"),
    undocumented: (_say("regions", description=""), "regions"),
    naming_conventions: (_configure("regions_changes", materialized="table"), "regions_changes"),
    directories: (_say("regions", original_file_path="models/silver/regions.sql"), "regions"),
    exposures_of_views_or_sources: (_configure("orders", materialized="view"), "order_book"),
    exposures_dependent_on_private_models: (_say("orders", access="private"), "order_book"),
    public_models_without_contract: (_say("orders_history", access="public"), "orders_history"),
    chained_views: (_configure("regions", materialized="view"), "regions"),
    models_without_owner: (_configure("regions", group=None), "regions"),
}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The manifest that dbt writes of the checkout."""
    folder = tmp_path_factory.mktemp("parsed")
    folders = {"project": ROOT, "profiles": ROOT / "profiles"}
    options = [text for name, path in folders.items() for text in (f"--{name}-dir", str(path))]
    options += ["--target-path", str(folder), "--log-path", str(folder)]
    result = dbtRunner().invoke(["--quiet", "parse", *options])
    assert result.success, result.exception
    found: dict[str, Any] = json.loads(Path(folder, "manifest.json").read_text())
    return found


def test_every_rule_finds_what_is_meant_and_no_more(manifest: dict[str, Any]) -> None:
    graph = Graph(manifest)
    found = {rule.__name__: sorted(set(rule(graph))) for rule in RULES}
    meant = {rule.__name__: sorted(MEANT.get(rule.__name__, ())) for rule in RULES}
    assert found == meant
    assert MEANT.keys() <= meant.keys()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_rule_finds_something(
    manifest: dict[str, Any], rule: Callable[[Graph], Iterator[str]]
) -> None:
    """In the project, or in one that breaks it."""
    if rule.__name__ in MEANT:
        assert rule not in BREAKS
        return
    change, found = BREAKS[rule]
    assert found not in rule(Graph(manifest))
    broken = copy.deepcopy(manifest)
    change(broken)
    assert found in rule(Graph(broken))
