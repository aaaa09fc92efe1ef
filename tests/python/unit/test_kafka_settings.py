"""The options of Kafka's clients."""

from dbt_lakehouse.config.kafka import KafkaSettings

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
