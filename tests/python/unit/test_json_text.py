"""JSON text: what is read, what is refused and why, and that no digit is lost."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from python_udfs.core.errors import (
    BadField,
    DecodeError,
    NotJson,
    TooDeep,
    TooLarge,
    TrailingBytes,
    Truncated,
)
from python_udfs.core.limits import MAX_DEPTH, MAX_PAYLOAD_BYTES
from python_udfs.text import json_text

VALUES: list[tuple[bytes, Any]] = [
    (b"null", None),
    (b" \t\r\n true ", True),
    (b"0", 0),
    (b"-0", 0),
    (b"9223372036854775807", 2**63 - 1),
    (b"18446744073709551616", 2**64),
    (b"-170141183460469231731687303715884105728", -(2**127)),
    (b"1.50", Decimal("1.50")),
    (b"-0.0", Decimal("-0.0")),
    (b"1e400", Decimal("1e400")),
    (b"1E-400", Decimal("1e-400")),
    (b"0.1000000000000000055511151231257827", Decimal("0.1000000000000000055511151231257827")),
    (b'"\\u0000\\u00e9\\ud83d\\ude00\\/"', "\0é😀/"),
    ('"é😀\x7f"'.encode(), "é😀\x7f"),
    (b'"\\\\ud800"', "\\ud800"),
    (b"\xef\xbb\xbf[]", []),
    (b'{"a":{"b":[1,{}]}}', {"a": {"b": [1, {}]}}),
]

ERRORS = [
    (b"", Truncated, "byte 0"),
    (b" \n", Truncated, "byte 2"),
    (b"\xef\xbb\xbf", Truncated, "byte 3"),
    (b"tru", Truncated, "inside 'true'"),
    (b"[nul", Truncated, "byte 4"),
    (b"-", Truncated, "inside a number"),
    (b"1.", Truncated, "inside a number"),
    (b"1e", Truncated, "inside a number"),
    (b"[1e+", Truncated, "inside a number"),
    (b"[1", Truncated, "inside an array"),
    (b'{"a"', Truncated, "':'"),
    (b'{"a":', Truncated, "byte 5"),
    (b'{"a":1,', Truncated, "inside an object"),
    (b'"abc', Truncated, "inside a string"),
    (b'"abc\\', Truncated, "inside a string"),
    (b'"\\u12', Truncated, "inside a string"),
    (b'"\\ud83d', Truncated, "inside a string"),
    (b'"\\ud83d\\ude', Truncated, "inside a string"),
    (b'"abc\xe2\x82', Truncated, "inside a string"),
    (b"hello", NotJson, "byte 0"),
    (b"trux", NotJson, "byte 0"),
    (b"truex", NotJson, "byte 4"),
    (b"nul ", NotJson, "byte 0"),
    (b"01", NotJson, "byte 1"),
    (b"+1", NotJson, "byte 0"),
    (b".5", NotJson, "byte 0"),
    (b"-x", NotJson, "byte 0"),
    (b"1.e5", NotJson, "byte 1"),
    (b"0x1F", NotJson, "byte 1"),
    (b"NaN", NotJson, "byte 0"),
    (b"[Infinity]", NotJson, "byte 1"),
    (b"{'a':1}", NotJson, "byte 1"),
    (b"{a:1}", NotJson, "byte 1"),
    (b'{"a" 1}', NotJson, "byte 5"),
    (b"[1 2]", NotJson, "byte 3"),
    (b"[1}", NotJson, "byte 2"),
    (b"[1,]", NotJson, "comma before ']' at byte 2"),
    (b'{"a":1,}', NotJson, "comma before '}' at byte 6"),
    (b"[,1]", NotJson, "byte 1"),
    (b"/* */ 1", NotJson, "byte 0"),
    (b'"a\tb"', NotJson, "0x09"),
    (b'"\\x41"', NotJson, "escape"),
    (b'"\\u12g4"', NotJson, "escape"),
    (b"\x0c1", NotJson, "byte 0x0c"),
    (b"\x00\x00\x00\x00\x01{}", NotJson, "byte 0x00"),
    ('{"a":1}'.encode("utf-16"), NotJson, "byte 0"),
    (b'"\xff"', BadField, "invalid UTF-8 at byte 1"),
    (b'{"a":"\xc0\x80"}', BadField, "invalid UTF-8 at byte 6"),
    (b'"\xed\xa0\x80"', BadField, "invalid UTF-8"),
    (b'["\xe2\x82"', BadField, "invalid UTF-8"),
    (b'"\\ud800"', BadField, "\\ud800 at byte 1"),
    (b'"ab\\ud800x"', BadField, "byte 3"),
    (b'"\\udc00"', BadField, "unpaired surrogate"),
    (b'"\\ud800\\u0041"', BadField, "unpaired surrogate"),
    (b'["\\ud800\\ud800\\udc00"', BadField, "byte 2"),
    (b"[1e9999999999999999999]", BadField, "exponent"),
    (b"{}{}", TrailingBytes, "from byte 2"),
    (b"1 2", TrailingBytes, "1 bytes"),
    (b'"a" x', TrailingBytes, "from byte 4"),
    (b"[" * (MAX_DEPTH + 1), TooDeep, f"byte {MAX_DEPTH}"),
    (b"[" * 100_000, TooDeep, f"byte {MAX_DEPTH}"),
    (b'{"a":' * 300 + b"1" + b"}" * 300, TooDeep, "256 levels"),
    (b" " * (MAX_PAYLOAD_BYTES + 1), TooLarge, str(MAX_PAYLOAD_BYTES)),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_reads(text: bytes, value: object) -> None:
    parsed = json_text.parse(text)
    assert parsed == value
    assert type(parsed) is type(value)
    assert str(parsed) == str(value)


@pytest.mark.parametrize(("text", "error", "says"), ERRORS, ids=lambda item: repr(item)[:40])
def test_refuses(text: bytes, error: type[DecodeError], says: str) -> None:
    with pytest.raises(error) as raised:
        json_text.parse(text)
    assert type(raised.value) is error
    assert says in str(raised.value)


def test_depth_limit_is_inclusive() -> None:
    text = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert json_text.dumps(json_text.parse(text)) == text


def test_many_shallow_brackets_are_not_deep() -> None:
    text = b"[" + b",".join([b'{"a":["[[[["]}'] * 1000) + b"]"
    assert len(json_text.parse(text)) == 1000


@pytest.mark.parametrize("text", [b"7" * 6000, b"-" + b"7" * 6000, b"0." + b"7" * 6000])
def test_numbers_of_any_length(text: bytes) -> None:
    assert json_text.dumps(json_text.parse(text)) == text


def test_huge_exponent_is_not_expanded() -> None:
    assert json_text.dumps(json_text.parse(b"[1e999999999]")) == b"[1E+999999999]"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"[1,]", [1]),
        (b"[[],]", [[]]),
        (b'{"a":1,}', {"a": 1}),
        (b'{"a":[1,2 , ] ,\n}', {"a": [1, 2]}),
        (b'{"a":"x,]",}', {"a": "x,]"}),
        (b"[" + b"7" * 5000 + b",]", [Decimal("7" * 5000)]),
        (b"[1.50,]", [Decimal("1.50")]),
    ],
)
def test_trailing_commas(text: bytes, value: object) -> None:
    assert json_text.parse(text, trailing_commas=True) == value
    with pytest.raises(NotJson):
        json_text.parse(text)


@pytest.mark.parametrize("text", [b"[,]", b"{,}", b"[1,,]", b"[,1]", b'{"a":,}', b"[1,}", b"1,"])
def test_no_other_commas(text: bytes) -> None:
    with pytest.raises((NotJson, TrailingBytes)):
        json_text.parse(text, trailing_commas=True)


def test_canonical_sorts_at_every_level() -> None:
    value = {"b": {"z": 1, "a": Decimal("1.50")}, "a": [{"y": "é", "x": None}]}
    assert json_text.canonical(value) == (
        '{"a":[{"x":null,"y":"é"}],"b":{"a":1.50,"z":1}}'.encode()
    )
    assert json_text.dumps(value).startswith(b'{"b"')


def test_duplicate_name() -> None:
    assert json_text.parse(b'{"a":1,"a":2}') == {"a": 2}
    assert json_text.duplicate_name(b'{"b":[{"a":1,"a":2}]}') == "a"
    assert json_text.duplicate_name(b'{"b":[{"a":1},{"a":2}],"a":' + b"7" * 5000 + b"}") is None
    # Not in a time that grows with their square: this would take hours.
    names = ",".join(f'"{number}":1' for number in (*range(400_000), 399_999))
    assert json_text.duplicate_name(f"{{{names}}}".encode()) == "399999"


DOCUMENTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=5), children, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(DOCUMENTS)
def test_round_trip_keeps_every_digit(value: object) -> None:
    text = json_text.dumps(value)
    assert json_text.dumps(json_text.parse(text)) == text
    assert json_text.scan(text) == []


@settings(max_examples=60, deadline=None)
@given(DOCUMENTS.filter(lambda value: isinstance(value, dict | list | str)))
def test_every_prefix_is_truncated(value: object) -> None:
    text = json_text.dumps(value)
    for length in range(len(text)):
        with pytest.raises(Truncated):
            json_text.parse(text[:length])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=12) | st.text('[]{}",:0123456789.eE+-truefalsn\\ud8', max_size=12))
def test_agrees_with_another_parser(text: bytes | str) -> None:
    """Accepts what Python's json accepts, but for the extensions and surrogates that json adds."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    payload = text if isinstance(text, bytes) else text.encode()
    try:
        expected = json.loads(payload.decode("utf-8"), parse_float=Decimal, parse_constant=refuse)
        json.dumps(expected, ensure_ascii=False, default=str).encode()
        accepted = True
    except ValueError:
        accepted = False
    try:
        parsed = json_text.parse(payload)
    except DecodeError:
        assert not accepted
    else:
        if accepted:
            assert parsed == expected
        else:
            assert payload.startswith(json_text.BOM)
