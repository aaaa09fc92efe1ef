"""The progress of Spark's current work."""

from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession


def tasks_of(spark: SparkSession) -> Callable[[], str]:
    """A function for ``telling.working``: ``34 of 120 tasks``, nothing between two jobs."""
    tracker = spark.sparkContext.statusTracker()

    def how_far() -> str:
        try:
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        except (Py4JError, OSError):
            # Spark has ended, which the command reports elsewhere.
            return ""
        total = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        return f"{done:,} of {total:,} tasks" if total else ""

    return how_far
