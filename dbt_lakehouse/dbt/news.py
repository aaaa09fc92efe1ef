"""Which source tables the commits of change_events have events of, so that the change logs of all
others need not look.

While a run's events are written, Spark folds their source tables into a bit field (a Bloom filter
of one hash), and counts what other models ask for. That is kept with the table, for its newest
commits, by snapshot. A bit that is set may be another table's; one that is not set is certain.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from zlib import crc32

from dbt_lakehouse.dbt.marks import Reading, Window
from dbt_lakehouse.lake.tables import Table

PROPERTY: Final = "lakehouse.news"

_WORDS: Final = 8
_WORD_BITS: Final = 64
# Older commits are looked at by who has not read them yet.
_COMMITS_KEPT: Final = 100

Source = tuple[str | None, str | None, str | None]
"""Database, schema and table of an event."""

SOURCE: Final = ("source_database", "source_schema", "source_table")
"""The columns of these."""

Wanted = str | Sequence[Sequence[str | None]] | None
"""What a model reads of change_events: one of ``CONDITIONS``, the events of some source tables, or
any.
"""

CONDITIONS: Final = {
    "invalid": "operation = 'invalid'",
    "set_less_deletes": "operation = 'delete' and source_table is null",
    "truncates": "operation = 'truncate'",
}
"""What some models read whatever the source table is, as SQL over change_events."""

COUNTS: Final = {name: f"count_if({condition})" for name, condition in CONDITIONS.items()}

_ABSENT: Final = "\x01"


def aggregates() -> dict[str, str]:
    """SQL over change_events for what is kept of a commit."""
    names = ", ".join(f"coalesce({name}, '{_ABSENT}')" for name in SOURCE)
    place = f"(crc32(concat_ws('\x00', {names})) % {_WORDS * _WORD_BITS})"
    words = {
        f"word_{word}": (
            f"bit_or(if({place} div {_WORD_BITS} = {word},"
            f" shiftleft(1L, cast({place} % {_WORD_BITS} as int)), 0L))"
        )
        for word in range(_WORDS)
    }
    return {**words, **COUNTS}


def _bit(source: Sequence[str | None]) -> int:
    text = "\x00".join(_ABSENT if name is None else name for name in source)
    return 1 << (crc32(text.encode()) % (_WORDS * _WORD_BITS))


def kept(table: Table, snapshot: str, observed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is to be kept after a commit of a table that had been ``table`` before."""
    bits = 0
    for word in range(_WORDS):
        # Java's longs have a sign.
        value = int(observed.get(f"word_{word}") or 0) % (1 << _WORD_BITS)
        bits |= value << (word * _WORD_BITS)
    counts = {name: int(observed.get(name) or 0) for name in COUNTS}
    commit = {"snapshot": snapshot, "tables": f"{bits:x}", **counts}
    return [commit, *commits_kept(table)][:_COMMITS_KEPT]


def commits_kept(table: Table) -> list[dict[str, Any]]:
    """What is kept of a table's commits, the newest first: ``snapshot``, ``tables``, ``COUNTS``."""
    commits: list[dict[str, Any]] = json.loads(table.properties.get(PROPERTY) or "[]")
    return commits


def may_have(table: Table, reading: Reading, wanted: Wanted) -> bool:
    """Whether new rows of change_events may have what a model wants."""
    if reading.window is not Window.SINCE_SNAPSHOT or wanted is None or reading.since is None:
        return reading.has_news
    commits = {commit["snapshot"]: commit for commit in commits_kept(table)}
    for snapshot in table.chain:
        if snapshot.name == reading.since.snapshot:
            return False
        if snapshot.appends and _may_have(commits.get(snapshot.name), wanted):
            return True
    return True


def may_ever_have(table: Table, wanted: str) -> bool:
    """Whether any row of change_events may be what ``CONDITIONS`` names so."""
    commits = {commit["snapshot"]: commit for commit in commits_kept(table)}
    if table.chain and table.chain[-1].parent_snapshot_id is not None:
        # Commits before it have expired.
        return True
    return any(
        _may_have(commits.get(snapshot.name), wanted)
        for snapshot in table.chain
        if snapshot.changes_rows
    )


def _may_have(
    commit: Mapping[str, Any] | None, wanted: str | Sequence[Sequence[str | None]]
) -> bool:
    if commit is None:
        return True
    if isinstance(wanted, str):
        # Older versions have not counted all.
        return bool(commit.get(wanted, True))
    bits = int(commit["tables"], 16)
    return any(bits & _bit(source) for source in wanted)
