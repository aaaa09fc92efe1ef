"""The decode UDF on one worker of a cluster and on two, of a core each: payloads in Parquet files
to Spark's noop sink. Wall seconds count, in the cluster that Spark starts for its own tests
(`local-cluster`), whose executors are processes of their own. The driver wants a core too: two
workers want three.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from typing import Final

from tools.benchmarks.lake import BenchmarkLake, write_project
from tools.benchmarks.measuring import Figure, Options, medians
from tools.benchmarks.payloads import USUAL_SHAPES
from tools.benchmarks.spark_decode import read_payloads, to_noop

BENCHMARK: Final = "workers"
MEMORY_MB: Final = 2048


def seconds_to_decode(workers: int, options: Options) -> dict[str, float]:
    """For each usual shape; to be called in a process of its own."""
    os.environ["DBT_TARGET"] = "cluster"
    os.environ["LAKEHOUSE_MASTER"] = f"local-cluster[{workers},1,{MEMORY_MB}]"
    lake = BenchmarkLake(options.folder, write_project(options.folder / "project"))
    decoded = lake.decoded("payloads")
    spark = lake.open_session()
    seconds: dict[str, float] = {}
    for shape in USUAL_SHAPES:
        read_payloads(spark, options.folder, shape, options)
        seconds |= medians({shape: lambda: to_noop(spark.sql(decoded))}, options.rounds)
    spark.stop()
    return seconds


def measure(options: Options) -> list[Figure]:
    """For each usual shape, two workers' rate against one's."""
    seconds = {}
    for workers in (1, 2):
        own = replace(options, folder=options.folder / str(workers))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            seconds[workers] = process.submit(seconds_to_decode, workers, own).result()
    return [
        Figure(
            BENCHMARK,
            f"{shape}, two workers to one",
            seconds[1][shape] / seconds[2][shape],
            measured={
                f"payloads/s, {workers}": options.events / seconds[workers][shape]
                for workers in (1, 2)
            },
        )
        for shape in USUAL_SHAPES
    ]
