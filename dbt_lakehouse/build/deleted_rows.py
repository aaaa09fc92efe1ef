"""Gold tables that keep the rows of deleted keys, each with the time of its delete.

After a late event, only the events of its key tell what a deleted row must be. So a run folds the
keys that it touches from the whole log, as a history's run does. It does not use `deleted_keys`,
in which other gold tables keep the states of absent keys.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from dbt_lakehouse.build.folding import TOUCHED, Refolding, keys_to_refold
from dbt_lakehouse.build.model import Built, Loss
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.declared.fold_of_log import DELETED_AT, Fold


def rows_sql(of: Fold, log: Any, events: str, live: str, as_of: str) -> str:
    """The SQL of the rows, live and deleted. ``log``: the change log, to select from; ``events``:
    SQL as of event_parts.all_events; ``live``: SQL of the live rows.
    """
    last = render(
        "fold",
        fold=of,
        events="last_lives",
        truncates=None,
        fills=of.may_leave,
        doubts=False,
        as_of=as_of,
        columns=of.state_columns if of.namespace else [*of.state_columns, "_expires_at"],
        only_live=False,
    )
    return render("with_deleted", fold=of, log=log, events=events, live=live, last=last)


def live_sql(of: Fold, log: Any, events: str, as_of: str) -> str:
    """The SQL of the live rows, the same as of other gold tables."""
    return render(
        "fold",
        fold=of,
        events=events,
        truncates=None if of.namespace else f"({part('event_parts', 'truncates', of, log)})",
        fills=of.may_leave,
        doubts=False,
        as_of=as_of,
        columns=of.state_columns,
        only_live=True,
    )


def rows_of_all(of: Fold, log: Any, deletes: Any, as_of: str) -> str:
    """The SQL of a table of all events of a log: what `dbt show` shows and unit tests test.
    ``deletes`` is the table of deletes without a set; None unless the table is of a namespace.
    """
    events = f"({part('event_parts', 'all_events', of, log, deletes)})"
    return rows_sql(of, log, events, live_sql(of, log, events, as_of), as_of)


class WithDeletedRows(Refolding):
    """A gold table that keeps deleted rows."""

    @property
    def columns(self) -> Sequence[str]:
        return self.fold.gold_columns

    @property
    def identity(self) -> Sequence[str]:
        return self.fold.key

    @property
    def touched_by(self) -> Sequence[str]:
        return self.fold.key

    def sql(self) -> str:
        """The rows of the keys that the run folds, by the views that ``build`` defines."""
        live = f"select * from {self.view('live')}"
        return rows_sql(self.fold, self.changes, self.view("events"), live, self.model.as_of)

    def touched(self) -> str | None:
        return keys_to_refold(self, "_deleted_at is null", [(DELETED_AT, "is null", None)])

    def rows(self) -> str:
        self.lake.sql.evaluate(self.view("events"), self._events(self.view(TOUCHED)))
        self._evaluate_live()
        return self.model.sql

    def refolded(self) -> Built:
        if not self.run.is_incremental:
            self.lake.sql.define(self.view("events"), self._events(None))
            self._evaluate_live()
        return super().refolded()

    def _evaluate_live(self) -> None:
        """Evaluate the live rows, which the statement reads twice."""
        live = live_sql(self.fold, self.changes, self.view("events"), self.model.as_of)
        self.lake.sql.evaluate(self.view("live"), live)

    def _events(self, keys: str | None) -> str:
        deletes = None
        if self.fold.namespace is not None:
            deletes = self.read(self.run.upstreams[1])
        return part("event_parts", "all_events", self.fold, self.changes, deletes, keys)

    def rows_to_lose(self) -> str:
        """The existing rows. Those of deletes without a set are left out: the log does not have
        them.
        """
        if self.fold.namespace is None:
            return str(self.this)
        deletes = self.lake.catalog.relation_of("set_less_deletes")
        return (
            f"(select * from {self.this} left anti join (select _position from {deletes})"
            " using (_position))"
        )

    def losses(self) -> Iterable[Loss]:
        return self.lost_values() if self.has_key else ()
