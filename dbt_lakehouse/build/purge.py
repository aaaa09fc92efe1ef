"""Forgets the states of absent keys in `silver.deleted_keys` that were recorded long ago."""

from typing import Any

from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import view_of
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.runs.model_run import HORIZON, PURGED


def purge(lake: Lake, this: Any, as_of: str, days: float) -> None:
    """Forget the states that were recorded more than ``days`` days before ``as_of``, and note the
    newest time among them (of the log or of the source) as the table's purge horizon: an event of
    an unknown key whose log time or source time is not after the horizon may belong to a
    forgotten state, so it is folded with its key's whole log.

    A namespace's deletes without a set are for its gold tables to read: a delete that one of them
    has not read yet stays, however old it is. A table whose model was absent meanwhile finds the
    purge noted, and is rebuilt (``dbt_lakehouse.runs.model_run``).
    """
    # Most runs have nothing to forget, and find out without a query.
    if not lake.catalog.may_have_rows(
        this,
        [("recorded_at", "<=", (as_of, days)), ("scope", "not starting with", "truncated:")],
    ):
        return
    old = view_of(this, "old")
    # Rows are chosen by an Iceberg metadata column, which a delete can't use.
    lake.sql.evaluate(
        old,
        render(
            "old_states",
            deleted_keys=this,
            as_of=as_of,
            seconds=days * 86400,
            sequence=lake.runs.sequence_read_by_all(this),
        ),
    )
    (found,) = lake.sql.query(render("summary_of_purge", old=old))
    if found["keys"]:
        table = lake.catalog.look_at(this)
        horizon = max(found["horizon"] or "", (table and table.noted(HORIZON)) or "")
        notes = {HORIZON: horizon}
        if found["sequence"] is not None:
            notes[PURGED] = found["sequence"]
        # Before the states go: a run that finds neither would take a late event for the key's
        # first.
        lake.commits.note(this, notes)
        lake.sql.execute(render("forget_old_states", deleted_keys=this, old=old))
        lake.count(f"{this.schema}.{this.identifier}", {"purged_keys": found["keys"]}, as_of)
        lake.tell(f"{this}: purged {found['keys']} states, horizon {horizon}")
    lake.sql.drop_evaluated(view_of(this, ""))
