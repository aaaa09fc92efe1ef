"""The messages of an Arrow batch, a few at a time: their Python objects, some ten times as large,
are to stay in a processor's cache.

A chunk usually has the next messages of the batch. If the tables of a topic are many, few of these
are of one table, and nothing of them is alike. A chunk then has all messages of some tables, each
table in a group of its own. Which messages are together never changes their events, only how fast
these are found.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.registry import fast_path_of

# The payload bytes per chunk. Ten thousand payloads of 250 bytes take twice as long as 512 at a
# time.
_CHUNK_BYTES: Final = 96 * 1024
_SMALLEST_CHUNK, _LARGEST_CHUNK = 32, 512

# To see whether there are many tables, those of some messages are found, one of so many, and then
# those of every so many. Odd, as tables may come in turn.
_PER_SAMPLE: Final = 128
_MOST_SAMPLES: Final = 32
_STEP: Final = 7
# If some messages are of no more tables, enough of each are in a chunk anyway.
_FEW: Final = 6
# If the fast path does not pay for more than this part of some messages, their order is no matter.
_RESTING: Final = 0.75
# If more than this part of every so many messages are of a table of their own, there are fewer than
# eight messages of each.
_DIFFERENT: Final = 0.625
# So few messages of a table are decoded one by one.
_FEWEST: Final = 8

Places = Sequence[int]
"""Places of messages in a batch."""


def at_once(values: pa.Array, alike_bytes: int = 0) -> int:
    """The number of values per chunk. Of each value, ``alike_bytes`` bytes don't become objects."""
    return _at_once(len(values), values.nbytes - alike_bytes * len(values))


def _at_once(count: int, size: int) -> int:
    return min(max(_CHUNK_BYTES * count // max(1, size), _SMALLEST_CHUNK), _LARGEST_CHUNK)


def _alike_bytes(values: pa.Array, first: int, last: int) -> int:
    """The length of the common prefix of messages, judged by the first and the last: usually the
    schema block, which is compiled once.
    """
    some, other = (values[place].as_py() or b"" for place in (first, last))
    # The longest that both have is found by bisection, in a few comparisons of many bytes.
    alike, more = 0, min(len(some), len(other)) + 1
    while more - alike > 1:
        half = (alike + more) // 2
        if some.startswith(other[:half]):
            alike = half
        else:
            more = half
    return alike


def chunks_of(formats: pa.Array, keys: pa.Array, values: pa.Array) -> Iterator[list[Places]]:
    """The places of the messages, in chunks of one group or several. Those of a group ascend."""
    count = len(values)
    if not count:
        return
    length = at_once(values, _alike_bytes(values, 0, count - 1))
    tables = _tables((formats, keys, values), length) if count > length else None
    if tables is None:
        for start in range(0, count, length):
            yield [range(start, min(start + length, count))]
    else:
        yield from _filled(tables, values)


def _tables(columns: Sequence[pa.Array], length: int) -> list[list[int]] | None:
    """The places of each table's messages, from formats, keys and values; None if they are better
    decoded in their order: if they are of a few tables, or each of another. So many messages are in
    memory at once.
    """
    count = len(columns[0])
    most = min(max(count // _PER_SAMPLE, _FEWEST), _MOST_SAMPLES)
    some = list(_named(columns, range(0, count, count // most | 1), length))
    if len(set(some)) <= _FEW:
        return None
    resting = 0
    for format, names in some:
        fast_path = fast_path_of(format)
        resting += fast_path is None or not names or fast_path.rests(names, count // len(some))
    if resting > _RESTING * len(some):
        return None
    every = range(0, count, _STEP)
    if len(set(_named(columns, every, length))) > _DIFFERENT * len(every):
        return None
    tables: dict[tuple[str | None, tuple[bytes, ...]], list[int]] = {}
    for place, table in enumerate(_named(columns, range(count), length)):
        tables.setdefault(table, []).append(place)
    others: dict[str | None, list[int]] = {format: [] for format, _ in tables}
    found = []
    for (format, names), places in tables.items():
        if names and len(places) >= _FEWEST:
            found.append(places)
        else:
            others[format] += places
    return [*found, *map(sorted, filter(None, others.values()))]


def _named(
    columns: Sequence[pa.Array], places: range, length: int
) -> Iterator[tuple[str | None, tuple[bytes, ...]]]:
    """The format of each message at these places, and the names of its table."""
    for start in range(0, len(places), length):
        some = places[start : start + length]
        taken = (each.to_pylist() for each in _at(columns, some))
        for format, key, value in zip(*taken, strict=True):
            fast_path = fast_path_of(format)
            yield format, () if fast_path is None else fast_path.names(key, value)


def _at(columns: Sequence[pa.Array], places: range) -> list[pa.Array]:
    if places.step == 1:
        return [each.slice(places.start, len(places)) for each in columns]
    indexes = pa.array(places, pa.int32())
    return [each.take(indexes) for each in columns]


def _filled(tables: list[list[int]], values: pa.Array) -> Iterator[list[Places]]:
    """Chunks of the tables' messages."""
    sizes = pc.binary_length(values).fill_null(0).to_pylist()
    chunk: list[Places] = []
    room = 1.0
    for places in tables:
        alike = _alike_bytes(values, places[0], places[-1])
        size = sum(map(sizes.__getitem__, places)) - alike * len(places)
        length = _at_once(len(places), size)
        for start in range(0, len(places), length):
            group = places[start : start + length]
            if chunk and len(group) > room * length:
                yield chunk
                chunk, room = [], 1.0
            chunk.append(group)
            room -= len(group) / length
    yield chunk


def together(columns: Sequence[pa.Array], chunk: list[Places]) -> list[pa.Array]:
    """The messages of a chunk, one group after the other."""
    if len(chunk) == 1 and isinstance(chunk[0], range):
        return _at(columns, chunk[0])
    indexes = pa.array(list(chain.from_iterable(chunk)), pa.int32())
    return [each.take(indexes) for each in columns]
