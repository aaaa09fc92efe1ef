"""other_events: the events that no change log takes, from payloads that are looked at once."""

import json
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from dbt_lakehouse.build.compiling import Compiling
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.full_snapshots import add_truncates
from dbt_lakehouse.build.model import Building, Built, view_of
from dbt_lakehouse.build.templates import part, render, union
from dbt_lakehouse.build.tombstones import judge_tombstones
from dbt_lakehouse.lake.tables import LOOKED, Table
from dbt_lakehouse.runs import formats, marks, moving, source_filter
from dbt_lakehouse.runs.log_times import Known, log_times
from dbt_lakehouse.runs.model_run import LOG_TIMES, NodeRun, kept
from dbt_lakehouse.runs.taken import Changed, text_of

_LOOKING: Final = {LOOKED: "true"}
"""The note of a commit that has looked at new payloads."""

# So many offsets before a payload, an earlier one nearly always has its log time.
_WINDOW: Final = 1_000

Partition = Mapping[str, Any]
"""A partition with new payloads (``new_partitions.sql``): its ``topic`` and ``partition``, and
both as JSON in ``name``.
"""


class OtherEvents(Building):
    """Looks at each new payload once, and keeps the events that no change log takes (``taken``).

    Its commits say how far bronze was looked at and what was found. So change logs read bronze as
    far as it has, and only where it has something for them. It is append-only, except that events
    go which a log declared later takes.
    """

    def build(self) -> Built:
        """Read the new payloads, then judge its tombstones and ended snapshots."""
        before = self._events_before()
        change = self._changed_logs()
        built = self._brought_up(before, change)
        table = self.lake.catalog.look_at(self.this)
        if table is not None and (doubt := doubt_of_payloads(str(self.this), table, self.run)):
            built = built._replace(doubts=[doubt])
        judge_tombstones(self)
        add_truncates(self)
        self.lake.sql.drop_evaluated(self.view(""))
        return built

    def _brought_up(self, before: str | None, change: Changed | None) -> Built:
        run = self.run
        if not run.is_incremental and before is not None:
            return self._taken_over(before)
        if not run.is_incremental:
            self.refuse_loss()
            self._keep_log_times()
            return self.replaced(self._untaken(self.model.sql), _LOOKING)
        if change is not None:
            self._follow_logs(change)
        if not run.has_news and change is None:
            return self.unchanged()
        if not self._has_payloads():
            self.lake.commits.note(self.this)
            return Built("nothing new")
        self._keep_log_times()
        return self.appended(self._untaken(self.model.sql), _LOOKING)

    def _has_payloads(self) -> bool:
        """Whether there are new payloads. What is new in bronze may have none: compaction adds no
        rows.
        """
        return LOG_TIMES in self.run.keeps

    def _untaken(self, query: str) -> str:
        """The events of a query that no log takes. The aggregates are over all of its events, of
        which a row may stand for many.
        """
        counted = source_filter.aggregates("events", "payloads")
        events = self.lake.commits.observed(self.this, query, counted)
        return render("untaken", events=events)

    # -- what change logs take

    def _changed_logs(self) -> Changed | None:
        """The difference between what the project's change logs take now and what they took when
        the rows were last adapted; None without one. Commits from here on note the current state.
        """
        table, run = self.lake.catalog.look_at(self.this), self.run
        before = None if table is None else text_of(table)
        now = self.lake.declared.taken_events()
        run.notes_beside, run.properties_beside = now.notes, now.properties
        if table is not None and run.is_incremental and before != now.text:
            self.lake.catalog.set_properties(self.this, now.properties)
        return now.changed(before)

    def _follow_logs(self, change: Changed) -> None:
        """Adapt the rows to the present change logs.

        It takes a single commit, which notes what the rows were adapted to: between two commits,
        nothing would tell where which events are.
        """
        comes, leaves = change.come != "false", change.left != "false"
        if not comes and not leaves:
            return
        taken = self.lake.declared.taken_events()
        if not leaves:
            statement = render("delete_taken", events=self.this, taken=taken)
        else:
            decoding = Decoding(self.lake, self.lake.events.topics, runs=True)
            left = decoding.events_of(
                self.lake.events.looked_input(self.run, None),
                of_events=[f"({change.left})", f"not ({taken.condition})"],
            )
            statement = render("follow_logs", events=self.this, taken=taken, comes=comes, left=left)
        self.lake.commits.change(self.this, statement, taken.notes)

    # -- log times

    def _keep_log_times(self) -> None:
        """Keep the log times that compilation found for new payloads. They replace those of a run
        that was interrupted after writing them.
        """
        run, name = self.run, self.lake.catalog.own_table("log_times")
        table, reading = self.lake.catalog.look_at(name), run.reading(run.origin)
        since = reading.since
        assert table is not None
        held = marks.marks_of(table).get(str(run.origin))
        if since is None and table.may_have_rows:
            self.lake.sql.execute(f"delete from {name}")
        elif since is not None and held is not None and held.sequence > since.sequence:
            rows = f"select topic, partition, offset from {run.rows(run.origin)}"
            self.lake.sql.execute(
                f"delete from {name} where (topic, partition, offset) in ({rows})"
            )
        found = self.view("corrections")
        if self.lake.sql.has_evaluated(found):
            self.lake.commits.execute_noting(
                f"insert into {name} select * from {found}",
                marks.noted({str(run.origin): reading.until}),
            )

    # -- a lake of before there was other_events (dbt_lakehouse/runs/moving.py)

    def _events_before(self) -> str | None:
        """The change_events table that an earlier version had in its place, to select from; None
        if there is none to take over.
        """
        if self.lake.catalog.look_at(self.this) is not None or self.lake.is_full_refresh:
            return None
        name = moving.before_of(str(self.this))
        table = self.lake.catalog.look_at(name)
        if table is None or str(self.run.origin) not in marks.marks_of(table):
            return None
        return f"{name} version as of {table.snapshot}"

    def _taken_over(self, before: str) -> Built:
        """Make the table of those rows of change_events that no log takes. The commit notes how
        far change_events has read bronze, and carries its notes on.
        """
        run, name = self.run, moving.before_of(str(self.this))
        table = self.lake.catalog.look_at(name)
        assert table is not None
        self._move_log_times(before, table)
        query = render("events_before", before=before, taken=self.lake.declared.taken_events())
        events = self._untaken(query)
        run.keeps[LOG_TIMES] = kept(table, LOG_TIMES)
        # It has those that change_events has looked at.
        run.payloads = None
        bronze = str(run.origin)
        run.readings[bronze] = run.readings[bronze]._replace(until=marks.marks_of(table)[bronze])
        built = self.replaced(events, {**_LOOKING, moving.MOVED: "true"})
        self.lake.tell(
            f"{self.this} has taken over the events of {name} that no change log takes. {name} is"
            " not read any more: `dbt run-operation drop_change_events` frees its space"
        )
        return built

    def _move_log_times(self, before: str, table: Table) -> None:
        """Keep the log times that change_events has assigned."""
        name, bronze = self.lake.catalog.own_table("log_times"), str(self.run.origin)
        self.lake.sql.execute(f"delete from {name}")
        self.lake.commits.execute_noting(
            f"insert into {name} select distinct topic, partition, offset, log_time"
            f" from {before} where not log_time <=> timestamp",
            marks.noted({bronze: marks.marks_of(table)[bronze]}),
        )


def doubt_of_payloads(this: str, table: Table, run: NodeRun) -> str | None:
    """The warning about a run whose commit counts other payloads than bronze has new ones; None if
    they are as many, or if that is not known.
    """
    looked_at = source_filter.payloads_of(table)
    if run.payloads is None or looked_at in (None, run.payloads):
        return None
    return (
        f"{this} has looked at {looked_at} payloads, and bronze has {run.payloads} new ones. This"
        " is an error of cdc_lakehouse's: please report it. `dbt run -s other_events"
        " --full-refresh` looks at all payloads again"
    )


# -- the model's SQL


def looked_events(of: Compiling) -> str:
    """The SQL of the events of new payloads, which also says which of them change logs take."""
    payloads = of.new_rows(of.reads["payloads"])
    partitions = _new_partitions(of, payloads) if of.is_building else []
    corrections = _log_time_corrections(of, payloads, partitions)
    if partitions:
        format_sql = _format_of(of, partitions)
    else:
        # Each payload's topic is matched against the patterns.
        format_sql = of.decoding.payload_format()
    formatted = part("payload_parts", "formatted", payloads, format_sql)
    return render(
        "other_events",
        payloads=formatted,
        format=format_sql,
        look=of.lake.functions.look_function(of.decoding.know_schemas_of(formatted, format_sql)),
        corrections=corrections,
        taken=of.lake.declared.taken_events(),
    )


def _new_partitions(of: Compiling, payloads: str) -> list[Partition]:
    """The partitions of new payloads, found by one query."""
    run = of.lake.runs.run_of(of.this)
    if not run.has_news:
        return []
    query = render("new_partitions", payloads=payloads, is_small=run.is_small)
    found: list[Partition] = [
        {**row, **json.loads(row["name"])} for row in of.lake.sql.query(query)
    ]
    run.payloads = sum(each["payloads"] for each in found)
    return found


def _format_of(of: Compiling, partitions: Sequence[Partition]) -> str:
    """The format of new payloads, as SQL: by ``vars.topics``, for the topics that have any. The
    formats are kept with the table.
    """
    in_order = sorted(partitions, key=itemgetter("landed_at"), reverse=True)
    first = {each["topic"]: each["landed_at"] for each in in_order}
    found = formats.formats_then(None, first, of.lake.events.topic_matcher)
    newest = {topic: each.since[-1][1] for topic, each in found.items()}
    run = of.lake.runs.run_of(of.this)
    run.formats = {topic: (first[topic], newest[topic]) for topic in found}
    return formats.format_sql(found)


def _log_time_corrections(
    of: Compiling, payloads: str, partitions: Sequence[Partition]
) -> str | None:
    """The payloads whose log time differs from their timestamp, which is rare, since few
    timestamps lie before an earlier one: a relation of topic, partition, offset and log_time, or
    None without such payloads. It is evaluated before the payloads are decoded, so that Spark
    knows its size and does not shuffle all events for the join.
    """
    if not of.is_building:
        earlier = of.reads["log_times"] if of.context.tests_increment else None
        return f"({_corrections_sql(payloads, [], earlier)})"
    if not partitions:
        return None
    run = of.lake.runs.run_of(of.this)
    times = log_times(partitions, _known_log_times(of, run))
    run.keeps[LOG_TIMES] = times.known
    if not times.needs_correction:
        return None
    earlier = _log_times_around(of, run, times.between) if times.between else None
    name = view_of(of.this, "corrections")
    found = of.lake.sql.evaluate(name, _corrections_sql(payloads, times.carried, earlier))
    return name if found > 0 else None


def _corrections_sql(payloads: str, carried: Sequence[Mapping[str, str]], earlier: Any) -> str:
    given = [
        render("carried_log_times", carried=carried) if carried else None,
        render("given_log_times") if earlier else None,
    ]
    return render(
        "log_time_corrections", payloads=payloads, given=union(given) or None, earlier=earlier
    )


def _log_times_around(of: Compiling, run: NodeRun, between: Sequence[Mapping[str, str]]) -> str:
    """The log times of earlier payloads around new ones, to select from; ``between`` is of
    ``LogTimes``. A window before the new ones nearly always has the last one before them. If not,
    these are the log times of all earlier payloads.
    """
    starts = [int(each["first_offset"]) - _WINDOW for each in between]
    places = [{**each, "first": first} for each, first in zip(between, starts, strict=True)]
    around = _earlier_log_times(of, run, places)
    query = render("partitions_without_earlier", earlier=around, between=between)
    if not of.lake.sql.query(query):
        return around
    return _earlier_log_times(of, run, [])


def _earlier_log_times(of: Compiling, run: NodeRun, places: Sequence[Mapping[str, Any]]) -> str:
    """The log times of payloads that earlier runs have looked at, to select from."""
    query = render(
        "earlier_log_times",
        payloads=run.rows_before(run.origin),
        log_times=of.reads["log_times"],
        places=places,
    )
    return f"({query})"


def _known_log_times(of: Compiling, run: NodeRun) -> Known:
    """The last offset and log time of partitions so far."""
    if not run.is_incremental or run.table is None:
        return {}
    held: Known | None = kept(run.table, LOG_TIMES)
    if held is not None:
        return held
    earlier = _earlier_log_times(of, run, [])
    rows = of.lake.sql.query(render("last_log_times", earlier=earlier))
    return {row["name"]: [row["last_offset"], row["log_time"]] for row in rows}
