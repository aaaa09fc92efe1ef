"""Streaming landing from a real broker, beside batches and in place of them; and the lag."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.commands import SECONDS, lakehouse, wait_until, without_rights
from support.kafka_topics import (
    AS_OF,
    BRONZE,
    Kafka,
    Outgoing,
    compact,
    expire_snapshots,
    forget_positions,
    landed,
    numbered,
    positions,
)
from support.lakes import Lake, topic_entries

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.standard_streams import NOT_WELL
from dbt_lakehouse.config.kafka import KafkaSettings, KafkaSource
from dbt_lakehouse.config.paths import CACHE, ROOT
from dbt_lakehouse.errors import ConfigurationError, DataLossError, KafkaError, LockedError
from dbt_lakehouse.landing.kafka.batch import KafkaLanding, landing_text
from dbt_lakehouse.landing.kafka.status import read_status
from dbt_lakehouse.landing.kafka.stream import StreamOptions, run_stream
from dbt_lakehouse.landing.lags import seconds_of
from local_kafka.broker import Broker

UNTIL_CAUGHT_UP = StreamOptions(
    topics=(), interval_seconds=0.5, available_now=True, max_offsets=1_000, accept_loss=False
)
GOES_ON = UNTIL_CAUGHT_UP._replace(available_now=False)


def stream_all(
    lake: Lake, topics: Sequence[str | dict[str, Any]], options: StreamOptions = UNTIL_CAUGHT_UP
) -> int:
    """Stream what is there now; how many messages have landed."""
    return run_stream(lake.spark, lake.kafka(topics), options, threading.Event())


class Running:
    """A stream in a thread of its own."""

    def __init__(self, spark: SparkSession, source: KafkaSource, options: StreamOptions) -> None:
        self._stopping = threading.Event()
        self._landed: int | None = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(spark, source, options))
        self._thread.start()

    def _run(self, spark: SparkSession, source: KafkaSource, options: StreamOptions) -> None:
        try:
            self._landed = run_stream(spark, source, options, self._stopping)
        except BaseException as error:
            self.error = error

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> int | None:
        """Stop it and wait; how many messages have landed, None after an error."""
        self._stopping.set()
        self._thread.join(SECONDS)
        assert not self.alive
        return self._landed


@contextmanager
def running(
    lake: Lake, topics: Sequence[str | dict[str, Any]], options: StreamOptions = GOES_ON
) -> Iterator[Running]:
    """A stream that runs until it is stopped, at the latest when the block ends."""
    # Of its own session: temporary views are the session's, and two processes don't share them.
    stream = Running(lake.spark.newSession(), lake.kafka(topics), options)
    try:
        yield stream
    finally:
        stream.stop()


def has_landed(lake: Lake, topic: str, count: int) -> Callable[[], bool]:
    """Whether so many messages of the topic have landed, or more."""
    looked_at = ""

    def has() -> bool:
        nonlocal looked_at
        # Spark, which lands them too, is asked only behind another commit.
        if (snapshot := lake.current_snapshot(BRONZE)) == looked_at:
            return False
        looked_at = snapshot
        return len(landed(lake, topic)) >= count

    return has


def test_what_is_there_lands_byte_for_byte_and_the_stream_ends(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-all", 8)
    repeated: list[tuple[str, bytes | None]] = [("h", b"\x00"), ("h", None), ("", b"")]
    kafka.send(topic, [Outgoing(None, key=b""), Outgoing(b"", headers=repeated, partition=1)])
    kafka.send(topic, numbered(2_500, 8), compression_type="zstd")
    # This opens the lake, if no test has before.
    assert lake.spark
    before = len(lake.snapshots(BRONZE))
    assert stream_all(lake, [topic]) == 2_502
    assert landed(lake, topic) == kafka.records(topic)
    # So many offsets at a time, and not a file for each of Kafka's partitions.
    commits = lake.snapshots(BRONZE)[before:]
    assert len(commits) == 3
    files = [int(commit.summary["added-data-files"]) for commit in commits]
    assert max(files) <= lake.spark.sparkContext.defaultParallelism
    assert stream_all(lake, [topic]) == 0
    assert len(lake.snapshots(BRONZE)) == before + 3


def test_transactions_land_as_in_batches(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-transactions", 2)
    kafka.send_in_transaction(topic, numbered(10, 2))
    kafka.send_in_transaction(topic, numbered(10, 2, start=10), commit=False)
    assert stream_all(lake, [topic]) == 10
    before = lake.snapshots(BRONZE)
    assert stream_all(lake, [topic]) == 0
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
    assert lake.snapshots(BRONZE) == before
    assert landed(lake, topic) == kafka.records(topic)


# In CI, test_kafka_crashes has both modes in turn with upkeep between them, and
# test_kafka_batch (test_bronze_alone_tells_where_to_go_on) all of it.
@pytest.mark.long
def test_each_mode_goes_on_where_the_other_ended_whatever_was_done_to_bronze(
    lake: Lake, kafka: Kafka
) -> None:
    topic = kafka.create("stream-or-batch", 2)
    for number, upkeep in enumerate((forget_positions, compact, expire_snapshots)):
        kafka.send(topic, numbered(10, 2, start=20 * number))
        assert stream_all(lake, [topic]) == 10
        kafka.send(topic, numbered(10, 2, start=20 * number + 10))
        assert lake.land_kafka([topic]).landed == 10
        upkeep(lake)
    assert stream_all(lake, [topic]) == 0
    assert landed(lake, topic) == kafka.records(topic)


# In CI, test_kafka_batch (test_captures_are_completed_from_kafka) completes captures.
@pytest.mark.long
def test_captures_are_completed_by_a_stream(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-captures")
    kafka.send(topic, (Outgoing(b"", timestamp_ms=1_000) for _ in range(30)))
    fields = {"topic": topic, "partition": 0, "timestamp_ms": 1_000, "value_b64": ""}
    lines = [{**fields, "offset": offset, "key_b64": None} for offset in (0, 1, 7, 8, 20)]
    assert lake.land(lines).landed == 5
    assert stream_all(lake, [topic]) == 25
    assert landed(lake, topic) == kafka.records(topic)


def test_a_running_stream_has_its_topics_to_itself(
    lake: Lake, kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    live, other = kafka.create("live", 2), kafka.create("live-other")
    kafka.send(live, numbered(100, 2))
    kafka.send(other, numbered(5))
    topics = [live, other]
    variables: dict[str, Any] = {"topics": topic_entries(topics)}
    command = ("stream", "--interval", "0.5", "--topic", live)
    with lakehouse(lake, *command, **variables) as stream:
        stream.wait_for("landed 100 messages")
        holder = f"`lakehouse stream` (process {stream.process.pid}, since "
        assert len(landed(lake, live)) == 100

        # Batches leave the topic to it, and land the others.
        landing = lake.land_kafka(topics)
        assert (landing.landed, [*landing.left_to_stream]) == (5, [live])
        assert f"; topic {live} is left to {holder}" in landing_text(landing)
        status = {
            row["topic"]: row["streamed_by"] for row in read_status(lake.spark, lake.kafka(topics))
        }
        assert str(status[live]).startswith(holder) and status[other] is None
        capfd.readouterr()
        run = ("--no-quiet", "run", "-s", "other_events")
        assert lake.dbt(*run, as_of=AS_OF, **variables) == {"other_events": "success"}
        assert f"topic {live} is left to {holder}" in capfd.readouterr().out

        # So do streams, and say so.
        for options in (UNTIL_CAUGHT_UP, GOES_ON):
            with pytest.raises(LockedError, match=re.escape(f"topic {live} is landed already, by")):
                stream_all(lake, topics, options)
        assert stream_all(lake, topics, UNTIL_CAUGHT_UP._replace(topics=[other])) == 0

        kafka.send(live, numbered(100, 2, start=100))
        wait_until(has_landed(lake, live, 200), "what came meanwhile has landed")
        kafka.add_partitions(live, 3)
        kafka.send(live, (Outgoing(b"%d" % number, partition=2) for number in range(10)))
        wait_until(has_landed(lake, live, 210), "the new partition has landed")

        kafka.send(live, numbered(20_000, 2, start=200))
        os.kill(stream.process.pid, signal.SIGTERM)
        said = stream.end(code=0)
    reported = re.findall(
        r"landed ([\d,]+) messages?, [\d,]+ a second; [\d,]+ offsets? behind", said
    )
    total = sum(int(count.replace(",", "")) for count in reported)
    assert said.endswith(f"kafka: landed {total:,} messages\n")
    # What it said has landed is there, no less and no more.
    assert len(landed(lake, live)) == total
    landing = lake.land_kafka(topics)
    assert landing == KafkaLanding(20_210 - total, 0, {})
    assert landed(lake, live) == kafka.records(live)


# In CI, the test before it has a stream end among messages.
@pytest.mark.long
def test_what_a_stream_passes_over_at_its_end_lands_next_time(
    lake: Lake, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create("passed-over")
    kafka.send(topic, numbered(10))
    # Never told of what has landed, the stream waits for that as long as it does; Spark goes on.
    monkeypatch.setattr("dbt_lakehouse.landing.kafka.stream._Stream._report", lambda *_: None)
    running = Running(lake.spark, lake.kafka([topic]), GOES_ON)
    wait_until(has_landed(lake, topic, 10), "the first messages have landed")
    sent = threading.Timer(2, kafka.send, (topic, numbered(10, start=10)))
    sent.start()
    assert running.stop() == 10
    sent.join()
    assert len(landed(lake, topic)) == 10
    assert lake.land_kafka([topic]) == KafkaLanding(10, 0, {})
    assert landed(lake, topic) == kafka.records(topic)


@pytest.mark.long
def test_a_signal_that_ends_spark_too_ends_a_stream_as_well(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-group", 2)
    kafka.send(topic, numbered(100, 2))
    variables: dict[str, Any] = {"topics": topic_entries([topic])}
    with lakehouse(lake, "stream", "--interval", "0.5", **variables) as stream:
        stream.wait_for("landed 100 messages")
        # As systemd and timeout do.
        os.killpg(stream.process.pid, signal.SIGTERM)
        said = stream.end(code=0)
    assert "Traceback" not in said
    # Whichever ends first.
    assert said.endswith(("what has landed is complete\n", "kafka: landed 100 messages\n"))
    assert stream_all(lake, [topic]) == 0
    assert landed(lake, topic) == kafka.records(topic)


def test_topics_that_appear_while_a_stream_runs_land(lake: Lake, kafka: Kafka) -> None:
    entries: list[str | dict[str, Any]] = [
        {"pattern": r"appear\.not\..*", "format": "debezium_json", "kafka": False},
        {"pattern": r"appear\..*", "format": "debezium_json"},
    ]
    first = kafka.create("appear.first")
    kafka.send(first, numbered(1))
    with running(lake, entries) as stream:
        wait_until(has_landed(lake, first, 1), "the first topic has landed")
        second, kept_out = kafka.create("appear.second", 2), kafka.create("appear.not.this")
        kafka.send(kept_out, numbered(1))
        kafka.send(second, numbered(10, 2))
        wait_until(has_landed(lake, second, 10), "the new topic has landed")
        assert stream.stop() == 11
    assert landed(lake, second) == kafka.records(second)
    assert landed(lake, kept_out) == []
    assert lake.land_kafka(entries) == KafkaLanding(0, 0, {})


# In CI, test_kafka_trouble has it between two landings.
@pytest.mark.long
def test_a_topic_created_anew_while_a_stream_runs_is_told_from_the_landed_one(
    lake: Lake, kafka: Kafka
) -> None:
    # Between two micro-batches, and with more messages than before: Spark's source goes on.
    live, gone = kafka.create("anew-live"), kafka.create("anew-gone")
    for topic in (live, gone):
        kafka.send(topic, numbered(5))
    lake.land_kafka([live, gone])
    old = landed(lake, gone)
    kafka.delete(gone)
    pattern = {"pattern": "anew-(live|gone)", "format": "debezium_json"}
    with running(lake, [pattern]) as stream:
        kafka.send(live, numbered(5, start=5))
        wait_until(has_landed(lake, live, 10), "the stream lands")
        kafka.create(gone)
        kafka.send(gone, numbered(20, start=1_000))
        wait_until(lambda: not stream.alive, "the stream ends")
    assert isinstance(stream.error, DataLossError)
    assert f"topic {gone} is not the one that was landed" in str(stream.error)
    assert landed(lake, gone) == old


@pytest.mark.long
def test_a_topic_exchanged_between_two_micro_batches_is_told_from_the_landed_one(
    lake: Lake, kafka: Kafka
) -> None:
    live = kafka.create("anew-between")
    with running(lake, [live], GOES_ON._replace(interval_seconds=3)) as stream:
        kafka.send(live, numbered(15))
        wait_until(has_landed(lake, live, 15), "the stream lands")
        old = landed(lake, live)
        kafka.delete(live)
        kafka.create(live)
        kafka.send(live, numbered(40, start=1_000))
        wait_until(lambda: not stream.alive, "the stream ends")
    assert isinstance(stream.error, DataLossError | KafkaError)
    assert landed(lake, live) == old
    with pytest.raises(DataLossError, match=f"topic {live} is not the one that was landed"):
        lake.land_kafka([live])


# In CI, test_kafka_batch (test_two_hosts_that_land_at_once_land_each_position_once) has two
# that append without seeing locks.
@pytest.mark.long
def test_a_stream_and_batches_that_do_not_see_each_others_locks_land_each_position_once(
    lake: Lake, kafka: Kafka
) -> None:
    # As on two hosts: locks are for other processes, so the two threads don't shut each other out.
    topic = kafka.create("two-hosts", 2)
    options = GOES_ON._replace(interval_seconds=0.1)
    with running(lake, [topic], options) as stream:
        batches = 0
        for number in range(3):
            kafka.send(topic, numbered(500, 2, start=500 * number))
            batches += lake.land_kafka([topic]).landed
        wait_until(has_landed(lake, topic, 1_500), "all has landed")
        streamed = stream.stop()
    assert stream.error is None
    assert streamed is not None and batches + streamed == 1_500
    assert landed(lake, topic) == kafka.records(topic)


# In CI, test_kafka_crashes has a stream go on after upkeep, and test_kafka_batch
# (test_compaction_is_no_conflict_for_an_append) upkeep beside an append.
@pytest.mark.long
def test_upkeep_of_bronze_does_not_disturb_a_running_stream(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-upkeep", 2)
    with running(lake, [topic]) as stream:
        for number in range(2):
            kafka.send(topic, numbered(50, 2, start=50 * number))
            wait_until(has_landed(lake, topic, 50 * (number + 1)), "what came has landed")
            compact(lake)
            expire_snapshots(lake)
        assert stream.stop() == 100
    assert landed(lake, topic) == kafka.records(topic)


def test_a_stream_does_not_pass_over_deleted_messages(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-retention")
    kafka.send(topic, numbered(10))
    assert lake.land_kafka([topic], max_messages_per_run=4).landed == 4
    kafka.cut_off(topic, 0, 7)
    deleted = f"at most 3 .*topic {topic} partition 0: offsets 4 to 6"
    with pytest.raises(DataLossError, match=deleted):
        stream_all(lake, [topic])
    assert stream_all(lake, [topic], UNTIL_CAUGHT_UP._replace(accept_loss=True)) == 3
    expected = [(0, offset) for offset in range(10) if not 4 <= offset < 7]
    assert positions(landed(lake, topic)) == expected


# In CI, the test before it has a stream find them at its beginning, and the one of topics that are
# created anew what a stream finds while it runs.
@pytest.mark.long
def test_a_running_stream_does_not_pass_over_deleted_messages(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-retention-running")
    # Deleted between two looks.
    options = GOES_ON._replace(interval_seconds=4.0)
    with running(lake, [topic], options) as stream:
        kafka.send(topic, numbered(11))
        wait_until(has_landed(lake, topic, 11), "the stream has begun")
        kafka.send(topic, numbered(10, start=11))
        kafka.cut_off(topic, 0, 15)
        wait_until(lambda: not stream.alive, "the stream has ended")
    assert isinstance(stream.error, DataLossError)
    assert f"topic {topic} partition 0: offsets 11 to 14" in str(stream.error)
    assert positions(landed(lake, topic)) == [(0, offset) for offset in range(11)]


# In CI, test_kafka_trouble has a broker killed in mid-read, and test_kafka_crashes streams that
# are killed and go on.
@pytest.mark.long
def test_a_stream_whose_broker_is_killed_says_so_and_can_be_started_again(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(tmp_path) as mortal:
        monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", mortal.bootstrap_servers)
        kafka = Kafka({"bootstrap.servers": mortal.bootstrap_servers})
        topic = kafka.create("stream-killed")
        kafka.send(topic, numbered(10))
        source = lake.kafka([topic])
        patience = {"request.timeout.ms": "3000", "default.api.timeout.ms": "4000"}
        impatient = source._replace(settings=KafkaSettings({**source.settings.given, **patience}))
        stream = Running(lake.spark.newSession(), impatient, GOES_ON)
        try:
            wait_until(has_landed(lake, topic, 10), "the stream has begun")
            mortal.kill()
            wait_until(lambda: not stream.alive, "the stream has ended")
        finally:
            stream.stop()
        assert isinstance(stream.error, KafkaError)
        assert mortal.bootstrap_servers in str(stream.error)
        mortal.start()
        kafka.send(topic, numbered(5, start=10))
        assert stream_all(lake, [topic]) == 5
        assert landed(lake, topic) == kafka.records(topic)


def test_a_stream_is_refused_what_can_not_be_meant(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-refused")
    for chosen in ("unknown", f"{topic}-2"):
        with pytest.raises(ConfigurationError, match=f"no entry for {chosen} from Kafka"):
            stream_all(lake, [topic], UNTIL_CAUGHT_UP._replace(topics=[chosen]))
    with pytest.raises(ConfigurationError, match=r"vars\.topics names not-there,"):
        stream_all(lake, [topic, "not-there"])


@pytest.mark.long
def test_the_lag_is_told_before_and_after_a_landing(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create("lag", 3)
    # To tell of a lake makes none.
    assert lake.spark.catalog.tableExists("lake.bronze.raw_payloads")
    variables = json.dumps({"topics": topic_entries([topic])})

    def status() -> list[dict[str, Any]]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["status", "--json", "--vars", variables])
        # Other topics of the lake may not be well.
        assert ended.value.code in (None, 0, NOT_WELL)
        rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["partitions"]
        return sorted(
            (row for row in rows if row["topic"] == topic), key=lambda row: int(row["partition"])
        )

    def column(name: str) -> list[Any]:
        return [row[name] for row in status()]

    now_ms = time.time_ns() // 1_000_000
    hour_ago = now_ms - 3_600_000
    kafka.send(
        topic,
        [Outgoing(b"old", timestamp_ms=hour_ago)] * 4
        + [Outgoing(b"new", timestamp_ms=now_ms, partition=1)] * 2,
    )
    # How old what is missing is nobody knows before something of it has landed.
    assert column("lag_messages") == [4, 2, 0]
    assert column("lag_seconds") == [None, None, 0.0]
    assert column("log_end_offset") == [4, 2, 0]
    assert column("next_offset") == [0, 0, 0]

    lake.land_kafka([topic], max_messages_per_run=3)
    assert column("lag_messages") == [2, 1, 0]
    seconds = column("lag_seconds")
    assert 3_600 <= seconds[0] < 3_600 + SECONDS
    assert 0 <= seconds[1] < SECONDS
    landed_at = datetime.fromisoformat(status()[0]["landed_timestamp"])
    assert abs(landed_at.timestamp() - hour_ago / 1_000) < timedelta(milliseconds=1).total_seconds()

    # As a lake is that was made before ages were counted.
    lake.sql("alter table bronze.topic_partitions drop column landed_ages")
    lake.land_kafka([topic])
    after = status()
    assert [row["lag_messages"] for row in after] == [0, 0, 0]
    assert [row["lag_seconds"] for row in after] == [0.0, 0.0, 0.0]
    assert [row["next_offset"] for row in after] == [4, 2, 0]
    # The table says the same, apart from when it asked, and how old what has landed was.
    table = lake.sql(f"select * from bronze.topic_partitions where topic = '{topic}'")
    table = sorted(table, key=lambda row: int(row["partition"]))
    ages = [dict(row.pop("landed_ages") or {}) for row in table]
    assert [sum(each.values()) for each in ages] == [2, 1, 0]
    assert all(3_600 / 1.1 < seconds_of(age) < 1.1 * (3_600 + SECONDS) for age in ages[0])
    table = json.loads(json.dumps(table, default=str))
    for row, asked in zip(table, after, strict=True):
        assert asked.pop("streamed_by") is None and asked.pop("problem") is None
        for each in (asked, row):
            for name in ("checked_at", "landed_timestamp"):
                each[name] = each[name] and datetime.fromisoformat(each[name])
        assert asked.pop("checked_at") >= row.pop("checked_at")
        assert asked == row
    # And so is another user told, who may write a cache of his own and nothing of the lake.
    command = [sys.executable, "-m", "dbt_lakehouse.cli", "status", "--json", "--vars", variables]
    with TemporaryDirectory() as cache:
        os.chmod(cache, 0o777)
        (Path(cache) / "jars").symlink_to(CACHE / "jars")
        done = subprocess.run(
            [*without_rights(lake.folder), *command],
            cwd=ROOT,
            env={**os.environ, **lake.environment, "LAKEHOUSE_CACHE": cache},
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    assert done.returncode in (0, NOT_WELL), done.stderr
    told = [row for row in json.loads(done.stdout)["partitions"] if row["topic"] == topic]
    assert {row["partition"]: row["next_offset"] for row in told} == {0: 4, 1: 2, 2: 0}


def test_a_stream_that_ends_leaves_its_positions(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stream-positions")
    kafka.send_in_transaction(topic, numbered(3))
    assert stream_all(lake, [topic]) == 3
    table = lake.sql(
        "select next_offset, landed_offset, log_end_offset, lag_messages, lag_seconds"
        f" from bronze.topic_partitions where topic = '{topic}'"
    )
    # Behind the third message is the transaction's end.
    assert [tuple(row.values()) for row in table] == [(4, 2, 4, 0, 0.0)]
