"""When Kafka is not well: what is said, how fast, and that nothing lands, or is lost, silently."""

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from dbt_common.exceptions import DbtRuntimeError
from support.commands import lakehouse, wait_until
from support.kafka_topics import (
    AS_OF,
    BRONZE,
    Kafka,
    Outgoing,
    forget_positions,
    landed,
    landed_by_topic,
    numbered,
    positions,
)
from support.lakes import Lake, topic_entries

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.standard_streams import NOT_WELL
from dbt_lakehouse.config.kafka import KafkaSettings
from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.errors import ConfigurationError, DataLossError, KafkaError, LakehouseError
from dbt_lakehouse.landing.kafka.batch import KafkaLanding, land_kafka
from local_kafka.broker import Broker

# What is said by our own look at the brokers, before Kafka's client is asked, which takes minutes.
AT_ONCE = "no Kafka broker can be reached: "
# What is said by Kafka's client with our timeouts, and not with its own.
IN_TIME = "did not answer within 8000 ms"
PASSWORD = "the-right-word"


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that tests may stop and kill."""
    with Broker(tmp_path_factory.mktemp("mortal")) as broker:
        yield broker


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that asks for a password."""
    users = {"reader": PASSWORD}
    with Broker(tmp_path_factory.mktemp("guarded"), users=users) as broker:
        yield broker


def topics_of(broker: Broker, **settings: str) -> Kafka:
    """The topics of another broker."""
    more = {name.replace("_", "."): value for name, value in settings.items()}
    return Kafka({"bootstrap.servers": broker.bootstrap_servers, **more})


@contextmanager
def refused(lake: Lake, error: type[LakehouseError], *texts: str) -> Iterator[None]:
    """The block fails with this error, whose one line has these texts, and bronze stays as it
    was.
    """
    before = lake.snapshots(BRONZE)
    with pytest.raises(error) as caught:
        yield
    for text in texts:
        assert text in str(caught.value)
    assert "\n" not in str(caught.value)
    assert lake.snapshots(BRONZE) == before


@pytest.fixture
def free_address() -> Iterator[str]:
    """An address where nobody listens, and nobody else will."""
    with socket.socket() as reserved:
        reserved.bind((LOOPBACK, 0))
        yield f"{LOOPBACK}:{reserved.getsockname()[1]}"


def test_a_broker_that_is_down_is_named_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_address: str
) -> None:
    nowhere = Lake(tmp_path)
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", free_address)
    with lakehouse(nowhere, "land", "--kafka") as command:
        said = command.end(code=1)
    assert said.startswith(f"lakehouse: no Kafka broker can be reached: {free_address} (")
    assert len(said.splitlines()) == 1
    with pytest.raises(DbtRuntimeError, match=f"no Kafka broker can be reached: {free_address}"):
        nowhere.dbt("run", as_of=AS_OF)
    assert not (tmp_path / "lake").exists()
    # One look is enough for a run.
    assert nowhere.load(topics=topic_entries(["t"])).kafka() is not None


def test_the_brokers_that_are_down_do_not_matter_if_one_is_up(
    lake: Lake, kafka: Kafka, broker: Broker, monkeypatch: pytest.MonkeyPatch, free_address: str
) -> None:
    topic = kafka.create("second-server")
    kafka.send(topic, numbered(1))
    servers = f"{free_address},{broker.bootstrap_servers}"
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    assert lake.land_kafka([topic]).landed == 1


def test_a_broker_that_has_gone_or_hangs_stops_a_landing_at_once(
    lake: Lake, mortal: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", mortal.bootstrap_servers)
    kafka = topics_of(mortal)
    topic = kafka.create("gone")
    kafka.send(topic, numbered(10))
    source, spark = lake.kafka([topic]), lake.spark
    where = mortal.bootstrap_servers

    os.kill(mortal.pid, signal.SIGSTOP)
    try:
        with refused(lake, KafkaError, AT_ONCE + where, "timed out"):
            land_kafka(spark, source)
    finally:
        os.kill(mortal.pid, signal.SIGCONT)

    mortal.stop()
    with refused(lake, KafkaError, AT_ONCE + where, "Connection refused"):
        land_kafka(spark, source)
    mortal.start()
    assert land_kafka(spark, source) == KafkaLanding(10, 0, {})


# In CI, test_kafka_crashes kills landings in mid-read, and the test before it the broker between
# two of them.
@pytest.mark.long
def test_a_broker_killed_in_mid_read_lands_nothing_and_the_next_run_all(
    lake: Lake, mortal: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", mortal.bootstrap_servers)
    kafka = topics_of(mortal)
    topic = kafka.create("killed", 4)
    kafka.send(topic, numbered(20_000, 4, padding=b"x" * 3_000))
    source, spark = lake.kafka([topic]), lake.spark
    # By default a read waits longer for a broker to come back, and asks for more at a time.
    patience = {"request.timeout.ms": "3000", "default.api.timeout.ms": "4000"}
    slow = {"fetch.max.bytes": "20000", "max.partition.fetch.bytes": "20000"}
    changed = KafkaSettings({**source.settings.given, **patience, **slow})
    impatient = source._replace(settings=changed)
    errors: list[BaseException] = []

    def land() -> None:
        try:
            land_kafka(spark, impatient)
        except BaseException as error:
            errors.append(error)

    data = lake.folder / "lake" / "warehouse" / "bronze" / "raw_payloads" / "data"
    there = set(data.rglob("*.parquet"))
    before = lake.snapshots(BRONZE)
    # A file is begun when its first row group is full, so long before the last message is read.
    lake.set_properties(BRONZE, {"write.parquet.row-group-size-bytes": "1000000"})
    landing = threading.Thread(target=land)
    landing.start()
    wait_until(lambda: bool(set(data.rglob("*.parquet")) - there), "messages are read")
    mortal.kill()
    landing.join()
    lake.sql(f"alter table {BRONZE} unset tblproperties ('write.parquet.row-group-size-bytes')")
    assert [type(error) for error in errors] == [KafkaError]
    assert mortal.bootstrap_servers in str(errors[0])
    assert lake.snapshots(BRONZE) == before

    mortal.start()
    assert land_kafka(spark, source) == KafkaLanding(20_000, 0, {})
    assert positions(landed(lake, topic)) == positions(kafka.records(topic))


def test_what_has_landed_is_not_called_lost_if_it_can_not_be_noted(
    lake: Lake, kafka: Kafka
) -> None:
    topic = kafka.create("not-noted")
    kafka.send(topic, numbered(2))
    lake.land_kafka([topic], max_messages_per_run=1)
    file = lake.folder / "no-folder"
    file.touch()
    lake.set_properties("bronze.topic_partitions", {"write.data.path": f"file://{file}/data"})
    with pytest.raises(KafkaError, match=r"^1 message landed, but that could not be noted: "):
        lake.land_kafka([topic])
    lake.sql("alter table bronze.topic_partitions unset tblproperties ('write.data.path')")
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
    assert landed(lake, topic) == kafka.records(topic)


def test_a_topic_that_is_not_there_is_named(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("there")
    kafka.send(topic, numbered(1))
    with refused(lake, ConfigurationError, "names misspelt, which", "names not-there, which"):
        lake.land_kafka(["misspelt", "not-there"])
    with pytest.raises(ConfigurationError, match="names misspelt, which the broker"):
        lake.land_kafka(["misspelt", topic])
    assert landed(lake, topic) == kafka.records(topic)
    # A pattern need not match anything yet.
    nothing = {"pattern": "nothing-yet.*", "format": "debezium_json"}
    assert lake.land_kafka([nothing]) == KafkaLanding(0, 0, {})


def test_a_password_is_asked_for_used_and_never_shown(
    lake: Lake,
    guarded: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kafka = topics_of(
        guarded,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="reader",
        sasl_password=PASSWORD,
    )
    topic = kafka.create("guarded")
    kafka.send(topic, numbered(3))
    where = guarded.bootstrap_servers
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", where)
    # Without settings we speak another protocol: the broker hangs up, and we try until it is late.
    with refused(lake, KafkaError, where, IN_TIME, "kafka.security.protocol"):
        lake.land_kafka([topic])

    def log_in(password: str, mechanism: str = "PLAIN", end: str = ";") -> None:
        module = {
            "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
            "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
        }[mechanism]
        monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
        monkeypatch.setenv("KAFKA_SASL_MECHANISM", mechanism)
        monkeypatch.setenv(
            "DBT_ENV_SECRET_KAFKA_SASL_JAAS_CONFIG",
            f'{module} required username="reader" password="{password}"{end}',
        )

    log_in("a-wrong-word")
    with pytest.raises(ConfigurationError) as wrong:
        lake.land_kafka([topic, "another", "third"])
    # Once, and not for each topic.
    assert str(wrong.value).count("refused to authenticate us") == 1
    with refused(lake, ConfigurationError, where, "refused to auth", "kafka.sasl.*"):
        lake.land_kafka([topic])
    log_in(PASSWORD, mechanism="SCRAM-SHA-256")
    with refused(lake, ConfigurationError, "SCRAM-SHA-256", "kafka.sasl."):
        lake.land_kafka([topic])
    log_in(PASSWORD, end="")
    with refused(lake, ConfigurationError, "kafka.*"):
        try:
            lake.land_kafka([topic])
        except LakehouseError as error:
            assert PASSWORD not in str(error)
            raise

    log_in(PASSWORD)
    variables: dict[str, Any] = {"topics": topic_entries([topic])}
    assert lake.dbt("run", "-s", "other_events", as_of=AS_OF, **variables) == {
        "other_events": "success"
    }
    assert landed(lake, topic) == kafka.records(topic)
    shown = capfd.readouterr()
    logs = "".join(path.read_text() for path in (lake.folder / "logs").iterdir())
    settings = str(lake.spark.sparkContext.getConf().getAll())
    assert "other_events" in logs
    for text in (shown.out, shown.err, logs, settings):
        assert PASSWORD not in text and "a-wrong-word" not in text


def test_a_wrong_protocol_is_explained(lake: Lake, kafka: Kafka, broker: Broker) -> None:
    topic = kafka.create("protocol")
    source = lake.kafka([topic])

    def with_settings(**settings: str) -> None:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        changed = KafkaSettings({**source.settings.given, **given})
        land_kafka(lake.spark, source._replace(settings=changed))

    with refused(lake, KafkaError, AT_ONCE + broker.bootstrap_servers, "kafka.security.protocol"):
        with_settings(security_protocol="SSL")
    with refused(lake, ConfigurationError, "kafka.*", "PLAINTEKST"):
        with_settings(security_protocol="PLAINTEKST")


def test_messages_that_retention_has_deleted_stop_the_landing(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = kafka.create("retention", 3)
    kafka.send(topic, numbered(30, 3))
    assert lake.land_kafka([topic]).landed == 30
    kafka.send(topic, numbered(30, 3, start=30))
    # A part of what is new in the one, and all in the other.
    kafka.cut_off(topic, 1, 15)
    kafka.cut_off(topic, 2, 20)
    message = (
        f"topic {topic} partition 1: offsets 10 to 14; topic {topic} partition 2: offsets 10 to 19"
    )
    with refused(lake, DataLossError, message, "at most 15 ", "--accept-loss", "kafka_gaps"):
        lake.land_kafka([topic])
    # The loss is seen without the summary too, and told by the command.
    forget_positions(lake)
    before = lake.snapshots(BRONZE)
    variables = json.dumps({"topics": topic_entries([topic])})
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(["land", "--kafka", "--vars", variables])
    error = capsys.readouterr().err
    deleted = "lakehouse: Kafka has deleted messages that were not landed, at most 15 "
    assert error.startswith(deleted) and message in error
    assert len(error.splitlines()) == 1
    assert lake.snapshots(BRONZE) == before
    with pytest.raises(SystemExit) as ended:
        main(["land", "--kafka", "--accept-loss", "--json", "--vars", variables])
    assert not ended.value.code
    shown = capsys.readouterr()
    landing: dict[str, Any] = {"landed": 15, "remaining": 0, "left_to_stream": [], "stalled": []}
    assert json.loads(shown.out) == landing
    for lacks in ("partition 1 lacks offsets 10 to 14", "partition 2 lacks offsets 10 to 19"):
        assert f"topic {topic} {lacks}" in shown.err
    expected = [(0, offset) for offset in range(20)]
    expected += [(1, offset) for offset in range(20) if not 10 <= offset < 15]
    expected += [(2, offset) for offset in range(10)]
    assert positions(landed(lake, topic)) == expected

    gaps = f"select * from bronze.kafka_gaps where topic = '{topic}' order by partition"
    recorded = lake.sql(gaps)
    assert [
        (gap["partition"], gap["first_offset"], gap["next_offset"], gap["messages_at_most"])
        for gap in recorded
    ] == [(1, 10, 15, 5), (2, 10, 20, 10)]
    assert {gap["reason"] for gap in recorded} == {"retention"}
    # Once is enough, also for those who look at all of bronze again.
    assert lake.land_kafka([topic], accept_loss=True) == KafkaLanding(0, 0, {})
    forget_positions(lake)
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})
    assert lake.sql(gaps) == recorded
    kafka.send(topic, numbered(3, 3, start=60))
    assert lake.land_kafka([topic]) == KafkaLanding(3, 0, {})


def test_what_was_deleted_before_the_first_landing_is_no_loss(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("begins-late")
    kafka.send(topic, numbered(10))
    kafka.cut_off(topic, 0, 6)
    assert lake.land_kafka([topic]) == KafkaLanding(4, 0, {})
    assert landed(lake, topic) == kafka.records(topic)
    assert lake.land_kafka([topic]) == KafkaLanding(0, 0, {})


def test_what_a_known_topics_new_partition_has_lost_is_a_loss(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("new-partition-cut-off")
    kafka.send(topic, numbered(1))
    lake.land_kafka([topic])
    kafka.add_partitions(topic, 2)
    kafka.send(topic, [Outgoing(b"%d" % number, partition=1) for number in range(5)])
    kafka.cut_off(topic, 1, 3)
    with refused(lake, DataLossError, f"topic {topic} partition 1: offsets 0 to 2"):
        lake.land_kafka([topic])
    assert lake.land_kafka([topic], accept_loss=True).landed == 2


# In CI, test_topics_that_can_not_go_on_keep_no_others_from_being_built_or_streamed has one that
# holds more and `land_as`, test_a_capture_behind_the_logs_end_is_not_of_this_topic one that ends
# before.
@pytest.mark.long
def test_a_topic_that_was_created_anew_is_told_from_the_landed_one(
    lake: Lake, kafka: Kafka
) -> None:
    fewer, as_many, more, cut, empty = topics = [
        kafka.create(f"anew-{case}") for case in ("fewer", "as-many", "more", "cut-off", "empty")
    ]
    for topic in topics[:-1]:
        kafka.send(topic, numbered(10))
    lake.land_kafka(topics)
    old = landed_by_topic(lake, topics)
    for topic, count in zip(topics, (3, 10, 12, 30, 1), strict=True):
        kafka.delete(topic)
        kafka.create(topic)
        kafka.send(topic, numbered(count, start=1_000))
    kafka.cut_off(cut, 0, 20)

    start = "topic {} is not the one that was landed: "
    ends = "partition 0 ends before offset 3, but bronze has got to 9 already"
    other = "partition 0 holds another message at offset 9 than the one that is landed"

    old_ones = (fewer, as_many, more)
    texts = [
        start.format(fewer) + ends,
        *(start.format(topic) + other for topic in (as_many, more)),
    ]
    texts += [f"`land_as: {topic}.2`" for topic in old_ones]

    def all_are_refused(told_by_its_id: str) -> None:
        with refused(lake, DataLossError, *texts, told_by_its_id):
            lake.land_kafka([*old_ones, cut])

    all_are_refused(start.format(cut) + "its id is ")
    # Without the summary nobody knows the ids: bytes are compared and, where Kafka holds nothing
    # to compare with, offsets are missing.
    forget_positions(lake)
    all_are_refused(f"topic {cut} partition 0: offsets 10 to 19")
    # Nothing was landed of the old one: the new one is just the topic.
    assert lake.land_kafka([empty]).landed == 1

    entries = [
        {**entry, "land_as": f"{entry['topic']}.2"} for entry in topic_entries([fewer, more])
    ]
    assert lake.land_kafka(entries) == KafkaLanding(15, 0, {})
    assert lake.land_kafka(entries) == KafkaLanding(0, 0, {})
    for topic in (fewer, more):
        assert landed(lake, topic) == old[topic]
        assert landed(lake, f"{topic}.2") == kafka.records(topic)


# In CI, the same tests as for the one before it have other topics that were created anew.
@pytest.mark.long
def test_a_topic_created_anew_with_fewer_partitions_is_told_from_the_landed_one(
    lake: Lake, kafka: Kafka
) -> None:
    # No partition that has landed is there to compare with.
    topic = kafka.create("anew-partitions", 4)
    kafka.send(topic, [Outgoing(b"old %d" % number, partition=number) for number in (2, 3)])
    lake.land_kafka([topic])
    old = landed(lake, topic)
    kafka.delete(topic)
    kafka.create(topic, 2)
    kafka.send(topic, [Outgoing(b"new %d" % number, partition=number) for number in (0, 1)])
    evidence = f"topic {topic} is not the one that was landed: it has no partition 2, of which"
    with refused(lake, DataLossError, evidence, f"`land_as: {topic}.2`"):
        lake.land_kafka([topic])
    # Again, for what the first look has saved; and by those who look at all of bronze.
    with refused(lake, DataLossError, evidence):
        lake.land_kafka([topic])
    forget_positions(lake)
    with refused(lake, DataLossError, evidence):
        lake.land_kafka([topic])
    renamed = [{**entry, "land_as": f"{topic}.2"} for entry in topic_entries([topic])]
    assert lake.land_kafka(renamed).landed == 2
    assert landed(lake, topic) == old


class Stalled:
    """Topics that can't go on, each for another reason, and one that can; ten messages of each but
    the missing one have landed.
    """

    def __init__(self, lake: Lake, kafka: Kafka, case: str) -> None:
        self.healthy, self.anew, self.gap = self.there = [
            kafka.create(f"{case}-{name}") for name in ("healthy", "anew", "gap")
        ]
        self.missing: str = f"{case}-missing"
        self.all: list[str] = [*self.there, self.missing]
        for topic in self.there:
            kafka.send(topic, numbered(10))
        lake.land_kafka(self.there)
        kafka.delete(self.anew)
        kafka.create(self.anew)
        for topic in self.there:
            kafka.send(topic, numbered(20, start=100))
        kafka.cut_off(self.gap, 0, 25)

    def assert_named(self, text: str) -> None:
        """The text says what is wrong with each."""
        for reason in (
            f"topic {self.anew} is not the one that was landed",
            f"topic {self.gap} partition 0: offsets 10 to 24",
            f"vars.topics names {self.missing}, which",
        ):
            assert text.count(reason) == 1
        assert self.healthy not in text


# In CI, the next test has the same topics, and test_cycles a missing one.
@pytest.mark.long
def test_topics_that_can_not_go_on_keep_no_others_from_landing(
    lake: Lake, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    stalled = Stalled(lake, kafka, "stalled")
    variables = json.dumps({"topics": topic_entries(stalled.all)})
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(["land", "--kafka", "--json", "--vars", variables])
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {
        "landed": 20,
        "remaining": 0,
        "left_to_stream": [],
        "stalled": sorted([stalled.anew, stalled.gap, stalled.missing]),
    }
    (error,) = [line for line in shown.err.splitlines() if line.startswith("lakehouse: ")]
    stalled.assert_named(error)
    by_topic = landed_by_topic(lake, stalled.there)
    assert by_topic[stalled.healthy] == kafka.records(stalled.healthy)
    assert [len(by_topic[topic]) for topic in stalled.there] == [30, 10, 10]
    # They stay what they are, whatever the landing of the others has saved.
    with refused(lake, LakehouseError, *stalled.all[1:]):
        lake.land_kafka(stalled.all)

    with pytest.raises(SystemExit) as ended:
        main(["status", "--json", "--vars", variables])
    assert ended.value.code == NOT_WELL
    told = json.loads(capsys.readouterr().out)
    rows = {row["topic"]: row for row in told["partitions"]}
    named = {each["of"] for each in told["alerts"] if each["alert"] == "topic_stalled"}
    assert named == set(stalled.all[1:])
    assert (rows[stalled.healthy]["lag_messages"], rows[stalled.healthy]["problem"]) == (0, None)
    stalled.assert_named(" ".join(rows[topic]["problem"] for topic in stalled.all[1:]))
    assert rows[stalled.gap]["next_offset"] == 10
    assert rows[stalled.missing]["partition"] is None
    with pytest.raises(SystemExit):
        main(["status", "--vars", variables])
    table = capsys.readouterr().out
    stalled.assert_named(table.partition("behind at most")[2])
    assert f"|{stalled.healthy}" in table and f"|{stalled.missing}" in table


def test_topics_that_can_not_go_on_keep_no_others_from_being_built_or_streamed(
    lake: Lake, kafka: Kafka, capfd: pytest.CaptureFixture[str]
) -> None:
    stalled = Stalled(lake, kafka, "stalled-run")
    # Created anew too, and named so: both names have its format.
    renamed = kafka.create("anew-format")
    kafka.send(renamed, numbered(2))
    entry = {"topic": renamed, "format": "arcion_json"}
    lake.land_kafka([entry])
    kafka.delete(renamed)
    kafka.create(renamed)
    kafka.send(renamed, numbered(1))
    entries = [*topic_entries(stalled.all), {**entry, "land_as": f"{renamed}.2"}]
    variables: dict[str, Any] = {"topics": entries}
    with pytest.raises(DbtRuntimeError) as caught:
        lake.dbt("run", "-s", "other_events", as_of=AS_OF, **variables)
    stalled.assert_named(str(caught.value))
    built = f"select count(*) as events from silver.other_events where topic = '{stalled.healthy}'"
    assert lake.sql(built) == [{"events": 30}]
    events = lake.sql(
        "select topic, offset, format from silver.other_events"
        f" where topic like '{renamed}%' order by topic, offset"
    )
    assert [tuple(event.values()) for event in events] == [
        (renamed, 0, "arcion_json"),
        (renamed, 1, "arcion_json"),
        (f"{renamed}.2", 0, "arcion_json"),
    ]

    kafka.send(stalled.healthy, numbered(5, start=200))
    topics = {"pattern": "stalled-run-.*", "format": "debezium_json"}
    capfd.readouterr()
    with pytest.raises(SystemExit, match="2"):
        main(["stream", "--available-now", "--vars", json.dumps({"topics": [topics]})])
    assert f"not topic {stalled.gap}: Kafka has deleted messages" in capfd.readouterr().err
    by_topic = landed_by_topic(lake, stalled.there)
    assert [len(by_topic[topic]) for topic in stalled.there] == [35, 10, 10]


def test_a_topic_created_anew_and_filled_with_the_same_goes_on(lake: Lake, kafka: Kafka) -> None:
    # A copy of the topic, with offsets and times: what is landed is what it holds.
    topic = kafka.create("restored")
    kafka.send(topic, numbered(5))
    lake.land_kafka([topic])
    kafka.delete(topic)
    kafka.create(topic)
    kafka.send(topic, numbered(7))
    assert lake.land_kafka([topic]) == KafkaLanding(2, 0, {})
    assert landed(lake, topic) == kafka.records(topic)


def test_a_capture_behind_the_logs_end_is_not_of_this_topic(lake: Lake, kafka: Kafka) -> None:
    topic = kafka.create("short")
    kafka.send(topic, numbered(8))
    line = {"topic": topic, "partition": 0, "offset": 100, "key_b64": None, "value_b64": None}
    assert lake.land([line]).landed == 1
    with refused(lake, DataLossError, "ends before offset 8, but bronze has got to 100 already"):
        lake.land_kafka([topic])


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"max_messages_per_run": 0}, "vars.max_messages_per_run is 0"),
        (
            {"max_messages_per_run": "many"},
            "vars.max_messages_per_run is 'many'",
        ),
        ({"max_messages_per_run": True}, "vars.max_messages_per_run is True"),
        ({"topics": []}, "vars.topics in dbt_project.yml names no topic to land"),
        ({"topics": [{"topic": "t", "pattern": "t"}]}, "needs a topic or a pattern"),
        ({"topics": [{}]}, "needs a topic or a pattern"),
        ({"topics": [{"topic": "t", "format": "avro"}]}, "aerospike_messagepack, "),
        ({"topics": [{"topic": "t", "formt": "x"}]}, "has formt (did you mean format?); known "),
        ({"topics": [{"topic": "t", "kafka": "no"}]}, "kafka is true or false"),
        ({"topics": [{"pattern": "t", "land_as": "u"}]}, "not with a pattern"),
    ],
)
def test_a_variable_that_can_not_be_meant_is_refused(
    lake: Lake, variables: dict[str, Any], text: str
) -> None:
    some = {"format": "debezium_json"}
    topics = [{**some, **entry} for entry in variables.get("topics", [{"topic": "t"}])]
    with pytest.raises(ConfigurationError) as caught:
        lake.kafka(**{**variables, "topics": topics})
    assert text in str(caught.value)


def test_a_pattern_that_is_no_regular_expression_is_refused(lake: Lake, kafka: Kafka) -> None:
    kafka.create("any")
    with refused(lake, ConfigurationError, "vars.topics", "bad["):
        lake.land_kafka([{"pattern": "bad[", "format": "debezium_json"}])


def test_two_topics_can_not_land_under_one_name(lake: Lake, kafka: Kafka) -> None:
    first, second = kafka.create("collide-1"), kafka.create("collide-2")
    entries = [{**entry, "land_as": first} for entry in topic_entries([second])]
    with refused(lake, ConfigurationError, first, second):
        lake.land_kafka([first, *entries])


@pytest.mark.parametrize("servers", ["localhost", "localhost:", "localhost:port", ":9092"])
def test_servers_without_host_or_port_are_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, servers: str
) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", servers)
    with pytest.raises(ConfigurationError, match="write host:port") as caught:
        lake.kafka(["t"])
    assert repr(servers) in str(caught.value)
