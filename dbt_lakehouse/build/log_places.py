"""Place the new truncates of a change log among its rows (``truncate_order``). This is settled
before the log's rows are read.
"""

from dataclasses import dataclass
from typing import Any

from dbt_lakehouse.build import truncate_order
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.log_rows import LogRows
from dbt_lakehouse.build.model import view_of
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.build.truncate_order import Placed
from dbt_lakehouse.runs.log_input import Part
from dbt_lakehouse.runs.model_run import CROSSED, TRUNCATED, NodeRun, kept


@dataclass(frozen=True, slots=True)
class LogPlaces:
    """Finds the log times of new events in the table of a change log."""

    lake: Lake
    this: Any
    rows: LogRows

    def found(self, run: NodeRun) -> NodeRun:
        """The run, with a view of the new events whose log time changes (``places``). If earlier
        rows leave no place, it is another run, which rebuilds the log, unless a rebuild has not
        helped before or would lose rows.
        """
        crossed = kept(run.table, CROSSED) or 0 if run.table and run.is_incremental else 0
        found = self._placed(run)
        if found.crossed and run.is_incremental and not crossed:
            crossed = found.crossed
            if not self._has_rows_without_payloads(run):
                run = self._begun_anew(run, found.crossed)
                found = self._placed(run)
                crossed = found.crossed
        run.places, run.truncate_ties = found.view, found.ties
        run.truncates_crossed = found.crossed
        kept_now = {CROSSED: crossed or None, TRUNCATED: found.newest}
        run.keeps |= {key: value for key, value in kept_now.items() if value is not None}
        return run

    def _begun_anew(self, run: NodeRun, crossed: int) -> NodeRun:
        log = self.rows.log
        reason = (
            f"{crossed} rows or truncates came after rows that their source wrote before and"
            " after them, and have no place between those"
        )
        return self.lake.runs.begin_run(
            self.this,
            run.upstreams,
            log,
            full_refresh=False,
            wanted=log["sources"],
            follows=True,
            reason=reason,
        )

    def _placed(self, run: NodeRun) -> Placed:
        events = run.upstreams[0]
        newest = 0
        if run.table is not None and run.is_incremental:
            newest = kept(run.table, TRUNCATED)
        has_news = run.has_news_of(events) or run.has_news_of(run.origin)
        if not (has_news and truncate_order.has_several_partitions(run)):
            # Another partition may come, and truncates have not been looked for so far.
            return Placed()
        log = self.rows.log
        if not run.may_read(events, "truncates"):
            # A truncate has no key, so file statistics skip the files without truncates.
            conditions = [] if log["keyless"] else [(log["key"][0], "is null", None)]
            if newest == 0 or not self.lake.catalog.may_have_rows(self.this, conditions):
                return Placed(newest=0)

        def events_near(part: str, near: str | None) -> str:
            return self.rows.read(run, Part(part), near)

        return self.lake.events.place_truncates(
            self.this, events_near, newest, view_of(self.this, "places"), run.is_incremental
        )

    def _has_rows_without_payloads(self, run: NodeRun) -> bool:
        query = render("rows_without_payloads", log=self.this, payloads=run.origin)
        return bool(self.lake.sql.query(query))
