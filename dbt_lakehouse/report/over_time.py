"""Compare the last runs, from the tables' commits and the fold's counters."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import LOOKED, Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.facts import Counters, Decoded, Facts, PastRun
from dbt_lakehouse.report.runs import RUNS_SHOWN, Run
from dbt_lakehouse.runs.source_filter import News, decoded

# A sum is unknown if one of its parts is.
_SUMS: Final = ", ".join(
    f"if(count({name}) = count(*), sum({name})::bigint, null)"
    for name in ("late_events", "expired_keys", "refolded_keys")
)


def tell_of_history(facts: Facts, tables: Mapping[str, Table], events: Table) -> None:
    """Set the events that each of the last runs has decoded, and the rows of gold afterwards."""
    runs = decoded(events)[:RUNS_SHOWN][::-1]
    facts.decoded_by_run = [
        Decoded(made.made_at, sum(counts.values()), counts["invalid"]) for made, counts in runs
    ]
    if not runs:
        # Nothing has been decoded, or its record is gone: there is no run to show.
        return
    # A user's mart is replaced by each run, which leaves no earlier number of rows.
    folded = [each for each in (*facts.gold, *facts.rest) if each.log is not None]
    starts = [made.made_at for made, _ in runs]
    ends = _ends(starts, facts.runs, facts.now)
    rows = commits.rows_over([tables[each.name] for each in folded], ends)
    facts.gold_rows = list(zip(starts, rows, strict=True)) if folded else []


def _ends(starts: Sequence[datetime], runs: Iterable[Run], now: datetime) -> list[datetime]:
    """The ends of the runs that decoded at these moments; at the latest when the next one
    decodes, if the end is not kept.
    """
    nexts = [*starts[1:], now]
    ends = []
    for start, following in zip(starts, nexts, strict=True):
        own = (run.ended_at for run in runs if run.started_at <= start <= run.ended_at)
        ends.append(min(next(own, following), following))
    return ends


def knows_decoded(events: Table, since: datetime) -> bool:
    """Whether other_events has kept all counts since a moment."""
    counted = News(events).by_snapshot()
    return commits.knows_since(events, since) and all(
        made.name in counted
        for made in events.chain
        if made.made_at >= since and LOOKED in made.summary
    )


def past_runs(runs: Sequence[Run], events: Table | None, since: datetime) -> list[PastRun]:
    """The runs since a moment, the newest first: the kept ones, and those of which only the
    decoded events are known.
    """
    counted = (
        [] if events is None else [each for each in decoded(events) if each[0].made_at >= since]
    )
    found = []
    for run in runs:
        if run.started_at < since:
            continue
        own = [each for each in counted if run.started_at <= each[0].made_at <= run.ended_at]
        counted = [each for each in counted if each not in own]
        is_known = events is None or knows_decoded(events, run.started_at)
        sums = _events_of([counts for _, counts in own]) if is_known else (None, None)
        found.append(PastRun(run.started_at, run, *sums))
    found += [PastRun(made.made_at, None, *_events_of([counts])) for made, counts in counted]
    return sorted(found, key=lambda each: each.at, reverse=True)


def _events_of(counts: Iterable[Mapping[str, int]]) -> tuple[int, int]:
    """The numbers of decoded and of invalid events."""
    quarantined = total = 0
    for each in counts:
        quarantined += each["invalid"]
        total += sum(each.values())
    return total - quarantined, quarantined


def tell_of_counters(
    facts: Facts, reader: Reader, name: str, table: Table, since: datetime
) -> None:
    """Set the fold's counts, for each of the last runs and for this one's tables."""
    reader.include(name)
    when = {made.sequence_number: made.made_at for made in table.chain}
    rows = reader.query(
        f"select max(_lh_sequence), max(as_of), {_SUMS} from {reader.added_since(name, 0)}"
        " where touched_keys is not null group by invocation_id"
        f" order by max(_lh_sequence) desc limit {RUNS_SHOWN}"
    ).fetchall()
    facts.counters = [
        Counters(when.get(sequence, as_of), *counts) for sequence, as_of, *counts in rows[::-1]
    ]
    if not commits.knows_since(table, since):
        return
    new = reader.added_since(name, commits.before(table, since).sequence)
    counted = reader.query(
        f"select gold_table, {_SUMS} from {new} where touched_keys is not null group by gold_table"
    ).fetchall()
    known = {each.name: each for each in facts.gold}
    for gold_table, *counts in counted:
        if (told := known.get(gold_table)) is not None:
            told.late, told.expired, told.refolded = counts
