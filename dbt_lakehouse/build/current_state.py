"""Gold tables of current state: one row for each live key of a change log.

A rebuild folds the whole log. An incremental run

    1. folds the new events of the log, one state for each key: most keys are settled by that;
    2. where something that is known may make a difference (``dbt_lakehouse.dbt.fold``: late events,
       expired rows, deletes without a set, truncates, columns that are declared later), folds once
       more, with what is known of those keys: gold rows, or remembered states; keys with an event
       that belongs before what is known are folded from their whole log (``look_up``);
    3. remembers the keys that end absent in `deleted_keys`, and only then
    4. merges the states into gold; what was read is committed with them.

Each step can be repeated: a crash between any two loses nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.build.look_up import LookUp, Question
from dbt_lakehouse.build.model import Building, Built, Lake, Loss, Model
from dbt_lakehouse.build.remembered import Remembered
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.dbt import fold as folds
from dbt_lakehouse.dbt.declarations import Fold, quoted
from dbt_lakehouse.dbt.fold import Found, Newest, Rebuilt
from dbt_lakehouse.dbt.node_run import AS_OF, NEWEST, NodeRun


def fold_of_all(fold: Fold, changes: Any, deletes: Any, as_of: str) -> str:
    """The gold table of all events of a log, as SQL: what `dbt show` shows and unit tests test.

    ``deletes`` is the table of deletes without a set, None but for a namespace.
    """
    return render(
        "fold",
        fold=fold,
        events=f"({part('events', 'all_events', fold, changes, deletes)})",
        truncates=None if fold.namespace else f"({part('events', 'truncates', fold, changes)})",
        fills=fold.may_leave,
        doubts=False,
        as_of=as_of,
        columns=fold.gold_columns,
        only_live=True,
    )


def may_meet_truncates(lake: Lake, run: NodeRun, remembered: Remembered) -> bool:
    """Whether a run may meet a truncate, new or remembered; what is known of the files answers."""
    assert run.fold is not None
    if run.fold.namespace is not None:
        return False
    first = run.fold.key[0].strip("`")
    if lake.may_have_new_rows(run, run.upstreams[0], [(first, "is null", None)]):
        return True
    return run.is_incremental and remembered.has_truncates()


@dataclass(frozen=True, slots=True)
class States:
    """The fold of a run, of which each step selects from other events."""

    fold: Fold
    as_of: str
    fills: bool
    """Whether any event may leave columns as they were."""
    doubts: bool
    """Whether to look for keys that rows are inserted for again."""
    truncates: str | None
    """The view of the truncates, None if there are none."""

    def of(self, events: str) -> str:
        """The states of the keys of a relation of events."""
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


class CurrentState(Building):
    """A gold table of a log with a key."""

    def __init__(self, lake: Lake, model: Model) -> None:
        super().__init__(lake, model)
        fold = self.run.fold
        assert fold is not None
        self._fold: Final = fold
        self._log: Final = self.run.upstreams[0]
        self._remembered: Final = Remembered(lake, model, fold)
        self.run.leaves = lake.may_leave(self._log, fold)
        self._meets_truncates: Final = may_meet_truncates(lake, self.run, self._remembered)
        self._states: Final = States(
            fold,
            model.as_of,
            fills=self.run.leaves and fold.may_leave,
            doubts=lake.may_doubt_key(self._log),
            truncates=self.view("truncates") if self._meets_truncates else None,
        )

    def sql(self) -> str:
        """The fold of the events that are new to the table, or of all of them for a rebuild: a view
        that ``build`` defines.
        """
        return self._states.of(self.view("events"))

    def build(self) -> Built:
        """Bring the table up to date."""
        self.lake.check_contract(self.model.node, self._fold, self._fold.gold_columns)
        self._refuse_earlier_moment()
        if self.run.is_incremental:
            built = self._merge_new_events()
        else:
            self.refuse_loss()
            built = self._rebuild()
        self.lake.drop_evaluated(self.view(""))
        doubt = self.lake.doubt_of_rows(self.this, self._fold)
        return built if doubt is None else built._replace(doubts=[doubt])

    def losses(self) -> Iterable[Loss]:
        """Values that no event of the log says, and states of events that are gone."""
        fold, held = self._fold, self.lake.columns_of(self.this)
        if not {*fold.key} <= {*quoted(held)}:
            # Of another key: nothing that is held can be compared.
            return
        columns = self.lake.columns_kept(self.this, fold)
        if fold.may_leave and columns:
            yield Loss(
                "of its rows have values",
                render(
                    "lost_values", table=self.this, log=self._log, key=fold.key, columns=columns
                ),
            )
        yield Loss(
            "of the deleted keys that it remembers are",
            render(
                "lost_states",
                table=self.this,
                log=self._log,
                key=fold.key,
                deleted_keys=self._remembered.table,
                scope=self.model.scope,
                deletes=self._set_less_deletes(),
            ),
        )

    def _set_less_deletes(self) -> Any:
        """The table of deletes without a set, None but for a namespace."""
        if self._fold.namespace is None:
            return None
        return self.lake.relation_of("set_less_deletes")

    def _refuse_earlier_moment(self) -> None:
        """An expired row is gone from gold, so judging it at an earlier moment takes a rebuild."""
        last = self.run.noted(AS_OF) if self._fold.namespace else None
        if last and self.model.as_of < last:
            raise CompilationError(
                f"vars.as_of is {self.model.as_of}, but {self.this} has been built as of {last}:"
                " rows that expired in between can only come back with --full-refresh"
            )

    # -- an incremental run

    def _merge_new_events(self) -> Built:
        run, fold, lake, of = self.run, self._fold, self.lake, self._remembered
        has_new_events = run.has_news_of(self._log)
        remembered = self.read(of.table)
        deletes = (
            part(
                "events",
                "remembered_deletes",
                fold.namespace,
                remembered,
                run.sequence_read(of.table),
            )
            if fold.namespace is not None
            else None
        )
        has_new_deletes = self._has_new_deletes(deletes)
        hit = self._hit_by_others(deletes if has_new_deletes else None)
        resting = self._resting()
        if not (
            has_new_events
            or run.is_declared_anew
            or (resting is not None and self.has_rows(resting))
            or (hit is not None and self.has_rows(hit))
        ):
            if has_new_deletes:
                # It has seen them: they would be kept for it for good.
                lake.note(self.this)
            return self.unchanged()
        new_events = self._new_events()
        lake.define(self.view("events"), new_events)
        truncates = (
            of.find_truncates(run.rows(self._log), remembered) if self._meets_truncates else []
        )
        new_truncates = [each for each in truncates if each.is_new]
        if run.is_declared_anew:
            columns = ", ".join(fold.gold_columns)
            lake.follow_schema(self.this, f"select {columns} from ({self.sql()})")
        of.keep_truncates(truncates)
        if not fold.several_sources:
            for each in new_truncates:
                lake.change(self.this, f"delete from {self.this} where _position < {each.position}")
        states, horizon = self.view("states"), of.horizon
        # Which rows a truncate takes away is then a matter of where they are from.
        of_sources = fold.several_sources and bool(truncates)
        is_late = render(
            "late_states",
            newest=run.newest,
            horizon=horizon,
            truncates=self.view("truncates") if of_sources else None,
        )
        found = None
        if has_new_events:
            found = self._evaluate(states, self.sql(), is_late, observed=not of_sources)
            lake.keep_doubts(self.this, found)
        plan = folds.plan(
            fold,
            found or Found(),
            newest_known=run.newest,
            truncates=truncates,
            may_be_hit=hit is not None,
            resting=resting is not None,
            has_set_less_deletes=fold.namespace is not None and of.has_deletes(fold.namespace),
            to_fill=bool(run.to_fill),
        )
        if found is None and not plan.looks_up:
            lake.note(self.this)
            return self.unchanged()
        counts = {
            "new_events": found.events if found else 0,
            "clock_ahead_events": found.clock_ahead if found else 0,
            "refolded_keys": 0,
            "keys_beyond_log": 0,
            "late_after_purge": 0,
        }
        if found is None or plan.looks_up:
            asked = Question(
                plan,
                found,
                states,
                new_events,
                remembered,
                deletes,
                truncates,
                hit,
                resting,
                is_late,
                horizon,
            )
            answer = LookUp(lake, self.model, run, of, asked).answer()
            counts["refolded_keys"] = answer.refolded_keys
            counts["keys_beyond_log"] = answer.keys_beyond_log
            counts["late_after_purge"] = answer.late_after_purge
            found = self._evaluate(states, self._states.of(answer.events), "false", observed=True)
        refolded = counts["refolded_keys"] > 0
        if found.absent or (refolded and found.keys):
            of.keep_absent(states, refolded=refolded)
        built = self._merged(states, found, refolded=refolded, truncated=bool(truncates))
        counts |= {
            "touched_keys": found.keys,
            "late_events": found.late_events,
            "expired_keys": found.expired,
        }
        lake.count(self.model.scope, counts, self.model.as_of)
        lake.tell(
            f"{self.this}: {counts['new_events']} new events,"
            f"{' a truncate,' if new_truncates else ''} {found.keys} keys touched,"
            f" {found.late_events} late events rejected,"
            f" {counts['refolded_keys']} keys refolded from the log"
        )
        return built

    def _evaluate(self, states: str, query: str, is_late: str, *, observed: bool) -> Found:
        """Evaluate states as a view, and with them what is asked of them, if they are few."""
        return self.lake.evaluate_states(
            states,
            query,
            self._fold,
            self.model.as_of,
            is_late,
            observed=observed and self.run.is_small,
        )

    def _merged(self, states: str, found: Found, *, refolded: bool, truncated: bool) -> Built:
        newest = self.run.newest or self._remembered.newest()
        return self.written(
            render(
                "merge_states",
                table=self.this,
                fold=self._fold,
                states=states,
                ranges=self.lake.hold_key_ranges(self.view("merge"), found),
                leaves=self.run.leaves,
                refolded=refolded,
                truncated=truncated,
            ),
            {AS_OF: self.model.as_of, NEWEST: newest.and_those(found.log_time, found.time)},
        )

    def _new_events(self) -> str:
        """The log's new events, those of most runs in one partition: then all of the fold is one
        task, and shuffles nothing.
        """
        events = part("events", "log_events", self._fold, self.run.rows(self._log))
        hint = "/*+ coalesce(1) */ " if self.run.is_small else ""
        return f"select {hint}* from ({events})"

    def _has_new_deletes(self, deletes: str | None) -> bool:
        """Whether there is a delete without a set that the table has not read, be it of its keys or
        not.
        """
        namespace, of = self._fold.namespace, self._remembered
        if namespace is None or deletes is None:
            return False
        if not of.has_deletes(namespace, since=self.run.sequence_read(of.table)):
            return False
        return self.has_rows(f"select * from ({deletes}) where _is_new")

    def _hit_by_others(self, new_deletes: str | None) -> str | None:
        """SQL of the keys with a row that has expired, or that a new delete without a set hits;
        None if what is known of the files says that there are none.
        """
        if self._fold.namespace is None:
            return None
        this = self.this
        expires = self.lake.may_have_rows(this, [("_expires_at", "<=", self.model.as_of)])
        if not expires and new_deletes is None:
            return None
        return render(
            "hit_by_others",
            gold=self.pinned(this),
            expires=expires,
            deletes=new_deletes,
            as_of=self.model.as_of,
        )

    def _resting(self) -> str | None:
        """SQL of the keys whose rows have got values of others' since the log was read, or may
        have; None if there are none.
        """
        if self._fold.namespace is not None or not self.lake.has_key_updates(self.run, self._log):
            return None
        return render(
            "resting_keys",
            log=self.read(self._log),
            key=self._fold.key,
            sequence=self.run.sequence_read(self._log),
        )

    # -- a rebuild

    def _rebuild(self) -> Built:
        """Fold the log once: rows, what is remembered of keys that end absent, and the ranges of
        keys in which rows are written are all taken from the states.
        """
        fold, lake, of = self._fold, self.lake, self._remembered
        log = self.read(self._log)
        truncates = of.find_truncates(log, None) if self._meets_truncates else []
        deletes = self._set_less_deletes()
        # To find out whose they are, Spark sends all keys of the log to where the deletes are.
        if deletes is not None and not lake.may_have_rows(
            deletes, [("_namespace", "=", fold.namespace)]
        ):
            deletes = None
        lake.define(
            self.view("events"),
            part("events", "all_events", fold, log, deletes, None, self._meets_truncates),
        )
        of.keep_truncates(truncates, rebuild=True)
        states = self.view("states")
        # Without the counters: what nobody asks for is not aggregated.
        columns = ", ".join([*fold.gold_columns, "_live", "_null_position", "_is_reinserted"])
        lake.evaluate(states, f"select {columns} from ({self.sql()})")
        rebuilt = self._summary(states)
        lake.keep_doubts(self.this, rebuilt)
        remembers = of.has_states()
        if rebuilt.absent or remembers:
            # States of this table that are remembered may have to go back.
            of.keep_absent(states, refolded=remembers)
        if remembers:
            of.forget_unknown(log, deletes)
        return self.replaced(
            render(
                "rows_by_key",
                states=states,
                columns=fold.gold_columns,
                key=fold.key,
                ranges=lake.ranges_to_write(rebuilt.live),
            ),
            {AS_OF: self.model.as_of, NEWEST: rebuilt.newest},
        )

    def _summary(self, states: str) -> Rebuilt:
        of = self._remembered
        (found,) = self.lake.query(
            render("summary_of_rebuild", states=states, deleted_keys=of.table, scopes=of.scopes)
        )
        return Rebuilt(
            found["live"],
            found["absent"],
            Newest(found["log_time"], found["time"]),
            found["reinserted"],
            found["reinserted_at"],
        )
