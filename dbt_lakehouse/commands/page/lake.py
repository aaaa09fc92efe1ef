"""The data of the page: the lake read without Spark, and the records of runs and cycles in dbt's
folder.

Nothing is ever written. Facts of the lake are read at most every few seconds, whatever the number
of viewers, and one query runs at a time.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.commands.report import told
from dbt_lakehouse.errors import ConfigurationError, LakehouseError, ReadError
from dbt_lakehouse.lake.catalog import entries
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.landing.lags import hour_file, last_hour
from dbt_lakehouse.queries.query import answered, within
from dbt_lakehouse.report.facts import Facts, of_runs
from dbt_lakehouse.report.gather import gather
from dbt_lakehouse.report.runs import CYCLES, RUNS_SHOWN, kept
from dbt_lakehouse.session.profile import Place
from dbt_lakehouse.session.project import ProjectOptions, target_folder
from dbt_lakehouse.texts import counted

if TYPE_CHECKING:
    from dbt_lakehouse.commands.why.why_output import Answer

ROWS: Final = 1_000
"""The most rows that are shown of a query."""
SECONDS: Final = 30.0
"""The time limit of an answer from the lake alone."""
# With dbt, which has to read the project.
_SECONDS_OF_DBT: Final = 120.0
# The number of newest payloads shown for each code and topic in quarantine.
_EXAMPLES: Final = 5
_FRESH_SECONDS: Final = 5.0
# Limits of a query: the process may be a stream's, beside Spark.
_LIMITS: Final = MappingProxyType({"memory_limit": "1GB", "max_temp_directory_size": "2GB"})
# The period of the counts, or since the newest run if that is older.
_SPAN: Final = timedelta(hours=1)


class Answered(NamedTuple):
    """The rows of a query that are shown."""

    names: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[Any]]
    told: str
    """The number of rows, and the time taken."""


class Lake:
    """A lake to look at. ``options`` lead other commands to the same project."""

    def __init__(self, place: Place, options: ProjectOptions) -> None:
        self.place: Final = place
        self._options: Final = options
        self._looking: Final = threading.Lock()
        self._facts: Facts | None = None
        self._looked_at = 0.0
        self._explaining: Final = threading.Lock()
        self._asking: Final = threading.Lock()
        self._kept: Reader | None = None

    def facts(self) -> Facts:
        """The state of the lake, with an error if it can't be read."""
        with self._looking:
            now = datetime.now(UTC)
            if self._facts is None or time.monotonic() - self._looked_at > _FRESH_SECONDS:
                self._facts = self._look(now)
                # A look may take longer than it stays fresh.
                self._looked_at = time.monotonic()
            return self._facts

    def _look(self, now: datetime) -> Facts:
        place, target = self.place, target_folder(self.place.root)
        runs = [*kept(target, place.gold), *kept(target, place.gold, folder=CYCLES)]
        runs.sort(key=lambda run: run.started_at, reverse=True)
        since = min([now - _SPAN, *(run.started_at for run in runs[:1])])
        try:
            reader = Reader(place.settings, place.gold, sparing=True)
            facts = gather(
                reader,
                place.gold,
                place.silver,
                runs,
                now,
                since,
                examples=_EXAMPLES,
                # A cycle builds only models with news.
                every_table=True,
            )
        # Any error: the next look may succeed.
        except Exception as error:
            facts = of_runs(runs, now, since)
            facts.period = []
            facts.trouble = told(error)
        facts.project = place.project
        facts.period = (facts.period or [])[:RUNS_SHOWN]
        facts.built = last_hour(hour_file(target, place.settings, place.gold), now)
        return facts

    def tables(self) -> list[str]:
        """The tables of gold; empty if the lake can't be read."""
        try:
            found = entries(self.place.settings)
        except LakehouseError:
            return []
        return sorted(
            each.name for each in found if each.schema == self.place.gold and not each.is_view
        )

    def rows(self, query: str) -> Answered:
        """The rows of a query. Raises ``ConfigurationError``, and the errors of reading."""
        began = time.monotonic()
        with self._reader() as reader, answered(reader, query, ROWS + 1) as rows:
            found = list(rows.values())
            numeric = rows.numeric
        is_more = len(found) > ROWS
        number = f"the first {ROWS:,} rows of more" if is_more else counted(len(found), "row")
        took = f"{number}, in {time.monotonic() - began:.2f} s"
        return Answered(rows.names, numeric, found[:ROWS], took)

    def explained(self, topic: str, partition: int | None, offset: int) -> str:
        """The explanation of a landed message. Raises ``UnusablePayloadError``, and the errors of
        reading.
        """
        from dbt_lakehouse.commands.explain.explained_message import explain
        from dbt_lakehouse.commands.explain.landed import from_bronze
        from dbt_lakehouse.commands.explain.nodes import Limits

        other_events = f"{self.place.silver}.other_events"
        with self._reader() as reader:
            message = from_bronze(reader, other_events, topic, partition, offset)
        parts = (message.key, message.value, Limits(), message.told, message.headers)
        return explain(*parts).text()

    def why(self, table: str, key: str) -> "Answer":
        """The explanation of a row. dbt, which reads the models for it, runs in another process:
        this one may be a stream's, which also runs dbt.

        Raises ``ConfigurationError``.
        """
        if table not in self.tables():
            raise ConfigurationError(f"{table!r} is not a table of {self.place.gold}")
        if not self._explaining.acquire(blocking=False):
            raise ConfigurationError("another row is being explained: ask again when that is done")
        try:
            return self._explained_by_dbt(table, key)
        finally:
            self._explaining.release()

    def _explained_by_dbt(self, table: str, key: str) -> "Answer":
        from dbt_lakehouse.commands.why.why_output import decoded

        # `-`: the process list must not show a key.
        command = ["why", "--json", f"--table={table}", "--key=-", *self._options.arguments()]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "dbt_lakehouse.cli", *command],
                # On one line, as the command reads keys.
                input=key.replace("\r", " ").replace("\n", " "),
                capture_output=True,
                encoding="utf-8",
                env={**os.environ, "PYTHONUTF8": "1"},
                timeout=_SECONDS_OF_DBT,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigurationError(
                f"there was no answer within {_SECONDS_OF_DBT:.0f} s: `lakehouse why` has no limit"
            ) from error
        try:
            return decoded(done.stdout)
        except msgspec.DecodeError as error:
            raise ConfigurationError(done.stderr.strip().removeprefix("lakehouse: ")) from error

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        """A reader of the current lake for one query, which ends after ``SECONDS``."""
        with self._asking:
            try:
                if self._kept is None:
                    place = self.place
                    self._kept = Reader(place.settings, place.gold, root=place.root, limits=_LIMITS)
                else:
                    self._kept.refresh()
                with within(self._kept, SECONDS):
                    yield self._kept
            except ReadError:
                # A new reader may be able to read what this one could not.
                self._kept = None
                raise
