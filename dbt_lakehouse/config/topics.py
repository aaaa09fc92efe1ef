"""``vars.topics`` of the project: which topic has which wire format, and which Kafka brings.

An entry is ``{topic: name}`` or ``{pattern: Java regular expression for the whole name}`` with a
``format``; the first that matches a topic counts. Two more fields concern Kafka:

    kafka: false        the topic's messages come from captures only
    land_as: name       bronze knows the topic by this name; for one that was deleted and created
                        anew, whose offsets begin again
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.errors.exceptions.captured import IllegalArgumentException

from dbt_lakehouse.errors import ConfigurationError
from python_udfs.registry import FORMATS

_FIELDS = frozenset({"topic", "pattern", "format", "kafka", "land_as"})


class TopicRule(NamedTuple):
    """One entry of ``vars.topics``; either ``topic`` or ``pattern`` is given."""

    topic: str | None
    pattern: str | None
    format: str
    from_kafka: bool
    land_as: str | None


class TopicMatcher:
    """Finds the rule of a topic; patterns are Java's, so they are asked in Spark's JVM.

    Raises ``ConfigurationError`` for a pattern that is none.
    """

    def __init__(self, jvm: Any, rules: Sequence[TopicRule]) -> None:
        self._patterns = [(rule, _compiled(jvm, rule.pattern)) for rule in rules]

    def rule(self, topic: str) -> TopicRule | None:
        """The first rule that matches a topic as Kafka calls it."""
        return self._first(topic, lambda rule: rule.topic == topic)

    def rule_in_bronze(self, topic: str) -> TopicRule | None:
        """The first rule that matches a topic as bronze calls it, which the models follow."""
        return self._first(topic, lambda rule: topic in (rule.topic, rule.land_as))

    def _first(self, topic: str, is_named: Callable[[TopicRule], bool]) -> TopicRule | None:
        for rule, pattern in self._patterns:
            if is_named(rule) or (pattern is not None and pattern.matcher(topic).matches()):
                return rule
        return None


def _compiled(jvm: Any, pattern: str | None) -> Any:
    if pattern is None:
        return None
    try:
        return jvm.java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:
        raise ConfigurationError(
            f"vars.topics has the pattern {pattern!r}, which is no Java regular expression:"
            f" {' '.join(str(error).split())}"
        ) from None


def topic_rules(entries: Any) -> list[TopicRule]:
    """The entries of ``vars.topics``. Raises ``ConfigurationError`` for one that can't be meant."""
    if entries is not None and not isinstance(entries, list | tuple):
        raise ConfigurationError(f"vars.topics in dbt_project.yml is {entries!r}, not a list")
    return [_rule(entry) for entry in entries or []]


def _rule(entry: Any) -> TopicRule:
    if not isinstance(entry, Mapping):
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {entry!r} is no mapping like"
            " {topic: name, format: debezium_json}"
        )
    for name in ("topic", "pattern", "land_as"):
        if not isinstance(entry.get(name, ""), str):
            raise ConfigurationError(
                f"vars.topics in dbt_project.yml: {dict(entry)}: {name} is text; put it in quotes"
            )
    named = [name for name in ("topic", "pattern") if entry.get(name)]
    if len(named) != 1 or entry.get("format") not in FORMATS:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)} needs a topic or a pattern, and a"
            f" format: one of {', '.join(FORMATS)}"
        )
    unknown = sorted(set(entry) - _FIELDS)
    if unknown:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)} has {', '.join(unknown)};"
            f" known are {', '.join(sorted(_FIELDS))}"
        )
    if not isinstance(entry.get("kafka", True), bool):
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)}: kafka is true or false"
        )
    if "land_as" in entry and named != ["topic"]:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)}: land_as names one topic, so it goes"
            " with `topic`, not with a pattern"
        )
    return TopicRule(
        topic=entry.get("topic"),
        pattern=entry.get("pattern"),
        format=entry["format"],
        from_kafka=entry.get("kafka", True),
        land_as=entry.get("land_as"),
    )
