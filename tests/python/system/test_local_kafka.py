"""The local broker: it starts, keeps its data, lets in whom it should, and never stays behind."""

import json
import os
import signal
import socket
import threading
import time
from decimal import Decimal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from support.commands import wait_until
from support.processes import python, said

from dbt_lakehouse.config.paths import LOOPBACK, ROOT
from local_kafka.broker import Broker, BrokerError, PortError, free_port
from local_kafka.captures import QUIET, create_topics, fill, message_counts, read
from local_kafka.demo import DemoError, Order, Shop, compare
from local_kafka.folders import only_one
from python_udfs.registry import FORMATS

SECONDS = 20.0


def read_topic(settings: dict[str, str], topic: str, expected: int) -> list[Message]:
    """The topic's messages, by partition and offset; fails if ``expected`` don't come."""
    consumer = Consumer({**QUIET, **settings, "group.id": "test", "enable.auto.commit": False})
    messages: list[Message] = []
    deadline = time.monotonic() + SECONDS
    try:
        partitions = consumer.list_topics(topic, timeout=SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while len(messages) < expected and time.monotonic() < deadline:
            messages += consumer.consume(expected, timeout=0.2)
    finally:
        consumer.close()
    assert [message.error() for message in messages] == [None] * expected
    return sorted(messages, key=lambda message: (message.partition() or 0, message.offset() or 0))


def values(settings: dict[str, str], topic: str, expected: int) -> list[bytes | str | None]:
    """The values of a topic's messages."""
    return [message.value() for message in read_topic(settings, topic, expected)]


def send(settings: dict[str, str], topic: str, value: bytes) -> None:
    """Send one message and wait until the broker has it."""
    problems: list[KafkaError | None] = []
    producer = Producer({**QUIET, **settings})
    producer.produce(topic, value, on_delivery=lambda error, _: problems.append(error))
    producer.flush(SECONDS)
    assert problems == [None]


def listens(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as connection:
        return connection.connect_ex((LOOPBACK, port)) == 0


def wait_until_silent(port: int) -> None:
    """Wait until nobody accepts connections there; fail if somebody still does after 5 s."""
    deadline = time.monotonic() + 5.0
    while listens(port):
        assert time.monotonic() < deadline, f"somebody still listens on {port}"
        time.sleep(0.05)


def test_keeps_address_and_data_over_stop_and_kill(tmp_path: Path) -> None:
    # A killed broker may return when its session is over: no need to wait 3 s here.
    quick = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "200"}
    broker = Broker(tmp_path / "with space, and comma", settings=quick)
    settings = {"bootstrap.servers": broker.bootstrap_servers}
    with broker:
        first = broker.pid
        create_topics(settings, {"t": 1})
        send(settings, "t", b"one")
        broker.stop()
        assert not broker.running and not listens(broker.port)
        broker.start()
        assert broker.running and broker.pid != first
        send(settings, "t", b"two")
        broker.kill()
        assert not broker.running and not listens(broker.port)
        broker.start()
        # What was not acknowledged before the kill would be lost; this was.
        assert values(settings, "t", 2) == [b"one", b"two"]
        # The broker makes no topics up.
        asked = AdminClient({**QUIET, **settings}).list_topics("typo", timeout=SECONDS)
        assert asked.topics["typo"].error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    with pytest.raises(BrokerError, match="not started"):
        _ = broker.pid


def test_clients_and_controller_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    ports = [first, free_port(first)]
    monkeypatch.setattr("local_kafka.broker.PORTS", ports)
    assert {free_port() for _ in range(50)} == set(ports)
    assert {free_port(ports[0]) for _ in range(50)} == {ports[1]}


def test_passwords(tmp_path: Path) -> None:
    password = 'pa"ss\\wörd #=: 1'
    with Broker(tmp_path, users={"reader": password, "writer": "w"}) as broker:
        anonymous = {"bootstrap.servers": broker.bootstrap_servers}
        reader = {
            **anonymous,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "reader",
            "sasl.password": password,
        }
        create_topics(reader, {"t": 1})
        # A transaction's markers are what the broker itself sends, as its own user.
        producer = Producer({**QUIET, **reader, "transactional.id": "x"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        producer.produce("t", b"committed")
        producer.commit_transaction(SECONDS)
        assert values(reader, "t", 1) == [b"committed"]

        for wrong in ({"sasl.password": "pa"}, {"sasl.username": "broker"}):
            errors: list[KafkaError] = []
            client = Producer({**QUIET, **reader, **wrong, "error_cb": errors.append})
            with pytest.raises(KafkaException):
                client.list_topics(timeout=1.5)
            client.poll(0.1)
            assert KafkaError._AUTHENTICATION in [error.code() for error in errors]
        with pytest.raises(KafkaException):
            AdminClient({**QUIET, **anonymous}).list_topics(timeout=1.5)


@pytest.mark.parametrize("name", ["broker", "", "a b", 'a"', "1a"])
def test_refuses_user_names_that_can_not_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="can't be the name of a user"):
        Broker(tmp_path, users={name: "x"})


def test_says_why_it_does_not_start(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PortError, match=f"can't listen on {LOOPBACK}:{port}: Address already"):
            Broker(tmp_path, port=port).start()
    broker = Broker(tmp_path, settings={"log.segment.bytes": "many"})
    with pytest.raises(BrokerError, match=r"(?s)Invalid value many .*log\.segment\.bytes.*all of"):
        broker.start()
    assert not broker.running


def test_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from local_kafka.broker import Broker;"
        "broker = Broker(pathlib.Path(sys.argv[1])); broker.start();"
        "print('port', broker.port, flush=True); time.sleep(60)"
    )
    with python("-c", program, str(tmp_path)) as process:
        port = int(said(process, "port "))
        assert listens(port)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until_silent(port)


def test_servers_die_with_the_process_that_started_them(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, time; from local_kafka.servers import server\n"
        "with server(['/bin/sh', '-c', 'echo $$ >&2; exec sleep 60'], pathlib.Path(sys.argv[1]),"
        " lambda: pathlib.Path(sys.argv[1]).stat().st_size > 0):\n"
        "    print('up', flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"
    with python("-c", program, str(log)) as process:
        said(process, "up")
        server = int(log.read_text())
        os.kill(server, 0)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: not _runs(server), "the server has ended")


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_make_kafka_fills_the_topics_once(tmp_path: Path) -> None:
    captures = read((ROOT / "seeds").glob("*.jsonl"))
    counts = {topic: len(messages) for topic, messages in captures.items()}
    with socket.create_server((LOOPBACK, 0)) as free:
        port = free.getsockname()[1]
    settings = {"bootstrap.servers": f"{LOOPBACK}:{port}"}
    command = ("-m", "local_kafka", "--port", str(port), "--folder", str(tmp_path / "kafka"))
    with python(*command) as process:
        assert said(process, "Sent the demo's ").startswith(f"{sum(counts.values())} messages")
        said(process, "Ctrl-C stops it.")
        for topic, expected in captures.items():
            expected.sort(key=lambda message: (message.partition or 0, message.offset or 0))
            got = read_topic(settings, topic, len(expected))
            # 1: the time is the producer's, as it was sent.
            assert [
                (m.partition(), m.offset(), m.timestamp(), m.key(), m.value(), m.headers() or [])
                for m in got
            ] == [
                (m.partition, m.offset, (1, m.timestamp_ms), m.key, m.value, m.headers or [])
                for m in expected
            ]
        messages = [message for each in captures.values() for message in each]
        # The demo holds what is easily lost on the way.
        assert any(message.value is None for message in messages)
        assert any(message.value == b"" for message in messages)
        assert any(message.key is None for message in messages)
        assert any(None in dict(message.headers or []).values() for message in messages)
        # Another start would do this: topics that have messages are left alone.
        assert fill(settings, captures) == {}
        assert message_counts(settings, captures) == counts
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert not listens(port)


def test_the_demo_shop_sends_what_it_holds() -> None:
    shop = Shop()
    operations: dict[str, int] = {}
    folded: dict[bytes | None, Order] = {}
    for _ in range(2_000):
        for _, key, value in shop.step():
            [event] = FORMATS["debezium_json"](key, value)
            operations[event.operation] = operations.get(event.operation, 0) + 1
            if event.after is not None:
                row = json.loads(event.after, parse_float=Decimal, parse_int=Decimal)
                folded[event.record_key] = Order(
                    int(row["order_id"]), row["status"], Decimal(row["amount"])
                )
            elif event.operation == "delete":
                del folded[event.record_key]
    assert operations.keys() == {"insert", "update", "delete", "tombstone"}
    assert sorted(folded.values()) == shop.orders()


def test_the_demo_fails_when_gold_differs(capsys: pytest.CaptureFixture[str]) -> None:
    held = [Order(1, "new", Decimal("0.10")), Order(2, "paid", Decimal("7.25"))]
    compare(held, [*held])
    assert capsys.readouterr().out == "gold equals what the producer holds: 2 rows\n"
    for gold in (held[:1], [held[0], held[1]._replace(status="new")], [*held, held[1]]):
        with pytest.raises(DemoError, match=f"gold has {len(gold)} rows, the producer 2"):
            compare(held, gold)


def test_a_folder_is_for_one_at_a_time_and_its_lock_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with only_one(folder):
        with pytest.raises(BrokerError, match="another one runs already"), only_one(folder):
            pytest.fail("two have it")
        # Who was refused has not removed the other's lock.
        with pytest.raises(BrokerError, match="another one runs already"), only_one(folder):
            pytest.fail("two have it")
    assert [*tmp_path.iterdir()] == []

    # Who has opened the file that another one then removes has no lock by it.
    inside, turns, start = threading.Lock(), [0], threading.Barrier(4)
    met: list[str] = []

    def take_turns() -> None:
        start.wait()
        for _ in range(400):
            try:
                with only_one(folder):
                    if not inside.acquire(blocking=False):
                        met.append("two have it")
                        continue
                    turns[0] += 1
                    time.sleep(0)
                    inside.release()
            except BrokerError:
                continue

    threads = [threading.Thread(target=take_turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert met == [] and turns[0] > 1
    assert [*tmp_path.iterdir()] == []
