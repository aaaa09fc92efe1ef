"""Recover the deletes of which compaction has left only a tombstone. Such a delete is stored
behind the tombstone, as event 1 of its payload, with ``{"compacted":true}`` as metadata.

In a topic that counts as compacted (``compacted: true`` in ``vars.topics``, or a broker's report
at a landing) a tombstone is a delete if the newest event of its key before it, in that topic, is
of an existing row. So a tombstone that follows its delete is not a delete, and a row that never
existed is not deleted. The table is that of the row; of several tables with that key, the one
that the key's schema names, or the only one that has the row. If that leaves more than one, the
payload is invalid, and nothing is deleted.

A run judges its own tombstones and all earlier ones. The table keeps how far it has judged, so
the next run makes up for an interrupted run and for late events
(``dbt_lakehouse.build.compaction``). Judging twice adds nothing.
"""

from dbt_lakehouse.build import compaction
from dbt_lakehouse.build.compaction import Judged, Judging, TopicNews
from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.model import Building
from dbt_lakehouse.build.templates import render
from dbt_lakehouse.config.topics import topic_rules
from dbt_lakehouse.runs import source_filter


def judge_tombstones(model: Building) -> None:
    """Append the deletes that tombstones stand for to other_events, whose model has got
    its rows.
    """
    judging = _judging(model)
    if judging is None:
        return
    lake, this = model.lake, model.this
    if judging.windows and _finds_deletes(model, judging):
        deletes = model.view("deletes")
        lake.commits.append_more(this, f"select * from {deletes}", source_filter.aggregates())
        found = model.value(f"select count(*) from {deletes}")
        lake.tell(f"{this}: {found} tombstones of compacted topics judged")
    # Judged is what other_events has looked at, as far as bronze was read.
    table = lake.catalog.look_at(this)
    if table is not None:
        until = model.run.reading(model.run.origin).until
        lake.catalog.set_properties(this, {compaction.PROPERTY: judging.kept(until, table)})


def _judging(model: Building) -> Judging | None:
    """What to judge; None if no topic counts as compacted, or no such topic has anything new."""
    lake, run = model.lake, model.run
    said = any(rule.compacted for rule in topic_rules(lake.events.topics))
    if not said and not lake.events.compacted_topics():
        return None
    table, bronze = lake.catalog.look_at(model.this), run.table_of(run.origin)
    if table is None or bronze is None:
        return None
    before = compaction.judged(table)
    payloads = compaction.unjudged(before.bronze, bronze)
    own = compaction.unjudged(before.own, table)
    if not payloads.has_news and not own.has_news and not _windows(model, before, []).windows:
        return None
    query = render(
        "unjudged_events",
        payloads=payloads.sql(str(run.origin)),
        log_times=lake.events.corrected_log_times(),
        events=own.sql(str(model.this)),
    )
    return _windows(model, before, [TopicNews(**row) for row in lake.sql.query(query)])


def _windows(model: Building, before: Judged, new: list[TopicNews]) -> Judging:
    topics = sorted(before.topics.keys() | {each.topic for each in new})
    found = model.lake.events.compaction_of(topics)
    return compaction.judging(before, new, lambda topic: bool(found[topic]))


def _finds_deletes(model: Building, judging: Judging) -> bool:
    """Whether any tombstone stands for a delete; if so, makes the view ``deletes``."""
    lake, tombstones = model.lake, model.view("tombstones")
    in_windows = _events_of_topics(model, judging, f"({judging.condition()})")
    if not lake.sql.evaluate(tombstones, render("open_tombstones", events=in_windows)):
        return False
    query = render(
        "judged_tombstones",
        open_tombstones=tombstones,
        events=_events_of_topics(model, judging, "true"),
    )
    return lake.sql.evaluate(model.view("deletes"), query) > 0


def _events_of_topics(model: Building, judging: Judging, condition: str) -> str:
    """The events of the judged topics whose payloads meet a condition, and all events that were
    added to these topics.
    """
    decoding = Decoding(model.lake, model.lake.events.topics, runs=True)
    return decoding.events_of(
        model.lake.events.looked_input(model.run, judging.topic_names()), [condition]
    )
