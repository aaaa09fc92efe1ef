"""Copy tables, with their files.

Iceberg names every file by its full address: a table's metadata names manifest lists, these name
manifests, and these name data files and deletion vectors. A copy in another place therefore needs
all of these rewritten, with only the addresses changed; data files are copied byte for byte. The
table's UUID, its snapshots with their summaries and sequence numbers, and its row ids stay the
same.
"""

import gzip
import json
import shutil
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from dbt_lakehouse.errors import ConfigurationError, DamageError
from dbt_lakehouse.lake import avro_files
from dbt_lakehouse.lake.addresses import beginning_of, path_of
from dbt_lakehouse.lake.avro_files import Record
from dbt_lakehouse.lake.catalog import Entry

_DELETED: Final = 2
_POSITION_DELETES: Final = 1
_FOLDERS: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path")
_PUFFIN: Final = b"PFA1"
# The end of a Puffin footer: the size of its payload, flags, magic.
_FOOTER: Final = struct.Struct("<i4s4s")
_AT_ONCE: Final = 4


class Copied(NamedTuple):
    """The result of a table's copy."""

    metadata: str
    """The address of its metadata file."""
    files: int
    bytes: int


def copy_table(entry: Entry, to: Path) -> Copied:
    """Copy a table or view, with all of its snapshots, into a folder that does not exist yet.

    Raises ``ConfigurationError`` if it can't be copied, and ``DamageError`` if a file is missing
    or damaged.
    """
    return _Copy(entry, to).made()


class _Copy:
    """A copy of a table in progress."""

    def __init__(self, entry: Entry, to: Path) -> None:
        self._entry: Final = entry
        self._to: Final = to
        self._metadata: Final = self._json(entry.metadata)
        self._from: Final = self._path(self._metadata["location"])
        self._sizes: Final[dict[str, int]] = {}
        """The sizes of rewritten files, by their addresses in the original."""
        self._to_copy: Final[dict[Path, tuple[Path, int]]] = {}
        """The path of each data file's copy, and its size in the manifest."""

    def made(self) -> Copied:
        (self._to / "metadata").mkdir(parents=True)
        described = self._metadata
        snapshots = described.get("snapshots", [])
        manifests = {
            manifest["manifest_path"]: manifest
            for snapshot in snapshots
            for manifest in self._read(snapshot["manifest-list"]).records
        }
        # The copy of a deletion vector's file is another file, with another size.
        for path in manifests:
            self._write_manifest(path)
        for snapshot in snapshots:
            self._write_list(snapshot["manifest-list"])
        self._copy_files()
        name = Path(self._entry.metadata).name.replace(".gz.", ".")
        described["location"] = self._moved(described["location"])
        for snapshot in snapshots:
            snapshot["manifest-list"] = self._moved(snapshot["manifest-list"])
        for folder in _FOLDERS:
            if folder in (given := described.get("properties", {})):
                given[folder] = self._moved(given[folder])
        # Earlier metadata is not copied, and statistics only help to plan.
        for left_out in ("metadata-log", "statistics", "partition-statistics"):
            if left_out in described:
                described[left_out] = []
        metadata = self._to / "metadata" / name
        metadata.write_text(json.dumps(described))
        files = [file for file in self._to.rglob("*") if file.is_file()]
        return Copied(f"file://{metadata}", len(files), sum(file.stat().st_size for file in files))

    def _write_manifest(self, address: str) -> None:
        manifest = self._read(address)
        for entry in manifest.records:
            file = entry["data_file"]
            is_vector = self._is_vector(file)
            source = file["file_path"]
            if entry["status"] != _DELETED:
                if is_vector:
                    file["file_size_in_bytes"] = self._write_vectors(source)
                else:
                    of_size = self._place(source), file["file_size_in_bytes"]
                    self._to_copy[self._path(source)] = of_size
            file["file_path"] = self._moved(source)
            branch, referenced = file.get("referenced_data_file", (0, None))
            if referenced is not None:
                file["referenced_data_file"] = (branch, self._moved(referenced))
        self._write(address, manifest.header, manifest.records)

    def _is_vector(self, file: Record) -> bool:
        """Whether a file has deletion vectors. Raises ``ConfigurationError`` for position deletes
        of format version 2, which name rows by the addresses of their files.
        """
        if file.get("content") != _POSITION_DELETES:
            return False
        if file["file_format"].lower() != "puffin":
            raise ConfigurationError(
                f"{self._entry} has position deletes from before format version 3, which are not"
                " copied: `lakehouse maintain` rewrites them"
            )
        return True

    def _write_vectors(self, address: str) -> int:
        """Copy a file of deletion vectors, whose footer names data files. Returns its size."""
        if address not in self._sizes:
            content = self._bytes(address)
            size, flags, magic = _FOOTER.unpack(content[-_FOOTER.size :])
            begin = len(content) - _FOOTER.size - size
            if magic != _PUFFIN or flags != bytes(4) or begin < 0:
                raise self._damaged(self._path(address), "its footer can't be read")
            footer = json.loads(content[begin : begin + size])
            for blob in footer["blobs"]:
                given = blob.get("properties", {})
                if "referenced-data-file" in given:
                    given["referenced-data-file"] = self._moved(given["referenced-data-file"])
            text = json.dumps(footer).encode()
            place = self._place(address)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content[:begin] + text + _FOOTER.pack(len(text), flags, magic))
            self._sizes[address] = place.stat().st_size
        return self._sizes[address]

    def _write_list(self, address: str) -> None:
        listed = self._read(address)
        for manifest in listed.records:
            source = manifest["manifest_path"]
            manifest["manifest_path"] = self._moved(source)
            manifest["manifest_length"] = self._sizes[source]
        self._write(address, listed.header, listed.records)

    def _copy_files(self) -> None:
        for folder in {place.parent for place, _ in self._to_copy.values()}:
            folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            # list(): to raise an error of any of them.
            list(threads.map(self._copy_file, self._to_copy, self._to_copy.values()))

    def _copy_file(self, source: Path, of_size: tuple[Path, int]) -> None:
        place, size = of_size
        try:
            shutil.copyfile(source, place)
        except FileNotFoundError as error:
            raise self._damaged(source, "it is missing") from error
        found = place.stat().st_size
        if found != size:
            raise self._damaged(source, f"it has {found:,} bytes and should have {size:,}")

    # -- files and their addresses

    def _read(self, address: str) -> avro_files.Container:
        content = self._bytes(address)
        try:
            return avro_files.read(content)
        except DamageError as error:
            raise self._damaged(self._path(address), str(error)) from error

    def _write(self, address: str, header: dict[str, bytes], records: list[Record]) -> None:
        content = avro_files.write(header, records)
        self._place(address).write_bytes(content)
        self._sizes[address] = len(content)

    def _json(self, address: str) -> dict[str, Any]:
        content = self._bytes(address)
        try:
            found = json.loads(gzip.decompress(content) if ".gz." in address else content)
        except (ValueError, OSError, EOFError) as error:
            raise self._damaged(self._path(address), "it is cut short") from error
        return dict(found)

    def _bytes(self, address: str) -> bytes:
        path = self._path(address)
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise self._damaged(path, "it is missing") from error

    def _damaged(self, path: Path, what: str) -> DamageError:
        return DamageError(f"{path}, a file of {self._entry}: {what}; restore it from a backup")

    def _path(self, address: str) -> Path:
        path = path_of(address)
        if path is None:
            raise ConfigurationError(
                f"{self._entry} has files that are not on this machine, {address} for one: these"
                " are copied by what keeps them (docs/maintenance.md, Backups)"
            )
        return path

    def _place(self, address: str) -> Path:
        """The path of a file's copy."""
        path = self._path(address)
        if not path.is_relative_to(self._from):
            raise ConfigurationError(
                f"{self._entry} has files outside of its folder {self._from}, {path} for one, which"
                " are not copied"
            )
        return self._to / path.relative_to(self._from)

    def _moved(self, address: str) -> str:
        """The address of a file's copy, spelt like that of the file."""
        return f"{beginning_of(address)}{self._place(address)}"
