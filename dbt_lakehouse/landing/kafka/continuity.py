"""Whether Kafka goes on where bronze is: no message deleted unread, and no topic another one than
the one that was landed.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from dbt_lakehouse.errors import DataLossError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.landing.kafka.admin import PartitionLog, read_logs
from dbt_lakehouse.landing.kafka.positions import (
    GAPS,
    Positions,
    create_tables,
    partition_relation,
    read_positions,
    rows_like,
)
from dbt_lakehouse.landing.kafka.reading import Range, offsets_in, paired, read_ranges
from dbt_lakehouse.landing.kafka.settings import KafkaSettings, KafkaSource
from dbt_lakehouse.telling import tell


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
    if any(log.end < position.read_to for log, position in paired(logs, positions)):
        # Another host may have landed what came after the first look.
        logs = read_logs(spark, source.settings, source.rules)
        positions = read_positions(spark, logs)
    _refuse_other_topics(spark, source.settings, logs, positions)
    lost = [
        Range(log, position, position.next_offset, log.start)
        for log, position in paired(logs, positions)
        if position.next_offset < log.start
    ]
    if not lost:
        return logs, positions
    if not accept_loss:
        raise DataLossError(_loss_text(lost))
    _record_gaps(spark, lost)
    return logs, read_positions(spark, logs)


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
    rows_like(spark, GAPS, rows).createOrReplaceTempView("accepted_gaps")
    spark.sql(f"insert into {GAPS} select * from accepted_gaps")
    for each in lost:
        tell(
            f"recorded in {GAPS.removeprefix('lake.')}: topic {each.log.kafka_topic} partition"
            f" {each.log.partition} lacks offsets {each.start} to {each.end - 1}"
        )


# --- Other topics of the same name ----------------------------------------------------------------


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
    for log, position in paired(logs, positions):
        landed = position.landed_offset
        same = position.topic_id is not None and position.topic_id == log.topic_id
        if log.end < position.read_to:
            raise _other_topic(
                log,
                f"partition {log.partition} ends before offset {log.end}, but bronze has"
                f" got to {position.read_to - 1} already",
            )
        if landed is None or same:
            continue
        if landed >= log.start:
            # Nothing is left out of what is read for being landed.
            doubtful.append(Range(log, position._replace(landed_offset=None), landed, landed + 1))
        else:
            _refuse_other_id(log, position.topic_id)
    if doubtful:
        _compare_with_landed(spark, settings, doubtful)


def _compare_with_landed(
    spark: SparkSession, settings: KafkaSettings, doubtful: Sequence[Range]
) -> None:
    """Raise ``DataLossError`` unless Kafka still holds the last landed messages."""
    found = _comparisons(spark, settings, doubtful)
    for each in doubtful:
        log = each.log
        is_same = found.get((log.topic, log.partition))
        if is_same is False:
            raise _other_topic(
                log,
                f"partition {log.partition} holds another message at offset {each.start} than"
                " the one that is landed",
            )
        if is_same is None:
            _refuse_other_id(log, each.position.topic_id)


def _comparisons(
    spark: SparkSession, settings: KafkaSettings, ranges: Sequence[Range]
) -> dict[tuple[str, int], bool]:
    """Whether bronze and Kafka hold the same at each range, which is of one offset, by topic and
    partition; ranges where Kafka has nothing are left out.
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


def _refuse_other_id(log: PartitionLog, landed_id: str | None) -> None:
    """Raise ``DataLossError`` if the topic has another id than the landed one, whose bytes can't be
    compared. Without ids nobody knows.
    """
    if landed_id not in (None, log.topic_id) and log.topic_id is not None:
        raise _other_topic(log, f"its id is {log.topic_id} and no longer {landed_id}")


def _other_topic(log: PartitionLog, evidence: str) -> DataLossError:
    return DataLossError(
        f"topic {log.kafka_topic} is not the one that was landed: {evidence}. Was it deleted and"
        " created anew, or its log cut off? Nothing was landed. Bronze keeps the old messages with"
        f" their offsets, so the new ones need another name: write `land_as: {log.topic}.2` into"
        " the topic's entry in vars.topics, and they land under it from their beginning"
    )
