"""The content of each table of a target, compared with what it has read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from dbt_lakehouse.commands.status.facts import Link, Outcome, Run, TableStatus
from dbt_lakehouse.commands.status.lake import (
    COUNTERS,
    PLACE,
    Read,
    TargetTables,
    moment_text,
    of_duckdb,
)
from dbt_lakehouse.commands.status.links import link_of, rebuild, why_unknown
from dbt_lakehouse.commands.status.live_keys import LiveKeys, live_keys
from dbt_lakehouse.commands.status.places import Places
from dbt_lakehouse.commands.status.similar_source import similar_source
from dbt_lakehouse.commands.status.unread_keys import unread_keys
from dbt_lakehouse.declared.fold_of_log import DELETED_AT
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.runs.full_snapshots import NO_RECONCILING, reconciles
from dbt_lakehouse.runs.inventory import Kind
from dbt_lakehouse.runs.marks import mark_then
from dbt_lakehouse.runs.model_run import AS_OF
from dbt_lakehouse.runs.source_filter import IS_CHANGE
from dbt_lakehouse.texts import iso_text, sql_texts
from python_udfs.registry import AEROSPIKE_FORMATS

_SET_LESS: Final = (
    f"format in ({sql_texts(AEROSPIKE_FORMATS)})",
    "operation = 'delete'",
    "source_table is null",
)


def table_of(
    lake: TargetTables, places: Places, name: str, last_run: Run | None
) -> tuple[TableStatus, Link | None]:
    """A table, and the link to its upstream, if that belongs to the chain."""
    table = lake.table(name)
    kind, upstream, metadata = table.kind, table.upstream, table.metadata
    relation = lake.reader.quoted(name)
    (rows,) = lake.one(f"select count(*) from {relation}")
    last_event, waiting, absent, link, unread = None, None, None, None, None
    if kind in (Kind.LOG, Kind.DELETES):
        (last_event,) = lake.one(f"select epoch_us(max(_kafka_timestamp)) from {relation}")
        is_log = kind is Kind.LOG
        waiting, link = _log(lake, places, name, rows) if is_log else _deletes(lake, name, rows)
    elif kind is Kind.EVENTS:
        (last_event,) = lake.one(f'select epoch_us(max("timestamp")) from {relation}')
        waiting = _waiting(lake, name, BRONZE, PLACE[:3])
    elif kind in (Kind.GOLD, Kind.KEYLESS, Kind.HISTORY) and upstream is not None:
        waiting = _waiting(lake, name, upstream, ("_position",))
        keys, link = _gold(lake, name, upstream, kind, rows)
        if kind is Kind.GOLD:
            unread = unread_keys(lake, name, upstream)
        if keys is not None:
            last_event, absent = keys.last_event, keys.keys - keys.live
    counters = lake.counted.get(name, {})
    return (
        TableStatus(
            table=name,
            kind=kind,
            upstream=upstream,
            rows=rows,
            waiting=waiting,
            absent_keys=absent,
            unread_keys=None if unread is None else unread.keys,
            unread_since=None if unread is None else moment_text(unread.ended_at),
            similar_source=similar_source(lake, name) if kind is Kind.LOG and not rows else None,
            **{each: counters.get(each, 0) for each in COUNTERS},
            last_event_at=moment_text(last_event),
            written_at=f"{metadata.chain[0].made_at:%FT%TZ}" if metadata.chain else None,
            as_of=None if table.as_of is None else iso_text(table.as_of),
            last_run=None if last_run is None else last_run.statuses.get(name),
        ),
        link,
    )


def _waiting(lake: TargetTables, name: str, upstream: str, place: Sequence[str]) -> int | None:
    read = lake.read(name, upstream, place)
    if read is None:
        return None
    now = lake.reader.quoted(upstream)
    if read.sql == now:
        return 0
    (count,) = lake.one(f"select (select count(*) from {now}) - (select count(*) from {read.sql})")
    return int(count)


def _deletes(lake: TargetTables, name: str, rows: int) -> tuple[int | None, Link]:
    """The number of deletes without a set that are not read yet, and the link for all others."""
    read = lake.read(name, lake.events, PLACE)
    where = " and ".join(_SET_LESS)
    expected = lake.by_topic(read, where)
    link = "events_logged"
    if read is None or expected.of is None:
        why = why_unknown(name, lake.events)
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, why)
    (now,) = lake.one(f"select count(*) from {lake.reader.quoted(lake.events)} where {where}")
    total, found = sum(expected.of.values()), lake.by_topic(_positions(lake, name)).of or {}
    wrong = _differences(found, expected.of)
    told = (
        f"{name} has {rows:,} rows of the {total:,} deletes without a set that it has read of"
        f" {lake.events} ({wrong}): `{rebuild(_bare(name) + '+')}` rebuilds it"
    )
    unknown = None if expected.is_sure else why_unknown(name, lake.events)
    return now - total, link_of(link, name, total, rows, told, unknown, agrees=not wrong)


def _log(lake: TargetTables, places: Places, name: str, rows: int) -> tuple[int | None, Link]:
    """The number of payloads and events that a change log has not read, and the link for its
    rows. It must have one row for each of its events: those that it has and whose payloads bronze
    has, those that are added to other_events for it, and those that are nowhere and may be its
    own.
    """
    link, log = "events_logged", places.logs.get(name)
    if log is None:
        why = f"{name} differs from its model's declaration, or has none: `dbt run` first"
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, why)
    positions = _positions(lake, name)
    found = lake.by_topic(positions).of or {}
    expected = Counter(
        dict(
            lake.rows(
                "select topic, count(*) from"
                f" (select distinct {', '.join(PLACE)} from {positions.sql}) group by topic"
            )
        )
    )
    expected.update(places.missing(name))
    expected.subtract(places.strays(name))
    unread = 0 if log.unread is None else lake.one(f"select count(*) from {log.unread}")[0]
    is_sure = places.looked is not None and places.looked.is_sure
    try:
        lacking, waiting = _added(lake, places, name, positions)
    except ConfigurationError as error:
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, f"{name}: {error}")
    expected.update(lacking)
    wrong = _differences(found, expected)
    total = expected.total()
    told = (
        f"{name} has {rows:,} rows, and the payloads that it has read of {BRONZE} make {total:,}"
        f" ({wrong}): `{rebuild(_bare(name) + '+')}` rebuilds it"
    )
    unknown = None if is_sure else why_unknown(lake.events, BRONZE)
    return unread + waiting, link_of(link, name, total, rows, told, unknown, agrees=not wrong)


def _added(
    lake: TargetTables, places: Places, name: str, positions: Read
) -> tuple[dict[str, int], int]:
    """The events added to other_events for a change log that it lacks although it has read them,
    by topic; and the number of those that it has not read.

    Raises ``ConfigurationError`` if only Spark can tell which events are its own.
    """
    if not places.has_added:
        return {}, 0
    declared = lake.table(name).declared
    where = " and ".join(
        (
            *("added_by is not null", IS_CHANGE),
            *(() if reconciles(declared) else (NO_RECONCILING,)),
            *map(of_duckdb, declared["conditions"]),
        )
    )
    read = lake.read(name, lake.events, PLACE)
    if read is None:
        raise ConfigurationError(why_unknown(name, lake.events))
    own = f"(select {', '.join(PLACE)} from {{}} where {where})"
    (waiting,) = lake.one(
        f"select (select count(*) from {own.format(lake.reader.quoted(lake.events))})"
        f" - (select count(*) from {own.format(read.sql)})"
    )
    rest = f"{own.format(read.sql)} anti join {positions.sql} using ({', '.join(PLACE)})"
    lacking = (
        lake.rows(f"select topic, count(*) from {rest} group by topic") if read.is_sure else []
    )
    return dict(lacking), waiting


def _positions(lake: TargetTables, name: str) -> Read:
    """The places of a table's rows."""
    place = ", ".join(f"_position.{each}" for each in PLACE)
    return Read(f"(select {place} from {lake.reader.quoted(name)})")


def _differences(found: Mapping[str, int], expected: Mapping[str, int]) -> str:
    """The differences by topic; empty if there are none."""
    return ", ".join(
        f"{found.get(topic, 0):,} of {expected.get(topic, 0):,} of topic {topic}"
        for topic in sorted({*expected, *found})
        if found.get(topic, 0) != expected.get(topic, 0)
    )


def _gold(
    lake: TargetTables, name: str, log: str, kind: Kind, rows: int
) -> tuple[LiveKeys | None, Link]:
    link = "log_gold"
    if kind is Kind.KEYLESS:
        why = (
            f"{name} has no key, so nothing compares it with its log: `dbt run --full-refresh -s"
            f" {_bare(name)}` folds the log again"
        )
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, why)
    if kind is not Kind.GOLD:
        why = (
            f"{name}: its data test compares it with its log, by `dbt test -s {_bare(name)}`: give"
            " it one if it has none (docs/findings.md)"
        )
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, why)
    declared = lake.table(name).declared
    read = lake.read(name, log, ("_position",))
    has_deletes = declared["namespace"] is not None
    gold = lake.reader.quoted(name)
    deletes = None
    if "deleted_rows" in declared:
        gold = f"(select * from {gold} where {DELETED_AT} is null)"
        (rows,) = lake.one(f"select count(*) from {gold}")
        if has_deletes:
            deletes = lake.read(name, lake.deletes, ("_position",))
    elif has_deletes:
        deletes = _deletes_as_read(lake, name)
    if read is None or (has_deletes and deletes is None):
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, why_unknown(name, log))
    keys = live_keys(
        lake.one,
        declared,
        log=read.sql,
        gold=gold,
        deletes=None if deletes is None else deletes.sql,
        as_of=lake.table(name).metadata.noted(AS_OF),
    )
    if keys is None:
        why = f"{name}: truncates of a table that is ordered by source time; `dbt test` checks it"
        return None, Link(link, name, None, rows, Outcome.UNCHECKED, why)
    told = (
        f"{name} has {rows:,} rows, and {log} makes {keys.live:,}: {keys.missing:,} keys are"
        f" missing, {keys.extra:,} should not be there: `{rebuild(_bare(name))}` rebuilds it"
    )
    is_sure = read.is_sure and (deletes is None or deletes.is_sure)
    agrees = keys.missing == keys.extra == 0 and keys.live == rows
    unknown = None if is_sure else why_unknown(name, log)
    return keys, link_of(link, name, keys.live, rows, told, unknown, agrees=agrees)


def _deletes_as_read(lake: TargetTables, gold: str) -> Read | None:
    """The deletes without a set that a gold table knows: those that deleted_keys had read when
    the table read deleted_keys.
    """
    if not (lake.has(lake.deleted_keys) and lake.has(lake.deletes)):
        return None
    mark = lake.table(gold).marks.get(lake.deleted_keys)
    middle = mark_then(lake.table(lake.deleted_keys).metadata, mark, lake.deletes)
    return lake.read_to(middle, lake.deletes, ("_position",))


def _bare(name: str) -> str:
    return name.partition(".")[2]
