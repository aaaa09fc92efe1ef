"""Gold tables of current state: one row for each live key of a change log.

A rebuild folds the whole log. An incremental run

    1. folds the log's new events into one state per key; this settles most keys;
    2. where known state may make a difference (``runs.decisions``: late events,
       expired rows, deletes without a set, truncates, columns that are declared later), folds once
       more, with the known states of those keys: gold rows, or remembered states; keys with an
       event before their known state are folded from their whole log where that makes a
       difference (``look_up``);
    3. remembers the keys that are absent in `deleted_keys`, and only then
    4. merges the states into gold; the marks are committed with them.

Each step can be repeated: a crash between any two loses nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from dbt_lakehouse.build.folding import Folding, may_have_new_truncates
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.look_up import NOTHING_KNOWN, Answer, LookUp, Question
from dbt_lakehouse.build.model import Built, Loss, Model
from dbt_lakehouse.build.remembered import Remembered
from dbt_lakehouse.build.templates import part, render, union
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs import decisions
from dbt_lakehouse.runs.decisions import Found, Newest, Plan, Rebuilt, Truncate
from dbt_lakehouse.runs.model_run import AS_OF, NEWEST, NodeRun


def fold_of_all(fold: Fold, changes: Any, deletes: Any, as_of: str) -> str:
    """The SQL of a gold table of all events of a log: what `dbt show` shows and unit tests test.
    ``deletes`` is the table of deletes without a set; None unless the table is of a namespace.
    """
    return render(
        "fold",
        fold=fold,
        events=f"({part('event_parts', 'all_events', fold, changes, deletes)})",
        truncates=None
        if fold.namespace
        else f"({part('event_parts', 'truncates', fold, changes)})",
        fills=fold.may_leave,
        doubts=False,
        as_of=as_of,
        columns=fold.gold_columns,
        only_live=True,
    )


def may_meet_truncates(lake: Lake, run: NodeRun, remembered: Remembered) -> bool:
    """Whether a run may meet a new or remembered truncate, judged by file statistics."""
    assert run.fold is not None
    if run.fold.namespace is not None:
        return False
    if may_have_new_truncates(lake, run, run.fold):
        return True
    return run.is_incremental and remembered.has_truncates()


@dataclass(frozen=True, slots=True)
class States:
    """The fold of a run. Each step applies it to other events."""

    fold: Fold
    as_of: str
    fills: bool
    """Whether any event may leave columns unchanged."""
    doubts: bool
    """Whether to look for keys for which rows are inserted again."""
    truncates: str | None
    """The view of the truncates, None without truncates."""

    def of(self, events: str) -> str:
        """The SQL of the states of the keys in a relation of events."""
        return render(
            "fold",
            fold=self.fold,
            events=events,
            truncates=self.truncates,
            fills=self.fills,
            doubts=self.doubts,
            as_of=self.as_of,
            columns=["*"],
            only_live=False,
        )


class CurrentState(Folding):
    """A gold table of a log with a key."""

    def __init__(self, lake: Lake, model: Model) -> None:
        super().__init__(lake, model)
        fold = self.fold
        self._log: Final = self.run.upstreams[0]
        self._remembered: Final = Remembered(lake, model, fold)
        run = self.run
        if run.leaves is None or run.meets_truncates is None:
            # Set when the model is compiled; the model that is built has the same values.
            run.leaves = lake.declared.may_leave(self._log, fold)
            run.meets_truncates = may_meet_truncates(lake, run, self._remembered)
        self._meets_truncates: Final = run.meets_truncates
        self._states: Final = States(
            fold,
            model.as_of,
            fills=run.leaves and fold.may_leave,
            doubts=lake.declared.may_doubt_key(self._log),
            truncates=self.view("truncates") if self._meets_truncates else None,
        )

    def sql(self) -> str:
        """The fold of the table's new events, or of all events for a rebuild. It reads a view,
        which a rebuild defines and an increment replaces by its query.
        """
        return self._states.of(self.view("events"))

    def build(self) -> Built:
        """Bring the table up to date."""
        self.lake.declared.check_contract(self.model.node, self.fold, self.fold.gold_columns)
        self.refuse_earlier_moment()
        if self.run.is_incremental:
            built = Increment(self, self._states, self._remembered).merge()
        else:
            self.refuse_loss()
            built = self._rebuild()
        self.lake.sql.drop_evaluated(self.view(""))
        doubt = self.lake.declared.doubt_of_rows(self.this, self.fold)
        return built if doubt is None else built._replace(doubts=[doubt])

    def losses(self) -> Iterable[Loss]:
        """Values that no event of the log says, and states of events that are gone."""
        if not self.has_key:
            return
        yield from self.lost_values()
        yield Loss(
            "of the deleted keys that it remembers are",
            render(
                "lost_states",
                table=self.this,
                log=self._log,
                key=self.fold.key,
                deleted_keys=self._remembered.table,
                scope=self.model.scope,
                by_source=bool(self.fold.order_by),
                deletes=self._set_less_deletes(),
            ),
        )

    def _set_less_deletes(self) -> Any:
        """The table of deletes without a set; None unless the table is of a namespace."""
        if self.fold.namespace is None:
            return None
        return self.lake.catalog.relation_of("set_less_deletes")

    def _rebuild(self) -> Built:
        """Fold the log once. The rows, the remembered states of absent keys and the key ranges of
        the written files all come from the states.
        """
        fold, lake, of = self.fold, self.lake, self._remembered
        log = self.read(self._log)
        truncates = of.find_truncates(log, None) if self._meets_truncates else []
        deletes = self._set_less_deletes()
        # To match deletes with keys, Spark would shuffle all keys of the log.
        if deletes is not None and not lake.catalog.may_have_rows(
            deletes, [("_namespace", "=", fold.namespace)]
        ):
            deletes = None
        lake.sql.define(
            self.view("events"),
            part("event_parts", "all_events", fold, log, deletes, None, self._meets_truncates),
        )
        of.keep_truncates(truncates, rebuild=True)
        states = self.view("states")
        # Without the counters, which a rebuild does not use.
        columns = ", ".join(
            [*fold.gold_columns, "_lh_live", "_lh_null_position", "_lh_is_reinserted"]
        )
        lake.sql.evaluate(states, f"select {columns} from ({self.sql()})")
        rebuilt = self._summary(states)
        lake.declared.keep_doubts(self.this, rebuilt)
        remembers = of.has_states()
        if rebuilt.absent or remembers:
            # Remembered states of this table may have to go back.
            of.keep_absent(states, refolded=remembers)
        if remembers:
            of.forget_unknown(log, deletes)
        return self.replaced(
            render(
                "rows_by_key",
                states=states,
                columns=fold.gold_columns,
                key=fold.key,
                ranges=lake.sql.ranges_to_write(rebuilt.live),
            ),
            {AS_OF: self.model.as_of, NEWEST: rebuilt.newest},
        )

    def _summary(self, states: str) -> Rebuilt:
        of = self._remembered
        (found,) = self.lake.sql.query(
            render("summary_of_rebuild", states=states, deleted_keys=of.table, scopes=of.scopes)
        )
        return Rebuilt(
            found["live"],
            found["absent"],
            Newest(found["log_time"], found["time"]),
            found["reinserted"],
            found["reinserted_at"],
        )


class Increment:
    """An incremental run of a gold table."""

    def __init__(self, table: CurrentState, states: States, remembered: Remembered) -> None:
        self._table: Final = table
        self._lake: Final = table.lake
        self._run: Final = table.run
        self._fold: Final = states.fold
        self._states: Final = states
        self._of: Final = remembered
        self._as_of: Final = states.as_of
        self._log: Final = self._run.upstreams[0]
        self._view: Final = table.view("states")
        self._remembered: Final = table.read(remembered.table)
        """`deleted_keys` up to where the run reads it."""
        self._deletes: Final = self._deletes_of_namespace()
        self._has_new_deletes: Final = self._finds_new_deletes()
        self._hit: Final = self._hit_by_others()
        self._resting: Final = table.keys_changed_since()

    def merge(self) -> Built:
        """Fold the new events, look up known states, remember absent keys, and merge."""
        if not self._has_work():
            if self._has_new_deletes:
                # The table has read them; unread deletes would be kept for it forever.
                self._lake.commits.note(self._table.this)
            return self._table.unchanged()
        new_events = self._new_events()
        states = self._states.of(f"({new_events})")
        truncates = self._find_truncates()
        unread = self._unread_keys(truncates, new_events)
        self._take(truncates, states)
        horizon = self._of.horizon
        is_late = self._is_late(truncates, horizon)
        new = None
        if self._run.has_news_of(self._log):
            # Spark can't observe a condition with a subquery.
            observed = not self._has_to_compare(truncates)
            new = self._evaluate(states, is_late, observed=observed)
            self._lake.declared.keep_doubts(self._table.this, new)
        plan = self._plan(new or Found(), truncates)
        found, answer = new, None
        if plan.looks_up:
            asked = Question(
                plan,
                new,
                states=self._view,
                new_events=new_events,
                remembered=self._remembered,
                deletes=self._deletes,
                truncates=truncates,
                hit_by_others=self._hit,
                resting=self._resting,
                is_late=is_late,
                horizon=horizon,
                last_decides=self._last_decides(truncates),
            )
            answer = LookUp(self._lake, self._table.model, self._run, self._of, asked).answer()
            query = self._states.of(answer.events)
            found = self._evaluate(query, "false", observed=plan.is_of_new_events)
        if found is None:
            self._lake.commits.note(self._table.this)
            self._count_unread(unread)
            return self._table.unchanged()
        refolded = answer is not None and answer.refolded_keys > 0
        if found.absent or (refolded and found.keys):
            self._of.keep_absent(self._view, refolded=refolded)
        built = self._write(found, refolded=refolded, truncated=bool(truncates))
        self._tell(new or Found(), found, answer or NOTHING_KNOWN, truncates)
        self._count_unread(unread)
        return built

    # -- new events

    def _deletes_of_namespace(self) -> str | None:
        """The deletes without a set, of a table of a namespace."""
        if self._fold.namespace is None:
            return None
        sequence = self._run.sequence_read(self._of.table)
        return part(
            "event_parts", "remembered_deletes", self._fold.namespace, self._remembered, sequence
        )

    def _finds_new_deletes(self) -> bool:
        """Whether there is an unread delete without a set, for any key."""
        namespace = self._fold.namespace
        if namespace is None:
            return False
        if not self._of.has_deletes(namespace, since=self._run.sequence_read(self._of.table)):
            return False
        return self._table.has_rows(f"select * from ({self._deletes}) where _lh_is_new")

    def _hit_by_others(self) -> str | None:
        """SQL of the keys with a row that has expired, or that a new delete without a set hits or
        may bring back; None if file statistics rule these out.
        """
        this = self._table.this
        if self._fold.namespace is None:
            return None
        queries, gold = [], self._table.pinned(this)
        if self._lake.catalog.may_have_rows(this, [("_expires_at", "<=", self._as_of)]):
            queries.append(render("expired_keys", gold=gold, as_of=self._as_of))
        if self._has_new_deletes:
            queries += self._hit_by_deletes(gold)
        return union(queries, "union") or None

    def _hit_by_deletes(self, gold: str) -> Iterator[str]:
        """SQL of the keys that a new delete without a set hits or may bring back."""
        yield render(
            "keys_hit_by_deletes",
            gold=gold,
            remembered=self._remembered,
            scope=self._table.model.scope,
            deletes=self._deletes,
        )
        if self._of.horizon:
            yield render(
                "purged_keys_hit_by_deletes",
                log=self._table.changes,
                deletes=self._deletes,
                horizon=self._of.horizon,
            )

    @cached_property
    def _has_moved_truncate(self) -> bool:
        return self._table.has_moved_truncate()

    def _has_work(self) -> bool:
        return (
            self._run.has_news_of(self._log)
            or self._run.is_redeclared
            or any(
                keys is not None and self._table.has_rows(keys)
                for keys in (self._resting, self._hit)
            )
        )

    def _new_events(self) -> str:
        """The log's new events. A small run has them in one partition, so that the fold is one
        task without a shuffle.
        """
        events = part("event_parts", "log_events", self._fold, self._run.rows(self._log))
        hint = "/*+ coalesce(1) */ " if self._run.is_small else ""
        return f"select {hint}* from ({events})"

    # -- steps

    def _find_truncates(self) -> list[Truncate]:
        """The truncates of the run."""
        if self._states.truncates is None:
            return []
        rows = self._run.rows(self._log)
        if self._has_moved_truncate:
            # One of those that are known has got another place.
            return self._of.find_truncates(self._table.changes, None)
        if self._fold.order_by:
            rows = render(
                "placed_truncates", log=self._table.changes, new=rows, key=self._fold.key[0]
            )
        return self._of.find_truncates(rows, self._remembered)

    def _unread_keys(self, truncates: Sequence[Truncate], new_events: str) -> int | None:
        """The number of rows that end because full snapshots did not read them; None without new
        snapshots.
        """
        snapshots = [each for each in truncates if each.is_new and each.is_of_snapshot]
        if not snapshots:
            return None
        found: int = self._table.value(
            render(
                "unread_keys",
                table=self._table.this,
                fold=self._fold,
                truncates=snapshots,
                events=f"({new_events})",
            )
        )
        return found

    def _take(self, truncates: Sequence[Truncate], states: str) -> None:
        """Remember new truncates and delete the rows before them; ``states`` is the query of the
        new events' states.
        """
        this = self._table.this
        if self._run.is_redeclared:
            columns = ", ".join(self._fold.gold_columns)
            self._lake.catalog.follow_schema(this, f"select {columns} from ({states})")
        self._of.keep_truncates(truncates, moved=bool(truncates) and self._has_moved_truncate)
        for each in truncates:
            # With several source tables, the fold decides whose rows it deletes.
            if each.is_new and not self._fold.several_sources:
                earlier = f"delete from {this} where _position < {each.position}"
                self._lake.commits.change(this, earlier)

    def _is_late(self, truncates: Sequence[Truncate], horizon: str | None) -> str:
        newest = self._run.newest
        # In a source's own order, a later log time proves nothing.
        if newest is None or self._fold.order_by:
            return "true"
        return render(
            "late_states",
            newest=newest,
            horizon=horizon,
            truncates=self._states.truncates if self._has_to_compare(truncates) else None,
        )

    def _has_to_compare(self, truncates: Sequence[Truncate]) -> bool:
        """Whether a truncate's rows depend on the source table that they are from."""
        return self._fold.several_sources and bool(truncates)

    def _last_decides(self, truncates: Sequence[Truncate]) -> bool:
        return decisions.last_event_decides(
            self._fold,
            fills=self._states.fills,
            doubts=self._states.doubts,
            truncates=truncates,
        )

    def _evaluate(self, query: str, is_late: str, *, observed: bool) -> Found:
        """Evaluate states as a view, and their summary with them in a small run."""
        return self._lake.sql.evaluate_states(
            self._view,
            query,
            self._fold,
            self._as_of,
            is_late,
            observed=observed and self._run.is_small,
        )

    def _plan(self, found: Found, truncates: Sequence[Truncate]) -> Plan:
        namespace = self._fold.namespace
        return decisions.plan(
            self._fold,
            found,
            # In a source's own order, a later log time proves nothing.
            newest_known=None if self._fold.order_by else self._run.newest,
            truncates=truncates,
            may_be_hit=self._hit is not None,
            resting=self._resting is not None,
            has_set_less_deletes=namespace is not None and self._of.has_deletes(namespace),
            to_fill=bool(self._run.to_fill),
        )

    def _write(self, found: Found, *, refolded: bool, truncated: bool) -> Built:
        newest = self._run.newest or self._of.newest()
        ranges = self._lake.sql.hold_key_ranges(self._table.view("merge"), found)
        of: dict[str, Any] = {
            "table": self._table.this,
            "fold": self._fold,
            "states": self._view,
            "ranges": ranges,
            "leaves": self._run.leaves,
            "out_of_order": found.out_of_order > 0,
        }
        statement = (
            render("merge_refolded_states", **of)
            if refolded
            else render("merge_states", **of, truncated=truncated)
        )
        notes = {AS_OF: self._as_of, NEWEST: newest.and_those(found.log_time, found.time)}
        return self._table.written(statement, notes)

    def _tell(
        self, new: Found, found: Found, answer: Answer, truncates: Sequence[Truncate]
    ) -> None:
        out_of_order = answer.refolded_keys
        if self._last_decides(truncates):
            out_of_order += found.out_of_order
        counters = {
            "new_events": new.events,
            "clock_ahead_events": new.clock_ahead,
            "refolded_keys": out_of_order,
            "keys_beyond_log": answer.keys_beyond_log,
            "late_after_purge": answer.late_after_purge,
            "touched_keys": found.keys,
            "late_events": found.late_events,
            "expired_keys": found.expired,
        }
        self._lake.count(self._table.model.scope, counters, self._as_of)
        truncate = " a truncate," if any(each.is_new for each in truncates) else ""
        self._lake.tell(
            f"{self._table.this}: {new.events} new events,{truncate} {found.keys} keys touched,"
            f" {found.late_events} late events rejected,"
            f" {out_of_order} keys with changes out of order"
        )

    def _count_unread(self, keys: int | None) -> None:
        if keys is None:
            return
        self._lake.count(self._table.model.scope, {"unread_keys": keys}, self._as_of)
        self._lake.tell(f"{self._table.this}: {keys} keys ended that a full snapshot has not read")
