"""Widening of types, and how a declaration follows a source whose values have outgrown its types.

A change log that is declared with ``follow="widening"`` keeps with its table the types that its
columns have by now (``FOLLOWED``). They override the declared types, for the log itself and for
everything made from it, until the declaration is as wide or wider.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from python_udfs.typed.values import MOST_DIGITS

FOLLOWED: Final = "lakehouse.followed"
"""A property of a change log: the current types of its columns, and the sequence number up
to which its misfits were checked.
"""
WIDENING: Final = "widening"
# Each type holds all values of the types before it.
_WIDENINGS: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
_DECIMAL: Final = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


class Decimal(NamedTuple):
    """A decimal type."""

    digits: int
    scale: int

    @property
    def whole(self) -> int:
        """The number of digits before the point."""
        return self.digits - self.scale

    def __str__(self) -> str:
        return f"decimal({self.digits},{self.scale})"


class Kind(NamedTuple):
    """Numbers that did not fit the type of their column, grouped by the digits that they need."""

    column: str
    whole: int
    """The digits before the point."""
    fraction: int
    """The digits after the point."""
    is_bigint: bool
    is_double: bool


def decimal(ddl: str) -> Decimal | None:
    """The decimal type that Spark's DDL names; None for another type."""
    found = _DECIMAL.fullmatch(ddl)
    return None if found is None else Decimal(int(found[1] or 10), int(found[2] or 0))


def is_widening(old: str, new: str) -> bool:
    """Whether a type (in Spark's DDL) holds all values of another one exactly."""
    before, now = decimal(old), decimal(new)
    if before is not None and now is not None:
        return before.scale <= now.scale and before.whole <= now.whole
    return any(old in types[: types.index(new)] for types in _WIDENINGS if new in types)


def is_in_place(old: str, new: str) -> bool:
    """Whether Iceberg widens a column from one type to another without touching a file; not if a
    decimal gets a greater scale.
    """
    before, now = decimal(old), decimal(new)
    return is_widening(old, new) and (before is None or now is None or before.scale == now.scale)


def wider(declared: str, kinds: Sequence[Kind]) -> str:
    """The narrowest type that holds what the column's declared type holds, and as many kinds of
    the numbers as any type can; the declared type if none fits.
    """
    if (held := decimal(declared)) is not None:
        for kind in sorted(kinds, key=lambda each: each.whole + each.fraction):
            scale, whole = max(held.scale, kind.fraction), max(held.whole, kind.whole)
            if scale + whole <= MOST_DIGITS:
                held = Decimal(scale + whole, scale)
        return declared if held == decimal(declared) else str(held)
    if declared in _WIDENINGS[0][:-1] and any(kind.is_bigint for kind in kinds):
        return _WIDENINGS[0][-1]
    if declared == "float" and any(kind.is_double for kind in kinds):
        return "double"
    return declared


def followed(log: Mapping[str, Any], properties: Mapping[str, str]) -> Mapping[str, Any]:
    """A change log's declaration with the current types of its columns, from its table's
    properties.
    """
    types = looked_at(properties)[0] if log.get("follow") else {}
    if not types:
        return log
    columns = [
        # The mask was declared after the column had followed its source.
        each
        if "mask" in each
        else {**each, "type": _widest(each["type"], types.get(each["column"], each["type"]))}
        for each in log["columns"]
    ]
    return {**log, "columns": columns}


def _widest(declared: str, by_now: str) -> str:
    one, other = decimal(declared), decimal(by_now)
    if one is not None and other is not None:
        scale, whole = max(one.scale, other.scale), max(one.whole, other.whole)
        both = Decimal(scale + whole, scale)
        return declared if both == one or both.digits > MOST_DIGITS else str(both)
    return by_now if is_widening(declared, by_now) else declared


def looked_at(properties: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """The current types of a log's columns, and the sequence number up to which its misfits
    were checked.
    """
    kept = json.loads(properties.get(FOLLOWED) or "{}")
    return kept.get("types", {}), kept.get("sequence", 0)


def following(types: Mapping[str, str], sequence: int) -> dict[str, str]:
    """The property with these."""
    return {FOLLOWED: json.dumps({"types": types, "sequence": sequence}, sort_keys=True)}


def may_follow(log: Mapping[str, Any]) -> list[str]:
    """The columns whose types can follow. Key columns can't, since their rows would become other
    rows; nor can encoded values, whose texts don't tell their size.
    """
    return [
        each["column"]
        for each in log["columns"]
        if each["column"] not in log["key"]
        and each.get("encoding") is None
        and "mask" not in each
        and (decimal(each["type"]) or each["type"] in ("tinyint", "smallint", "int", "float"))
    ]


def outgrown(log: Mapping[str, Any], kinds: Iterable[Kind]) -> dict[str, str]:
    """The new types of columns with such numbers."""
    by_column: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_column.setdefault(kind.column, []).append(kind)
    types = {each["column"]: each["type"] for each in log["columns"]}
    now = {name: wider(types[name], found) for name, found in by_column.items()}
    return {name: now_it for name, now_it in now.items() if now_it != types[name]}
