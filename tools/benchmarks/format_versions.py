"""Gold for readers without deletion vectors: what does a table of Iceberg's format version 2 cost?

One lake of order events (``increments``) has two gold tables of the same change log, one of either
version. Changes of random keys go into both, run by run; then both have deletes in the same files.
"""

import statistics
from typing import Final, NamedTuple

from tools.benchmarks.increments import OrderLake, rounded, table_name, write_orders_project
from tools.benchmarks.measuring import Figure, Options, wall_seconds

BENCHMARK: Final = "format_versions"
_RUNS: Final = 8
_V3: Final = table_name(0)
_V2: Final = f"{_V3}_version_2"


class Side(NamedTuple):
    """A table after all runs."""

    run_seconds: float
    """The median of its model's."""
    read_seconds: float
    """Of a sum over all rows."""
    delete_files: float
    delete_bytes: float


def measure(options: Options) -> list[Figure]:
    """Build the lake, run the increments, compare the tables."""
    project = write_orders_project(options.folder / "project")
    gold = project / "models" / "gold"
    text = (gold / f"{_V3}.sql").read_text()
    asked = '{{ config(tblproperties={"format-version": "2"}) }}\n'
    (gold / f"{_V2}.sql").write_text(asked + text)
    contract = (gold / "gold.yml").read_text()
    (gold / "version_2.yml").write_text(contract.replace(f'"{_V3}"', f'"{_V2}"'))
    lake = OrderLake(options.folder / "lake", project)
    lake.land_inserts(rounded(options.events // 10))
    lake.run()
    runs = [lake.increment(rounded(options.events // 300), "random") for _ in range(_RUNS)]
    sides = {}
    for table in (_V2, _V3):
        seconds = statistics.median(run.models[table] for run in runs)
        sides[table] = _look(lake, table, seconds, options.rounds)
    return [
        Figure(
            BENCHMARK,
            f"{name.replace('_', ' ')}, version 2 : version 3",
            getattr(sides[_V2], name) / getattr(sides[_V3], name),
            higher_is_better=False,
            measured={
                "version 2": getattr(sides[_V2], name),
                "version 3": getattr(sides[_V3], name),
            },
        )
        for name in Side._fields
    ]


def _look(lake: OrderLake, table: str, run_seconds: float, rounds: int) -> Side:
    spark = lake.spark
    total = f"select count(*), sum(amount), max(note) from gold.{table}"
    read = [wall_seconds(lambda: spark.sql(total).collect()) for _ in range(rounds + 1)]
    (deletes,) = spark.sql(
        "select count(distinct file_path) as files, sum(coalesce(content_size_in_bytes,"
        f" file_size_in_bytes)) as bytes from gold.{table}.delete_files"
    ).collect()
    # The first one opens the files.
    return Side(run_seconds, statistics.median(read[1:]), deletes.files, deletes.bytes)
