"""The progress of a landing's reading from Kafka, for ``telling.working``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dbt_lakehouse.spark.java import own_object
from dbt_lakehouse.spark.jvm import java_context
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import is_shown
from dbt_lakehouse.texts import counted

_CONSUMED: Final = Path(__file__).parent / "Consumed.java"


def read_of(spark: SparkSession, total: int) -> Callable[[], str]:
    """A function for the number of messages read so far: ``120,000 of 500,000 messages, 34 MB``.
    If the executors are other machines, so are their consumers: then tasks report their messages
    when they end, and every ten seconds. Until one has, the number of tasks is shown.
    """
    if not is_shown():
        return str
    tasks = tasks_of(spark)
    try:
        consumed = own_object(_CONSUMED)
        start = _read(consumed)
    except (Py4JError, PySparkException, OSError):
        # A landing must not fail for want of this line.
        return tasks
    # Consumers may outlive a landing, or end before it does.
    seen = dict(start)

    def how_far() -> str:
        try:
            seen.update(_read(consumed))
            of_tasks = _records_read(spark)
        except (Py4JError, PySparkException, OSError):
            # Spark has ended, which the command reports elsewhere.
            return ""
        messages, size = (
            sum(each[part] - start.get(name, (0, 0))[part] for name, each in seen.items())
            for part in (0, 1)
        )
        if not (messages or of_tasks):
            return tasks()
        # For a topic landed before, the stages read bronze's rows too.
        how_many = f"{min(messages or of_tasks, total):,} of {counted(total, 'message')}"
        return f"{how_many}, {size / 1e6:,.0f} MB" if messages else how_many

    return how_far


def _records_read(spark: SparkSession) -> int:
    """The number of records read by the active stages."""
    stages = java_context(spark.sparkContext).statusStore().activeStages()
    return sum(int(stages.apply(each).inputRecords()) for each in range(stages.size()))


def _read(consumed: Any) -> dict[str, tuple[int, int]]:
    """The messages and bytes of each consumer, by its name."""
    lines = (line.split("\t") for line in str(consumed.get()).splitlines())
    return {name: (int(messages), int(size)) for name, messages, size in lines}
