"""Registry of the classes that build models, by materialization, and of the functions that give
the SQL of models and data tests.
"""

from collections.abc import Callable, Mapping
from typing import Final

from dbt_lakehouse.build import own_models, tested_events, tested_logs, tested_rows
from dbt_lakehouse.build.change_log import ChangeLog, model_of_log
from dbt_lakehouse.build.compiling import Compiling, new_rows
from dbt_lakehouse.build.gold import gold_building, gold_sql
from dbt_lakehouse.build.history import BitemporalHistory, History, model_of_history
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import AppendOnly, Building, Model, StateTable
from dbt_lakehouse.build.other_events import OtherEvents, looked_events
from dbt_lakehouse.build.tested import FOLD_TESTS, of_fold
from dbt_lakehouse.build.testing import DataTest


def _history(lake: Lake, model: Model) -> Building:
    of = lake.runs.run_of(model.this).fold
    assert of is not None
    return BitemporalHistory(lake, model) if of.bitemporal else History(lake, model)


KINDS: Final[Mapping[str, Callable[[Lake, Model], Building]]] = {
    "append_only": AppendOnly,
    "change_log": ChangeLog,
    "current_state": gold_building,
    "history": _history,
    "other_events": OtherEvents,
    "state_table": StateTable,
}
"""The class that builds a model, by its materialization."""

MODELS: Final[Mapping[str, Callable[[Compiling], str]]] = {
    "change_log": model_of_log,
    "current_state": gold_sql,
    "history": model_of_history,
    "new_rows": new_rows,
    "deleted_keys": own_models.deleted_keys,
    "other_events": looked_events,
    "quarantined_payloads": own_models.quarantined_payloads,
    "set_less_deletes": own_models.set_less_deletes,
}
"""The SQL of models by name: of a public macro's declaration, the query to select from; of our
own models, their SQL.
"""

TESTS: Final[Mapping[str, Callable[[DataTest], str]]] = {
    **dict.fromkeys(FOLD_TESTS, of_fold),
    "no_misfits": tested_logs.no_misfits,
    "no_unknown_columns": tested_logs.no_unknown_columns,
    "one_change_per_position": tested_logs.one_change_per_position,
    "not_null_columns": tested_rows.not_null_columns,
    "unique_combination": tested_rows.unique_combination,
    "added_rows": tested_rows.added_rows,
    "as_read": tested_rows.as_read,
    "events_in_place": tested_events.events_in_place,
    "topics_that_look_compacted": tested_events.topics_that_look_compacted,
    "undecoded_topics": tested_events.undecoded_topics,
}
"""The SQL of data tests, and of the relations that they select from, by name."""
