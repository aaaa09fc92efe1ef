"""Prints tables of the lake as a person would like to see them."""

import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout

from pyspark.sql import SparkSession

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.damage import refuse_damage

_ROWS = 5
_WIDTH = 28
# Technical columns that would push a row out of the screen.
_LEFT_OUT = ("_position", "_max_occurred_at", "_digest", "_namespace", "_set")


def show_tables(
    spark: SparkSession, tables: Sequence[str], *, gold: str = "gold", as_json: bool = False
) -> str:
    """The tables (``schema.x``, or ``x`` of the schema ``gold``, which is the target's; all of that
    if none are named) with row counts and first rows, or as JSON.

    Raises ``ConfigurationError`` for a table that isn't there.
    """
    names = [name if "." in name else f"{gold}.{name}" for name in tables]
    names = names or _tables_of(spark, gold)
    for name in names:
        refuse_damage(spark, name)
        if not spark.catalog.tableExists(f"lake.{name}"):
            raise ConfigurationError(f"there is no table {name}: build it with `dbt build`")
    if as_json:
        return json.dumps({name: spark.table(f"lake.{name}").count() for name in names})
    return "\n".join(_picture(spark, name) for name in names)


def _tables_of(spark: SparkSession, schema: str) -> list[str]:
    if not spark.catalog.databaseExists(f"lake.{schema}"):
        raise ConfigurationError(f"there is no schema {schema}: build it with `dbt build`")
    tables = spark.sql(f"show tables in lake.{schema}").collect()
    return sorted(f"{schema}.{row.tableName}" for row in tables)


def _picture(spark: SparkSession, name: str) -> str:
    rows = spark.table(f"lake.{name}")
    first = io.StringIO()
    with redirect_stdout(first):
        rows.drop(*_LEFT_OUT).show(_ROWS, truncate=_WIDTH)
    return f"{name}: {rows.count():,} rows\n{first.getvalue()}"
