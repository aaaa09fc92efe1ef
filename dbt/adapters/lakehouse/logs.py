"""What change logs ask of the adapter: what they read, which rows a truncate, a key update or a key
that has changed makes other ones, and which columns follow the source.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt_common.exceptions import CompilationError, DbtRuntimeError

from dbt.adapters.lakehouse.base import told
from dbt.adapters.lakehouse.events import EventAdapter
from dbt_lakehouse.dbt import (
    declarations,
    key_updates,
    marks,
    message_keys,
    tables,
    truncate_order,
    widening,
)
from dbt_lakehouse.dbt.log_input import Part, log_input
from dbt_lakehouse.dbt.marks import HistoryLost
from dbt_lakehouse.dbt.message_keys import Verdict
from dbt_lakehouse.dbt.node_run import CROSSED, KEY_UPDATES, TRUNCATED, NodeRun, kept
from dbt_lakehouse.dbt.truncate_order import Placed


class LogAdapter(EventAdapter):
    """Methods for the macros of change logs."""

    # -- rows

    @available.parse(lambda *_: "typed_rows")
    @told
    def typed_rows(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
    ) -> str:
        """The name of a function that gives the rows of the change log of this name
        (``functions.register_log``); the session knows it. ``keys`` and ``former`` are as in
        ``change_log_sql``.
        """
        from dbt_lakehouse.spark.functions import register_log

        declared = declarations.rows_of(log, keys, former)
        function = declarations.function_name("typed", name, declared)
        self._know(function, lambda spark: register_log(spark, function, declared))
        return function

    @available.parse(lambda *_: "typed_misfits")
    @told
    def typed_misfits(self, name: str, log: Mapping[str, Any], columns: Sequence[str]) -> str:
        """The name of a function that gives what of the misfits of the change log of this name has
        a place in some of its columns (``functions.register_misfits``); the session knows it.
        """
        from dbt_lakehouse.spark.functions import register_misfits

        specs = [each for each in declarations.rows_of(log).all_columns if each.column in columns]
        function = declarations.function_name("misfits", name, specs)
        self._know(function, lambda spark: register_misfits(spark, function, specs))
        return function

    @available
    def is_chosen_by_texts(self, log: Mapping[str, Any]) -> bool:
        """Whether a log takes some of the events of its source tables only."""
        return declarations.is_chosen_by_texts(log)

    @available
    def payload_conditions(self, log: Mapping[str, Any]) -> list[str]:
        """The conditions of a log that payloads meet, as SQL."""
        return declarations.payload_conditions(log)

    @available
    def event_conditions(self, log: Mapping[str, Any]) -> list[str]:
        """The conditions of a log that events meet, as SQL."""
        return declarations.event_conditions(log)

    @available.parse_none
    @told
    def log_input(self, run: NodeRun, log: Mapping[str, Any], part: str) -> dict[str, Any]:
        """What a run of a change log reads, see ``dbt_lakehouse.dbt.log_input``."""
        times = self.corrected_log_times()
        return asdict(log_input(run, log, Part(part), times, self._format_of))

    @available.parse(lambda *_: "decode_log")
    @told
    def log_function(
        self, name: str, log: Mapping[str, Any], keys: Sequence[Sequence[str]], schemas: bool
    ) -> str:
        """The name of a function that gives the events of the change log of this name straight from
        payloads (``payload_functions.register_log_events``); the session knows it. ``keys`` is as
        in ``change_log_sql``; ``schemas``: whether it needs those that the session has found.
        """
        from dbt_lakehouse.spark.payload_functions import register_log_events

        declared = declarations.rows_of(log, keys)
        given = log["sources"]
        sources = None if given is None else frozenset((a, b, c) for a, b, c in given)
        of = [declared, sorted(map(str, sources or ()))]
        function = declarations.function_name("decode", name, of)
        self._know_with(
            schemas,
            function,
            lambda spark, known: register_log_events(spark, function, declared, sources, known),
        )
        return function

    @available.parse_none
    def events_that_say(self, log: Mapping[str, Any], columns: Collection[str]) -> str | None:
        """A condition on events that may say something of columns of a log, as SQL; None for any
        event.
        """
        return declarations.events_that_say(log, columns)

    # -- truncates

    @available.parse_none
    @told
    def place_truncates(
        self,
        this: BaseRelation,
        log: Mapping[str, Any],
        name: str,
        events_of_log: Callable[..., str],
    ) -> Placed:
        """Evaluate a view of the new events that get another log time in a change log than they
        have, see ``dbt_lakehouse.dbt.truncate_order``. The log is made anew if earlier rows leave
        no place, unless that has not helped before, or would lose some of them.
        """
        run = self.run_of(this)
        crossed = kept(run.table, CROSSED) or 0 if run.table and run.is_incremental else 0
        found = self._place_truncates(this, run, log, name, events_of_log)
        if found.crossed and run.is_incremental and not crossed:
            crossed = found.crossed
            if not self._has_more_than(str(this), str(run.origin)):
                reason = (
                    f"{found.crossed} rows or truncates came after rows that their source wrote"
                    " before and behind them, and find no place between those"
                )
                run = self.begin_run(
                    this,
                    run.upstreams,
                    log,
                    anew=False,
                    wanted=log["sources"],
                    follows=True,
                    reason=reason,
                )
                found = self._place_truncates(this, run, log, name, events_of_log)
                crossed = found.crossed
        run.places, run.truncate_ties = found.view, found.ties
        kept_now = {CROSSED: crossed or None, TRUNCATED: found.newest}
        run.keeps |= {key: value for key, value in kept_now.items() if value is not None}
        return found

    def _place_truncates(
        self,
        this: BaseRelation,
        run: NodeRun,
        log: Mapping[str, Any],
        name: str,
        events_of_log: Callable[..., str],
    ) -> Placed:
        events = run.upstreams[0]
        newest = 0
        if run.table is not None and run.is_incremental:
            newest = kept(run.table, TRUNCATED)
        has_news = run.has_news_of(events) or run.has_news_of(run.origin)
        if not (has_news and truncate_order.has_several_partitions(run)):
            # Another partition may come, and nobody has looked for truncates so far.
            return Placed()
        if not run.may_read(events, "truncates"):
            # A truncate has no key; by that, statistics spare the files without any.
            conditions = [] if log["keyless"] else [(log["key"][0], "is null", None)]
            if newest == 0 or not tables.may_have_rows(self.spark, str(this), conditions):
                return Placed(newest=0)
        session = self.handle.session

        def events_near(part: str, near: str | None) -> str:
            return events_of_log(run, log, part, near)

        return truncate_order.place(
            session, events_near, str(this), newest, name, goes_on=run.is_incremental
        )

    def _has_more_than(self, log: str, payloads: str) -> bool:
        """Whether a change log has rows whose payloads are no longer there."""
        query = f"""
            select 1
            from {log} as log
            left anti join {payloads} as payloads
                on log._position.topic = payloads.topic
                and log._position.partition = payloads.partition
                and log._position.offset = payloads.offset
            limit 1"""
        return bool(self.handle.session.sql(query).collect())

    # -- key updates

    @available.parse_none
    @told
    def key_update_news(self, this: BaseRelation) -> str | None:
        """The rows of a change log that are new to its key updates, to select from; None if there
        are no such rows, or no key updates.
        """
        table = self.look_at(this)
        if table is None or not self._may_have_key_updates(this):
            return None
        run, text = self.run_of(this), table.properties.get(KEY_UPDATES)
        try:
            reading = marks.reading(marks.parsed(text) if text else None, table)
        except HistoryLost:
            reading = marks.reading(None, table)
        run.key_updates = reading.until
        # What the run has appended is no other command's.
        run.seen = table.snapshot
        return reading.sql(str(this)) if reading.has_news else None

    @available.parse_none
    @told
    def key_updates_done(self, this: BaseRelation) -> None:
        """Note that the rows of key updates have their values."""
        tables.set_properties(
            self.spark, str(this), {KEY_UPDATES: str(self.run_of(this).key_updates)}
        )
        self.handle.looks.clear()

    @available.parse_none
    @told
    def begin_key_updates_anew(self, this: BaseRelation) -> None:
        """Have all rows of key updates looked at again, before they are filled anew."""
        if self._may_have_key_updates(this):
            tables.set_properties(self.spark, str(this), {KEY_UPDATES: ""})
            self.handle.looks.clear()

    def has_key_updates(self, run: NodeRun, log: BaseRelation) -> bool:
        """Whether a change log may have rows of key updates that a model has not read as they are
        now.
        """
        return run.is_incremental and self._may_have_key_updates(log, run.sequence_read(log))

    @available.parse_none
    @told
    def find_resting(self, name: str, first: str, more: str, most: int) -> int:
        """Make a temporary view of rows of key updates: those of one query and then, as long as
        there are more, those of another one, which reads the view. How many there are.

        ``most``: so many there can be.
        """
        rows = self._hold_query(name, first)
        while 0 < rows < most:
            found = self._hold_query(name, more)
            if found == rows:
                break
            rows = found
        return rows

    def _hold_query(self, name: str, query: str) -> int:
        self.connections.log_statement(f"hold {name} as {query}")
        # By this process: an evaluated view can't be made of itself.
        return self._hold_rows(name, self.handle.session.sql(query).toArrow())

    @available.parse_none
    @told
    def follow_key_updates(self, name: str, query: str) -> None:
        """Make a temporary view of where rows of key updates have values from (``key_updates``), of
        a query that says on which others they rest: place, source, and the columns.
        """
        self.connections.log_statement(query)
        rows = self.handle.session.sql(query).toArrow().to_pylist()
        found = key_updates.sources(
            {row["_place"]: (row["rests_on"], row["columns"]) for row in rows}
        )
        columns = [[each[place] for each in found] for place in range(3)]
        types = (pa.string(), pa.string(), pa.list_(pa.string()))
        self._hold_rows(
            name,
            pa.table(
                {
                    field: pa.array(values, kind)
                    for field, values, kind in zip(
                        ("place", "source", "columns"), columns, types, strict=True
                    )
                }
            ),
        )

    def _hold_rows(self, name: str, rows: pa.Table) -> int:
        self.handle.session.hold(name, rows)
        return len(rows)

    def _may_have_key_updates(self, log: BaseRelation, since: int = 0) -> bool:
        name = str(log)
        # One that no run has brought up to its declaration lacks the column.
        if all(field.name != "_key_update" for field in tables.columns_of(self.spark, name)):
            return False
        is_one = ("_key_update.id", "is not null", None)
        return tables.may_have_rows(self.spark, name, [is_one], since=since)

    # -- the keys of messages

    @available.parse_none
    @told
    def keys_allowed(self, this: BaseRelation, log: Mapping[str, Any]) -> list[list[str]]:
        """The names that the keys of a log's events may have, see ``message_keys.allowed``."""
        return message_keys.allowed(log, self._keys_taken(this))

    @available
    def refusal_of_keys(self) -> str:
        """SQL that fails, in place of an event's operation, see ``message_keys``."""
        return message_keys.REFUSAL

    @available.parse_none
    @told
    def hold_to_key(
        self,
        this: BaseRelation,
        log: Mapping[str, Any],
        query: str,
        write: Callable[[str], Any],
        former_log: Callable[..., str],
        events_of_log: Callable[..., str],
    ) -> None:
        """Write the rows of a change log, which a query gives, unless messages have another key
        than it declares: then nothing is written, or what is meant by it, see ``message_keys``.
        """
        run = self.run_of(this)
        taken = self._keys_taken(this)
        try:
            if taken:
                run.keeps[message_keys.TAKEN] = taken
            write(query)
        except DbtRuntimeError as error:
            if message_keys.is_refusal(str(error)):
                verdict = self._judged(this, log, events_of_log)
            else:
                raise
        else:
            return
        run.keeps[message_keys.TAKEN] = verdict.taken
        if verdict.has_former and not run.is_incremental:
            # Names that one table has always had are a former key of another.
            query = former_log(run, log, message_keys.allowed(log, []), verdict.renamed)
        write(query.replace(message_keys.REFUSAL, message_keys.UNREFUSED))

    def _judged(
        self, this: BaseRelation, log: Mapping[str, Any], events_of_log: Callable[..., str]
    ) -> Verdict:
        """What is to become of other keys. Raises ``CompilationError`` if they are an error."""
        events = events_of_log(self.run_of(this), log, Part.SO_FAR.value)
        query = message_keys.question(log, events)
        self.connections.log_statement(query)
        rows = self.handle.session.sql(query).toArrow().to_pylist()
        verdict = message_keys.judge(rows, log, str(this))
        if verdict.error is not None:
            raise CompilationError(verdict.error)
        if not verdict.explains:
            raise CompilationError(
                f"{this}: a message has a key of other columns than declared, and among"
                f" {len(rows)} kinds of keys it was not found: name the topic or the tables in the"
                " change log one by one"
            )
        return verdict

    def _keys_taken(self, this: BaseRelation) -> list[list[str]]:
        """The names of keys that earlier runs have taken."""
        run = self.run_of(this)
        taken = kept(run.table, message_keys.TAKEN) if run.table and run.is_incremental else None
        return taken or []

    @available.parse_none
    @told
    def doubt_of_keys(self, this: BaseRelation, log: Mapping[str, Any]) -> str | None:
        """What a run says of the keys of a log's messages, None for nothing."""
        taken = self.run_of(this).keeps.get(message_keys.TAKEN) or self._keys_taken(this)
        return message_keys.warning(log, taken, str(this))

    # -- columns that follow the source

    @available.parse_none
    @told
    def misfits_to_follow(self, this: BaseRelation, log: Mapping[str, Any]) -> str | None:
        """The rows of a change log whose misfits may widen its columns, to select from; None if all
        have been looked at, or its columns don't follow.
        """
        table = self.look_at(this) if log.get("follow") else None
        if table is None or not widening.may_follow(log):
            return None
        _, sequence = widening.looked_at(table.properties)
        if sequence >= table.sequence:
            return None
        since = f" where _last_updated_sequence_number > {sequence}" if sequence else ""
        return f"(select * from {this}{since})"

    @available.parse_none
    @told
    def follow(self, this: BaseRelation, log: Mapping[str, Any], query: str) -> dict[str, Any]:
        """Keep the types with a change log's table that a query's numbers (``widening.Kind``) take;
        its declaration with those types, the same one if there is nothing to follow.
        """
        self.connections.log_statement(query)
        kinds = [widening.Kind(*row) for row in self.handle.session.sql(query).collect()]
        types = widening.outgrown(log, kinds)
        if not types:
            return dict(log)
        table = self.look_at(this)
        assert table is not None
        known, sequence = widening.looked_at(table.properties)
        now = widening.following({**known, **types}, sequence)
        tables.set_properties(self.spark, str(this), now)
        self.handle.looks.clear()
        return dict(widening.followed(log, now))

    @available.parse_none
    @told
    def forget_followed(self, this: BaseRelation) -> None:
        """Have the types of a change log be as declared again: it is about to be made anew."""
        table = self.look_at(this)
        if table is not None and widening.looked_at(table.properties) != ({}, 0):
            tables.set_properties(self.spark, str(this), widening.following({}, 0))
            self.handle.looks.clear()

    @available.parse_none
    @told
    def has_followed(self, this: BaseRelation) -> None:
        """Keep with a change log's table that all of its misfits have been looked at."""
        table = self.look_at(this)
        assert table is not None
        known, _ = widening.looked_at(table.properties)
        tables.set_properties(self.spark, str(this), widening.following(known, table.sequence))
        self.handle.looks.clear()
