"""Packs MessagePack, and rebuilds Aerospike messages from decoded events, for the round-trip tests.

Written from the MessagePack specification and the vendor's page alone: it shares nothing with the
decoders, so that a mistake there can't cancel itself out here.
"""

import base64
import json
import struct
from typing import Any, NamedTuple

from python_udfs.core.events import Event


class Ext(NamedTuple):
    type: int
    data: bytes


class Packed(NamedTuple):
    """A value that is MessagePack already: for nesting that would exhaust the stack here."""

    data: bytes


class Map(NamedTuple):
    """A map as a list of pairs: any keys, any order, duplicates too."""

    pairs: list[tuple[Any, Any]]


def pack(value: Any) -> bytes:
    """MessagePack, each value in its shortest form, floats in 64 bits."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return _pack_int(value)
    if isinstance(value, float):
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        data = value.encode()
        return _header(len(data), (0xA0, 0x1F), 0xD9, 0xDA, 0xDB) + data
    if isinstance(value, bytes):
        return _header(len(value), None, 0xC4, 0xC5, 0xC6) + value
    if isinstance(value, Map):
        items = b"".join(pack(key) + pack(item) for key, item in value.pairs)
        return _header(len(value.pairs), (0x80, 0x0F), None, 0xDE, 0xDF) + items
    if isinstance(value, Ext):
        fixed = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(value.data))
        head = (
            bytes([fixed])
            if fixed is not None
            else _header(len(value.data), None, 0xC7, 0xC8, 0xC9)
        )
        return head + struct.pack(">b", value.type) + value.data
    if isinstance(value, list):
        items = b"".join(pack(item) for item in value)
        return _header(len(value), (0x90, 0x0F), None, 0xDC, 0xDD) + items
    if isinstance(value, Packed):
        return value.data
    raise TypeError(type(value))


def _pack_int(value: int) -> bytes:
    if 0 <= value <= 0x7F:
        return bytes([value])
    if -0x20 <= value < 0:
        return struct.pack(">b", value)
    forms = ("B", "H", "I", "Q") if value >= 0 else ("b", "h", "i", "q")
    first = 0xCC if value >= 0 else 0xD0
    for offset, form in enumerate(forms):
        try:
            return bytes([first + offset]) + struct.pack(">" + form, value)
        except struct.error:
            continue
    raise OverflowError(value)


def _header(
    length: int, fixed: tuple[int, int] | None, one: int | None, two: int, four: int
) -> bytes:
    if fixed is not None and length <= fixed[1]:
        return bytes([fixed[0] | length])
    if one is not None and length <= 0xFF:
        return struct.pack(">BB", one, length)
    if length <= 0xFFFF:
        return struct.pack(">BH", two, length)
    return struct.pack(">BI", four, length)


def message(events: list[Event]) -> Any:
    """The message that ``events`` were decoded from, as a tree for ``pack``."""
    records = [_record(event) for event in events]
    assert events[0].metadata is not None
    return records if "batch_size" in json.loads(events[0].metadata) else records[0]


def _record(event: Event) -> Any:
    assert event.metadata is not None and event.record_key is not None
    metadata = json.loads(event.metadata)
    user_key = metadata.get("user_key")
    if metadata.get("user_key_type") == "bin":
        user_key = base64.b64decode(user_key)
    key = [
        event.source_schema,
        event.source_table,
        base64.b64decode(json.loads(event.record_key)["digest"]),
        user_key,
    ]
    if event.operation == "delete":
        dates = [metadata[name] for name in ("generation", "expiry", "lut") if name in metadata]
        return [1, 2, [key, metadata["flags"], *dates]]
    assert event.after is not None
    bins = []
    for name, value in json.loads(event.after).items():
        note = metadata["bins"][name]
        nested = note.get("nested", {})
        if note["type"] in (4, 7, 18):  # BLOB, JAVA OBJ, HLL
            value = base64.b64decode(value)
        elif note["type"] == 23 and "$" not in nested:  # GEOJSON
            value = _compact(value)
        elif note["type"] != 23:
            value = _value(value, "$", nested)
        bins.append([name, note["type"], note["flags"], value])
    dates = [metadata[name] for name in ("generation", "expiry", "lut")]
    return [1, 1, [key, *dates, bins]]


def _value(value: Any, path: str, nested: dict[str, str]) -> Any:
    kind = nested.get(path)
    if kind == "bin":
        return base64.b64decode(value)
    if kind == "java":
        return Ext(7, base64.b64decode(value))
    if kind == "geojson":
        return Ext(23, _compact(value).encode())
    if kind == "float":
        return float(value)
    if kind == "map":
        return Map(
            [
                (
                    _value(key, f"{path}[{index}][0]", nested),
                    _value(item, f"{path}[{index}][1]", nested),
                )
                for index, (key, item) in enumerate(value)
            ]
        )
    if kind is not None:
        assert kind.startswith("ext ")
        return Ext(int(kind[4:]), base64.b64decode(value))
    if isinstance(value, list):
        return [_value(item, f"{path}[{index}]", nested) for index, item in enumerate(value)]
    if isinstance(value, dict):
        return Map([(key, _value(item, path + _step(key), nested)) for key, item in value.items()])
    return value


def _step(name: str) -> str:
    plain = name.isascii() and name.isidentifier()
    return f".{name}" if plain else f"[{json.dumps(name, ensure_ascii=False)}]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
