"""Statements for macros, beside Spark's own: temporary views that are evaluated once, and any that
have markers of key_ranges in them.

    create evaluated view NAME as QUERY     -- its result is the number of rows
    drop evaluated views PREFIX...          -- all whose names begin so

Spark's ``cache table`` looks like it and is not: it is evaluated anew when a table that it reads is
written in the same session, and every statement that reads it analyses its whole query again, with
those of the views that it reads in turn, before it finds that it is cached. An evaluated view is
a leaf to what reads it, held in the executors' memory or on their disks, with its true size.
"""

import re
from typing import Any, Final

from dbt.adapters.spark.session import Cursor
from dbt_common.exceptions import DbtRuntimeError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dbt_lakehouse.key_ranges import arguments_of

_STATEMENT: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*)?(?:"
    r"create evaluated view (?P<created>\w+) as\s(?P<query>.*)"
    r"|drop evaluated views (?P<dropped>\w+)[.]{3}\s*)",
    re.DOTALL,
)
# What Spark holds of each view, by name.
_held: Final[dict[str, Any]] = {}
_execute_in_spark: Final = Cursor.execute


def create(spark: SparkSession, name: str, query: str) -> int:
    """Evaluate the query and make a temporary view of its rows, in place of one of that name; how
    many there are.
    """
    drop(spark, name)
    jvm, session = spark._jvm, spark._jsparkSession
    assert jvm is not None
    evaluated = getattr(
        getattr(jvm, "org.apache.spark.sql.execution.columnar.InMemoryRelation$"), "MODULE$"
    ).apply(
        jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK(),
        spark.sql(query, arguments_of(query))._jdf.queryExecution(),
        jvm.scala.Some(name),
    )
    # Its order may be by columns that it does not have, which Spark then looks for in vain.
    unordered = getattr(getattr(jvm, "scala.collection.immutable.Nil$"), "MODULE$")
    relation = evaluated.copy(evaluated.output(), evaluated.cacheBuilder(), unordered)
    # Until it is evaluated; its own size from then on.
    getattr(relation, "statsOfPlanToCache_$eq")(evaluated.statsOfPlanToCache())
    _held[name] = relation.cacheBuilder()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, relation)
    number = int(rows.count())
    rows.createOrReplaceTempView(name)
    return number


def drop(spark: SparkSession, name: str) -> None:
    """Drop the view, if there is one, and what is held of it."""
    spark.catalog.dropTempView(name)
    held = _held.pop(name, None)
    if held is not None:
        held.clearCache(False)


def drop_all(spark: SparkSession, prefix: str) -> None:
    """Drop all views whose names begin with ``prefix``."""
    # Of a copy: other models' threads add theirs meanwhile.
    for name in list(_held):
        if name.startswith(prefix):
            drop(spark, name)


def execute(self: Cursor, sql: str, *parameters: Any) -> None:
    """``Cursor.execute`` of dbt-spark that knows our statements too, and those with markers."""
    statement = _STATEMENT.fullmatch(sql)
    arguments = arguments_of(sql)
    if statement is None and not arguments:
        _execute_in_spark(self, sql, *parameters)
        return
    spark = SparkSession.builder.getOrCreate()
    try:
        # Results that Spark gives without a job.
        if statement is None:
            self._df = spark.sql(sql, arguments)
        elif statement["created"]:
            number = create(spark, statement["created"], statement["query"])
            self._df = spark.sql(f"select {number}L as rows")
        else:
            drop_all(spark, statement["dropped"])
            self._df = spark.sql("select 0L as rows where false")
    except AnalysisException as error:
        raise DbtRuntimeError(str(error)) from error
