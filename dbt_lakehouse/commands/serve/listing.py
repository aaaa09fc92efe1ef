"""List gold's tables for BI tools. HiveServer2 knows only Spark's own catalog, so that catalog,
in this process's memory, gets an entry for each table of gold: columns, types, descriptions. No
client can select from it (``ReadOnly.java``).
"""

from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.errors import DamageError
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.runs.tables import load, tables_in, views_in
from dbt_lakehouse.spark.jvm import schema_ddl
from dbt_lakehouse.texts import sql_text

_OWN: Final = "spark_catalog"


class Listing:
    """The entries for the tables and views of a schema, written by a session with that right."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        self._spark: Final = spark
        self._name: Final = schema
        self._schema: Final = _quoted(schema)
        # The metadata file from which each entry was made; for a view, its columns.
        self._made: Final[dict[str, str]] = {}
        spark.sql(f"create schema if not exists {_OWN}.{self._schema}")

    def refresh(self) -> None:
        """Update the entries to the current lake."""
        tables = tables_in(self._spark, self._name)
        views = views_in(self._spark, self._name)
        for name in self._made.keys() - {*tables, *views}:
            self._drop(name)
        for name, make in (
            *((each, self._make_table) for each in tables),
            *((each, self._make_view) for each in views),
        ):
            try:
                make(name)
            except (DamageError, Py4JJavaError, CapturedException):
                # It has been dropped, or can't be read, which a query of it reports.
                self._drop(name)

    def _make_table(self, name: str) -> None:
        table = load(self._spark, f"{self._schema}.{_quoted(name)}")
        file = table.operations().current().metadataFileLocation()
        if self._made.get(name) != file:
            self._make(name, self._columns(name), table.properties().get("comment") or "", file)

    def _make_view(self, name: str) -> None:
        columns = self._columns(name)
        if self._made.get(name) != columns:
            self._make(name, columns, "", columns)

    def _columns(self, name: str) -> str:
        rows = self._spark.table(f"{CATALOG}.{self._schema}.{_quoted(name)}")
        return schema_ddl(rows)

    def _make(self, name: str, columns: str, comment: str, made_of: str) -> None:
        self._drop(name)
        self._spark.sql(
            f"create table {self._entry(name)} ({columns}) using parquet"
            f" comment {sql_text(comment)} location '/nowhere'"
        )
        self._made[name] = made_of

    def _drop(self, name: str) -> None:
        self._spark.sql(f"drop table if exists {self._entry(name)}")
        self._made.pop(name, None)

    def _entry(self, name: str) -> str:
        return f"{_OWN}.{self._schema}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return quoted([name])[0]
