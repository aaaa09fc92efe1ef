"""Find a landed message to explain."""

from dbt_lakehouse.commands.explain.guess import Guess
from dbt_lakehouse.commands.explain.source import Message, UnusablePayloadError
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import sql_literal
from dbt_lakehouse.stored.landed import landed
from dbt_lakehouse.stored.topics import landed_topics
from dbt_lakehouse.texts import did_you_mean
from python_udfs.registry import FORMATS


def from_bronze(
    reader: Reader, other_events: str, topic: str, partition: int | None, offset: int
) -> Message:
    """A message with the format by which it was decoded, if it has one; ``other_events`` is the
    name of that table.

    Raises ``UnusablePayloadError``, and the errors of reading.
    """
    place = f'topic = {sql_literal(topic)} and "offset" = {offset}'
    if partition is not None:
        place += f' and "partition" = {partition}'
    found = landed(reader, other_events, place)
    if len(found) > 1:
        partitions = ", ".join(str(each.partition) for each in found)
        raise UnusablePayloadError(
            f"{topic} has offset {offset} in partitions {partitions}: --partition says which"
        )
    if not found:
        topics = landed_topics(reader)
        if topic not in topics:
            raise UnusablePayloadError(
                f"{BRONZE} has no message of the topic {topic}{did_you_mean(topic, topics)}:"
                " --kafka reads it from Kafka"
            )
        of_partition = "" if partition is None else f", partition {partition}"
        raise UnusablePayloadError(
            f"{BRONZE} has no offset {offset} of {topic}{of_partition}: has it landed? --kafka"
            " reads it from Kafka"
        )
    (message,) = found
    if message.is_forgotten:
        raise UnusablePayloadError(
            f"the message at {topic}, partition {message.partition}, offset {offset} is forgotten:"
            " `lakehouse forget` has taken its bytes out"
        )
    told = None
    if message.format in FORMATS:
        told = Guess(message.format, "from vars.topics at the time of decoding")
    return Message(message.key, message.value, told, message.headers)
