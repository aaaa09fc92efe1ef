"""How far bronze lags behind Kafka, asked now."""

from datetime import UTC, datetime

from pyspark.sql import SparkSession

from dbt_lakehouse.lake.locks import streamed_topics
from dbt_lakehouse.landing.kafka.admin import read_logs
from dbt_lakehouse.landing.kafka.positions import create_tables, lags, read_positions
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
    """A row for each partition: as in ``bronze.topic_partitions``, and which stream lands it.

    Raises ``KafkaError`` and ``ConfigurationError``.
    """
    logs = read_logs(spark, source.settings, source.rules)
    create_tables(spark)
    rows = lags(read_positions(spark, logs), logs, datetime.now(UTC))
    streamed = streamed_topics(spark, {log.topic for log in logs})
    return [{**row, "streamed_by": streamed.get(str(row["topic"]))} for row in rows]


def status_text(rows: list[dict[str, object]]) -> str:
    """The rows as a table for people, and their sum."""
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
    return "\n".join([*lines, f"{counted(behind, 'message')} behind at most"])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%F %T}"
    return f"{value:.1f}" if isinstance(value, float) else str(value)
