"""Lindorm's captures: customers in an SQL table, and in an HBase table."""

import struct
from typing import Any, Final

from tools.captures.common import (
    DAY,
    HOUR,
    PEOPLE,
    SECOND,
    Image,
    Topic,
    at,
    b64,
    compact,
    email_of,
    gif,
    pretty,
)

# The page's first example, exactly as printed: the only one with a schema block.
LINDORM_WITH_SCHEMA: Final = b"""{
  "payload": {
    "op": "u",
    "ts_ms": 1465491411815,
    "before": {
      "id": 1004,
      "name": "Jane"
    },
    "after": {
      "id": 1004,
      "name": "Anne"
    },
    "source": {
      "version": "v1.0",
      "db": "ld-xxxx",
      "namespace": "default",
      "table": "customers",
      "ts_ms": 1465491411807
    }
  },
  "schema": {
    "type": "struct",
    "fields": [
      { "type": "string", "optional": false, "field": "op" },
      { "type": "int64",  "optional": false, "field": "ts_ms" },
      {
        "type": "struct",
        "fields": [
          { "type": "int32",  "optional": false, "field": "id" },
          { "type": "string", "optional": false, "field": "name" }
        ],
        "optional": true,
        "field": "before"
      },
      {
        "type": "struct",
        "fields": [
          { "type": "int32",  "optional": false, "field": "id" },
          { "type": "string", "optional": false, "field": "name" }
        ],
        "optional": true,
        "field": "after"
      },
      {
        "type": "struct",
        "fields": [
          { "type": "string", "optional": false, "field": "version" },
          { "type": "string", "optional": false, "field": "db" },
          { "type": "string", "optional": false, "field": "namespace" },
          { "type": "string", "optional": false, "field": "table" },
          { "type": "int64",  "optional": false, "field": "ts_ms" }
        ],
        "optional": false,
        "field": "source"
      }
    ],
    "optional": false
  }
}"""
LINDORM_TYPES: Final[dict[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "int32",
    float: "double",
}


def lindorm_schema(payload: Image) -> Image:
    """The schema block that Lindorm generates from a payload."""
    sample = payload["after"] or payload["before"]

    def image(row: Image | None, name: str) -> Image:
        fields = [
            {"type": LINDORM_TYPES[type(value)], "optional": key != "id", "field": key}
            for key, value in (row or sample).items()
        ]
        return {"type": "struct", "fields": fields, "optional": True, "field": name}

    source = [
        {"type": "int64" if name == "ts_ms" else "string", "optional": False, "field": name}
        for name in payload["source"]
    ]
    return {
        "type": "struct",
        "fields": [
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": False, "field": "ts_ms"},
            image(payload["before"], "before"),
            image(payload["after"], "after"),
            {"type": "struct", "fields": source, "optional": False, "field": "source"},
        ],
        "optional": False,
    }


def lindorm_message(
    op: str,
    before: Image | None,
    after: Image | None,
    ts_ms: int = 1465491411815,
    source_ts_ms: int = 1465491411807,
    *,
    version: str = "v1.0",
    full: bool = False,
) -> Image:
    """A Lindorm message; the default times are those of the page's samples."""
    payload: Image = {
        "op": op,
        "ts_ms": ts_ms,
        "before": before,
        "after": after,
        "source": {
            "version": version,
            "db": "ld-xxxx",
            "namespace": "default",
            "table": "customers",
            "ts_ms": source_ts_ms,
        },
    }
    return {"schema": lindorm_schema(payload) if full else {}, "payload": payload}


def lindorm_customers() -> Topic:
    """lindorm.customers: a Lindorm SQL table, no Kafka keys; the page's five examples."""
    topic = Topic("lindorm.customers", partitions=2)
    dice = topic.dice
    rows: dict[str, Image] = {}

    def send(key: str, when: int, value: bytes) -> None:
        topic.send(when + dice.between(5, 60), None, value, route=key.encode())

    def change(
        op: str, key: str, when: int, after: Image | None, *, full: bool = False, late: int = 0
    ) -> bytes:
        before = rows.pop(key, None)
        message = lindorm_message(op, before, after, when + 12, when - late, full=full)
        value = compact(message)
        send(key, when, value)
        if after is not None:
            rows[key] = after
        return value

    # The page's examples, in an order in which they make sense, with what must lie between them.
    page = at("2026-10-01T09:00:00")
    anne = {"id": "1004", "first_name": "Anne", "last_name": "Kretchmar"}
    marie = {**anne, "first_name": "Anne Marie"}
    send("1004", page, LINDORM_WITH_SCHEMA)
    send("1004", page + HOUR, pretty(lindorm_message("c", None, anne)))
    rows["1004"] = anne
    change("u", "1004", page + 2 * HOUR, marie)
    send("1004", page + 3 * HOUR, pretty(lindorm_message("u", marie, anne)))
    rows["1004"] = anne
    change("u", "1004", page + 4 * HOUR, marie)
    shortened = {"id": "1004", "first_name": "Anne Marie"}
    send("1004", page + 5 * HOUR, pretty(lindorm_message("u", marie, shortened)))
    rows["1004"] = shortened
    change("u", "1004", page + 6 * HOUR, marie)
    send("1004", page + 7 * HOUR, pretty(lindorm_message("d", marie, None)))
    del rows["1004"]

    def customer(n: int, **changed: Any) -> Image:
        first, last, city = PEOPLE[n]
        return {
            "id": str(2000 + n),
            "first_name": first,
            "last_name": last,
            "email": email_of(first, last),
            "city": city,
            "loyalty_points": 10 * n,
            "newsletter": n % 2 == 0,
            **changed,
        }

    for n in range(28):
        key = str(2000 + n)
        when = at("2026-10-02T08:00:00") + n * 17 * HOUR + dice.between(0, 8 * HOUR)
        change("c", key, when, customer(n), full=n % 5 == 0)
        points = 10 * n
        for _ in range(dice.between(0, 2)):
            when += dice.between(3 * HOUR, 12 * DAY)
            points += dice.between(5, 120)
            change("u", key, when, {**rows[key], "loyalty_points": points}, full=n % 5 == 0)
        if n == 3:
            # A column delete: the column is missing from `after`.
            moved = {k: v for k, v in rows[key].items() if k != "city"}
            change("u", key, when + HOUR, moved)
        if n == 6:
            change("d", key, when + HOUR, None)
            change("c", key, when + 30 * HOUR, customer(n, city="Porto"))
        if n == 9:
            # Sent again after a newer one of the same key: the log's order decides.
            old = change("u", key, when + HOUR, {**rows[key], "city": "Vienna"})
            change("u", key, when + 2 * HOUR, {**rows[key], "city": "Linz"})
            send(key, when + 3 * HOUR, old)
            rows[key] = {**rows[key], "city": "Vienna"}
        if n == 12:
            again = change("u", key, when + HOUR, {**rows[key], "newsletter": False})
            send(key, when + HOUR + 500, again)
        if n == 15:
            # The source's time is older than that of the change before it.
            renamed = {**rows[key], "last_name": "Lund-Berg"}
            change("u", key, when + HOUR, renamed, late=2 * DAY)
        if n in (18, 24):
            change("d", key, when + HOUR, None, full=n == 24)

    # Poison: a bare row that some tool unwrapped; two messages glued together.
    send("2001", at("2026-11-07T00:00:00"), compact(customer(1)))
    twice = compact(lindorm_message("c", None, customer(2), 1794441600012, 1794441600000))
    send("2002", at("2026-11-12T00:00:00"), twice + twice)
    return topic


def lindorm_contacts() -> Topic:
    """lindorm.hbase.customers: a Lindorm HBase table, every value base64 of what HBase stores."""
    topic = Topic("lindorm.hbase.customers")
    dice = topic.dice
    rows: dict[str, Image] = {}

    def contact(n: int, points: int, **changed: bytes) -> Image:
        first, last, city = PEOPLE[n % len(PEOPLE)]
        columns = {
            "ROW": f"user{n}".encode(),
            "f_name": f"{first} {last}".encode(),
            "f_city": city.encode(),
            "f_age": struct.pack(">i", 20 + n * 3 % 50),
            "f_points": struct.pack(">q", points),
            **changed,
        }
        if n % 3 == 0:
            columns.setdefault("f_photo", gif(f"photo {n}"))
        return {name: b64(value) for name, value in columns.items()}

    def change(op: str, key: str, when: int, after: Image | None, *, late: int = 0) -> bytes:
        before = rows.pop(key, None)
        message = lindorm_message(op, before, after, when + 20, when - late, version="v2.0")
        if op == "c":
            # As in the page's HBase sample, an insert carries no `before` at all.
            del message["payload"]["before"]
        value = compact(message)
        topic.send(when + dice.between(5, 60), None, value)
        if after is not None:
            rows[key] = after
        return value

    lucky = {"ROW": b64(b"user1"), "f_name": b64(b"lucky")}
    printed = lindorm_message("c", None, lucky, 1725258859839, 1725258833727, version="v2.0")
    del printed["payload"]["before"]
    topic.send(at("2026-10-01T10:00:00"), None, pretty(printed))
    rows["user1"] = lucky
    change("u", "user1", at("2026-10-03T10:00:00"), {**lucky, "f_city": b64(b"Nantes")})
    for n in range(2, 22):
        key = f"user{n}"
        when = at("2026-10-02T11:00:00") + n * 26 * HOUR + dice.between(0, 9 * HOUR)
        change("c", key, when, contact(n, 50 * n))
        for step in range(dice.between(0, 2)):
            when += dice.between(HOUR, 6 * DAY)
            # One balance is negative and one needs all 64 bits.
            points = {4: -15, 5: 9_007_199_254_740_993}.get(n, 50 * n + 35 * (step + 1))
            change("u", key, when, contact(n, points))
        if n == 6:
            # A column delete.
            bare = {k: v for k, v in rows[key].items() if k != "f_photo"}
            change("u", key, when + HOUR, bare)
        if n == 8:
            change("d", key, when + HOUR, None)
            change("c", key, when + DAY, contact(n, 0, f_city=b"Brno"))
        if n == 11:
            again = change("u", key, when + HOUR, contact(n, 777))
            topic.send(when + HOUR + SECOND, None, again)
        if n == 14:
            change("u", key, when + HOUR, contact(n, 1234), late=3 * DAY)
        if n in (10, 17):
            change("d", key, when + HOUR, None)

    # Poison: an image that is no object.
    broken = lindorm_message("u", None, None, 1794614400020, 1794614400000, version="v2.0")
    broken["payload"]["after"] = "user3"
    topic.send(at("2026-11-14T00:00:00"), None, compact(broken))
    return topic
