"""Remove what was found from the tables.

In the order of ``steps``, an interrupted call can be repeated: the data that tells which payloads
belong to a key goes last.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.forget.entities import BRONZE, BuiltTable, Entity, Pipeline, exists
from dbt_lakehouse.commands.forget.finding import KEYS, key_condition, record_keys
from dbt_lakehouse.commands.forget.leaving import EVENTS, PAYLOADS, PLACES
from dbt_lakehouse.lake.tables import EMPTIED
from dbt_lakehouse.runs import commits
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.core.events import Event

_CLEARED: Final = (
    *(name for name in Event._fields if name not in ("event_index", "operation")),
    "added_by",
)


class Step(NamedTuple):
    """The removal from one table."""

    table: BuiltTable
    counting: str
    """SQL that counts the rows to remove."""
    run: Callable[[], None]


def steps(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> list[Step]:
    """The removals in order; tables that were never built are left out."""

    def delete(table: BuiltTable, condition: str) -> Step:
        def run() -> None:
            spark.sql(f"delete from {table.path} as target where {condition}")

        return Step(table, f"select count(*) from {table.path} as target where {condition}", run)

    of_key = (
        f"exists (select 1 from {KEYS} as known where {key_condition(entity, 'target', 'known')})"
    )
    of_event = f"""exists (
        select 1 from {EVENTS} as event
        where target.topic = event.topic and target.partition = event.partition
            and target.offset = event.offset and target.event_index = event.event_index
    )"""
    result = [
        delete(pipeline.quarantine, of_event),
        Step(
            BRONZE,
            f"select count(*) from {PAYLOADS}",
            lambda: _empty_payloads(spark),
        ),
        *(delete(table, of_key) for table in entity.tables),
        delete(pipeline.deleted_keys, _remembered(entity)),
    ]
    if entity.namespace:
        of_namespace = f"target._namespace = {sql_text(entity.namespace)}"
        result.append(delete(pipeline.set_less_deletes, f"{of_namespace} and {of_key}"))
    result.append(
        Step(
            pipeline.other_events,
            f"select count(*) from {EVENTS}",
            lambda: _clear_events(spark, pipeline.other_events),
        )
    )
    if not entity.namespace:
        of_key += f" or {_is_of_key(entity, 'target._previous_key')}"
    result.append(delete(entity.log, of_key))
    return [step for step in result if exists(spark, step.table)]


def _is_of_key(entity: Entity, relation: str) -> str:
    """SQL that a relation, or a struct, has one of the keys."""
    same = key_condition(entity, relation, "known")
    return f"exists (select 1 from {KEYS} as known where {same})"


def _remembered(entity: Entity) -> str:
    """The condition for rows of ``deleted_keys`` to remove."""
    scopes = [table.label for table in entity.tables]
    if entity.namespace:
        scopes.append(f"aerospike:{entity.namespace}")
    return (
        f"target.scope in ({sql_texts(scopes)})"
        f" and target.record_key in (select {record_keys(entity)} from {KEYS})"
    )


def _empty_payloads(spark: SparkSession) -> None:
    """Remove the bytes of the payloads, and keep their places; in a batch, only the bytes of the
    records concerned.
    """
    topics = spark.sql(f"select distinct topic from {PAYLOADS}").collect()
    spark.sql(
        f"""
        merge into {BRONZE.path} as target
        using {PAYLOADS} as payload
        on
            target.topic = payload.topic
            and target.partition = payload.partition
            and target.offset = payload.offset
            -- Spares the files of other days and topics.
            and target.landed_at = payload.landed_at
            and target.topic in ({sql_texts(sorted(row.topic for row in topics))})
        when matched then update set
            key = payload.new_key,
            value = payload.new_value,
            headers = payload.new_headers
        """
    )


def _clear_events(spark: SparkSession, other_events: BuiltTable) -> None:
    """Keep the place of each event, as a message that changes nothing. That includes
    events that a change log has taken, since it does not have them any more.
    """
    cleared = ", ".join(f"{column} = null" for column in _CLEARED)
    nothing = ", ".join("null" for _ in _CLEARED)
    statement = f"""
        merge into {other_events.path} as target
        using {PLACES} as place
        on
            target.topic = place.topic
            and target.partition = place.partition
            and target.offset = place.offset
            and target.event_index = place.event_index
        when matched and place.becomes = 'nothing' then delete
        when matched and place.becomes = 'tombstone'
            then update set operation = 'tombstone', {cleared}
        when matched then update set metadata = place.metadata
        when not matched and place.becomes = 'tombstone' then insert
            (topic, partition, offset, event_index, timestamp, log_time, format, operation,
                {", ".join(_CLEARED)})
            values (place.topic, place.partition, place.offset, place.event_index,
                place.timestamp, place.log_time, place.format, 'tombstone', {nothing})
    """
    with commits.noting(spark, {EMPTIED: "true"}):
        spark.sql(statement)
