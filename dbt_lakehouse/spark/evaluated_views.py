"""Temporary views that are evaluated once.

Spark's ``cache table`` looks like it and is not. It is evaluated again when a table that it reads
is written in the same session. And every statement that reads it analyses its whole query again,
with those of the views beneath it, before Spark finds that it is cached. An evaluated view is a
leaf to its readers, held in the executors' memory or on their disks, with its true size.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from itertools import count
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from dbt_lakehouse.spark.jvm import (
    java_class,
    java_map,
    java_session,
    job_properties,
    query_execution,
    scala_object,
)

_NUMBERS: Final = count()
_OF_SQL: Final = "spark.sql."


class EvaluatedViews:
    """The evaluated views of a session."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        """``settings`` are the session's, see ``settings_of``."""
        self._spark: Final = spark
        self._settings: Final = settings
        # Spark's cached relation of each view, by name.
        self._held: Final[dict[str, Any]] = {}

    @cached_property
    def _of_tasks(self) -> Any:
        """The settings that Spark gives to a statement's tasks, as a Java map."""
        of_sql = (name for name in self._settings if name.startswith(_OF_SQL))
        return java_map({name: self._settings[name] for name in of_sql})

    def create(self, name: str, rows: DataFrame) -> int:
        """Evaluate rows of this session as a temporary view, replacing one of that name, which the
        rows may come from. Returns their number.
        """
        evaluated = scala_object("org.apache.spark.sql.execution.columnar.InMemoryRelation").apply(
            java_class("org.apache.spark.storage.StorageLevel").MEMORY_AND_DISK(),
            query_execution(rows),
            java_class("scala.Some")(name),
        )
        # Its order may be by columns that it does not have, which Spark would fail to find.
        unordered = scala_object("scala.collection.immutable.Nil")
        relation = evaluated.copy(evaluated.output(), evaluated.cacheBuilder(), unordered)
        # Until it is evaluated; its own size from then on.
        getattr(relation, "statsOfPlanToCache_$eq")(evaluated.statsOfPlanToCache())
        held = relation.cacheBuilder()
        # A job without a plan of its own, which an aggregation would have. Spark gives the
        # session's settings only to the tasks of a statement.
        try:
            with job_properties(self._spark.sparkContext, self._of_tasks):
                held.cachedColumnBuffers().count()
        except BaseException:
            held.clearCache(False)
            raise
        self.drop(name)
        self._held[name] = held
        dataset = java_class("org.apache.spark.sql.classic.Dataset")
        dataset.ofRows(java_session(self._spark), relation).createOrReplaceTempView(name)
        return int(held.rowCountStats().value())

    def create_observed(self, name: str, rows: DataFrame, aggregate: str) -> dict[str, Any]:
        """``create`` a view, and compute an aggregate of its rows while it is evaluated: a
        struct, as SQL without ``filter``, ``distinct`` and subqueries. Its values are JSON's,
        numbers with all of their digits.
        """
        # Of one name, Spark would give that of a view beneath, which has been observed before.
        observation = f"{name} {next(_NUMBERS)}"
        observed = rows.observe(observation, expr(aggregate).alias("taken"))
        self.create(name, observed)
        metrics = query_execution(observed).observedMetrics()
        if metrics.contains(observation):
            row = metrics.apply(observation).json()
        else:
            # Spark does not execute a plan that it knows to be empty.
            row = self._spark.sql(f"select {aggregate} as taken from {name}").toJSON().first()
        taken: dict[str, Any] = json.loads(row, parse_float=Decimal)["taken"]
        return taken

    def has(self, name: str) -> bool:
        """Whether there is a view of that name."""
        return name in self._held

    def rows(self, name: str) -> int:
        """The number of a view's rows."""
        return int(self._held[name].rowCountStats().value())

    def drop(self, name: str) -> None:
        """Drop the view, if it exists, and its cached rows."""
        drop_view(self._spark, name)
        held = self._held.pop(name, None)
        if held is not None:
            held.clearCache(False)

    def drop_all(self, prefix: str) -> None:
        """Drop all views whose names begin with ``prefix``."""
        for name in [each for each in self._held if each.startswith(prefix)]:
            self.drop(name)


def drop_view(spark: SparkSession, name: str) -> None:
    """Drop a session's temporary view, if it exists. Spark's own method would plan its query
    first, to find it in the cache of ``cache table``.
    """
    java_session(spark).sessionState().catalog().dropTempView(name)
