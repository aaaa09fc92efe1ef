"""Messages of the demo's topics by hand, with only as much in them as a test looks at."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from support.aerospike_encoder import pack
from support.streams import INTEGER, MINUTE, START, STRING, Message


def order(
    topic: str,
    offset: int,
    clock: int,
    op: str,
    number: int,
    status: str | None = None,
    made: int | None = None,
) -> Message:
    """A change of an order as Debezium ships it, sent at ``clock``; the source says when it was
    ``made``, or doesn't.
    """
    image = {"order_id": number, "status": status}
    value: dict[str, Any] = {"op": op, "before": None, "after": None, "ts_ms": clock}
    value["source"] = {"connector": "postgresql", "db": "shop", "schema": "sales"}
    value["source"]["table"] = "orders"
    if made is not None:
        value["source"]["ts_ms"] = made
    value["before" if op == "d" else "after"] = image
    return Message(topic, 0, offset, clock, order_key(number), json.dumps(value).encode())


def order_key(number: int) -> bytes:
    """The message key of an order."""
    return json.dumps({"order_id": number}).encode()


def digest(number: int) -> bytes:
    """The digest of a profile."""
    return bytes([number]) * 20


def digest_text(number: int) -> str:
    """The ``_digest`` of a profile."""
    return b64encode(digest(number)).decode()


def profile(number: int, clock: int | None, name: str) -> list[Any]:
    """A write of a profile, for ``pack``."""
    return [1, 1, [profile_key(number), 1, 0, clock, [["display_name", 3, 0, name]]]]


def profile_key(number: int, user_key: str | None = None) -> list[Any]:
    """The key of a profile."""
    return ["users", "profiles", digest(number), user_key]


def row_change(
    topic: str,
    offset: int,
    op: str,
    key: int | None,
    table: Mapping[str, Any],
    **values: Any,
) -> Message:
    """A change of a row as Debezium ships it, so many minutes after the start as its offset.

    ``table`` is what its source block says, ``values`` are the row's other columns. Without a key
    there is no row: a truncate.
    """
    clock = START + offset * MINUTE
    row = None if key is None else {"id": key, **values}
    value: dict[str, Any] = {
        "op": op,
        "before": row if op == "d" else None,
        "after": None if op == "d" else row,
    }
    value |= {"ts_ms": clock, "source": {**table, "ts_ms": clock}}
    message_key = None if key is None else json.dumps({"id": key}).encode()
    return Message(topic, 0, offset, clock, message_key, json.dumps(value).encode())


def aerospike_write(topic: str, offset: int, set_name: str, number: int, **bins: Any) -> Message:
    """A write of a record of the namespace ``users`` at the time of its offset, as above."""
    clock = START + offset * MINUTE
    types = {int: INTEGER, str: STRING}
    shipped = [[name, types[type(value)], 0, value] for name, value in bins.items()]
    key = ["users", set_name, digest(number), None]
    return Message(topic, 0, offset, clock, None, pack([1, 1, [key, 1, 0, clock, shipped]]))


def set_less_delete(topic: str, offset: int, number: int) -> Message:
    """A delete of a record of the namespace ``users`` that doesn't say its set."""
    clock = START + offset * MINUTE
    value = pack([1, 2, [["users", None, digest(number), None], 0, 2, 0, clock]])
    return Message(topic, 0, offset, clock, None, value)
