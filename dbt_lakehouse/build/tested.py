"""The SQL of the data tests of gold tables and histories. Each selects the wrong rows: of the
keys that the command may have changed if it has brought the table up to date, otherwise of all
keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dbt_lakehouse.build.folding import may_have_new_truncates
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import pinned_now
from dbt_lakehouse.build.templates import render, union
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.declared.fold_of_log import DELETED_AT, Fold
from dbt_lakehouse.runs.model_run import AS_OF


def live_rows(table: Any, of: Fold) -> str:
    """The live rows of a gold table, to select from."""
    if of.deleted_rows:
        return f"(select * from {table} where {DELETED_AT} is null)"
    return str(table)


@dataclass(frozen=True, slots=True)
class FoldTests:
    """A gold table or history under test, with what it takes of its log. ``current`` selects the
    live rows of the gold table with which a history is compared; ``as_of`` is the command's
    moment as text.
    """

    lake: Lake
    table: Any
    fold: Fold
    as_of: str
    current: Any = None

    def unique_key(self) -> str:
        """Selects rows of a gold table without their whole key, and keys with several rows."""
        return render("unique_key", key=self.fold.key, gold=self.table, keys=self.touched_keys())

    def no_absent_keys(self) -> str:
        """No row of a gold table has expired, or belongs to a key that is remembered as absent."""
        return render(
            "no_absent_keys",
            fold=self.fold,
            gold=live_rows(self.table, self.fold),
            deleted_keys=self.lake.catalog.relation_of("deleted_keys"),
            scope=f"{self.table.schema}.{self.table.identifier}",
            keys=self.touched_keys(),
            built_as_of=self.built_as_of(),
        )

    def equals_refold(self) -> str:
        """A gold table equals the fold of its log by the plain Python reference."""
        return render(
            "equals_refold",
            gold=live_rows(self.table, self.fold),
            table=self.table,
            **self._held_against(),
        )

    def is_history(self) -> str:
        """A history has the versions that the plain Python reference makes of its log."""
        table = str(self.table)
        if self.fold.bitemporal:
            # As of now: no event tells earlier beliefs.
            table = f"(select * from {table} where recorded_to is null)"
        return render("is_history", history=table, gold=self.current, **self._held_against())

    def _held_against(self) -> Mapping[str, Any]:
        deletes = None
        if self.fold.namespace is not None:
            deletes = pinned_now(self.lake, self.lake.catalog.relation_of("set_less_deletes"))
        return {
            "fold": self.fold,
            "log": pinned_now(self.lake, self.lake.declared.log_of_model(self.table)),
            "deletes": deletes,
            "keys": self.touched_keys(),
            "built_as_of": self.built_as_of(),
        }

    def built_as_of(self) -> str:
        """The moment that the table was last built for, as text. Expiry is judged by it."""
        now = self.lake.catalog.look_at(self.table)
        return (None if now is None else now.noted(AS_OF)) or self.as_of

    def touched_keys(self) -> str | None:
        """SQL of the keys that this command may have changed; None for all keys."""
        run, of = self.lake.runs.run_to_test(self.table), self.fold
        if run is None or may_have_new_truncates(self.lake, run, of):
            return None
        log, *others = run.upstreams
        keys = render("keys_of_events", fold=of.without_columns(), changes=run.rows(log))
        if of.namespace is None:
            return keys
        deletes = others[0]
        # A history is compared with a gold table. If that keeps deleted rows, it has read the
        # deletes without a set as a history does.
        if self.current is None and not of.deleted_rows:
            deleted = render(
                "keys_of_remembered_deletes",
                fold=of,
                remembered=deletes,
                sequence=run.sequence_read(deletes),
            )
        else:
            deleted = render("keys_of_deletes", fold=of, deletes=run.rows(deletes))
        return union([keys, deleted])


FOLD_TESTS: Final[Mapping[str, Callable[[FoldTests], str]]] = {
    "unique_key": FoldTests.unique_key,
    "no_absent_keys": FoldTests.no_absent_keys,
    "equals_refold": FoldTests.equals_refold,
    "is_history": FoldTests.is_history,
}
"""The SQL of a test of a gold table or history, by the test's name."""


def of_fold(of: DataTest) -> str:
    """The SQL of one of these tests. ``current`` is the gold table with which a history is
    compared.
    """
    declared, current = of.lake.declared, of.arguments.get("current")
    fold = declared.fold_to_test(of.table, of.test, current)
    gold = None if current is None else live_rows(current, declared.fold_of_table(current))
    return FOLD_TESTS[of.test](FoldTests(of.lake, of.table, fold, of.as_of, gold))
