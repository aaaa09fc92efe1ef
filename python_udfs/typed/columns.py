"""Convert whole columns of texts to declared types, by Arrow's kernels, with the results of
``values.typed`` for each text.

A column is converted in three steps, each for what the one before can't convert exactly:

1. All of it by Arrow's own cast, if that succeeds and no text is one that Arrow reads differently
   from Spark (``0x1F``, infinities, times without seconds).
2. The texts of a plain shape, which the cast is known to convert correctly.
3. The others one by one, by ``values``.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.typed.images import Collections, json_elements_of_many, json_entries_of_many
from python_udfs.typed.values import (
    ARRAY,
    DOUBLE_DIGITS,
    FLOAT_DIGITS,
    MOST_DIGITS,
    ZERO,
    decimal_digits,
    element_type,
    reader,
)

_SCALARS: Final = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}


@lru_cache(256)
def arrow_type(type: str) -> pa.DataType:
    """Arrow's type of a column. Raises ``ValueError`` for a type that a change log can't have."""
    reader(type)
    if type in _SCALARS:
        return _SCALARS[type]
    if type.startswith("decimal"):
        return pa.decimal128(*decimal_digits(type))
    element = arrow_type(element_type(type))
    return pa.list_(element) if type.startswith(ARRAY) else pa.map_(pa.string(), element)


def typed_column(texts: pa.Array, type: str) -> pa.Array:
    """The values of texts (string) in a type, as ``arrow_type``; null where a text is null or not
    a value of it.

    Raises ``ValueError`` for a type that a change log's column can't have.
    """
    wanted = arrow_type(type)
    if type == "string":
        return texts
    if len(texts) == texts.null_count:
        return pa.nulls(len(texts), wanted)
    if pa.types.is_nested(wanted):
        return _collections(texts, type)
    if type == "boolean":
        return _booleans(texts)
    if type == "binary":
        return _binaries(texts)
    column = _as_a_whole(texts, type, wanted)
    if column is not None:
        return column
    plain = pc.match_substring_regex(texts, _plain_shape(type))
    values = _values(pc.if_else(plain, texts, None), wanted)
    if type in _DIGITS:
        plain = pc.and_kleene(plain, _are_told_apart(texts, values, type))
        values = pc.if_else(plain, values, None)
    return _with_others(values, texts, plain, type)


def _with_others(values: pa.Array, texts: pa.Array, done: pa.Array, type: str) -> pa.Array:
    """Values, completed one by one for the texts that are not done yet."""
    others = pc.invert(done).fill_null(False)
    left = texts.filter(others)
    if not len(left):
        return values
    read = reader(type)
    found = pa.array([read(text) for text in left.to_pylist()], values.type)
    if found.null_count == len(found) and values.null_count == len(values):
        return values
    return pc.replace_with_mask(values, others, found)


def _has(texts: pa.Array, *needles: bytes) -> bool:
    """Whether any of these may be in the texts; True may be wrong."""
    data = texts.buffers()[2]
    content = b"" if data is None else data.to_pybytes()
    return any(needle in content for needle in needles)


# --- Numbers, dates and times ---------------------------------------------------------------------


def _as_a_whole(texts: pa.Array, type: str, wanted: pa.DataType) -> pa.Array | None:
    """All values by Arrow's cast; None if one of them needs a check."""
    if type in _UNTOLD and _has(texts, *_UNTOLD[type]):
        return None
    if type.startswith("decimal") and (
        _has(texts, b"e", b"E") or _longest(texts) + decimal_digits(type)[1] > MOST_DIGITS
    ):
        # From more digits than 128 bits hold, Arrow makes another number.
        return None
    if type == "timestamp" and not (
        _shortest(texts) >= len("2026-11-21T10:00:00Z") and _all(pc.ends_with(texts, "Z"))
    ):
        return None
    if type == "timestamp_ntz" and _shortest(texts) < len("2026-11-21T10:00"):
        return None
    try:
        values = _values(texts, wanted)
    except pa.ArrowInvalid:
        return None
    if type in _DIGITS and not _all(_are_told_apart(texts, values, type)):
        return None
    return values


# What Arrow takes and Spark doesn't, or not as that.
_UNTOLD: Final = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), (b"x", b"X")),
    **dict.fromkeys(("float", "double"), (b"n", b"N")),
}
_DIGITS: Final = {"float": FLOAT_DIGITS, "double": DOUBLE_DIGITS}
_SHORTEST_SMALL_NUMBER: Final = 46
"""The length of the shortest number without an exponent that becomes zero as a float."""


def _values(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    return pc.cast(texts, wanted)


def _all(values: pa.Array) -> bool:
    return pc.all(values).as_py() is not False


def _shortest(texts: pa.Array) -> int:
    """The bytes of the shortest text."""
    return int(pc.min(pc.binary_length(texts)).as_py())


def _longest(texts: pa.Array) -> int:
    return int(pc.max(pc.binary_length(texts)).as_py())


def _are_told_apart(texts: pa.Array, values: pa.Array, type: str) -> pa.Array:
    """Whether floats are finite, no zeros of other numbers, and written with no more digits than
    identify them.
    """
    finite = pc.is_finite(values)
    zeros = pc.equal(values, pa.scalar(0.0, values.type))
    # Without a small exponent only a long text is another number's.
    if zeros.true_count and (
        _has(texts, b"e-", b"E-") or _longest(texts) >= _SHORTEST_SMALL_NUMBER
    ):
        is_zero = pc.match_substring_regex(texts, rf"\A(?:{ZERO})\z")
        finite = pc.and_kleene(finite, pc.or_kleene(pc.invert(zeros), is_zero))
    most = _DIGITS[type]
    if _longest(texts) <= most:
        return finite
    mantissas = pc.replace_substring_regex(texts, "[eE].*", "")
    digits = pc.utf8_trim(pc.replace_substring_regex(mantissas, "[-+.]", ""), "0")
    told = pc.less_equal(pc.binary_length(digits), most)
    if type == "float":
        exact = pc.equal(_values_of_plain(texts), pc.cast(values, pa.float64()))
        # Texts of another shape are checked one by one.
        told = pc.or_kleene(told, exact.fill_null(False))
    return pc.and_kleene(finite, told)


def _values_of_plain(texts: pa.Array) -> pa.Array:
    plain = pc.match_substring_regex(texts, _plain_shape("double"))
    return _values(pc.if_else(plain, texts, None), pa.float64())


_DATE: Final = (
    "[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    "|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_TIME: Final = "[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,6})?"
_ZONE: Final = "(?:Z|[+-](?:0[0-9]|1[0-7])(?::?[0-5][0-9])?)"
_SHAPES: Final = {
    "tinyint": "-?[0-9]{1,2}",
    "smallint": "-?[0-9]{1,4}",
    "int": "-?(?:[0-9]{1,9}|1[0-9]{9})",
    "bigint": "-?(?:[0-9]{1,18}|[1-8][0-9]{18})",
    **dict.fromkeys(("float", "double"), "[+-]?[0-9]+(?:[.][0-9]*)?(?:[eE][+-]?[0-9]+)?"),
    "date": _DATE,
    "timestamp": _DATE + _TIME + _ZONE,
    "timestamp_ntz": _DATE + _TIME,
}


@lru_cache(256)
def _plain_shape(type: str) -> str:
    """A regular expression (RE2) for texts that Arrow's cast converts correctly."""
    shape = _SHAPES.get(type)
    if shape is None:
        digits, scale = decimal_digits(type)
        whole = digits - scale
        shape = f"[+-]?0?[0-9]{{1,{whole}}}" if whole else "[+-]?0"
        if scale:
            shape += f"|[+-]?0?[0-9]{{0,{whole}}}[.][0-9]{{1,{scale}}}"
    return rf"\A(?:{shape})\z"


# --- Booleans and binary --------------------------------------------------------------------------


def _booleans(texts: pa.Array) -> pa.Array:
    values = pc.equal(texts, "true")
    done = pc.or_(values, pc.equal(texts, "false"))
    if _all(done):
        return values
    return _with_others(pc.if_else(done, values, None), texts, done, "boolean")


def _binaries(texts: pa.Array) -> pa.Array:
    """One by one: Arrow has no base64."""
    read = reader("binary")
    values = [None if text is None else read(text) for text in texts.to_pylist()]
    return pa.array(values, pa.binary())


# --- Collections ----------------------------------------------------------------------------------

_AT_ONCE: Final = 512
"""The texts that are taken apart at a time: their Python objects stay in a processor's cache."""


def _collections(texts: pa.Array, type: str) -> pa.Array:
    is_array = type.startswith(ARRAY)
    found = _taken_apart(texts, json_elements_of_many if is_array else json_entries_of_many)
    inside = pa.array(found.texts, pa.string())
    values = typed_column(inside, element_type(type))
    ends = list(accumulate((length or 0 for length in found.lengths), initial=0))
    missing = [length is None for length in found.lengths]
    if values.null_count != inside.null_count:
        unfit = pc.and_(pc.is_valid(inside), pc.is_null(values))
        for place in pc.indices_nonzero(unfit).to_pylist():
            missing[bisect_right(ends, place) - 1] = True
    offsets = pa.array(ends, pa.int32())
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    if is_array:
        return pa.ListArray.from_arrays(offsets, values, mask=mask)
    names = pa.array(found.names, pa.string())
    return pa.MapArray.from_arrays(offsets, names, values, mask=mask)


def _taken_apart(
    texts: pa.Array, read: Callable[[Sequence[str | None]], Collections]
) -> Collections:
    lengths: list[int | None] = []
    names: list[str] = []
    inside: list[str | None] = []
    for start in range(0, len(texts), _AT_ONCE):
        found = read(texts.slice(start, _AT_ONCE).to_pylist())
        lengths += found.lengths
        names += found.names
        inside += found.texts
    return Collections(lengths, names, inside)
