"""A message that has landed, read from bronze without Spark."""

from typing import Final

from dbt_lakehouse.commands.explain.guess import Guess
from dbt_lakehouse.commands.explain.source import Message, UnusablePayloadError
from dbt_lakehouse.commands.landed_schemas import know_landed_schemas
from dbt_lakehouse.commands.messages import bytes_of, is_forgotten, pairs_of
from dbt_lakehouse.commands.sql.command import rows_of, sql_literal
from dbt_lakehouse.commands.topics import landed_topics
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.texts import did_you_mean
from python_udfs.registry import FORMATS

_BRONZE: Final = "bronze.raw_payloads"


def from_bronze(
    reader: Reader, silver: str, topic: str, partition: int | None, offset: int
) -> Message:
    """A message with the format by which it was decoded, if it was.

    Raises ``UnusablePayloadError``, and what reading raises.
    """
    place = f'topic = {sql_literal(topic)} and "offset" = {offset}'
    if partition is not None:
        place += f' and "partition" = {partition}'
    found = rows_of(
        reader,
        'select "partition", key, value, headers'
        f" from {reader.quoted(reader.known(_BRONZE))} where {place} order by 1",
    )
    if len(found) > 1:
        partitions = ", ".join(str(number) for number, *_ in found)
        raise UnusablePayloadError(
            f"{topic} has offset {offset} in partitions {partitions}: --partition says which"
        )
    if not found:
        landed = landed_topics(reader)
        if topic not in landed:
            raise UnusablePayloadError(
                f"{_BRONZE} has no message of the topic {topic}{did_you_mean(topic, landed)}:"
                " --kafka reads it from Kafka"
            )
        of_partition = "" if partition is None else f", partition {partition}"
        raise UnusablePayloadError(
            f"{_BRONZE} has no offset {offset} of {topic}{of_partition}: has it landed? --kafka"
            " reads it from Kafka"
        )
    ((number, key, value, headers),) = found
    if is_forgotten(headers) and value is None:
        raise UnusablePayloadError(
            f"the message at {topic}, partition {number}, offset {offset} is forgotten: `lakehouse"
            " forget` has taken its bytes out"
        )
    format_name = _format_of(reader, silver, f'{place} and "partition" = {number}')
    told = (
        None
        if format_name is None
        else Guess(format_name, "as vars.topics said when it was decoded")
    )
    message = Message(bytes_of(key), bytes_of(value), told, pairs_of(headers))
    know_landed_schemas(reader, (message.key, message.value))
    return message


def _format_of(reader: Reader, silver: str, place: str) -> str | None:
    """The format by which a message was decoded; None if it wasn't, or it had none."""
    name = f"{silver}.change_events"
    if name not in reader.names:
        return None
    formats = rows_of(reader, f"select distinct format from {reader.quoted(name)} where {place}")
    return next((each for (each,) in formats if each in FORMATS), None)
