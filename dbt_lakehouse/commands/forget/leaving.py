"""What remains of the payloads of removed events, and of the rows of other_events."""

from collections.abc import Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from dbt_lakehouse.commands.forget.entities import Pipeline
from dbt_lakehouse.commands.forget.payloads import BATCH_FORMATS, without_records
from dbt_lakehouse.commands.forget.reading import DECODED, EVENT, POSITION, READ, keep
from dbt_lakehouse.config.topics import TopicRule
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake.bronze import FORGOTTEN_HEADERS, IS_FORGOTTEN
from dbt_lakehouse.runs.formats import is_asked_for

EVENTS: Final = "forget_events"
"""topic, partition, offset, event_index of the events to remove."""
PAYLOADS: Final = "forget_payloads"
"""The payloads that contain them: topic, partition, offset, timestamp, log_time, landed_at,
format, what remains of them (new_key, new_value, new_headers), and whether a part remains
(is_part).
"""
PLACES: Final = "forget_places"
"""The new state of rows of other_events: topic, partition, offset, event_index, timestamp,
log_time, format, and ``becomes``: a ``tombstone``, whether the row existed or not; ``nothing``;
or ``the same``, with metadata that leaves out the others.
"""
_LEFT: Final = "forget_left"
VIEWS: Final = (EVENTS, PAYLOADS, PLACES, _LEFT)


class OutdatedError(LakehouseError):
    """The tables differ from what the current decoders make of bronze. The message says what to
    run.
    """


class InseparableError(LakehouseError):
    """A payload holds rows of other keys too, and its format can't be split."""


def leave(
    spark: SparkSession,
    pipeline: Pipeline,
    rules: Sequence[TopicRule],
    namespace: str,
    digests: frozenset[str],
) -> None:
    """Make PAYLOADS and PLACES for EVENTS, whose payloads are read. For Aerospike, the events are
    those of a namespace's records with these digests.

    Raises ``OutdatedError`` and ``InseparableError``.
    """
    keep(_left(spark, namespace, digests), _LEFT)
    _refuse_inseparable(spark)
    _refuse_outdated(spark, pipeline)
    keep(_payloads(spark, pipeline, rules), PAYLOADS)
    keep(_places(spark, pipeline), PLACES)


def _left(spark: SparkSession, namespace: str, digests: frozenset[str]) -> DataFrame:
    """What remains of the payloads of the events, and which records of each are removed."""

    def left(format: str | None, key: Any, value: Any) -> Any:
        if format not in BATCH_FORMATS:
            return None, None, None
        key, value = (None if each is None else bytes(each) for each in (key, value))
        return without_records(format, key, value, namespace, digests)

    left_of = udf(left, "struct<key: binary, value: binary, gone: array<int>>", useArrow=False)
    rows = spark.sql(f"select * from {READ} left semi join {EVENTS} using ({POSITION})").withColumn(
        "left", left_of("format", "key", "value")
    )
    return rows.selectExpr(
        *(POSITION.split(", ")),
        "timestamp",
        "landed_at",
        "format",
        "headers",
        f"{IS_FORGOTTEN} as is_forgotten",
        "left.value is not null as is_part",
        "if(left.value is null, null, left.key) as new_key",
        "left.value as new_value",
        "left.gone",
    )


def _refuse_inseparable(spark: SparkSession) -> None:
    """Raise ``InseparableError`` if a payload that is removed as a whole has events that stay."""
    inseparable = f"""
        select {POSITION}, max(left_of.format) as format
        from {DECODED}
        inner join (select * from {_LEFT} where gone is null) as left_of using ({POSITION})
        left join (select {EVENT}, true as goes from {EVENTS}) using ({EVENT})
        where operation <> 'tombstone'
        group by {POSITION}
        having bool_or(goes) and bool_or(goes is null)
        limit 1
    """
    for topic, partition, offset, format in spark.sql(inseparable).collect():
        raise InseparableError(
            f"the message at {topic}/{partition}/{offset} holds rows of other keys beside this"
            f" one's, and nothing can be taken out of {format}: forget all of its keys together"
        )


def _refuse_outdated(spark: SparkSession, pipeline: Pipeline) -> None:
    """Raise ``OutdatedError`` if other events than intended would be removed."""
    not_meant = f"""
        select 1 from (
            select {POSITION}, explode(gone) as event_index from {_LEFT}
            union all
            -- Of other formats, a payload goes as a whole.
            select {EVENT} from {DECODED}
            left semi join (select * from {_LEFT} where gone is null) using ({POSITION})
            where operation <> 'tombstone'
        )
        left anti join {EVENTS} using ({EVENT})
    """
    not_gone = f"""
        select 1 from {EVENTS}
        inner join (select * from {_LEFT} where gone is not null) using ({POSITION})
        left join {DECODED} using ({EVENT})
        left anti join (
            select {EVENT} from {pipeline.other_events.path} where added_by is not null
        ) using ({EVENT})
        where
            not array_contains(gone, event_index)
            and coalesce(operation <> 'tombstone', not is_forgotten)
    """
    if not spark.sql(not_meant).isEmpty() or not spark.sql(not_gone).isEmpty():
        raise OutdatedError(
            "today's decoders give other events for payloads of this key than the tables have:"
            " `dbt run --full-refresh`, then forget again"
        )


def _payloads(spark: SparkSession, pipeline: Pipeline, rules: Sequence[TopicRule]) -> DataFrame:
    """The payloads of the events, with their log times and what is to remain of them."""
    return spark.sql(
        f"""
        select
            {POSITION}, timestamp, landed_at, format, is_part, new_key, new_value,
            coalesce(times.log_time, timestamp) as log_time,
            {_headers_left(rules)} as new_headers
        from {_LEFT}
        left join {pipeline.log_times.path} as times using ({POSITION})
        """
    )


def _headers_left(rules: Sequence[TopicRule]) -> str:
    """SQL of the headers that remain in a message from which something was removed: those that
    tell its format.
    """
    conditions = [each.when for each in rules if each.when is not None and each.when.header]
    if not conditions:
        return FORGOTTEN_HEADERS
    told = " or ".join(f"({is_asked_for(each)})" for each in conditions)
    kept = f"filter(headers, header -> {told})"
    return f"concat({FORGOTTEN_HEADERS}, coalesce({kept}, array()))"


def _places(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The new state of the rows of other_events."""
    places = f"{EVENT}, timestamp, log_time, format"
    events = pipeline.other_events.path
    return spark.sql(
        f"""
        with parts as (
            select * from {PAYLOADS} where is_part
        ),

        wholes as (
            select * from {PAYLOADS} where not is_part
        ),

        decoded as (
            select {POSITION}, event.event_index, event.metadata
            from parts
            lateral view explode(decode_payload(format, new_key, new_value)) events as event
        )

        select {places}, 'tombstone' as becomes, cast(null as string) as metadata
        from {EVENTS} inner join parts using ({POSITION})
        union all
        select {POSITION}, 0, timestamp, log_time, format, 'tombstone', null from wholes
        union all
        select {places}, 'nothing', null
        from {events} left semi join wholes using ({POSITION})
        where event_index > 0
        union all
        select {places}, 'the same', decoded.metadata
        from {events} as events
        inner join decoded using ({EVENT})
        left anti join {EVENTS} using ({EVENT})
        where operation <> 'tombstone' and not events.metadata <=> decoded.metadata
        """
    )
