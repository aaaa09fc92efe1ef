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

from dbt.adapters.events.logging import AdapterLogger
from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from dbt_lakehouse.dbt.key_ranges import arguments_of
from dbt_lakehouse.lake.iceberg import java_class
from dbt_lakehouse.spark.java_errors import error_text
from dbt_lakehouse.spark.session import opened_session

_STATEMENT: Final = re.compile(
    r"\s*(?:/\*.*?\*/\s*)?(?:"
    r"create evaluated view (?P<created>\w+) as\s(?P<query>.*)"
    r"|drop evaluated views (?P<dropped>\w+)[.]{3}\s*)",
    re.DOTALL,
)
_LOGGER: Final = AdapterLogger("Spark")
# What Spark holds of each view, by name.
_held: Final[dict[str, Any]] = {}


def create(spark: SparkSession, name: str, query: str) -> int:
    """Evaluate the query and make a temporary view of its rows, in place of one of that name; how
    many there are.
    """
    drop(spark, name)
    evaluated = _scala_object("org.apache.spark.sql.execution.columnar.InMemoryRelation").apply(
        java_class("org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK(),
        spark.sql(query, arguments_of(query))._jdf.queryExecution(),
        java_class("scala.Some")(name),
    )
    # Its order may be by columns that it does not have, which Spark then looks for in vain.
    unordered = _scala_object("scala.collection.immutable.Nil")
    relation = evaluated.copy(evaluated.output(), evaluated.cacheBuilder(), unordered)
    # Until it is evaluated; its own size from then on.
    getattr(relation, "statsOfPlanToCache_$eq")(evaluated.statsOfPlanToCache())
    _held[name] = relation.cacheBuilder()
    # A job without a plan of its own, as an aggregation would have.
    relation.cacheBuilder().cachedColumnBuffers().count()
    dataset = java_class("org.apache.spark.sql.classic.Dataset")
    dataset.ofRows(spark._jsparkSession, relation).createOrReplaceTempView(name)
    return int(relation.cacheBuilder().rowCountStats().value())


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


def _scala_object(name: str) -> Any:
    return getattr(java_class(name + "$"), "MODULE$")


def execute(cursor: Any, sql: str, *parameters: Any) -> None:
    """``Cursor.execute`` of dbt-spark's sessions that knows our statements too, and those with
    markers.
    """
    if parameters:
        sql = sql % parameters
    spark = opened_session()
    statement = _STATEMENT.fullmatch(sql)
    try:
        if statement is None:
            cursor._df = spark.sql(sql, arguments_of(sql))
        # Results that Spark gives without a job.
        elif statement["created"]:
            number = create(spark, statement["created"], statement["query"])
            cursor._df = spark.sql(f"select {number}L as rows")
        else:
            drop_all(spark, statement["dropped"])
            cursor._df = spark.sql("select 0L as rows where false")
    except (AnalysisException, Py4JJavaError) as error:
        # Whole for the log: the query's plan, or where Java was.
        _LOGGER.debug(str(error))
        raise DbtRuntimeError(_sentence(error)) from error


def _sentence(error: AnalysisException | Py4JJavaError) -> str:
    """What a user can act on of an error of Spark's."""
    if isinstance(error, Py4JJavaError):
        return error_text(error)
    # Behind it comes the query's plan; a mistake of syntax is shown in its place in the SQL.
    return str(error) if isinstance(error, ParseException) else str(error).partition(";\n")[0]
