"""A ``dbt run`` of the demo project that finds nothing new, against the start of JVM and Spark
session alone: both as processes, with all that they import.

The ratio is of wall time. The CPU time beside it, of Python and the JVM together, says the same on
a machine that does other things too.
"""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import ROOT
from tools.benchmarks.measuring import Figure, Options, child_cpu_seconds, medians

_BAR: Final = 2.0
# Names of the profile's two ways to set up Spark, and LAKEHOUSE_SMALL.
_SETTINGS: Final = {"small lakes": "true", "large lakes": "false"}
_SESSION: Final = (
    "from dbt_lakehouse.session.project import ProjectOptions, load;"
    f"load(ProjectOptions({str(ROOT)!r}, {str(ROOT)!r})).open_session().stop()"
)
# Of Linux' prctl: who becomes the parent of processes whose own has ended, as dbt's JVM is.
_PR_SET_CHILD_SUBREAPER: Final = 36


def measure(options: Options) -> list[Figure]:
    """A figure for each setting of the profile."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    dbt = [str(Path(sys.executable).with_name("dbt")), "--quiet"]
    places = ["--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles")]
    session = [sys.executable, "-c", _SESSION]
    figures = []
    for name, small in _SETTINGS.items():
        environment = {
            **os.environ,
            "LAKEHOUSE_LAKE": str(options.folder / "lake"),
            "LAKEHOUSE_SMALL": small,
            "DBT_TARGET_PATH": str(options.folder / "target"),
            "DBT_LOG_PATH": str(options.folder / "logs"),
            # Nothing is landed from a broker; an empty name is none.
            "KAFKA_BOOTSTRAP_SERVERS": "",
        }
        # Builds the lake, and on the second time around finds it built.
        _run([*dbt, "run", *places], environment)
        jobs = {
            "session": lambda env=environment: _run(session, env),
            "run": lambda env=environment: _run([*dbt, "run", *places], env),
        }
        wall = medians(jobs, options.rounds)
        cpu = medians(jobs, options.rounds, child_cpu_seconds, warm_up=False)
        figures.append(
            Figure(
                benchmark="empty_run",
                name=f"dbt run with nothing new / session start, {name}",
                ratio=wall["run"] / wall["session"],
                bar=_BAR,
                higher_is_better=False,
                measured={
                    "session s": wall["session"],
                    "run s": wall["run"],
                    "session CPU s": cpu["session"],
                    "run CPU s": cpu["run"],
                },
            )
        )
    return figures


def _run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a process to its end, and wait for the JVM that it leaves behind."""
    finished = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if finished.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)}:\n{finished.stdout[-2000:]}{finished.stderr[-2000:]}"
        )
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return
