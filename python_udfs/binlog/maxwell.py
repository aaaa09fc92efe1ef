"""``maxwell_json``: messages of Maxwell's daemon in Kafka, one change of a MySQL row each.

Implements Maxwell's pages "Data format", "Bootstrapping" and "Producers":

    key    {"database": "test", "table": "e", "pk.id": 1, "pk.c": "2016-10-21"}      or, with
           ["test", "e", [{"id": 1}, {"c": "2016-10-21"}]]                  kafka_key_format=array
    value  {"database": "test", "table": "e", "type": "update", "ts": 1477053234, "xid": 23396,
            "commit": true, "position": "master.000006:800911", "server_id": 23042,
            "thread_id": 108, "primary_key": [1], "primary_key_columns": ["id"],
            "data": {"id": 1, "m": 5.444}, "old": {"m": 4.2341}}

``data`` is the whole row, for a delete the deleted one; ``old`` has the previous values of only the
changed columns: together they are the row before. Types and their results:

    insert, update, delete                                       insert, update, delete
    bootstrap-insert                                             snapshot
    bootstrap-start, bootstrap-complete                          message
    table-create, -alter, -drop, database-create, -alter, -drop  schema_change

All other fields are in ``metadata`` by their own names; ``event_key`` is the Kafka key.

Quirks: ``ts`` is in seconds, in definitions in milliseconds. Maxwell's ``output_...`` options
decide which fields there are. Kafka keys have the columns' names in lower case; for a table without
a primary key they have a random ``_uuid`` instead. Maxwell doesn't write TRUNCATE.

Policies:

- ``record_key`` is the key columns of the Kafka key, by the names in the row; without a Kafka key,
  ``primary_key_columns``, with their values from the row, or from ``primary_key`` for a column that
  ``exclude_columns`` took out. Without either there is no ``record_key``.
- ``output_naming_strategy=underscore_to_camelcase`` changes the names of fields and of the row's
  columns, not those of keys: both are read.
- Values stay as they were sent: times are MySQL's text without a zone, binary is base64, sets are
  arrays, JSON columns are JSON.
- With ``output_nulls=false`` a column that was null is not in ``old``: the row before then has the
  value from after the change. After a change, a column that is not in ``data`` is null.
- A message of Maxwell's dead letter topic (``reason``, and only the key in ``data``) is
  ``bad_field``, because the rest of the row is missing. So is an encrypted row or message
  (``encrypted``; in older versions, ``data`` that is text).
- A row may lack database and table: it belongs to no table, like Debezium's without ``source``.
- ENUM is a label and SET an array of labels; the empty label of an ENUM is null.
- Other types are ``bad_type``; a name that comes twice in one object is ``bad_field``.
"""

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

from python_udfs.core.errors import BadField, BadShape, BadType, DecodeError
from python_udfs.core.events import (
    DELETE,
    INSERT,
    MAX_TIME_MS,
    MESSAGE,
    SCHEMA_CHANGE,
    SNAPSHOT,
    TOMBSTONE,
    UPDATE,
    Event,
    invalid,
)
from python_udfs.text.json_as_sent import (
    canonical,
    encode,
    kind_of,
    load_key,
    load_whole,
    metadata_of,
    shown,
)
from python_udfs.text.numbers import plain_numbers

OPERATIONS: Final = {
    "insert": INSERT,
    "update": UPDATE,
    "delete": DELETE,
    "bootstrap-insert": SNAPSHOT,
    "bootstrap-start": MESSAGE,
    "bootstrap-complete": MESSAGE,
    **{
        f"{what}-{change}": SCHEMA_CHANGE
        for what in ("table", "database")
        for change in ("create", "alter", "drop")
    },
}
ROWS: Final = frozenset({INSERT, UPDATE, DELETE, SNAPSHOT})
# Fields with a column of their own.
_TAKEN: Final = ("database", "table")
_TAKEN_OF_ROWS: Final = (*_TAKEN, "type", "data")
_ENCRYPTED: Final = "encrypted"
_HOW_TO_READ: Final = "encrypted: set Maxwell's encrypt to none"
PK: Final = "pk."
"""Prefixes a column's name in a Kafka key that is an object."""
COLUMNS: Final = "primary_key_columns"
VALUES: Final = "primary_key"
_UNDERSCORE: Final = re.compile("_(.?)", re.DOTALL)
# As seconds it is the year 5138, as milliseconds March 1973.
_FIRST_MS: Final = 10**11


class _Key(NamedTuple):
    """A Kafka key."""

    metadata: dict[str, Any]
    """The key's part of an event's metadata; empty without a key."""
    columns: dict[str, Any] | None = None
    """The columns of the row's key, by their names in lower case."""
    database: str | None = None
    table: str | None = None


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    event_key = _read_key(key)
    try:
        message = load_whole(value) if value else None
        if message is None or message == "default":
            return [_tombstone(event_key)]
        return [_event(message, event_key)]
    except DecodeError as error:
        return [invalid(error, metadata=_metadata({}, event_key))]


def _event(message: Any, key: _Key) -> Event:
    if type(message) is not dict:
        raise BadShape(f"$: expected an object, got {kind_of(message)}")
    if _ENCRYPTED in message and not message.get("data"):
        raise BadField(f"$.{_ENCRYPTED}: the row is {_HOW_TO_READ}")
    type_name = message.get("type")
    if type(type_name) is not str:
        raise BadField(f"$.type: expected a string, got {_found(message, 'type')}")
    operation = OPERATIONS.get(type_name)
    if operation is None:
        raise BadType(f"$.type: expected one of {', '.join(OPERATIONS)}, got {shown(type_name)}")
    is_row = operation in ROWS
    if "reason" in message and "ts" not in message:
        raise BadField("$.reason: only a key, in place of a message that Maxwell could not send")
    database = _text(message, "database")
    table = None
    if is_row or "table" in message:
        table = _text(message, "table")
    before = after = record_key = None
    if is_row:
        row = message.get("data")
        if type(row) is not dict or not row:
            got = "an empty one" if row == {} else _found(message, "data")
            if type(row) is str:
                got = f"text, as of a row that is {_HOW_TO_READ}"
            raise BadField(f"$.data: expected an object with the columns of a row, got {got}")
        record_key = _record_key(message, row, key)
        if operation == DELETE:
            before = encode(row)
        else:
            after = encode(row)
            if operation == UPDATE:
                before = _before(message, row)
    occurred_at = _occurred_at(message)
    for name in _TAKEN_OF_ROWS if is_row else _TAKEN:
        message.pop(name, None)
    metadata = _metadata(message, key)
    return Event(
        0,
        operation,
        database,
        None,
        table,
        record_key,
        before,
        after,
        occurred_at,
        None,
        metadata,
    )


def _before(message: dict[str, Any], row: dict[str, Any]) -> bytes | None:
    """The row before an update; None if the message does not tell it."""
    old = message.pop("old", None)
    if old is None:
        return None
    if type(old) is not dict:
        raise BadField(f"$.old: expected an object or null, got {kind_of(old)}")
    return encode(row | old)


def _record_key(message: dict[str, Any], row: dict[str, Any], key: _Key) -> bytes | None:
    if key.columns:
        columns = key.columns
        if not columns.keys() <= row.keys():
            columns = {name_in(row, name) or name: each for name, each in columns.items()}
        return _key_text(columns)
    is_camel = COLUMNS not in message and camel(COLUMNS) in message
    field, field_of_values = map(camel, (COLUMNS, VALUES)) if is_camel else (COLUMNS, VALUES)
    names, values = message.get(field), message.get(field_of_values)
    if type(names) is not list or not names:
        return None
    if not all(type(name) is str for name in names):
        raise BadField(f"$.{field}: expected names of columns")
    if type(values) is not list or len(values) != len(names):
        values = None
    columns = {}
    for place, name in enumerate(names):
        in_row = name_in(row, name)
        if in_row is not None:
            columns[in_row] = row[in_row]
        elif values is not None:
            columns[camel(name) if is_camel else name] = values[place]
        else:
            raise BadField(
                f"$.{field}: {shown(name)} is not a column in data: if exclude_columns removes it,"
                " set Maxwell's output_primary_keys"
            )
    return _key_text(columns)


def _key_text(columns: dict[str, Any]) -> bytes:
    return canonical(plain_numbers(columns))


def name_in(row: dict[str, Any], name: str) -> str | None:
    """The row's name for a column, which a key has in lower case, and never in camel case; None
    if the row has no such name, or two.
    """
    in_camel = camel(name)
    for same in (name, in_camel):
        if same in row:
            return same
    for folded in (name.lower(), in_camel.lower()):
        found = [each for each in row if each.lower() == folded]
        if found:
            return found[0] if len(found) == 1 else None
    return None


@lru_cache(4096)
def camel(name: str) -> str:
    """A name as ``underscore_to_camelcase`` changes it."""
    head = name.lstrip("_")
    return _UNDERSCORE.sub(lambda match: match[1].upper(), head) or name


def _occurred_at(message: dict[str, Any]) -> int | None:
    time = message.get("ts")
    if time is None:
        return None
    if type(time) is not int:
        raise BadField(f"$.ts: expected an integer, got {kind_of(time)}")
    return milliseconds(time)


def milliseconds(time: int) -> int | None:
    """A time of Maxwell's in milliseconds; None for zero, and beyond the range of timestamps."""
    found = time if time >= _FIRST_MS else time * 1000
    return found if 0 < found <= MAX_TIME_MS else None


def _text(message: dict[str, Any], name: str) -> str | None:
    text = message.get(name)
    if type(text) is not str and text is not None:
        raise BadField(f"$.{name}: expected a name, got {_found(message, name)}")
    return text or None


def _found(message: dict[str, Any], name: str) -> str:
    return kind_of(message[name]) if name in message else "nothing"


def _read_key(key: bytes | None) -> _Key:
    """A Kafka key. A key that is not Maxwell's is not an error: it is kept."""
    tree, metadata = load_key(key)
    database = table = None
    columns: dict[str, Any] = {}
    if type(tree) is dict:
        database, table = tree.get("database"), tree.get("table")
        columns = {
            name.removeprefix(PK): each for name, each in tree.items() if name.startswith(PK)
        }
    elif type(tree) is list and len(tree) == 3:
        database, table, parts = tree
        for part in parts if type(parts) is list else [parts]:
            columns |= part if type(part) is dict else {}
    if type(database) is not str or type(table) is not str:
        return _Key(metadata)
    return _Key(metadata, columns, database, table)


def _tombstone(key: _Key) -> Event:
    record_key = _key_text(key.columns) if key.columns else None
    metadata = _metadata({}, key)
    return Event(0, TOMBSTONE, key.database, None, key.table, record_key, metadata=metadata)


def _metadata(rest: dict[str, Any], key: _Key) -> bytes | None:
    metadata = metadata_of(rest, key.metadata)
    return encode(metadata) if metadata else None
