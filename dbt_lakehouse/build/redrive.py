"""Decode quarantined payloads again, with the current decoders and ``vars.topics``: the work of
``lakehouse redrive``.

Events that can be decoded now are appended to other_events at the positions of their payloads,
with their log times; only then are the ``invalid`` rows deleted that they replace. Change logs
follow these appends. So the next ``dbt run`` takes the events on, and folds keys again if the
events come before their known state. A payload that still fails stays in quarantine, with its
current reason. Events of a payload that were good already stay as they are. Each step can be
repeated: the next call completes what a crash has left.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.build.model import pinned_now
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.declared.columns import quoted


class Tables(NamedTuple):
    """The tables that it reads and writes; ``logs`` are the existing change logs."""

    events: Any
    quarantine: Any
    payloads: Any
    logs: Sequence[Any]


def redrive(lake: Lake, tables: Tables, codes: Sequence[str], topics: Sequence[str]) -> None:
    """Decode again the payloads with one of these error codes, of these topics; empty means all.

    The counts are left in the session's view ``global_temp.redriven``: payloads (tried), decoded
    (of them, without any ``invalid`` event now), events (appended, without the invalid ones).
    """
    events, quarantine, payloads, logs = tables
    follows = lake.commits.has_read_all(quarantine, events, "invalid")
    now = pinned_now(lake, events)
    lake.sql.evaluate(
        "redrive_payloads",
        render(
            "redrive_payloads",
            payloads=pinned_now(lake, payloads),
            events=now,
            quarantine=pinned_now(lake, quarantine),
            codes=codes,
            topics=topics,
        ),
    )
    decoding = Decoding(lake, lake.events.topics, runs=True)
    decoded = decoding.decoded_events("redrive_payloads")
    lake.sql.evaluate("redrive_events", render("redrive_events", decoded=decoded))
    lake.sql.evaluate("redrive_missing", render("redrive_missing", events=now, logs=logs))
    (outcome,) = lake.sql.query(render("redrive_outcome"))
    if outcome["rows"] > 0:
        columns = ", ".join(quoted(lake.catalog.columns_of(events)))
        lake.sql.execute(f"insert into {events} ({columns}) select {columns} from redrive_missing")
    if outcome["payloads"] > 0:
        lake.sql.execute(render("delete_redriven", relation=events, only_invalid=True))
        lake.sql.execute(render("delete_redriven", relation=quarantine, only_invalid=False))
        # If the log is behind, its next run adds them with everything else that is new.
        if follows:
            again = render("quarantine_again", quarantine=quarantine)
            lake.commits.write_as_read(quarantine, events, again)
    lake.sql.execute(render("redriven", outcome=outcome))
    lake.sql.drop_evaluated("redrive_")
