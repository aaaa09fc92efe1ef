"""Registers the functions of ``python_udfs.registry`` with Spark SQL, as native Arrow functions.

Spark hands each function a batch of rows as Arrow arrays; what is done here is only the way from
arrays to Python values and back.
"""

import gc
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from itertools import accumulate, chain, repeat
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from dbt_lakehouse.reference.fold import STATE_TYPE, reference_fold
from dbt_lakehouse.reference.history import HISTORY_TYPE, reference_history
from python_udfs import registry
from python_udfs.core.errors import DecoderFailed
from python_udfs.core.events import Decoded, Event, EventColumns, Headers, invalid
from python_udfs.debezium.avro import Registered, know
from python_udfs.registry import decode_batch, decode_payload
from python_udfs.typed.chunks import Changes
from python_udfs.typed.columns import arrow_type, typed_column
from python_udfs.typed.declared import Log, LogColumn, row_type
from python_udfs.typed.rows import told_rows
from python_udfs.typed.values import is_value, reader

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


# So much of payloads is taken from bytes to arrays at a time: little enough for all of their Python
# objects, some ten times as large, to stay in a processor's cache. Ten thousand payloads of 250
# bytes take twice as long as 512 at a time.
_CHUNK_BYTES = 96 * 1024
_SMALLEST_CHUNK, _LARGEST_CHUNK = 32, 512


@_without_collector
def decode_payload_batch(
    formats: pa.Array, keys: pa.Array, values: pa.Array, *headers: pa.Array
) -> pa.Array:
    """Payloads (string, binary, binary, and headers as bronze has them, if a format of them reads
    them) to a list of event structs each.

    What no array can hold of what a decoder made of a payload is an error of ours, as what it
    raises: a ``decoder_failed`` event, and the other payloads' events stay.
    """
    try:
        return _decoded(formats, keys, values, *headers)
    except Exception:
        # Of which payload, their arrays tell one by one.
        pass
    columns = [*map(pa.Array.to_pylist, (formats, keys, values)), *map(_headers, headers)]
    return pa.concat_arrays([_decoded_one(*each) for each in zip(*columns, strict=True)])


def _headers(array: pa.Array) -> list[Headers | None]:
    if not len(array.flatten()):
        return [None] * len(array)
    return [
        None if each is None else [(header["key"], header["value"]) for header in each]
        for each in array.to_pylist()
    ]


def _decoded_one(
    format: str | None, key: bytes | None, value: bytes | None, headers: Headers | None = None
) -> pa.Array:
    events = decode_payload(format, key, value, headers)
    try:
        structs = _events_array(events)
    except Exception as error:
        structs = _events_array([invalid(DecoderFailed.by(error))])
    return pa.ListArray.from_arrays(pa.array([0, len(structs)], pa.int32()), structs)


def _decoded(formats: pa.Array, keys: pa.Array, values: pa.Array, *headers: pa.Array) -> pa.Array:
    tables: dict[tuple[str | None, ...], tuple[list[int], list[EventColumns]]] = {}
    others: dict[int, list[Event]] = {}
    at_once = _at_once(values)
    for start in range(0, len(values), at_once):
        chunk = (array.slice(start, at_once).to_pylist() for array in (formats, keys, values))
        said = (_headers(array.slice(start, at_once)) for array in headers)
        for places, decoded in _decode_chunk(start, *chunk, *said):
            for indexes, columns in decoded.columns:
                table = (columns.source_database, columns.source_schema, columns.source_table)
                table_places, blocks = tables.setdefault(table, ([], []))
                table_places.extend(map(places.__getitem__, indexes))
                blocks.append(columns)
            for index, events in decoded.events.items():
                others[places[index]] = events
    # Making arrays has its price too, whatever their length, and so has joining them.
    arrays = [_columns_array(blocks) for _, blocks in tables.values()]
    if others or not arrays:
        arrays.append(_events_array(list(chain.from_iterable(others.values()))))
    lengths = [1] * len(values)
    rows = list(chain.from_iterable(table_places for table_places, _ in tables.values()))
    for place, events in others.items():
        lengths[place] = len(events)
        rows += repeat(place, len(events))
    structs = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
    if rows != list(range(len(values))):
        # A stable sort: the events of a payload stay in their order.
        structs = structs.take(pc.sort_indices(pa.array(rows, pa.int32())))
    offsets = pa.array(accumulate(lengths, initial=0), pa.int32())
    return pa.ListArray.from_arrays(offsets, structs)


def _at_once(values: pa.Array) -> int:
    """How many of such values are to be taken at a time."""
    fitting: int = _CHUNK_BYTES * len(values) // max(1, values.nbytes)
    return min(max(fitting, _SMALLEST_CHUNK), _LARGEST_CHUNK)


def _decode_chunk(
    start: int,
    formats: list[str | None],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[Headers | None] | None = None,
) -> Iterable[tuple[Sequence[int], Decoded]]:
    """For each format, the places of its payloads, of which the first is ``start``, and their
    events.
    """
    if formats.count(formats[0]) == len(formats):
        decoded = decode_batch(formats[0], keys, values, headers)
        return [(range(start, start + len(formats)), decoded)]
    chunk = []
    for name in dict.fromkeys(formats):
        indexes = [index for index, format in enumerate(formats) if format == name]
        decoded = decode_batch(
            name,
            [keys[index] for index in indexes],
            [values[index] for index in indexes],
            headers and [headers[index] for index in indexes],
        )
        chunk.append(([start + index for index in indexes], decoded))
    return chunk


def _events_array(events: list[Event]) -> pa.Array:
    """Structs of events."""
    columns: Any = zip(*events, strict=True) if events else ([] for _ in _EVENT_TYPES)
    return _structs(
        [
            pa.array(column, type=arrow_type)
            for column, arrow_type in zip(columns, _EVENT_TYPES, strict=True)
        ]
    )


def _structs(columns: list[pa.Array]) -> pa.Array:
    """Event structs from their columns."""
    return pa.StructArray.from_arrays(
        [
            column.cast(_SPARK_TIMESTAMP) if pa.types.is_timestamp(column.type) else column
            for column in columns
        ],
        names=list(registry.EVENT_TYPES),
    )


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
    return _structs(arrays)


def _texts_array(blocks: list[bytes | None], lengths: list[int]) -> pa.Array:
    """Columns of texts, see ``EventColumns``, to one array of strings."""
    if blocks.count(None) == len(blocks):
        return pa.nulls(sum(lengths), pa.string())
    # Not as one text: all of it would have to pass through a processor's cache several times.
    lines = pa.concat_arrays(
        [
            _text_of(b"null\n" * rows if block is None else block)
            for block, rows in zip(blocks, lengths, strict=True)
        ]
    )
    # Spark takes for granted that it is UTF-8.
    lines.validate(full=True)
    texts = pc.split_pattern(lines, "\n").flatten()
    is_null = pc.equal(texts, "null")
    return pc.if_else(is_null, None, texts) if pc.any(is_null).as_py() else texts


def _text_of(block: bytes) -> pa.Array:
    """An array of one text, a block without its last line break, where it is: a copy costs as much
    as splitting it, and of views as values pyarrow 26 keeps the bytes for good.
    """
    ends = array("i", (0, len(block) - 1))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(block)])


def _times_array(blocks: list[Sequence[int | None] | None], lengths: list[int]) -> pa.Array:
    times = chain.from_iterable(
        block if block is not None else repeat(None, rows)
        for block, rows in zip(blocks, lengths, strict=True)
    )
    # By way of integers, in two thirds of the time.
    return pa.array(list(times), pa.int64()).cast(_ARROW_TYPES["timestamp"])


_Row = TypeVar("_Row")
_Read = TypeVar("_Read")


def _read_all(read: Callable[[list[_Row]], _Read], rows: list[_Row], nothing: _Row) -> _Read:
    """What ``read`` makes of rows, with ``nothing`` in the place of each that it raises for: our
    own decoders made their texts, so that is an error of ours, and one row must not stop a run.
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


@_without_collector
def change_rows_batch(
    log: Log,
    operations: pa.Array,
    befores: pa.Array,
    afters: pa.Array,
    record_keys: pa.Array,
    metadata: pa.Array,
) -> pa.Array:
    """Events (strings) to the rows of a change log, structs of ``row_type``."""
    images = [array.cast(pa.binary()) for array in (befores, afters, record_keys, metadata)]
    at_once = _at_once(images[1])

    def changes(start: int, end: int) -> Iterator[Changes]:
        for place in range(start, end, at_once):
            length = min(at_once, end - place)
            before, after, key, notes = (each.slice(place, length).to_pylist() for each in images)
            names = operations.slice(place, length).to_pylist()
            yield Changes(names, before, after, key, notes, [""] * length)

    return told_rows(log, changes, len(operations))


@_without_collector
def misfit_values_batch(columns: Sequence[LogColumn], misfits: pa.Array) -> pa.Array:
    """Misfits, as a change log keeps them, to a struct of the values of some of its columns: what
    has a place in their types by now. Null for all else.
    """
    texts: dict[str, list[str | None]] = {each.column: [None] * len(misfits) for each in columns}
    for place, row in enumerate(misfits.to_pylist()):
        # The first of a column counts.
        for misfit in reversed(row or ()):
            if misfit["column"] in texts:
                texts[misfit["column"]][place] = misfit["text"]

    def read(type: str, rows: list[str | None]) -> pa.Array:
        return typed_column(pa.array(rows, pa.string()), type)

    values = [_read_all(partial(read, each.type), texts[each.column], None) for each in columns]
    return pa.StructArray.from_arrays(values, names=list(texts))


@_without_collector
def is_value_batch(texts: pa.Array, types: pa.Array) -> pa.Array:
    """Texts and a constant type to whether they are values of it."""
    type = types[0].as_py() if len(types) else "string"
    # A type that there is none of is an error of the query, and stops here.
    reader(type)

    def read(rows: list[str | None]) -> pa.Array:
        return pa.array([is_value(text, type) for text in rows], pa.bool_())

    return _read_all(read, texts.to_pylist(), None)


def _decoder_with(schemas: Mapping[int, Registered | None]) -> BatchFunction:
    """``decode_payload_batch`` with schemas of a registry, which are shipped with it."""

    def decode(formats: pa.Array, keys: pa.Array, values: pa.Array, *headers: pa.Array) -> pa.Array:
        know(schemas)
        return decode_payload_batch(formats, keys, values, *headers)

    return decode


BATCH_FUNCTIONS: Final[dict[str, BatchFunction]] = {
    "decode_payload": decode_payload_batch,
    "is_value": is_value_batch,
    "change_rows": change_rows_batch,
}
"""What Spark calls for each function of the registry, by its SQL name, and ``change_rows`` for the
functions of change logs.
"""


def register_functions(spark: SparkSession) -> None:
    """Make the functions of the registry known to ``spark`` under their SQL names."""
    for name, sql_function in registry.SQL_FUNCTIONS.items():
        # By the functions' type hints; PySpark's own stubs know only the form that warns of it.
        make_udf: Any = arrow_udf
        spark.udf.register(name, make_udf(BATCH_FUNCTIONS[name], sql_function.returns))


def register_decoder(spark: SparkSession, schemas: Mapping[int, Registered | None]) -> None:
    """Make ``decode_payload`` know schemas of a registry, in this session."""
    name = "decode_payload"
    make_udf: Any = arrow_udf
    returns = registry.SQL_FUNCTIONS[name].returns
    spark.udf.register(name, make_udf(_decoder_with(dict(schemas)), returns))


def register_log(spark: SparkSession, name: str, log: Log) -> None:
    """Make a function known that gives the rows of a change log: of operation, before, after,
    record_key and metadata of its events a struct of ``declared.row_type``.
    """
    change_rows = BATCH_FUNCTIONS["change_rows"]

    def rows(*fields: pa.Array) -> pa.Array:
        return change_rows(log, *fields)

    _register(spark, name, rows, row_type(log))


def register_misfits(spark: SparkSession, name: str, columns: Sequence[LogColumn]) -> None:
    """Make a function known that gives what of a change log's misfits has a place in some of its
    columns, as a struct of these.
    """

    def values(misfits: pa.Array) -> pa.Array:
        return misfit_values_batch(columns, misfits)

    returns = pa.struct([(each.column, arrow_type(each.type)) for each in columns])
    _register(spark, name, values, returns)


def _register(spark: SparkSession, name: str, function: BatchFunction, type: pa.DataType) -> None:
    make_udf: Any = arrow_udf
    returns = from_arrow_type(type, prefer_timestamp_ntz=True)
    spark.udf.register(name, make_udf(function, returns))


def register_references(spark: SparkSession) -> None:
    """Make the plain folds known under their own names, for ``dbt test``."""
    spark.udf.register("reference_fold", reference_fold, STATE_TYPE)
    spark.udf.register("reference_history", reference_history, HISTORY_TYPE)
