"""Messages of the demo's topics by hand, with only as much in them as a test looks at."""

import json
from base64 import b64encode
from typing import Any

from streams import Message


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


def profile(number: int, clock: int, name: str) -> list[Any]:
    """A write of a profile, for ``pack``."""
    return [1, 1, [profile_key(number), 1, 0, clock, [["display_name", 3, 0, name]]]]


def profile_key(number: int, user_key: str | None = None) -> list[Any]:
    """The key of a profile."""
    return ["users", "profiles", digest(number), user_key]
