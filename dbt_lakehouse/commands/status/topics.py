"""What has become of each topic's payloads."""

from collections.abc import Sequence
from typing import Any, Final

from dbt_lakehouse.commands.status.facts import Link, Topic
from dbt_lakehouse.commands.status.lake import (
    BRONZE,
    PLACE,
    Counts,
    TargetTables,
    moment_text,
)
from dbt_lakehouse.commands.status.links import link_of, rebuild, why_unknown
from dbt_lakehouse.dbt import compaction

_LAGS: Final = "bronze.topic_partitions"


def topics_of(lake: TargetTables, undecoded: frozenset[str]) -> tuple[list[Topic], list[Link]]:
    """All topics, and two links of each: to change_events, and on to quarantined_payloads."""
    bronze = lake.reader.quoted(BRONZE)
    landed = _by_first(
        lake.rows(
            'select topic, count(*), epoch_us(max("timestamp")), epoch_us(max(landed_at))'
            f" from {bronze} group by topic"
        )
    )
    decoded, quarantined = {}, {}
    is_read, invalid = Counts(None, False), Counts(None, False)
    if lake.has(lake.events):
        decoded = _by_first(lake.rows(_DECODED.format(lake.reader.quoted(lake.events))))
        read = lake.read(lake.events, BRONZE, PLACE[:3])
        is_read = lake.by_topic(read)
    if lake.has(lake.events) and lake.has(lake.quarantine):
        read = lake.read(lake.quarantine, lake.events, PLACE, "invalid")
        invalid = lake.by_topic(read, "operation = 'invalid'")
        quarantined = dict(
            lake.rows(
                f"select topic, count(*) from {lake.reader.quoted(lake.quarantine)} group by topic"
            )
        )
    lags = _lags(lake)
    compacted = compaction.judged(lake.look_at(lake.events)).topics if lake.has(lake.events) else {}
    topics, links = [], []
    for name in sorted({*landed, *decoded, *quarantined}):
        here, last_event, last_landed = landed.get(name, (0, None, None))
        count, payloads, bad, good = decoded.get(name, (0, 0, 0, 0))
        topics.append(
            Topic(
                topic=name,
                landed=here,
                decoded=payloads - bad,
                invalid=bad,
                waiting=here - (payloads if is_read.of is None else is_read.of.get(name, 0)),
                events=count,
                changes=good,
                is_all_quarantined=bad > 0 and good == 0,
                is_known_undecoded=name in undecoded,
                is_compacted=compacted.get(name, False),
                last_event_at=moment_text(last_event),
                last_landed_at=moment_text(last_landed),
                **lags.get(name, _NO_LAG),
            )
        )
        if lake.has(lake.events):
            links.append(_decoded_link(lake, name, is_read, payloads))
        if lake.has(lake.events) and lake.has(lake.quarantine):
            links.append(_quarantined_link(lake, name, invalid, quarantined.get(name, 0)))
    return topics, links


# By payload first: a batch has many events. Good are those that are neither invalid nor empty.
_DECODED: Final = """
    select
        topic,
        sum(events)::bigint,
        count(*),
        count(*) filter (where invalid > 0),
        sum(good)::bigint
    from (
        select
            topic,
            count(*) as events,
            count(*) filter (where operation = 'invalid') as invalid,
            count(*) filter (where operation not in ('invalid', 'tombstone')) as good
        from {}
        group by topic, "partition", "offset"
    )
    group by topic
"""


def _decoded_link(lake: TargetTables, topic: str, is_read: Counts, found: int) -> Link:
    if is_read.of is None:
        expected, told = None, ""
    else:
        expected = is_read.of.get(topic, 0)
        told = (
            f"topic {topic}: {lake.events} has read {expected:,} payloads of {BRONZE}, and has"
            f" events of {found:,}: "
        )
        told += (
            f"`{rebuild('change_events+')}` decodes them anew"
            if found < expected
            else f"payloads are gone from {BRONZE}, which nothing here removes: roll it back to an"
            " earlier snapshot, or restore it from a backup"
        )
    unknown = None if is_read.is_sure else why_unknown(lake.events, BRONZE)
    return link_of("landed_decoded", topic, expected, found, told, unknown)


def _quarantined_link(lake: TargetTables, topic: str, invalid: Counts, found: int) -> Link:
    expected = None if invalid.of is None else invalid.of.get(topic, 0)
    told = (
        f"topic {topic}: of {expected or 0:,} invalid events in {lake.events}, {found:,} are in"
        f" {lake.quarantine}: `{rebuild('quarantined_payloads')}` makes it anew"
    )
    unknown = None if invalid.is_sure else why_unknown(lake.quarantine, lake.events)
    return link_of("invalid_quarantined", topic, expected, found, told, unknown)


_NO_LAG: Final[dict[str, Any]] = {
    "lag_messages": None,
    "lag_seconds": None,
    "lag_checked_at": None,
}


def _lags(lake: TargetTables) -> dict[str, dict[str, Any]]:
    """How far each topic lagged behind Kafka when it was last landed."""
    if not lake.has(_LAGS):
        return {}
    rows = lake.rows(
        "select topic, sum(lag_messages)::bigint, max(lag_seconds), epoch_us(max(checked_at))"
        f" from {lake.reader.quoted(_LAGS)} where checked_at is not null group by topic"
    )
    return {
        name: {"lag_messages": lag, "lag_seconds": seconds, "lag_checked_at": moment_text(at)}
        for name, lag, seconds, at in rows
    }


def _by_first(rows: Sequence[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, *values in rows}
