"""Migration of lakes from before change logs read bronze themselves.

Such a lake has silver.change_events, every event as text, from which logs, set_less_deletes and
quarantined_payloads were made. The first commit of other_events (``MOVED``) takes over the events
that no log takes, and how far bronze was read. A table that had read everything it wants from
change_events gets marks on other_events (that commit) and on bronze (as far as that commit says);
other tables are rebuilt. Nothing reads or writes change_events from then on.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from zlib import crc32

from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import marks
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Window
from dbt_lakehouse.runs.source_filter import PROPERTY, Wanted

BEFORE: Final = "change_events"
"""The name of the former table."""
AFTER: Final = "other_events"
MOVED: Final = "lakehouse.moved"
"""In the summary of the commit in which other_events has taken over rows."""

Load = Callable[[str], Table | None]

# The bit field of source tables that change_events kept for each commit.
_BITS: Final = 512
_ABSENT: Final = "\x01"


def marks_moved(
    held: Mapping[str, Mark], upstreams: Sequence[str], load: Load, wanted: Wanted
) -> dict[str, Mark] | None:
    """The marks of a table on its upstreams, derived from its mark on change_events; the first
    upstream is other_events. None if the table has to be rebuilt.
    """
    name = before_of(upstreams[0])
    old, new = load(name), load(upstreams[0])
    if name not in held or old is None or new is None:
        return None
    moved = next((each for each in new.chain if MOVED in each.summary), None)
    if moved is None or _has_news(old, held[name], wanted):
        return None
    found = {upstreams[0]: marks.mark_at(new, moved)}
    for bronze in upstreams[1:]:
        text = moved.summary.get(marks.PREFIX + bronze)
        if text is None:
            return None
        found[bronze] = marks.parsed(text)
    return found


def before_of(events: str) -> str:
    """The name of the table that other_events has replaced."""
    return events.removesuffix(AFTER) + BEFORE


def _has_news(table: Table, mark: Mark, wanted: Wanted) -> bool:
    """Whether change_events may contain rows that a table wants and has not read."""
    try:
        reading = marks.reading(mark, table)
    except HistoryLost:
        return True
    if reading.window is Window.NOTHING:
        return False
    if reading.window is not Window.SINCE_SNAPSHOT or wanted is None:
        return True
    commits = {each["snapshot"]: each for each in json.loads(table.properties.get(PROPERTY, "[]"))}
    for snapshot in table.chain:
        if snapshot.name == mark.snapshot:
            return False
        if snapshot.appends and _has(commits.get(snapshot.name), wanted):
            return True
    return True


def _has(commit: Mapping[str, object] | None, wanted: str | Sequence[Sequence[str | None]]) -> bool:
    if commit is None:
        return True
    if isinstance(wanted, str):
        return bool(commit.get(wanted, True))
    bits = int(str(commit["tables"]), 16)
    return any(bits >> _bit(source) & 1 for source in wanted)


def _bit(source: Sequence[str | None]) -> int:
    text = "\x00".join(_ABSENT if name is None else name for name in source)
    return crc32(text.encode()) % _BITS
