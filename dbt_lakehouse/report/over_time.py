"""How the last runs compare, from the tables' commits and the counters of the fold."""

from collections.abc import Mapping
from typing import Final

from dbt_lakehouse.dbt.news import decoded
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.facts import Counters, Decoded, Facts

_RUNS_SHOWN: Final = 30


def tell_of_history(facts: Facts, tables: Mapping[str, Table], events: Table) -> None:
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


def tell_of_counters(facts: Facts, reader: Reader, name: str, table: Table) -> None:
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
