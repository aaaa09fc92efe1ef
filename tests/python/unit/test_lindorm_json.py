"""Lindorm's Debezium format 2.0: the page's own samples, verbatim in ``payloads/lindorm_json``."""

import json
from pathlib import Path
from typing import Any

import pytest

from python_udfs.core.events import Event
from python_udfs.debezium import lindorm as lindorm_json

PAGE = Path(__file__).parent / "payloads" / "lindorm_json"

ANNE = {"id": "1004", "first_name": "Anne", "last_name": "Kretchmar"}
ANNE_MARIE = {"id": "1004", "first_name": "Anne Marie", "last_name": "Kretchmar"}

SAMPLES = {
    "structure": ("update", {"id": 1004, "name": "Jane"}, {"id": 1004, "name": "Anne"}),
    "insert": ("insert", None, ANNE),
    "update": ("update", ANNE_MARIE, ANNE),
    "row_delete": ("delete", ANNE_MARIE, None),
    "column_delete": ("update", ANNE_MARIE, {"id": "1004", "first_name": "Anne Marie"}),
    "hbase_insert": ("insert", None, {"ROW": "dXNlcjE=", "f_name": "bHVja3k="}),
}


def page(name: str) -> bytes:
    return (PAGE / f"{name}.json").read_bytes()


def decode(key: bytes | None, value: bytes | None) -> Event:
    (event,) = lindorm_json.decode(key, value)
    assert event.event_index == 0
    return event


def loads(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


@pytest.mark.parametrize("name", SAMPLES)
def test_page_samples(name: str) -> None:
    operation, before, after = SAMPLES[name]
    payload = loads(page(name))["payload"]
    event = decode(None, page(name))

    assert event.operation == operation
    assert (event.source_database, event.source_schema, event.source_table) == (
        "ld-xxxx",
        "default",
        "customers",
    )
    assert event.record_key is None
    assert loads(event.before) == before
    assert loads(event.after) == after
    assert event.occurred_at == payload["source"]["ts_ms"]
    assert loads(event.metadata) == {"source": payload["source"], "ts_ms": payload["ts_ms"]}
    assert (event.expires_at, event.error_code, event.error_detail) == (None, None, None)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_prefix_is_truncated(name: str) -> None:
    value = page(name).rstrip()
    for length in range(1, len(value)):
        event = decode(None, value[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated"), length


@pytest.mark.parametrize("schema", [b"{}", b"null", b" { } ", None])
def test_forms_of_an_empty_schema(schema: bytes | None) -> None:
    payload = json.dumps(loads(page("insert"))["payload"]).encode()
    head = b'{"schema":' + schema + b"," if schema is not None else b"{"
    assert decode(None, head + b'"payload":' + payload + b"}") == decode(None, page("insert"))


def test_full_schema_types_the_images() -> None:
    value = page("structure").replace(b'"id": 1004', b'"id": "1004"')
    assert decode(None, value).after == b'{"id":1004,"name":"Anne"}'


def test_hbase_values_stay_base64() -> None:
    value = loads(page("hbase_insert"))
    value["payload"]["after"] |= {"f_age": "AAAAKg==", "f_raw": "/wA=", "f_none": None}
    event = decode(None, json.dumps(value).encode())
    assert loads(event.after) == value["payload"]["after"]


def test_a_delete_needs_its_row() -> None:
    value = loads(page("row_delete"))
    del value["payload"]["before"]
    event = decode(None, json.dumps(value).encode())
    assert (event.operation, event.error_code) == ("invalid", "bad_field")


def test_a_key_that_is_shipped_is_used() -> None:
    assert decode(b'{"id":"1004"}', page("insert")).record_key == b'{"id":"1004"}'


@pytest.mark.parametrize("value", [None, b"", b"null"])
def test_tombstones(value: bytes | None) -> None:
    assert decode(None, value) == Event(0, "tombstone")


# Which of the page's messages, and whether they are alike enough to be decoded together.
STREAMS = {
    "an SQL table": (("insert", "update", "row_delete"), True),
    # Without `before`, which the fast path wants.
    "an HBase table": (("hbase_insert",), False),
    "all": (tuple(SAMPLES), False),
}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("namespaces", [("default",), ("default", "other")])
def test_many_messages_are_decoded_as_each_one_is(stream: str, namespaces: tuple[str, ...]) -> None:
    names, are_alike = STREAMS[stream]
    values: list[bytes | None] = []
    for number in range(600):
        message = json.loads(page(names[number % len(names)]).replace(b"1004", b"%d" % number))
        source = message["payload"]["source"]
        source |= {"namespace": namespaces[number % len(namespaces)], "table": stream}
        if number % 97 == 96:
            message["payload"]["op"] = "x"
        values.append(json.dumps(message, separators=(",", ":")).encode())
    values[50:50] = [None, b"", b"null", b"{"]
    keys = [None] * len(values)
    expected = [lindorm_json.decode(None, value) for value in values]
    # The first time the messages' layout is learned.
    lindorm_json.decode_batch(keys, values)
    decoded = lindorm_json.decode_batch(keys, values)
    assert decoded.payloads() == expected
    if are_alike and len(namespaces) == 1:
        assert sum(len(columns.operation) for _, columns in decoded.columns) > 500
