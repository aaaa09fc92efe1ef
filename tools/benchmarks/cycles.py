"""Thousands of cycles of `lakehouse stream --build`: does anything grow that should not?

A broker, a table of orders and the command. Each cycle gets 50 changes, sent when the one before
has been told, so ``--events 100000`` are 2,000 cycles. Tables are maintained every minute, as the
stream does it in its pauses. After each tenth cycle are counted: seconds, the live data files and
the snapshots of all tables, the bytes of their metadata on disk and of all data files, and the
memory of Python and of Java with Python's workers. The last hundred cycles are compared with the
second hundred. In the end gold must hold the rows that the producer knows.
"""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from matplotlib.figure import Figure as Plot

from local_kafka.broker import Broker
from tools.benchmarks.measuring import Figure, Options
from tools.benchmarks.stream_lake import Source, StreamLake

BENCHMARK: Final = "cycles"
CHANGES: Final = 50
_OPTIONS: Final = ("--interval", "0.2", "--maintain-every", "60")
_FLAT_BAR: Final = 1.1
_MB: Final = 1 << 20
# How often files are looked at, in cycles: that lists whole folders.
_EVERY: Final = 10


class Look(NamedTuple):
    """What there is after a cycle."""

    seconds: float
    data_files: float
    snapshots: float
    metadata_mb: float
    data_mb: float
    python_memory_mb: float
    spark_memory_mb: float


def measure(options: Options) -> list[Figure]:
    """Send and wait, ``options.events / 50`` times, from 300 on."""
    if options.events < 300 * CHANGES:
        raise SystemExit(f"cycles takes --events {300 * CHANGES} or more")
    lake = StreamLake(options.folder / BENCHMARK, 1)
    looks: list[Look] = []
    with Broker(lake.folder / "kafka", memory="256m") as broker:
        source = Source(broker.bootstrap_servers, 1)
        with lake.streamed(broker.bootstrap_servers, _OPTIONS):
            lake.wait_for(lambda: bool(lake.cycles()))
            for number in range(options.events // CHANGES):
                before = len(lake.cycles())
                for _ in range(CHANGES):
                    source.send()
                source.producer.flush()
                lake.wait_for(partial(_is_told, lake, before), every=0.02)
                if number % _EVERY == 0:
                    looks.append(_look(lake))
            lake.wait_for(lambda: lake.holds(source))
            lake.end()
    _draw(options.out, looks)
    return [*_figures(looks)]


def _is_told(lake: StreamLake, before: int) -> bool:
    return len(lake.cycles()) > before


def _look(lake: StreamLake) -> Look:
    tables = [
        lake.catalog.load_table(name)
        for (schema,) in lake.catalog.list_namespaces()
        for name in lake.catalog.list_tables(schema)
    ]
    snapshots = [found for each in tables if (found := each.metadata.current_snapshot())]
    files = [each.summary["total-data-files"] for each in snapshots if each.summary]
    sizes = {"metadata": 0, "data": 0}
    for path in (lake.folder / "lake" / "warehouse").rglob("*"):
        if path.parent.name in sizes:
            # Others delete files meanwhile.
            with suppress(FileNotFoundError):
                sizes[path.parent.name] += path.stat().st_size
    return Look(
        statistics.median(lake.cycles()[-_EVERY:]),
        sum(int(each or 0) for each in files),
        sum(len(each.metadata.snapshots) for each in tables),
        sizes["metadata"] / _MB,
        sizes["data"] / _MB,
        *lake.memory(),
    )


def _figures(looks: Sequence[Look]) -> Iterator[Figure]:
    """The last hundred cycles against the second hundred."""
    hundred = 100 // _EVERY
    for name in Look._fields:
        before, after = (
            statistics.median(getattr(each, name) for each in some)
            for some in (looks[hundred : 2 * hundred], looks[-hundred:])
        )
        yield Figure(
            BENCHMARK,
            f"{name.replace('_', ' ')}, the last hundred cycles to the second",
            after / before,
            _FLAT_BAR,
            higher_is_better=False,
            measured={"before": before, "after": after, "cycles": float(len(looks) * _EVERY)},
        )


def _draw(folder: Path, looks: Sequence[Look]) -> None:
    # Not by way of pyplot, which looks for a display.
    plot = Plot(figsize=(11.2, 5.6), layout="constrained")
    *panels, unused = plot.subplots(2, 4).flat
    unused.set_axis_off()
    for axes, name in zip(panels, Look._fields, strict=True):
        cycles = range(0, len(looks) * _EVERY, _EVERY)
        axes.plot(cycles, [getattr(each, name) for each in looks], linewidth=1)
        axes.set_ylim(bottom=0)
        axes.set_title(name.replace("_", " "), fontsize="medium")
        axes.grid(alpha=0.3)
    plot.suptitle(f"{len(looks) * _EVERY:,} cycles", fontsize="medium")
    plot.savefig(folder / "cycles.png", dpi=120)
