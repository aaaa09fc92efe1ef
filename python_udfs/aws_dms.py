"""``aws_dms_json``: records of AWS Database Migration Service in Kafka, one per message.

Implements "Message format for Apache Kafka", "Using a before image" and the endpoint settings of
the user guide's chapter "Using Apache Kafka as a target for AWS Database Migration Service":

    key    shop.carts.1      text, from which no column can be read (``partition-key-type``)
    value  {"data": {"id": 1, "total": 9.90, "note": null},
            "before-image": {"total": 7.50},
            "metadata": {"timestamp": "2026-01-31T10:00:01.000250Z", "record-type": "data",
                         "operation": "update", "partition-key-type": "primary-key",
                         "partition-key-value": "shop.carts.1",
                         "schema-name": "shop", "table-name": "carts", "transaction-id": 1139,
                         "transaction-record-id": 1, "stream-position": "00000002/7C007328.2",
                         "commit-timestamp": "2026-01-31T10:00:00.886717Z"}}
    value  {"control": {"table-def": {"columns": {"id": {"type": "INT32", "nullable": false}},
                                      "primary-key": ["id"]}},
            "metadata": {"record-type": "control", "operation": "create-table",
                         "partition-key-type": "task-id", "schema-name": "shop",
                         "table-name": "carts", "timestamp": "2026-01-31T09:59:58.120000Z"}}

Operations and their results; names from earlier editions of the guide are read too:

    load (read), insert (create), update, delete        snapshot, insert, update, delete
    truncate-table (TruncateTable)                       truncate
    create-table, rename-table, drop-table (DropTable), change-columns,
    add-column, drop-column, rename-column, column-type-change     schema_change
    all others of control records that name no table     message

``schema-name`` is MySQL's database too. ``occurred_at`` is ``commit-timestamp``: without
IncludeTransactionDetails a record doesn't have the time of its change, because ``timestamp`` is
when DMS made the message. All other fields of ``metadata``, and those beside it, are in
``metadata`` by their own names; ``event_key`` is the Kafka key.

Quirks: the endpoint's ``Include...`` settings decide which fields there are. By default
(IncludeNullAndEmpty=false) a null is left out of ``data``. A delete has the columns that the source
logged: for PostgreSQL those of the key, and nulls. Control records go to another partition than the
rows of their table.

Policies:

- There is no ``record_key``: no record names the columns of the key. A model declares them.
- The row before an update is ``data`` with the columns of the before image in place of its own. DMS
  ships the columns that the source logged (Oracle's changed columns, PostgreSQL's key), and by
  default no nulls, so columns that the image does not name have the value from after the update. If
  the image has no columns, there is no row before.
- The before image has the name that the task gives it (``FieldName``): ``before-image``, else the
  only other object beside ``data``. If there are several, they stay in ``metadata``, and there is
  no before image.
- Columns that the rule ``add-before-image-columns`` adds (``BI_id``) are columns of the row,
  because the rule chooses their names.
- A column that is not in ``data`` is null or was not logged, which can't be told apart: the row is
  as shipped.
- Values stay as they were sent: numbers with their digits, times as ISO 8601 text (with a ``Z``
  that DMS also writes after those without a zone), binary as hexadecimal text, with or without
  ``0x`` by source and settings (NoHexPrefix), JSON as text. A LOB that limited mode has truncated
  looks like any other value.
- A ``commit-timestamp`` that is no time in UTC, or not after 1970, gives no ``occurred_at``; it is
  in ``metadata`` all the same.
- A table's control record with another operation is ``bad_type``, because it may have changed rows;
  a dropped table keeps its rows, as in the other formats.
- A name that comes twice in one object is ``bad_field``.
"""

import re
from datetime import datetime
from typing import Any, Final

from python_udfs.core.errors import BadField, BadShape, BadType, DecodeError
from python_udfs.core.events import (
    DELETE,
    INSERT,
    MAX_TIME_MS,
    MESSAGE,
    SCHEMA_CHANGE,
    SNAPSHOT,
    TOMBSTONE,
    TRUNCATE,
    UPDATE,
    Event,
    invalid,
)
from python_udfs.text.json_as_sent import (
    encode,
    kind_of,
    load_key,
    load_whole,
    metadata_of,
    shown,
)

ROWS: Final = {
    "load": SNAPSHOT,
    "read": SNAPSHOT,
    "insert": INSERT,
    "create": INSERT,
    "update": UPDATE,
    "delete": DELETE,
}
"""Operations of data records."""
CONTROLS: Final = {
    "truncate-table": TRUNCATE,
    "TruncateTable": TRUNCATE,
    **dict.fromkeys(
        (
            *("create-table", "rename-table", "drop-table", "DropTable", "change-columns"),
            *("add-column", "drop-column", "rename-column", "column-type-change"),
        ),
        SCHEMA_CHANGE,
    ),
}
"""Operations of control records that are about a table."""
RECORD_TYPES: Final = ("data", "control")
BEFORE_IMAGE: Final = "before-image"
"""The before image's name in the guide's example."""
COMMITTED: Final = "commit-timestamp"
_SCHEMA: Final = "schema-name"
_TABLE: Final = "table-name"
_INSTANT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,3})[0-9]{0,6})?Z"
)


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """The event of one Kafka message: always one, ``invalid`` for a payload that is bad."""
    _, key_metadata = load_key(key)
    try:
        record = load_whole(value) if value else None
        if record is None:
            return [Event(0, TOMBSTONE, metadata=encode(key_metadata) if key_metadata else None)]
        return [_event(record, key_metadata)]
    except DecodeError as error:
        return [invalid(error, metadata=encode(key_metadata) if key_metadata else None)]


def _event(record: Any, key_metadata: dict[str, Any]) -> Event:
    if type(record) is not dict:
        raise BadShape(f"$: expected an object, got {kind_of(record)}")
    fields = record.pop("metadata", None)
    if type(fields) is not dict:
        raise BadField(f"$.metadata: expected an object, got {_found(fields)}")
    record_type, name = _word(fields, "record-type"), _word(fields, "operation")
    if record_type not in RECORD_TYPES:
        known = " or ".join(RECORD_TYPES)
        raise BadType(f"$.metadata.record-type: expected {known}, got {shown(record_type)}")
    is_row = record_type == "data"
    schema, table = _take_name(fields, _SCHEMA), _take_name(fields, _TABLE)
    operation = _of_row(name) if is_row else _of_control(name, table)
    if table is None and operation != MESSAGE:
        raise BadField(f"$.metadata.{_TABLE}: missing, so the event belongs to no table")
    before = after = None
    if is_row:
        del fields["record-type"], fields["operation"]
        row = record.pop("data", None)
        if type(row) is not dict or not row:
            got = "an empty one" if row == {} else _found(row)
            raise BadField(f"$.data: expected an object with the columns of a row, got {got}")
        if operation == DELETE:
            before = encode(row)
        else:
            after = encode(row)
            if operation == UPDATE and (image := _take_image(record)):
                before = encode(row | image)
    return Event(
        0,
        operation,
        source_schema=schema,
        source_table=table,
        before=before,
        after=after,
        occurred_at=_occurred_at(fields),
        metadata=_metadata(fields, record, key_metadata),
    )


def _of_row(name: str) -> str:
    operation = ROWS.get(name)
    if operation is None:
        raise BadType(f"$.metadata.operation: expected one of {', '.join(ROWS)}, got {shown(name)}")
    return operation


def _of_control(name: str, table: str | None) -> str:
    operation = CONTROLS.get(name)
    if operation is None and table is not None:
        known = ", ".join(CONTROLS)
        raise BadType(f"$.metadata.operation: expected one of {known}, got {shown(name)}")
    return operation or MESSAGE


def _image_name(record: dict[str, Any]) -> str | None:
    """The name of an update's before image, if there is one. ``record`` has the members of a data
    record beside its row and its ``metadata``.
    """
    if BEFORE_IMAGE in record:
        return BEFORE_IMAGE
    objects = [name for name, value in record.items() if type(value) is dict and name != "control"]
    return objects[0] if len(objects) == 1 else None


def _take_image(record: dict[str, Any]) -> dict[str, Any] | None:
    name = _image_name(record)
    if name is None:
        return None
    image = record.pop(name)
    if type(image) is not dict and image is not None:
        raise BadField(f"$.{name}: expected an object or null, got {kind_of(image)}")
    return image


def _word(fields: dict[str, Any], name: str) -> str:
    word = fields.get(name)
    if type(word) is not str:
        raise BadField(f"$.metadata.{name}: expected a string, got {_found(word)}")
    return word


def _take_name(fields: dict[str, Any], name: str) -> str | None:
    found = fields.pop(name, None)
    if type(found) is not str and found is not None:
        raise BadField(f"$.metadata.{name}: expected a name, got {kind_of(found)}")
    return found or None


def _found(value: Any) -> str:
    return "nothing" if value is None else kind_of(value)


def _occurred_at(fields: dict[str, Any]) -> int | None:
    text = fields.get(COMMITTED)
    if text is None:
        return None
    if type(text) is not str:
        raise BadField(f"$.metadata.{COMMITTED}: expected a string, got {kind_of(text)}")
    match = _INSTANT.fullmatch(text)
    if match is None:
        return None
    try:
        seconds = int(datetime.fromisoformat(f"{match[1]}+00:00").timestamp())
    except ValueError:
        return None
    time = seconds * 1000 + int((match[2] or "").ljust(3, "0"))
    return time if 0 < time <= MAX_TIME_MS else None


def _metadata(
    fields: dict[str, Any], others: dict[str, Any], key_metadata: dict[str, Any]
) -> bytes | None:
    """The fields of a record's ``metadata`` and the members beside it, which are nested under
    their own name if both have a field of the same name.
    """
    rest = fields | others if fields.keys().isdisjoint(others) else {"metadata": fields} | others
    metadata = metadata_of(rest, key_metadata)
    return encode(metadata) if metadata else None
