"""Aerospike's capture in JSON: home sensors, and the format page's own examples as printed."""

import struct
from typing import Any, Final

from tools.captures.aerospike_messagepack import Record, UserKey
from tools.captures.common import (
    CITIES,
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    YEAR_2040,
    Topic,
    at,
    b64,
    compact,
)

# The examples of the JSON page, exactly as it prints them: not indented, with trailing commas.
AEROSPIKE_JSON_WRITE: Final = b"""{
"msg": "write",
"key": ["ns", "set", "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null],
"gen": 4,
"exp": 1682797792,
"lut": 1617167159548,
"bins": [
{
"name": "myString",
"type": "str",
"value": "a string value"
},
{
"name": "myBlob",
"type": "blob",
"value": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
},
{
"name": "myList",
"type": "list",
"value": ["abc", "def", "ghi", "jkl"],
"ordered": true,
},
{
"name": "myMap",
"type": "map",
"value": {
"i": 42,
"f": 3.1415,
"l": [3, 2, 1, 0]
},
"order": "key-value"
},
{
"name": "myGeo",
"type": "geojson",
"value": { "type": "Point", "coordinates": [1.30824, 103.91327] }
}
]
}"""
AEROSPIKE_JSON_DELETE: Final = b"""{
"msg": "delete",
"key": ["ns", null, "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null],
"durable": true,
"gen": 4,
"lut": 1617167159548
}"""
AEROSPIKE_JSON_BATCH: Final = b"""[
{
"msg": "write",
"key": [
"ns",
"set",
"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",
null
],
"gen": 4,
"exp": 1682797792,
"lut": 1617167159548,
"bins": [
{
"name": "myString",
"type": "str",
"value": "a string value"
},
{
"name": "myBlob",
"type": "blob",
"value": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo="
},
{
"name": "myList",
"type": "list",
"value": [
"abc",
"def",
"ghi",
"jkl"
],
"ordered": true
},
{
"name": "myMap",
"type": "map",
"value": {
"i": 42,
"f": 3.1415,
"l": [
3,
2,
1,
0
]
},
"order": "key-value"
},
{
"name": "myGeo",
"type": "geojson",
"value": {
"type": "Point",
"coordinates": [
1.30824,
103.91327
]
}
}
]
},
{
"msg": "delete",
"key": [
"ns",
null,
"YWJjZGVmZ2hpamtsbW5vcHFyc3Q=",
null
],
"durable": true,
"gen": 4,
"lut": 1617167159548
}
]"""
AEROSPIKE_JSON_KEYS: Final = b"""[
["users", "premium", "k9lDquN7AXrX4BGwwdLiFDwvs30=", "id1234"],
["users", "premium", "JQlDquN7AXrX4BGwwdLiFDwvs30=", "id1235"],
]"""

MODELS: Final = ("HomeSense 2", "HomeSense 2 Pro", "LeakGuard", "AirNode")


def device_bins(n: int, revision: int) -> list[dict[str, Any]]:
    """The bins of device ``n``."""
    city = list(CITIES)[n % len(CITIES)]
    settings: dict[str, Any] = {
        "interval_s": 60 * (1 + n % 5),
        "thresholds": {"high": 28.5, "low": 4.0},
        "channels": [1, 6, 11],
    }
    bins: list[dict[str, Any]] = [
        {"name": "serial", "type": "str", "value": f"SN-{20_000 + n * 37}"},
        {"name": "model", "type": "str", "value": MODELS[n % len(MODELS)]},
        {"name": "firmware", "type": "str", "value": f"{2 + revision // 3}.{revision % 3}.0"},
        {"name": "battery", "type": "int", "value": 100 - (n * 3 + revision * 11) % 90},
        {"name": "temperature", "type": "float", "value": round(17.5 + n % 7 - revision * 0.3, 1)},
        {"name": "online", "type": "bool", "value": (n + revision) % 5 != 0},
        {
            "name": "location",
            "type": "geojson",
            "value": {"type": "Point", "coordinates": list(CITIES[city])},
        },
        {
            "name": "tags",
            "type": "list",
            "value": sorted({"indoor" if n % 2 else "outdoor", city.lower()}),
            "ordered": n % 3 != 0,
        },
        {"name": "settings", "type": "map", "value": settings},
    ]
    if n % 3 == 1:
        bins[-1]["order"] = "key"
    elif n % 3 == 2:
        bins[-1]["order"] = "key-value"
    if n % 4 == 0:
        calibration = struct.pack(">4f", 1.0, 0.25 * n, -0.5, revision)
        bins.append({"name": "calibration", "type": "blob", "value": b64(calibration)})
    return bins


def devices() -> Topic:
    """aerospike.iot.devices: Aerospike's JSON."""
    topic = Topic("aerospike.iot.devices", partitions=2)
    dice = topic.dice
    generation: dict[int, int] = {}

    def device(n: int) -> Record:
        user_key: UserKey = 500_000 + n if n % 4 == 2 else f"dev-{n:03}"
        return Record("iot", "devices", user_key, stored=n % 4 != 3)

    def key(n: int) -> list[Any]:
        namespace, name, digest, user_key = device(n).key()
        return [namespace, name, b64(digest), user_key]

    def record_write(n: int, lut: int, revision: int, expiry: int = 0) -> dict[str, Any]:
        generation[n] = generation.get(n, 0) + 1
        return {
            "msg": "write",
            "key": key(n),
            "gen": generation[n],
            "exp": expiry,
            "lut": lut,
            "bins": device_bins(n, revision),
        }

    def record_delete(n: int, *, with_set: bool = False, **fields: Any) -> dict[str, Any]:
        name = device(n).set if with_set else None
        return {"msg": "delete", "key": ["iot", name, b64(device(n).digest), None], **fields}

    def send(n: int, arrival: int, record: dict[str, Any], *, commas: bool = False) -> bytes:
        text, key_text = compact(record), compact(record["key"])
        if commas:
            # A trailing comma in the record, in its list of bins and in the key.
            text = text[:-1].replace(b"}]", b"},]", 1) + b",}"
            key_text = key_text[:-1] + b",]"
        topic.send(arrival, None if n % 8 == 7 else key_text, text, route=device(n).digest)
        return text

    def put(n: int, lut: int, revision: int, *, expiry: int = 0, arrival: int = 0) -> bytes:
        record = record_write(n, lut, revision, expiry)
        return send(n, arrival or lut + dice.between(30, 700), record, commas=revision == 1)

    for n in range(8, 34):
        when = at("2026-10-01T05:00:00") + n * 7 * HOUR + dice.between(0, 5 * HOUR)
        for revision in range(dice.between(1, 4)):
            put(n, when, revision)
            when += dice.between(6 * HOUR, 11 * DAY)
        if n in (12, 20, 27):
            send(n, when + 90, record_delete(n, durable=True, gen=generation[n] + 1, lut=when))

    # A late write and the same message twice.
    put(0, at("2026-10-04T06:00:00.000"), 0)
    put(0, at("2026-10-05T06:00:09.000"), 2)
    put(0, at("2026-10-05T06:00:01.000"), 1, arrival=at("2026-10-05T06:12:30.500"))
    put(1, at("2026-10-04T07:00:00.000"), 0)
    again = put(1, at("2026-10-06T07:00:00.000"), 1)
    topic.send(at("2026-10-06T07:00:02.000"), compact(key(1)), again, route=device(1).digest)
    # Returned to the shop, then sold again; deletes as real servers ship them, with fewer fields.
    put(2, at("2026-10-04T08:00:00.000"), 0)
    send(2, at("2026-10-18T08:00:00.000"), record_delete(2, with_set=True))
    put(2, at("2026-10-20T08:00:00.000"), 3)
    put(3, at("2026-10-04T09:00:00.000"), 0)
    lut = at("2026-10-19T09:00:00.000")
    send(3, lut + 80, record_delete(3, with_set=True, durable=False, gen=2, exp=0, lut=lut))
    put(4, at("2026-10-04T10:00:00.000"), 0)
    send(4, at("2026-10-21T10:00:00.000"), record_delete(4))
    # The delete overtakes the write.
    lut = at("2026-10-22T10:00:00.000")
    send(5, lut + 60, record_delete(5, durable=True, gen=2, lut=lut))
    put(5, lut - 4 * SECOND, 0, arrival=lut + 9 * SECOND)
    # Leased devices: the lease is over, or runs until 2040.
    put(6, at("2026-10-04T12:00:00.000"), 0, expiry=at("2026-11-01T12:00:00") // SECOND)
    put(7, at("2026-10-04T13:00:00.000"), 0, expiry=YEAR_2040)
    # A server that ships no LUT, behind an old connector: zero.
    send(7, at("2026-10-25T13:00:00.000"), record_write(7, 0, 1, YEAR_2040))
    # A tie.
    put(30, at("2026-11-16T10:00:00.000"), 4)
    put(30, at("2026-11-16T10:00:00.000"), 5, arrival=at("2026-11-16T10:00:01.250"))

    for step, day in enumerate((17, 18)):
        when = at(f"2026-11-{day}T03:00:00")
        members = [n for n in range(8, 34) if topic.partition_of(device(n).digest) == step][
            step : step + 4
        ]
        records = [record_write(n, when + i * 75, 6) for i, n in enumerate(members)]
        leaver = record_delete(members[0], durable=False, lut=when + SECOND)
        keys = [record["key"] for record in [*records, leaver]]
        topic.send(
            when + 2 * SECOND,
            compact(keys)[:-1] + b",]" if step else None,
            compact([*records, leaver])[:-1] + (b",]" if step else b"]"),
            partition=step,
        )

    # The page's own examples; they belong to another namespace.
    page_key = b'["ns", "set", "YWJjZGVmZ2hpamtsbW5vcHFyc3Q=", null]'
    when = at("2026-10-02T12:00:00")
    topic.send(when, page_key, AEROSPIKE_JSON_WRITE, partition=0)
    topic.send(when + MINUTE, None, AEROSPIKE_JSON_DELETE, partition=0)
    topic.send(when + 2 * MINUTE, AEROSPIKE_JSON_KEYS, AEROSPIKE_JSON_BATCH, partition=0)

    # Poison: cut off by a full disk; a message type that nobody has specified.
    torn = compact(record_write(9, at("2026-11-04T00:00:00"), 1))
    topic.send(at("2026-11-04T00:00:01"), compact(key(9)), torn[: len(torn) // 2], partition=1)
    touch = {"msg": "touch", "key": key(10), "gen": 3}
    topic.send(at("2026-11-05T00:00:01"), compact(key(10)), compact(touch), partition=0)
    return topic
