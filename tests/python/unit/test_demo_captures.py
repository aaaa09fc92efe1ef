"""The demo's captures hold what seeds/README.md promises, and are what tools.captures writes."""

import hashlib
import json
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

import msgpack
import pytest

from dbt_lakehouse.config.paths import ROOT
from python_udfs.core.events import Event
from python_udfs.registry import decode_payload
from tools.captures.files import captures

SEEDS = ROOT / "seeds"
FORMATS: dict[str, str | None] = {
    "aerospike.users.profiles": "aerospike_messagepack",
    "aerospike.web.sessions": "aerospike_messagepack",
    "aerospike.iot.devices": "aerospike_json",
    "arcion.tpch.region": "arcion_json",
    "arcion.crm.accounts": "arcion_json",
    "lindorm.customers": "lindorm_json",
    "lindorm.hbase.customers": "lindorm_json",
    "debezium.inventory.products": "debezium_json",
    "debezium.sales.orders": "debezium_json",
    "legacy.audit": None,
}
TABLES = [topic for topic, format in FORMATS.items() if format]
# Lindorm ships no Kafka keys: the key column of the images.
KEY_COLUMNS = {"lindorm.customers": "id", "lindorm.hbase.customers": "ROW"}
WRITES = {"snapshot", "insert", "update", "upsert"}
POISON = {
    "aerospike.users.profiles": ["not_messagepack", "truncated"],
    "aerospike.web.sessions": ["bad_type", "bad_version"],
    "aerospike.iot.devices": ["bad_type", "truncated"],
    "arcion.tpch.region": ["bad_type"],
    "arcion.crm.accounts": ["not_json"],
    "lindorm.customers": ["bad_shape", "trailing_bytes"],
    "lindorm.hbase.customers": ["bad_field"],
    "debezium.inventory.products": ["bad_field", "not_json"],
    "debezium.sales.orders": ["bad_shape", "truncated"],
    "legacy.audit": ["unknown_format", "unknown_format"],
}
# SHA-256 of the examples as the format documents print them, each with the topic that holds it.
PAGE_EXAMPLES = {
    "arcion.tpch.region": {
        "snapshot key": "cb6fda44603239d3d4064e6b78d6511e153b1b4c29f18499e2429d82bbc40d9f",
        "snapshot value": "02361e32e1a6c7804ad3c2028eb9f61cb0012a7d9334b136f7e412682c3d9211",
        "insert key": "4886e0fa221fe8b6e42c18441b18b3e1fd4ba53f95d7affd37562f2c04cc3751",
        "insert value": "346c1a5328ff7cbecb3d32d2b47ad5c4ccf4ed40a84efb4318dd83e2bd00fc2a",
        "update, delete and tombstone key": (
            "89bbd487cf9e4ef866e1407aceed18c9829a746bedfa4e8fa408f184d008af44"
        ),
        "update value": "c514fddaf98212f6e270f8604e238ae7c27941869bfaf6f7159f87fd044706f8",
        "delete value": "e920ecd38b439ca39a25ca90db732c2a4868119c6015c4bd40888d0e45dcabf9",
        "tombstone value": "1080a60800d9e5bddc69f51489c636a776bacaadb5368f46db4aa0947c67e3ba",
    },
    "lindorm.customers": {
        "with schema": "415c52c21a87d2eb8846a1f3b6043066b2cb48ba0d27ce3217bc4e0d117a4bbc",
        "insert": "8910319142e170a6ced2f3de4db279741af873df72f705dca3d829f5ae0da737",
        "update": "e4d01c930810deec9af7d82439ec5f5fb074f41508bc9bacec04a1e9cd4b8ceb",
        "row delete": "6a86c5ca6fde84ee866a86c38918d093b3c8a9133247f2e7fc7ef18a3caa3e32",
        "column delete": "b1f18257ab696116f016e7aeef670f4e03ac0eacb91afaf0411056af11301699",
    },
    "lindorm.hbase.customers": {
        "insert": "fe9728bb97ed550a60633fd42f0653b91cca02335e6919f2c8c5c99307add2b5",
    },
    "aerospike.iot.devices": {
        "write": "b208c1b7d24c0da59ea2672fc4aa942c5e24dc9aa03a696cb73d1c952a002a05",
        "delete": "5152ddd2fd356011322a02b79c8bfff879b31e09071daed22cf8b86f40754952",
        "batch": "036c17743ebb2d921d027d3b5efc2c7a80a8bf5efea27a8b21a5b4214d3173e4",
        "concatenated keys": "95a54d70422eaa586f771b8304b2d8dccae1bce05d476f37a650df9993c63ba5",
    },
}


@dataclass(frozen=True, slots=True)
class Line:
    """One message of a capture."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[list[str | None]]


@cache
def lines(topic: str) -> list[Line]:
    """The messages of a topic in the order of the capture."""
    result = []
    for text in (SEEDS / f"{topic}.jsonl").read_text(encoding="utf-8").splitlines():
        fields = json.loads(text)
        assert fields["topic"] == topic
        key, value = (
            None if fields[name] is None else b64decode(fields[name], validate=True)
            for name in ("key_b64", "value_b64")
        )
        result.append(
            Line(
                fields["partition"],
                fields["offset"],
                fields["timestamp_ms"],
                key,
                value,
                fields.get("headers", []),
            )
        )
    return result


@cache
def decoded(topic: str) -> list[tuple[Line, Event]]:
    """The events of a topic beside the messages they come from."""
    return [
        (line, event)
        for line in lines(topic)
        for event in decode_payload(FORMATS[topic], line.key, line.value)
    ]


def events(topic: str, *operations: str) -> list[Event]:
    """The events of a topic that have one of these operations."""
    return [event for _, event in decoded(topic) if event.operation in operations]


def identity(topic: str, event: Event) -> str | None:
    """What tells the record of ``event`` from others, None if it changes no record."""
    if event.operation not in WRITES | {"delete"}:
        return None
    if topic in KEY_COLUMNS:
        image = json.loads(event.after or event.before or b"{}")
        return str(image[KEY_COLUMNS[topic]])
    assert event.record_key is not None
    return event.record_key.decode()


def histories(topic: str) -> list[list[tuple[Line, Event]]]:
    """The changes of each record, in the order of the capture."""
    result: dict[str, list[tuple[Line, Event]]] = {}
    for line, event in decoded(topic):
        key = identity(topic, event)
        if key is not None:
            result.setdefault(key, []).append((line, event))
    return list(result.values())


def steps(topic: str) -> Iterator[tuple[tuple[Line, Event], tuple[Line, Event]]]:
    """Each change of a record beside the next one of the same record."""
    for history in histories(topic):
        yield from pairwise(history)


def metadata(event: Event) -> dict[str, Any]:
    """The metadata of ``event``."""
    result: dict[str, Any] = json.loads(event.metadata or b"{}")
    return result


def image(event: Event) -> dict[str, Any]:
    """The row image after the change, numbers as text so that every digit counts."""
    assert event.after is not None
    result: dict[str, Any] = json.loads(event.after, parse_float=str, parse_int=str)
    return result


def test_regenerating_gives_the_committed_bytes() -> None:
    examples = [*(SEEDS.parent / "examples").glob("*/seeds/*.jsonl")]
    committed = {path: path.read_bytes() for path in [*SEEDS.glob("*.jsonl"), *examples]}
    written = captures()
    assert len(examples) >= 3
    assert {path.stem for path in written} == {*FORMATS, *(path.stem for path in examples)}
    assert sorted(written) == sorted(committed)
    for path in written:
        assert written[path] == committed[path], f"{path}: run python -m tools.captures"


def test_the_generator_shares_nothing_with_the_decoders() -> None:
    parts = [*(ROOT / "tools" / "captures").glob("*.py")]
    assert len(parts) > 5
    for path in parts:
        text = path.read_text(encoding="utf-8")
        assert "python_udfs" not in text and "dbt_lakehouse" not in text, path


def test_the_demo_has_the_size_of_a_small_business() -> None:
    total = sum(len(decoded(topic)) for topic in FORMATS)
    assert 600 <= total <= 1000
    for topic in TABLES:
        assert 30 <= len(decoded(topic)) <= 125, topic
    assert sum(path.stat().st_size for path in SEEDS.glob("*.jsonl")) < 1_000_000


@pytest.mark.parametrize("topic", FORMATS)
def test_offsets_are_contiguous_and_times_plausible(topic: str) -> None:
    first = datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000
    last = datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000
    for partition in {line.partition for line in lines(topic)}:
        mine = [line for line in lines(topic) if line.partition == partition]
        assert [line.offset for line in mine] == list(range(len(mine)))
    for line in lines(topic):
        assert first <= line.timestamp_ms < last


@pytest.mark.parametrize("topic", TABLES)
def test_kafka_timestamps_go_backwards_within_a_partition(topic: str) -> None:
    backwards = [
        (before, after)
        for before, after in pairwise(sorted(lines(topic), key=lambda x: (x.partition, x.offset)))
        if before.partition == after.partition and after.timestamp_ms < before.timestamp_ms
    ]
    assert backwards


def test_some_topics_have_two_partitions() -> None:
    assert sum({line.partition for line in lines(topic)} == {0, 1} for topic in TABLES) >= 2


@pytest.mark.parametrize("topic", PAGE_EXAMPLES)
def test_the_documents_own_examples_are_there_as_printed(topic: str) -> None:
    found = {
        hashlib.sha256(data).hexdigest()
        for line in lines(topic)
        for data in (line.key, line.value)
        if data is not None
    }
    missing = [name for name, digest in PAGE_EXAMPLES[topic].items() if digest not in found]
    assert not missing


@pytest.mark.parametrize("topic", FORMATS)
def test_only_the_intended_poison_is_invalid(topic: str) -> None:
    codes = sorted(str(event.error_code) for event in events(topic, "invalid"))
    assert codes == POISON[topic]


def test_poison_is_rare() -> None:
    payloads = sum(len(lines(topic)) for topic in FORMATS)
    assert sum(len(codes) for codes in POISON.values()) < 0.04 * payloads


@pytest.mark.parametrize("topic", TABLES)
def test_every_table_has_the_whole_life_of_a_row(topic: str) -> None:
    operations = Counter(event.operation for _, event in decoded(topic))
    assert operations["delete"] >= 2
    if topic.startswith("aerospike."):
        assert operations["upsert"] >= 30
    else:
        assert operations["insert"] >= 5 and operations["update"] >= 8
    pairs = list(steps(topic))
    assert any(a.operation == "delete" and b.operation in WRITES for (_, a), (_, b) in pairs)
    values: list[list[bytes | None]] = [[x.value for x, _ in h] for h in histories(topic)]
    assert any(len(v) > len(set(v)) for v in values), "no duplicate"


@pytest.mark.parametrize("topic", [t for t in TABLES if t != "aerospike.web.sessions"])
def test_some_event_is_late_by_the_time_of_its_source(topic: str) -> None:
    late = [
        event
        for (_, before), (_, event) in steps(topic)
        if before.occurred_at is not None
        and event.occurred_at is not None
        and event.occurred_at < before.occurred_at
    ]
    assert late


# --- Aerospike ------------------------------------------------------------------------------------


def records(topic: str) -> Iterator[list[Any]]:
    """The MessagePack records of a topic as they were sent, read without our decoders."""
    for line in lines(topic):
        try:
            message = msgpack.unpackb(line.value, raw=False, strict_map_key=False)
        except ValueError:
            continue  # poison
        yield from message if isinstance(message[0], list) else [message]


def bins_of(topic: str) -> list[list[Any]]:
    """Every bin of every write of a topic."""
    return [b for r in records(topic) if r[1] == 1 for b in r[2][4]]


def test_profiles_have_every_bin_type_and_flag() -> None:
    bins = bins_of("aerospike.users.profiles")
    assert {kind for _, kind, _, _ in bins} == {0, 1, 2, 3, 4, 7, 9, 17, 18, 19, 20, 23}
    assert {flags for _, kind, flags, _ in bins if kind == 19} == {0, 1, 3}
    assert {flags for _, kind, flags, _ in bins if kind == 20} == {0, 1}
    for _, kind, flags, value in bins:
        if (kind, flags) == (20, 1):
            assert value == sorted(value)
        elif kind == 19 and flags:
            assert list(value) == sorted(value)


def test_profiles_have_ext_types_and_keys_that_are_no_strings() -> None:
    seen: set[tuple[str, object]] = set()

    def walk(value: Any) -> None:
        if isinstance(value, msgpack.ExtType):
            seen.add(("ext", value.code))
        elif isinstance(value, dict):
            for key, item in value.items():
                seen.add(("key", type(key)))
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    for _, kind, _, value in bins_of("aerospike.users.profiles"):
        if kind in (19, 20):
            walk(value)
    assert {("ext", 7), ("ext", 23)} <= seen
    assert {("key", t) for t in (str, int, float, bytes, type(None))} <= seen


def test_profiles_have_every_kind_of_key_and_header_field() -> None:
    all_records = list(records("aerospike.users.profiles"))
    writes = [r[2] for r in all_records if r[1] == 1]
    deletes = [r[2] for r in all_records if r[1] == 2]
    assert {type(w[0][3]) for w in writes} == {str, int, bytes, type(None)}
    assert {type(w[i]) for w in writes for i in (1, 2, 3)} == {int, type(None)}
    assert all(len(w[0][2]) == 20 for w in writes)
    assert {len(d) for d in deletes} == {5}
    assert {d[1] for d in deletes} == {0, 1}
    assert {d[0][1] for d in deletes} == {None, "profiles"}
    assert any(d[4] is None for d in deletes)
    assert any(w[4] == [] for w in writes)


def test_sessions_come_from_a_connector_before_4_0() -> None:
    all_records = list(records("aerospike.web.sessions"))
    deletes = [r[2] for r in all_records if r[0] == 1 and r[1] == 2]
    assert {len(d) for d in deletes} == {2}
    assert {d[0][1] for d in deletes} == {None}
    assert {d[1] for d in deletes} == {0, 1}
    luts = Counter(
        "zero" if r[2][3] == 0 else "seconds" if r[2][3] < 10**11 else "milliseconds"
        for r in all_records
        if r[:2] == [1, 1]
    )
    assert luts["zero"] > luts["seconds"] > 0 == luts["milliseconds"]
    # The types of the older page.
    assert {b[1] for b in bins_of("aerospike.web.sessions")} <= {1, 2, 3, 4, 7, 19, 20, 23}
    assert all(e.occurred_at is None for e in events("aerospike.web.sessions", *WRITES))


@pytest.mark.parametrize("topic", [t for t in TABLES if t.startswith("aerospike.")])
def test_aerospike_expiry_and_batches(topic: str) -> None:
    today = datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000
    writes = events(topic, "upsert")
    assert any(e.expires_at is not None and e.expires_at < today for e in writes)
    assert any(e.expires_at is not None and e.expires_at > today + 10**11 for e in writes)
    assert any(e.expires_at is None for e in writes)
    batches = [(line, e) for line, e in decoded(topic) if "batch_size" in metadata(e)]
    assert {line.key is None for line, _ in batches} == {True, False}
    assert {"upsert", "delete"} <= {e.operation for _, e in batches}


def test_profiles_have_each_situation_of_current_state() -> None:
    topic = "aerospike.users.profiles"
    pairs = list(steps(topic))
    firsts = [history[0][1] for history in histories(topic)]
    day = 24 * 3_600_000

    def overtaken(a: Event, b: Event) -> bool:
        """Whether ``b``, later in the log, is the older one by the source's time."""
        return None not in (a.occurred_at, b.occurred_at) and (b.occurred_at or 0) < (
            a.occurred_at or 0
        )

    situations: dict[str, Callable[[], bool]] = {
        "tie": lambda: any(
            a.occurred_at == b.occurred_at and a.after != b.after for (_, a), (_, b) in pairs
        ),
        "late write": lambda: any(
            overtaken(a, b) for (_, a), (_, b) in pairs if a.operation == b.operation == "upsert"
        ),
        "late delete": lambda: any(
            overtaken(a, b)
            for (_, a), (_, b) in pairs
            if (a.operation, b.operation) == ("upsert", "delete")
        ),
        "delete before the first write": lambda: any(e.operation == "delete" for e in firsts),
        "a clock ahead": lambda: any(
            e.occurred_at is not None and e.occurred_at > line.timestamp_ms + day
            for line, e in decoded(topic)
        ),
        "another partition": lambda: any(
            len({line.partition for line, _ in history}) == 2 for history in histories(topic)
        ),
        "expired, then written again": lambda: any(
            a.expires_at is not None and b.expires_at is None and b.operation == "upsert"
            for (_, a), (_, b) in pairs
        ),
        "durable delete": lambda: any(metadata(e).get("durable") for e in events(topic, "delete")),
    }
    assert [name for name, holds in situations.items() if not holds()] == []


def test_devices_have_deletes_of_every_shape() -> None:
    shapes: set[frozenset[str]] = set()
    with_set: set[bool] = set()
    for line in lines("aerospike.iot.devices"):
        try:
            message = json.loads(line.value or b"")
        except ValueError:
            continue  # trailing commas, or poison
        for record in message if isinstance(message, list) else [message]:
            if record["msg"] == "delete":
                shapes.add(frozenset(record) - {"msg", "key"})
                with_set.add(record["key"][1] is not None)
    assert frozenset() in shapes
    assert {"durable", "gen", "lut"} in shapes
    assert {"durable", "gen", "exp", "lut"} in shapes
    assert with_set == {True, False}


def test_devices_have_trailing_commas_orders_and_every_type() -> None:
    topic = "aerospike.iot.devices"
    text = [line.value or b"" for line in lines(topic)]
    assert any(value.endswith(b",}") for value in text)
    assert any(value.endswith(b",]") for value in text)
    assert any((line.key or b"").endswith(b",]") for line in lines(topic))
    bins = [b for e in events(topic, "upsert") for b in json.loads(e.after or b"{}")]
    assert {"serial", "battery", "temperature", "online", "calibration", "settings"} <= set(bins)
    for text_of in (
        b'"order":"key"',
        b'"order":"key-value"',
        b'"ordered":true',
        b'"ordered":false',
    ):
        assert any(text_of in value for value in text)


# --- Debezium and its dialects --------------------------------------------------------------------


def test_regions_have_snapshot_realtime_and_a_key_change() -> None:
    topic = "arcion.tpch.region"
    operations = [event.operation for _, event in decoded(topic)]
    assert operations[:5] == ["snapshot"] * 5 and "snapshot" not in operations[5:]
    names = {image(event)["r_name"] for event in events(topic, "snapshot")}
    assert names == {"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}
    assert all(
        line.value == b'"default"' for line, e in decoded(topic) if e.operation == "tombstone"
    )
    # DELETE of the old key, tombstone, INSERT of the same row under another key.
    changes = [event for _, event in decoded(topic) if event.operation != "tombstone"]
    moved = [
        (a, b)
        for a, b in pairwise(changes)
        if (a.operation, b.operation) == ("delete", "insert") and a.record_key != b.record_key
    ]
    assert any(
        json.loads(a.before or b"{}")["r_comment"] == image(b)["r_comment"] for a, b in moved
    )


def test_accounts_have_strings_then_numbers_and_every_tombstone() -> None:
    topic = "arcion.crm.accounts"
    payloads = [
        json.loads(line.value)["payload"] for line, e in decoded(topic) if e.after and line.value
    ]
    kinds = [type(payload["after"]["account_id"]) for payload in payloads]
    assert kinds == sorted(kinds, key=lambda kind: kind is int) and set(kinds) == {str, int}
    assert {str(payload["before"]) for payload in payloads} >= {"None", "{}"}
    values = {line.value for line, event in decoded(topic) if event.operation == "tombstone"}
    assert values == {b'"default"', b"null", None, b""}
    # Whichever way they were shipped, the schema block gives the values their types.
    for event in events(topic, *WRITES):
        row = json.loads(event.after or b"{}")
        assert type(row["account_id"]) is int and type(row["active"]) is bool
        assert row["created_at"].endswith("Z")


def test_customers_have_both_schemas_and_a_column_delete() -> None:
    topic = "lindorm.customers"
    assert all(line.key is None for line in lines(topic) + lines("lindorm.hbase.customers"))
    schemas = [
        json.loads(line.value)["schema"] for line, e in decoded(topic) if e.after and line.value
    ]
    assert {bool(schema) for schema in schemas} == {True, False}
    for name in (topic, "lindorm.hbase.customers"):
        assert any(
            set(json.loads(e.before or b"{}")) > set(image(e)) for e in events(name, "update")
        )


def test_contacts_hold_hbase_bytes() -> None:
    rows = [image(event) for event in events("lindorm.hbase.customers", *WRITES)]
    assert any(b64decode(row["ROW"]) == b"user1" for row in rows)
    assert {len(b64decode(row["f_age"])) for row in rows if "f_age" in row} == {4}
    points = {
        int.from_bytes(b64decode(row["f_points"]), "big", signed=True)
        for row in rows
        if "f_points" in row
    }
    assert min(points) < 0 and max(points) > 2**53
    assert any("f_photo" in row for row in rows)


def test_products_share_their_topic_with_everything_else_of_a_connector() -> None:
    topic = "debezium.inventory.products"
    operations = Counter(event.operation for _, event in decoded(topic))
    assert operations["snapshot"] == 8
    assert operations["schema_change"] == 2
    assert operations["message"] == 4
    assert operations["tombstone"] == 2
    rows = [image(event) for event in events(topic, *WRITES)]
    assert {"-3.50", "12345678.99", "0.00"} <= {row["price"] for row in rows}
    samovar = next(row for row in rows if row["id"] == "110")
    assert samovar["year_made"] == "1868" and samovar["released"] < "1970-01-01"
    assert samovar["duration"] == "00:01:15.000000"
    assert {row["duration"] for row in rows} >= {"-00:01:30.500000", "30:00:00.000000"}
    assert any(row["checked_at"] and row["checked_at"].endswith(".123456") for row in rows)


def test_orders_come_in_every_shape_and_keep_their_digits() -> None:
    topic = "debezium.sales.orders"
    shapes = Counter(
        tuple(sorted(set(json.loads(line.value)) & {"schema", "payload", "op"}))
        for line, event in decoded(topic)
        if event.operation in WRITES and line.value
    )
    assert set(shapes) == {("op",), ("payload",), ("payload", "schema")}
    amounts = {image(event)["amount"] for event in events(topic, *WRITES)}
    assert {"1234567.10", "0.10", "12.30", "88.8"} <= amounts
    deletes = events(topic, "delete")
    assert {event.before is None for event in deletes} == {True, False}
    assert all(event.record_key is not None for event in deletes)
    assert len(events(topic, "message")) == 2
    headers = [header for line in lines(topic) for header in line.headers]
    assert {name for name, _ in headers} == {"traceparent", "retry"}
    assert ["retry", None] in headers
