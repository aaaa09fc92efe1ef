"""The models that a cycle of `lakehouse stream --build` has to build, by the topics with news."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

# Models that every run begins with and records its state in: always few.
_OWN: Final = frozenset({"other_events", "state_table", "append_only"})


def models_with_news(
    nodes: Mapping[str, Any], pairs: Collection[Sequence[str | None]], topics: Collection[str]
) -> set[str]:
    """The models to build, by their unique ids: change logs that may have events of some topics,
    all their descendants, and the lake's own tables.

    ``nodes`` are those of dbt's manifest. ``pairs``: topic and source table (database, schema,
    table) of all events so far. A log without events so far may be in any topic.
    """
    models = {name: each for name, each in nodes.items() if each.resource_type == "model"}
    logs = {name for name, each in models.items() if "change_log" in each.config.meta}
    found = {
        name
        for name in logs
        if not (of := topics_of(models[name].config.meta["change_log"], pairs))
        or not of.isdisjoint(topics)
    }
    of_logs = _descendants(models, logs)
    own = {name for name, each in models.items() if each.config.materialized in _OWN}
    return _descendants(models, found) | (own - of_logs)


def topics_of(log: Mapping[str, Any], pairs: Collection[Sequence[str | None]]) -> set[str]:
    """The topics in which events of a change log have come, from its declaration: of its source
    tables, or of any. A set's rows also depend on deletes without a set, which may be in another
    topic.
    """
    sources = log["sources"]
    wanted = None if sources is None else [list(source) for source in sources]
    if wanted is not None and (namespace := log.get("namespace")) is not None:
        wanted.append([None, namespace, None])
    return {str(topic) for topic, *source in pairs if wanted is None or source in wanted}


def _descendants(models: Mapping[str, Any], of: Collection[str]) -> set[str]:
    """These models and all their descendants."""
    readers: dict[str, set[str]] = {}
    for name, each in models.items():
        for upstream in each.depends_on.nodes:
            readers.setdefault(upstream, set()).add(name)
    found, todo = set(of), [*of]
    while todo:
        new = readers.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found
