"""Landings from Kafka that are killed at commits that have names, or lose their catalog, their disk
or their broker there: each position lands once all the same.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from local_kafka.broker import Broker
from support.commands import SECONDS, Command, lakehouse
from support.commit_points import Commits, Point, kill, points_of
from support.disks import READ_ONLY, is_told, small_disk
from support.kafka_topics import Kafka, landed, numbered
from support.lakes import Lake, topic_entries

_TOPIC: Final = "crashes"
_PARTITIONS: Final = 3
_MESSAGES: Final = 600
# Messages of a commit.
_BITE: Final = 200
# A file may be open for so long.
_TURNS_SECONDS: Final = 20.0

# How often each table is committed to by a call of each command, in the lake below. How far a
# stream has come is noted by its clock.
COMMITS: Final[dict[str, dict[str, int]]] = {
    "land --kafka": {"bronze.raw_payloads": 3, "bronze.topic_partitions": 3},
    "stream": {"bronze.raw_payloads": 3},
}


def points(command: str) -> list[Point]:
    """Before each commit of a command, and behind it."""
    return points_of(COMMITS[command])


@dataclass
class KafkaCrashes:
    """A lake and a broker with messages, the first of which have landed; put back for each try."""

    lake: Lake
    commits: Commits
    broker: Broker
    kafka: Kafka

    @classmethod
    @contextmanager
    def made(cls, folder: Path) -> Iterator["KafkaCrashes"]:
        """The lake, as long as its broker runs."""
        with Broker(folder / "kafka") as broker:
            os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
            kafka = Kafka({"bootstrap.servers": broker.bootstrap_servers})
            kafka.create(_TOPIC, _PARTITIONS)
            kafka.send(_TOPIC, numbered(_BITE, _PARTITIONS))
            lake = Lake(folder)
            lake.land_kafka([_TOPIC])
            kafka.send(_TOPIC, numbered(_MESSAGES, _PARTITIONS, start=_BITE))
            made = cls(lake, Commits(folder / "lake" / "catalog.db"), broker, kafka)
            made.commits.save(made._saved / "catalog.db")
            shutil.copytree(made._warehouse, made._saved / "warehouse")
            try:
                yield made
            finally:
                del os.environ["KAFKA_BOOTSTRAP_SERVERS"]

    @property
    def _saved(self) -> Path:
        folder = self.lake.folder / "saved"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def _warehouse(self) -> Path:
        return self.lake.folder / "lake" / "warehouse"

    def put_back(self) -> None:
        """The lake as it was when it was made."""
        self.commits.restore(self._saved / "catalog.db")
        self.commits.forget()
        shutil.copytree(self._saved / "warehouse", self._warehouse, dirs_exist_ok=True)

    def seen(self, command: str) -> dict[str, int]:
        """The commits that the catalog sees of a whole call, by table."""
        self.put_back()
        with self._process(command) as process:
            process.end()
        return dict(Counter(self.commits.seen()))

    def killed(self, command: str, point: Point, of: str = "both") -> list[str]:
        """In what bronze is not as it should be when a call is killed there, and repeated."""
        self.put_back()
        if not point.is_behind:
            self.commits.stop_at(point)
        with self._process(command) as process:
            self.commits.wait_for(point, process)
            kill(process, of)
        return self._made_good(command)

    def failed(self, command: str, point: Point) -> list[str]:
        """In what it is not when the catalog has refused that commit."""
        self.put_back()
        self.commits.stop_at(point, fails=True)
        with self._process(command) as process:
            code, said = process.process.wait(SECONDS), process.said_by_all()
        # What is only noted beside may fail; it is told all the same.
        assert "this commit is to fail" in said, (code, said)
        return self._made_good(command)

    def with_catalog_away(self, command: str, point: Point, seconds: float) -> list[str]:
        """In what it is not when nobody could write to the catalog for so long, from there on."""
        self.put_back()
        with self._process(command) as process:
            self.commits.wait_for(point, process)
            self.commits.lock(seconds)
            code, said = process.process.wait(SECONDS), process.said_by_all()
        assert code == 0 or "locked" in said, said
        return self._made_good(command)

    def with_disk_that_turns(self, command: str, point: Point) -> list[str]:
        """In what it is not when bronze's disk turned read-only there, and is well again."""
        self.put_back()
        with small_disk(self._warehouse / "bronze") as disk:
            with self._process(command) as process:
                self.commits.wait_for(point, process)
                disk.turn_read_only(_TURNS_SECONDS)
                code, said = process.process.wait(SECONDS), process.said_by_all()
            assert code == 0 or is_told(READ_ONLY, said), said
            disk.make_well()
            return self._made_good(command)

    def with_broker_dead(self, command: str, point: Point) -> list[str]:
        """In what it is not when the broker died there, and another call finds it alive."""
        self.put_back()
        with self._process(command) as process:
            self.commits.wait_for(point, process)
            self.broker.kill()
            try:
                code, said = process.process.wait(SECONDS), process.said_by_all()
            finally:
                self.broker.start()
        # All may have been read by then.
        assert code == 0 or self.broker.bootstrap_servers in said, said
        return self._made_good(command)

    def _made_good(self, command: str) -> list[str]:
        self.commits.forget()
        with self._process(command) as process:
            process.end()
        expected, found = self.kafka.records(_TOPIC), landed(self.lake, _TOPIC)
        if found == expected:
            return []
        return [f"bronze has other messages, {len(found)}, than Kafka, {len(expected)}"]

    def _process(self, command: str) -> AbstractContextManager[Command]:
        variables: dict[str, Any] = {"topics": topic_entries([_TOPIC])}
        if command == "stream":
            options = ["--available-now", "--max-offsets-per-trigger", str(_BITE)]
            return lakehouse(self.lake, "stream", *options, **variables)
        arguments = ["land", "--kafka", "--until-caught-up"]
        return lakehouse(self.lake, *arguments, **variables, max_messages_per_run=_BITE)
