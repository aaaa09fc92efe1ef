"""How far bronze lags behind Kafka, asked now."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from dbt_lakehouse.lake.locks import streamed_topics
from dbt_lakehouse.landing.kafka.continuity import prepare
from dbt_lakehouse.landing.kafka.positions import lags
from dbt_lakehouse.landing.kafka.settings import KafkaSource
from dbt_lakehouse.texts import counted

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
    """A row for each partition: as in ``bronze.topic_partitions``, which stream lands it, and what
    keeps the topic from going on. A topic that nothing is known of has a row without partition.

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


def status_text(rows: list[dict[str, object]]) -> str:
    """The rows as a table for people, their sum, and what is wrong."""
    cells = [_COLUMNS, *(tuple(_cell(row[name]) for name in _COLUMNS) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_COLUMNS))]
    lines = [
        "  ".join(
            cell.ljust(width) if i in (0, 7) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    behind = sum(int(str(row["lag_messages"])) for row in rows if row["lag_messages"] is not None)
    problems = dict.fromkeys(str(row["problem"]) for row in rows if row["problem"] is not None)
    return "\n".join([*lines, f"{counted(behind, 'message')} behind at most", *problems])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%F %T}"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
