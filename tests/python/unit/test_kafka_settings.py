"""The options of Kafka's clients."""

import pytest

from dbt_lakehouse.config.kafka import KafkaSettings
from dbt_lakehouse.landing.kafka.admin import PartitionLog
from dbt_lakehouse.landing.kafka.reading import consumer_group

SERVERS = {"bootstrap.servers": "broker:9092"}


def test_a_read_does_not_wait_for_messages_behind_its_range() -> None:
    """A broker's wait for them would hold up each partition's end."""
    assert KafkaSettings(SERVERS).source_options()["kafka.fetch.max.wait.ms"] == "10"
    given = KafkaSettings({**SERVERS, "fetch.max.wait.ms": "70"})
    assert given.source_options()["kafka.fetch.max.wait.ms"] == "70"
    assert "fetch.max.wait.ms" not in KafkaSettings(SERVERS).admin_options()


def test_isolation_and_timeouts_of_a_read() -> None:
    options = KafkaSettings({**SERVERS, "request.timeout.ms": "30000"}).source_options()
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["kafka.request.timeout.ms"] == "30000"
    assert (
        options["kafka.default.api.timeout.ms"] == options["kafkaConsumer.pollTimeoutMs"] == "30000"
    )


LOGS = [PartitionLog("orders", "orders", number, "id", 0, 9, epoch=3) for number in range(2)]


def test_consumers_stay_open_while_logs_grow() -> None:
    settings = KafkaSettings({**SERVERS, "sasl.jaas.config": "a password"})
    group = consumer_group(settings, LOGS)
    later = [log._replace(start=5, end=50) for log in reversed(LOGS)]
    assert group is not None and group == consumer_group(KafkaSettings(settings.given), later)
    # Brokers and logs see it. By a hash that anybody can compute, passwords could be tried.
    assert consumer_group(KafkaSettings(SERVERS), LOGS) != group
    assert len(group) == len("spark-kafka-relation-") + 32


@pytest.mark.parametrize(
    "log",
    [
        LOGS[1]._replace(topic_id="of a topic that was made anew"),
        LOGS[1]._replace(epoch=4),
        LOGS[1]._replace(partition=2),
    ],
)
def test_other_logs_are_not_read_by_consumers_that_have_fetched_ahead(log: PartitionLog) -> None:
    settings = KafkaSettings(SERVERS)
    assert consumer_group(settings, [LOGS[0], log]) != consumer_group(settings, LOGS)


@pytest.mark.parametrize("log", [LOGS[1]._replace(topic_id=None), LOGS[1]._replace(epoch=None)])
def test_consumers_of_logs_that_can_not_be_told_from_others_are_closed(log: PartitionLog) -> None:
    assert consumer_group(KafkaSettings(SERVERS), [LOGS[0], log]) is None
    assert consumer_group(KafkaSettings(SERVERS), []) is None


def test_a_look_for_a_message_fetches_no_more_than_that() -> None:
    given = {**SERVERS, "max.partition.fetch.bytes": "9", "security.protocol": "SSL"}
    options = KafkaSettings(given).look_options()
    assert options["fetch.max.bytes"] == options["max.partition.fetch.bytes"] == "1"
    assert options["isolation.level"] == "read_committed"
    assert options["security.protocol"] == "SSL"
