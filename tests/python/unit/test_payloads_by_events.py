"""The functions of bronze give what they are defined by: the same as by way of all events of the
payloads, each decoded alone, with all their texts.
"""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from support.arrow_values import differing, values_of
from support.fuzzing import Payload, changed, know_schemas, learn_anew, seeds, without_rest
from support.odd_batches import odd_batch, of_tables, stream
from support.typed_events import random_changes, random_log
from support.typed_seeds import log_of

from dbt_lakehouse.spark import message_chunks, payload_functions
from dbt_lakehouse.spark.by_events import Taken, log_events_of, others_of
from dbt_lakehouse.spark.event_arrays import careful_events
from dbt_lakehouse.spark.functions import decode_payload_batch
from dbt_lakehouse.spark.payload_functions import log_events_batch, other_events_batch
from python_udfs.core.events import CHANGES, Source
from python_udfs.registry import AEROSPIKE_FORMATS, FORMATS, decode_payload
from python_udfs.typed.declared import Log, LogColumn
from python_udfs.typed.row import Change
from tools.benchmarks.payloads import SHAPES, USUAL, WRITES_ONLY, messages

Arrays = tuple[pa.Array, pa.Array, pa.Array]
TEXTS: Final = ("record_key", "before", "after", "metadata", "error_code", "error_detail")
_CHANGED_EACH: Final = 40
# The fast path takes no fewer than eight alike.
_TIMES: Final = 8


@pytest.fixture(autouse=True)
def the_fast_way_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With fast paths that learn whenever they can."""

    def refuse(*_: Any) -> Any:
        raise AssertionError("the fast way has raised")

    learn_anew(monkeypatch)
    without_rest()
    know_schemas()
    monkeypatch.setattr(payload_functions, "decode_payload_batch", refuse)


def arrays_of(format: str, payloads: Sequence[Payload]) -> Arrays:
    return (
        pa.array([format] * len(payloads), pa.string()),
        pa.array([each.key for each in payloads], pa.binary()),
        pa.array([each.value for each in payloads], pa.binary()),
    )


def joined(parts: Sequence[Arrays]) -> Arrays:
    formats, keys, values = (pa.concat_arrays(each) for each in zip(*parts, strict=True))
    return formats, keys, values


class Batch:
    """Payloads, and all events of each, decoded alone: once for those that are the same."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays: Final = arrays
        each = list(zip(*(array.to_pylist() for array in arrays), strict=True))
        places = {payload: place for place, payload in enumerate(dict.fromkeys(each))}
        distinct = [
            pa.array(values, array.type)
            for values, array in zip(zip(*places, strict=True), arrays, strict=True)
        ]
        alone = careful_events(*distinct)
        self.events: Final = alone.take(pa.array([places[payload] for payload in each]))


def check_log(log: Log, sources: frozenset[Source] | None, batch: Batch) -> None:
    got = log_events_batch(log, sources, *batch.arrays)
    got.validate(full=True)
    check_same(got, log_events_of(log, sources, batch.events), batch.arrays, log)


def check_others(taken: Taken, batch: Batch) -> None:
    arrays = batch.arrays
    for topics in (topics_of(arrays), pa.array(["t"] * len(arrays[0]), pa.string())):
        got = other_events_batch(taken, topics, *arrays)
        got.validate(full=True)
        check_same(got, others_of(taken, topics, arrays[0], batch.events), arrays, taken)


def topics_of(arrays: Sequence[pa.Array]) -> pa.Array:
    """Topics in turn, of so many payloads."""
    return pa.array([f"t{place * 7 % 3}" for place in range(len(arrays[0]))], pa.string())


def check_same(got: pa.Array, expected: pa.Array, arrays: Arrays, of: Any) -> None:
    places = differing(got, expected)
    if places:
        where = places[0]
        message = [array[where].as_py() for array in arrays]
        raise AssertionError((message, of, values_of(got)[where], values_of(expected)[where]))


def changes_of(format: str, payloads: Sequence[Payload]) -> dict[Source, list[Change]]:
    """The events of each table."""
    tables: dict[Source, list[Change]] = defaultdict(list)
    for payload in payloads:
        for event in decode_payload(format, *payload):
            if event.operation in CHANGES:
                images = (event.before, event.after, event.record_key, event.metadata)
                tables[event.source].append(Change(event.operation, *images))
    return tables


def logs_of(
    format: str, payloads: Sequence[Payload]
) -> Iterator[tuple[Log, frozenset[Source] | None]]:
    """Logs of all kinds, for each table."""
    for source, changes in changes_of(format, payloads).items():
        rng = random.Random(f"{format} {source}")
        log = log_of(rng, changes)
        if log is None:
            continue
        sources = frozenset({source})
        names = tuple(each.column for each in log.columns)
        keys = (("id",), tuple(each.field for each in log.columns if each.column in log.key))
        beside = LogColumn("beside", "bigint", "ts", rng.choice((("source", "ts_ms"), ("lut",))))
        yield log, sources
        yield Log(log.columns, log.key, keys=keys, beside=(beside,)), None
        texts = tuple(each for each in TEXTS if rng.random() < 0.5)
        yield Log(log.columns, log.key, keys=keys, beside=(beside,), texts=texts), sources
        if log.key:
            yield Log(log.columns, log.key, former=((keys[1][0], "id"),), texts=TEXTS), None
        yield Log(log.columns, partial=rng.random() < 0.5, texts=texts[:1]), sources
        yield Log(log.columns, names, keyless=True), sources


def takens_of(format: str, payloads: Sequence[Payload]) -> Iterator[Taken]:
    sources = list(changes_of(format, payloads))
    for some in (sources, sources[::2], []):
        is_of_records = format in AEROSPIKE_FORMATS
        none: frozenset[Source] = frozenset()
        yield Taken(*(frozenset(some), none)[:: 1 if is_of_records else -1])


@pytest.mark.parametrize("format", FORMATS)
def test_seeds_and_what_is_near_them(format: str) -> None:
    known = seeds()[format]
    batch = Batch(arrays_of(format, known * _TIMES))
    logs, takens = list(logs_of(format, known)), list(takens_of(format, known))
    assert logs
    for log, sources in logs:
        check_log(log, sources, batch)
    for taken in takens:
        check_others(taken, batch)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    shortest = sorted(known, key=lambda each: len(each.value))[:2]
    for payload in islice(changed(known, rng), len(known), len(known) + _CHANGED_EACH):
        batch = Batch(arrays_of(format, [payload, *shortest] * _TIMES))
        check_log(*rng.choice(logs), batch)
        check_others(rng.choice(takens), batch)


@pytest.mark.parametrize("name", SHAPES)
def test_messages_of_benchmarks(name: str) -> None:
    shape = SHAPES[name]
    # Of deletes there is no row to shuffle.
    mix = WRITES_ONLY if "shuffled" in name else USUAL
    payloads = [Payload(*each) for each in messages(shape, range(100), mix)]
    batch = Batch(arrays_of(shape.format, payloads))
    for log, sources in logs_of(shape.format, payloads[:20]):
        check_log(log, sources, batch)
    for taken in takens_of(shape.format, payloads):
        check_others(taken, batch)


def test_formats_and_tables_side_by_side() -> None:
    parts, every = [], []
    for name in ("debezium", "aerospike", "maxwell", "unwrapped", "aerospike_json", "mongodb"):
        shape = SHAPES[name]
        payloads = [Payload(*each) for each in messages(shape, range(60), USUAL)]
        parts.append(arrays_of(shape.format, payloads))
        every += [each for each, _ in logs_of(shape.format, payloads)]
    formats, keys, values = joined(parts)
    order = pa.array(random.Random(5).sample(range(len(values)), len(values)))
    mixed = Batch((formats.take(order), keys.take(order), values.take(order)))
    for log in every:
        check_log(log, None, mixed)
    orders = frozenset({("shop", "sales", "orders"), ("sales", None, "orders")})
    check_others(Taken(frozenset({(None, "users", "profiles")}), orders), mixed)


# --- Many tables ----------------------------------------------------------------------------------

# Avro's tables are those of its schemas.
_FIRST: Final = {shape.format: place for place, shape in reversed([*enumerate(SHAPES.values())])}
# In CI, each format, and columns in any order: a format's other shapes are told apart the same way.
_OF_TABLES: Final = [
    pytest.param(
        name,
        marks=()
        if name.endswith("shuffled") or list(SHAPES.values()).index(shape) == _FIRST[shape.format]
        else pytest.mark.long,
    )
    for name, shape in SHAPES.items()
    if not name.endswith(("layouts", "alternating")) and not shape.format.endswith("avro")
]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if these were the messages of large batches."""
    monkeypatch.setattr(message_chunks, "_SMALLEST_CHUNK", 16)
    monkeypatch.setattr(message_chunks, "_LARGEST_CHUNK", 24)
    monkeypatch.setattr(message_chunks, "_PER_SAMPLE", 5)


def check_all(batch: Batch, logs: Sequence[tuple[Log, frozenset[Source] | None]]) -> None:
    assert not differing(decode_payload_batch(*batch.arrays), batch.events)
    for log, sources in logs:
        check_log(log, sources, batch)


def are_by_table(arrays: Arrays) -> bool:
    return not isinstance(next(message_chunks.chunks_of(*arrays))[0], range)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", _OF_TABLES)
def test_many_tables_in_turn(name: str) -> None:
    rng = random.Random(name)
    format = SHAPES[name].format
    plain = of_tables(rng, name, stream(name, 160), 10)
    payloads = [Payload(*each) for each in plain]
    logs, takens = list(logs_of(format, payloads[:12])), list(takens_of(format, payloads))
    batch = Batch(arrays_of(format, payloads))
    assert are_by_table(batch.arrays)
    check_all(batch, logs[:8])
    for _ in range(2):
        odd = [Payload(key, value or b"") for key, value in odd_batch(rng, name, plain)]
        batch = Batch(arrays_of(format, odd))
        check_all(batch, rng.sample(logs, 3))
        check_others(rng.choice(takens), batch)


@pytest.mark.usefixtures("small_chunks")
def test_formats_with_many_tables_side_by_side() -> None:
    rng = random.Random(7)
    parts, logs = [], []
    for name in ("debezium", "aerospike", "maxwell", "unwrapped", "aerospike_json", "mongodb"):
        format = SHAPES[name].format
        plain = of_tables(rng, name, stream(name, 100), 10)
        payloads = [Payload(key, value or b"") for key, value in odd_batch(rng, name, plain)]
        parts.append(arrays_of(format, payloads))
        logs += list(logs_of(format, [Payload(*each) for each in plain[:6]]))
    arrays = joined(
        [*parts, (pa.array([None], pa.string()), *arrays_of("", [Payload(None, b"x")])[1:])]
    )
    order = pa.array(rng.sample(range(len(arrays[0])), len(arrays[0])))
    formats, keys, values = (each.take(order) for each in arrays)
    batch = Batch((formats, keys, values))
    assert are_by_table(batch.arrays)
    check_all(batch, rng.sample(logs, 10))
    orders = frozenset({("shop", "sales", "orders1"), ("sales", None, "orders2")})
    check_others(Taken(frozenset({(None, "users", "profiles3")}), orders), batch)


# --- Rows of any kind -----------------------------------------------------------------------------

_SOURCE: Final = {"db": "d", "schema": "s", "table": "t", "ts_ms": 5}


def debezium(change: Change) -> Payload:
    """The same change in an envelope."""
    before, after = (b"null" if each is None else each for each in (change.before, change.after))
    op = {"insert": "c", "delete": "d", "snapshot": "r"}.get(change.operation, "u")
    source = json.dumps(_SOURCE, separators=(",", ":")).encode()
    value = b'{"before":%b,"after":%b,"source":%b,"op":"%b","ts_ms":7}'
    return Payload(change.record_key, value % (before, after, source, op.encode()))


def unwrapped(change: Change) -> Payload:
    """Its row alone."""
    row = change.after or change.before or b'{"id":1}'
    is_deleted = b"true" if change.operation == "delete" else b"false"
    return Payload(change.record_key, row[:-1] + b',"__deleted":"%b","__table":"t"}' % is_deleted)


def maxwell(change: Change) -> Payload:
    """Its row, and what that was."""
    row = change.after or change.before or b'{"id":1}'
    kind = b"delete" if change.operation == "delete" else b"insert"
    if change.before is not None and change.after is not None:
        kind = b"update"
    old = b',"old":%b' % (change.before or b"{}") if kind == b"update" else b""
    value = b'{"database":"d","table":"t","type":"%b","ts":9,"data":%b%b}' % (kind, row, old)
    return Payload(None, value)


def aerospike(change: Change) -> Payload:
    """Its row as bins."""
    row = msgspec.json.decode(change.after or change.before or b'{"id":1}')
    kinds = {str: 3, int: 1, float: 2, bool: 17, list: 20, dict: 19}
    bins = [
        [name, kinds[type(value)], 0, value]
        for name, value in row.items()
        if type(value) in kinds and not (type(value) is int and abs(value) >= 2**63)
    ]
    key = ["ns", "t", b"d" * 20, None]
    return Payload(None, msgspec.msgpack.encode([1, 1, [key, 1, 0, 10**12, bins]]))


WRITERS: Final = {
    "debezium_json": debezium,
    "debezium_unwrapped_json": unwrapped,
    "maxwell_json": maxwell,
    "aerospike_messagepack": aerospike,
}


# Other rows each time. The formats differ in how events come to the columns; of values themselves
# test_typed_rows and test_typed_columns have more.
@pytest.mark.parametrize("count", [40, pytest.param(2_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("format", WRITERS)
def test_rows_of_any_kind(format: str, count: int) -> None:
    first = random.randrange(2**32)
    print(f"seed {first}")
    for seed in range(first, first + count):
        rng = random.Random(seed)
        log = random_log(rng)
        payloads = [WRITERS[format](each) for each in random_changes(rng, log)]
        # As many of each as make a fast path of their own.
        batch = Batch(arrays_of(format, [each for each in payloads for _ in range(_TIMES)]))
        try:
            check_log(log, None, batch)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


# --- Headers, and bugs ----------------------------------------------------------------------------

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_ID_LOG: Final = Log((LogColumn("id", "int", "id"), LogColumn("a", "string", "a")), ("id",))


def inserts(count: int) -> list[Payload]:
    return [
        debezium(Change("insert", None, b'{"id":%d,"a":"x"}' % n, b'{"id":%d}' % n))
        for n in range(count)
    ]


def test_events_of_key_updates_bring_their_metadata() -> None:
    payloads = inserts(30)
    other_key = [{"key": "__debezium.oldkey", "value": b'{"id":99}'}]
    headers = pa.array([None if place % 5 else other_key for place in range(30)], _HEADERS)
    arrays = (*arrays_of("debezium_json", payloads), headers)
    got = log_events_batch(_ID_LOG, None, *arrays)
    assert not differing(got, log_events_of(_ID_LOG, None, careful_events(*arrays)))
    updates = [each["change"]["_key_update"] is not None for (each,) in got.to_pylist()]
    assert updates == [place % 5 == 0 for place in range(30)]
    assert [each["metadata"] is not None for (each,) in got.to_pylist()] == updates
    taken = Taken(frozenset(), frozenset({("d", "s", "t")}))
    topics = topics_of(arrays)
    others = other_events_batch(taken, topics, *arrays)
    assert not differing(others, others_of(taken, topics, arrays[0], careful_events(*arrays)))


_COLLECTIONS: Final[tuple[Any, ...]] = (
    *([], [[]], [None], ["a"], ["a", None], [1, True], [1, 2**40], [1.5, -0.0], [2.0, 1], ["1"]),
    *([[1], "x"], {}, {"a": 1}, {"a": None, "b": 2}, {"a": "x", "b": 1}, {"a": {"b": 1}}, "t", 1.5),
)
_COLLECTION_TYPES: Final = (
    *("array<string>", "array<int>", "array<bigint>", "array<double>", "array<boolean>"),
    *("array<timestamp>", "array<decimal(9,2)>", "map<string,string>", "map<string,int>", "double"),
    *("map<string,double>", "map<string,date>", "string"),
)


@pytest.mark.parametrize("type", _COLLECTION_TYPES)
def test_collections_are_what_their_text_is(type: str) -> None:
    log = Log((LogColumn("a", type, "a"),))
    rng = random.Random(type)
    for _ in range(40):
        some = rng.choices(_COLLECTIONS, k=rng.choice((1, 1, 2, 5)))
        changes = [Change("upsert", None, json.dumps({"a": each}).encode()) for each in some]
        payloads = [aerospike(each) for each in changes for _ in range(_TIMES)]
        check_log(log, None, Batch(arrays_of("aerospike_messagepack", payloads)))


def raise_error(*_: Any) -> Any:
    raise RuntimeError("a bug")


def test_a_bug_of_the_fast_way_costs_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = arrays_of("debezium_json", inserts(30))
    taken = Taken(frozenset(), frozenset({("d", "s", "t")}))
    topics = topics_of(arrays)
    expected = log_events_batch(_ID_LOG, None, *arrays), other_events_batch(taken, topics, *arrays)
    monkeypatch.setattr(payload_functions, "decode_payload_batch", decode_payload_batch)
    monkeypatch.setattr(payload_functions, "EventArrays", raise_error)
    assert log_events_batch(_ID_LOG, None, *arrays).equals(expected[0])
    assert other_events_batch(taken, topics, *arrays).equals(expected[1])


@pytest.mark.usefixtures("small_chunks")
def test_headers_of_many_tables() -> None:
    plain = of_tables(random.Random(3), "debezium", stream("debezium", 160), 10)
    other_keys = [
        [{"key": "__debezium.oldkey", "value": b'{"order_id":%d}' % place}]
        for place in range(len(plain))
    ]
    headers = [each if place % 5 == 0 else None for place, each in enumerate(other_keys)]
    arrays = (
        *arrays_of("debezium_json", [Payload(*each) for each in plain]),
        pa.array(headers, _HEADERS),
    )
    assert are_by_table(arrays[:3])
    expected = careful_events(*arrays)
    assert not differing(decode_payload_batch(*arrays), expected)
    log = Log((LogColumn("order_id", "bigint", "order_id"),), ("order_id",))
    got = log_events_batch(log, None, *arrays)
    assert not differing(got, log_events_of(log, None, expected))
    updates = [event["change"]["_key_update"] for (event,) in got.to_pylist()]
    assert any(updates)


def test_a_wrong_format_and_a_wrong_type_stop() -> None:
    arrays = arrays_of("debezium_json", inserts(3))
    with pytest.raises(ValueError, match="can't have type 'text'"):
        log_events_batch(Log((LogColumn("id", "text", "id"),)), None, *arrays)
    with pytest.raises(AssertionError, match="the fast way has raised"):
        log_events_batch(_ID_LOG, None, *arrays_of("json", inserts(3)))
    assert len(log_events_batch(_ID_LOG, None, *arrays_of("debezium_json", []))) == 0
    nothing = arrays_of("x", [])
    others = other_events_batch(Taken(frozenset(), frozenset()), topics_of(nothing), *nothing)
    assert len(others) == 0
