"""Register functions of ``python_udfs`` with Spark SQL, as native Arrow functions.

Spark passes each function a batch of rows as Arrow arrays; this module only converts arrays to
Python values and back. ``SQL_FUNCTIONS`` has the functions of every session. Those of a model know
its columns, and are registered under names of their own: ``register_log`` and
``register_misfits``, and ``payload_functions`` for payloads.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from dbt_lakehouse.masking import mask_key
from dbt_lakehouse.reference.deleted import DELETED_ROW_TYPE, reference_deleted_row
from dbt_lakehouse.reference.fold import STATE_TYPE, reference_fold
from dbt_lakehouse.reference.history import HISTORY_TYPE, reference_history
from dbt_lakehouse.spark.event_arrays import (
    EventArrays,
    Texts,
    careful_events,
    in_order,
    listed,
    parts_of,
)
from dbt_lakehouse.spark.message_chunks import at_once
from python_udfs.debezium.avro import Registered, know
from python_udfs.registry import EVENT_TYPES
from python_udfs.typed.batches import Changes
from python_udfs.typed.columns import arrow_type, typed_column
from python_udfs.typed.declared import Log, LogColumn, row_type
from python_udfs.typed.headers import values_of
from python_udfs.typed.masked import has_hash
from python_udfs.typed.masks import know_key
from python_udfs.typed.rows import told_rows
from python_udfs.typed.values import is_value, reader

BatchFunction = Callable[..., pa.Array]


def without_collector(function: BatchFunction) -> BatchFunction:
    """Pause the cyclic garbage collector for a batch, which makes millions of small objects and
    no cycles (1.5x the time with it).
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


@without_collector
def decode_payload_batch(
    formats: pa.Array, keys: pa.Array, values: pa.Array, *headers: pa.Array
) -> pa.Array:
    """Decode payloads (string, binary, binary, and headers as bronze has them, if a format of
    them reads headers) to a list of event structs each.

    If a decoder's result does not fit an array, or the decoder raises, that is an error of ours:
    a ``decoder_failed`` event, and the other payloads' events stay.
    """
    try:
        arrays = EventArrays()
        for _, places, decoded in parts_of(formats, keys, values, *headers):
            for indexes, columns in decoded.columns:
                arrays.add_columns(map(places.__getitem__, indexes), columns, Texts())
            for index, events in decoded.events.items():
                arrays.add_events(places[index], events)
        structs = in_order(arrays.structs(), arrays.places)
        return listed(structs, arrays.places, len(values))
    except Exception:
        # The fallback, one payload at a time, finds which one.
        pass
    return careful_events(formats, keys, values, *headers)


_Row = TypeVar("_Row")
_Read = TypeVar("_Read")


def _read_all(read: Callable[[list[_Row]], _Read], rows: list[_Row], nothing: _Row) -> _Read:
    """The result of ``read`` for rows, with ``nothing`` in place of each row for which it raises.
    The texts come from our own decoders, so that is an error of ours, and one row must not stop a
    run.
    """
    try:
        return read(rows)
    except Exception:
        pass
    return read([row if _can_read(read, row) else nothing for row in rows])


def _can_read(read: Callable[[list[_Row]], object], row: _Row) -> bool:
    try:
        read([row])
    except Exception:
        return False
    return True


@without_collector
def change_rows_batch(
    log: Log,
    operations: pa.Array,
    befores: pa.Array,
    afters: pa.Array,
    record_keys: pa.Array,
    metadata: pa.Array,
    *headers: pa.Array,
) -> pa.Array:
    """Convert events (strings) to the rows of a change log, structs of ``row_type``; for a log with
    header columns, with the headers of their messages, as bronze has them.
    """
    images = [array.cast(pa.binary()) for array in (befores, afters, record_keys, metadata)]
    most = at_once(images[1])

    def changes(start: int, end: int) -> Iterator[Changes]:
        for place in range(start, end, most):
            length = min(most, end - place)
            before, after, key, notes = (each.slice(place, length).to_pylist() for each in images)
            names = operations.slice(place, length).to_pylist()
            yield Changes(names, before, after, key, notes, [""] * length)

    of_log = [values for each in headers for values in values_of(log, each)]
    return told_rows(log, changes, len(operations), of_log)


@without_collector
def misfit_values_batch(columns: Sequence[LogColumn], misfits: pa.Array) -> pa.Array:
    """Convert misfits, as a change log keeps them, to a struct of the values of some of its
    columns: those that fit their types by now. Other values are null.
    """
    texts: dict[str, list[str | None]] = {each.column: [None] * len(misfits) for each in columns}
    for place, row in enumerate(misfits.to_pylist()):
        # The first misfit of a column counts.
        for misfit in reversed(row or ()):
            if misfit["column"] in texts:
                texts[misfit["column"]][place] = misfit["text"]

    def read(type: str, rows: list[str | None]) -> pa.Array:
        return typed_column(pa.array(rows, pa.string()), type)

    values = [_read_all(partial(read, each.type), texts[each.column], None) for each in columns]
    return pa.StructArray.from_arrays(values, names=list(texts))


@without_collector
def is_value_batch(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Whether texts are values of a type, which is the same for all."""
    type = types[0].as_py() if len(types) else "string"
    # An unknown type is an error of the query, and stops here.
    reader(type)

    def read(rows: list[str | None]) -> pa.Array:
        return pa.array([is_value(text, type) for text in rows], pa.bool_())

    return _read_all(read, texts.to_pylist(), None)


def with_schemas(
    schemas: Mapping[int, Registered | None], function: BatchFunction
) -> BatchFunction:
    """A function of payloads with registry schemas, which are shipped with it."""
    shipped = dict(schemas)

    def decode(*fields: pa.Array) -> pa.Array:
        know(shipped)
        return function(*fields)

    return decode


def with_mask_key(log: Log, function: BatchFunction) -> BatchFunction:
    """A function of a log's rows with the key of its masks, which is shipped with it; the
    function itself if the log has no hash mask.

    Raises ``ConfigurationError`` if the key is missing or too short.
    """
    if not has_hash(log):
        return function
    key = mask_key()

    def rows(*fields: pa.Array) -> pa.Array:
        know_key(key)
        return function(*fields)

    return rows


class SqlFunction(NamedTuple):
    """A function that SQL can call: of Arrow arrays, with its return type in Spark's DDL."""

    function: BatchFunction
    returns: str


_EVENT_FIELDS: Final = ",".join(f"{name}:{ddl}" for name, ddl in EVENT_TYPES.items())

SQL_FUNCTIONS: Final[dict[str, SqlFunction]] = {
    "decode_payload": SqlFunction(decode_payload_batch, f"array<struct<{_EVENT_FIELDS}>>"),
    "is_value": SqlFunction(is_value_batch, "boolean"),
}
"""The functions of every session, by their SQL names."""


def register_functions(spark: SparkSession) -> None:
    """Register ``SQL_FUNCTIONS`` in ``spark``."""
    for name, sql_function in SQL_FUNCTIONS.items():
        # By the functions' type hints; PySpark's stubs only know the form that warns about it.
        make_udf: Any = arrow_udf
        spark.udf.register(name, make_udf(sql_function.function, sql_function.returns))


def register_decoder(spark: SparkSession, schemas: Mapping[int, Registered | None]) -> None:
    """Register ``decode_payload`` with registry schemas in this session."""
    name = "decode_payload"
    decode, returns = SQL_FUNCTIONS[name]
    make_udf: Any = arrow_udf
    spark.udf.register(name, make_udf(with_schemas(schemas, decode), returns))


def register_log(spark: SparkSession, name: str, log: Log) -> None:
    """Register a function for the rows of a change log: from operation, before, after, record_key
    and metadata of an event, and for a log with header columns the headers of its message, to a
    struct of ``declared.row_type``.
    """

    def rows(*fields: pa.Array) -> pa.Array:
        return change_rows_batch(log, *fields)

    register(spark, name, with_mask_key(log, rows), row_type(log))


def register_misfits(spark: SparkSession, name: str, columns: Sequence[LogColumn]) -> None:
    """Register a function that gives the misfits of a change log which fit some of its columns,
    as a struct of these.
    """

    def values(misfits: pa.Array) -> pa.Array:
        return misfit_values_batch(columns, misfits)

    returns = pa.struct([(each.column, arrow_type(each.type)) for each in columns])
    register(spark, name, values, returns)


def register(spark: SparkSession, name: str, function: BatchFunction, type: pa.DataType) -> None:
    """Register a function of arrays under this name."""
    make_udf: Any = arrow_udf
    returns = from_arrow_type(type, prefer_timestamp_ntz=True)
    spark.udf.register(name, make_udf(function, returns))


def register_references(spark: SparkSession) -> None:
    """Register the plain reference folds under their own names, for ``dbt test``."""
    spark.udf.register("reference_fold", reference_fold, STATE_TYPE)
    spark.udf.register("reference_history", reference_history, HISTORY_TYPE)
    spark.udf.register("reference_deleted_row", reference_deleted_row, DELETED_ROW_TYPE)
