"""Registers the functions of ``python_udfs.registry`` with Spark SQL, as native Arrow functions.

Spark hands each function a batch of rows as Arrow arrays; what is done here is only the way from
arrays to Python values and back.
"""

import gc
import importlib
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from itertools import accumulate, chain, groupby, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from dbt_lakehouse.paths import ROOT
from python_udfs import registry
from python_udfs.events import Event, EventColumns
from python_udfs.images import decode_hbase, json_elements, json_entries, json_texts_of_many

# Arrow's types of Event's fields; times become Spark's microseconds at the end.
_SPARK_TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW_TYPES = {
    "int": pa.int32(),
    "string": pa.string(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}
_EVENT_TYPES = [_ARROW_TYPES[name] for name in registry.EVENT_TYPES.values()]

BatchFunction = Callable[..., pa.Array]


def _without_collector(function: BatchFunction) -> BatchFunction:
    """Pauses the cyclic collector for a batch: millions of small objects and no cycles (1.5x the
    time with it).
    """

    @wraps(function)
    def paused(*arrays: pa.Array) -> pa.Array:
        collecting = gc.isenabled()
        gc.disable()
        try:
            return function(*arrays)
        finally:
            if collecting:
                gc.enable()

    return paused


# So many payloads are taken from bytes to arrays at a time: few enough for all of their Python
# objects to stay in a processor's cache. Ten thousand take twice as long.
_CHUNK = 512


@_without_collector
def decode_payload_batch(formats: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Payloads (string, binary, binary) to a list of event structs each."""
    chunks = (
        _decode_chunk(
            *(array.slice(start, _CHUNK).to_pylist() for array in (formats, keys, values))
        )
        for start in range(0, len(values), _CHUNK)
    )
    arrays = []
    # Making arrays has its price too, whatever their length.
    for _, group in groupby(chunks, _table_of):
        alike, others = [], []
        for chunk in group:
            if isinstance(chunk, EventColumns):
                alike.append(chunk)
            else:
                others += chunk
        arrays.append(_columns_array(alike) if alike else _events_array(others))
    return pa.concat_arrays(arrays) if arrays else _events_array([])


def _decode_chunk(
    formats: list[str | None], keys: list[bytes | None], values: list[bytes | None]
) -> EventColumns | list[list[Event]]:
    if formats.count(formats[0]) == len(formats):
        columns = registry.decode_columns(formats[0], keys, values)
        if columns is not None:
            return columns
    return _decode_payloads(formats, keys, values)


def _table_of(chunk: EventColumns | list[list[Event]]) -> tuple[Any, ...] | None:
    if not isinstance(chunk, EventColumns):
        return None
    return chunk.source_database, chunk.source_schema, chunk.source_table


def _decode_payloads(
    formats: list[str | None], keys: list[bytes | None], values: list[bytes | None]
) -> list[list[Event]]:
    if formats.count(formats[0]) == len(formats):
        return registry.decode_payloads(formats[0], keys, values)
    payloads: list[list[Event]] = [[]] * len(values)
    for name in set(formats):
        places = [place for place, format in enumerate(formats) if format == name]
        decoded = registry.decode_payloads(
            name, [keys[place] for place in places], [values[place] for place in places]
        )
        for place, events in zip(places, decoded, strict=True):
            payloads[place] = events
    return payloads


def _events_array(payloads: list[list[Event]]) -> pa.Array:
    offsets = list(accumulate(map(len, payloads), initial=0))
    rows = list(chain.from_iterable(payloads))
    columns: Any = zip(*rows, strict=True) if rows else ([] for _ in _EVENT_TYPES)
    arrays = [
        pa.array(column, type=arrow_type)
        for column, arrow_type in zip(columns, _EVENT_TYPES, strict=True)
    ]
    return _lists(arrays, offsets)


def _lists(arrays: list[pa.Array], offsets: Iterable[int]) -> pa.Array:
    """Lists of event structs from the structs' columns."""
    arrays = [
        array.cast(_SPARK_TIMESTAMP) if pa.types.is_timestamp(array.type) else array
        for array in arrays
    ]
    structs = pa.StructArray.from_arrays(arrays, names=list(registry.EVENT_TYPES))
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), structs)


def _columns_array(alike: list[EventColumns]) -> pa.Array:
    """``_events_array`` of all their events. They are of one table."""
    lengths = [len(each.occurred_at) for each in alike]
    length = sum(lengths)
    first = alike[0]
    operations = [
        pa.repeat(each.operation, rows)
        if isinstance(each.operation, str)
        else pa.array(each.operation, pa.string())
        for each, rows in zip(alike, lengths, strict=True)
    ]
    nothing = pa.nulls(length, pa.string())
    arrays = [
        pa.repeat(pa.scalar(0, pa.int32()), length),
        pa.concat_arrays(operations),
        *(
            pa.repeat(pa.scalar(name, pa.string()), length)
            for name in (first.source_database, first.source_schema, first.source_table)
        ),
        _texts_array([each.record_key for each in alike], lengths),
        _texts_array([each.before for each in alike], lengths),
        _texts_array([each.after for each in alike], lengths),
        _times_array([each.occurred_at for each in alike], lengths),
        _times_array([each.expires_at for each in alike], lengths),
        _texts_array([each.metadata for each in alike], lengths),
        nothing,
        nothing,
    ]
    return _lists(arrays, range(length + 1))


def _texts_array(blocks: list[bytes | None], lengths: list[int]) -> pa.Array:
    """Columns of texts, see ``EventColumns``, to one array of strings."""
    if blocks.count(None) == len(blocks):
        return pa.nulls(sum(lengths), pa.string())
    lines = b"".join(
        b"null\n" * rows if block is None else block
        for block, rows in zip(blocks, lengths, strict=True)
    )
    texts = pc.split_pattern(pa.array([lines], pa.string()), "\n").flatten()[:-1]
    if b"null\n" in lines:
        texts = pc.if_else(pc.equal(texts, "null"), None, texts)
    return texts


def _times_array(blocks: list[Sequence[int | None] | None], lengths: list[int]) -> pa.Array:
    times = chain.from_iterable(
        block if block is not None else repeat(None, rows)
        for block, rows in zip(blocks, lengths, strict=True)
    )
    return pa.array(list(times), pa.timestamp("ms", tz="UTC"))


@_without_collector
def json_texts_batch(images: pa.Array, fields: pa.Array) -> pa.Array:
    """Images (string) and a constant list of field names to a list of texts each."""
    names = tuple(fields[0].as_py()) if len(fields) else ()
    encoded = images.cast(pa.binary())
    chunks = [
        pa.array(
            json_texts_of_many(encoded.slice(start, _CHUNK).to_pylist(), names),
            pa.list_(pa.string()),
        )
        for start in range(0, len(images), _CHUNK)
    ]
    return pa.concat_arrays(chunks) if chunks else pa.array([], pa.list_(pa.string()))


@_without_collector
def json_elements_batch(texts: pa.Array) -> pa.Array:
    """JSON arrays (string) to a list of texts each."""
    elements = [json_elements(text) for text in texts.to_pylist()]
    return pa.array(elements, type=pa.list_(pa.string()))


@_without_collector
def json_entries_batch(texts: pa.Array) -> pa.Array:
    """JSON objects (string) to a map of texts each."""
    entries = [json_entries(text) for text in texts.to_pylist()]
    return pa.array(
        [None if each is None else list(each.items()) for each in entries],
        type=pa.map_(pa.string(), pa.string()),
    )


@_without_collector
def decode_hbase_batch(values: pa.Array, types: pa.Array) -> pa.Array:
    """Base64 values (string) and a constant type name to their text."""
    type_name = types[0].as_py() if len(types) else "binary"
    return pa.array([decode_hbase(value, type_name) for value in values.to_pylist()], pa.string())


_BATCH_FUNCTIONS: dict[str, BatchFunction] = {
    "decode_payload": decode_payload_batch,
    "json_texts": json_texts_batch,
    "json_elements": json_elements_batch,
    "json_entries": json_entries_batch,
    "decode_hbase": decode_hbase_batch,
}


def register_functions(spark: SparkSession) -> None:
    """Make the functions of the registry known to ``spark`` under their SQL names."""
    for name, sql_function in registry.SQL_FUNCTIONS.items():
        # By the functions' type hints; PySpark's own stubs know only the form that warns of it.
        make_udf: Any = arrow_udf
        spark.udf.register(name, make_udf(_BATCH_FUNCTIONS[name], sql_function.returns))


def register_references(spark: SparkSession) -> None:
    """Make the tests' plain folds known under their own names, for ``dbt test``."""
    for name, returns in (("reference_fold", "STATE_TYPE"), ("reference_history", "HISTORY_TYPE")):
        spark.sparkContext.addPyFile(str(ROOT / "tests" / f"{name}.py"))
        module = importlib.import_module(name)
        spark.udf.register(name, getattr(module, name), getattr(module, returns))
