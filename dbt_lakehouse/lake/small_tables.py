"""The rows of the lake's own small tables, which each landing asks for.

A process holds the rows that it last read from a table, or wrote to it, with their snapshot's id.
A snapshot never changes, so they answer for the table as long as it is at that snapshot. After a
commit of another process, a rollback or a new lake it is at another one, and is read.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.pandas.types import to_arrow_schema

from dbt_lakehouse.lake.iceberg import has_table, load_table

Rows = Sequence[Mapping[str, Any]]
"""Rows by column, with times in UTC."""

# In the summary of a commit of ``overwrite``.
_WRITTEN: Final = "lakehouse.rows-id"


class _Held(NamedTuple):
    """Rows of a table as of a snapshot."""

    uuid: str
    snapshot: int
    rows: Rows


_held: Final[dict[str, _Held]] = {}


def rows_of(spark: SparkSession, name: str) -> Rows:
    """The rows of a table, in no order; the name has the catalog in front. Empty if it does not
    exist.
    """
    if not has_table(spark, name.partition(".")[2]):
        return ()
    table = load_table(spark, name)
    snapshot = table.currentSnapshot()
    if snapshot is None:
        return ()
    at = str(table.uuid()), int(snapshot.snapshotId())
    held = _held.get(name)
    if held is None or (held.uuid, held.snapshot) != at:
        # As of the snapshot: the table may have another one by now. With Arrow, since `collect`
        # makes times local ones.
        rows = spark.sql(f"select * from {name} version as of {at[1]}").toArrow().to_pylist()
        held = _held[name] = _Held(*at, rows)
    return held.rows


def overwrite(spark: SparkSession, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Replace the rows of an unpartitioned table in one commit, which readers see whole."""
    content = pa.Table.from_pylist([*rows], schema=to_arrow_schema(spark.table(name).schema))
    written = str(uuid.uuid4())
    writer = spark.createDataFrame(content).coalesce(1).writeTo(name)
    writer.option(f"snapshot-property.{_WRITTEN}", written).overwrite(lit(True))
    table = load_table(spark, name)
    snapshot = table.currentSnapshot()
    # Another process may have written since.
    if snapshot is not None and snapshot.summary().get(_WRITTEN) == written:
        _held[name] = _Held(str(table.uuid()), int(snapshot.snapshotId()), content.to_pylist())
