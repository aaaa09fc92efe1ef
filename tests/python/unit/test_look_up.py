"""The look-up of a gold table's run, without Spark: which keys it asks for, and that the statements
are whole whatever it asks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from test_templates import FOLDS, TRUNCATE, faults

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.look_up import LookUp, Question
from dbt_lakehouse.build.model import Model
from dbt_lakehouse.build.remembered import Remembered
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs.decisions import Plan, Truncate
from dbt_lakehouse.runs.model_run import NodeRun

YES_AND_NO: Final = (True, False)
OLD: Final = TRUNCATE._replace(is_new=False)


@dataclass
class RecordedLake:
    """The views that a look-up makes; a number of ``rows`` is in each."""

    rows: int = 1
    views: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Each part of the lake is all of it.
        self.sql = self.catalog = self

    def evaluate(self, name: str, query: str) -> int:
        self.define(name, query)
        return self.rows

    def define(self, name: str, query: str) -> None:
        self.views[name.removeprefix("gold__orders__")] = " ".join(query.split())
        assert faults(query) == []

    def query(self, sql: str) -> list[dict[str, Any]]:
        assert faults(sql) == []
        return [{"count": self.rows}]

    def hold_key_ranges_of(self, name: str, rows: str, column: str) -> list[list[str]]:
        return [[":a", ":b"]]

    def pinned_own(self, this: Any) -> str:
        return f"{this} version as of 1"

    def relation_of(self, name: str) -> str:
        return f"silver.{name}"

    def look_at(self, name: Any) -> None:
        return None


def looked_up(
    of: Fold,
    truncates: Sequence[Truncate] = (),
    horizon: str | None = None,
    *,
    to_fill: bool = False,
    rows: int = 1,
    **plan: bool,
) -> dict[str, str]:
    """The views of a look-up with some plan."""
    lake = RecordedLake(rows)
    run = SimpleNamespace(
        fold=of,
        upstreams=["log"],
        snapshot_of=lambda _: "2",
        to_fill={"it's": None, "b": "int"} if to_fill else {},
        suits_small=False,
        is_small=False,
        leaves=True,
    )
    names = ("all_keys", "late_keys", "hit_keys", "truncated", "resting")
    asked = Question(
        Plan(**{name: plan.get(name, False) for name in names}, filled=to_fill),
        None,
        states="st",
        new_events="select * from n",
        remembered="r",
        deletes="select _digest from d" if of.namespace else None,
        truncates=truncates,
        hit_by_others="select id from h" if plan.get("hit_keys") else None,
        resting="select id from x" if plan.get("resting") else None,
        is_late="true",
        horizon=horizon,
        last_decides=False,
    )
    this = SimpleNamespace(schema="gold", identifier="orders")
    model = SimpleNamespace(this=this, scope="gold.orders")
    look_up = LookUp(
        cast(Lake, lake), cast(Model, model), cast(NodeRun, run), cast(Remembered, None), asked
    )
    answer = look_up.answer()
    assert answer.events == "gold__orders__events_to_fold" and "events_to_fold" in lake.views
    return lake.views


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
def test_every_statement_is_whole(fold: Fold) -> None:
    truncates: tuple[list[Truncate], ...] = ([], [OLD], [TRUNCATE, TRUNCATE])
    flags = product(YES_AND_NO, repeat=4)
    for found, (all_keys, hit_keys, resting, to_fill) in product(truncates, flags):
        if not (found or all_keys or hit_keys or resting or to_fill):
            continue
        plan = {"all_keys": all_keys, "hit_keys": hit_keys, "resting": resting}
        horizon = "2026-01-01" if all_keys else None
        views = looked_up(fold, found, horizon, to_fill=to_fill, **plan)
        is_anyway = resting or to_fill or any(each.is_new for each in found)
        assert ("refolded" in views) == (is_anyway or (fold.several_sources and found != []))


def test_late_keys_are_those_of_late_states_alone() -> None:
    views = looked_up(FOLDS["of a table"], late_keys=True)
    assert views["unsettled"] == "select * from ( select `id` from st where true )"
    assert "refolded" not in views


def test_a_key_that_is_asked_for_twice_is_looked_up_once() -> None:
    views = looked_up(FOLDS["of a table"], all_keys=True, resting=True)
    assert views["refolded"] == "select id from x"
    assert views["unsettled"] == (
        "select distinct * from ( select `id` from st"
        " union all select `id` from gold__orders__refolded )"
    )
    assert views["misplaced"].endswith("union select distinct `id` from gold__orders__refolded")


def test_without_new_events_no_key_is_misplaced() -> None:
    views = looked_up(FOLDS["of a table"], hit_keys=True, rows=0)
    assert views["misplaced"] == "select `id` from gold__orders__unsettled where false"


def test_the_log_is_read_where_it_may_have_the_misplaced_keys() -> None:
    """In its files, by the least and greatest key that each has, and the old key of key updates."""
    log = looked_up(FOLDS["of a table"], all_keys=True)["log"]
    for column in ("changes.`id`", "_previous_key.`id`"):
        assert f"({column} between :a and :b)" in log
