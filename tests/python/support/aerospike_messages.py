"""Hypothesis strategies of Aerospike's MessagePack messages, as trees for ``aerospike_encoder``."""

import struct

from hypothesis import strategies as st

from support.aerospike_encoder import Ext, Map

texts = st.text(max_size=12)
integers = st.integers(-(2**63), 2**64 - 1)
floats = st.floats().filter(lambda number: number == number) | st.just(float("nan"))
points = st.builds(
    lambda x, y: f'{{"type":"Point","coordinates":[{x},{y}]}}',
    st.integers(-180, 180),
    st.integers(-90, 90),
)
# The first and last seconds of each of MessagePack's three layouts and of Python's datetime, and
# nanoseconds that are none.
SECONDS = (
    *(-(2**63), -62135596801, -62135596800, -1, 0, 2**32 - 1, 2**32, 2**34 - 1, 2**34),
    *(253402300799, 253402300800, 2**63 - 1),
)
NANOSECONDS = (0, 1, 999_999_499, 999_999_500, 999_999_999, 10**9, 2**30 - 1, 2**32 - 1)


def timestamp(seconds: int, nanoseconds: int, size: int) -> Ext:
    """A timestamp of 4, 8 or 12 bytes, with the bits of the numbers that fit."""
    if size == 4:
        return Ext(-1, struct.pack(">I", seconds & 2**32 - 1))
    if size == 8:
        return Ext(-1, struct.pack(">Q", (nanoseconds & 2**30 - 1) << 34 | seconds & 2**34 - 1))
    return Ext(-1, struct.pack(">Iq", nanoseconds, seconds))


timestamps = st.builds(
    timestamp, st.sampled_from(SECONDS), st.sampled_from(NANOSECONDS), st.sampled_from((4, 8, 12))
)
extensions = (
    timestamps
    | st.builds(Ext, st.integers(-128, 127), st.binary(max_size=20))
    | st.builds(Ext, st.just(7), st.binary(max_size=20))
    | st.builds(lambda text: Ext(23, text.encode()), points)
)
scalars = (
    st.none() | st.booleans() | integers | floats | texts | st.binary(max_size=20) | extensions
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.tuples(inner | texts, inner), max_size=4).map(Map)
        | st.lists(st.tuples(texts, inner), max_size=4).map(Map)
    ),
    max_leaves=12,
)
maps = values.filter(lambda value: isinstance(value, Map))
lists = st.lists(values, max_size=4)
particles = st.one_of(
    st.tuples(st.just(0), st.none()),
    st.tuples(st.just(1), integers),
    st.tuples(st.just(2), floats),
    st.tuples(st.just(3), texts),
    st.tuples(st.sampled_from([4, 7, 18]), st.binary(max_size=40)),
    st.tuples(st.just(17), st.booleans()),
    st.tuples(st.just(19), st.lists(st.tuples(values, values), max_size=4).map(Map)),
    st.tuples(st.just(20), lists),
    st.tuples(st.just(23), points | texts.filter(lambda text: not text.startswith("{"))),
    st.tuples(st.sampled_from([5, 6, 99, -3]), values),
)
record_keys = st.tuples(
    texts,
    st.none() | texts,
    st.binary(min_size=20, max_size=20),
    st.none() | texts | integers | st.binary(max_size=20),
).map(list)
optional = st.none() | integers
writes = st.builds(
    lambda key, generation, expiry, lut, bins: [1, 1, [key, generation, expiry, lut, bins]],
    record_keys,
    optional,
    optional,
    optional,
    st.lists(
        st.builds(
            lambda name, flags, particle: [name, particle[0], flags, particle[1]],
            texts,
            st.integers(0, 3),
            particles,
        ),
        max_size=5,
        unique_by=lambda each: each[0],
    ),
)
deletes = st.builds(
    lambda key, flags, dates: [1, 2, [key, flags, *dates]],
    record_keys,
    st.integers(0, 3),
    st.just(()) | st.tuples(optional, optional, optional),
)
messages = writes | deletes | st.lists(writes | deletes, min_size=1, max_size=3)
