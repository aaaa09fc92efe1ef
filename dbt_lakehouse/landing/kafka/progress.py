"""How far a landing has read from Kafka, for ``telling.working``."""

from collections.abc import Callable
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from dbt_lakehouse.spark.java import java_class
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.texts import counted

# What each consumer has read in all, by Kafka's "Monitoring" of consumers' fetches.
_CONSUMERS: Final = "kafka.consumer:type=consumer-fetch-manager-metrics,client-id=*"
_MESSAGES: Final = "records-consumed-total"
_BYTES: Final = "bytes-consumed-total"


def read_of(spark: SparkSession, total: int) -> Callable[[], str]:
    """How many of so many messages have been read: ``120,000 of 500,000 messages, 34 MB``. Where
    the executors are other machines it is the number of tasks: their consumers are there.
    """
    tasks = tasks_of(spark)
    # Consumers outlive a landing.
    start = _consumed()
    seen = dict(start)

    def how_far() -> str:
        try:
            seen.update(_consumed())
        except (Py4JError, OSError):
            # Spark has ended, of which others tell.
            return ""
        read = [
            sum(each[part] - start.get(name, (0, 0))[part] for name, each in seen.items())
            for part in (0, 1)
        ]
        if not read[0]:
            return tasks()
        # Of a topic that was landed before, what bronze has is read too.
        return f"{min(read[0], total):,} of {counted(total, 'message')}, {read[1] / 1e6:,.0f} MB"

    return how_far


def _consumed() -> dict[str, tuple[int, int]]:
    """The messages and bytes that each of the driver's consumers has read."""
    beans: Any = java_class("java.lang.management.ManagementFactory").getPlatformMBeanServer()
    pattern = java_class("javax.management.ObjectName")(_CONSUMERS)
    consumed = {}
    for name in beans.queryNames(pattern, None):
        try:
            found = [int(beans.getAttribute(name, each)) for each in (_MESSAGES, _BYTES)]
        except Py4JError:
            # It was closed meanwhile.
            continue
        consumed[str(name)] = (found[0], found[1])
    return consumed
