"""What all benchmarks share: their options, the figures they give, and medians of repeated runs."""

import os
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How much to measure, and where to put lakes and payloads meanwhile."""

    events: int
    """Events of a measurement of usual size; others are multiples or parts of it."""
    rounds: int
    """How often each thing is measured; medians count."""
    folder: Path
    """A folder for the run's own files, on a disk with room for them."""
    out: Path
    """The folder of the results."""
    shapes: tuple[str, ...] = ()
    """Which shapes of payloads, by words in their names; none for all. Only what measures several
    looks at them.
    """


@dataclass(frozen=True)
class Figure:
    """A ratio of two measurements of one run, and the bar that it is held against, if any."""

    benchmark: str
    name: str
    ratio: float
    bar: float | None = None
    higher_is_better: bool = True
    measured: Mapping[str, float] = field(default_factory=dict)
    """What the ratio is made of, with the unit in the name: ``{"events/s": 284000.0}``."""

    @property
    def meets_bar(self) -> bool | None:
        """Whether the ratio is at its bar, or on the better side of it; None without a bar."""
        if self.bar is None:
            return None
        return self.ratio >= self.bar if self.higher_is_better else self.ratio <= self.bar


def resident_bytes(process: int) -> int:
    """The memory that a process has now. Raises ``OSError`` if it has ended."""
    pages = Path(f"/proc/{process}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def wall_seconds(job: Callable[[], object]) -> float:
    """How long the job takes."""
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def returned_seconds(job: Callable[[], object]) -> float:
    """What a job that measures itself says."""
    taken = job()
    assert isinstance(taken, float)
    return taken


def cpu_seconds(job: Callable[[], object]) -> float:
    """CPU time, user and system, of this process while the job runs: one core's work, whatever else
    the machine does meanwhile.
    """
    start = time.process_time()
    job()
    return time.process_time() - start


def child_cpu_seconds(job: Callable[[], object]) -> float:
    """CPU time, user and system, of the processes that the job starts and waits for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    job()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def wall_and_cpu_seconds(job: Callable[[], object]) -> dict[str, float]:
    """How long the job takes (``s``), and the CPU time meanwhile of all processes of this one's
    session (``CPU s``): Spark's and Python's workers too.
    """
    before = _session_cpu_seconds()
    wall = wall_seconds(job)
    return {"s": wall, "CPU s": _session_cpu_seconds() - before}


def _session_cpu_seconds() -> float:
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # After the command's name: state, parent, group, session; times are the 12th to 15th.
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[3]) == os.getsid(0):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def medians(
    jobs: Mapping[str, Callable[[], object]],
    rounds: int,
    seconds_of: Callable[[Callable[[], object]], float] = wall_seconds,
    *,
    warm_up: bool = True,
) -> dict[str, float]:
    """The median seconds of each job. They run in turn, round by round, so that a machine that is
    busy for a while slows all of them; the first round warms up and does not count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + warm_up):
        for name, job in jobs.items():
            taken = seconds_of(job)
            if number or not warm_up:
                seconds[name].append(taken)
    return {name: statistics.median(taken) for name, taken in seconds.items()}
