"""``aerospike_avro``: records by the vendor's table of metadata, schemas as a user may declare
them, and what can be wrong with a message.

The vendor's pages show no payload, so all are made here: by hand, or by ``fastavro``.
"""

import json
import random
from base64 import b64encode
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.avro_messages import Writer

from dbt_lakehouse.commands.explain.guess import guess
from dbt_lakehouse.commands.generate.profile import Position, TopicProfile
from dbt_lakehouse.commands.generate.scan import format_of
from python_udfs.aerospike import flat_json
from python_udfs.aerospike.avro import decode
from python_udfs.core.events import Event
from python_udfs.debezium import avro
from python_udfs.registry import decode_payload

DIGEST: Final = b"abcdefghijklmnopqrst"
DIGEST_64: Final = b64encode(DIGEST).decode()
WRITE_ID, DELETE_ID, KEY_ID = 71, 72, 73
TEXT_ID, UNKNOWN_ID = 74, 79


def optional(kind: Any) -> Any:
    return ["null", kind]


def record(name: str, /, **fields: Any) -> dict[str, Any]:
    parts = [{"name": each, "type": kind} for each, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": parts}


# The four parts of a key, and the rest of the page's table.
KEY: Final = {
    "namespace": "string",
    "set": optional("string"),
    "userKey": ["null", "long", "double", "bytes", "string"],
    "digest": "bytes",
}
METADATA: Final = {
    **KEY,
    "msg": "string",
    "gen": optional("int"),
    "lut": optional("long"),
    "exp": optional("int"),
    "durable": optional("boolean"),
}
KEY_SCHEMA: Final = record("Key", **KEY)
DELETE_SCHEMA: Final = record("Delete", **METADATA)
BINS: Final = {
    "name": optional("string"),
    "age": optional("long"),
    "photo": optional("bytes"),
    "any": ["null", "string", "bytes", "long", "double"],
}
WRITE_SCHEMA: Final = record("Write", metadata=record("Metadata", **METADATA), **BINS)
ABOUT: Final = {"namespace": "users", "digest": DIGEST}
WRITE: Final = ABOUT | {"set": "staff", "msg": "write", "gen": 3, "lut": 1698643762073, "exp": 0}
DELETE: Final = ABOUT | {"msg": "delete", "gen": 4, "lut": 1698643762074, "durable": True}


def message(schema: Any, value: Any, number: int = WRITE_ID) -> bytes:
    avro.know({number: avro.Registered("AVRO", (json.dumps(schema),))})
    return Writer(number, schema).write(value)


def write(metadata: Any = WRITE, **bins: Any) -> bytes:
    return message(WRITE_SCHEMA, {"metadata": metadata, **bins})


def of_bin(kind: Any, value: Any) -> bytes:
    """A write with one bin of a type."""
    schema = record("Write", metadata=record("Metadata", **METADATA), bin=kind)
    return message(schema, {"metadata": WRITE, "bin": value})


@pytest.fixture(autouse=True)
def written() -> None:
    """The schemas by their usual ids."""
    text = {"type": "string"}
    usual = {WRITE_ID: WRITE_SCHEMA, DELETE_ID: DELETE_SCHEMA, KEY_ID: KEY_SCHEMA, TEXT_ID: text}
    for number, schema in usual.items():
        avro.know({number: avro.Registered("AVRO", (json.dumps(schema),))})
    avro.know({UNKNOWN_ID: None})


def one(value: bytes | None, key: bytes | None = None) -> Event:
    (event,) = decode(key, value)
    return event


def said(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text, parse_float=Decimal)


# Written by hand, by the Avro specification.
BY_HAND: Final = bytes.fromhex(
    "0000000047"  # magic byte, schema 71
    "0a 7573657273 02 0a 7374616666"  # users, branch 1: staff
    "02 f601"  # userKey, branch 1 (long): 123
    "28 6162636465666768696a6b6c6d6e6f7071727374"  # 20 bytes of digest
    "0a 7772697465 02 06"  # write, gen 3
    "02 b2eef6f0ef62 02 9c9cfad30c 00"  # lut, exp, no durable
    "02 06 416461 00"  # name: Ada; no age
    "02 04 ff00"  # photo
    "04 02 07"  # any, branch 2 (bytes)
)


def test_a_write_byte_by_byte() -> None:
    about = WRITE | {"userKey": 123, "exp": 1698645774}
    assert write(about, name="Ada", photo=b"\xff\0", any=b"\7") == BY_HAND
    assert one(BY_HAND) == Event(
        event_index=0,
        operation="upsert",
        source_schema="users",
        source_table="staff",
        record_key=b'{"digest":"%b"}' % DIGEST_64.encode(),
        after=b'{"name":"Ada","photo":"/wA=","any":"Bw=="}',
        occurred_at=1698643762073,
        expires_at=1698645774000,
        metadata=b'{"generation":3,"expiry":1698645774,"lut":1698643762073,"user_key":123,'
        b'"user_key_type":"int","bins":{"name":{"type":"str"},"photo":{"type":"blob"},'
        b'"any":{"type":"blob"}}}',
    )


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_delete_has_its_metadata_in_a_member_or_is_it(is_nested: bool) -> None:
    schema: Any = DELETE_SCHEMA
    value: Any = DELETE
    if is_nested:
        schema, value = record("Gone", metadata=schema), {"metadata": value}
    event = one(message(schema, value, DELETE_ID))
    assert event == Event(
        event_index=0,
        operation="delete",
        source_schema="users",
        record_key=b'{"digest":"%b"}' % DIGEST_64.encode(),
        occurred_at=1698643762074,
        metadata=b'{"generation":4,"lut":1698643762074,"durable":true}',
    )


def test_a_delete_names_the_set_if_the_connector_knows_it() -> None:
    assert one(message(DELETE_SCHEMA, DELETE | {"set": "staff"})).source_table == "staff"


@pytest.mark.parametrize(
    ("kind", "value", "text", "note"),
    [
        ("boolean", True, "true", {"type": "bool"}),
        ("int", -(2**31), "-2147483648", {"type": "int"}),
        ("long", 2**63 - 1, "9223372036854775807", {"type": "int"}),
        (["null", "long", "string"], "7", '"7"', {"type": "str"}),
        (["long", "string"], 7, "7", {"type": "int"}),
        ("double", 0.1, "0.1", {"type": "float"}),
        ("float", 0.1, "0.1", {"type": "float"}),
        ("double", float("-inf"), '"-Infinity"', {"type": "float", "nested": {"$": "float"}}),
        ({"type": "enum", "name": "e", "symbols": ["a", "b"]}, "b", '"b"', {"type": "str"}),
        ({"type": "fixed", "name": "f", "size": 2}, b"\0\1", '"AAE="', {"type": "blob"}),
        ({"type": "long", "logicalType": "timestamp-millis"}, 5, "5", {"type": "int"}),
        (
            {"type": "array", "items": ["null", "long", "bytes", "double"]},
            [1, None, b"x", 1e10],
            '[1,null,"eA==",10000000000.0]',
            {"type": "list", "nested": {"$[2]": "bin"}},
        ),
        (
            {"type": "map", "values": {"type": "map", "values": ["null", "bytes", "long"]}},
            {"m": {"1": b"\0", "2": None, "x": 3}},
            '{"m":{"1":"AA==","2":null,"x":3}}',
            {"type": "map", "nested": {'$.m["1"]': "bin"}},
        ),
        (
            record("Address", city=optional("string"), floors={"type": "array", "items": "float"}),
            {"city": None, "floors": [float("nan")]},
            '{"city":null,"floors":["NaN"]}',
            {"type": "map", "nested": {"$.floors[0]": "float"}},
        ),
    ],
)
def test_a_bin_is_its_value_and_its_type_is_told(
    kind: Any, value: Any, text: str, note: Any
) -> None:
    event = one(of_bin(kind, value))
    assert event.after == f'{{"bin":{text}}}'.encode()
    assert said(event.metadata)["bins"] == {"bin": note}


def test_a_null_field_is_a_bin_that_the_record_has_not() -> None:
    event = one(write())
    assert (event.after, said(event.metadata)["bins"]) == (b"{}", {})
    # What a map names is there.
    bins = ["null", "long", record("Metadata", **METADATA)]
    value = message({"type": "map", "values": bins}, {"metadata": WRITE, "n": None, "m": 1})
    event = one(value)
    assert (event.after, event.source_table) == (b'{"n":null,"m":1}', "staff")
    assert said(event.metadata)["bins"] == {"m": {"type": "int"}}


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("bytes", DIGEST),
        ("string", DIGEST_64),
        ({"type": "fixed", "name": "Digest", "size": 20}, DIGEST),
        (["null", "string", "bytes"], DIGEST),
    ],
)
def test_a_digest_is_bytes_or_base64(kind: Any, digest: Any) -> None:
    schema = record("Write", metadata=record("Metadata", **METADATA | {"digest": kind}))
    event = one(message(schema, {"metadata": WRITE | {"digest": digest}}))
    assert event.record_key == b'{"digest":"%b"}' % DIGEST_64.encode()


@pytest.mark.parametrize(
    ("shipped", "user_key", "kind"),
    [(5, 5, "int"), (1.5, Decimal("1.5"), "float"), (b"\0", "AA==", "bin"), ("id1", "id1", "str")],
)
def test_a_user_key_has_its_type(shipped: Any, user_key: Any, kind: str) -> None:
    metadata = said(one(write(WRITE | {"userKey": shipped})).metadata)
    assert (metadata["user_key"], metadata["user_key_type"]) == (user_key, kind)


def test_the_metadata_has_any_name_and_may_be_a_map() -> None:
    values = ["null", "string", "bytes", "int", "long", "boolean"]
    schema = record("Write", n="long", about={"type": "map", "values": values})
    event = one(message(schema, {"n": 1, "about": WRITE | {"more": b"x"}}))
    assert (event.operation, event.source_table, event.after) == ("upsert", "staff", b'{"n":1}')
    metadata = said(event.metadata)
    assert (metadata["metadata_key"], metadata["more"]) == ("about", "eA==")
    # Among the bins.
    schema = record("Write", **METADATA, n="long")
    event = one(message(schema, WRITE | {"n": 1}))
    assert (event.operation, event.source_table, event.after) == ("upsert", "staff", b'{"n":1}')


# --- Kafka keys -----------------------------------------------------------------------------------


def test_a_key_is_kept_as_of_the_other_formats() -> None:
    parts = ABOUT | {"set": "staff", "userKey": b"\1"}
    event = one(BY_HAND, message(KEY_SCHEMA, parts, KEY_ID))
    metadata = said(event.metadata)
    assert metadata["event_key"] == ["users", "staff", DIGEST_64, "AQ=="]
    assert metadata["event_key_user_key_type"] == "bin"
    as_json = json.dumps(parts | {"digest": DIGEST_64, "userKey": "id1"}).encode()
    expected = ["users", "staff", DIGEST_64, "id1"]
    assert said(one(BY_HAND, as_json).metadata)["event_key"] == expected


@pytest.mark.parametrize(
    "key",
    [
        b"plain",
        b"\0",
        b"\0\0\0\0\x49\x05",
        b"\0\0\0\0\x4f\0",
        Writer(TEXT_ID, {"type": "string"}).write("id1"),
    ],
)
def test_a_key_that_can_not_be_read_is_kept_and_harms_no_record(key: bytes) -> None:
    event = one(BY_HAND, key)
    assert event.operation == "upsert"
    assert said(event.metadata)["event_key"] == b64encode(key).decode()


def test_a_null_value_is_a_tombstone_of_its_key() -> None:
    (event,) = decode(message(KEY_SCHEMA, ABOUT | {"set": "staff"}, KEY_ID), None)
    assert (event.operation, event.source_schema, event.source_table) == (
        *("tombstone", "users"),
        "staff",
    )
    assert event.record_key == b'{"digest":"%b"}' % DIGEST_64.encode()
    assert one(None, b"plain").operation == one(b"").operation == "tombstone"
    # Which record it is of is known once the schema is.
    event = one(None, b"\0\0\0\0\x4f\0")
    assert event.error_code == "unknown_schema"
    assert (
        event.error_detail == "the key: at byte 1: schema 79: the schema registry doesn't know it"
    )


# --- What is wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(1, len(BY_HAND)))
def test_each_prefix_is_truncated(length: int) -> None:
    event = one(BY_HAND[:length])
    assert (event.operation, event.error_code) == ("invalid", "truncated")


def changed(**fields: Any) -> bytes:
    """A write with other metadata, of types that fit it."""
    kinds = METADATA | {"gen": optional("double"), "durable": ["null", "boolean", "string"]}
    kinds |= {"digest": ["null", "bytes", "string", "long"], "set": ["null", "string", "bytes"]}
    kinds |= {"msg": optional("string")}
    schema = record("Write", metadata=record("Metadata", **kinds))
    return message(schema, {"metadata": WRITE | {"gen": None} | fields})


@pytest.mark.parametrize(
    ("value", "code", "sentence"),
    [
        (
            lambda: changed(digest=b"x"),
            "bad_field",
            "$.metadata.digest: expected 20 bytes, got 1 bytes",
        ),
        (
            lambda: changed(digest="AAAA"),
            "bad_field",
            "$.metadata.digest: expected base64 of 20 bytes, got 3 bytes",
        ),
        (
            lambda: changed(digest=7),
            "bad_field",
            "$.metadata.digest: expected a string, got an integer",
        ),
        (lambda: changed(digest=None), "bad_field", "$.metadata.digest: expected a string, got"),
        (
            lambda: changed(set=b"x"),
            "bad_field",
            "$.metadata.set: expected a string or null, got bytes",
        ),
        (lambda: changed(gen=1.0), "bad_field", "$.metadata.gen: expected an integer, got a num"),
        (lambda: changed(durable="x"), "bad_field", "$.metadata.durable: expected true or false"),
        (lambda: changed(msg=None), "bad_field", '$.metadata.msg: expected "write" or "delete"'),
        (lambda: changed(msg="touch"), "bad_type", '$.metadata.msg: expected "write" or "delete"'),
        (
            lambda: message(record("Write", **BINS), {"name": "Ada"}),
            "bad_field",
            "$.metadata: expected an object with msg, namespace and digest, got nothing: does the"
            " connector's format have a metadata-key?",
        ),
        (
            lambda: message({"type": "array", "items": DELETE_SCHEMA}, [DELETE]),
            "bad_shape",
            "$: expected a record or a map, got Avro's array",
        ),
        (lambda: message({"type": "string"}, "x"), "bad_shape", "$: expected a record or a map"),
        (lambda: b"\x0ausers", "bad_shape", "at byte 0: expected 0x00, the magic byte of Conflu"),
        (lambda: b'{"metadata":{}}', "bad_shape", "at byte 0: expected 0x00, the magic byte of C"),
        (lambda: write() + b"\0", "trailing_bytes", "the value ends at byte 62, and 1 more follow"),
        (
            lambda: write()[:-1] + b"\x0a",
            "bad_field",
            "$.any: at byte 62: expected a union's branch from 0 to 4, got 5",
        ),
        (
            lambda: UNKNOWN_ID.to_bytes(5, "big"),
            "unknown_schema",
            "at byte 1: schema 79: the schema registry doesn't know it",
        ),
    ],
)
def test_a_bad_payload_says_why(value: Any, code: str, sentence: str) -> None:
    event = one(value())
    assert (event.operation, event.error_code) == ("invalid", code)
    assert (event.error_detail or "").startswith(sentence)


def test_what_has_no_frame_says_which_format_it_may_be() -> None:
    assert (one(b"{}").error_detail or "").endswith("Its format is aerospike_flat_json")
    assert "mode is to be kafka-avro" in (one(b"\x0ausers").error_detail or "")


@pytest.mark.parametrize(("levels", "code"), [(250, None), (300, "too_deep")])
def test_values_may_be_deep(levels: int, code: str | None) -> None:
    value: Any = None
    for _ in range(levels):
        value = {"next": value}
    event = one(of_bin(record("Node", next=["null", "Node"]), value))
    assert event.error_code == code


def test_paths_of_nested_bytes_are_paid_for() -> None:
    kind = {"type": "map", "values": {"type": "array", "items": "bytes"}}
    event = one(of_bin(kind, {"x" * 3000: [b""] * 20_000}))
    assert event.error_code == "too_large"
    assert (event.error_detail or "").startswith("$.bin: the paths of nested values are")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_messages_are_decoded_or_say_why(seed: int) -> None:
    dice = random.Random(seed)
    damaged = bytearray(BY_HAND)
    for _ in range(dice.randrange(1, 4)):
        damaged[dice.randrange(5, len(damaged))] = dice.randrange(256)
    (event,) = decode_payload("aerospike_avro", None, bytes(damaged))
    assert event.error_code != "decoder_failed"


VALUES: Final = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text()
NUMBERS: Final = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), VALUES | NUMBERS | st.lists(VALUES)),
    st.sampled_from([None, 7, "id"]),
    st.booleans(),
)
def test_the_same_comes_of_flat_json(bins: Any, user_key: Any, is_delete: bool) -> None:
    scalars = ["null", "boolean", "long", "double", "string"]
    kinds = [*scalars, {"type": "array", "items": scalars}]
    about = {
        name: value
        for name, value in (DELETE if is_delete else WRITE | {"userKey": user_key}).items()
        if value is not None
    }
    fields = {} if is_delete else dict.fromkeys("abcd", kinds)
    schema = record("Write", metadata=record("Metadata", **METADATA), **fields)
    event = one(message(schema, {"metadata": about, **({} if is_delete else bins)}))
    there = {name: each for name, each in bins.items() if each is not None and not is_delete}
    as_json = {"metadata": about | {"digest": DIGEST_64}, **dict(sorted(there.items()))}
    (expected,) = flat_json.decode(None, json.dumps(as_json).encode())
    assert event._replace(after=None, metadata=None) == expected._replace(after=None, metadata=None)
    if not is_delete:
        assert said(event.after) == said(expected.after)
    metadata = said(event.metadata)
    assert (metadata.pop("bins", {}).keys(), metadata) == (there.keys(), said(expected.metadata))


# --- What the commands make of it -----------------------------------------------------------------


def test_the_format_is_guessed() -> None:
    for value in (write(), message(DELETE_SCHEMA, DELETE, DELETE_ID)):
        for key in (None, message(KEY_SCHEMA, ABOUT, KEY_ID)):
            assert guess(key, value).format == "aerospike_avro"
    assert guess(None, write()[:-1]).format == "aerospike_avro"
    topic = [(None, write()), (None, message(DELETE_SCHEMA, DELETE, DELETE_ID))]
    assert format_of(topic) == "aerospike_avro"


def test_columns_have_the_types_that_were_shipped() -> None:
    profile = TopicProfile()
    values = [
        write(name="2026-01-01", age=7, photo=b"\0"),
        write(any=2.0),
        message(DELETE_SCHEMA, DELETE, DELETE_ID),
    ]
    for offset, value in enumerate(values):
        profile.add("aerospike_avro", None, value, Position(0, "t", 0, offset))
    profile.settle()
    tables = {each.table: found for each, found in profile.tables.items()}
    types = {name: column.types() for name, column in tables["staff"].columns.items()}
    assert types == {
        "name": ["string"],
        "age": ["bigint"],
        "photo": ["binary"],
        "any": ["double"],
    }
