"""`lakehouse add --dry-run`: show what `lakehouse add` would do with topics, without doing it.

Captures are read in this process. Kafka is read by Spark, as `lakehouse peek` does: only the
newest messages of a topic, so that `add` may find more than a dry run.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.add import Addition, refuse_files
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Report
from dbt_lakehouse.commands.generate.generated_models import (
    choose_formats,
    refuse_unlistable,
    text_with_topics,
)
from dbt_lakehouse.commands.generate.profile import NO_TIME, Position, TableId, TopicProfile
from dbt_lakehouse.commands.generate.project_files import PlannedFiles
from dbt_lakehouse.commands.generate.scan import (
    SUGGESTION_BYTES,
    SUGGESTION_PAYLOADS,
    Suggestion,
    format_of,
    suggestion_of,
)
from dbt_lakehouse.commands.generate.writer import Writer
from dbt_lakehouse.config.topics import Formats, TopicMatcher, topic_rules
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.schema_registry import know_schemas_of
from dbt_lakehouse.landing.files import positioned
from dbt_lakehouse.landing.kafka.peeking import newest
from dbt_lakehouse.landing.progress import Reading, size_of
from dbt_lakehouse.session.opening import start_session
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.spark.jvm import packages
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import did_you_mean, listed
from python_udfs.core.events import Headers

_NEWEST: Final = 500
"""The messages that are read of each topic in Kafka."""

_Payloads = list[tuple[bytes | None, bytes]]


class _Message(NamedTuple):
    """A message from captures or Kafka."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Microseconds since the epoch, or ``NO_TIME``."""
    key: bytes | None
    value: bytes | None
    headers: Headers


_Messages = Callable[[], Iterable[_Message]]
"""Gives the messages at each call."""


def foresee(project: Project, given: Addition) -> Iterator[str]:
    """Describe the messages, their formats with the reason, and the models and settings that
    `lakehouse add` would write.

    Nothing lands, and no file is written. Raises the errors of ``add`` before its build.
    """
    refuse_files(given.topics, from_kafka=not given.captures)
    project.refuse_landing_elsewhere()
    refuse_unlistable(project, given.topics, given.format)
    files = PlannedFiles(project.root)
    files.refuse_unwritable()
    rules = topic_rules(project.variables.get("topics"))
    messages = _captured(given.captures) if given.captures else _in_kafka(project, given.topics)
    # Patterns are in Java's syntax.
    jvm = _jvm(project) if any(rule.pattern is not None for rule in rules) else None
    matcher = TopicMatcher(jvm, rules)
    samples = _samples(messages())
    _refuse_missing(given.topics, samples)
    chosen = choose_formats(matcher, given.options, lambda topic: _suggested(samples[topic]))
    profile = _profile(messages(), chosen.formats)
    report = Report([*given.topics], profile.messages, [*chosen.why])
    if not given.captures:
        report.notes.append(
            f"looked at the newest {_NEWEST} messages of a topic at most: lakehouse add looks at"
            " all, and may find more columns and wider types"
        )
    if profile.undecodable:
        report.notes.append(profile.undecodable)

    def other_tables() -> set[tuple[TableId, str]]:
        others = {
            topic: matcher.formats_in_bronze(topic) or _guessed(payloads)
            for topic, payloads in samples.items()
            if topic not in chosen.formats
        }
        formats = {topic: each for topic, each in others.items() if each is not None}
        tables = _profile(messages(), formats).tables
        return {(table, topic) for table, each in tables.items() for topic in each.topics}

    writer = Writer(
        files,
        given.topics,
        profile,
        other_tables,
        table=given.table,
        name=None,
        keys=given.options.keys,
    )
    writer.write(report)
    if chosen.unlisted and len(report.failed) < len(report.tables):
        listed_text = text_with_topics(files, chosen.unlisted, from_kafka=not given.captures)
        files.plan(files.project_file, listed_text)
    yield report.text(with_next=False, is_planned=True)
    if len(report.failed) == len(report.tables):
        raise GenerateError("no table would get models, so nothing would be built")
    shown = files.shown_texts()
    if shown:
        yield f"\n{shown}"
    yield "\nnothing was landed or written; run lakehouse add without --dry-run to do both"


def _jvm(project: Project) -> Any:
    return packages(start_session(project.parameters, project.root))


def _captured(paths: Sequence[str]) -> _Messages:
    """The messages of captures. Raises ``LandingError``, as landing them does."""

    def messages() -> Iterator[_Message]:
        reading = Reading(size_of(paths))
        with working("looking at captures", reading.how_far):
            for each in positioned(paths, reading):
                # positioned() has checked it.
                assert each.topic and each.partition is not None and each.offset is not None
                time = NO_TIME if each.timestamp_ms is None else each.timestamp_ms * 1000
                headers = each.headers or ()
                yield _Message(
                    each.topic, each.partition, each.offset, time, each.key, each.value, headers
                )

    return messages


def _in_kafka(project: Project, topics: Sequence[str]) -> _Messages:
    """The newest messages of topics in Kafka. Raises ``KafkaError`` and ``ConfigurationError``."""
    source = project.require_kafka(topics)
    spark = start_session(project.parameters, project.root)
    with working("looking at messages"):
        found = [
            _Message(
                topic,
                each.partition,
                each.offset,
                NO_TIME if each.timestamp is None else each.timestamp,
                each.key,
                each.value,
                each.headers,
            )
            for topic in topics
            for each in newest(spark, source, topic, _NEWEST)
        ]
    return lambda: found


def _samples(messages: Iterable[_Message]) -> dict[str, _Payloads]:
    """The topics of messages, with some keys and values of each, from which a format is
    suggested.
    """
    samples: dict[str, _Payloads] = {}
    sizes: dict[str, int] = {}
    for topic, *_, key, value, _ in messages:
        payloads = samples.setdefault(topic, [])
        if not value:
            continue
        sizes[topic] = sizes.get(topic, 0) + len(value) + len(key or b"")
        fits = sizes[topic] <= SUGGESTION_BYTES and len(payloads) < SUGGESTION_PAYLOADS
        if fits or not payloads:
            payloads.append((key, value))
    return samples


def _suggested(payloads: _Payloads) -> Suggestion | None:
    know_schemas_of(None, chain.from_iterable(payloads))
    return suggestion_of(payloads)


def _guessed(payloads: _Payloads) -> Formats | None:
    name = format_of(payloads)
    return None if name is None else Formats.only(name)


def _refuse_missing(topics: Sequence[str], found: Iterable[str]) -> None:
    """Raise ``ConfigurationError`` for a topic without messages."""
    there = sorted(found)
    for topic in topics:
        if topic not in there:
            raise ConfigurationError(
                f"there is no message of the topic {topic}"
                f"{did_you_mean(topic, there) or ': ' + listed('there are messages of', there)}"
            )


def _profile(messages: Iterable[_Message], formats: Mapping[str, Formats]) -> TopicProfile:
    """The profile of the messages whose topics have formats."""
    profile = TopicProfile()
    for topic, partition, offset, time, key, value, headers in messages:
        of_topic = formats.get(topic)
        name = None if of_topic is None else of_topic.of(key, value, headers)
        if name is not None:
            know_schemas_of(name, (key, value))
            profile.add(name, key, value, Position(time, topic, partition, offset), headers)
    profile.settle()
    return profile
