"""Topics of a real broker, made, filled, cut off and read back.

What Kafka holds is read by another client (librdkafka) than the one that lands it, so a test can
compare bronze with it message by message.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from local_kafka.captures import QUIET
from support.commands import SECONDS, wait_until
from support.lakes import Lake

BRONZE: Final = "bronze.raw_payloads"
# When the dbt runs of these tests are.
AS_OF: Final = "2026-11-21 00:00:00"
_WITHOUT_LEADER: Final = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)
# Messages get this time and one millisecond more each, if a test gives them none.
START_MS: Final = 1_790_000_000_000


class Outgoing(NamedTuple):
    """A message to send."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int = 0
    timestamp_ms: int = START_MS


class Record(NamedTuple):
    """A message as Kafka or bronze holds it; ``timestamp_type`` is 0 for CreateTime, 1 for
    LogAppendTime.
    """

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] | None


def numbered(
    count: int, partitions: int = 1, *, start: int = 0, padding: bytes = b""
) -> Iterator[Outgoing]:
    """Messages that all differ, dealt to the partitions in turn."""
    for number in range(start, start + count):
        yield Outgoing(
            value=b"value %d %b" % (number, padding),
            key=b"key %d" % number,
            partition=number % partitions,
            timestamp_ms=START_MS + number,
        )


class Kafka:
    """The topics of one broker. ``settings`` are those of a Kafka client."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings: Final[dict[str, Any]] = {**QUIET, **settings}
        self._admin: Final = AdminClient(self.settings)

    def create(self, topic: str, partitions: int = 1, **config: str) -> str:
        """Create the topic; its name. ``config`` has underscores in place of dots."""
        settings = {name.replace("_", "."): value for name, value in config.items()}
        new = NewTopic(topic, partitions, 1, config=settings)
        for created in self._admin.create_topics([new], operation_timeout=SECONDS).values():
            created.result(SECONDS)
        return topic

    def add_partitions(self, topic: str, total: int) -> None:
        """Give the topic more partitions, ``total`` in all."""
        grown = self._admin.create_partitions([NewPartitions(topic, total)])
        grown[topic].result(SECONDS)
        wait_until(lambda: self.partitions(topic) == total, "the new partitions are there")

    def configure(self, topic: str, **config: str) -> None:
        """Give the topic other settings, as of ``create``."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        for done in self._admin.incremental_alter_configs([resource]).values():
            done.result(SECONDS)

    def delete(self, topic: str) -> None:
        """Delete the topic and wait until it is gone."""
        self._admin.delete_topics([topic], operation_timeout=SECONDS)[topic].result(SECONDS)
        wait_until(lambda: not self.partitions(topic), "the topic is gone")

    def cut_off(self, topic: str, partition: int, offset: int) -> None:
        """Delete all messages before ``offset``, as retention does."""
        place = TopicPartition(topic, partition, offset)
        self._admin.delete_records([place])[place].result(SECONDS)

    def partitions(self, topic: str) -> int:
        """How many partitions the topic has, 0 if it isn't there."""
        there = self._admin.list_topics(timeout=SECONDS).topics
        return len(there[topic].partitions) if topic in there else 0

    def count(self, topics: Iterable[str]) -> int:
        """How many offsets the topics have given away."""
        consumer = Consumer({**self.settings, "group.id": "test"})
        end = 0

        def is_told(place: TopicPartition) -> bool:
            nonlocal end
            try:
                _, end = consumer.get_watermark_offsets(place, SECONDS)
            except KafkaException as error:
                # The topic is just being made.
                if error.args[0].code() not in _WITHOUT_LEADER:
                    raise
                return False
            return True

        total = 0
        try:
            for topic in topics:
                for number in range(self.partitions(topic)):
                    place = TopicPartition(topic, number)
                    wait_until(partial(is_told, place), f"{topic}/{number} has a leader")
                    total += end
        finally:
            consumer.close()
        return total

    def send(self, topic: str, messages: Iterable[Outgoing], **settings: str) -> None:
        """Send messages, in their order, and wait until the broker has them. ``settings`` of the
        producer have underscores in place of dots.
        """
        more = {name.replace("_", "."): value for name, value in settings.items()}
        # One request at a time keeps their order too. For an idempotent producer's id, librdkafka
        # waits half a second.
        order: dict[str, Any] = {"acks": "all", "max.in.flight.requests.per.connection": 1}
        options = {**order, "message.max.bytes": 12_000_000, "linger.ms": 5}
        producer = Producer({**self.settings, **options, **more})
        produce(producer, topic, messages)

    def send_in_transaction(
        self, topic: str, messages: Iterable[Outgoing], *, commit: bool = True
    ) -> None:
        """Send messages in a transaction, which is committed or else aborted."""
        producer = self.transactional_producer(topic)
        producer.begin_transaction()
        produce(producer, topic, messages)
        (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS)

    def transactional_producer(self, name: str) -> Producer:
        """A producer that can begin its first transaction."""
        producer = Producer({**self.settings, "transactional.id": name})
        producer.init_transactions(SECONDS)
        return producer

    def records_by_topic(self, topics: Iterable[str]) -> dict[str, list[Record]]:
        """``records`` of each topic."""
        return {topic: self.records(topic) for topic in topics}

    def records(self, topic: str) -> list[Record]:
        """What the topic holds, without what open and aborted transactions wrote, by partition and
        offset.
        """
        consumer = Consumer(
            {
                **self.settings,
                "group.id": "test",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                # An end is told when a request for more has come back empty.
                "fetch.wait.max.ms": 10,
            }
        )
        records: list[Record] = []
        ended: set[int | None] = set()
        deadline = time.monotonic() + SECONDS
        try:
            count = self.partitions(topic)
            # From the beginning, wherever that is: what is gone is out of range. To ask for it
            # first takes librdkafka half a second.
            consumer.assign([TopicPartition(topic, number, 0) for number in range(count)])
            while len(ended) < count:
                assert time.monotonic() < deadline, f"{topic} has no end"
                for message in consumer.consume(10_000, timeout=0.02):
                    error = message.error()
                    if error is None:
                        records.append(_record(message))
                        continue
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    ended.add(message.partition())
        finally:
            consumer.close()
        return sorted(records, key=lambda record: (record.partition, record.offset))


def produce(producer: Producer, topic: str, messages: Iterable[Outgoing]) -> None:
    """Send messages with a producer of one's own and wait until the broker has them."""
    produce_to(producer, ((topic, message) for message in messages))


def produce_to(producer: Producer, messages: Iterable[tuple[str, Outgoing]]) -> None:
    """``produce`` messages, each to a topic of its own."""
    problems: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            problems.append(error)

    for topic, message in messages:
        # Of Any: a list of the type that librdkafka wants could hold text too.
        headers: list[Any] = list(message.headers or ())
        send = partial(
            producer.produce,
            topic,
            value=message.value,
            key=message.key,
            partition=message.partition,
            headers=headers,
            timestamp=message.timestamp_ms,
            on_delivery=delivered,
        )
        try:
            send()
        except BufferError:
            # The queue is full: wait until part of it is delivered.
            producer.poll(SECONDS)
            send()
        producer.poll(0)
    assert producer.flush(SECONDS) == 0
    assert not problems


def _record(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers()
    partition, offset = message.partition(), message.offset()
    key: Any = message.key()
    value: Any = message.value()
    assert partition is not None and offset is not None
    return Record(
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp,
        timestamp_type=int(kind == TIMESTAMP_LOG_APPEND_TIME),
        key=key,
        value=value,
        headers=tuple(headers) if headers else None,
    )


def landed(lake: Lake, topic: str) -> list[Record]:
    """What bronze holds of a topic, by partition and offset; duplicates too."""
    return landed_by_topic(lake, [topic])[topic]


def landed_by_topic(lake: Lake, topics: Iterable[str]) -> dict[str, list[Record]]:
    """What bronze holds of each topic, by one query."""
    records: dict[str, list[Record]] = {topic: [] for topic in topics}
    names = ", ".join(f"'{topic}'" for topic in records)
    rows = lake.sql(
        f"""
        select topic, partition, offset, unix_millis(timestamp) as timestamp_ms, timestamp_type,
            key, value, headers
        from bronze.raw_payloads where topic in ({names}) order by partition, offset
        """
    )
    for row in rows:
        headers = row["headers"] and tuple((each["key"], each["value"]) for each in row["headers"])
        records[row.pop("topic")].append(Record(**{**row, "headers": headers}))
    return records


def expire_snapshots(lake: Lake) -> None:
    """Leave bronze its current snapshot only."""
    lake.sql(
        f"call lake.system.expire_snapshots(table => '{BRONZE}', retain_last => 1,"
        " older_than => timestamp '2999-01-01')"
    )


def compact(lake: Lake) -> None:
    """Rewrite bronze's files as few."""
    lake.sql(
        f"call lake.system.rewrite_data_files(table => '{BRONZE}',"
        " options => map('rewrite-all', 'true'))"
    )


def forget_positions(lake: Lake) -> None:
    """Drop the summary, so that the next landing looks at all of bronze."""
    lake.sql("drop table if exists bronze.topic_partitions")


def positions(records: Iterable[Record]) -> list[tuple[int, int]]:
    """Partition and offset of each."""
    return [(record.partition, record.offset) for record in records]
