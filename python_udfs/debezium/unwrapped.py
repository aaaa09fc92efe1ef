"""``debezium_unwrapped_json``: rows that Debezium's ExtractNewRecordState took out of envelopes.

Implements the page "New Record State Extraction". The value is the row, wrapped with its schema
block or bare; what the transform's options add to it has two underscores before its name:

    key    {"id": 1003}
    value  {"id": 1003, "first_name": "Edward", "__deleted": "false", "__op": "c",
            "__db": "inventory", "__table": "customers", "__source_ts_ms": 1791036096666}

- ``__deleted``: the row of ``true`` is the one before the delete. Rows have it if
  ``delete.handling.mode`` or ``delete.tombstone.handling.mode`` is one that rewrites.
- ``__op``: r, c, u, d, as in an envelope. Without it a row that is not deleted is an ``upsert``.
- Whatever else ``add.fields`` names, of the envelope (``ts_ms``, ``transaction.id``) or of its
  source (``table``, ``source.ts_ms``): ``metadata`` has it where the envelope has it, the latter in
  ``source``. ``source.ts_ms`` is ``occurred_at``.
- A null value with a row's key is a ``delete``: of the other modes nothing else says so.

What is not there, and the policies:

- Rows without ``__deleted`` have no database, schema or table, whatever was added to them: the null
  values that delete them say none, and both must be of one table. It is the topic's: a model asks
  for it by ``topic``. Rows with ``__deleted`` have the names that were added; behind their deletes
  a null value deletes once more, of no table, which changes nothing.
- There is no row before an update.
- Headers (``add.headers``) are not read: they stay in bronze.
- Fields with another prefix (``add.fields.prefix``), and those with names that neither an envelope
  nor a source block has, are columns.
- An ``__op`` that is no such letter is ``bad_type``. An envelope is ``bad_shape``: its format is
  ``debezium_json``. Heartbeats, transaction markers and schema changes are told by the names of
  their schema blocks, and are what they are there.

Schema blocks, types, keys and all else are as in ``debezium_json``.
"""

from typing import Any, Final

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, BadShape, BadType, DecodeError, NotJson
from python_udfs.core.events import (
    DELETE,
    INSERT,
    MAX_TIME_MS,
    SNAPSHOT,
    TOMBSTONE,
    UPDATE,
    UPSERT,
    Event,
    invalid,
)
from python_udfs.debezium import envelope
from python_udfs.debezium.types import NOTHING, PREFIXES_OF_VALUES, Notes, plain_placeholders
from python_udfs.text.json_as_sent import encode, kind_of, load, load_whole, shown

PREFIX: Final = "__"
OPERATIONS: Final = {"r": SNAPSHOT, "c": INSERT, "u": UPDATE, "d": DELETE}
_DELETED: Final = {"true": True, "false": False, True: True, False: False}
# Fields of an envelope that can be added, and of the source blocks of Debezium's connectors.
_OF_ENVELOPE: Final = frozenset({"op", "deleted", "ts_ms", "ts_us", "ts_ns"})
_OF_SOURCE: Final = frozenset(
    """version connector name snapshot db sequence schema table keyspace collection
    server_id gtid file pos row thread query lsn txId xmin lsn_proc lsn_commit
    change_lsn commit_lsn event_serial_no scn commit_scn lcr_position rs_id ssn redo_thread
    user_name vgtid shard start_scn start_ts_ms commit_ts_ms row_id redo_sql""".split()
)
_MESSAGES: Final = (
    ".Heartbeat",
    ".TransactionMetadataValue",
    ".Notification",
    ".SchemaChangeValue",
)
PAYLOAD: Final = b'"payload"'
NAMING: Final = ("db", "schema", "table")
_PARTS: Final = ("source", "transaction")


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """The change event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    event_key = envelope.read_key(key, False, notes)
    try:
        if not value:
            return [_null(event_key)]
        return [_event(event_key, value)]
    except DecodeError as error:
        return [invalid(error, metadata=encode(event_key.metadata) if event_key.metadata else None)]


def _null(key: envelope.Key) -> Event:
    operation = TOMBSTONE if key.record_key is None else DELETE
    metadata = envelope.metadata_of({}, key, key.notes)
    return Event(0, operation, record_key=key.record_key, metadata=metadata)


def _event(key: envelope.Key, value: bytes) -> Event:
    if value[0] == 0:
        raise NotJson(envelope.framed(value))
    if PAYLOAD in value:
        content = envelope.take_apart(value, False, PREFIXES_OF_VALUES)
    else:
        content = envelope.Content(load_whole(value), NOTHING, False)
    row = content.payload
    root = "$.payload" if content.wrapped else "$"
    if row is None:
        return _null(key)
    if row == "default":
        return Event(0, TOMBSTONE, record_key=key.record_key, metadata=encode(key.metadata))
    if type(row) is not dict:
        raise BadShape(f"{root}: expected a row, got {kind_of(row)}")
    if "op" in row and dict in map(type, map(row.get, ("before", "after", "source"))):
        raise BadShape(
            f"{root}: an envelope with op, before and after: its format is debezium_json"
        )
    if (content.schema.name or "").endswith(_MESSAGES):
        other = envelope.message_of(key, content, row)
        if other is not None:
            return other
    names = [name for name in row if name[:2] == PREFIX]
    added = {name[2:]: row.pop(name) for name in names if is_added_name(name)}
    operation = _operation(root, added)
    database = schema = table = None
    if "deleted" in added:
        database, schema, table = (_name(root, added, field) for field in NAMING)
    occurred_at = _occurred_at(root, added)
    notes = key.notes
    image = None
    if row:
        plain_placeholders(row)
        if content.wrapped:
            notes = notes.to_go_on()
            content.schema.convert(row, (None, "before" if operation == DELETE else "after"), notes)
        image = encode(row)
    elif operation != DELETE:
        raise BadShape(f"{root}: expected a row, got an object without columns")
    elif key.record_key is None:
        raise BadField(f"{root}: no columns, and the Kafka key names no row: what was deleted?")
    return Event(
        0,
        operation,
        database,
        schema,
        table,
        key.record_key,
        image if operation == DELETE else None,
        None if operation == DELETE else image,
        occurred_at,
        None,
        envelope.metadata_of(as_envelope(added), key, notes, content),
    )


def is_likely(event: Event) -> bool:
    """Whether an event shows that its message was an unwrapped row: by what was added to it, or by
    the Kafka key, whose columns it has.
    """
    if event.before is None and event.after is None:
        return False
    metadata = load(event.metadata or b"{}")
    if event.operation != UPSERT or "deleted" in metadata or "source" in metadata:
        return True
    key, row = load(event.record_key or b"{}"), load(event.after or b"{}")
    return bool(key) and key.keys() <= row.keys()


def is_added_name(name: str) -> bool:
    """Whether the transform has added the field of this name."""
    if name[:2] != PREFIX:
        return False
    field = name[2:]
    is_known = field in _OF_ENVELOPE or field in _OF_SOURCE
    return is_known or field.startswith(("source_", "transaction_"))


def _operation(root: str, added: dict[str, Any]) -> str:
    deleted = added.get("deleted")
    if deleted is not None:
        is_deleted = _DELETED.get(deleted) if type(deleted) in (str, bool) else None
        if is_deleted is None:
            raise BadField(f'{root}.__deleted: expected "true" or "false", got {kind_of(deleted)}')
        if is_deleted:
            return DELETE
    op = added.get("op")
    if op is None:
        return UPSERT
    if type(op) is not str:
        raise BadField(f"{root}.__op: expected a string, got {kind_of(op)}")
    operation = OPERATIONS.get(op)
    if operation is None:
        raise BadType(f"{root}.__op: expected one of {', '.join(OPERATIONS)}, got {shown(op)}")
    return operation


def _name(root: str, added: dict[str, Any], field: str) -> str | None:
    for name in (f"source_{field}", field):
        value = added.get(name)
        if type(value) is str and value:
            return value
        if value is not None and type(value) is not str:
            raise BadField(f"{root}.__{name}: expected a string or null, got {kind_of(value)}")
    return None


def _occurred_at(root: str, added: dict[str, Any]) -> int | None:
    time = added.get("source_ts_ms")
    if type(time) is not int:
        time = envelope.milliseconds_of(f"{root}.__source_ts_ms", time)
    return time if time and 0 < time <= MAX_TIME_MS else None


def as_envelope(added: dict[str, Any]) -> dict[str, Any]:
    """What was added, where an envelope has it."""
    fields: dict[str, Any] = {}
    for name, value in added.items():
        if name in _OF_ENVELOPE:
            fields[name] = value
            continue
        part, _, field = name.partition("_")
        if part not in _PARTS or not field:
            part, field = "source", name
        known = fields.setdefault(part, {})
        if field in known:
            fields[PREFIX + name] = value
        else:
            known[field] = value
    return fields
