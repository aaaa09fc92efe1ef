"""``mongodb_json``: change events and documents of MongoDB's own Kafka source connector, in each of
its output forms, and what can be wrong with them.
"""

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from python_udfs import change_stream
from python_udfs.core.errors import CODES
from python_udfs.core.events import MAX_TIME_MS, Event
from python_udfs.debezium import json as debezium_json
from python_udfs.registry import FORMATS, decode_payload, shows_format

OID: Final = "636d399b732dbb998fa8d67e"
KEY: Final = b'{"_id": {"$oid": "%b"}}' % OID.encode()
RECORD_KEY: Final = b'{"_id":"%b"}' % OID.encode()
TOKEN: Final = b'{"_id": {"_data": "82636D39C8000000012B022C0100296E5A1004"}}'
# As the announcement of version 1.9 of the connector has it.
UPDATE: Final = (
    b'{"_id": {"_data": "82636D39C8000000012B022C0100296E5A100444B0F5E386F04767814F28CB4AAE7FEE"},'
    b' "operationType": "update", "clusterTime": {"$timestamp": {"t": 1668102600, "i": 1}},'
    b' "wallTime": {"$date": 1668102600716}, "ns": {"db": "test", "coll": "temperatureSensor"},'
    b' "documentKey": {"_id": {"$oid": "636d399b732dbb998fa8d67e"}}, "updateDescription":'
    b' {"updatedFields": {"value": 105}, "removedFields": [], "truncatedArrays": []},'
    b' "fullDocumentBeforeChange": {"_id": {"$oid": "636d399b732dbb998fa8d67e"}, "sensor_id": 1,'
    b' "value": 100}}'
)
# The connector's SchemaAndValueProducerTest.java: each type of BSON, in both forms.
EXTENDED: Final = (
    '{"arrayEmpty": [], "arraySimple": [{"$numberInt": "1"}, {"$numberInt": "2"}],'
    ' "arrayComplex": [{"a": {"$numberInt": "1"}}, {"a": {"$numberInt": "2"}}],'
    ' "binary": {"$binary": {"base64": "S2Fma2Egcm9ja3Mh", "subType": "00"}}, "boolean": true,'
    ' "code": {"$code": "int i = 0;"},'
    ' "codeWithScope": {"$code": "int x = y", "$scope": {"y": {"$numberInt": "1"}}},'
    ' "dateTime": {"$date": {"$numberLong": "1577836801000"}},'
    ' "decimal128": {"$numberDecimal": "1.0"}, "document": {"a": {"$numberInt": "1"}},'
    ' "double": {"$numberDouble": "62.0"}, "int32": {"$numberInt": "42"},'
    ' "int64": {"$numberLong": "52"}, "maxKey": {"$maxKey": 1}, "minKey": {"$minKey": 1},'
    ' "null": null, "objectId": {"$oid": "5f3d1bbde0ca4d2829c91e1d"},'
    ' "regex": {"$regularExpression": {"pattern": "^test.*regex.*xyz$", "options": "i"}},'
    ' "string": "the fox ...", "symbol": {"$symbol": "ruby stuff"},'
    ' "timestamp": {"$timestamp": {"t": 305419896, "i": 5}}, "undefined": {"$undefined": true}}'
)
SIMPLIFIED: Final = (
    '{"arrayEmpty": [], "arraySimple": [1, 2], "arrayComplex": [{"a": 1}, {"a": 2}],'
    ' "binary": "S2Fma2Egcm9ja3Mh", "boolean": true, "code": {"$code": "int i = 0;"},'
    ' "codeWithScope": {"$code": "int x = y", "$scope": {"y": 1}},'
    ' "dateTime": "2020-01-01T00:00:01Z", "decimal128": "1.0", "document": {"a": 1},'
    ' "double": 62.0, "int32": 42, "int64": 52, "maxKey": {"$maxKey": 1}, "minKey": {"$minKey": 1},'
    ' "null": null, "objectId": "5f3d1bbde0ca4d2829c91e1d",'
    ' "regex": {"$regularExpression": {"pattern": "^test.*regex.*xyz$", "options": "i"}},'
    ' "string": "the fox ...", "symbol": "ruby stuff",'
    ' "timestamp": {"$timestamp": {"t": 305419896, "i": 5}}, "undefined": {"$undefined": true}}'
)


def decode(key: bytes | None, value: bytes | None) -> Event:
    (event,) = change_stream.decode(key, value)
    return event


def loads(text: bytes | None) -> Any:
    return json.loads(text or b"null")


def event_of(operation_type: str, **fields: Any) -> bytes:
    """A change event, as StringConverter writes it: with spaces."""
    message = {
        "_id": {"_data": "8264"},
        "operationType": operation_type,
        "clusterTime": {"$timestamp": {"t": 1668102600, "i": 1}},
        "ns": {"db": "shop", "coll": "carts"},
        "documentKey": {"_id": 1},
    }
    sent = {name: value for name, value in (message | fields).items() if value is not ...}
    return json.dumps(sent).encode()


def update(**description: Any) -> bytes:
    return event_of("update", updateDescription=description)


def test_an_update_is_applied_to_the_document_before_it() -> None:
    event = decode(KEY, UPDATE)
    assert (event.operation, event.record_key) == ("update", RECORD_KEY)
    assert event.source == ("test", None, "temperatureSensor")
    assert event.before == b'{"_id":"%b","sensor_id":1,"value":100}' % OID.encode()
    assert event.after == b'{"_id":"%b","sensor_id":1,"value":105}' % OID.encode()
    assert event.occurred_at == 1_668_102_600_000
    sent = json.loads(UPDATE)
    told = loads(event.metadata)
    assert told.pop("event_key") == {"_id": {"$oid": OID}}
    assert told.pop("bson") == {"before": {"_id": "objectId"}}
    # All else is as it was sent.
    assert told == {
        name: sent[name] for name in sent if name not in ("ns", "fullDocumentBeforeChange")
    }


@pytest.mark.parametrize(
    ("operation_type", "more", "operation"),
    [
        ("insert", {"fullDocument": {"_id": 1, "a": 2}}, "insert"),
        ("update", {"fullDocument": {"_id": 1, "a": 2}, "updateDescription": {}}, "update"),
        ("replace", {"fullDocument": {"_id": 1, "a": 2}}, "update"),
        # What startup.mode=copy_existing copies, as MongoCopyDataManager.java makes it.
        (
            "insert",
            {"_id": {"_id": 1, "copyingData": True}, "fullDocument": {"_id": 1, "a": 2}},
            "snapshot",
        ),
    ],
)
def test_a_whole_document_is_the_image_after(
    operation_type: str, more: dict[str, Any], operation: str
) -> None:
    event = decode(TOKEN, event_of(operation_type, **more))
    assert (event.operation, event.record_key) == (operation, b'{"_id":1}')
    assert (event.before, event.after) == (None, b'{"_id":1,"a":2}')
    assert event.source == ("shop", None, "carts")
    assert loads(event.metadata)["operationType"] == operation_type


def test_a_delete_has_the_image_before_if_it_is_sent() -> None:
    event = decode(TOKEN, event_of("delete"))
    assert (event.operation, event.record_key) == ("delete", b'{"_id":1}')
    assert (event.before, event.after) == (None, None)
    event = decode(TOKEN, event_of("delete", fullDocumentBeforeChange={"_id": 1, "a": 2}))
    assert (event.before, event.after) == (b'{"_id":1,"a":2}', None)


@pytest.mark.parametrize(
    ("operation_type", "operation"),
    [
        *((name, "schema_change") for name in ("drop", "rename", "create", "createIndexes")),
        ("invalidate", "message"),
    ],
)
def test_what_changes_no_document(operation_type: str, operation: str) -> None:
    to = {"db": "shop", "coll": "baskets"}
    event = decode(TOKEN, event_of(operation_type, to=to, documentKey=...))
    assert (event.operation, event.source) == (operation, ("shop", None, "carts"))
    assert loads(event.metadata)["to"] == to
    event = decode(TOKEN, event_of("dropDatabase", ns={"db": "shop"}, documentKey=...))
    assert (event.operation, event.source) == ("schema_change", ("shop", None, None))


def test_an_update_without_the_document_is_partial() -> None:
    described = {
        "updatedFields": {"a": 1, "at.city": "Rome", "on": {"$date": 0}},
        "removedFields": ["b", "at.zip"],
        "truncatedArrays": [{"field": "tags", "newSize": {"$numberInt": "2"}}],
    }
    for gone in (..., None):
        event = decode(KEY, event_of("update", fullDocument=gone, updateDescription=described))
        assert loads(event.after) == {
            "_id": 1,
            "a": 1,
            "on": "1970-01-01T00:00:00.000Z",
            "b": None,
            "$partial": {"updated": {"at.city": "Rome", "at.zip": None}, "truncated": {"tags": 2}},
        }
        told = loads(event.metadata)
        assert told["updateDescription"] == described
        assert told["bson"] == {"updatedFields": {"on": "date"}}


def test_a_name_with_dots_is_the_field_that_it_names() -> None:
    """The paths of SchemaAndValueProducerTest.java."""
    described: dict[str, Any] = {
        "updatedFields": {"home.town": "Roma", "residences.0.0": "x"},
        "disambiguatedPaths": {
            "home.town": ["home.town"],
            "residences.0.0": ["residences", 0, "0"],
        },
    }
    after = {"_id": 1, "home.town": "Roma", "$partial": {"updated": {"residences.0.0": "x"}}}
    assert loads(decode(None, update(**described)).after) == after
    # Applied to the document it would be another one's field.
    before = {"_id": 1, "residences": [{}]}
    value = event_of("update", updateDescription=described, fullDocumentBeforeChange=before)
    assert loads(decode(None, value).after) == after
    described["disambiguatedPaths"] = None
    described["updatedFields"] = {"residences.0.0": "x"}
    value = event_of("update", updateDescription=described, fullDocumentBeforeChange=before)
    assert loads(decode(None, value).after) == {"_id": 1, "residences": [{"0": "x"}]}


def test_documents_come_out_as_through_debezium() -> None:
    document = EXTENDED.replace("{", f'{{"_id": {{"$oid": "{OID}"}}, ', 1)
    value = event_of("insert", fullDocument=json.loads(document), documentKey=json.loads(KEY))
    source = {"connector": "mongodb", "db": "shop", "collection": "carts", "ts_ms": 1668102600000}
    envelope = {"op": "c", "before": None, "after": document, "source": source}
    key = json.dumps({"id": f'{{"$oid": "{OID}"}}'}).encode()
    (wanted,) = debezium_json.decode(key, json.dumps(envelope).encode())
    event = decode(KEY, value)
    assert event._replace(metadata=None) == wanted._replace(metadata=None)
    assert loads(event.metadata)["bson"] == loads(wanted.metadata)["bson"]


def test_simplified_values_are_as_they_were_sent() -> None:
    document = json.loads(SIMPLIFIED) | {"_id": OID}
    event = decode(None, event_of("insert", fullDocument=document, documentKey={"_id": OID}))
    assert event.record_key == RECORD_KEY
    # The one that SimplifiedJson leaves an object.
    wanted = document | {"code": "int i = 0;", "undefined": None}
    assert loads(event.after) == wanted
    time = event_of("delete", clusterTime=..., wallTime="2020-01-01T00:00:01.123Z")
    assert decode(None, time).occurred_at == 1_577_836_801_123


def in_text(text: bytes) -> Any:
    return text.decode()


def in_payload(text: bytes) -> Any:
    return {"schema": {"type": "string"}, "payload": text.decode()}


def in_struct(text: bytes) -> Any:
    return {"schema": {"type": "struct"}, "payload": json.loads(text)}


@pytest.mark.parametrize("wrapped", [in_text, in_payload, in_struct])
def test_converters_wrap_texts_and_objects(wrapped: Callable[[bytes], Any]) -> None:
    key = json.dumps(wrapped(KEY)).encode()
    event = decode(key, json.dumps(wrapped(UPDATE)).encode())
    assert event._replace(metadata=None) == decode(KEY, UPDATE)._replace(metadata=None)
    event = decode(key, json.dumps({"schema": None, "payload": None}).encode())
    assert (event.operation, event.record_key) == ("delete", RECORD_KEY)


def test_the_default_schema_has_documents_as_texts() -> None:
    """The struct of SchemaAndValueProducerTest.java, as JsonConverter writes it."""
    described = {
        "updatedFields": '{"myString": "some foo bla text", "myInt": {"$numberInt": "42"}}',
        "removedFields": ["legacyUUID"],
        "truncatedArrays": [{"field": "foo", "newSize": 1}],
        "disambiguatedPaths": '{"home.town": ["home.town"], "r.0": ["r", {"$numberInt": "0"}]}',
    }
    message = {
        "_id": '{"_data": "5f15aab12435743f9bd126a4"}',
        "operationType": "update",
        "fullDocument": None,
        "ns": {"db": "d", "coll": "c"},
        "documentKey": '{"_id": {"$oid": "5f15aab12435743f9bd126a4"}}',
        "updateDescription": described,
        "clusterTime": '{"$timestamp": {"t": 123456789, "i": 42}}',
        "wallTime": 1577836801123,
        "txnNumber": 987654321,
        "lsid": {"id": "c//SZESzTGmQ6OfR38A11A==", "uid": "1000000000000w=="},
    }
    key = json.dumps({"_id": message["_id"]}).encode()
    event = decode(key, json.dumps(message).encode())
    assert event.record_key == b'{"_id":"5f15aab12435743f9bd126a4"}'
    assert event.occurred_at == 123_456_789_000
    assert loads(event.after) == {
        "_id": "5f15aab12435743f9bd126a4",
        "myString": "some foo bla text",
        "myInt": 42,
        "legacyUUID": None,
        "$partial": {"truncated": {"foo": 1}},
    }
    assert loads(event.metadata)["lsid"] == message["lsid"]
    whole = message | {"fullDocument": EXTENDED, "operationType": "replace"}
    assert loads(decode(key, json.dumps(whole).encode()).after)["int64"] == 52


def test_documents_alone_are_upserts_and_null_values_deletes() -> None:
    document = b'{"_id": {"$oid": "%b"}, "n": NaN, "operationType": "x"}' % OID.encode()
    event = decode(KEY, document)
    assert (event.operation, event.source) == ("upsert", (None, None, None))
    assert event.record_key == RECORD_KEY
    assert loads(event.after) == {"_id": OID, "n": "NaN", "operationType": "x"}
    assert loads(event.metadata)["bson"] == {"after": {"_id": "objectId", "n": "double"}}
    # Of a pipeline that leaves _id out.
    assert decode(KEY, b'{"n": 1}').record_key == RECORD_KEY
    for nothing in (None, b"", b"null"):
        event = decode(KEY, nothing)
        assert (event.operation, event.record_key) == ("delete", RECORD_KEY)
    # Of a collection that was dropped; of a connector without document keys; a heartbeat.
    for key, operation in (
        (TOKEN, "tombstone"),
        (b'{"_id": {"_id": 1, "copyingData": true}}', "tombstone"),
        (b"\xff", "tombstone"),
        (None, "tombstone"),
        (b'{"_data": "8264"}', "message"),
    ):
        event = decode(key, None)
        assert (event.operation, event.record_key) == (operation, None)
        assert (event.metadata is None) == (key is None)


@pytest.mark.parametrize(
    ("seconds", "occurred_at"),
    [
        (0, None),
        (1, 1000),
        (2**32 - 1, 4_294_967_295_000),
        (MAX_TIME_MS // 1000 + 1, None),
    ],
)
def test_the_cluster_time_is_in_seconds(seconds: int, occurred_at: int | None) -> None:
    time = {"$timestamp": {"t": seconds, "i": 1}}
    assert decode(None, event_of("delete", clusterTime=time)).occurred_at == occurred_at


@pytest.mark.parametrize(
    ("time", "occurred_at"),
    [
        ({"$date": 1577836801123}, 1_577_836_801_123),
        ({"$date": {"$numberLong": "1577836801123"}}, 1_577_836_801_123),
        ({"$date": "2020-01-01T00:00:01.123Z"}, 1_577_836_801_123),
        (1577836801123, 1_577_836_801_123),
        ({"$date": {"$numberLong": str(2**63 - 1)}}, None),
        (None, None),
    ],
)
def test_without_a_cluster_time_it_is_the_wall_time(time: Any, occurred_at: int | None) -> None:
    event = decode(None, event_of("delete", clusterTime=..., wallTime=time))
    assert event.occurred_at == occurred_at
    assert loads(event.metadata)["wallTime"] == time


def test_what_has_a_name_of_metadata_is_put_aside() -> None:
    event = decode(KEY, event_of("delete", event_key=1, bson=2))
    told = loads(event.metadata)
    assert (told["message"]["event_key"], told["message"]["bson"]) == (1, 2)
    assert told["event_key"] == {"_id": {"$oid": OID}}


def test_each_prefix_is_truncated() -> None:
    for length in range(1, len(UPDATE)):
        event = decode(None, UPDATE[:length])
        assert (event.operation, event.error_code) == ("invalid", "truncated")


@pytest.mark.parametrize(
    ("value", "code", "detail"),
    [
        (b"[]", "bad_shape", "$: expected an object, got an array"),
        (b'{"a": 1}', "bad_shape", "$: expected a change event, whose _id is a resume token"),
        (b'"{"', "bad_field", "$: expected JSON in the string"),
        (b'{"schema":{},"payload":"{"}', "bad_field", "$.payload: expected JSON in the string"),
        (UPDATE + b"]", "trailing_bytes", ""),
        (UPDATE.replace(b'"wallTime"', b'"ns"'), "bad_field", "the name 'ns' comes twice"),
        (UPDATE.replace(b'"operationType"', b'"type"'), "bad_field", "$.operationType: expected"),
        (event_of("upsert"), "bad_type", "$.operationType: expected one of insert, update"),
        (event_of("delete", ns=1), "bad_field", "$.ns: expected an object, got a number"),
        (event_of("delete", ns={"db": 1}), "bad_field", "$.ns.db: expected a name"),
        (event_of("delete", clusterTime=1), "bad_field", "$.clusterTime: expected an object"),
        (event_of("delete", clusterTime=..., wallTime="x"), "bad_field", "$.wallTime: expected"),
        (event_of("delete", documentKey=1), "bad_field", "$.documentKey: expected an object"),
        (event_of("delete", documentKey=...), "bad_field", "$.documentKey._id: missing"),
        (event_of("delete", documentKey={"_id": {"$oid": 1}}), "bad_field", '$.documentKey._id["$'),
        (event_of("insert"), "bad_field", "$.fullDocument: missing, although operationType is 'i"),
        (event_of("insert", fullDocument=1), "bad_field", "$.fullDocument: expected a document"),
        (
            event_of("insert", fullDocument={"$partial": 1}),
            "bad_field",
            '$.fullDocument["$partial"]: expected no field of that name',
        ),
        (
            event_of("insert", fullDocument={"a": {"$numberInt": "x"}}),
            "bad_field",
            '$.fullDocument.a["$numberInt"]: expected an integer of 32 bits',
        ),
        (event_of("update"), "bad_field", "$.updateDescription: expected an object, got nothing"),
        (update(updatedFields=1), "bad_field", "$.updateDescription.updatedFields: expected"),
        (update(removedFields=[1]), "bad_field", "$.updateDescription.removedFields: expected"),
        (update(truncatedArrays=1), "bad_field", "$.updateDescription.truncatedArrays: expected"),
        (
            update(truncatedArrays=[{"field": "a", "newSize": -1}]),
            "bad_field",
            "$.updateDescription.truncatedArrays[0]: expected an object with field",
        ),
        (
            update(updatedFields={}, disambiguatedPaths={"a": "a"}),
            "bad_field",
            "$.updateDescription.disambiguatedPaths: expected an object of arrays",
        ),
    ],
)
def test_a_bad_payload_says_why(value: bytes, code: str, detail: str) -> None:
    event = decode(None, value)
    assert (event.operation, event.error_code) == ("invalid", code)
    assert code in CODES
    assert (event.error_detail or "").startswith(detail)


def formats_that_show(key: bytes | None, value: bytes | None) -> list[str]:
    return [
        name
        for name in FORMATS
        if all(shows_format(name, event) for event in decode_payload(name, key, value))
    ]


def test_no_other_format_could_have_written_them() -> None:
    row = b'{"_id": "%b", "a": 1}' % OID.encode()
    for key, value in (
        (KEY, UPDATE),
        (TOKEN, UPDATE),
        (None, UPDATE),
        (None, event_of("drop", documentKey=...)),
        (KEY, KEY[:-1] + b', "a": 1}'),
        (RECORD_KEY, row),
        (json.dumps(KEY.decode()).encode(), json.dumps(KEY.decode()[:-1] + ', "a": 1}').encode()),
    ):
        assert formats_that_show(key, value) == ["mongodb_json"]
    # A row whose key is a number by that name may be anyone's.
    assert formats_that_show(b'{"_id": 1}', b'{"_id": 1, "a": 2}') == [
        "debezium_unwrapped_json",
        "mongodb_json",
    ]
    assert formats_that_show(b'{"id": 1}', b'{"id": 1, "a": 2}') == ["debezium_unwrapped_json"]
