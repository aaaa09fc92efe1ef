"""The exact text of a row image's fields, and HBase's binary values."""

import base64

import msgspec
import pytest

from python_udfs.images import (
    decode_hbase,
    json_elements,
    json_entries,
    json_texts,
    json_texts_of_many,
)


def test_texts_keep_every_digit_and_the_form_of_nested_values() -> None:
    image = (
        '{"price":1.10,"id":123456789012345678901234567890,"tags":["a",1.50],"name":"O\\"Neil",'
        '"gone":null,"flag":true}'
    )
    fields = ("price", "id", "tags", "name", "gone", "flag", "absent")
    assert json_texts(image, fields) == [
        "1.10",
        "123456789012345678901234567890",
        '["a",1.50]',
        'O"Neil',
        None,
        "true",
        None,
    ]


def test_no_image_has_no_texts() -> None:
    assert json_texts(None, ("a",)) is None
    assert json_texts("{}", ("a",)) == [None]


def test_an_image_that_is_no_object_is_a_bug() -> None:
    with pytest.raises(msgspec.DecodeError):
        json_texts("[1]", ("a",))


def test_elements_and_entries_keep_every_digit() -> None:
    assert json_elements('[1.10,"a",null,[1.0]]') == ["1.10", "a", None, "[1.0]"]
    assert json_entries('{"a":1.10,"b":"x","c":null}') == {"a": "1.10", "b": "x", "c": None}


@pytest.mark.parametrize("text", [None, "", "1", "text", "[1", "{", '"[]"'])
def test_what_is_no_collection_has_none(text: str | None) -> None:
    assert json_elements(text) is None
    assert json_entries(text) is None


# What org.apache.hadoop.hbase.util.Bytes.toBytes writes: big-endian, two's complement.
@pytest.mark.parametrize(
    ("type_name", "hexadecimal", "text"),
    [
        ("string", "6c75636b79", "lucky"),
        ("string", "", ""),
        ("boolean", "ff", "true"),
        ("boolean", "00", "false"),
        ("tinyint", "80", "-128"),
        ("smallint", "7fff", "32767"),
        ("int", "80000000", "-2147483648"),
        ("int", "00000023", "35"),
        ("bigint", "7fffffffffffffff", "9223372036854775807"),
        ("bigint", "ffffffffffffffff", "-1"),
        ("float", "3fc00000", "1.5"),
        ("double", "c004000000000000", "-2.5"),
        ("decimal(10,2)", "0000000204d2", "12.34"),
        ("decimal(10,2)", "00000002ff", "-0.01"),
    ],
)
def test_hbase_values(type_name: str, hexadecimal: str, text: str) -> None:
    shipped = base64.b64encode(bytes.fromhex(hexadecimal)).decode()
    assert decode_hbase(shipped, type_name) == text


@pytest.mark.parametrize(
    ("type_name", "shipped"),
    [("int", "AAAAAAAAACM="), ("bigint", ""), ("string", "/w=="), ("int", "no base64")],
)
def test_bytes_that_are_no_value_of_the_type_give_nothing(type_name: str, shipped: str) -> None:
    assert decode_hbase(shipped, type_name) is None


def test_binary_stays_base64_and_null_stays_null() -> None:
    assert decode_hbase("/w==", "binary") == "/w=="
    assert decode_hbase(None, "int") is None


def test_a_type_that_hbase_has_no_form_for_is_a_wrong_configuration() -> None:
    with pytest.raises(ValueError, match="no HBase form for type 'date'"):
        decode_hbase("AAAA", "date")


IMAGES: list[bytes | None] = [
    None,
    b"{}",
    b'{"a":1,"b c":null,"d":true}',
    b'{"a":1.10,"d":[1.50,{"x":2e5}]}',
    '{"é":"ü\\n","a":"\\u0041","q\\"x":{"y":1}}'.encode(),
    b'{"a":123456789012345678901234567890,"d":-1}',
    b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":[1,\n2]}',
]


@pytest.mark.parametrize("fields", [("a", "b c", "é", "d", "absent"), ('q"x', "a"), ()])
def test_texts_of_many(fields: tuple[str, ...]) -> None:
    one_by_one = [None if image is None else json_texts(image, fields) for image in IMAGES]
    assert json_texts_of_many(IMAGES, fields) == one_by_one
    assert [json_texts_of_many([image], fields)[0] for image in IMAGES] == one_by_one
