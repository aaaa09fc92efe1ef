"""Debezium's messages for tests: one envelope, the forms it comes in, and what is decoded of it."""

import json
from collections.abc import Callable
from typing import Any

from python_udfs.core.events import Event
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium.fast_envelopes import DebeziumFormat

SOURCE = {
    "version": "2.7.0.Final",
    "connector": "postgresql",
    "name": "shop",
    "ts_ms": 1763719200123,
    "snapshot": "false",
    "db": "shop",
    "sequence": '["24023119","24023128"]',
    "schema": "public",
    "table": "orders",
    "txId": 555,
    "lsn": 24023128,
    "xmin": None,
}
ENVELOPE = {
    "before": None,
    "after": {"id": 1, "note": 'say "hi": ok', "price": 1.5},
    "source": SOURCE,
    "op": "c",
    "ts_ms": 1763719200456,
    "transaction": {"id": "555:24023128", "total_order": 1, "data_collection_order": 1},
}
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "bare": lambda text: text,
    "payload": lambda text: b'{"payload":' + text + b"}",
    "null schema": lambda text: b'{"schema":null,"payload":' + text + b"}",
    "empty schema": lambda text: b'{"schema":{},"payload":' + text + b"}",
    "schema behind": lambda text: b'{"payload":' + text + b',"schema":null}',
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "white space": lambda text: b' \n{ "payload"\t: ' + text + b"\r\n}\n",
    "pretty": lambda text: json.dumps(json.loads(text), indent=2).encode(),
    "spaced": lambda text: json.dumps(json.loads(text), separators=(" , ", " : ")).encode(),
}


def decode(key: bytes | None, value: bytes | None) -> Event:
    (event,) = debezium_json.decode(key, value)
    assert event.event_index == 0
    assert (event.operation == "invalid") == (event.error_code is not None)
    assert (event.operation == "invalid") == (event.error_detail is not None)
    return event


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def loads(text: bytes | None) -> Any:
    return None if text is None else json.loads(text)


def changed(**fields: Any) -> bytes:
    return dumps(ENVELOPE | fields)


def still_fast_path() -> FastPath:
    """``debezium_json``'s, for whose clock nothing takes any time: it always pays to learn."""
    return FastPath(debezium_json.decode, DebeziumFormat(), Learning(lambda: 0.0))
