"""Landed messages, read from bronze without Spark, each with its format."""

from typing import Final, NamedTuple

from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of, sql_literal
from dbt_lakehouse.queries.schemas import know_kept_schemas
from dbt_lakehouse.runs.formats import formats_of
from dbt_lakehouse.stored.messages import bytes_of, is_forgotten, pairs_of
from python_udfs.core.events import Event, Headers
from python_udfs.debezium.avro import ids_of
from python_udfs.registry import decode_payload

# The most messages in memory.
_SPAN: Final = 10_000


class Landed(NamedTuple):
    """A message that has landed."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    """Kafka's, in microseconds since the epoch."""
    key: bytes | None
    value: bytes | None
    headers: Headers
    has_forgotten: bool
    """Whether `lakehouse forget` has removed bytes from it."""
    format: str | None
    """The format in which it was or will be decoded; None without one."""

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing of it is left."""
        return self.has_forgotten and self.value is None

    def events(self) -> list[Event]:
        """Its events, by the current decoders."""
        return decode_payload(self.format, self.key, self.value, self.headers)


def landed(reader: Reader, other_events: str, condition: str) -> list[Landed]:
    """The messages that meet a condition, in the order of their places; the decoder knows their
    schemas. ``condition`` is DuckDB's SQL over topic, partition and offset; ``other_events`` is
    the name of that table, which need not be built. Raises the errors of reading.
    """
    place = 'topic, "partition", "offset"'
    bronze = reader.quoted(reader.known(BRONZE))
    # A message decoded later has the format that its topic had then.
    decoded, formats = f"select {place}, null::text as format from {bronze} where false", {}
    if other_events in reader.names:
        known = reader.known(other_events)
        formats = formats_of(reader.look_at(known))
        decoded = (
            f"select {place}, max(format) as format from {reader.quoted(known)}"
            f" where {condition} group by all"
        )
    found = []
    for topic, partition, offset, timestamp, key, value, headers, landed_at, format_name in rows_of(
        reader,
        f'select {place}, epoch_us("timestamp"), key, value, headers, epoch_us(landed_at), format'
        f" from (select * from {bronze} where {condition}) left join ({decoded}) using ({place})"
        f" order by {place}",
    ):
        message = bytes_of(key), bytes_of(value), pairs_of(headers)
        if format_name is None and topic in formats:
            format_name = formats[topic].then(landed_at).of(*message)
        found.append(
            Landed(
                topic, partition, offset, timestamp, *message, is_forgotten(headers), format_name
            )
        )
    know_kept_schemas(reader, ids_of(text for each in found for text in (each.key, each.value)))
    return found


def spans(reader: Reader, condition: str) -> list[str]:
    """Conditions that split the messages of a condition into thousands, in the order of their
    places: all of them may exceed memory.
    """
    bronze = reader.quoted(reader.known(BRONZE))
    found: list[tuple[str, int, int, int]] = rows_of(
        reader,
        'select topic, "partition", min("offset"), max("offset") from (select topic, "partition",'
        ' "offset", (row_number() over (partition by topic, "partition" order by "offset") - 1)'
        f" // {_SPAN} as span from {bronze} where {condition})"
        ' group by topic, "partition", span order by topic, "partition", span',
    )
    return [
        f'topic = {sql_literal(topic)} and "partition" = {partition}'
        f' and "offset" between {first} and {last}'
        for topic, partition, first, last in found
    ]
