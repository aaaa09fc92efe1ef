"""Runs benchmarks, each in a process of its own, and prints their ratios against the bars.

    python -m tools.benchmarks                              all of them
    python -m tools.benchmarks decoders spark_decode        some
    python -m tools.benchmarks decoders --shape wide        other payloads

Both sides of a ratio are measured in the same run, in turn, so it holds for any machine; the rates
beside it are this machine's. Results are also written as results.json and results.txt.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.config.paths import CACHE, ROOT
from tools.benchmarks.measuring import Figure, Options
from tools.benchmarks.payloads import SHAPES, chosen_shapes

BENCHMARKS: Final = (
    "decoders",
    "spark_decode",
    "pipeline",
    "ceilings",
    "decode_cli",
    "increments",
    "histories",
    "statements",
    "memory",
    "empty_run",
    "scale",
    "upkeep",
    "format_versions",
    "workers",
    "live",
    "cycles",
)
_HEADINGS: Final = ("benchmark", "figure", "ratio", "bar", "", "measured")
_VERDICTS: Final = {True: "met", False: "NOT MET", None: ""}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument(
        "--events", type=_positive, default=1_000_000, help="events of a measurement (1,000,000)"
    )
    parser.add_argument("--rounds", type=_positive, default=3, help="of which medians count (3)")
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT / "tools/benchmarks/results",
        help="folder of the results (tools/benchmarks/results)",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="WORD",
        help=f"payloads of decoders and spark_decode, by what is in a name: {', '.join(SHAPES)}",
    )
    parser.add_argument("--measure", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in BENCHMARKS]:
        parser.error(f"no benchmark is called {unknown[0]!r}: they are {', '.join(BENCHMARKS)}")
    try:
        chosen_shapes(tuple(arguments.shape))
    except ValueError as error:
        parser.error(str(error))
    return arguments


def _positive(text: str) -> int:
    number = int(text.replace(",", "").replace("_", ""))
    if number < 1:
        raise argparse.ArgumentTypeError("must be from 1")
    return number


def _measure(name: str, arguments: argparse.Namespace) -> None:
    """In the benchmark's own process: measure, and leave the figures in a file."""
    temporary = CACHE / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(
        prefix=f"benchmark-{name}-", dir=temporary, ignore_cleanup_errors=True
    ) as folder:
        options = Options(
            arguments.events,
            arguments.rounds,
            Path(folder),
            arguments.out,
            tuple(arguments.shape),
        )
        # By name: one benchmark must not load what only another one needs.
        figures: list[Figure] = importlib.import_module(f"tools.benchmarks.{name}").measure(options)
        arguments.measure.write_text(json.dumps([asdict(figure) for figure in figures]))


def _figures_of(name: str, arguments: argparse.Namespace) -> list[Figure] | None:
    """The figures of a benchmark, measured in a process of its own; None if that failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "figures.json"
        command = [sys.executable, "-m", "tools.benchmarks", name, "--measure", str(result)]
        command += ["--events", str(arguments.events), "--rounds", str(arguments.rounds)]
        command += ["--out", str(arguments.out.resolve())]
        command += [text for shape in arguments.shape for text in ("--shape", shape)]
        # What make sets for the demo is not what is measured.
        environment = {**os.environ, "LAKEHOUSE_SMALL": "false"}
        # Spark and dbt write to stdout too; the table has it for itself.
        code = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False
        ).returncode
        if code != 0:
            return None
        return [Figure(**figure) for figure in json.loads(result.read_text())]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _cells(figure: Figure) -> tuple[str, ...]:
    sign = ">=" if figure.higher_is_better else "<="
    measured = ", ".join(f"{name} {_number(value)}" for name, value in figure.measured.items())
    return (
        figure.benchmark,
        figure.name,
        f"{figure.ratio:.2f}",
        "-" if figure.bar is None else f"{sign} {figure.bar:g}",
        _VERDICTS[figure.meets_bar],
        measured,
    )


def table(figures: Sequence[Figure]) -> str:
    """Figures as lines of text; one without a bar has no verdict."""
    rows = [_HEADINGS, *(_cells(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _report(figures: list[Figure], arguments: argparse.Namespace) -> dict[str, Any]:
    return {
        "events": arguments.events,
        "rounds": arguments.rounds,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": [asdict(figure) | {"meets_bar": figure.meets_bar} for figure in figures],
    }


def main() -> int:
    """Run what was asked for. 0 if everything could be measured, met or not; else 1."""
    arguments = _arguments()
    if arguments.measure is not None:
        _measure(arguments.names[0], arguments)
        return 0
    figures: list[Figure] = []
    failed: list[str] = []
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or BENCHMARKS:
        print(f"measuring {name}", file=sys.stderr)
        measured = _figures_of(name, arguments)
        if measured is None:
            failed.append(name)
            continue
        figures += measured
        # After each one, so that a long run that is cut off leaves what it has.
        report = json.dumps(_report(figures, arguments), indent=2)
        (arguments.out / "results.json").write_text(report + "\n")
        (arguments.out / "results.txt").write_text(table(figures) + "\n")
    print(table(figures))
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
