"""The current lag of bronze behind Kafka."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import KafkaSource
from dbt_lakehouse.lake.locks import streamed_topics
from dbt_lakehouse.landing.kafka.continuity import prepare
from dbt_lakehouse.landing.kafka.positions import lags

_COLUMNS = (
    "topic",
    "partition",
    "next_offset",
    "log_end_offset",
    "lag_messages",
    "lag_seconds",
    "landed_timestamp",
    "streamed_by",
)


def read_status(spark: SparkSession, source: KafkaSource) -> list[dict[str, object]]:
    """A row for each partition: as in ``bronze.topic_partitions``, with the stream that lands it,
    and the reason if the topic has stalled. An unknown topic has a row without a partition.

    Raises ``KafkaError`` and ``ConfigurationError``.
    """
    logs, positions, stalled = prepare(spark, source, accept_loss=False)
    rows = lags(positions, logs, datetime.now(UTC))
    streamed = streamed_topics(spark, {log.topic for log in logs})
    unknown = dict.fromkeys(_COLUMNS)
    rows += [{**unknown, "topic": topic} for topic in stalled if topic not in _topics(rows)]
    return [
        {
            **row,
            "streamed_by": streamed.get(str(row["topic"])),
            "problem": str(stalled[str(row["topic"])]) if row["topic"] in stalled else None,
        }
        for row in rows
    ]


def _topics(rows: list[dict[str, object]]) -> set[object]:
    return {row["topic"] for row in rows}
