"""The rival's side, a program of its own environment: a streaming query that keeps a Delta table.

    python -m benchmarks.rivals.delta auto_cdc|merge PAYLOADS FOLDER JARS

``PAYLOADS`` holds a folder of Parquet files for each load, ``JARS`` is a class path. Each load's
files are put where the query reads, then it runs once (``availableNow``), as a scheduled job would.
``FOLDER`` gets ``loads.json``, wall and CPU seconds of each load, and ``rows.parquet``.

``auto_cdc`` applies a batch with the code that runs a declarative pipeline's AUTO CDC flow, tables
as such a flow makes them: a flow itself refuses Delta tables (docs/performance.md). ``merge`` is
what users of Delta write instead: the last change of each key by ``row_number``, then MERGE.
"""

import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.measuring import wall_and_cpu_seconds

ROW = (
    "order_id bigint, customer_id int, status string, amount decimal(18,2), currency string,"
    " placed_at timestamp, shipped_at bigint, note string"
)
NAMES = [column.split()[0] for column in ROW.split(", ")]
ENVELOPE = f"before struct<{ROW}>, after struct<{ROW}>, op string"
# Of bronze's columns, what is read. A key's changes are in one partition: offsets are their order.
PAYLOAD = "offset bigint, value binary"


def open_session(folder: Path, jars: str) -> SparkSession:
    """A session with the settings that ours has (profiles/profiles.yml)."""
    settings = {
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
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # For a cluster it is 50: tasks that read the table's log, of next to nothing here.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class AutoCdc:
    """Spark's AUTO CDC, SCD type 1. Deleted keys are remembered in a table beside the target."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        jvm = spark._jvm
        package = jvm.org.apache.spark.sql.pipelines.autocdc

        def scala_object(of: str):
            return getattr(package, f"{of}$").__getattr__("MODULE$")

        metadata = "struct<deleteSequence: bigint, upsertSequence: bigint>"
        name = scala_object("Scd1BatchProcessor").cdcMetadataColName()
        create(spark, table, f"{ROW}, {name} {metadata} not null")
        create(spark, f"{table}_deleted", f"order_id bigint, {name} {metadata} not null")

        def names(*columns: str):
            each = [package.UnqualifiedColumnName(column) for column in columns]
            return jvm.PythonUtils.toSeq(jvm.java.util.ArrayList(each))

        arguments = package.ChangeArgs(
            names("order_id"),
            F.col("offset")._jc,
            scala_object("ScdType$Type1"),
            jvm.scala.Some(F.expr("op = 'd'")._jc),
            jvm.scala.Some(
                getattr(package, "ColumnSelection$ExcludeColumns")(names("op", "offset"))
            ),
        )
        long = getattr(jvm.org.apache.spark.sql.types, "LongType$").__getattr__("MODULE$")

        def identifier(table: str):
            return jvm.org.apache.spark.sql.catalyst.TableIdentifier(
                table, jvm.scala.Some("default"), jvm.scala.Some("spark_catalog")
            )

        self._handler = package.Scd1ForeachBatchHandler(
            package.Scd1BatchProcessor(arguments, long),
            identifier(f"{table}_deleted"),
            identifier(table),
        )

    def apply(self, changes: DataFrame, batch: int) -> None:
        """Bring the table up to a batch's changes."""
        self._handler.execute(changes._jdf, batch)


class Merge:
    """The usual recipe. It keeps nothing of a deleted key."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        create(spark, table, f"{ROW}, offset bigint")
        columns = [*NAMES, "offset"]
        self._sql = f"""
            merge into {table} as row using changes as change on row.order_id = change.order_id
            when matched and change.offset > row.offset and change.op = 'd' then delete
            when matched and change.offset > row.offset then
                update set {", ".join(f"{name} = change.{name}" for name in columns)}
            when not matched and change.op <> 'd' then
                insert ({", ".join(columns)}) values ({", ".join(f"change.{n}" for n in columns)})
        """

    def apply(self, changes: DataFrame, batch: int) -> None:
        """Bring the table up to a batch's changes."""
        newest_first = Window.partitionBy("order_id").orderBy(F.col("offset").desc())
        numbered = changes.withColumn("number", F.row_number().over(newest_first))
        numbered.where("number = 1").createOrReplaceTempView("changes")
        changes.sparkSession.sql(self._sql)


RIVALS = {"auto_cdc": AutoCdc, "merge": Merge}


def create(spark: SparkSession, table: str, columns: str) -> None:
    """Create a Delta table in which MERGE rewrites no file."""
    spark.sql(
        f"create table {table} ({columns}) using delta"
        " tblproperties ('delta.enableDeletionVectors' = 'true')"
    )


def load(spark: SparkSession, rival: str, loads: list[Path], folder: Path) -> list[dict]:
    """Load a new table, of the folder's name; what each load took."""
    how = RIVALS[rival](spark, folder.name)
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


def main() -> None:
    """Warm up with the first loads, then load a new table with all of them."""
    rival, payloads, folder, jars = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    loads = sorted(payloads.iterdir())
    spark = open_session(folder, jars)
    load(spark, rival, loads[:3], folder / "warm_up")
    measured = load(spark, rival, loads, folder / "orders")
    (folder / "loads.json").write_text(json.dumps(measured))
    pq.write_table(spark.table("orders").select(NAMES).toArrow(), folder / "rows.parquet")
    spark.stop()


if __name__ == "__main__":
    main()
