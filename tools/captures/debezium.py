"""Debezium's captures: products of MySQL with schema blocks, and orders of PostgreSQL without."""

import json
import struct
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any, Final

from tools.captures.common import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Header,
    Image,
    Topic,
    at,
    b64,
    compact,
    iso,
)


def column(
    type_: str, name: str, *, optional: bool = True, logical: str = "", **more: Any
) -> Image:
    """A field of a Kafka Connect schema as its JSON converter writes it."""
    result: Image = {"type": type_, "optional": optional}
    if logical:
        result |= {"name": logical, "version": 1}
    return result | more | {"field": name}


def struct_schema(fields: list[Image], name: str, *, optional: bool = False, **more: Any) -> Image:
    """A struct of a Kafka Connect schema."""
    result: Image = {"type": "struct", "fields": fields, "optional": optional, "name": name}
    return result | more


PRODUCT_COLUMNS: Final = [
    column("int32", "id", optional=False),
    column("string", "sku", optional=False),
    column("string", "name", optional=False),
    column("string", "description"),
    column("double", "weight"),
    column(
        "bytes",
        "price",
        optional=False,
        logical="org.apache.kafka.connect.data.Decimal",
        parameters={"scale": "2", "connect.decimal.precision": "10"},
    ),
    column(
        "string",
        "tags",
        logical="io.debezium.data.EnumSet",
        parameters={"allowed": "new,sale,eco,fragile"},
    ),
    column(
        "string",
        "status",
        optional=False,
        logical="io.debezium.data.Enum",
        parameters={"allowed": "draft,active,retired"},
    ),
    column("string", "dims", logical="io.debezium.data.Json"),
    column("int32", "released", logical="io.debezium.time.Date"),
    column("string", "updated_at", logical="io.debezium.time.ZonedTimestamp"),
    column("int64", "created_at", optional=False, logical="io.debezium.time.Timestamp"),
    column("int64", "checked_at", logical="io.debezium.time.MicroTimestamp"),
    column("int32", "year_made", logical="io.debezium.time.Year"),
    column("int64", "duration", logical="io.debezium.time.MicroTime"),
]
MYSQL_SOURCE: Final = struct_schema(
    [
        column("string", "version", optional=False),
        column("string", "connector", optional=False),
        column("string", "name", optional=False),
        column("int64", "ts_ms", optional=False),
        column(
            "string",
            "snapshot",
            logical="io.debezium.data.Enum",
            parameters={"allowed": "true,first,last,false,incremental"},
            default="false",
        ),
        column("string", "db", optional=False),
        column("string", "sequence"),
        column("string", "table"),
        column("int64", "server_id", optional=False),
        column("string", "gtid"),
        column("string", "file", optional=False),
        column("int64", "pos", optional=False),
        column("int32", "row", optional=False),
        column("int64", "thread"),
        column("string", "query"),
    ],
    "io.debezium.connector.mysql.Source",
    field="source",
)
PRODUCT_PREFIX: Final = "shop.inventory.products"
PRODUCT_ENVELOPE: Final = struct_schema(
    [
        struct_schema(PRODUCT_COLUMNS, f"{PRODUCT_PREFIX}.Value", optional=True, field=side)
        for side in ("before", "after")
    ]
    + [
        MYSQL_SOURCE,
        column("string", "op", optional=False),
        column("int64", "ts_ms"),
        struct_schema(
            [
                column("string", "id", optional=False),
                column("int64", "total_order", optional=False),
                column("int64", "data_collection_order", optional=False),
            ],
            "event.block",
            optional=True,
            version=1,
            field="transaction",
        ),
    ],
    f"{PRODUCT_PREFIX}.Envelope",
    version=1,
)
PRODUCT_KEY: Final = struct_schema([column("int32", "id", optional=False)], f"{PRODUCT_PREFIX}.Key")
WARES: Final = (
    ("Teapot, cast iron", "Holds one litre.\nHand wash only.", 1.9, "39.90", "new,fragile"),
    ("Kettle, enamelled", "Whistles at boiling point", 1.25, "27.50", ""),
    ('Mug "Ödön"', None, 0.31, "9.95", "sale"),
    ("Matcha whisk", "Bamboo, 100 prongs", 0.04, "14.00", "eco"),
    ("Travel tumbler", "0.4 l, steel", 0.28, "22.25", "new,eco"),
    ("Gift card", None, None, "50.00", None),
    ("Tea caddy", "Tin, 250 g", 0.2, "12.80", "sale,eco"),
    ("Descaler", "Citric acid, 500 g", 0.52, "6.49", ""),
    ("Return fee correction", "Booked by support, never shipped", None, "-3.50", None),
    ("Samovar", "Restored, one of a kind", 8.4, "12345678.99", "fragile"),
    ("Strainer", "Mesh 0.3 mm", 0.05, "7.20", ""),
    ("Honey dipper", "Olive wood", 0.03, "4.10", "eco"),
)


def decimal_bytes(text: str, scale: int) -> str:
    """Kafka Connect's Decimal: the unscaled integer, big-endian two's complement, as base64."""
    unscaled = int(Decimal(text).scaleb(scale))
    return b64(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True))


def mysql_source(when: int, pos: int, **changed: Any) -> Image:
    """The source block of a MySQL event."""
    return {
        "version": "2.7.4.Final",
        "connector": "mysql",
        "name": "shop",
        "ts_ms": when // SECOND * SECOND,
        "snapshot": "false",
        "db": "inventory",
        "sequence": None,
        "table": "products",
        "server_id": 223344,
        "gtid": None,
        "file": "binlog.000007",
        "pos": pos,
        "row": 0,
        "thread": 31,
        "query": None,
        **changed,
    }


def products() -> Topic:
    """debezium.inventory.products: MySQL, schema blocks in each message, all in one topic."""
    topic = Topic("debezium.inventory.products")
    dice = topic.dice
    rows: dict[int, Image] = {}
    when = at("2026-10-03T03:00:00")
    pos = 157

    def row(n: int, **changed: Any) -> Image:
        name, description, weight, price, tags = WARES[n % len(WARES)]
        created = at("2025-03-01T10:00:00") + n * 31 * DAY
        size = {"h": 10 + n, "w": 8.5, "unit": "cm"}
        # A TIME column holds more than a day and less than nothing.
        durations = (3 * 3_600_000_000 + 1, None, -90_500_000, 30 * 3_600_000_000, 75_000_000)
        return {
            "id": 101 + n,
            "sku": f"TEA-{100 + n}",
            "name": name,
            "description": description,
            "weight": weight,
            "price": decimal_bytes(price, 2),
            "tags": tags,
            "status": "active",
            "dims": None if n % 4 == 1 else json.dumps(size, separators=(",", ":")),
            "released": None
            if n % 6 == 5
            else (date(2025, 3, 1) - date(1970, 1, 1)).days + n * 31 - (20_500 if n == 9 else 0),
            "updated_at": iso(created + n * HOUR)[:-4] + "Z",
            "created_at": created,
            "checked_at": None if n % 3 == 2 else (created + DAY) * 1000 + 123_456,
            "year_made": 1868 if n == 9 else 2024 + n % 3,
            "duration": durations[n % 5],
            **changed,
        }

    def key_of(n: int) -> bytes:
        return compact({"schema": PRODUCT_KEY, "payload": {"id": 101 + n}})

    def envelope(op: str, before: Image | None, after: Image | None, source: Image) -> bytes:
        payload = {
            "before": before,
            "after": after,
            "source": source,
            "op": op,
            "ts_ms": when + 21,
            "transaction": None,
        }
        return compact({"schema": PRODUCT_ENVELOPE, "payload": payload})

    def change(op: str, n: int, after: Image | None, **source: Any) -> bytes:
        nonlocal when, pos
        when += dice.between(4 * HOUR, 40 * HOUR)
        pos += dice.between(300, 1_200)
        value = envelope(op, rows.pop(n, None), after, mysql_source(when, pos, **source))
        topic.send(when + dice.between(25, 400), key_of(n), value)
        if after is not None:
            rows[n] = after
        return value

    def update(n: int, **changed: Any) -> bytes:
        stamp = iso(when)[:-4] + "Z"
        return change("u", n, {**rows[n], "updated_at": stamp, **changed})

    def delete(n: int, *, tombstone: bool = True) -> None:
        change("d", n, None)
        if tombstone:
            topic.send(when + 450, key_of(n), None)

    # The table as the connector first finds it: its DDL, then its rows.
    ddl = "CREATE TABLE `products` (`id` int NOT NULL AUTO_INCREMENT, `sku` varchar(32) NOT NULL)"
    server = struct_schema(
        [column("string", "databaseName", optional=False)],
        "io.debezium.connector.mysql.SchemaChangeKey",
    )
    change_schema = struct_schema(
        [
            MYSQL_SOURCE,
            column("int64", "ts_ms", optional=False),
            column("string", "databaseName"),
            column("string", "schemaName"),
            column("string", "ddl"),
            column("array", "tableChanges", items={"type": "string", "optional": True}),
        ],
        "io.debezium.connector.mysql.SchemaChangeValue",
    )

    def schema_change(text: str, arrival: int, snapshot: str) -> None:
        payload = {
            "source": mysql_source(arrival, pos, snapshot=snapshot),
            "ts_ms": arrival + 9,
            "databaseName": "inventory",
            "schemaName": None,
            "ddl": text,
            "tableChanges": [],
        }
        topic.send(
            arrival + 10,
            compact({"schema": server, "payload": {"databaseName": "inventory"}}),
            compact({"schema": change_schema, "payload": payload}),
        )

    schema_change(ddl, when, "true")
    for n in range(8):
        rows[n] = row(n)
        snapshot = {0: "first", 7: "last"}.get(n, "true")
        source = mysql_source(when, 157, snapshot=snapshot, server_id=0, thread=None)
        topic.send(when + 100 + n, key_of(n), envelope("r", None, rows[n], source))

    def transaction(status: str, identity: str, arrival: int, count: int | None) -> None:
        fields = [
            column("string", "status", optional=False),
            column("string", "id", optional=False),
            column("int64", "event_count"),
            column(
                "array",
                "data_collections",
                items=struct_schema(
                    [
                        column("string", "data_collection", optional=False),
                        column("int64", "event_count", optional=False),
                    ],
                    "event.collection",
                    version=1,
                ),
            ),
            column("int64", "ts_ms", optional=False),
        ]
        collections = (
            None
            if count is None
            else [{"data_collection": "inventory.products", "event_count": count}]
        )
        payload = {
            "status": status,
            "id": identity,
            "event_count": count,
            "data_collections": collections,
            "ts_ms": arrival,
        }
        name = "io.debezium.connector.common.TransactionMetadata"
        key_schema = struct_schema([column("string", "id", optional=False)], f"{name}Key")
        topic.send(
            arrival,
            compact({"schema": key_schema, "payload": {"id": identity}}),
            compact({"schema": struct_schema(fields, f"{name}Value"), "payload": payload}),
        )

    def heartbeat(arrival: int) -> None:
        name = "io.debezium.connector.common"
        key_schema = struct_schema(
            [column("string", "serverName", optional=False)], f"{name}.ServerNameKey"
        )
        value_schema = struct_schema(
            [column("int64", "ts_ms", optional=False)], f"{name}.Heartbeat"
        )
        topic.send(
            arrival,
            compact({"schema": key_schema, "payload": {"serverName": "shop"}}),
            compact({"schema": value_schema, "payload": {"ts_ms": arrival}}),
        )

    change("c", 8, row(8, status="draft"))
    change("c", 9, row(9))
    update(2, price=decimal_bytes("8.95", 2), tags="sale")
    heartbeat(when + HOUR)
    transaction("BEGIN", "file=binlog.000007,pos=9113", when + 2 * HOUR, None)
    update(3, description=None)
    update(4, price=decimal_bytes("21.00", 2))
    transaction("END", "file=binlog.000007,pos=9113", when + 500, 2)
    delete(1)
    change("c", 10, row(10, dims=None))
    # Sold out, deleted, and back in the shop under the same number.
    delete(6)
    change("c", 6, row(6, price=decimal_bytes("0.00", 2), tags=""))
    schema_change("ALTER TABLE `products` COMMENT = 'what we sell'", when + HOUR, "false")
    update(9, status="retired")
    # The connector restarted and sent its last change again.
    again = update(0, weight=1.95)
    topic.send(when + 8 * MINUTE, key_of(0), again)
    # The source's time is older than that of the change before it; the log's order counts.
    late = {**rows[0], "weight": 1.85}
    change("u", 0, late, ts_ms=when // SECOND * SECOND - 10 * DAY)
    change("c", 11, row(11))
    heartbeat(when + HOUR)
    delete(5, tombstone=False)
    update(11, status="retired", description="Olive wood — sold by the piece")

    # Poison: Avro with a schema registry's five bytes in front; an insert without its row.
    framed = b"\x00" + struct.pack(">i", 42) + b"\x00\x02\xca\x01\x0cTEA-11"
    topic.send(at("2026-11-10T00:00:00"), key_of(12), framed)
    topic.send(
        at("2026-11-11T00:00:00"), key_of(12), envelope("c", None, None, mysql_source(when, pos))
    )
    return topic


def raw_numbers(value: object) -> bytes:
    """Compact JSON in which a string ``#12.30#`` becomes the number 12.30, with its digits."""
    return compact(value).replace(b'"#', b"").replace(b'#"', b"")


def orders() -> Topic:
    """debezium.sales.orders: PostgreSQL without schema blocks, in the three shapes of that."""
    topic = Topic("debezium.sales.orders", partitions=2)
    dice = topic.dice
    rows: dict[int, Image] = {}
    lsn = 24_023_128
    shapes: tuple[Callable[[Image], Image], ...] = (
        lambda payload: payload,
        lambda payload: {"payload": payload},
        lambda payload: {"schema": None, "payload": payload},
    )

    def source(when: int, snapshot: str) -> Image:
        nonlocal lsn
        lsn += dice.between(40, 900)
        return {
            "version": "3.0.8.Final",
            "connector": "postgresql",
            "name": "shop",
            "ts_ms": when,
            "snapshot": snapshot,
            "db": "shop",
            "sequence": f'["{lsn - 56}","{lsn}"]',
            "ts_us": when * 1000 + 417,
            "ts_ns": when * 1_000_000 + 417_000,
            "schema": "sales",
            "table": "orders",
            "txId": 700 + lsn % 997,
            "lsn": lsn,
            "xmin": None,
        }

    def send(key: int, arrival: int, payload: Image) -> bytes:
        wrap = shapes[key % 3]
        value = raw_numbers(wrap(payload))
        headers: list[Header] = []
        if key % 10 == 4:
            headers = [("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
        if key % 10 == 5:
            headers = [("retry", None)]
        topic.send(
            arrival,
            compact(wrap({"order_id": key})),
            value,
            route=b"%d" % key,
            headers=headers,
        )
        return value

    def change(
        op: str,
        key: int,
        when: int,
        after: Image | None,
        *,
        snapshot: str = "false",
        bare: bool = False,
        late: int = 0,
    ) -> bytes:
        before = rows.pop(key, None)
        payload: Image = {
            # No old row without REPLICA IDENTITY FULL; for some deletes only the Kafka key.
            "before": before if op == "d" and not bare else None,
            "after": after,
            "source": source(when - late, snapshot),
            "op": op,
            "ts_ms": when + 35,
            "transaction": None,
        }
        if key % 6 == 1:
            identity = f"{payload['source']['txId']}:{payload['source']['lsn']}"
            payload["transaction"] = {
                "id": identity,
                "total_order": 1,
                "data_collection_order": 1,
            }
        value = send(key, when + dice.between(40, 300), payload)
        if after is not None:
            rows[key] = after
        return value

    amounts = ("19.90", "54.00", "7.25", "1234567.10", "0.10", "129.99", "88.8", "250.00")
    currencies = ("EUR", "EUR", "PLN", "DKK", "EUR")

    def order(n: int, when: int) -> Image:
        return {
            "order_id": 5001 + n,
            "customer_id": 2000 + n % 28,
            "status": "new",
            "amount": f"#{amounts[n % len(amounts)]}#",
            "currency": currencies[n % len(currencies)],
            "placed_at": iso(when, 6)[:-3] + f"{n * 37 % 1000:03}Z",
            "shipped_at": None,
            "note": "leave with the neighbour, 2nd floor" if n % 7 == 3 else None,
        }

    for n in range(6):
        when = at("2026-10-04T02:00:00") + n * 15
        snapshot = {0: "first", 5: "last"}.get(n, "true")
        change("r", 5001 + n, when, order(n, when - 3 * DAY), snapshot=snapshot)
    for n in range(38):
        key = 5001 + n
        when = at("2026-10-04T08:00:00") + n * 22 * HOUR + dice.between(0, 9 * HOUR)
        if n >= 6:
            change("c", key, when, order(n, when))
        for status in ("paid", "shipped", "delivered")[: dice.between(0, 3)]:
            when += dice.between(2 * HOUR, 60 * HOUR)
            after = {**rows[key], "status": status}
            if status == "shipped":
                # A MicroTimestamp: without a schema block it stays the number that was sent.
                after["shipped_at"] = when * 1000 + 250
            change("u", key, when, after)
        if n in (8, 20):
            # Cancelled: the whole old row, or just the key, and in either case a tombstone.
            change("d", key, when + HOUR, None, bare=n == 20)
            topic.send(
                when + HOUR + 400,
                compact(shapes[key % 3]({"order_id": key})),
                None,
                route=b"%d" % key,
            )
        if n == 12:
            change("d", key, when + HOUR, None)
            change("c", key, when + 9 * HOUR, {**order(n, when), "amount": "#12.30#"})
        if n == 15:
            # The connector restarted and repeated its last two changes, in order.
            first = change("u", key, when + HOUR, {**rows[key], "status": "on hold"})
            second = change("u", key, when + 2 * HOUR, {**rows[key], "status": "paid"})
            for step, value in enumerate((first, second)):
                topic.send(
                    when + 3 * HOUR + step,
                    compact(shapes[key % 3]({"order_id": key})),
                    value,
                    route=b"%d" % key,
                )
        if n == 18:
            refunded = {**rows[key], "status": "refunded"}
            change("u", key, when + HOUR, refunded, late=4 * DAY)

    # Logical messages: pg_logical_emit_message() of the shop's own jobs.
    for step, text in enumerate(("nightly export started", "nightly export done")):
        when = at("2026-11-05T01:00:00") + step * 11 * MINUTE
        payload = {
            "op": "m",
            "ts_ms": when + 5,
            "source": {**source(when, "false"), "schema": "", "table": ""},
            "message": {"prefix": "audit", "content": b64(text.encode())},
        }
        topic.send(when, compact({"prefix": "audit"}), compact(payload), partition=0)

    # Poison: a row that a transform took out of its envelope; a message cut off at the broker's old
    # size limit.
    when = at("2026-11-08T00:00:00")
    topic.send(when + SECOND, compact({"order_id": 5003}), raw_numbers(order(3, when)), partition=1)
    when = at("2026-11-09T00:00:00")
    torn = raw_numbers({"before": None, "after": order(1, when), "source": source(when, "false")})
    topic.send(when, compact({"order_id": 5002}), torn[:256], partition=0)
    return topic
