"""The fast path of a table without a key: if all new steps come after the known states of the rows
that they name, existing copies and new steps are all that has to be counted.

A copy has the place of the newest event that named its row. A row without a copy may have been
deleted by an event that left no trace in the table. For such rows the log is searched, from their
first new step on, for a step that was read before.
"""

from typing import Final

from dbt_lakehouse.build.folding import Folding
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.runs.decisions import moment


class RowNews:
    """The new steps of one run of such a table, and the copies of their rows."""

    def __init__(self, table: Folding) -> None:
        self._table: Final = table
        self._log: Final = table.run.upstreams[0]
        self.steps: Final = table.view("known_steps")
        """The view of the steps to count, with the columns of event_parts.row_steps."""

    @property
    def _may_suffice(self) -> bool:
        """Whether only steps of rows can have changed a copy."""
        table = self._table
        has_news = table.run.has_news_of(table.run.upstreams[0])
        return (
            table.may_go_on_from_its_rows
            and has_news
            and not table.has_rows(
                f"select 1 from {table.new_changes} as changes where _operation = 'truncate'"
            )
        )

    def suffices(self) -> bool:
        """Whether ``steps`` are all that has to be counted; if so, makes the view."""
        if not self._may_suffice:
            return False
        table = self._table
        own = table.lake.catalog.pinned_own(table.this)
        news = table.view("news")
        table.lake.sql.evaluate(
            news, part("event_parts", "row_steps", table.fold, table.new_changes)
        )
        if not self._come_last(own, news):
            return False
        table.lake.sql.define(
            self.steps, render("known_steps", fold=table.fold, own=own, news=news)
        )
        return True

    def _come_last(self, own: str, news: str) -> bool:
        """Whether every new step comes after all steps of its row that were read before."""
        table = self._table
        (found,) = table.lake.sql.query(render("unplaced_steps", own=own, news=news))
        if found["late"]:
            return False
        return not found["unplaced"] or not table.has_rows(
            render(
                "steps_near_news",
                fold=table.fold,
                before=table.run.rows_before(self._log),
                own=own,
                news=news,
                log_time=moment(found["log_time"]),
            )
        )
