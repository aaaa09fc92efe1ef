"""The common properties of a column's values, as ``msgspec`` reads them from JSON.

They can be added up from the parts of a table, and tell which types hold every value (``types``).
"""

import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal, DecimalException
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from msgspec import Raw

NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_NUMBER: Final = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,6}))?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]{1,6}0*)?(Z?)"
)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_BASE64_URL: Final = re.compile(r"[A-Za-z0-9_-]*={0,2}")
_MAX_NAMES: Final = 64
_DIGITS_OF_DOUBLES: Final = 17


@dataclass(slots=True, eq=False)
class Values:
    """The common properties of a column's values, without nulls."""

    booleans: int = 0
    integers: int = 0
    numbers: int = 0
    """JSON numbers with a fraction or exponent."""
    texts: int = 0
    arrays: int = 0
    objects: int = 0
    low: int = 0
    """The smallest integer, 0 if there is none; ``high`` is the largest."""
    high: int = 0
    int_digits: int = 0
    """The most digits before the point, in integers and numbers."""
    scale: int = 0
    """The most digits after the point, without trailing zeros."""
    written_scale: int = 0
    """The same with trailing zeros, except for the one in 1.0."""
    exponents: bool = False
    exact: bool = True
    """Each number is exactly a double, in a double's usual notation."""
    canonical: bool = True
    """... without trailing zeros: 1.50 is more than a double tells."""
    doubles: bool = True
    """Each number is a text that identifies a double, though perhaps not the shortest: Java
    writes 4.9E-324.
    """
    not_finite: int = 0
    dates: int = 0
    locals: int = 0
    instants: int = 0
    base64: bool = True
    """Each text is base64 ..."""
    utf8: bool = True
    """... of text without control characters."""
    base64_url: bool = True
    """Each text is base64 with - and _ ..."""
    url_letters: int = 0
    """... of which this many contain them, ..."""
    padded: int = 0
    """... and this many end in =."""
    opaque: bool = False
    """Arrays or objects hold what plain JSON can't distinguish (Aerospike)."""
    elements: "Values | None" = None
    """The values in arrays and objects."""
    names: set[str] = field(default_factory=set)
    """The names in objects, a sample."""

    @property
    def is_base64_url(self) -> bool:
        """Whether the texts can hardly be anything but base64 with - and _."""
        return self.base64_url and self.url_letters > 0 and self.padded > 0

    @property
    def count(self) -> int:
        return (
            self.booleans + self.integers + self.numbers + self.texts + self.arrays + self.objects
        )

    def add(self, value: Any) -> None:
        """Count a value as ``msgspec`` reads it, with non-integer numbers as ``Raw``."""
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
            self.exact = self.doubles = False

    def _add_number(self, text: str) -> None:
        match = _NUMBER.fullmatch(text)
        if match is None or (match[3] and abs(int(match[3])) > 10_000):
            # More digits than any type holds: text.
            self.opaque = True
            self.doubles = False
            self.numbers += 1
            return
        if match[2] is None and match[3] is None:
            # An integer too long for Python's own parser.
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
        number = _float(text)
        try:
            exact = Decimal(repr(number)) == Decimal(text)
        except DecimalException:
            exact = False
        if not exact:
            self.exact = False
            digits = (whole + fraction).strip("0")
            # Nor is the number too large or too small for a double.
            is_double = isfinite(number) and number != 0
            self.doubles &= len(digits) <= _DIGITS_OF_DOUBLES and is_double

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
        # Counted whatever came before, so that values add up in any order.
        self.url_letters += "-" in text or "_" in text
        self.padded += text.endswith("=")
        if self.base64_url:
            self.base64_url = not len(text) % 4 and _BASE64_URL.fullmatch(text) is not None
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
                # Deeper values are JSON text anyway.
                self.elements.opaque = True
                self.elements.objects += 1
            else:
                self.elements.add(value)

    def merge(self, other: "Values") -> None:
        """Add the counts of another part."""
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
        self.doubles &= other.doubles
        self.canonical &= other.canonical
        self.base64 &= other.base64
        self.utf8 &= other.base64 and other.utf8
        self.base64_url &= other.base64_url
        self.names |= other.names
        if other.elements is not None:
            if self.elements is None:
                self.elements = Values()
            self.elements.merge(other.elements)

    def digits_before_point(self) -> int:
        """The most digits before the point, integers included."""
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
    "url_letters",
    "padded",
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
