"""aws_dms_json: records as the user guide describes them, and what can be wrong with one.

The guide's chapter on Kafka as a target names the fields and the settings, and has no whole
message: these have its fields in the order and with the types that DMS sends.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python_udfs.aws_dms import CONTROLS, ROWS, decode
from python_udfs.core.events import Event

# MessageFormat=JSON writes lines and tabs, JSON_UNFORMATTED one line.
LOAD = b"""{
\t"data":\t{
\t\t"id":\t1,
\t\t"total":\t7.50,
\t\t"bought_at":\t"2026-01-31T09:00:00Z",
\t\t"note":\tnull
\t},
\t"metadata":\t{
\t\t"timestamp":\t"2026-01-31T09:59:59.442501Z",
\t\t"record-type":\t"data",
\t\t"operation":\t"load",
\t\t"partition-key-type":\t"primary-key",
\t\t"partition-key-value":\t"shop.carts.1",
\t\t"schema-name":\t"shop",
\t\t"table-name":\t"carts"
\t}
}"""
UPDATE = (
    b'{"data":{"id":2,"total":9.90,"note":"x"},"before-image":{"id":1,"total":7.50},'
    b'"metadata":{"timestamp":"2026-01-31T10:00:01.000250Z","record-type":"data",'
    b'"operation":"update","partition-key-type":"schema-table","schema-name":"shop",'
    b'"table-name":"carts","transaction-id":1139,"transaction-record-id":1,'
    b'"prev-transaction-id":1138,"prev-transaction-record-id":7,'
    b'"commit-timestamp":"2026-01-31T10:00:00.886717Z",'
    b'"stream-position":"00000002/7C007328.2.00000002/7C007328"}}'
)
DELETE = (
    b'{"data":{"id":2,"total":null,"note":null},"metadata":{"record-type":"data",'
    b'"operation":"delete","schema-name":"shop","table-name":"carts"}}'
)
CREATE_TABLE = (
    b'{"control":{"table-def":{"columns":{"id":{"type":"INT32","nullable":false},'
    b'"total":{"type":"NUMERIC","precision":10,"scale":2,"nullable":true}},"primary-key":["id"]}},'
    b'"metadata":{"timestamp":"2026-01-31T09:59:58.120000Z","record-type":"control",'
    b'"operation":"create-table","partition-key-type":"task-id",'
    b'"partition-key-value":"DZ6OKLFYA5","schema-name":"shop","table-name":"carts"}}'
)


def one(value: bytes | None, key: bytes | None = None) -> Event:
    (event,) = decode(key, value)
    assert event.event_index == 0
    return event


def loads(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text)


def changed(value: bytes, fields: dict[str, Any] | None = None, **parts: Any) -> bytes:
    """A record with other fields of its ``metadata``, and other parts; None takes one away."""
    record = loads(value)
    record["metadata"] |= fields or {}
    record |= {name.replace("_", "-"): part for name, part in parts.items()}
    record["metadata"] = {k: v for k, v in record["metadata"].items() if v is not None}
    return json.dumps({k: v for k, v in record.items() if v is not None}).encode()


def test_a_row_of_the_full_load() -> None:
    assert one(LOAD) == Event(
        event_index=0,
        operation="snapshot",
        source_schema="shop",
        source_table="carts",
        after=b'{"id":1,"total":7.50,"bought_at":"2026-01-31T09:00:00Z","note":null}',
        metadata=b'{"timestamp":"2026-01-31T09:59:59.442501Z","partition-key-type":"primary-key",'
        b'"partition-key-value":"shop.carts.1"}',
    )


def test_an_update_has_the_key_that_it_replaced() -> None:
    event = one(UPDATE)
    assert (event.operation, event.record_key) == ("update", None)
    assert event.before == b'{"id":1,"total":7.50,"note":"x"}'
    assert event.after == b'{"id":2,"total":9.90,"note":"x"}'
    assert event.occurred_at == 1769853600886
    assert loads(event.metadata) == {
        "timestamp": "2026-01-31T10:00:01.000250Z",
        "partition-key-type": "schema-table",
        "transaction-id": 1139,
        "transaction-record-id": 1,
        "prev-transaction-id": 1138,
        "prev-transaction-record-id": 7,
        "commit-timestamp": "2026-01-31T10:00:00.886717Z",
        "stream-position": "00000002/7C007328.2.00000002/7C007328",
    }


def test_a_delete_has_what_the_source_logged_of_its_row() -> None:
    event = one(DELETE)
    assert (event.operation, event.after) == ("delete", None)
    assert event.before == b'{"id":2,"total":null,"note":null}'
    assert (event.occurred_at, event.metadata) == (None, None)


@pytest.mark.parametrize(
    ("parts", "before", "kept"),
    [
        # FieldName of the task.
        ({"was": {"id": 1}}, {"id": 1, "total": 9.9, "note": "x"}, {}),
        ({"was": {"id": 1}, "why": {"id": 0}}, None, {"was": {"id": 1}, "why": {"id": 0}}),
        (
            {"before_image": {"id": 1}, "why": {"id": 0}},
            {"id": 1, "total": 9.9, "note": "x"},
            {"why": {"id": 0}},
        ),
        # A column that the row after it does not have.
        ({"was": {"gone": 5}}, {"id": 2, "total": 9.9, "note": "x", "gone": 5}, {}),
        # PostgreSQL's, where the key did not change.
        ({"before_image": {}}, None, {}),
        ({"was": "text"}, None, {"was": "text"}),
        ({"control": {"id": 1}}, None, {"control": {"id": 1}}),
        ({}, None, {}),
    ],
)
def test_the_before_image_has_the_name_that_the_task_gives_it(
    parts: dict[str, Any], before: dict[str, Any] | None, kept: dict[str, Any]
) -> None:
    event = one(changed(UPDATE, **({"before_image": None} | parts)))
    assert event.operation == "update"
    assert (event.before and loads(event.before)) == before
    known = ("was", "why", "control", "before-image")
    assert {k: v for k, v in loads(event.metadata).items() if k in known} == kept


def test_columns_of_a_before_image_rule_are_columns() -> None:
    event = one(changed(UPDATE, data={"id": 2, "BI_id": 1}, before_image=None))
    assert (event.before, event.after) == (None, b'{"id":2,"BI_id":1}')


@pytest.mark.parametrize("name", ROWS)
def test_operations_of_data_records(name: str) -> None:
    event = one(changed(LOAD, {"operation": name}))
    assert event.operation == ROWS[name]
    assert "operation" not in loads(event.metadata)


@pytest.mark.parametrize("name", CONTROLS)
def test_operations_of_control_records(name: str) -> None:
    event = one(changed(CREATE_TABLE, {"operation": name}))
    assert (event.operation, event.source_schema, event.source_table) == (
        CONTROLS[name],
        "shop",
        "carts",
    )
    assert (event.before, event.after) == (None, None)
    told = loads(event.metadata)
    assert told["control"] == loads(CREATE_TABLE)["control"]
    assert (told["record-type"], told["operation"]) == ("control", name)


def test_a_control_record_about_no_table_is_a_message() -> None:
    fields = {"operation": "task-restarted", "schema-name": "", "table-name": ""}
    event = one(changed(CREATE_TABLE, fields, control=None))
    assert event[1:5] == ("message", None, None, None)
    assert loads(event.metadata)["operation"] == "task-restarted"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31T10:00:00.886717Z", 1769853600886),
        ("2026-01-31T10:00:00.8Z", 1769853600800),
        ("2026-01-31T10:00:00Z", 1769853600000),
        ("9999-12-31T23:59:59.999999Z", 253402300799999),
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T00:00:00.000000Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("0000-00-00T00:00:00Z", None),
        ("2026-02-30T10:00:00Z", None),
        ("2026-01-31 10:00:00", None),
        ("2026-01-31T10:00:00+01:00", None),
        ("", None),
    ],
)
def test_a_change_happened_when_it_was_committed(text: str, time: int | None) -> None:
    event = one(changed(LOAD, {"commit-timestamp": text}))
    assert (event.operation, event.occurred_at) == ("snapshot", time)
    assert loads(event.metadata)["commit-timestamp"] == text


def test_values_stay_as_they_were_sent() -> None:
    row = (
        b'{"n":123456789012345678901234567890,"d":9.90,"e":1e2,"raw":"0x00FF","j":"{\\"a\\": 1}",'
        b'"doc":{"b":[1.0]},"z":null,"":1}'
    )
    value = b'{"data":' + row + b',"metadata":{"record-type":"data","operation":"insert",'
    assert one(value + b'"table-name":"t"}}').after == row


def test_what_stands_beside_the_metadata_is_kept() -> None:
    told = loads(one(changed(LOAD, extra=[1], timestamp="mine")).metadata)
    assert told["extra"] == [1] and told["timestamp"] == "mine"
    assert told["metadata"]["timestamp"] == "2026-01-31T09:59:59.442501Z"
    told = loads(one(changed(LOAD, {"event_key": 5}), b"7").metadata)
    assert (told["event_key"], told["message"]["event_key"]) == (7, 5)


def test_the_kafka_key_is_kept_and_names_no_row() -> None:
    event = one(LOAD, b"shop.carts.1")
    assert event.record_key is None
    told = loads(event.metadata)
    assert (told["event_key"], told["event_key_encoding"]) == ("c2hvcC5jYXJ0cy4x", "base64")
    assert loads(one(LOAD, b"42").metadata)["event_key"] == 42


def test_no_value_is_a_tombstone() -> None:
    for value in (None, b"", b" null"):
        assert one(value, b"1") == Event(0, "tombstone", metadata=b'{"event_key":1}')
        assert one(value) == Event(0, "tombstone")


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        (b"[]", "bad_shape", "$: expected an object, got an array"),
        (b"{}", "bad_field", "$.metadata: expected an object, got nothing"),
        (b'{"metadata":[]}', "bad_field", "$.metadata: expected an object, got an array"),
        (
            changed(LOAD, {"record-type": None}),
            "bad_field",
            "$.metadata.record-type: expected a string, got nothing",
        ),
        (
            changed(LOAD, {"record-type": "row"}),
            "bad_type",
            "$.metadata.record-type: expected data or control, got 'row'",
        ),
        (
            changed(LOAD, {"operation": "upsert"}),
            "bad_type",
            "$.metadata.operation: expected one of load, read, insert, create, update, delete,"
            " got 'upsert'",
        ),
        (changed(LOAD, {"operation": 1}), "bad_field", "expected a string, got a number"),
        (
            changed(CREATE_TABLE, {"operation": "empty-table"}),
            "bad_type",
            "column-type-change, got 'empty-table'",
        ),
        (
            changed(CREATE_TABLE, {"operation": "truncate-table", "table-name": ""}),
            "bad_field",
            "$.metadata.table-name: missing, so the event belongs to no table",
        ),
        (changed(LOAD, {"table-name": None}), "bad_field", "$.metadata.table-name: missing"),
        (changed(LOAD, {"table-name": 7}), "bad_field", "expected a name, got a number"),
        (changed(LOAD, {"schema-name": True}), "bad_field", "$.metadata.schema-name: expected a"),
        (changed(LOAD, data=None), "bad_field", "columns of a row, got nothing"),
        (changed(LOAD, data={}), "bad_field", "columns of a row, got an empty one"),
        (changed(LOAD, data="x"), "bad_field", "columns of a row, got a string"),
        (changed(UPDATE, before_image=[1]), "bad_field", "$.before-image: expected an object or"),
        (changed(LOAD, {"commit-timestamp": 1}), "bad_field", "$.metadata.commit-timestamp: exp"),
        (UPDATE.replace(b'"total":9.90', b'"id":9'), "bad_field", "the name 'id' comes twice"),
        (UPDATE + b"x", "trailing_bytes", ""),
        (UPDATE.replace(b"shop", b"\xff"), "bad_field", ""),
        (UPDATE.replace(b":", b";", 1), "not_json", ""),
    ],
)
def test_a_bad_record_says_why(value: bytes, code: str, detail: str) -> None:
    event = one(value, b"1")
    assert (event.operation, event.error_code) == ("invalid", code)
    assert detail in (event.error_detail or "")
    assert event.metadata == b'{"event_key":1}'


@pytest.mark.parametrize("value", [LOAD, UPDATE, CREATE_TABLE])
def test_each_prefix_is_truncated(value: bytes) -> None:
    for length in range(1, len(value)):
        assert one(value[:length]).error_code == "truncated"


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([{"a": None}])
COLUMNS = st.dictionaries(st.text(max_size=4), JSON, min_size=1, max_size=3)
NAMES = st.sampled_from(["was", "timestamp", "event_key", "message", "control", "x"])
FIELDS = st.dictionaries(NAMES, JSON, max_size=3)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*ROWS]), COLUMNS, COLUMNS, FIELDS, FIELDS, st.none() | st.integers())
def test_nothing_is_lost(
    operation: str,
    row: dict[str, Any],
    image: dict[str, Any],
    fields: dict[str, Any],
    others: dict[str, Any],
    key: int | None,
) -> None:
    names = {"record-type": "data", "operation": operation, "table-name": "t"}
    record = {**others, "data": row, "before-image": image, "metadata": fields | names}
    event = one(json.dumps(record).encode(), None if key is None else str(key).encode())
    assert loads(event.before if operation == "delete" else event.after) == row
    if operation == "update":
        assert loads(event.before) == row | image
    else:
        others = others | {"before-image": image}
    told = loads(event.metadata or b"{}")
    if key is not None:
        assert told.pop("event_key") == key
    apart = bool(fields.keys() & others.keys())
    sent = {"metadata": fields, **others} if apart else fields | others
    assert told == ({"message": sent} if key is not None and "event_key" in sent else sent)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([LOAD, UPDATE, DELETE, CREATE_TABLE]), st.data())
def test_a_damaged_record_gives_an_event(record: bytes, data: Any) -> None:
    damaged = bytearray(record)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    event = one(bytes(damaged), bytes(damaged))
    assert (event.operation == "invalid") == (event.error_code is not None)
    for column in (event.before, event.after, event.metadata):
        assert column is None or isinstance(json.loads(column), dict)
