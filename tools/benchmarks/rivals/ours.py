"""Our side: what a cycle of `lakehouse stream --build` runs, ``dbt run`` in a process that stays.

    python -m tools.benchmarks.rivals.ours PAYLOADS FOLDER

Landing in bronze is not timed. A load is all that dbt does for it; what its models take alone is
noted beside it. The project is parsed once, before the first load.
``FOLDER`` gets ``loads.json`` and ``rows.parquet``.
"""

import json
import sys
from pathlib import Path

import pyarrow.parquet as pq

from tools.benchmarks.lake import BenchmarkLake, Run, write_project
from tools.benchmarks.measuring import wall_and_cpu_seconds
from tools.benchmarks.pipeline import DEBEZIUM
from tools.benchmarks.rivals.stream import COLUMNS


def _load(lake: BenchmarkLake, loads: list[Path]) -> list[dict[str, float]]:
    lake.empty()
    measured = []
    for each in loads:
        lake.land(each.iterdir())
        measured.append(_run(lake))
    return measured


def _run(lake: BenchmarkLake) -> dict[str, float]:
    runs: list[Run] = []
    seconds = wall_and_cpu_seconds(lambda: runs.append(lake.run_again()))
    return seconds | {"models s": runs[0].total}


def main() -> None:
    """Warm up with the first loads, then load an empty lake with all of them."""
    payloads, folder = (Path(argument) for argument in sys.argv[1:])
    lake = BenchmarkLake(folder, write_project(folder / "project", DEBEZIUM.models))
    loads = sorted(payloads.iterdir())
    _load(lake, loads[:3])
    (folder / "loads.json").write_text(json.dumps(_load(lake, loads)))
    rows = lake.open_session().table(f"lake.{DEBEZIUM.gold}").select(*COLUMNS.names)
    pq.write_table(rows.toArrow(), folder / "rows.parquet")


if __name__ == "__main__":
    main()
