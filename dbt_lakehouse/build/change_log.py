"""Typed change logs: one row per change of one source table (change_log, aerospike_change_log)."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from dbt_common.exceptions import CompilationError, DbtRuntimeError

from dbt_lakehouse.build.compiling import Compiling
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.key_updates import KeyUpdates
from dbt_lakehouse.build.log_places import LogPlaces
from dbt_lakehouse.build.log_rows import AllThere, Log, LogRows
from dbt_lakehouse.build.model import Building, Built
from dbt_lakehouse.build.source_places import SourcePlaces
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared import message_keys, widening
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.message_keys import Verdict
from dbt_lakehouse.declared.widening import Kind
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.log_input import Part
from dbt_lakehouse.runs.model_run import NodeRun, kept


def model_of_log(of: Compiling) -> str:
    """The SQL of a change log's model. If the model is run, its run begins here."""
    log, upstreams = of.declared["change_log"], [of.reads["events"], of.reads["payloads"]]
    full_refresh = of.context.is_full_refresh if of.is_building else None
    return change_log_sql(
        of.this, of.context.model["name"], log, upstreams, of.decoding, full_refresh
    )


def change_log_sql(
    this: Any,
    name: str,
    log: Log,
    upstreams: Sequence[Any],
    decoding: Decoding,
    full_refresh: bool | None,
) -> str:
    """The SQL of the change log model called ``name``, which reads other_events and bronze.
    ``full_refresh``: whether the table is rebuilt in any case; None for a model that is only
    compiled, whose rows are those of all events.
    """
    lake = decoding.lake
    if full_refresh is None:
        rows = LogRows(name, log, decoding)
        return rows.sql(rows.events(AllThere(*upstreams)))
    rows = LogRows(name, log if full_refresh else lake.declared.followed(log, this), decoding)
    run = lake.runs.begin_run(
        this, upstreams, rows.log, full_refresh, wanted=rows.log["sources"], follows=True
    )
    # Where the source's own order decides, truncates lie among rows as it says.
    if rows.log["namespace"] is None and "order_by" not in rows.log:
        run = LogPlaces(lake, this, rows).found(run)
    keys = message_keys.allowed(rows.log, _keys_taken(run))
    return rows.sql(rows.events(run, keys=keys), keys, run.places)


def _keys_taken(run: NodeRun) -> list[list[str]]:
    """The names of record keys that earlier runs have accepted."""
    taken = kept(run.table, message_keys.TAKEN) if run.table and run.is_incremental else None
    return taken or []


class ChangeLog(Building):
    """A typed change log. It is append-only, with two exceptions: columns that are declared later
    are filled from earlier events, and rows of key updates get values of the old key's row.
    Messages with a key of other columns than declared stop the run before anything is written
    (``message_keys``). A wider type is declared by hand, or follows from values that did not fit.
    """

    @cached_property
    def rows(self) -> LogRows:
        """The source of its rows, with the types that its columns have had so far."""
        declared = self.model.node["config"]["meta"]["change_log"]
        return self._rows_of(
            declared if self.run.full_refresh else self.lake.declared.followed(declared, self.this)
        )

    def _rows_of(self, log: Log) -> LogRows:
        decoding = Decoding(self.lake, self.lake.events.topics, runs=True)
        return LogRows(self.model.node["name"], log, decoding)

    def build(self) -> Built:
        """Check the keys of the new messages, then append the new rows or rebuild the table.
        Then adapt older rows and column types to the new rows.
        """
        run = self.run
        doubts: list[str] = []
        if not run.is_incremental or run.is_redeclared:
            # Their contracts would fail only after silver has changed.
            self.lake.declared.check_contracts_behind(self.model.node, self.rows.log)
        if run.full_refresh:
            self._forget_followed()
        if run.truncates_crossed:
            doubts.append(
                f"{self.this}: {run.truncates_crossed} rows or truncates contradict their"
                " source's order, in whatever order they are read: its positions decrease along"
                " a partition. Compare gold with the source"
            )
        if not run.is_incremental:
            self.refuse_loss()
            had_rows = self._has_rows()
            built = self._held_to_key(self._replaced)
            if had_rows and not self._has_rows():
                doubts.append(
                    f"{self.this} has lost all of its rows: no event is from the source table or"
                    " topic that its model names"
                )
        elif not run.has_news:
            built = self.unchanged()
        else:
            built = self._brought_up()
        self._count_ties()
        if doubt := self._doubt_of_keys():
            doubts.append(doubt)
        log = self.rows.log
        places = SourcePlaces(self.lake, self.this, log) if "order_by" in log else None
        if places is not None:
            doubts += places.settle(rebuilt=not run.is_incremental)
        KeyUpdates(self.lake, self.this, self.rows).take_over_values()
        self._follow_widening()
        if places is not None:
            places.keep()
        return built._replace(doubts=doubts)

    def _brought_up(self) -> Built:
        run = self.run
        if run.is_redeclared:
            self.lake.catalog.follow_schema(self.this, self.model.sql)
        if run.to_fill:
            KeyUpdates(self.lake, self.this, self.rows).begin_anew()
            self._fill(self.rows)
        if any(run.has_news_of(upstream) for upstream in run.upstreams):
            return self._held_to_key(self._appended)
        self.lake.commits.note(self.this)
        return self.unchanged("columns filled")

    def _has_rows(self) -> bool:
        is_there = self.lake.catalog.look_at(self.this) is not None
        return is_there and self.lake.catalog.may_have_rows(self.this, [])

    def _replaced(self, query: str) -> Built:
        return self.replaced(self.lake.commits.observed(self.this, query, self._counted))

    def _appended(self, query: str) -> Built:
        return self.appended(query, counted=self._counted)

    @property
    def _counted(self) -> Mapping[str, str] | None:
        """The SQL aggregates to compute while its rows are written."""
        leaving = {"leaving": "count_if(size(_unchanged_columns) > 0)"}
        return leaving if self.rows.leaves_columns else None

    def _count_ties(self) -> None:
        ties = self.run.truncate_ties
        if ties:
            self.lake.tell(
                f"{self.this}: {ties} rows have the Kafka timestamp of a truncate in another"
                " partition. Their source gives no order, so they count as later and stay"
            )
            self.lake.count(self.model.scope, {"truncate_ties": ties}, self.model.as_of)

    # -- the keys of messages

    def _held_to_key(self, write: Callable[[str], Built]) -> Built:
        """Write the model's rows. If messages have another key than declared, write nothing, or
        what the verdict allows, see ``message_keys``.
        """
        run, query = self.run, self.model.sql
        taken = _keys_taken(run)
        if taken:
            run.keeps[message_keys.TAKEN] = taken
        try:
            return write(query)
        except DbtRuntimeError as error:
            if not message_keys.is_refusal(str(error)):
                raise
            verdict = self._judged()
        run.keeps[message_keys.TAKEN] = verdict.taken
        if verdict.has_former and not run.is_incremental:
            # Names that a table has always had are a former key of another table.
            keys = message_keys.allowed(self.rows.log, [])
            query = self.rows.of_former(run, keys, verdict.renamed)
        return write(query.replace(message_keys.REFUSAL, message_keys.UNREFUSED))

    def _judged(self) -> Verdict:
        """Judge the keys of other columns. Raises ``CompilationError`` if they are an error."""
        log, owner = self.rows.log, str(self.this)
        events = self.rows.read(self.run, Part.SO_FAR)
        found = self.lake.sql.query(message_keys.question(log, events))
        verdict = message_keys.judge(found, log, owner)
        if verdict.error is not None:
            raise CompilationError(verdict.error)
        if not verdict.explains:
            raise CompilationError(
                f"{owner}: a message has a key of other columns than declared, which is not"
                f" among the {len(found)} kinds of keys found: name the topic or the tables in the"
                " change log one by one"
            )
        return verdict

    def _doubt_of_keys(self) -> str | None:
        """The run's warning about the keys of messages, if there is one."""
        run = self.run
        taken = run.keeps.get(message_keys.TAKEN) or _keys_taken(run)
        return message_keys.warning(self.rows.log, taken, str(self.this))

    # -- columns that are declared later, or wider

    def _fill(self, rows: LogRows) -> None:
        """Fill columns that were declared since the rows were written, or declared with a wider
        type. The values come from the same events, or from the kept texts of values that did not
        fit; those of a float that becomes a double from events, because the text of 0.1 has
        another double than its float. Only rows that get a value are rewritten.
        """
        log, to_fill = rows.log, self.run.to_fill
        encoded = {spec["column"] for spec in log["columns"] if spec["encoding"]}
        if encoded.isdisjoint(to_fill) and {None, "float"}.isdisjoint(to_fill.values()):
            statement, source = self._filled_from_misfits(rows), "misfits"
        else:
            statement, source = self._filled_from_events(rows), "earlier events"
        self.lake.commits.change(self.this, statement)
        self.lake.tell(f"{self.this}: filled {', '.join(to_fill)} from {source}")

    def _filled_from_misfits(self, rows: LogRows) -> str:
        columns = [*self.run.to_fill]
        return render(
            "fill_from_misfits",
            table=self.this,
            own=self.lake.catalog.pinned_own(self.this),
            columns=quoted(columns),
            function=rows.fitting(columns),
            leaves_columns=rows.leaves_columns,
        )

    def _filled_from_events(self, rows: LogRows) -> str:
        return render(
            "fill_from_events",
            table=self.this,
            rows=rows.sql(rows.events(self.run, Part.BEFORE)),
            names=[*self.run.to_fill],
            columns=quoted(self.run.to_fill),
            lists=["_changed_columns", *["_unchanged_columns"] * rows.leaves_columns],
            structs=["_misfits", *["_key_update"] * rows.has_key],
        )

    # -- columns that follow the source

    def _follow_widening(self) -> None:
        """Widen columns whose types the source has outgrown, where the declaration says so
        (follow="widening"). Numbers among the misfits of rows not yet checked widen the columns
        in place and move into them.
        """
        misfits = self._misfits_to_follow()
        if misfits is None:
            return
        log = self._followed(render("outgrown_numbers", rows=misfits))
        if log != self.rows.log:
            # The next run then finds the log redeclared, even after a crash. Not a full
            # refresh: in one, the rows are there by now.
            run = self.lake.runs.begin_run(
                self.this,
                self.run.upstreams,
                log,
                full_refresh=False,
                wanted=log["sources"],
                follows=True,
            )
            if not run.is_incremental:
                return
            self._widen(run, self._rows_of(log))
        known, _ = self._looked_at()
        self._keep_followed(known, self._table().sequence)

    def _widen(self, run: NodeRun, wider: LogRows) -> None:
        """Change table and rows to a declaration with wider types."""
        none = f"(select * from {wider.events(run)} where false)"
        self.lake.catalog.follow_schema(self.this, wider.sql(none))
        # Filled from events, rows lose the values that they have taken over.
        are_refilled = "float" in run.to_fill.values()
        updates = KeyUpdates(self.lake, self.this, wider)
        if are_refilled:
            updates.begin_anew()
        self._fill(wider)
        if are_refilled:
            updates.take_over_values()
        self.lake.commits.note(self.this)

    def _misfits_to_follow(self) -> str | None:
        """The rows whose misfits may widen columns, to select from; None if all have been
        checked, or the columns don't follow.
        """
        log = self.rows.log
        if not log.get("follow") or not widening.may_follow(log):
            return None
        _, sequence = self._looked_at()
        if sequence >= self._table().sequence:
            return None
        since = f" where _last_updated_sequence_number > {sequence}" if sequence else ""
        return f"(select * from {self.this}{since})"

    def _followed(self, query: str) -> Log:
        """The declaration with the types that the numbers found by a query need
        (``widening.Kind``). It is kept with the table. Without such numbers, the declaration
        stays the same.
        """
        kinds = [Kind(**row) for row in self.lake.sql.query(query)]
        types = widening.outgrown(self.rows.log, kinds)
        if not types:
            return self.rows.log
        known, sequence = self._looked_at()
        return widening.followed(self.rows.log, self._keep_followed({**known, **types}, sequence))

    def _forget_followed(self) -> None:
        """Reset the types to the declared ones: the table is about to be rebuilt."""
        is_there = self.lake.catalog.look_at(self.this) is not None
        if is_there and self._looked_at() != ({}, 0):
            self._keep_followed({}, 0)

    def _looked_at(self) -> tuple[dict[str, str], int]:
        """See ``widening.looked_at``."""
        return widening.looked_at(self._table().properties)

    def _keep_followed(self, types: Mapping[str, str], sequence: int) -> dict[str, str]:
        """Keep the current column types, and up to where misfits have been checked."""
        now = widening.following(types, sequence)
        self.lake.catalog.set_properties(self.this, now)
        return now

    def _table(self) -> Table:
        table = self.lake.catalog.look_at(self.this)
        assert table is not None
        return table
