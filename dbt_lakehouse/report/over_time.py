"""How the last runs compare, from the tables' commits and the counters of the fold."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from dbt_lakehouse.dbt.news import decoded
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.report import commits
from dbt_lakehouse.report.facts import Counters, Decoded, Facts
from dbt_lakehouse.report.runs import Run

_RUNS_SHOWN: Final = 30
# Of what a part is not known, the whole is not.
_SUMS: Final = ", ".join(
    f"if(count({name}) = count(*), sum({name})::bigint, null)"
    for name in ("late_events", "expired_keys", "refolded_keys")
)


def tell_of_history(facts: Facts, tables: Mapping[str, Table], events: Table) -> None:
    """What each of the last runs has decoded, and the rows of gold behind it."""
    runs = decoded(events)[:_RUNS_SHOWN][::-1]
    facts.decoded_by_run = [
        Decoded(made.made_at, sum(counts.values()), counts["invalid"]) for made, counts in runs
    ]
    if not runs:
        # Nothing has been decoded, or what tells of it is gone: there is no run to show.
        return
    # A user's mart is replaced by each run, and nothing tells what it had before.
    folded = [each for each in (*facts.gold, *facts.rest) if each.log is not None]
    starts = [made.made_at for made, _ in runs]
    ends = _ends(starts, facts.runs, facts.now)
    rows = commits.rows_over([tables[each.name] for each in folded], ends)
    facts.gold_rows = list(zip(starts, rows, strict=True)) if folded else []


def _ends(starts: Sequence[datetime], runs: Iterable[Run], now: datetime) -> list[datetime]:
    """When the runs that decoded at these moments had ended; at the latest when the next one
    decodes, if that is not kept.
    """
    nexts = [*starts[1:], now]
    ends = []
    for start, following in zip(starts, nexts, strict=True):
        own = (run.ended_at for run in runs if run.started_at <= start <= run.ended_at)
        ends.append(min(next(own, following), following))
    return ends


def tell_of_counters(
    facts: Facts, reader: Reader, name: str, table: Table, since: datetime
) -> None:
    """What the fold has counted, in each of the last runs and in this one's tables."""
    reader.include(name)
    when = {made.sequence_number: made.made_at for made in table.chain}
    rows = reader.query(
        f"select max(_sequence), max(as_of), {_SUMS} from {reader.added_since(name, 0)}"
        " where touched_keys is not null group by invocation_id"
        f" order by max(_sequence) desc limit {_RUNS_SHOWN}"
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
