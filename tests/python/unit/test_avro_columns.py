"""Avro read by column gives what the strict reader gives, or nothing."""

import io
import json
import random
from typing import Any

import fastavro
import msgspec
import pytest

from python_udfs.core.budget import Budget
from python_udfs.core.errors import DecodeError
from python_udfs.text import avro_columns
from python_udfs.text.avro import parse_schemas, reader_of

_POINT = {
    "type": "record",
    "name": "Point",
    "fields": [
        {"name": "x", "type": "double"},
        {"name": "wkb", "type": ["null", "bytes"]},
    ],
}
_KINDS: dict[str, Any] = {
    "flag": "boolean",
    "number": "int",
    "small": {"type": "int", "connect.type": "int16"},
    "big": ["null", "long"],
    "ratio": ["float", "null"],
    "total": {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2},
    "name": ["null", "string"],
    "point": ["null", _POINT],
    "tags": {"type": "array", "items": ["null", "string"]},
    "path": ["null", {"type": "array", "items": "Point"}],
    "nothing": "null",
}
_SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": name, "type": kind} for name, kind in _KINDS.items()],
}
_WRITTEN = fastavro.parse_schema(
    json.loads(json.dumps(_SCHEMA).replace('"logicalType": "decimal", ', ""))
)


def _row(dice: random.Random) -> dict[str, Any]:
    def point() -> dict[str, Any]:
        return {"x": dice.uniform(-1e9, 1e9), "wkb": dice.choice((None, dice.randbytes(3)))}

    def text() -> str:
        return dice.choice(("", "é", "a" * 70, "shop", "\U0001f600"))

    return {
        "flag": dice.random() < 0.5,
        "number": dice.randrange(-(2**31), 2**31),
        "small": dice.randrange(-(2**15), 2**15),
        "big": dice.choice((None, 0, -1, 2**63 - 1, -(2**63))),
        "ratio": dice.choice((None, 0.5, float("inf"), 1e-40)),
        "total": dice.randbytes(dice.randrange(12)),
        "name": dice.choice((None, text())),
        "point": dice.choice((None, point())),
        "tags": [dice.choice((None, text())) for _ in range(dice.randrange(4))],
        "path": dice.choice((None, [], [point(), point()])),
        "nothing": None,
    }


def _written(row: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _WRITTEN, row)
    return stream.getvalue()


def _strictly(text: bytes) -> bytes | None:
    try:
        value, end = _READ(text, 0, Budget(len(text)))
    except DecodeError:
        return None
    small = value["small"]
    return msgspec.json.encode(value) if end == len(text) and -(2**15) <= small < 2**15 else None


_NODE = parse_schemas([json.dumps(_SCHEMA)])
_READ = reader_of(_NODE)
_READ_MANY = avro_columns.reader_of(_NODE, {})


def test_what_was_written_is_read() -> None:
    dice = random.Random(7)
    texts = [_written(_row(dice)) for _ in range(500)]
    places, values = _READ_MANY(texts)
    assert list(places) == list(range(500))
    assert [*map(msgspec.json.encode, values)] == [*map(_strictly, texts)]


def test_what_was_damaged_is_read_as_it_is_or_not_at_all() -> None:
    dice = random.Random(8)
    texts = []
    for _ in range(30_000):
        text = bytearray(_written(_row(dice)))
        place = dice.randrange(len(text))
        match dice.randrange(100):
            case 0:
                text[place] = dice.choice((0, 1, 2, 7, 0x7F, 0x80, 0xFF, dice.randrange(256)))
            case 1:
                del text[place:]
            case 2:
                text += dice.randbytes(3)
            case 3:
                # A length or a count far beyond its end.
                text[place : place + 1] = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
        texts.append(bytes(text))
    read = 0
    for start in range(0, len(texts), 200):
        some = texts[start : start + 200]
        places, values = _READ_MANY(some)
        for place, value in zip(places, values, strict=True):
            assert msgspec.json.encode(value) == _strictly(some[place]), some[place].hex()
        read += len(places)
    # One bad text takes away no more than a few others.
    assert read > len(texts) // 2


def test_a_bad_text_leaves_most_others() -> None:
    dice = random.Random(9)
    texts = [_written(_row(dice)) for _ in range(1000)]
    texts[123] = texts[123][:-1] + b"\xff\xff"
    texts[777] = b""
    places, _ = _READ_MANY(texts)
    assert len(places) >= 960
    assert not {123, 777} & set(places)


def test_records_are_what_the_caller_makes_of_them() -> None:
    made = avro_columns.reader_of(
        _NODE, {("point",): lambda *parts: parts, (): lambda *parts: parts[7]}
    )
    row = {**_row(random.Random(1)), "point": {"x": 1.5, "wkb": b"a"}}
    assert made([_written(row)])[1] == [(msgspec.Raw("1.5"), "YQ==")]


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "map", "values": "string"},
        {"type": "array", "items": "null"},
        {"type": "fixed", "name": "f", "size": 2},
        ["null", "int", "string"],
        {"type": "enum", "name": "e", "symbols": ["A"]},
        {"type": "record", "name": "r", "fields": []},
        {"type": "record", "name": "r", "fields": [{"name": "r", "type": ["null", "r"]}]},
    ],
)
def test_other_schemas_are_refused(kind: Any) -> None:
    schema = {"type": "record", "name": "Row", "fields": [{"name": "a", "type": kind}]}
    with pytest.raises(ValueError):
        avro_columns.reader_of(parse_schemas([json.dumps(schema)]), {})
