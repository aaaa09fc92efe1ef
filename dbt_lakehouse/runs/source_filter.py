"""A filter for change logs: the source tables and topics of the events that each commit of
other_events has read. A log without new events need not look at the commit, and a log reads only
the topics that contain its events.

While a run looks at its new payloads, Spark collects these pairs from all their events, and the
counts that other models need. The table keeps them for its newest commits, by snapshot.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dbt_lakehouse.lake.tables import LOOKED, Snapshot, Table
from dbt_lakehouse.runs.marks import Reading, Window
from dbt_lakehouse.texts import sql_texts
from python_udfs.core.events import (
    INVALID,
    MESSAGE,
    OF_ROWS,
    SCHEMA_CHANGE,
    SOURCE_FIELDS,
    TOMBSTONE,
    TRUNCATE,
)

PROPERTY: Final = "lakehouse.news"

# For older commits, a reader that has not read them yet looks at their rows.
_COMMITS_KEPT: Final = 100
# Beyond this number pairs are not kept: each run would rewrite all of them, and gain nothing.
_MOST_PAIRS: Final = 5000

CHANGES: Final = (*OF_ROWS, TRUNCATE)
"""The operations that change a row."""
IS_CHANGE: Final = f"operation in ({sql_texts(CHANGES)})"
OPERATIONS: Final = (*CHANGES, TOMBSTONE, MESSAGE, SCHEMA_CHANGE, INVALID)
"""All operations."""

Wanted = str | Sequence[Sequence[str | None]] | None
"""What a model reads: one of ``CONDITIONS``, the events of some source tables, or all (None)."""

CONDITIONS: Final = {
    "invalid": "operation = 'invalid'",
    "set_less_deletes": "operation = 'delete' and source_table is null",
    "truncates": "operation = 'truncate'",
    "added": "added_by is not null",
}
"""What some models read from any source table, as SQL over events."""


def aggregates(events: str = "1", payloads: str = "0") -> dict[str, str]:
    """The aggregates over events that are kept for a commit, as SQL. ``events`` and ``payloads``:
    SQL for the number of events in a row, and of payloads that begin with one of them.
    """
    fields = ", ".join(f"'{name}', {name}" for name in ("topic", *SOURCE_FIELDS))
    pair = f"named_struct({fields})"
    operations = {name: f"operation = '{name}'" for name in OPERATIONS}
    return {
        "pairs": f"collect_set(if({IS_CHANGE}, {pair}, null))",
        "payloads": f"sum({payloads})",
        **{
            name: f"sum(if({condition}, {events}, 0))"
            for name, condition in {**CONDITIONS, **operations}.items()
        },
    }


class News:
    """What a table keeps about its commits."""

    def __init__(self, table: Table) -> None:
        held = json.loads(table.properties.get(PROPERTY) or "{}")
        self.pairs: Final[list[list[str | None]]] = held.get("pairs") or []
        """Topic, database, schema and table of all events of the commits."""
        self.commits: Final[list[dict[str, Any]]] = held.get("commits") or []
        """For each commit, the newest first: ``snapshot``, ``CONDITIONS``, ``payloads``, the number
        of payloads that it has looked at, ``operations``, the number of its events for each of
        ``OPERATIONS``, and ``pairs``, a bit field of its pairs in hexadecimal digits, None for any.
        """
        self.is_whole: Final[bool] = held.get("is_whole", False)
        """Whether the pairs are those of all events that the table has ever looked at, except for
        commits after the newest of these.
        """

    def by_snapshot(self) -> dict[str, dict[str, Any]]:
        """The kept data of commits, by snapshot."""
        return {commit["snapshot"]: commit for commit in self.commits}

    def pairs_of(self, commit: Mapping[str, Any]) -> list[list[str | None]] | None:
        """The pairs of a commit; None if any is possible."""
        if commit["pairs"] is None:
            return None
        bits = int(commit["pairs"], 16)
        return [pair for place, pair in enumerate(self.pairs) if bits >> place & 1]

    def has(self, commit: Mapping[str, Any] | None, wanted: Wanted) -> bool:
        """Whether a commit may have read what a model wants."""
        if commit is None or wanted is None:
            return True
        if isinstance(wanted, str):
            return bool(commit[wanted])
        pairs = self.pairs_of(commit)
        return pairs is None or any(pair[1:] in map(list, wanted) for pair in pairs)


def kept(
    table: Table, snapshot: str, observed: Mapping[str, Any], *, is_first: bool
) -> dict[str, Any]:
    """The data to keep after a commit. ``table`` is the table before it; ``is_first``: the commit
    has rebuilt it.
    """
    news = News(table)
    is_whole = is_first or (news.is_whole and _knows_newest(news, table))
    pairs: list[list[str | None]] = [list(pair) for pair in news.pairs]
    places = {tuple(pair): place for place, pair in enumerate(pairs)}
    bits = 0
    for pair in observed["pairs"]:
        named = (pair["topic"], *(pair[name] for name in SOURCE_FIELDS))
        if named not in places:
            places[named] = len(pairs)
            pairs.append(list(named))
        bits |= 1 << places[named]
    is_known = len(pairs) <= _MOST_PAIRS
    commit = {
        "snapshot": snapshot,
        "pairs": f"{bits:x}" if is_known else None,
        **{name: int(observed.get(name) or 0) for name in ("payloads", *CONDITIONS)},
        "operations": [int(observed.get(name) or 0) for name in OPERATIONS],
    }
    return {
        "pairs": pairs if is_known else news.pairs,
        "commits": [commit, *news.commits][:_COMMITS_KEPT],
        "is_whole": is_known and is_whole,
    }


def _knows_newest(news: News, table: Table) -> bool:
    """Whether the kept data includes the newest commit that has looked at anything."""
    newest = table.last_looked
    if newest is None:
        # If all commits exist, no commit has looked at anything.
        return not table.chain or table.chain[-1].parent_snapshot_id is None
    return newest in news.by_snapshot()


def payloads_of(table: Table) -> int | None:
    """The number of payloads that a table's newest commit has looked at; None if that is not
    known.
    """
    commit = News(table).by_snapshot().get(table.snapshot, {})
    return commit.get("payloads")


def decoded(table: Table) -> list[tuple[Snapshot, dict[str, int]]]:
    """The commits of other_events that have looked at payloads, or have added events that
    payloads stand for, with the number of events by operation; the newest first, as far as is
    kept, without commits that have no events.
    """
    commits = News(table).by_snapshot()
    return [
        (each, dict(zip(OPERATIONS, commits[each.name]["operations"], strict=True)))
        for each in table.chain
        if each.name in commits and any(commits[each.name]["operations"])
    ]


def may_have(table: Table, reading: Reading, wanted: Wanted) -> bool:
    """Whether new rows of other_events, or payloads that it has looked at, may contain what a
    model wants.
    """
    if reading.window is not Window.SINCE_SNAPSHOT or wanted is None or reading.since is None:
        return reading.has_news
    news = News(table)
    commits = news.by_snapshot()
    for snapshot in table.chain:
        if snapshot.name == reading.since.snapshot:
            return False
        if snapshot.appends and news.has(commits.get(snapshot.name), wanted):
            return True
    return True


def may_have_operation(table: Table, since: str, operation: str) -> bool:
    """Whether commits after a snapshot have looked, or may have looked, at events of an
    operation.
    """
    commits, place = News(table).by_snapshot(), OPERATIONS.index(operation)
    for snapshot in table.chain:
        if snapshot.name == since:
            return False
        if snapshot.appends:
            commit = commits.get(snapshot.name)
            if commit is None or commit["operations"][place]:
                return True
    return True


def may_ever_have(table: Table, wanted: str) -> bool:
    """Whether any event ever may be one that ``CONDITIONS`` calls ``wanted``."""
    news = News(table)
    commits = news.by_snapshot()
    if table.chain and table.chain[-1].parent_snapshot_id is not None:
        # Earlier commits have expired.
        return True
    return any(
        news.has(commits.get(snapshot.name), wanted)
        for snapshot in table.chain
        if snapshot.changes_rows or snapshot.appends
    )


def all_pairs(table: Table) -> Sequence[Sequence[str | None]] | None:
    """Topic, database, schema and table of all events that other_events has looked at; None if
    that is unknown.
    """
    news = News(table)
    return news.pairs if news.is_whole and _knows_newest(news, table) else None


def topics_with(
    table: Table, since: str | None, sources: Iterable[Sequence[str | None]] | None
) -> list[str] | None:
    """The topics with events of some source tables (None: of any), among those that commits after
    a snapshot have looked at (None: all commits). None if that is unknown.
    """
    news = News(table)
    wanted = None if sources is None else [list(source) for source in sources]

    def topics(pairs: Iterable[Sequence[str | None]]) -> set[str]:
        return {str(pair[0]) for pair in pairs if wanted is None or pair[1:] in wanted}

    if since is None:
        pairs = all_pairs(table)
        return None if pairs is None else sorted(topics(pairs))
    commits = news.by_snapshot()
    found: set[str] = set()
    for snapshot in table.chain:
        if snapshot.name == since:
            return sorted(found)
        if LOOKED in snapshot.summary:
            commit = commits.get(snapshot.name)
            pairs = None if commit is None else news.pairs_of(commit)
            if pairs is None:
                return None
            found |= topics(pairs)
    return None
