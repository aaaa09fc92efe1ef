"""Our own models that read the same input as other_events: payloads that could not be decoded,
and deletes that are of no single table.
"""

from dbt_lakehouse.build.compiling import Compiling, near_positions
from dbt_lakehouse.build.templates import render
from python_udfs.registry import AEROSPIKE_FORMATS


def quarantined_payloads(of: Compiling) -> str:
    """The payloads that could not be decoded, with their bytes."""
    events, payloads = of.new_rows(of.reads["events"], wanted="invalid"), of.reads["payloads"]
    near = None
    if of.is_building and of.lake.runs.run_of(of.this).has_news:
        if of.lake.catalog.is_worth_a_question(payloads):
            invalid = f"(select * from {events} where operation = 'invalid')"
            near = near_positions(of.lake, invalid)
    return render("quarantined_payloads", events=events, payloads=payloads, near=near)


def set_less_deletes(of: Compiling) -> str:
    """Aerospike's deletes without a set, which concern all tables of their namespace."""
    events = of.new_rows(of.reads["events"], wanted="set_less_deletes")
    return render("set_less_deletes", events=events, formats=AEROSPIKE_FORMATS)


def deleted_keys(of: Compiling) -> str:
    """The keys that new deletes without a set say are gone, with their remembered state."""
    deletes, is_incremental = of.reads["deletes"], of.context.tests_increment
    if of.is_building:
        run = of.begin_run([deletes], merges=True)
        deletes, is_incremental = run.rows(deletes), run.is_incremental
    remembered = of.this if is_incremental else None
    return render("deleted_keys", deletes=deletes, remembered=remembered, as_of=of.as_of)
