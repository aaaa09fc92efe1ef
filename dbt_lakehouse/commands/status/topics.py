"""The state of each topic's payloads."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dbt_lakehouse.build import compaction
from dbt_lakehouse.commands.status.facts import Link, Topic
from dbt_lakehouse.commands.status.lake import (
    PLACE,
    Counts,
    TargetTables,
    moment_text,
)
from dbt_lakehouse.commands.status.links import link_of, rebuild, why_unknown
from dbt_lakehouse.commands.status.places import Placed, Places
from dbt_lakehouse.lake.names import BRONZE, TOPIC_PARTITIONS
from dbt_lakehouse.landing.lags import Buckets, spread_of
from dbt_lakehouse.texts import counted


def topics_of(
    lake: TargetTables,
    places: Places,
    undecoded: frozenset[str],
    built: Mapping[str, Buckets],
) -> tuple[list[Topic], list[Link]]:
    """All topics, and two links for each: to the tables that have its events, and on to
    quarantined_payloads. ``built``: the lags of the last hour by topic.
    """
    bronze = lake.reader.quoted(BRONZE)
    landed = _by_first(
        lake.rows(
            'select topic, count(*), epoch_us(max("timestamp")), epoch_us(max(landed_at))'
            f" from {bronze} group by topic"
        )
    )
    quarantined, invalid = {}, Counts(None, False)
    if lake.has(lake.events) and lake.has(lake.quarantine):
        read = lake.read(lake.quarantine, lake.events, PLACE)
        invalid = lake.by_topic(read, "operation = 'invalid'")
        quarantined = dict(
            lake.rows(
                f"select topic, count(*) from {lake.reader.quoted(lake.quarantine)} group by topic"
            )
        )
    lags = _lags(lake)
    compacted = (
        compaction.judged(lake.table(lake.events).metadata).topics if lake.has(lake.events) else {}
    )
    topics, links = [], []
    for name in sorted({*landed, *places.by_topic, *quarantined}):
        here, last_event, last_landed = landed.get(name, (0, None, None))
        placed = places.by_topic.get(name, Placed())
        decoded = placed.payloads - placed.invalid + placed.forgotten
        looked = placed.looked - placed.waiting
        spread = spread_of([built.get(name, {})])
        topics.append(
            Topic(
                topic=name,
                landed=here,
                decoded=decoded,
                invalid=placed.invalid,
                waiting=here - (decoded + placed.invalid if places.looked is None else looked),
                events=placed.events,
                changes=placed.changes,
                is_all_quarantined=placed.invalid > 0 and placed.changes == 0,
                is_known_undecoded=name in undecoded,
                is_compacted=compacted.get(name, False),
                last_event_at=moment_text(last_event),
                last_landed_at=moment_text(last_landed),
                **lags.get(name, _NO_LAG),
                built_messages=spread and spread.messages,
                built_seconds_p50=spread and spread.p50,
                built_seconds_p99=spread and spread.p99,
            )
        )
        if lake.has(lake.events):
            links.append(_decoded_link(lake, places, name, placed))
        if lake.has(lake.events) and lake.has(lake.quarantine):
            links.append(_quarantined_link(lake, name, invalid, quarantined.get(name, 0)))
    return topics, links


def _decoded_link(lake: TargetTables, places: Places, topic: str, placed: Placed) -> Link:
    expected = None if places.looked is None else placed.looked
    found = placed.looked + placed.strays - placed.missing
    wrong = []
    if placed.missing:
        logs = ", ".join(each for each in places.logs if topic in places.missing(each))
        wrong.append(
            f"events of {counted(placed.missing, 'payload')}, of {placed.looked:,} that"
            f" {lake.events} has looked at, are neither there nor in a change log"
            + (f" ({logs})" if logs else "")
            + f": `{rebuild('other_events+')}` decodes them again"
        )
    if placed.strays:
        logs = ", ".join(each for each in places.logs if topic in places.strays(each))
        wrong.append(
            f"there are events of {counted(placed.strays, 'payload')}"
            + (f" ({logs})" if logs else "")
            + f" that {BRONZE} does not have, though no command removes rows there: roll it back"
            " to an earlier snapshot, or restore it from a backup"
        )
    told = f"topic {topic}: {'; '.join(wrong)}"
    is_sure = places.looked is not None and places.looked.is_sure
    unknown = None if is_sure else why_unknown(lake.events, BRONZE)
    return link_of("landed_decoded", topic, expected, found, told, unknown, agrees=not wrong)


def _quarantined_link(lake: TargetTables, topic: str, invalid: Counts, found: int) -> Link:
    expected = None if invalid.of is None else invalid.of.get(topic, 0)
    told = (
        f"topic {topic}: of {expected or 0:,} invalid events in {lake.events}, {found:,} are in"
        f" {lake.quarantine}: `{rebuild('quarantined_payloads')}` rebuilds it"
    )
    unknown = None if invalid.is_sure else why_unknown(lake.quarantine, lake.events)
    return link_of("invalid_quarantined", topic, expected, found, told, unknown)


_NO_LAG: Final[dict[str, Any]] = {
    "lag_messages": None,
    "lag_seconds": None,
    "lag_checked_at": None,
}


def _lags(lake: TargetTables) -> dict[str, dict[str, Any]]:
    """The lag of each topic behind Kafka at its last landing."""
    if not lake.has(TOPIC_PARTITIONS):
        return {}
    rows = lake.rows(
        "select topic, sum(lag_messages)::bigint, max(lag_seconds), epoch_us(max(checked_at))"
        f" from {lake.reader.quoted(TOPIC_PARTITIONS)} where checked_at is not null group by topic"
    )
    return {
        name: {"lag_messages": lag, "lag_seconds": seconds, "lag_checked_at": moment_text(at)}
        for name, lag, seconds, at in rows
    }


def _by_first(rows: Sequence[tuple[Any, ...]]) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, *values in rows}
