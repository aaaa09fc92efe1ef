"""The SQL of the data tests of landed payloads: where their events are, and which topics look as
if their settings were wrong.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dbt_lakehouse.build.log_rows import read
from dbt_lakehouse.build.model import pinned_now
from dbt_lakehouse.build.templates import render, union
from dbt_lakehouse.build.testing import DataTest
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.texts import sql_text

Rows = Sequence[Mapping[str, Any]]


def events_in_place(of: DataTest) -> str:
    """The places of the events that other_events has looked at, in this command or ever: its own
    rows, the rows of change logs, and events that logs have not read yet. ``payloads`` are the
    payloads that it has looked at.
    """
    events, lake = of.table, of.lake
    of_logs = []
    for relation, log, run in lake.events.logs_to_look_at():
        # The rows of a log that is to be rebuilt don't count.
        if run.is_incremental and (rows := of.added_rows(relation)):
            of_logs.append(render("rows_in_place", place=str(relation), rows=rows))
        if run.has_news:
            unread = read(of.decoding, run, log)
            of_logs.append(render("unread_in_place", place=str(relation), unread=unread))
    pinned = pinned_now(lake, events)
    # A log that was rebuilt in this command has all of its rows.
    is_of_run = lake.runs.run_to_test(events) is not None
    found = render(
        "events_in_place",
        events=pinned,
        # Pinned: beside the rows of a range of snapshots, Spark takes a table's name for those
        # rows.
        own=lake.runs.added_rows(events) or pinned,
        given=lake.events.events_to_give(events),
        of_logs=union(of_logs) or None,
    )
    if is_of_run:
        return render("of_payloads", events=found, payloads=of.arguments["payloads"])
    return found


def undecoded_topics(of: DataTest) -> str:
    """The topics of which only tombstones could be decoded, without those of
    ``vars.undecoded_topics``, with their numbers of payloads. A command that tests warns of each
    topic by name, since dbt says only how many there are.
    """
    query = render(
        "undecoded_topics",
        events=of.table,
        quarantined=of.arguments["quarantined"],
        decoded=of.lake.events.topics_with_changes(of.table),
        known=of.context.var("undecoded_topics") or [],
    )
    if not of.context.is_testing:
        return f"({query})"
    found = of.lake.sql.query(f"{query} order by topic")
    for row in found:
        is_one = row["payloads"] == 1
        of.context.warn(
            f"topic {row['topic']}: none of it could be decoded, {row['payloads']}"
            f" {'payload is' if is_one else 'payloads are'} quarantined. `lakehouse quarantine`"
            " says why; is its format in vars.topics right? vars.undecoded_topics lists topics to"
            " ignore"
        )
    return _found_once(query, found)


def topics_that_look_compacted(of: DataTest) -> str:
    """The topics that look compacted although neither ``vars.topics`` nor a broker says so. In
    such a topic, tombstones follow missing offsets without a delete of their key, though
    the row exists. Debezium writes a delete and its tombstone one after the other. In a compacted
    topic such a tombstone is a delete; in any other it means nothing, and its row stays.

    A command that tests warns of each topic by name, with the place of its first such tombstone.
    The statement has no keys, since dbt writes statements to its log.
    """
    query = _tombstones_without_delete(of)
    if not of.context.is_testing:
        return f"({query})"
    found = of.lake.sql.query(f"{query} order by topic")
    said = of.lake.events.compaction_of([row["topic"] for row in found])
    unsaid = [row for row in found if said[row["topic"]] is None]
    for row in unsaid:
        is_one = row["tombstones"] == 1
        of.context.warn(
            f"topic {row['topic']} looks compacted: {row['tombstones']}"
            f" {'tombstone has' if is_one else 'tombstones have'} no delete before, so rows stay."
            " Say `compacted: true` in its entry in vars.topics if it is, `false` if not"
            " (docs/kafka.md)"
        )
    return _found_once(query, unsaid)


def _tombstones_without_delete(of: DataTest) -> str:
    """The topics of added tombstones behind a missing offset whose key has a row as its newest
    event.
    """
    lake, events, payloads = of.lake, of.table, of.arguments["payloads"]
    added = of.added_rows(events)
    return render(
        "topics_that_look_compacted",
        added=added,
        payloads=lake.runs.as_read(payloads, events),
        earlier=str(events) if lake.only_compiles else _events_of_topics(of, added),
    )


def _events_of_topics(of: DataTest, added: str) -> str:
    """The events of the topics with tombstones. Nothing is decoded of the other topics."""
    lake = of.lake
    found = lake.sql.query(render("tombstone_topics", events=added))
    topics = sorted(row["topic"] for row in found)
    run = NodeRun(lake.catalog.look_at, of.table, [of.arguments["payloads"]])
    return of.decoding.events_of(lake.events.looked_input(run, topics))


def _found_once(query: str, found: Rows) -> str:
    """A query's result as a relation with its columns, since dbt runs a test's query twice."""
    if not found:
        return render("found_nothing", query=query)
    rows = [{name: _literal(value) for name, value in row.items()} for row in found]
    return render("found_once", columns=[*found[0]], rows=rows)


def _literal(value: str | int) -> str:
    return sql_text(value) if isinstance(value, str) else str(value)
