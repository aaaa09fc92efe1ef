"""`lakehouse stream --build`: one warm process that lands and builds, cycle after cycle.

A cycle does what `dbt run` does: it lands one batch of new messages from captures and Kafka, and
builds everything that depends on it. Java, Spark and dbt's manifest are already loaded; loading
them takes most of a small run's time. A cycle begins as soon as there is news and the last cycle is
done; without news only the tables' maintenance runs (``upkeep``). A cycle builds the descendants of
topics with news (``models_with_news``). It builds all models the first time, whenever the topics
are unknown, and from time to time for what time alone changes (rows that expire) and for other
projects' models.
"""

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.kept_cycles import KeptCycles
from dbt_lakehouse.commands.liveness import Liveness
from dbt_lakehouse.commands.models_with_news import models_with_news
from dbt_lakehouse.commands.stream_lags import StreamLags, tables_of_topics
from dbt_lakehouse.commands.stream_news import News, snapshot_of
from dbt_lakehouse.commands.upkeep import Upkeep, now, refuse_ended, told
from dbt_lakehouse.commands.watched_project import WatchedProject, looked_at
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.locks import hold_topic
from dbt_lakehouse.lake.names import BRONZE, Silver
from dbt_lakehouse.lake.small_tables import rows_of
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.landing.files import configured_captures
from dbt_lakehouse.landing.kafka.admin import PartitionLog, read_logs
from dbt_lakehouse.landing.kafka.positions import TABLE as POSITIONS
from dbt_lakehouse.landing.lags import HourOfLags, hour_file
from dbt_lakehouse.landing.stalled import TopicsStalledError, stalled_by
from dbt_lakehouse.runs.source_filter import News as Pairs
from dbt_lakehouse.runs.source_filter import all_pairs
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.dbt_commands import (
    DbtError,
    ProjectError,
    failed_nodes,
    run_dbt,
)
from dbt_lakehouse.session.project import Project, target_folder
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import tell
from dbt_lakehouse.texts import counted

FAILURES: Final = 10
"""The number of consecutive failed cycles that ends the process."""
_LONGEST_PAUSE: Final = 300.0
# Begins a cycle without news, for what time alone changes.
_WITHOUT_NEWS_SECONDS: Final = 900.0
# dbt's event with which the landing hook reports its result: for captures, if there are any, and
# then for Kafka (landing/kafka/configured.py).
_SAID: Final = "JinjaLogInfo"
_OF_CAPTURES, _OF_KAFKA = "landed ", "kafka: "


class CycleOptions(NamedTuple):
    """How cycles run: at most one every ``interval_seconds``; with ``available_now``, until all
    present messages have landed and are built. ``select`` and ``exclude`` are dbt's; ``liveness``
    is a file to touch whenever everything known is built, and while tables are maintained.
    """

    interval_seconds: float
    available_now: bool = False
    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    with_tests: bool = False
    liveness: Path | None = None
    maintain_seconds: float | None = None
    """The least interval between two maintenances of a table; None leaves maintenance to others."""

    @property
    def selection(self) -> tuple[str, ...]:
        """dbt's options that select nodes."""
        return (*_each("--select", self.select), *_each("--exclude", self.exclude))

    def command(self, models: Collection[str] | None) -> tuple[str, ...]:
        """dbt's arguments for a cycle: for some models by their selectors, or for all that are
        selected (None).
        """
        chosen = self.selection
        if models is not None:
            named = (f"fqn:{each}" for each in sorted(models))
            chosen = ("--select", *named, *_each("--exclude", self.exclude))
        # A report and two manifests every few seconds have no reader.
        flags = ("--no-write-json", *chosen)
        if self.with_tests:
            return ("build", "--resource-type", "model", "--resource-type", "test", *flags)
        return ("run", *flags)


def _each(option: str, values: Sequence[str]) -> Iterator[str]:
    return (text for value in values for text in (option, value))


def run_cycles(project: Project, options: CycleOptions, stopping: threading.Event) -> int:
    """Land and build until ``stopping`` is set. Returns the number of cycles that have built.

    Raises ``LockedError`` for a topic that another stream lands, ``ConfigurationError`` and
    ``KafkaError`` for errors at the start, and the error of the last of ``FAILURES`` consecutive
    failed cycles.
    """
    if options.liveness is not None and not options.liveness.absolute().parent.is_dir():
        raise ConfigurationError(f"--liveness {options.liveness}: there is no such folder")
    watched = WatchedProject(project)
    _chosen(watched, options)
    spark = project.open_session()
    with ExitStack() as held:
        return _Cycles(spark, watched, options, held).run(stopping)


def _chosen(watched: WatchedProject, options: CycleOptions) -> frozenset[str]:
    """The selectors of the models that options choose."""
    chosen = ("--resource-type", "model", *options.selection)
    found = run_dbt(watched.project, "list", *chosen, manifest=watched.manifest())
    if not found:
        raise ConfigurationError("--select and --exclude leave no model to build")
    return frozenset(found)


class _Cycles:
    """The cycles of a process. ``held`` has the locks of the topics that it lands."""

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
        # The news that the last cycle has built; None if it has failed.
        self._built: News | None = None
        # The topics of which a landing has left messages.
        self._behind: set[str] = set()
        # When all selected models were last built, and whether they have to be, whatever the
        # topics.
        self._whole_at = -_WITHOUT_NEWS_SECONDS
        self._is_whole_due = True
        # Whether the last cycle has skipped models, behind failing tests.
        self._is_incomplete = False
        self._chosen = _chosen(watched, options)
        # Of the running cycle: its landed messages, bronze's snapshot afterwards, and what Kafka
        # has left.
        self._said: list[str] = []
        self._landed_to: int | None = None
        self._newest: datetime | None = None
        # The news with which it begins, and whether others have written before it got the lake's
        # lock.
        self._begins_with: News | None = None
        self._has_others = False
        project = watched.project
        self._lags: Final = StreamLags(
            HourOfLags(hour_file(target_folder(project.root), project.settings, project.gold)),
            _tell_now,
        )
        self._kept: Final = KeptCycles(options.command(None)[0], _tell_now)
        self._liveness: Final = Liveness(options.liveness)
        self._upkeep: Final = Upkeep(spark, options.maintain_seconds, self._liveness)
        # The reported troubles of cycles that have built.
        self._trouble = ""
        self._cycles = 0

    def run(self, stopping: threading.Event) -> int:
        """Run cycles until ``stopping`` is set or, with ``available_now``, everything is built."""
        logs = self._lock_topics()
        tell(
            f"streaming and building {counted(len(logs), 'partition')} of"
            f" {counted(len(self._topics), 'topic')} from {self._watched.source.settings.servers}"
        )
        failures = 0
        while not stopping.is_set():
            began, began_at = time.monotonic(), datetime.now(UTC)
            try:
                if self._watched.read_again():
                    self._built = None
                    self._chosen = _chosen(self._watched, self._options)
                news = self._news()
                self._is_whole_due |= began - self._whole_at >= _WITHOUT_NEWS_SECONDS
                is_pause = not (self._is_new(news) or self._behind or self._is_whole_due)
                if not is_pause:
                    with self._liveness.while_it_gets_on(tasks_of(self._spark)):
                        self._cycle(news)
                failures = 0
                self._liveness.show()
                if self._options.available_now:
                    if not (self._behind or self._is_whole_due):
                        break
                else:
                    self._maintain(stopping, began, is_pause=is_pause)
            # Any error at all: the next cycle is the same.
            except Exception as error:
                failures += 1
                self._built = None
                self._go_on_or_raise(error, failures, began_at)
            pause = paused(self._options.interval_seconds, failures)
            stopping.wait(max(0.0, pause - (time.monotonic() - began)))
        return self._cycles

    def _go_on_or_raise(self, error: Exception, failures: int, began_at: datetime) -> None:
        refuse_ended(self._spark, error)
        results = getattr(getattr(error, "result", None), "results", ())
        why = None if results else told(error)
        self._kept.keep(self._watched.project, began_at, results, error=why)
        if ends_stream(error, failures, self._cycles):
            raise error
        if isinstance(error, ProjectError):
            self._liveness.show()
        _tell_now(f"cycle failed, {counted(failures, 'time')} in turn: {told(error)}")

    def _maintain(self, stopping: threading.Event, began: float, *, is_pause: bool) -> None:
        """Maintain tables until there is other work. Behind a cycle, what is left of its interval
        is a pause if that is half of it or more: under a steady load there is no other.
        """
        interval = self._options.interval_seconds

        def is_over() -> bool:
            if stopping.is_set() or self._watched.has_changed:
                return True
            if is_pause:
                return self._is_new(self._news())
            return time.monotonic() - began >= interval

        if not is_pause:
            self._upkeep.between_cycles(*self._watched_as_read)
        if is_pause or time.monotonic() - began <= interval / 2:
            self._upkeep.in_pause(*self._watched_as_read, is_over)

    @property
    def _watched_as_read(self) -> tuple[Project, Any]:
        return self._watched.project, self._watched.manifest()

    def _news(self) -> News:
        logs, project = self._lock_topics(), self._watched.project
        captures = configured_captures(project.variables, project.root)
        return News(
            {(log.topic, log.partition): log.end for log in logs},
            looked_at(map(Path, captures)),
            bronze.current_snapshot(self._spark),
            snapshot_of(self._events()),
        )

    def _is_new(self, news: News) -> bool:
        """Whether there is anything to build. Snapshots of maintenance have the same rows."""
        if self._built is None:
            return True
        if news != self._built:
            self._built = self._built.as_of(news, self._bronze(), self._events())
        return news != self._built

    def _bronze(self) -> Table | None:
        return look_at(self._spark, BRONZE)

    def _events(self) -> Table | None:
        return look_at(self._spark, Silver.of(self._watched.project.silver).other_events)

    def _lock_topics(self) -> list[PartitionLog]:
        """The topics' logs; a new topic is locked against other streams and batches."""
        source = self._watched.source
        logs, _, _ = read_logs(self._spark, source.settings, source.rules)
        for topic in sorted({log.topic for log in logs} - self._topics):
            hold_topic(self._held, self._spark, topic, "lakehouse stream --build")
            self._topics.add(topic)
        return logs

    def _cycle(self, news: News) -> None:
        """Land and build; anything after ``news`` is left to the next cycle. Raises
        ``DbtError``.
        """
        began, began_at = time.monotonic(), datetime.now(UTC)
        self._said, self._landed_to, self._newest = [], news.bronze, None
        stalled: TopicsStalledError | None = None
        self._begins_with, self._has_others = news, False
        topics = self._topics_with(news)
        before = self._models_of(topics)
        try:
            done = run_dbt(
                self._watched.project,
                *self._options.command(before),
                manifest=self._watched.manifest(),
                hear=self._hear,
            )
            results, trouble = done.results, ""
        except DbtError as error:
            results, trouble = tolerated(error)
            stalled = stalled_by(error)
        if not self._has_landed:
            # Other processes leave the topics to this one.
            raise ConfigurationError(
                "nothing was landed: no `on-run-start` hook of the project lands, as that of our"
                " package of models does (docs/package.md)"
            )
        # Only once: the others go on in any case.
        if trouble and trouble != self._trouble:
            _tell_now(trouble)
        self._trouble = trouble
        models = [*models_of(results)]
        built = sum(str(each.status) == "success" for each in models)
        text = f"{'; '.join(self._said)}; built {counted(built, 'model')}"
        text += f" in {time.monotonic() - began:.1f} s"
        if self._newest is not None:
            age = (datetime.now(UTC) - self._newest).total_seconds()
            text += f"; the newest message is {age:,.1f} s old"
        _tell_now(text)
        self._cycles += 1
        troubles = [] if stalled is None else [stalled.sentence]
        self._kept.keep(self._watched.project, began_at, results, self._said, troubles)
        events = self._events()
        self._built = news._replace(bronze=self._landed_to, events=snapshot_of(events))
        if before is None:
            self._whole_at = began
        # A table's events may have come in a topic that had none of its events before.
        after = self._models_of(topics)
        self._is_whole_due = before is not None and (
            after is None or not after <= before or self._has_others
        )
        # Models skipped behind a failing test may be built when another table has news.
        self._is_incomplete = any(str(each.status) in ("fail", "skipped") for each in results)
        self._note_lags(events, models, set() if self._is_whole_due else topics)

    def _topics_with(self, news: News) -> set[str] | None:
        """The topics whose events a cycle builds; None for all."""
        if self._is_whole_due or self._is_incomplete or self._built is None:
            return None
        topics = news.topics_since(self._built)
        return None if topics is None else topics | self._behind

    def _models_of(self, topics: set[str] | None) -> set[str] | None:
        """The selectors of the models to build for topics, among the selected ones; None for all
        of these.
        """
        if topics is None:
            return None
        events = self._events()
        pairs = None if events is None else all_pairs(events)
        if pairs is None:
            return None
        nodes = self._watched.manifest().nodes
        found = models_with_news(nodes, pairs, topics)
        # dbt can't be told to land and build nothing.
        return ({".".join(nodes[name].fqn) for name in found} & self._chosen) or None

    def _note_lags(
        self, events: Table | None, models: Sequence[Any], topics: Collection[str] | None
    ) -> None:
        def tables(topics: Collection[str]) -> Mapping[str, Collection[str]]:
            pairs = [] if events is None else Pairs(events).pairs
            mine = [pair for pair in pairs if pair[0] in topics]
            return tables_of_topics(mine, self._watched.manifest().nodes)

        self._lags.built(tables, models, topics)

    @property
    def _has_landed(self) -> bool:
        return any(each.startswith(_OF_KAFKA) for each in self._said)

    def _hear(self, event: Any) -> None:
        """Handle dbt's events in a cycle: the hook's report shows that landing is done."""
        if event.info.name != _SAID or self._has_landed:
            return
        if event.data.msg.startswith((_OF_CAPTURES, _OF_KAFKA)):
            self._said.append(str(event.data.msg))
            # Models read bronze after this, so rows that others add from now on may be left out.
            self._landed_to = bronze.current_snapshot(self._spark)
        if self._has_landed:
            self._note_landing()

    def _note_landing(self) -> None:
        rows = [row for row in rows_of(self._spark, POSITIONS) if row["checked_at"] is not None]
        self._behind = {row["topic"] for row in rows if row["lag_messages"]}
        times = [row["landed_timestamp"] for row in rows if row["landed_timestamp"] is not None]
        self._newest = max(times, default=None)
        self._lags.landed(rows)
        assert self._begins_with is not None
        self._has_others = self._begins_with.is_overtaken(
            self._bronze(), self._events(), has_landed=any(row["landed_ages"] for row in rows)
        )


def _tell_now(sentence: str) -> None:
    tell(f"{now()} {sentence}")


def ends_stream(error: Exception, failures: int, cycles: int) -> bool:
    """Whether a stream ends with the error of a cycle: the last of so many in turn, after
    ``cycles`` that have built. One at the start is the user's to correct, and a project that is
    being edited is waited for.
    """
    is_final = failures >= FAILURES and not isinstance(error, ProjectError)
    return cycles == 0 or is_final


def paused(interval: float, failures: int) -> float:
    """Seconds from the beginning of a cycle to that of the next, after a number of failures."""
    return min(interval * 2.0 ** min(failures, 20), max(interval, _LONGEST_PAUSE))


def models_of(results: Iterable[Any]) -> Iterator[Any]:
    """A command's results for models, without hooks and tests."""
    return (each for each in results if each.node.resource_type == "model")


def tolerated(error: DbtError) -> tuple[Sequence[Any], str]:
    """The results of a command that has built everything and still ended with an error, and the
    trouble: stalled topics or failing tests. Raises the error if it is another.
    """
    stalled = stalled_by(error)
    results: Sequence[Any] = getattr(stalled or error.result, "results", ())
    failed = failed_nodes(results)
    tests = [each for each in failed if str(each.status) == "fail"]
    if len(tests) < len(failed):
        said = "; ".join(f"{each.node.name}: {each.message}" for each in failed)
        raise DbtError(said, stalled or error.result)
    if stalled is None and not tests:
        raise error
    sentences = [] if stalled is None else [stalled.sentence]
    if tests:
        names = ", ".join(each.node.name for each in tests)
        sentences.append(f"{counted(len(tests), 'test')} failed: {names}")
    return results, "; ".join(sentences)
