"""A column as shipped, as an array: values where they came as such and fit, otherwise texts."""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any, Final

import pyarrow as pa

from python_udfs.typed.columns import arrow_type
from python_udfs.typed.declared import LogColumn
from python_udfs.typed.images import FieldColumn, one_kind
from python_udfs.typed.values import ARRAY, INTEGER_BITS, MAP, element_type

_KINDS: Final[dict[str, type]] = {
    "boolean": bool,
    "double": float,
    **dict.fromkeys(INTEGER_BITS, int),
}


def shipped_array(column: FieldColumn, spec: LogColumn) -> pa.Array:
    """Values of the column's type; strings if any of them does not fit the type."""
    if column.kind is not str and spec.encoding is None:
        try:
            values = _values(column.values, column.kind, spec.type)
        except (pa.ArrowInvalid, OverflowError):
            # A number is out of the type's range: misfits are reported by their text.
            values = None
        if values is not None:
            return values
    return pa.array(column.texts(), pa.string())


def _values(values: Sequence[Any], kind: type | None, type: str) -> pa.Array | None:
    """Values of one kind, if a type has them as they are. Raises Arrow's error for a value that
    does not fit the type.
    """
    if (kind is list and type.startswith(ARRAY)) or (kind is dict and type.startswith(MAP)):
        return _collections(values, type)
    if kind is None or kind is not _KINDS.get(type):
        return None
    return pa.array(values, arrow_type(type))


def _collections(values: Sequence[Any], type: str) -> pa.Array | None:
    is_array = type.startswith(ARRAY)
    mask = None
    there = values
    if None in values:
        mask = pa.array([each is None for each in values], pa.bool_())
        there = [{} if each is None else each for each in values]
    inside = list(chain.from_iterable(there if is_array else map(dict.values, there)))
    element, kind = element_type(type), one_kind(inside)
    if not inside or (element == "string" and kind is str):
        found = pa.array(inside, arrow_type(element))
    else:
        found = _values(inside, kind, element)
    if found is None:
        return None
    offsets = pa.array(accumulate(map(len, there), initial=0), pa.int32())
    if is_array:
        return pa.ListArray.from_arrays(offsets, found, mask=mask)
    names = pa.array(chain.from_iterable(there), pa.string())
    return pa.MapArray.from_arrays(offsets, names, found, mask=mask)
