"""Runs our side and each rival's in turn, compares their rows, prints the ratios.

    python -m tools.benchmarks.rivals --events 300000 --rounds 1

A ratio is the rival's wall seconds by ours.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from dbt_lakehouse.config.paths import CACHE, LOOPBACK, ROOT
from dbt_lakehouse.spark.jars import Jar, ensure_jars
from tools.benchmarks.__main__ import table
from tools.benchmarks.measuring import Figure
from tools.benchmarks.pipeline import INCREMENTS
from tools.benchmarks.rivals.stream import INCREMENT, Rows, folded, read_rows, write_loads


class _Rival(NamedTuple):
    """A side that is not ours."""

    title: str
    module: str
    """Of this package; its environment has the same name."""
    jars: tuple[Jar, ...]
    bars: tuple[float, float]
    """The least ratios for the first load and for the increments."""
    forgets: bool
    """Whether it forgets deleted keys, at some time: late events then bring rows back."""


# The newest Delta that is for the newest Spark that it supports.
DELTA: Final = (
    Jar(
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    ),
    Jar(
        "io.delta:delta-storage:4.4.0",
        "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    ),
)
HUDI: Final = (
    Jar(
        "org.apache.hudi:hudi-spark3.5-bundle_2.12:1.2.0",
        "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676",
    ),
)
OURS: Final = "ours"
RIVALS: Final = {
    "auto_cdc": _Rival("AUTO CDC's code, Delta", "delta", DELTA, (1.5, 1.6), forgets=False),
    "merge": _Rival("foreachBatch with MERGE, Delta", "delta", DELTA, (0.9, 0.9), forgets=True),
    "upsert": _Rival("foreachBatch with upsert, Hudi", "hudi", HUDI, (1.0, 0.45), forgets=True),
}

Measured = dict[str, float]


def _command(side: str, loads: Path, folder: Path) -> list[str]:
    if side == OURS:
        return [sys.executable, "-m", "tools.benchmarks.rivals.ours", str(loads), str(folder)]
    rival = RIVALS[side]
    python = CACHE / "rivals" / rival.module / "bin" / "python"
    program = [str(python), "-m", f"tools.benchmarks.rivals.{rival.module}"]
    jars = os.pathsep.join(map(str, ensure_jars(rival.jars)))
    return [*program, side, str(loads), str(folder), jars]


def _run(side: str, loads: Path, expected: Rows) -> dict[str, Measured]:
    """What a side's loads took. Raises ``RuntimeError`` if its rows differ from the expected ones;
    deleted rows that one which forgets has brought back are counted.
    """
    with _folder(side) as folder:
        command = _command(side, loads, folder)
        # Spark writes to stdout too; the table has it for itself.
        subprocess.run(
            command,
            cwd=ROOT,
            env={"SPARK_LOCAL_IP": LOOPBACK, **os.environ, "PYSPARK_PYTHON": command[0]},
            stdout=sys.stderr,
            # CPU time is that of a session's processes.
            start_new_session=True,
            check=True,
        )
        rows = read_rows(folder / "rows.parquet")
        first, *increments = json.loads((folder / "loads.json").read_text())
    wrong = sum(rows.get(key) != row for key, row in expected.items())
    more = float(len(rows.keys() - expected.keys()))
    forgets = side != OURS and RIVALS[side].forgets
    if wrong or (more and not forgets):
        raise RuntimeError(f"{side}: {wrong} rows are wrong or missing, {more:.0f} should be gone")
    summed = {name: sum(load[name] for load in increments) for name in first}
    summed["median s"] = statistics.median(load["s"] for load in increments)
    if forgets:
        summed["deleted rows brought back"] = more
    return {"first load": first, f"{INCREMENTS} increments": summed}


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    temporary = CACHE / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f"rivals-{name}-", dir=temporary, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def _medians(results: Sequence[Measured]) -> Measured:
    return {name: statistics.median(each[name] for each in results) for name in results[0]}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.rivals", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--events", type=int, default=300_000, help="of the first load (300000)")
    parser.add_argument("--rounds", type=int, default=1, help="of which medians count (1)")
    arguments = parser.parse_args()
    with _folder("loads") as folder:
        loads = write_loads(folder, arguments.events)
        expected = folded(loads)
        results: dict[str, list[dict[str, Measured]]] = {side: [] for side in (OURS, *RIVALS)}
        for _ in range(arguments.rounds):
            for side, runs in results.items():
                print(f"measuring {side}", file=sys.stderr)
                runs.append(_run(side, loads, expected))
                print(runs[-1], file=sys.stderr)
    figures = []
    for rival, about in RIVALS.items():
        for load, bar in zip(results[OURS][0], about.bars, strict=True):
            ours, theirs = (
                _medians([run[load] for run in results[side]]) for side in (OURS, rival)
            )
            measured = ours | {f"rival {name}": value for name, value in theirs.items()}
            name = f"{load}: {about.title}"
            figures.append(Figure("rivals", name, theirs["s"] / ours["s"], bar, measured=measured))
    print(f"{len(expected):,} rows, increments of {INCREMENT:,} events")
    print(table(figures))


if __name__ == "__main__":
    main()
