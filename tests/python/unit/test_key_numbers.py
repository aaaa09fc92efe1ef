"""Numbers as keys: one number is one key, whatever its scale and however it is written."""

import json
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.debezium_messages import changed, dumps
from support.row_images import row_texts

from dbt_lakehouse.commands.generate.key_evidence import KeyEvidence
from dbt_lakehouse.commands.keys import UnusableKeyError, given_key
from python_udfs.registry import decode_batch, decode_payload
from python_udfs.text.json_as_sent import load
from python_udfs.text.numbers import canonical_number, is_canonical_number

WRITTEN = [
    ("10", "10"),
    ("1E+1", "10"),
    ("10.0", "10"),
    ("0.1e2", "10"),
    ("2.50", "2.5"),
    ("25e-1", "2.5"),
    ("-2.500", "-2.5"),
    ("0", "0"),
    ("-0", "0"),
    ("-0.0", "0"),
    ("0E+7", "0"),
    ("0.000", "0"),
    ("0.010", "0.01"),
    ("7.0", "7"),
    ("1E+38", "1" + "0" * 38),
    ("1E+39", "1" + "0" * 39),
    ("1" + "0" * 39, "1" + "0" * 39),
    ("12.50E+400", "125" + "0" * 399),
    ("12.50E+402", "1.25E+403"),
    ("1E-39", "0." + "0" * 38 + "1"),
    ("1E-40", "1E-40"),
    ("4.9E-324", "4.9E-324"),
    ("49e-325", "4.9E-324"),
    (
        "123456789012345678901234567890123456789012345",
        "123456789012345678901234567890123456789012345",
    ),
]


@pytest.mark.parametrize(("sent", "canonical"), WRITTEN)
def test_a_number_has_one_text(sent: str, canonical: str) -> None:
    assert canonical_number(sent) == canonical
    assert is_canonical_number(canonical)


@settings(max_examples=500, deadline=None)
@given(
    st.integers(-(10**45), 10**45),
    st.integers(-60, 60),
    st.sampled_from("eE"),
    st.integers(0, 5),
    st.integers(-9, 9),
)
def test_all_texts_of_a_number_become_the_same(
    digits: int, scale: int, letter: str, zeros: int, shift: int
) -> None:
    with localcontext(prec=200):
        number = Decimal(digits).scaleb(-scale)
        texts = {
            f"{digits}{letter}{-scale}",
            f"{digits * 10**zeros}{letter}{-scale - zeros}",
            str(number),
            f"{number:f}",
            f"{Decimal(digits).scaleb(-shift):f}E{shift - scale:+d}",
        }
        (text,) = set(map(canonical_number, texts))
        assert Decimal(text) == number
    assert is_canonical_number(text)
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal) == Decimal(text)


@pytest.mark.parametrize(
    "text", ["", "x", "01", "+1", "1.", "1E+1", "2.50", "NaN", " 1", "-0", "1e5"]
)
def test_texts_that_are_none(text: str) -> None:
    assert not is_canonical_number(text)


def test_an_exponent_beyond_all_numbers_stays() -> None:
    text = "1E" + "9" * 5000
    assert canonical_number(text) == text


# --- Change logs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("sent", "canonical"), WRITTEN)
def test_key_columns_have_that_text_and_others_what_was_sent(sent: str, canonical: str) -> None:
    image = f'{{"id":{sent},"n":{sent},"t":"{sent}"}}'
    fields = '[["id","n","t"],["id"]]'
    of_column = "0" if sent == "-0" else sent
    for images in ((image, None), (None, image), (image, image)):
        for texts in row_texts(images[0], images[1], None, fields)[:2]:
            assert texts in (None, [canonical, of_column, sent])
    assert row_texts(None, "{}", f'{{"id":{sent}}}', '[["id"],["id"]]').key == [canonical]
    # Text is no number.
    assert row_texts(None, f'{{"id":"{sent}"}}', None, '[["id"],["id"]]').after == [sent]
    # Beside a value that nests the texts are cut out otherwise.
    nested = f'{{"id":{sent},"n":{{"a": 1.50}}}}'
    assert row_texts(None, nested, None, '[["id","n"],["id"]]').after == [canonical, '{"a": 1.50}']
    assert row_texts(None, nested, None, '[["id",["n","a"]],["id"]]').after == [canonical, "1.50"]
    partial = f'{{"_id":{sent},"n":{sent},"$partial":{{}}}}'
    found = row_texts(None, partial, f'{{"_id":{canonical}}}', '[["_id","n"],["_id"]]')
    assert found.after == [canonical, of_column]


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ('{"scale":0,"value":"Cg=="}', "10"),
        ('{"scale":-1,"value":"AQ=="}', "10"),
        ('{"value":"AQ==","scale":-1}', "10"),
        ('{"scale":2,"value":"APo="}', "2.5"),
        ('{"scale":"2","value":"APo="}', '{"scale":"2","value":"APo="}'),
        ('{"scale":2,"value":"no base64"}', '{"scale":2,"value":"no base64"}'),
        ('{"scale":2,"value":"APo=","x":1}', '{"scale":2,"value":"APo=","x":1}'),
        ('{"x":1.50}', '{"x":1.50}'),
        ("[1.50]", "[1.50]"),
        ("true", "true"),
        ("null", None),
    ],
)
def test_decimals_that_bring_their_scale_without_a_schema(sent: str, text: str | None) -> None:
    fields = '[["id","n"],["id"]]'
    assert row_texts(None, f'{{"id":{sent},"n":{sent}}}', None, fields).after == [
        text,
        None if text is None else sent,
    ]
    (event,) = decode_payload("debezium_json", f'{{"id":{sent}}}'.encode(), changed())
    is_number = text in ("10", "2.5")
    assert (event.record_key == f'{{"id":{text}}}'.encode()) is (is_number or sent == text)


# --- Record keys ----------------------------------------------------------------------------------

_SCALED = {
    "type": "struct",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
}


def _decimal(scale: int) -> dict[str, Any]:
    name = "org.apache.kafka.connect.data.Decimal"
    return {"type": "bytes", "name": name, "parameters": {"scale": str(scale)}}


def _debezium_key(value: Any, block: Any = None) -> bytes:
    if block is None:
        return b'{"id":%b}' % value
    schema = {"type": "struct", "fields": [{**block, "field": "id"}]}
    return dumps({"schema": schema, "payload": {"id": value}})


DEBEZIUM = [
    [
        _debezium_key({"scale": 0, "value": "Cg=="}, _SCALED),
        _debezium_key({"scale": -1, "value": "AQ=="}, _SCALED),
        _debezium_key({"scale": 2, "value": "A+g="}, _SCALED),
        _debezium_key(b'{"scale":1,"value":"ZA=="}'),
        # Its column got another scale.
        _debezium_key("Cg==", _decimal(0)),
        _debezium_key("A+g=", _decimal(2)),
        _debezium_key("AQ==", _decimal(-1)),
        _debezium_key(10, {"type": "int64"}),
        *(_debezium_key(text) for text in (b"10", b"10.0", b"1e1", b"1E+1")),
    ],
    [_debezium_key(text) for text in (b"0", b"0.0", b"-0.0", b"0E+3")],
    # More digits than any decimal of Spark's has.
    [_debezium_key(text) for text in (b"1" * 45, b"1" * 45 + b".000", b"1" * 44 + b".1e1")],
]


@pytest.mark.parametrize("keys", DEBEZIUM)
@pytest.mark.parametrize("format_name", ["debezium_json", "debezium_unwrapped_json"])
def test_keys_of_debezium(format_name: str, keys: list[bytes]) -> None:
    value = changed() if format_name == "debezium_json" else b'{"a":1}'
    of_keys = []
    for key in keys:
        (event,) = decode_payload(format_name, key, value)
        of_keys.append(event.record_key)
        # As it was sent, for nothing is lost.
        assert event.metadata is not None and b"event_key" in event.metadata
        together = decode_batch(format_name, [key] * 200, [value] * 200).payloads()
        assert together == [[event]] * 200
    assert len(set(of_keys)) == 1 and of_keys[0] is not None


def test_keys_of_documents() -> None:
    source = {"connector": "mongodb", "db": "shop", "collection": "orders"}
    of_keys = set()
    for number in ("2.5", '{"$numberDecimal":"2.50"}', '{"$numberDouble":"2.5"}', "25E-1"):
        value = dumps({"op": "c", "after": f'{{"_id":{number},"n":{number}}}', "source": source})
        key = dumps({"id": number})
        (event,) = decode_payload("debezium_json", key, value)
        of_keys.add(event.record_key)
        assert decode_batch("debezium_json", [key] * 99, [value] * 99).payloads() == [[event]] * 99
        of_change = b'{"_id":{"_data":"8"},"operationType":"delete","documentKey":{"_id":%b}}'
        (event,) = decode_payload("mongodb_json", None, of_change % number.encode())
        of_keys.add(event.record_key)
        (event,) = decode_payload("mongodb_json", b'{"_id":%b}' % number.encode(), None)
        of_keys.add(event.record_key)
    assert of_keys == {b'{"_id":2.5}'}


def test_keys_of_canal_and_maxwell() -> None:
    row = {"database": "a", "table": "b", "ts": 1}
    of_keys = set()
    for number in ("2.5", "2.50", "2.500"):
        canal = row | {"data": [{"id": number}], "pkNames": ["id"], "type": "INSERT", "es": 1}
        canal |= {"mysqlType": {"id": "decimal(10,3)"}}
        maxwell = dumps(row | {"data": {"id": 0}, "type": "insert"}).replace(
            b'"id":0', b'"id":%b' % number.encode()
        )
        key = b'{"database":"a","table":"b","pk.id":%b}' % number.encode()
        for name, of_message, value in (
            ("canal_json", None, dumps(canal)),
            ("maxwell_json", key, maxwell),
        ):
            (event,) = decode_payload(name, of_message, value)
            of_keys.add(event.record_key)
            assert event.after == b'{"id":%b}' % number.encode()
            together = decode_batch(name, [of_message] * 99, [value] * 99).payloads()
            assert together == [[event]] * 99
    assert of_keys == {b'{"id":2.5}'}


def test_another_scale_is_no_other_key_to_generate() -> None:
    evidence = KeyEvidence()
    (event,) = decode_payload("debezium_json", b'{"id":10}', changed(op="u"))
    for was, now in (("10", "1E+1"), ("2.5", "2.50"), ('{"scale":0,"value":"Cg=="}', "10")):
        images = [{"id": load(text.encode())} for text in (was, now)]
        evidence.add_update(event, ["id"], (images[0], images[1]), (1,))
    assert evidence.moved == 0
    evidence.add_update(event, ["id"], ({"id": 10}, {"id": 11}), (1,))
    assert evidence.moved == 1


# --- Keys that people give ------------------------------------------------------------------------


@pytest.mark.parametrize("type_name", ["string", "decimal(10,2)", "double", "int"])
def test_a_key_is_found_by_any_of_its_texts(type_name: str) -> None:
    for text in ("10", "1E+1", "10.0", "10.00", "1e1"):
        assert given_key(f'{{"id": {text}}}', ["id"], [type_name]) == ("10",)
    # Text is what it is.
    assert given_key('{"id": "1E+1"}', ["id"], ["string"]) == ("1E+1",)


@pytest.mark.parametrize(
    ("names", "shown"),
    [(["_digest"], '{"digest": ...}'), (["order", "line"], '{"order": ..., "line": ...}')],
)
def test_a_bare_value_is_told_how_a_key_is_written(names: list[str], shown: str) -> None:
    for text in ("7", '"abc"', "[7]"):
        with pytest.raises(UnusableKeyError) as refused:
            given_key(text, names, ["string"] * len(names))
        assert str(refused.value).endswith(f": '{shown}'")
        assert "7" not in str(refused.value) and "abc" not in str(refused.value)
