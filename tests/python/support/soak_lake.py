"""The lake of an episode of `make soak`: each step done, and all that it holds compared with the
references behind it.
"""

import json
import random
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.commands.forget.forget_steps import Options, forget
from dbt_lakehouse.commands.maintain import maintain
from dbt_lakehouse.commands.redrive import redrive
from dbt_lakehouse.commands.status.facts import Facts, Outcome
from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.lake import avro_schemas
from dbt_lakehouse.session.project import Project
from support.expected_gold import EPOCH
from support.lakes import Lake, Rows, as_of_text
from support.needles import holders
from support.row_avro import registered
from support.row_events import ALL_COLUMNS, POISON, Event, Source, changes_by_key, key_value, marker
from support.row_lake import (
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    differences,
    expected_history,
    expected_rows,
    expected_state,
    log_of,
)
from support.row_messages import line
from support.small_project import (
    Log,
    add_gold,
    add_log,
    add_target,
    current_state,
    remove_model,
    small_project,
)
from support.soak_memory import wrong_counters, wrong_tombstones
from support.soak_streams import Do, Episode, Step
from support.streams import HOUR, START

# The second target; its tables are in schemas that begin with its name.
_OTHER: Final = "other"
# What has read the deletes without a set, whatever is left out of a run.
_DELETES: Final = "deleted_keys"
# Not for data tests of `dbt test` that only warn of what an episode is full of.
_WARNING: Final = ("quarantine_rate", "no_topic_is_all_quarantined", "no_unknown_columns*")


@dataclass
class SoakLake:
    """An episode's lake, with what has landed in it and what each table has read of that."""

    lake: Lake
    episode: Episode
    as_of: datetime = EPOCH + timedelta(milliseconds=START + 2 * HOUR)
    landed: list[Event] = field(default_factory=list)
    to_land: list[list[Event]] = field(default_factory=list)
    unknown: str | None = None
    forgotten: bool = False
    gone: set[str] = field(default_factory=set)
    """What files held of the keys that were forgotten, and must not once they are purged."""
    columns: dict[str, list[str]] = field(default_factory=dict)
    """By gold table: the columns that it has, if not all."""
    exchanged: set[str] = field(default_factory=set)
    """The gold tables that read another log than their own."""
    behind: set[str] = field(default_factory=set)
    """The topics of a log that was left out of the last run."""
    read: dict[str, list[Event]] = field(default_factory=dict)
    """By table: all that it has read, through its log."""
    read_as_of: dict[str, datetime] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, episode: Episode) -> "SoakLake":
        """An empty lake with the episode's models."""
        project = small_project(folder / "project", quarantine=True)
        for source in episode.sources:
            add_change_log(project, source)
            add_current_state(project, source)
        for name, source in episode.histories.items():
            add_history(project, source, name)
        add_target(project, _OTHER)
        batches = [list(batch) for batch in episode.batches]
        lake = cls(Lake(folder, project), episode, to_land=batches)
        lake.unknown = episode.unknown
        # As if a registry had been asked for all of them before.
        avro_schemas.keep(lake.lake.spark, registered(), "soak")
        return lake

    @property
    def sources(self) -> dict[str, Source]:
        """The source tables by their gold tables."""
        return {source.table: source for source in self.episode.sources} | self.episode.histories

    @property
    def variables(self) -> dict[str, Any]:
        """The project's variables now."""
        return {
            "tombstone_retention_days": self.episode.retention_days,
            "topics": [
                {
                    "topic": source.topic,
                    "format": source.format,
                    "compacted": source.is_compacted,
                }
                for source in self.episode.sources
                if source.topic != self.unknown
            ],
        }

    # --- steps --------------------------------------------------------------------------------

    def do(self, step: Step) -> list[str]:
        """Do a step; in what the lake is not as it should be."""
        self.as_of += timedelta(hours=step.hours)
        match step.do:
            case Do.RUN:
                return self._land_and_run()
            case Do.LEAVE_OUT:
                return self._land_and_run(without=step.of)
            case Do.REFRESH:
                self._refresh(step.of)
            case Do.MAINTAIN:
                project = self.project(snapshot_retention_days=0)
                list(maintain(project, [], dry_run=False))
                self.run()
            case Do.ROLL_BACK:
                self._roll_back(step)
                self.run()
            case Do.REDRIVE:
                self.run()
                # What it has of them is quarantined still.
                self._drop_other_target()
                self.unknown = None
                with self.lake.dbt_folders():
                    redrive(self.project(), [], [])
                self.run()
            case Do.FORGET | Do.PURGE:
                self.run()
                # They would keep what is forgotten here.
                self._drop_other_target()
                self._drop_other_logs()
                self.forget(step)
                found = self.differences()
                if step.do is Do.PURGE:
                    found += self.held()
                self.run()
                return found + self.differences()
            case Do.UPSTREAM:
                self._change_upstream(step)
                self.run()
            case Do.TARGET:
                return self._run_other_target() + self.differences()
        return self.differences()

    def project(self, **variables: Any) -> Project:
        """The project as commands load it now."""
        return self.lake.load(
            **{"captures": [], "as_of": as_of_text(self.as_of), **self.variables, **variables}
        )

    def land(self) -> None:
        """Land the next messages, and some that have landed before."""
        events = self.to_land.pop(0)
        again = random.Random(len(self.landed)).sample(self.landed, min(20, len(self.landed)))
        if self.forgotten:
            again = []
        result = self.lake.land(line(event) for event in [*again, *events])
        assert result == (len(events), len(again))
        self.landed += events

    def run(self, *arguments: str, without: str | None = None) -> None:
        """`dbt run`, which must succeed. A log is left out with all that reads it."""
        left_out = ("--exclude", f"{without}+") if without else ()
        self._dbt("run", *arguments, *left_out)
        self.behind = set()
        for table, source in self.sources.items():
            if without not in (table, self._log_of(table)):
                self._has_read(table)
            if without == f"{log_of(source).name}_changes":
                self.behind.add(source.topic)
        self._has_read(_DELETES)

    def _log_of(self, table: str) -> str:
        """The log that a gold table reads now."""
        source = self.sources[table]
        log = _again(source) if table in self.exchanged else log_of(source)
        return f"{log.name}_changes"

    def _land_and_run(self, without: str | None = None) -> list[str]:
        before, moments = dict(self.read), dict(self.read_as_of)
        counted = {row["invocation_id"] for row in self._counters()} if before else set()
        self.land()
        self.run(without=without)
        rows = [row for row in self._counters() if row["invocation_id"] not in counted]
        found = self.differences()
        for source in self.episode.sources:
            # A first build counts nothing, and what is rebuilt does not either.
            is_left_out = without in (source.table, self._log_of(source.table))
            if source.has_key and source.table in before and not is_left_out:
                found += wrong_counters(
                    source,
                    (before[source.table], moments[source.table]),
                    (self.read[source.table], self.read_as_of[source.table]),
                    [row for row in rows if row["gold_table"] == f"gold.{source.table}"],
                    forgets=self.episode.retention_days < 1000,
                )
        return found

    def _counters(self) -> Rows:
        return self.lake.read("silver.fold_counters")

    def _change_upstream(self, step: Step) -> None:
        """Have a gold table read another log of the same source, or its own again; or have it other
        columns than all, or all again.
        """
        source = self.sources[step.of]
        # The test of a history compares all columns.
        has_history = source in self.episode.histories.values()
        if step.number < 0.5 or not source.has_key or has_history:
            add_log(self.lake.project, _again(source))
            self.exchanged ^= {step.of}
        elif self.columns.pop(step.of, None) is None:
            self.columns[step.of] = [name for name in ALL_COLUMNS if name != "label"]
        self._declare(source)

    def _declare(self, source: Source) -> None:
        """Write the model of the source's gold table."""
        log = _again(source) if source.table in self.exchanged else log_of(source)
        gold = current_state(log, source.table, self.columns.get(source.table))
        add_gold(self.lake.project, gold)

    def _drop_other_logs(self) -> None:
        """Have all gold tables read their own logs again, and drop the others."""
        others = {_again(each).model for each in self.episode.sources}
        there = others.intersection(name.partition(".")[2] for name in self.lake.tables())
        if not there:
            return
        tables, self.exchanged = self.exchanged, set()
        for table in tables:
            self._declare(self.sources[table])
        for model in others:
            remove_model(self.lake.project, model)
        self.run()
        for model in there:
            self.lake.sql(f"drop table silver.{model} purge")

    def _run_other_target(self) -> list[str]:
        """In what a second target's tables are not as they should be; the first's stay."""
        before = self.lake.current_snapshots(self.lake.tables())
        self._dbt("run", "--target", _OTHER)
        found = [
            f"{table} was written by another target"
            for table, snapshot in before.items()
            if self.lake.current_snapshot(table) != snapshot
        ]
        events = self._visible()
        for table in self.sources:
            rows = self._expected_of(table, events, self.as_of)
            name = f"{_OTHER}_gold.{table}"
            found += [f"{name} {each}" for each in differences(rows, self.lake.read(name))]
        return found

    def _drop_other_target(self) -> None:
        for layer in ("silver", "gold"):
            schema = f"lake.{_OTHER}_{layer}"
            if not self.lake.sql(f"show schemas in lake like '{_OTHER}_{layer}'"):
                continue
            for row in self.lake.sql(f"show tables in {schema}"):
                if row["namespace"]:
                    self.lake.sql(f"drop table {schema}.{row['tableName']} purge")
            folder = self.lake.folder / "lake" / "warehouse" / f"{_OTHER}_{layer}"
            shutil.rmtree(folder, ignore_errors=True)

    def _refresh(self, model: str) -> None:
        self._dbt("run", "--full-refresh", "-s", model)
        if model in self.sources:
            # Its log has read all, whatever it has left out itself.
            self._has_read(model)
        else:
            self.run()

    def all_are_read(self) -> None:
        """Every table has read all that has landed."""
        for table in (*self.sources, _DELETES):
            self._has_read(table)

    def _has_read(self, table: str) -> None:
        self.read[table] = self._visible()
        self.read_as_of[table] = self.as_of

    def _visible(self) -> list[Event]:
        return [event for event in self.landed if event.source.topic != self.unknown]

    def _dbt(self, *arguments: str) -> None:
        outcomes = self.lake.outcomes(*arguments, as_of=as_of_text(self.as_of), **self.variables)
        failed = {name: each for name, each in outcomes.items() if each.status != "success"}
        if failed:
            raise AssertionError(f"dbt {' '.join(arguments)}: {failed}")

    def _roll_back(self, step: Step) -> None:
        layer = "gold" if step.of in self.sources else "silver"
        table = f"{layer}.{step.of}"
        chain = self.lake.look_at(table).chain
        # What was forgotten would be back; what was redriven would have to be again.
        is_redriven = self.episode.unknown is not None and self.unknown is None
        if self.forgotten or len(chain) < 2 or (step.of == "other_events" and is_redriven):
            return
        self.lake.roll_back(table, str(chain[1 + int(step.number * (len(chain) - 1))].snapshot_id))

    def forget(self, step: Step) -> None:
        """Forget a key of the step's table, if its events are there."""
        source = self.sources[step.of]
        key = self.key_to_forget(step)
        if key is None:
            return
        given = self.given_key(source, key)
        with self.lake.dbt_folders():
            options = Options(step.of, [given], step.do is Do.PURGE)
            forget(self.project(), options)
        self.landed = self.without_forgotten(source, key, self.landed)
        forgotten = {(each.source, each.partition, each.offset): each for each in self.landed}
        for table, read in self.read.items():
            self.read[table] = [
                forgotten[event.source, event.partition, event.offset] for event in read
            ]

    def without_forgotten(self, source: Source, key: int, landed: Sequence[Event]) -> list[Event]:
        """What is left of landed events once a key is forgotten."""
        self.forgotten = True
        gone = _linked(key, [each for each in landed if each.source == source and each.is_change])
        for each in gone:
            self.gone.add(marker(source, each))
            if source.is_aerospike:
                self.gone.add(str(key_value(source, each)))
        return [
            event._replace(operation="tombstone", key=None, previous_key=None)
            if event.source == source and {event.key, event.previous_key} & gone
            else event
            for event in landed
        ]

    def held(self) -> list[str]:
        """The files of the lake, of dbt's target and logs that hold what was purged."""
        # What was landed again for a key, or is yet to be decoded, is there.
        sent = [event for event in self.landed if event.key is not None]
        there = {marker(event.source, event.key) for event in sent if event.key is not None}
        there |= {str(key_value(each.source, each.key)) for each in sent if each.key is not None}
        needles = [text.encode() for text in sorted(self.gone - there)]
        # That is not the lake's.
        (self.lake.folder / "capture.jsonl").unlink(missing_ok=True)
        return [
            f"{file.relative_to(self.lake.folder)} holds what is purged"
            for file in sorted(holders(self.lake.folder, needles))
            if not file.is_relative_to(self.lake.project)
        ]

    def key_to_forget(self, step: Step) -> int | None:
        """Which key the step forgets."""
        source = self.sources[step.of]
        events = [event for event in self.landed if event.source == source and event.is_change]
        keys = sorted({event.key for event in events if event.key is not None})
        if not keys or self.unknown == source.topic:
            return None
        return keys[int(step.number * len(keys))]

    @staticmethod
    def given_key(source: Source, key: int) -> str:
        """A key as commands take it."""
        return json.dumps({"digest" if source.is_aerospike else "id": key_value(source, key)})

    # --- what must be -------------------------------------------------------------------------

    def expected(self) -> dict[str, Expected]:
        """What each table must hold."""
        return {
            table: self._expected_of(table, self.read[table], self.read_as_of[table])
            for table in self.sources
        }

    def _expected_of(self, table: str, events: Sequence[Event], as_of: datetime) -> Expected:
        source = self.sources[table]
        if table in self.episode.histories:
            return expected_history(source, events, as_of)
        if not source.has_key:
            return expected_rows(source, events)
        found = expected_state(source, events, as_of)
        without = {*ALL_COLUMNS} - {*self.columns.get(table, ALL_COLUMNS)}
        for row in found.rows.values():
            for column in without:
                del row[column]
        return found

    def differences(self) -> list[str]:
        """In what gold, histories, tombstones, counters and sums are not as they should be."""
        found = []
        expected = self.expected()
        for table, rows in expected.items():
            found += [
                f"gold.{table} {each}"
                for each in differences(rows, self.lake.read(f"gold.{table}"))
            ]
        facts = gather(self.lake.reader(), "silver")
        found += [f"status: {each.told}" for each in facts.links if each.outcome is Outcome.BROKEN]
        found += self._wrong_counts(facts, expected)
        if self.episode.retention_days > 1000:
            found += wrong_tombstones(
                self.episode.sources,
                self.read,
                self.read_as_of,
                self.read[_DELETES],
                self._deleted(),
            )
        return found

    def _deleted(self) -> Rows:
        """The newest of each key last."""
        return self.lake.sql("select * from silver.deleted_keys order by source_place, position")

    def _wrong_counts(self, facts: Facts, expected: dict[str, Expected]) -> Iterable[str]:
        for topic in facts.topics:
            events = [each for each in self.landed if each.source.topic == topic.topic]
            bad = sum(each.operation == POISON for each in events)
            if topic.topic == self.unknown:
                bad = len(events)
            waiting = topic.waiting if topic.topic in self.behind else 0
            wanted = (len(events), bad, waiting)
            if (topic.landed, topic.invalid, topic.waiting) != wanted:
                yield f"status: {topic.topic}: landed, invalid, waiting {wanted}, not {topic}"
        for each in facts.tables:
            name = each.table.partition(".")[2]
            if each.table == f"gold.{name}" and name in expected:
                if each.rows != len(expected[name].rows):
                    yield f"status: {each.table} has {len(expected[name].rows)} rows, not {each}"
                if each.absent_keys is not None and name not in self.episode.histories:
                    known = changes_by_key(self.sources[name], self.read[name])
                    absent = len(known) - len(expected[name].rows)
                    if each.absent_keys != absent:
                        yield f"status: {each.table} has {absent} absent keys, not {each}"

    def failing_tests(self) -> list[str]:
        """The data tests that fail."""
        statuses = self.lake.dbt(
            "test",
            *("--exclude", *_WARNING, "test_type:unit"),
            as_of=as_of_text(self.as_of),
            **self.variables,
        )
        return [
            f"dbt test: {name}: {status}"
            for name, status in statuses.items()
            if status not in ("pass", "warn")
        ]


def _again(source: Source) -> Log:
    """Another log of the same source."""
    return replace(log_of(source), name=f"{source.table}_again")


def _linked(key: int, events: Sequence[Event]) -> set[int]:
    """The key and those that updates have made one row with it."""
    gone = {key}
    while True:
        more = {
            each
            for event in events
            if event.previous_key is not None and {event.key, event.previous_key} & gone
            for each in (event.key, event.previous_key)
            if each is not None
        }
        if more <= gone:
            return gone
        gone |= more
