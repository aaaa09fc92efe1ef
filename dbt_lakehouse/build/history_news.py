"""The fast path of a history: if all that is new comes after what the history knows of its keys,
open versions and new events are all that has to be folded.

A key's open version is from its newest event. A key without an open version may have been deleted
by an event that left no trace in the history. For such keys the log is searched, from their first
new event on, for an event that was read before.
"""

from typing import Final

from dbt_lakehouse.build.folding import Folding, may_have_new_truncates
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.declared.fold_of_log import MOST_AHEAD
from dbt_lakehouse.runs.decisions import moment


class HistoryNews:
    """The new events of one run of a history, and the open versions of their keys."""

    def __init__(self, table: Folding) -> None:
        self._table: Final = table
        self._log: Final = table.run.upstreams[0]
        self.events: Final = table.view("known_and_news")
        """The view of the events to fold, with the columns of event_parts.log_events."""
        self.ranges: list[list[str]] = []
        """The ranges of the keys, as SQL."""

    @property
    def _may_suffice(self) -> bool:
        """Whether only events of keys can have changed a version."""
        table, fold, run = self._table, self._table.fold, self._table.run
        return table.may_go_on_from_its_rows and not (
            fold.namespace is not None
            or fold.bitemporal
            or fold.several_sources
            or may_have_new_truncates(table.lake, run, fold)
            or table.keys_changed_since() is not None
        )

    def suffices(self) -> bool:
        """Whether ``events`` are all that has to be folded; if so, makes the view."""
        if not self._may_suffice:
            return False
        table, sql = self._table, self._table.lake.sql
        fold = table.fold
        news, known, judged = (table.view(name) for name in ("news", "open", "judged"))
        if not sql.evaluate(news, part("event_parts", "log_events", fold, table.new_changes)):
            return False
        self.ranges = sql.hold_key_ranges_of(table.view("folded"), news, fold.key[0])
        own = table.lake.catalog.pinned_own(table.this)
        sql.evaluate(
            known, render("open_versions", fold=fold, own=own, news=news, ranges=self.ranges)
        )
        sql.define(judged, render("judged_news", fold=fold, news=news, known=known))
        if not self._come_last(judged):
            return False
        is_small = table.run.is_small
        sql.define(
            self.events,
            render("known_and_news", fold=fold, known=known, news=news, is_small=is_small),
        )
        return True

    def _come_last(self, judged: str) -> bool:
        """Whether every new event comes after all events of its key that were read before."""
        table = self._table
        (found,) = table.lake.sql.query(render("unplaced_news", judged=judged))
        if found["late"]:
            return False
        return not found["unplaced"] or not table.has_rows(
            render(
                "events_near_news",
                fold=table.fold.without_columns(),
                before=table.run.rows_before(self._log),
                judged=judged,
                log_time=moment(found["log_time"]),
                time=moment(found["time"]),
                day_before=moment(found["time"] - MOST_AHEAD),
            )
        )
