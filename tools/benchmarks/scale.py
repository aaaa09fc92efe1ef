"""What a million events cost by the number of tables, by the size of a batch and by the length of
the history, each as a plot with its fitted exponent; and what a table with little news costs in a
run of a hundred, beside a MERGE of nothing.

A cost that goes with the power 0 of something does not depend on it; one that goes with -1 is a
fixed cost of each run. As in increments, the seconds are dbt's from the first model to the last.
The plots are beside the results; what is plotted is in the figures, too.
"""

import math
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.figure import Figure as Plot

from tools.benchmarks.increments import OrderLake, rounded, table_name, write_orders_project
from tools.benchmarks.measuring import Figure, Options, wall_seconds

BENCHMARK: Final = "scale"

_TABLES: Final = (1, 10, 100)
# Parts of the usual number of events, and multiples of it.
_BATCHES: Final = (1_000, 100, 10, 1)
_HISTORIES: Final = (1, 2, 5, 10)
# News of each of many tables, and how many empty MERGEs a table may cost then.
_NEWS: Final = 200
_MERGES_BAR: Final = 3.0


class Point(NamedTuple):
    """What was varied, and what a million events cost then."""

    size: float
    seconds: float


class Series(NamedTuple):
    """The points of one line."""

    name: str
    points: list[Point]

    @property
    def exponent(self) -> float:
        """Of the power law through the points: least squares of the logarithms."""
        sizes = [math.log(point.size) for point in self.points]
        costs = [math.log(point.seconds) for point in self.points]
        return statistics.linear_regression(sizes, costs).slope


def measure(options: Options) -> list[Figure]:
    """Measure all three, draw them, report the exponents."""
    loads, increments, little = _by_tables(options)
    batches, histories = _by_batch(options), _by_history(options)
    _draw(options.out, "tables", "tables fed by the same topics", [loads, increments])
    _draw(options.out, "batch", "events of a batch", [batches])
    _draw(options.out, "history", "events before the batch", [histories])
    return [*(_figure(each) for each in (loads, increments, batches, histories)), little]


def _by_tables(options: Options) -> tuple[Series, Series, Figure]:
    """The same events for more and more tables: the first load, and a tenth of it as changes; and
    of the most tables, little news of each.
    """
    loads, increments = [], []
    # A number that fills the partitions of all tables, whatever their number.
    unit = max(_TABLES)
    events = unit * rounded(options.events // unit)
    for tables in _TABLES:
        folder = options.folder / f"tables-{tables}"
        lake = OrderLake(folder / "lake", write_orders_project(folder / "project", tables), tables)
        lake.land_inserts(events)
        loads.append(Point(tables, _per_million(lake.run().total, events)))
        changes = unit * rounded(events // unit // 10)
        seconds = lake.increment(changes, "random").total
        increments.append(Point(tables, _per_million(seconds, changes)))
    return (
        Series("first load by number of tables", loads),
        Series("increment by number of tables", increments),
        _little_news(lake, options),
    )


def _little_news(lake: OrderLake, options: Options) -> Figure:
    """What a table with little news costs in a run of as many, to MERGEs that find nothing to do
    in the same tables.
    """
    runs = [lake.increment(lake.tables * _NEWS, "random").total for _ in range(options.rounds)]
    merges = []
    for number in range(lake.tables):
        name = f"lake.gold.{table_name(number)}"
        statement = (
            f"merge into {name} as target using (select * from {name} where false) as source"
            " on target.order_id = source.order_id when matched then delete"
            " when not matched then insert *"
        )
        merges.append(wall_seconds(partial(lake.spark.sql, statement)))
    table, merge = statistics.median(runs) / lake.tables, statistics.median(merges)
    return Figure(
        BENCHMARK,
        f"a table of {lake.tables} with {_NEWS} changes each, to an empty MERGE",
        table / merge,
        _MERGES_BAR,
        higher_is_better=False,
        measured={"s/table": table, "s/MERGE": merge},
    )


def _by_batch(options: Options) -> Series:
    """Changes in batches of all sizes into a lake of the usual size."""
    folder = options.folder / "batches"
    lake = OrderLake(folder / "lake", write_orders_project(folder / "project"))
    lake.land_inserts(rounded(options.events))
    lake.run()
    # Python workers have started, and Spark has compiled.
    lake.increment(rounded(options.events // 100), "random")
    points = []
    for part in _BATCHES:
        changes = rounded(options.events // part)
        runs = [lake.increment(changes, "random") for _ in range(options.rounds)]
        seconds = statistics.median(run.total for run in runs)
        points.append(Point(changes, _per_million(seconds, changes)))
    return Series("increment by events of the batch", points)


def _by_history(options: Options) -> Series:
    """Small batches into a lake whose history grows, that of the same keys."""
    folder = options.folder / "history"
    lake = OrderLake(folder / "lake", write_orders_project(folder / "project"))
    keys, changes = rounded(options.events), rounded(options.events // 100)
    points = []
    for multiple in _HISTORIES:
        lake.land_history(multiple * keys - lake.events, keys)
        lake.run()
        lake.increment(changes, "random")
        history = lake.events
        runs = [lake.increment(changes, "random") for _ in range(options.rounds)]
        seconds = statistics.median(run.total for run in runs)
        points.append(Point(history, _per_million(seconds, changes)))
    return Series("increment by events of the history", points)


def _per_million(seconds: float, events: int) -> float:
    return seconds * 1_000_000 / events


def _figure(series: Series) -> Figure:
    """Its exponent, without a bar."""
    return Figure(
        BENCHMARK,
        f"{series.name}, exponent",
        series.exponent,
        measured={f"s/M events at {point.size:,.0f}": point.seconds for point in series.points},
    )


def _draw(folder: Path, name: str, label: str, lines: Sequence[Series]) -> None:
    """Write a plot of the lines."""
    # Not by way of pyplot, which looks for a display.
    plot = Plot(figsize=(6.4, 4.2), layout="constrained")
    axes = plot.subplots()
    for line in lines:
        sizes = [point.size for point in line.points]
        axes.plot(sizes, [point.seconds for point in line.points], marker="o", label=line.name)
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="seconds for a million events")
    exponents = ", ".join(f"{line.exponent:.2f}" for line in lines)
    axes.set_title(f"cost goes with the power {exponents} of {label}", fontsize="medium")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    plot.savefig(folder / f"scale-{name}.png", dpi=120)
