"""Arrow arrays as Python values that can be compared: NaN is NaN, and of times before year 1 or
behind 9999, which Python has none of, there are numbers.
"""

from typing import Any

import pyarrow as pa


def values_of(array: pa.Array) -> list[str]:
    """What is in an array, written out; dates as days, times as microseconds."""
    return [repr(value) for value in array.cast(_plain(array.type)).to_pylist()]


def differing(got: pa.Array, expected: pa.Array) -> list[int]:
    """The places where two arrays differ."""
    assert got.type == expected.type, f"{got.type} is not {expected.type}"
    if got.equals(expected):
        return []
    pairs = zip(values_of(got), values_of(expected), strict=True)
    return [place for place, (one, other) in enumerate(pairs) if one != other]


def _plain(type: Any) -> pa.DataType:
    if pa.types.is_date(type):
        return pa.int32()
    if pa.types.is_timestamp(type):
        return pa.int64()
    if pa.types.is_struct(type):
        return pa.struct([each.with_type(_plain(each.type)) for each in type])
    if pa.types.is_map(type):
        return pa.map_(type.key_type, _plain(type.item_type))
    if pa.types.is_list(type):
        return pa.list_(_plain(type.value_type))
    return type
