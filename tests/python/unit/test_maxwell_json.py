"""maxwell_json: the examples of Maxwell's pages, word for word, and what can be wrong with one.

Pages: docs/docs/dataformat.md, bootstrapping.md and producers.md of github.com/zendesk/maxwell, and
the test of its Kafka keys, RowIdentityTest.java. The first of the page's messages are whole; of the
others it leaves fields out (``...``), which are here as in the first.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python_udfs.binlog.maxwell import OPERATIONS, decode
from python_udfs.core.events import Event

INSERT = b"""{
   "database":"test",
   "table":"e",
   "type":"insert",
   "ts":1477053217,
   "xid":23396,
   "commit":true,
   "position":"master.000006:800911",
   "server_id":23042,
   "thread_id":108,
   "primary_key": [1, "2016-10-21 05:33:37.523000"],
   "primary_key_columns": ["id", "c"],
   "data":{
      "id":1,
      "m":4.2341,
      "c":"2016-10-21 05:33:37.523000",
      "comment":"I am a creature of light."
   }
}
"""
UPDATE = b"""{
   "database":"test",
   "table":"e",
   "type":"update",
   "ts":1477053234,
   "data":{
      "id":1,
      "m":5.444,
      "c":"2016-10-21 05:33:54.631000",
      "comment":"I am a creature of light."
   },
   "old":{
      "m":4.2341,
      "c":"2016-10-21 05:33:37.523000"
   }
}
"""
DELETE = b"""{
   "database":"test",
   "table":"e",
   "type":"delete",
   "ts":1477053234,
   "data":{
      "id":1,
      "m":5.444,
      "c":"2016-10-21 05:33:54.631000",
      "comment":"I am a creature of light."
   }
}"""
TABLE_ALTER = b"""{
   "type":"table-alter",
   "database":"test",
   "table":"e",
   "old":{
      "database":"test",
      "charset":"utf8mb4",
      "table":"e",
      "columns":[
         {
            "type":"int",
            "name":"id",
            "signed":true
         }
      ],
      "primary-key":[
         "id"
      ]
   },
   "def":{
      "database":"test",
      "charset":"utf8mb4",
      "table":"e",
      "columns":[
         {
            "type":"int",
            "name":"id",
            "signed":true
         },
         {
            "type":"bigint",
            "name":"torvalds",
            "signed":false
         }
      ],
      "primary-key":[
         "id"
      ]
   },
   "ts":1477053308000,
   "sql":"alter table test.e add column torvalds bigint unsigned after m",
   "position":"master.000006:804398"
}"""
BOOTSTRAP = b"""
{"database":"fooDB","table":"barTable","type":"insert","ts":1450557598,"xid":13,"data":{"txt":"hello"}}
{"database":"fooDB","table":"barTable","type":"bootstrap-start","ts":1450557744,"data":{}}
{"database":"fooDB","table":"barTable","type":"bootstrap-insert","ts":1450557744,"data":{"txt":"hello"}}
{"database":"fooDB","table":"barTable","type":"bootstrap-complete","ts":1450557744,"data":{}}
"""
KEY = b'{ "database":"test_tb","table":"test_tbl","pk.id":4,"pk.part2":"hello"}'
ARRAY_KEY = b'["MyDatabase","MyTable",[{"id":111},{"account":123}]]'
# What a dead letter topic has.
SKELETON = (
    b'{"database":"MyDatabase","table":"MyTable","type":"insert","reason":"too big",'
    b'"data":{"id":111}}'
)
ROW = b'{"id":1,"m":5.444,"c":"2016-10-21 05:33:54.631000","comment":"I am a creature of light."}'


def one(value: bytes | None, key: bytes | None = None) -> Event:
    (event,) = decode(key, value)
    assert event.event_index == 0
    return event


def loads(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text)


def test_an_insert() -> None:
    assert one(INSERT) == Event(
        event_index=0,
        operation="insert",
        source_database="test",
        source_table="e",
        record_key=b'{"c":"2016-10-21 05:33:37.523000","id":1}',
        after=b'{"id":1,"m":4.2341,"c":"2016-10-21 05:33:37.523000",'
        b'"comment":"I am a creature of light."}',
        occurred_at=1477053217000,
        metadata=b'{"ts":1477053217,"xid":23396,"commit":true,"position":"master.000006:800911",'
        b'"server_id":23042,"thread_id":108,"primary_key":[1,"2016-10-21 05:33:37.523000"],'
        b'"primary_key_columns":["id","c"]}',
    )


def test_an_update_has_both_images() -> None:
    event = one(UPDATE)
    assert (event.operation, event.after) == ("update", ROW)
    assert event.before == (
        b'{"id":1,"m":4.2341,"c":"2016-10-21 05:33:37.523000",'
        b'"comment":"I am a creature of light."}'
    )
    assert (event.record_key, event.metadata) == (None, b'{"ts":1477053234}')
    assert one(UPDATE.replace(b'"old"', b'"older"')).before is None


def test_a_delete_has_the_row_that_was() -> None:
    event = one(DELETE)
    assert (event.operation, event.before, event.after) == ("delete", ROW, None)


@pytest.mark.parametrize("name", [b"null", b'""', None])
def test_a_row_without_a_table(name: bytes | None) -> None:
    message = loads(UPDATE)
    names = {} if name is None else {"database": json.loads(name), "table": json.loads(name)}
    message = {each: message[each] for each in message if each not in ("database", "table")}
    event = one(json.dumps(message | names).encode())
    assert (event.operation, *event[2:5]) == ("update", None, None, None)


def test_a_definition() -> None:
    event = one(TABLE_ALTER)
    assert (event.operation, event.source_database, event.source_table) == (
        "schema_change",
        "test",
        "e",
    )
    assert (event.before, event.after, event.occurred_at) == (None, None, 1477053308000)
    told = loads(TABLE_ALTER)
    assert loads(event.metadata) == {
        name: told[name] for name in ("type", "old", "def", "ts", "sql", "position")
    }
    created = b'{"type":"database-create","database":"test","charset":"utf8mb4","ts":1477053126000}'
    assert (one(created).operation, one(created).source_table) == ("schema_change", None)


def test_a_bootstrap() -> None:
    events = [one(line) for line in BOOTSTRAP.splitlines() if line]
    assert [event.operation for event in events] == ["insert", "message", "snapshot", "message"]
    assert {(event.source_database, event.source_table) for event in events} == {
        ("fooDB", "barTable")
    }
    assert events[2].after == b'{"txt":"hello"}'
    assert loads(events[1].metadata) == {"type": "bootstrap-start", "ts": 1450557744, "data": {}}


@pytest.mark.parametrize(
    ("key", "row", "record_key"),
    [
        (KEY, {"id": 4, "part2": "hello"}, b'{"id":4,"part2":"hello"}'),
        # Keys have the names in lower case.
        (KEY, {"ID": 4, "Part2": "hello", "x": 1}, b'{"ID":4,"Part2":"hello"}'),
        (ARRAY_KEY, {"id": 111, "Account": 123}, b'{"Account":123,"id":111}'),
        (b'["db1","users",{"id":123}]', {"id": 123}, b'{"id":123}'),
        (b'["MyDatabase","MyTable",[{"id":"9001"},{"n":["x"]}]]', {}, b'{"id":"9001","n":["x"]}'),
        (b'{"database":"a","table":"b","_uuid":"468f5ef7"}', {"id": 1}, None),
        (b'{"database":"a","table":"b","pk.id":1.50}', {"id": 1}, b'{"id":1.5}'),
        (b"4", {"id": 1}, None),
        (b'{"pk.id":1}', {"id": 1}, None),
    ],
)
def test_kafka_keys(key: bytes, row: dict[str, Any], record_key: bytes | None) -> None:
    value = loads(UPDATE) | {"data": row or {"x": 1}}
    event = one(json.dumps(value).encode(), key)
    assert event.record_key == record_key
    assert loads(event.metadata)["event_key"] == loads(key)


@pytest.mark.parametrize(
    ("key", "row", "record_key"),
    [
        # output_naming_strategy=underscore_to_camelcase changes the row's names, not the key's.
        (b'"pk.user_id":7', {"userId": 7, "x": 1}, b'{"userId":7}'),
        (b'"pk.user_id":7,"pk._no":1', {"UserId": 7, "no": 1}, b'{"UserId":7,"no":1}'),
        (b'"pk.user_id":7', {"userid": 8, "userId": 7}, b'{"userId":7}'),
        (b'"pk.userid":8', {"userid": 8, "userId": 7}, b'{"userid":8}'),
        (b'"pk.user_id":7', {"user_id": 7, "userId": 1}, b'{"user_id":7}'),
        (b'"pk.a__b_":7', {"a_b": 7}, b'{"a_b":7}'),
        (b'"pk.a__":7,"pk._":8', {"a_": 7, "_": 8}, b'{"_":8,"a_":7}'),
    ],
)
def test_keys_of_rows_in_camel_case(key: bytes, row: dict[str, Any], record_key: bytes) -> None:
    value = json.dumps(loads(UPDATE) | {"data": row, "old": {}}).encode()
    assert one(value, b'{"database":"test","table":"e",' + key + b"}").record_key == record_key


@pytest.mark.parametrize(
    ("fields", "row", "record_key"),
    [
        ({"primary_key_columns": ["user_id"]}, {"user_id": 7}, b'{"user_id":7}'),
        ({"primary_key_columns": ["user_id"]}, {"userId": 7}, b'{"userId":7}'),
        ({"primaryKeyColumns": ["user_id"], "primaryKey": [7]}, {"userId": 7}, b'{"userId":7}'),
        # exclude_columns takes columns out of the row only.
        (
            {"primary_key": [7, "a"], "primary_key_columns": ["ID", "part"]},
            {"part": "a"},
            b'{"ID":7,"part":"a"}',
        ),
        ({"primaryKeyColumns": ["user_id"], "primaryKey": [7]}, {"x": 1}, b'{"userId":7}'),
        ({"primary_key_columns": []}, {"id": 7}, None),
        ({"primary_key": [7]}, {"id": 7}, None),
    ],
)
def test_keys_of_messages_without_a_kafka_key(
    fields: dict[str, Any], row: dict[str, Any], record_key: bytes | None
) -> None:
    event = one(json.dumps(loads(DELETE) | fields | {"data": row}).encode())
    assert (event.operation, event.record_key) == ("delete", record_key)


# Maxwell's encrypt=all, encrypt=data, and as its first versions did it.
@pytest.mark.parametrize(
    "value",
    [
        b'{"encrypted":{"iv":"G9//ePvKuKTc9EZVxfKmCA==","bytes":"AhmZYuq4EfNOyOyTCS7uEg=="}}',
        b'{"database":"d","table":"t","type":"insert","ts":1,"encrypted":{"iv":"","bytes":""}}',
        b'{"database":"d","table":"t","type":"insert","ts":1,"data":"AhmZYuq4EfNOyOyTCS7uEg=="}',
    ],
)
def test_an_encrypted_row_says_so(value: bytes) -> None:
    event = one(value, KEY)
    assert event.error_code == "bad_field"
    assert "encrypted: set Maxwell's encrypt to none" in (event.error_detail or "")


def test_a_tombstone_names_its_row() -> None:
    for value in (None, b"", b"null", b' "default"'):
        assert one(value, KEY) == Event(
            0,
            "tombstone",
            source_database="test_tb",
            source_table="test_tbl",
            record_key=b'{"id":4,"part2":"hello"}',
            metadata=b'{"event_key":{"database":"test_tb","table":"test_tbl","pk.id":4,'
            b'"pk.part2":"hello"}}',
        )
    assert one(None) == Event(0, "tombstone")


def test_a_key_that_can_not_be_decoded_is_kept() -> None:
    event = one(UPDATE, b"\xff")
    assert (event.operation, event.record_key) == ("update", None)
    assert event.metadata == b'{"ts":1477053234,"event_key":"/w==","event_key_encoding":"base64"}'


def test_values_stay_as_they_were_sent() -> None:
    row = (
        b'{"n":123456789012345678901234567890,"d":9.90,"e":1e2,"s":["b_val","c_val"],'
        b'"dtcol":"0000-00-00 00:00:00","j":{"b":1,"a":[1.0]},"z":null}'
    )
    value = b'{"database":"d","table":"t","type":"insert","ts":1,"data":' + row + b"}"
    assert one(value).after == row


def test_a_field_of_the_user_s_own_is_kept() -> None:
    value = UPDATE.replace(b'"ts"', b'"event_key":1,"ts"')
    assert loads(one(value).metadata) == {"event_key": 1, "ts": 1477053234}
    assert loads(one(value, b"7").metadata) == {
        "message": {"event_key": 1, "ts": 1477053234},
        "event_key": 7,
    }


@pytest.mark.parametrize("name", ["old_key", "new_key"])
def test_a_field_called_as_the_key_of_a_key_update_is_none(name: str) -> None:
    value = UPDATE.replace(b'"ts"', b'"%b":"x","ts"' % name.encode())
    assert loads(one(value).metadata) == {"message": {name: "x", "ts": 1477053234}}


@pytest.mark.parametrize("value", [INSERT, UPDATE, DELETE, TABLE_ALTER])
def test_each_prefix_is_truncated(value: bytes) -> None:
    value = value.rstrip()
    for length in range(1, len(value)):
        event = one(value[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated"), length


@pytest.mark.parametrize(
    ("old", "new", "code", "detail"),
    [
        (UPDATE, b"[]", "bad_shape", "$: expected an object, got an array"),
        (UPDATE, SKELETON, "bad_field", "$.reason: only a key, in place of a message"),
        (
            b'"update"',
            b'"replace"',
            "bad_type",
            "$.type: expected one of insert, update, delete, b",
        ),
        (b'"update"', b"1", "bad_field", "$.type: expected a string, got a number"),
        (b'"type":"update",', b"", "bad_field", "$.type: expected a string, got nothing"),
        (b'"database":"test"', b'"database":{}', "bad_field", "$.database: expected a name, got"),
        (b'"table":"e"', b'"table":7', "bad_field", "$.table: expected a name, got a number"),
        (b'"data"', b'"date"', "bad_field", "$.data: expected an object with the columns of a r"),
        (
            UPDATE,
            UPDATE[: UPDATE.index(b'"data"')] + b'"data":{}}',
            "bad_field",
            "$.data: expected an object with the co",
        ),
        (b'"old":{', b'"old":7,"x":{', "bad_field", "$.old: expected an object or null, got a num"),
        (b"1477053234", b'"now"', "bad_field", "$.ts: expected an integer, got a string"),
        (b'"ts"', b'"primary_key_columns":["x"],"ts"', "bad_field", "$.primary_key_columns: 'x' i"),
        (b'"ts"', b'"primary_key_columns":[1],"ts"', "bad_field", "$.primary_key_columns: expect"),
        (b'"m":5.444', b'"m":5.444,"m":1', "bad_field", "the name 'm' comes twice in one object"),
        (b"creature", b"\xff", "bad_field", "invalid UTF-8 at byte"),
        (b"creature", b"\\ud800", "bad_field", "unpaired surrogate escape"),
        (b'"m":5.444', b'"m":NaN', "not_json", "no JSON: "),
        (b'"m":5.444', b'"m":' + b"[" * 300 + b"]" * 300, "too_deep", "nested deeper than"),
        (UPDATE, UPDATE + b"]", "trailing_bytes", "1 bytes after the end"),
    ],
)
def test_a_bad_message_says_why(old: bytes, new: bytes, code: str, detail: str) -> None:
    event = one(UPDATE.replace(old, new, 1))
    assert (event.operation, event.error_code) == ("invalid", code)
    assert (event.error_detail or "").startswith(detail)


@pytest.mark.parametrize(
    ("ts", "occurred_at"),
    [
        (0, None),
        (-1, None),
        (1, 1000),
        (99_999_999_999, 99_999_999_999_000),
        (100_000_000_000, 100_000_000_000),
        (253_402_300_799_999, 253_402_300_799_999),
        (253_402_300_800_000, None),
        (None, None),
    ],
)
def test_times(ts: int | None, occurred_at: int | None) -> None:
    value = loads(UPDATE) | {"ts": ts}
    assert one(json.dumps(value).encode()).occurred_at == occurred_at


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([INSERT, UPDATE, DELETE, TABLE_ALTER]), st.data())
def test_a_damaged_message_gives_an_event(message: bytes, data: Any) -> None:
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    event = one(bytes(damaged), bytes(damaged))
    assert (event.operation == "invalid") == (event.error_code is not None)
    assert event.operation in {*OPERATIONS.values(), "invalid"}
    for column in (event.record_key, event.before, event.after, event.metadata):
        assert column is None or isinstance(json.loads(column), dict)
