"""Kafka messages made from seeds: Aerospike MessagePack writes, Debezium envelopes, other shapes.

A shape says what a message looks like, a ``Mix`` which changes of which keys a stream consists of.
Message ``number`` of a stream is that of partition ``number % PARTITIONS``, and so is its row key:
all changes of a key are in one partition, as Kafka has them, and offsets have no gaps.
"""

import hashlib
import io
import multiprocessing
import random
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

FIRST_TIME_MS: Final = 1_700_000_000_000
STEP_MS: Final = 7
PARTITIONS: Final = 4
SEED: Final = 20231114

WRITE, DELETE = 1, 2
DURABLE_DELETE = 0x01
INTEGER, DOUBLE, STRING, BOOLEAN, MAP, LIST = 1, 2, 3, 17, 19, 20

_packed = msgspec.msgpack.encode


class Message(NamedTuple):
    """Key and value of a Kafka message."""

    key: bytes
    value: bytes


@dataclass(frozen=True)
class Mix:
    """Which changes a stream consists of, and of which keys."""

    creates: float = 0.2
    """Weight of inserts; those of keys that exist already replace them, as snapshots do."""
    updates: float = 0.75
    deletes: float = 0.05
    keys: int = 100_000
    """How many keys there are; rounded to whole ``PARTITIONS``."""

    def key(self, rng: random.Random, number: int) -> int:
        """The row key of message ``number``."""
        return rng.randrange(max(1, self.keys // PARTITIONS)) * PARTITIONS + number % PARTITIONS

    def operation(self, rng: random.Random) -> str:
        """``c``, ``u`` or ``d``."""
        drawn = rng.random() * (self.creates + self.updates + self.deletes)
        if drawn < self.creates:
            return "c"
        return "u" if drawn < self.creates + self.updates else "d"


# Few enough keys for several changes of each.
USUAL: Final = Mix()
WRITES_ONLY: Final = Mix(creates=0, updates=1, deletes=0)

Make = Callable[[random.Random, int, Mix], Message]


class Shape(NamedTuple):
    """What the messages of a topic look like."""

    topic: str
    format: str
    make: Make


def _bins(rng: random.Random, user: str) -> list[list[Any]]:
    return [
        ["name", STRING, 0, f"Customer {rng.getrandbits(40):010x}"],
        ["email", STRING, 0, f"{user}@{rng.getrandbits(24):06x}.example"],
        ["visits", INTEGER, 0, rng.randrange(100_000)],
        ["balance", DOUBLE, 0, rng.uniform(0, 10_000)],
        ["active", BOOLEAN, 0, rng.random() < 0.9],
        ["segments", LIST, 0, [f"s{rng.randrange(50):02}" for _ in range(5)]],
        ["limits", MAP, 1, {"daily": rng.randrange(500), "monthly": rng.randrange(9_000)}],
    ]


def _tiny_bins(rng: random.Random, user: str) -> list[list[Any]]:
    return [["n", INTEGER, 0, rng.randrange(100)]]


def _wide_bins(rng: random.Random, user: str) -> list[list[Any]]:
    bins: list[list[Any]] = []
    for number in range(15):
        bins += [
            [f"text_{number:02}", STRING, 0, f"{user}-{rng.getrandbits(32):08x}"],
            [f"count_{number:02}", INTEGER, 0, rng.randrange(1_000_000)],
            [f"rate_{number:02}", DOUBLE, 0, rng.random()],
            [f"flag_{number:02}", BOOLEAN, 0, rng.random() < 0.5],
        ]
    return bins


def _tree(rng: random.Random, depth: int) -> Any:
    """Maps of maps and lists; 4 children each."""
    if depth == 0:
        return rng.choice((rng.randrange(10_000), rng.random(), f"v{rng.getrandbits(32):08x}"))
    if depth % 2:
        return [_tree(rng, depth - 1) for _ in range(4)]
    return {f"field_{name}": _tree(rng, depth - 1) for name in "abcd"}


@cache
def _carts() -> list[Any]:
    """Made once: a tree takes longer to make than to decode."""
    rng = random.Random(SEED)
    return [_tree(rng, 4) for _ in range(500)]


def _few_bins(rng: random.Random, user: str) -> list[list[Any]]:
    return [
        ["name", STRING, 0, f"Customer {rng.getrandbits(40):010x}"],
        ["visits", INTEGER, 0, rng.randrange(100_000)],
        ["balance", DOUBLE, 0, rng.uniform(0, 10_000)],
    ]


def _optional_bins(rng: random.Random, user: str) -> list[list[Any]]:
    """One set, each of nine bins in half of its records: 512 layouts."""
    optional = [
        [f"count_{number}", INTEGER, 0, rng.randrange(1_000_000)]
        for number in range(9)
        if rng.random() < 0.5
    ]
    return [*_few_bins(rng, user), *optional]


def _nested_bins(rng: random.Random, user: str) -> list[list[Any]]:
    return [["cart", MAP, 1, rng.choice(_carts())], ["seen", LIST, 0, _tree(rng, 1)]]


def _aerospike(
    bins: Callable[[random.Random, str], list[list[Any]]],
    rng: random.Random,
    number: int,
    mix: Mix,
    set_name: str = "profiles",
) -> Message:
    """A record of a connector from 4.0 on, with its key as the connector ships it."""
    user = f"user-{mix.key(rng, number):06}"
    written = FIRST_TIME_MS + number * STEP_MS
    key = ["users", set_name, hashlib.sha1(user.encode()).digest(), user]
    generation = number % 50 + 1
    expiry = written // 1000 + 30 * 86_400
    if mix.operation(rng) == "d":
        payload = [key, DURABLE_DELETE, generation, None, written]
        return Message(_packed(key), _packed([1, DELETE, payload]))
    payload = [key, generation, expiry, written, bins(rng, user)]
    return Message(_packed(key), _packed([1, WRITE, payload]))


def _aerospike_sets(sets: int, rng: random.Random, number: int, mix: Mix) -> Message:
    """Records of so many sets in turn, each with bins of its own."""
    set_number = rng.randrange(sets) if sets > 2 else number % sets

    def bins(rng: random.Random, user: str) -> list[list[Any]]:
        return [*_few_bins(rng, user), [f"of_{set_number}", INTEGER, 0, rng.randrange(100)]]

    return _aerospike(bins, rng, number, mix, f"set_{set_number}")


_JSON_TYPES: Final = {
    INTEGER: "int",
    DOUBLE: "float",
    STRING: "str",
    BOOLEAN: "bool",
    MAP: "map",
    LIST: "list",
}
_JSON_PROPERTIES: Final[dict[int, dict[str, object]]] = {
    LIST: {"ordered": False},
    MAP: {"order": "key"},
}


def _as_json(make: Make, rng: random.Random, number: int, mix: Mix) -> Message:
    """The same record in the connector's JSON."""
    message = make(rng, number, mix)
    key = msgspec.msgpack.decode(message.key)
    _, kind, (_, *parts) = msgspec.msgpack.decode(message.value)
    if kind == DELETE:
        flags, generation, _, written = parts
        record = {"msg": "delete", "key": key, "durable": flags == DURABLE_DELETE}
        record |= {"gen": generation, "lut": written}
        return Message(msgspec.json.encode(key), msgspec.json.encode(record))
    generation, expiry, written, bins = parts
    record = {"msg": "write", "key": key, "gen": generation, "exp": expiry, "lut": written}
    record["bins"] = [
        {"name": name, "type": _JSON_TYPES[code], "value": value} | _JSON_PROPERTIES.get(code, {})
        for name, code, _, value in bins
    ]
    return Message(msgspec.json.encode(key), msgspec.json.encode(record))


def _as_flat_json(make: Make, rng: random.Random, number: int, mix: Mix) -> Message:
    """The same record in the connector's flat JSON."""
    record = msgspec.json.decode(_as_json(make, rng, number, mix).value)
    namespace, set_name, digest, user = record.pop("key")
    key = {"namespace": namespace, "set": set_name, "userKey": user, "digest": digest}
    bins = {each["name"]: each["value"] for each in record.pop("bins", ())}
    value = {"metadata": key | record, **bins}
    return Message(msgspec.json.encode(key), msgspec.json.encode(value))


# Debezium's PostgreSQL connector, as it is set up by default: no image before an update, and only
# the key of a deleted row. The columns of a shape are their JSON in order, with the key in front.

_SOURCE: Final = (
    '{"version":"2.5.4.Final","connector":"postgresql","name":"shop","ts_ms":%d,"snapshot":"false",'
    '"db":"shop","sequence":"[\\"%d\\",\\"%d\\"]","schema":"sales","table":"orders","txId":%d,'
    '"lsn":%d,"xmin":null}'
)
_STATUSES: Final = ("new", "paid", "packed", "shipped", "returned")
_CURRENCIES: Final = ("EUR", "DKK", "USD")
# Name and Connect type of each column, and its logical type.
Column = tuple[str, str, str | None]
_ORDER_COLUMNS: Final[tuple[Column, ...]] = (
    ("customer_id", "int32", None),
    ("status", "string", None),
    ("amount", "string", None),
    ("currency", "string", None),
    ("placed_at", "string", "io.debezium.time.ZonedTimestamp"),
    ("shipped_at", "int64", "io.debezium.time.MicroTimestamp"),
    ("note", "string", None),
)
_TINY_COLUMNS: Final[tuple[Column, ...]] = (("n", "int32", None),)
_WIDE_COLUMNS: Final[tuple[Column, ...]] = tuple(
    (f"{name}_{number:02}", kind, None)
    for number in range(15)
    for name, kind in (
        ("text", "string"),
        ("count", "int32"),
        ("rate", "double"),
        ("flag", "boolean"),
    )
)


def _order_values(rng: random.Random, written: int) -> str:
    placed = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(written // 1000))
    shipped = str(written * 1000 + rng.randrange(10**9)) if rng.random() < 0.5 else "null"
    return (
        f'"customer_id":{rng.randrange(100_000)},"status":"{rng.choice(_STATUSES)}",'
        f'"amount":"{rng.randrange(1_000_000) / 100:.2f}","currency":"{rng.choice(_CURRENCIES)}",'
        f'"placed_at":"{placed}.{rng.randrange(10**6):06}Z","shipped_at":{shipped},'
        f'"note":"{rng.getrandbits(32):08x}"'
    )


def _tiny_values(rng: random.Random, written: int) -> str:
    return f'"n":{rng.randrange(100)}'


def _wide_values(rng: random.Random, written: int) -> str:
    return ",".join(
        f'"text_{number:02}":"value-{rng.getrandbits(32):08x}",'
        f'"count_{number:02}":{rng.randrange(1_000_000)},"rate_{number:02}":{rng.random()},'
        f'"flag_{number:02}":{"true" if rng.random() < 0.5 else "false"}'
        for number in range(15)
    )


def _debezium(
    columns: tuple[Column, ...],
    values: Callable[[random.Random, int], str],
    with_schema: bool,
    rng: random.Random,
    number: int,
    mix: Mix,
) -> Message:
    order = mix.key(rng, number)
    written = FIRST_TIME_MS + number * STEP_MS
    operation = mix.operation(rng)
    before = after = "null"
    if operation == "d":
        nulls = ",".join(f'"{name}":null' for name, _, _ in columns)
        before = f'{{"order_id":{order},{nulls}}}'
    else:
        after = f'{{"order_id":{order},{values(rng, written)}}}'
    lsn = number * 120 + 24_000_000
    source = _SOURCE % (written, lsn - 56, lsn, number // 3 + 1_000_000, lsn)
    value = (
        f'{{"before":{before},"after":{after},"source":{source},"op":"{operation}",'
        f'"ts_ms":{written + 35},"transaction":null}}'
    )
    key = f'{{"order_id":{order}}}'
    if with_schema:
        key = f'{{"schema":{_KEY_SCHEMA},"payload":{key}}}'
        value = f'{{"schema":{_ORDER_SCHEMA},"payload":{value}}}'
    return Message(key.encode(), value.encode())


def _field(name: str, kind: str, logical: str | None = None, optional: bool = True) -> Any:
    field: dict[str, Any] = {"type": kind, "optional": optional, "field": name}
    return field | {"name": logical, "version": 1} if logical else field


def _struct(name: str, fields: list[Any], optional: bool) -> dict[str, Any]:
    return {"type": "struct", "fields": fields, "optional": optional, "name": name}


def _value_schema(columns: tuple[Column, ...]) -> str:
    """The schema block that goes with every message unless a registry keeps it."""
    key = _field("order_id", "int64", optional=False)
    row = _struct("shop.sales.orders.Value", [key, *(_field(*column) for column in columns)], True)
    source = _struct(
        "io.debezium.connector.postgresql.Source",
        [
            *(_field(name, "string", optional=False) for name in ("version", "connector", "name")),
            _field("ts_ms", "int64", optional=False),
            _field("snapshot", "string", "io.debezium.data.Enum"),
            _field("db", "string", optional=False),
            _field("sequence", "string"),
            *(_field(name, "string", optional=False) for name in ("schema", "table")),
            *(_field(name, "int64") for name in ("txId", "lsn", "xmin")),
        ],
        False,
    )
    transaction = _struct(
        "event.block",
        [
            _field("id", "string", optional=False),
            _field("total_order", "int64", optional=False),
            _field("data_collection_order", "int64", optional=False),
        ],
        True,
    )
    fields = [
        row | {"field": "before"},
        row | {"field": "after"},
        source | {"field": "source"},
        _field("op", "string", optional=False),
        _field("ts_ms", "int64"),
        transaction | {"field": "transaction"},
    ]
    return msgspec.json.encode(_struct("shop.sales.orders.Envelope", fields, False)).decode()


_ORDER_SCHEMA: Final = _value_schema(_ORDER_COLUMNS)
_KEY_SCHEMA: Final = msgspec.json.encode(
    _struct("shop.sales.orders.Key", [_field("order_id", "int64", optional=False)], False)
).decode()

# What keeps messages from being alike: each makes another value of a message's.
Change = Callable[[random.Random, int, bytes], bytes]
_NOTE: Final = re.compile(rb',"note":"[0-9a-f]{8}"')


# The same orders as others write them. A delete has what the writer knows of the row.


def _parts(rng: random.Random, number: int, mix: Mix) -> tuple[int, str, dict[str, Any], int]:
    """Key, operation and row of an order, and when it was written."""
    order, written = mix.key(rng, number), FIRST_TIME_MS + number * STEP_MS
    operation = mix.operation(rng)
    row = {"order_id": order, **msgspec.json.decode(f"{{{_order_values(rng, written)}}}")}
    return order, operation, row, written


def _mongodb(rng: random.Random, number: int, mix: Mix) -> Message:
    """Whole documents, as with ``capture.mode=change_streams_update_full``."""
    order, operation, row, written = _parts(rng, number, mix)
    identity = {"$oid": f"{order:024x}"}
    document = {"_id": identity, **row, "placed_at": {"$date": written}, "tags": ["a", {"b": 1}]}
    source = {"version": "2.5.4.Final", "connector": "mongodb", "name": "shop", "ts_ms": written}
    source |= {"snapshot": "false", "db": "sales", "sequence": None, "collection": "orders"}
    value = {
        "before": None,
        "after": None if operation == "d" else msgspec.json.encode(document).decode(),
        "updateDescription": None,
        "source": source | {"ord": number % 9 + 1, "lsid": None, "txnNumber": None},
        "op": operation,
        "ts_ms": written + 35,
        "transaction": None,
    }
    key = {"id": msgspec.json.encode(identity).decode()}
    return Message(msgspec.json.encode(key), msgspec.json.encode(value))


def _unwrapped(rng: random.Random, number: int, mix: Mix) -> Message:
    """With ``delete.tombstone.handling.mode=rewrite`` and some fields added."""
    order, operation, row, written = _parts(rng, number, mix)
    row |= {"__deleted": "true" if operation == "d" else "false", "__op": operation}
    row |= {"__table": "orders", "__source_ts_ms": written, "__lsn": number * 120 + 24_000_000}
    return Message(b'{"order_id":%d}' % order, msgspec.json.encode(row))


def _maxwell(rng: random.Random, number: int, mix: Mix) -> Message:
    order, operation, row, written = _parts(rng, number, mix)
    kind = {"c": "insert", "u": "update", "d": "delete"}[operation]
    value = {"database": "sales", "table": "orders", "type": kind, "ts": written // 1000}
    value |= {"xid": number // 3 + 1_000_000, "commit": True, "data": row}
    if operation == "u":
        value["old"] = {"status": "new", "note": None}
    key = {"database": "sales", "table": "orders", "pk.order_id": order}
    return Message(msgspec.json.encode(key), msgspec.json.encode(value))


_MYSQL_TYPES: Final = {"order_id": "bigint", "customer_id": "int", "shipped_at": "bigint"}


def _canal(rng: random.Random, number: int, mix: Mix) -> Message:
    order, operation, row, written = _parts(rng, number, mix)
    texts = {name: None if value is None else str(value) for name, value in row.items()}
    value = {
        "data": [texts],
        "database": "sales",
        "es": written,
        "id": number,
        "isDdl": False,
        "mysqlType": {name: _MYSQL_TYPES.get(name, "varchar(64)") for name in row},
        "old": [{"status": "new"}] if operation == "u" else None,
        "pkNames": ["order_id"],
        "sql": "",
        "sqlType": {name: -5 if name in _MYSQL_TYPES else 12 for name in row},
        "table": "orders",
        "ts": written + 35,
        "type": {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}[operation],
    }
    return Message(b"%d" % order, msgspec.json.encode(value))


# Avro: the same messages as in JSON, by the schemas that a registry would have.

_AVRO_TYPES: Final = {"int32": "int", "int64": "long", "float64": "double"}
_KEY_ID, _ENVELOPE_ID, _ROW_ID = 1, 2, 3


def _avro_type(block: dict[str, Any], name: str) -> Any:
    kind: Any = _AVRO_TYPES.get(block["type"], block["type"])
    if kind == "struct":
        fields = [
            {"name": each["field"], "type": _avro_type(each, each["field"])}
            for each in block["fields"]
        ]
        # Each its own name: Avro lets none be declared twice.
        kind = {"type": "record", "name": name, "fields": fields, "connect.name": block["name"]}
    elif "name" in block:
        kind = {"type": kind, "connect.name": block["name"]}
    return ["null", kind] if block.get("optional") else kind


@cache
def _avro_schemas() -> dict[int, Any]:
    """By their ids, known to the decoder of this process."""
    from fastavro import parse_schema

    from python_udfs.debezium import avro

    added = [_field(name, "string") for name in ("__deleted", "__op", "__table")]
    row = [_field("order_id", "int64", optional=False), *(_field(*each) for each in _ORDER_COLUMNS)]
    row += [*added, _field("__source_ts_ms", "int64"), _field("__lsn", "int64")]
    blocks = {
        _KEY_ID: msgspec.json.decode(_KEY_SCHEMA),
        _ENVELOPE_ID: msgspec.json.decode(_ORDER_SCHEMA),
        _ROW_ID: _struct("shop.sales.orders.Value", row, False),
    }
    schemas = {number: _avro_type(block, "root") for number, block in blocks.items()}
    for number, schema in schemas.items():
        text = msgspec.json.encode(schema).decode()
        avro.know({number: avro.Registered(avro.AVRO, (text,))})
    return {number: parse_schema(schema) for number, schema in schemas.items()}


def _framed(number: int, text: bytes) -> bytes:
    from fastavro import schemaless_writer

    stream = io.BytesIO(b"\0" + number.to_bytes(4, "big"))
    stream.seek(5)
    schemaless_writer(stream, _avro_schemas()[number], msgspec.json.decode(text))
    return stream.getvalue()


def _as_avro(make: Make, value_id: int, rng: random.Random, number: int, mix: Mix) -> Message:
    message = make(rng, number, mix)
    return Message(_framed(_KEY_ID, message.key), _framed(value_id, message.value))


def bare_avro(text: bytes) -> Any:
    """What ``fastavro`` makes of a framed value."""
    from fastavro import schemaless_reader

    stream = io.BytesIO(text)
    stream.seek(5)
    schema = _avro_schemas()[int.from_bytes(text[1:5], "big")]
    return schemaless_reader(stream, schema, None)


def _changed(make: Make, change: Change, rng: random.Random, number: int, mix: Mix) -> Message:
    message = make(rng, number, mix)
    return message._replace(value=change(rng, number, message.value))


def _toast(rng: random.Random, number: int, value: bytes) -> bytes:
    """PostgreSQL ships no large value that an update left alone: 1 in 10."""
    if rng.random() < 0.9:
        return value
    return _NOTE.sub(b',"note":"__debezium_unavailable_value"', value)


def _transaction(rng: random.Random, number: int, value: bytes) -> bytes:
    """As with ``provide.transaction.metadata=true``."""
    block = b'{"id":"%d:%d","total_order":%d,"data_collection_order":%d}'
    block %= number // 3 + 1_000_000, number * 120, number % 3 + 1, number % 3 + 1
    return value.replace(b'"transaction":null', b'"transaction":' + block)


def _optional(rng: random.Random, number: int, value: bytes) -> bytes:
    """A column that 1 in 10 lacks, as other producers of the envelope do for null."""
    return value if rng.random() < 0.9 else _NOTE.sub(b"", value)


def _of_table(tables: int, rng: random.Random, number: int, value: bytes) -> bytes:
    """One of so many tables."""
    table = b'"table":"orders_%d"' % (number // PARTITIONS % tables)
    return value.replace(b'"table":"orders"', table)


def _mixed(rng: random.Random, number: int, value: bytes) -> bytes:
    """1 in 10 is a truncate, which is always decoded alone."""
    return value if rng.random() < 0.9 else value.replace(b'"op":"u"', b'"op":"t"')


def _shuffled(rng: random.Random, number: int, value: bytes) -> bytes:
    """Columns in any order: no two messages are alike."""
    message = msgspec.json.decode(value)
    payload = message.get("payload", message)
    names = list(payload["after"])
    rng.shuffle(names)
    payload["after"] = {name: payload["after"][name] for name in names}
    return msgspec.json.encode(message)


_ORDERS: Final = "debezium.sales.orders"
_PROFILES: Final = "aerospike.users.profiles"

SHAPES: dict[str, Shape] = {
    "aerospike": Shape(_PROFILES, "aerospike_messagepack", partial(_aerospike, _bins)),
    "aerospike_tiny": Shape(_PROFILES, "aerospike_messagepack", partial(_aerospike, _tiny_bins)),
    "aerospike_wide": Shape(_PROFILES, "aerospike_messagepack", partial(_aerospike, _wide_bins)),
    "aerospike_nested": Shape(
        _PROFILES, "aerospike_messagepack", partial(_aerospike, _nested_bins)
    ),
    "aerospike_layouts": Shape(_PROFILES, "aerospike_messagepack", partial(_aerospike_sets, 300)),
    "aerospike_optional": Shape(
        _PROFILES, "aerospike_messagepack", partial(_aerospike, _optional_bins)
    ),
    "aerospike_alternating": Shape(_PROFILES, "aerospike_messagepack", partial(_aerospike_sets, 2)),
    "debezium": Shape(
        _ORDERS, "debezium_json", partial(_debezium, _ORDER_COLUMNS, _order_values, False)
    ),
    "debezium_tiny": Shape(
        _ORDERS, "debezium_json", partial(_debezium, _TINY_COLUMNS, _tiny_values, False)
    ),
    "debezium_wide": Shape(
        _ORDERS, "debezium_json", partial(_debezium, _WIDE_COLUMNS, _wide_values, False)
    ),
    "debezium_schema": Shape(
        _ORDERS, "debezium_json", partial(_debezium, _ORDER_COLUMNS, _order_values, True)
    ),
}


_CHANGES: Final[dict[str, Change]] = {
    "toast": _toast,
    "transaction": _transaction,
    "optional": _optional,
    "mixed": _mixed,
    "shuffled": _shuffled,
    "alternating": partial(_of_table, 2),
    "layouts": partial(_of_table, 300),
}
SHAPES.update(
    {
        f"{name}_{how}": SHAPES[name]._replace(make=partial(_changed, SHAPES[name].make, change))
        for name in ("debezium", "debezium_schema")
        for how, change in _CHANGES.items()
    }
    | {
        name.replace("aerospike", "aerospike_json"): shape._replace(
            format="aerospike_json", make=partial(_as_json, shape.make)
        )
        for name, shape in SHAPES.items()
        if shape.format == "aerospike_messagepack"
    },
    arcion=SHAPES["debezium_schema"]._replace(topic="arcion.sales.orders", format="arcion_json"),
    aerospike_flat_json=Shape(
        _PROFILES, "aerospike_flat_json", partial(_as_flat_json, SHAPES["aerospike"].make)
    ),
    aerospike_flat_json_optional=Shape(
        _PROFILES, "aerospike_flat_json", partial(_as_flat_json, SHAPES["aerospike_optional"].make)
    ),
    mongodb=Shape("mongodb.sales.orders", "debezium_json", _mongodb),
    unwrapped=Shape("unwrapped.sales.orders", "debezium_unwrapped_json", _unwrapped),
    maxwell=Shape("maxwell.sales.orders", "maxwell_json", _maxwell),
    canal=Shape("canal.sales.orders", "canal_json", _canal),
    avro=Shape(
        "avro.sales.orders",
        "debezium_avro",
        partial(_as_avro, SHAPES["debezium"].make, _ENVELOPE_ID),
    ),
    unwrapped_avro=Shape(
        "avro.sales.rows", "debezium_unwrapped_avro", partial(_as_avro, _unwrapped, _ROW_ID)
    ),
)

USUAL_SHAPES: Final = ("aerospike", "debezium")
"""What is measured where payloads are not asked for and all of them would take too long."""


def chosen_shapes(words: tuple[str, ...]) -> dict[str, Shape]:
    """The shapes whose name holds one of the words; all for none. Raises ``ValueError`` for a word
    that no name holds.
    """
    for word in words:
        if not any(word in name for name in SHAPES):
            raise ValueError(f"no shape is called {word!r}: they are {', '.join(SHAPES)}")
    return {
        name: shape
        for name, shape in SHAPES.items()
        if not words or any(word in name for word in words)
    }


def messages(shape: Shape, numbers: range, mix: Mix = USUAL) -> Iterator[Message]:
    """Those messages of the stream. A range of it is always the same, whatever else is made."""
    rng = random.Random(f"{SEED} {numbers.start}")
    return (shape.make(rng, number, mix) for number in numbers)


BRONZE: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("landed_at", pa.timestamp("us", tz="UTC")),
    ]
)
"""The columns of ``bronze.raw_payloads``."""

_BATCH: Final = 50_000
_PROCESSES: Final = 2


def write_parquet(
    folder: Path, shape: Shape, count: int, *, per_file: int, mix: Mix = USUAL, first: int = 0
) -> list[Path]:
    """Write ``count`` messages of the stream as rows of bronze, from the one with the number
    ``first`` on; the files, in their order, with ``per_file`` messages each. Memory holds a batch
    of 50,000 messages for each of two processes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    end = first + count
    ranges = [range(start, min(start + per_file, end)) for start in range(first, end, per_file)]
    write = partial(_write_file, folder, shape, mix)
    with multiprocessing.get_context("forkserver").Pool(_PROCESSES) as pool:
        return pool.map(write, ranges, chunksize=1)


def _write_file(folder: Path, shape: Shape, mix: Mix, numbers: range) -> Path:
    path = folder / f"{numbers.start:012}.parquet"
    stream = messages(shape, numbers, mix)
    with pq.ParquetWriter(path, BRONZE, compression="snappy") as writer:
        for start in range(0, len(numbers), _BATCH):
            batch = numbers[start : start + _BATCH]
            # The stream is second: it must not lose a message to find that the batch is over.
            rows = [message for _, message in zip(batch, stream, strict=False)]
            writer.write_batch(_rows(shape, batch, rows))
    return path


def _rows(shape: Shape, numbers: range, rows: list[Message]) -> pa.RecordBatch:
    times = [(FIRST_TIME_MS + number * STEP_MS + 40) * 1000 for number in numbers]
    landed = (FIRST_TIME_MS + numbers.start * STEP_MS) * 1000
    arrays = [
        [shape.topic] * len(rows),
        [number % PARTITIONS for number in numbers],
        [number // PARTITIONS for number in numbers],
        times,
        [0] * len(rows),
        [row.key for row in rows],
        [row.value for row in rows],
        [None] * len(rows),
        [landed] * len(rows),
    ]
    return pa.record_batch(
        [pa.array(each, field.type) for each, field in zip(arrays, BRONZE, strict=True)],
        schema=BRONZE,
    )
