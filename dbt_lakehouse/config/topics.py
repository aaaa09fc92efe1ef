"""``vars.topics`` of the project: the wire formats of topics, and which of them come from Kafka.

An entry is ``{topic: name}`` or ``{pattern: Java regular expression for the whole name}`` with a
``format``; the first that matches a message counts. If a topic has several formats, each entry
says which messages it is for:

    when: {first_byte: 0}                           by the first byte of the value, or of the key of
                                                    a message without a value
    when: {header: content-type, is: "avro/binary"} by a header

Whether Kafka compacts the topic:

    compacted: true     Kafka keeps the last message of each key only, so a tombstone may be all
                        that is left of a delete; false, that it does not, whatever a broker says.
                        Without it the broker says it, at each landing (lake/policies.py)

Two more fields concern Kafka:

    kafka: false        the topic's messages come from captures only
    land_as: name       bronze knows the topic by this name; for one that was deleted and created
                        anew, whose offsets begin again
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.errors.exceptions.captured import IllegalArgumentException

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.texts import did_you_mean, listed, unmatched_bracket
from python_udfs.core.events import FORGOTTEN
from python_udfs.registry import FORMATS

_FIELDS = frozenset({"topic", "pattern", "when", "format", "compacted", "kafka", "land_as"})

Headers = Iterable[tuple[str, bytes | None]]
"""Names and values of a message's headers."""


class Condition(NamedTuple):
    """The messages of a topic that an entry is for; either ``first_byte`` or ``header``
    is given.
    """

    first_byte: int | None = None
    header: str | None = None
    value: str | None = None

    def holds(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Whether a message meets the condition; ``formats.condition_sql`` is the same in SQL.

        A forgotten message meets any: it is empty in every format.
        """
        if key is None and value is None and any(name == FORGOTTEN for name, _ in headers):
            return True
        if self.header is None:
            text = key if value is None else value
            return text is not None and text[:1] == bytes([self.first_byte or 0])
        return (self.header, (self.value or "").encode()) in headers


class TopicRule(NamedTuple):
    """An entry of ``vars.topics``; either ``topic`` or ``pattern`` is given."""

    topic: str | None
    pattern: str | None
    format: str
    from_kafka: bool
    land_as: str | None
    when: Condition | None = None
    compacted: bool | None = None
    """None: the broker's policy decides."""


class Formats(NamedTuple):
    """The formats of a topic: a message has the first one whose condition holds."""

    chosen: Sequence[tuple[Condition | None, str]]

    @classmethod
    def only(cls, name: str) -> "Formats":
        """The formats of a topic with only one."""
        return cls([(None, name)])

    @property
    def names(self) -> list[str]:
        """All formats that a message may have."""
        return [name for _, name in self.chosen]

    def of(self, key: bytes | None, value: bytes | None, headers: Headers) -> str | None:
        """The format of a message, None if it has none."""
        for when, name in self.chosen:
            if when is None or when.holds(key, value, headers):
                return name
        return None


def has_doubtful_patterns(given: Any) -> bool:
    """Whether ``vars.topics`` has a pattern that Python can't compile, so that only Java can
    check it. Raises ``ConfigurationError`` as ``topic_rules``.
    """
    try:
        for rule in topic_rules(given):
            re.compile(rule.pattern or "")
    except (re.error, OverflowError, RecursionError):
        return True
    return False


def unlisted_topics(given: Any, topics: Iterable[str]) -> list[str]:
    """Those of some topics, by bronze's names, that no entry of ``vars.topics`` matches: their
    new messages don't land from Kafka. None of them if only Java can check a pattern. Raises
    ``ConfigurationError`` as ``topic_rules``.
    """
    if has_doubtful_patterns(given):
        return []
    matcher = TopicMatcher(None, topic_rules(given))
    return [topic for topic in topics if matcher.formats_in_bronze(topic) is None]


def unlisted_text(topics: Sequence[str]) -> str:
    """A sentence about topics in bronze that ``unlisted_topics`` has found."""
    one = len(topics) == 1
    return (
        f"{listed('topic' if one else 'topics', topics)}: no entry of vars.topics matches"
        f" {'it' if one else 'them'}, so new messages of {'it' if one else 'them'} don't land from"
        f" Kafka; if that is meant, name {'it' if one else 'them'} in vars.undecoded_topics"
    )


class TopicMatcher:
    """Finds the rule of a topic. Patterns are in Java's syntax, so Spark's JVM matches them. If
    ``jvm`` is None Python does; see ``has_doubtful_patterns``.

    Raises ``ConfigurationError`` for an invalid pattern.
    """

    def __init__(self, jvm: Any, rules: Sequence[TopicRule]) -> None:
        self._patterns = [(rule, _matches(jvm, rule.pattern)) for rule in rules]

    def rule(self, topic: str) -> TopicRule | None:
        """The first rule that matches a topic by Kafka's name."""
        return self._first(topic, lambda rule: rule.topic == topic)

    def formats(self, topic: str) -> Formats | None:
        """The formats of a topic by Kafka's name; None if no rule matches it."""
        return self._formats(topic, lambda rule: rule.topic == topic)

    def formats_in_bronze(self, topic: str) -> Formats | None:
        """The formats of a topic by bronze's name."""
        return self._formats(topic, lambda rule: topic in (rule.topic, rule.land_as))

    def compacted_in_bronze(self, topic: str) -> bool | None:
        """Whether a topic, by bronze's name, is declared as compacted; None if that is not
        declared.
        """
        rule = self._first(topic, lambda rule: topic in (rule.topic, rule.land_as))
        return None if rule is None else rule.compacted

    def _first(self, topic: str, is_named: Callable[[TopicRule], bool]) -> TopicRule | None:
        return next(self._matching(topic, is_named), None)

    def _formats(self, topic: str, is_named: Callable[[TopicRule], bool]) -> Formats | None:
        chosen = []
        for rule in self._matching(topic, is_named):
            chosen.append((rule.when, rule.format))
            if rule.when is None:
                break
        return Formats(chosen) if chosen else None

    def _matching(self, topic: str, is_named: Callable[[TopicRule], bool]) -> Iterator[TopicRule]:
        for rule, matches in self._patterns:
            if is_named(rule) or matches(topic):
                yield rule


def _matches(jvm: Any, pattern: str | None) -> Callable[[str], bool]:
    """Whether a topic is one of a pattern; never without one."""
    if pattern is None:
        return lambda topic: False
    if jvm is None:
        python = re.compile(pattern)
        return lambda topic: python.fullmatch(topic) is not None
    try:
        java = jvm.java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException as error:
        raise ConfigurationError(
            f"vars.topics has the pattern {pattern!r}, which is not a Java regular expression:"
            f" {' '.join(str(error).split())}"
        ) from None
    return lambda topic: bool(java.matcher(topic).matches())


def topic_rules(entries: Any) -> list[TopicRule]:
    """The entries of ``vars.topics``. Raises ``ConfigurationError`` for an invalid one."""
    if entries is not None and not isinstance(entries, list | tuple):
        raise ConfigurationError(f"vars.topics is {entries!r}, not a list")
    rules = [_rule(entry) for entry in entries or []]
    named: dict[str, TopicRule] = {}
    for rule in rules:
        if rule.topic is None:
            continue
        first = named.setdefault(rule.topic, rule)
        if _of_topic(first) != _of_topic(rule):
            raise ConfigurationError(
                f"vars.topics in dbt_project.yml: the entries of {rule.topic} differ in compacted,"
                " kafka or land_as, which are the topic's: all of them must say the same"
            )
    return rules


def _of_topic(rule: TopicRule) -> tuple[bool | None, bool, str | None]:
    """The part of an entry that concerns its topic as a whole."""
    return rule.compacted, rule.from_kafka, rule.land_as


def _rule(entry: Any) -> TopicRule:
    if not isinstance(entry, Mapping):
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {entry!r} is not a mapping like"
            " {topic: name, format: debezium_json}"
        )
    unknown = sorted(map(str, set(entry) - _FIELDS))
    if unknown:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)} has {', '.join(unknown)}"
            f"{did_you_mean(unknown[0], _FIELDS)}; known are {', '.join(sorted(_FIELDS))}"
        )
    for name in ("topic", "pattern", "land_as"):
        if not isinstance(entry.get(name, ""), str):
            raise ConfigurationError(
                f"vars.topics in dbt_project.yml: {dict(entry)}: {name} is text; put it in quotes"
            )
    named = [name for name in ("topic", "pattern") if entry.get(name)]
    if len(named) != 1 or "format" not in entry:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)} needs a topic or a pattern, and a"
            f" format: one of {', '.join(FORMATS)}"
        )
    if str(entry["format"]) not in FORMATS:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)}: {entry['format']} is not a format"
            f"{did_you_mean(str(entry['format']), FORMATS)}; formats are {', '.join(FORMATS)}"
        )
    for name in ("compacted", "kafka"):
        if not isinstance(entry.get(name, True), bool):
            raise ConfigurationError(
                f"vars.topics in dbt_project.yml: {dict(entry)}: {name} is true or false"
            )
    if "land_as" in entry and named != ["topic"]:
        raise ConfigurationError(
            f"vars.topics in dbt_project.yml: {dict(entry)}: land_as names one topic, so it goes"
            " with `topic`, not with a pattern"
        )
    _require_brackets(entry.get("pattern"))
    when = condition(entry)
    return TopicRule(
        topic=entry.get("topic"),
        pattern=entry.get("pattern"),
        format=entry["format"],
        from_kafka=entry.get("kafka", True),
        land_as=entry.get("land_as"),
        when=when,
        compacted=entry.get("compacted"),
    )


def _require_brackets(pattern: str | None) -> None:
    """Refuse a pattern with unmatched brackets; Java checks everything else."""
    if problem := unmatched_bracket(pattern or ""):
        raise ConfigurationError(
            f"vars.topics has the pattern {pattern!r}, which is not a regular expression: {problem}"
        )


def condition(entry: Mapping[str, Any]) -> Condition | None:
    """The condition in the ``when`` of an entry, None without one. Raises
    ``ConfigurationError``.
    """
    when = entry.get("when")
    match when:
        case None if "when" not in entry:
            return None
        case {"first_byte": int(byte), **rest} if not rest and 0 <= byte <= 255:
            # True is an int too.
            if not isinstance(byte, bool):
                return Condition(first_byte=byte)
        case {"header": str(header), "is": str(value), **rest} if not rest and header:
            return Condition(header=header, value=value)
    raise ConfigurationError(
        f"vars.topics in dbt_project.yml: {dict(entry)}: when is {{first_byte: 0 to 255}} or"
        ' {header: name, is: "text"}'
    )
