"""What readers have read stays read.

Each incremental table keeps with it which snapshot of each upstream it has read
(dbt_lakehouse/dbt/marks.py). Forgetting and purging make new snapshots of the upstreams that
hold nothing new; the marks of readers that had read everything move on to them, so that the old
snapshots can go, and rows that were rewritten are not taken for new ones.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.forget.entities import Table
from dbt_lakehouse.lake.iceberg import load_table, properties_of

_READ: Final = "lakehouse.read."
_WRITTEN: Final = "lakehouse.written"
_TABLE_ID: Final = "lakehouse.table_id"


class Mark(NamedTuple):
    """A state of a table, as a reader or the table itself keeps it."""

    table_id: str
    snapshot: str
    sequence: int

    def text(self) -> str:
        """As the properties have it."""
        return f"{self.table_id}|{self.snapshot}|{self.sequence}"


def exists(spark: SparkSession, table: Table) -> bool:
    """Whether it has been built."""
    return spark.catalog.tableExists(table.path)


def readers_of(spark: SparkSession, upstream: Table) -> list[Table]:
    """All tables of the lake that remember what they have read of one, of any target."""
    found = []
    for (schema,) in spark.sql("show namespaces in lake").collect():
        for row in spark.sql(f"show tables in lake.`{schema}`").collect():
            table = Table(schema, row.tableName)
            # Temporary views are listed too.
            if row.namespace == schema and _mark(_properties(spark, table), upstream) is not None:
                found.append(table)
    return found


def state(spark: SparkSession, table: Table) -> Mark:
    """What the table is now."""
    return _state(load_table(spark, table.path))


def _state(loaded: Any) -> Mark:
    table_id = properties_of(loaded).get(_TABLE_ID, "none")
    snapshot = loaded.currentSnapshot()
    if snapshot is None:
        return Mark(table_id, "none", 0)
    return Mark(table_id, str(snapshot.snapshotId()), snapshot.sequenceNumber())


def has_read_all(spark: SparkSession, reader: Table, upstream: Table) -> bool:
    """Whether nothing is left for the reader's next run."""
    loaded = load_table(spark, upstream.path)
    mark = _mark(_properties(spark, reader), upstream)
    return (
        mark is not None
        and mark.table_id == _state(loaded).table_id
        and not _news(spark, upstream, loaded, mark)
    )


def written_before(spark: SparkSession, table: Table) -> bool:
    """Whether nothing has been added to a table since its last complete run."""
    loaded = load_table(spark, table.path)
    return properties_of(loaded).get(_WRITTEN) == str(_state(loaded).sequence)


def move_on(
    spark: SparkSession, readers: Iterable[Table], upstream: Table, *, written: bool
) -> None:
    """Bring the marks on a table, of those readers that have read all of it, to what it is now, and
    its own if it was ``written_before``.
    """
    loaded = load_table(spark, upstream.path)
    now = _state(loaded)
    if written:
        _set(spark, upstream, _WRITTEN, str(now.sequence))
    for reader in readers:
        mark = _mark(_properties(spark, reader), upstream)
        # Only the identity counts where the snapshot is said to be any.
        if mark is None or mark.snapshot == "any" or mark == now or mark.table_id != now.table_id:
            continue
        if not _news(spark, upstream, loaded, mark):
            _set(spark, reader, f"{_READ}{upstream.label}", now.text())


def _news(spark: SparkSession, table: Table, loaded: Any, mark: Mark) -> bool:
    """Whether rows have been added to a loaded table since a mark."""
    since = []
    snapshot = loaded.currentSnapshot()
    while snapshot is not None and str(snapshot.snapshotId()) != mark.snapshot:
        since.append(snapshot)
        parent = snapshot.parentId()
        if parent is not None and loaded.snapshot(parent) is None:
            # Expired, and so is that of the mark: the rows know when they were added.
            return _has_rows_since(spark, table, mark)
        snapshot = None if parent is None else loaded.snapshot(parent)
    if snapshot is None and mark.snapshot != "none":
        return _has_rows_since(spark, table, mark)
    return any(
        each.operation() == "append" and each.summary().get("added-records") not in (None, "0")
        for each in since
    )


def _has_rows_since(spark: SparkSession, table: Table, mark: Mark) -> bool:
    return not spark.sql(
        f"select 1 from {table.path} where _last_updated_sequence_number > {mark.sequence} limit 1"
    ).isEmpty()


def _mark(properties: dict[str, str], upstream: Table) -> Mark | None:
    text = properties.get(f"{_READ}{upstream.label}")
    if text is None:
        return None
    table_id, snapshot, sequence = text.split("|")
    return Mark(table_id, snapshot, int(sequence))


def _properties(spark: SparkSession, table: Table) -> dict[str, str]:
    return properties_of(load_table(spark, table.path))


def _set(spark: SparkSession, table: Table, name: str, value: str) -> None:
    spark.sql(f"alter table {table.path} set tblproperties ('{name}' = '{value}')")
