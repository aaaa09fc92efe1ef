"""What macros ask of Iceberg tables, answered by Iceberg itself instead of by SQL statements.

A model asks the same few things of its table and of those it reads, again and again: properties,
the current snapshot and its sequence number, the columns' descriptions. As SQL each question is
parsed, planned and run as a Spark job of its own, and dbt logs it and makes a table of the answer;
with nothing new to read that was most of a run. So dbt's adapter has these methods for macros too:

    adapter.look_at_table(relation, node)           the table as it is
    adapter.has_snapshot(relation, snapshot)        whether it still has a snapshot
    adapter.rows_since(relation, snapshot)          how many rows it has got since then
    adapter.get_columns_in_relation(relation)       its columns, in place of dbt-spark's
    adapter.may_have_rows(relation, conditions)     whether any of its files may have such rows
    adapter.set_table_properties(relation, values)  some of its properties, in one commit
    adapter.noted_properties(relation)              those to be written with the model's rows
    adapter.expire_own_history(relation)            forgets its earlier snapshots
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from dbt.adapters.base.meta import available
from dbt.adapters.spark.column import SparkColumn
from dbt.adapters.spark.impl import SparkAdapter
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.invocation import get_invocation_id
from pyspark import SparkContext
from pyspark.errors import AnalysisException

from dbt_lakehouse.lake import iceberg
from dbt_lakehouse.lake.iceberg import java_class, load_table, properties_of
from dbt_lakehouse.spark.session import CATALOG, opened_session

# Statements that change no table. All others, and those that this doesn't know, may.
_READS: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*)?(?:select|show|describe|declare|set|explain"
    r"|create evaluated view|drop evaluated views|create (?:or replace )?temporary view)\s",
    re.DOTALL | re.IGNORECASE,
)

# Of may_have_rows, by Iceberg's names.
_OPERATORS: Final = {
    "=": "equal",
    "<=": "lessThanOrEqual",
    "not starting with": "notStartsWith",
}

# What may_have_rows reads without Spark at most: about a second.
_FILES_TO_READ: Final = 20
_BYTES_TO_READ: Final = 16 << 20

Look = dict[str, Any]


class _Node(NamedTuple):
    """A node of a dbt run at work."""

    invocation: str
    unique_id: str


class _Seen(threading.local):
    """The tables that this thread's node has looked at, by name."""

    def __init__(self) -> None:
        self.node: _Node | None = None
        self.tables: dict[str, Look | None] = {}


_seen: Final = _Seen()
# By relation.
_notes: Final[dict[str, dict[str, str]]] = {}


def look_at_table(_: SparkAdapter, relation: SparkRelation, node: str | None = None) -> Look | None:
    """A table as it is now, None if there is no such table::

        properties  its properties: text by name
        snapshot    the id of its current snapshot as text, ``none`` for an empty table
        sequence    that snapshot's sequence number, 0 for an empty table
        comments    the descriptions of its columns by name, empty for none

    For one ``node`` (unique id), a table is looked at once, and again after each statement of the
    node that may have written something; without a node, at each call.
    """
    name = relation.render()
    if node is None:
        return _look(name)
    current = _Node(get_invocation_id(), node)
    if _seen.node != current:
        _seen.node, _seen.tables = current, {}
    if name not in _seen.tables:
        _seen.tables[name] = _look(name)
    return _seen.tables[name]


def has_snapshot(_: SparkAdapter, relation: SparkRelation, snapshot: str) -> bool:
    """Whether a table has the snapshot of this id, which is gone once it has expired."""
    return _load(relation.render()).snapshot(int(snapshot)) is not None


def rows_since(_: SparkAdapter, relation: SparkRelation, snapshot: str) -> int | None:
    """How many rows more a table has than in the snapshot of this id (``none``: before the first);
    None if that has expired, or if who wrote one of the two didn't count.
    """
    table = _load(relation.render())
    snapshots = [table.currentSnapshot()]
    if snapshot != "none":
        snapshots.append(table.snapshot(int(snapshot)))
    if None in snapshots:
        return None
    counts = [each.summary().get("total-records") for each in snapshots]
    if None in counts:
        return None
    now, *before = map(int, counts)
    return now - sum(before)


def get_columns_in_relation(_: SparkAdapter, relation: SparkRelation) -> list[SparkColumn]:
    """The columns of a table or view, none if it isn't there. Of the same name, dbt-spark's method
    asks with ``describe extended``, for which Spark adds up the sizes of all files.
    """
    try:
        fields = opened_session().table(relation.render()).schema.fields
    except AnalysisException as error:
        if _is_absence(error):
            return []
        raise
    return [
        SparkColumn(
            column=field.name,
            dtype=field.dataType.simpleString(),
            table_schema=relation.schema,
            table_name=relation.name,
            table_type=relation.type,
            column_index=index,
        )
        for index, field in enumerate(fields)
    ]


def may_have_rows(
    _: SparkAdapter, relation: SparkRelation, conditions: Sequence[tuple[str, str, Any]]
) -> bool:
    """Whether a table may have rows that meet all conditions; False is certain.

    It is, for most tables, by what is known of their files: partitions, and the least and greatest
    value of each column. Where that leaves few and small files, they are read.

    A condition is a column, one of the operators ``=``, ``<=``, ``not starting with``, and a value;
    null meets none. For columns of instants the value is text in ISO 8601, in UTC unless it says
    otherwise, or a pair of such a text and the number of days that the instant lies before it.
    """
    table = _load(relation.render())
    expressions = java_class("org.apache.iceberg.expressions.Expressions")
    instants = {column["name"] for column in _columns(table) if column["type"] == "timestamptz"}
    filters = expressions.alwaysTrue()
    for column, operator, value in conditions:
        if column in instants:
            text, days = (value, 0) if isinstance(value, str) else value
            try:
                moment = datetime.fromisoformat(text) - timedelta(days=float(days))
            except (ValueError, OverflowError):
                # One that only Spark can read.
                return True
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
        # Iceberg sorts nulls first, and so takes them for less than anything.
        for condition in (
            expressions.notNull(column),
            getattr(expressions, _OPERATORS[operator])(column, value),
        ):
            filters = getattr(expressions, "and")(filters, condition)
    size = 0
    with closing(table.newScan().filter(filters).planFiles()) as files:
        tasks = files.iterator()
        for _number in range(_FILES_TO_READ + 1):
            if not tasks.hasNext():
                break
            size += tasks.next().length()
        else:
            return True
    if size == 0 or size > _BYTES_TO_READ:
        return size > 0
    gateway: Any = SparkContext._gateway
    names = gateway.new_array(java_class("java.lang.String"), len(conditions))
    for i, (column, _operator, _value) in enumerate(conditions):
        names[i] = column
    scan = java_class("org.apache.iceberg.data.IcebergGenerics").read(table)
    with closing(scan.where(filters).select(names).build()) as rows:
        return bool(rows.iterator().hasNext())


def set_table_properties(
    _: SparkAdapter, relation: SparkRelation, values: Mapping[str, Any]
) -> None:
    """Set properties of a table and leave all others, in one commit."""
    update = _load(relation.render()).updateProperties()
    for name, value in values.items():
        update.set(name, str(value))
    update.commit()
    _seen.tables = {}


def noted_properties(_: SparkAdapter, relation: SparkRelation) -> dict[str, str]:
    """The properties to be written with the rows of the model whose table ``relation`` is: what it
    reads, and more. For macros to note and to read as long as the dbt command runs: a model's
    compilation and its materialization share nothing else.
    """
    return _notes.setdefault(relation.render(), {})


def expire_own_history(_: SparkAdapter, relation: SparkRelation) -> None:
    """``iceberg.expire_own_history`` of a table."""
    iceberg.expire_own_history(opened_session(), f"{CATALOG}.{relation.render()}")
    _seen.tables = {}


def forgetting(execute: Callable[..., None]) -> Callable[..., None]:
    """``Cursor.execute`` after which the node looks at its tables anew, if the statement may have
    written some.
    """

    def execute_and_forget(cursor: Any, sql: str, *parameters: Any) -> None:
        try:
            execute(cursor, sql, *parameters)
        finally:
            if _READS.match(sql) is None:
                _seen.tables = {}

    return execute_and_forget


def offer_to_macros() -> None:
    """Make the methods known to macros, as methods of dbt-spark's adapter; and forget what earlier
    commands of this process have noted.
    """
    _notes.clear()
    adapter: Any = SparkAdapter
    for method in (
        look_at_table,
        has_snapshot,
        rows_since,
        get_columns_in_relation,
        may_have_rows,
        set_table_properties,
        noted_properties,
        expire_own_history,
    ):
        setattr(adapter, method.__name__, available(method))
        adapter._available_ |= {method.__name__}


def _look(name: str) -> Look | None:
    try:
        table = _load(name)
    except AnalysisException as error:
        if _is_absence(error):
            return None
        raise
    snapshot = table.currentSnapshot()
    return {
        "properties": properties_of(table),
        "snapshot": "none" if snapshot is None else str(snapshot.snapshotId()),
        "sequence": 0 if snapshot is None else int(snapshot.sequenceNumber()),
        "comments": {column["name"]: column.get("doc", "") for column in _columns(table)},
    }


def _is_absence(error: AnalysisException) -> bool:
    # In the text, since those that Iceberg throws don't say it as their condition.
    return "[TABLE_OR_VIEW_NOT_FOUND]" in str(error)


def _load(name: str) -> Any:
    # With the catalog: the current one is a thread's own matter.
    return load_table(opened_session(), f"{CATALOG}.{name}")


def _columns(table: Any) -> list[dict[str, Any]]:
    """The table's columns as Iceberg writes them down: name, type, doc."""
    to_json = java_class("org.apache.iceberg.SchemaParser").toJson
    schema = json.loads(to_json(table.schema()))
    columns: list[dict[str, Any]] = schema["fields"]
    return columns
