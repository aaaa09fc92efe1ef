"""Isolated sessions of one lake: each thread of dbt has its own temporary views, settings and
statement arguments.

They are clones of the session that was opened first, so they share its functions and settings. A
session that is given back is reused, with its connections to the catalog; everything else left in
it is removed.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse.lake.broken_metadata import refuse_damage_in
from dbt_lakehouse.lake.iceberg import catalog_of, known_tables
from dbt_lakehouse.spark.evaluated_views import EvaluatedViews, drop_view
from dbt_lakehouse.spark.java import settings_of
from dbt_lakehouse.spark.jvm import activate, java_context, java_session
from python_udfs.debezium.avro import Registered

Argument = int | str | None
"""The value of a marker: what Python and Spark both have, in the same range."""

_NOT_COMPILED: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class LakeSession:
    """A Spark session that one thread has at a time.

    ``arguments`` are values for the markers (``:name``) in its statements; arguments without a
    marker are ignored. Values that must not be in a log are passed to Spark this way, as numbers
    and texts: PySpark converts dates and times before 1582 wrongly.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark: Final = spark
        self.arguments: Final[dict[str, Argument]] = {}
        self.has_references = False
        # The names of functions registered in addition to the base's.
        self.functions: Final[set[str]] = set()
        # What the plain names of logs' decoders stand for: names with a digest.
        self.decoders: Final[dict[str, str]] = {}
        # Registry schemas that the payloads of the running model name.
        self.schemas: Mapping[int, Registered | None] = {}
        self._settings: Final = settings_of(spark)
        self.views: Final = EvaluatedViews(spark, self._settings)
        # The group of Spark's jobs; a new one each time the session is taken.
        self._group = ""

    def begin(self) -> None:
        """Make it this thread's active session, whose jobs are its own from now on."""
        self._group = str(uuid.uuid4())
        self.spark.sparkContext.setJobGroup(self._group, "", interruptOnCancel=False)
        activate(self.spark)

    def cancel(self) -> None:
        """Cancel the session's jobs, including those that its statements have not started yet."""
        java_context(self.spark.sparkContext).cancelJobGroupAndFutureJobs(self._group)

    def sql(self, statement: str) -> DataFrame:
        """The result of a statement with the held arguments. Raises ``DamageError``."""
        refuse_damage_in(self.spark, statement)
        return self.spark.sql(statement, self.arguments or None)

    def evaluate(self, name: str, query: str) -> int:
        """``EvaluatedViews.create`` of a query with the held arguments."""
        return self.views.create(name, self.sql(query))

    def hold(self, name: str, rows: pa.Table) -> None:
        """Make a temporary view of Arrow rows."""
        self.spark.createDataFrame(rows).createOrReplaceTempView(name)

    def suit(self, *, small: bool, compiles: bool) -> None:
        """Tune the session for little data, or for any again.

        Spark's adaptive execution runs each part of a query as a job of its own, and plans the
        rest by the results. For little data that takes longer than the work itself: such queries
        are planned at once, with a partition for each core. And code that Spark generates for a
        query has the moment of the run in it, and ranges of keys: each run compiles it anew.
        """
        cores = str(max(2, self.spark.sparkContext.defaultParallelism))
        few = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": cores}
        for name, value in few.items():
            self._set(name, value if small else self._settings.get(name))
        for name, value in _NOT_COMPILED.items():
            self._set(name, self._settings.get(name) if compiles else value)

    def _set(self, name: str, value: str | None) -> None:
        if value is None:
            self.spark.conf.unset(name)
        else:
            self.spark.conf.set(name, value)

    def clear(self) -> None:
        """Restore the state of a new session."""
        self.arguments.clear()
        self.views.drop_all("")
        left = java_session(self.spark).sessionState().catalog().getTempViewNames()
        for number in range(left.size()):
            drop_view(self.spark, left.apply(number))
        settings = settings_of(self.spark)
        if settings != self._settings:
            for name in settings.keys() - self._settings.keys():
                self.spark.conf.unset(name)
            for name, value in self._settings.items():
                if settings.get(name) != value:
                    self.spark.conf.set(name, value)


class Sessions:
    """The sessions of a lake; ``base`` is the one that was opened first."""

    def __init__(self, base: SparkSession) -> None:
        self.base: Final = base
        # A list's append and pop are atomic for threads.
        self._idle: Final[list[LakeSession]] = []
        self._known: Any = None

    def know_tables(self) -> None:
        """Keep the metadata of tables for all sessions. Raises ``Py4JJavaError`` if the catalog
        can't be opened.
        """
        if self._known is None:
            self._known = known_tables()
            self._known.settle(catalog_of(self.base))

    def take(self) -> LakeSession:
        """A session for this thread alone, active from now on."""
        try:
            session = self._idle.pop()
        except IndexError:
            # With the base's functions, in a few milliseconds: registering them takes 60.
            clone = java_session(self.base).cloneSession()
            session = LakeSession(SparkSession(self.base.sparkContext, clone))
            if self._known is not None:
                self._known.settle(catalog_of(session.spark))
        session.begin()
        return session

    def give_back(self, session: LakeSession) -> None:
        """Return a session to the pool, in its original state."""
        try:
            session.clear()
            activate(self.base)
        except (Py4JError, OSError):
            # Spark has ended, or is about to.
            return
        self._idle.append(session)
