"""The rows of the lake's own small tables, which each landing asks for.

A process holds the rows that it last read from a table, or wrote to it, with their snapshot's id.
A snapshot never changes, so they answer for the table as long as it is at that snapshot. After a
commit of another process, a rollback or a new lake it is at another one, and is read.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.lake.iceberg import has_table, load_table
from dbt_lakehouse.spark.jvm import cause_of, java_class

Rows = Sequence[Mapping[str, Any]]
"""Rows by column, with times in UTC."""

# Of columns, by Iceberg's names; others are maps of these.
_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "timestamptz": pa.timestamp("us", "UTC"),
}
# Arrow's name for the ids of columns in Parquet.
_FIELD_ID: Final = "PARQUET:field_id"
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
    """Replace the rows of an unpartitioned table in one commit, which readers see whole. Without
    Spark, which takes longer to plan a job than to write so few rows.
    """
    table = load_table(spark, name)
    content = pa.Table.from_pylist([*rows], schema=_arrow_schema(table))
    written = str(uuid.uuid4())
    place = table.locationProvider().newDataLocation(f"{written}.parquet")
    try:
        _commit(table, _write(table, place, content), written)
    except Py4JJavaError as error:
        # It is unknown then whether the commit succeeded.
        if cause_of(error, "CommitStateUnknownException") is None:
            with suppress(Py4JJavaError):
                table.io().deleteFile(place)
        raise
    table = load_table(spark, name)
    snapshot = table.currentSnapshot()
    # Another process may have written since.
    if snapshot is not None and snapshot.summary().get(_WRITTEN) == written:
        _held[name] = _Held(str(table.uuid()), int(snapshot.snapshotId()), content.to_pylist())


def _write(table: Any, place: str, content: pa.Table) -> Any:
    """Write a data file, an ``org.apache.iceberg.DataFile``."""
    buffer = pa.BufferOutputStream()
    pq.write_table(content, buffer, compression="zstd", store_schema=False)
    written: bytes = buffer.getvalue().to_pybytes()
    stream = table.io().newOutputFile(place).create()
    try:
        stream.write(written)
    finally:
        stream.close()
    metrics = java_class("org.apache.iceberg.parquet.ParquetUtil").fileMetrics(
        table.io().newInputFile(place),
        java_class("org.apache.iceberg.MetricsConfig").forTable(table),
    )
    file = java_class("org.apache.iceberg.DataFiles").builder(table.spec()).withPath(place)
    return file.withFormat("parquet").withFileSizeInBytes(len(written)).withMetrics(metrics).build()


def _commit(table: Any, file: Any, written: str) -> None:
    everything = java_class("org.apache.iceberg.expressions.Expressions").alwaysTrue()
    change = table.newOverwrite().overwriteByRowFilter(everything).addFile(file)
    change.set(_WRITTEN, written).commit()


def _arrow_schema(table: Any) -> pa.Schema:
    """The table's columns, with Iceberg's ids, by which its readers find them in a file."""
    to_json = java_class("org.apache.iceberg.SchemaParser").toJson
    return pa.schema(
        _field(each["name"], each["type"], each["id"], is_required=each["required"])
        for each in json.loads(to_json(table.schema()))["fields"]
    )


def _field(name: str, of: Any, number: int, *, is_required: bool) -> pa.Field:
    if isinstance(of, str):
        kind = _TYPES[of]
    else:
        key = _field("key", of["key"], of["key-id"], is_required=True)
        required = of["value-required"]
        kind = pa.map_(key, _field("value", of["value"], of["value-id"], is_required=required))
    return pa.field(name, kind, not is_required, {_FIELD_ID: str(number)})
