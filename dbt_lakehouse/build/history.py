"""Histories: one row for each version of a key, with the time in which it was valid."""

from collections.abc import Iterable, Sequence
from typing import Any

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.build.compiling import Compiling
from dbt_lakehouse.build.folding import TOUCHED, Refolding, keys_to_refold
from dbt_lakehouse.build.history_news import HistoryNews
from dbt_lakehouse.build.model import Built, Loss, pinned, view_of
from dbt_lakehouse.build.templates import part, render
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.fold_of_log import RECORDED, Fold
from dbt_lakehouse.runs.graph import refuse_other_sql
from dbt_lakehouse.runs.model_run import AS_OF, NodeRun


def model_of_history(of: Compiling) -> str:
    """The SQL of a history's model. If the model is run, its run begins here."""
    refuse_other_sql(of.context.model, "history")
    changes = of.reads["changes"]
    fold = of.lake.declared.fold_of(changes, **of.declared["history"], is_history=True)
    upstreams = [changes, of.context.ref("set_less_deletes")] if fold.namespace else [changes]
    run = of.begin_run(upstreams, fold, refolds=True) if of.is_building else None
    return history_sql(of.this, fold, upstreams, of.as_of, run)


def history_sql(
    this: Any, of: Fold, upstreams: Sequence[Any], as_of: str, run: NodeRun | None
) -> str:
    """The SQL of a history: in a run, of the rows that it reads from the upstreams, if
    incremental only for the keys that it touches; otherwise of all rows. The upstreams are the
    log and, for a namespace, the deletes without a set.
    """
    if run is not None:
        upstreams = [pinned(each, run.snapshot_of(each)) for each in upstreams]
    log, *deletes = upstreams
    keys = view_of(this, TOUCHED) if run is not None and run.is_incremental else None
    events = part("event_parts", "all_events", of, log, deletes[0] if deletes else None, keys)
    return render("history", fold=of, log=log, events=events, as_of=as_of)


class History(Refolding):
    """A history (slowly changing dimension, type 2). A run executes the model's own SQL for the
    touched keys. If all new events come after the known ones, it folds open versions and new
    events alone.
    """

    @property
    def columns(self) -> Sequence[str]:
        return self.fold.version_columns

    @property
    def identity(self) -> Sequence[str]:
        return [*self.fold.key, "valid_from"]

    @property
    def touched_by(self) -> Sequence[str]:
        return self.fold.key

    def touched(self) -> str | None:
        return keys_to_refold(self, "is_current", [("is_current", "=", True)])

    def whole(self) -> str:
        return render("versions_in_order", versions=self.model.sql, key=self.fold.key)

    def rows(self) -> str:
        return self.model.sql

    def losses(self) -> Iterable[Loss]:
        return self.lost_values() if self.has_key else ()

    def refolded(self) -> Built:
        """Fold what is touched, or everything; keys whose open versions suffice, from those."""
        news, notes = HistoryNews(self), {AS_OF: self.model.as_of}
        if not self.run.is_incremental or not news.suffices():
            if not news.are_none:
                return super().refolded()
            self.lake.commits.note(self.this, notes)
            return self.unchanged("nothing is touched")
        folded = self.view("folded")
        query = render(
            "history",
            fold=self.fold,
            log=self.new_changes,
            events=f"select * from {news.events}",
            as_of=self.model.as_of,
        )
        self.lake.sql.evaluate(folded, query)
        statement = render(
            "add_versions",
            table=self.this,
            folded=folded,
            identity=self.identity,
            columns=quoted(self.lake.catalog.columns_of(self.this)),
            ranges=news.ranges,
        )
        return self.written(statement, notes)


class BitemporalHistory(History):
    """A bitemporal history: when a version was valid at the source, and when runs recorded it. A
    late event does not rewrite the version that it changes: that gets an end of its recorded
    time, and a new version begins.
    """

    def merge_sql(self, folded: str, touched: str) -> str:
        columns = [each for each in self.lake.catalog.columns_of(self.this) if each not in RECORDED]
        return render(
            "record_versions",
            table=self.this,
            columns=quoted(columns),
            own=self.lake.catalog.pinned_own(self.this),
            folded=folded,
            touched=touched,
            key=self.fold.key,
            as_of=self.model.as_of,
        )

    def refuse_loss(self) -> None:
        """Refuse a rebuild that would lose rows, as other tables do. No event tells earlier
        beliefs. Raises ``CompilationError``.
        """
        if self.run.reason and self.lake.catalog.may_have_rows(
            self.this, [("recorded_to", "is not null", None)]
        ):
            raise CompilationError(
                f"{self.this} has to be rebuilt: {self.run.reason}. But it has versions that no"
                " longer hold, which would be lost. Keep the table under another name, or accept"
                f" the loss with `dbt run --full-refresh -s {self.model.node['name']}`"
            )
        super().refuse_loss()
