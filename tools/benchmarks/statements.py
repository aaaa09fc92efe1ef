"""What an increment asks of Spark: SQL executions and jobs, which no machine makes fewer or more.

Lakes of order events, as of ``increments``: changes of one table, and of three; and of one where
two others have no news. All models of the run count, from other_events to the counters.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from tools.benchmarks.increments import OrderLake, write_orders_project
from tools.benchmarks.measuring import Figure, Options

BENCHMARK: Final = "statements"

_CHANGES: Final = 3_000
_FURTHER: Final = 2
# Of a run with news of one table, and for each further table with news; none for one without.
EXECUTIONS: Final = 12
JOBS: Final = 6
FURTHER_EXECUTIONS: Final = 5
FURTHER_JOBS: Final = 3


class Asked(NamedTuple):
    """What a run has asked of Spark."""

    executions: int
    jobs: int


def asked_by(spark: SparkSession, run: Callable[[], object]) -> Asked:
    """What a run asks of a session's Spark."""
    before = _asked(spark)
    run()
    after = _asked(spark)
    return Asked(after.executions - before.executions, after.jobs - before.jobs)


def _asked(spark: SparkSession) -> Asked:
    context = spark.sparkContext._jsc.sc()
    # Its listener runs behind.
    context.listenerBus().waitUntilEmpty()
    executions = spark._jsparkSession.sharedState().statusStore().executionsCount()
    return Asked(int(executions), int(context.dagScheduler().numTotalJobs()))


def count(folder: Path, tables: int, changed: int) -> Asked:
    """What a run asks with news of so many of a lake's tables."""
    project = write_orders_project(folder / f"project-{tables}", tables)
    lake = OrderLake(folder / f"lake-{tables}-{changed}", project, tables)
    lake.land_inserts(_CHANGES * tables)
    lake.run()
    some = OrderLake(lake.folder, project, changed, lake.events)
    # The first increment of a session does what none does after it.
    for _ in range(2):
        some.land_inserts(_CHANGES * changed)
        asked = asked_by(some.spark, some.run)
    return asked


def measure(options: Options) -> list[Figure]:
    """Counts beside their bars, as ratios."""
    one = count(options.folder / "one", 1, 1)
    many = count(options.folder / "many", 1 + _FURTHER, 1 + _FURTHER)
    quiet = count(options.folder / "quiet", 1 + _FURTHER, 1)
    figures = []
    for unit, bar, further_bar, place in (
        ("executions", EXECUTIONS, FURTHER_EXECUTIONS, 0),
        ("jobs", JOBS, FURTHER_JOBS, 1),
    ):
        further = (many[place] - one[place]) / _FURTHER
        without = (quiet[place] - one[place]) / _FURTHER
        figures += [
            _figure(f"{unit} of one table", one[place], bar),
            _figure(f"{unit} of each further table", further, further_bar),
            _figure(f"{unit} of a table without news", without, 0),
        ]
    return figures


def _figure(name: str, found: float, bar: float) -> Figure:
    return Figure(BENCHMARK, name, found, bar, higher_is_better=False)
