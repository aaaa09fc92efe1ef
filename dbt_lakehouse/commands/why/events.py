"""The events of a key in its table's log, in the form that the reference folds take.

dbt_lakehouse/build/sql/reference_parts.sql defines which rows are events; this is the same in
DuckDB's SQL.
"""

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from dbt_lakehouse.commands.forget.entities import node_with_keys
from dbt_lakehouse.commands.hashed_keys import clear_types, hash_as, hashed
from dbt_lakehouse.commands.keys import UnusableKeyError, given_key, key_names
from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.drawing import cell
from dbt_lakehouse.queries.query import rows_of, sql_literal
from dbt_lakehouse.reference.fold import Change, Position
from dbt_lakehouse.runs.graph import built_of, fold_of_model, log_node, node_named
from dbt_lakehouse.runs.inventory import rows_read
from dbt_lakehouse.runs.marks import HistoryLost, Mark, Window, mark_then, marks_of, reading
from dbt_lakehouse.runs.source_filter import Wanted


def position_of(fold: Fold) -> str:
    """The fields of a ``Position``, in DuckDB's SQL."""
    return (
        'epoch_us(_position.log_time), _position.topic, _position."partition", _position."offset",'
        f" _position.event_index, {'_position.source' if fold.order_by else 'null'}"
    )


class KeyedTable(NamedTuple):
    """A gold table with keys, and its upstream tables, by their labels (``schema.name``)."""

    gold: str
    log: str
    other_events: str
    deletes: str
    """The deletes without a set."""
    deleted_keys: str
    of_log: frozenset[str]
    """All tables made from the log."""
    fold: Fold
    wanted: Wanted
    """The source tables whose events the log takes."""
    hashed: Mapping[str, str]
    """The key columns that are hashed in the log, with their types before hashing."""

    @property
    def key(self) -> list[str]:
        """The key columns."""
        return [each.strip("`") for each in self.fold.key]


def keyed_table(graph: Mapping[str, Any], name: str) -> KeyedTable:
    """The gold table of this name. Raises ``ConfigurationError`` unless it has keys."""
    node = node_with_keys(graph, name)
    log = log_node(graph, node)
    made = built_of(graph, log.unique_id)
    if "history" in node.config.meta:
        current = [each.name for each in made if "current_state" in each.config.meta]
        raise ConfigurationError(
            f"{node.name} is a history, and has a row for each version: ask for the current"
            f" state ({', '.join(current) or 'which no model makes'})"
        )
    fold, declared = fold_of_model(graph, node), log.config.meta["change_log"]
    return KeyedTable(
        gold=_label(node),
        log=_label(log),
        other_events=_label(node_named(graph, "other_events")),
        deletes=_label(node_named(graph, "set_less_deletes")),
        deleted_keys=_label(node_named(graph, "deleted_keys")),
        of_log=frozenset(map(_label, made)),
        fold=fold,
        wanted=declared["sources"],
        hashed=clear_types(declared, [each.strip("`") for each in fold.key]),
    )


def _label(node: Any) -> str:
    return f"{node.schema}.{node.alias}"


class Event(NamedTuple):
    """An event of a key. ``is_read``: whether gold has been built with it."""

    change: Change
    is_read: bool
    is_key_change: bool = False
    """Whether it is an update that changed the row's key."""
    has_set: bool = True

    @property
    def is_own(self) -> bool:
        """Whether it shows that the key is one of the table: it is neither a truncate nor a
        delete without a set.
        """
        return self.has_set and self.change.operation != "truncate"


# --- keys -----------------------------------------------------------------------------------------


class Key(NamedTuple):
    """A requested key."""

    values: dict[str, Any]
    literals: list[str]
    """SQL of its values, in the order of the key columns."""

    def condition(self, columns: Sequence[str]) -> str:
        """An SQL condition that these columns have it."""
        pairs = zip(columns, self.literals, strict=True)
        return " and ".join(f"{column} = {literal}" for column, literal in pairs)


def typed_key(reader: Reader, table: KeyedTable, text: str) -> Key:
    """The key in a JSON text, with clear values for hashed columns.

    Raises ``UnusableKeyError``, and ``ConfigurationError`` without the mask key of its hashes.
    """
    names = key_names(table.key)
    types = [table.hashed.get(column, table.fold.types[column]) for column in table.key]
    values = given_key(text, table.key, types)
    # For the types that can be hashed, DuckDB's names are Spark's.
    held = {**reader.columns()[table.log], **table.hashed}
    literals = [
        _literal(value, kind, held[column])
        for column, kind, value in zip(table.key, types, values, strict=True)
    ]
    (typed,) = rows_of(reader, f"select {', '.join(literals)}")
    for name, kind, value in zip(names, types, typed, strict=True):
        if value is None:
            raise UnusableKeyError(f"--key: a value of {name} is not of type {kind}")
    if table.hashed:
        hash_as(table.log, reader.look_at(reader.known(table.log)))
        literals = [
            sql_literal(str(hashed(value))) if column in table.hashed else literal
            for column, value, literal in zip(table.key, typed, literals, strict=True)
        ]
    return Key(dict(zip(names, typed, strict=True)), literals)


def _literal(text: str, kind: str, held: str) -> str:
    """SQL of a value of a type, which DuckDB calls ``held``."""
    if kind == "binary":
        return _bytes(text)
    # DuckDB writes years after 9999 without a plus.
    text = text.lstrip("+") if kind.startswith(("date", "timestamp")) else text
    return f"try_cast({sql_literal(text)} as {held})"


def _bytes(text: str) -> str:
    try:
        return f"from_hex('{b64decode(text, validate=True).hex()}')"
    except (binascii.Error, ValueError):
        return "null"


def quoted(column: str) -> str:
    """The name of a column in DuckDB's SQL."""
    return '"' + column.replace('"', '""') + '"'


def value_text(value: Any) -> str | None:
    """A value in the form that the folds take: different values have different texts."""
    return None if value is None else cell(value)


# --- events ---------------------------------------------------------------------------------------


def events_of(reader: Reader, table: KeyedTable, key: Key, columns: Sequence[str]) -> list[Event]:
    """The events of a key with the values of these columns; empty if no event of the table has
    the key.

    Raises ``ConfigurationError`` if gold was built from another log.
    """
    marks = marks_of(reader.look_at(reader.known(table.gold)))
    events = _logged(reader, table, key, columns, marks.get(table.log))
    if not any(event.is_own for event in events):
        return []
    if table.fold.namespace is not None and table.deletes in reader.names:
        events += _without_set(reader, table, key, columns, _mark_on_deletes(reader, table, marks))
    return events


def _logged(
    reader: Reader, table: KeyedTable, key: Key, columns: Sequence[str], mark: Mark | None
) -> list[Event]:
    # Separate conditions on columns, whose statistics skip most files.
    own = key.condition([quoted(each) for each in table.key])
    conditions = [own]
    if table.fold.namespace is None:
        previous = key.condition([f"_previous_key.{quoted(each)}" for each in table.key])
        truncates = f"{quoted(table.key[0])} is null and _operation = 'truncate'"
        conditions += [previous, truncates]
    is_read = _read(reader, table, table.log, mark, conditions)
    events = []
    for condition in conditions:
        for change in _changes(reader, table, condition, columns):
            # A truncate has no values, and neither has a key that an update has replaced.
            bare = change._replace(expires_at=None, values=[None] * len(columns), unchanged=())
            read = is_read(change.position)
            if condition is own:
                events.append(Event(change, read))
            elif change.operation == "truncate":
                events.append(Event(bare, read))
            else:
                events.append(Event(bare._replace(operation="delete"), read, is_key_change=True))
    return events


def _changes(
    reader: Reader, table: KeyedTable, condition: str, columns: Sequence[str]
) -> list[Change]:
    fold = table.fold
    selected = [
        position_of(fold),
        "_operation",
        "epoch_us(_occurred_at)",
        "epoch_us(_kafka_timestamp)",
        "epoch_us(_expires_at)" if fold.namespace is not None else "null",
        "_unchanged_columns" if fold.partial or fold.namespace is None else "null",
        "_source" if fold.several_sources else "null",
        *map(quoted, columns),
    ]
    log = reader.quoted(reader.known(table.log))
    changes = []
    for row in rows_of(reader, f"select {', '.join(selected)} from {log} where {condition}"):
        operation, occurred_at, sent_at, expires_at, unchanged, source, *values = row[6:]
        changes.append(
            Change(
                operation,
                occurred_at,
                sent_at,
                Position(*row[:6]),
                expires_at,
                [value_text(value) for value in values],
                [columns.index(name) for name in unchanged or () if name in columns],
                value_text(source),
            )
        )
    return changes


def deletes_without_set(reader: Reader, table: KeyedTable, key: Key) -> int:
    """The number of deletes that name a key and no set: they may be of another table's record."""
    if table.fold.namespace is None or table.deletes not in reader.names:
        return 0
    query = f"select count(*) from {reader.quoted(reader.known(table.deletes))}"
    ((count,),) = rows_of(reader, f"{query} where {_is_of(table, key)}")
    return int(count)


def _mark_on_deletes(reader: Reader, table: KeyedTable, marks: Mapping[str, Mark]) -> Mark | None:
    """The mark up to which gold has read the deletes without a set."""
    if table.fold.deleted_rows:
        return marks.get(table.deletes)
    # It gets them from deleted_keys, as that was when gold read it.
    deleted_keys = reader.look_at(reader.known(table.deleted_keys))
    return mark_then(deleted_keys, marks.get(table.deleted_keys), table.deletes)


def _without_set(
    reader: Reader, table: KeyedTable, key: Key, columns: Sequence[str], mark: Mark | None
) -> list[Event]:
    relation = reader.quoted(reader.known(table.deletes))
    where = _is_of(table, key)
    rows = rows_of(
        reader,
        f"select {position_of(table.fold)}, _operation, epoch_us(_occurred_at),"
        f" epoch_us(_kafka_timestamp) from {relation} where {where}",
    )
    is_read = _read(reader, table, table.deletes, mark, [where])
    found = []
    for *place, operation, occurred_at, sent_at in rows:
        position = Position(*place)
        change = Change(operation, occurred_at, sent_at, position, None, [None] * len(columns))
        found.append(Event(change, is_read(position), has_set=False))
    return found


def _is_of(table: KeyedTable, key: Key) -> str:
    """An SQL condition that a delete without a set is of a key."""
    namespace = sql_literal(table.fold.namespace or "")
    return f"_namespace = {namespace} and {key.condition(['_digest'])}"


def _read(
    reader: Reader,
    table: KeyedTable,
    upstream: str,
    mark: Mark | None,
    conditions: Sequence[str],
) -> Callable[[Position], bool]:
    """A function that tells, for events that meet one of the conditions, whether they are before
    a mark.
    """
    try:
        todo = reading(mark, reader.look_at(upstream))
    except HistoryLost as lost:
        raise ConfigurationError(
            f"{upstream}, which {table.gold} was made of, {lost}: `dbt run` first"
        ) from lost
    if todo.window is Window.NOTHING:
        return lambda position: True
    earlier = rows_read(reader, upstream, todo)
    known = {
        Position(*row)
        for condition in conditions
        for row in rows_of(
            reader, f"select {position_of(table.fold)} from {earlier} where {condition}"
        )
    }
    return lambda position: position in known
