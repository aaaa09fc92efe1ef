"""Registers the functions of ``python_udfs.registry`` with Spark SQL, as native Arrow functions.

Spark hands each function a batch of rows as Arrow arrays; what is done here is only the way from
arrays to Python values and back.
"""

import gc
import importlib
from collections.abc import Callable
from functools import wraps
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from dbt_lakehouse.paths import ROOT
from python_udfs import registry
from python_udfs.events import Event
from python_udfs.images import decode_hbase, json_elements, json_entries, json_texts

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


@_without_collector
def decode_payload_batch(formats: pa.Array, keys: pa.Array, values: pa.Array) -> pa.Array:
    """Payloads (string, binary, binary) to a list of event structs each."""
    payloads = [
        registry.decode_payload(*payload)
        for payload in zip(formats.to_pylist(), keys.to_pylist(), values.to_pylist(), strict=True)
    ]
    return _events_array(payloads)


def _events_array(payloads: list[list[Event]]) -> pa.Array:
    offsets = [0]
    for events in payloads:
        offsets.append(offsets[-1] + len(events))
    rows = list(chain.from_iterable(payloads))
    columns: Any = zip(*rows, strict=True) if rows else ([] for _ in _EVENT_TYPES)
    arrays = [
        pa.array(column, type=arrow_type)
        for column, arrow_type in zip(columns, _EVENT_TYPES, strict=True)
    ]
    arrays = [
        array.cast(_SPARK_TIMESTAMP) if pa.types.is_timestamp(array.type) else array
        for array in arrays
    ]
    structs = pa.StructArray.from_arrays(arrays, names=list(registry.EVENT_TYPES))
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), structs)


@_without_collector
def json_texts_batch(images: pa.Array, fields: pa.Array) -> pa.Array:
    """Images (string) and a constant list of field names to a list of texts each."""
    names = tuple(fields[0].as_py()) if len(fields) else ()
    texts = [json_texts(image, names) for image in images.to_pylist()]
    return pa.array(texts, type=pa.list_(pa.string()))


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
