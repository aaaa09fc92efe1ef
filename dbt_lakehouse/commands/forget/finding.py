"""Find the keys and events to forget.

An event is in its change log or in other_events; its content is in its payload. So payloads that
are needed to decide are decoded here with the current decoders.

The results are temporary views of relations that are evaluated only once: the tables beneath them
are about to change.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from msgspec import Raw
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import StringType, StructField, StructType

from dbt_lakehouse.commands.forget import leaving, reading, requests
from dbt_lakehouse.commands.forget.entities import Entity, Pipeline, exists
from dbt_lakehouse.commands.forget.leaving import EVENTS, PAYLOADS, leave
from dbt_lakehouse.commands.forget.reading import (
    DECODED,
    EVENT,
    POSITION,
    READ,
    Payloads,
    keep,
)
from dbt_lakehouse.commands.hashed_keys import hash_as, hashed
from dbt_lakehouse.commands.keys import MICROSECONDS, UnusableKeyError, given_key, key_names
from dbt_lakehouse.config.topics import TopicRule
from dbt_lakehouse.lake.bronze import IS_FORGOTTEN
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.source_filter import topics_with
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.registry import AEROSPIKE_FORMATS
from python_udfs.text.json_as_sent import canonical, load
from python_udfs.text.numbers import is_canonical_number, plain_number

KEYS: Final = "forget_keys"
"""The key columns, in the change log's types."""
# Times in message keys, by their logical types.
_SHIPPED_DIGITS: Final = (3, MICROSECONDS, 9)
_CLEAR_KEYS: Final = "forget_clear_keys"
_SHIPPED_KEYS: Final = "forget_shipped_keys"
_OWN: Final = "forget_own_events"
_VIEWS: Final = (KEYS, _CLEAR_KEYS, _SHIPPED_KEYS, _OWN, *leaving.VIEWS, *reading.VIEWS)


class Found(NamedTuple):
    """The numbers of what was found."""

    keys: int
    linked_keys: int
    """Keys that updates have linked with the given ones."""
    payloads: int
    records: int
    """Events of these payloads that are removed."""


def find(
    spark: SparkSession,
    pipeline: Pipeline,
    entity: Entity,
    given: Sequence[str],
    rules: Sequence[TopicRule],
) -> Found:
    """Make the views for the given keys (JSON). ``rules`` are those of the topics.

    Raises ``UnusableKeyError``, ``OutdatedError`` and ``InseparableError``.
    """
    types = {
        field.name: field.dataType.simpleString() for field in spark.table(entity.log.path).schema
    }
    types |= {
        column: clear
        for column, clear in zip(entity.key, entity.types, strict=True)
        if column in entity.hashed
    }
    keep(_typed_keys(spark, entity, types, given), _CLEAR_KEYS)
    keep(_hashed(spark, entity), KEYS)
    keys = spark.table(KEYS).count()
    looked = look_at(spark, pipeline.other_events.label)
    assert looked is not None
    payloads = Payloads(spark, looked, rules)
    if entity.namespace:
        linked = 0
        keep(_events_of_records(spark, pipeline, entity, payloads, looked), _OWN)
    else:
        linked = _follow_key_changes(spark, entity)
        keep(_events_of_rows(spark, pipeline, entity, payloads), _OWN)
    keep(_events(spark, pipeline, entity, payloads), EVENTS)
    payloads.read(f"select distinct {POSITION} from {EVENTS}")
    digests = frozenset(row["_digest"] for row in spark.table(KEYS).collect() if entity.namespace)
    leave(spark, pipeline, rules, entity.namespace or "", digests)
    return Found(keys, linked, spark.table(PAYLOADS).count(), spark.table(EVENTS).count())


def drop_views(spark: SparkSession) -> None:
    """Drop all views of what was found."""
    for view in _VIEWS:
        spark.catalog.dropTempView(view)


def key_condition(entity: Entity, one: str, other: str) -> str:
    """An SQL condition that two relations have the same key."""
    return " and ".join(f"{one}.`{each}` = {other}.`{each}`" for each in entity.key)


def record_keys(entity: Entity) -> str:
    """SQL of a key in the form of ``deleted_keys``, as the macro record_key makes it: names
    sorted, without a leading underscore.
    """
    columns = ", ".join(f"{sql_text(each.lstrip('_'))}, `{each}`" for each in sorted(entity.key))
    return _exact_json(f"named_struct({columns})", MICROSECONDS)


def _exact_json(struct: str, fraction_digits: int) -> str:
    """SQL of a struct as JSON text; with six digits as the macro exact_json makes it."""
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
            raise UnusableKeyError(
                f"--key: a value of {column.lstrip('_')} is not of type {types[column]}"
            )
    return typed.distinct()


def _hashed(spark: SparkSession, entity: Entity) -> DataFrame:
    """The given keys as the log has them. Raises ``ConfigurationError`` if they are hashed and
    the mask key that hashed them is missing.
    """
    keys = spark.table(_CLEAR_KEYS)
    if entity.hashed:
        table = look_at(spark, entity.log.label)
        assert table is not None
        hash_as(entity.log.label, table)
    for column in entity.hashed:
        values = [row[0] for row in keys.select(column).distinct().collect()]
        hashes = spark.createDataFrame(
            [(value, hashed(value)) for value in values],
            StructType([keys.schema[column], StructField("hash", StringType())]),
        )
        keys = keys.join(hashes, column).drop(column).withColumnRenamed("hash", column)
    return keys.select(*map(_quoted, entity.key))


def _quoted(column: str) -> str:
    return f"`{column}`"


def _typed(text: str, type_name: str) -> str:
    if type_name == "string":
        return text
    if type_name == "binary":
        return f"try_to_binary({text}, 'base64')"
    return f"try_cast({text} as {type_name})"


def _follow_key_changes(spark: SparkSession, entity: Entity) -> int:
    """Add the keys that an update of the key links with the known ones. Returns their number."""
    key = ", ".join(f"`{each}`" for each in entity.key)
    previous = ", ".join(f"_previous_key.`{each}` as `{each}`" for each in entity.key)
    not_null = " and ".join(f"`{each}` is not null" for each in entity.key)
    links = f"""
        select {key}, {previous.replace(" as `", " as `_previous_")}
        from {entity.log.path} where _previous_key is not null
    """
    # A log that no run has adapted to its declaration lacks the column.
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
        keep(rows, KEYS)
        now = spark.table(KEYS).count()
        if now == known:
            return now - before
        known = now


# --- events ---------------------------------------------------------------------------------------


def _events_of_records(
    spark: SparkSession, pipeline: Pipeline, entity: Entity, payloads: Payloads, looked: Table
) -> DataFrame:
    """The events of records. A record is a namespace and a digest, whatever set an event names."""
    digests = f"select _digest from {KEYS}"
    own = f"""
        select _position.topic, _position.partition, _position.offset, _position.event_index
        from {entity.log.path} where _digest in ({digests})
        union
        select {EVENT} from {pipeline.other_events.path}
        where {_is_of_records(entity, digests)}
    """
    logs = [each.table for each in entity.neighbours if each.namespace == entity.namespace]
    for log in logs:
        # Its values may be forgotten already, while its rows stay.
        if exists(spark, log):
            payloads.read(
                "select _position.topic, _position.partition, _position.offset"
                f" from {log.path} where _digest in ({digests})"
            )
    unbuilt = [
        source
        for each in entity.neighbours
        if each.namespace == entity.namespace and not exists(spark, each.table)
        for source in each.sources or []
    ]
    if unbuilt:
        # Events that no log has yet are only in bronze.
        topics = topics_with(looked, None, unbuilt)
        payloads.read_those_with(_is_of_records(entity, digests), topics)
    return spark.sql(
        f"{own} union select {EVENT} from {DECODED} where {_is_of_records(entity, digests)}"
    )


def _is_of_records(entity: Entity, digests: str) -> str:
    return (
        f"format in ({sql_texts(AEROSPIKE_FORMATS)})"
        f" and source_schema = {sql_text(entity.namespace or '')}"
        f" and get_json_object(record_key, '$.digest') in ({digests})"
    )


def _events_of_rows(
    spark: SparkSession, pipeline: Pipeline, entity: Entity, payloads: Payloads
) -> DataFrame:
    """The events of rows, with the tombstones of their keys."""
    in_log = f"""
        select _position.topic, _position.partition, _position.offset, _position.event_index
        from {entity.log.path} as log
    """
    # In succession: each of them is a join by the key.
    logged = " union ".join(
        f"{in_log} where exists (select 1 from {KEYS} as known"
        f" where {key_condition(entity, relation, 'known')})"
        for relation in ("log", "log._previous_key")
    )
    keep(spark.sql(logged), _OWN)
    payloads.read(f"select distinct {POSITION} from {_OWN}")
    fields = ", ".join(
        f"{sql_text(entity.fields[each])}, `{each}`"
        for each in sorted(entity.key, key=lambda each: entity.fields[each])
    )
    shipped = [_exact_json(f"named_struct({fields})", digits) for digits in _SHIPPED_DIGITS]
    # For hashed keys, only events know the keys that are linked to the given ones.
    clear = _CLEAR_KEYS if entity.hashed else KEYS
    keep(_shipped_keys(spark, shipped, clear), _SHIPPED_KEYS)
    # Tombstones name no table: they belong to the key of the messages before them.
    return spark.sql(
        f"""
        with own as (
            select * from {_all_decoded(pipeline)} left semi join {_OWN} using ({EVENT})
        ),

        known as (
            select distinct topic, record_key from own where {_is_row_key(entity)}
            union
            -- Of MongoDB, the message key holds a text of the row's.
            select distinct topic, get_json_object(metadata, '$.event_key') from own
            where metadata like '%"bson":%'
            union
            select topics.topic, keys.record_key
            from (select distinct _position.topic from {entity.log.path}) as topics
            cross join {_SHIPPED_KEYS} as keys
        )

        select {EVENT} from {_OWN}
        union
        select {EVENT} from {pipeline.other_events.path}
        left semi join known using (topic, record_key)
        where operation = 'tombstone'
        """
    )


def _all_decoded(pipeline: Pipeline) -> str:
    """The events of the payloads that were read, including those that no payload contains, to
    select from.
    """
    fields = f"{EVENT}, operation, record_key, metadata"
    return f"""(
        select {fields} from {DECODED}
        union all
        select {fields} from {pipeline.other_events.path}
        left semi join {READ} using ({POSITION})
        left anti join {DECODED} using ({EVENT})
        where added_by is not null
    )"""


def _shipped_keys(spark: SparkSession, shipped: Sequence[str], keys: str) -> DataFrame:
    """The record keys in which the keys may have been shipped. ``shipped`` is SQL of their JSON,
    ``keys`` is their view.

    A number has a single text in a record key. A text column may hold numbers, which may have
    been shipped as either.
    """
    found = set()
    for row in spark.sql(f"select explode(array({', '.join(shipped)})) from {keys}").collect():
        columns = load(row[0].encode())
        for forms in product(*map(_forms, columns.values())):
            found.add((canonical(dict(zip(columns, forms, strict=True))).decode(),))
    return spark.createDataFrame(sorted(found), "record_key string")


def _forms(value: Any) -> list[Any]:
    if type(value) is not str:
        return [plain_number(value)]
    return [value, Raw(value.encode())] if is_canonical_number(value) else [value]


def _is_row_key(entity: Entity) -> str:
    """An SQL condition that an event's message key is its row's key: not a part of it, and not
    shared by many rows like Arcion's "default".
    """
    if entity.namespace:
        of_record = "get_json_object(record_key, '$.digest')"
        return f"get_json_object(metadata, '$.event_key[2]') = {of_record}"
    names = sql_texts([entity.fields[each] for each in entity.key])
    return (
        f"size(array_except(json_object_keys(record_key), array({names}))) = 0"
        f" and size(json_object_keys(record_key)) = {len(entity.key)}"
    )


def _events(
    spark: SparkSession, pipeline: Pipeline, entity: Entity, payloads: Payloads
) -> DataFrame:
    """The positions of the events to remove: those of the keys, and undecodable ones whose
    message key is the key of a single row, as text or as bytes, or which are in the same
    payloads.
    """
    payloads.read(f"select distinct {POSITION} from {_OWN}")
    invalid = f"{pipeline.other_events.path} as events"
    found = f"""
        with counted as (
            select *, count(*) over (partition by {POSITION}) = 1 as is_alone
            from {_all_decoded(pipeline)}
            left semi join {_OWN} using ({POSITION})
        ),

        own as (
            select
                topic,
                get_json_object(metadata, '$.event_key') as event_key,
                payloads.key
            from counted
            left semi join {_OWN} using ({EVENT})
            inner join {READ} as payloads using ({POSITION})
            where is_alone and {_is_row_key(entity)}
        ),

        meant as (
            select {EVENT} from {_OWN}
            union
            select {EVENT} from {invalid}
            left semi join own
                on
                    events.topic = own.topic
                    and get_json_object(events.metadata, '$.event_key') = own.event_key
            where operation = 'invalid'
            union
            select {EVENT} from {invalid}
            left semi join (
                select payloads.topic, payloads.partition, payloads.offset
                from {payloads.table} as payloads
                left semi join own on payloads.topic = own.topic and payloads.key = own.key
            ) using ({POSITION})
            where operation = 'invalid'
        )

        select {EVENT} from meant
        union
        select {EVENT} from {pipeline.other_events.path}
        left semi join meant using ({POSITION})
        where operation = 'invalid'
    """
    if requests.has_broken_off(spark):
        # Events that were known from payloads of which nothing is left.
        found += f"""
            union
            select {EVENT} from {pipeline.other_events.path}
            left semi join (
                select {POSITION} from {payloads.table}
                where {IS_FORGOTTEN} and key is null and value is null
            ) using ({POSITION})
            where
                operation <> 'tombstone' or record_key is not null or metadata is not null
        """
    return spark.sql(found)
