"""aerospike_flat_json: what real connectors wrote, as public pages quote it, and what can be wrong
with it.
"""

import json
from base64 import b64encode
from decimal import Decimal
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python_udfs.aerospike.fast_flat_json import FlatWrites
from python_udfs.aerospike.flat_json import decode
from python_udfs.aerospike.json import decode as decode_json
from python_udfs.core import limits
from python_udfs.core.events import Event
from python_udfs.core.fast_path import FastPath
from python_udfs.core.pace import Learning
from python_udfs.registry import decode_batch, decode_payload

KEY_NAMES = ("namespace", "set", "userKey", "digest")

# github.com/AnkushNakaskar/aerospike-kafka-outbound-demo, ReadMe.md (connector 5.1.2): a write, and
# the delete of the record when it has expired.
WRITE = (
    b'{"metadata":{"namespace":"test","set":"demo","userKey":123,'
    b'"digest":"WVp7Y+sYXb69hCVTpEgCsaMOwVk=","msg":"write","gen":1,"lut":1698643762073,'
    b'"exp":1698643822},"tval":"test-value-ankush-first-ttl-60-sec-3"}'
)
EXPIRED = (
    b'{"metadata":{"namespace":"test","set":"demo","userKey":123,'
    b'"digest":"WVp7Y+sYXb69hCVTpEgCsaMOwVk=","msg":"delete","gen":2,"lut":1698643829757}}'
)
# A tutorial of Aerospike's, "Send data from Aerospike to Kafka" with AWS MSK (connector 5.0.1).
WITHOUT_A_SET = (
    b'{"metadata":{"namespace":"test","userKey":400,"digest":"W7eGav2hKfOU00xx7mnOPYa2uCo=",'
    b'"msg":"write","gen":1,"lut":1681488437767,"exp":0},"a":"Your winning lottery ticket"}'
)
# A tutorial of Aerospike's Pulsar connector: key and message.
PULSAR_KEY = b'{"namespace":"test","digest":"tcSmvs+zOYYFvt2Tf5rpQdDO4d4="}'
PULSAR = (
    b'{"metadata":{"namespace":"test","digest":"tcSmvs+zOYYFvt2Tf5rpQdDO4d4=","msg":"write",'
    b'"gen":1,"lut":1636407336859,"exp":0},"A":"aaa","B":124}'
)
# Tests of a delay queue that listens to such a topic (DelayQueueProcessorTest.java, connector
# before 4.0): key, write and delete.
OLDER_KEY = (
    b'{"namespace":"test","set":"kafka_message_id",'
    b'"userKey":"user:1621333407204:96ee745a-0a0e-455a-8915-23b99e94d619",'
    b'"digest":"Wxl54xzDkCg+R4/hZmHbmCU69BU="}'
)
OLDER_WRITE = (
    b'{"metadata":{"namespace":"test","set":"kafka_message_id",'
    b'"userKey":"user:1621333407204:96ee745a-0a0e-455a-8915-23b99e94d619",'
    b'"digest":"Wxl54xzDkCg+R4/hZmHbmCU69BU=","msg":"write","gen":1,"lut":0,"exp":1621333416},'
    b'"@user_key":"user:1621333407204:96ee745a-0a0e-455a-8915-23b99e94d619",'
    b'"@_class":"com.xyz.utility.persistence.model.KafkaMessageId"}'
)
OLDER_DELETE = (
    b'{"metadata":{"namespace":"test","set":"kafka_message_id",'
    b'"userKey":"user:1621333407204:96ee745a-0a0e-455a-8915-23b99e94d619",'
    b'"digest":"Wxl54xzDkCg+R4/hZmHbmCU69BU=","msg":"delete","durable":false}}'
)
# The vendor's page, "Example Key".
PAGE_KEY = b"""{
  "namespace": "users",
  "set": "premium",
  "userKey": "id123",
  "digest": "IBlTW5m3UGqbFxfrsoDxCrLkKYQ="
}"""


def one(value: bytes, key: bytes | None = None) -> Event:
    (event,) = decode(key, value)
    return event


def exact(text: bytes | None) -> Any:
    assert text is not None
    return json.loads(text, parse_float=Decimal)


def with_bins(bins: str) -> bytes:
    return WRITE.replace(b'"tval":"test-value-ankush-first-ttl-60-sec-3"', bins.encode())


def test_a_write() -> None:
    assert one(WRITE) == Event(
        event_index=0,
        operation="upsert",
        source_schema="test",
        source_table="demo",
        record_key=b'{"digest":"WVp7Y+sYXb69hCVTpEgCsaMOwVk="}',
        after=b'{"tval":"test-value-ankush-first-ttl-60-sec-3"}',
        occurred_at=1698643762073,
        expires_at=1698643822000,
        metadata=b'{"generation":1,"expiry":1698643822,"lut":1698643762073,"user_key":123,'
        b'"user_key_type":"int"}',
    )


def test_the_delete_of_an_expired_record() -> None:
    assert one(EXPIRED) == Event(
        event_index=0,
        operation="delete",
        source_schema="test",
        source_table="demo",
        record_key=b'{"digest":"WVp7Y+sYXb69hCVTpEgCsaMOwVk="}',
        occurred_at=1698643829757,
        metadata=b'{"generation":2,"lut":1698643829757,"user_key":123,"user_key_type":"int"}',
    )


def test_records_without_a_set_or_a_user_key() -> None:
    event = one(WITHOUT_A_SET)
    assert (event.source_table, event.expires_at) == (None, None)
    assert event.after == b'{"a":"Your winning lottery ticket"}'
    event = one(PULSAR, PULSAR_KEY)
    assert event.after == b'{"A":"aaa","B":124}'
    assert exact(event.metadata) == {
        "generation": 1,
        "expiry": 0,
        "lut": 1636407336859,
        "event_key": ["test", None, "tcSmvs+zOYYFvt2Tf5rpQdDO4d4=", None],
    }


def test_an_older_connector() -> None:
    event = one(OLDER_WRITE, OLDER_KEY)
    assert (event.operation, event.occurred_at, event.expires_at) == ("upsert", None, 1621333416000)
    assert list(exact(event.after)) == ["@user_key", "@_class"]
    user_key = "user:1621333407204:96ee745a-0a0e-455a-8915-23b99e94d619"
    event_key = ["test", "kafka_message_id", "Wxl54xzDkCg+R4/hZmHbmCU69BU=", user_key]
    event = one(OLDER_DELETE, OLDER_KEY)
    assert (event.operation, event.source_table) == ("delete", "kafka_message_id")
    assert exact(event.metadata) == {
        "durable": False,
        "user_key": user_key,
        "user_key_type": "str",
        "event_key": event_key,
    }


@pytest.mark.parametrize("value", [None, b"", b"null", b'"default"'])
def test_a_tombstone_names_its_record(value: bytes | None) -> None:
    (event,) = decode(PAGE_KEY, value)
    assert (event.operation, event.source_schema, event.source_table) == (
        "tombstone",
        "users",
        "premium",
    )
    assert event.record_key == b'{"digest":"IBlTW5m3UGqbFxfrsoDxCrLkKYQ="}'
    assert exact(event.metadata)["event_key"][3] == "id123"


@pytest.mark.parametrize(
    "key", [b"x", b'["test",null]', b'{"namespace":1}', PAGE_KEY[:-2] + b',"more":1}']
)
def test_a_kafka_key_that_is_none_is_kept_as_base64(key: bytes) -> None:
    assert type(exact(one(WRITE, key).metadata)["event_key"]) is str


def test_values_stay_as_they_were_sent() -> None:
    bins = (
        '"i":12345678901234567890123,"d":1.50,"e":1E+2,"n":null,"t":true,"blob":"AP8=","nan":"NaN",'
        '"l":[1,[2.0]],"m":{"b":1,"a":{"x":[]}},'
        '"geo":{"type":"Point","coordinates":[1.30824,103.91327]}'
    )
    event = one(with_bins(bins))
    assert event.after == b"{" + bins.encode() + b"}"
    assert "bins" not in exact(event.metadata)


def test_a_write_without_bins() -> None:
    event = one(with_bins("").replace(b"},}", b"}}"))
    assert (event.operation, event.after) == ("upsert", b"{}")


def test_a_map_with_a_key_twice_becomes_pairs() -> None:
    event = one(with_bins('"l":[{"1":"a","1":"b"}]'))
    assert event.after == b'{"l":[[["1","a"],["1","b"]]]}'
    assert exact(event.metadata)["bins"] == {"l": {"nested": {"$[0]": "map"}}}


def test_the_metadata_has_any_name_and_any_place() -> None:
    expected = one(WRITE)
    assert one(WRITE.replace(b'"metadata":', b'"_meta":')) == expected._replace(
        metadata=(expected.metadata or b"")[:-1] + b',"metadata_key":"_meta"}'
    )
    fields = exact(WRITE)
    behind = {"metadata_of_ours": {"msg": 1}, **dict(reversed(fields.items()))}
    event = one(json.dumps(behind).encode())
    assert exact(event.after) == {"metadata_of_ours": {"msg": 1}, "tval": fields["tval"]}
    assert event.metadata == expected.metadata


def test_the_member_named_metadata_comes_first() -> None:
    bins = b'{"was":{"msg":"delete","namespace":"n","digest":"d"},'
    event = one(WRITE.replace(b"{", bins, 1))
    assert (event.operation, event.source_table) == ("upsert", one(WRITE).source_table)
    assert exact(event.after)["was"] == {"msg": "delete", "namespace": "n", "digest": "d"}


@pytest.mark.parametrize("kafka_key", [False, True])
def test_an_empty_set_is_told_from_none_in_each_format(kafka_key: bool) -> None:
    """A message can be made again of its event (``test_round_trip``)."""
    key = ["test", "", b"\1" * 20, None]
    digest = b64encode(b"\1" * 20).decode()
    as_json = ["test", "", digest, None]
    metadata = {"namespace": "test", "set": "", "digest": digest}
    for format, own, value in (
        ("aerospike_messagepack", msgpack.packb(key), [1, 1, [key, 1, 0, None, [["n", 1, 0, 5]]]]),
        ("aerospike_json", as_json, {"msg": "write", "key": as_json, "bins": []}),
        ("aerospike_json", as_json, {"msg": "delete", "key": as_json}),
        ("aerospike_flat_json", metadata, {"metadata": metadata | {"msg": "write"}, "n": 5}),
    ):
        text = msgpack.packb(value) if type(value) is list else msgspec.json.encode(value)
        kafka = own if type(own) is bytes else msgspec.json.encode(own)
        for payload in (text, None) if kafka_key else (text,):
            (event,) = decode_payload(format, kafka if kafka_key else None, payload)
            assert (event.source_schema, event.source_table) == ("test", "")
            assert event.record_key is not None
            together = decode_batch(format, [kafka if kafka_key else None] * 20, [payload] * 20)
            assert together.payloads() == [[event]] * 20


def test_metadata_among_the_bins() -> None:
    fields = exact(WRITE)
    event = one(json.dumps(fields.pop("metadata") | fields).encode())
    assert event == one(WRITE)


def test_a_bin_by_the_name_of_the_metadata_is_refused() -> None:
    for bins in ('"metadata":1', '"a":1,"a":2'):
        event = one(with_bins(bins))
        assert event.error_code == "bad_field"
        assert "comes twice" in (event.error_detail or "")


def test_what_is_beyond_the_page_is_kept() -> None:
    value = WRITE.replace(b'"gen":1', b'"gen":1,"ttl":5,"lut_":[1],"bins":{"a":1}')
    assert exact(one(value).metadata)["extra"] == {"bins": {"a": 1}}
    assert exact(one(value).metadata)["ttl"] == 5
    event = one(EXPIRED[:-1] + b',"a":1,"generation":7}')
    assert (event.operation, event.after) == ("delete", None)
    metadata = exact(event.metadata)
    assert (metadata["a"], metadata["extra"], metadata["generation"]) == (1, {"generation": 7}, 2)


@pytest.mark.parametrize("name", ["old_key", "new_key"])
def test_what_is_called_as_the_key_of_a_key_update_is_none(name: str) -> None:
    extra = {name: "x"}
    value = WRITE.replace(b'"gen":1', b'"gen":1,"%b":"x"' % name.encode())
    assert exact(one(value).metadata)["extra"] == extra
    delete = EXPIRED[:-1] + b',"%b":"x"}' % name.encode()
    assert exact(one(delete).metadata)["extra"] == extra
    for format_value in (value, delete):
        (event,) = decode_payload("aerospike_flat_json", None, format_value)
        together = decode_batch("aerospike_flat_json", [None] * 20, [format_value] * 20)
        assert together.payloads() == [[event]] * 20


@pytest.mark.parametrize("name", ["zz", "generation", "metadata_key", "beside"])
def test_what_a_delete_has_twice_is_kept_twice(name: str) -> None:
    inside = f'"namespace":"ns","digest":"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=","msg":"delete","{name}":1'
    metadata = exact(one(f'{{"metadata":{{{inside}}},"{name}":2}}'.encode()).metadata)
    assert metadata["beside"] == {name: 2}
    assert 1 in (metadata.get(name), metadata.get("extra", {}).get(name))


def test_a_batch_is_decoded_as_its_records_are() -> None:
    keys = b"[" + OLDER_KEY + b"," + PULSAR_KEY + b"]"
    first, second = decode(keys, b"[" + OLDER_DELETE + b"," + PULSAR + b"]")
    alone = [one(OLDER_DELETE, OLDER_KEY), one(PULSAR, PULSAR_KEY)]
    for index, (event, expected) in enumerate(zip((first, second), alone, strict=True)):
        metadata = exact(event.metadata)
        assert metadata.pop("batch_size") == 2
        assert metadata == exact(expected.metadata)
        assert event._replace(metadata=expected.metadata, event_index=0) == expected
        assert event.event_index == index


def test_a_batch_that_is_cut_short_or_has_bad_records() -> None:
    batch = b"[" + WRITE + b',{"metadata":7},' + EXPIRED + b"]"
    assert [event.error_code for event in decode(None, batch)] == [None, "bad_field", None]
    *complete, last = decode(None, batch[:-20])
    assert [event.error_code for event in complete] == [None, "bad_field"]
    assert last.error_code == "truncated"


@pytest.mark.parametrize("value", [WRITE, EXPIRED])
def test_each_prefix_is_truncated(value: bytes) -> None:
    for length in range(1, len(value)):
        event = one(value[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated"), length


@pytest.mark.parametrize(
    ("old", "new", "code", "detail"),
    [
        (WRITE, b"1", "bad_shape", "$: expected an object, got an integer"),
        (WRITE, b"[]", "bad_shape", "$: expected a record or a batch of records, got an empty"),
        (WRITE, b"{}", "bad_field", "$.metadata: expected an object with msg, namespace and dig"),
        (WRITE, b'{"metadata":null}', "bad_field", "$.metadata: expected an object with msg"),
        (b'"write"', b'"put"', "bad_type", """$.metadata.msg: expected "write" or "delete", got"""),
        (b'"write"', b"1", "bad_field", '$.metadata.msg: expected "write" or "delete", got an int'),
        (b'"msg":"write",', b"", "bad_field", '$.metadata.msg: expected "write" or "delete", got'),
        (b'"test"', b"null", "bad_field", "$.metadata.namespace: expected a string, got null"),
        (b'"demo"', b"3", "bad_field", "$.metadata.set: expected a string or null, got an integer"),
        (b"WVp7", b"WVp?", "bad_field", "$.metadata.digest: expected base64 of 20 bytes, got te"),
        (b"WVp7", b"", "bad_field", "$.metadata.digest: expected base64 of 20 bytes, got 17 by"),
        (b"123", b"[1]", "bad_field", "$.metadata.userKey: expected a string, number or null, g"),
        (b'"gen":1', b'"gen":1.0', "bad_field", "$.metadata.gen: expected an integer, got a num"),
        (b'"gen":1', b'"durable":1', "bad_field", "$.metadata.durable: expected true or false,"),
        (b'"gen":1', b'"gen":1,"gen":2', "bad_field", "$.metadata: the property 'gen' comes twic"),
        (b'"gen":1', b'"x":{"a":1,"a":2}', "bad_field", "$.metadata.x: the property 'a' comes tw"),
        (b'"tval"', b"tval", "not_json", "no JSON: expected a name in double quotes"),
        (b"ankush", b"\xff", "bad_field", "invalid UTF-8 at byte"),
    ],
)
def test_a_bad_record_says_why(old: bytes, new: bytes, code: str, detail: str) -> None:
    event = one(WRITE.replace(old, new, 1))
    assert (event.operation, event.error_code) == ("invalid", code)
    assert (event.error_detail or "").startswith(detail)


def test_limits() -> None:
    deep = "[" * limits.MAX_DEPTH + "]" * limits.MAX_DEPTH
    assert one(with_bins(f'"a":{deep}')).error_code == "too_deep"
    assert one(WRITE + b"]").error_code == "trailing_bytes"


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=8).filter(lambda name: name != "metadata"), values))
def test_it_says_what_the_other_json_says(bins: dict[str, Any]) -> None:
    """The same record in Aerospike's other JSON: the same event, but for the types of bins."""
    fields = exact(WRITE)["metadata"]
    flat = one(json.dumps({"metadata": fields} | bins).encode())
    other = {
        "msg": "write",
        "key": [fields["namespace"], fields["set"], fields["digest"], fields["userKey"]],
        **{name: fields[name] for name in ("gen", "exp", "lut")},
        "bins": [{"name": name, "type": "?", "value": value} for name, value in bins.items()],
    }
    (typed,) = decode_json(None, json.dumps(other).encode())
    metadata = exact(typed.metadata)
    del metadata["bins"]
    assert flat._replace(metadata=None) == typed._replace(metadata=None)
    assert exact(flat.metadata) == metadata


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([WRITE, EXPIRED, OLDER_WRITE]), max_size=2), st.data())
def test_a_damaged_payload_gives_events(records: list[bytes], data: Any) -> None:
    damaged = bytearray(b"[" + b",".join(records) + b"]" if len(records) != 1 else records[0])
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.sampled_from(b'{}[]",:\\ 0e\xff') | st.integers(0, 255))
    events = decode(bytes(damaged), bytes(damaged))
    assert [event.event_index for event in events] == list(range(len(events)))
    for event in events:
        assert (event.operation == "invalid") == (event.error_code is not None)
        for column in (event.record_key, event.after, event.metadata):
            if column is not None:
                assert isinstance(json.loads(column), dict)


# Many together


def decoded_twice(messages: list[tuple[bytes | None, bytes | None]]) -> int:
    """Decode messages together, when their layout has been learned; how many were alike."""
    keys, values = [key for key, _ in messages], [value for _, value in messages]
    # For a clock that stands it always pays to learn.
    fast_path = FastPath(decode, FlatWrites(), Learning(lambda: 0.0))
    fast_path.decode_batch(keys, values)
    together = fast_path.decode_batch(keys, values)
    assert together.payloads() == [decode(key, value) for key, value in messages]
    return sum(len(places) for places, _ in together.columns)


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        (lambda value: value, True),
        (lambda value: value.replace(b'"userKey":123,', b""), True),
        (lambda value: value.replace(b'"set":"demo",', b""), True),
        (lambda value: value.replace(b'"exp":1698643822', b'"exp":null'), True),
        (lambda value: value.replace(b'"tval"', b'"@t-val":{"a":[1.50,null]},"tval"'), True),
        (lambda value: value.replace(b'"tval"', b'"a":{"1":1,"1":2},"tval"'), False),
        (lambda value: value.replace(b'"tval"', b'"a":1e2,"tval"'), False),
        (lambda value: value.replace(b'"tval"', b'"a": 1,"tval"'), False),
        (lambda value: value.replace(b'"tval"', b'"a":' + b"[" * 300 + b"]" * 300 + b',"tval"'), 0),
        (lambda value: value.replace(b'"gen":1', b'"gen":true'), False),
        (lambda value: value.replace(b'"gen":1', b'"durable":true'), False),
        (lambda value: value.replace(b'"write"', b'"delete"'), False),
        (lambda value: value.replace(b'"metadata"', b'"meta"'), False),
    ],
)
def test_many_are_decoded_as_each_one_is(change: Any, alike: bool) -> None:
    fields = exact(WRITE)["metadata"]
    own = json.dumps({name: fields[name] for name in KEY_NAMES}, separators=(",", ":")).encode()
    messages: list[tuple[bytes | None, bytes | None]] = []
    for number in range(300):
        value = change(WRITE.replace(b"sec-3", b"%d" % number))
        messages.append(((None, own, b"7")[number % 3] if alike else None, value))
    messages[50:50] = [
        (None, None),
        (own, b""),
        (None, b"null"),
        (None, WRITE[:-1]),
        (None, EXPIRED),
    ]
    found = decoded_twice(messages)
    assert found > 90 if alike else found == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=4), values, max_size=4), min_size=1, max_size=3))
def test_any_bins_are_decoded_as_each_write_is(kinds: list[dict[str, Any]]) -> None:
    fields = exact(WRITE)["metadata"]
    texts = [
        json.dumps({"metadata": fields} | bins, separators=(",", ":"), ensure_ascii=False).encode()
        for bins in kinds
    ]
    decoded_twice([(None, texts[number % len(texts)]) for number in range(40)])
