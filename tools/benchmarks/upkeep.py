"""Two hundred runs in a row, with maintenance and readers between them: does anything grow that
should not?

A lake of order events gets a small batch of changes for each run; `lakehouse maintain` is called
each 20th run, and keeps the snapshots of the last minute. Meanwhile a reader without Spark asks
gold again and again for a sum over all of its rows. After each run are counted: the live data files
and the snapshots of all tables, the bytes of their manifests, those of the last twenty
descriptions (metadata.json) of each that the profile keeps, the bytes of the whole warehouse, the
memory of Spark's process and of Python's. Data grow, by the events; the rest should be flat once
each table has its twenty.
"""

import os
import statistics
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from matplotlib.figure import Figure as Plot
from pyspark import SparkContext

from dbt_lakehouse.lake.catalog import absolute
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.maintenance import run
from dbt_lakehouse.maintenance.policy import candidates
from dbt_lakehouse.queries.query import answered
from dbt_lakehouse.runs import tables
from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.session.project import Project, ProjectOptions, load
from tools.benchmarks.increments import OrderLake, rounded, write_orders_project
from tools.benchmarks.measuring import Figure, Options, resident_bytes

BENCHMARK: Final = "upkeep"

_RUNS: Final = 200
_RUNS_OF_A_DAY: Final = 20
_DAYS_KEPT: Final = 60 / 86_400
_MB: Final = 1 << 20


class Look(NamedTuple):
    """What there is after a run."""

    seconds: float
    data_files: int
    snapshots: int
    manifests_mb: float
    metadata_json_mb: float
    warehouse_mb: float
    memory_mb: float


def measure(options: Options) -> list[Figure]:
    """Run, draw the plot, report how the last fifth of the runs compares with the third."""
    folder = options.folder / "upkeep"
    lake = OrderLake(folder / "lake", write_orders_project(folder / "project"))
    lake.land_inserts(rounded(options.events // 10))
    lake.run()
    looks = []
    with _reading(lake) as reads:
        for number in range(1, _RUNS + 1):
            seconds = lake.increment(rounded(options.events // 1000), "random").total
            if number % _RUNS_OF_A_DAY == 0:
                _maintain(lake)
            looks.append(_look(lake, seconds))
    _draw(options.out, looks)
    return [_figure(name, looks, len(reads)) for name in Look._fields]


def _maintain(lake: OrderLake) -> None:
    chosen = candidates(read_manifest(_project(lake)), [], _DAYS_KEPT)
    list(run.maintain(lake.spark, chosen, dry_run=False))


def _project(lake: OrderLake) -> Project:
    return load(ProjectOptions(str(lake.project), str(lake.project / "profiles")))


@contextmanager
def _reading(lake: OrderLake) -> Iterator[list[int]]:
    """Somebody who asks gold meanwhile; gets the counts of its rows. Raises what reading raises."""
    done, counts, errors = threading.Event(), list[int](), list[Exception]()
    project = _project(lake)
    settings = absolute(project.parameters, project.root)

    def ask() -> None:
        while not done.wait(0.5):
            try:
                reader = Reader(settings, project.gold)
                with answered(reader, "select count(*), sum(amount) from orders_0") as rows:
                    counts.append(next(iter(rows.values()))[0])
            except Exception as error:
                errors.append(error)
                return

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield counts
    finally:
        done.set()
        thread.join()
    if errors:
        raise errors[0]


def _look(lake: OrderLake, seconds: float) -> Look:
    spark = lake.spark
    names = [
        f"{schema}.{row.tableName}"
        for schema in ("bronze", "silver", "gold")
        for row in spark.sql(f"show tables in {schema}").collect()
    ]
    known = [table for name in names if (table := tables.look_at(spark, name)) and table.chain]
    sizes = {
        path: path.stat().st_size
        for path in (lake.folder / "lake" / "warehouse").rglob("*")
        if path.is_file()
    }
    metadata = {path: size for path, size in sizes.items() if path.parent.name == "metadata"}
    gateway: Any = SparkContext._gateway
    return Look(
        seconds,
        sum(int(table.chain[0].summary["total-data-files"]) for table in known),
        sum(len(table.chain) + len(table.others) for table in known),
        sum(size for path, size in metadata.items() if path.suffix != ".json") / _MB,
        sum(size for path, size in metadata.items() if path.suffix == ".json") / _MB,
        sum(sizes.values()) / _MB,
        (resident_bytes(gateway.proc.pid) + resident_bytes(os.getpid())) / _MB,
    )


def _figure(name: str, looks: Sequence[Look], reads: int) -> Figure:
    """The last fifth of the runs against the third: before, tables get all their versions."""
    fifth = len(looks) // 5
    before = statistics.median(getattr(each, name) for each in looks[2 * fifth : 3 * fifth])
    after = statistics.median(getattr(each, name) for each in looks[-fifth:])
    return Figure(
        BENCHMARK,
        f"{name.replace('_', ' ')}, runs {len(looks) - fifth + 1} to {len(looks)} : runs"
        f" {2 * fifth + 1} to {3 * fifth}",
        after / before,
        higher_is_better=False,
        measured={"before": before, "after": after, "reads meanwhile": float(reads)},
    )


def _draw(folder: Path, looks: Sequence[Look]) -> None:
    # Not by way of pyplot, which looks for a display.
    plot = Plot(figsize=(11.2, 5.6), layout="constrained")
    *panels, unused = plot.subplots(2, 4).flat
    unused.set_axis_off()
    for axes, name in zip(panels, Look._fields, strict=True):
        axes.plot([getattr(each, name) for each in looks], linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_title(name.replace("_", " "), fontsize="medium")
        axes.grid(alpha=0.3)
    plot.suptitle(f"{len(looks)} runs, maintained each {_RUNS_OF_A_DAY}th", fontsize="medium")
    plot.savefig(folder / "upkeep.png", dpi=120)
