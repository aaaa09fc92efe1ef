"""How far a landing has read from Kafka, for ``telling.working``."""

from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.texts import counted


def read_of(spark: SparkSession, total: int) -> Callable[[], str]:
    """How many of so many messages have been read: ``120,000 of 500,000 messages``. Tasks say so
    when they end, and each ten seconds; until one has, their number is told.
    """
    tasks = tasks_of(spark)

    def how_far() -> str:
        try:
            records = _records_read(spark)
        except (Py4JError, OSError):
            # Spark has ended, of which others tell.
            return ""
        # Of a topic that was landed before, what bronze has is read too.
        return f"{min(records, total):,} of {counted(total, 'message')}" if records else tasks()

    return how_far


def _records_read(spark: SparkSession) -> int:
    """What the stages that are at work have read."""
    scala: Any = spark.sparkContext._jsc.sc()
    stages = scala.statusStore().activeStages()
    return sum(int(stages.apply(each).inputRecords()) for each in range(stages.size()))
