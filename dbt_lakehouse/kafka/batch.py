"""Batch landing: everything new in the topics, as one atomic append to ``bronze.raw_payloads``.

Where to begin is read from bronze, where to end is pinned at the log ends of the start, so the run
is finite under any producer. A run that dies before its commit has landed nothing; one that dies
behind it has landed all, and the next one sees that in bronze.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import click
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import (
    AnalysisException,
    CapturedException,
    IllegalArgumentException,
    ParseException,
)
from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse import bronze
from dbt_lakehouse.errors import ConfigurationError, DataLossError, KafkaError
from dbt_lakehouse.kafka.admin import PartitionLog, error_text, read_logs
from dbt_lakehouse.kafka.positions import (
    GAPS,
    Position,
    Positions,
    create_tables,
    local_relation,
    read_positions,
    save_positions,
)
from dbt_lakehouse.kafka.settings import KafkaSettings
from dbt_lakehouse.locks import landing_lock, stream_lock
from dbt_lakehouse.topics import TopicRule

# A task, and so a file, for each so many messages; fewer would not be worth a task of their own.
_MESSAGES_PER_FILE: Final = 1_000_000
_MESSAGES_PER_TASK: Final = 20_000
_LAST: Final = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
_GAP_ROWS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first_offset", pa.int64()),
        ("next_offset", pa.int64()),
        ("messages_at_most", pa.int64()),
        ("reason", pa.string()),
        ("accepted_at", pa.timestamp("us", tz="UTC")),
    ]
)
# How often a run begins anew because another host has appended meanwhile.
_ATTEMPTS: Final = 10


class KafkaSource(NamedTuple):
    """What Kafka landing needs to know of the project."""

    settings: KafkaSettings
    rules: Sequence[TopicRule]
    max_messages: int
    patience: float


class KafkaLanding(NamedTuple):
    """What one run did: messages appended, offsets still to be read below the log ends that it saw,
    and topics that were left to a running stream, by its description.
    """

    landed: int
    remaining: int
    left_to_stream: dict[str, str]


class Range(NamedTuple):
    """Offsets of one partition to read: from ``start`` to before ``end``."""

    log: PartitionLog
    position: Position
    start: int
    end: int


def land_kafka(
    spark: SparkSession, source: KafkaSource, *, accept_loss: bool = False
) -> KafkaLanding:
    """Append what is new in Kafka, at most ``source.max_messages`` offsets of it.

    With ``accept_loss``, messages that Kafka has deleted unread are recorded in
    ``bronze.kafka_gaps``, and landing goes on behind them. Raises ``KafkaError``, ``DataLossError``
    and ``ConfigurationError``; nothing was landed then.
    """
    for attempt in range(_ATTEMPTS):
        with landing_lock(spark).held("landing from Kafka", source.patience):
            try:
                return _land(spark, source, accept_loss=accept_loss)
            except bronze.ConcurrentAppendError:
                click.echo("another host has landed meanwhile: starting over", err=True)
                time.sleep(min(attempt, 3))
            except (AnalysisException, ParseException):
                # A mistake of ours.
                raise
            except IllegalArgumentException as error:
                raise ConfigurationError(
                    f"Spark's Kafka source refuses the profile's kafka.* settings:"
                    f" {error_text(error)}"
                ) from error
            except (Py4JJavaError, CapturedException) as error:
                # If the brokers can't be asked any more, or have deleted what was being read, that
                # is the reason and says more than the task that failed.
                prepare(spark, source, accept_loss=False)
                raise KafkaError(
                    f"reading from {source.settings.servers} failed, nothing was landed:"
                    f" {error_text(error)}"
                ) from error
    raise KafkaError(
        f"gave up: {_ATTEMPTS} times another host has landed messages while this one read them;"
        " land from one host only, or at other times"
    )


def landing_text(result: KafkaLanding) -> str:
    """What a run did, in a line for people."""
    text = f"kafka: landed {result.landed:,} messages"
    if result.remaining:
        text += f", {result.remaining:,} offsets are left for the next run"
    for topic, holder in result.left_to_stream.items():
        text += f"; topic {topic} is left to {holder}, which lands it"
    return text


def _land(spark: SparkSession, source: KafkaSource, *, accept_loss: bool) -> KafkaLanding:
    logs, positions = prepare(spark, source, accept_loss=accept_loss)
    checked_at = datetime.now(UTC)
    streamed = streamed_topics(spark, {log.topic for log in logs})
    new = new_ranges([log for log in logs if log.topic not in streamed], positions)
    chosen = capped(new, source.max_messages)
    landed = 0
    if chosen:
        _report(new, chosen)
        rows = _messages(spark, source.settings, chosen)
        # A transaction's end takes an offset but is no message: a range may hold none, and an empty
        # commit in every run would be noise.
        if not rows.isEmpty():
            landed = bronze.append(rows, positions.snapshot).rows
        positions = advanced(
            read_positions(spark, logs),
            {(each.log.topic, each.log.partition): each.end for each in chosen},
        )
    save_positions(spark, positions, logs, checked_at)
    return KafkaLanding(landed, _offsets(new) - _offsets(chosen), streamed)


def prepare(
    spark: SparkSession, source: KafkaSource, *, accept_loss: bool
) -> tuple[list[PartitionLog], Positions]:
    """What the brokers hold and where bronze stands, once it is sure that they fit together.

    Raises ``DataLossError`` if they don't; with ``accept_loss``, messages that Kafka has deleted
    are recorded instead.
    """
    logs = read_logs(spark, source.settings, source.rules)
    create_tables(spark)
    positions = read_positions(spark, logs)
    if any(log.end < position.read_to for log, position in _paired(logs, positions)):
        # Another host may have landed what came after the first look.
        logs = read_logs(spark, source.settings, source.rules)
        positions = read_positions(spark, logs)
    _refuse_other_topics(spark, source.settings, logs, positions)
    lost = [
        Range(log, position, position.next_offset, log.start)
        for log, position in _paired(logs, positions)
        if position.next_offset < log.start
    ]
    if not lost:
        return logs, positions
    if not accept_loss:
        raise DataLossError(_loss_text(lost))
    _record_gaps(spark, lost)
    return logs, read_positions(spark, logs)


def new_ranges(logs: Iterable[PartitionLog], positions: Positions) -> list[Range]:
    """What each partition has behind its position."""
    ranges = [
        Range(log, position, position.next_offset, log.end)
        for log, position in _paired(logs, positions)
    ]
    return [each for each in ranges if each.start < each.end]


def capped(ranges: Sequence[Range], most: int) -> list[Range]:
    """The beginnings of the ranges, ``most`` offsets in all: from each its share, so that no
    partition waits for another.
    """
    total = _offsets(ranges)
    if total <= most:
        return list(ranges)
    sizes = [(each.end - each.start) * most // total for each in ranges]
    # What rounding has left over goes to the longest.
    longest = sorted(range(len(ranges)), key=lambda i: ranges[i].start - ranges[i].end)
    for i in longest[: most - sum(sizes)]:
        sizes[i] += 1
    return [
        each._replace(end=each.start + size)
        for each, size in zip(ranges, sizes, strict=True)
        if size
    ]


def advanced(positions: Positions, ends: Mapping[tuple[str, int], int]) -> Positions:
    """The positions with those in ``ends`` moved to there."""
    moved = {
        key: positions.by_partition[key]._replace(next_offset=end) for key, end in ends.items()
    }
    return positions._replace(by_partition={**positions.by_partition, **moved})


def bronze_rows(messages: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Rows of the Kafka source as rows of bronze. ``names`` are the topics that bronze calls
    otherwise.
    """
    topic = "topic"
    for kafka_name, name in names.items():
        topic = f"if(topic = '{kafka_name}', '{name}', {topic})"
    return messages.selectExpr(
        f"{topic} as topic",
        "partition",
        "offset",
        # Messages of Kafka's oldest format have none (type -1); the source makes it 1969.
        "if(timestampType < 0, null, timestamp) as timestamp",
        "timestampType as timestamp_type",
        "key",
        "value",
        "headers",
        "current_timestamp() as landed_at",
    )


def without_landed(rows: DataFrame, partitions: Mapping[tuple[str, int], Position]) -> DataFrame:
    """The rows that bronze does not hold, for partitions of which it holds some."""
    overlaps = [
        f"(topic = '{topic}' and partition = {partition} and offset >= {position.next_offset})"
        for (topic, partition), position in partitions.items()
        if position.overlaps
    ]
    if not overlaps:
        return rows
    landed = rows.sparkSession.sql(
        f"select topic, partition, offset from {bronze.TABLE} where {' or '.join(overlaps)}"
    )
    return rows.join(landed, ["topic", "partition", "offset"], "left_anti")


def _messages(spark: SparkSession, settings: KafkaSettings, ranges: Sequence[Range]) -> DataFrame:
    """The messages of the ranges that bronze does not hold, as its rows."""
    total = _offsets(ranges)
    tasks = max(
        min(spark.sparkContext.defaultParallelism, math.ceil(total / _MESSAGES_PER_TASK)),
        math.ceil(total / _MESSAGES_PER_FILE),
    )
    messages = (
        spark.read.format("kafka")
        .options(**settings.source_options())
        .option("assign", _by_topic(ranges, None))
        .option("startingOffsets", _by_topic(ranges, "start"))
        .option("endingOffsets", _by_topic(ranges, "end"))
        .option("minPartitions", str(tasks))
        .load()
        .coalesce(tasks)
    )
    logs = [each.log for each in ranges]
    rows = bronze_rows(
        messages, {log.kafka_topic: log.topic for log in logs if log.topic != log.kafka_topic}
    )
    return without_landed(
        rows, {(each.log.topic, each.log.partition): each.position for each in ranges}
    )


def _by_topic(ranges: Iterable[Range], bound: str | None) -> str:
    """JSON as the Kafka source wants it: partitions by topic, or one of their bounds."""
    topics: dict[str, dict[str, int]] = {}
    for each in ranges:
        partitions = topics.setdefault(each.log.kafka_topic, {})
        partitions[str(each.log.partition)] = 0 if bound is None else getattr(each, bound)
    if bound is None:
        return json.dumps({topic: [int(number) for number in topics[topic]] for topic in topics})
    return json.dumps(topics)


def _paired(
    logs: Iterable[PartitionLog], positions: Positions
) -> Iterator[tuple[PartitionLog, Position]]:
    return ((log, positions.by_partition[log.topic, log.partition]) for log in logs)


def _offsets(ranges: Iterable[Range]) -> int:
    return sum(each.end - each.start for each in ranges)


def streamed_topics(spark: SparkSession, topics: Iterable[str]) -> dict[str, str]:
    """The topics that a stream of another process lands now, and which. None can begin while we
    hold the landing lock.
    """
    streamed = {}
    for topic in sorted(topics):
        lock = stream_lock(spark, topic)
        if lock.take("landing"):
            lock.release()
        else:
            streamed[topic] = lock.holder()
    return streamed


def _report(new: Sequence[Range], chosen: Sequence[Range]) -> None:
    topics = sorted({each.log.topic for each in chosen})
    names = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
    part = "" if len(chosen) == 0 or _offsets(new) == _offsets(chosen) else f" of {_offsets(new):,}"
    click.echo(
        f"kafka: reading {_offsets(chosen):,}{part} offsets in {len(chosen)} partitions of {names}",
        err=True,
    )


def _refuse_other_topics(
    spark: SparkSession,
    settings: KafkaSettings,
    logs: Sequence[PartitionLog],
    positions: Positions,
) -> None:
    """Raise ``DataLossError`` for a topic that is not the one that was landed: its offsets would be
    taken for those of the messages in bronze.
    """
    doubtful = []
    for log, position in _paired(logs, positions):
        landed = position.landed_offset
        same = position.topic_id is not None and position.topic_id == log.topic_id
        if log.end < position.read_to:
            raise DataLossError(
                _other_topic_text(
                    log,
                    f"partition {log.partition} ends before offset {log.end}, but bronze has"
                    f" got to {position.read_to - 1} already",
                )
            )
        if landed is None or same:
            continue
        if landed >= log.start:
            doubtful.append(Range(log, position._replace(landed_offset=None), landed, landed + 1))
        elif position.topic_id is not None and log.topic_id is not None:
            raise DataLossError(
                _other_topic_text(
                    log, f"its id is {log.topic_id} and no longer {position.topic_id}"
                )
            )
    if doubtful:
        _compare_with_landed(spark, settings, doubtful)


def _compare_with_landed(
    spark: SparkSession, settings: KafkaSettings, doubtful: Sequence[Range]
) -> None:
    """Raise ``DataLossError`` unless Kafka still holds the last landed messages."""
    _messages(spark, settings, doubtful).createOrReplaceTempView("kafka_messages")
    last = [
        {"topic": each.log.topic, "partition": each.log.partition, "offset": each.start}
        for each in doubtful
    ]
    local_relation(spark, last, _LAST).createOrReplaceTempView("last_landed")
    found = {
        (row.topic, row.partition): row.is_same
        for row in spark.sql(
            f"""
            with landed as (
                select topic, partition, timestamp, {bronze.FINGERPRINT} as fingerprint
                from {bronze.TABLE}
                left semi join last_landed using (topic, partition, offset)
            ),

            held as (
                select topic, partition, timestamp, {bronze.FINGERPRINT} as fingerprint
                from kafka_messages
            )

            select
                topic,
                partition,
                landed.fingerprint = held.fingerprint
                -- A capture need not have one.
                and coalesce(landed.timestamp = held.timestamp, true) as is_same
            from landed
            inner join held using (topic, partition)
            """
        ).collect()
    }
    for each in doubtful:
        log = each.log
        is_same = found.get((log.topic, log.partition))
        if is_same is False:
            raise DataLossError(
                _other_topic_text(
                    log,
                    f"partition {log.partition} holds another message at offset {each.start} than"
                    " the one that is landed",
                )
            )
        if is_same is None and each.position.topic_id is not None and log.topic_id is not None:
            raise DataLossError(
                _other_topic_text(
                    log, f"its id is {log.topic_id} and no longer {each.position.topic_id}"
                )
            )


def _other_topic_text(log: PartitionLog, evidence: str) -> str:
    return (
        f"topic {log.kafka_topic} is not the one that was landed: {evidence}. Was it deleted and"
        " created anew, or its log cut off? Nothing was landed. Bronze keeps the old messages with"
        f" their offsets, so the new ones need another name: write `land_as: {log.topic}.2` into"
        " the topic's entry in vars.topics, and they land under it from their beginning"
    )


def _loss_text(lost: Sequence[Range]) -> str:
    where = "; ".join(
        f"topic {each.log.kafka_topic} partition {each.log.partition}: offsets {each.start} to"
        f" {each.end - 1}"
        for each in lost
    )
    return (
        f"Kafka has deleted messages that were not landed, at most {_offsets(lost):,}"
        f" (not every offset is a message): {where}. Retention was shorter than the time between"
        " two landings. Nothing was landed. To go on without them, run `lakehouse land --kafka"
        f" --accept-loss` once, which records the gap in {GAPS.removeprefix('lake.')}"
    )


def _record_gaps(spark: SparkSession, lost: Sequence[Range]) -> None:
    """Before anything behind a gap lands, so that no gap goes unrecorded."""
    now = datetime.now(UTC)
    rows = [
        {
            "topic": each.log.topic,
            "partition": each.log.partition,
            "first_offset": each.start,
            "next_offset": each.end,
            "messages_at_most": each.end - each.start,
            "reason": "retention",
            "accepted_at": now,
        }
        for each in lost
    ]
    local_relation(spark, rows, _GAP_ROWS).coalesce(1).createOrReplaceTempView("accepted_gaps")
    spark.sql(f"insert into {GAPS} select * from accepted_gaps")
    for each in lost:
        click.echo(
            f"recorded in {GAPS.removeprefix('lake.')}: topic {each.log.kafka_topic} partition"
            f" {each.log.partition} lacks offsets {each.start} to {each.end - 1}",
            err=True,
        )
