"""The memory of two first loads: of ten times the usual events with a driver of 4 GiB, and of 100
payloads of 7.5 MB with one of 1 GiB. What is spilled to disk, and how large the Python workers and
the JVM become. `LAKEHOUSE_DRIVER_MEMORY` gives both another size.

The load runs in a process of its own, on a lake whose messages another process has landed, so what
is measured is the load's alone: ``dbt run`` from bronze to gold. Sizes of processes are Linux's own
peaks (``VmHWM``), looked at several times a second, so that none that ends in between is missed
but for its last moment.
"""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from pyspark.sql import SparkSession

from dbt_lakehouse.lake import bronze
from tools.benchmarks.increments import OrderLake, rounded, write_orders_project
from tools.benchmarks.measuring import Figure, Options

BENCHMARK: Final = "memory"

_Result = TypeVar("_Result")

_DRIVER_MEMORY: Final = "LAKEHOUSE_DRIVER_MEMORY"
_LARGE_PAYLOADS: Final = 100
_LARGE_PAYLOAD_BYTES: Final = 7_500_000
_MIB: Final = 2**20
_SECONDS_BETWEEN_LOOKS: Final = 0.2


class Spill(NamedTuple):
    """Bytes that the session's stages have moved out of memory, and what was to be loaded."""

    to_disk: int
    """As written, that is compressed."""
    of_memory: int
    """The same as it was in memory."""
    payloads: int
    """Bytes of the keys and values of the messages, the load's input."""


class Peaks(NamedTuple):
    """The largest resident memory of a process, in bytes."""

    python_worker: int
    jvm: int


class Load(NamedTuple):
    """What a first load took."""

    events: int
    seconds: float
    spill: Spill
    peaks: Peaks


class Size(NamedTuple):
    """What is loaded: so many messages of a row with a text of so many bytes, in so much heap."""

    events: int
    note_bytes: int
    driver_memory: str


def measure(options: Options) -> list[Figure]:
    """Land, load in a process of its own, report."""
    given = os.environ.get(_DRIVER_MEMORY)
    many = Size(10 * rounded(options.events), 40, given or "4g")
    large = Size(_LARGE_PAYLOADS, _LARGE_PAYLOAD_BYTES, given or "1g")
    return [
        *_figures("first load", _load_of(many, options.folder / "many"), 400.0),
        *_figures(f"{large.events} payloads of 7.5 MB", _load_of(large, options.folder / "large")),
    ]


def _load_of(size: Size, folder: Path) -> Load:
    project = write_orders_project(folder / "project")
    _in_its_own_process(_land, folder, project, size)
    return _in_its_own_process(_load, folder, project, size)


def _figures(name: str, load: Load, bar: float | None = None) -> list[Figure]:
    spill, peaks = load.spill, load.peaks
    return [
        Figure(
            BENCHMARK,
            f"{name}, bytes spilled to disk against input",
            spill.to_disk / spill.payloads,
            1.0,
            higher_is_better=False,
            measured={
                "spilled MiB": spill.to_disk / _MIB,
                "spilled MiB, in memory": spill.of_memory / _MIB,
                "input MiB": spill.payloads / _MIB,
                "events": float(load.events),
                "s": load.seconds,
                "events/s": load.events / load.seconds,
            },
        ),
        Figure(
            BENCHMARK,
            f"{name}, largest Python worker in MiB",
            peaks.python_worker / _MIB,
            bar,
            higher_is_better=False,
            measured={"JVM MiB": peaks.jvm / _MIB},
        ),
    ]


def _in_its_own_process(
    job: Callable[[Path, Path, Size], _Result], folder: Path, project: Path, size: Size
) -> _Result:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(job, folder, project, size).result()


def _land(folder: Path, project: Path, size: Size) -> None:
    lake = OrderLake(folder / "lake", project, note_bytes=size.note_bytes)
    lake.land_inserts(size.events)


def _load(folder: Path, project: Path, size: Size) -> Load:
    # Before the JVM starts.
    os.environ[_DRIVER_MEMORY] = size.driver_memory
    lake = OrderLake(folder / "lake", project)
    spark = lake.spark
    (row,) = spark.sql(
        f"select sum(length(key) + length(value)) as bytes from {bronze.TABLE}"
    ).collect()
    with Watch(spark) as watch:
        run = lake.run()
    (gold,) = spark.sql("select count(*) as number from gold.orders_0").collect()
    if gold.number != size.events:
        raise RuntimeError(f"gold has {gold.number} rows of {size.events} events")
    to_disk, of_memory = _spilled(spark)
    return Load(size.events, run.total, Spill(to_disk, of_memory, int(row.bytes)), watch.peaks)


def _spilled(spark: SparkSession) -> tuple[int, int]:
    """Bytes that all stages of the session have spilled: on disk, and as they were in memory."""
    context: Any = spark.sparkContext
    jvm = context._jvm
    no_quantiles = context._gateway.new_array(jvm.double, 0)
    stages = (
        context._jsc.sc()
        .statusStore()
        .stageList(jvm.java.util.ArrayList(), False, False, no_quantiles, jvm.java.util.ArrayList())
    )
    found = [stages.apply(number) for number in range(stages.size())]
    return (
        sum(int(stage.diskBytesSpilled()) for stage in found),
        sum(int(stage.memoryBytesSpilled()) for stage in found),
    )


class Watch:
    """Looks at a session's JVM and Python workers for as long as the context is entered."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = int(jvm.java.lang.ProcessHandle.current().pid())
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.peaks = Peaks(0, 0)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            workers = [_peak(each) for each in _descendants(self._jvm)]
            self.peaks = Peaks(
                max([self.peaks.python_worker, *workers]), max(self.peaks.jvm, _peak(self._jvm))
            )
            if self._done.wait(_SECONDS_BETWEEN_LOOKS):
                return


def _peak(process: int) -> int:
    """The largest resident memory that a process has had, in bytes; 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    sizes = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(sizes[0]) * 1024 if sizes else 0


def _descendants(process: int) -> list[int]:
    """Spark's daemon of Python workers, and the workers that it forks.

    Other processes that the JVM starts are copies of it for a moment, as large as that.
    """
    found = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                if b"pyspark.daemon" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found += [int(child), *_descendants(int(child))]
    except (FileNotFoundError, ProcessLookupError):
        # It, or its thread, has ended meanwhile.
        pass
    return found
