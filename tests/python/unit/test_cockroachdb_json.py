"""cockroachdb_json: the examples of CockroachDB's pages, and what can be wrong with a message.

Pages: changefeed-message-envelopes.md and changefeed-messages.md of github.com/cockroachdb/docs
(v25.2), and the envelopes that its tests expect (encoder_test.go).
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python_udfs import cockroachdb
from python_udfs.core.events import Event
from python_udfs.registry import decode_payload

UPDATE = b"""{
  "after": {
    "category": "Home & Kitchen",
    "created_at": "2025-04-01T17:55:46.812942",
    "description": "Adjustable LED desk lamp with touch controls",
    "id": "32856ed8-34d3-45a3-a449-412bdeaa277c",
    "in_stock": true,
    "name": "LED Desk Lamp",
    "price": 26.30
  },
  "before": {
    "category": "Home & Kitchen",
    "created_at": "2025-04-01T17:55:46.812942",
    "description": "Adjustable LED desk lamp with touch controls",
    "id": "32856ed8-34d3-45a3-a449-412bdeaa277c",
    "in_stock": true,
    "name": "LED Desk Lamp",
    "price": 22.30
  }
}"""
UPSERT = (
    b'{"after": {"id": 1, "name": "Terry", "office": "new york city"}, "key": [1],'
    b' "updated": "1701102296662969433.0000000000"}'
)
INSERT = b'{"after": {"a": 1, "b": "bar"}, "before": null, "updated": "1.0000000002"}'
DELETE = (
    b'{"after": null, "before": {"a": 1, "b": "bar"}, "updated": "1701102296662969433.0000000002"}'
)
RESOLVED = b'{"resolved":"1.0000000002"}'
ENRICHED = (
    b'{"after": {"category": "Electronics", "id": "cb1a3e43-dccf-422f-a27d-ea027c233682",'
    b' "price": 29.99}, "op": "c", "ts_ns": 1745525261013511000}'
)
BARE = b'{"__crdb__": {"key": [101]}, "id": 101, "customer_id": 1, "total": 50.00, "status": "new"}'
KEY = b"[1]"


def one(value: bytes | None, key: bytes | None = None) -> Event:
    (event,) = cockroachdb.decode(key, value)
    assert event.event_index == 0
    return event


def loads(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text)


def test_an_update_has_both_images_with_all_digits() -> None:
    event = one(UPDATE, b'["32856ed8-34d3-45a3-a449-412bdeaa277c"]')
    assert event[1:6] == ("update", None, None, None, None)
    assert (event.before or b"").endswith(b'"name":"LED Desk Lamp","price":22.30}')
    assert (event.after or b"").endswith(b'"name":"LED Desk Lamp","price":26.30}')
    assert event.metadata == b'{"event_key":["32856ed8-34d3-45a3-a449-412bdeaa277c"]}'


def test_without_diff_a_row_is_an_upsert() -> None:
    assert one(UPSERT) == Event(
        event_index=0,
        operation="upsert",
        after=b'{"id":1,"name":"Terry","office":"new york city"}',
        occurred_at=1701102296662,
        metadata=b'{"key":[1],"updated":"1701102296662969433.0000000000"}',
    )


def test_with_diff_inserts_and_deletes_are_told() -> None:
    event = one(INSERT)
    assert (event.operation, event.before, event.after) == ("insert", None, b'{"a":1,"b":"bar"}')
    event = one(DELETE, KEY)
    assert (event.operation, event.before, event.after) == ("delete", b'{"a":1,"b":"bar"}', None)
    assert (event.record_key, event.occurred_at) == (None, 1701102296662)


def test_a_delete_of_a_row_that_was_not_there_is_a_message() -> None:
    event = one(
        b'{"after": null, "before": null, "updated": "1701102296662969433.0000000000"}', KEY
    )
    assert (event.operation, event.occurred_at) == ("message", 1701102296662)
    assert loads(event.metadata) == {
        "after": None,
        "before": None,
        "updated": "1701102296662969433.0000000000",
        "event_key": [1],
    }


@pytest.mark.parametrize("value", [RESOLVED, b'{"__crdb__":{"resolved":"1.0000000002"}}'])
def test_what_is_resolved_is_a_message(value: bytes) -> None:
    assert one(value) == Event(0, "message", metadata=value)


@pytest.mark.parametrize(
    ("fields", "time"),
    [
        ({"updated": "1701102296662969433.0000000000"}, 1701102296662),
        # Of the initial scan, the second says when the row was scanned.
        (
            {
                "mvcc_timestamp": "1701102296662969433.0000000001",
                "updated": "1801102296662969433.0000000000",
            },
            1701102296662,
        ),
        ({"mvcc_timestamp": None, "updated": "1701102296662969433.0000000000?"}, 1701102296662),
        ({"updated": "1.0000000002"}, None),
        ({"updated": "1000000.0000000000"}, 1),
        ({"updated": "9999999999999999999.0000000000"}, 9999999999999),
        ({"updated": "10000000000000000000.0000000000"}, None),
        ({"updated": "2026-01-31"}, None),
        ({}, None),
    ],
)
def test_a_change_happened_when_it_was_committed(fields: dict[str, Any], time: int | None) -> None:
    event = one(json.dumps({"after": {"id": 1}, **fields}).encode())
    assert event.occurred_at == time
    assert loads(event.metadata or b"{}") == fields


def test_values_stay_as_they_were_sent() -> None:
    row = (
        b'{"n":123456789012345678901234567890,"d":9.90,"e":1E+2,"raw":"\\\\x00ff","j":{"b":[1.0]},'
        b'"nan":"NaN","z":null,"none":{"__crdb_json_null__":true}}'
    )
    assert one(b'{"after":' + row + b"}").after == row


def test_what_else_a_message_says_is_kept() -> None:
    value = b'{"after":{"id":1},"topic":"vehicles","key":[1],"later":{"x":1.50}}'
    assert one(value).metadata == b'{"topic":"vehicles","key":[1],"later":{"x":1.50}}'
    told = loads(one(b'{"after":{"id":1},"event_key":5,"old_key":6}', KEY).metadata)
    assert told == {"message": {"event_key": 5, "old_key": 6}, "event_key": [1]}


def test_no_value_is_a_tombstone() -> None:
    for value in (None, b"", b"null"):
        assert one(value, KEY) == Event(0, "tombstone", metadata=b'{"event_key":[1]}')


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        (b"[1]", "bad_shape", "$: expected an object, got an array"),
        (b'{"after": null}', "bad_field", "$.before: missing, so nothing names the row that was"),
        (ENRICHED, "bad_shape", "$.op: an enriched envelope has it: its format is debezium_json"),
        (b'{"payload":' + ENRICHED + b',"schema":{}}', "bad_shape", "$.payload: an enriched en"),
        (BARE, "bad_shape", "$.after: missing, as in rows without an envelope: create the change"),
        (b'{"city": "rome"}', "bad_shape", "$.after: missing, as in rows without an envelope"),
        (b'{"resolved":"soon"}', "bad_shape", "$.after: missing"),
        (b'{"after":[1]}', "bad_field", "$.after: expected an object with the columns of a row or"),
        (b'{"after":{}}', "bad_field", "of a row or null, got an empty one"),
        (b'{"after":{"a":1},"before":1}', "bad_field", "$.before: expected an object with the co"),
        (b'{"after":{"a":1},"updated":1}', "bad_field", "$.updated: expected a string, got a num"),
        (
            b'{"after":{"a":1},"mvcc_timestamp":"1.0000000000","updated":{}}',
            "bad_field",
            "$.updated: expected a string, got an object",
        ),
        (b'{"after":{"a":1,"a":2}}', "bad_field", "the name 'a' comes twice in one object"),
        (b'{"after":{"a":"\xff"}}', "bad_field", "invalid UTF-8"),
        (b'{"after":{"a":1}}}', "trailing_bytes", ""),
        (b'{"after":{a:1}}', "not_json", ""),
    ],
)
def test_a_bad_message_says_why(value: bytes, code: str, detail: str) -> None:
    event = one(value, KEY)
    assert (event.operation, event.error_code) == ("invalid", code)
    assert detail in (event.error_detail or "")
    assert event.metadata == b'{"event_key":[1]}'


def test_the_enriched_envelope_is_debezium_s() -> None:
    (event,) = decode_payload("debezium_json", KEY, ENRICHED)
    assert event.operation == "insert"
    for value in (UPDATE, UPSERT, INSERT, DELETE):
        (event,) = decode_payload("debezium_json", KEY, value)
        assert event.operation == "invalid"


@pytest.mark.parametrize("value", [UPDATE, UPSERT, DELETE, RESOLVED])
def test_each_prefix_is_truncated(value: bytes) -> None:
    for length in range(1, len(value)):
        assert one(value[:length]).error_code == "truncated"


JSON = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([{"a": None}])
ROW = st.dictionaries(st.text(max_size=4), JSON, min_size=1, max_size=3)
NAMES = st.sampled_from(["key", "topic", "event_key", "new_key", "message", "x"])


@settings(max_examples=150, deadline=None)
@given(ROW | st.none(), ROW | st.none(), st.dictionaries(NAMES, JSON, max_size=3), st.booleans())
def test_nothing_is_lost(
    after: dict[str, Any] | None,
    before: dict[str, Any] | None,
    fields: dict[str, Any],
    has_key: bool,
) -> None:
    images = {"after": after, "before": before}
    event = one(json.dumps(images | fields).encode(), KEY if has_key else None)
    assert {name: loads(getattr(event, name) or b"null") for name in images} == images
    sent = fields if after or before else images | fields
    told = loads(event.metadata or b"{}")
    if has_key:
        assert told.pop("event_key") == [1]
    aside = "new_key" in sent or ("event_key" in sent and has_key)
    assert told == ({"message": sent} if aside else sent)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([UPDATE, UPSERT, DELETE, RESOLVED]), st.data())
def test_a_damaged_message_gives_an_event(message: bytes, data: Any) -> None:
    damaged = bytearray(message)
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    event = one(bytes(damaged), bytes(damaged))
    assert (event.operation == "invalid") == (event.error_code is not None)
    for column in (event.before, event.after, event.metadata):
        assert column is None or isinstance(json.loads(column), dict)
