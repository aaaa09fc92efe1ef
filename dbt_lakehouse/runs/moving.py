"""A lake of before change logs read bronze themselves goes on where it is.

It has silver.change_events, every event as text, which logs, set_less_deletes and
quarantined_payloads were made of. other_events takes over what of it no log takes, in its first
commit (``MOVED``), and how far bronze was read. A table that had read all that it wants of
change_events has read other_events as far as that commit, and bronze as far as it says; others are
made anew. Nothing reads or writes change_events from then on.
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
"""The name of the table that there was."""
AFTER: Final = "other_events"
MOVED: Final = "lakehouse.moved"
"""In the summary of the commit of other_events that has taken over rows."""

Load = Callable[[str], Table | None]

# The bit field in which change_events kept the source tables of each commit.
_BITS: Final = 512
_ABSENT: Final = "\x01"


def marks_moved(
    held: Mapping[str, Mark], upstreams: Sequence[str], load: Load, wanted: Wanted
) -> dict[str, Mark] | None:
    """The marks of a table on its upstreams, of which the first is other_events, where its own are
    on change_events; None if it has to be made anew.
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
    """What the table was called that there was in place of other_events."""
    return events.removesuffix(AFTER) + BEFORE


def _has_news(table: Table, mark: Mark, wanted: Wanted) -> bool:
    """Whether change_events may have what a table wants and has not read."""
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
