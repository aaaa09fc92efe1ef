"""Which keys, events and payloads are meant.

The results are temporary views of relations that have been evaluated once and for all: the tables
that they come from are about to change.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from msgspec import Raw
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, udf

from dbt_lakehouse.commands.forget.entities import BRONZE, Entity, Pipeline
from dbt_lakehouse.commands.forget.payloads import BATCH_FORMATS, without_records
from dbt_lakehouse.commands.keys import MICROSECONDS, UnusableKeyError, given_key, key_names
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.registry import AEROSPIKE_FORMATS
from python_udfs.text.json_as_sent import canonical, load
from python_udfs.text.numbers import is_canonical_number, plain_number

KEYS: Final = "forget_keys"
"""The key columns, in the change log's types."""
EVENTS: Final = "forget_events"
"""topic, partition, offset, event_index of the events that go."""
PAYLOADS: Final = "forget_payloads"
"""The payloads that they are in: topic, partition, offset, landed_at, and new_key, new_value."""
REWORDED: Final = "forget_reworded"
"""Events that stay in such payloads, with what their metadata is without the others."""
_POSITION: Final = "topic, partition, offset"
# Of times in message keys, by their logical types.
_SHIPPED_DIGITS: Final = (3, MICROSECONDS, 9)
_SHIPPED_KEYS: Final = "forget_shipped_keys"
_VIEWS: Final = (KEYS, EVENTS, PAYLOADS, REWORDED, _SHIPPED_KEYS)


class OutdatedError(LakehouseError):
    """The tables are not what today's decoders make of bronze; the message says what to run."""


class InseparableError(LakehouseError):
    """A payload holds rows of other keys too, and its format can't be taken apart."""


class Found(NamedTuple):
    """How much is meant."""

    keys: int
    linked_keys: int
    """Keys that updates have connected with the given ones."""
    payloads: int
    records: int
    """Events of these payloads that go."""


def find(spark: SparkSession, pipeline: Pipeline, entity: Entity, given: Sequence[str]) -> Found:
    """Make the views for the given keys (JSON).

    Raises ``UnusableKeyError``, ``OutdatedError`` and ``InseparableError``.
    """
    types = {
        field.name: field.dataType.simpleString() for field in spark.table(entity.log.path).schema
    }
    _keep(_typed_keys(spark, entity, types, given), KEYS)
    keys = spark.table(KEYS).count()
    linked = 0 if entity.namespace else _follow_key_changes(spark, entity)
    _keep(_events(spark, pipeline, entity), EVENTS)
    _keep(_payloads(spark, pipeline, entity), PAYLOADS)
    _keep(_reworded(spark, pipeline), REWORDED)
    return Found(keys, linked, spark.table(PAYLOADS).count(), spark.table(EVENTS).count())


def drop_views(spark: SparkSession) -> None:
    """Nothing of what was found stays in the session."""
    for view in _VIEWS:
        spark.catalog.dropTempView(view)


def _keep(rows: DataFrame, view: str) -> None:
    rows.localCheckpoint(eager=True).createOrReplaceTempView(view)


def key_condition(entity: Entity, one: str, other: str) -> str:
    """SQL that two relations have the same key."""
    return " and ".join(f"{one}.`{each}` = {other}.`{each}`" for each in entity.key)


def record_keys(entity: Entity) -> str:
    """SQL of a key in the form of ``deleted_keys``, as of the macro record_key: names sorted,
    without leading underscore.
    """
    columns = ", ".join(f"{sql_text(each.lstrip('_'))}, `{each}`" for each in sorted(entity.key))
    return _exact_json(f"named_struct({columns})", MICROSECONDS)


def _exact_json(struct: str, fraction_digits: int) -> str:
    """SQL of a struct as JSON text, with six digits as of the macro exact_json."""
    time = f"yyyy-MM-dd'T'HH:mm:ss.{'S' * fraction_digits}"
    formats = ("timestampFormat", f"{time}XXX", "timestampNTZFormat", time)
    return f"to_json({struct}, map({sql_texts(formats)}))"


# --- keys -----------------------------------------------------------------------------------------


def _typed_keys(
    spark: SparkSession, entity: Entity, types: dict[str, str], given: Sequence[str]
) -> DataFrame:
    names = key_names(entity.key)
    rows = [given_key(text, entity.key, [types[each] for each in entity.key]) for text in given]
    given_texts = spark.createDataFrame(rows, ", ".join(f"`{name}` string" for name in names))
    typed = given_texts.selectExpr(
        *(
            f"{_typed(f'`{name}`', types[column])} as `{column}`"
            for name, column in zip(names, entity.key, strict=True)
        )
    ).localCheckpoint()
    for column in entity.key:
        if not typed.where(col(column).isNull()).isEmpty():
            raise UnusableKeyError(f"--key: a value of {column.lstrip('_')} is no {types[column]}")
    return typed.distinct()


def _typed(text: str, type_name: str) -> str:
    if type_name == "string":
        return text
    if type_name == "binary":
        return f"try_to_binary({text}, 'base64')"
    return f"try_cast({text} as {type_name})"


def _follow_key_changes(spark: SparkSession, entity: Entity) -> int:
    """Add the keys that an update of the key connects with those there are; how many."""
    key = ", ".join(f"`{each}`" for each in entity.key)
    previous = ", ".join(f"_previous_key.`{each}` as `{each}`" for each in entity.key)
    not_null = " and ".join(f"`{each}` is not null" for each in entity.key)
    links = f"""
        select {key}, {previous.replace(" as `", " as `_previous_")}
        from {entity.log.path} where _previous_key is not null
    """
    # One that no run has brought up to its declaration lacks the column.
    if "_key_update" in spark.table(entity.log.path).columns:
        links += f"""
            union all
            select {key}, {previous.replace("_previous_key", "_key_update.key_before")}
            from {entity.log.path} where _key_update.key_before is not null
        """
    before = spark.table(KEYS).count()
    known = before
    while True:
        renamed = " and ".join(f"links.`_previous_{each}` = known.`{each}`" for each in entity.key)
        old = ", ".join(f"links.`_previous_{each}` as `{each}`" for each in entity.key)
        new = ", ".join(f"links.`{each}`" for each in entity.key)
        rows = spark.sql(
            f"""
            select {key} from (
                select {key} from {KEYS}
                union
                select {old} from ({links}) as links
                inner join {KEYS} as known on {key_condition(entity, "links", "known")}
                union
                select {new} from ({links}) as links inner join {KEYS} as known on {renamed}
            )
            where {not_null}
            """
        )
        _keep(rows, KEYS)
        now = spark.table(KEYS).count()
        if now == known:
            return now - before
        known = now


# --- events ---------------------------------------------------------------------------------------


def _events(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> DataFrame:
    """Positions of the events that go."""
    _keep(_own_events(spark, pipeline, entity), "forget_own_events")
    try:
        return spark.sql(
            f"""
            with meant as (
                select {_POSITION}, event_index from forget_own_events
                union
                {_undecoded_events(pipeline)}
            )

            select {_POSITION}, event_index from meant
            union
            select {_POSITION}, event_index from {pipeline.change_events.path}
            left semi join meant using ({_POSITION})
            where operation = 'invalid'
            """
        ).localCheckpoint()
    finally:
        spark.catalog.dropTempView("forget_own_events")


def _own_events(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> DataFrame:
    """The events of the keys, with the key that their messages have."""
    key = ", ".join(f"`{each}`" for each in entity.key)
    if entity.namespace:
        # A record is its namespace and digest, whatever set an event names.
        own = f"""
            select {_POSITION}, event_index from {pipeline.change_events.path}
            where
                format in ({sql_texts(AEROSPIKE_FORMATS)})
                and source_schema = {sql_text(entity.namespace)}
                and get_json_object(record_key, '$.digest') in (select _digest from {KEYS})
        """
    else:
        in_log = f"""
            select _position.topic, _position.partition, _position.offset, _position.event_index
            from {entity.log.path}
        """
        own = f"""
            {in_log} left semi join {KEYS} using ({key})
            union
            {in_log} as log where exists (
                select 1 from {KEYS} as known
                where {key_condition(entity, "log._previous_key", "known")}
            )
        """
    own_rows = spark.sql(own).localCheckpoint()
    own_rows.createOrReplaceTempView("forget_logged")
    if entity.namespace:
        return _with_message_keys(spark, pipeline, entity)
    fields = ", ".join(
        f"{sql_text(entity.fields[each])}, `{each}`"
        for each in sorted(entity.key, key=lambda each: entity.fields[each])
    )
    shipped = [_exact_json(f"named_struct({fields})", digits) for digits in _SHIPPED_DIGITS]
    _keep(_shipped_keys(spark, shipped), _SHIPPED_KEYS)
    # Tombstones name no table: they are known by the key of the messages in front of them.
    tombstones = f"""
        with known as (
            select distinct events.topic, events.record_key
            from {pipeline.change_events.path} as events
            left semi join forget_logged using ({_POSITION}, event_index)
            where {_is_row_key(entity)}
            union
            -- Of MongoDB, the message key holds a text of the row's.
            select distinct events.topic, get_json_object(events.metadata, '$.event_key')
            from {pipeline.change_events.path} as events
            left semi join forget_logged using ({_POSITION}, event_index)
            where events.metadata like '%"bson":%'
            union
            select topics.topic, keys.record_key
            from (
                select distinct topic from {pipeline.change_events.path}
                where {" and ".join(entity.conditions)}
            ) as topics
            cross join {_SHIPPED_KEYS} as keys
        )

        select {_POSITION}, event_index from forget_logged
        union
        select {_POSITION}, event_index from {pipeline.change_events.path}
        left semi join known using (topic, record_key)
        where operation = 'tombstone'
    """
    spark.sql(tombstones).localCheckpoint().createOrReplaceTempView("forget_logged")
    return _with_message_keys(spark, pipeline, entity)


def _shipped_keys(spark: SparkSession, shipped: Sequence[str]) -> DataFrame:
    """The record keys that the keys may have been shipped as: ``shipped`` is SQL of their JSON.

    A number has one text in a record key. A column of text may hold numbers: then it was shipped as
    one of both.
    """
    found = set()
    for row in spark.sql(f"select explode(array({', '.join(shipped)})) from {KEYS}").collect():
        columns = load(row[0].encode())
        for forms in product(*map(_forms, columns.values())):
            found.add((canonical(dict(zip(columns, forms, strict=True))).decode(),))
    return spark.createDataFrame(sorted(found), "record_key string")


def _forms(value: Any) -> list[Any]:
    if type(value) is not str:
        return [plain_number(value)]
    return [value, Raw(value.encode())] if is_canonical_number(value) else [value]


def _is_row_key(entity: Entity) -> str:
    """SQL that the message key of an event is that of its row: not part of it, not one of many
    rows like Arcion's "default".
    """
    if entity.namespace:
        of_record = "get_json_object(record_key, '$.digest')"
        return f"get_json_object(metadata, '$.event_key[2]') = {of_record}"
    names = sql_texts([entity.fields[each] for each in entity.key])
    return (
        f"size(array_except(json_object_keys(record_key), array({names}))) = 0"
        f" and size(json_object_keys(record_key)) = {len(entity.key)}"
    )


def _with_message_keys(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> DataFrame:
    """Positions of ``forget_logged`` with the message's key, as text and as bytes, where that is
    the key of one row.
    """
    rows = spark.sql(
        f"""
        with events as (
            select
                *,
                count(*) over (partition by {_POSITION}) = 1 and {_is_row_key(entity)} as has_key
            from {pipeline.change_events.path}
            left semi join forget_logged using ({_POSITION})
        )

        select
            {_POSITION},
            event_index,
            if(events.has_key, get_json_object(events.metadata, '$.event_key'), null) as event_key,
            if(events.has_key, payloads.key, null) as message_key
        from events
        left semi join forget_logged using ({_POSITION}, event_index)
        inner join {BRONZE.path} as payloads using ({_POSITION})
        """
    ).localCheckpoint()
    spark.catalog.dropTempView("forget_logged")
    return rows


def _undecoded_events(pipeline: Pipeline) -> str:
    """SQL of events that could not be decoded, whose messages have the key of one that could."""
    events = f"{pipeline.change_events.path} as events"
    return f"""
        select {_POSITION}, event_index from {events}
        left semi join (select topic, event_key from forget_own_events) as own
            on
                events.topic = own.topic
                and get_json_object(events.metadata, '$.event_key') = own.event_key
        where operation = 'invalid'
        union
        select {_POSITION}, event_index from {events}
        left semi join (
            select payloads.topic, payloads.partition, payloads.offset
            from {BRONZE.path} as payloads
            left semi join (select topic, message_key from forget_own_events) as own
                on payloads.topic = own.topic and payloads.key = own.message_key
        ) using ({_POSITION})
        where operation = 'invalid'
    """


# --- payloads -------------------------------------------------------------------------------------


def _payloads(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> DataFrame:
    """The payloads of the events with what is to be left of them."""
    digests = frozenset(row["_digest"] for row in spark.table(KEYS).collect() if entity.namespace)
    namespace = entity.namespace or ""

    def left(format: str, key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        return without_records(
            format,
            None if key is None else bytes(key),
            None if value is None else bytes(value),
            namespace,
            digests,
        )

    left_of = udf(left, "struct<key: binary, value: binary>", useArrow=False)
    rows = spark.sql(
        f"""
        with touched as (
            select {_POSITION}, max(format) as format, count(*) as events,
                count(going.event_index) as going
            from {pipeline.change_events.path} as events
            left semi join (select {_POSITION} from {EVENTS}) using ({_POSITION})
            left join {EVENTS} as going using ({_POSITION}, event_index)
            group by {_POSITION}
        )

        select {_POSITION}, payloads.landed_at, payloads.key, payloads.value, touched.format,
            touched.events > touched.going as is_part
        from {BRONZE.path} as payloads
        inner join touched using ({_POSITION})
        """
    ).localCheckpoint()
    places = ("topic", "partition", "offset", "landed_at", "format", "is_part")
    is_inseparable = f"is_part and format not in ({sql_texts(BATCH_FORMATS)})"
    inseparable = rows.where(is_inseparable).select(*places[:3], "format").first()
    if inseparable is not None:
        topic, partition, offset, format = inseparable
        raise InseparableError(
            f"the message at {topic}/{partition}/{offset} holds rows of other keys beside this"
            f" one's, and nothing can be taken out of {format}: forget all of its keys together"
        )
    parts = rows.where("is_part").select(*places, left_of("format", "key", "value").alias("left"))
    whole = rows.where("not is_part").selectExpr(
        *places, "cast(null as binary) as new_key", "cast(null as binary) as new_value"
    )
    return parts.selectExpr(*places, "left.key as new_key", "left.value as new_value").unionAll(
        whole
    )


def _reworded(spark: SparkSession, pipeline: Pipeline) -> DataFrame:
    """The events that stay in the payloads, as today's decoders read what is left."""
    rows = spark.sql(
        f"""
        with remaining as (
            select
                {_POSITION},
                row_number() over (partition by {_POSITION} order by event_index) - 1 as new_index,
                event_index,
                operation,
                record_key,
                metadata
            from {pipeline.change_events.path}
            left semi join (select * from {PAYLOADS} where is_part) using ({_POSITION})
            left anti join {EVENTS} using ({_POSITION}, event_index)
            -- That is what is left in the place of a record that was forgotten before.
            where operation <> 'tombstone'
        ),

        decoded as (
            select
                {_POSITION},
                event_index as new_index,
                operation as new_operation,
                record_key as new_record_key,
                metadata as new_metadata
            from (select * from {PAYLOADS} where is_part)
            lateral view inline(decode_payload(format, new_key, new_value)) event as
                event_index, operation, source_database, source_schema, source_table, record_key,
                before, after, occurred_at, expires_at, metadata, error_code, error_detail
            where operation <> 'tombstone'
        )

        select
            {_POSITION},
            event_index,
            new_metadata,
            operation <=> new_operation and record_key <=> new_record_key as is_same_event,
            metadata <=> new_metadata as is_same_metadata
        from remaining
        full join decoded using ({_POSITION}, new_index)
        """
    ).localCheckpoint()
    if not rows.where("not is_same_event").isEmpty():
        raise OutdatedError(
            "today's decoders read payloads that hold this key and others otherwise than"
            " silver.change_events has them: `dbt run --full-refresh` first"
        )
    return rows.where("not is_same_metadata")
