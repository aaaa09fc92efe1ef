"""Which files hold some bytes, compressed or not: Parquet, Avro, gzip and all else."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def holders(folder: Path, needles: Sequence[bytes]) -> set[Path]:
    """The files under a folder that hold one of the needles, compressed or not."""
    return {path for path in folder.rglob("*") if path.is_file() and _holds(path, needles)}


def _holds(path: Path, needles: Sequence[bytes]) -> bool:
    texts = [path.read_bytes()]
    if texts[0].startswith(b"\x1f\x8b"):
        texts.append(gzip.decompress(texts[0]))
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        texts += [repr(column.to_pylist()).encode() for column in table.columns]
        texts += [_bytes_in(column.to_pylist()) for column in table.columns]
    elif path.suffix == ".avro":
        texts += _avro_blocks(path.read_bytes())
    return any(needle in text for needle in needles for text in texts)


def _bytes_in(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict):
        value = list(value.values())
    return b"|".join(map(_bytes_in, value)) if isinstance(value, list) else b""


def _avro_blocks(data: bytes) -> list[bytes]:
    """The blocks of an Avro file, inflated."""
    assert data.startswith(b"Obj\x01") and b"avro.codec\x0edeflate" in data
    # The header is a map of text to bytes, and 16 bytes that are behind each block too.
    position = 4
    while count := _take_long(data, position)[0]:
        position = _take_long(data, position)[1]
        for _ in range(2 * count):
            length, position = _take_long(data, position)
            position += length
    position += 1 + 16
    blocks = []
    while position < len(data):
        _, position = _take_long(data, position)
        length, position = _take_long(data, position)
        blocks.append(zlib.decompress(data[position : position + length], -15))
        position += length + 16
    return blocks


def _take_long(data: bytes, position: int) -> tuple[int, int]:
    """A number in Avro's form, and where it ends."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
