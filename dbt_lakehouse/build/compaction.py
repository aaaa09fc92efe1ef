"""Which tombstones of compacted topics have not been judged yet: whether they are all that is left
of a delete (``dbt_lakehouse.build.tombstones``).

other_events keeps up to where bronze's payloads and its own rows have been judged, and of which
topics: a run that was cut off before it has judged, events that come by another way (`lakehouse
redrive`), and topics that are compacted since are found by that.
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
    """What a topic has got since it was judged."""

    topic: str
    first_log_time: int | None
    """The least of its new events, in microseconds since the epoch; None if one has none."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What has been judged of a table."""

    bronze: Mark | None = None
    own: Mark | None = None
    topics: Mapping[str, bool] = field(default_factory=dict)
    """The topics that had events, and whether they counted as compacted."""


def judged(table: Table) -> Judged:
    """What a table says of itself: nothing if it was made anew or rolled back since, without the
    deletes that were found by then.
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
    """The rows to look at: all of them if the table is not the one that was judged."""
    try:
        return reading(mark, table)
    except HistoryLost:
        return reading(None, table)


class Window(NamedTuple):
    """The events of a topic whose tombstones are to be judged: since a log time, or all."""

    topic: str
    since: int | None

    def condition(self) -> str:
        """The same as SQL over events."""
        own = f"topic = {sql_text(self.topic)}"
        return own if self.since is None else f"{own} and log_time >= {moment(self.since)}"


class Judging(NamedTuple):
    """What a run judges, and what is known then."""

    windows: list[Window]
    topics: dict[str, bool]

    def condition(self) -> str:
        """The events of all windows, as SQL."""
        return " or ".join(f"({each.condition()})" for each in self.windows)

    def topic_names(self) -> list[str]:
        """The topics of all windows."""
        return [each.topic for each in self.windows]

    def kept(self, bronze: Mark, table: Table) -> str:
        """What other_events is to keep once they are judged, as far as bronze was read."""
        marks = {"bronze": str(bronze), "own": str(mark_of(table))}
        return json.dumps({**marks, "topics": self.topics}, sort_keys=True)


def judging(
    before: Judged, news: Iterable[TopicNews], is_compacted: Callable[[str], bool]
) -> Judging:
    """What is to be judged, by what came since.

    A new event may come before tombstones that are there already, so all of its topic behind it
    are judged once more. Of a topic that did not count as compacted so far, all are.
    """
    first = {each.topic: each.first_log_time for each in news}
    topics = {topic: is_compacted(topic) for topic in sorted(before.topics.keys() | first.keys())}
    windows = [
        Window(topic, first[topic] if before.topics.get(topic) else None)
        for topic, compacted in topics.items()
        if compacted and (topic in first or not before.topics.get(topic))
    ]
    return Judging(windows, topics)
