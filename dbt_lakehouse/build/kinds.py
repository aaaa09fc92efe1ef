"""What builds a model, by its materialization, and what gives the SQL of models of ours."""

from collections.abc import Callable, Mapping
from typing import Final

from dbt_lakehouse.build.change_log import ChangeLog
from dbt_lakehouse.build.compiling import Compiling
from dbt_lakehouse.build.current_state import CurrentState
from dbt_lakehouse.build.deleted_rows import WithDeletedRows
from dbt_lakehouse.build.history import BitemporalHistory, History
from dbt_lakehouse.build.keyless import KeylessRows
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import AppendOnly, Building, Model, StateTable
from dbt_lakehouse.build.other_events import OtherEvents, looked_events
from dbt_lakehouse.build.own_models import quarantined_payloads, set_less_deletes


def _gold(lake: Lake, model: Model) -> Building:
    of = lake.runs.run_of(model.this).fold
    assert of is not None
    if of.keyless:
        return KeylessRows(lake, model)
    return WithDeletedRows(lake, model) if of.deleted_rows else CurrentState(lake, model)


def _history(lake: Lake, model: Model) -> Building:
    of = lake.runs.run_of(model.this).fold
    assert of is not None
    return BitemporalHistory(lake, model) if of.bitemporal else History(lake, model)


KINDS: Final[Mapping[str, Callable[[Lake, Model], Building]]] = {
    "append_only": AppendOnly,
    "change_log": ChangeLog,
    "current_state": _gold,
    "history": _history,
    "other_events": OtherEvents,
    "state_table": StateTable,
}
"""What builds a model, by its materialization."""

MODELS: Final[Mapping[str, Callable[[Compiling], str]]] = {
    "other_events": looked_events,
    "quarantined_payloads": quarantined_payloads,
    "set_less_deletes": set_less_deletes,
}
"""The SQL of models of ours, by their names."""
