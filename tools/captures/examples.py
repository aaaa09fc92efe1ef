"""The captures of examples/: a handful of messages each."""

from typing import Any, Final

from tools.captures.aerospike_messagepack import DELETE, INTEGER, STRING, Record, pack, write
from tools.captures.arcion import REALTIME_CONNECTOR, SNAPSHOT_CONNECTOR, ArcionTable
from tools.captures.common import (
    HOUR,
    MINUTE,
    PEOPLE,
    YEAR_2040,
    Image,
    Topic,
    at,
    compact,
    email_of,
)
from tools.captures.debezium import column, decimal_bytes, struct_schema

START: Final = at("2026-10-01T08:00:00")

INVOICE_ID: Final = column("int64", "invoice_id", optional=False)
INVOICE_COLUMNS: Final = [
    INVOICE_ID,
    column("string", "customer", optional=False),
    column(
        "bytes",
        "total",
        optional=False,
        logical="org.apache.kafka.connect.data.Decimal",
        parameters={"scale": "2", "connect.decimal.precision": "12"},
    ),
    column("int32", "due_on", logical="io.debezium.time.Date"),
]
INVOICE_PREFIX: Final = "erp.billing.invoices"
INVOICE_ENVELOPE: Final = struct_schema(
    [
        *(
            struct_schema(INVOICE_COLUMNS, f"{INVOICE_PREFIX}.Value", optional=True, field=side)
            for side in ("before", "after")
        ),
        struct_schema(
            [
                column("string", "version", optional=False),
                column("string", "connector", optional=False),
                column("string", "name", optional=False),
                column("int64", "ts_ms", optional=False),
                column("string", "snapshot"),
                column("string", "db", optional=False),
                column("string", "schema", optional=False),
                column("string", "table", optional=False),
                column("int64", "txId"),
                column("int64", "lsn"),
            ],
            "io.debezium.connector.postgresql.Source",
            field="source",
        ),
        column("string", "op", optional=False),
        column("int64", "ts_ms"),
    ],
    f"{INVOICE_PREFIX}.Envelope",
    version=1,
)
INVOICE_KEY: Final = struct_schema([INVOICE_ID], f"{INVOICE_PREFIX}.Key")


def invoices() -> Topic:
    """erp.billing.invoices: PostgreSQL through Debezium, with schema blocks."""
    topic = Topic("erp.billing.invoices")

    def row(n: int, total: str, due_on: int | None) -> Image:
        first, last, _ = PEOPLE[n]
        return {
            "invoice_id": n,
            "customer": f"{first} {last}",
            "total": decimal_bytes(total, 2),
            "due_on": due_on,
        }

    # Of each: what was done, to which row, before and after.
    one, other = row(1, "99.90", 20_762), row(1, "89.90", 20_776)
    two, three = row(2, "1250.00", 20_765), row(3, "7.20", None)
    changes: tuple[tuple[str, Image | None, Image | None], ...] = (
        ("r", None, one),
        ("r", None, two),
        ("c", None, three),
        ("u", one, other),
        ("d", two, None),
    )
    for number, (op, before, after) in enumerate(changes):
        when = START + number * HOUR
        source = {
            "version": "3.0.8.Final",
            "connector": "postgresql",
            "name": "erp",
            "ts_ms": when,
            "snapshot": "true" if op == "r" else "false",
            "db": "erp",
            "schema": "billing",
            "table": "invoices",
            "txId": 700 + number,
            "lsn": 24_023_128 + number * 56,
        }
        payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": when + 21}
        key = {"invoice_id": (after or before or {})["invoice_id"]}
        topic.send(
            when + 400,
            compact({"schema": INVOICE_KEY, "payload": key}),
            compact({"schema": INVOICE_ENVELOPE, "payload": payload}),
        )
    # What lets Kafka forget the deleted row's key.
    topic.send(topic.messages[-1].arrival + 1, topic.messages[-1].key, None)
    return topic


def shop() -> Topic:
    """aerospike.shop: the namespace ``shop``, sets ``customers`` and ``carts``, in one topic."""
    topic = Topic("aerospike.shop")
    ana, jonas = (Record("shop", "customers", f"c{n}") for n in (1, 2))
    carts = [Record("shop", "carts", n) for n in (501, 502)]

    def send(record: Record, lut: int, message: list[Any], later: int = 0) -> None:
        topic.send(lut + 300 + later, record.digest, pack(message))

    def customer(record: Record, n: int, city: str, lut: int, generation: int = 1) -> list[Any]:
        first, last, _ = PEOPLE[n]
        bins = [["email", STRING, 0, email_of(first, last)], ["city", STRING, 0, city]]
        return write(record.key(), generation, 0, lut, bins)

    def cart(record: Record, items: int, lut: int, generation: int = 1) -> list[Any]:
        bins = [["customer", STRING, 0, "c1"], ["items", INTEGER, 0, items]]
        return write(record.key(), generation, YEAR_2040, lut, bins)

    send(ana, START, customer(ana, 0, "Lisbon", START))
    send(jonas, START + HOUR, customer(jonas, 1, "Leipzig", START + HOUR))
    send(carts[0], START + 2 * HOUR, cart(carts[0], 1, START + 2 * HOUR))
    send(carts[1], START + 3 * HOUR, cart(carts[1], 4, START + 3 * HOUR))
    # It moves to Porto, and what was written before that comes after it.
    moved = START + 4 * HOUR
    send(ana, moved, customer(ana, 0, "Porto", moved, 3))
    send(ana, moved - MINUTE, customer(ana, 0, "Faro", moved - MINUTE, 2), later=2 * MINUTE)
    # A delete names no set.
    gone = START + 5 * HOUR
    send(carts[1], gone, [1, DELETE, [carts[1].delete_key(), 0, 2, 0, gone]])
    return topic


CONTACTS: Final = ArcionTable(
    database="crm",
    schema="public",
    table="contacts",
    connector="POSTGRESQL",
    version="13.9",
    columns=(
        {"type": "int64", "optional": False, "field": "contact_id"},
        {"type": "string", "optional": False, "field": "email"},
        {"type": "boolean", "optional": True, "field": "subscribed"},
    ),
    key="contact_id",
    image_order=("contact_id", "email", "subscribed"),
)


def contacts() -> Topic:
    """crm.public.contacts: PostgreSQL through Arcion."""
    topic = Topic("crm.public.contacts")

    def row(n: int, subscribed: bool) -> Image:
        first, last, _ = PEOPLE[n]
        return {"contact_id": n, "email": email_of(first, last), "subscribed": subscribed}

    changes: tuple[tuple[str, Image | None, Image | None], ...] = (
        ("r", None, row(1, True)),
        ("r", None, row(2, True)),
        ("c", None, row(3, False)),
        ("u", row(2, True), row(2, False)),
        ("d", row(1, True), None),
    )
    for number, (op, before, after) in enumerate(changes):
        when = START + number * HOUR
        connector = SNAPSHOT_CONNECTOR if op == "r" else REALTIME_CONNECTOR
        sent, pos = (None, None) if op == "r" else (when, 4_000 + number)
        topic.send(
            when + 400,
            compact(CONTACTS.key_message(connector, after or before or {})),
            compact(
                CONTACTS.value_message(op, before, after, ts_ms=sent, source_ts_ms=sent, pos=pos)
            ),
        )
    return topic
