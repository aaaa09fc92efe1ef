"""The source table that a change log without events may have been meant to take."""

import difflib
from typing import Final

from dbt_lakehouse.commands.status.lake import TargetTables
from dbt_lakehouse.runs.source_filter import IS_CHANGE
from python_udfs.core.events import SOURCE_FIELDS

# Below it `invoices` would be like `invoice_lines`.
_LIKENESS: Final = 0.8


def similar_source(lake: TargetTables, log: str) -> str | None:
    """The full name of a source table that no change log takes, and whose own name is like one that
    ``log`` declares: in other case, misspelled, or in another database or schema. None without one.
    """
    declared = lake.table(log).declared.get("sources")
    if not declared or not lake.has(lake.events):
        return None
    rows = lake.rows(
        f"select distinct {', '.join(SOURCE_FIELDS)} from {lake.reader.quoted(lake.events)}"
        f" where {IS_CHANGE}"
    )
    there = {names[-1].lower(): names for names in sorted(rows, key=str) if names[-1]}
    for *_, table in declared:
        for near in difflib.get_close_matches((table or "").lower(), there, 1, _LIKENESS):
            return ".".join(name for name in there[near] if name is not None)
    return None
