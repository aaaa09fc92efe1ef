"""Batch landing from a real broker: everything new, once, byte for byte, in one commit."""

import base64
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from support.commands import SECONDS, wait_until
from support.kafka_topics import (
    BRONZE,
    START_MS,
    Kafka,
    Outgoing,
    Record,
    compact,
    expire_snapshots,
    forget_positions,
    landed,
    landed_by_topic,
    numbered,
    positions,
    produce,
)
from support.lakes import Lake, topic_entries

from dbt_lakehouse.cli import main
from dbt_lakehouse.lake import bronze, small_tables
from dbt_lakehouse.lake.iceberg import ConcurrentAppendError
from dbt_lakehouse.lake.policies import compacted_topics
from dbt_lakehouse.landing.files import LandingResult
from dbt_lakehouse.landing.kafka import batch, progress
from dbt_lakehouse.landing.kafka.admin import read_logs
from dbt_lakehouse.landing.kafka.batch import KafkaLanding, land_kafka
from dbt_lakehouse.landing.kafka.positions import Position
from dbt_lakehouse.landing.kafka.reading import Range, has_rows
from dbt_lakehouse.maintenance import run as maintenance
from dbt_lakehouse.maintenance.policy import Candidate, Policy
from dbt_lakehouse.spark.java import own_object
from tools.benchmarks.statements import Asked, asked_by


def capture(topic: str, record: Record) -> dict[str, Any]:
    """A capture line of a message that Kafka holds."""

    def text(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode()

    return {
        "topic": topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key_b64": text(record.key),
        "value_b64": text(record.value),
        "headers": record.headers and [[name, text(value)] for name, value in record.headers],
    }


def test_a_terminal_shows_how_far_it_has_come(
    lake: Lake, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, str] = {}

    @contextmanager
    def working(what: str, how_far: Callable[[], str]) -> Iterator[None]:
        yield
        said[what] = how_far()

    monkeypatch.setattr(progress, "is_shown", lambda: True)
    monkeypatch.setattr(batch, "working", working)
    topic = kafka.create("far", 2)
    for place in range(2):
        kafka.send(topic, numbered(300, 2, start=300 * place, padding=b"x" * 10_000))
        lake.land_kafka([topic])
        # What the first has read is not counted again. A batch that begins earlier is read whole.
        assert re.fullmatch("300 of 300 messages, [345] MB", said["landing from Kafka"])


def test_messages_land_once_in_one_commit_byte_for_byte(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("bytes", 2)
    repeated: list[tuple[str, bytes | None]] = [("h", b"\x00\xff"), ("h", None), ("", b"")]
    kafka.send(
        topic,
        [
            Outgoing(b"value", key=b"key", headers=repeated, timestamp_ms=START_MS + 999),
            Outgoing(None, key=b"tombstone"),
            Outgoing(b"", key=b""),
            Outgoing(b"no key, an early time", timestamp_ms=1),
            Outgoing(bytes(range(256)), key=bytes(range(255, -1, -1)), partition=1),
            Outgoing("\u00e4\U0001f600".encode(), headers=[("gr\u00fcn", b"x")], partition=1),
        ],
    )
    before = len(lake.snapshots(BRONZE))
    assert lake.land_kafka([topic]) == KafkaLanding(6, 0, {})
    assert len(lake.snapshots(BRONZE)) == before + 1
    assert landed(lake, topic) == kafka.records(topic)
    first = landed(lake, topic)[0]
    assert first == Record(0, 0, START_MS + 999, 0, b"key", b"value", tuple(repeated))
    assert [record.headers for record in landed(lake, topic)[1:5]] == [None] * 4


def test_messages_can_be_looked_at_without_landing_them(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create("looked-at", 2)
    change = {"op": "c", "after": {"id": 1}, "source": {"table": "t"}}
    kafka.send(
        topic,
        [
            *(Outgoing(b"old", partition=0, timestamp_ms=START_MS) for _ in range(3)),
            Outgoing(json.dumps(change).encode(), timestamp_ms=START_MS + 1_500, partition=1),
            Outgoing(b"{", timestamp_ms=START_MS + 2_000, partition=0),
        ],
    )
    before = lake.snapshots(BRONZE)

    def said(*arguments: str, code: int = 0, listed: Sequence[str] = (topic,)) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([*arguments, "--vars", json.dumps({"topics": topic_entries(listed)})])
        assert ended.value.code == code
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    newest = [
        json.loads(line)
        for line in said("peek", "--topic", topic, "--limit", "2", "--json").splitlines()
    ]
    assert [(each["partition"], each["offset"], each["format"]) for each in newest] == [
        (1, 0, "debezium_json"),
        (0, 3, "debezium_json"),
    ]
    assert newest[0]["timestamp"] == "2026-09-21T14:13:21.5Z"
    assert newest[0]["events"][0]["after"] == {"id": 1}
    text = said("peek", "--topic", topic)
    assert text.count(f"{topic}, partition 0, offset ") == 4
    assert "debezium_json (as vars.topics says)\n  event: insert\n" in text
    assert "event: invalid, truncated" in text
    at = ("explain", "--topic", topic, "--kafka", "--offset")
    assert "-> operation = insert" in said(*at, "0", "--partition", "1")
    assert "in partitions 0, 1: --partition says which" in said(*at, "0", code=2)
    assert "it has offsets 0 to 3 in 0, 0 to 0 in 1" in said(*at, "4", code=2)
    assert "has no topic not-there" in said("peek", "--topic", "not-there", code=2)
    # Of a project that lists no topic at all, formats are guessed.
    newest_two = said("peek", "--topic", topic, "--limit", "2", listed=())
    assert newest_two.count(": debezium_json (") == 2
    assert "as vars.topics says" not in newest_two
    assert "-> operation = insert" in said(*at, "0", "--partition", "1", listed=())
    assert lake.snapshots(BRONZE) == before


def test_without_new_messages_nothing_is_committed(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("quiet")
    before = lake.snapshots(BRONZE)
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
    assert lake.snapshots(BRONZE) == before
    kafka.send(topic, numbered(3))
    assert lake.land_kafka([topic]) == KafkaLanding(3, 0, {})
    after = lake.snapshots(BRONZE)
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
    assert lake.snapshots(BRONZE) == after


def test_topics_of_other_settings_land_as_they_are(lake: Lake, kafka: Kafka) -> None:
    codecs = ("gzip", "snappy", "lz4", "zstd")
    # And a name that is as long as Kafka lets it be.
    names = [f"compressed-{codec}".ljust(249, "-") for codec in codecs]
    topics = [
        kafka.create(name, compression_type=codec)
        for name, codec in zip(names, codecs, strict=True)
    ]
    for topic in topics:
        kafka.send(topic, numbered(500, padding=b"and so on " * 20))
    of_broker = kafka.create("append-time", message_timestamp_type="LogAppendTime")
    kafka.send(of_broker, numbered(3))
    large = kafka.create("large", max_message_bytes="12582912")
    value = os.urandom(10_000_000)
    kafka.send(large, [*numbered(50), Outgoing(value), *numbered(50, start=50)])
    topics += [of_broker, large]
    assert lake.land_kafka(topics).landed == 2_000 + 3 + 101
    got = landed_by_topic(lake, topics)
    assert got == kafka.records_by_topic(topics)
    # The time of the broker is kept as such.
    assert [record.timestamp_type for record in got[of_broker]] == [1, 1, 1]
    assert all(record.timestamp_ms != START_MS for record in got[of_broker])
    assert got[large][50].value == value


# In CI, test_kafka_stream has them come while it runs (test_topics_that_appear_while_a_stream_runs
# and test_a_running_stream_has_its_topics_to_itself).
@pytest.mark.long
def test_new_partitions_and_new_topics_of_a_pattern_land(lake: Lake, kafka: Kafka) -> None:
    entries = [{"pattern": r"grow\.[a-z]+", "format": "debezium_json"}]
    first = kafka.create("grow.first", 1)
    # The expression is for the whole name.
    others = ("grow.first-2", "not.grow.first")
    for other in others:
        kafka.create(other)
        kafka.send(other, numbered(1))
    kafka.send(first, numbered(10))
    assert lake.land_kafka(entries).landed == 10
    kafka.add_partitions(first, 3)
    second = kafka.create("grow.second", 2)
    kafka.send(first, numbered(30, 3, start=10))
    kafka.send(second, numbered(20, 2))
    assert lake.land_kafka(entries) == KafkaLanding(50, 0, {})
    assert lake.land_kafka(entries) == KafkaLanding(0, 0, {})
    assert landed_by_topic(lake, (first, second)) == kafka.records_by_topic((first, second))
    assert landed_by_topic(lake, others) == {other: [] for other in others}


def test_the_first_entry_that_matches_says_whether_kafka_brings_a_topic(
    lake: Lake, kafka: Kafka
) -> None:
    for topic in ("match.a", "match.b", "match.c"):
        kafka.create(topic)
        kafka.send(topic, numbered(2))
    some_format = {"format": "debezium_json"}
    entries: list[str | dict[str, Any]] = [
        # Not in Kafka, but nobody asks for it there.
        {"topic": "match.captured", "kafka": False, **some_format},
        {"topic": "match.a", "kafka": False, **some_format},
        {"topic": "match.b", **some_format},
        {"pattern": r"match\.[bc]", "kafka": False, **some_format},
        {"pattern": r"match\..*", **some_format},
    ]
    assert lake.land_kafka(entries).landed == 2
    records = landed_by_topic(lake, ["match.a", "match.b", "match.c"])
    assert [len(each) for each in records.values()] == [0, 2, 0]


def test_committed_transactions_land_and_aborted_ones_do_not(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("transactions", 2)
    kafka.send_in_transaction(topic, numbered(10, 2))
    kafka.send_in_transaction(topic, numbered(10, 2, start=10), commit=False)
    kafka.send(topic, numbered(2, 2, start=20))
    lake.land_kafka([topic])
    got = landed(lake, topic)
    assert got == kafka.records(topic)
    assert sorted(record.key or b"" for record in got) == sorted(
        b"key %d" % number for number in (*range(10), 20, 21)
    )


def test_an_open_transaction_holds_back_what_is_behind_it(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("open-transaction")
    kafka.send(topic, numbered(3))
    producer = kafka.transactional_producer(topic)
    producer.begin_transaction()
    produce(producer, topic, numbered(3, start=3))
    kafka.send(topic, numbered(3, start=6))
    assert lake.land_kafka([topic]) == KafkaLanding(3, 0, {})
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
    producer.commit_transaction(SECONDS)
    assert lake.land_kafka([topic]) == KafkaLanding(6, 0, {})
    assert landed(lake, topic) == kafka.records(topic)
    assert [record.key for record in landed(lake, topic)] == [b"key %d" % i for i in range(9)]


# In CI, test_kafka_stream (test_transactions_land_as_in_batches) has a landing behind such ends.
@pytest.mark.long
def test_the_end_of_a_transaction_is_no_message_and_makes_no_commit(
    lake: Lake, kafka: Kafka
) -> None:
    topics = [kafka.create(f"control-records-{end}", 2) for end in ("commit", "abort")]
    for topic, commit in zip(topics, (True, False), strict=True):
        kafka.send_in_transaction(topic, numbered(4, 2), commit=commit)
    assert lake.land_kafka(topics).landed == 4
    before = lake.snapshots(BRONZE)
    assert lake.land_kafka(topics) == KafkaLanding(0, 0, {})
    # Without the summary, the logs' ends are looked at once more.
    forget_positions(lake)
    assert lake.land_kafka(topics) == KafkaLanding(0, 0, {})
    assert lake.snapshots(BRONZE) == before
    assert landed_by_topic(lake, topics) == kafka.records_by_topic(topics)


def test_rows_of_several_topics_are_sorted_by_topic(lake: Lake, kafka: Kafka) -> None:
    """So that a log of one topic skips the row groups of the others."""
    topics = [kafka.create(f"sorted-{number}", 2) for number in range(4)]
    for topic in topics:
        kafka.send(topic, numbered(6_000, 2))
    known = data_files(lake)
    assert lake.land_kafka(topics) == KafkaLanding(24_000, 0, {})
    new = data_files(lake) - known
    assert len(new) == 2 and all(is_sorted_by(["topic"], file) for file in new)
    # The properties of a lake from before, whose files come with maintenance.
    lake.sql(f"alter table {BRONZE} unset tblproperties ('{next(iter(bronze.FILES))}')")
    rows = f"select topic, partition, offset, _row_id from {BRONZE} order by all"
    before = lake.sql(rows)
    order = ("topic", "partition", "offset")
    policy = Policy(min_files=2, sort_by=order)
    candidate = Candidate("bronze", "raw_payloads", "raw_payloads", policy)
    list(maintenance.maintain(lake.load().open_session(), [candidate], dry_run=False))
    (merged,) = data_files(lake)
    assert is_sorted_by(order, merged)
    assert lake.sql(rows) == before
    assert lake.look_at(BRONZE).properties.items() >= bronze.FILES.items()


def data_files(lake: Lake) -> set[str]:
    """Of bronze."""
    return {row["file_path"] for row in lake.sql(f"select file_path from {BRONZE}.data_files")}


def is_sorted_by(columns: Sequence[str], file: str) -> bool:
    rows = pq.read_table(file.removeprefix("file:"), columns=[*columns])
    return bool(rows.equals(rows.sort_by([(column, "ascending") for column in columns])))


def test_a_bite_of_transaction_ends_only_does_not_stop_the_landing(
    lake: Lake, kafka: Kafka
) -> None:
    topic = kafka.create("small-bites")
    kafka.send_in_transaction(topic, numbered(2), commit=False)
    kafka.send(topic, numbered(1, start=2))
    # Two aborted messages, the marker behind them, one message.
    runs = [lake.land_kafka([topic], max_messages_per_run=1) for _ in range(4)]
    assert [(run.landed, run.remaining) for run in runs] == [(0, 3), (0, 2), (0, 1), (1, 0)]
    assert positions(landed(lake, topic)) == [(0, 3)]


def test_the_command_eats_a_backlog_in_bites_and_no_partition_waits(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create("command", 3)
    # Unequal partitions: 700, 200 and 100 messages.
    for partition, count in enumerate((700, 200, 100)):
        kafka.send(topic, (each._replace(partition=partition) for each in numbered(count)))
    variables = json.dumps({"topics": topic_entries([topic]), "max_messages_per_run": 400})
    before = len(lake.snapshots(BRONZE))

    def land(*options: str) -> tuple[str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["land", "--kafka", *options, "--vars", variables])
        assert not ended.value.code
        captured = capsys.readouterr()
        return captured.out, captured.err

    out, err = land()
    assert out == "kafka: landed 400 messages, 600 offsets are left for the next run\n"
    assert f"kafka: reading 400 of 1,000 offsets in 3 partitions of {topic}\n" in err
    assert {record.partition for record in landed(lake, topic)} == {0, 1, 2}
    out, _ = land("--until-caught-up", "--json")
    counts: dict[str, Any] = {"landed": 600, "remaining": 0, "left_to_stream": [], "stalled": []}
    assert json.loads(out) == counts
    commits = lake.snapshots(BRONZE)[before:]
    assert [commit.summary["added-records"] for commit in commits] == ["400", "400", "200"]
    assert landed(lake, topic) == kafka.records(topic)


UPKEEP: Final = (forget_positions, compact, expire_snapshots)


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param([UPKEEP], id="all-at-once"),
        pytest.param([[each] for each in UPKEEP], id="one-by-one", marks=pytest.mark.long),
    ],
)
def test_bronze_alone_tells_where_to_go_on(
    lake: Lake, kafka: Kafka, turns: Sequence[Sequence[Callable[[Lake], None]]]
) -> None:
    topic = kafka.create(f"upkeep-{len(turns)}", 2)
    kafka.send(topic, numbered(20, 2))
    assert lake.land_kafka([topic]) == KafkaLanding(20, 0, {})
    for number, turn in enumerate(turns, 1):
        for upkeep in turn:
            upkeep(lake)
        if expire_snapshots in turn:
            assert len(lake.snapshots(BRONZE)) == 1
        assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
        kafka.send(topic, numbered(20, 2, start=20 * number))
        assert lake.land_kafka([topic]) == KafkaLanding(20, 0, {})
    assert landed(lake, topic) == kafka.records(topic)


def test_what_a_rollback_of_bronze_takes_away_lands_again(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("rollback", 2)
    kafka.send(topic, numbered(20, 2))
    lake.land_kafka([topic])
    earlier = lake.current_snapshot(BRONZE)
    kafka.send(topic, numbered(30, 2, start=20))
    lake.land_kafka([topic])
    lake.roll_back(BRONZE, earlier)
    assert len(landed(lake, topic)) == 20
    kafka.send(topic, numbered(10, 2, start=50))
    assert lake.land_kafka([topic]) == KafkaLanding(40, 0, {})
    assert landed(lake, topic) == kafka.records(topic)


def test_captures_are_completed_from_kafka(lake: Lake, kafka: Kafka) -> None:
    captured: dict[str, Callable[[int], bool]] = {
        "captured-even-offsets": lambda offset: offset % 2 == 0,
        "captured-beginning": lambda offset: offset < 5,
        "captured-end": lambda offset: offset >= 15,
        "captured-all": lambda offset: True,
    }
    headers: list[tuple[str, bytes | None]] = [("a", None), ("a", b"1")]
    for topic in captured:
        kafka.create(topic, 2)
        kafka.send(topic, (each._replace(headers=headers) for each in numbered(40, 2)))
    lines = [
        capture(topic, record)
        for topic, keep in captured.items()
        for record in kafka.records(topic)
        if keep(record.offset)
    ]
    assert lake.land(lines) == LandingResult(20 + 10 + 10 + 40, 0)
    assert lake.land_kafka([*captured]).landed == 4 * 40 - len(lines)
    assert landed_by_topic(lake, captured) == kafka.records_by_topic(captured)
    # Both transports go on after that.
    for topic in captured:
        kafka.send(topic, numbered(10, 2, start=40))
    assert lake.land_kafka([*captured]) == KafkaLanding(40, 0, {})
    lines = [capture(topic, record) for topic in captured for record in kafka.records(topic)]
    assert lake.land(lines) == LandingResult(0, 4 * 50)
    assert landed_by_topic(lake, captured) == kafka.records_by_topic(captured)


# In CI, test_captures_are_completed_from_kafka has captures with holes.
@pytest.mark.long
def test_captures_ahead_of_kafkas_position_leave_no_hole(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("captured-ahead")
    kafka.send(topic, numbered(10))
    assert lake.land_kafka([topic], max_messages_per_run=3).landed == 3
    records = kafka.records(topic)
    # Behind a hole, which the capped runs then reach and pass.
    assert lake.land([capture(topic, each) for each in records[5:7]]).landed == 2
    landings = [lake.land_kafka([topic], max_messages_per_run=3) for _ in range(3)]
    assert sum(each.landed for each in landings) == 5
    assert landed(lake, topic) == records
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})


def test_an_append_chosen_by_a_stale_snapshot_is_refused(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("stale")
    kafka.send(topic, numbered(1))
    lake.land_kafka([topic])
    stale = bronze.current_snapshot(lake.spark)
    kafka.send(topic, numbered(1, start=1))
    lake.land_kafka([topic])
    before = lake.snapshots(BRONZE)
    rows = lake.spark.table(bronze.TABLE).where(f"topic = '{topic}'")
    for chosen_by in (stale, None):
        with pytest.raises(ConcurrentAppendError):
            bronze.append(rows, chosen_by)
    assert lake.snapshots(BRONZE) == before
    # What was appended since is not known any more: that must not look like nothing.
    expire_snapshots(lake)
    assert len(lake.snapshots(BRONZE)) == 1
    for chosen_by in (stale, None):
        with pytest.raises(ConcurrentAppendError):
            bronze.append(rows, chosen_by)
    assert lake.snapshots(BRONZE) == before[-1:]
    assert landed(lake, topic) == kafka.records(topic)


def test_an_append_that_can_not_be_counted_any_more_says_so(lake: Lake) -> None:
    # As if somebody had expired its snapshot in between.
    with pytest.raises(
        bronze.ExpiredCommitError, match="start again, landing continues after them"
    ):
        bronze.commit_of(lake.spark, "a landing whose snapshot is gone")


def test_two_hosts_that_land_at_once_land_each_position_once(lake: Lake, kafka: Kafka) -> None:
    # Locks are for other processes, so two threads are to each other as two hosts are; each with
    # a session of its own, for temporary views are the session's.
    topic = kafka.create("two-hosts-land", 2)
    kafka.send(topic, numbered(3_000, 2))
    source = lake.kafka([topic], max_messages_per_run=500)
    runs: list[KafkaLanding] = []

    def land(spark: SparkSession) -> None:
        while True:
            runs.append(land_kafka(spark, source))
            if not runs[-1].remaining:
                return

    with ThreadPoolExecutor() as hosts:
        for host in [hosts.submit(land, lake.spark.newSession()) for _ in range(2)]:
            host.result()
    assert sum(run.landed for run in runs) == 3_000
    assert landed(lake, topic) == kafka.records(topic)


def test_a_landing_in_a_warm_process_asks_spark_only_to_write(lake: Lake, kafka: Kafka) -> None:
    topics = [kafka.create(f"warm-{number}", 2) for number in range(2)]
    source, spark = lake.kafka(topics), lake.spark

    def consumers() -> set[str]:
        return {*progress._read(own_object(progress._CONSUMED))}

    def land(place: int) -> Asked:
        for topic in topics:
            kafka.send(topic, numbered(30, 2, start=30 * place))
        return asked_by(spark, lambda: land_kafka(spark, source))

    land(0)
    opened = consumers()
    # Spark counts the write of the rows and its commit.
    assert [land(place) for place in (1, 2)] == [Asked(2, 1)] * 2
    assert consumers() <= opened
    assert asked_by(spark, lambda: land_kafka(spark, source)) == Asked(0, 0)
    assert landed_by_topic(lake, topics) == kafka.records_by_topic(topics)


def test_what_a_process_knows_of_its_last_landing_holds_only_as_long(
    lake: Lake, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create("known", 2)
    sent = itertools.count()

    def land(messages: int = 10) -> int:
        kafka.send(topic, numbered(messages, 2, start=messages * next(sent)))
        return lake.land_kafka([topic]).landed

    land()
    # Another process lands, which this one does not know of.
    known = {**small_tables._held}
    assert land() == 10
    small_tables._held.update(known)
    assert land() == 10
    # Bronze goes back, then the positions, then both.
    both = (BRONZE, "bronze.topic_partitions")
    for tables, again in ((both[:1], 10), (both[1:], 0), (both, 10)):
        before = lake.current_snapshots(tables)
        assert land() == 10
        for table in tables:
            lake.roll_back(table, before[table])
        assert lake.land_kafka([topic]).landed == again
    # An append fails before its commit, and a landing behind it.
    for name, where, again in (("append", bronze, 10), ("save_positions", batch, 0)):
        with monkeypatch.context() as failing:
            failing.setattr(where, name, fail)
            with pytest.raises(OSError, match="failed"):
                land()
        assert lake.land_kafka([topic]).landed == again
    # Rows that some process deletes are landed, and no gap.
    lake.sql(f"delete from {BRONZE} where topic = '{topic}' and offset = 0")
    assert land() == 10
    lake.sql("drop table bronze.topic_partitions")
    assert lake.land_kafka([topic]).landed == 2
    assert landed(lake, topic) == kafka.records(topic)


def fail(*_: object) -> None:
    raise OSError("failed")


class Rows:
    """Rows of ranges, of which Spark is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def isEmpty(self) -> bool:
        self.asked += 1
        return True


def test_a_message_is_found_without_spark(lake: Lake, kafka: Kafka) -> None:
    topics = [kafka.create(f"first-message-{number}") for number in range(3)]
    # Two messages that were aborted, and the end of the transaction behind them.
    kafka.send_in_transaction(topics[0], numbered(2), commit=False)
    kafka.send(topics[1], numbered(3))
    source = lake.kafka(topics)
    logs = read_logs(lake.spark, source.settings, source.rules).partitions
    assert [log.end for log in logs] == [3, 3, 0]
    new = Position(0, None, None, None)

    def found(ranges: Sequence[Range]) -> tuple[bool, int]:
        rows: Any = Rows()
        return has_rows(source.settings, ranges, rows), rows.asked

    aborted, held = (Range(log, new, 0, log.end) for log in logs[:2])
    assert found([aborted, held]) == found([held]) == (True, 0)
    assert found([held._replace(start=2)]) == (True, 0)
    assert found([aborted]) == (False, 1)
    # Only Spark can tell whether bronze has the messages already, or reports what can't be read.
    assert found([held._replace(position=Position(0, 2, None, None))]) == (False, 1)
    gone = held._replace(log=logs[0]._replace(kafka_topic="not-there", partition=7))
    assert found([gone]) == (False, 1)
    assert found([held._replace(start=7, end=9)]) == (False, 1)


def test_compaction_is_no_conflict_for_an_append(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("compacted")
    for number in range(2):
        kafka.send(topic, numbered(1, start=number))
        lake.land_kafka([topic])
    chosen_by = bronze.current_snapshot(lake.spark)
    compact(lake)
    assert bronze.current_snapshot(lake.spark) != chosen_by
    rows = lake.spark.table(bronze.TABLE).where(f"topic = '{topic}' and offset = 1")
    new = rows.selectExpr(
        *(name if name != "offset" else "offset + 1 as offset" for name in bronze.COLUMNS)
    )
    commit = bronze.append(new, chosen_by)
    assert commit == bronze.Commit(bronze.current_snapshot(lake.spark) or 0, 1)
    assert positions(landed(lake, topic)) == [(0, 0), (0, 1), (0, 2)]


# In CI, transactions that are aborted leave holes.
@pytest.mark.long
def test_log_compaction_leaves_holes_that_are_not_waited_for(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create(
        "log-compacted",
        cleanup_policy="compact",
        segment_ms="100",
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="100",
    )
    kafka.send(topic, (Outgoing(b"%d" % number, key=b"same") for number in range(50)))
    kafka.send(topic, [Outgoing(b"last", key=b"other")])
    ticks = itertools.count()

    def compacted() -> bool:
        # A segment is closed, and so compacted, when a message comes that is later by its time.
        later = START_MS + 1_000 * next(ticks)
        kafka.send(topic, [Outgoing(b"tick", key=b"tick", timestamp_ms=later)])
        return len(kafka.records(topic)) < 20

    wait_until(compacted, "the log is compacted")
    lake.land_kafka([topic])
    records = kafka.records(topic)
    assert records[0].offset > 0 or records[1].offset > 1
    assert landed(lake, topic) == records
    forget_positions(lake)
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})


def test_the_lake_keeps_which_topics_were_ever_compacted(lake: Lake, kafka: Kafka) -> None:
    topics = [
        kafka.create("keeps-all", cleanup_policy="delete"),
        kafka.create("keeps-last", cleanup_policy="compact,delete"),
        kafka.create("kept-all"),
    ]

    def noted() -> list[tuple[str, str]]:
        lake.land_kafka(topics)
        rows = lake.sql("select * from bronze.topic_policies order by noted_at")
        return [(row["topic"], row["cleanup_policy"]) for row in rows if row["topic"] in topics]

    assert noted() == [("keeps-last", "compact,delete")]
    assert "keeps-last" in compacted_topics(lake.spark)
    kafka.configure("keeps-last", cleanup_policy="delete")
    kafka.configure("kept-all", cleanup_policy="compact")
    wait_until(lambda: len(noted()) == 3, "the broker says so")
    assert {*noted()[1:]} == {("keeps-last", "delete"), ("kept-all", "compact")}
    assert {*topics} & compacted_topics(lake.spark) == {"keeps-last", "kept-all"}
