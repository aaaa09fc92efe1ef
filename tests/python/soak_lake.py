"""The lake of an episode of `make soak`: each step done, and all that it holds compared with the
references behind it.
"""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from expected_gold import EPOCH
from lakes import Lake, as_of_text
from row_events import POISON, Event, Source, changes_by_key, key_value
from row_lake import (
    Expected,
    add_change_log,
    add_current_state,
    add_history,
    differences,
    expected_history,
    expected_rows,
    expected_state,
)
from row_messages import message
from small_project import small_project
from soak_streams import Do, Episode, Step
from streams import HOUR, START

from dbt_lakehouse.commands.forget.command import Options, forget
from dbt_lakehouse.commands.maintain import maintain
from dbt_lakehouse.commands.redrive import redrive
from dbt_lakehouse.commands.status.facts import Facts, Outcome
from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.config.project import Project

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
        batches = [list(batch) for batch in episode.batches]
        lake = cls(Lake(folder, project), episode, to_land=batches)
        lake.unknown = episode.unknown
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
                {"topic": source.topic, "format": source.format}
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
                self.land()
                self.run()
            case Do.LEAVE_OUT:
                self.land()
                self.run(without=step.of)
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
                self.unknown = None
                with self.lake.dbt_folders():
                    redrive(self.project(), [], [])
                self.run()
            case Do.FORGET | Do.PURGE:
                self.run()
                self.forget(step)
                found = self.differences()
                self.run()
                return found + self.differences()
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
        result = self.lake.land(message(event).line() for event in [*again, *events])
        assert result == (len(events), len(again))
        self.landed += events

    def run(self, *arguments: str, without: str | None = None) -> None:
        """`dbt run`, which must succeed."""
        left_out = ("--exclude", without) if without else ()
        self._dbt("run", *arguments, *left_out)
        for table in self.sources:
            if table != without:
                self._has_read(table)

    def _refresh(self, model: str) -> None:
        self._dbt("run", "--full-refresh", "-s", model)
        if model in self.sources:
            # Its log has read all, whatever it has left out itself.
            self._has_read(model)
        else:
            self.run()

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
        if self.forgotten or len(chain) < 2 or (step.of == "change_events" and is_redriven):
            return
        self.lake.roll_back(table, str(chain[1 + int(step.number * (len(chain) - 1))].snapshot_id))

    def forget(self, step: Step) -> None:
        """Forget a key of the step's table, if its events are there."""
        source = self.sources[step.of]
        events = [event for event in self.landed if event.source == source and event.is_change]
        key = self.key_to_forget(step)
        if key is None:
            return
        given = self.given_key(source, key)
        with self.lake.dbt_folders():
            options = Options(step.of, [given], step.do is Do.PURGE)
            forget(self.project(), options)
        self.forgotten = True
        gone = _linked(key, events)
        self.landed = [
            event._replace(operation="tombstone", key=None, previous_key=None)
            if event.source == source and {event.key, event.previous_key} & gone
            else event
            for event in self.landed
        ]
        forgotten = {(each.source, each.partition, each.offset): each for each in self.landed}
        for table, read in self.read.items():
            self.read[table] = [
                forgotten[event.source, event.partition, event.offset] for event in read
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
        found = {}
        for table, source in self.sources.items():
            events, as_of = self.read[table], self.read_as_of[table]
            if table in self.episode.histories:
                found[table] = expected_history(source, events, as_of)
            elif source.has_key:
                found[table] = expected_state(source, events, as_of)
            else:
                found[table] = expected_rows(source, events)
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
            found += self._wrong_tombstones()
        return found

    def _wrong_counts(self, facts: Facts, expected: dict[str, Expected]) -> Iterable[str]:
        for topic in facts.topics:
            events = [each for each in self.landed if each.source.topic == topic.topic]
            bad = sum(each.operation == POISON for each in events)
            if topic.topic == self.unknown:
                bad = len(events)
            wanted = (len(events), bad, 0)
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

    def _wrong_tombstones(self) -> Iterable[str]:
        """Keys that their own events have deleted, and that are not remembered so."""
        remembered = {
            (row["scope"], row["record_key"]): row for row in self.lake.read("silver.deleted_keys")
        }
        for source in self.episode.sources:
            if not source.has_key or source.partial:
                continue
            name = source.table
            live = expected_state(source, self.read[name], self.read_as_of[name]).rows
            for key, changes in changes_by_key(source, self.read[name]).items():
                if (key_value(source, key),) in live:
                    continue
                if any(each.operation == "truncate" for each in changes):
                    continue
                column = "digest" if source.is_aerospike else "id"
                text = json.dumps({column: key_value(source, key)}, separators=(",", ":"))
                scopes = {f"gold.{name}", f"aerospike:{source.schema}"}
                if not any((scope, text) in remembered for scope in scopes):
                    yield f"silver.deleted_keys has nothing of {name} {text}"

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


def _linked(key: int, events: Sequence[Event]) -> set[int | None]:
    """The key and those that updates have made one row with it."""
    gone: set[int | None] = {key}
    while True:
        more = {
            each
            for event in events
            if event.previous_key is not None and {event.key, event.previous_key} & gone
            for each in (event.key, event.previous_key)
        }
        if more <= gone:
            return gone
        gone |= more
