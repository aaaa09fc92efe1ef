"""`lakehouse stream --build`: one process that stays warm lands and builds, cycle after cycle.

A cycle is what `dbt run` is: it lands one batch of what is new in captures and Kafka, and builds
what follows from it. Java, Spark and dbt's reading of the project, most of a small run's time, are
there already. A cycle begins as soon as there is news and the last one is done; without news
nothing runs but the tables' maintenance (``upkeep``) and, now and then, a cycle for what time alone
changes (rows that expire).
"""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.dbt_commands import (
    DbtError,
    ProjectError,
    failed_nodes,
    run_dbt,
)
from dbt_lakehouse.commands.liveness import Liveness
from dbt_lakehouse.commands.stream_lags import StreamLags, tables_of_topics
from dbt_lakehouse.commands.upkeep import Upkeep, now, refuse_ended, told
from dbt_lakehouse.commands.watched_project import Files, WatchedProject, looked_at
from dbt_lakehouse.config.project import Project, target_folder
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lags import HourOfLags, hour_file
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.locks import hold_topic
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.landing.files import configured_captures
from dbt_lakehouse.landing.kafka.admin import PartitionLog, read_logs
from dbt_lakehouse.landing.kafka.positions import TABLE as POSITIONS
from dbt_lakehouse.landing.stalled import stalled_by
from dbt_lakehouse.runs.source_filter import News as Pairs
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.telling import tell
from dbt_lakehouse.texts import counted

FAILURES: Final = 10
"""So many cycles that fail one after the other end the process."""
_LONGEST_PAUSE: Final = 300.0
# A cycle without news, for what time alone changes.
_WITHOUT_NEWS_SECONDS: Final = 900.0
# dbt's event, by which the hook that lands says what it has landed (landing/configured.py): of
# captures, if there are any, and then of Kafka.
_SAID: Final = "JinjaLogInfo"
_OF_CAPTURES, _OF_KAFKA = "landed ", "kafka: "
# What a landing has left, and what it has landed.
_LANDED: Final = f"""
select topic, lag_messages, landed_timestamp, landed_ages, checked_at
from {POSITIONS}
where checked_at is not null
"""
_BRONZE: Final = bronze.TABLE.removeprefix(f"{CATALOG}.")


class CycleOptions(NamedTuple):
    """How cycles run: at most one every ``interval_seconds``; with ``available_now``, until all
    that was there has landed and is built. ``selection`` are dbt's options that choose nodes;
    ``liveness`` is a file to touch whenever all that is known is built, and while tables are
    maintained.
    """

    interval_seconds: float
    available_now: bool = False
    selection: Sequence[str] = ()
    with_tests: bool = False
    liveness: Path | None = None
    maintain_seconds: float | None = None
    """Each table is maintained so often at most; None: by others."""

    @property
    def command(self) -> tuple[str, ...]:
        """dbt's arguments of a cycle."""
        # A report and two manifests every few seconds are nothing that is read.
        flags = ("--no-write-json", *self.selection)
        if self.with_tests:
            return ("build", "--resource-type", "model", "--resource-type", "test", *flags)
        return ("run", *flags)


class News(NamedTuple):
    """What a cycle would find: Kafka's log ends, captures, and the snapshots of bronze and of
    other_events, to which `redrive` adds.
    """

    ends: Mapping[tuple[str, int], int]
    captures: Files
    bronze: int | None
    events: str | None


def run_cycles(project: Project, options: CycleOptions, stopping: threading.Event) -> int:
    """Land and build until ``stopping`` is set; how many cycles have built.

    Raises ``LockedError`` for a topic that another stream lands, ``ConfigurationError`` and
    ``KafkaError`` for what is wrong from the start, and what the last of ``FAILURES`` cycles that
    fail in turn has failed by.
    """
    if options.liveness is not None and not options.liveness.absolute().parent.is_dir():
        raise ConfigurationError(f"--liveness {options.liveness}: there is no such folder")
    watched = WatchedProject(project)
    chosen = ("--resource-type", "model", *options.selection)
    if not run_dbt(project, "list", *chosen, manifest=watched.manifest()):
        raise ConfigurationError("--select and --exclude leave no model to build")
    spark = project.open_session()
    with ExitStack() as held:
        return _Cycles(spark, watched, options, held).run(stopping)


class _Cycles:
    """The cycles of one process. ``held`` are the locks of the topics that it lands."""

    def __init__(
        self,
        spark: SparkSession,
        watched: WatchedProject,
        options: CycleOptions,
        held: ExitStack,
    ) -> None:
        self._spark: Final = spark
        self._watched: Final = watched
        self._options: Final = options
        self._held: Final = held
        self._topics: Final[set[str]] = set()
        # What the last cycle has built from; None if that has failed.
        self._built: News | None = None
        self._is_behind = False
        # Of the running cycle: what it has landed, bronze behind that, and what Kafka has left.
        self._said: list[str] = []
        self._landed_to: int | None = None
        self._left = 0
        self._newest: datetime | None = None
        project = watched.project
        self._lags: Final = StreamLags(
            HourOfLags(hour_file(target_folder(project.root), project.settings, project.gold)),
            lambda sentence: tell(f"{now()} {sentence}"),
        )
        self._liveness: Final = Liveness(options.liveness)
        self._upkeep: Final = Upkeep(spark, options.maintain_seconds, self._liveness)
        # What was told of cycles that have built, but not all is well.
        self._trouble = ""
        self._cycles = 0

    def run(self, stopping: threading.Event) -> int:
        """Cycle after cycle until ``stopping`` is set or, if it is to end there, all is built."""
        logs = self._lock_topics()
        tell(
            f"streaming and building {counted(len(logs), 'partition')} of"
            f" {counted(len(self._topics), 'topic')} from {self._watched.source.settings.servers}"
        )
        failures = 0
        built_at = -_WITHOUT_NEWS_SECONDS
        while not stopping.is_set():
            began = time.monotonic()
            try:
                if self._watched.read_again():
                    self._built = None
                news = self._news()
                is_old = began - built_at >= _WITHOUT_NEWS_SECONDS
                is_pause = not (self._is_new(news) or self._is_behind or is_old)
                if not is_pause:
                    self._cycle(news)
                    built_at = began
                failures = 0
                self._liveness.show()
                if self._options.available_now:
                    if not self._is_behind:
                        break
                elif is_pause:
                    self._maintain(stopping)
                else:
                    self._upkeep.between_cycles(*self._watched_as_read)
            # Whatever it is: what the next cycle does is the same.
            except Exception as error:
                failures += 1
                self._built = None
                self._go_on_or_raise(error, failures)
            pause = paused(self._options.interval_seconds, failures)
            stopping.wait(max(0.0, pause - (time.monotonic() - began)))
        return self._cycles

    def _go_on_or_raise(self, error: Exception, failures: int) -> None:
        refuse_ended(self._spark, error)
        # A project that is being written is waited for.
        is_final = failures >= FAILURES and not isinstance(error, ProjectError)
        # What is wrong from the start is for who has started it.
        if self._cycles == 0 or is_final:
            raise error
        tell(f"{now()} cycle failed, {counted(failures, 'time')} in turn: {told(error)}")

    def _maintain(self, stopping: threading.Event) -> None:
        """Maintain tables until there is something else to do."""
        with closing(self._upkeep.in_pause(*self._watched_as_read)) as tables:
            for _ in tables:
                if stopping.is_set() or self._watched.has_changed or self._is_new(self._news()):
                    return
                self._liveness.show()

    @property
    def _watched_as_read(self) -> tuple[Project, Any]:
        return self._watched.project, self._watched.manifest()

    def _news(self) -> News:
        logs, project = self._lock_topics(), self._watched.project
        captures = configured_captures(project.variables, project.root)
        return News(
            {(log.kafka_topic, log.partition): log.end for log in logs},
            looked_at(map(Path, captures)),
            bronze.current_snapshot(self._spark),
            _snapshot(self._events()),
        )

    def _is_new(self, news: News) -> bool:
        """Whether there is anything to build. Maintenance makes snapshots of the same rows."""
        if self._built is None:
            return True
        built = self._built
        if news.bronze != built.bronze and built.bronze is not None:
            if has_same_rows(look_at(self._spark, _BRONZE), str(built.bronze)):
                built = built._replace(bronze=news.bronze)
        if news.events != built.events and built.events is not None:
            if has_same_rows(self._events(), built.events):
                built = built._replace(events=news.events)
        self._built = built
        return news != built

    def _events(self) -> Table | None:
        return look_at(self._spark, f"{self._watched.project.silver}.other_events")

    def _lock_topics(self) -> list[PartitionLog]:
        """The topics' logs; a topic that is new is kept from other streams and batches."""
        source = self._watched.source
        logs, _, _ = read_logs(self._spark, source.settings, source.rules)
        for topic in sorted({log.topic for log in logs} - self._topics):
            hold_topic(self._held, self._spark, topic, "lakehouse stream --build")
            self._topics.add(topic)
        return logs

    def _cycle(self, news: News) -> None:
        """Land and build; what comes behind ``news`` is the next one's. Raises ``DbtError``."""
        began = time.monotonic()
        self._said, self._landed_to, self._newest = [], news.bronze, None
        try:
            done = run_dbt(
                self._watched.project,
                *self._options.command,
                manifest=self._watched.manifest(),
                hear=self._hear,
            )
            results, trouble = done.results, ""
        except DbtError as error:
            results, trouble = tolerated(error)
        if not self._has_landed:
            # All others leave the topics to this process.
            raise ConfigurationError(
                "nothing was landed: no `on-run-start` hook of the project lands, as that of our"
                " package of models does (docs/package.md)"
            )
        # Once: the others go on, whatever becomes of these.
        if trouble and trouble != self._trouble:
            tell(f"{now()} {trouble}")
        self._trouble = trouble
        models = [*models_of(results)]
        built = sum(str(each.status) == "success" for each in models)
        text = f"{'; '.join(self._said)}; built {counted(built, 'model')}"
        text += f" in {time.monotonic() - began:.1f} s"
        if self._newest is not None:
            age = (datetime.now(UTC) - self._newest).total_seconds()
            text += f"; the newest message is {age:,.1f} s old"
        tell(f"{now()} {text}")
        self._cycles += 1
        self._is_behind = self._left > 0
        events = self._events()
        self._built = news._replace(bronze=self._landed_to, events=_snapshot(events))
        self._note_lags(events, models)

    def _note_lags(self, events: Table | None, models: Sequence[Any]) -> None:
        def tables(topics: Collection[str]) -> Mapping[str, Collection[str]]:
            pairs = [] if events is None else Pairs(events).pairs
            mine = [pair for pair in pairs if pair[0] in topics]
            return tables_of_topics(mine, self._watched.manifest().nodes)

        self._lags.built(tables, models)

    @property
    def _has_landed(self) -> bool:
        return any(each.startswith(_OF_KAFKA) for each in self._said)

    def _hear(self, event: Any) -> None:
        """What dbt says in a cycle: the hook tells of landing when that is done."""
        if event.info.name != _SAID or self._has_landed:
            return
        if event.data.msg.startswith((_OF_CAPTURES, _OF_KAFKA)):
            self._said.append(str(event.data.msg))
            # Models read bronze after this: rows that others add from now on may be left.
            self._landed_to = bronze.current_snapshot(self._spark)
        if self._has_landed:
            self._note_landing()

    def _note_landing(self) -> None:
        rows = self._spark.sql(_LANDED).toArrow().to_pylist()
        self._left = sum(row["lag_messages"] or 0 for row in rows)
        times = [row["landed_timestamp"] for row in rows if row["landed_timestamp"] is not None]
        self._newest = max(times, default=None)
        self._lags.landed(rows)


def paused(interval: float, failures: int) -> float:
    """Seconds from the beginning of a cycle to that of the next, after so many that have failed."""
    return min(interval * 2.0 ** min(failures, 20), max(interval, _LONGEST_PAUSE))


def models_of(results: Iterable[Any]) -> Iterator[Any]:
    """Of a command's results, those of models: not of hooks and tests."""
    return (each for each in results if each.node.resource_type == "model")


def has_same_rows(table: Table | None, snapshot: str) -> bool:
    """Whether a table has the rows that it had at an earlier snapshot, as far as is known."""
    for each in () if table is None else table.chain:
        if each.name == snapshot:
            return True
        if each.changes_rows or each.appends:
            return False
        if each.parent_snapshot_id is not None and str(each.parent_snapshot_id) == snapshot:
            # It has expired itself.
            return True
    return False


def _snapshot(table: Table | None) -> str | None:
    return None if table is None else table.snapshot


def tolerated(error: DbtError) -> tuple[Sequence[Any], str]:
    """The results of a command that has built all and ended with an error all the same, and what
    is not well: topics that can't go on, tests that fail. Raises the error if it is another.
    """
    stalled = stalled_by(error)
    results: Sequence[Any] = getattr(stalled or error.result, "results", ())
    failed = failed_nodes(results)
    tests = [each for each in failed if str(each.status) == "fail"]
    if len(tests) < len(failed):
        raise DbtError("; ".join(f"{each.node.name}: {each.message}" for each in failed))
    if stalled is None and not tests:
        raise error
    sentences = [] if stalled is None else [stalled.sentence]
    if tests:
        names = ", ".join(each.node.name for each in tests)
        sentences.append(f"{counted(len(tests), 'test')} failed: {names}")
    return results, "; ".join(sentences)
