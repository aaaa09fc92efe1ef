"""Maintain tables between the cycles of `lakehouse stream --build`: the work of `lakehouse
maintain`, table by table, without orphan files, which would take listing whole folders.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.liveness import Liveness
from dbt_lakehouse.errors import LakehouseError, SessionError
from dbt_lakehouse.lake.locks import run_lock
from dbt_lakehouse.maintenance.policy import (
    Candidate,
    Maintained,
    candidates,
    cannot_wait,
    retention_days,
)
from dbt_lakehouse.maintenance.run import keep, maintain_table
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.opening import has_ended
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.spark.arrow_memory import close_allocators
from dbt_lakehouse.spark.jvm import is_stopped
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import tell

# A table is maintained without a pause after this many times as long as the last time took: at most
# two percent of the time.
_AFTER: Final = 50


class Upkeep:
    """Maintains tables, each at most once in ``every_seconds`` unless it can't wait; None: never.

    ``liveness`` is touched while Spark makes progress with a table. A table that fails is
    reported, and waits like any other. Raises ``SessionError`` if Spark has ended.
    """

    def __init__(
        self, spark: SparkSession, every_seconds: float | None, liveness: Liveness
    ) -> None:
        self._spark: Final = spark
        self._every: Final = every_seconds
        self._liveness: Final = liveness
        # When each table was last maintained and for how many seconds, and which was last checked
        # between cycles.
        self._looked: Final[dict[str, float]] = {}
        self._took: Final[dict[str, float]] = {}
        self._turn = 0
        # The last reported failure of maintenance as a whole.
        self._trouble = ""

    def in_pause(self, project: Project, manifest: Any, is_over: Callable[[], bool]) -> None:
        """Maintain the tables that are due, in turn, until the pause is over."""
        with (
            self._telling(),
            closing(self._maintain(self._due(project, manifest))) as tables,
        ):
            for _ in tables:
                if is_over():
                    return
                self._liveness.show()

    def between_cycles(self, project: Project, manifest: Any) -> None:
        """Maintain a table that can't wait for a pause. One table is checked, in turn. First, let
        go of what the cycle's queries have left in the JVM.
        """
        with self._telling():
            close_allocators(self._spark)
        with self._telling():
            if self._every is None or not (tables := self._candidates(project, manifest)):
                return
            self._turn += 1
            each = tables[self._turn % len(tables)]
            rest = _AFTER * self._took.get(each.table, 0.0)
            if time.monotonic() - self._looked.get(each.table, 0.0) < rest:
                return
            table = look_at(self._spark, each.table)
            if table is not None and cannot_wait(table, each.policy, datetime.now(UTC)):
                for _ in self._maintain([each]):
                    pass

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Report failures, once if they repeat."""
        try:
            yield
        except Exception as error:
            refuse_ended(self._spark, error)
            if self._trouble != (text := told(error)):
                tell(f"{now()} no table is maintained: {text}")
            self._trouble = text

    def _due(self, project: Project, manifest: Any) -> list[Candidate]:
        if self._every is None:
            return []
        found = self._candidates(project, manifest)
        return due(found, self._looked, time.monotonic(), self._every)

    def _candidates(self, project: Project, manifest: Any) -> list[Candidate]:
        return candidates(manifest, [], retention_days(project.variables))

    def _maintain(self, tables: Sequence[Candidate]) -> Generator[None]:
        lock = run_lock(self._spark)
        # It does not wait for a command that builds meanwhile.
        if not tables or not lock.take("lakehouse stream --build"):
            return
        done: list[Maintained] = []
        try:
            for each in tables:
                self._looked[each.table] = begin = time.monotonic()
                done += self._maintained(each)
                self._took[each.table] = time.monotonic() - begin
                yield
        finally:
            try:
                keep(self._spark, done)
            finally:
                lock.release()

    def _maintained(self, candidate: Candidate) -> list[Maintained]:
        try:
            with self._liveness.while_it_gets_on(tasks_of(self._spark)):
                found = maintain_table(self._spark, candidate, with_orphans=False)
        # Any error: cycles go on.
        except Exception as error:
            refuse_ended(self._spark, error)
            tell(f"{now()} {candidate.table} could not be maintained: {told(error)}")
            return []
        if found is None or not found.is_changed:
            return []
        tell(f"{now()} {found.text()}")
        return [found]


def due(
    tables: Sequence[Candidate], looked: Mapping[str, float], at: float, every: float
) -> list[Candidate]:
    """The tables that were not maintained for ``every`` seconds, the longest first."""
    found = [each for each in tables if at - looked.get(each.table, -every) >= every]
    return sorted(found, key=lambda each: looked.get(each.table, -every))


def refuse_ended(spark: SparkSession, error: Exception) -> None:
    """Raise ``SessionError`` if the error came from Spark's end."""
    if is_stopped(spark.sparkContext) or has_ended(patience=1):
        raise SessionError("Spark has ended: start again to go on") from error


def told(error: Exception) -> str:
    """An error's text; of a bug of ours, its representation."""
    return str(error) if isinstance(error, LakehouseError) else repr(error)


def now() -> str:
    """The time for a message."""
    return f"{datetime.now(UTC):%H:%M:%S}"
