"""What `make soak SOAK="--live"` plays: a producer sends random streams to a broker while
`lakehouse stream --build` follows it, and everything that can be killed is killed. At the end gold,
histories, remembered deletes and sums must be those of the references.

Beside the stream run `dbt run`, `lakehouse maintain` and `lakehouse forget`. How long a message
takes to gold, what a cycle costs and what grows is told in any case.
"""

import json
import os
import random
import re
import signal
import statistics
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from local_kafka.broker import Broker
from support.commands import SECONDS, Command, dbt, lakehouse
from support.commit_points import KILLED, javas_of, kill
from support.kafka_topics import Kafka, Outgoing, produce_to
from support.lakes import Lake
from support.row_events import Event, Source
from support.row_messages import headers, message
from support.soak_lake import SoakLake
from support.soak_streams import SOURCES, Episode, stream
from tools.benchmarks.measuring import resident_bytes

# No registry is there to be asked for schemas, and nothing is compacted.
FOLLOWED: Final = ("meters", "gauges", "tickets", "branches", "parcels", "visits", "regions")
_PARTITIONS: Final = 2
# Of the streams' truncates: each empties its table.
_TRUNCATES: Final = 0.02
_YEAR_SECONDS: Final = 365 * 86_400
_BUILT: Final = re.compile(r"; built \d+ models? in ([\d.]+) s")
# Of one stream, so that the next is begun: it has told why.
_ENDS_WELL: Final = (0, 1)
# A command beside others waits for them, on a machine that all of them share.
_PATIENCE: Final = 4 * SECONDS


@dataclass
class Sent:
    """What the producer has sent, in the order of each partition."""

    seed: int
    rate: float
    events: list[Event] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    """The clones of which everything is sent."""
    _offsets: Counter[tuple[str, int]] = field(default_factory=Counter)
    _clock: int = 0

    def messages(self, sources: Sequence[Source]) -> Iterator[tuple[str, Outgoing]]:
        """The messages of one clone after the other, each when its turn comes."""
        due = time.monotonic()
        for clone in count():
            dice = random.Random(f"live {self.seed} {clone}")
            streams = [[*stream(source, self.seed, clone)] for source in sources]
            while left := [each for each in streams if each]:
                event = dice.choice(left).pop(0)
                if event.operation == "truncate" and dice.random() > _TRUNCATES:
                    continue
                due = max(due + 1 / self.rate, time.monotonic() - 1)
                time.sleep(max(0.0, due - time.monotonic()))
                yield self._placed(event)
            self.ended.append(clone)

    def _placed(self, event: Event) -> tuple[str, Outgoing]:
        """The event where and when it is sent. No other message has a truncate's millisecond: of
        rows in the same one nothing says whether they come before it.
        """
        topic, partition = event.source.topic, event.partition % _PARTITIONS
        apart = event.operation == "truncate"
        now = max(self._clock + apart, time.time_ns() // 1_000_000)
        self._clock = now + apart
        event = event._replace(
            partition=partition,
            offset=self._offsets[topic, partition],
            sent_ms=now,
            expires_s=_far_away(event.expires_s),
        )
        self._offsets[topic, partition] += 1
        self.events.append(event)
        sent = message(event)
        told = headers(event) or None
        return topic, Outgoing(sent.value, sent.key, told, partition, now)


def _clone(event: Event) -> int:
    return (event.key or 0) // 1000


def _far_away(expires_s: int | None) -> int | None:
    """An expiry that comes neither between two builds nor while this is played."""
    if expires_s is None or expires_s < time.time() - _YEAR_SECONDS / 12:
        return expires_s
    return expires_s + _YEAR_SECONDS


class Live:
    """A broker, a lake, a producer and a stream."""

    def __init__(self, folder: Path, seed: int, rate: float) -> None:
        self._dice: Final = random.Random(f"live {seed}")
        chosen = tuple(each for each in SOURCES if each.table in FOLLOWED)
        episode = Episode(seed, chosen, [], [], retention_days=10_000, unknown=None)
        self._soak: Final = SoakLake.make(folder, episode)
        self._lake: Final[Lake] = self._soak.lake
        self._sources: Final = chosen
        self._sent: Final = Sent(seed, rate)
        self._broker: Final = Broker(folder / "kafka")
        self._stopping: Final = threading.Event()
        self._found: Final[list[str]] = []
        self._said: Final[list[str]] = []
        self.done: Final[Counter[str]] = Counter()
        """What was done to it, by its name."""
        self.megabytes: Final[list[tuple[float, float]]] = []
        """Of the stream's Python and its JVM, once a second."""
        self._status: list[str] = []

    @property
    def _options(self) -> dict[str, Any]:
        return {**self._soak.variables, "captures": []}

    @property
    def _places(self) -> tuple[str, ...]:
        project = self._lake.project
        return ("--project-dir", str(project), "--profiles-dir", str(project / "profiles"))

    def play(self, minutes: float, *, kills: bool) -> list[str]:
        """In what the lake is wrong when everything that was sent is built."""
        # What it holds of memory is the stream's.
        self._lake.spark.stop()
        with self._broker, self._environment():
            kafka = Kafka({"bootstrap.servers": self._broker.bootstrap_servers})
            for source in self._sources:
                kafka.create(source.topic, _PARTITIONS)
            producing = threading.Thread(target=self._guarded, args=(self._produce, kafka))
            producing.start()
            try:
                self._follow(60 * minutes, kills=kills)
            finally:
                self._stopping.set()
                producing.join(SECONDS)
            with self._stream("--available-now") as command:
                code = _ended(command)
                self._said.append(command.said)
                if code != 0:
                    self._found.append(f"the last stream ended with {code}: {command.said[-1500:]}")
            self._status = self._lags()
        return [*self._found, *self._differences()]

    def _lags(self) -> list[str]:
        """How long messages of the last hour took to gold, as `lakehouse status` tells it."""
        with lakehouse(self._lake, "status", "--json", *self._places, **self._options) as command:
            _ended(command)
        topics = json.loads(command.said[command.said.index("{") :])["topics"]
        return [
            f"{each['topic']}: from Kafka to gold p50 {each['built_seconds_p50']:.1f},"
            f" p99 {each['built_seconds_p99']:.1f} s"
            for each in topics
            if each["built_seconds_p50"] is not None
        ]

    def told(self) -> list[str]:
        """What was sent, done, measured."""
        said = "".join(self._said)
        seconds = [float(each) for each in _BUILT.findall(said)]
        told = [f"{len(self._sent.events):,} messages sent, {len(seconds):,} cycles"]
        told += [f"{name}: {number}" for name, number in sorted(self.done.items())]
        told += self._status
        if seconds:
            told.append(f"a cycle takes {_spread(seconds)} s")
        if len(seconds) >= 300:
            second, last = seconds[100:200], seconds[-100:]
            ratio = statistics.median(last) / statistics.median(second)
            told.append(f"the last hundred takes {ratio:.2f} of the second")
        for place, name in enumerate(("Python", "the JVM")):
            values = [each[place] for each in self.megabytes if each[place]]
            if values:
                told.append(f"MB of {name}: {_spread(values)}, at the end {values[-1]:.0f}")
        warehouse = self._lake.folder / "lake" / "warehouse"
        files = [each for each in warehouse.rglob("*") if each.is_file()]
        for kind in ("data", "metadata"):
            sizes = [each.stat().st_size for each in files if each.parent.name == kind]
            told.append(f"{kind}: {len(sizes):,} files, {sum(sizes) / 1e6:.1f} MB")
        return told

    # -- what runs

    @contextmanager
    def _environment(self) -> Iterator[None]:
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = self._broker.bootstrap_servers
        try:
            yield
        finally:
            del os.environ["KAFKA_BOOTSTRAP_SERVERS"]

    def _guarded(self, run: Callable[..., None], *arguments: Any) -> None:
        try:
            run(*arguments)
        except Exception as error:
            self._found.append(f"{run.__name__}: {type(error).__name__}: {error}")

    def _produce(self, kafka: Kafka) -> None:
        """One producer for all: what it sends keeps its order over the broker's deaths."""
        patient = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 240_000}
        producer = Producer({**kafka.settings, **patient})
        produce_to(producer, self._until_it_stops())

    def _until_it_stops(self) -> Iterator[tuple[str, Outgoing]]:
        for each in self._sent.messages(self._sources):
            # It has its place already.
            yield each
            if self._stopping.is_set():
                return

    def _stream(self, *options: str) -> Any:
        arguments = ("stream", "--build", "--interval", "1", "--maintain-every", "30", *options)
        return lakehouse(self._lake, *arguments, *self._places, **self._options)

    def _follow(self, seconds: float, *, kills: bool) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with self._stream() as command:
                pause = self._dice.uniform(25, 60) if kills else seconds
                self._watch(command, min(end, time.monotonic() + pause))
                ended = command.process.poll()
                if ended is None and kills and time.monotonic() < end:
                    self._trouble(command)
                elif ended is not None:
                    self.done["streams that ended by themselves"] += 1
                    if ended not in _ENDS_WELL:
                        self._found.append(f"a stream ended with {ended}: {command.said[-800:]}")
                if command.process.poll() is None:
                    self._end(command)
                self._said.append(command.said)
                if "Traceback" in command.said:
                    self._found.append(f"a stream told a traceback: {command.said[-3000:]}")

    def _watch(self, command: Command, until: float) -> None:
        """Let the stream run, and measure it."""
        while time.monotonic() < until and command.process.poll() is None:
            sizes = [
                _megabytes(each) for each in (command.process.pid, *javas_of(command.process.pid))
            ]
            self.megabytes.append((sizes[0], sum(sizes[1:])))
            time.sleep(1)

    def _end(self, command: Command) -> None:
        """End the stream as systemd does; a cycle is ended first."""
        has_begun = bool(command.said)
        command.process.terminate()
        code = _ended(command)
        # Before it has said anything, Python ends as any program does.
        if code != 0 and (has_begun or code != -signal.SIGTERM):
            self._found.append(f"a stream ended by SIGTERM with {code}: {command.said[-800:]}")

    # -- what goes wrong

    def _trouble(self, command: Command) -> None:
        troubles: dict[str, Callable[[Command], None]] = {
            **{f"kill of {each}": partial(kill, of=each) for each in KILLED},
            "kill of the broker": self._kill_broker,
            "SIGTERM": self._end,
            "dbt run beside": self._run_beside,
            "maintain beside": self._maintain_beside,
            "forget beside": self._forget_beside,
        }
        name = self._dice.choice([*troubles])
        self.done[name] += 1
        with suppress(ProcessLookupError):
            troubles[name](command)

    def _kill_broker(self, command: Command) -> None:
        self._broker.kill()
        self._watch(command, time.monotonic() + self._dice.uniform(1, 15))
        self._broker.start()
        self._watch(command, time.monotonic() + 30)

    def _run_beside(self, command: Command) -> None:
        with dbt(self._lake, "run", *self._places, **self._soak.variables) as beside:
            self._done_beside(beside, "dbt run")

    def _maintain_beside(self, command: Command) -> None:
        with lakehouse(self._lake, "maintain", *self._places, **self._options) as beside:
            self._done_beside(beside, "maintain")

    def _forget_beside(self, command: Command) -> None:
        """Forget a key of a clone of which all has landed."""
        source = self._dice.choice([each for each in self._sources if each.has_key])
        ended, number = {*self._sent.ended}, len(self._sent.events)
        sent = [
            each
            for each in self._sent.events[:number]
            if each.source == source and each.key is not None
        ]
        landed = self._landed(source.topic)
        # Key updates are within a clone.
        ended -= {_clone(each) for each in sent if (each.partition, each.offset) not in landed}
        keys = {each.key or 0 for each in sent if each.is_change and _clone(each) in ended}
        if not keys:
            return
        key = self._dice.choice(sorted(keys))
        given = self._soak.given_key(source, key)
        arguments = ("forget", "--table", source.table, "--key", given, "--yes")
        with lakehouse(self._lake, *arguments, *self._places, **self._options) as beside:
            if self._done_beside(beside, "forget"):
                sent = self._sent.events
                # Behind these the producer goes on.
                sent[:number] = self._soak.without_forgotten(source, key, sent[:number])

    def _landed(self, topic: str) -> set[tuple[int, int]]:
        return {
            (row["partition"], row["offset"])
            for row in self._lake.read("bronze.raw_payloads")
            if row["topic"] == topic
        }

    def _done_beside(self, beside: Command, name: str) -> bool:
        """Whether a command beside the stream has done what it was called for. It may be told that
        another one has the lake's lock.
        """
        code = _ended(beside)
        if code == 0:
            return True
        self.done[f"{name} that was refused"] += 1
        if "Traceback" in beside.said:
            self._found.append(f"{name} beside the stream: {beside.said[-1500:]}")
        self._said.append(beside.said)
        return False

    # -- what must be

    def _differences(self) -> list[str]:
        soak = self._soak
        soak.landed = [*self._sent.events]
        soak.as_of = datetime.now(UTC)
        soak.all_are_read()
        return [*soak.differences(), *soak.failing_tests()]


def _ended(command: Command) -> int:
    """The exit code of a command. Raises ``AssertionError``, with what it has said, if it doesn't
    end.
    """
    with suppress(subprocess.TimeoutExpired):
        return command.process.wait(_PATIENCE)
    raise AssertionError(f"not ended after {_PATIENCE:g} s: {command.said[-3000:]}")


def _megabytes(process: int) -> float:
    # It may have ended.
    with suppress(OSError, IndexError):
        return resident_bytes(process) / 1e6
    return 0.0


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    return f"{statistics.median(ordered):.1f} (p99 {ordered[int(0.99 * (len(ordered) - 1))]:.1f})"
