"""Look up known state of the keys where it may make a difference, and the events to fold with it:
the second step of an incremental run of a gold table (``current_state``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dbt_lakehouse.build.folding import keys_to_fill
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import Model, pinned, pinned_now, value_of, view_of
from dbt_lakehouse.build.remembered import Remembered
from dbt_lakehouse.build.templates import part, render, union
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs.decisions import Found, Plan, Truncate
from dbt_lakehouse.runs.model_run import NodeRun


@dataclass(frozen=True, slots=True)
class Question:
    """What a run looks up, and where. Relations are SQL to select from."""

    plan: Plan
    found: Found | None
    """The summary of the new events' states, None without new events."""
    states: str
    """The view of those states."""
    new_events: str
    remembered: str
    """`deleted_keys` up to where the run reads it."""
    deletes: str | None
    """The deletes without a set of a namespace; None for other tables."""
    truncates: Sequence[Truncate]
    hit_by_others: str | None
    """The keys that a delete without a set hits or that have expired."""
    resting: str | None
    """The keys whose rows have got other keys' values, or another place."""
    is_late: str
    """The condition of ``sql/late_states.sql``."""
    horizon: str | None
    last_decides: bool
    """Whether an event before a known state makes no difference
    (``decisions.last_event_decides``).
    """


@dataclass(frozen=True, slots=True)
class Answer:
    """The view of the events to fold, and their counts."""

    events: str
    refolded_keys: int
    """Keys that are folded from their whole log."""
    keys_beyond_log: int
    """Those of them whose known state is from before the log's first event."""
    late_after_purge: int
    """Keys that may have had a state that was purged."""


NOTHING_KNOWN: Final = Answer("", 0, 0, 0)
"""The answer of a run without a look-up."""


class LookUp:
    """The look-up of one run."""

    def __init__(
        self, lake: Lake, model: Model, run: NodeRun, remembered: Remembered, asked: Question
    ) -> None:
        assert run.fold is not None
        self._lake: Final = lake
        self._model: Final = model
        self._run: Final = run
        self._fold: Final[Fold] = run.fold
        self._of: Final = remembered
        self._asked: Final = asked
        log = run.upstreams[0]
        self._log: Final = pinned(log, run.snapshot_of(log))
        self._gold: Final = lake.catalog.pinned_own(model.this)
        plan = asked.plan
        self._states: Final = asked.states if plan.all_keys or plan.late_keys else None
        """The states of the new events, None if none of their keys is looked up."""

    def answer(self) -> Answer:
        """Look the keys up."""
        asked, view = self._asked, self._view
        refolded = self._evaluate_refolded()
        ranges = self._find_unsettled(refolded)
        known = self._known_states(ranges)
        misplaced = 0
        if asked.last_decides and refolded is None and asked.horizon is None:
            # Only the fold reads it.
            self._lake.sql.define(view("known"), known)
        else:
            self._lake.sql.evaluate(view("known"), known)
            misplaced = self._find_misplaced(refolded)
        forgotten = self._late_after_purge()
        beyond = self._read_their_log() if misplaced else 0
        self._lake.sql.define(
            view("events_to_fold"),
            render(
                "events_to_fold",
                fold=self._fold,
                new_events=asked.new_events,
                deletes=asked.deletes,
                known=view("known"),
                unsettled=view("unsettled"),
                misplaced=view("misplaced") if misplaced else None,
                log=view("log"),
                is_small=self._run.is_small and asked.plan.is_of_new_events,
            ),
        )
        return Answer(view("events_to_fold"), misplaced, beyond, forgotten)

    def _view(self, name: str) -> str:
        return view_of(self._model.this, name)

    def _evaluate_refolded(self) -> str | None:
        """The view of the keys that are folded from their whole log in any case, None without
        such keys.
        """
        asked = self._asked
        queries = [*self._keys_around_truncates(), asked.resting if asked.plan.resting else None]
        if asked.plan.filled:
            queries.append(keys_to_fill(self._fold, self._log, self._run.to_fill))
        query = union(queries)
        if not query:
            return None
        name = self._view("refolded")
        self._lake.sql.evaluate(name, query)
        return name

    def _keys_around_truncates(self) -> Iterator[str]:
        """SQL of the keys that a truncate makes other than their new events say."""
        asked, fold = self._asked, self._fold
        if new := [each.position for each in asked.truncates if each.is_new]:
            yield render(
                "keys_behind_truncates",
                fold=fold,
                log=self._log,
                gold=self._gold,
                remembered=asked.remembered,
                scope=self._model.scope,
                truncates=new,
            )
        if asked.truncates and fold.several_sources:
            of = {"key": fold.key, "truncates": self._view("truncates")}
            yield render("keys_before_truncates", gold=self._gold, **of)
            if self._states is not None:
                yield render("new_keys_before_truncates", states=self._states, **of)

    def _find_unsettled(self, refolded: str | None) -> list[list[str]]:
        """Make the view of the looked-up keys. Returns their ranges. They are those of all states
        if all are looked up or they are few; otherwise the view is evaluated for them.
        """
        asked, sql = self._asked, self._lake.sql
        plan, found = asked.plan, asked.found
        unsettled, known = self._view("unsettled"), self._view("known")
        own = None
        if self._states is not None:
            own = self._keys_of(self._states, None if plan.all_keys else asked.is_late)
        others = [
            asked.hit_by_others if plan.hit_keys else None,
            None if refolded is None else self._keys_of(refolded),
        ]
        query = render("unsettled_keys", keys=union([own, *others]), may_repeat=any(others))
        if (
            found is not None
            and not plan.hit_keys
            and refolded is None
            and (plan.all_keys or self._run.suits_small)
        ):
            sql.define(unsettled, query)
            return sql.hold_key_ranges(known, found)
        sql.evaluate(unsettled, query)
        return sql.hold_key_ranges_of(known, unsettled, self._fold.key[0])

    def _find_misplaced(self, refolded: str | None) -> int:
        """Make the view of the keys that are folded from their whole log. Returns their number."""
        asked, states = self._asked, self._states
        first = [
            None if states is None else render("first_events", key=self._fold.key, states=states),
            None if asked.deletes is None else render("first_deletes", deletes=asked.deletes),
        ]
        misplaced = None
        if any(first):
            misplaced = render(
                "misplaced_keys",
                fold=self._fold,
                first=union(first),
                known=self._view("known"),
                unsettled=self._view("unsettled"),
                horizon=asked.horizon,
                last_decides=asked.last_decides,
            )
        anyway = None if refolded is None else self._keys_of(refolded, may_repeat=True)
        query = union([misplaced, anyway], "union")
        if not query:
            query = self._keys_of(self._view("unsettled"), "false")
        return self._lake.sql.evaluate(self._view("misplaced"), query)

    def _keys_of(
        self, relation: str, condition: str | None = None, *, may_repeat: bool = False
    ) -> str:
        """SQL of the keys of a relation that meet a condition; each once if they ``may_repeat``."""
        return render(
            "keys_of",
            key=self._fold.key,
            relation=relation,
            condition=condition,
            may_repeat=may_repeat,
        )

    def _known_states(self, ranges: list[list[str]]) -> str:
        fold, truncates = self._fold, self._asked.truncates
        source = ["`_source`"] if fold.several_sources else []
        return render(
            "known_states",
            fold=fold,
            keys=self._view("unsettled"),
            gold=self._gold,
            remembered=self._asked.remembered,
            scope=self._model.scope,
            columns=fold.columns if self._run.leaves else source,
            ranges=ranges,
            truncated_at=(
                truncates[0].position if truncates and not fold.several_sources else None
            ),
        )

    def _late_after_purge(self) -> int:
        if self._asked.horizon is None or self._states is None:
            return 0
        count: int = value_of(
            self._lake,
            render(
                "late_after_purge",
                key=self._fold.key,
                states=self._states,
                known=self._view("known"),
                horizon=self._asked.horizon,
            ),
        )
        return count

    def _read_their_log(self) -> int:
        """Read all events of the misplaced keys, from the files that may have them. Returns the
        number of keys whose events the log does not have completely.
        """
        view = self._view
        misplaced, first = view("misplaced"), self._fold.key[0]
        ranges = self._lake.sql.hold_key_ranges_of(view("log"), misplaced, first)
        deletes = None
        if self._fold.namespace is not None:
            deletes = pinned_now(self._lake, self._lake.catalog.relation_of("set_less_deletes"))
        self._lake.sql.evaluate(
            view("log"),
            part(
                "event_parts",
                "all_events",
                self._fold,
                self._log,
                deletes,
                misplaced,
                bool(self._asked.truncates),
                ranges,
            ),
        )
        count: int = value_of(
            self._lake,
            render(
                "keys_beyond_log",
                key=self._fold.key,
                misplaced=misplaced,
                known=view("known"),
                log=view("log"),
            ),
        )
        return count
