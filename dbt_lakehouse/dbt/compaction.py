"""Which tombstones of compacted topics have not been judged yet: whether they are all that is left
of a delete (macros/events/judge_tombstones.sql).

change_events keeps up to where its rows have been judged, and of which topics: a run that was cut
off between its rows and their judgement, rows that come by another way (`lakehouse redrive`), and
topics that are compacted since are found by that.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dbt_lakehouse.dbt.fold import moment
from dbt_lakehouse.dbt.marks import HistoryLost, Mark, Reading, mark_of, parsed, reading
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.texts import sql_text

PROPERTY: Final = "lakehouse.judged"


class News(NamedTuple):
    """What a topic has got since it was judged."""

    topic: str
    first_log_time: int | None
    """The least of its new events, in microseconds since the epoch; None if one has none."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What has been judged of a table."""

    mark: Mark | None = None
    topics: Mapping[str, bool] = field(default_factory=dict)
    """The topics that had events, and whether they counted as compacted."""


def judged(table: Table) -> Judged:
    """What a table says of itself."""
    held = json.loads(table.properties.get(PROPERTY) or "{}")
    if not held:
        return Judged()
    return Judged(parsed(held["mark"]), held["topics"])


def unjudged(table: Table) -> Reading:
    """The rows to look at: all of them if the table is not the one that was judged."""
    try:
        return reading(judged(table).mark, table)
    except HistoryLost:
        return reading(None, table)


class Window(NamedTuple):
    """The events of a topic whose tombstones are to be judged: since a log time, or all."""

    topic: str
    since: int | None

    def condition(self) -> str:
        """The same as SQL over change_events."""
        own = f"topic = {sql_text(self.topic)}"
        return own if self.since is None else f"{own} and log_time >= {moment(self.since)}"


class Judging(NamedTuple):
    """What a run judges, and what is known then."""

    windows: list[Window]
    topics: dict[str, bool]

    def condition(self) -> str:
        """The events of all windows, as SQL."""
        return " or ".join(f"({each.condition()})" for each in self.windows)

    def names(self) -> str:
        """The topics as SQL."""
        return ", ".join(sql_text(each.topic) for each in self.windows)

    def kept(self, table: Table) -> str:
        """What a table is to keep once they are judged."""
        return json.dumps({"mark": str(mark_of(table)), "topics": self.topics}, sort_keys=True)


def judging(before: Judged, news: Iterable[News], is_compacted: Callable[[str], bool]) -> Judging:
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
