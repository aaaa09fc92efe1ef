"""Gather the facts of a lake, read without Spark, and of the kept runs.

Counts of rows and the history of runs come from the tables' own commits, so they are also there
for a lake that another machine has built.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from dbt_lakehouse.lake.names import BRONZE, TOPIC_PARTITIONS, Silver
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.added_rows import tell_of_logs, tell_of_rows
from dbt_lakehouse.report.backlog import count_unread, is_waiting
from dbt_lakehouse.report.facts import Facts, TableFacts, of_runs
from dbt_lakehouse.report.freshness import lag, moment_of, tell_of_newest
from dbt_lakehouse.report.over_time import (
    knows_decoded,
    past_runs,
    tell_of_counters,
    tell_of_history,
)
from dbt_lakehouse.report.runs import Node, Run
from dbt_lakehouse.runs.decisions import newest
from dbt_lakehouse.runs.inventory import Kind, LakeTable
from dbt_lakehouse.runs.marks import marks_of
from dbt_lakehouse.runs.model_run import NEWEST
from dbt_lakehouse.runs.source_filter import decoded
from dbt_lakehouse.stored.quarantine import quarantine


def gather(
    reader: Reader,
    gold: str,
    silver: str,
    runs: Sequence[Run],
    now: datetime,
    period: datetime | None = None,
    *,
    show_payloads: bool = False,
    examples: int = 1,
    every_table: bool = False,
) -> Facts:
    """All facts of a lake, with these schemas of gold and silver, and of the kept runs, the
    newest first: about the newest run, or all in the period since a moment. They include
    ``examples`` of each group of quarantine. With ``every_table``, tables that no run was to
    build are among the others. Raises the errors of reading.

    The reader may be a sparing one.
    """
    facts = of_runs(runs, now, period)
    tables = reader.metadata()
    own = Silver.of(silver)
    events = tables.get(own.other_events)
    if events is not None and facts.since is None:
        found = decoded(events)
        facts.since = found[0][0].made_at if found else None
    since = facts.since or now
    _tell_of_events(facts, tables, events, since)
    if facts.run is None and period is None:
        # Since the newest decoding: the time at which its messages landed is not noted.
        facts.landed = None
    quarantined = tables.get(own.quarantined_payloads)
    facts.quarantined = 0 if quarantined is None else commits.rows_now(quarantined)
    facts.newly_quarantined = commits.added_since(quarantined, since)
    if facts.quarantined != 0:
        reader.include(own.quarantined_payloads)
        facts.groups = quarantine(
            reader, silver, examples=examples, show_payloads=show_payloads
        ).groups
    nodes = _nodes(runs)
    of_run = _nodes([run for run in facts.runs if run is facts.run or _is_within(run, period)])
    inventory = {name: LakeTable(name, table) for name, table in tables.items()}
    for name in tables:
        schema = name.partition(".")[0]
        if name not in of_run and schema not in (gold, silver, "bronze"):
            continue
        told = _table(name, reader, inventory, nodes, since)
        told.seconds = of_run[name].seconds if name in of_run else None
        # A run that ended before its models has none.
        if of_run and name not in of_run and schema != "bronze" and not every_table:
            facts.rest.append(told)
        else:
            (facts.gold if schema == gold else facts.others).append(told)
    _tell_of_tests(facts, nodes)
    tell_of_rows(facts, reader, tables, since)
    tell_of_logs(facts, reader, tables, since)
    tell_of_newest(facts, reader, tables)
    if (counters := tables.get(own.fold_counters)) is not None:
        tell_of_counters(facts, reader, own.fold_counters, counters, since)
    if TOPIC_PARTITIONS in tables:
        facts.lag = lag(reader)
    if events is not None:
        tell_of_history(facts, tables, events)
    if period is not None:
        facts.period = past_runs(facts.runs, events, period)
    return facts


def _is_within(run: Run, period: datetime | None) -> bool:
    return period is not None and run.started_at >= period


def _nodes(runs: Sequence[Run]) -> dict[str, Node]:
    """The result of each table's model, by the table's name, in its last build."""
    found: dict[str, Node] = {}
    for run in runs:
        for node in run.nodes:
            if node.table is not None:
                found.setdefault(node.table, node)
    return found


def _tell_of_events(
    facts: Facts, tables: Mapping[str, Table], events: Table | None, since: datetime
) -> None:
    """Set the numbers of messages that have landed and were decoded, and their events."""
    bronze = tables.get(BRONZE)
    facts.landed = commits.added_since(bronze, since)
    grown = [] if bronze is None else commits.growth(bronze)
    if events is None:
        facts.read, facts.operations = 0, {}
        facts.undecoded = 0 if bronze is None else commits.rows_now(bronze)
        return
    then, now = (marks_of(each).get(BRONZE) for each in (commits.before(events, since), events))
    facts.undecoded = sum(
        rows for made, rows in grown if now is None or made.sequence_number > now.sequence
    )
    if not knows_decoded(events, since):
        return
    operations: Counter[str] = Counter()
    for made, counts in decoded(events):
        if made.made_at >= since:
            operations.update(counts)
    facts.operations = {name: count for name, count in operations.most_common() if count}
    first = 0 if then is None else then.sequence
    last = 0 if now is None else now.sequence
    if bronze is not None and first < last and _knows_from(bronze, first):
        facts.read = sum(rows for made, rows in grown if first < made.sequence_number <= last)
    elif bronze is None or first == last:
        facts.read = 0


def _knows_from(table: Table, sequence: int) -> bool:
    """Whether all commits after a sequence number are kept."""
    oldest = table.chain[-1] if table.chain else None
    if oldest is None or oldest.parent_snapshot_id is None:
        return True
    return oldest.sequence_number <= sequence


def _table(
    name: str,
    reader: Reader,
    tables: Mapping[str, LakeTable],
    nodes: Mapping[str, Node],
    since: datetime,
) -> TableFacts:
    table = tables[name].metadata
    known = newest(table.noted(NEWEST))
    made_of = [*tables[name].made_of]
    logs = [each for each in made_of if each in tables and tables[each].kind is Kind.LOG]
    waiting = is_waiting(name, tables, nodes)
    unread = (
        count_unread(name, reader, tables, nodes) if waiting else 0 if waiting is False else None
    )
    return TableFacts(
        name=name,
        rows=commits.rows_now(table),
        rows_before=commits.rows_before(table, since),
        written_at=commits.written_at(table),
        made_of=made_of,
        log=logs[0] if logs else None,
        newest_event=None if known is None else moment_of(known.log_time),
        # The source filter of a run may mistake some tables for others.
        waiting=waiting and unread != 0,
        unread=unread,
        node=nodes.get(name),
    )


def _tell_of_tests(facts: Facts, nodes: Mapping[str, Node]) -> None:
    for table in (*facts.gold, *facts.others, *facts.rest):
        node = nodes.get(table.name)
        # A table without a model is a source.
        is_it = node.unique_id.__eq__ if node else _source_of(table.name)
        table.tests = [test for test in facts.tests if any(map(is_it, test.of))]


def _source_of(table: str) -> Callable[[str], bool]:
    """A function that tells whether dbt's unique id is that of a source table."""
    return lambda unique_id: unique_id.startswith("source.") and unique_id.endswith(f".{table}")
