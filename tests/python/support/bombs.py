"""Payloads that are small and want to become large: each makes about so many bytes.

python bombs.py [format ...]     what each takes, in a process of its own limit
"""

import base64
import json
import struct
from collections.abc import Callable
from typing import Final

from support.aerospike_encoder import Map, Packed, pack

DIGEST: Final = b"abcdefghijklmnopqrst"
KEY: Final = ["ns", "set", DIGEST, None]


def write(*bins: object) -> list[object]:
    return [1, 1, [KEY, 1, 0, 1_700_000_000_000, list(bins)]]


def array(item: bytes, size: int) -> Packed:
    """A MessagePack array of one item over and over."""
    count = size // len(item)
    return Packed(b"\xdd" + struct.pack(">I", count) + item * count)


def batch(records: list[bytes]) -> bytes:
    return b"\xdd" + struct.pack(">I", len(records)) + b"".join(records)


def listed(item: bytes) -> Callable[[int], bytes]:
    return lambda size: pack(write(["l", 20, 0, array(item, size)]))


def behind_a_name(item: bytes, name: str, divisor: int = 2) -> Callable[[int], bytes]:
    """Half of the payload is a name, the rest values that are told by paths with it."""
    return lambda size: pack(
        write(["m", 19, 0, Map([(name * (size // divisor), array(item, size // 2))])])
    )


def deep_names(size: int) -> bytes:
    tree: object = array(b"\xc4\x00", size // 2)
    for _ in range(200):
        tree = Map([("n" * (size // 400), tree)])
    return pack(write(["m", 19, 0, tree]))


def in_lists(item: bytes) -> Callable[[int], bytes]:
    """Values behind so many steps that each path is as long to write as a thousand bytes."""
    return lambda size: pack(write(["l", 20, 0, Packed(b"\x91" * 240 + array(item, size).data)]))


def many_bins(bin_of: Callable[[int], list[object]], each: int) -> Callable[[int], bytes]:
    return lambda size: pack(write(*(bin_of(number) for number in range(size // each))))


MESSAGEPACK: Final[dict[str, Callable[[int], bytes]]] = {
    "empty blobs": listed(b"\xc4\x00"),
    "no numbers": listed(b"\xcb\x7f\xf8" + b"\x00" * 6),
    "float32 infinities": listed(b"\xca\x7f\x80\x00\x00"),
    "empty lists": listed(b"\x90"),
    "empty maps": listed(b"\x80"),
    "maps of integers": listed(b"\x81\x00\x00"),
    "maps of a text": listed(b"\x81\xa0\x00"),
    "lists in lists": listed(b"\x91\x91\x91\x90"),
    "ext values": listed(b"\xc7\x00\x05"),
    "timestamps": listed(b"\xd6\xff\x00\x00\x00\x00"),
    "bad timestamps": listed(b"\xc7\x00\xff"),
    "GeoJSON objects": listed(b"\xc7\x02\x17{}"),
    "no GeoJSON": listed(b"\xc7\x02\x17{,"),
    "texts of a character": listed(b"\xa2\xc3\xa9"),
    "nils": listed(b"\xc0"),
    "blobs behind a name": behind_a_name(b"\xc4\x00", "n"),
    "blobs behind a wide name": behind_a_name(b"\xc4\x00", "\U0001f600", 8),
    "blobs behind a mixed name": behind_a_name(b"\xc4\x00", "\U0001f600" + "n" * 99, 200),
    "blobs behind a controlled name": behind_a_name(b"\xc4\x00", "\x01"),
    "maps behind a name": behind_a_name(b"\x81\x00\x00", "n"),
    "blobs behind deep names": deep_names,
    "blobs in deep lists": in_lists(b"\xc4\x00"),
    "infinities in deep lists": in_lists(b"\xca\x7f\x80\x00\x00"),
    "blobs in deep lists of their own": in_lists(b"\x91\xc4\x00"),
    "a batch of records with long paths": lambda size: batch(
        [behind_a_name(b"\xc4\x00", "n")(size // 16)] * 16
    ),
    "a batch of nils": lambda size: batch([b"\xc0"] * size),
    "a batch of empty lists": lambda size: batch([b"\x90"] * size),
    "a batch of bad texts": lambda size: batch([b"\xa1\xff"] * (size // 2)),
    "a batch behind a record": lambda size: batch([pack(write()), *[b"\x00"] * size]),
    "a batch of bad bins": lambda size: batch([pack(write(["n" * 50, 3, 0, 1]))] * (size // 110)),
    "a batch of deletes": lambda size: batch([pack([1, 2, [KEY, 0]])] * (size // 36)),
    "small bins": many_bins(lambda number: [f"{number:x}", 1, 0, 5], 10),
    "small bins of an unknown type": many_bins(lambda number: [f"{number:x}", 99, 0, b""], 11),
    "a GeoJSON text with blanks": lambda size: pack(
        write(["g", 23, 0, f'{{"a":[{"1 ," * (size // 3)}1]}}'])
    ),
    "small GeoJSON texts": many_bins(lambda number: [f"{number:x}", 23, 0, "x"], 11),
    "lists that declare more": lambda size: b"\xdc\xff\xff" * (size // 3),
    "lists that declare most": lambda size: b"\xdd" + struct.pack(">I", size) * (size // 5),
    "lists that declare what there is": lambda size: (
        (b"\xdd" + struct.pack(">I", size - 1100)) * 200 + b"\xc0" * (size - 1000)
    ),
    "maps that declare more": lambda size: b"\xde\xff\xff" * (size // 3),
    "a write that declares more": lambda size: (
        pack(write(["l", 20, 0, 7]))[:-1] + b"\xdc\xff\xff" * (size // 3)
    ),
    "lists that end too early": lambda size: listed(b"\x90")(size)[:-1],
    "a batch that ends too early": lambda size: batch(
        [pack(write(["l", 20, 0, [[]]]))] * (size // 60)
    )[:-1],
}


def json_write(*bins: str) -> str:
    key = json.dumps(["ns", "set", base64.b64encode(DIGEST).decode(), None])
    dates = '"gen":1,"exp":0,"lut":1700000000000'
    return f'{{"msg":"write","key":{key},{dates},"bins":[{",".join(bins)}]}}'


def json_bin(name: str, kind: str, value: str) -> str:
    return f'{{"name":"{name}","type":"{kind}","value":{value}}}'


def json_listed(item: str) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        items = ",".join([item] * (size // (len(item.encode()) + 1)))
        return json_write(json_bin("l", "list", f"[{items}]")).encode()

    return make


def json_behind_a_name(item: str, name: str) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        items = ",".join([item] * (size // 2 // (len(item) + 1)))
        value = f'{{"{name * (size // 2 // len(name.encode()))}":[{items}]}}'
        return json_write(json_bin("m", "map", value)).encode()

    return make


JSON_DELETE: Final = b'{"msg":"delete","key":["ns",null,"%b",null]}' % base64.b64encode(DIGEST)

JSON: Final[dict[str, Callable[[int], bytes]]] = {
    "empty lists": json_listed("[]"),
    "empty maps": json_listed("{}"),
    "small maps": json_listed('{"":0}'),
    "maps in maps": json_listed('{"":{"":{"":{"":0}}}}'),
    "names twice": json_listed('{"":0,"":0}'),
    "names twice behind a name": json_behind_a_name('{"":0,"":0}', "n"),
    "names twice behind a wide name": json_behind_a_name('{"":0,"":0}', "\U0001f600"),
    "names twice behind an escaped name": json_behind_a_name('{"":0,"":0}', "\\u0001"),
    "decimals": json_listed("1.0"),
    "exponents": json_listed("1e1"),
    "far exponents": json_listed("1e99999"),
    "long integers": json_listed("9" * 5000),
    "long decimals": json_listed("9." + "9" * 65536),
    "one long integer": lambda size: json_write(json_bin("i", "int", "9" * size)).encode(),
    "escaped texts": json_listed('"\\u0022"'),
    "half characters": json_listed('"\\ud800"'),
    "trailing commas": json_listed("[1,]"),
    "blanks": lambda size: json_write(json_bin("l", "list", "[" + " " * size + "1 ]")).encode(),
    "lists that don't end": lambda size: b"[" + b"[]," * (size // 3),
    "maps that don't end": lambda size: b"[" + b"{}," * (size // 3),
    "numbers that don't end": lambda size: b"[" + b"1," * (size // 2),
    "a record that doesn't end": lambda size: json_listed("[]")(size)[:-1],
    "a batch that doesn't end": lambda size: (
        b"[" + (json_write(json_bin("n", "int", "1")).encode() + b",") * (size // 150)
    ),
    "no commas": lambda size: b"[" + b"{} " * (size // 3) + b"]",
    "no colons": lambda size: b"[" + b'{""},' * (size // 5) + b"0]",
    "quotes": lambda size: b'["' + b'\\"' * (size // 2),
    "brackets that open": lambda size: b"[" * size,
    "objects that open": lambda size: b'{"":' * (size // 4),
    "brackets that cross": lambda size: b"[{]}" * (size // 4),
    "a batch of nulls": lambda size: b"[" + b"null," * (size // 5) + b"0]",
    "a batch of numbers": lambda size: b"[" + b"0," * (size // 2) + b"0]",
    "a batch of half elements": lambda size: b"[" + b'{"a" 1},' * (size // 8) + b"0]",
    "a batch of deletes": lambda size: b"[%b]" % b",".join([JSON_DELETE] * (size // 70)),
    "small bins": lambda size: json_write(
        *(json_bin(f"{number:x}", "int", "5") for number in range(size // 38))
    ).encode(),
}


def flat_listed(item: str) -> Callable[[int], bytes]:
    record = b'{"metadata":{"msg":"write","namespace":"ns","digest":"%b"},"l":[%b]}'
    return lambda size: (
        record
        % (
            base64.b64encode(DIGEST),
            ",".join([item] * (size // (len(item) + 1))).encode(),
        )
    )


FLAT: Final[dict[str, Callable[[int], bytes]]] = {
    "names twice": flat_listed('{"":0,"":0}'),
    "maps in maps": flat_listed('{"":{"":{"":{"":0}}}}'),
    "many metadata": flat_listed('{"msg":1,"namespace":2,"digest":3}'),
    "a batch of nulls": JSON["a batch of nulls"],
}


def canal_rows(row: str, types: Callable[[int], str], part: int = 1) -> Callable[[int], bytes]:
    """Rows over and over, of so many parts of the message one; the others are types."""

    def make(size: int) -> bytes:
        rows = ",".join([row] * (size // part // (len(row) + 1)))
        of_columns = types(size - size // part)
        return (
            f'{{"database":"d","table":"t","type":"INSERT","mysqlType":{{{of_columns}}},'
            f'"pkNames":["a"],"data":[{rows}]}}'
        ).encode()

    return make


CANAL: Final[dict[str, Callable[[int], bytes]]] = {
    "small rows": canal_rows('{"a":"1"}', lambda _: '"a":"int"'),
    "small rows of no such type": canal_rows('{"a":"x"}', lambda _: '"a":"int"'),
    "many types": canal_rows(
        '{"a":"1"}', lambda size: ",".join(f'"{n:x}":"int"' for n in range(size // 14)), 8
    ),
    "long types": canal_rows('{"a":"1"}', lambda size: f'"a":"int{"x" * size}"', 8),
    "wrong rows": canal_rows("0", lambda _: ""),
}


def change_event(head: str, item: str, tail: str = "]}}") -> Callable[[int], bytes]:
    """A change event of MongoDB's with something over and over."""
    start = '{"_id":{"_data":"82"},"operationType":"update","documentKey":{"_id":1},'

    def make(size: int) -> bytes:
        items = ",".join(item.format(number) for number in range(size // (len(item) + 4)))
        return f"{start}{head}{items}{tail}".encode()

    return make


def updates(path: str) -> Callable[[int], bytes]:
    """Updates inside of a document that is known."""
    head = '"fullDocumentBeforeChange":{"_id":1,"a":[]},"updateDescription":{"updatedFields":{'
    return change_event(head, f'"{path}":1', "}}}")


IN_DOCUMENT: Final = '"fullDocument":{"_id":1,"a":['
CHANGE_STREAM: Final[dict[str, Callable[[int], bytes]]] = {
    "numbers that are no JSON": change_event(IN_DOCUMENT, "NaN"),
    "dates": change_event(IN_DOCUMENT, '{{"$date":0}}'),
    "types that are told one by one": change_event(IN_DOCUMENT, '{{"$undefined":true}},1'),
    "deep paths": updates("{}" + ".b" * 90),
    "elements": updates("a.{}"),
    "truncated arrays": change_event(
        '"updateDescription":{"truncatedArrays":[', '{{"field":"{}","newSize":1}}', "]}}"
    ),
}
BOMBS: Final = {
    "aerospike_messagepack": MESSAGEPACK,
    "aerospike_json": JSON,
    "aerospike_flat_json": FLAT,
    "canal_json": CANAL,
    "mongodb_json": CHANGE_STREAM,
}
