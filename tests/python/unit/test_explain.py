"""`lakehouse explain`: trees that cover the payload, and break where the decoders say."""

import base64
import json
import os
import re
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.aerospike_encoder import Ext, Map, pack
from support.aerospike_messages import messages, record_keys
from support.avro_messages import Writer, avro_schema
from support.debezium_messages import ENVELOPE, dumps
from test_debezium_avro import BY_HAND, KEY_BLOCK, ORDER, know

from dbt_lakehouse.cli import main
from dbt_lakehouse.commands.explain import json_tree
from dbt_lakehouse.commands.explain.explain_output import Explanation
from dbt_lakehouse.commands.explain.explained_message import explain
from dbt_lakehouse.commands.explain.guess import Guess
from dbt_lakehouse.commands.explain.nodes import EVERYTHING, Limits, Node, Tree
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.stored.quarantine import masked
from python_udfs.registry import FORMATS, decode_payload

MESSAGEPACK: Final = "aerospike_messagepack"
DIGEST: Final = b"abcdefghijklmnopqrst"
DIGEST_64: Final = base64.b64encode(DIGEST).decode()
KEY: Final = ["ns", "set", DIGEST, None]
# Positions in the decoders' sentences about bytes that can't be read on.
POSITIONS: Final = {
    "truncated": r"at byte (\d+) needs|the text ends at byte (\d+),",
    "not_messagepack": r"at byte (\d+) is never used",
    "not_json": r"at byte (\d+)(?:, got .*)?$|after the byte 0x00 at byte (\d+)",
    "trailing_bytes": r"ends at byte (\d+),|from byte (\d+)$",
}
# In sentences about what is between others, which may be elided.
INSIDE: Final = {
    "bad_field": r"expected UTF-8 in the str at byte (\d+)"
    r"|^(?:invalid UTF-8|unpaired surrogate escape \S+) at byte (\d+)",
    "too_deep": r"nested deeper than \d+ levels at byte (\d+)$",
}
ELEMENT: Final = re.compile(r"\$\[\d+\], from byte (\d+) on: (.*)", re.DOTALL)


def captured() -> list[tuple[bytes | None, bytes]]:
    """Key and value of some of the demo's messages, of all formats."""
    found = []
    for file in sorted((ROOT / "seeds").glob("*.jsonl")):
        for line in file.read_bytes().splitlines()[::7]:
            message = json.loads(line)
            key, value = (
                None if message[name] is None else base64.b64decode(message[name])
                for name in ("key_b64", "value_b64")
            )
            if value and len(value) < 4_000:
                found.append((key, value))
    assert len(found) > 20
    return found


def taken_apart(
    format_name: str | None, value: bytes, key: bytes | None = None, limits: Limits | None = None
) -> Explanation:
    told = None if format_name is None else Guess(format_name, "as the test says")
    explanation = explain(key, value, limits or Limits(), told)
    # Neither form may fail on anything, nor bring what a terminal would obey.
    for text in (explanation.text(), explanation.text(everything=True)):
        shown = (each for each in text if each not in "\n\u200c\u200d")
        assert all(each.isprintable() or unicodedata.category(each) == "Zs" for each in shown)
    json.loads(explanation.json())
    for part in (explanation.key, explanation.value):
        if part is not None:
            check_tree(part.tree, part.payload, is_text=explanation.format != MESSAGEPACK)
    check_wrong(explanation, key, value)
    return explanation


def check_tree(tree: Tree, payload: bytes, *, is_text: bool) -> None:
    """The ranges nest, follow each other, and leave nothing out."""
    assert tree.size == len(payload)
    start, end = (tree.root.start, tree.root.end) if tree.root else (0, 0)
    rest = len(payload) if tree.rest is None else tree.rest
    assert payload[:start].removeprefix(b"\xef\xbb\xbf").strip() == b""
    assert end <= rest <= len(payload) and payload[end:rest].strip() == b""
    for node in tree.nodes():
        place = node.start
        for child in node.children:
            assert place <= child.start <= child.end <= node.end
            # In MessagePack there is nothing between values, but what an array begins with.
            assert is_text or child is node.children[0] or place == child.start
            place = child.end
        assert is_text or not node.children or place == node.end


def check_wrong(explanation: Explanation, key: bytes | None, value: bytes) -> None:
    """What is said to be wrong is what the decoder says, at the position that it names."""
    decoded = decode_payload(explanation.format, key, value)
    assert decoded == explanation.events
    assert [(each.event_index, each.code, each.sentence) for each in explanation.wrong] == [
        (each.event_index, each.error_code, each.error_detail)
        for each in decoded
        if each.error_code is not None
    ]
    for each in explanation.wrong:
        sentence, begin = each.sentence, 0
        if element := ELEMENT.fullmatch(sentence):
            begin, sentence = int(element[1]), element[2]
        if each.code in POSITIONS and (found := re.search(POSITIONS[each.code], sentence)):
            (position,) = (int(group) for group in found.groups() if group is not None)
            assert each.position == begin + position, each
        if each.code in INSIDE and (found := re.search(INSIDE[each.code], sentence)):
            (position,) = (int(group) for group in found.groups() if group is not None)
            assert each.position in (begin + position, None), each


# --- properties -----------------------------------------------------------------------------------

CAPTURED: Final = captured()
changes = st.lists(
    st.tuples(
        st.sampled_from(["cut", "flip", "insert", "delete"]),
        st.integers(0, 4_000),
        st.binary(min_size=1, max_size=2),
    ),
    max_size=3,
)


def changed(payload: bytes, edits: list[tuple[str, int, bytes]]) -> bytes:
    for kind, place, new in edits:
        at = place % (len(payload) + 1)
        if kind == "cut":
            payload = payload[:at]
        elif kind == "flip":
            payload = payload[:at] + new + payload[at + len(new) :]
        elif kind == "insert":
            payload = payload[:at] + new + payload[at:]
        else:
            payload = payload[:at] + payload[at + 1 :]
    return payload


small = st.sampled_from([Limits(), EVERYTHING, Limits(nodes=8, children=2, names=2, depth=3)])


@settings(max_examples=100, deadline=None)
@given(messages, st.none() | record_keys, changes, small)
def test_messagepack_breaks_where_the_decoder_says(
    message: Any, key: list[Any] | None, edits: list[tuple[str, int, bytes]], limits: Limits
) -> None:
    packed_key = None if key is None else pack(key)
    taken_apart(MESSAGEPACK, changed(pack(message), edits), packed_key, limits)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(CAPTURED), changes, small, st.sampled_from([None, *FORMATS]))
def test_captures_break_where_the_decoders_say(
    message: tuple[bytes | None, bytes],
    edits: list[tuple[str, int, bytes]],
    limits: Limits,
    format_name: str | None,
) -> None:
    key, value = message
    taken_apart(format_name, changed(value, edits), key, limits)
    taken_apart(format_name, value, changed(key or b"", edits), limits)


BATCH: Final = (
    b'[{"msg":"write","key":["ns","set","YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null],"gen":1,"exp":0,'
    b'"lut":1617167159548,"bins":[{"name":"n","type":"int","value":5}]}, {"msg":"delete","key":'
    b'["ns",null,"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null]},\n{"msg":"delete", "key" : ["ns",null,'
    b'"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",null],}]'
)


@settings(max_examples=150, deadline=None)
@example(edits=[("flip", 174, b"\x00"), ("flip", 447, b" \x80")], limits=EVERYTHING)
@given(changes, small)
def test_broken_json_batches_break_where_the_decoder_says(
    edits: list[tuple[str, int, bytes]], limits: Limits
) -> None:
    taken_apart("aerospike_json", changed(BATCH, edits), None, limits)


def test_each_prefix_breaks_where_the_decoder_says() -> None:
    envelope = dumps({"schema": None, "payload": {**ENVELOPE, "note": "é\U0001f600"}})
    for format_name, whole in (
        ("aerospike_json", BATCH),
        ("debezium_json", envelope),
        (MESSAGEPACK, pack([[1, 1, [KEY, 1, 0, 0, [["m", 19, 0, Map([("k", [Ext(7, b"x")])])]]]]])),
    ):
        assert [each.operation == "invalid" for each in taken_apart(format_name, whole).events]
        for end in range(1, len(whole)):
            taken_apart(format_name, whole[:end])
            if end % 5 == 0:
                taken_apart(format_name, whole[:end] + b"\xff" + whole[end:])


@settings(max_examples=150, deadline=None)
@given(changes, small)
def test_avro_breaks_where_the_decoder_says(
    edits: list[tuple[str, int, bytes]], limits: Limits
) -> None:
    know(7, avro_schema(ORDER))
    know(8, avro_schema(KEY_BLOCK))
    told = taken_apart("debezium_avro", changed(BY_HAND, edits), b"\0\0\0\0\x08\x02", limits)
    assert told.key is not None and told.key.tree.rest is None
    if not edits:
        assert told.value is not None and told.value.tree.rest is None


RECORD: Final = {
    "type": "record",
    "name": "Write",
    "fields": [
        {"name": "n", "type": ["null", "long", "bytes"]},
        {
            "name": "metadata",
            "type": {
                "type": "record",
                "name": "Metadata",
                "fields": [
                    {"name": "namespace", "type": "string"},
                    {"name": "set", "type": ["null", "string"]},
                    {"name": "digest", "type": "bytes"},
                    {"name": "msg", "type": "string"},
                    {"name": "lut", "type": ["null", "long"]},
                ],
            },
        },
    ],
}
KEY_OF_RECORD: Final = {
    "type": "record",
    "name": "Key",
    "fields": [
        {"name": "namespace", "type": "string"},
        {"name": "set", "type": "string"},
        {"name": "digest", "type": "bytes"},
    ],
}
ABOUT: Final = {"namespace": "ns", "set": "set", "digest": DIGEST, "msg": "write"}


def in_avro(about: Any, **bins: Any) -> bytes:
    know(9, RECORD)
    return Writer(9, RECORD).write({"metadata": about, **bins})


@settings(max_examples=100, deadline=None)
@given(changes, small)
def test_records_in_avro_break_where_the_decoder_says(
    edits: list[tuple[str, int, bytes]], limits: Limits
) -> None:
    taken_apart("aerospike_avro", changed(in_avro(ABOUT, n=5), edits), None, limits)


# --- what is told ---------------------------------------------------------------------------------


def write(*bins: Any, lut: Any = 1617167159548) -> list[Any]:
    return [1, 1, [KEY, 4, 0, lut, list(bins)]]


def tree_of(explanation: Explanation) -> dict[str, Node]:
    """The nodes of a value by their names, of those with the same name the last."""
    assert explanation.value is not None
    return {str(node.name or node.step): node for node in explanation.value.tree.nodes()}


def became(explanation: Explanation) -> dict[str, list[str]]:
    return {name: node.became for name, node in tree_of(explanation).items() if node.became}


def test_each_part_of_a_write_has_its_name_and_what_it_became() -> None:
    bins = Map([("a", [1, Ext(7, b"j")]), (1, Ext(23, b'{"type":"Point"}'))])
    value = pack(write(["m", 19, 1, bins]))
    told = taken_apart(None, value, pack(KEY))
    assert (told.format, told.how) == (MESSAGEPACK, "sure: no other decoder accepts it")
    nodes = tree_of(told)
    assert [(nodes[name].start, nodes[name].end) for name in ("record", "version", "lut")] == [
        (0, len(value)),
        (1, 2),
        (37, 46),
    ]
    assert [nodes[name].note for name in ("type", "flags", "lut", "expiry")] == [
        "MAP",
        "key-ordered",
        "2021-03-31T05:05:59.548Z",
        "never",
    ]
    assert told.value is not None
    kinds = [(node.kind, node.note) for node in told.value.tree.nodes()]
    assert [each for each in kinds if each[0].startswith("ext")] == [
        ("ext 7", "JAVA OBJ"),
        ("ext 23", "GEOJSON"),
    ]
    assert became(told) == {
        "namespace": ["source_schema = ns"],
        "set": ["source_table = set"],
        "digest": [f'record_key = {{"digest":"{DIGEST_64}"}}'],
        "generation": ["metadata.generation = 4"],
        "expiry": ["expires_at = null", "metadata.expiry = 0"],
        "lut": ["occurred_at = 2021-03-31T05:05:59.548Z", "metadata.lut = 1617167159548"],
        "type": ['metadata.bins.m = {"type":19,"flags":1,"nested":{"$":"map","$[0][1][1]":"ja...'],
        "value": ['after.m = [["a",[1,"ag=="]],[1,{"type":"Point"}]]'],
    }


def test_of_a_batch_the_wrong_record_is_shown_however_far_behind() -> None:
    batch = [write(["n", 1, 0, number]) for number in range(600)]
    batch[500] = write(["n", 1, 0, "x"])
    told = taken_apart(None, pack(batch))
    (wrong,) = told.wrong
    assert (wrong.event_index, wrong.code) == (500, "bad_field")
    assert told.value is not None and wrong.position is not None
    assert told.value.payload[wrong.position :][:2] == pack("x")
    nodes = tree_of(told)
    assert nodes["record 500"].children and nodes["value"].wrong == ["bad_field"]
    assert told.value.tree.root is not None
    elided = [node.size for node in told.value.tree.root.children if node.kind == "elided"]
    assert sum(elided) + len(told.value.tree.root.children) - len(elided) == 600
    unknown = pack([1, 9, [KEY, 0, 0, 0, 0]])
    assert {"payload", "flags", "lut"} & tree_of(taken_apart(MESSAGEPACK, unknown)).keys() == {
        "payload"
    }
    records = dumps([{"msg": "delete", "key": ["ns", None, DIGEST_64, None]}] * 500)
    told = taken_apart(None, records[:-1] + b',{"msg":"delete","key":3}]')
    assert tree_of(told)["key"].wrong == ["bad_field"]


def test_json_of_aerospike_has_what_became_of_it_and_of_the_key() -> None:
    told = taken_apart(None, BATCH, dumps([["ns", "set", DIGEST_64, None]]))
    assert (told.format, len(told.events)) == ("aerospike_json", 3)
    assert told.value is not None and told.value.tree.root is not None
    first = told.value.tree.root.children[0]
    parts = {str(part.step): part.became for part in first.children}
    assert parts["msg"] == ["operation = upsert"]
    assert parts["lut"] == [
        "occurred_at = 2021-03-31T05:05:59.548Z",
        "metadata.lut = 1617167159548",
    ]
    text = told.text()
    assert "value: number 5" in text and "-> after.n = 5" in text
    assert "set: string" in text


FLAT: Final = dumps(
    {
        "metadata": {"namespace": "ns", "set": "set", "digest": DIGEST_64, "msg": "write"}
        | {"gen": 4, "lut": 1617167159548, "exp": 0, "more": 1},
        "n": 5,
    }
)


def test_flat_json_of_aerospike_has_what_became_of_it_and_of_the_key() -> None:
    told = taken_apart(None, FLAT, dumps({"namespace": "ns", "digest": DIGEST_64}))
    assert became(told) == {
        "namespace": ["source_schema = ns"],
        "set": ["source_table = set"],
        "digest": [f'record_key = {{"digest":"{DIGEST_64}"}}'],
        "msg": ["operation = upsert"],
        "gen": ["metadata.generation = 4"],
        "lut": ["occurred_at = 2021-03-31T05:05:59.548Z", "metadata.lut = 1617167159548"],
        "exp": ["expires_at = null", "metadata.expiry = 0"],
        "more": ["metadata.more = 1"],
        "n": ["after.n = 5"],
    }
    batch = b"[" + FLAT + b',{"metadata":{"msg":7}}]'
    for end in range(1, len(batch) + 1):
        taken_apart("aerospike_flat_json", batch[:end])
    told = taken_apart("aerospike_flat_json", batch)
    assert [wrong.position for wrong in told.wrong] == [batch.index(b"7}")]


MAXWELL: Final = dumps(
    {"database": "d", "table": "t", "type": "update", "ts": 1477053234, "xid": 5}
    | {"data": {"id": 1, "m": 2}, "old": {"m": 1}}
)
CANAL: Final = dumps(
    {"database": "d", "table": "t", "type": "UPDATE", "isDdl": False, "es": 1554045359000}
    | {"mysqlType": {"id": "int", "n": "int"}, "data": [{"id": "1", "n": "x"}, {"id": "2"}]}
    | {"old": [{"n": "0"}, None]}
)
DMS: Final = dumps(
    {"data": {"id": 1, "n": 2}, "was": {"n": 1}, "extra": 0}
    | {
        "metadata": {"record-type": "data", "operation": "update", "schema-name": "d"}
        | {"table-name": "t", "commit-timestamp": "2026-01-31T10:00:00.5Z", "transaction-id": 5}
    }
)
CHANGEFEED: Final = dumps(
    {"after": {"id": 1, "n": 2}, "before": {"id": 1, "m": 1}, "key": [1]}
    | {"mvcc_timestamp": "1769853600500000000.0000000000"}
    | {"updated": "1769853600600000000.0000000000"}
)
UNWRAPPED: Final = dumps({"id": 1, "n": 2, "__deleted": "false", "__op": "u", "__table": "t"})


def test_rows_of_maxwell_have_what_became_of_them() -> None:
    told = taken_apart(None, MAXWELL, dumps({"database": "d", "table": "t", "pk.id": 1}))
    assert (told.format, told.how) == ("maxwell_json", "sure: no other decoder accepts it")
    assert became(told) == {
        "database": ["source_database = d"],
        "table": ["source_table = t"],
        "type": ["operation = update"],
        "ts": ["occurred_at = 2016-10-21T12:33:54Z", "metadata.ts = 1477053234"],
        "xid": ["metadata.xid = 5"],
        "id": ["after.id = 1"],
        # The last of the name: what it was.
        "m": ["before.m = 1"],
    }
    assert told.key is not None and told.key.tree.root is not None
    part = told.key.tree.root.part("pk.id")
    assert part is not None and part.became == ["record_key.id = 1"]
    told = taken_apart(None, MAXWELL, dumps(["d", "t", [{"id": 1}]]))
    assert "record_key.id = 1" in told.text()


CHANGE_STREAM: Final = dumps(
    {
        "_id": {"_data": "82"},
        "operationType": "update",
        "clusterTime": {"$timestamp": {"t": 1668102600, "i": 1}},
        "ns": {"db": "d", "coll": "c"},
        "fullDocument": {"_id": 1, "n": {"$numberLong": "5"}},
        "fullDocumentBeforeChange": {"_id": 1, "m": 4},
        "more": 1,
    }
)


def test_records_in_avro_have_what_became_of_them() -> None:
    know(8, KEY_OF_RECORD)
    key = Writer(8, KEY_OF_RECORD).write(ABOUT)
    told = taken_apart(None, in_avro(ABOUT | {"lut": 1617167159548}, n=b"x"), key)
    assert (told.format, told.how) == ("aerospike_avro", "sure: no other decoder accepts it")
    found = became(told)
    assert found["msg"] == ["operation = upsert"]
    assert (found["namespace"], found["set"]) == (["source_schema = ns"], ["source_table = set"])
    assert found["digest"] == [f'record_key = {{"digest":"{DIGEST_64}"}}']
    assert found["lut"][0] == "occurred_at = 2021-03-31T05:05:59.548Z"
    assert found["n"] == ['after.n = "eA=="']
    assert told.key is not None
    nodes = {each.step: each for each in told.key.tree.nodes()}
    assert nodes["value"].became == [f'metadata.event_key = ["ns","set","{DIGEST_64}",null]']


def test_what_is_wrong_in_a_record_in_avro_has_its_byte() -> None:
    value = in_avro(ABOUT | {"digest": b"xy"})
    (wrong,) = taken_apart("aerospike_avro", value).wrong
    assert (wrong.code, wrong.position) == ("bad_field", value.index(b"\4xy"))
    assert wrong.sentence == "$.metadata.digest: expected 20 bytes, got 2 bytes"


def test_change_events_of_mongodb_have_what_became_of_them() -> None:
    told = taken_apart(None, CHANGE_STREAM, b'{"_id":1}')
    assert (told.format, told.how) == ("mongodb_json", "sure: no other decoder accepts it")
    found = became(told)
    assert found["operationType"] == ["operation = update", 'metadata.operationType = "update"']
    assert found["db"] == ["source_database = d"]
    assert found["coll"] == ["source_table = c"]
    assert found["clusterTime"][0] == "occurred_at = 2022-11-10T17:50:00Z"
    assert (found["n"], found["m"]) == (["after.n = 5"], ["before.m = 4"])
    assert found["more"] == ["metadata.more = 1"]
    assert told.key is not None and told.key.tree.root is not None
    part = told.key.tree.root.part("_id")
    assert part is not None and part.became == ["record_key._id = 1"]
    # A document alone, and what deletes it.
    told = taken_apart(None, b'{"_id":{"$oid":"%b"},"n":5}' % (b"a" * 24), b'{"_id":"x"}')
    assert became(told)["n"] == ["after.n = 5"]
    (deleted,) = explain(b'{"_id":1}', None, Limits()).events
    assert (deleted.operation, deleted.record_key) == ("delete", b'{"_id":1}')


def test_rows_of_canal_have_what_became_of_them() -> None:
    told = taken_apart(None, CANAL)
    assert (told.format, told.how) == ("canal_json", "sure: no other decoder accepts it")
    assert told.value is not None and told.value.tree.root is not None
    data, old = told.value.tree.root.part("data"), told.value.tree.root.part("old")
    assert data is not None and old is not None
    rows = [{str(each.step): each.became for each in row.children} for row in data.children]
    note = "metadata.untyped: no value of the declared type, kept as sent"
    assert rows == [
        {"id": ["after.id = 1"], "n": ['after.n = "x"', note]},
        {"id": ["after.id = 2"]},
    ]
    assert old.children[0].children[0].became == ["before.n = 0"]
    assert "-> occurred_at = 2019-03-31T15:15:59Z" in told.text()


def test_records_of_aws_dms_have_what_became_of_them() -> None:
    told = taken_apart(None, DMS)
    assert (told.format, told.how) == ("aws_dms_json", "sure: no other decoder accepts it")
    assert became(told) == {
        "id": ["after.id = 1"],
        # The last of the name: what it was.
        "n": ["before.n = 1"],
        "extra": ["metadata.extra = 0"],
        "operation": ["operation = update"],
        "schema-name": ["source_schema = d"],
        "table-name": ["source_table = t"],
        "commit-timestamp": [
            "occurred_at = 2026-01-31T10:00:00.5Z",
            'metadata.commit-timestamp = "2026-01-31T10:00:00.5Z"',
        ],
        "transaction-id": ["metadata.transaction-id = 5"],
    }
    control = dumps(
        {"control": {"table-def": {}}}
        | {"metadata": {"record-type": "control", "operation": "drop-table", "table-name": "t"}}
    )
    assert became(taken_apart(None, control))["control"] == ['metadata.control = {"table-def":{}}']
    told = taken_apart(None, DMS.replace(b'"update"', b'"upsert"'))
    assert (told.format, told.wrong[0].code) == ("aws_dms_json", "bad_type")
    assert told.wrong[0].position == DMS.index(b'"update"')


def test_messages_of_cockroachdb_have_what_became_of_them() -> None:
    told = taken_apart(None, CHANGEFEED)
    assert (told.format, told.how) == ("cockroachdb_json", "sure: no other decoder accepts it")
    assert became(told) == {
        "id": ["before.id = 1"],
        "n": ["after.n = 2"],
        "m": ["before.m = 1"],
        "key": ["metadata.key = [1]"],
        "mvcc_timestamp": [
            "occurred_at = 2026-01-31T10:00:00.5Z",
            'metadata.mvcc_timestamp = "1769853600500000000.0000000000"',
        ],
        "updated": ['metadata.updated = "1769853600600000000.0000000000"'],
    }
    (wrong,) = taken_apart(None, b'{"after": null}').wrong
    assert wrong.sentence.endswith("create the changefeed with diff")
    # Of that envelope's own and Debezium's family.
    assert taken_apart(None, ENRICHED).format == "debezium_json"


def test_unwrapped_rows_have_what_became_of_them() -> None:
    told = taken_apart(None, UNWRAPPED)
    assert (told.format, told.how) == (
        "debezium_unwrapped_json",
        "sure: no other decoder accepts it",
    )
    assert became(told) == {
        "id": ["after.id = 1"],
        "n": ["after.n = 2"],
        "__deleted": ["operation = update", 'metadata.deleted = "false"'],
        "__op": ["operation = update"],
        "__table": ["source_table = t"],
    }
    # The columns of its key.
    assert taken_apart(None, b'{"id":1,"n":2}', b'{"id":1}').format == "debezium_unwrapped_json"


MONGODB: Final = (
    b'{"op":"u","updateDescription":{"updatedFields":"{\\"at.b\\":{\\"$date\\":0}}"},'
    b'"source":{"connector":"mongodb","db":"d","collection":"c"}}'
)


def test_documents_of_mongodb_have_what_became_of_them() -> None:
    key = b'{"id":"{\\"$oid\\":\\"67ab25755c0d5ac87eb8c632\\"}"}'
    told = taken_apart(None, MONGODB, key)
    assert (told.format, became(told)["collection"]) == ("debezium_json", ["source_table = c"])
    (image, *_) = became(told)["updateDescription"]
    assert image.startswith('after = {"_id":"67ab25755c0d5ac87eb8c632","$partial":{')
    assert told.key is not None and told.key.tree.root is not None
    assert told.key.tree.root.children[0].became == ['record_key._id = "67ab25755c0d5ac87eb8c632"']
    whole = b'{"op":"c","after":"{\\"_id\\":{\\"$date\\":0}}","source":{"collection":"c"}}'
    after = became(taken_apart("debezium_json", whole))["after"]
    assert after == ['after = {"_id":"1970-01-01T00:00:00.000Z"}']
    (wrong,) = taken_apart("debezium_json", whole.replace(b":0", b":{}")).wrong
    assert (wrong.code, wrong.position) == ("bad_field", None)
    assert wrong.sentence.startswith('$.after._id["$date"]["$numberLong"]: expected an integer')
    deep = whole.replace(b":0", b":" + b"[" * 300)
    assert taken_apart("debezium_json", deep).wrong[0].code == "too_deep"


CELLS = (
    b'{"op":"u","before":null,"after":{"id":{"value":1,"set":true},"a":null},'
    b'"source":{"connector":"yugabytedb","db":"d","schema":"s","table":"t"}}'
)
DELETED_CELLS = (
    b'{"op":"d","after":{"id":{"value":1,"deletion_ts":null,"set":true},"a":null},'
    b'"source":{"connector":"cassandra","db":"NULL","keyspace":"k","table":"t"}}'
)
ENRICHED = (
    b'{"op":"c","after":{"id":1},"source":{"database_name":"d","schema_name":"s",'
    b'"table_name":"t","origin":"cockroachdb"}}'
)


def test_rows_of_cells_have_what_became_of_them() -> None:
    told = taken_apart("debezium_json", CELLS, b'{"id":{"value":1,"set":true}}')
    assert told.key is not None and told.key.tree.root is not None
    assert told.key.tree.root.children[0].became == ["record_key.id = 1"]
    found = became(told)
    assert (found["id"], found["a"]) == (
        ["after.id = 1"],
        ['after.a = "__debezium_unavailable_value"'],
    )
    # Cassandra has the key of a delete in "after".
    found = became(taken_apart("debezium_json", DELETED_CELLS))
    assert (found["id"], found["op"]) == (["before.id = 1"], ["operation = delete"])
    found = became(taken_apart("debezium_json", ENRICHED))
    assert [found[each] for each in ("database_name", "schema_name", "table_name")] == [
        ["source_database = d"],
        ["source_schema = s"],
        ["source_table = t"],
    ]


@pytest.mark.parametrize(
    ("format_name", "value"),
    [
        ("debezium_json", CELLS),
        ("aws_dms_json", DMS),
        ("cockroachdb_json", CHANGEFEED),
        ("maxwell_json", MAXWELL),
        ("canal_json", CANAL),
        ("debezium_unwrapped_json", UNWRAPPED),
        ("debezium_json", MONGODB),
        ("mongodb_json", CHANGE_STREAM),
    ],
)
def test_each_prefix_of_a_row_breaks_where_the_decoder_says(format_name: str, value: bytes) -> None:
    for end in range(1, len(value) + 1):
        taken_apart(format_name, value[:end], value[:end])
        taken_apart(format_name, value[:end] + b"7" + value[end + 1 :])


SCHEMA: Final = {
    "type": "struct",
    "name": "shop.Envelope",
    "fields": [
        {
            "field": "after",
            "type": "struct",
            "fields": [
                {"field": "id", "type": "int32"},
                {"field": "price", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}
                | {"parameters": {"scale": "2"}},
                {"field": "born", "type": "int32", "name": "io.debezium.time.Date"},
                {"field": "tags", "type": "array", "items": {"type": "string"}},
            ],
        }
    ],
}


def test_an_envelope_has_the_declared_types_beside_its_values() -> None:
    after = {"id": "x", "price": "GZc=", "born": 20210, "tags": ["new"], "other": 1}
    value = dumps({"schema": SCHEMA, "payload": ENVELOPE | {"after": after, "extra": 1}})
    told = taken_apart(None, value, dumps({"id": 7}))
    columns = {str(node.step): node for node in tree_of(told)["after"].children}
    assert [(columns[name].declared, columns[name].became) for name in after] == [
        (
            "int32",
            ['after.id = "x"', "metadata.untyped: no value of the declared type, kept as sent"],
        ),
        ("org.apache.kafka.connect.data.Decimal (bytes, scale 2)", ["after.price = 65.51"]),
        ("io.debezium.time.Date (int32)", ['after.born = "2025-05-02"']),
        ("array", ['after.tags = ["new"]']),
        ("not in the schema block", ["after.other = 1"]),
    ]
    found = became(told)
    assert found["op"] == ["operation = insert"]
    assert found["db"] == ["source_database = shop"]
    assert found["extra"] == ["metadata.extra = 1"]
    price = columns["price"]
    assert value[price.start : price.end] == b'"GZc="'
    text = told.text()
    assert "declared kafka.connect" not in text and "(declared connect.data.Decimal" in text
    assert "whose types are shown below" in text and "whose types" not in told.text(everything=True)
    assert told.key is not None and told.key.tree.root is not None
    assert told.key.tree.root.children[0].became == ["record_key.id = 7"]


def test_a_schema_block_is_shown_for_what_is_wrong_in_it() -> None:
    bad = {"type": "struct", "fields": [{"field": 3, "type": "int32"}]}
    text = taken_apart("debezium_json", dumps({"schema": bad, "payload": ENVELOPE})).text()
    assert "field: number 3  <-- bad_field" in text
    assert "event: invalid, bad_field at byte 46\n  $.schema.fields[0].field: expected" in text


@pytest.mark.parametrize(
    ("payload", "format_name", "how"),
    [
        (dumps(ENVELOPE), "debezium_json", "arcion_json and lindorm_json would decode it to the s"),
        (
            dumps(ENVELOPE | {"source": {"connector": "MYSQL", "table": "t"}}),
            "arcion_json",
            "lindorm_json and debezium_json would",
        ),
        (dumps(ENVELOPE | {"source": {"namespace": "n"}}), "lindorm_json", "arcion_json and debe"),
        (dumps(ENVELOPE).replace(b'"source":{', b'"source":{"x":1e400,'), "debezium_json", "arc"),
        (BATCH[:-30], "aerospike_json", "its decoder accepts the most of it"),
        (FLAT, "aerospike_flat_json", "sure: no other decoder accepts it"),
        (b"null", "debezium_json", "no value, or one that stands for none"),
        (b"\x93\x01", MESSAGEPACK, "by its form: no decoder accepts any of it"),
        (b'{"msg":1}', "aerospike_json", "by its form"),
        (b"<html>", "debezium_json", "by its form"),
        (b'{"a":1}', "debezium_unwrapped_json", "any JSON object could be such a row"),
        (b'{"_id":{"_data":"82"},"operationType":"upsert"}', "mongodb_json", "no decoder accepts"),
        (
            b'{"database":"shop","table":"t","type":"upd","ts":1790841601,"data":{"id":1}}',
            "maxwell_json",
            "no decoder accepts",
        ),
        (
            b'{"database":"shop","table":"t","type":"update","isDdl":false,"data":[{"id":"1"}]}',
            "canal_json",
            "no decoder accepts",
        ),
    ],
)
def test_a_format_is_guessed_by_what_the_decoders_accept(
    payload: bytes, format_name: str, how: str
) -> None:
    told = taken_apart(None, payload)
    assert told.format == format_name
    assert how in told.how


@pytest.mark.parametrize("text", [b'[1, {"a": [2]} ]', b"[1, [[], [3]]]", b"[1, 2]"])
def test_what_is_elided_ends_with_itself(text: bytes) -> None:
    root = json_tree.tree_of(text, Limits(children=1)).root
    assert root is not None
    _, elided = root.children
    assert (elided.kind, text[elided.start : elided.end]) == ("elided", text[4:-1].rstrip())


@pytest.mark.parametrize(
    "payload",
    [
        b"\xdd\x00\x10\x00\x00" + b"\xc0" * (1 << 20),
        b"\xdd\x00\x04\x00\x01" + b"\xc0" * (1 << 18),
        b"\x91" * 100_000,
        b"\x91" * 100_000 + b"\xc0",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 100_000,
        b"[" + b"0," * (1 << 17) + b"0]",
        b'{"payload":{"op":"' + b"x" * (1 << 20),
    ],
    ids=lambda payload: repr(payload[:6]),
)
def test_large_and_deep_payloads_are_elided(payload: bytes) -> None:
    began = time.monotonic()
    told = taken_apart(None, payload)
    assert len(told.text()) < 100_000
    # What was elided can be seen.
    assert told.value is not None
    assert sum(1 for _ in told.value.tree.nodes()) < 5_000
    # Some two seconds, all decoders' included.
    assert time.monotonic() - began < 60


# --- the command ----------------------------------------------------------------------------------


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *arguments])
    out, error = capfd.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out, error


def test_a_payload_comes_as_a_file_hex_or_base64(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    value, key = pack(write(["n", 1, 0, 5])), pack(KEY)
    file = tmp_path / "payload"
    file.write_bytes(value)
    code, out, _ = run(capfd, str(file))
    assert code == 0 and "-> after.n = 5" in out and "key: none" in out
    spaced = " ".join(f"0x{byte:02x}" for byte in value)
    for given_value in (("--hex", spaced), ("--base64", base64.b64encode(value).decode())):
        for given_key in (
            ("--key-hex", key.hex()),
            ("--key-base64", base64.b64encode(key).decode()),
        ):
            code, with_key, _ = run(capfd, *given_value, *given_key)
            assert code == 0 and "metadata.event_key = [" in with_key
    captures = tmp_path / "captures.jsonl"
    line = {
        "key_b64": base64.b64encode(key).decode(),
        "value_b64": base64.b64encode(value).decode(),
    }
    captures.write_text(f"\n{json.dumps(line)}\n")
    assert run(capfd, str(captures), "--line", "2") == (0, with_key, "")
    code, out, _ = run(capfd, "--hex", value[:-1].hex(), "--json", "--format", MESSAGEPACK)
    told = json.loads(out)
    assert told["how"] == "as you say"
    assert told["wrong"] == [
        {
            "event_index": 0,
            "code": "truncated",
            "sentence": told["events"][0]["error_detail"],
            "position": len(value) - 1,
        }
    ]
    assert told["value"]["root"]["children"][0]["name"] == "version"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "which payload? Give one of FILE"),
        (["--hex", "c0", "--base64", "wA=="], "which payload? Give one of FILE"),
        (["--hex", "0xc0 zz"], "--hex: no hexadecimal digits: 'z'"),
        (["--hex", "c0f"], "--hex: no hexadecimal digits: 3 digits, and a byte has two"),
        (["--base64", "w***"], "--base64: no base64: '*'"),
        (["--base64", "wAB"], "--base64: no base64: 3 characters, and four have three bytes"),
        (["--hex", "c0", "--format", "canal"], "'canal' is not known (did you mean canal_json?)"),
        (["--topic", "t"], "--topic and --offset go together"),
        (["--hex", "c0", "--partition", "1"], "--partition and --kafka go with --topic"),
        (["--hex", "c0", "--line", "1"], "--line goes with FILE"),
        (["--hex", "c0", "--key-hex", "c0", "--key-base64", "wA=="], "one key is enough"),
        (["nowhere"], "can't read nowhere"),
        (["seeds/legacy.audit.jsonl"], "has captured messages: choose one with --line"),
        (["seeds/legacy.audit.jsonl", "--line", "99"], "line 99: there is no message"),
        (["README.md", "--line", "1"], "line 1: not a JSON object"),
    ],
)
def test_what_can_not_be_meant_is_told(
    arguments: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(ROOT)
    code, out, error = run(capfd, *arguments)
    assert (code, out) == (2, "")
    assert sentence in error and error.count("\n") == 1


def test_it_needs_neither_spark_nor_dbt(tmp_path: Path) -> None:
    # And no project: nor DuckDB.
    code = (
        "import sys; from dbt_lakehouse.cli import lakehouse;"
        " lakehouse(['explain', '--hex', '9301'], standalone_mode=False);"
        " print([name for name in ('pyspark', 'dbt', 'duckdb', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("\n[]\n")


# --- sentences without payloads -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("$.bins[2].value: expected int for type 1 (INTEGER), got str", None),
        ("$.payload.op: expected one of r, c, u, got 'xyz'", "got '***'"),
        ("$.bins[0].value.alice.age: nested deeper than 256", "$.bins[0].value.***: nested deeper"),
        ('$[1].bins[0].value["a: b"][0]: expected x, got y', "$[1].bins[0].value.***: expected x"),
        ("the name 'it\\'s' comes twice", "the name '***' comes twice"),
        ("the number 1e9999999999999999999 has", "the number '***' has"),
        ("no JSON: expected ',' or '}', got '<' at byte 3", None),
        ('$.msg: expected "write" or "delete", got \'x y\'', '"write" or "delete", got \'***\''),
    ],
)
def test_sentences_are_masked(sentence: str, shown: str | None) -> None:
    told = masked("bad_field", sentence)
    if shown is None:
        assert told == sentence
    else:
        assert shown in told
        assert not any(secret in told for secret in ("xyz", "alice", "a: b", "it's", "1e9", "x y"))


SECRET: Final = "zqzq"
secrets = st.sampled_from(
    [SECRET, f"{SECRET}: expected {SECRET}", f"a'{SECRET}", f"b'\"{SECRET}", f"x.{SECRET}[0]: the"]
)
told_values = st.recursive(
    secrets | st.integers(0, 9) | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(secrets, inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["op", "after", "source", "ts_ms", "msg", "key", "bins", "gen", SECRET]),
    told_values,
    st.sampled_from([{}, ENVELOPE, json.loads(BATCH.replace(b",}", b"}"))[0]]),
)
def test_no_sentence_says_what_a_payload_said(field: str, value: Any, others: Any) -> None:
    for format_name in FORMATS:
        for event in decode_payload(format_name, None, dumps(others | {field: value})):
            if event.error_code is not None and event.error_detail is not None:
                assert SECRET not in masked(event.error_code, event.error_detail)


def test_of_a_bug_only_the_kind_is_told() -> None:
    assert masked("decoder_failed", "KeyError: 'alice' (json.py, line 7)") == "KeyError: ***"
