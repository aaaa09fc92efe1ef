"""Offset ranges to read from Kafka, and their messages as rows of bronze."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse.config.kafka import PREFIX, KafkaSettings
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.landing.kafka.admin import PartitionLog
from dbt_lakehouse.landing.kafka.positions import Position, Positions
from dbt_lakehouse.spark.java import own_object
from dbt_lakehouse.spark.jvm import java_class
from dbt_lakehouse.texts import sql_text

# The messages of a task, and of a file; fewer would not be worth a task.
_MESSAGES_PER_FILE: Final = 1_000_000
_MESSAGES_PER_TASK: Final = 20_000
# Of more messages, it takes no part of the time to open consumers, and they may hold much that they
# have fetched ahead.
_MESSAGES_TO_STAY_OPEN: Final = 100_000
_GROUP: Final = f"{PREFIX}group.id"
_KEY: Final = os.urandom(32)
_FIRST_MESSAGE: Final = Path(__file__).parent / "FirstMessage.java"
# A broker answers in a few. Behind many aborted messages Spark looks on.
_LOOK_MILLIS: Final = 1_000


class Range(NamedTuple):
    """A range of offsets of one partition: from ``start`` to before ``end``."""

    log: PartitionLog
    position: Position
    start: int
    end: int


def paired(
    logs: Iterable[PartitionLog], positions: Positions
) -> Iterator[tuple[PartitionLog, Position]]:
    """Each log with its position."""
    return ((log, positions.by_partition[log.topic, log.partition]) for log in logs)


def new_ranges(logs: Iterable[PartitionLog], positions: Positions) -> list[Range]:
    """The offsets behind each partition's position."""
    ranges = [
        Range(log, position, position.next_offset, log.end)
        for log, position in paired(logs, positions)
    ]
    return [each for each in ranges if each.start < each.end]


def capped(ranges: Sequence[Range], most: int) -> list[Range]:
    """The beginnings of the ranges, ``most`` offsets in total: a proportional share of each, so
    that no partition waits for another.
    """
    total = offsets_in(ranges)
    if total <= most:
        return list(ranges)
    sizes = [(each.end - each.start) * most // total for each in ranges]
    # The longest ranges get what rounding has left over.
    longest = sorted(range(len(ranges)), key=lambda i: ranges[i].start - ranges[i].end)
    for i in longest[: most - sum(sizes)]:
        sizes[i] += 1
    return [
        each._replace(end=each.start + size)
        for each, size in zip(ranges, sizes, strict=True)
        if size
    ]


def offsets_in(ranges: Iterable[Range]) -> int:
    """The number of offsets in the ranges."""
    return sum(each.end - each.start for each in ranges)


def read_ranges(
    spark: SparkSession,
    settings: KafkaSettings,
    ranges: Sequence[Range],
    logs: Sequence[PartitionLog] = (),
) -> DataFrame:
    """The messages of the ranges that bronze lacks, as its rows. If they are few, consumers stay
    open for the next landing of the same ``logs``.
    """
    total = offsets_in(ranges)
    tasks = max(
        min(spark.sparkContext.defaultParallelism, math.ceil(total / _MESSAGES_PER_TASK)),
        math.ceil(total / _MESSAGES_PER_FILE),
    )
    group = consumer_group(settings, logs) if total <= _MESSAGES_TO_STAY_OPEN else None
    return without_landed(
        load_ranges(spark, settings, ranges, tasks, group),
        {(each.log.topic, each.log.partition): each.position for each in ranges},
    )


def consumer_group(settings: KafkaSettings, logs: Sequence[PartitionLog]) -> str | None:
    """A name under which Spark keeps the consumers of logs, as long as these are the same: with
    another topic of the same name, or another leader, offsets may have other messages than a
    consumer has fetched ahead. None if that can't be told.

    No broker is asked about the group: partitions are assigned, and offsets never committed.
    """
    if not logs or any(log.topic_id is None or log.epoch is None for log in logs):
        return None
    told = sorted((log.kafka_topic, log.partition, log.topic_id, log.epoch) for log in logs)
    # Spark creates consumers only once, whatever the next settings are. Brokers see the name.
    secret = json.dumps([sorted(settings.source_options().items()), told]).encode()
    return f"spark-kafka-relation-{blake2b(secret, key=_KEY, digest_size=16).hexdigest()}"


def by_topic(rows: DataFrame, ranges: Sequence[Range]) -> DataFrame:
    """The rows of ranges, ready to be written: many rows of several topics are sorted by topic,
    since the source's partitions are in no order. A log of one topic then skips the others' row
    groups.
    """
    is_mixed = len({each.log.topic for each in ranges}) > 1
    if is_mixed and offsets_in(ranges) > _MESSAGES_PER_TASK:
        return rows.sortWithinPartitions("topic")
    return rows


def has_rows(settings: KafkaSettings, ranges: Sequence[Range], rows: DataFrame) -> bool:
    """Whether the ranges have any rows, which ``read_ranges`` has made of them. The end of a
    transaction takes an offset without a message, as do aborted messages.
    """
    # Which messages bronze holds already, only Spark can tell.
    may_ask_kafka = not any(each.position.overlaps for each in ranges)
    return (may_ask_kafka and _has_message(settings, ranges)) or not rows.isEmpty()


def _has_message(settings: KafkaSettings, ranges: Sequence[Range]) -> bool:
    """Whether the ranges certainly have a message. A consumer finds it while Spark would still plan
    the job.
    """
    properties = java_class("java.util.Properties")()
    for name, value in settings.look_options().items():
        properties.setProperty(name, value)
    lines = (
        (each.log.kafka_topic, str(each.log.partition), str(each.start), str(each.end))
        for each in ranges
    )
    asked = "\n".join("\t".join(line) for line in lines)
    try:
        found: bool = own_object(_FIRST_MESSAGE).isIn(properties, asked, _LOOK_MILLIS)
    except Py4JJavaError:
        # Spark's errors have their own explanations.
        return False
    return found


def load_ranges(
    spark: SparkSession,
    settings: KafkaSettings,
    ranges: Sequence[Range],
    tasks: int,
    group: str | None = None,
) -> DataFrame:
    """The messages of the ranges as rows of bronze, whether bronze has them or not. The consumers
    are those of a ``consumer_group``, or new ones.
    """
    consumers = {} if group is None else {_GROUP: group}
    messages = (
        spark.read.format("kafka")
        # The profile's own group has priority.
        .options(**{**consumers, **settings.source_options()})
        .option("assign", _by_topic(ranges, None))
        .option("startingOffsets", _by_topic(ranges, "start"))
        .option("endingOffsets", _by_topic(ranges, "end"))
        .option("minPartitions", str(tasks))
        .load()
        .coalesce(tasks)
    )
    return bronze_rows(messages, renamed(each.log for each in ranges))


def _by_topic(ranges: Iterable[Range], bound: str | None) -> str:
    """JSON as the Kafka source wants it: partitions by topic, or one of their bounds."""
    topics: dict[str, dict[str, int]] = {}
    for each in ranges:
        partitions = topics.setdefault(each.log.kafka_topic, {})
        partitions[str(each.log.partition)] = 0 if bound is None else getattr(each, bound)
    if bound is None:
        return json.dumps({topic: [int(number) for number in topics[topic]] for topic in topics})
    return json.dumps(topics)


def renamed(logs: Iterable[PartitionLog]) -> dict[str, str]:
    """Kafka's names of the topics that have another name in bronze, with that name."""
    return {log.kafka_topic: log.topic for log in logs if log.topic != log.kafka_topic}


def bronze_rows(messages: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Rows of the Kafka source as rows of bronze, with ``names`` of ``renamed``."""
    topic = "topic"
    for kafka_name, name in names.items():
        topic = f"if(topic = {sql_text(kafka_name)}, {sql_text(name)}, {topic})"
    return messages.selectExpr(
        f"{topic} as topic",
        "partition",
        "offset",
        # Messages in Kafka's oldest format have no timestamp (type -1); the source makes it 1969.
        "if(timestampType < 0, null, timestamp) as timestamp",
        "timestampType as timestamp_type",
        "key",
        "value",
        "headers",
        "current_timestamp() as landed_at",
    )


def without_landed(rows: DataFrame, partitions: Mapping[tuple[str, int], Position]) -> DataFrame:
    """The rows that bronze lacks, for partitions of which it already holds rows."""
    overlaps = [
        f"(topic = {sql_text(topic)} and partition = {partition}"
        f" and offset >= {position.next_offset})"
        for (topic, partition), position in partitions.items()
        if position.overlaps
    ]
    if not overlaps:
        return rows
    landed = rows.sparkSession.sql(
        f"select topic, partition, offset from {bronze.TABLE} where {' or '.join(overlaps)}"
    )
    return rows.join(landed, ["topic", "partition", "offset"], "left_anti")
