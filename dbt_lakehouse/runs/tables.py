"""Answers about the catalog and Iceberg tables, from Iceberg's API instead of SQL statements.

A model asks the same few things about its table and its upstreams again and again: properties,
the current snapshot and its sequence number, the columns' descriptions. As SQL, each question is
parsed, planned and run as a Spark job, and dbt logs it and makes a table of the answer; that was
most of a run without news.

Names of tables are ``schema.table``, as dbt's relations have them.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField

from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.widening import is_in_place, is_widening
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.broken_metadata import refuse_damage
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import catalog_of, commits_since, load_table
from dbt_lakehouse.lake.tables import NO_SNAPSHOT, Table, parse
from dbt_lakehouse.runs.marks import REWRITTEN
from dbt_lakehouse.spark.jvm import cause_of, java_array, java_class

# Operators of may_have_rows, by Iceberg's names.
_OPERATORS: Final = {
    "=": "equal",
    "<=": "lessThanOrEqual",
    "not starting with": "notStartsWith",
}
# Operators without a value.
_UNARY: Final = {"is null": "isNull", "is not null": "notNull"}

# Types that Iceberg lacks: it stores them as int.
_SMALL: Final = re.compile(r"\b(tinyint|smallint)\b")

# Session settings that Iceberg writes into the summary of each snapshot it makes.
SUMMARY: Final = "spark.sql.iceberg.snapshot-property."

# The newest parsed metadata of a table, with its file, which is immutable, by the file's folder. A
# run looks at each table many times, and a table's metadata is up to some hundred kB of JSON. A
# stream commits all day: older files are never asked for again.
_PARSED: Final[dict[str, tuple[str, Table]]] = {}
_MOST_PARSED: Final = 1_000

# The most that may_have_rows reads without Spark: about a second.
_FILES_TO_READ: Final = 20
_BYTES_TO_READ: Final = 16 << 20

# About a second's reading for a core; a query that narrows the reading takes as long.
BYTES_OF_A_SMALL_TABLE: Final = 64 << 20


def look_at(spark: SparkSession, name: str) -> Table | None:
    """A table as it is now, None if it does not exist."""
    try:
        table = load(spark, name)
    except (AnalysisException, Py4JJavaError) as error:
        if _is_absence(error):
            return None
        raise
    metadata = table.operations().current()
    place: str | None = metadata.metadataFileLocation()
    folder = (place or "").rpartition("/")[0]
    of, found = _PARSED.get(folder, (None, None))
    if found is None or of != place:
        found = _parsed(metadata, found)
        if place is not None:
            if len(_PARSED) >= _MOST_PARSED:
                _PARSED.clear()
            _PARSED[folder] = (place, found)
    return found


def _parsed(metadata: Any, before: Table | None) -> Table:
    """A table by its metadata. A commit adds one snapshot to the list that all commits are in."""
    if before is not None and before.chain and metadata.uuid() == before.uuid:
        news = commits_since(metadata, before)
        if news is not None:
            return parse(news, before)
    return parse(java_class("org.apache.iceberg.TableMetadataParser").toJson(metadata))


def columns_of(spark: SparkSession, name: str) -> list[StructField]:
    """The columns of a table or view, temporary views included; empty if it does not exist."""
    refuse_damage(spark, name)
    try:
        return spark.table(name).schema.fields
    except AnalysisException as error:
        if _is_absence(error):
            return []
        raise


def may_have_rows(
    spark: SparkSession,
    name: str,
    conditions: Sequence[tuple[str, str, Any]],
    between: tuple[str, str] | None = None,
    since: int = 0,
) -> bool:
    """Whether a table may have rows that meet all conditions; False is certain. With ``between``,
    only rows count that were appended after the first of two snapshots and up to the second. With
    ``since``, only files count that commits above that sequence number have written.

    For most tables file statistics answer it: partitions, and the least and greatest value of
    each column. If they leave few and small files, those are read.

    A condition is a column, one of the operators ``=``, ``<=``, ``not starting with``, ``is
    null``, ``is not null``, and a value. Null only meets ``is null``. For timestamp columns the
    value is text in ISO 8601, in UTC by default, or a pair of such a text and a number of days to
    subtract from it.
    """
    table = load(spark, name)
    expressions = java_class("org.apache.iceberg.expressions.Expressions")
    instants = {column["name"] for column in _columns(table) if column["type"] == "timestamptz"}
    filters = expressions.alwaysTrue()
    for column, operator, value in conditions:
        if operator in _UNARY:
            condition = getattr(expressions, _UNARY[operator])(column)
            filters = getattr(expressions, "and")(filters, condition)
            continue
        if column in instants:
            text, days = (value, 0) if isinstance(value, str) else value
            try:
                moment = datetime.fromisoformat(text) - timedelta(days=float(days))
            except (ValueError, OverflowError):
                # A file that only Spark can read.
                return True
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()
        # Iceberg sorts nulls first, and so treats them as less than any value.
        for condition in (
            expressions.notNull(column),
            getattr(expressions, _OPERATORS[operator])(column, value),
        ):
            filters = getattr(expressions, "and")(filters, condition)
    size = 0
    scan = table.newScan()
    if between is not None:
        first, last = map(int, between)
        scan = table.newIncrementalAppendScan().fromSnapshotExclusive(first).toSnapshot(last)
    with closing(scan.filter(filters).planFiles()) as files:
        tasks = files.iterator()
        for _number in range(_FILES_TO_READ + 1):
            if not tasks.hasNext():
                break
            task = tasks.next()
            # A file that compaction writes gets at least the sequence number of each of its rows.
            if since == 0 or task.file().dataSequenceNumber() > since:
                size += task.length()
        else:
            return True
    if size == 0 or size > _BYTES_TO_READ or between is not None or not conditions:
        return size > 0
    names = java_array("java.lang.String", [column for column, _operator, _value in conditions])
    reader = java_class("org.apache.iceberg.data.IcebergGenerics").read(table)
    with closing(reader.where(filters).select(names).build()) as rows:
        return bool(rows.iterator().hasNext())


def set_properties(spark: SparkSession, name: str, values: Mapping[str, Any]) -> None:
    """Set properties of a table in one commit; other properties stay."""
    update = load(spark, name).updateProperties()
    for key, value in values.items():
        update.set(key, str(value))
    update.commit()


def describe(
    spark: SparkSession, name: str, description: str | None, columns: Mapping[str, str]
) -> list[str]:
    """Write the description of a table (None: leave it) and of its columns where they differ,
    empty ones too. Returns the columns that the table lacks.
    """
    table = load(spark, name)
    comments = {column["name"]: column.get("doc", "") for column in _columns(table)}
    update = None
    for column, text in columns.items():
        if comments.get(column, text) != text:
            update = update or table.updateSchema()
            update.updateColumnDoc(column, text)
    if update is not None:
        update.commit()
    comment = table.properties().get("comment") or ""
    if description is not None and comment != description:
        properties = table.updateProperties()
        if description:
            properties.set("comment", description).commit()
        else:
            properties.remove("comment").commit()
    held = {column.lower() for column in comments}
    return [column for column in columns if column.lower() not in held]


def follow_schema(
    spark: SparkSession, name: str, given: Sequence[StructField]
) -> list[tuple[str, str, str]]:
    """Evolve a table's columns to match the rows to be written. New columns are added,
    and types are widened: by Iceberg without touching a file (int to bigint, float to double, a
    decimal to more digits of the same scale), or in one commit that rewrites the values (a
    decimal to a greater scale). Returns the widened columns: name, type before and type now.

    Raises ``ConfigurationError`` for any other change of a type, which would cast silently or
    fail.
    """
    held = {field.name: field.dataType.simpleString() for field in columns_of(spark, name)}
    added, widened = [], []
    for field in given:
        before, now = held.get(field.name), _SMALL.sub("int", field.dataType.simpleString())
        if before is None:
            added.append(f"{_quoted(field.name)} {now}")
        elif before != now and "void" not in (before, now):
            if not is_widening(before, now):
                raise ConfigurationError(
                    f"{name}.{field.name} is {before}, and the model makes it {now}, which does not"
                    " hold all of its values: keep the type, or rebuild it with `dbt run"
                    f" --full-refresh -s {name.partition('.')[2]}+`"
                )
            widened.append((field.name, before, now))
    if added:
        spark.sql(f"alter table {name} add columns ({', '.join(added)})")
    for column, before, now in widened:
        if is_in_place(before, now):
            spark.sql(f"alter table {name} alter column {_quoted(column)} type {now}")
        else:
            _rewrite_column(spark, name, column, now)
    return widened


def _rewrite_column(spark: SparkSession, name: str, column: str, now: str) -> None:
    """Change a column to another type that holds its values: a new column beside it gets the
    values, and then its name and place. The table stays the same, with its history and its row
    ids.

    An interrupted change is repeated; readers see the old column until the last step.
    """
    beside = f"_wider_{column}"
    if beside not in {field.name for field in columns_of(spark, name)}:
        spark.sql(f"alter table {name} add column {_quoted(beside)} {now}")
    # Set before the values move: readers of appended rows need to know.
    setting = f"{SUMMARY}{REWRITTEN}"
    spark.conf.set(setting, column)
    try:
        spark.sql(
            f"update {name} set {_quoted(beside)} = {_quoted(column)}"
            f" where not {_quoted(beside)} <=> cast({_quoted(column)} as {now})"
        )
    finally:
        spark.conf.unset(setting)
    table = load(spark, name)
    described = {each["name"]: each.get("doc") for each in _columns(table)}
    names = [each for each in described if each != beside]
    place = names.index(column)
    update = table.updateSchema().deleteColumn(column).renameColumn(beside, column)
    if described[column]:
        update.updateColumnDoc(beside, described[column])
    update = update.moveAfter(beside, names[place - 1]) if place else update.moveFirst(beside)
    update.commit()


def pinned_with_all_columns(spark: SparkSession, name: str, table: Table | None) -> str:
    """A table at its current snapshot, to select from. A column that was added after the last
    commit is not in that snapshot; it is added as null.
    """
    if table is None or table.snapshot == NO_SNAPSHOT:
        return f"(select * from {name} where false)"
    pinned = f"{name} version as of {table.snapshot}"
    held = set(spark.sql(f"select * from {pinned}").columns)
    missing = [
        f"cast(null as {field.dataType.simpleString()}) as {_quoted(field.name)}"
        for field in columns_of(spark, name)
        if field.name not in held
    ]
    # A subquery would hide the rows' sequence numbers, which no reader needs here.
    return f"(select *, {', '.join(missing)} from {pinned})" if missing else pinned


def _quoted(column: str) -> str:
    return quoted([column])[0]


def schemas_of(spark: SparkSession) -> list[str]:
    """The names of the catalog's schemas."""
    return [namespace[0] for namespace in catalog_of(spark).listNamespaces()]


def tables_in(spark: SparkSession, schema: str) -> list[str]:
    """The names of a schema's tables; empty if there is no such schema."""
    return _listed(catalog_of(spark).listTables, schema)


def views_in(spark: SparkSession, schema: str) -> list[str]:
    """The names of a schema's views; temporary views belong to no schema."""
    return _listed(catalog_of(spark).listViews, schema)


def load(spark: SparkSession, name: str) -> Any:
    """The table as an object of Iceberg's Java library."""
    # With the catalog's name: a session may have another current catalog.
    return load_table(spark, f"{CATALOG}.{name}")


def _listed(method: Any, schema: str) -> list[str]:
    try:
        return [
            identifier.name() for identifier in method(java_array("java.lang.String", [schema]))
        ]
    except Py4JJavaError as error:
        if cause_of(error, "NoSuchNamespaceException") is None:
            raise
        return []


def _is_absence(error: AnalysisException | Py4JJavaError) -> bool:
    if isinstance(error, Py4JJavaError):
        return cause_of(error, "NoSuchNamespaceException") is not None
    # By the message, since exceptions from Iceberg have no error condition.
    return any(absent in str(error) for absent in ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND"))


def _columns(table: Any) -> list[dict[str, Any]]:
    """The table's columns in Iceberg's JSON: name, type, doc."""
    to_json = java_class("org.apache.iceberg.SchemaParser").toJson
    schema = json.loads(to_json(table.schema()))
    columns: list[dict[str, Any]] = schema["fields"]
    return columns
