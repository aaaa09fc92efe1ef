"""Find the tombstones of compacted topics that have not been judged yet: whether such a tombstone
is all that is left of a delete (``dbt_lakehouse.build.tombstones``).

other_events keeps up to where bronze's payloads and its own rows have been judged, and of which
topics. From that a run finds what an interrupted run left unjudged, events that came another way
(`lakehouse redrive`), and topics that have become compacted since.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.decisions import moment
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Reading, mark_of, parsed, reading
from dbt_lakehouse.texts import sql_text

PROPERTY: Final = "lakehouse.judged"


class TopicNews(NamedTuple):
    """The events of a topic since it was judged."""

    topic: str
    first_log_time: int | None
    """The smallest log time of its new events, in microseconds since the epoch; None if an event
    has no log time.
    """


@dataclass(frozen=True, slots=True)
class Judged:
    """What has been judged in a table."""

    bronze: Mark | None = None
    own: Mark | None = None
    topics: Mapping[str, bool] = field(default_factory=dict)
    """The topics that had events, and whether they counted as compacted."""


def judged(table: Table) -> Judged:
    """What a table's property says was judged; nothing if the table was rebuilt or rolled back
    since, which drops the deletes found by then.
    """
    held = json.loads(table.properties.get(PROPERTY) or "{}")
    if not held:
        return Judged()
    own = parsed(held["own"])
    try:
        reading(own, table)
    except HistoryLost:
        return Judged()
    return Judged(parsed(held["bronze"]), own, held["topics"])


def unjudged(mark: Mark | None, table: Table) -> Reading:
    """The rows to judge: all of them if the mark does not belong to this table."""
    try:
        return reading(mark, table)
    except HistoryLost:
        return reading(None, table)


class Window(NamedTuple):
    """The events of a topic whose tombstones are to be judged: from a log time on, or all."""

    topic: str
    since: int | None

    def condition(self) -> str:
        """The window as an SQL condition on events."""
        own = f"topic = {sql_text(self.topic)}"
        return own if self.since is None else f"{own} and log_time >= {moment(self.since)}"


class Judging(NamedTuple):
    """What a run judges, and whether each topic counts as compacted."""

    windows: list[Window]
    topics: dict[str, bool]

    def condition(self) -> str:
        """The condition on the events of all windows, in SQL."""
        return " or ".join(f"({each.condition()})" for each in self.windows)

    def topic_names(self) -> list[str]:
        """The topics of all windows."""
        return [each.topic for each in self.windows]

    def kept(self, bronze: Mark, table: Table) -> str:
        """The property that other_events keeps once they are judged, with bronze's mark."""
        marks = {"bronze": str(bronze), "own": str(mark_of(table))}
        return json.dumps({**marks, "topics": self.topics}, sort_keys=True)


def judging(
    before: Judged, news: Iterable[TopicNews], is_compacted: Callable[[str], bool]
) -> Judging:
    """Decide what to judge from the new events.

    A new event may precede tombstones that are already there, so everything behind it in its
    topic is judged again. A topic that has just become compacted is judged as a whole.
    """
    first = {each.topic: each.first_log_time for each in news}
    topics = {topic: is_compacted(topic) for topic in sorted(before.topics.keys() | first.keys())}
    windows = [
        Window(topic, first[topic] if before.topics.get(topic) else None)
        for topic, compacted in topics.items()
        if compacted and (topic in first or not before.topics.get(topic))
    ]
    return Judging(windows, topics)
