"""``debezium_unwrapped_json``: rows that Debezium's ExtractNewRecordState took out of envelopes.

Implements the page "New Record State Extraction". The value is the row, wrapped with its schema
block or bare; fields that the transform's options add have two underscores before their names:

    key    {"id": 1003}
    value  {"id": 1003, "first_name": "Edward", "__deleted": "false", "__op": "c",
            "__db": "inventory", "__table": "customers", "__source_ts_ms": 1791036096666}

- ``__deleted``: with ``true`` the row is the one before the delete. Rows have the field if
  ``delete.handling.mode`` or ``delete.tombstone.handling.mode`` is a rewriting mode.
- ``__op``: r, c, u, d, as in an envelope, and Cassandra's i. Without it a row that is not deleted
  is an ``upsert``.
- Rows of cells (``cells``) are recognised and read as in an envelope: by ``__connector``, the shape
  of the row and the Kafka key.
- Whatever else ``add.fields`` names, of the envelope (``ts_ms``, ``transaction.id``) or of its
  source (``table``, ``source.ts_ms``): ``metadata`` has it where the envelope has it, the latter in
  ``source``. ``source.ts_ms`` is ``occurred_at``.
- A null value with a row's key is a ``delete``, the only sign of one in the other modes. One with
  another key (``1003``, as ExtractField leaves it) is ``bad_field``: a delete would be lost without
  a trace. Without a key, or with ``"default"``, it is a ``tombstone``.
- ``add.headers``: Kafka headers of the same names, with the same meaning as fields that the row
  lacks. Their values are JSON, with or without a schema block, or plain text, by the header
  converter; unreadable ones are ignored.
- MongoDB's keys (``{"id": "{\\"$oid\\": ...}"}``) are keys by ``_id``, as in the documents.

Missing data, and policies:

- Rows without ``__deleted`` have no database, schema or table, whatever fields were added to them:
  the null values that delete them name none, and both must belong to one table. It is the topic's:
  a model selects it by ``topic``. Rows with ``__deleted`` have the added names; after their deletes
  a null value deletes once more, in no table, which changes nothing. Names in headers always count,
  because null values that delete have them too.
- There is no row before an update.
- Fields with another prefix (``add.fields.prefix``), and those with names that neither an envelope
  nor a source block has, are columns; such headers are ignored.
- Another ``__op`` is ``bad_type``, and one other than ``d`` with a true ``__deleted`` is
  ``bad_field``. An envelope is ``bad_shape``: its format is ``debezium_json``. Heartbeats,
  transaction markers and schema changes are recognised by the names of their schema blocks, bare
  heartbeats by their key, and are the same events as there.
- ``schema`` and ``payload`` are columns if they are not a schema block and a row, or not alone; in
  a key, if ``schema`` is missing or not a schema block.

Schema blocks, types, keys and all else are as in ``debezium_json``.
"""

import re
from collections.abc import Callable, Sequence
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
    Headers,
    invalid,
)
from python_udfs.debezium import cells, envelope, mongodb
from python_udfs.debezium.source_block import milliseconds_of
from python_udfs.debezium.types import (
    NOTHING,
    PREFIXES_OF_KEYS,
    PREFIXES_OF_VALUES,
    Notes,
    Schema,
    plain_placeholders,
)
from python_udfs.text.json_as_sent import encode, kind_of, load, load_whole, shown
from python_udfs.text.numbers import plain_numbers

PREFIX: Final = "__"
OPERATIONS: Final = {"r": SNAPSHOT, "c": INSERT, "u": UPDATE, "d": DELETE}
_DELETED: Final = {"true": True, "false": False, True: True, False: False}
# Fields of an envelope that can be added, and of the source blocks of Debezium's connectors.
_OF_ENVELOPE: Final = frozenset({"op", "deleted", "ts_ms", "ts_us", "ts_ns"})
_OF_TRANSACTION: Final = frozenset({"total_order", "data_collection_order"})
_OF_SOURCE: Final = frozenset(
    """version connector name snapshot db sequence schema table keyspace collection
    server_id gtid file pos row thread query
    lsn txId xmin lsn_proc lsn_commit origin origin_lsn last_snapshot_record
    change_lsn commit_lsn begin_lsn event_serial_no
    scn commit_scn lcr_position rs_id ssn redo_thread user_name txSeq scn_idx
    start_scn start_ts_ms commit_ts_ms row_id redo_sql
    rs ord tord stxnid lsid txnNumber wallTime
    vgtid shard cluster ts_sec ts_usec
    project_id instance_id database_id change_stream_name server_transaction_id low_watermark
    read_at_timestamp number_of_records_in_transaction transaction_tag system_transaction
    value_capture_type partition_token mod_number is_last_record_in_transaction_in_partition
    number_of_partitions_in_transaction""".split()
)
# Those among them that are numbers: in a plain text header they look like any text.
_NUMBERS: Final = frozenset(
    """ts_ms ts_us ts_ns ts_sec ts_usec server_id pos row thread lsn lsn_proc lsn_commit txId xmin
    origin_lsn event_serial_no ssn redo_thread txSeq start_ts_ms commit_ts_ms ord tord txnNumber
    wallTime total_order data_collection_order""".split()
)
_MESSAGES: Final = (
    ".Heartbeat",
    ".TransactionMetadataValue",
    ".Notification",
    ".SchemaChangeValue",
)
_PAYLOAD: Final = b'"payload"'
_ESCAPED_LETTER: Final = rb"\u00"
_DATABASE: Final = ("source_db", "db")
_SCHEMA: Final = ("source_schema", "schema", "source_keyspace", "keyspace")
_TABLE: Final = ("source_table", "table", "source_collection", "collection")
NAMING: Final = (_DATABASE, _SCHEMA, _TABLE)
"""The fields that name the database, the schema and the table of a row; the first one present
counts.
"""
_PARTS: Final = ("source", "transaction", "updateDescription")
_PREFIXES: Final = tuple(f"{part}_" for part in _PARTS)
# The only fields of an envelope in which at most one image is an object.
_ENVELOPE: Final = frozenset(
    "op before after source transaction ts_ms ts_us ts_ns message filter patch"
    " updateDescription".split()
)
_TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
HEARTBEAT: Final = "serverName"
"""The name in a heartbeat's key."""
EXTENDED: Final = b'\\"$'
"""Marks a key that may be MongoDB's, whose ``_id`` is Extended JSON in a text."""
_EXTENDED: Final = re.compile(r'\s*\{\s*"\$')
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)


def decode(key: bytes | None, value: bytes | None, headers: Headers | None = None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    event_key = envelope.with_other_key(_read_key(key, notes), headers, _take_apart_key)
    return [read(event_key, value, headers, _take_apart)]


def read(
    key: envelope.Key,
    value: bytes | None,
    headers: Headers | None,
    take_apart: Callable[[bytes, Budget], envelope.Content],
) -> Event:
    """The event of a message with that key, with the function that takes a value apart."""
    try:
        said = said_by(headers) if headers else {}
        if key.record_key is not None and EXTENDED in key.record_key:
            key = _of_document(key)
        if not value:
            return _null(key, said)
        return _event(key, take_apart(value, key.notes.budget), said)
    except DecodeError as error:
        return invalid(error, metadata=encode(key.metadata) if key.metadata else None)


def _null(key: envelope.Key, said: dict[str, Any]) -> Event:
    operation = DELETE
    if key.record_key is None:
        is_encoded = "event_key_encoding" in key.metadata
        sent = None
        if key.metadata and not is_encoded:
            sent = load(bytes(key.metadata["event_key"]))
        if is_encoded or not (sent is None or sent == "default"):
            found = "bytes that can't be read" if is_encoded else kind_of(sent)
            found = "one without" if sent == {} else found
            raise BadField(
                "a null value deletes the row of the Kafka key, but this key names no row: expected"
                f" an object with the key's columns, got {found}; remove the transform"
                " ExtractField$Key, which replaces the object by one of its fields"
            )
        if said.get("op") == "d":
            raise BadField(
                "a null value with d in the header __op, and the Kafka key names no row: what was"
                " deleted?"
            )
        operation = TOMBSTONE
    fields = as_envelope(said)
    known = _cells_of(fields, (), NOTHING, key)
    if operation == DELETE and known.form is not None:
        cells.refuse_ranges("header.__connector", "d", None, known)
    database, schema, table = (_name("header", said, names) for names in NAMING)
    key = key.named()
    return Event(
        0,
        operation,
        database,
        schema,
        table,
        key.record_key,
        occurred_at=_occurred_at("header", said),
        metadata=envelope.metadata_of(fields, key, key.notes),
    )


def _of_document(key: envelope.Key) -> envelope.Key:
    """A key by ``_id``, if it is MongoDB's."""
    columns = load(key.record_key or b"{}")
    text = columns.get("id")
    if len(columns) != 1 or type(text) is not str or not _EXTENDED.match(text):
        return key
    identity = mongodb.identity_of(text)
    return key if identity is None else key._replace(record_key=encode(plain_numbers(identity)))


def may_be_wrapped(text: bytes) -> bool:
    """Whether a text may contain a payload, with or without a schema block; letters may be
    escaped.
    """
    return _PAYLOAD in text or _ESCAPED_LETTER in text


def _read_key(key: bytes | None, notes: Notes) -> envelope.Key:
    if not key or not may_be_wrapped(key):
        return envelope.read_key(key, False, notes)
    return envelope.key_of(key, lambda: _take_apart_key(key), notes)


def _take_apart_key(key: bytes) -> envelope.Content:
    try:
        content = envelope.take_apart(key, False, PREFIXES_OF_KEYS)
        if content.schema is not NOTHING or type(content.payload) is dict:
            return content
    except DecodeError:
        content = None
    columns = load_whole(key)
    if type(columns) is dict and type(columns.get("schema", "")) not in (dict, type(None)):
        return envelope.Content(columns, NOTHING, False)
    if content is None:
        raise BadShape("$: a schema block that can't be read")
    return content


def _take_apart(value: bytes, budget: Budget) -> envelope.Content:
    if value[0] == 0:
        raise NotJson(envelope.framed(value, "debezium_unwrapped_avro"))
    if not may_be_wrapped(value):
        return envelope.Content(load_whole(value), NOTHING, False)
    try:
        content = envelope.take_apart(value, False, PREFIXES_OF_VALUES)
    except DecodeError:
        # A text that is not JSON fails here.
        row = load_whole(value)
        if type(row) is not dict or _is_wrapper(row):
            raise
        return envelope.Content(row, NOTHING, False)
    if not content.wrapped or (not content.beside and _may_be_row(content.payload)):
        return content
    # Columns of these names.
    return envelope.Content(load_whole(value), NOTHING, False)


def _is_wrapper(row: dict[str, Any]) -> bool:
    is_whole = row.keys() == {"schema", "payload"}
    return is_whole and type(row["schema"]) is dict and _may_be_row(row["payload"])


def _may_be_row(payload: Any) -> bool:
    return type(payload) is dict or payload is None or payload == "default"


def _event(key: envelope.Key, content: envelope.Content, said: dict[str, Any]) -> Event:
    row = content.payload
    root = "$.payload" if content.wrapped else "$"
    if row is None:
        return _null(key, said)
    if row == "default":
        return Event(0, TOMBSTONE, record_key=key.record_key, metadata=encode(key.metadata))
    if type(row) is not dict:
        raise BadShape(f"{root}: expected a row, got {kind_of(row)}")
    if "op" in row and _is_envelope(row):
        raise BadShape(
            f"{root}: an envelope with op, before and after: its format is debezium_json, of Avro"
            " debezium_avro"
        )
    if envelope.is_cloud_event(row):
        raise BadShape(envelope.cloud_event(root))
    is_resolved = key.record_key is None and envelope.is_resolved(row)
    if is_resolved or is_message(content.schema.name) or _is_heartbeat(key, row):
        other = envelope.message_of(key, content, row)
        if other is not None:
            return other
    names = [name for name in row if name[:2] == PREFIX]
    added = {name[2:]: row.pop(name) for name in names if is_added_name(name)}
    naming = added if "deleted" in added else {}
    if said:
        # The row's own fields come first.
        naming, added = said | naming, said | added
    fields = as_envelope(added)
    known = _cells_of(fields, (row,), content.schema, key)
    operation = _operation(root, added, known)
    op = "d" if operation == DELETE else added.get("op") or operation
    name = "before" if operation == DELETE else "after"
    database, schema, table = (_name(root, naming, names) for names in NAMING)
    occurred_at = _occurred_at(root, added)
    notes = key.notes
    image = told = None
    if known.form is not None:
        cells.refuse_ranges(f"{root}.__op" if "op" in added else root, op, row, known)
        cells.plain_placeholders_in(row)
    if row:
        plain_placeholders(row)
        if content.schema is not NOTHING:
            notes = notes.to_go_on()
            content.schema.convert(row, (None, name), notes)
        if known.form is not None:
            told = cells.plain(row, known, op, is_after=operation != DELETE)
    if row:
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
        envelope.metadata_of(fields, key, notes, content, told={name: told} if told else None),
    )


def _cells_of(
    fields: dict[str, Any], images: Sequence[Any], schema: Schema, key: envelope.Key
) -> cells.Cells:
    """The known facts about cells, as for an envelope with these fields."""
    connector = fields.get("source", {}).get("connector")
    return cells.cells_of(connector, images, (schema,), key.record_key, key.is_of_pairs)


def _is_envelope(row: dict[str, Any]) -> bool:
    """For a row with a column ``op``: whether it is an envelope."""
    before, after, source = (type(row.get(name)) is dict for name in ("before", "after", "source"))
    has_image = before or after
    return (has_image and source) or ((has_image or source) and row.keys() <= _ENVELOPE)


def is_message(schema_name: str | None) -> bool:
    """Whether a schema of this name is for a message of the connector's own rather than a row."""
    return (schema_name or "").endswith(_MESSAGES)


def _is_heartbeat(key: envelope.Key, row: dict[str, Any]) -> bool:
    """Whether it is a heartbeat without its schema block."""
    return (
        row.keys() <= _TIMES
        and key.record_key is not None
        and load(key.record_key).keys() == {HEARTBEAT}
    )


# --- Headers --------------------------------------------------------------------------------------


def has_said(headers: Headers | None) -> bool:
    """Whether headers have information about a row."""
    return envelope.names_other_key(headers) or any(
        is_added_name(_field_name(name)) for name, _ in headers or ()
    )


def said_by(headers: Headers) -> dict[str, Any]:
    """The fields that the transform adds in headers, by their names without prefix."""
    said: dict[str, Any] = {}
    for name, value in headers:
        added = _field_name(name)
        if value is not None and is_added_name(added):
            found = _header(added[len(PREFIX) :], value)
            if found is not None:
                said[added[len(PREFIX) :]] = found
    return said


def _field_name(header: str) -> str:
    return header.replace(".", "_", 1)


def _header(field: str, value: bytes) -> Any:
    """A header's value in a field's form; None without information."""
    try:
        text = value.decode()
        if text[:1] in ("{", '"'):
            found = load_whole(value)
            is_wrapped = type(found) is dict and found.keys() == {"schema", "payload"}
            return found["payload"] if is_wrapped else found
    except (UnicodeDecodeError, DecodeError):
        return None
    if not text or text == "null":
        return None
    # In plain text, numbers look like all other text.
    part, _, own = field.partition("_")
    is_number = (own if part in _PARTS else field) in _NUMBERS
    return int(text) if is_number and _INTEGER.fullmatch(text) else text


def is_likely(event: Event) -> bool:
    """Whether an event shows that its message was an unwrapped row: by added fields, or by the
    Kafka key, whose columns it has.
    """
    if event.before is None and event.after is None:
        return False
    metadata = load(event.metadata or b"{}")
    if event.operation != UPSERT or "deleted" in metadata or "source" in metadata:
        return True
    key, row = load(event.record_key or b"{}"), load(event.after or b"{}")
    return bool(key) and key.keys() <= row.keys()


def may_be_no_row(row: dict[str, Any]) -> bool:
    """Whether an object may be a message of a writer without such rows."""
    return envelope.is_cloud_event(row) or envelope.may_be_resolved(row)


def is_added_name(name: str) -> bool:
    """Whether the transform has added the field of this name."""
    if name[:2] != PREFIX:
        return False
    field = name[2:]
    is_known = field in _OF_ENVELOPE or field in _OF_SOURCE or field in _OF_TRANSACTION
    return is_known or field.startswith(_PREFIXES)


def _operation(root: str, added: dict[str, Any], known: cells.Cells) -> str:
    deleted, op = added.get("deleted"), added.get("op")
    is_deleted = _DELETED.get(deleted) if type(deleted) in (str, bool) else None
    if deleted is not None and is_deleted is None:
        raise BadField(f'{root}.__deleted: expected "true" or "false", got {kind_of(deleted)}')
    if op is None:
        return DELETE if is_deleted else UPSERT
    if type(op) is not str:
        raise BadField(f"{root}.__op: expected a string, got {kind_of(op)}")
    operation = known.operation_of(op, OPERATIONS.get(op))
    if operation is None:
        raise BadType(f"{root}.__op: expected one of {', '.join(OPERATIONS)}, got {shown(op)}")
    if is_deleted and operation != DELETE:
        raise BadField(f"{root}.__op: expected d, for __deleted is true, got {shown(op)}")
    return operation


def _name(root: str, added: dict[str, Any], fields: Sequence[str]) -> str | None:
    for name in fields:
        value = added.get(name)
        if type(value) is str and value:
            return value
        if value is not None and type(value) is not str:
            raise BadField(f"{root}.__{name}: expected a string or null, got {kind_of(value)}")
    return None


def _occurred_at(root: str, added: dict[str, Any]) -> int | None:
    time = added.get("source_ts_ms")
    if type(time) is not int:
        time = milliseconds_of(f"{root}.__source_ts_ms", time)
    return time if time and 0 < time <= MAX_TIME_MS else None


def as_envelope(added: dict[str, Any]) -> dict[str, Any]:
    """The added fields, arranged as in an envelope."""
    fields: dict[str, Any] = {}
    for name, value in added.items():
        if name in _OF_ENVELOPE:
            fields[name] = value
            continue
        part, _, field = name.partition("_")
        if part not in _PARTS or not field:
            part, field = "transaction" if name in _OF_TRANSACTION else "source", name
        known = fields.setdefault(part, {})
        if field in known:
            fields[PREFIX + name] = value
        else:
            known[field] = value
    return fields
