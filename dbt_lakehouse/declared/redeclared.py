"""Declarations as tables keep them, and what has become of one since its table was built."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from dbt_lakehouse.declared.columns import METADATA
from dbt_lakehouse.declared.declarations import fingerprint_of
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.declared.widening import is_in_place, is_widening

# What of a declaration may change without making anew what was built, or is compared by itself.
_FOLLOWED: Final = frozenset({"columns", "fields", "technical", "message_key", "masked"})


def declared(of: Fold | Mapping[str, Any]) -> str:
    """A declaration as a table keeps it, to be held against that of a later run."""
    if isinstance(of, Fold):
        values = asdict(of)
        types, beside = values.pop("types"), values.pop("beside")
        if not of.bitemporal:
            # Not said of others: what tables keep from before there were such columns stays true.
            del values["bitemporal"]
        if not of.masked:
            # What tables without masks keep stays true.
            del values["masked"]
        if not of.order_by:
            # What tables that go by Kafka's log keep stays true.
            del values["order_by"]
        if not of.deleted_rows:
            # Likewise.
            del values["deleted_rows"]
        values["columns"] = [
            {"column": column.strip("`"), "type": types[column.strip("`")]}
            # Likewise.
            | ({"from": METADATA} if column in beside else {})
            for column in [*of.key, *of.columns]
        ]
        return json.dumps(values, sort_keys=True)
    # Whether its types follow says nothing of the rows that it has.
    rows = {name: value for name, value in of.items() if name != "follow"}
    # Not of meta, which dbt keeps from an earlier parse.
    if (key := fingerprint_of(of)) is not None:
        rows["mask_key"] = key
    return json.dumps(rows, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Changes:
    """What has become of a table's declaration."""

    to_fill: dict[str, str | None]
    """Columns that its rows can have no values of yet, with their type before: None for a new
    one.
    """
    rebuild: str | None = None
    """Why the table can't be brought up to it without being made anew; None if it can."""


def changes(before: str | None, after: str) -> Changes:
    """What has changed between two declarations, of which the first may not be known."""
    if before == after:
        return Changes({})
    if before is None:
        return Changes({}, "what it was made of is not known")
    old, new = json.loads(before), json.loads(after)
    for each in (old, new):
        if "conditions" in each:
            # The first names formats, as the namespace says. When one was added it has no events
            # yet, and the table needn't be made anew.
            del each["conditions"][0]
    if "mask_key" not in old or "mask_key" not in new:
        # Rows of one of them have no hashes: its columns tell what they need.
        for each in (old, new):
            each.pop("mask_key", None)
    if {**old, "masked": []} == {**new, "masked": []}:
        # A mask makes the log another one, and that its tables.
        return Changes({})
    for name in sorted((old.keys() | new.keys()) - _FOLLOWED):
        if old.get(name) != new.get(name):
            return Changes({}, f"its declaration has changed ({name.replace('_', ' ')})")
    if new.get("keyless"):
        return Changes({}, "the columns of a table without a key have changed")
    held = {column["column"]: column for column in old["columns"]}
    to_fill: dict[str, str | None] = {}
    for column in new["columns"]:
        name = column["column"]
        before_it = held.pop(name, None)
        if before_it is None:
            to_fill[name] = None
        elif before_it != column:
            is_key = name in {each.strip("`") for each in new["key"]}
            if not _is_widened(before_it, column, is_key):
                return Changes({}, f"column {name} is declared otherwise")
            to_fill[name] = before_it["type"]
    if held:
        return Changes({}, f"it has no column {', '.join(held)} any more")
    return Changes(to_fill)


def _is_widened(old: Mapping[str, Any], new: Mapping[str, Any], is_key: bool) -> bool:
    # A key's values stand in what is remembered of it too.
    holds = is_in_place if is_key else is_widening
    return {**old, "type": new["type"]} == new and holds(old["type"], new["type"])
