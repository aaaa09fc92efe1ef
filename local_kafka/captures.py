"""Captures as Kafka topics: sends the messages of ``seeds/`` to a broker, unchanged.

A topic gets as many partitions as its capture has, and each message gets the partition, key,
value, headers and time of the capture. Messages are sent in the order of the file, so that an
empty topic gives each message the offset of the capture.
"""

import time
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from dbt_lakehouse.landing.captures import Capture, read_captures

SECONDS: Final = 30.0
# librdkafka logs errors that it then retries; final errors are raised.
QUIET: Final = {"log_level": 2}
# A new partition gets its leader a moment later.
NOT_YET: Final = (
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


class FillError(Exception):
    """A capture can't become a topic, or the broker did not take it. The message says why."""


def read(files: Iterable[Path]) -> dict[str, list[Capture]]:
    """The messages of the capture files by topic, in their order.

    Raises ``CaptureError`` for a line that is not a message, and ``FillError`` for one that Kafka
    could not return unchanged: without topic or partition, or without a time after 1970 (a
    producer would set its own).
    """
    topics: dict[str, list[Capture]] = {}
    for file in sorted(files):
        with file.open("rb") as stream:
            for number, capture in read_captures(stream):
                if (
                    capture.topic is None
                    or capture.partition is None
                    or capture.timestamp_ms is None
                    or capture.timestamp_ms <= 0
                ):
                    raise FillError(f"{file.name}, line {number}: no topic, partition or time")
                topics.setdefault(capture.topic, []).append(capture)
    return topics


def partition_counts(captures: Mapping[str, list[Capture]]) -> dict[str, int]:
    """The number of partitions that each topic needs."""
    return {
        topic: max(message.partition or 0 for message in messages) + 1
        for topic, messages in captures.items()
    }


def create_topics(settings: Mapping[str, str], partitions: Mapping[str, int]) -> None:
    """Create the missing topics, with these numbers of partitions. Raises ``KafkaException``.

    ``settings`` are those of a Kafka client.
    """
    admin = AdminClient({**QUIET, **settings})
    there = admin.list_topics(timeout=SECONDS).topics
    missing = [NewTopic(name, count, 1) for name, count in partitions.items() if name not in there]
    if missing:
        for created in admin.create_topics(missing, operation_timeout=SECONDS).values():
            created.result(SECONDS)


def message_counts(settings: Mapping[str, str], topics: Iterable[str]) -> dict[str, int]:
    """The number of offsets that each topic has ever assigned, over all its partitions.

    Raises ``KafkaException``.
    """
    # It joins no group; librdkafka requires a name anyway.
    consumer = Consumer({**QUIET, **settings, "group.id": "local_kafka"})
    try:
        there = consumer.list_topics(timeout=SECONDS).topics
        counts = dict.fromkeys(topics, 0)
        for name in counts:
            for partition in there[name].partitions:
                counts[name] += _end(consumer, TopicPartition(name, partition))
    finally:
        consumer.close()
    return counts


def _end(consumer: Consumer, place: TopicPartition) -> int:
    """The offset that the partition's next message gets."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            _, end = consumer.get_watermark_offsets(place, timeout=SECONDS)
            return end
        except KafkaException as error:
            if error.args[0].code() not in NOT_YET or time.monotonic() > deadline:
                raise
        time.sleep(0.05)


def fill(settings: Mapping[str, str], captures: Mapping[str, list[Capture]]) -> dict[str, int]:
    """Create the topics of the captures, and send the messages of each that never had any.

    Returns the number of messages sent to each topic; topics with messages are left alone and
    left out. Raises ``KafkaException`` and, if the broker did not take each message at its place,
    ``FillError``.
    """
    create_topics(settings, partition_counts(captures))
    had = message_counts(settings, captures)
    empty = {topic: messages for topic, messages in captures.items() if not had[topic]}
    if empty:
        _send(settings, empty.values())
    return {topic: len(messages) for topic, messages in empty.items()}


def _send(settings: Mapping[str, str], captures: Iterable[list[Capture]]) -> None:
    problems: list[str] = []
    outstanding = 0

    def delivered(error: KafkaError | None, message: Message, capture: Capture) -> None:
        nonlocal outstanding
        outstanding -= 1
        place = f"{capture.topic}, partition {capture.partition}, offset {capture.offset}"
        if error is not None:
            problems.append(f"{place}: {error.str()}")
        elif capture.offset is not None and message.offset() != capture.offset:
            problems.append(f"{place} became offset {message.offset()}")

    # Idempotent: a repeated request neither doubles nor re-orders messages.
    producer = Producer({**QUIET, **settings, "enable.idempotence": True, "linger.ms": 5})
    for capture in chain.from_iterable(captures):
        producer.produce(
            capture.topic or "",
            partition=capture.partition or 0,
            key=capture.key,
            value=capture.value,
            headers=[*(capture.headers or ())],
            timestamp=capture.timestamp_ms or 0,
            on_delivery=partial(delivered, capture=capture),
        )
        outstanding += 1
        # Serves the delivery reports, so that the queue does not fill up.
        producer.poll(0)
    producer.flush(SECONDS)
    if outstanding:
        problems.append(f"{outstanding} messages were not confirmed within {SECONDS:.0f} s")
    if problems:
        raise FillError(f"the topics are not what the captures hold: {problems[0]}")
