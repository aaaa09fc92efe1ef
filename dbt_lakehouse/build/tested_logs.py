"""The SQL of the data tests of change logs."""

from typing import Final

from dbt_lakehouse.build.log_rows import read
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.declared.columns import quoted
from dbt_lakehouse.declared.fold_of_log import key_of
from dbt_lakehouse.runs.source_filter import CHANGES
from python_udfs.core.row_images import PARTIAL

_OF_RECORDS: Final = ("upsert", "delete")


def no_misfits(of: DataTest) -> str:
    """Selects values that don't fit their declared type, and changes other than truncates without
    their key.
    """
    log = of.log()
    key = [] if log["keyless"] else key_of(log)
    return render("no_misfits", rows=of.added_rows(of.table), key=quoted(key), named=", ".join(key))


def no_unknown_columns(of: DataTest) -> str:
    """Selects events with a field that the log does not declare."""
    log = of.log()
    run, part = of.lake.events.log_to_look_at(of.table, log)
    return render(
        "no_unknown_columns",
        events=read(of.decoding, run, log, part),
        fields=[*log["fields"], PARTIAL],
        has_whole_image="$" in log["fields"],
    )


def one_change_per_position(of: DataTest) -> str:
    """Selects duplicate changes, and operations that change no row of the source."""
    operations = of.arguments["operations"]
    if not operations:
        operations = CHANGES if of.log()["namespace"] is None else _OF_RECORDS
    near = of.near_added_rows("_position.*", "_position.")
    return render("one_change_per_position", table=of.table, near=near, operations=operations)
