"""Runs of changes into a history: do they cost what is new, or what the log holds?

Two lakes of order events (``increments``) with the same keys: in A each key has one event, in B
ten. Into each go changes of random keys, which all come after what is known. The lakes take turns.
The same for records of an Aerospike set, and for a table without a key, which has no history but
counts copies of rows.
"""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.benchmarks.increments import (
    OrderLake,
    RecordLake,
    RowLake,
    record_log_model,
    rounded,
    row_log_model,
    table_name,
    write_orders_project,
)
from tools.benchmarks.lake import Run
from tools.benchmarks.measuring import Figure, Options

_BAR: Final = 1.2
_TIMES: Final = 10
"""How many times A's events B has."""


def measure(options: Options) -> list[Figure]:
    """Build the lakes, run the increments, compare the history's model and the whole run."""
    folder, table = options.folder, table_name(0)
    history = f"{table}_history"
    orders = write_orders_project(folder / "orders", histories=True)
    records = write_orders_project(folder / "records", histories=True, log_model=record_log_model)
    rows = write_orders_project(folder / "rows", log_model=row_log_model)
    return [
        *_measured(options, OrderLake, orders, history),
        *_measured(options, RecordLake, records, history),
        *_measured(options, RowLake, rows, table),
    ]


def _measured(
    options: Options, kind: type[OrderLake], project: Path, model: str
) -> Iterator[Figure]:
    lakes = {name: kind(options.folder / f"lake-{project.name}-{name}", project) for name in "AB"}
    events = rounded(options.events)
    lakes["A"].land_inserts(events)
    lakes["B"].land_history(_TIMES * events, events)
    runs: dict[str, list[Run]] = {name: [] for name in lakes}
    for lake in lakes.values():
        lake.run()
    for _ in range(options.rounds):
        for name, lake in lakes.items():
            # The session is new: its Python workers have to start.
            lake.increment(rounded(events // 100), "random")
            runs[name] += (lake.increment(rounded(events // 100), "random") for _ in range(2))
    for what in (model, "run"):
        seconds = {
            name: statistics.median(
                run.total if what == "run" else run.models[what] for run in of_lake
            )
            for name, of_lake in runs.items()
        }
        yield Figure(
            "histories",
            f"{project.name}: {what}, {_TIMES} times the log",
            seconds["B"] / seconds["A"],
            _BAR,
            higher_is_better=False,
            measured={f"{name} s": taken for name, taken in seconds.items()},
        )
