"""The exact text of a row image's fields, and HBase's binary values."""

import base64
import tracemalloc
from collections.abc import Callable
from itertools import islice

import msgspec
import pytest
from support.row_images import RowTexts, row_texts

from python_udfs.typed.images import (
    Collections,
    decode_hbase,
    json_elements,
    json_elements_of_many,
    json_entries,
    json_entries_of_many,
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


UNAVAILABLE = "__debezium_unavailable_value"


def test_paths_lead_into_fields() -> None:
    image = '{"a":{"b":[{"c":1.50},"x"],"":null,"1":2},"t":"{\\"b\\":1}","n":7}'
    paths = [["a", "b", "0", "c"], ["a", "b", "1"], ["a", "b", "2"], ["a", "b"], ["a", "1"]]
    nothing = [["a", ""], ["t", "b"], ["n", "b"], ["z", "b"], ["a", "b", "c"], ["a", "b", "-1"]]
    fields = msgspec.json.encode([[*paths, *nothing, "n", []], []]).decode()
    found = row_texts(None, image, None, fields)
    texts = ["1.50", "x", None, '[{"c":1.50},"x"]', "2"]
    assert found.after == [*texts, *[None] * len(nothing), "7", image]
    assert found.parts is None


def test_a_partial_image_leaves_what_it_does_not_name() -> None:
    image = (
        '{"_id":1,"n":null,"o":{"p":2},"$partial":{"updated":{"a.b":"x","a.c":null,"d.0.e":{"f":1}},'
        '"truncated":{"t":2,"u.v":0}}}'
    )
    found = {
        '"_id"': ("1", None),
        '"n"': (None, None),
        '"z"': (UNAVAILABLE, None),
        '["o","p"]': ("2", None),
        '["a","b"]': ("x", None),
        '["a","c"]': (None, None),
        '["a","z"]': (UNAVAILABLE, None),
        '"a"': (UNAVAILABLE, '{"a.b":"x","a.c":null}'),
        '["d","0","e","f"]': ("1", None),
        '["d","0"]': (UNAVAILABLE, '{"d.0.e":{"f":1}}'),
        '"t"': (UNAVAILABLE, '{"t":{"$truncated":2}}'),
        '["t","1"]': (UNAVAILABLE, None),
        '["t","2","x"]': (None, None),
        '"u"': (UNAVAILABLE, '{"u.v":{"$truncated":0}}'),
        "[]": (UNAVAILABLE, image),
    }
    texts = row_texts(None, image, '{"_id":1}', f"[[{','.join(found)}],[]]")
    assert (
        dict(zip(found, zip(texts.after or (), texts.parts or (), strict=True), strict=True))
        == found
    )
    # A key that isn't there is looked for in the message's.
    unkeyed = image.replace('"_id":1,', "")
    keyed = row_texts(None, unkeyed, '{"_id":5}', '[["_id","n"],["_id"]]')
    assert (keyed.after, keyed.key) == ([None, None], ["5"])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(('{"id":1}', value) for value in ("{}", "5", '{"updated":{"x":7}}', '{"a":{}}', "null")),
        *((None, value) for value in ("{}", '"text"')),
        *(('{"_id":1}', value) for value in ("5", '"text"', "[]", '{"x":{}}', '{"updated":1}')),
    ],
)
def test_a_column_may_have_the_name_of_what_says_partial(key: str | None, value: str) -> None:
    image = f'{{"_id":1,"$partial":{value}}}'
    texts = row_texts(None, image, key, '[["_id","x","$partial"],[]]')
    column = {"null": None, '"text"': "text"}.get(value, value)
    assert (texts.after, texts.parts) == (["1", None, column], None)
    # And so may something in an image.
    assert row_texts(None, f'{{"a":{image}}}', key, '[["b"],[]]').parts is None


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


@pytest.mark.parametrize("before", ["Struct{id=1}", "7", "null", "[1]", "", '{"a":1', "{}{}"])
def test_a_row_before_that_is_no_object_is_none(before: str) -> None:
    """It may be the other key of a key update, in an event that an older version has decoded."""
    fields = '[["a"],["a"]]'
    assert row_texts(before, '{"a":1}', '{"a":2}', fields) == RowTexts(None, ["1"], None)
    assert row_texts(before, None, '{"a":2}', fields) == RowTexts(None, None, ["2"])
    befores, *_ = row_texts_of_many(
        [b'{"a":5}', before.encode(), None, b'{"a":[ 6 ]}'], [None] * 4, [None] * 4, ("a",), ()
    )
    assert befores == [["5"], None, None, ["[ 6 ]"]]


def test_an_image_that_is_no_object_is_a_bug() -> None:
    with pytest.raises(msgspec.DecodeError):
        row_texts(None, "[1]", None, '[["a"],[]]')


# JSON arrays and the texts of their elements.
ARRAYS: list[tuple[str | None, list[str | None] | None]] = [
    ("[]", []),
    ('["a","\\u00fc\\n",null]', ["a", "ü\n", None]),
    ("[1,-0,123456789012345678901234567890]", ["1", "0", "123456789012345678901234567890"]),
    ("[ 1.10 , 2E5, true, false ]", ["1.10", "2E5", "true", "false"]),
    ('[1.10,"a",[1.0, {}],{"x": null}]', ["1.10", "a", "[1.0, {}]", '{"x": null}']),
    ("[" + "9" * 5000 + "]", ["9" * 5000]),
    *((text, None) for text in (None, "", "1", "text", "[1", "[1,", "2]", "[1] [2]", '"[]"')),
    ('["\\ud800"]', None),
]
# Each alone, all at once, and those of a kind.
CHOICES = [*([place] for place in range(len(ARRAYS))), list(range(len(ARRAYS))), [0, 1, 2, 7]]


@pytest.mark.parametrize("value", ["[]", "{}", "1.5", "1", '""', '{"":0}', "[[[]]]", "9" * 5000])
def test_many_small_values_take_less_than_forty_times_their_text(value: str) -> None:
    count = 30_000 // len(value)
    array = f"[{','.join([value] * count)}]"
    entries = [f'"{number:x}":{value}' for number in range(count)]
    for text, of_many in (
        (array, json_elements_of_many),
        (f"{{{','.join(entries)}}}", json_entries_of_many),
    ):
        tracemalloc.start()
        try:
            assert of_many([text]).lengths == [count]
            assert tracemalloc.get_traced_memory()[1] < 40 * len(text)
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize("places", CHOICES)
def test_elements_and_entries_keep_every_digit(places: list[int]) -> None:
    arrays = [ARRAYS[place] for place in places]
    texts = [text for text, _ in arrays]
    expected = [elements for _, elements in arrays]
    assert [json_elements(text) for text in texts] == expected
    assert elements_of(json_elements_of_many(texts)) == expected

    objects = [as_object(text, elements) for text, elements in arrays]
    texts = [text for text, _ in objects]
    entries = [entries for _, entries in objects]
    assert [json_entries(text) for text in texts] == entries
    assert entries_of(json_entries_of_many(texts)) == entries


def as_object(
    text: str | None, elements: list[str | None] | None
) -> tuple[str | None, dict[str, str | None] | None]:
    """An object with an array's elements under the names 0, 1 and so on, and its entries. The first
    name is there twice, and what it had first is gone.
    """
    if text is None or elements is None:
        return text and text.replace("[", "{").replace("]", "}"), None
    items = msgspec.json.decode(text, type=list[msgspec.Raw])
    named = [f'"{place}":{bytes(item).decode()}' for place, item in enumerate(items)]
    written = "{" + ",".join(['"0":"gone"', *named] if named else []) + "}"
    return written, {str(place): element for place, element in enumerate(elements)}


def elements_of(found: Collections) -> list[list[str | None] | None]:
    texts = iter(found.texts)
    assert found.names == []
    return [None if each is None else list(islice(texts, each)) for each in found.lengths]


def entries_of(found: Collections) -> list[dict[str, str | None] | None]:
    named = iter(zip(found.names, found.texts, strict=True))
    return [None if each is None else dict(islice(named, each)) for each in found.lengths]


@pytest.mark.parametrize("read", [json_elements, json_entries])
def test_the_other_kind_of_collection_is_none(
    read: Callable[[str], list[str | None] | dict[str, str | None] | None],
) -> None:
    assert (read("[]"), read("{}")) in (([], None), (None, {}))


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
    (b'{"a": [1, 2.50] ,"d": "\\u0041"}', {"a": "[1, 2.50]", "d": "A"}),
    (b'{"a":-0,"d":[-0]}', {"a": "0", "d": "[-0]"}),
    (b'{"a":{},"d":-0}', {"a": "{}", "d": "0"}),
    (b'{"a":-0.0,"d":"-0"}', {"a": "-0.0", "d": "-0"}),
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
        befores, afters, keys, _ = row_texts_of_many(images, images[::-1], nothing, fields, ())
        assert befores == expected[start : start + at_once]
        assert afters == befores[::-1]
        assert keys == [None] * len(images)
