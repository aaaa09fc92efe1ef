"""Sessions of one lake that are apart: each thread of dbt has its own temporary views, settings and
arguments of statements.

They are clones of the session that was opened first, so its functions and settings are theirs too.
A session that is given back serves the next one who takes one, and keeps its connections to the
catalog; what was left in it is gone.
"""

import uuid
from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse.lake.broken_metadata import refuse_damage_in
from dbt_lakehouse.spark.evaluated_views import EvaluatedViews, drop_view
from dbt_lakehouse.spark.java import settings_of
from dbt_lakehouse.spark.jvm import activate, java_context, java_session
from python_udfs.debezium.avro import Registered

Argument = int | str | None
"""The value of a marker: what Python and Spark both have, in the same range."""


class LakeSession:
    """A Spark session that one thread has at a time.

    ``arguments`` are values for markers (``:name``) in its statements: whatever a statement has no
    marker for is passed over. Values that no log may have are handed to Spark so, as numbers and
    texts: PySpark's way of a date or a time before 1582 leads to another one.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.spark: Final = spark
        self.arguments: Final[dict[str, Argument]] = {}
        self.views: Final = EvaluatedViews(spark)
        self.has_references = False
        # The names of those that it was told to know beside the base's.
        self.functions: Final[set[str]] = set()
        # Of a registry, that the payloads of the running model name.
        self.schemas: Mapping[int, Registered | None] = {}
        self._settings: Final = settings_of(spark)
        # Of Spark's jobs; a new one for each who takes the session.
        self._group = ""

    def begin(self) -> None:
        """Make it the active session of this thread, whose jobs are from now on its own."""
        self._group = str(uuid.uuid4())
        self.spark.sparkContext.setJobGroup(self._group, "", interruptOnCancel=False)
        activate(self.spark)

    def cancel(self) -> None:
        """End the session's jobs, and those that its statements have not begun yet."""
        java_context(self.spark.sparkContext).cancelJobGroupAndFutureJobs(self._group)

    def sql(self, statement: str) -> DataFrame:
        """The result of a statement with the arguments that are held. Raises ``DamageError``."""
        refuse_damage_in(self.spark, statement)
        return self.spark.sql(statement, self.arguments or None)

    def evaluate(self, name: str, query: str) -> int:
        """``EvaluatedViews.create`` of a query with the arguments that are held."""
        return self.views.create(name, self.sql(query))

    def hold(self, name: str, rows: pa.Table) -> None:
        """Make a temporary view of rows that this process has."""
        self.spark.createDataFrame(rows).createOrReplaceTempView(name)

    def suit(self, *, small: bool) -> None:
        """Set the session up for little data, or for any again.

        Spark's adaptive execution runs each part of a query as a job of its own, to plan the rest
        by what it has found. For little data that takes longer than the data does: such queries are
        planned at once, with a part for each core.
        """
        cores = str(max(2, self.spark.sparkContext.defaultParallelism))
        few = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": cores}
        for name, value in few.items():
            if small:
                self.spark.conf.set(name, value)
            elif name in self._settings:
                self.spark.conf.set(name, self._settings[name])
            else:
                self.spark.conf.unset(name)

    def clear(self) -> None:
        """Make it what it was when it was new."""
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
        # A list's append and pop are one step for threads.
        self._idle: Final[list[LakeSession]] = []

    def take(self) -> LakeSession:
        """A session for this thread alone, whose active session it is from now on."""
        try:
            session = self._idle.pop()
        except IndexError:
            # With the base's functions, in a few milliseconds: to register them takes 60.
            clone = java_session(self.base).cloneSession()
            session = LakeSession(SparkSession(self.base.sparkContext, clone))
        session.begin()
        return session

    def give_back(self, session: LakeSession) -> None:
        """Let others have it; as it was new."""
        try:
            session.clear()
            activate(self.base)
        except (Py4JError, OSError):
            # Spark has ended, or is about to.
            return
        self._idle.append(session)
