"""The fast path of a history: if all that is new comes after what the history knows of its keys,
open versions and new events are all that has to be folded.

A key's open version is from its newest event. A key without an open version may have been deleted
by an event that left no trace in the history, or its version has expired. For such keys the log is
searched, from their first new event on, for an event that was read before.

In a namespace, versions also end where they expire, with or without a new event.
"""

from functools import cached_property
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
        """The ranges of the keys, as SQL; empty for any."""
        self.are_none: bool = False
        """Whether no key has a new event, and no version expires."""

    @property
    def _may_suffice(self) -> bool:
        """Whether only events of keys, or expiry, can have changed a version."""
        table, fold, run = self._table, self._table.fold, self._table.run
        if not table.may_go_on_from_its_rows or fold.bitemporal or fold.several_sources:
            return False
        if fold.namespace is not None:
            return run.has_news or self._may_expire
        return run.has_news_of(self._log) and not (
            may_have_new_truncates(table.lake, run, fold) or table.keys_changed_since() is not None
        )

    @property
    def _deletes(self) -> str | None:
        """The deletes without a set, which a history of a namespace also reads."""
        _, *deletes = self._table.run.upstreams
        return deletes[0] if deletes else None

    def suffices(self) -> bool:
        """Whether ``events`` are all that has to be folded; if so, makes the view."""
        if not self._may_suffice:
            return False
        table, sql = self._table, self._table.lake.sql
        fold = table.fold
        news, known, judged = (table.view(name) for name in ("news", "open", "judged"))
        as_of = table.model.as_of if self._may_expire else None
        self.are_none = not sql.evaluate(news, self._new_events()) and as_of is None
        if self.are_none:
            return False
        if fold.namespace is None:
            # A record's digest is random: ranges would hold all of them.
            self.ranges = sql.hold_key_ranges_of(table.view("folded"), news, fold.key[0])
        own = table.lake.catalog.pinned_own(table.this)
        sql.evaluate(
            known,
            render("open_versions", fold=fold, own=own, news=news, ranges=self.ranges, as_of=as_of),
        )
        sql.define(judged, render("judged_news", fold=fold, news=news, known=known))
        if not self._come_last(judged, own):
            return False
        is_small = table.run.is_small
        sql.define(
            self.events,
            render("known_and_news", fold=fold, known=known, news=news, is_small=is_small),
        )
        return True

    @cached_property
    def _may_expire(self) -> bool:
        """Whether an open version may have expired since the last run."""
        table = self._table
        expired = [("is_current", "=", True), ("_expires_at", "<=", table.model.as_of)]
        return table.fold.namespace is not None and table.lake.catalog.may_have_rows(
            table.this, expired
        )

    def _new_events(self) -> str:
        table, fold = self._table, self._table.fold
        query = part("event_parts", "log_events", fold, table.new_changes)
        if self._deletes is None:
            return query
        deletes = part("event_parts", "set_less_deletes", fold, table.run.rows(self._deletes))
        return f"{query}\nunion all\n{deletes}"

    def _come_last(self, judged: str, own: str) -> bool:
        """Whether every new event comes after all events of its key that were read before."""
        table, deletes = self._table, self._deletes
        (found,) = table.lake.sql.query(render("unplaced_news", judged=judged))
        if found["late"]:
            return False
        return not found["unplaced"] or not table.has_rows(
            render(
                "events_near_news",
                fold=table.fold.without_columns(),
                before=table.run.rows_before(self._log),
                deletes=None if deletes is None else table.run.rows_before(deletes),
                own=own,
                judged=judged,
                log_time=moment(found["log_time"]),
                time=moment(found["time"]),
                day_before=moment(found["time"] - MOST_AHEAD),
            )
        )
