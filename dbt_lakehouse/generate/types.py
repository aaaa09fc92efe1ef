"""Spark types for columns: from what a schema declares, and from all values that were seen.

A type is the text that a model declares and ``macros/change_log/typed_value.sql`` knows: string,
boolean, int, bigint, double, decimal(p,s), date, timestamp, timestamp_ntz, binary, and array<T> and
map<string,T> of those. ``Values`` is what all values of a column have in common; it can be added up
from the parts of a table, and ``fits`` says whether a type holds every one of them, digit by digit.

What no type but text holds (objects of several types, numbers of more than 38 digits, infinite
times) is a string: JSON text, or the text that was sent.
"""

import binascii
import re
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal, DecimalException
from functools import lru_cache, reduce
from typing import Any, Final

from msgspec import Raw

MAX_PRECISION: Final = 38
INT: Final = 2**31
BIGINT: Final = 2**63
# typed_value reads a number with an exponent by way of decimal(38,18).
_EXPONENT_DIGITS: Final = 20
_EXPONENT_SCALE: Final = 18

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_NUMBER: Final = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,6}))?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6}0*)?(Z?)"
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")
# Objects that stand for one value: geometries, and decimals that bring their scale.
_COMPOSITES: Final = (frozenset({"wkb", "srid"}), frozenset({"scale", "value"}))
_MAX_NAMES: Final = 64


def decimal_type(precision: int, scale: int) -> str:
    """decimal(p,s), or string for a precision that Spark hasn't."""
    if 0 <= scale <= precision and 1 <= precision <= MAX_PRECISION:
        return f"decimal({precision},{scale})"
    return "string"


def precision_of(type_name: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, None for another one."""
    match = _DECIMAL.fullmatch(type_name.replace(" ", ""))
    return (int(match[1]), int(match[2])) if match else None


class Values:
    """What the values of a column have in common, nulls left out."""

    __slots__ = (
        "arrays",
        "base64",
        "booleans",
        "canonical",
        "dates",
        "elements",
        "exact",
        "exponents",
        "high",
        "instants",
        "int_digits",
        "integers",
        "locals",
        "low",
        "names",
        "not_finite",
        "numbers",
        "objects",
        "opaque",
        "scale",
        "texts",
        "utf8",
        "written_scale",
    )

    def __init__(self) -> None:
        self.booleans = 0
        self.integers = 0
        self.numbers = 0
        """JSON numbers with a fraction or exponent."""
        self.texts = 0
        self.arrays = 0
        self.objects = 0
        self.low = 0
        self.high = 0
        self.int_digits = 0
        """Most digits before the point, of integers and numbers."""
        self.scale = 0
        """Most digits behind it, zeros at the end left out."""
        self.written_scale = 0
        """Those zeros with them, but for the one of 1.0."""
        self.exponents = False
        self.exact = True
        """Each number is the value of a double, as a double is written."""
        self.canonical = True
        """... and has no zeros at its end: 1.50 is more than a double says."""
        self.not_finite = 0
        self.dates = 0
        self.locals = 0
        self.instants = 0
        self.base64 = True
        """Each text is base64 ..."""
        self.utf8 = True
        """... of text without control characters."""
        self.opaque = False
        """Arrays or objects hold what plain JSON can't tell apart (Aerospike)."""
        self.elements: Values | None = None
        """Of arrays and objects."""
        self.names: set[str] = set()
        """Of objects, some of them."""

    @property
    def count(self) -> int:
        return (
            self.booleans + self.integers + self.numbers + self.texts + self.arrays + self.objects
        )

    def add(self, value: Any) -> None:
        """Count a value as ``msgspec`` reads it, numbers that are no integers as ``Raw``."""
        kind = type(value)
        if kind is str:
            self._add_text(value)
        elif kind is int:
            self._add_integer(value)
        elif kind is bool:
            self.booleans += 1
        elif kind is Raw:
            self._add_number(bytes(value).decode())
        elif kind is list:
            self.arrays += 1
            self._add_elements(value)
        elif kind is dict:
            self.objects += 1
            self._add_elements(value.values())
            if len(self.names) < _MAX_NAMES:
                self.names.update(value)
        elif value is not None:
            raise TypeError(f"no JSON value: {kind}")

    def _add_integer(self, value: int) -> None:
        if not self.integers:
            self.low = self.high = value
        elif value < self.low:
            self.low = value
        elif value > self.high:
            self.high = value
        self.integers += 1
        if not -(2**53) <= value <= 2**53 and int(Decimal(repr(_float(str(value))))) != value:
            self.exact = False

    def _add_number(self, text: str) -> None:
        match = _NUMBER.fullmatch(text)
        if match is None or (match[3] and abs(int(match[3])) > 10_000):
            # Digits beyond any type: text.
            self.opaque = True
            self.numbers += 1
            return
        if match[2] is None and match[3] is None:
            # An integer too long for Python's own.
            self.opaque = True
        whole, fraction = match[1], match[2] or ""
        if match[3]:
            self.exponents = True
            exponent = int(match[3])
            digits = (whole + fraction).lstrip("0")
            stripped = digits.rstrip("0")
            scale = len(fraction) - exponent - (len(digits) - len(stripped))
            self._add_scale(scale if stripped else 0, scale if stripped else 0)
            self.int_digits = max(self.int_digits, len(digits) - len(fraction) + exponent)
        else:
            stripped = fraction.rstrip("0")
            self._add_scale(len(stripped), len(fraction) if len(fraction) > 1 else len(stripped))
            self.int_digits = max(self.int_digits, len(whole.lstrip("0")))
            if len(fraction) > 1 and fraction.endswith("0"):
                self.canonical = False
        self.numbers += 1
        try:
            exact = Decimal(repr(_float(text))) == Decimal(text)
        except DecimalException:
            exact = False
        if not exact:
            self.exact = False

    def _add_scale(self, needed: int, written: int) -> None:
        self.scale = max(self.scale, needed)
        self.written_scale = max(self.written_scale, written)

    def _add_text(self, text: str) -> None:
        self.texts += 1
        if text in NOT_FINITE:
            self.not_finite += 1
        elif text[4:5] == "-" and len(text) < 64:
            match = _DATE_TIME.fullmatch(text)
            if match is not None:
                if _is_date(match[1]) and _is_clock(match[2]):
                    if match[3]:
                        self.instants += 1
                    else:
                        self.locals += 1
            elif _DATE.fullmatch(text) and _is_date(text):
                self.dates += 1
        if self.base64:
            decoded = _from_base64(text)
            if decoded is None:
                self.base64 = self.utf8 = False
            elif not _is_plain_text(decoded):
                self.utf8 = False

    def _add_elements(self, values: Iterable[Any]) -> None:
        if self.elements is None:
            self.elements = Values()
        for value in values:
            kind = type(value)
            if kind is list or kind is dict:
                # Deeper ones are JSON text anyway.
                self.elements.opaque = True
                self.elements.objects += 1
            else:
                self.elements.add(value)

    def merge(self, other: "Values") -> None:
        """Take over what was counted elsewhere."""
        if other.integers:
            if self.integers:
                self.low = min(self.low, other.low)
                self.high = max(self.high, other.high)
            else:
                self.low, self.high = other.low, other.high
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.int_digits = max(self.int_digits, other.int_digits)
        self._add_scale(other.scale, other.written_scale)
        self.exponents |= other.exponents
        self.opaque |= other.opaque
        self.exact &= other.exact
        self.canonical &= other.canonical
        self.base64 &= other.base64
        self.utf8 &= other.base64 and other.utf8
        self.names |= other.names
        if other.elements is not None:
            if self.elements is None:
                self.elements = Values()
            self.elements.merge(other.elements)

    def digits_before_point(self) -> int:
        """Of integers too."""
        if not self.integers:
            return self.int_digits
        longest = max(abs(self.low), abs(self.high))
        return max(self.int_digits, len(str(longest)) if longest else 0)


_COUNTS: Final = (
    "booleans",
    "integers",
    "numbers",
    "texts",
    "arrays",
    "objects",
    "not_finite",
    "dates",
    "locals",
    "instants",
)


def _float(text: str) -> float:
    try:
        return float(text)
    except OverflowError:
        return float("inf")


@lru_cache(4096)
def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


@lru_cache(4096)
def _is_clock(text: str) -> bool:
    try:
        datetime.strptime(text, "%H:%M:%S")
    except ValueError:
        return False
    return not text.endswith(":60") and not text.endswith(":61")


def _from_base64(text: str) -> bytes | None:
    if len(text) % 4 or not _BASE64.fullmatch(text):
        return None
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except ValueError:
        return None


def _is_plain_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return all(character >= " " or character in "\t\r\n" for character in text)


# --- Does a type hold the values ------------------------------------------------------------------


def fits(type_name: str, values: Values) -> bool:
    """Whether the type holds every value, none rounded, cut or turned into null."""
    if type_name == "string" or not values.count:
        return True
    if values.opaque:
        return False
    if type_name.startswith("array<"):
        return values.count == values.arrays and _parts_fit(type_name[6:-1], values)
    if type_name.startswith("map<string,"):
        return values.count == values.objects and _parts_fit(type_name[11:-1].strip(), values)
    if type_name == "boolean":
        return values.count == values.booleans
    if type_name in _WHOLE:
        limit = _WHOLE[type_name]
        return values.count == values.integers and -limit <= values.low <= values.high < limit
    if type_name in ("double", "float"):
        finite = values.integers + values.numbers
        return values.exact and values.count == finite + values.not_finite
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


def _parts_fit(type_name: str, values: Values) -> bool:
    return values.elements is None or fits(type_name, values.elements)


# --- The type of values that nobody has declared --------------------------------------------------


def observed_type(values: Values, *, temporal: bool = True) -> str:
    """The narrowest type that holds the values; string for no value and for a mixture.

    ``temporal``: text in the form of dates and times is one. Where one value would do (keys, parts
    of arrays and objects), text stays text.
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
        if temporal:
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
    needed = values.digits_before_point() + values.written_scale
    # What takes the same room in a file costs nothing, and the next value may have more digits.
    for precision in (9, 18, MAX_PRECISION):
        if needed <= precision:
            type_name = decimal_type(precision, values.written_scale)
            if fits(type_name, values):
                return type_name
    return "string"


def _of_parts(form: str, values: Values) -> str:
    parts = values.elements
    if parts is None or not parts.count:
        return "string"
    type_name = observed_type(parts, temporal=False)
    # Text in an array is one thing; a mixture of text and numbers is JSON.
    if type_name == "string" and parts.count != parts.texts:
        return "string"
    return form.format(type_name)


# --- Two types in one -----------------------------------------------------------------------------


def wider(one: str, other: str) -> str:
    """The narrowest type that holds all values of both; string if none else does."""
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
    """The type of a column from all that was declared for it and seen in it.

    ``declared``: the types that schemas give, None for one that says nothing.
    """
    known = [each for each in declared if each is not None]
    seen = observed_type(values, temporal=not is_key and not known)
    if not known:
        return seen
    merged = reduce(wider, known)
    if fits(merged, values) and (merged != "string" or "string" in known):
        return merged
    if merged == "string":
        # No type holds a bigint and a double, whatever they are; those that were seen may fit.
        is_numeric = "double" in known and all(map(_is_numeric, known))
        return "double" if is_numeric and fits("double", values) else "string"
    # Values that don't fit their own schema: more digits than it says.
    both = seen if merged == "double" and precision_of(seen) else wider(merged, seen)
    return both if _is_numeric(both) and fits(both, values) else "string"


def _is_numeric(type_name: str) -> bool:
    return type_name in ("double", "float") or _as_decimal(type_name) is not None
