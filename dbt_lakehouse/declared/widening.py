"""Types that hold all values of others, and how a declaration follows a source whose values have
outgrown it.

A change log that is declared with ``follow="widening"`` keeps, with its table, the types that its
columns have by now (``FOLLOWED``). They go before those that are declared, for the log itself and
for all that is made of it, until the declaration says the same or more.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

FOLLOWED: Final = "lakehouse.followed"
"""A property of a change log: the types that its columns have by now, and the sequence number up to
which its misfits were looked at.
"""
WIDENING: Final = "widening"
# Each holds all values of those before it.
_WIDENINGS: Final = (("tinyint", "smallint", "int", "bigint"), ("float", "double"))
_DECIMAL: Final = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_MOST_DIGITS: Final = 38


class Decimal(NamedTuple):
    """A type of decimals."""

    digits: int
    scale: int

    @property
    def whole(self) -> int:
        """The digits before the point."""
        return self.digits - self.scale

    def __str__(self) -> str:
        return f"decimal({self.digits},{self.scale})"


class Kind(NamedTuple):
    """Numbers that did not fit the type of their column, alike in what holds them."""

    column: str
    whole: int
    """Their digits before the point."""
    fraction: int
    """And behind it."""
    is_bigint: bool
    is_double: bool


def decimal(ddl: str) -> Decimal | None:
    """The type of decimals that Spark's DDL names; None for another type."""
    found = _DECIMAL.fullmatch(ddl)
    return None if found is None else Decimal(int(found[1] or 10), int(found[2] or 0))


def is_widening(old: str, new: str) -> bool:
    """Whether a type (in Spark's DDL) holds all values of another one as they are."""
    before, now = decimal(old), decimal(new)
    if before is not None and now is not None:
        return before.scale <= now.scale and before.whole <= now.whole
    return any(old in types[: types.index(new)] for types in _WIDENINGS if new in types)


def is_in_place(old: str, new: str) -> bool:
    """Whether Iceberg changes a column from one type to a wider one without touching a file: not
    where decimals get a greater scale.
    """
    before, now = decimal(old), decimal(new)
    return is_widening(old, new) and (before is None or now is None or before.scale == now.scale)


def wider(declared: str, kinds: Sequence[Kind]) -> str:
    """The least type that holds what a column is declared to hold, and as many kinds of numbers as
    there is a type for; the declared one if there is none for any.
    """
    if (held := decimal(declared)) is not None:
        for kind in sorted(kinds, key=lambda each: each.whole + each.fraction):
            scale, whole = max(held.scale, kind.fraction), max(held.whole, kind.whole)
            if scale + whole <= _MOST_DIGITS:
                held = Decimal(scale + whole, scale)
        return declared if held == decimal(declared) else str(held)
    if declared in _WIDENINGS[0][:-1] and any(kind.is_bigint for kind in kinds):
        return _WIDENINGS[0][-1]
    if declared == "float" and any(kind.is_double for kind in kinds):
        return "double"
    return declared


def followed(log: Mapping[str, Any], properties: Mapping[str, str]) -> Mapping[str, Any]:
    """A change log's declaration with the types that its columns have by now, by the properties of
    its table.
    """
    types = looked_at(properties)[0] if log.get("follow") else {}
    if not types:
        return log
    columns = [
        # What followed before its mask was declared.
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
        return declared if both == one or both.digits > _MOST_DIGITS else str(both)
    return by_now if is_widening(declared, by_now) else declared


def looked_at(properties: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """The types that a log's columns have by now, and up to which sequence number its misfits were
    looked at.
    """
    kept = json.loads(properties.get(FOLLOWED) or "{}")
    return kept.get("types", {}), kept.get("sequence", 0)


def following(types: Mapping[str, str], sequence: int) -> dict[str, str]:
    """The property that says so."""
    return {FOLLOWED: json.dumps({"types": types, "sequence": sequence}, sort_keys=True)}


def may_follow(log: Mapping[str, Any]) -> list[str]:
    """The columns whose types can follow: a key's can't, for its rows would be other ones, nor can
    those of encoded values, whose texts say nothing of their size.
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
    """The new types of columns that have met such numbers."""
    by_column: dict[str, list[Kind]] = {}
    for kind in kinds:
        by_column.setdefault(kind.column, []).append(kind)
    types = {each["column"]: each["type"] for each in log["columns"]}
    now = {name: wider(types[name], found) for name, found in by_column.items()}
    return {name: now_it for name, now_it in now.items() if now_it != types[name]}
