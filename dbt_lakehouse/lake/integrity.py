"""Find table files whose bytes differ from those that were written, by checksums and by what
Iceberg notes of one file in another.

Spark often does not name the file that it can't read. DuckDB compares no checksums, turns changed
bytes of a Parquet page into wrong rows, and crashes the process on some manifests. So a table is
checked before DuckDB reads it, and after an error of either the damaged file is searched.

Hadoop writes a checksum of each 512 bytes into a file beside each local one (``.x.crc``), and
Parquet one into each page. Sources: "Iceberg Table Spec" (manifests, deletion vectors), "Puffin
spec", Avro's specification ("Object Container Files"), Hadoop's ChecksumFileSystem.
"""

import json
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from dbt_lakehouse.errors import DamageError

_LOCAL: Final = re.compile(r"(?:file:(?://)?(?=/)|(?=/))(.*)", re.DOTALL)
_TABLE_FILE: Final = re.compile(r"/(?P<schema>[^/]+)/(?P<table>[^/]+)/(?P<kind>data|metadata)/")
_AVRO: Final = b"Obj\x01"
_VECTOR: Final = bytes.fromhex("d1d33964")
_DELETED: Final = 2
# The budget for decoding a manifest: no limit beyond the size that its bytes allow.
_MANY_BYTES: Final = 2**40


class _Wrong(Exception):
    """Bytes that can't have been written like this."""


class _Block(NamedTuple):
    """A block of an Avro file: the number of its values, and their bytes."""

    values: int
    content: bytes


def repair_of(file: str) -> tuple[str, str]:
    """The table of a file, as the end of a clause, and how to repair the file."""
    place = _TABLE_FILE.search(file)
    restore = "restore it from a backup"
    if place is None:
        return "", restore
    name = f"{place['schema']}.{place['table']}"
    can_be_built = place["kind"] == "data" and place["schema"] != "bronze"
    rebuild = f", or rebuild the table: `dbt run --full-refresh -s {place['table']}`"
    return f", a file of {name}", restore + (rebuild if can_be_built else "")


def damage_of(file: str) -> DamageError | None:
    """The error of a file that contradicts the checksums beside it; None if it does not, or has
    no checksums.
    """
    try:
        _read(file)
    except DamageError as error:
        return error
    return None


def refuse_metadata(metadata: str, snapshot: int | None = None) -> None:
    """Raise ``DamageError`` if a table's metadata file, or the manifest list or a manifest of a
    snapshot (by default the current one), is damaged. Missing files are reported elsewhere.
    """
    for manifest in _manifests(metadata, snapshot)[1]:
        file = manifest["manifest_path"]
        if (content := _read(file)) is not None:
            _refuse(file, _all_blocks, content)


def refuse_table(
    metadata: str, snapshot: int | None = None, most_bytes: int | None = None, until: float = 0
) -> None:
    """``refuse_metadata`` that also checks data files and deletion vectors, up to ``most_bytes``,
    or until a moment of ``time.monotonic``.
    """
    left = most_bytes
    listed, manifests = _manifests(metadata, snapshot)
    for manifest in manifests:
        file = manifest["manifest_path"]
        if (content := _read(file)) is None:
            continue
        entries = _refuse(file, _all_values, content)
        # Neither has its own checksum, which would tell which of the two is damaged.
        _refuse(f"{file}, or {listed} that lists it,", _compare_counts, entries, manifest)
        for entry in entries:
            if entry["status"] == _DELETED:
                continue
            data = entry["data_file"]
            if left is not None:
                left -= data["file_size_in_bytes"]
            if (left is not None and left < 0) or (until and time.monotonic() > until):
                return
            _refuse_data(data)


def _refuse(file: str, look: Any, *of: Any) -> Any:
    """The result of ``look``. Raises ``DamageError`` for a file that can't have been written like
    this.
    """
    try:
        return look(*of)
    except (_Wrong, ValueError, KeyError, IndexError, TypeError, zlib.error) as error:
        of_table, repair = repair_of(file)
        raise DamageError(f"{file} is cut short or damaged{of_table}: {repair}") from error


def _manifests(metadata: str, snapshot: int | None) -> tuple[str, list[Mapping[str, Any]]]:
    """The manifest list of a snapshot, and its entries."""
    content = _read(metadata)
    if content is None:
        return "", []
    if metadata.endswith(".gz.metadata.json"):
        content = _refuse(metadata, zlib.decompress, content, 31)
    listed = _refuse(metadata, _list_of, content, snapshot)
    if listed is None or (content := _read(listed)) is None:
        return "", []
    return listed, _refuse(listed, _all_values, content)


def _list_of(metadata: bytes, snapshot: int | None) -> str | None:
    """The address of a snapshot's manifest list."""
    known = json.loads(metadata)
    wanted = known.get("current-snapshot-id") if snapshot is None else snapshot
    for each in known.get("snapshots", ()):
        if each["snapshot-id"] == wanted:
            listed = each.get("manifest-list")
            return None if listed is None else str(listed)
    return None


def _compare_counts(entries: list[Mapping[str, Any]], manifest: Mapping[str, Any]) -> None:
    """Compare the entries of a manifest with the counts in the manifest list."""
    for status, name in enumerate(("existing", "added", "deleted")):
        files = [each["data_file"] for each in entries if each["status"] == status]
        counts = len(files), sum(each["record_count"] for each in files)
        if counts != (manifest[f"{name}_files_count"], manifest[f"{name}_rows_count"]):
            raise _Wrong


def _refuse_data(data: Mapping[str, Any]) -> None:
    file = data["file_path"]
    path = _local(file)
    if path is None or not path.exists():
        return
    if path.stat().st_size != data["file_size_in_bytes"]:
        _refuse(file, _fail)
    is_checked = (content := _read(file)) is not None and _sums(path) is not None
    if data["file_format"] == "PUFFIN" and content is not None:
        start = data.get("content_offset")
        if start is not None:
            blob = content[start : start + data["content_size_in_bytes"]]
            _refuse(file, _look_at_vector, blob)
    elif data["file_format"] == "PARQUET" and not is_checked:
        _refuse(file, _look_at_pages, path)


def _look_at_vector(blob: bytes) -> None:
    length = int.from_bytes(blob[:4], "big")
    vector, checksum = blob[4 : 4 + length], blob[4 + length :]
    if vector[:4] != _VECTOR or zlib.crc32(vector) != int.from_bytes(checksum, "big"):
        raise _Wrong


def _look_at_pages(path: Path) -> None:
    # It takes a while to import.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as opened:
            for group in range(opened.num_row_groups):
                opened.read_row_group(group, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        raise _Wrong from error


def _fail() -> None:
    raise _Wrong


# --- files ----------------------------------------------------------------------------------------


def _local(file: str) -> Path | None:
    """The path of a local file; None in a bucket, whose server compares checksums."""
    found = _LOCAL.fullmatch(file)
    if found is None:
        return None
    path = Path(found[1])
    return path if path.exists() else Path(unquote(found[1]))


def _read(file: str) -> bytes | None:
    """A file's content; None if it is missing or not local. Raises ``DamageError`` if it
    contradicts its checksums.
    """
    path = _local(file)
    try:
        content = None if path is None else path.read_bytes()
    except OSError:
        return None
    if path is not None and content is not None and (sums := _sums(path)) is not None:
        _refuse(file, _compare, content, sums)
    return content


def _sums(path: Path) -> tuple[int, bytes] | None:
    """The number of bytes for each checksum beside a file, and the checksums; None without
    checksums.
    """
    try:
        found = path.with_name(f".{path.name}.crc").read_bytes()
    except OSError:
        return None
    size = int.from_bytes(found[4:8], "big")
    return (size, found[8:]) if found[:4] == b"crc\0" and size else None


def _compare(content: bytes, sums: tuple[int, bytes]) -> None:
    size, wanted = sums
    view = memoryview(content)
    found = b"".join(
        zlib.crc32(view[at : at + size]).to_bytes(4, "big") for at in range(0, len(content), size)
    )
    if found != wanted:
        raise _Wrong


# --- Avro -----------------------------------------------------------------------------------------


def _head(content: bytes) -> tuple[dict[str, bytes], int]:
    """The metadata of an Avro file's header, and the position behind it."""
    if content[:4] != _AVRO:
        raise _Wrong
    said: dict[str, bytes] = {}
    at = 4
    while True:
        count, at = _long(content, at)
        if count == 0:
            break
        for _ in range(count):
            name, at = _bytes(content, at)
            said[name.decode()], at = _bytes(content, at)
    json.loads(said["avro.schema"])
    return said, at


def _blocks(content: bytes) -> Iterator[_Block]:
    said, at = _head(content)
    codec = said.get("avro.codec", b"null")
    mark, at = content[at : at + 16], at + 16
    while at < len(content):
        count, at = _long(content, at)
        block, at = _bytes(content, at)
        if content[at : at + 16] != mark:
            raise _Wrong
        at += 16
        if codec == b"deflate":
            yield _Block(count, zlib.decompress(block, wbits=-15))
        elif codec == b"null":
            yield _Block(count, block)


def _all_blocks(content: bytes) -> list[_Block]:
    return [*_blocks(content)]


def _all_values(content: bytes) -> list[Any]:
    return [*_values(content)]


def _values(content: bytes) -> Iterator[Any]:
    from python_udfs.core.budget import Budget
    from python_udfs.core.errors import DecodeError

    read = _reader(_head(content)[0]["avro.schema"].decode())
    for block in _blocks(content):
        at, budget = 0, Budget(_MANY_BYTES)
        for _ in range(block.values):
            try:
                value, at = read(block.content, at, budget)
            except DecodeError as error:
                raise _Wrong from error
            yield value
        if at != len(block.content):
            raise _Wrong


@cache
def _reader(schema: str) -> Any:
    from python_udfs.text.avro import parse_schemas, reader_of

    return reader_of(parse_schemas([schema]))


def _long(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        if shift > 63:
            raise _Wrong


def _bytes(content: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(content, at)
    if not 0 <= length <= len(content) - at:
        raise _Wrong
    return content[at : at + length], at + length
