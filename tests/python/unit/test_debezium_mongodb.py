"""MongoDB's documents in Debezium's envelope: Extended JSON, partial updates, what is refused."""

import json
import random
import time
from typing import Any, Final

import pytest
from support.debezium_messages import FORMS, decode, dumps, loads, still_fast_path

from python_udfs.core.errors import CODES
from python_udfs.debezium import json as debezium_json
from python_udfs.debezium.extended_json import load_document

OID: Final = "67ab25755c0d5ac87eb8c632"
SOURCE: Final = {
    "version": "2.7.0.Final",
    "connector": "mongodb",
    "name": "shop",
    "ts_ms": 1739321992000,
    "snapshot": "false",
    "db": "shop",
    "sequence": None,
    "rs": "rs0",
    "collection": "people",
    "ord": 28,
    "lsid": None,
    "txnNumber": None,
    "wallTime": None,
}
DOCUMENT: Final = (
    f'{{"_id": {{"$oid": "{OID}"}},"name": "Ana","n": {{"$numberLong": "5"}},'
    '"at": {"$date": 1739455297970},"tags": ["a","b"]}'
)
PLAIN: Final = (
    b'{"_id":"67ab25755c0d5ac87eb8c632","name":"Ana","n":5,"at":"2025-02-13T14:01:37.970Z",'
    b'"tags":["a","b"]}'
)
KEY: Final = dumps({"id": f'{{"$oid": "{OID}"}}'})


def message(op: str | None, **fields: Any) -> bytes:
    return dumps({"before": None, "after": None, "source": SOURCE, "op": op, "ts_ms": 1} | fields)


def update(updated: str | None, **more: Any) -> bytes:
    return message("u", updateDescription={"updatedFields": updated, **more})


def image(value: bytes, key: bytes = b'{"id":"1"}') -> Any:
    event = decode(key, value)
    assert event.error_code is None, event.error_detail
    return loads(event.after)


def refused(value: bytes, code: str, *parts: str, key: bytes | None = None) -> None:
    event = decode(key, value)
    assert event.error_code == code
    for part in parts:
        assert part in (event.error_detail or "")


# --- Documents ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_an_insert_in_each_form(form: str) -> None:
    event = decode(KEY, FORMS[form](message("c", after=DOCUMENT)))
    assert event[:10] == (
        *(0, "insert", "shop", None, "people", f'{{"_id":"{OID}"}}'.encode(), None, PLAIN),
        *(1739321992000, None),
    )
    metadata = loads(event.metadata)
    assert metadata["bson"] == {"after": {"_id": "objectId", "n": "long", "at": "date"}}
    assert metadata["source"] == SOURCE
    assert metadata["event_key"] == {"id": f'{{"$oid": "{OID}"}}'}


# What is written, what becomes of it, and the type that is noted.
VALUES: Final[list[tuple[str, str, Any]]] = [
    ('{"$oid":"57E193D7A9CC81B4027498B5"}', '"57e193d7a9cc81b4027498b5"', "objectId"),
    ('{"$symbol":"s"}', '"s"', "symbol"),
    ('{"$numberInt":"-2147483648"}', "-2147483648", "int"),
    ('{"$numberLong":"9223372036854775807"}', "9223372036854775807", "long"),
    ('{"$numberLong":42}', "42", "long"),
    ('{"$numberDouble":"42.420"}', "42.420", "double"),
    ('{"$numberDouble":"1.0E10"}', "1.0E10", "double"),
    ('{"$numberDouble":"-0.0"}', "-0.0", "double"),
    *((f'{{"$numberDouble":"{x}"}}', f'"{x}"', "double") for x in ("NaN", "Infinity", "-Infinity")),
    # As version 1 writes them.
    *((x, f'"{x}"', "double") for x in ("NaN", "Infinity", "-Infinity")),
    ('"NaN, -Infinity \\" NaN"', '"NaN, -Infinity \\" NaN"', None),
    ('{"$numberDecimal":"1234.50"}', "1234.50", "decimal"),
    ('{"$numberDecimal":"0E-6176"}', "0E-6176", "decimal"),
    ('{"$numberDecimal":"NaN"}', '"NaN"', "decimal"),
    ('{"$binary":{"base64":"yO2rww==","subType":"4"}}', '"yO2rww=="', "binData(04)"),
    ('{"$binary":"a2Fma2E=","$type":"00"}', '"a2Fma2E="', "binData"),
    ('{"$type":"80","$binary":""}', '""', "binData(80)"),
    (
        '{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}',
        '"yO2rw/c4TKO2jauSqRR4ow=="',
        "binData(04)",
    ),
    ('{"$code":"f()"}', '"f()"', "javascript"),
    (
        '{"$code":"f()","$scope":{"a":{"$numberInt":"1"}}}',
        '{"$code":"f()","$scope":{"a":1}}',
        {"$scope": {"a": "int"}},
    ),
    ('{"$timestamp":{"t":42,"i":1}}', '{"$timestamp":{"t":42,"i":1}}', None),
    (
        '{"$regularExpression":{"pattern":"a*","options":"ix"}}',
        '{"$regularExpression":{"pattern":"a*","options":"ix"}}',
        "regex",
    ),
    (
        '{"$options":"i","$regex":"a*"}',
        '{"$regularExpression":{"pattern":"a*","options":"i"}}',
        "regex",
    ),
    (
        f'{{"$dbPointer":{{"$ref":"d.c","$id":{{"$oid":"{OID}"}}}}}}',
        f'{{"$dbPointer":{{"$ref":"d.c","$id":"{OID}"}}}}',
        {"$dbPointer": {"$id": "objectId"}},
    ),
    (
        f'{{"$ref":"c","$id":{{"$oid":"{OID}"}},"$db":"d","x":1}}',
        f'{{"$ref":"c","$id":"{OID}","$db":"d","x":1}}',
        {"$id": "objectId"},
    ),
    ('{"$ref":"c"}', '{"$ref":"c"}', None),
    ('{"$date":0}', '"1970-01-01T00:00:00.000Z"', "date"),
    ('{"$date":{"$numberLong":"-1"}}', '"1969-12-31T23:59:59.999Z"', "date"),
    ('{"$date":"2026-07-03T17:59:45Z"}', '"2026-07-03T17:59:45.000Z"', "date"),
    ('{"$date":"2026-07-03T17:59:45.7-0530"}', '"2026-07-03T23:29:45.700Z"', "date"),
    ('{"$date":253402300800000}', '"+10000-01-01T00:00:00.000Z"', "date"),
    ('{"$date":-9223372036854775808}', '"-292275055-05-16T16:47:04.192Z"', "date"),
    ('{"$minKey":1}', '{"$minKey":1}', None),
    ('{"$maxKey":1}', '{"$maxKey":1}', None),
    ('{"$undefined":true}', "null", "undefined"),
    # A document may have such names, and so may a query in one.
    ('{"$foo":1}', '{"$foo":1}', None),
    ('{"$type":2}', '{"$type":2}', None),
    ('{"$regex":{"$numberInt":"1"}}', '{"$regex":1}', {"$regex": "int"}),
    (
        '[{"$date":0},{"$date":1}]',
        '["1970-01-01T00:00:00.000Z","1970-01-01T00:00:00.001Z"]',
        ["date"],
    ),
    ('[1,{"$numberInt":"2"}]', "[1,2]", {"1": "int"}),
    (
        '{"a":[{"b":{"$oid":"' + OID + '"}}]}',
        '{"a":[{"b":"' + OID + '"}]}',
        {"a": {"0": {"b": "objectId"}}},
    ),
    *((x, x, None) for x in ("1.50", "null", "true", "[]", "{}", "12345678901234567890")),
]


@pytest.mark.parametrize(("written", "plain", "told"), VALUES)
def test_values(written: str, plain: str, told: Any) -> None:
    event = decode(None, message("c", after=f'{{"_id": 1, "x": {written}}}'))
    assert event.error_detail is None
    assert event.after == f'{{"_id":1,"x":{plain}}}'.encode()
    types = {} if told is None else {"after": {"x": told}}
    assert loads(event.metadata)["bson"] == types


@pytest.mark.parametrize(
    ("written", "path", "expected"),
    [
        ('{"$oid":"67ab"}', '$.after.x["$oid"]', "24 hex digits, got '67ab'"),
        ('{"$oid":7}', '$.after.x["$oid"]', "24 hex digits, got '7'"),
        ('{"$oid":"67ab","y":1}', "$.after.x.y", "nothing beside $oid"),
        ('{"$numberLong":"9223372036854775808"}', '["$numberLong"]', "an integer of 64 bits"),
        ('{"$numberInt":"1.5"}', '["$numberInt"]', "an integer of 32 bits as text, got '1.5'"),
        ('{"$numberInt":true}', '["$numberInt"]', "got a boolean"),
        ('{"$numberDouble":"1,5"}', '["$numberDouble"]', "a number as text"),
        ('{"$numberDecimal":null}', '["$numberDecimal"]', "a number as text"),
        ('{"$numberDecimal":"1E9999999"}', '["$numberDecimal"]', "a number as text"),
        ('{"$binary":"a2Fma2E=*","$type":"00"}', '$.after.x["$binary"]', "base64"),
        ('{"$binary":"a2Fma2E="}', '$.after.x["$type"]', "missing beside $binary"),
        ('{"$binary":{"base64":"AA==","subType":"xyz"}}', '["$binary"].subType', "hex digits"),
        ('{"$binary":{"subType":"00"}}', '["$binary"].base64', "missing"),
        ('{"$date":"yesterday"}', '$.after.x["$date"]', "ISO 8601 date with time and zone"),
        ('{"$date":"2026-02-30T00:00:00Z"}', '["$date"]', "ISO 8601"),
        ('{"$date":1.5}', '["$date"]', "milliseconds"),
        ('{"$date":{}}', '["$date"]["$numberLong"]', "an integer of 64 bits"),
        ('{"$date":{"$numberInt":"1"}}', '["$date"]["$numberInt"]', "nothing beside $numberLong"),
        ('{"$timestamp":{"t":1}}', '["$timestamp"]', "an object with t and i"),
        ('{"$timestamp":{"t":1,"i":-1}}', '["$timestamp"].i', "an integer from 0 to 2^32-1"),
        ('{"$undefined":false}', '["$undefined"]', "expected true"),
        ('{"$minKey":2}', '["$minKey"]', "expected 1"),
        ('{"$symbol":1}', '["$symbol"]', "a string, got '1'"),
        ('{"$code":"f","$scope":1}', '["$scope"]', "a document"),
        ('{"$uuid":"c8ed"}', '["$uuid"]', "a UUID"),
        ('{"$regularExpression":{"pattern":1,"options":""}}', ".pattern", "a string"),
        ('{"$dbPointer":{"$ref":"c","$id":1}}', '["$dbPointer"]["$id"]', "an ObjectId"),
        ('[[{"$oid":""}]]', '$.after.x[0][0]["$oid"]', "24 hex digits"),
        ('1, "x": 2', "$.after", "'x' comes twice"),
        ("tru", "$.after", "in the text: no JSON: expected 'true' at byte 16"),
        ("[" * 300, "$.after", "too_deep"),
    ],
)
def test_bad_values_say_where_and_what_was_expected(written: str, path: str, expected: str) -> None:
    code = "too_deep" if expected == "too_deep" else "bad_field"
    parts = (path,) if code == "too_deep" else (path, expected)
    refused(message("c", after=f'{{"_id": 1, "x": {written}}}'), code, *parts)


@pytest.mark.parametrize(
    ("key", "record_key"),
    [
        # The documentation's own.
        ("1234", b'{"_id":1234}'),
        ("12.34", b'{"_id":12.34}'),
        ('"1234"', b'{"_id":"1234"}'),
        ('{"hi" : "kafka", "nums" : [10.0, 100.0]}', b'{"_id":{"hi":"kafka","nums":[10.0,100.0]}}'),
        (f'{{"$oid" : "{OID}"}}', f'{{"_id":"{OID}"}}'.encode()),
        ('{"$binary" : "a2Fma2E=", "$type" : "00"}', b'{"_id":"a2Fma2E="}'),
        # The order of a document's names is part of it.
        ('{"b": 1, "a": {"$date": 0}}', b'{"_id":{"b":1,"a":"1970-01-01T00:00:00.000Z"}}'),
        ("true", b'{"_id":true}'),
        ('{"$oid":"no"}', None),
        ("{", None),
    ],
)
def test_documents_are_deleted_by_their_key(key: str, record_key: bytes | None) -> None:
    event = decode(dumps({"id": key, "__dbz__physicalTableIdentifier": "x"}), message("d"))
    assert event.record_key == record_key
    assert event.operation == ("delete" if record_key else "invalid")
    assert loads(event.metadata)["event_key"]["id"] == key


def test_the_type_of_an_id_is_no_part_of_the_key() -> None:
    """Gold's key is the column's value, which is the same."""
    ids = (f'{{"$oid":"{OID}"}}', f'"{OID}"')
    first, second = (decode(None, message("c", after=f'{{"_id":{each}}}')) for each in ids)
    assert (first.record_key, first.after) == (second.record_key, second.after)
    assert loads(first.metadata)["bson"] != loads(second.metadata)["bson"]


def test_who_is_deleted_is_told_by_the_filter_or_the_document_too() -> None:
    assert decode(None, message("d", filter='{"_id": 7}')).record_key == b'{"_id":7}'
    event = decode(None, message("d", before=DOCUMENT))
    assert (event.record_key, event.before) == (f'{{"_id":"{OID}"}}'.encode(), PLAIN)
    refused(message("d"), "bad_field", "what was deleted?")
    assert decode(KEY, None).operation == "tombstone"


# --- Updates --------------------------------------------------------------------------------------


def test_an_update_with_the_document_is_whole() -> None:
    value = message("u", before='{"_id":1}', after='{"_id":1,"a":2}', updateDescription={})
    event = decode(None, value)
    assert (event.operation, event.before) == ("update", b'{"_id":1}')
    assert event.after == b'{"_id":1,"a":2}'
    assert loads(event.metadata)["updateDescription"] == {}


def test_an_update_without_the_document_is_partial() -> None:
    updated = (
        '{"name":"Bo","at":{"$date":"1970-01-01T00:00:00Z"},"address.city":{"$numberInt":"1"}}'
    )
    value = update(
        updated,
        removedFields=["nick", "address.zip"],
        truncatedArrays=[{"field": "tags", "size": 2}],
    )
    event = decode(KEY, value)
    assert loads(event.after) == {
        "_id": OID,
        "name": "Bo",
        "at": "1970-01-01T00:00:00.000Z",
        "nick": None,
        "$partial": {
            "updated": {"address.city": 1, "address.zip": None},
            "truncated": {"tags": 2},
        },
    }
    assert loads(event.metadata)["bson"] == {"updatedFields": {"at": "date", "address.city": "int"}}
    assert image(update(None)) == {"_id": 1, "$partial": {}}
    refused(value, "bad_field", "$.after: missing", "what _id was updated")


def test_patches_of_older_connectors() -> None:
    patch = '{"$v":1,"$set":{"a":{"$numberLong":"2"},"b.c":1},"$unset":{"d":true,"e.f":true}}'
    assert image(message("u", patch=patch, filter='{"_id":{"$numberLong":"7"}}'), b"") == {
        "_id": 7,
        "a": 2,
        "d": None,
        "$partial": {"updated": {"b.c": 1, "e.f": None}},
    }
    event = decode(None, message("u", patch='{"_id":1,"a":{"$numberInt":"2"}}'))
    assert (event.record_key, event.after) == (b'{"_id":1}', b'{"_id":1,"a":2}')
    assert loads(event.metadata)["bson"] == {"updatedFields": {"a": "int"}}


@pytest.mark.parametrize(
    ("before", "updated", "more", "after"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a.b": 3}, {}, {"a": {"b": 3, "c": 2}}),
        ({"a": {"b": 1}, "d": 1}, {}, {"removedFields": ["a.b", "d", "x"]}, {"a": {}}),
        (
            {"a": [1, 2, 3]},
            {"a.1": 9},
            {"truncatedArrays": [{"field": "a", "size": 2}]},
            {"a": [1, 9]},
        ),
        ({"a": [{"b": [1]}]}, {"a.0.b.1": 2, "a.1": {}}, {}, {"a": [{"b": [1, 2]}, {}]}),
        ({"a": {"0": 1}}, {"a.0": 2, "n.m": 3}, {}, {"a": {"0": 2}, "n": {"m": 3}}),
        # What can't be told for sure stays a partial image.
        ({"a.b": 1}, {"a.b": 2}, {}, None),
        ({"a": {"x.y": 1}}, {"a.x.y": 2}, {}, None),
        ({"a": {"x.y": 1}}, {"b.z": 2}, {}, None),
        ({"a": [1]}, {"a.5": 2}, {}, None),
        ({"a": [1]}, {"a.b": 2}, {}, None),
        ({"a": 1}, {"a.b": 2}, {}, None),
        ({"a": [1]}, {}, {"truncatedArrays": [{"field": "a", "size": 2}]}, None),
        ({}, {}, {"truncatedArrays": [{"field": "a", "size": 2}]}, None),
        ({"a": [1]}, {}, {"removedFields": ["a.0"]}, None),
    ],
)
def test_an_update_is_applied_to_the_document_before(
    before: dict[str, Any], updated: dict[str, Any], more: Any, after: dict[str, Any] | None
) -> None:
    value = message(
        "u",
        before=json.dumps({"_id": 1} | before),
        updateDescription={"updatedFields": json.dumps(updated), **more},
    )
    found = image(value)
    if after is None:
        assert "$partial" in found
    else:
        assert found == {"_id": 1} | after
    assert loads(decode(None, value).before) == {"_id": 1} | before


# --- What is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code", "parts"),
    [
        ({"op": "t"}, "bad_type", ["$.op", "r, c, u, d", "'t'"]),
        ({"op": "m"}, "bad_type", ["$.op"]),
        ({"op": "i"}, "bad_type", ["$.op"]),
        ({"op": None}, "bad_field", ["$.op"]),
        ({"after": None}, "bad_field", ["$.after", "missing"]),
        ({"after": "7"}, "bad_field", ["$.after", "a document", "a number"]),
        ({"after": {"_id": 1}}, "bad_field", ["$.after", "a document as text", "an object"]),
        ({"after": ""}, "bad_field", ["$.after", "byte 0"]),
        ({"after": '{"_id":1,"$partial":{}}'}, "bad_field", ['$.after["$partial"]']),
        ({"before": 1}, "bad_field", ["$.before"]),
        ({"source": SOURCE | {"collection": 1}}, "bad_field", ["$.source.collection"]),
        ({"op": "u", "after": None}, "bad_field", ["$.after", "updateDescription", "patch"]),
    ],
)
def test_bad_envelopes(fields: dict[str, Any], code: str, parts: list[str]) -> None:
    refused(message(**({"op": "c", "after": DOCUMENT} | fields)), code, *parts, key=KEY)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"updateDescription": []}, "$.updateDescription"),
        ({"updateDescription": {"updatedFields": {}}}, "$.updateDescription.updatedFields"),
        ({"updateDescription": {"updatedFields": "[]"}}, "$.updateDescription.updatedFields"),
        ({"updateDescription": {"removedFields": "a"}}, "$.updateDescription.removedFields"),
        ({"updateDescription": {"removedFields": [1]}}, "$.updateDescription.removedFields"),
        ({"updateDescription": {"truncatedArrays": {}}}, "$.updateDescription.truncatedArrays"),
        (
            {"updateDescription": {"truncatedArrays": [{"field": "a", "size": -1}]}},
            "$.updateDescription.truncatedArrays[0]",
        ),
        ({"patch": '{"$inc":{"a":1}}'}, "$.patch"),
        ({"patch": '{"$v":2,"diff":{}}'}, '$.patch["$v"]'),
        ({"patch": '{"$set":1}'}, '$.patch["$set"]'),
        ({"patch": 1}, "$.patch"),
        ({"filter": "{"}, "$.filter"),
    ],
)
def test_bad_updates(fields: dict[str, Any], path: str) -> None:
    key = None if "filter" in fields else KEY
    refused(message("u", **fields), "bad_field", path, key=key)


def test_it_is_recognised_without_its_connector() -> None:
    source = {"db": "shop", "collection": "people"}
    assert decode(KEY, message("d", source=source)).source_table == "people"
    value = dumps({"op": "u", "after": '{"_id": 1}', "patch": None})
    assert decode(None, value).after == b'{"_id":1}'
    refused(dumps({"source": source}), "bad_field", "$.op: missing")


def test_damaged_messages_say_what_is_wrong() -> None:
    dice = random.Random(5)
    values = [
        message("c", after=DOCUMENT),
        update('{"a.b":{"$numberDouble":"NaN"}}', removedFields=["x"], truncatedArrays=[]),
        message("u", patch='{"$set":{"a":{"$date":0}}}', filter='{"_id":1}'),
        message("d", before='{"_id":{"$binary":"AA==","$type":"00"}}'),
    ]
    replacements = (b"null", b"7", b'"x"', b"[]", b"{}", b"true", b"NaN", b"$", b'\\"')
    for value in values:
        for length in range(1, len(value)):
            refused(value[:length], "truncated")
        for _ in range(3000):
            damaged = bytearray(value)
            at = dice.randrange(len(damaged))
            if dice.random() < 0.5:
                damaged[at] ^= 1 << dice.randrange(8)
            else:
                damaged[at : at + dice.randrange(9)] = dice.choice(replacements)
            event = decode(KEY, bytes(damaged))
            if event.error_code is not None:
                assert event.error_code in CODES and event.error_code != "decoder_failed"
                detail = event.error_detail or ""
                assert "$" in detail or "byte" in detail or "comes twice" in detail, detail


SCHEMA: Final = dumps(
    {
        "type": "struct",
        "name": "shop.people.Envelope",
        "fields": [
            {"type": "string", "optional": True, "name": "io.debezium.data.Json", "field": name}
            for name in ("before", "after")
        ],
    }
)


@pytest.mark.parametrize("prefix", [b"", b'{"schema":' + SCHEMA + b',"payload":'])
def test_the_fast_path_gives_the_same_events(prefix: bytes) -> None:
    """Of messages that are alike, and of those between them that are not."""
    description = {"updatedFields": '{"a.b": 1}', "removedFields": ["x"], "truncatedArrays": None}
    keys, values = [], []
    for n in range(400):
        document = f'{{"_id": {n},"x": {{"$numberLong": "{n}"}},"at": {{"$date": {n}}}}}'
        kind = {7: "bad", 8: "deep", 9: "delete", 10: "partial", 11: "no _id", 12: "key"}.get(
            n % 40
        )
        fields: dict[str, Any] = {"updateDescription": description if n % 2 else None}
        if kind == "bad":
            document = document.replace("date", "oid")
        elif kind == "deep":
            document = (
                document.replace("400", "[" * 300)[:-1] + ',"y": ' + "[" * 260 + "]" * 260 + "}"
            )
        elif kind == "no _id":
            document = document.replace("_id", "id")
        op = "d" if kind == "delete" else "u"
        if kind not in ("delete", "partial"):
            fields |= {"after": document, "before": document if n % 3 else None}
        keys.append(b"[1]" if kind == "key" else dumps({"id": f"{n}"}))
        value = message(op, **fields)
        values.append(prefix + value + b"}" if prefix else value)
    decoded = still_fast_path().decode_batch(keys, values)
    assert sum(len(places) for places, _ in decoded.columns) >= 300
    expected = [debezium_json.decode(*each) for each in zip(keys, values, strict=True)]
    assert decoded.payloads() == expected
    assert {event.operation for (event,) in expected} == {"update", "delete", "invalid"}


NOTHING: Final[tuple[Any, ...]] = ("", [], None)


@pytest.mark.parametrize("prefix", [b"", b'{"schema":' + SCHEMA + b',"payload":'])
def test_the_fast_path_of_updates_without_the_document(prefix: bytes) -> None:
    """With those that can and can't be applied to the document before, deletes, and bad ones."""
    dice = random.Random(11)
    big = json.dumps({"_id": 1, "n": {}})
    odd: list[dict[str, Any]] = [
        {"updateDescription": {"updatedFields": '{"a":{"$oid":"no"}}'}},
        {"updateDescription": {"updatedFields": None, "removedFields": "x"}},
        {"updateDescription": {"truncatedArrays": [{"field": "a", "size": -1}]}},
        *(
            {"updateDescription": {"updatedFields": '{"a":1}', name: nothing}}
            for name in ("removedFields", "truncatedArrays")
            for nothing in NOTHING
        ),
        {"updateDescription": {"updatedFields": '{"_id":7,"a":1}', "removedFields": ["a", "_id"]}},
        {"updateDescription": {"updatedFields": '{"$partial":1}'}},
        {"updateDescription": {"updatedFields": "{}"}},
        {"updateDescription": {"updatedFields": '{"a" : 1,"a":2}'}},
        {"updateDescription": {"updatedFields": '{"a":1,"a":2}'}},
        {"updateDescription": {"updatedFields": '{"a":"\\":","b\\\\":{"$numberLong":"1"}}'}},
        {"updateDescription": {"updatedFields": '{"a":{"$date":"2026-01-01T00:00:00Z"}}'}},
        {"updateDescription": {"updatedFields": '{"a":{"$numberLong":"9223372036854775808"}}'}},
        {"updateDescription": {"updatedFields": '{"a":NaN,"b":[{"$oid":"x"}]}'}},
        {"updateDescription": {"updatedFields": '{"a":' + "[" * 300 + "]" * 300 + "}"}},
        {"updateDescription": None},
        {"op": "d"},
        {"op": "d", "before": DOCUMENT},
        {"op": "d", "before": '{"a":1}'},
        {"op": "c"},
        {"op": "r", "after": DOCUMENT},
        {"after": '{"a":1}'},
        {"before": '{"_id":7,"a":{"b":1}}'},
        {"before": '{"_id":7,"a":1}'},
        {"before": '{"_id":7,"a":{"$partial":1}}'},
        # Where more is made of the message than its bytes.
        {
            "before": big,
            "updateDescription": {
                "updatedFields": json.dumps({f"n.{n}.x.y.z": 1 for n in range(100)})
            },
        },
    ]
    keys, values = [], []
    for n in range(900):
        updated = {"a.b": n, "at": {"$date": n}, "n": {"$numberLong": str(n)}, "s": "é"}
        description = {
            "updatedFields": json.dumps(updated),
            "removedFields": ["x", "y.z"] if n % 2 else None,
            "truncatedArrays": [{"field": "t", "size": n}] if n % 3 else [],
        }
        fields: dict[str, Any] = {"op": "u", "updateDescription": description}
        key = dumps({"id": f'{{"$oid":"{OID}"}}'})
        if n % 5 == 1 and n > 200:
            fields |= dice.choice(odd)
        elif n % 50 == 0:
            key = dice.choice([b"[1]", b'{"id":"{"}', b'{"id":1}', b'{"id":"1","x":2}', key[:-1]])
        keys.append(key)
        value = message(**fields)
        values.append(prefix + value + b"}" if prefix else value)
    for some in (keys, [None] * len(keys)):
        decoded = still_fast_path().decode_batch(some, values)
        expected = [debezium_json.decode(*each) for each in zip(some, values, strict=True)]
        assert decoded.payloads() == expected
    assert (
        sum(len(places) for places, _ in still_fast_path().decode_batch(keys, values).columns) > 400
    )


def test_no_document_takes_long_or_much() -> None:
    names = {f"n{number}": number for number in range(20_000)}
    updated = {name: -number for name, number in names.items()} | {"." * 100_000: 1}
    value = message(
        "u",
        before=json.dumps({"_id": 1} | names),
        updateDescription={"updatedFields": json.dumps(updated)},
    )
    started = time.process_time()
    assert "$partial" in image(value)
    assert time.process_time() - started < 5
    many = ",".join(["NaN"] * 200_000)
    refused(message("c", after=f'{{"_id":1,"x":[{many}]}}'), "too_large", "$.after")


def test_deep_documents() -> None:
    nested = '{"a":' * 200 + '{"$numberInt":"1"}' + "}" * 200
    document, _ = load_document("$", nested)
    assert json.dumps(document, separators=(",", ":")) == '{"a":' * 200 + "1" + "}" * 200
