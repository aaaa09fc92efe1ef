"""A rival's side, a program of its own environment: a streaming query that keeps a table.

    python -m tools.benchmarks.rivals.delta|hudi RIVAL PAYLOADS FOLDER JARS

``PAYLOADS`` holds a folder of Parquet files for each load, ``JARS`` is a class path. Each load's
files are put where the query reads, then it runs once (``availableNow``), as a scheduled job would.
``FOLDER`` gets ``loads.json``, wall and CPU seconds of each load, and ``rows.parquet``.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tools.benchmarks.measuring import wall_and_cpu_seconds

ROW = (
    "order_id bigint, customer_id int, status string, amount decimal(18,2), currency string,"
    " placed_at timestamp, shipped_at bigint, note string"
)
NAMES = [column.split()[0] for column in ROW.split(", ")]
ENVELOPE = f"before struct<{ROW}>, after struct<{ROW}>, op string"
# Of bronze's columns, what is read. A key's changes are in one partition: offsets are their order.
PAYLOAD = "offset bigint, value binary"


class Rival(Protocol):
    """One way to keep a table."""

    def apply(self, changes: DataFrame, batch: int) -> None:
        """Bring the table up to a batch's changes: the row's columns, ``op`` and ``offset``."""


Rivals = Mapping[str, Callable[[SparkSession, str], Rival]]
"""By name, what makes a new table of a name, and keeps it."""


def _open_session(folder: Path, jars: str, settings: Mapping[str, str]) -> SparkSession:
    """A session with the settings that ours has (profiles/profiles.yml), and the rival's own."""
    common = {
        "spark.driver.memory": os.environ.get("LAKEHOUSE_DRIVER_MEMORY", "4g"),
        "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
        "spark.driver.extraClassPath": jars,
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Spark joins no partitions of small size in a streaming query.
        "spark.sql.shuffle.partitions": "4",
        "spark.shuffle.sort.bypassMergeThreshold": "1",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[*]")
    for name, value in {**common, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _load(
    spark: SparkSession, rivals: Rivals, rival: str, loads: list[Path], folder: Path
) -> list[dict]:
    """Load a new table, of the folder's name; what each load took."""
    how = rivals[rival](spark, folder.name)
    landed = folder / "landed"
    landed.mkdir(parents=True)
    changes = (
        spark.readStream.schema(PAYLOAD)
        .parquet(str(landed))
        .select("offset", F.from_json(F.col("value").cast("string"), ENVELOPE).alias("envelope"))
        .select("offset", "envelope.op", F.expr("coalesce(envelope.after, envelope.before) as row"))
        .select("row.*", "op", "offset")
    )
    writer = (
        changes.writeStream.foreachBatch(how.apply)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
    )
    measured = []
    for each in loads:
        for file in each.iterdir():
            (landed / f"{each.name}-{file.name}").hardlink_to(file)
        measured.append(wall_and_cpu_seconds(lambda: writer.start().awaitTermination()))
    return measured


def run(rivals: Rivals, settings: Mapping[str, str]) -> None:
    """Warm up with the first loads, then load a new table with all of them."""
    rival, payloads, folder, jars = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    loads = sorted(payloads.iterdir())
    spark = _open_session(folder, jars, settings)
    _load(spark, rivals, rival, loads[:3], folder / "warm_up")
    measured = _load(spark, rivals, rival, loads, folder / "orders")
    (folder / "loads.json").write_text(json.dumps(measured))
    spark.table("orders").select(NAMES).write.parquet(str(folder / "rows.parquet"))
    spark.stop()
