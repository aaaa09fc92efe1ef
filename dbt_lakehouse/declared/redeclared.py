"""The declarations that tables keep, and what has changed since a table was built."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from dbt_lakehouse.declared.columns import METADATA
from dbt_lakehouse.declared.declarations import fingerprint_of
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.declared.widening import is_widening

# Parts of a declaration that may change without a rebuild, or that are compared separately.
_FOLLOWED: Final = frozenset({"columns", "fields", "technical", "message_key", "masked"})


def declared(of: Fold | Mapping[str, Any]) -> str:
    """A declaration as text for the table to keep, so that a later run can compare it."""
    if isinstance(of, Fold):
        values = asdict(of)
        types, beside = values.pop("types"), values.pop("beside")
        if not of.bitemporal:
            # Left out for others, so that the text which older tables keep stays valid.
            del values["bitemporal"]
        if not of.masked:
            # Left out without masks, for the same reason.
            del values["masked"]
        if not of.order_by:
            # Left out for tables in Kafka's order, for the same reason.
            del values["order_by"]
        if not of.deleted_rows:
            del values["deleted_rows"]
        values["columns"] = [
            {"column": column.strip("`"), "type": types[column.strip("`")]}
            | ({"from": METADATA} if column in beside else {})
            for column in [*of.key, *of.columns]
        ]
        return json.dumps(values, sort_keys=True)
    # Whether types follow the source does not concern the rows.
    rows = {name: value for name, value in of.items() if name != "follow"}
    # Not from meta, which dbt may keep from an earlier parse.
    if (key := fingerprint_of(of)) is not None:
        rows["mask_key"] = key
    return json.dumps(rows, sort_keys=True)


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes to a table's declaration."""

    to_fill: dict[str, str | None]
    """Columns to fill in existing rows, with their former type: None for a new column."""
    rebuild: str | None = None
    """Why the table has to be rebuilt; None if it can be adapted."""


def changes(before: str | None, after: str) -> Changes:
    """The changes between two declarations; the earlier one may be unknown."""
    if before == after:
        return Changes({})
    if before is None:
        return Changes({}, "its earlier declaration is not known")
    old, new = json.loads(before), json.loads(after)
    for each in (old, new):
        if "conditions" in each:
            # The first condition names formats, which the namespace implies. A newly supported
            # format has no events yet, so the table need not be rebuilt.
            del each["conditions"][0]
    if "mask_key" not in old or "mask_key" not in new:
        # One of the two has no hashes: its columns tell what changes.
        for each in (old, new):
            each.pop("mask_key", None)
    if {**old, "masked": []} == {**new, "masked": []}:
        # A mask changes the log's declaration, and the log's rebuild rebuilds its tables.
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
            if not _is_widened(before_it, column):
                return Changes({}, f"column {name} is declared otherwise")
            if name in {each.strip("`") for each in new["key"]}:
                # The key before a change is in other columns too, which keep no text of what did
                # not fit: filled rows alone would leave some under their old keys.
                types = f"{before_it['type']} to {column['type']}"
                return Changes({}, f"the type of its key column {name} has changed ({types})")
            to_fill[name] = before_it["type"]
    if held:
        return Changes({}, f"it has no column {', '.join(held)} any more")
    return Changes(to_fill)


def _is_widened(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return {**old, "type": new["type"]} == new and is_widening(old["type"], new["type"])
