"""The exact text of a row image's fields, and HBase's binary values."""

import base64

import msgspec
import pytest

from python_udfs.images import (
    RowTexts,
    decode_hbase,
    json_elements,
    json_entries,
    row_texts,
    row_texts_of_many,
)


def test_texts_keep_every_digit_and_the_form_of_nested_values() -> None:
    image = (
        '{"price":1.10,"id":123456789012345678901234567890,"tags":["a",1.50],"name":"O\\"Neil",'
        '"gone":null,"flag":true}'
    )
    fields = '[["price","id","tags","name","gone","flag","absent"],[]]'
    assert row_texts(image, "{}", None, fields) == RowTexts(
        before=[
            "1.10",
            "123456789012345678901234567890",
            '["a",1.50]',
            'O"Neil',
            None,
            "true",
            None,
        ],
        after=[None] * 7,
        key=None,
    )


def test_no_image_has_no_texts() -> None:
    assert row_texts(None, None, None, '[["a"],["a"]]') == RowTexts(None, None, None)


@pytest.mark.parametrize(
    ("before", "after", "key"),
    [
        (None, '{"a":1,"b":2}', None),
        ('{"a":1,"b":2}', None, None),
        # The row image is the one after.
        ('{"a":1,"b":2}', '{"a":1,"c":3}', ["7", "8"]),
        (None, '{"a":null,"b":2}', ["7", "8"]),
        (None, None, ["7", "8"]),
    ],
)
def test_the_record_key_says_what_the_row_image_lacks(
    before: str | None, after: str | None, key: list[str | None] | None
) -> None:
    fields = '[["a","c","b"],["a","b"]]'
    assert row_texts(before, after, '{"a":7,"b":8}', fields).key == key
    assert row_texts(before, after, None, fields).key is None
    assert row_texts(before, "{}", '{"a":7,"b":8}', '[["a"],[]]').key is None


def test_an_image_that_is_no_object_is_a_bug() -> None:
    with pytest.raises(msgspec.DecodeError):
        row_texts(None, "[1]", None, '[["a"],[]]')


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
    [
        ("int", "AAAAAAAAACM="),
        ("bigint", ""),
        ("string", "/w=="),
        ("int", "no base64"),
        # The text 12.50, the most negative scale, a scale alone, and 20,000 digits.
        ("decimal(10,2)", "MTIuNTA="),
        ("decimal(10,2)", "gAAAAAE="),
        ("decimal(10,2)", "AAAAAg=="),
        ("decimal(10,2)", base64.b64encode(bytes(4) + b"\x7f" * 8300).decode()),
    ],
)
def test_bytes_that_are_no_value_of_the_type_give_nothing(type_name: str, shipped: str) -> None:
    assert decode_hbase(shipped, type_name) is None


def test_binary_stays_base64_and_null_stays_null() -> None:
    assert decode_hbase("/w==", "binary") == "/w=="
    assert decode_hbase(None, "int") is None


def test_a_type_that_hbase_has_no_form_for_is_a_wrong_configuration() -> None:
    with pytest.raises(ValueError, match="no HBase form for type 'date'"):
        decode_hbase("AAAA", "date")


# Images, and the texts of what they hold.
IMAGES: list[tuple[bytes | None, dict[str, str]]] = [
    (None, {}),
    (b"{}", {}),
    (b'{"a":1,"b c":null,"d":true}', {"a": "1", "d": "true"}),
    (b'{"a":1.10,"d":[1.50,{"x":2e5}]}', {"a": "1.10", "d": '[1.50,{"x":2e5}]'}),
    (
        '{"é":"ü\\n","a":"\\u0041","q\\"x":{"y":1}}'.encode(),
        {"é": "ü\n", "a": "A", 'q"x': '{"y":1}'},
    ),
    (
        b'{"a":123456789012345678901234567890,"d":-1}',
        {"a": "123456789012345678901234567890", "d": "-1"},
    ),
    (b'{"a":' + b"9" * 5000 + b"}", {"a": "9" * 5000}),
    (b'{"a":[1,\n2]}', {"a": "[1,\n2]"}),
]


@pytest.mark.parametrize("fields", [("a", "b c", "é", "d", "absent"), ('q"x', "a"), ()])
@pytest.mark.parametrize("at_once", [1, 5, len(IMAGES)])
def test_texts_of_many(fields: tuple[str, ...], at_once: int) -> None:
    expected = [
        None if image is None else [texts.get(field) for field in fields] for image, texts in IMAGES
    ]
    for start in range(0, len(IMAGES), at_once):
        images = [image for image, _ in IMAGES[start : start + at_once]]
        nothing: list[bytes | None] = [None] * len(images)
        befores, afters, keys = row_texts_of_many(images, images[::-1], nothing, fields, ())
        assert befores == expected[start : start + at_once]
        assert afters == befores[::-1]
        assert keys == [None] * len(images)
