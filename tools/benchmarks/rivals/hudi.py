"""A Hudi table. Run as ``tools.benchmarks.rivals.harness`` says.

Each batch is an ``upsert``: Hudi itself takes the last change of a key, by its ordering field.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tools.benchmarks.rivals.harness import NAMES, ROW, run

SETTINGS = {
    # These four Hudi asks for.
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
}
TABLE = {
    "primaryKey": "order_id",
    # The change with the highest wins, wherever it is: in the batch or in the table.
    "orderingFields": "offset",
    # A batch goes to logs beside the table's files; by default each fifth also merges them.
    "type": "mor",
}
WRITE = {
    # The table's once more: a write that isn't told warns that it goes by the order of commits.
    "hoodie.table.ordering.fields": TABLE["orderingFields"],
    # A key's hash says which file it is in, so that no file is read to find it. One for each core.
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
    # A table about the table's files: a third of an increment, to save listing a folder or two.
    "hoodie.metadata.enable": "false",
}


class Upsert:
    """Upserts. Of a deleted key the logs know, until they are merged."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        spark.sql(
            f"create table {table} ({ROW}, offset bigint, _hoodie_is_deleted boolean) using hudi"
            f" tblproperties ({', '.join(f'{name} = {value!r}' for name, value in TABLE.items())})"
        )
        self._path = f"{spark.conf.get('spark.sql.warehouse.dir')}/{table}"

    def apply(self, changes: DataFrame, batch: int) -> None:
        """Upsert them."""
        rows = changes.select(*NAMES, "offset", F.expr("op = 'd' as _hoodie_is_deleted"))
        rows.write.format("hudi").options(**WRITE).mode("append").save(self._path)


if __name__ == "__main__":
    run({"upsert": Upsert}, SETTINGS)
