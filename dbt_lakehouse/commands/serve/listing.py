"""Gold's tables as HiveServer2 lists them to BI tools: it knows Spark's own catalog alone, and no
other. So that one, in this process's memory, gets an entry for each table of gold: columns, types,
descriptions. Nobody can select from it (``ReadOnly.java``).
"""

from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from dbt_lakehouse.dbt.declarations import quoted, sql_text
from dbt_lakehouse.dbt.tables import load, tables_in, views_in
from dbt_lakehouse.errors import DamageError
from dbt_lakehouse.lake.catalog import CATALOG

_OWN: Final = "spark_catalog"


class Listing:
    """The entries for the tables and views of a schema, by a session that may write them."""

    def __init__(self, spark: SparkSession, schema: str) -> None:
        self._spark: Final = spark
        self._name: Final = schema
        self._schema: Final = _quoted(schema)
        # What each entry was made of.
        self._made: Final[dict[str, str]] = {}
        spark.sql(f"create schema if not exists {_OWN}.{self._schema}")

    def refresh(self) -> None:
        """Bring the entries up to what the lake has now."""
        tables = tables_in(self._spark, self._name)
        views = views_in(self._spark, self._name)
        for name in self._made.keys() - {*tables, *views}:
            self._drop(name)
        for name in tables:
            self._make(name, is_view=False)
        for name in views:
            self._make(name, is_view=True)

    def _make(self, name: str, *, is_view: bool) -> None:
        try:
            made = self._definition(name, is_view=is_view)
        except (DamageError, Py4JJavaError, CapturedException):
            # It is gone by now, or can't be read, as whoever asks for it is told.
            self._drop(name)
            return
        if self._made.get(name) != made:
            self._drop(name)
            self._spark.sql(f"create table {self._entry(name)} {made}")
            self._made[name] = made

    def _definition(self, name: str, *, is_view: bool) -> str:
        lake = f"{self._schema}.{_quoted(name)}"
        comment = "" if is_view else load(self._spark, lake).properties().get("comment") or ""
        columns = self._spark.table(f"{CATALOG}.{lake}")._jdf.schema().toDDL()
        return f"({columns}) using parquet comment {sql_text(comment)} location '/{name}'"

    def _drop(self, name: str) -> None:
        self._spark.sql(f"drop table if exists {self._entry(name)}")
        self._made.pop(name, None)

    def _entry(self, name: str) -> str:
        return f"{_OWN}.{self._schema}.{_quoted(name)}"


def _quoted(name: str) -> str:
    return quoted([name])[0]
