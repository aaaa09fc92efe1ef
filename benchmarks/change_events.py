"""Bronze to change_events as dbt builds it, beside a copy of the same rows into a table of the same
columns with ``insert ... select``.

Both write all of change_events each time, as a first load does. Of dbt's run only the model's own
time counts.
"""

from functools import partial
from typing import Final

from benchmarks.lake import BenchmarkLake, seconds_to_copy, write_project
from benchmarks.measuring import Figure, Options, medians, returned_seconds
from benchmarks.payloads import SHAPES, USUAL_SHAPES, chosen_shapes, write_parquet
from dbt_lakehouse.lake import bronze

BAR: Final = 0.7
_EVENTS: Final = "lake.silver.change_events"
_COPY: Final = "lake.silver.copied_events"


def _figure(lake: BenchmarkLake, shape: str, options: Options) -> Figure:
    spark = lake.open_session()
    spark.sql(f"drop table if exists {bronze.TABLE} purge")
    bronze.create_table(spark)
    lake.land(
        write_parquet(
            options.folder / shape,
            SHAPES[shape],
            options.events,
            per_file=max(1, options.events // 8),
        )
    )

    def build() -> float:
        run = lake.run("--full-refresh", "--select", "change_events")
        return run.models["change_events"]

    seconds = medians(
        {"build": build, "copy": partial(seconds_to_copy, spark, _EVENTS, _COPY)},
        options.rounds,
        returned_seconds,
    )
    return Figure(
        "change_events",
        f"{shape}, model to insert ... select",
        seconds["copy"] / seconds["build"],
        BAR if shape in USUAL_SHAPES else None,
        measured={
            "events/s": options.events / seconds["build"],
            "copied events/s": options.events / seconds["copy"],
        },
    )


def measure(options: Options) -> list[Figure]:
    """A figure for each usual shape, or for each one that is asked for."""
    lake = BenchmarkLake(options.folder, write_project(options.folder / "project"))
    shapes = chosen_shapes(options.shapes) if options.shapes else USUAL_SHAPES
    return [_figure(lake, shape, options) for shape in shapes]
