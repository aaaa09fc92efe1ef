"""What `lakehouse stream --build` does for its tables between cycles: `lakehouse maintain`'s work,
table by table, but for files of no snapshot, for which all that lies in a folder is listed.
"""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    retention_days,
    small_files,
)
from dbt_lakehouse.maintenance.run import keep, maintain_table
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.opening import has_ended
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.spark.jvm import is_stopped
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import tell

# A table with so many times its policy's ``min_files`` does not wait for a pause.
CROWDED: Final = 10


class Upkeep:
    """Maintains tables, each at most once in ``every_seconds``; None: never.

    ``liveness`` is shown while Spark gets on with one. A table that fails is told, and waits as any
    other. Raises ``SessionError`` if Spark has ended.
    """

    def __init__(
        self, spark: SparkSession, every_seconds: float | None, liveness: Liveness
    ) -> None:
        self._spark: Final = spark
        self._every: Final = every_seconds
        self._liveness: Final = liveness
        # When each table was last looked at, and which was last looked at for small files.
        self._looked: Final[dict[str, float]] = {}
        self._turn = 0
        # What was last told of maintenance that has failed for all tables.
        self._trouble = ""

    def in_pause(self, project: Project, manifest: Any) -> Generator[None]:
        """Maintain the tables that are due, one after the other, as long as one asks for more."""
        with self._telling():
            yield from self._maintain(self._due(project, manifest))

    def between_cycles(self, project: Project, manifest: Any) -> None:
        """Maintain a table that can't wait for a pause. One is looked at, in turn."""
        with self._telling():
            if not (tables := self._due(project, manifest)):
                return
            self._turn += 1
            each = tables[self._turn % len(tables)]
            table = look_at(self._spark, each.table)
            summary = table.chain[0].summary if table is not None and table.chain else {}
            if small_files(summary, each.policy) >= CROWDED * each.policy.min_files:
                for _ in self._maintain([each]):
                    pass

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """What fails is told, and once if it is always the same."""
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
        found = candidates(manifest, [], retention_days(project.variables))
        return due(found, self._looked, time.monotonic(), self._every)

    def _maintain(self, tables: Sequence[Candidate]) -> Iterator[None]:
        lock = run_lock(self._spark)
        # Who builds meanwhile is not waited for.
        if not tables or not lock.take("lakehouse stream --build"):
            return
        done: list[Maintained] = []
        try:
            for each in tables:
                self._looked[each.table] = time.monotonic()
                done += self._maintained(each)
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
        # Whatever it is: cycles go on.
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
    """The tables that were not looked at for so many seconds, the longest first."""
    found = [each for each in tables if at - looked.get(each.table, -every) >= every]
    return sorted(found, key=lambda each: looked.get(each.table, -every))


def refuse_ended(spark: SparkSession, error: Exception) -> None:
    """Raise ``SessionError`` if Spark has ended, which has led to the error."""
    if is_stopped(spark.sparkContext) or has_ended(patience=1):
        raise SessionError("Spark has ended: start again to go on") from error


def told(error: Exception) -> str:
    """An error in words; of one that is a mistake of ours, which it is."""
    return str(error) if isinstance(error, LakehouseError) else repr(error)


def now() -> str:
    """When something is told."""
    return f"{datetime.now(UTC):%H:%M:%S}"
