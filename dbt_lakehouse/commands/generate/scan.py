"""Profile the payloads of topics in bronze: Spark distributes them, ``profile`` examines each.

Every payload counts: a sample would miss a single long number.
"""

import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from dbt_lakehouse.commands.generate.profile import (
    NO_TIME,
    Position,
    TableId,
    TopicProfile,
)
from dbt_lakehouse.config.topics import Formats
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.avro_schemas import ids_in, schemas_of
from dbt_lakehouse.lake.names import BRONZE, Silver
from dbt_lakehouse.lake.schema_registry import know_schemas_of
from dbt_lakehouse.runs import source_filter
from dbt_lakehouse.runs.marks import HistoryLost, Reading, marks_of, reading
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.spark.functions import BatchFunction
from dbt_lakehouse.texts import counted
from python_udfs.core.events import WITH_ROW
from python_udfs.debezium.avro import Registered, know
from python_udfs.registry import (
    AEROSPIKE_FORMATS,
    AVRO_FORMATS,
    FORMATS,
    NULL_DELETES,
    decode_payload,
    shows_format,
)

_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_EVENTS = Silver.of("silver").other_events
# The sample of a topic from which a format is suggested: this many payloads, in this many bytes.
SUGGESTION_PAYLOADS = 2000
SUGGESTION_BYTES = 32 * 2**20
_FAMILY = frozenset({"debezium_json", "arcion_json", "lindorm_json"})
# The size of a batch; each payload is decoded in every format.
_PAYLOADS_OF_A_GUESS = 100


class Suggestion(NamedTuple):
    """The format that fits a topic's payloads, with the reason."""

    format: str
    why: str


def landed_topics(spark: SparkSession) -> list[str]:
    """The topics that bronze holds."""
    rows = spark.table(bronze.TABLE).select("topic").distinct().collect()
    return sorted(row.topic for row in rows)


def profile_topics(spark: SparkSession, formats: Mapping[str, Formats]) -> TopicProfile:
    """The profile of all payloads of the topics, with the formats of each."""
    return _profile(_payloads(spark.table(bronze.TABLE), list(formats)), formats)


def tables_of(
    spark: SparkSession, formats: Mapping[str, Formats | None]
) -> set[tuple[TableId, str]]:
    """All tables of the topics, each with its topic: as runs have found them, and from payloads
    that they have not looked at yet.

    A topic whose formats are None gets the one that its messages look like.
    """
    found = set()
    landed = spark.table(bronze.TABLE)
    looked = _looked_at(spark)
    if looked is not None:
        new, pairs = looked
        kinds = {topic: each and _kind(each) for topic, each in formats.items()}
        listed = [topic for topic, kind in kinds.items() if kind is not None]
        # The pairs don't include what was decoded later.
        later = "error_code = 'unknown_format' or added_by = 'redrive'"
        known = sorted({*listed} - _with_events(spark, listed, later))
        found = {
            (TableId(database, schema, table, bool(kinds[topic])), topic)
            for topic, database, schema, table in pairs
            if topic in known
        }
        landed = spark.sql(f"select * from {new.sql(bronze.TABLE)}").union(
            landed.where(~F.col("topic").isin(known))
        )
    tables = _profile(_payloads(landed, list(formats)), formats).tables
    return found | {(table, topic) for table, each in tables.items() for topic in each.topics}


def _kind(formats: Formats) -> bool | None:
    """Whether the tables of a topic are Aerospike's; None if pairs don't tell which: the formats
    are of both kinds, or their null values name no table (see ``profile``).
    """
    if any(name in NULL_DELETES for name in formats.names):
        return None
    kinds = {name in AEROSPIKE_FORMATS for name in formats.names}
    return kinds.pop() if len(kinds) == 1 else None


def _looked_at(spark: SparkSession) -> tuple[Reading, Sequence[Sequence[str | None]]] | None:
    """The part of bronze that other_events has not looked at, and the topics and tables of all
    events that it has seen; None if it does not say.
    """
    events, landed = (look_at(spark, each) for each in (_EVENTS, BRONZE))
    if events is None or landed is None:
        return None
    mark, pairs = marks_of(events).get(BRONZE), source_filter.all_pairs(events)
    if mark is None or pairs is None:
        return None
    try:
        return reading(mark, landed), pairs
    except HistoryLost:
        return None


def _profile(payloads: DataFrame, formats: Mapping[str, Formats | None]) -> TopicProfile:
    # By the functions' type hints; PySpark's stubs only know the form that warns about it.
    make_udf: Any = arrow_udf
    schemas = {}
    of_format = [
        topic for topic, each in formats.items() if each and set(AVRO_FORMATS) & set(each.names)
    ]
    if of_format:
        texts = payloads.where(F.col("topic").isin(of_format)).select(
            F.explode(F.array("key", "value")).alias("text")
        )
        texts.createOrReplaceTempView("_texts")
        rows = payloads.sparkSession.sql(ids_in("_texts")).collect()
        schemas = schemas_of(payloads.sparkSession, [row.id for row in rows])
    profile_batch = make_udf(_profiler(dict(formats), schemas), "array<binary>")
    parts = payloads.select(F.explode(profile_batch(*_COLUMNS)).alias("profile")).collect()
    profile = TopicProfile()
    for part in parts:
        profile.merge(pickle.loads(part.profile))
    return profile


def _payloads(landed: DataFrame, topics: Sequence[str]) -> DataFrame:
    return landed.where(F.col("topic").isin(list(topics))).select(
        "topic",
        "partition",
        "offset",
        F.unix_micros("timestamp").alias("timestamp"),
        "key",
        "value",
        "headers",
    )


def _profiler(
    formats: dict[str, Formats | None], schemas: dict[int, Registered | None]
) -> BatchFunction:
    """A function of ``_COLUMNS`` that gives a batch's profile, in a list, to its first row, and
    an empty list to the others.
    """

    def profile_batch(
        topics: pa.Array,
        partitions: pa.Array,
        offsets: pa.Array,
        timestamps: pa.Array,
        keys: pa.Array,
        values: pa.Array,
        headers: pa.Array,
    ) -> pa.Array:
        know(schemas)
        profile = TopicProfile()
        columns = (topics, partitions, offsets, timestamps, keys, values, headers)
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        known = dict(formats)
        for name in {row[0] for row in rows if known[row[0]] is None}:
            payloads = [(row[4], row[5]) for row in rows if row[0] == name and row[5]]
            guess = format_of(payloads[:_PAYLOADS_OF_A_GUESS])
            known[name] = Formats.only(guess) if guess else None
        for topic, partition, offset, timestamp, key, value, named in rows:
            formats_of_topic = known[topic]
            if formats_of_topic is None:
                continue
            pairs = [(each["key"], each["value"]) for each in named or ()]
            format_name = formats_of_topic.of(key, value, pairs)
            if format_name is not None:
                time = NO_TIME if timestamp is None else timestamp
                position = Position(time, topic, partition, offset)
                profile.add(format_name, key, value, position, pairs)
        profile.settle()
        parts = [[pickle.dumps(profile)], *([] for _ in range(len(topics) - 1))]
        return pa.array(parts[: len(topics)], type=pa.list_(pa.binary()))

    return profile_batch


def looks_compacted(spark: SparkSession, formats: Mapping[str, Formats]) -> list[str]:
    """The topics in which a tombstone stands behind a missing offset, and the message of its key
    before that is a row's and not a delete: Debezium writes a delete and its tombstone one after
    the other.
    """
    landed = spark.table(bronze.TABLE).where(F.col("topic").isin(list(formats)))
    landed.createOrReplaceTempView("_landed")
    rows = spark.sql(
        f"""
        with placed as (
            select
                topic,
                partition,
                value is null and key is not null as is_tombstone,
                offset - 1 > lag(offset) over (partition by topic, partition order by offset)
                    as is_behind_gap,
                lag(offset) over (partition by topic, partition, key order by offset) as offset
            from _landed
        )

        select topic, key, value, headers
        from _landed
        left semi join (
            select topic, partition, offset from placed
            where is_tombstone and is_behind_gap
        ) using (topic, partition, offset)
        where value is not null
        limit {_PAYLOADS_OF_A_GUESS}
        """
    ).collect()
    found = set()
    for topic, key, value, headers in rows:
        pairs = [(each["key"], each["value"]) for each in headers or ()]
        format_name = formats[topic].of(key, value, pairs)
        if format_name is not None and format_name not in NULL_DELETES:
            events = decode_payload(format_name, bytes(key), bytes(value))
            if any(event.operation in WITH_ROW for event in events):
                found.add(topic)
    return sorted(found)


def decoded_without_format(spark: SparkSession, topics: Sequence[str]) -> set[str]:
    """The topics with payloads that earlier runs have quarantined for want of a format."""
    return _with_events(spark, topics, "error_code = 'unknown_format'")


def _with_events(spark: SparkSession, topics: Sequence[str], condition: str) -> set[str]:
    """The topics of which other_events has events that meet a condition (SQL)."""
    if not spark.catalog.tableExists(_EVENTS):
        return set()
    events = spark.table(_EVENTS).where(F.col("topic").isin(list(topics)))
    return {row.topic for row in events.where(condition).select("topic").distinct().collect()}


def suggested_format(spark: SparkSession, topic: str) -> Suggestion | None:
    """The one format that decodes the topic's payloads, None if that is ambiguous."""
    landed = spark.table(bronze.TABLE)
    payloads_of_topic = _payloads(landed, [topic]).where("length(value) > 0")
    # Together they may exceed the driver's memory.
    size = F.expr("length(value) + coalesce(length(key), 0)")
    sizes = payloads_of_topic.select(size).limit(SUGGESTION_PAYLOADS).collect()
    totals = accumulate(row[0] for row in sizes)
    fitting = sum(total <= SUGGESTION_BYTES for total in totals)
    rows = payloads_of_topic.select("key", "value").limit(max(fitting, 1)).collect()
    payloads = [(None if row.key is None else bytes(row.key), bytes(row.value)) for row in rows]
    know_schemas_of(None, chain.from_iterable(payloads))
    return suggestion_of(payloads)


def format_of(payloads: Sequence[tuple[bytes | None, bytes]]) -> str | None:
    """The suggested format for keys and values, None without one."""
    suggestion = suggestion_of(payloads)
    return None if suggestion is None else suggestion.format


def suggestion_of(payloads: Sequence[tuple[bytes | None, bytes]]) -> Suggestion | None:
    """The one format that decodes the keys and values, None if that is ambiguous.

    Payloads that no format decodes, such as damaged ones, count for none as long as they are fewer
    than the others. The formats of the Debezium family decode each other's payloads; their source
    blocks differ.
    """
    fitting = list(FORMATS)
    telling = []
    for payload in payloads:
        names = _formats_shown(fitting, payload)
        if names:
            fitting = names
            telling.append(payload)
        elif _formats_shown(FORMATS, payload):
            return None
    if 2 * len(telling) <= len(payloads):
        return None
    read = f"the {counted(len(payloads), 'message')} read"
    if len(telling) < len(payloads):
        read = f"{len(telling)} of {read}; the others show no format"
    if len(fitting) == 1:
        return Suggestion(fitting[0], f"as no other format decodes {read}")
    if not _FAMILY.issuperset(fitting):
        return None
    dialects = {name for _, value in telling if (name := _dialect(value)) is not None}
    if len(dialects) != 1:
        return None
    return Suggestion(dialects.pop(), f"according to the source blocks of {read}")


def _formats_shown(among: Iterable[str], payload: tuple[bytes | None, bytes]) -> list[str]:
    """Which of the formats a key and a value show in all of their events."""
    return [
        name
        for name in among
        if all(shows_format(name, event) for event in decode_payload(name, *payload))
    ]


def _dialect(value: bytes) -> str | None:
    """The format of the Debezium family that a payload's source block shows, None without one."""
    event = decode_payload("debezium_json", None, value)[0]
    source = json.loads(event.metadata or b"{}").get("source")
    if not isinstance(source, dict):
        return None
    connector = source.get("connector")
    if isinstance(connector, str):
        # Debezium's own connectors are in lower case.
        return "arcion_json" if connector.isupper() else "debezium_json"
    if "table_name" in source:
        # CockroachDB's.
        return "debezium_json"
    return "lindorm_json" if "namespace" in source else None
