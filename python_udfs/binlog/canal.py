"""``canal_json``: messages of Canal in Kafka with ``canal.mq.flatMessage``, and of others like it.

Implements Canal's FlatMessage (com.alibaba.otter.canal.protocol), as Canal, Alibaba's DTS ("Canal
Json") and TiCDC (``canal-json``) write it. A message has one or many rows of one MySQL table:

    {"database": "test", "table": "asd", "type": "UPDATE", "isDdl": false, "id": 15, "sql": "",
     "es": 1554045359000, "ts": 1554045360514, "pkNames": ["ID"],
     "mysqlType": {"ID": "int(11)", "TEST_NAME": "varchar(255)"}, "sqlType": {"ID": 4, ...},
     "data": [{"ID": "22", "TEST_NAME": "123"}, {"ID": "2223", "TEST_NAME": "123"}],
     "old": [{"TEST_NAME": null}, {"TEST_NAME": null}]}

``data`` has the rows, for a delete the deleted ones; ``old`` has the previous values of only the
columns that an update changed: together they are the row before. ``es`` is when the source changed
the row, ``ts`` when Canal had read it. Types and their results:

    INSERT, UPDATE, DELETE         insert, update, delete: an event for each row
    INIT (DTS's full copy)         snapshot
    TRUNCATE                       truncate
    all others with isDdl: true    schema_change (CREATE, ALTER, ERASE, RENAME, CINDEX, DDL, ...)
    QUERY, GTID, XACOMMIT, XAROLLBACK, MHEARTBEAT, TIDB_WATERMARK     message

All values are text. Their types are those of ``mysqlType``; if that is not a MySQL type, those of
``sqlType`` (java.sql.Types):

- Integers, decimals, floats, BIT, YEAR and BOOLEAN become numbers with the digits that were sent.
- Binary and spatial columns are text in ISO 8859-1, a character for a byte, and become base64.
- ENUM and SET, shipped as places, become labels, those of a SET with commas between (``labels``).
- All else stays text: times as MySQL writes them, without a zone; JSON.
- Text that is no such value (``00012`` of a ZEROFILL) stays text, and is in ``metadata.untyped``.
  Values that are not text stay as they are, without a note.

``record_key`` is the ``pkNames`` columns of the row after the change, whatever the case of the
names; without ``pkNames``, or if a name could mean two columns, there is none. All other fields are
in ``metadata`` by their own names, with ``event_key`` and, for several rows, ``batch_size``; if
there are very many rows, only in the first one's.

Policies:

- If a row is too large, TiCDC may send only the key (``_tidb.onlyHandleKey``) and the place of the
  rest (``_tidb.claimCheckLocation``). Except for a delete, that is ``bad_field``: as a row, it
  would make all other columns null.
- Rows and truncates may lack database and table, as in Flink's ``canal-json``: they belong to no
  table, like Debezium's without ``source``.
- A bad row makes the whole message ``invalid``: its rows are one change.
- A DELETE without ``data`` has its rows in ``old`` (DTS before March 2022; in its updates of that
  time the two are swapped, which can't be detected).
- A dropped table (ERASE) keeps its rows, as in the other formats.
- Other types are ``bad_type``; a name that comes twice in one object is ``bad_field``.
"""

import re
from functools import lru_cache
from typing import Any, Final

import msgspec

from python_udfs.binlog.labels import Labels, has_labels, labels_of
from python_udfs.core.budget import Budget
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
from python_udfs.core.paths import step_text
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
    "INSERT": INSERT,
    "UPDATE": UPDATE,
    "DELETE": DELETE,
    "INIT": SNAPSHOT,
    "TRUNCATE": TRUNCATE,
    **dict.fromkeys(
        ("QUERY", "GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT", "TIDB_WATERMARK"), MESSAGE
    ),
}
ROWS: Final = frozenset({INSERT, UPDATE, DELETE, SNAPSHOT})
ONLY_KEY: Final = ("onlyHandleKey", "claimCheckLocation")
"""TiCDC's fields that mark a row of which only the key was sent."""

NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?", re.ASCII)
NUMBERS: Final = "number"
BYTES: Final = "bytes"
_TEXT: Final = "text"
# By the first word of mysqlType.
_MYSQL_TYPES: Final = (
    dict.fromkeys(
        (
            *("tinyint", "smallint", "mediumint", "int", "integer", "bigint", "serial"),
            *("decimal", "numeric", "dec", "fixed", "float", "double", "real"),
            *("bit", "bool", "boolean", "year"),
        ),
        NUMBERS,
    )
    | dict.fromkeys(
        (
            *("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"),
            *("geometry", "point", "linestring", "polygon", "geometrycollection", "geomcollection"),
            *("multipoint", "multilinestring", "multipolygon"),
        ),
        BYTES,
    )
    | dict.fromkeys(
        (
            *(
                "char",
                "character",
                "varchar",
                "nchar",
                "nvarchar",
                "national",
                "json",
            ),
            *(
                "tinytext",
                "text",
                "mediumtext",
                "longtext",
                "date",
                "datetime",
                "timestamp",
                "time",
            ),
        ),
        _TEXT,
    )
)
# By java.sql.Types: BIT, TINYINT, BIGINT, NUMERIC to DOUBLE, BOOLEAN; LONGVARBINARY, VARBINARY,
# BINARY, BLOB.
_JDBC_TYPES: Final = dict.fromkeys((-7, -6, -5, 2, 3, 4, 5, 6, 7, 8, 16), NUMBERS) | dict.fromkeys(
    (-4, -3, -2, 2004), BYTES
)
# Only the first word of other types matters, and it is cached.
_LONGEST_TYPE: Final = 64
# The size of an event beside its texts.
_EVENT_BYTES: Final = 256


Kind = str | Labels
"""How values of a column are converted: ``NUMBERS``, ``BYTES``, or labels."""


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message. Returns an event for each row; a single ``invalid`` one for a bad
    message.
    """
    _, key_metadata = load_key(key)
    try:
        message = load_whole(value) if value else None
        if message is None or message == "default":
            return [Event(0, TOMBSTONE, metadata=encode(key_metadata) if key_metadata else None)]
        return _events(message, key_metadata, Budget(len(value or b"") + len(key or b"")))
    except DecodeError as error:
        return [invalid(error, metadata=encode(key_metadata) if key_metadata else None)]


def _events(message: Any, key_metadata: dict[str, Any], budget: Budget) -> list[Event]:
    if type(message) is not dict:
        raise BadShape(f"$: expected an object, got {kind_of(message)}")
    type_name = message.get("type")
    if type_name != "DELETE":
        _refuse_only_key(message.get("_tidb"))
    if type(type_name) is not str:
        raise BadField(f"$.type: expected a string, got {_found(message, 'type')}")
    is_ddl = message.get("isDdl") is True
    operation = OPERATIONS.get(type_name)
    if is_ddl and operation in (None, MESSAGE):
        operation = SCHEMA_CHANGE
    if operation is None:
        known = ", ".join(OPERATIONS)
        raise BadType(f"$.type: expected one of {known}, or isDdl, got {shown(type_name)}")
    is_row = operation in ROWS
    database = _take_name(message, "database")
    table = _take_name(message, "table")
    occurred_at = _occurred_at(message)
    if not is_row:
        metadata = metadata_of(message, key_metadata)
        return [
            Event(
                0,
                operation,
                source_database=database,
                source_table=table,
                occurred_at=occurred_at,
                metadata=encode(metadata),
            )
        ]
    rows, old = _take_rows(message, operation)
    budget.spend(len(rows) * _EVENT_BYTES)
    names = key_names(message)
    kinds = kinds_of(message)
    del message["type"]
    metadata = metadata_of(message, key_metadata)
    if len(rows) > 1:
        metadata = _with_note(metadata, "batch_size", len(rows))
    shared = encode(metadata)
    events: list[Event] = []
    for index, row in enumerate(rows):
        untyped: list[str] = []
        if kinds:
            _convert(row, kinds, "$.before" if operation == DELETE else "$.after", untyped, budget)
        before = None
        if old is not None and (changed := old[index]) is not None:
            _convert(changed, kinds, "$.before", untyped, budget)
            before = encode(row | changed)
        record_key = None
        if names:
            in_row = names if names <= row.keys() else names_in(row, names)
            if in_row <= row.keys():
                record_key = canonical(plain_numbers({name: row[name] for name in in_row}))
        image = encode(row)
        events.append(
            Event(
                index,
                operation,
                database,
                None,
                table,
                record_key,
                image if operation == DELETE else before,
                None if operation == DELETE else image,
                occurred_at,
                None,
                encode(_with_note(metadata, "untyped", untyped)) if untyped else shared,
            )
        )
        if not index and len(shared) * len(rows) > budget.bytes // 2:
            metadata = {"batch_size": len(rows)}
            shared = encode(metadata)
    return events


def _with_note(metadata: dict[str, Any], name: str, note: Any) -> dict[str, Any]:
    """The metadata of a message with a note of ours; if a field has the note's name, all fields
    go into ``message``.
    """
    return ({"message": metadata} if name in metadata else metadata) | {name: note}


def _refuse_only_key(extension: Any) -> None:
    for field in ONLY_KEY if type(extension) is dict else ():
        if extension.get(field):
            raise BadField(
                f"$._tidb.{field}: only the key of a row that was too large, not the row: raise"
                " TiCDC's max-message-bytes, and set large-message-handle-option to none"
            )


def _take_rows(message: dict[str, Any], operation: str) -> tuple[list[Any], list[Any] | None]:
    """The rows of a message, and their former values, as far as the message has them."""
    place = "old" if operation == DELETE and message.get("data") is None else "data"
    rows = message.get(place)
    if type(rows) is not list or not rows:
        got = "an empty one" if rows == [] else _found(message, place)
        if rows is None and message.get("sql"):
            got += " and the statement alone: the source's binlog_format has to be ROW"
        raise BadField(f"$.{place}: expected an array of rows, got {got}")
    for index, row in enumerate(rows):
        if type(row) is not dict or not row:
            got = "an empty one" if row == {} else kind_of(row)
            raise BadField(f"$.{place}[{index}]: expected an object with columns, got {got}")
    message.pop("data", None)
    old = message.get("old")
    if operation == UPDATE and old is not None:
        if type(old) is not list or len(old) != len(rows):
            got = f"{len(old)}" if type(old) is list else kind_of(old)
            raise BadField(f"$.old: expected an array of {len(rows)}, as data is, got {got}")
        for index, row in enumerate(old):
            if row is not None and type(row) is not dict:
                raise BadField(f"$.old[{index}]: expected an object or null, got {kind_of(row)}")
    elif place == "data" and old is not None:
        # It has no meaning for inserts and deletes: metadata keeps it.
        return rows, None
    message.pop("old", None)
    return rows, old if operation == UPDATE else None


def key_names(message: dict[str, Any]) -> frozenset[str]:
    names = message.get("pkNames")
    if names is None:
        return frozenset()
    if type(names) is not list or not all(type(name) is str for name in names):
        raise BadField("$.pkNames: expected an array of names or null")
    # A message of several rows may name a column for each.
    return frozenset(names)


def names_in(row: dict[str, Any], names: frozenset[str]) -> frozenset[str]:
    """The names in the row's spelling, where that is unambiguous."""
    in_row: dict[str, str | None] = {}
    for name in row:
        folded = name.lower()
        in_row[folded] = None if folded in in_row else name
    return frozenset(name if name in row else in_row.get(name.lower()) or name for name in names)


def kinds_of(message: dict[str, Any]) -> dict[str, Kind]:
    """The columns whose values are more than text. ``mysqlType`` is more reliable."""
    kinds: dict[str, Kind] = {}
    for field in ("sqlType", "mysqlType"):
        types = message.get(field)
        if types is None:
            continue
        if type(types) is not dict:
            raise BadField(f"$.{field}: expected an object or null, got {kind_of(types)}")
        for name, declared in types.items():
            if declared == "":
                continue
            kind: Kind | None
            if type(declared) is str:
                if has_labels(declared):
                    kind = labels_of(declared, (message.get("sqlType") or {}).get(name))
                else:
                    kind = _kind_of_type(declared[:_LONGEST_TYPE])
            else:
                kind = _JDBC_TYPES.get(declared) if type(declared) is int else None
            if kind is _TEXT:
                kinds.pop(name, None)
            elif kind is not None:
                kinds[name] = kind
    return kinds


def is_binary(mysql_type: str) -> bool:
    """Whether values of a MySQL type become base64."""
    return _kind_of_type(mysql_type[:_LONGEST_TYPE]) is BYTES


@lru_cache(4096)
def _kind_of_type(declared: str) -> str | None:
    """None for a type that is not MySQL's."""
    words = re.split(r"[^a-z]", declared.strip().lower(), maxsplit=1)
    return _MYSQL_TYPES.get(words[0])


def _convert(
    row: dict[str, Any], kinds: dict[str, Kind], image: str, untyped: list[str], budget: Budget
) -> None:
    """Convert the values of a row to their types; those that don't fit stay as sent, and are
    noted.
    """
    for name, value in row.items():
        kind = kinds.get(name)
        if kind is None or type(value) is not str:
            continue
        if kind is NUMBERS and NUMBER.fullmatch(value):
            row[name] = msgspec.Raw(value.encode())
            continue
        if type(kind) is Labels:
            text = kind.text(value)
            if text is not None:
                if text is not value:
                    budget.spend_text(text)
                row[name] = text
                continue
        elif kind is BYTES:
            try:
                row[name] = value.encode("latin-1")
                continue
            except UnicodeEncodeError:
                pass
        path = image + step_text(name)
        budget.spend_text(path)
        untyped.append(path)


def _take_name(message: dict[str, Any], field: str) -> str | None:
    name = message.get(field)
    if type(name) is not str and name is not None:
        raise BadField(f"$.{field}: expected a name, got {_found(message, field)}")
    message.pop(field, None)
    return name or None


def _occurred_at(message: dict[str, Any]) -> int | None:
    time = message.get("es")
    if type(time) is not int:
        if time is None:
            return None
        raise BadField(f"$.es: expected an integer or null, got {kind_of(time)}")
    return time if 0 < time <= MAX_TIME_MS else None


def _found(message: dict[str, Any], name: str) -> str:
    return kind_of(message[name]) if name in message else "nothing"
