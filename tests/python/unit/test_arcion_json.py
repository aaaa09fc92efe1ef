"""Arcion's JSON CDC format: the page's own examples, verbatim in ``payloads/arcion_json``."""

import json
from pathlib import Path
from typing import Any

import pytest

from python_udfs.core.events import Event
from python_udfs.debezium import arcion as arcion_json

PAGE = Path(__file__).parent / "payloads" / "arcion_json"
AFRICA = (
    "lar deposits. blithely final packages cajole. regular waters are final requests. "
    "regular accounts are according to "
)


def page(name: str) -> bytes:
    return (PAGE / f"{name}.json").read_bytes()


def decode(key: bytes | None, value: bytes | None) -> Event:
    (event,) = arcion_json.decode(key, value)
    assert event.event_index == 0
    return event


def loads(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def region(key: int, name: str, comment: str) -> dict[str, Any]:
    return {"r_regionkey": key, "r_name": name, "r_comment": comment}


EXAMPLES = [
    ("snapshot_insert", "snapshot", 0, None, region(0, "AFRICA", AFRICA), None),
    ("insert", "insert", 6, None, region(6, "Test_Region", "Test_Comment"), 1677159568000),
    (
        "update",
        "update",
        0,
        region(0, "AFRICA", AFRICA),
        region(0, "AFRICA", "Test_Replication"),
        1677158088000,
    ),
    ("delete", "delete", 0, region(0, "AFRICA", "Test_Replication"), None, 1677159319000),
]


@pytest.mark.parametrize(
    ("name", "operation", "key", "before", "after", "occurred_at"),
    EXAMPLES,
    ids=[example[0] for example in EXAMPLES],
)
def test_page_examples(
    name: str, operation: str, key: int, before: Any, after: Any, occurred_at: int | None
) -> None:
    payload = loads(page(f"{name}_value"))["payload"]
    event = decode(page(f"{name}_key"), page(f"{name}_value"))

    assert event.operation == operation
    assert (event.source_database, event.source_schema, event.source_table) == (
        "tpch",
        None,
        "region",
    )
    assert event.record_key == b'{"r_regionkey":%d}' % key
    assert loads(event.before) == before
    assert loads(event.after) == after
    assert event.occurred_at == occurred_at
    assert event.expires_at is None
    assert event.error_code is None
    connector = "KAFKA_snapshot_connector" if name == "snapshot_insert" else "KAFKA_Connector"
    assert loads(event.metadata) == {
        "connector": "MYSQL",
        "snapshot": "true" if name == "snapshot_insert" else "false",
        "source": payload["source"],
        "transaction": payload["transaction"],
        "ts_ms": payload["ts_ms"],
        "schema_name": f"{connector}.tpch.region.Envelope",
        "event_key": {"r_regionkey": key},
    }


def test_page_tombstone() -> None:
    event = decode(page("tombstone_key"), page("tombstone_value"))
    assert event == Event(
        0,
        "tombstone",
        record_key=b'{"r_regionkey":0}',
        metadata=b'{"event_key":{"r_regionkey":0}}',
    )


@pytest.mark.parametrize(
    "value", [None, b"", b"null", b' "default"\n', b'{"schema":{},"payload":"default"}']
)
def test_tombstones(value: bytes | None) -> None:
    event = decode(page("tombstone_key"), value)
    assert (event.operation, event.record_key) == ("tombstone", b'{"r_regionkey":0}')


def test_every_prefix_of_the_page_examples_is_truncated() -> None:
    for name, *_ in EXAMPLES:
        value = page(f"{name}_value").rstrip()
        # Every byte of the payload, every seventh of the schema block.
        start = value.index(b'"payload"')
        for length in [*range(1, start, 7), *range(start, len(value))]:
            event = decode(None, value[:length])
            assert (event.operation, event.error_code) == ("invalid", "truncated"), length
            assert f"byte {length}" in str(event.error_detail)


@pytest.mark.parametrize("key", [b'"default"', None, b"", b"null"])
def test_tables_without_a_key(key: bytes | None) -> None:
    event = decode(key, page("insert_value"))
    assert (event.operation, event.record_key) == ("insert", None)
    expected = loads(key) if key else None
    assert loads(event.metadata).get("event_key") == expected


def test_delete_of_a_row_that_nothing_names() -> None:
    value = loads(page("delete_value"))
    value["payload"]["before"] = {}
    event = decode(b'"default"', json.dumps(value).encode())
    assert (event.operation, event.error_code) == ("invalid", "bad_field")
    assert "$.payload.before" in str(event.error_detail)
    # The key alone is enough.
    assert decode(page("delete_key"), json.dumps(value).encode()).operation == "delete"


@pytest.mark.parametrize("absent", ["null", "empty", "missing"])
def test_absent_images(absent: str) -> None:
    value = loads(page("insert_value"))
    if absent == "missing":
        del value["payload"]["before"]
    else:
        value["payload"]["before"] = {} if absent == "empty" else None
    event = decode(None, json.dumps(value).encode())
    assert (event.operation, event.before) == ("insert", None)


def test_numbers_as_numbers() -> None:
    """The page's later revision ships typed values."""
    value = page("update_value").replace(b'"r_regionkey": "0"', b'"r_regionkey": 0')
    key = page("update_key").replace(b'"r_regionkey": "0"', b'"r_regionkey": 0')
    assert decode(key, value) == decode(page("update_key"), page("update_value"))._replace(
        metadata=decode(key, value).metadata
    )


def test_times_as_text() -> None:
    value = page("insert_value").replace(b'"ts_ms": 1677159568000', b'"ts_ms": "1677159568000"')
    event = decode(None, value)
    assert event.occurred_at == 1677159568000
    assert loads(event.metadata)["source"]["ts_ms"] == "1677159568000"


@pytest.mark.parametrize(
    ("connector", "schema", "expected"),
    [
        ("MYSQL", None, None),
        ("MYSQL", "ignored", None),
        ("mysql", "", None),
        ("POSTGRESQL", "public", "public"),
        ("ORACLE", "HR", "HR"),
        ("SYBASE_ASE", "dbo", "dbo"),
        ("SQLSERVER", "dbo", "dbo"),
        ("SQLSERVER", "", None),
        (None, "dbo", "dbo"),
    ],
)
def test_sources(connector: str | None, schema: str | None, expected: str | None) -> None:
    value = loads(page("insert_value"))
    value["payload"]["source"].update(connector=connector, schema=schema, db="sales")
    event = decode(None, json.dumps(value).encode())
    assert (event.source_database, event.source_schema, event.source_table) == (
        "sales",
        expected,
        "region",
    )
    assert loads(event.metadata)["source"]["schema"] == schema


def typed(declared: dict[str, Any], shipped: Any) -> Event:
    value = {
        "schema": {
            "type": "struct",
            "fields": [{"field": "after", "type": "struct", "fields": [declared | {"field": "x"}]}],
        },
        "payload": {"op": "c", "before": None, "after": {"x": shipped}},
    }
    return decode(None, json.dumps(value).encode())


DECIMAL = {
    "type": "bytes",
    "name": "org.apache.kafka.connect.data.Decimal",
    "parameters": {"scale": "2"},
}


@pytest.mark.parametrize(
    ("declared", "shipped", "after"),
    [
        ({"type": "int32", "optional": False}, None, b"null"),
        ({"type": "int32"}, "-7", b"-7"),
        ({"type": "int64"}, "9223372036854775807", b"9223372036854775807"),
        ({"type": "boolean"}, "true", b"true"),
        ({"type": "boolean"}, "FALSE", b"false"),
        ({"type": "double"}, "1.50", b"1.50"),
        ({"type": "float64"}, "1.0E10", b"1.0E10"),
        ({"type": "float32"}, "NaN", b'"NaN"'),
        ({"type": "string"}, "0", b'"0"'),
        # Digits are digits here, although "1234" is base64 as well; so is "Infinity".
        (DECIMAL, "1234", b"1234.00"),
        (DECIMAL, "Infinity", b'"Infinity"'),
        (DECIMAL, "NaN", b'"NaN"'),
        (DECIMAL, "-12.5", b"-12.50"),
        (DECIMAL, "AJY=", b"1.50"),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "20778", b'"2026-11-21"'),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "2026-11-21", b'"2026-11-21"'),
    ],
)
def test_text_is_typed_by_the_schema(declared: dict[str, Any], shipped: Any, after: bytes) -> None:
    event = typed(declared, shipped)
    assert event.after == b'{"x":' + after + b"}"
    assert "untyped" not in (loads(event.metadata) or {})


@pytest.mark.parametrize(
    ("declared", "shipped"),
    [
        ({"type": "int32"}, "seven"),
        ({"type": "int32"}, ""),
        ({"type": "int32"}, "2147483648"),
        ({"type": "int8"}, 128),
        ({"type": "boolean"}, "yes"),
        ({"type": "double"}, "1,5"),
        (DECIMAL, "1.555"),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "21.11.2026"),
    ],
)
def test_what_does_not_fit_stays_as_sent(declared: dict[str, Any], shipped: Any) -> None:
    event = typed(declared, shipped)
    assert event.operation == "insert"
    assert loads(event.after) == {"x": shipped}
    assert loads(event.metadata)["untyped"] == ["$.after.x"]
