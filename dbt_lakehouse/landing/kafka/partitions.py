"""Partitions of topics as a relation."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

Partition = tuple[str, int]
"""A topic, by bronze's name, and a partition's number."""


def partition_relation(
    spark: SparkSession, numbers: Mapping[Partition, int], name: str
) -> DataFrame:
    """A relation of partitions, by topic and number, with one more number column, called
    ``name``.
    """
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), (name, pa.int64())])
    rows = [
        {"topic": topic, "partition": partition, name: number}
        for (topic, partition), number in numbers.items()
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=schema))
