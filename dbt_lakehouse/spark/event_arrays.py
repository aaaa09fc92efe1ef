"""Decode Kafka messages in Arrow arrays to events in Arrow arrays: a list of structs for each
message.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, repeat
from operator import le
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dbt_lakehouse.spark.message_chunks import chunks_of, together
from python_udfs import registry
from python_udfs.core.errors import DecoderFailed
from python_udfs.core.events import (
    Decoded,
    Event,
    EventColumns,
    Headers,
    Lines,
    Source,
    invalid,
)
from python_udfs.registry import decode_batch, decode_payload

# Arrow's types of Event's fields; times become Spark's microseconds at the end.
_SPARK_TIMESTAMP = pa.timestamp("us", tz="UTC")
_ARROW_TYPES = {
    "int": pa.int32(),
    "string": pa.string(),
    "timestamp": pa.timestamp("ms", tz="UTC"),
}
_EVENT_TYPES = [_ARROW_TYPES[name] for name in registry.EVENT_TYPES.values()]
EVENT: Final = pa.struct(
    [
        (name, _SPARK_TIMESTAMP if pa.types.is_timestamp(type) else type)
        for name, type in zip(registry.EVENT_TYPES, _EVENT_TYPES, strict=True)
    ]
)
"""An event as Spark gets it."""

# --- Messages to events ---------------------------------------------------------------------------


class Part(NamedTuple):
    """Some messages of one format, few enough for a processor's cache, and their events."""

    format: str | None
    places: Sequence[int]
    """The places of these messages among all."""
    decoded: Decoded


def parts_of(
    formats: pa.Array, keys: pa.Array, values: pa.Array, *headers: pa.Array
) -> Iterator[Part]:
    """Decode messages as ``decode_payload_batch`` takes them, in parts. To keep a part's columns
    after the next part has come takes memory.
    """
    for chunk in chunks_of(formats, keys, values):
        columns = together((formats, keys, values, *headers), chunk)
        lists = [each.to_pylist() for each in columns[:3]] + list(map(_headers, columns[3:]))
        end = 0
        for places in chunk:
            start, end = end, end + len(places)
            yield from _decode_chunk(places, *(each[start:end] for each in lists))


def _headers(array: pa.Array) -> list[Headers | None]:
    if not len(array.flatten()):
        return [None] * len(array)
    return [
        None if each is None else [(header["key"], header["value"]) for header in each]
        for each in array.to_pylist()
    ]


def _decode_chunk(
    places: Sequence[int],
    formats: list[str | None],
    keys: list[bytes | None],
    values: list[bytes | None],
    headers: list[Headers | None] | None = None,
) -> Iterable[Part]:
    """The parts of messages at these places: one for each format."""
    if formats.count(formats[0]) == len(formats):
        decoded = decode_batch(formats[0], keys, values, headers)
        return [Part(formats[0], places, decoded)]
    parts = []
    for name in dict.fromkeys(formats):
        indexes = [index for index, format in enumerate(formats) if format == name]
        decoded = decode_batch(
            name,
            [keys[index] for index in indexes],
            [values[index] for index in indexes],
            headers and [headers[index] for index in indexes],
        )
        parts.append(Part(name, list(map(places.__getitem__, indexes)), decoded))
    return parts


def careful_events(
    formats: pa.Array, keys: pa.Array, values: pa.Array, *headers: pa.Array
) -> pa.Array:
    """The events of messages, decoded one by one. If a decoder's result does not fit an array, or
    the decoder raises, the message gets an error event of ours.
    """
    columns = [*map(pa.Array.to_pylist, (formats, keys, values)), *map(_headers, headers)]
    return pa.concat_arrays([_decoded_one(*each) for each in zip(*columns, strict=True)])


def _decoded_one(
    format: str | None, key: bytes | None, value: bytes | None, headers: Headers | None = None
) -> pa.Array:
    events = decode_payload(format, key, value, headers)
    try:
        structs = _events_array(events)
    except Exception as error:
        structs = _events_array([invalid(DecoderFailed.by(error))])
    return pa.ListArray.from_arrays(pa.array([0, len(structs)], pa.int32()), structs)


# --- Events to arrays -----------------------------------------------------------------------------


class Texts(NamedTuple):
    """The texts of events that are needed."""

    record_key: bool = True
    images: bool = True
    metadata: bool = True


class _Block(NamedTuple):
    """Events of one table, as ``EventColumns``, with the needed texts written."""

    source: Source
    operation: str | Sequence[str]
    record_key: bytes | None
    before: bytes | None
    after: bytes | None
    occurred_at: Sequence[int | None]
    expires_at: Sequence[int | None] | None
    metadata: bytes | None


class EventArrays:
    """Collects events as they are decoded, as event structs."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._places: list[int] = []
        self._events: list[Event] = []
        self._event_places: list[int] = []

    def add_columns(self, places: Iterable[int], columns: EventColumns, texts: Texts) -> None:
        """Add events of messages at these places. Texts that are not needed become null."""
        self._places += places
        self._blocks.append(
            _Block(
                columns.source,
                columns.operation,
                _written(columns.record_key, texts.record_key),
                _written(columns.before, texts.images),
                _written(columns.after, texts.images),
                columns.occurred_at,
                columns.expires_at,
                _written(columns.metadata, texts.metadata),
            )
        )

    def add_events(self, place: int, events: Sequence[Event]) -> None:
        """Add events of the message at this place."""
        self._events += events
        self._event_places += repeat(place, len(events))

    @property
    def places(self) -> list[int]:
        """The places of the messages, in the order of ``structs``."""
        return self._places + self._event_places

    def structs(self) -> pa.Array:
        """All events, those that were decoded together first."""
        # Making arrays has a fixed cost, whatever their length, and so has joining them.
        arrays = [_blocks_array(self._blocks)] if self._blocks else []
        if self._events or not arrays:
            arrays.append(_events_array(self._events))
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _written(lines: Lines | None, is_wanted: bool) -> bytes | None:
    return lines() if lines is not None and is_wanted else None


def in_order(structs: pa.Array, places: Sequence[int]) -> pa.Array:
    """Structs in the order of their messages."""
    if all(map(le, places, islice(places, 1, None))):
        return structs
    # A stable sort: the events of one message stay in order.
    return structs.take(pc.sort_indices(pa.array(places, pa.int32())))


def listed(structs: pa.Array, places: Sequence[int], length: int) -> pa.Array:
    """A list for each of ``length`` messages, from structs in order and their messages' places."""
    counts = array("i", bytes(4 * length))
    for place in places:
        counts[place] += 1
    return pa.ListArray.from_arrays(pa.array(accumulate(counts, initial=0), pa.int32()), structs)


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


def _blocks_array(blocks: list[_Block]) -> pa.Array:
    """``_events_array`` of all blocks of events."""
    lengths = [len(each.occurred_at) for each in blocks]
    length = sum(lengths)
    nothing = pa.nulls(length, pa.string())
    names = zip(*(each.source for each in blocks), strict=True)
    arrays = [
        pa.repeat(pa.scalar(0, pa.int32()), length),
        _names_array([each.operation for each in blocks], lengths),
        *(_names_array(of_blocks, lengths) for of_blocks in names),
        _texts_array([each.record_key for each in blocks], lengths),
        _texts_array([each.before for each in blocks], lengths),
        _texts_array([each.after for each in blocks], lengths),
        _times_array([each.occurred_at for each in blocks], lengths),
        _times_array([each.expires_at for each in blocks], lengths),
        _texts_array([each.metadata for each in blocks], lengths),
        nothing,
        nothing,
    ]
    return _structs(arrays)


def _names_array(blocks: Sequence[str | Sequence[str] | None], lengths: list[int]) -> pa.Array:
    """A column of which each block has one name for all of its rows, or that of each."""
    first = blocks[0]
    if (first is None or isinstance(first, str)) and all(each == first for each in blocks):
        return pa.repeat(pa.scalar(first, pa.string()), sum(lengths))
    rows = chain.from_iterable(
        repeat(block, rows) if block is None or isinstance(block, str) else block
        for block, rows in zip(blocks, lengths, strict=True)
    )
    return pa.array(list(rows), pa.string())


def _texts_array(blocks: list[bytes | None], lengths: list[int]) -> pa.Array:
    """Columns of texts, see ``EventColumns``, as one array of strings."""
    if blocks.count(None) == len(blocks):
        return pa.nulls(sum(lengths), pa.string())
    # Not as one text: all of it would have to pass through a processor's cache several times.
    lines = pa.concat_arrays(
        [
            _text_of(b"null\n" * rows if block is None else block)
            for block, rows in zip(blocks, lengths, strict=True)
        ]
    )
    # Spark assumes valid UTF-8.
    lines.validate(full=True)
    texts = pc.split_pattern(lines, "\n").flatten()
    is_null = pc.equal(texts, "null")
    return pc.if_else(is_null, None, texts) if pc.any(is_null).as_py() else texts


def _text_of(block: bytes) -> pa.Array:
    """An array of one text, a block without its last line break, without copying it. A copy costs
    as much as splitting it, and of views passed as values pyarrow 26 never frees the bytes.
    """
    ends = array("i", (0, len(block) - 1))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(block)])


def _times_array(blocks: list[Sequence[int | None] | None], lengths: list[int]) -> pa.Array:
    times = chain.from_iterable(
        block if block is not None else repeat(None, rows)
        for block, rows in zip(blocks, lengths, strict=True)
    )
    # By way of integers, which takes two thirds of the time.
    return pa.array(list(times), pa.int64()).cast(_ARROW_TYPES["timestamp"])
