"""What the page says, gathered from the lake without Spark and from the runs that are kept.

Counts of rows and the history of runs are what the tables' own commits say of them, so they are
there too for a lake that another machine has built.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dbt_lakehouse.commands.quarantine import Group, quarantine
from dbt_lakehouse.commands.sql.command import sql_literal
from dbt_lakehouse.dbt.fold import newest
from dbt_lakehouse.dbt.marks import HistoryLost, Mark, Window, marks_of, reading
from dbt_lakehouse.dbt.news import (
    CONDITIONS,
    IS_CHANGE,
    SOURCE,
    Wanted,
    decoded,
    may_have,
    topics_with,
)
from dbt_lakehouse.lags import Buckets, Spread, spread_of
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.runs import Node, Run

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_RUNS_SHOWN: Final = 30
# To count the new rows of a table, all of it is looked at.
_ROWS_LOOKED_AT: Final = 50_000_000
_BRONZE: Final = "bronze.raw_payloads"
# As dbt.node_run notes it.
_NEWEST: Final = "lakehouse.newest"
_PARTITIONS: Final = "bronze.topic_partitions"
# As dbt.node_run has it.
_DECLARED: Final = "lakehouse.declared"
# Of all that models read, what they read from the start at each run.
_REMEMBERED: Final = ("deleted_keys", "set_less_deletes")


@dataclass(slots=True)
class TableFacts:
    """A table, as it is and as the run has left it; what is not known is None."""

    name: str
    rows: int | None
    rows_before: int | None
    written_at: datetime | None
    made_of: list[str] = field(default_factory=list)
    """The tables whose rows become its own."""
    log: str | None = None
    """The change log among them."""
    newest_event: datetime | None = None
    """Kafka's time of the newest message that it has applied."""
    waiting: bool | None = None
    """Whether there is something that it has not read."""
    unread: int | None = None
    """How many rows that is, or messages that are not decoded for it and may have its events."""
    new: int | None = None
    """The rows that the run has added, and those that are gone by it, whatever took them: what is
    updated is neither.
    """
    gone: int | None = None
    events: int | None = None
    deletes: int | None = None
    misfits: int | None = None
    late: int | None = None
    expired: int | None = None
    refolded: int | None = None
    node: Node | None = None
    """Its model in the newest run that has built it."""
    seconds: float | None = None
    """What its model took in the run; None if that has not built it."""
    tests: list[Node] = field(default_factory=list)

    @property
    def state(self) -> str:
        """How it stands."""
        if self.node is not None and self.node.is_failure:
            return "failed"
        if self.node is not None and self.node.status == "skipped":
            return "skipped"
        if self.waiting is None:
            return "not known"
        return "behind" if self.waiting else "up to date"


@dataclass(slots=True)
class Counters:
    """What a run of the fold has met, in all tables (``silver.fold_counters``)."""

    at: datetime
    """When it was done; where that has been forgotten, as of when."""
    late: int = 0
    expired: int = 0
    refolded: int = 0


@dataclass(slots=True)
class Decoded:
    """What a run has decoded, as a commit of other_events has it."""

    at: datetime
    events: int
    quarantined: int


@dataclass(slots=True)
class Lag:
    """How far bronze was behind Kafka when it was last asked."""

    messages: int
    seconds: float | None
    partitions: int
    checked_at: datetime


@dataclass(slots=True)
class Facts:
    """All that the page says."""

    now: datetime
    run: Run | None
    """The newest that was to build tables; the newest, if none was."""
    runs: list[Run]
    """All that are kept, the newest first."""
    since: datetime | None = None
    """What was committed since then is the run's."""
    trouble: str | None = None
    """Why the lake can't be read."""
    landed: int = 0
    decoded: int = 0
    """Events but for those that say what could not be decoded."""
    undecoded: int = 0
    operations: dict[str, int] = field(default_factory=dict)
    """The events that the run has decoded, by what they are, the most first."""
    newly_quarantined: int = 0
    quarantined: int | None = 0
    groups: list[Group] = field(default_factory=list)
    gold: list[TableFacts] = field(default_factory=list)
    others: list[TableFacts] = field(default_factory=list)
    tests: list[Node] = field(default_factory=list)
    lag: Lag | None = None
    built: Mapping[str, Buckets] = field(default_factory=dict)
    """The lags from Kafka to gold in the last hour, by topic."""
    decoded_by_run: list[Decoded] = field(default_factory=list)
    gold_rows: list[tuple[datetime, int | None]] = field(default_factory=list)
    counters: list[Counters] = field(default_factory=list)

    @property
    def failures(self) -> list[Node]:
        """What has failed in the run, but for tests."""
        nodes = [] if self.run is None else self.run.nodes
        return [node for node in nodes if node.is_failure and not node.is_test]

    @property
    def misfits(self) -> int | None:
        """The changes with a value that doesn't fit, each once."""
        known = {table.log: table.misfits for table in self.gold if table.misfits is not None}
        return sum(filter(None, known.values())) if known else None

    @property
    def spread(self) -> Spread | None:
        """How the lags from Kafka to gold are spread, of all topics."""
        return spread_of(self.built.values())

    @property
    def spreads(self) -> dict[str, Spread]:
        """And of each topic."""
        found = {topic: spread_of([lags]) for topic, lags in self.built.items()}
        return {topic: spread for topic, spread in found.items() if spread is not None}

    def total(self, name: str) -> int | None:
        """A count of all gold tables together, None if none of them knows it."""
        known = [value for table in self.gold if (value := getattr(table, name)) is not None]
        return sum(known) if known else None


def of_runs(runs: Sequence[Run], now: datetime) -> Facts:
    """What the runs that are kept, the newest first, say without the lake."""
    run = next((run for run in runs if run.builds), runs[0] if runs else None)
    facts = Facts(now, run, list(runs))
    facts.tests = _tests(runs)
    facts.since = None if run is None else run.started_at
    return facts


def gather(
    reader: Reader,
    gold: str,
    silver: str,
    runs: Sequence[Run],
    now: datetime,
    *,
    show_payloads: bool = False,
) -> Facts:
    """All facts of a lake, whose schemas of gold and silver are named, and of runs that are kept,
    the newest first. Raises what reading raises.

    The reader may be a sparing one.
    """
    facts = of_runs(runs, now)
    tables = reader.metadata()
    events = tables.get(f"{silver}.other_events")
    if events is not None and facts.since is None:
        found = decoded(events)
        facts.since = found[0][0].made_at if found else None
    since = facts.since or now
    if events is not None:
        _tell_of_events(facts, tables, events, since)
    quarantined = tables.get(f"{silver}.quarantined_payloads")
    if quarantined is not None:
        facts.quarantined = commits.rows_now(quarantined)
        grown = commits.growth(quarantined)
        facts.newly_quarantined = sum(rows for made, rows in grown if made.made_at >= since)
    if facts.quarantined != 0:
        reader.include(f"{silver}.quarantined_payloads")
        facts.groups = quarantine(reader, silver, show_payloads=show_payloads).groups
    nodes = _nodes(runs)
    of_run = {} if facts.run is None else _nodes([facts.run])
    for name in tables:
        schema = name.partition(".")[0]
        if schema in (gold, silver, "bronze"):
            told = _table(name, reader, tables, nodes, since)
            told.seconds = of_run[name].seconds if name in of_run else None
            (facts.gold if schema == gold else facts.others).append(told)
    _tell_of_tests(facts, nodes)
    _tell_of_rows(facts, reader, tables, since)
    _tell_of_logs(facts, reader, tables, since)
    _tell_of_newest(facts, reader, tables)
    if (counters := tables.get(f"{silver}.fold_counters")) is not None:
        _tell_of_counters(facts, reader, f"{silver}.fold_counters", counters)
    if _PARTITIONS in tables:
        facts.lag = _lag(reader)
    if events is not None:
        _tell_of_history(facts, tables, events)
    return facts


def _nodes(runs: Sequence[Run]) -> dict[str, Node]:
    """What became of each table's model, by the table's name, when it was last built."""
    found: dict[str, Node] = {}
    for run in runs:
        for node in run.nodes:
            if node.table is not None:
                found.setdefault(node.table, node)
    return found


def _tests(runs: Sequence[Run]) -> list[Node]:
    """Each test as it came out last, in the newest run that was to build tables or behind it."""
    found: dict[str, Node] = {}
    for run in runs:
        for node in run.nodes:
            if node.is_test:
                found.setdefault(node.unique_id, node)
        if run.builds:
            break
    return list(found.values())


# --- events ---------------------------------------------------------------------------------------


def _tell_of_events(
    facts: Facts, tables: Mapping[str, Table], events: Table, since: datetime
) -> None:
    operations: Counter[str] = Counter()
    for made, counts in decoded(events):
        if made.made_at >= since:
            operations.update(counts)
    facts.operations = {name: count for name, count in operations.most_common() if count}
    facts.decoded = operations.total() - operations["invalid"]
    bronze = tables.get(_BRONZE)
    if bronze is None:
        return
    grown = commits.growth(bronze)
    then, now = (marks_of(each).get(_BRONZE) for each in (commits.before(events, since), events))
    # One that was made anew decodes messages that have landed long ago.
    is_anew = then is None and bool(events.log) and events.log[0][0] < since
    facts.landed = sum(
        rows
        for made, rows in grown
        if (
            made.made_at >= since
            if is_anew
            else then is None or made.sequence_number > then.sequence
        )
    )
    facts.undecoded = sum(
        rows for made, rows in grown if now is None or made.sequence_number > now.sequence
    )


def _is_large(table: Table) -> bool:
    """Whether to look at all of its rows takes too long, or may."""
    rows = commits.rows_now(table)
    return rows is None or rows > _ROWS_LOOKED_AT


# --- tables ---------------------------------------------------------------------------------------


def _table(
    name: str,
    reader: Reader,
    tables: Mapping[str, Table],
    nodes: Mapping[str, Node],
    since: datetime,
) -> TableFacts:
    table = tables[name]
    known = newest(table.noted(_NEWEST))
    made_of = [each for each in marks_of(table) if each.partition(".")[2] not in _REMEMBERED]
    logs = [each for each in made_of if each.endswith("_changes")]
    waiting = _is_waiting(name, tables, nodes)
    unread = _unread(name, reader, tables, nodes) if waiting else 0 if waiting is False else None
    return TableFacts(
        name=name,
        rows=commits.rows_now(table),
        rows_before=commits.rows_before(table, since),
        written_at=commits.written_at(table),
        made_of=made_of,
        log=logs[0] if logs else None,
        newest_event=None if known is None else _moment(known.log_time),
        # The filter by which a run spares itself a look takes some tables for others.
        waiting=waiting and unread != 0,
        unread=unread,
        node=nodes.get(name),
    )


def _is_waiting(name: str, tables: Mapping[str, Table], nodes: Mapping[str, Node]) -> bool | None:
    """Whether there is something that a table, or one that it is made of, has not read; None if
    that can't be told: it notes nothing of what it reads, or its model is not known.
    """
    marks = _marks(tables[name])
    answers: list[bool | None] = [] if marks else [None]
    for upstream, mark in marks.items():
        answers.append(_has_news(name, upstream, mark, tables, nodes))
        if upstream != _BRONZE and upstream in tables:
            answers.append(_is_waiting(upstream, tables, nodes))
    return True if True in answers else None if None in answers else False


def _marks(table: Table) -> dict[str, Mark]:
    """How far a table has read those that its rows are made of. A change log reads bronze as far as
    other_events has, which tells whether there is anything for it.
    """
    marks = marks_of(table)
    follows = any(_is_events(each) for each in marks)
    return {
        upstream: mark
        for upstream, mark in marks.items()
        if upstream.partition(".")[2] not in _REMEMBERED and not (follows and upstream == _BRONZE)
    }


def _is_events(name: str) -> bool:
    return name.endswith(".other_events")


def _has_news(
    name: str,
    upstream: str,
    mark: Mark,
    tables: Mapping[str, Table],
    nodes: Mapping[str, Node],
) -> bool | None:
    """Whether an upstream has something that a table has not read."""
    if upstream not in tables:
        return True
    try:
        todo = reading(mark, tables[upstream])
    except HistoryLost:
        return True
    wanted = _wanted(name, tables[name], nodes)
    if not may_have(tables[upstream], todo, wanted):
        return False
    # Of other source tables, perhaps.
    return None if wanted is None and _is_events(upstream) else True


def _wanted(name: str, table: Table, nodes: Mapping[str, Node]) -> Wanted:
    bare = name.partition(".")[2]
    if bare == "quarantined_payloads":
        return "invalid"
    if bare == "set_less_deletes":
        return "set_less_deletes"
    node = nodes.get(name)
    wanted: Wanted = None if node is None else node.wanted
    if wanted is None:
        # As it was declared when it was last built; no run need be remembered for that.
        text = table.properties.get(f"{_DECLARED}.{table.noted(_DECLARED)}")
        declared: dict[str, Any] = json.loads(text) if text else {}
        wanted = declared.get("sources")
    return wanted


def _unread(
    name: str, reader: Reader, tables: Mapping[str, Table], nodes: Mapping[str, Node]
) -> int | None:
    """How many rows a table, and those that it is made of, have not read; None if that can't be
    told any more.
    """
    total = 0
    for upstream, mark in _marks(tables[name]).items():
        if upstream not in tables:
            return None
        own = _unread_of(name, upstream, mark, reader, tables, nodes)
        deeper = _unread(upstream, reader, tables, nodes) if upstream != _BRONZE else 0
        if own is None or deeper is None:
            return None
        total += own + deeper
    return total


def _unread_of(
    name: str,
    upstream: str,
    mark: Mark,
    reader: Reader,
    tables: Mapping[str, Table],
    nodes: Mapping[str, Node],
) -> int | None:
    table = tables[upstream]
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
    wanted = _wanted(name, tables[name], nodes)
    if wanted is None or _is_large(table):
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
    tables: Mapping[str, Table],
) -> int | None:
    """How many payloads of the topics that have events of its source tables a change log has not
    read, of those that other_events has looked at; None if that can't be told.
    """
    topics = topics_with(tables[events], mark.snapshot, sources)
    if not topics:
        return None if topics is None else 0
    bronze = tables.get(_BRONZE)
    until, since = (marks_of(tables[each]).get(_BRONZE) for each in (events, name))
    if bronze is None or until is None or _is_large(bronze):
        return None
    reader.include(_BRONZE)
    new = reader.added_since(_BRONZE, 0 if since is None else since.sequence)
    among = ", ".join(map(sql_literal, topics))
    return _count(reader, f"{new} where _sequence <= {until.sequence} and topic in ({among})")


def _count(reader: Reader, rows: str) -> int:
    row = reader.query(f"select count(*) from {rows}").fetchone()
    assert row is not None
    return int(row[0])


def _is_of(wanted: Sequence[Sequence[str | None]]) -> str:
    """Whether an event is of one of these source tables, as SQL."""
    sources = (
        " and ".join(
            f"{column} is not distinct from {'null' if value is None else sql_literal(value)}"
            for column, value in zip(SOURCE, source, strict=True)
        )
        for source in wanted
    )
    return " or ".join(f"({each})" for each in sources) or "false"


def _tell_of_rows(
    facts: Facts, reader: Reader, tables: Mapping[str, Table], since: datetime
) -> None:
    """How many rows the run has added to each gold table, and how many are gone: a row keeps its
    number (``_row_id``) as long as it is there, and a new one has a higher one.
    """
    for table in facts.gold:
        metadata = tables[table.name]
        made = [each for each in metadata.chain if each.made_at >= since]
        if table.rows is None or table.rows_before is None:
            continue
        if not made or not table.rows_before:
            table.new, table.gone = table.rows - table.rows_before, 0
            continue
        first = made[-1].first_row_id
        written = sum(int(each.summary.get("added-records", 0)) for each in made)
        if first is None or written > _ROWS_LOOKED_AT:
            continue
        reader.include(table.name)
        rows = reader.added_since(table.name, commits.before(metadata, since).sequence)
        # With `where` DuckDB would compare what the files hold, which leave new rows' numbers out.
        query = f"select count(*) filter (_row_id >= {first}) from {rows}"
        row = reader.query(query).fetchone()
        assert row is not None
        table.new, table.gone = row[0], table.rows_before + row[0] - table.rows


def _tell_of_newest(facts: Facts, reader: Reader, tables: Mapping[str, Table]) -> None:
    """The newest event of tables that don't note it, histories among them: that of one that has
    read as much of the same log, or of what they have read of it.
    """
    noted = {_read_of_log(each, tables): each.newest_event for each in facts.gold}
    for table in facts.gold:
        read = _read_of_log(table, tables)
        if table.newest_event is not None or read is None:
            continue
        table.newest_event = noted.get(read)
        name, mark = read
        if table.newest_event is None and name in tables:
            if not _is_large(tables[name]):
                reader.include(name)
                rows = reader.earlier(name, sequence=mark.sequence)
                newest_log_time = f"select epoch_us(max(_position.log_time)) from {rows}"
                row = reader.query(newest_log_time).fetchone()
                noted[read] = table.newest_event = None if row is None else _moment(row[0])


def _moment(micros: int | None) -> datetime | None:
    """A moment from microseconds since the epoch; None for one that Python has not."""
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _read_of_log(table: TableFacts, tables: Mapping[str, Table]) -> tuple[str, Mark] | None:
    return None if table.log is None else (table.log, marks_of(tables[table.name])[table.log])


def _tell_of_tests(facts: Facts, nodes: Mapping[str, Node]) -> None:
    for table in (*facts.gold, *facts.others):
        node = nodes.get(table.name)
        # What no model makes is a source.
        is_it = node.unique_id.__eq__ if node else _source_of(table.name)
        table.tests = [test for test in facts.tests if any(map(is_it, test.of))]


def _source_of(table: str) -> Callable[[str], bool]:
    """Whether dbt's unique id is that of a source, a table."""
    return lambda unique_id: unique_id.startswith("source.") and unique_id.endswith(f".{table}")


def _tell_of_logs(
    facts: Facts, reader: Reader, tables: Mapping[str, Table], since: datetime
) -> None:
    """What the run has added to change logs, told with the gold tables that are made of them."""
    counts: dict[str, tuple[int, int, int]] = {}
    for table in facts.gold:
        if table.log is None or table.log not in tables:
            continue
        if table.log not in counts:
            found = _log_counts(reader, table.log, tables[table.log], since)
            if found is None:
                continue
            counts[table.log] = found
        table.events, table.deletes, table.misfits = counts[table.log]


def _log_counts(
    reader: Reader, name: str, log: Table, since: datetime
) -> tuple[int, int, int] | None:
    earlier = commits.before(log, since)
    if not any(made.made_at >= since for made, _ in commits.growth(log)):
        return 0, 0, 0
    if _is_large(log):
        return None
    reader.include(name)
    row = reader.query(
        "select count(*), count(*) filter (_operation = 'delete'),"
        " count(*) filter (len(_misfits) > 0)"
        f" from {reader.added_since(name, earlier.sequence)}"
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def _tell_of_counters(facts: Facts, reader: Reader, name: str, table: Table) -> None:
    reader.include(name)
    known = {each.name: each for each in facts.gold}
    when = {made.sequence_number: made.made_at for made in table.chain}
    rows = reader.query(
        "select _sequence, invocation_id, gold_table, as_of, coalesce(late_events, 0),"
        " coalesce(expired_keys, 0), coalesce(refolded_keys, 0)"
        f" from {reader.added_since(name, 0)} where touched_keys is not null"
        f" order by _sequence desc limit {_RUNS_SHOWN * max(1, len(known))}"
    ).fetchall()
    ids = {run.invocation_id for run in facts.runs if run.started_at >= (facts.since or facts.now)}
    if facts.run is None:
        ids = {row[1] for row in rows[:1]}
    by_run: dict[str, Counters] = {}
    for sequence, invocation, gold_table, as_of, *counts in rows:
        one = by_run.setdefault(invocation, Counters(when.get(sequence, as_of)))
        one.late += counts[0]
        one.expired += counts[1]
        one.refolded += counts[2]
        if invocation in ids and gold_table in known:
            told = known[gold_table]
            told.late, told.expired, told.refolded = counts
    facts.counters = [*by_run.values()][:_RUNS_SHOWN][::-1]


def _lag(reader: Reader) -> Lag | None:
    reader.include(_PARTITIONS)
    row = reader.query(
        "select sum(lag_messages)::bigint,"
        " if(count(lag_seconds) = count(*), max(lag_seconds), null),"
        f" count(*), max(checked_at) from {reader.quoted(_PARTITIONS)}"
        " where log_end_offset is not null"
    ).fetchone()
    return None if row is None or not row[2] else Lag(int(row[0] or 0), *row[1:])


# --- over the last runs ---------------------------------------------------------------------------


def _tell_of_history(facts: Facts, tables: Mapping[str, Table], events: Table) -> None:
    runs = decoded(events)[:_RUNS_SHOWN][::-1]
    facts.decoded_by_run = [
        Decoded(made.made_at, sum(counts.values()), counts["invalid"]) for made, counts in runs
    ]
    if not runs:
        # Nothing has been decoded, or what tells of it is gone: there is no run to show.
        return
    gold = [tables[table.name] for table in facts.gold]
    # A run has filled gold before the next one decodes.
    starts = [made.made_at for made, _ in runs]
    ends = [*starts[1:], facts.now]
    facts.gold_rows = list(zip(starts, commits.rows_over(gold, ends), strict=True))
