"""Two processes at one lake: one works, the other waits and says for whom."""

import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.commands import SECONDS, dbt, lakehouse, wait_until
from support.kafka_topics import (
    Kafka,
    landed,
    numbered,
    positions,
)
from support.lakes import Lake, topic_entries
from support.processes import python, said

from dbt_lakehouse.errors import LockedError, WriteError
from dbt_lakehouse.lake.locks import lake_lock, landing_lock, run_lock, stream_lock, streamed_topics
from dbt_lakehouse.landing.kafka.batch import KafkaLanding, land_kafka

# Holds a lock until its input ends. A lock asks of a session only where the lake is.
HOLDER = """
import sys
from types import SimpleNamespace
from dbt_lakehouse.lake.locks import lake_lock
lock = lake_lock(SimpleNamespace(conf={"spark.sql.catalog.lake.uri": sys.argv[1]}), sys.argv[2])
assert lock.take("a test")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_at(uri: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lock of that name in the lake with this catalog."""
    with python("-c", HOLDER, uri, name) as process:
        said(process, "held")
        yield process


@contextmanager
def held_elsewhere(lake: Lake, name: str) -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lock."""
    uri = lake.spark.conf.get("spark.sql.catalog.lake.uri") or ""
    with held_at(uri, name) as process:
        yield process


def test_a_lock_is_given_to_one_process_and_given_back_when_it_is_killed(lake: Lake) -> None:
    lock = lake_lock(lake.spark, "any")
    with held_elsewhere(lake, "any") as holder:
        assert not lock.take("me")
        assert lock.holder().startswith(f"`a test` (process {holder.pid}, since 20")
        # Another name is another lock.
        other = lake_lock(lake.spark, "other")
        assert other.take("me")
        other.release()
        holder.kill()
        holder.wait()
        assert lock.take("me")
        lock.release()


def test_who_waits_says_for_whom_and_gives_up_when_patience_ends(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    with held_elsewhere(lake, "landing") as holder:
        given_up = rf"gave up after 0\.5 s: `a test` \(process {holder.pid}, since "
        with (
            pytest.raises(LockedError, match=given_up),
            landing_lock(lake.spark).held("me", patience=0.5),
        ):
            pytest.fail("the lock was given to two")
        assert capsys.readouterr().err.count(f"waiting for `a test` (process {holder.pid}") == 1


def test_a_process_may_take_its_lock_again(lake: Lake) -> None:
    lock = run_lock(lake.spark)
    with lock.held("outer", 0), run_lock(lake.spark).held("inner", 0):
        pass
    # It is free now, for another process too.
    with held_elsewhere(lake, "run"):
        assert not lock.take("me")


def test_a_lock_is_given_back_after_an_error(lake: Lake) -> None:
    with pytest.raises(ZeroDivisionError), landing_lock(lake.spark).held("me", 0):
        _ = 1 / 0
    with held_elsewhere(lake, "landing"):
        pass


def test_locks_of_two_lakes_are_two(lake: Lake) -> None:
    elsewhere = f"jdbc:sqlite:{lake.folder}/other/catalog.db"
    with held_elsewhere(lake, "run"), held_at(elsewhere, "run"):
        pass


def test_who_looks_whether_a_lock_is_held_keeps_nobody_away(lake: Lake) -> None:
    lock = lake_lock(lake.spark, "looked-at")
    assert not lock.held_elsewhere()
    with held_elsewhere(lake, "looked-at") as holder:
        assert lock.held_elsewhere()
        holder.kill()
        holder.wait()
        assert not lock.held_elsewhere()
    # Nobody had it, and what looked has left nothing behind: it is free for others.
    with held_elsewhere(lake, "looked-at"):
        assert lock.held_elsewhere()
    assert lock.take("me")
    assert not lock.held_elsewhere()
    lock.release()


def test_a_lock_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("no folder")
    uri: Any = {"spark.sql.catalog.lake.uri": f"jdbc:sqlite:{tmp_path}/catalog.db"}
    spark: Any = SimpleNamespace(conf=uri)
    with pytest.raises(WriteError, match=rf"{tmp_path}/locks/run.lock can't be written: \w+"):
        run_lock(spark).take("me")


def test_a_full_disk_keeps_nobody_from_a_lock(lake: Lake) -> None:
    # What a landing has left on it is removed by who holds the run's.
    lock = lake_lock(lake.spark, "full-disk")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        taken = lock.take("me")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert taken and lock.holder() == "another process"
    lock.release()


def test_any_name_of_a_topic_makes_a_lock(lake: Lake) -> None:
    # As long as Kafka lets it be; `land_as` is any text.
    topics = ["t" * 249, "a/b", "..", "Topic", "topic"]
    locks = [stream_lock(lake.spark, topic) for topic in topics]
    assert all(lock.take("me") for lock in locks)
    for lock in locks:
        lock.release()
    assert streamed_topics(lake.spark, topics) == {}


def test_who_has_patience_gets_a_lock_that_is_held_for_a_moment(lake: Lake) -> None:
    lock = lake_lock(lake.spark, "momentary")
    with held_elsewhere(lake, "momentary") as holder:
        assert not lock.take("me")
        threading.Timer(0.3, holder.kill).start()
        assert lock.take("me", patience=SECONDS)
    lock.release()


# In CI, the next test has a run wait for a landing, and test_kafka_batch
# (test_two_hosts_that_land_at_once_land_each_position_once) landings that meet.
@pytest.mark.long
def test_two_landings_at_once_land_each_position_once(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create("two-landings", 4)
    kafka.send(topic, numbered(20_000, 4))
    variables = {"topics": topic_entries([topic])}
    source, spark = lake.kafka([topic]), lake.spark
    with lakehouse(lake, "land", "--kafka", **variables) as other:
        other.wait_for("kafka: reading 20,000 offsets")
        kafka.send(topic, numbered(1_000, 4, start=20_000))
        landing = land_kafka(spark, source)
        waiting = f"waiting for `landing from Kafka` (process {other.process.pid}, since "
        assert capsys.readouterr().err.startswith(waiting)
        assert "kafka: landed 20,000 messages" in other.end()
    assert landing == KafkaLanding(1_000, 0, {})
    assert landed(lake, topic) == kafka.records(topic)


def _continue_when_said(lake: Lake, text: str, process: int) -> None:
    """Have a process that was stopped go on once dbt's log has a text."""
    try:
        wait_until(lambda: text in lake.log_text(), text)
    finally:
        os.kill(process, signal.SIGCONT)


def test_two_dbt_runs_at_once_build_each_position_once(
    lake: Lake, kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create("two-runs", 2)
    kafka.send(topic, numbered(1_000, 2))
    variables: dict[str, Any] = {"topics": topic_entries([topic])}
    arguments = ("--no-quiet", "run", "-s", "other_events")
    with dbt(lake, *arguments, **variables) as other:
        with landing_lock(lake.spark).held("a landing", patience=60):
            # It has the run's lock now, and waits for the other.
            other.wait_for(f"waiting for `a landing` (process {os.getpid()}, since ")
        other.wait_for("kafka: landed 1,000 messages")
        # What the second run lands, the first one would build too if they were not kept apart.
        kafka.send(topic, numbered(1_000, 2, start=1_000))
        capfd.readouterr()
        # However long the second run takes to come to the lock, the first one has it then.
        process = other.process.pid
        os.kill(process, signal.SIGSTOP)
        waiting = f"waiting for `dbt run` (process {process}, since "
        go_on = threading.Thread(target=_continue_when_said, args=(lake, waiting, process))
        go_on.start()
        assert lake.dbt(*arguments, as_of="2026-11-21", **variables) == {"other_events": "success"}
        go_on.join()
        shown = capfd.readouterr().out
        assert waiting in shown
        assert "kafka: landed 1,000 messages" in shown
        other.end()
    assert landed(lake, topic) == kafka.records(topic)
    events = lake.sql(
        "select partition, offset from silver.other_events"
        f" where topic = '{topic}' order by partition, offset"
    )
    assert [tuple(event.values()) for event in events] == positions(kafka.records(topic))
