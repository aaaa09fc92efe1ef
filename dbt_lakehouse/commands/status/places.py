"""Find where the events of payloads are: in other_events, in change logs, or nowhere yet.

Nothing is decoded for it. An event is known by its place (topic, partition, offset, event_index),
and the events of a payload are numbered from 0 without a gap. So each payload that other_events
has looked at has all its events in the tables, or waits for a change log that has not read it, or
was forgotten; otherwise something is missing.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dbt_lakehouse.commands.status.lake import PLACE, Read, TargetTables, of_duckdb
from dbt_lakehouse.declared.declarations import payload_conditions
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.names import BRONZE, FORGOTTEN
from dbt_lakehouse.queries.query import sql_literal
from dbt_lakehouse.runs.full_snapshots import NO_RECONCILING
from dbt_lakehouse.runs.inventory import Kind
from dbt_lakehouse.runs.source_filter import topics_with
from dbt_lakehouse.runs.taken import condition_of, conditions_taken

PAYLOAD: Final = ", ".join(PLACE[:3])
# The header that marks a payload whose data were forgotten.
_IS_FORGOTTEN: Final = (
    "coalesce("
    "list_contains(list_transform(headers, lambda each: each.key), 'lakehouse.forgotten'), false)"
)


class Placed(NamedTuple):
    """The payloads of a topic."""

    looked: int = 0
    """Payloads that other_events has looked at."""
    payloads: int = 0
    """Those of them that have events."""
    events: int = 0
    changes: int = 0
    """Events that are neither invalid nor tombstones."""
    invalid: int = 0
    """Payloads with an invalid event."""
    strays: int = 0
    """Payloads that have events, and that bronze lacks."""
    forgotten: int = 0
    """Payloads without events because their data are forgotten."""
    waiting: int = 0
    """Payloads without events so far: a change log has not read them."""
    missing: int = 0
    """Payloads with an event that is nowhere, although everything has been read."""


class LogRead(NamedTuple):
    """The part of bronze that a change log has read."""

    topics: Sequence[str] | None
    """The topics that may have its events; None for any."""
    unread: str | None
    """The payloads that other_events has looked at and the log has not, in topics that may have
    its events, as SQL to select from; None without any.
    """


class Places:
    """The places of the events of a target."""

    def __init__(self, lake: TargetTables) -> None:
        self._lake: Final = lake
        self.looked: Final = self._looked()
        self.logs: Final[dict[str, LogRead]] = {}
        """By table, the logs whose events other_events leaves out."""
        self.by_topic: Final[dict[str, Placed]] = {}
        self.has_added = False
        """Whether other_events has events that no payload contains."""
        if not lake.has(lake.events):
            return
        taken = {*conditions_taken(lake.table(lake.events).metadata)}
        for name in lake.tables:
            table = lake.table(name)
            if table.kind is Kind.LOG and condition_of(table.declared) in taken:
                self.logs[name] = self._read_by(name)
        built = {condition_of(lake.table(name).declared) for name in self.logs}
        self._is_log_missing: Final = taken != built
        self.by_topic.update(
            {topic: Placed(*counts) for topic, *counts in lake.rows(self._placed())}
        )
        (self.has_added,) = lake.one(
            f"select count(added_by) > 0 from {lake.reader.quoted(lake.events)}"
        )

    def _looked(self) -> Read | None:
        """The payloads that other_events has looked at."""
        lake = self._lake
        return lake.read(lake.events, BRONZE, PLACE[:3]) if lake.has(lake.events) else None

    def _read_by(self, log: str) -> LogRead:
        lake = self._lake
        declared, marks = lake.table(log).declared, lake.table(log).marks
        events = lake.table(lake.events)
        topics = self._of_log(declared, topics_with(events.metadata, None, declared["sources"]))
        mark = marks.get(BRONZE)
        if mark == events.marks.get(BRONZE):
            return LogRead(topics, None)
        since = marks[lake.events].snapshot if lake.events in marks else None
        news = self._of_log(declared, topics_with(events.metadata, since, declared["sources"]))
        if news == []:
            return LogRead(topics, None)
        read = lake.read_to(mark, BRONZE, PLACE[:3])
        rest = "" if read is None else f" anti join {read.sql} using ({PAYLOAD})"
        return LogRead(topics, f"(select {PAYLOAD} from {self._all()}{rest} where {_in(news)})")

    def _of_log(self, declared: dict[str, list[str]], topics: list[str] | None) -> list[str] | None:
        """The topics among these that a log reads by its declaration."""
        patterns = [each for each in payload_conditions(declared) if each.startswith("topic ")]
        if not topics or not patterns:
            return topics
        values = ", ".join(f"({sql_literal(each)})" for each in topics)
        where = " and ".join(map(of_duckdb, patterns))
        try:
            rows = self._lake.rows(
                f"select topic from (values {values}) as t (topic) where {where}"
            )
        except ConfigurationError:
            # A pattern that only Java understands.
            return topics
        return [topic for (topic,) in rows]

    def _all(self) -> str:
        return self._lake.reader.quoted(BRONZE) if self.looked is None else self.looked.sql

    def _placed(self) -> str:
        """The counts of all topics, as SQL."""
        bronze = self._lake.reader.quoted(BRONZE)
        waits = [each.unread for each in self.logs.values() if each.unread is not None]
        if self._is_log_missing:
            # A log that is declared, and not built with its present declaration, has read
            # nothing.
            waits.append(self._all())
        return placed_sql(
            bronze,
            [*self._rows()],
            looked=None if self._all() == bronze else self._all(),
            waits=waits,
            may_be_forgotten=self._lake.has(FORGOTTEN),
        )

    def _rows(self) -> Iterator[str]:
        """The events of all tables that payloads contain: their places, and their kind. The
        truncates that stand for full snapshots don't count.
        """
        lake = self._lake
        yield (
            f"select {', '.join(PLACE)}, operation = 'invalid' as is_invalid,"
            " operation not in ('invalid', 'tombstone') as is_change"
            f" from {lake.reader.quoted(lake.events)} where {NO_RECONCILING}"
        )
        place = ", ".join(f"_position.{each}" for each in PLACE)
        for name in self.logs:
            yield (
                f"select {place}, false, true from {lake.reader.quoted(name)}"
                f" where _position.{NO_RECONCILING}"
            )

    def missing(self, log: str) -> dict[str, int]:
        """The payloads with a missing event that may be of a log, by topic."""
        topics = self.logs[log].topics
        return {
            topic: placed.missing
            for topic, placed in self.by_topic.items()
            if placed.missing and (topics is None or topic in topics)
        }

    def strays(self, log: str) -> dict[str, int]:
        """The rows of a log whose payloads bronze lacks, by topic."""
        topics = [topic for topic, placed in self.by_topic.items() if placed.strays]
        if not topics:
            return {}
        place = ", ".join(f"_position.{each}" for each in PLACE[:3])
        return dict(
            self._lake.rows(
                f"select topic, count(*) from (select {place} from"
                f" {self._lake.reader.quoted(log)}) anti join"
                f" {self._lake.reader.quoted(BRONZE)} using ({PAYLOAD})"
                f" where {_in(topics)} group by topic"
            )
        )


def placed_sql(
    bronze: str,
    rows: Sequence[str],
    *,
    looked: str | None,
    waits: Sequence[str],
    may_be_forgotten: bool,
) -> str:
    """A query for each topic and the fields of its ``Placed``.

    ``rows`` are queries of events: PLACE, is_invalid, is_change. ``looked`` are the payloads that
    other_events has looked at, None for all; ``waits`` those that change logs have not read.
    """
    joins = ""
    if looked is not None:
        joins += (
            f" left join (select {PAYLOAD}, true as has_looked from {looked}) using ({PAYLOAD})"
        )
    if waits:
        unread = " union ".join(f"select {PAYLOAD} from {each}" for each in waits)
        joins += f" left join (select *, true as is_unread from ({unread})) using ({PAYLOAD})"
    return f"""
        with events as (
            select {", ".join(PLACE)}, bool_or(is_invalid) as is_invalid,
                bool_or(is_change) as is_change
            from ({" union all ".join(rows)})
            group by all
        ),
        payloads as (
            select {PAYLOAD}, count(*) as events, bool_or(is_invalid) as is_invalid,
                count(*) filter (is_change) as changes,
                min(event_index) = 0 and max(event_index) = count(*) - 1 as is_whole
            from events
            group by all
        ),
        landed as (
            select {PAYLOAD}, true as has_landed,
                {"true" if looked is None else "coalesce(has_looked, false)"} as is_looked,
                {"coalesce(is_unread, false)" if waits else "false"} as waits,
                {_IS_FORGOTTEN if may_be_forgotten else "false"} as is_forgotten
            from {bronze}{joins}
        )
        select
            topic,
            count(*) filter (is_looked),
            count(events) filter (is_looked),
            coalesce(sum(events), 0)::bigint,
            coalesce(sum(changes), 0)::bigint,
            count(*) filter (is_looked and is_invalid),
            count(*) filter (has_landed is null),
            count(*) filter (is_looked and events is null and is_forgotten),
            count(*) filter (is_looked and events is null and waits and not is_forgotten),
            count(*) filter (
                is_looked and not coalesce(is_whole, false) and not is_forgotten and not waits
            )
        from payloads full join landed using ({PAYLOAD})
        group by topic
    """


def _in(topics: Sequence[str] | None) -> str:
    """A condition on the topic; None for any."""
    if topics is None:
        return "true"
    return f"topic in ({', '.join(map(sql_literal, topics))})" if topics else "false"
