"""Check that Kafka continues where bronze ends: no message was deleted unread, and each topic is
the one that was landed.

A topic that fails this stalls, and only that topic.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import KafkaSettings, KafkaSource
from dbt_lakehouse.config.topics import TopicMatcher
from dbt_lakehouse.errors import DataLossError, LakehouseError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.policies import note_policies
from dbt_lakehouse.landing.kafka.admin import PartitionLog, read_logs
from dbt_lakehouse.landing.kafka.partitions import partition_relation
from dbt_lakehouse.landing.kafka.positions import (
    GAPS,
    Position,
    Positions,
    create_tables,
    read_positions,
    rows_like,
)
from dbt_lakehouse.landing.kafka.reading import Range, offsets_in, paired, read_ranges
from dbt_lakehouse.spark.jvm import packages
from dbt_lakehouse.telling import tell


class Prepared(NamedTuple):
    """What can be landed: the logs of the topics that fit bronze, and the positions of all
    topics.

    ``stalled`` are the other topics, by bronze's name, each with the remedy.
    """

    logs: list[PartitionLog]
    positions: Positions
    stalled: dict[str, LakehouseError]


def prepare(spark: SparkSession, source: KafkaSource, *, accept_loss: bool) -> Prepared:
    """Compare the brokers' logs with bronze's positions, and find the topics that don't fit.

    With ``accept_loss``, messages that Kafka has deleted are recorded and don't stall a topic.
    """
    create_tables(spark)
    logs, stalled, policies = read_logs(spark, source.settings, source.rules)
    positions = read_positions(spark, logs)
    if any(log.end < position.read_to for log, position in paired(logs, positions)):
        # Another host may have landed messages that came after the first look.
        logs, stalled, policies = read_logs(spark, source.settings, source.rules)
        positions = read_positions(spark, logs)
    stalled.update(_other_topics(spark, source.settings, logs, positions))
    logs = [log for log in logs if log.topic not in stalled]
    lost: dict[str, list[Range]] = {}
    for log, position in paired(logs, positions):
        if position.next_offset < log.start:
            gap = Range(log, position, position.next_offset, log.start)
            lost.setdefault(log.topic, []).append(gap)
    if lost and accept_loss:
        _record_gaps(spark, [each for ranges in lost.values() for each in ranges])
        positions = read_positions(spark, logs)
    elif lost:
        stalled.update({topic: DataLossError(_loss_text(lost[topic])) for topic in lost})
        logs = [log for log in logs if log.topic not in stalled]
    _note_policies(spark, source, policies)
    return Prepared(logs, positions, stalled)


def raise_stalled(
    stalled: Mapping[str, LakehouseError], known: Collection[str] = frozenset()
) -> None:
    """Raise the errors of topics that can't be landed, if there are topics other than ``known``."""
    errors = [stalled[topic] for topic in sorted(stalled) if topic not in known]
    if errors:
        raise type(errors[0])("; ".join(map(str, errors)))


def _note_policies(
    spark: SparkSession, source: KafkaSource, policies: Mapping[str, str | None]
) -> None:
    """Keep whether the topics are compacted, before any of their messages land, since it decides
    how those are read.
    """
    note_policies(spark, {name: policy for name, policy in policies.items() if policy is not None})
    matcher = TopicMatcher(packages(spark), source.rules)
    unknown = [
        topic
        for topic, policy in policies.items()
        if policy is None and matcher.compacted_in_bronze(topic) is None
    ]
    if unknown:
        tell(
            f"Kafka does not let this user ask whether {', '.join(sorted(unknown))} is compacted"
            " (DescribeConfigs): say it by `compacted: true` or `false` in vars.topics"
        )


# --- Gaps -----------------------------------------------------------------------------------------


def _loss_text(lost: Sequence[Range]) -> str:
    where = "; ".join(
        f"topic {each.log.kafka_topic} partition {each.log.partition}: offsets {each.start} to"
        f" {each.end - 1}"
        for each in lost
    )
    return (
        f"Kafka has deleted messages that were not landed, at most {offsets_in(lost):,}"
        f" (not every offset is a message): {where}. Retention was shorter than the time between"
        " two landings. Nothing of it was landed. To go on without them, run `lakehouse land"
        f" --kafka --accept-loss` once, which records the gap in {GAPS.removeprefix('lake.')}"
    )


def _record_gaps(spark: SparkSession, lost: Sequence[Range]) -> None:
    """Record gaps before anything behind them lands, so that no gap goes unrecorded."""
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
    rows_like(spark, GAPS, rows).createOrReplaceTempView("accepted_gaps")
    spark.sql(f"insert into {GAPS} select * from accepted_gaps")
    for each in lost:
        tell(
            f"recorded in {GAPS.removeprefix('lake.')}: topic {each.log.kafka_topic} partition"
            f" {each.log.partition} lacks offsets {each.start} to {each.end - 1}"
        )


# --- Other topics of the same name ----------------------------------------------------------------


def _other_topics(
    spark: SparkSession,
    settings: KafkaSettings,
    logs: Sequence[PartitionLog],
    positions: Positions,
) -> dict[str, DataLossError]:
    """The topics, by bronze's name, that are not the landed ones: their offsets would be mistaken
    for those of the messages in bronze.

    A topic with another id, or without one, still counts as the landed one if each landed
    partition holds its last landed message: it is a copy.
    """
    by_partition = {(log.topic, log.partition): log for log in logs}
    by_topic = {log.topic: log for log in logs}
    others: dict[str, DataLossError] = {}
    doubtful = []
    for (topic, partition), position in sorted(positions.by_partition.items()):
        if topic not in by_topic or topic in others:
            continue
        log = by_partition.get((topic, partition))
        landed = position.landed_offset
        if log is None:
            # A topic never loses a partition.
            if landed is not None:
                others[topic] = _other_topic(
                    by_topic[topic],
                    f"it has no partition {partition}, of which bronze has got to {landed} already",
                )
            continue
        if log.end < position.read_to:
            others[topic] = _other_topic(
                log,
                f"partition {partition} ends before offset {log.end}, but bronze has got to"
                f" {position.read_to - 1} already",
            )
        elif landed is None or (
            position.topic_id is not None and position.topic_id == log.topic_id
        ):
            continue
        elif landed >= log.start:
            # Messages that have landed are not left out here.
            doubtful.append(Range(log, position._replace(landed_offset=None), landed, landed + 1))
        elif _has_other_id(log, position):
            others[topic] = _other_id(log, position)
    doubtful = [each for each in doubtful if each.log.topic not in others]
    if doubtful:
        others.update(_unlike_landed(spark, settings, doubtful))
    return others


def _unlike_landed(
    spark: SparkSession, settings: KafkaSettings, doubtful: Sequence[Range]
) -> dict[str, DataLossError]:
    """The topics whose last landed messages Kafka no longer holds."""
    found = _comparisons(spark, settings, doubtful)
    others: dict[str, DataLossError] = {}
    for each in doubtful:
        log = each.log
        is_same = found.get((log.topic, log.partition))
        if is_same is False:
            others[log.topic] = _other_topic(
                log,
                f"partition {log.partition} holds another message at offset {each.start} than"
                " the one that is landed",
            )
        elif is_same is None and _has_other_id(log, each.position):
            others[log.topic] = _other_id(log, each.position)
    return others


def _comparisons(
    spark: SparkSession, settings: KafkaSettings, ranges: Sequence[Range]
) -> dict[tuple[str, int], bool]:
    """Whether bronze and Kafka hold the same message at each range (of one offset), by topic and
    partition; ranges without a message in Kafka are left out.
    """
    read_ranges(spark, settings, ranges).createOrReplaceTempView("kafka_messages")
    offsets = {(each.log.topic, each.log.partition): each.start for each in ranges}
    partition_relation(spark, offsets, "offset").createOrReplaceTempView("last_landed")
    rows = spark.sql(
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
    return {(row.topic, row.partition): row.is_same for row in rows}


def _has_other_id(log: PartitionLog, position: Position) -> bool:
    """Whether the topic has another id than the landed one; False if that is unknown for want of
    ids.
    """
    return position.topic_id not in (None, log.topic_id) and log.topic_id is not None


def _other_id(log: PartitionLog, position: Position) -> DataLossError:
    """The error for a topic with another id, without messages to compare."""
    return _other_topic(log, f"its id is {log.topic_id} and no longer {position.topic_id}")


def _other_topic(log: PartitionLog, evidence: str) -> DataLossError:
    return DataLossError(
        f"topic {log.kafka_topic} is not the one that was landed: {evidence}. Was it deleted and"
        " created again, or its log truncated? None of its messages were landed. Bronze keeps the"
        " old messages with their offsets, so the new ones need another name: write"
        f" `land_as: {log.topic}.2` into the topic's entry in vars.topics, and they land under it"
        " from their beginning"
    )
