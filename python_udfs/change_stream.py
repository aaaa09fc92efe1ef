"""``mongodb_json``: a change stream in the messages of MongoDB's own Kafka source connector.

Implements "Change Events" of MongoDB's manual, and "Source Connector" of the documentation of the
MongoDB Kafka Connector (``com.mongodb.kafka.connect``), with its pages "Change Stream Properties",
"Output Format Properties" and "Startup Properties":

    key    {"_id": {"$oid": "636d399b732dbb998fa8d67e"}}   the documentKey, else the resume token
    value  {"_id": {"_data": "82636D39C8000000012B022C0100296E5A1004..."},
            "operationType": "update", "clusterTime": {"$timestamp": {"t": 1668102600, "i": 1}},
            "wallTime": {"$date": 1668102600716}, "ns": {"db": "test", "coll": "sensors"},
            "documentKey": {"_id": {"$oid": "636d399b732dbb998fa8d67e"}},
            "updateDescription": {"updatedFields": {"value": 105}, "removedFields": [],
              "truncatedArrays": [{"field": "tags", "newSize": 2}], "disambiguatedPaths": {}},
            "fullDocument": {...}, "fullDocumentBeforeChange": {...}}

    operationType                                    operation
    insert, update, delete                           insert, update, delete
    replace                                          update
    insert, while existing data is copied            snapshot
    drop, dropDatabase, rename, and those of         schema_change
      change.stream.show.expanded.events
    invalidate                                       message

Values have the same form as through Debezium (``debezium.extended_json``, with their types in
``metadata.bson``), and so do record keys, images and updates without a whole document
(``debezium.mongodb``): ``fullDocumentBeforeChange`` is ``before``, ``fullDocument`` is ``after``.
All other fields are in ``metadata`` as they were sent, by their own names; ``event_key`` is the
Kafka key.

Forms that are read:

- ``output.json.formatter``: ``DefaultJson``, ``ExtendedJson``, and ``SimplifiedJson``, whose ids,
  dates, decimals and binary values are text without a type.
- Messages of the StringConverter, and of the JsonConverter: a text in a JSON string, or in the
  ``payload`` beside its ``schema``.
- ``output.format.value=schema`` in JSON, with the default schema: documents, tokens and the cluster
  time are texts in an object. Documents by ``output.schema.infer.value`` are plain JSON.
- ``publish.full.document.only``: the value is a document. It is an ``upsert``, because the message
  doesn't say whether it existed before, nor its collection. A null value
  (``...tombstone.on.delete``) is a ``delete`` if the Kafka key has a document's ``_id``.

Policies:

- An object is a change event if its ``_id`` is a resume token (``_data``, ``copyingData``), or if
  it has no ``_id`` but ``operationType`` and ``ns``. Every other object is a document. It is
  ``bad_shape`` if neither it nor the Kafka key has its ``_id``.
- ``occurred_at`` is ``clusterTime``, in whole seconds: it never goes back, while ``wallTime`` may,
  after a failover. For events without one it is ``wallTime``; copied documents have neither.
- ``record_key`` is ``{"_id": ...}``, from the document, else from ``documentKey``, else from the
  Kafka key. The other fields of a shard key are in ``metadata.documentKey``.
- A null ``fullDocument`` means the same as an absent one: in an update, the document was gone when
  it was looked up.
- If a path means something else than its dots say (``disambiguatedPaths``), a name that is one
  field's is that field; otherwise the image stays partial.
- A collection that is dropped or renamed keeps its rows.
- A null value whose key is a resume token, or has none, is a ``tombstone``; one whose key is
  ``{"_data": ...}`` is a heartbeat, a ``message``.
- Other operation types are ``bad_type``; a name that comes twice in one object is ``bad_field``.
- BSON and Avro are other formats.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, BadShape, BadType, DecodeError, TooDeep, TooLarge
from python_udfs.core.events import (
    DELETE,
    INSERT,
    INVALID,
    MAX_TIME_MS,
    MESSAGE,
    SCHEMA_CHANGE,
    SNAPSHOT,
    TOMBSTONE,
    UPDATE,
    UPSERT,
    Event,
    invalid,
)
from python_udfs.core.row_images import PARTIAL
from python_udfs.debezium import mongodb
from python_udfs.debezium.extended_json import (
    Loaded,
    load_document,
    load_whole,
    read_document,
    read_value,
)
from python_udfs.text.json_as_sent import encode, kind_of, load_key, metadata_of, shown
from python_udfs.text.numbers import plain_numbers

OPERATIONS: Final = {
    "insert": INSERT,
    "update": UPDATE,
    "replace": UPDATE,
    "delete": DELETE,
    "invalidate": MESSAGE,
    **dict.fromkeys(
        (
            "drop",
            "dropDatabase",
            "rename",
            "create",
            "createIndexes",
            "dropIndexes",
            "modify",
            "shardCollection",
            "reshardCollection",
            "refineCollectionShardKey",
        ),
        SCHEMA_CHANGE,
    ),
}
ID: Final = "_id"
TYPE: Final = "operationType"
NAMESPACE: Final = "ns"
DOCUMENT: Final = "fullDocument"
BEFORE: Final = "fullDocumentBeforeChange"
KEY: Final = "documentKey"
DESCRIPTION: Final = "updateDescription"
CLUSTER_TIME: Final = "clusterTime"
WALL_TIME: Final = "wallTime"
DATA: Final = "_data"
COPYING: Final = "copyingData"
# Debezium's names of operations on documents.
_OPS: Final = {INSERT: "c", SNAPSHOT: "r", UPDATE: "u", DELETE: "d"}
_HEX_24: Final = re.compile("[0-9a-f]{24}")
_WRAPPER: Final = frozenset({"schema", "payload"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class _Key(NamedTuple):
    """A Kafka key."""

    metadata: dict[str, Any]
    """The key's part of an event's metadata; empty without a key."""
    id_text: str | None = None
    """The document's ``_id``, as JSON text; None if the key does not have it."""
    is_heartbeat: bool = False


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message. Returns a single event, ``invalid`` for a bad payload."""
    event_key = _read_key(key)
    try:
        message = _unwrapped("$", load_whole(value)) if value else None
        if message is None:
            return [_without_value(event_key)]
        if type(message) is not dict:
            raise BadShape(f"$: expected an object, got {kind_of(message)}")
        if _is_change_event(message):
            return [_change(message, event_key, Budget(len(value or b"")))]
        return [_document(message, event_key)]
    except DecodeError as error:
        return [invalid(error, metadata=_metadata({}, event_key, {}))]


def is_likely(event: Event) -> bool:
    """Whether an event shows that MongoDB's connector wrote its message: it is a change event, or
    the Kafka key has an ``_id``.
    """
    if event.operation in (INVALID, TOMBSTONE, MESSAGE):
        return event.operation != INVALID
    metadata = _parsed(event.metadata or b"{}")
    message = metadata.get("message")
    return (
        TYPE in metadata
        or (type(message) is dict and TYPE in message)
        or ID in (_key_object(metadata.get("event_key")) or {})
    )


def may_be_row(event: Event) -> bool:
    """Whether an event of another format may be a row's, and its message not this connector's:
    neither a change event nor a document, whose Kafka key has an ``_id`` as MongoDB generates it.
    """
    metadata = _parsed(event.metadata or b"{}")
    identity = (_key_object(metadata.get("event_key")) or {}).get(ID)
    if type(identity) is dict or (type(identity) is str and _HEX_24.fullmatch(identity)):
        return False
    return not is_change_event(event.after)


def is_change_event(row: bytes | None) -> bool:
    """Whether a row that another format decoded is a change event of this one."""
    found = _parsed(row) if row is not None and TYPE.encode() in row else None
    return type(found) is dict and _is_change_event(found)


def _without_value(key: _Key) -> Event:
    if key.is_heartbeat:
        return Event(0, MESSAGE, metadata=_metadata({}, key, {}))
    if key.id_text is None:
        return Event(0, TOMBSTONE, metadata=_metadata({}, key, {}))
    identity, types = read_value("the key", load_whole(key.id_text.encode()))
    told = {} if types is None else {"key": {ID: types}}
    record_key = encode(plain_numbers({ID: identity}))
    return Event(0, DELETE, record_key=record_key, metadata=_metadata({}, key, told))


def _document(document: dict[str, Any], key: _Key) -> Event:
    """The event of a document alone."""
    if ID not in document and key.id_text is None:
        raise BadShape(
            f"$: expected a change event, whose {ID} is a resume token, or a document with its {ID}"
        )
    images = mongodb.read("$", "c", {"after": _read("$", document)}, key.id_text, Budget(0))
    if images.after is None:
        raise BadShape("$: expected a document with fields")
    metadata = _metadata({}, key, images.types)
    return Event(0, UPSERT, record_key=images.record_key, after=images.after, metadata=metadata)


def _change(message: dict[str, Any], key: _Key, budget: Budget) -> Event:
    type_name = message.get(TYPE)
    if type(type_name) is not str:
        raise BadField(f"$.{TYPE}: expected a string, got {_found(message, TYPE)}")
    operation = OPERATIONS.get(type_name)
    if operation is None:
        raise BadType(f"$.{TYPE}: expected one of {', '.join(OPERATIONS)}, got {shown(type_name)}")
    token = _object_of(message.get(ID))
    if operation == INSERT and token is not None and COPYING in token:
        operation = SNAPSHOT
    database, collection = _namespace(message)
    occurred_at = _occurred_at(message)
    op = _OPS.get(operation)
    if op is None:
        return Event(
            0,
            operation,
            database,
            None,
            collection,
            occurred_at=occurred_at,
            metadata=_metadata(message, key, {}),
        )
    images = _images(message, op, type_name, key, budget)
    return Event(
        0,
        operation,
        database,
        None,
        collection,
        images.record_key,
        images.before,
        images.after,
        occurred_at,
        metadata=_metadata(message, key, images.types),
    )


def _images(
    message: dict[str, Any], op: str, type_name: str, key: _Key, budget: Budget
) -> mongodb.Images:
    """The images of a change's document, which are removed from the message."""
    before, after = _taken(message, BEFORE), _taken(message, DOCUMENT)
    id_text = _id_text(message, key)
    description = None
    if after is None and op != "d":
        if type_name != "update":
            raise BadField(f"$.{DOCUMENT}: missing, although {TYPE} is {type_name!r}")
        description = _description(message)
    if id_text is None and not any(
        image is not None and ID in image[0] for image in (before, after)
    ):
        raise BadField(
            f"$.{KEY}.{ID}: missing, and neither an image nor the Kafka key says which document"
            " it was"
        )
    envelope = {"before": before, "after": after, DESCRIPTION: description}
    return mongodb.read("$", op, envelope, id_text, budget)


def _taken(message: dict[str, Any], name: str) -> Loaded | None:
    """An image of a document, removed from its message; None without one."""
    if message.get(name) is None:
        return None
    where = f"$.{name}"
    found = _read(where, message.pop(name))
    return found if found[0] else None


def _read(where: str, document: Any) -> Loaded:
    """A document and its types, from text, or from JSON, in which values are replaced."""
    if type(document) is str:
        found = load_document(where, document)
    elif type(document) is dict:
        found = read_document(where, document)
    else:
        raise BadField(f"{where}: expected a document or null, got {kind_of(document)}")
    if PARTIAL in found[0]:
        raise BadField(f'{where}["{PARTIAL}"]: expected no field of that name, it means others')
    return found


def _description(message: dict[str, Any]) -> dict[str, Any]:
    """The changes of an update without the document, by Debezium's names. The message keeps them
    as sent.
    """
    where = f"$.{DESCRIPTION}"
    sent = message.get(DESCRIPTION)
    if type(sent) is not dict:
        raise BadField(
            f"{where}: expected an object, got {_found(message, DESCRIPTION)}, and there is no"
            f" {DOCUMENT}"
        )
    message[DESCRIPTION] = msgspec.Raw(encode(sent))
    updated, paths = sent.get("updatedFields"), sent.get("disambiguatedPaths")
    if paths is not None:
        paths = _read(f"{where}.disambiguatedPaths", paths)[0]
    return {
        "updatedFields": None if updated is None else _read(f"{where}.updatedFields", updated),
        "removedFields": sent.get("removedFields"),
        "truncatedArrays": _truncated(where, sent.get("truncatedArrays")),
        "disambiguatedPaths": paths,
    }


def _truncated(where: str, arrays: Any) -> list[dict[str, Any]]:
    if arrays is None:
        return []
    if type(arrays) is not list:
        raise BadField(f"{where}.truncatedArrays: expected an array or null, got {kind_of(arrays)}")
    found = []
    for index, each in enumerate(arrays):
        at = f"{where}.truncatedArrays[{index}]"
        field = each.get("field") if type(each) is dict else None
        size = read_value(f"{at}.newSize", each.get("newSize"))[0] if type(each) is dict else None
        if type(field) is not str or type(size) is not int or size < 0:
            raise BadField(
                f"{at}: expected an object with field, a name, and newSize, a length of 0 or more"
            )
        found.append({"field": field, "size": size})
    return found


def _id_text(message: dict[str, Any], key: _Key) -> str | None:
    """The ``_id`` in ``documentKey`` or else in the Kafka key, as JSON text."""
    sent = message.get(KEY)
    found = _object_of(sent)
    if found is None and sent is not None:
        raise BadField(f"$.{KEY}: expected an object or null, got {kind_of(sent)}")
    if not found or ID not in found:
        return key.id_text
    # Checked here: elsewhere an unreadable key is ignored.
    text = encode(found[ID])
    read_value(f"$.{KEY}.{ID}", found[ID])
    if type(sent) is dict:
        message[KEY] = msgspec.Raw(encode({**sent, ID: msgspec.Raw(text)}))
    return text.decode()


def _namespace(message: dict[str, Any]) -> tuple[str | None, str | None]:
    """The database and the collection, removed from the message."""
    namespace = message.get(NAMESPACE)
    if namespace is None:
        return None, None
    if type(namespace) is not dict:
        raise BadField(f"$.{NAMESPACE}: expected an object, got {kind_of(namespace)}")
    names = []
    for name in ("db", "coll"):
        found = namespace.pop(name, None)
        if type(found) is not str and found is not None:
            raise BadField(f"$.{NAMESPACE}.{name}: expected a name, got {kind_of(found)}")
        names.append(found or None)
    if not namespace:
        del message[NAMESPACE]
    return names[0], names[1]


# --- Times ----------------------------------------------------------------------------------------


def _occurred_at(message: dict[str, Any]) -> int | None:
    at = message.get(CLUSTER_TIME)
    if at is None:
        return _wall_time(message.get(WALL_TIME))
    parts = _object_of(at)
    seconds = parts.get("$timestamp") if parts is not None else None
    seconds = seconds.get("t") if type(seconds) is dict else None
    if type(seconds) is not int:
        raise BadField(
            f"$.{CLUSTER_TIME}: expected an object $timestamp with t, in seconds, and i, got"
            f" {kind_of(at)}"
        )
    return _in_range(seconds * 1000)


def _wall_time(at: Any) -> int | None:
    if at is None:
        return None
    # Reading replaces values, and the message keeps them as sent.
    found = read_value(f"$.{WALL_TIME}", dict(at) if type(at) is dict else at)[0]
    if type(found) is int:
        return _in_range(found)
    try:
        time = datetime.fromisoformat(found)
        return _in_range((time - _EPOCH) // _MILLISECOND)
    except (TypeError, ValueError):
        # A year beyond a column's range has a sign.
        if type(found) is str and found[:1] in ("+", "-"):
            return None
        raise BadField(
            f"$.{WALL_TIME}: expected a date of Extended JSON, milliseconds or ISO 8601 with a"
            f" zone, got {kind_of(at)}"
        ) from None


def _in_range(milliseconds: int) -> int | None:
    return milliseconds if 0 < milliseconds <= MAX_TIME_MS else None


# --- Keys and wrappers ----------------------------------------------------------------------------


def _read_key(key: bytes | None) -> _Key:
    """A Kafka key. A key that is not the connector's is not an error: it is kept."""
    sent, metadata = load_key(key)
    found = _key_object(sent)
    if found is None:
        return _Key(metadata)
    identity = found.get(ID)
    if ID not in found or _is_token(identity):
        return _Key(metadata, is_heartbeat=DATA in found)
    text = encode(identity)
    try:
        read_value("$", load_whole(text))
    except DecodeError:
        return _Key(metadata)
    return _Key(metadata, text.decode())


def _key_object(sent: Any) -> dict[str, Any] | None:
    """The object in a Kafka key, without a converter's wrapper; None without one."""
    try:
        found = _unwrapped("$", sent)
    except DecodeError:
        return None
    return found if type(found) is dict else None


def _unwrapped(where: str, message: Any) -> Any:
    """The input of a JsonConverter: a text, or an object, from beside its schema."""
    if type(message) is dict and message.keys() == _WRAPPER:
        where, message = f"{where}.payload", message["payload"]
    if type(message) is not str:
        return message
    try:
        return load_whole(message.encode())
    except (TooDeep, TooLarge) as error:
        raise type(error)(f"{where}: {error} of the text") from None
    except DecodeError as error:
        raise BadField(f"{where}: expected JSON in the string; in the text: {error}") from None


def _is_change_event(message: dict[str, Any]) -> bool:
    if ID not in message:
        return TYPE in message and NAMESPACE in message
    return _is_token(message[ID])


def _is_token(identity: Any) -> bool:
    """Whether an ``_id`` is a change event's rather than a document's."""
    found = _object_of(identity)
    return found is not None and (DATA in found or COPYING in found)


def _object_of(found: Any) -> dict[str, Any] | None:
    """An object, or the one in a text; None for anything else."""
    if type(found) is str and found[:1] == "{":
        found = _parsed(found.encode())
    return found if type(found) is dict else None


def _parsed(text: bytes) -> Any:
    try:
        return load_whole(text)
    except DecodeError:
        return None


def _found(message: dict[str, Any], name: str) -> str:
    return kind_of(message[name]) if name in message else "nothing"


def _metadata(rest: dict[str, Any], key: _Key, types: dict[str, Any]) -> bytes | None:
    of_key = key.metadata | ({"bson": types} if types else {})
    metadata = metadata_of(rest, of_key)
    return encode(metadata) if metadata else None
