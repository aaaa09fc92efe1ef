"""The brokers' metadata of topics and offsets, through Kafka's own AdminClient in Spark's JVM.

It is requested before anything is read: the AdminClient answers within seconds and names the
trouble, where the Kafka source would retry for minutes and then say ``listNodes``.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import PREFIX, KafkaSettings
from dbt_lakehouse.config.kafka_probe import probe
from dbt_lakehouse.config.topics import TopicMatcher, TopicRule
from dbt_lakehouse.errors import ConfigurationError, KafkaError, LakehouseError
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark.java import own_object
from dbt_lakehouse.spark.jvm import packages

_KAFKA: Final = "org.apache.kafka"
# A broker without topic ids reports this one for each topic.
_NO_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
_REFUSED: Final = ("TopicAuthorizationException", "ClusterAuthorizationException")
_LOGS: Final = Path(__file__).parent / "Logs.java"
_NO_SUCH_TOPIC: Final = ("UnknownTopicOrPartitionException", "InvalidTopicException")

_Partition = tuple[str, int, str | None]
"""Kafka's topic, the number and the topic's id."""


class PartitionLog(NamedTuple):
    """A partition, as its broker has it.

    ``kafka_topic`` is Kafka's name of the topic, ``topic`` the one in bronze. Offsets from
    ``start`` to before ``end`` can be read; with read_committed, ``end`` lies before the first
    open transaction. ``topic_id`` tells a topic from one of the same name created later; None
    where the broker has no ids. ``epoch`` counts the partition's leaders; None where the broker
    doesn't say it.
    """

    kafka_topic: str
    topic: str
    partition: int
    topic_id: str | None
    start: int
    end: int
    epoch: int | None = None


class TopicLogs(NamedTuple):
    """The brokers' metadata of the topics to land.

    ``partitions`` are ordered by Kafka's topic and partition. ``stalled`` maps topics that can't
    be read, by bronze's name, to the error; the others can still be read. ``policies`` are the
    topics' ``cleanup.policy``, by bronze's name; None if this user lacks the right to request it
    (DescribeConfigs).
    """

    partitions: list[PartitionLog]
    stalled: dict[str, LakehouseError]
    policies: dict[str, str | None]


def read_logs(
    spark: SparkSession, settings: KafkaSettings, rules: Sequence[TopicRule]
) -> TopicLogs:
    """The metadata of the topics that the rules bring from Kafka.

    Raises ``KafkaError`` if the brokers can't be used, and ``ConfigurationError`` for settings
    that they refuse.
    """
    probe(settings)
    with _admin(spark, settings) as (jvm, admin):
        topics = _topics(jvm, admin, rules)
        partitions, stalled = _partitions(admin, settings, list(topics))
        offsets = _offsets(jvm, admin, settings, partitions)
        readable = {kafka_topic for kafka_topic, _, _ in partitions}
        policies = _policies(jvm, admin, sorted(readable))
    logs = [
        PartitionLog(
            kafka_topic=kafka_topic,
            topic=topics[kafka_topic],
            partition=partition,
            topic_id=topic_id,
            start=start,
            end=end,
            epoch=epoch,
        )
        for kafka_topic, partition, topic_id in sorted(partitions)
        for start, end, epoch in [offsets[kafka_topic, partition]]
    ]
    return TopicLogs(
        logs,
        {topics[kafka_topic]: error for kafka_topic, error in stalled.items()},
        {topics[kafka_topic]: policy for kafka_topic, policy in policies.items()},
    )


def topic_ids(
    spark: SparkSession, settings: KafkaSettings, rules: Sequence[TopicRule]
) -> dict[str, str | None]:
    """The id of each existing topic that the rules bring from Kafka, by Kafka's name; None where
    the brokers have no ids. Raises the same errors as ``read_logs``.
    """
    with _admin(spark, settings) as (jvm, admin):
        topics = list(_topics(jvm, admin, rules))
        answers = admin.describeTopics(topics).topicNameValues() if topics else {}
        ids: dict[str, str | None] = {}
        for topic in topics:
            try:
                ids[topic] = _topic_id(answers[topic].get())
            except Py4JJavaError as error:
                if _kind(error) not in _NO_SUCH_TOPIC:
                    raise
    return ids


@contextmanager
def _admin(spark: SparkSession, settings: KafkaSettings) -> Iterator[tuple[Any, Any]]:
    jvm: Any = packages(spark)
    properties = jvm.java.util.Properties()
    for name, value in settings.admin_options().items():
        properties.setProperty(name, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    except Py4JJavaError as error:
        raise ConfigurationError(
            f"Kafka's client refuses the profile's {PREFIX}* settings: {error_text(error)}"
        ) from None
    try:
        yield jvm, admin
    except Py4JJavaError as error:
        raise _explained(error, settings) from None
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(1))


def _topics(jvm: Any, admin: Any, rules: Sequence[TopicRule]) -> dict[str, str]:
    """Kafka's names of the topics to land, with bronze's names."""
    matcher = TopicMatcher(jvm, rules)
    names = [rule.topic for rule in rules if rule.topic is not None]
    if any(rule.pattern is not None and rule.from_kafka for rule in rules):
        names += sorted(admin.listTopics().names().get())
    topics: dict[str, str] = {}
    for name in names:
        rule = matcher.rule(name)
        if rule is not None and rule.from_kafka:
            topics[name] = rule.land_as or name
    if len(set(topics.values())) < len(topics):
        raise ConfigurationError(
            "vars.topics lets two topics land under one name, where their offsets would collide:"
            f" {topics}"
        )
    return topics


def _partitions(
    admin: Any, settings: KafkaSettings, topics: Sequence[str]
) -> tuple[list[_Partition], dict[str, LakehouseError]]:
    """The partitions of the readable topics; and the other topics, with their errors."""
    lines = own_object(_LOGS).partitions(admin, list(topics)) if topics else ""
    partitions = [
        (topic, int(partition), _known_id(topic_id))
        for topic, topic_id, partition in _fields(lines)
    ]
    readable = {topic for topic, _, _ in partitions}
    others, stalled = _doubtful(admin, settings, [each for each in topics if each not in readable])
    return partitions + others, stalled


def _fields(lines: str) -> Iterator[list[str]]:
    return (line.split("\t") for line in lines.splitlines())


def _doubtful(
    admin: Any, settings: KafkaSettings, topics: Sequence[str]
) -> tuple[list[_Partition], dict[str, LakehouseError]]:
    """``_partitions``, one by one."""
    partitions: list[_Partition] = []
    stalled: dict[str, LakehouseError] = {}
    answers = admin.describeTopics(list(topics)).topicNameValues() if topics else {}
    for topic in topics:
        try:
            description = answers[topic].get()
        except Py4JJavaError as error:
            if _kind(error) in _NO_SUCH_TOPIC:
                stalled[topic] = ConfigurationError(
                    f"vars.topics names {topic}, which the broker at {settings.servers} does not"
                    " have: correct the name, create the topic, or give the entry `kafka: false`"
                    " if it comes from captures only"
                )
                continue
            if "Authorization" not in _kind(error):
                # An error of the brokers or the login, not of this topic.
                raise
            stalled[topic] = _explained(error, settings)
            continue
        found = list(description.partitions())
        leaderless = [
            str(each.partition())
            for each in found
            if each.leader() is None or each.leader().isEmpty()
        ]
        if leaderless:
            stalled[topic] = KafkaError(
                f"no broker leads topic {topic}, partition {', '.join(leaderless)} (bootstrap"
                f" servers {settings.servers}): bring the brokers back that hold its replicas"
            )
            continue
        topic_id = _topic_id(description)
        partitions += [(topic, each.partition(), topic_id) for each in found]
    return partitions, stalled


def _policies(jvm: Any, admin: Any, topics: Sequence[str]) -> dict[str, str | None]:
    """The ``cleanup.policy`` of topics, its words in order; None where requests for it are not
    allowed.
    """
    config = jvm.org.apache.kafka.common.config.ConfigResource
    kind = config.Type.TOPIC
    resources = {topic: config(kind, topic) for topic in topics}
    answers = admin.describeConfigs(list(resources.values())).values() if resources else {}
    policies: dict[str, str | None] = {}
    for topic, resource in resources.items():
        try:
            said = str(answers[resource].get().get("cleanup.policy").value())
            policies[topic] = ",".join(sorted(said.replace(" ", "").split(",")))
        except Py4JJavaError as error:
            if _kind(error) not in (*_NO_SUCH_TOPIC, *_REFUSED):
                raise
            policies[topic] = None
    return policies


def _topic_id(description: Any) -> str | None:
    return _known_id(str(description.topicId().toString()))


def _known_id(topic_id: str) -> str | None:
    return None if topic_id == _NO_TOPIC_ID else topic_id


def _offsets(
    jvm: Any, admin: Any, settings: KafkaSettings, partitions: Sequence[_Partition]
) -> dict[tuple[str, int], tuple[int, int, int | None]]:
    """The first offset of each partition (topic and number), the one behind its last message, and
    its leader's epoch.
    """
    if not partitions:
        return {}
    level = getattr(jvm.org.apache.kafka.common.IsolationLevel, settings.isolation_level.upper())
    options = jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)
    asked = "\n".join(f"{topic}\t{partition}" for topic, partition, _ in partitions)
    return {
        (topic, int(partition)): (int(start), int(end), None if epoch == "-1" else int(epoch))
        for topic, partition, start, end, epoch in _fields(
            own_object(_LOGS).offsets(admin, options, asked)
        )
    }


def _cause(error: Py4JJavaError) -> Any:
    """The innermost Kafka exception of a Java error, or its innermost exception."""
    found = cause = error.java_exception
    while cause is not None:
        if cause.getClass().getName().startswith(_KAFKA):
            found = cause
        following = cause.getCause()
        if following is None and not found.getClass().getName().startswith(_KAFKA):
            found = cause
        cause = following
    return found


def _kind(error: Py4JJavaError) -> str:
    return str(_cause(error).getClass().getSimpleName())


def _explained(error: Py4JJavaError, settings: KafkaSettings) -> LakehouseError:
    """The user's error for an exception of the AdminClient."""
    kind = _kind(error)
    reason = error_text(error)
    where = f"the Kafka broker at {settings.servers}"
    if any(word in kind for word in ("Authentication", "Sasl", "Ssl")):
        return ConfigurationError(
            f"{where} refused to authenticate us: {reason}. Look at {PREFIX}security.protocol,"
            f" {PREFIX}sasl.* and {PREFIX}ssl.* in the profile"
        )
    if "Authorization" in kind:
        return ConfigurationError(
            f"{where} does not let this user look at the topics: {reason}. It needs Describe and"
            " Read on them"
        )
    if "Timeout" in kind:
        return KafkaError(
            f"{where} accepts connections but did not answer within {settings.timeout_ms} ms"
            f" ({reason}). Is it a Kafka listener, do {PREFIX}security.protocol and {PREFIX}sasl.*"
            " in the profile fit it and each other, and can the addresses that it advertises be"
            " reached from here?"
        )
    return KafkaError(f"{where} could not be asked: {kind}: {reason}")
