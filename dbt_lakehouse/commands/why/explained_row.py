"""Explain a row of gold: its events, the reference fold's result for them, and gold's row."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dbt_lakehouse.commands.why.events import (
    Event,
    Key,
    KeyedTable,
    deletes_without_set,
    events_of,
    position_of,
    quoted,
    typed_key,
    value_text,
)
from dbt_lakehouse.commands.why.messages import Found, Message, messages_of
from dbt_lakehouse.commands.why.snapshots import endings_of
from dbt_lakehouse.commands.why.why_output import UNREAD, Answer, Ending, Reason, Told
from dbt_lakehouse.declared.fold_of_log import DELETED_AT
from dbt_lakehouse.lake.names import BRONZE, FORGOTTEN
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.queries.query import answered, rows_of, sql_literal
from dbt_lakehouse.reference.fates import fates
from dbt_lakehouse.reference.fold import (
    Change,
    Position,
    State,
    fold,
    fold_partial,
    known_time,
    log_order,
)
from dbt_lakehouse.runs.inventory import LakeTable
from dbt_lakehouse.runs.model_run import NodeRun
from dbt_lakehouse.texts import counted, time_text

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def why(reader: Reader, table: KeyedTable, key_json: str) -> Answer:
    """The answer for a key (JSON).

    Raises ``ConfigurationError``s, ``UnusableKeyError``, and the errors of reading.
    """
    gold, log = reader.known(table.gold), reader.known(table.log)
    held = reader.columns()
    declared = [column.strip("`") for column in table.fold.columns]
    columns = [name for name in declared if name in held[gold] and name in held[log]]
    key = typed_key(reader, table, key_json)
    events = sorted(
        events_of(reader, table, key, columns), key=lambda event: log_order(event.change)
    )
    as_of = _as_of(reader, gold)
    state = _state(table, events, as_of)
    row, actual = _gold(reader, table, key, columns)
    messages = messages_of(reader, table, [event.change.position for event in events])
    endings = endings_of(reader, table, [event.change.position for event in events])
    answer = Answer(
        table=gold,
        key=key.values,
        reason=_reason(state, events, endings),
        as_of=time_text(as_of),
        row=row,
        events=_told(table, events, state, messages, endings),
        differences=differences(state, actual, columns),
        expired_at=_text(state.expires_at) if state and not state.is_live else None,
        forgotten=_requests(reader, table),
        order="source" if table.fold.order_by else "log",
    )
    missing = [name for name in declared if name not in columns]
    if missing:
        answer.notes.append(
            f"{', '.join(missing)}: not compared: the tables were built before it was declared"
        )
    if answer.reason is Reason.UNKNOWN and (deletes := deletes_without_set(reader, table, key)):
        answer.notes.append(
            f"{table.deletes} has {counted(deletes, 'delete')} of this digest, without a set: of"
            " this table, or of another set of its namespace"
        )
    if answer.reason is Reason.UNKNOWN and (undecoded := _undecoded(reader, table, log)):
        answer.notes.append(
            f"{counted(undecoded, 'event')} of its topics could not be decoded, of whatever key:"
            " `lakehouse quarantine` lists them"
        )
    if any(message.found is Found.FORGOTTEN for message in messages.values()):
        answer.notes.append(
            "messages of it are forgotten, and events are not: `lakehouse forget` has broken off;"
            " the same call again does the rest"
        )

    def load(name: str) -> Table | None:
        return reader.look_at(reader.known(name)) if name in reader.names else None

    if NodeRun(load, table.other_events, [BRONZE]).has_news:
        answer.notes.append(f"{BRONZE} has messages that the next `dbt run` decodes")
    upstreams = [table.other_events, BRONZE]
    if NodeRun(load, log, upstreams, wanted=table.wanted, follows=True).has_news:
        answer.notes.append(
            f"{BRONZE} may have events of its source table, of any key, that the next `dbt run`"
            f" puts into {log}"
        )
    return answer


def _state(table: KeyedTable, events: Sequence[Event], as_of: int) -> State | None:
    """The reference fold's state of the key, from the events with which gold has been built."""
    changes = _read(events)
    return (fold_partial if table.fold.partial else fold)(
        changes, order_by_source_time=table.fold.order_by_source_time, as_of=as_of
    )


def _read(events: Sequence[Event]) -> list[Change]:
    """The changes that gold was built from; empty if no read event is the key's own."""
    read = [event for event in events if event.is_read]
    return [event.change for event in read] if any(event.is_own for event in read) else []


def _as_of(reader: Reader, gold: str) -> int:
    """The moment that a table was last built for, in microseconds."""
    moment = LakeTable(gold, reader.look_at(gold)).as_of or datetime.now(UTC)
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _reason(
    state: State | None, events: Sequence[Event], endings: Mapping[Position, Ending]
) -> Reason:
    if state is None:
        return Reason.UNREAD if events else Reason.UNKNOWN
    if state.is_live:
        return Reason.LIVE
    last = next(event.change for event in events if event.change.position == state.position)
    if last.position in endings:
        return Reason.UNREAD_BY_SNAPSHOT
    if last.operation in ("delete", "truncate"):
        return Reason.DELETED if last.operation == "delete" else Reason.TRUNCATED
    return Reason.EXPIRED


def _told(
    table: KeyedTable,
    events: Sequence[Event],
    state: State | None,
    messages: Mapping[Position, Message],
    endings: Mapping[Position, Ending],
) -> list[Told]:
    fate_of = {
        change.position: fate.value
        for change, fate in fates(
            _read(events),
            order_by_source_time=table.fold.order_by_source_time,
            partial=table.fold.partial,
        )
    }
    told = []
    for event in events:
        change = event.change
        position, message = change.position, messages[change.position]
        told.append(
            Told(
                topic=position.topic,
                partition=position.partition,
                offset=position.offset,
                event_index=position.event_index,
                log_time=_text(position.log_time),
                operation="update" if event.is_key_change else change.operation,
                occurred_at=_text(change.occurred_at),
                expires_at=_text(change.expires_at),
                fate=fate_of.get(position, UNREAD),
                decides=state is not None and position == state.position,
                is_clock_ahead=change.occurred_at is not None and known_time(change) is None,
                is_key_change=event.is_key_change,
                has_set=event.has_set,
                message=message.found.value,
                decoded=message.event,
                snapshot=endings.get(position),
            )
        )
    return told


def _text(micros: int | None) -> str | None:
    return None if micros is None else time_text(micros)


# --- gold -----------------------------------------------------------------------------------------


def _gold(
    reader: Reader, table: KeyedTable, key: Key, columns: Sequence[str]
) -> tuple[dict[str, Any] | None, list[State]]:
    """The live row of gold as it is, and as a state of the fold; of several rows, the first."""
    relation = reader.quoted(reader.known(table.gold))
    where = key.condition([quoted(each) for each in table.key])
    if table.fold.deleted_rows:
        where += f" and {DELETED_AT} is null"
    expiry = "epoch_us(_expires_at)" if table.fold.namespace is not None else "null"
    times = f"epoch_us(_occurred_at), epoch_us(_max_occurred_at), {expiry}"
    values = "".join(f", {quoted(column)}" for column in columns)
    states = [
        State(
            is_live=True,
            position=Position(*row[:6]),
            occurred_at=row[6],
            max_occurred_at=row[7],
            values=[value_text(value) for value in row[9:]],
            expires_at=row[8],
        )
        for row in rows_of(
            reader,
            f"select {position_of(table.fold)}, {times}{values} from {relation} where {where}",
        )
    ]
    if not states:
        return None, []
    with answered(reader, f"select * from {relation} where {where}", limit=1) as rows:
        (row,) = rows.values()
        return dict(zip(rows.names, row, strict=True)), states


def differences(state: State | None, actual: Sequence[State], columns: Sequence[str]) -> list[str]:
    """The differences between gold's rows of a key and the fold's state."""
    is_live = state is not None and state.is_live
    if len(actual) > 1:
        return [f"gold has {len(actual)} rows of the key"]
    if state is None or not is_live:
        return ["gold has a row, but must not have one"] if actual else []
    if not actual:
        return ["gold has no row, but must have one"]
    (row,) = actual
    wanted = [*zip(columns, state.values, strict=True), *_technical(state)]
    held = [*zip(columns, row.values, strict=True), *_technical(row)]
    return [
        f"{name} is {has}, and must be {must}"
        for (name, must), (_, has) in zip(wanted, held, strict=True)
        if must != has
    ]


def _technical(state: State) -> list[tuple[str, Any]]:
    return [
        ("_position", tuple(state.position)),
        ("_occurred_at", _text(state.occurred_at)),
        ("_max_occurred_at", _text(state.max_occurred_at)),
        ("_expires_at", _text(state.expires_at)),
    ]


# --- beside it ------------------------------------------------------------------------------------


def _undecoded(reader: Reader, table: KeyedTable, log: str) -> int:
    """The number of quarantined events in the log's topics."""
    quarantined = f"{table.other_events.partition('.')[0]}.quarantined_payloads"
    if quarantined not in reader.names:
        return 0
    topics = f"select distinct _position.topic from {reader.quoted(log)}"
    ((count,),) = rows_of(
        reader,
        f"select count(*) from {reader.quoted(quarantined)} where topic in ({topics})",
    )
    return int(count)


def _requests(reader: Reader, table: KeyedTable) -> int:
    """The number of requests to forget keys of the table."""
    if FORGOTTEN not in reader.names:
        return 0
    names = ", ".join(map(sql_literal, sorted(table.of_log)))
    ((count,),) = rows_of(
        reader,
        f"select count(*) from {reader.quoted(FORGOTTEN)} where table_name in ({names})",
    )
    return int(count)
