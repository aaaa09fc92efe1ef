"""Gold tables: which class builds one, and the SQL of its model."""

from collections.abc import Sequence
from typing import Any

from dbt_lakehouse.build.compiling import Compiling
from dbt_lakehouse.build.current_state import CurrentState, fold_of_all
from dbt_lakehouse.build.deleted_rows import WithDeletedRows, rows_of_all
from dbt_lakehouse.build.keyless import KeylessRows, current_rows_sql
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import Building, Model
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.runs.graph import refuse_other_sql


def gold_building(lake: Lake, model: Model) -> Building:
    """What builds a gold table whose run has begun."""
    of = lake.runs.run_of(model.this).fold
    assert of is not None
    if of.keyless:
        return KeylessRows(lake, model)
    return WithDeletedRows(lake, model) if of.deleted_rows else CurrentState(lake, model)


def gold_sql(of: Compiling) -> str:
    """The SQL of a gold table: of the run that begins here, or of all events of its log."""
    refuse_other_sql(of.context.model, "current_state")
    changes = of.reads["changes"]
    fold = of.lake.declared.fold_of(changes, **of.declared["current_state"])
    run = None
    if of.is_building:
        upstreams = [changes, *_read_beside(of, fold)]
        run = of.begin_run(upstreams, fold, refolds=fold.keyless or fold.deleted_rows)
    if fold.keyless:
        return current_rows_sql(fold, changes if run is None else run.rows(changes))
    if run is None:
        deletes = of.context.ref("set_less_deletes") if fold.namespace else None
        of_all = rows_of_all if fold.deleted_rows else fold_of_all
        return of_all(fold, changes, deletes, of.as_of)
    kind = WithDeletedRows if fold.deleted_rows else CurrentState
    return kind(of.lake, Model(of.this, of.context.model, "", of.as_of, str)).sql()


def _read_beside(of: Compiling, fold: Fold) -> Sequence[Any]:
    """The relations that a run reads incrementally beside the log."""
    if fold.deleted_rows:
        return [of.context.ref("set_less_deletes")] if fold.namespace else []
    return [] if fold.keyless else [of.lake.catalog.own_table("deleted_keys")]
