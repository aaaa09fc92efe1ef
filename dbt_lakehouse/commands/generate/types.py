"""Spark types for columns, from a schema's declaration and from all values seen.

A type is the text that a model declares and ``python_udfs.typed.values`` knows: string, boolean,
int, bigint, double, decimal(p,s), date, timestamp, timestamp_ntz, binary, and array<T> and
map<string,T> of those. ``Values`` is what all values of a column have in common. It can be added
up from the parts of a table, and ``fits`` says whether a type holds every one of them, digit by
digit.

Values that only text holds (objects of several types, numbers of more than 38 digits, infinite
times) are strings: JSON text, or the text that was sent.

Undeclared text that looks like dates or times also stays a string until there are
``ENOUGH_TIMES`` values and each of them is one: a few days of dates say little about a text
column. A type that is too narrow costs a column's values, while one that is too wide costs a
cast.
"""

import re
from collections.abc import Iterable
from functools import reduce
from typing import Final

from dbt_lakehouse.commands.generate.values import Values
from dbt_lakehouse.declared.columns import decimal_type
from python_udfs.typed.values import MOST_DIGITS

ENOUGH_TIMES: Final = 1000
INT: Final = 2**31
BIGINT: Final = 2**63
# Spark reads a number with an exponent through decimal(38,18).
_EXPONENT_DIGITS: Final = 20
_EXPONENT_SCALE: Final = 18

_DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
# Objects that stand for one value: geometries, and decimals with their scale.
_COMPOSITES: Final = (frozenset({"wkb", "srid"}), frozenset({"scale", "value"}))


def precision_of(type_name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None for another type."""
    match = _DECIMAL.fullmatch(type_name.replace(" ", ""))
    return (int(match[1]), int(match[2])) if match else None


# --- Does a type hold the values ------------------------------------------------------------------


def fits(type_name: str, values: Values, *, is_declared: bool = False) -> bool:
    """Whether the type holds every value, without rounding, truncation or nulls.

    ``is_declared``: the source declares its numbers as doubles. Then the nearest double of a text
    is the intended number.
    """
    if type_name == "string" or not values.count:
        return True
    if values.opaque:
        return False
    if type_name.startswith("array<"):
        return values.count == values.arrays and _parts_fit(type_name[6:-1], values, is_declared)
    if type_name.startswith("map<string,"):
        part = type_name[11:-1].strip()
        return values.count == values.objects and _parts_fit(part, values, is_declared)
    if type_name == "boolean":
        return values.count == values.booleans
    if type_name in _WHOLE:
        limit = _WHOLE[type_name]
        return values.count == values.integers and -limit <= values.low <= values.high < limit
    if type_name in ("double", "float"):
        finite = values.integers + values.numbers
        return values.count == finite + values.not_finite and (
            values.exact
            or (values.doubles and is_declared)
            # Java's text of a double, which no decimal holds.
            or (values.doubles and values.exponents and _decimal_of(values) is None)
        )
    decimal = precision_of(type_name)
    if decimal is not None:
        precision, scale = decimal
        before = values.digits_before_point()
        if values.exponents and (before > _EXPONENT_DIGITS or values.scale > _EXPONENT_SCALE):
            return False
        return (
            values.count == values.integers + values.numbers
            and before <= precision - scale
            and values.scale <= scale
        )
    counts = {
        "date": values.dates,
        "timestamp": values.instants,
        "timestamp_ntz": values.locals,
        "binary": values.texts if values.base64 else -1,
    }
    return values.count == counts.get(type_name, -1)


_WHOLE: Final = {"tinyint": 2**7, "smallint": 2**15, "int": INT, "bigint": BIGINT}


def _parts_fit(type_name: str, values: Values, is_declared: bool) -> bool:
    return values.elements is None or fits(type_name, values.elements, is_declared=is_declared)


# --- The type of undeclared values ----------------------------------------------------------------


def observed_type(values: Values, *, temporal: bool = True) -> str:
    """The narrowest type that holds the values; string for no value and for a mixture.

    ``temporal``: enough text in the form of dates and times counts as such. For keys and nested
    parts, where one value would be enough, text stays text.
    """
    if not values.count or values.opaque:
        return "string"
    if values.count == values.booleans:
        return "boolean"
    if values.count == values.arrays:
        return _of_parts("array<{}>", values)
    if values.count == values.objects:
        is_composite = any(values.names <= names for names in _COMPOSITES)
        return "string" if is_composite else _of_parts("map<string,{}>", values)
    if values.texts == values.count:
        if temporal and values.texts >= ENOUGH_TIMES:
            for type_name in ("date", "timestamp", "timestamp_ntz"):
                if fits(type_name, values):
                    return type_name
        return "string"
    if values.count == values.integers:
        for type_name in ("int", "bigint", decimal_type(values.digits_before_point(), 0)):
            if fits(type_name, values):
                return type_name
        return "string"
    if values.canonical and fits("double", values):
        return "double"
    return _decimal_of(values) or "string"


def _decimal_of(values: Values) -> str | None:
    """The decimal type that holds all values, if there is one."""
    needed = values.digits_before_point() + values.written_scale
    # Digits that take no more space in a file are free, and the next value may have more digits.
    for precision in (9, 18, MOST_DIGITS):
        if needed <= precision:
            type_name = decimal_type(precision, values.written_scale)
            if fits(type_name, values):
                return type_name
    return None


def _of_parts(form: str, values: Values) -> str:
    parts = values.elements
    if parts is None or not parts.count:
        return "string"
    type_name = observed_type(parts, temporal=False)
    # An array of text is text; a mixture of text and numbers is JSON.
    if type_name == "string" and parts.count != parts.texts:
        return "string"
    return form.format(type_name)


# --- Two types in one -----------------------------------------------------------------------------


def wider(one: str, other: str) -> str:
    """The narrowest type that holds all values of both; string if there is no other."""
    if one == other:
        return one
    pair = {one, other}
    if pair <= set(_WHOLE):
        return max(pair, key=lambda name: _WHOLE[name])
    if pair == {"float", "double"} or ("double" in pair and pair & {"tinyint", "smallint", "int"}):
        return "double"
    decimals = [_as_decimal(one), _as_decimal(other)]
    if decimals[0] is not None and decimals[1] is not None:
        before = max(precision - scale for precision, scale in (decimals[0], decimals[1]))
        scale = max(decimals[0][1], decimals[1][1])
        return decimal_type(before + scale, scale)
    for start in ("array<", "map<string,"):
        if one.startswith(start) and other.startswith(start):
            part = wider(one[len(start) : -1], other[len(start) : -1])
            if part != "string":
                return f"{start}{part}>"
    return "string"


def _as_decimal(type_name: str) -> tuple[int, int] | None:
    digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
    if type_name in digits:
        return digits[type_name], 0
    return precision_of(type_name)


def holds(type_name: str, other: str) -> bool:
    """Whether a type holds all values of another one."""
    return wider(type_name, other) == type_name


def column_type(declared: Iterable[str | None], values: Values, *, is_key: bool = False) -> str:
    """The type of a column from everything that was declared for it and seen in it.

    ``declared``: the types that schemas give, None for a schema without one.
    """
    known = [each for each in declared if each is not None]
    seen = observed_type(values, temporal=not is_key and not known)
    if not known:
        return seen
    merged = reduce(wider, known)
    if fits(merged, values, is_declared=True) and (merged != "string" or "string" in known):
        return merged
    if merged == "string":
        # No type holds both every bigint and every double; those that were seen may fit.
        is_numeric = "double" in known and all(map(_is_numeric, known))
        is_double = is_numeric and fits("double", values, is_declared=True)
        return "double" if is_double else "string"
    # Values that don't fit their own schema: they have more digits than it declares.
    both = seen if merged == "double" and precision_of(seen) else wider(merged, seen)
    return both if _is_numeric(both) and fits(both, values) else "string"


def common_type(declared: Iterable[str | None]) -> str:
    """The narrowest type that holds all values of declared types; string without any."""
    known = [each for each in declared if each is not None]
    return reduce(wider, known) if known else "string"


def is_plain(type_name: str) -> bool:
    """Whether it is a type of numbers or booleans, whose values are never text."""
    return type_name == "boolean" or _is_numeric(type_name)


def _is_numeric(type_name: str) -> bool:
    return type_name in ("double", "float") or _as_decimal(type_name) is not None
