"""Keys as the command line takes them: ``{"id": 7}``. No error message repeats a key.

Equal numbers are the same key, however they are written: a text column that holds numbers has
each of them in one form (``text.numbers``), and so has the given key. Text is compared as it is.
"""

import json
import re
import struct
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from dbt_lakehouse.errors import LakehouseError
from python_udfs.text.numbers import canonical_number

MICROSECONDS: Final = 6
"""The number of decimals that seconds have in the tables."""


class UnusableKeyError(LakehouseError):
    """An unusable key. The message doesn't repeat it."""


def key_names(columns: Sequence[str]) -> list[str]:
    """The names of the key columns in a key: ``_digest`` is ``digest``."""
    return [each.lstrip("_") for each in columns]


def refuse_no_json(text: str) -> None:
    """Raise ``UnusableKeyError`` for a text that is not JSON."""
    try:
        json.loads(text)
    except ValueError:
        raise UnusableKeyError(
            '--key is not JSON: expected an object with the key columns, like {"id": 7}'
        ) from None


def given_key(text: str, columns: Sequence[str], types: Sequence[str]) -> tuple[str, ...]:
    """The values of a key, in the order of its columns.

    Raises ``UnusableKeyError``, also for a value that its type, in Spark's DDL, only holds
    rounded, or for text where a number is needed. The cast reports other values that don't fit
    the type.
    """
    names = key_names(columns)
    values = _key_texts(text, names)
    for name, type_name, value in zip(names, types, values, strict=True):
        if type_name.partition("(")[0] in _EXACT and _number(value) is None:
            raise UnusableKeyError(f"--key: a value of {name} is not of type {type_name}")
        if is_rounded(value, type_name):
            raise UnusableKeyError(
                f"--key: a value of {name} only fits {type_name} rounded, and could then be another"
                " key's: write it as it is in the table"
            )
    return values


def _key_texts(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """The values of a key, in the order of ``names``."""
    expected = "a JSON object with " + ", ".join(names)
    try:
        pairs: Any = json.loads(
            text, parse_int=_Number, parse_float=_Number, object_pairs_hook=_Pairs
        )
    except ValueError:
        raise UnusableKeyError(f"--key is not JSON: expected {expected}") from None
    if not isinstance(pairs, _Pairs):
        written = ", ".join(f"{json.dumps(name, ensure_ascii=False)}: ..." for name in names)
        raise UnusableKeyError(f"--key: expected {expected}: '{{{written}}}'")
    # The columns' own names are allowed too.
    key = {name if name in names else name.lstrip("_"): value for name, value in pairs}
    if len(key) != len(pairs):
        raise UnusableKeyError(f"--key: a name comes twice, expected {expected}")
    if sorted(key) != sorted(names):
        raise UnusableKeyError(f"--key: expected {expected}, and nothing else")
    values = []
    for name in names:
        value = key[name]
        if isinstance(value, bool):
            value = "true" if value else "false"
        if not isinstance(value, str):
            raise UnusableKeyError(f"--key: expected text, a number or true or false as {name}")
        values.append(canonical_number(value) if isinstance(value, _Number) else value)
    return tuple(values)


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


class _Pairs(list[Any]):
    """The names and values of an object, with duplicates."""

    __slots__ = ()


def is_rounded(text: str, type_name: str) -> bool:
    """Whether a Spark cast would round a number or a time. False also for an invalid text, which
    the cast reports.
    """
    base_type, _, arguments = type_name.partition("(")
    if base_type in ("timestamp", "timestamp_ntz"):
        fraction = _FRACTION.search(text)
        return fraction is not None and len(fraction[1].rstrip("0")) > MICROSECONDS
    if base_type not in _NUMBERS:
        return False
    number = _number(text)
    if number is None or not number.is_finite():
        return False
    if base_type in ("float", "double"):
        try:
            value = float(number)
            if base_type == "float":
                (value,) = struct.unpack("f", struct.pack("f", value))
        except OverflowError:
            return True
        # A number with few digits means the nearest value.
        return all(number != Decimal(f"{value:.{digits}g}") for digits in range(1, 18))
    _, digits, exponent = number.as_tuple()
    written = "".join(map(str, digits))
    places = -int(exponent) - (len(written) - len(written.rstrip("0")))
    scale = int(arguments.rstrip(")").split(",")[1]) if "," in arguments else 0
    return bool(number) and places > scale


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return None


_FRACTION: Final = re.compile(r"[.]([0-9]+)")
_EXACT: Final = frozenset({"tinyint", "smallint", "int", "bigint", "decimal"})
_NUMBERS: Final = _EXACT | {"float", "double"}
