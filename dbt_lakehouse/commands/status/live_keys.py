"""The live keys of a change log, by DuckDB: the fold of current state without its values.

It follows dbt_lakehouse/reference/fold.py. The event that is applied last decides, even for
partial images: only the contents of a row depend on earlier events.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dbt_lakehouse.declared.fold_of_log import MOST_AHEAD
from dbt_lakehouse.queries.query import sql_literal

# As the folds sort events: those without a log time, or without a place in their source's order,
# come first.
_SOURCE: Final = "_position.source is not null, _position.source, "
ORDER: Final = (
    "_position.log_time is not null, epoch_us(_position.log_time), _position.topic,"
    ' _position."partition", _position."offset", _position.event_index'
)
_KNOWN_TIME: Final = f"""
    case
        when _occurred_at > _kafka_timestamp + to_microseconds({MOST_AHEAD}) then null
        else _occurred_at
    end
"""


class LiveKeys(NamedTuple):
    """The keys of a log, compared with its gold table."""

    keys: int
    """All keys with events in the log."""
    live: int
    """Keys that must have a row."""
    missing: int
    """Those of them without one."""
    extra: int
    """Keys with a row that must have none."""
    last_event: int | None
    """Kafka's newest timestamp, in microseconds."""


def live_keys(
    one: Callable[[str], tuple[Any, ...]],
    declared: Mapping[str, Any],
    *,
    log: str,
    gold: str,
    deletes: str | None,
    as_of: str | None,
) -> LiveKeys | None:
    """The keys of a gold table that follow from the rows of its log; None if they don't: for a
    table in the order of source time, of a log with truncates.

    ``one`` gives the only row of a query; ``declared`` is the table's declaration; ``deletes``
    are those without a set, for a table of an Aerospike namespace.
    """
    (truncates, last_event) = one(
        "select count(*) filter (where _operation = 'truncate'), epoch_us(max(_kafka_timestamp))"
        f" from {log}"
    )
    by_time = declared["order_by_source_time"]
    order = f"row({_SOURCE if declared.get('order_by') else ''}{ORDER})"
    if truncates and by_time:
        return None
    key = [_quoted(name.strip("`").replace("``", "`")) for name in declared["key"]]
    keys = ", ".join(key)
    source = "_source" if declared["several_sources"] else "null"
    conditions = [f"not ({_is_emptied(log, source, order)})"] if truncates else []
    conditions.append("_operation <> 'delete'")
    if deletes is not None:
        moment = "now()" if as_of is None else f"timestamptz {sql_literal(as_of + '+00')}"
        conditions.append(f"(_expires_at is null or _expires_at > {moment})")
    late = (
        f"qualify _lh_time is null or _lh_time >= coalesce(max(_lh_time) over (partition by {keys}"
        " order by _lh_place rows between unbounded preceding and 1 preceding), _lh_time)"
        if by_time
        else ""
    )
    found = one(
        f"""
        with events as ({_events(key, log, deletes, declared, source, order)}),
        applied as (select * from events {late}),
        decided as (
            select {keys}, unnest(max_by(
                struct_pack(_operation, _expires_at, _lh_place, _source), _lh_place
            ))
            from applied
            group by {keys}
        ),
        must as (
            select {keys}, {" and ".join(conditions)} as _lh_is_live from decided
        ),
        held as (select distinct {keys}, true as _lh_is_held from {gold})
        select
            count(must._lh_is_live),
            count(*) filter (where must._lh_is_live),
            count(*) filter (where must._lh_is_live and held._lh_is_held is null),
            count(*) filter (where held._lh_is_held and not coalesce(must._lh_is_live, false))
        from must full join held using ({keys})
        """
    )
    return LiveKeys._make((*found, last_event))


def _events(
    key: list[str],
    log: str,
    deletes: str | None,
    declared: Mapping[str, Any],
    source: str,
    order: str,
) -> str:
    """The events of all keys: key, operation, time, expiry, place and source table."""
    rest = f"{_KNOWN_TIME} as _lh_time, {{}} as _expires_at, {order} as _lh_place, {source}"
    rest = f"{rest} as _source"
    bare = rest.format("null::timestamptz")
    own = rest.format("_expires_at") if deletes is not None else bare
    has_key = " and ".join(f"{each} is not null" for each in key)
    parts = [
        f"select {', '.join(key)}, _operation, {own} from {log}"
        f" where _operation <> 'truncate' and {has_key}"
    ]
    if deletes is None:
        # An update that has changed its row's key is a delete of the old key.
        previous = ", ".join(f"_previous_key.{each} as {each}" for each in key)
        had_key = " and ".join(f"_previous_key.{each} is not null" for each in key)
        parts.append(f"select {previous}, 'delete', {bare} from {log} where {had_key}")
    else:
        namespace = sql_literal(declared["namespace"])
        parts.append(
            f"select _digest, _operation, {bare} from {deletes} semi join {log} using (_digest)"
            f" where _namespace = {namespace}"
        )
    return " union all ".join(parts)


def _is_emptied(log: str, source: str, order: str) -> str:
    """Whether a truncate of a key's source table has come after its last event, as SQL."""
    return (
        f"exists (select 1 from (select {order} as _lh_behind, {source} as _lh_emptied from {log}"
        " where _operation = 'truncate') as truncates where _lh_behind > _lh_place"
        " and _lh_emptied is not distinct from _source)"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
