"""The truncates that full snapshots of source tables stand for, where change logs reconcile them.
A truncate is put before the first row of each snapshot that has ended
(``dbt_lakehouse.runs.full_snapshots``).

So rows that the snapshot did not read, and no later event names, are gone, whenever its events
come. The table keeps what has been checked: the next run makes up for an interrupted run and for
a last row that could not be decoded before. Checking twice adds nothing.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from dbt_lakehouse.build.compaction import unjudged
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.model import Building
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.runs import full_snapshots, source_filter
from dbt_lakehouse.runs.full_snapshots import Ended, Sources
from dbt_lakehouse.runs.marks import Reading


def add_truncates(model: Building) -> None:
    """Append the truncates of ended snapshots to other_events, whose model has got its rows."""
    lake, this, run = model.lake, model.this, model.run
    sources = lake.events.reconciled_sources()
    table, bronze = lake.catalog.look_at(this), run.table_of(run.origin)
    if sources == () or table is None or bronze is None:
        return
    before = full_snapshots.looked(table, sources)
    if not before.may_have_more(table):
        return
    topics = full_snapshots.topics_of(table, sources)
    marks = _Marks(model, sources, topics)
    has_new = before.own is None or marks.found(
        unjudged(before.bronze, bronze), unjudged(before.own, table)
    )
    if has_new and topics != []:
        # The first rows of snapshots that end now may have come in any earlier run.
        marks.found(unjudged(None, bronze), unjudged(None, table))
        _add(model, marks.ended())
    table = lake.catalog.look_at(this)
    if table is not None:
        until = run.reading(run.origin).until
        kept = full_snapshots.kept(until, table, sources)
        lake.catalog.set_properties(this, {full_snapshots.PROPERTY: kept})


@dataclass(frozen=True, slots=True)
class _Marks:
    """The rows of some source tables that snapshots have marked, in some topics or (None) in all
    topics: the view ``snapshot_marks``.
    """

    model: Building
    sources: Sources
    topics: list[str] | None

    def found(self, payloads: Reading, own: Reading) -> bool:
        """Look for marked rows among payloads and rows of other_events. Returns whether there are
        any.
        """
        lake, run = self.model.lake, self.model.run
        read = replace(
            lake.events.looked_input(run, self.topics),
            payloads=payloads.sql(str(run.origin)),
            added=own.sql(str(self.model.this)),
            may_name=full_snapshots.MAY_BE_MARKED,
        )
        events = Decoding(lake, lake.events.topics, runs=True).events_of(
            read, of_events=[full_snapshots.is_marked(self.sources)]
        )
        query = render("snapshot_marks", events=events, mark=full_snapshots.MARK)
        return lake.sql.evaluate(self.model.view("snapshot_marks"), query) > 0

    def ended(self) -> list[Ended]:
        """The snapshots that have ended, from the marks that were found last."""
        columns = "* except (timestamp, format, occurred_at)"
        rows = self.model.lake.sql.query(
            f"select {columns} from {self.model.view('snapshot_marks')}"
        )
        return full_snapshots.ended(map(full_snapshots.row_of, rows))


def _add(model: Building, snapshots: list[Ended]) -> None:
    lake, this, ended = model.lake, model.this, model.view("ended_snapshots")
    truncates = model.view("snapshot_truncates")
    lake.sql.hold(ended, _table_of(snapshots))
    query = render(
        "snapshot_truncates",
        marks=model.view("snapshot_marks"),
        ended=ended,
        event_index=full_snapshots.EVENT_INDEX,
        added_by=full_snapshots.RECONCILED,
        events=model.pinned(this),
    )
    if added := lake.sql.evaluate(truncates, query):
        lake.commits.append_more(this, f"select * from {truncates}", source_filter.aggregates())
        lake.tell(f"{this}: {added} full snapshots have ended, whose logs reconcile them")


def _table_of(snapshots: Iterable[Ended]) -> pa.Table:
    """Snapshots as a table: the place of their first row, and the place of the last one as JSON
    (``last``).
    """
    rows = [
        {
            "topic": first.topic,
            "partition": first.partition,
            "offset": first.offset,
            "last": json.dumps(
                {"partition": last.partition, "offset": last.offset, "log_time": last.log_time}
            ),
        }
        for first, last in snapshots
    ]
    types: dict[str, pa.DataType] = {"topic": pa.string(), "partition": pa.int32()}
    types |= {"offset": pa.int64(), "last": pa.string()}
    return pa.Table.from_pylist(rows, schema=pa.schema(list(types.items())))
