"""Avro object container files, as Iceberg writes its manifests and manifest lists: read
completely, and written again with other values in the same schema.

A union's value is a pair of the branch number and the branch's value, so that an unchanged value
is written as it was.
"""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from dbt_lakehouse.errors import DamageError

_MAGIC: Final = b"Obj\x01"
_SCHEMA: Final = "avro.schema"
_CODEC: Final = "avro.codec"
_SYNC_BYTES: Final = 16
_CODECS: Final = ("null", "deflate")

Record = dict[str, Any]
_Read = Callable[["_Bytes"], Any]
_Write = Callable[[bytearray, Any], None]


class Container(NamedTuple):
    """A container file: its header's metadata and its records."""

    header: dict[str, bytes]
    records: list[Record]


def read(content: bytes) -> Container:
    """Parse a file's content. Raises ``DamageError`` if it is not a whole Avro file."""
    try:
        return _container(content)
    except (IndexError, KeyError, struct.error, ValueError, zlib.error) as error:
        raise DamageError(f"it is not a complete Avro file: {error}") from error


def write(header: Mapping[str, bytes], records: list[Record]) -> bytes:
    """The content of a file with a header and records, in one block."""
    _, encode = _coders(json.loads(header[_SCHEMA]), {})
    block = bytearray()
    for each in records:
        encode(block, each)
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(bytes(block)) + packer.flush()
    written = bytearray(_MAGIC)
    meta = {**header, _CODEC: b"deflate"}
    _write_long(written, len(meta))
    for name, value in meta.items():
        _write_bytes(written, name.encode())
        _write_bytes(written, value)
    _write_long(written, 0)
    # A sync marker may be any 16 bytes; the same file gets the same ones.
    sync = zlib.crc32(packed).to_bytes(_SYNC_BYTES, "big")
    written += sync
    if records:
        _write_long(written, len(records))
        _write_bytes(written, packed)
        written += sync
    return bytes(written)


class _Bytes:
    """Bytes with a read position."""

    def __init__(self, content: bytes, at: int = 0) -> None:
        self.content = content
        self.at = at

    def take(self, length: int) -> bytes:
        taken = self.content[self.at : self.at + length]
        if length < 0 or len(taken) < length:
            raise ValueError(f"cut short at byte {self.at}")
        self.at += length
        return taken

    def long(self) -> int:
        number = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7

    def bytes(self) -> bytes:
        return self.take(self.long())


def _container(content: bytes) -> Container:
    file = _Bytes(content)
    if file.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("it begins otherwise")
    header = dict(_items(file, lambda each: (each.bytes().decode(), each.bytes())))
    sync = file.take(_SYNC_BYTES)
    codec = header.get(_CODEC, b"null").decode()
    if codec not in _CODECS:
        raise ValueError(f"unknown codec {codec}: expected one of {', '.join(_CODECS)}")
    decode, _ = _coders(json.loads(header[_SCHEMA]), {})
    records = []
    while file.at < len(content):
        count, packed = file.long(), file.bytes()
        block = _Bytes(zlib.decompress(packed, wbits=-15) if codec == "deflate" else packed)
        records += [decode(block) for _ in range(count)]
        if file.take(_SYNC_BYTES) != sync:
            raise ValueError(f"no end of a block at byte {file.at}")
    return Container(header, records)


def _items(file: _Bytes, read_one: _Read) -> list[Any]:
    """The items of an array or a map."""
    found = []
    while count := file.long():
        if count < 0:
            # Skip the size of the block.
            file.long()
        found += [read_one(file) for _ in range(abs(count))]
    return found


def _write_long(to: bytearray, number: int) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        to.append(number & 0x7F | 0x80)
        number >>= 7
    to.append(number)


def _write_bytes(to: bytearray, value: bytes) -> None:
    _write_long(to, len(value))
    to += value


def _write_items(to: bytearray, items: list[Any], write_one: _Write) -> None:
    if items:
        _write_long(to, len(items))
        for each in items:
            write_one(to, each)
    to.append(0)


def _write_pair(encode: _Write) -> _Write:
    def write_one(to: bytearray, pair: tuple[str, Any]) -> None:
        _write_bytes(to, pair[0].encode())
        encode(to, pair[1])

    return write_one


_PRIMITIVES: Final[dict[str, tuple[_Read, _Write]]] = {
    "null": (lambda _: None, lambda to, value: None),
    "boolean": (lambda file: file.take(1), lambda to, value: to.extend(value)),
    "int": (_Bytes.long, _write_long),
    "long": (_Bytes.long, _write_long),
    "float": (lambda file: file.take(4), lambda to, value: to.extend(value)),
    "double": (lambda file: file.take(8), lambda to, value: to.extend(value)),
    "bytes": (_Bytes.bytes, _write_bytes),
    "string": (
        lambda file: file.bytes().decode(),
        lambda to, value: _write_bytes(to, value.encode()),
    ),
}


def _coders(schema: Any, named: dict[str, tuple[_Read, _Write]]) -> tuple[_Read, _Write]:
    """The reader and writer of a schema's values. ``named`` has the types that a schema can refer
    to by name.
    """
    if isinstance(schema, str):
        return _PRIMITIVES.get(schema) or named[schema]
    if isinstance(schema, list):
        return _union([_coders(each, named) for each in schema])
    kind = schema["type"]
    if kind == "record":
        coders = _record(
            [(each["name"], _coders(each["type"], named)) for each in schema["fields"]]
        )
    elif kind == "fixed":
        size = schema["size"]
        coders = (lambda file: file.take(size), lambda to, value: to.extend(value))
    elif kind == "enum":
        coders = _PRIMITIVES["int"]
    elif kind == "array":
        item = _coders(schema["items"], named)
        return (lambda file: _items(file, item[0])), (
            lambda to, value: _write_items(to, value, item[1])
        )
    elif kind == "map":
        value = _coders(schema["values"], named)
        pair = _write_pair(value[1])
        return (
            lambda file: _items(file, lambda each: (each.bytes().decode(), value[0](each))),
            lambda to, pairs: _write_items(to, pairs, pair),
        )
    else:
        return _coders(kind, named)
    named[schema["name"]] = coders
    return coders


def _union(branches: list[tuple[_Read, _Write]]) -> tuple[_Read, _Write]:
    def decode(file: _Bytes) -> tuple[int, Any]:
        branch = file.long()
        return branch, branches[branch][0](file)

    def encode(to: bytearray, value: tuple[int, Any]) -> None:
        _write_long(to, value[0])
        branches[value[0]][1](to, value[1])

    return decode, encode


def _record(fields: list[tuple[str, tuple[_Read, _Write]]]) -> tuple[_Read, _Write]:
    def decode(file: _Bytes) -> Record:
        return {name: read_one(file) for name, (read_one, _) in fields}

    def encode(to: bytearray, value: Record) -> None:
        for name, (_, write_one) in fields:
            write_one(to, value[name])

    return decode, encode
