"""Delta tables. Run as ``tools.benchmarks.rivals.harness`` says.

``auto_cdc`` applies a batch with the code that runs a declarative pipeline's AUTO CDC flow, tables
as such a flow makes them: a flow itself refuses Delta tables (docs/performance.md). ``merge`` is
what users of Delta write instead: the last change of each key by ``row_number``, then MERGE.
"""

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from tools.benchmarks.rivals.harness import NAMES, ROW, run

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # For a cluster it is 50: tasks that read the table's log, of next to nothing here.
    "spark.databricks.delta.snapshotPartitions": "2",
}


class AutoCdc:
    """Spark's AUTO CDC, SCD type 1. Deleted keys are remembered in a table beside the target."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        jvm = spark._jvm
        package = jvm.org.apache.spark.sql.pipelines.autocdc

        def scala_object(of: str):
            return getattr(package, f"{of}$").__getattr__("MODULE$")

        metadata = "struct<deleteSequence: bigint, upsertSequence: bigint>"
        name = scala_object("Scd1BatchProcessor").cdcMetadataColName()
        _create(spark, table, f"{ROW}, {name} {metadata} not null")
        _create(spark, f"{table}_deleted", f"order_id bigint, {name} {metadata} not null")

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
        """Hand them to the flow's code."""
        self._handler.execute(changes._jdf, batch)


class Merge:
    """The usual recipe. It keeps nothing of a deleted key."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        _create(spark, table, f"{ROW}, offset bigint")
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
        """Merge the last change of each key."""
        newest_first = Window.partitionBy("order_id").orderBy(F.col("offset").desc())
        numbered = changes.withColumn("number", F.row_number().over(newest_first))
        numbered.where("number = 1").createOrReplaceTempView("changes")
        changes.sparkSession.sql(self._sql)


def _create(spark: SparkSession, table: str, columns: str) -> None:
    """Create a Delta table in which MERGE rewrites no file."""
    spark.sql(
        f"create table {table} ({columns}) using delta"
        " tblproperties ('delta.enableDeletionVectors' = 'true')"
    )


if __name__ == "__main__":
    run({"auto_cdc": AutoCdc, "merge": Merge}, SETTINGS)
