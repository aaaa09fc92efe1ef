"""The backlog of a table: what it and its upstreams have not read yet, from the marks in its
commits and, for other_events, from the new rows.
"""

from collections.abc import Mapping, Sequence

from dbt_lakehouse.lake.names import BRONZE, Silver
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import sql_literal
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.runs import Node
from dbt_lakehouse.runs.inventory import Kind, LakeTable, own_kind
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Window, reading
from dbt_lakehouse.runs.source_filter import (
    CONDITIONS,
    IS_CHANGE,
    Wanted,
    may_have,
    topics_with,
)
from python_udfs.core.events import SOURCE_FIELDS


def is_waiting(
    name: str, tables: Mapping[str, LakeTable], nodes: Mapping[str, Node]
) -> bool | None:
    """Whether a table, or one of its upstreams, has not read something; None if that is unknown:
    it has no marks, or its model is not known.
    """
    marks = _marks(tables[name])
    answers: list[bool | None] = [] if marks else [None]
    for upstream, mark in marks.items():
        answers.append(_has_news(name, upstream, mark, tables, nodes))
        if upstream != BRONZE and upstream in tables:
            answers.append(is_waiting(upstream, tables, nodes))
    return True if True in answers else None if None in answers else False


def _marks(table: LakeTable) -> dict[str, Mark]:
    """The marks of a table on the upstreams that its rows are made from. A change log reads
    bronze as far as other_events has, which tells whether bronze has anything for it. log_times,
    which other_events keeps, is written for late payloads only: its mark says nothing of others.
    """
    if table.name == Silver.of(table.name.partition(".")[0]).log_times:
        return {}
    marks = table.made_of
    if any(map(_is_events, marks)):
        marks.pop(BRONZE, None)
    return marks


def _is_events(name: str) -> bool:
    return own_kind(name) is Kind.EVENTS


def _has_news(
    name: str,
    upstream: str,
    mark: Mark,
    tables: Mapping[str, LakeTable],
    nodes: Mapping[str, Node],
) -> bool | None:
    """Whether an upstream has something that a table has not read."""
    if upstream not in tables:
        return True
    try:
        todo = reading(mark, tables[upstream].metadata)
    except HistoryLost:
        return True
    wanted = _wanted(tables[name], nodes)
    if not may_have(tables[upstream].metadata, todo, wanted):
        return False
    # It may be of other source tables.
    return None if wanted is None and _is_events(upstream) else True


def _wanted(table: LakeTable, nodes: Mapping[str, Node]) -> Wanted:
    """What a table reads of other_events, as its model says now if a run's record has that."""
    node, built = nodes.get(table.name), table.wanted
    return built if node is None or node.wanted is None or isinstance(built, str) else node.wanted


def count_unread(
    name: str, reader: Reader, tables: Mapping[str, LakeTable], nodes: Mapping[str, Node]
) -> int | None:
    """The number of rows that a table and its upstreams have not read; None if that is not known
    any more.
    """
    total = 0
    for upstream, mark in _marks(tables[name]).items():
        if upstream not in tables:
            return None
        own = _unread_of(name, upstream, mark, reader, tables, nodes)
        deeper = count_unread(upstream, reader, tables, nodes) if upstream != BRONZE else 0
        if own is None or deeper is None:
            return None
        total += own + deeper
    return total


def _unread_of(
    name: str,
    upstream: str,
    mark: Mark,
    reader: Reader,
    tables: Mapping[str, LakeTable],
    nodes: Mapping[str, Node],
) -> int | None:
    table = tables[upstream].metadata
    try:
        todo = reading(mark, table)
    except HistoryLost:
        return None
    if not todo.has_news:
        return 0
    if not _is_events(upstream):
        if todo.window is Window.SINCE_SEQUENCE:
            return None
        # Rows are only ever added to it.
        return sum(
            rows for made, rows in commits.growth(table) if made.sequence_number > mark.sequence
        )
    wanted = _wanted(tables[name], nodes)
    if wanted is None or commits.is_large(table):
        return None
    reader.include(upstream)
    new = reader.added_since(upstream, mark.sequence)
    if isinstance(wanted, str):
        return _count(reader, f"{new} where {CONDITIONS[wanted]}")
    added = f"{new} where added_by is not null and {IS_CHANGE} and ({_is_of(wanted)})"
    payloads = _unread_payloads(name, upstream, mark, wanted, reader, tables)
    return None if payloads is None else payloads + _count(reader, added)


def _unread_payloads(
    name: str,
    events: str,
    mark: Mark,
    sources: Sequence[Sequence[str | None]],
    reader: Reader,
    tables: Mapping[str, LakeTable],
) -> int | None:
    """The number of payloads that a change log has not read, in topics with events of its source
    tables, among those that other_events has looked at; None if that is unknown.
    """
    topics = topics_with(tables[events].metadata, mark.snapshot, sources)
    if not topics:
        return None if topics is None else 0
    bronze = tables.get(BRONZE)
    until, since = (tables[each].marks.get(BRONZE) for each in (events, name))
    if bronze is None or until is None or commits.is_large(bronze.metadata):
        return None
    reader.include(BRONZE)
    new = reader.added_since(BRONZE, 0 if since is None else since.sequence)
    among = ", ".join(map(sql_literal, topics))
    return _count(reader, f"{new} where _lh_sequence <= {until.sequence} and topic in ({among})")


def _count(reader: Reader, rows: str) -> int:
    row = reader.query(f"select count(*) from {rows}").fetchone()
    assert row is not None
    return int(row[0])


def _is_of(wanted: Sequence[Sequence[str | None]]) -> str:
    """An SQL condition that an event is of one of these source tables."""
    sources = (
        " and ".join(
            f"{column} is not distinct from {'null' if value is None else sql_literal(value)}"
            for column, value in zip(SOURCE_FIELDS, source, strict=True)
        )
        for source in wanted
    )
    return " or ".join(f"({each})" for each in sources) or "false"
