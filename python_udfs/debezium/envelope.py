"""The envelope of the Debezium family, for ``debezium_json``, ``arcion_json``, ``lindorm_json``.

A message is a Kafka key and a value, both JSON as Kafka Connect's JsonConverter writes it, with a
schema block or without:

    {"schema": {"type": "struct", "name": "tpch.region.Envelope", "fields": [   or absent, null, {}
        {"field": "before", "type": "struct", "fields": [...]},                types of the images
        {"field": "after",  "type": "struct", "fields": [...]}, ...]},
     "payload": {"op": "u", "ts_ms": 1677138289062,                            or this object alone
        "before": {"r_regionkey": "0", ...}, "after": {"r_regionkey": "0", ...},
        "source": {"connector": "MYSQL", "db": "tpch", "schema": null, "table": "region",
                   "ts_ms": 1677158088000, ...},
        "transaction": {"id": "", "total_order": 1}}}

The key is a row of the key columns, wrapped in the same way. Sources: the connector pages of
Debezium's documentation ("Data change events"), the JSON CDC format page of Arcion, the Data format
page of Lindorm. ``types`` types the images by the schema block.

Messages that change no row:

- ``tombstone``: no value, zero bytes, JSON ``null``, ``"default"``, and either of them as payload;
  ``metadata.event_key_schema`` is the name of its key's schema, which names the table
- ``message``: op ``m``, heartbeats, transaction markers, notifications, CockroachDB's ``resolved``;
  all fields in ``metadata``
- ``schema_change``: an object with ``ddl`` or ``tableChanges``; all fields in ``metadata``
- ``invalid``, because they are other formats: an unwrapped row, a CloudEvents message, a payload
  framed by Confluent's schema registry

``mongodb`` reads the images of MongoDB's envelopes, which are texts; ``cells`` those of Cassandra,
ScyllaDB and YugabyteDB, whose columns are objects.

``metadata``: ``connector``, ``snapshot``, ``source``, ``transaction``, ``ts_ms``, ``schema_name``
and ``event_key`` (if the message has them), every other field of the envelope under its own name,
and

    event_key_encoding  "base64" if the key could not be decoded
    bson                of MongoDB's documents: the types of their values
    cells               of rows of cells: what cells say beside their values
    untyped             paths of values that don't fit the type the schema declares: kept as sent
    as_sent             path -> the text of a zoned timestamp without seconds, or with another
                        offset than Z
    old_key, new_key    of a key update, see below: the JSON text of a record key
    envelope            fields of the envelope whose names are taken by one of the above
    wrapper             fields beside ``schema`` and ``payload``; event_key_wrapper: in the key

If a row's key changes, Debezium's connectors write a delete of the old key, with its tombstone, and
an insert of the new one. Each names the other's key in a Kafka header, ``__debezium.newkey`` and
``__debezium.oldkey``. The insert has placeholders for values of the old key's row that the source
did not log. A header's value depends on its converter: JSON text without a schema and with raw
control characters (SimpleHeaderConverter, the default), or the form of keys. An unreadable one is
ignored.

Policies for undocumented cases:

- A name that comes twice in one object is ``bad_field``: neither value may be dropped.
- An ``op`` that is missing or not a string is ``bad_field``, an unknown one ``bad_type``.
- For ``source`` see ``source_block``.
- A key other than a JSON object (``"default"``, ``1001``) gives no ``record_key``, nor does ``{}``.
  A number in a ``record_key`` has one text, however it was sent (``keys``); ``event_key`` has it as
  it was sent.
"""

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from python_udfs.core.budget import Budget
from python_udfs.core.errors import (
    BadField,
    BadShape,
    BadType,
    DecodeError,
    NotJson,
    TooLarge,
)
from python_udfs.core.events import (
    DELETE,
    INSERT,
    KEY_UPDATE_NOTES,
    MESSAGE,
    SCHEMA_CHANGE,
    SNAPSHOT,
    TOMBSTONE,
    TRUNCATE,
    UPDATE,
    UPSERT,
    Event,
    Headers,
    invalid,
)
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES
from python_udfs.core.paths import Path, path_text
from python_udfs.debezium import cells, mongodb
from python_udfs.debezium.keys import key_text
from python_udfs.debezium.source_block import location, milliseconds_of, text_of
from python_udfs.debezium.types import (
    NOTHING,
    PREFIXES_OF_KEYS,
    PREFIXES_OF_VALUES,
    Notes,
    Prefixes,
    Schema,
    plain_placeholders,
    read_schema,
    schema_of,
)
from python_udfs.text import json_text
from python_udfs.text.json_as_sent import VALUE as _VALUE
from python_udfs.text.json_as_sent import canonical as _canonical
from python_udfs.text.json_as_sent import count_names as _count_names
from python_udfs.text.json_as_sent import encode as _encode
from python_udfs.text.json_as_sent import has_names as _has_names
from python_udfs.text.json_as_sent import has_space as _has_space
from python_udfs.text.json_as_sent import kind_of as _kind
from python_udfs.text.json_as_sent import load as _load
from python_udfs.text.json_as_sent import refuse_twice
from python_udfs.text.json_as_sent import shown as _shown

OPERATIONS: Final = {
    "r": SNAPSHOT,
    "c": INSERT,
    "u": UPDATE,
    "d": DELETE,
    "t": TRUNCATE,
    "m": MESSAGE,
}
_NEED_AFTER: Final = frozenset({SNAPSHOT, INSERT, UPDATE, UPSERT})

_WRAPPER: Final = frozenset({"schema", "payload"})
# The same moment: Debezium has added the finer ones to one kind of message after the other.
_TIMES: Final = frozenset({"ts_ms", "ts_us", "ts_ns"})
_ENVELOPE: Final = frozenset({"op", "before", "after", "source", "transaction", "ts_ms"})
# Fields of an envelope with neither images nor a source.
_BARE: Final = _ENVELOPE | _TIMES
_BARE_MESSAGE: Final = _BARE | {"message"}
_TRANSACTION_MARKER: Final = _TIMES | {"status", "id", "event_count", "data_collections"}
_NOTIFICATION: Final = frozenset({"id", "aggregate_type", "type", "additional_data"})
# The fields that every CloudEvents message has.
_CLOUD_EVENT: Final = frozenset({"specversion", "id", "source", "type"})
# CockroachDB's: the place of other information in rows without an envelope; a hybrid timestamp.
_CHANGEFEED: Final = "__crdb__"
_RESOLVED: Final = "resolved"
_HLC: Final = re.compile(r"[0-9]+\.[0-9]{10}", re.ASCII)
NOTES: Final = KEY_UPDATE_NOTES | {
    "connector",
    "snapshot",
    "schema_name",
    "event_key",
    "event_key_encoding",
    "event_key_schema",
    "event_key_wrapper",
    "untyped",
    "as_sent",
    "bson",
    "cells",
    "envelope",
    "wrapper",
}
"""Metadata's own names: an envelope's field of the same name goes into ``envelope``."""


class _Wrapped(msgspec.Struct):
    """``{schema, payload}``, with the schema block left as text: most messages repeat a known
    one.
    """

    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    payload: Any = msgspec.UNSET


_SPACE: Final = b" \t\n\r"
# Numbers with a fraction or exponent stay as text.
_WRAPPED: Final = msgspec.json.Decoder(_Wrapped, float_hook=msgspec.Raw)
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Content(NamedTuple):
    """A JSON text taken apart. ``payload`` is the whole value if it is not wrapped."""

    payload: Any
    schema: Schema
    wrapped: bool
    beside: dict[str, Any] | None = None
    """The wrapper's fields beside schema and payload."""
    of_rows: str = "debezium_unwrapped_json"
    """The format with rows instead of envelopes."""


class Key(NamedTuple):
    record_key: bytes | None
    metadata: dict[str, Any]
    """The key's part of an event's metadata; empty without a key."""
    notes: Notes
    schema_name: str | None = None
    """The name of the key's schema, such as ``server.schema.table.Key``."""
    schema: Schema = NOTHING
    is_of_pairs: bool = False
    """``cells.are_pairs`` of its columns."""

    def named(self) -> "Key":
        """The key of a message without a value, with its schema's name: that alone may name the
        table.
        """
        if self.schema_name is None:
            return self
        return self._replace(metadata={**self.metadata, "event_key_schema": self.schema_name})


_KEY_PATH: Final[Path] = (None, "event_key")
OTHER_KEYS: Final = {"__debezium.oldkey": "old_key", "__debezium.newkey": "new_key"}
"""Metadata's name of the other key of a key update, by the name of its header."""
# SimpleHeaderConverter writes them into JSON as they are.
_CONTROL: Final = re.compile(rb"[\x00-\x1f]")
_BEFORE_PATH: Final[Path] = (None, "before")
_AFTER_PATH: Final[Path] = (None, "after")
_IMAGES: Final = ("before", "after")


def decode(
    key: bytes | None,
    value: bytes | None,
    *,
    text_values: bool = False,
    headers: Headers | None = None,
) -> list[Event]:
    """Decode one message of the Debezium family to its change event.

    ``text_values``: the producer ships values as text, so a Decimal in a string is first read as
    digits, then as base64.
    """
    notes = Notes(Budget(len(key or b"") + len(value or b"")))
    event_key = read_key(key, text_values, notes)
    if headers:
        event_key = with_other_key(event_key, headers, take_apart_key)
    try:
        if not value:
            return [tombstone(event_key)]
        return [_read_value(event_key, value, text_values)]
    except DecodeError as error:
        return [invalid(error, metadata=metadata_of({}, event_key, event_key.notes))]


# --- The text -------------------------------------------------------------------------------------


def take_apart(text: bytes, text_values: bool, prefixes: Prefixes) -> Content:
    """The schema and payload of a JSON text. Raises ``DecodeError`` for one that can't be read."""
    if len(text) > MAX_PAYLOAD_BYTES:
        raise TooLarge(f"{len(text)} bytes: at most {MAX_PAYLOAD_BYTES} are decoded")
    prefix = prefixes.of(text)
    if prefix:
        content = _behind_block(prefix, text, text_values)
        if content is not None:
            return content
    elif text.startswith(json_text.BOM):
        text = json_text.without_bom(text)
    if text[:1] != b"{" and not text.lstrip(_SPACE).startswith(b"{"):
        json_text.check_depth(text)
        return Content(_load(text), NOTHING, False)
    compact = text
    try:
        if _has_space(text):
            compact = msgspec.json.format(text, indent=-1)
        wrapped = _WRAPPED.decode(compact)
        payload = wrapped.payload
        is_wrapped = payload is not msgspec.UNSET
        if not is_wrapped:
            payload = _VALUE.decode(compact)
    except json_text.FAILURES:
        # An error, or a number that msgspec does not convert.
        return _take_apart_slowly(text, text_values)
    schema = NOTHING
    names = _count_names(payload, MAX_DEPTH - is_wrapped)
    if is_wrapped:
        names += 1
        if wrapped.schema is not msgspec.UNSET:
            try:
                schema = read_schema(bytes(wrapped.schema), text_values)
            except DecodeError:
                # An error of the text has its position in the whole text.
                json_text.scan(text)
                raise
            names += 1 + schema.names
    if not _has_names(compact, names):
        return _take_apart_slowly(text, text_values)
    return Content(payload, schema, is_wrapped)


def _behind_block(prefix: bytes, text: bytes, text_values: bool) -> Content | None:
    """The payload after a schema block, which needn't be parsed again. None if either needs a
    closer look.
    """
    schema = schema_of(prefix, text_values)
    behind = text[len(prefix) :].rstrip(_SPACE)
    if schema is None or not behind.endswith(b"}"):
        return None
    behind = behind[:-1]
    try:
        if _has_space(behind):
            behind = msgspec.json.format(behind, indent=-1)
        payload = _VALUE.decode(behind)
    except json_text.FAILURES:
        return None
    names = _count_names(payload, MAX_DEPTH - 1)
    return Content(payload, schema, True) if _has_names(behind, names) else None


def _take_apart_slowly(text: bytes, text_values: bool) -> Content:
    """``take_apart`` for an unusual object; nothing in it is dropped."""
    refuse_twice(text)
    fields = _FIELDS.decode(text)
    if "payload" not in fields:
        return Content(_load(text), NOTHING, False)
    payload = _load(bytes(fields["payload"]))
    beside = {name: _load(bytes(raw)) for name, raw in fields.items() if name not in _WRAPPER}
    # "payload" may also be a column of an unwrapped row, or an unknown field of an envelope.
    is_wrapper = "op" not in fields and (
        "schema" in fields or not beside or (type(payload) is dict and "op" in payload)
    )
    if not is_wrapper:
        return Content(_load(text), NOTHING, False)
    schema = NOTHING
    if "schema" in fields:
        schema = read_schema(bytes(fields["schema"]), text_values)
    return Content(payload, schema, True, beside or None)


# --- Keys -----------------------------------------------------------------------------------------


def read_key(key: bytes | None, text_values: bool, notes: Notes) -> Key:
    """A Kafka key. An undecodable key is not an error: it is kept as base64."""
    if not key:
        return Key(None, {}, notes)
    found = key_of(key, lambda: take_apart_key(key, text_values), notes)
    # Each of Arcion's topics is of one table, and its page shows the event of a tombstone.
    return found._replace(schema_name=None) if text_values else found


def take_apart_key(key: bytes, text_values: bool = False) -> Content:
    """``take_apart`` for keys."""
    return take_apart(key, text_values, PREFIXES_OF_KEYS)


def key_of(key: bytes, content_of: Callable[[], Content], notes: Notes) -> Key:
    """``read_key`` for an existing key, with the function that takes it apart."""
    try:
        content = content_of()
        columns = _columns(content, content.schema, notes)
    except DecodeError:
        encoded = b64encode(key).decode()
        told: dict[str, Any] = {"event_key": encoded, "event_key_encoding": "base64"}
        return Key(None, told, Notes(notes.budget))
    metadata: dict[str, Any] = {"event_key": msgspec.Raw(_canonical(columns))}
    record_key = None
    if type(columns) is dict and columns:
        record_key = key_text(columns)
    if content.beside:
        metadata["event_key_wrapper"] = content.beside
    is_of_pairs = cells.are_pairs(columns)
    return Key(record_key, metadata, notes, content.schema.name, content.schema, is_of_pairs)


def _columns(content: Content, schema: Schema, notes: Notes) -> Any:
    """A key's payload, converted by its schema."""
    if type(content.payload) is dict:
        plain_placeholders(content.payload)
    return schema.convert(content.payload, _KEY_PATH, notes)


# --- Key updates ----------------------------------------------------------------------------------


def names_other_key(headers: Headers | None) -> bool:
    """Whether headers name the other key of a key update."""
    return any(name in OTHER_KEYS for name, _ in headers or ())


def with_other_key(
    key: Key, headers: Headers | None, take_apart: Callable[[bytes], Content]
) -> Key:
    """A message's key with the other one of a key update, if its headers name one.

    ``take_apart`` is that of keys. A header has its own schema, or uses the schema of the
    message's key.
    """
    found: dict[str, str] = {}
    for name, value in headers or ():
        if name not in OTHER_KEYS or not value:
            continue
        try:
            content = take_apart(value if value[0] == 0 else _CONTROL.sub(_escaped, value))
            schema = key.schema if content.schema is NOTHING else content.schema
            columns = _columns(content, schema, Notes(key.notes.budget))
        except DecodeError:
            continue
        if type(columns) is dict and columns:
            found[OTHER_KEYS[name]] = key_text(_as_routed(columns, key)).decode()
    return key._replace(metadata=key.metadata | found) if found else key


def _as_routed(columns: dict[str, Any], key: Key) -> dict[str, Any]:
    """A header's key with the texts that a transform has added to the message's own, as
    ByLogicalTableRouter does: it leaves headers as they were.
    """
    own = msgspec.json.decode(key.record_key) if key.record_key else {}
    if not columns.keys() < own.keys():
        return columns
    added = {name: own[name] for name in own.keys() - columns.keys()}
    return columns | added if all(type(each) is str for each in added.values()) else columns


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % match[0][0]


# --- Values ---------------------------------------------------------------------------------------


def _read_value(key: Key, value: bytes, text_values: bool) -> Event:
    if value[0] == 0:
        raise NotJson(framed(value))
    content = take_apart(value, text_values, PREFIXES_OF_VALUES)
    return read_content(key, content, may_have_cells=not text_values)


def read_content(key: Key, content: Content, *, may_have_cells: bool = True) -> Event:
    """The event of a value that was taken apart. Raises ``DecodeError``. ``may_have_cells``: one
    of Debezium's connectors shipped it, and their names tell which have cells.
    """
    envelope = content.payload
    if type(envelope) is not dict:
        if envelope is None or envelope == "default":
            return tombstone(key, content)
        where = "$.payload" if content.wrapped else "$"
        raise BadShape(f"{where}: expected an object, got {_kind(envelope)}")
    if "op" not in envelope:
        return _read_other(key, content, envelope)
    return _read_change(key, content, envelope, may_have_cells)


def _read_change(
    key: Key, content: Content, envelope: dict[str, Any], may_have_cells: bool
) -> Event:
    root = "$.payload" if content.wrapped else "$"
    op = envelope["op"]
    before = envelope.get("before")
    after = envelope.get("after")
    source = envelope.get("source")
    operation = OPERATIONS.get(op) if type(op) is str else None
    known_cells = cells.NONE
    if may_have_cells:
        known_cells = cells.cells_of(
            source.get("connector") if type(source) is dict else None,
            (before, after),
            (content.schema.before, content.schema.after),
            key.record_key,
            key.is_of_pairs,
        )
        operation = known_cells.operation_of(op, operation)
    of_mongodb = (
        operation is None
        or type(after) is str
        or type(before) is str
        or "table" not in (source if type(source) is dict else ())
    ) and mongodb.is_envelope(envelope)
    if type(op) is not str:
        raise BadField(f"{root}.op: expected a string, got {_kind(op)}")
    if (operation is None or "source" not in envelope) and not (
        of_mongodb or _looks_like_envelope(envelope)
    ):
        # A row may have a column of that name, with "d" in it.
        fields = _BARE_MESSAGE if op == "m" else _BARE
        if envelope.keys() - fields:
            raise BadShape(_unwrapped(root, envelope, content.of_rows))
    if operation is None or (of_mongodb and op not in mongodb.OPS):
        known = ", ".join(mongodb.OPS if of_mongodb else OPERATIONS)
        raise BadType(f"{root}.op: expected one of {known}, got {_shown(op)}")
    database, schema_name, table, occurred_at = location(root, source)
    _check_types(root, envelope)

    notes = key.notes.to_go_on()
    types = told = None
    if known_cells.form is not None:
        cells.refuse_ranges(f"{root}.op", op, after, known_cells)
        before_text, after_text, told = _read_cells(root, envelope, content, known_cells, notes)
    elif of_mongodb:
        record_key, before_text, after_text, types = mongodb.read(
            root, op, envelope, key.record_key, notes.budget
        )
        key = key._replace(record_key=record_key)
    else:
        before_text = _image(root, before, content.schema.before, _BEFORE_PATH, notes)
        after_text = _image(root, after, content.schema.after, _AFTER_PATH, notes)
    if after_text is None:
        if operation in _NEED_AFTER:
            raise BadField(f"{root}.after: missing, although op is {op!r} ({operation})")
        if op == "d" and before_text is None and key.record_key is None:
            raise BadField(
                f"{root}.before: missing, and the Kafka key names no row: what was deleted?"
            )
    return Event(
        0,
        operation,
        database,
        schema_name,
        table,
        key.record_key,
        before_text,
        after_text,
        occurred_at,
        None,
        metadata_of(envelope, key, notes, content, types, told),
    )


def _read_cells(
    root: str,
    envelope: dict[str, Any],
    content: Content,
    known: cells.Cells,
    notes: Notes,
) -> tuple[bytes | None, bytes | None, dict[str, Any]]:
    """The images of a change of cells, before and after it, and the cells' other information."""
    images: dict[str, dict[str, Any]] = {}
    told: dict[str, Any] = {}
    op = envelope["op"]
    for name, path in (("before", _BEFORE_PATH), ("after", _AFTER_PATH)):
        image = envelope.get(name)
        cells.plain_placeholders_in(image)
        image = _converted(root, image, content.schema.fields.get(name), path, notes)
        if image is None:
            continue
        more = cells.plain(image, known, op, is_after=name == "after")
        if more:
            told[name] = more
        images[name] = image
    if op == "d" and "before" not in images and "after" in images:
        images["before"] = images.pop("after")
    before, after = (_encode(images[name]) if images.get(name) else None for name in _IMAGES)
    return before, after, told


def _image(root: str, image: Any, schema: Schema | None, path: Path, notes: Notes) -> bytes | None:
    """A row image as JSON text."""
    converted = _converted(root, image, schema, path, notes)
    return None if converted is None else _encode(converted)


def _converted(
    root: str, image: Any, schema: Schema | None, path: Path, notes: Notes
) -> dict[str, Any] | None:
    """A row image, its values converted in place; None for null, absent and ``{}``, which mean
    the same in this family.
    """
    if type(image) is not dict:
        if image is None:
            return None
        where = path_text(path, root)
        raise BadField(f"{where}: expected an object or null, got {_kind(image)}")
    if not image:
        return None
    plain_placeholders(image)
    if schema is not None:
        schema.convert(image, path, notes)
    return image


def _check_types(root: str, envelope: dict[str, Any]) -> None:
    milliseconds_of(f"{root}.ts_ms", envelope.get("ts_ms"))
    transaction = envelope.get("transaction")
    if transaction is not None and type(transaction) is not dict:
        raise BadField(f"{root}.transaction: expected an object or null, got {_kind(transaction)}")


def message_of(key: Key, content: Content, envelope: dict[str, Any]) -> Event | None:
    """The event of an object without ``op`` that is not about a row; None if it is not known to
    be one.
    """
    root = "$.payload" if content.wrapped else "$"
    names = envelope.keys()
    if "before" in names or "after" in names:
        return None
    schema_name = content.schema.name or ""
    source = envelope.get("source")
    if ("ddl" in names or "tableChanges" in names) and (
        type(source) is dict or "databaseName" in names
    ):
        database, schema, table, occurred_at = location(root, source)
        return Event(
            0,
            SCHEMA_CHANGE,
            text_of(root, envelope, "databaseName") or database,
            text_of(root, envelope, "schemaName") or schema,
            table,
            key.record_key,
            occurred_at=occurred_at,
            metadata=metadata_of(envelope, key, key.notes, content),
        )
    if (
        {"ts_ms"} <= names <= _TIMES
        or schema_name.endswith((".Heartbeat", ".TransactionMetadataValue", ".Notification"))
        or (
            envelope.get("status") in ("BEGIN", "END")
            and {"status", "id"} <= names <= _TRANSACTION_MARKER
        )
        or (names >= _NOTIFICATION and names <= _NOTIFICATION | {"timestamp"})
        or is_resolved(envelope)
    ):
        return Event(
            0,
            MESSAGE,
            record_key=key.record_key,
            metadata=metadata_of(envelope, key, key.notes, content),
        )
    return None


def is_resolved(message: dict[str, Any]) -> bool:
    """Whether a message gives the time up to which CockroachDB's changefeed has shipped all
    changes.
    """
    if message.keys() == {_CHANGEFEED} and type(message[_CHANGEFEED]) is dict:
        message = message[_CHANGEFEED]
    time = message.get(_RESOLVED)
    return len(message) == 1 and type(time) is str and _HLC.fullmatch(time) is not None


def may_be_resolved(message: dict[str, Any]) -> bool:
    """Whether a message may be ``is_resolved``, by its names."""
    return len(message) == 1 and (_RESOLVED in message or _CHANGEFEED in message)


def _read_other(key: Key, content: Content, envelope: dict[str, Any]) -> Event:
    """The event of an object without ``op``: a message that is not about a row. Raises for
    anything but an envelope.
    """
    event = message_of(key, content, envelope)
    if event is not None:
        return event
    root = "$.payload" if content.wrapped else "$"
    names = envelope.keys()
    if _looks_like_envelope(envelope) or mongodb.is_envelope(envelope):
        raise BadField(f"{root}.op: missing")
    if not envelope:
        raise BadShape(f"{root}: an empty object")
    if names == {"schema"} and not content.wrapped:
        raise BadShape("$.payload: missing, there is only a schema")
    raise BadShape(_unwrapped(root, envelope, content.of_rows))


def _looks_like_envelope(envelope: dict[str, Any]) -> bool:
    return (
        type(envelope.get("source")) is dict
        or ("before" in envelope and "after" in envelope)
        or type(envelope.get("before")) is dict
        or type(envelope.get("after")) is dict
    )


def _unwrapped(root: str, row: dict[str, Any], format: str) -> str:
    if _CLOUD_EVENT <= row.keys():
        return cloud_event(root)
    names = sorted(row)
    shown = ", ".join(_shown(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
    return (
        f"{root}: an unwrapped row ({shown}) instead of an envelope with op, before and after: if"
        f" the transform ExtractNewRecordState makes it, its format is {format}"
    )


def is_cloud_event(row: dict[str, Any]) -> bool:
    """Whether Debezium's CloudEventsConverter has written it; rows from others may look similar."""
    return _CLOUD_EVENT <= row.keys() and any(name.startswith("iodebezium") for name in row)


def cloud_event(root: str) -> str:
    """The sentence for a CloudEvents message."""
    return (
        f"{root}: a CloudEvents message, which has the envelope in its data: set the connector's"
        " value.converter to JsonConverter or Avro's instead of CloudEventsConverter"
    )


def framed(value: bytes, format: str = "debezium_avro") -> str:
    """The sentence for a value in another format: ``format``, if it is Avro."""
    schema = f" of schema {int.from_bytes(value[1:5], 'big')}" if len(value) >= 5 else ""
    return (
        f"a payload{schema} framed by Confluent's schema registry (Avro, Protobuf or JSON Schema "
        f"after the byte 0x00 at byte 0), not plain JSON: for Avro, the format is {format}"
    )


def tombstone(key: Key, content: Content | None = None) -> Event:
    """The event of a message without a value."""
    key = key.named()
    return Event(
        0, TOMBSTONE, record_key=key.record_key, metadata=metadata_of({}, key, key.notes, content)
    )


# --- Metadata and sentences -----------------------------------------------------------------------


def metadata_of(
    envelope: dict[str, Any],
    key: Key,
    notes: Notes,
    content: Content | None = None,
    bson: Any = None,
    told: dict[str, Any] | None = None,
) -> bytes | None:
    """The metadata column: everything in a message that has no column of its own. ``bson`` has
    the types of MongoDB's documents, ``told`` the cells' other information.
    """
    metadata = dict(key.metadata)
    source = envelope.get("source")
    if type(source) is dict:
        if "connector" in source:
            metadata["connector"] = source["connector"]
        if "snapshot" in source:
            metadata["snapshot"] = source["snapshot"]
    taken: dict[str, Any] = {}
    for name, value in envelope.items():
        if name == "source" or name == "transaction" or name == "ts_ms":
            metadata[name] = value
        elif name not in _ENVELOPE:
            if name in NOTES:
                taken[name] = value
            else:
                metadata[name] = value
    if taken:
        metadata["envelope"] = taken
    if content is not None:
        if content.schema.name is not None:
            metadata["schema_name"] = content.schema.name
        if content.beside:
            metadata["wrapper"] = content.beside
    if bson is not None:
        metadata["bson"] = bson
    if told:
        metadata["cells"] = told
    if notes.untyped:
        metadata["untyped"] = notes.untyped
    if notes.as_sent:
        metadata["as_sent"] = notes.as_sent
    return _encode(metadata) if metadata else None
