"""Messages of a topic as Kafka has them now, whether landed or not; nothing is written."""

from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import KafkaSource
from dbt_lakehouse.config.topics import TopicMatcher, TopicRule
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.landing.kafka.admin import PartitionLog, read_logs
from dbt_lakehouse.landing.kafka.positions import Position
from dbt_lakehouse.landing.kafka.reading import Range, load_ranges
from dbt_lakehouse.spark.jvm import packages
from dbt_lakehouse.texts import did_you_mean
from python_udfs.core.events import Headers

_SUFFIXES_OF_FILES: Final = (".jsonl", ".ndjson", ".json", ".gz")


class Peeked(NamedTuple):
    """A message, with the format that vars.topics gives it."""

    partition: int
    offset: int
    timestamp: int | None
    """Kafka's, in microseconds since the epoch: its year may be outside of Python's range."""
    key: bytes | None
    value: bytes | None
    format: str | None
    headers: Headers


def newest(spark: SparkSession, source: KafkaSource, topic: str, limit: int) -> list[Peeked]:
    """The newest messages of a topic, by Kafka's time, the newest last.

    Raises ``KafkaError`` and ``ConfigurationError``.
    """
    ranges = [
        _range(log, max(log.start, log.end - limit), log.end)
        for log in _logs(spark, source, topic)
        if log.start < log.end
    ]
    messages = _read(spark, source, topic, ranges)
    messages.sort(key=lambda each: (each.timestamp or 0, each.partition, each.offset))
    return messages[-limit:]


def message_at(
    spark: SparkSession, source: KafkaSource, topic: str, partition: int | None, offset: int
) -> Peeked:
    """The message at a position.

    Raises ``KafkaError`` and ``ConfigurationError``, also if there is no such message.
    """
    logs = _logs(spark, source, topic)
    there = [
        log for log in logs if partition in (None, log.partition) and log.start <= offset < log.end
    ]
    if len(there) > 1:
        partitions = ", ".join(str(log.partition) for log in there)
        raise ConfigurationError(
            f"{topic} has offset {offset} in partitions {partitions}: --partition says which"
        )
    messages = _read(spark, source, topic, [_range(log, offset, offset + 1) for log in there])
    if not messages:
        held = ", ".join(f"{log.start} to {log.end - 1} in {log.partition}" for log in logs)
        raise ConfigurationError(
            f"Kafka has no offset {offset} of {topic}: it has offsets {held or 'of no partition'},"
            " except those that it has compacted away"
        )
    return messages[0]


def _logs(spark: SparkSession, source: KafkaSource, topic: str) -> list[PartitionLog]:
    """The partitions of a topic, whether vars.topics lists it or not."""
    of_topic = TopicRule(topic, None, "", from_kafka=True, land_as=None)
    logs = read_logs(spark, source.settings, [of_topic])
    if topic in logs.stalled and all(topic != rule.topic for rule in source.rules):
        raise no_such_topic(source, topic)
    for error in logs.stalled.values():
        raise error
    return logs.partitions


def no_such_topic(source: KafkaSource, topic: str) -> ConfigurationError:
    """The error for a missing topic, which vars.topics need not name."""
    named = (rule.topic for rule in source.rules if rule.topic != topic)
    known = [name for name in named if name is not None]
    # A file's name may be a topic's, so this is said only once no broker has the topic.
    is_like_file = topic.lower().endswith(_SUFFIXES_OF_FILES)
    captures = "; `lakehouse add TOPIC --captures FILE` takes a file" if is_like_file else ""
    return ConfigurationError(
        f"the broker at {source.settings.servers} has no topic {topic}, or doesn't let this user"
        f" read it{did_you_mean(topic, known)}{captures}"
    )


def _range(log: PartitionLog, start: int, end: int) -> Range:
    return Range(log, Position(start, None, None, None), start, end)


def _read(
    spark: SparkSession, source: KafkaSource, topic: str, ranges: list[Range]
) -> list[Peeked]:
    if not ranges:
        return []
    formats = TopicMatcher(packages(spark), source.rules).formats(topic)
    rows = load_ranges(spark, source.settings, ranges, 1).selectExpr(
        "partition", "offset", "unix_micros(timestamp) as timestamp", "key", "value", "headers"
    )
    messages = []
    for row in rows.collect():
        key, value = (None if text is None else bytes(text) for text in (row["key"], row["value"]))
        headers = [
            (name, None if text is None else bytes(text)) for name, text in row["headers"] or ()
        ]
        format_name = formats.of(key, value, headers) if formats else None
        messages.append(
            Peeked(
                row["partition"], row["offset"], row["timestamp"], key, value, format_name, headers
            )
        )
    return messages
