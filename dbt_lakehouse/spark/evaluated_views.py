"""Temporary views that are evaluated once.

Spark's ``cache table`` looks like it and is not: it is evaluated anew when a table that it reads is
written in the same session, and every statement that reads it analyses its whole query again, with
those of the views that it reads in turn, before it finds that it is cached. An evaluated view is
a leaf to what reads it, held in the executors' memory or on their disks, with its true size.
"""

import json
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from dbt_lakehouse.spark.jvm import java_class, java_session, query_execution, scala_object


class EvaluatedViews:
    """Those of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark: Final = spark
        # What Spark holds of each view, by name.
        self._held: Final[dict[str, Any]] = {}

    def create(self, name: str, rows: DataFrame) -> int:
        """Evaluate the rows of this session and make a temporary view of them, in place of one of
        that name; how many there are.
        """
        self.drop(name)
        evaluated = scala_object("org.apache.spark.sql.execution.columnar.InMemoryRelation").apply(
            java_class("org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK(),
            query_execution(rows),
            java_class("scala.Some")(name),
        )
        # Its order may be by columns that it does not have, which Spark then looks for in vain.
        unordered = scala_object("scala.collection.immutable.Nil")
        relation = evaluated.copy(evaluated.output(), evaluated.cacheBuilder(), unordered)
        # Until it is evaluated; its own size from then on.
        getattr(relation, "statsOfPlanToCache_$eq")(evaluated.statsOfPlanToCache())
        self._held[name] = relation.cacheBuilder()
        # A job without a plan of its own, as an aggregation would have.
        relation.cacheBuilder().cachedColumnBuffers().count()
        dataset = java_class("org.apache.spark.sql.classic.Dataset")
        dataset.ofRows(java_session(self._spark), relation).createOrReplaceTempView(name)
        return int(relation.cacheBuilder().rowCountStats().value())

    def create_observed(self, name: str, rows: DataFrame, aggregate: str) -> dict[str, Any]:
        """``create`` a view, and have Spark take an aggregate of its rows while it evaluates them:
        a struct, as SQL without ``filter``, ``distinct`` and subqueries. Its values are those of
        JSON, numbers with all of their digits.
        """
        observed = rows.observe(name, expr(aggregate).alias("taken"))
        self.create(name, observed)
        metrics = query_execution(observed).observedMetrics()
        if metrics.contains(name):
            row = metrics.apply(name).json()
        else:
            # Of a plan that Spark knows to be empty, nothing is executed.
            row = self._spark.sql(f"select {aggregate} as taken from {name}").toJSON().first()
        taken: dict[str, Any] = json.loads(row, parse_float=Decimal)["taken"]
        return taken

    def has(self, name: str) -> bool:
        """Whether there is a view of that name."""
        return name in self._held

    def rows(self, name: str) -> int:
        """How many rows a view has."""
        return int(self._held[name].rowCountStats().value())

    def drop(self, name: str) -> None:
        """Drop the view, if there is one, and what is held of it."""
        drop_view(self._spark, name)
        held = self._held.pop(name, None)
        if held is not None:
            held.clearCache(False)

    def drop_all(self, prefix: str) -> None:
        """Drop all views whose names begin with ``prefix``."""
        for name in [each for each in self._held if each.startswith(prefix)]:
            self.drop(name)


def drop_view(spark: SparkSession, name: str) -> None:
    """Drop a session's temporary view, if there is one. Spark's own method would plan its query
    first, to look for what ``cache table`` holds of it.
    """
    java_session(spark).sessionState().catalog().dropTempView(name)
