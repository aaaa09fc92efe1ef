"""Give the rows of key updates the values that their events leave unchanged under the old key.

Where a row's key changes, Debezium's connectors write a delete of the old key and an insert of
the new one, each with a header that names the other's key. With its default replica identity,
PostgreSQL does not log out-of-line (TOAST) values that have not changed: the insert has
placeholders for them.

The values are those of the old key's row just before that delete. The delete is the one with the
same `_key_update`, anywhere in the log, for each of the two lies in a partition of its own. Rows
without envelopes don't name their change, so the last delete that is not later is taken (the first
of several in a row: a tombstone follows a rewritten delete), and without such a delete the row
before the insert. Of a row that a truncate took away, nothing is
known.

An old key's event may come after the insert, so this looks at every insert row that a new row may
matter to, and at the rows that rest on those in turn. Rows are changed in place, and gold tables
and histories fold their keys again (``Folding.keys_changed_since``). A value that stays unknown,
because nothing is known of the old key's row, is in `_misfits`.
"""

from typing import Any, Final

import pyarrow as pa

from dbt_lakehouse.build.key_update_values import sources
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.log_rows import LogRows
from dbt_lakehouse.build.model import view_of
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.runs import marks
from dbt_lakehouse.runs.marks import HistoryLost
from dbt_lakehouse.runs.model_run import KEY_UPDATES


class KeyUpdates:
    """The key updates of a change log."""

    def __init__(self, lake: Lake, this: Any, rows: LogRows) -> None:
        self._lake: Final = lake
        self._this: Final = this
        self._has_key: Final = rows.has_key
        self._by_source_time: Final[bool] = rows.log["order_by_source_time"]
        self._by_source: Final = "order_by" in rows.log
        self._several_sources: Final[bool] = rows.log["several_sources"]
        self._key: Final = quoted(rows.log["key"])
        self._columns: Final = rows.value_columns

    def take_over_values(self) -> None:
        """Give other keys' values to the rows that new rows matter to."""
        news = self._news() if self._has_key else None
        if news is None:
            return
        own = self._lake.catalog.pinned_own(self._this)
        updates, resting = self._view("updates"), self._view("resting")
        query = render("key_updates", log=own, key=self._key)
        count = self._lake.sql.evaluate(updates, query)
        if count and self._find_resting(resting, updates, news, count):
            self._write(own, updates, resting)
        mark = self._lake.runs.run_of(self._this).key_updates
        self._lake.catalog.set_properties(self._this, {KEY_UPDATES: str(mark)})
        self._lake.sql.drop_evaluated(self._view(""))

    def begin_anew(self) -> None:
        """Mark all rows as not checked, before they are filled again."""
        if self._lake.catalog.may_have_key_updates(self._this):
            self._lake.catalog.set_properties(self._this, {KEY_UPDATES: ""})

    def _news(self) -> str | None:
        """The rows of the log that are new to its key updates, to select from; None without such
        rows or without key updates.
        """
        table = self._lake.catalog.look_at(self._this)
        if table is None or not self._lake.catalog.may_have_key_updates(self._this):
            return None
        run, text = self._lake.runs.run_of(self._this), table.properties.get(KEY_UPDATES)
        try:
            reading = marks.reading(marks.parsed(text) if text else None, table)
        except HistoryLost:
            reading = marks.reading(None, table)
        run.key_updates = reading.until
        # Only the rows that this run has appended.
        run.seen = table.snapshot
        return reading.sql(str(self._this)) if reading.has_news else None

    def _find_resting(self, resting: str, updates: str, news: str, most: int) -> int:
        """Make a view of the places of the rows to check. Returns how many there are."""
        first = render(
            "resting_on_news",
            updates=updates,
            news=news,
            key=self._key,
            by_source=self._by_source,
        )
        more = render("resting_on", updates=updates, resting=resting, key=self._key)
        rows = self._hold(resting, first)
        while 0 < rows < most:
            found = self._hold(resting, more)
            if found == rows:
                break
            rows = found
        return rows

    def _hold(self, name: str, query: str) -> int:
        # In this process: an evaluated view can't be made of itself.
        rows = self._lake.sql.arrow(query)
        self._lake.sql.hold(name, rows)
        return len(rows)

    def _write(self, own: str, updates: str, resting: str) -> None:
        found, origins = self._view("found"), self._view("sources")
        self._lake.sql.evaluate(
            found,
            render(
                "values_before",
                log=own,
                key=self._key,
                columns=self._columns,
                updates=updates,
                resting=resting,
                order_by_source_time=self._by_source_time,
                several_sources=self._several_sources,
            ),
        )
        self._hold_sources(origins, found)
        self._lake.commits.change(
            self._this,
            render(
                "take_over_values",
                table=self._this,
                own=own,
                key=self._key,
                columns=self._columns,
                found=found,
                sources=origins,
            ),
        )

    def _hold_sources(self, name: str, found: str) -> None:
        """Make a view of which rows get their values from which others."""
        rows = self._lake.sql.query(render("rests_on", found=found, columns=self._columns))
        places = sources({row["_lh_place"]: (row["rests_on"], row["columns"]) for row in rows})
        schema = pa.schema(
            {"place": pa.string(), "source": pa.string(), "columns": pa.list_(pa.string())}
        )
        self._lake.sql.hold(name, pa.Table.from_pylist([each._asdict() for each in places], schema))

    def _view(self, name: str) -> str:
        return view_of(self._this, name)
