"""Detect lakes whose catalog and files don't belong together, after an incomplete copy, restore
or backup.

Iceberg names every file by its full address. So a copied catalog file continues to write to the
files of the original, and maintenance of a lake that is begun over the files of another one would
delete those. A lake therefore notes, as properties of its schema ``bronze``, when it was begun
and by which catalog file. Each opening compares the notes with the facts.

Its files show when a catalog is older than they are. A commit writes a table's metadata file and
then has the catalog name it. So a file that the catalog doesn't name may come from a process that
was killed between the two steps, and a process commits to as many tables at once as it has
threads. If the files are two commits ahead, the catalog is older. For one commit, each command
that ends notes beside the tables which metadata files the catalog names. A noted file does not
come from a killed commit, so a catalog that is behind it has lost it. A killed process notes
nothing: whatever it leaves, in however many tables, the note is from before it. Neither the
number of files ahead nor their times would tell the two cases apart.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

import msgspec

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.texts import counted

if TYPE_CHECKING:
    from dbt_lakehouse.lake.catalog import Entry

BEGUN: Final = "lakehouse.begun"
"""The moment from which on files are this lake's own, in ISO 8601."""
LAKE: Final = "lakehouse.id"
"""A UUID that the lake shares with its copies."""
PLACE: Final = "lakehouse.catalog"
"""The path of the SQLite catalog by which the lake was opened."""
ANEW: Final = "LAKEHOUSE_BEGIN_ANEW"
_STEPS: Final = "docs/maintenance.md, Backups"
# Iceberg's names of metadata files, with a number that grows by one in each commit.
_METADATA: Final = re.compile(r"(\d{5,})-[0-9a-fA-F-]{36}\.(?:gz\.)?metadata\.json")
# A killed commit leaves a metadata file with the next number that no catalog names.
_NEXT: Final = 1
# In the warehouse: the paths of the metadata files that the catalog named.
_COMMITTED: Final = ".committed.json"
Committed = frozenset[str]
"""The paths of metadata files that the catalog named when a command last ended."""
NOTHING: Final[Committed] = frozenset()


class _Version(msgspec.Struct, rename="kebab"):
    """A version of a view."""

    timestamp_ms: int = 0


class Described(msgspec.Struct, rename="kebab"):
    """The first facts in a table's or view's metadata file."""

    table_uuid: str = ""
    """Empty in a view's file."""
    view_uuid: str = ""
    last_updated_ms: int = 0
    versions: list[_Version] = []

    @property
    def written_ms(self) -> int:
        """The time at which it was written, in milliseconds since 1970."""
        return max(self.last_updated_ms, *(each.timestamp_ms for each in self.versions), 0)


def begins_anew() -> bool:
    """Whether the user has asked to begin a lake here, whatever files exist."""
    return os.environ.get(ANEW, "").lower() == "true"


def beginning(place: Path | None) -> dict[str, str]:
    """The notes of a lake that begins now."""
    noted = {BEGUN: f"{datetime.now(UTC):%FT%T.%fZ}", LAKE: str(uuid4())}
    return noted if place is None else {**noted, PLACE: str(place.resolve())}


def begun_at(notes: Mapping[str, str]) -> datetime | None:
    """The time at which the lake was begun; None for a lake from before that was noted."""
    return None if BEGUN not in notes else datetime.fromisoformat(notes[BEGUN])


def refuse_filled(catalog: str, warehouse: str) -> None:
    """Raise ``ConfigurationError`` if a warehouse folder has tables and the catalog has no lake,
    unless the user has asked for that.
    """
    folder = path_of(warehouse)
    if folder is None or begins_anew():
        return
    found = [*islice(_tables_in(folder), 1_000)]
    if found:
        raise filled(catalog, str(folder), f"{counted(len(found), 'table')}, {min(found)} for one")


def filled(catalog: str, warehouse: str, what: str) -> ConfigurationError:
    """The error of a catalog without a lake, over a warehouse with the files of one."""
    return ConfigurationError(
        f"the catalog {catalog} has no lake, but the warehouse {warehouse} has the files of one"
        f" ({what}): restore the catalog's own content (of SQLite, catalog.db and, if there was"
        f" one, catalog.db-wal beside it), or read `lakehouse recover --help`; {ANEW}=true begins"
        f" another lake over these files ({_STEPS})"
    )


def _tables_in(warehouse: Path) -> Iterator[str]:
    with suppress(OSError):
        for schema in warehouse.iterdir():
            for table in schema.iterdir() if schema.is_dir() else ():
                if metadata_files(table / "metadata"):
                    yield f"{schema.name}.{table.name}"


def refuse_half(file: Path | None, notes: Mapping[str, str], tables: "Sequence[Entry]") -> None:
    """Raise ``ConfigurationError`` if the files of a catalog's tables are in another place, or
    missing. ``file`` is a SQLite catalog's.
    """
    home = notes.get(PLACE)
    if file is not None and home is not None and not is_same(file, Path(home)):
        if Path(home).exists():
            raise ConfigurationError(
                f"{file} is a copy of the catalog {home}, and its tables' files are the original's,"
                " which each of the two would write and delete without the other: take the lake of"
                f" {home}; `lakehouse backup` makes a copy with files of its own ({_STEPS})"
            )
        moved = f"; the lake was at {home} when it was last written"
    else:
        moved = ""
    local = [path for each in tables if (path := path_of(each.metadata)) is not None]
    if local and not any(path.exists() for path in local):
        raise ConfigurationError(
            f"the catalog {file or ''} names {counted(len(local), 'table')}, but all of their"
            f" files are missing, such as {local[0]}{moved}: Iceberg names files by their whole"
            f" addresses, so put the warehouse back where it was, or restore a backup ({_STEPS})"
        )


def is_same(one: Path, other: Path) -> bool:
    """Whether two paths are the same file."""
    with suppress(OSError):
        return one.samefile(other)
    return one.resolve() == other


def committed(warehouse: str) -> Committed:
    """The metadata files that the catalog of a warehouse folder is noted to have had.

    Read it before the catalog. Otherwise a commit of another process, made and noted in between,
    would look like one that the catalog has lost.
    """
    folder = path_of(warehouse)
    if folder is None:
        return NOTHING
    try:
        return msgspec.json.decode((folder / _COMMITTED).read_bytes(), type=Committed)
    except (OSError, ValueError):
        # Nothing was noted yet, or the machine has crashed meanwhile.
        return NOTHING


def note_committed(
    warehouse: str, before: Committed, notes: Mapping[str, str], tables: "Sequence[Entry]"
) -> None:
    """Note the catalog's metadata files, unless the catalog is older than the note ``before``,
    which a read-only command must not lose. Raises ``OSError``.
    """
    folder = path_of(warehouse)
    paths = [path for each in tables if (path := path_of(each.metadata)) is not None]
    now = frozenset(map(str, paths))
    if folder is None or now in (before, NOTHING) or _later_than_seen(notes, tables, before):
        return
    written = folder / f"{_COMMITTED}.{os.getpid()}"
    written.write_bytes(msgspec.json.encode(sorted(now)))
    written.replace(folder / _COMMITTED)


def refuse_older(
    catalog: str,
    notes: Mapping[str, str],
    tables: "Sequence[Entry]",
    before: Committed = NOTHING,
) -> None:
    """Raise ``ConfigurationError`` if tables have commits on this machine's disk that their
    catalog doesn't know: it is a copy from before them, and writing by it would lose them.
    """
    older = _later_than_seen(notes, tables, before)
    if older and not begins_anew():
        entry, newest = older[0]
        raise ConfigurationError(
            f"the catalog {catalog} is older than the files of its tables: {entry} has"
            f" {Path(entry.metadata).name} in it and {newest.name} on disk"
            f" ({counted(len(older), 'table')} alike). Restore the newest catalog.db together with"
            " the catalog.db-wal that was beside it, or let `lakehouse recover` take the tables as"
            f" they are on disk; {ANEW}=true continues from the older state ({_STEPS})"
        )


class _Seen(NamedTuple):
    """The number of a table's metadata when nothing later was in its folder, and when that was."""

    number: int
    changed_ns: int

    def leads_to(self, later: "_Seen") -> bool:
        """Whether the catalog has only gone on since. With the same number, another process may
        have written to the folder.
        """
        return later.number > self.number or later == self


# By the folder of a table's metadata. A stream would list all of them, thousands of files, three
# times in each cycle.
_SEEN: Final[dict[Path, _Seen]] = {}


def _later_than_seen(
    notes: Mapping[str, str], tables: "Sequence[Entry]", before: Committed
) -> "list[tuple[Entry, Path]]":
    """``known_later``, without tables that this process has seen, and that have only gone on."""
    now, unseen = dict[Path, _Seen](), list["Entry"]()
    for each in tables:
        current = path_of(each.metadata)
        if current is None:
            continue
        folder = current.parent
        with suppress(OSError):
            now[folder] = _Seen(_number(current), folder.stat().st_mtime_ns)
        seen = _SEEN.get(folder)
        if seen is None or folder not in now or not seen.leads_to(now[folder]):
            unseen.append(each)
    found = known_later(notes, unseen, before)
    if not found:
        _SEEN.update(now)
    return found


def known_later(
    notes: Mapping[str, str],
    tables: "Sequence[Entry]",
    before: Committed = NOTHING,
    unsure: int = _NEXT,
) -> "list[tuple[Entry, Path]]":
    """The tables with later commits on this machine's disk, and their newest metadata file."""
    begun = begun_at(notes)
    found = ((each, newer_metadata(each, begun, before, unsure)) for each in tables)
    return [(each, newest) for each, newest in found if newest is not None]


def newer_metadata(
    entry: "Entry",
    begun: datetime | None = None,
    before: Committed = NOTHING,
    unsure: int = _NEXT,
) -> Path | None:
    """The newest metadata file of a table if it was committed after the one that the catalog
    names, and not before ``begun``. A file that a killed commit may have left doesn't count: it
    is at most ``unsure`` commits ahead, and not among those that the catalog had ``before``.
    """
    current = path_of(entry.metadata)
    if current is None or (number := _number(current)) < 0:
        return None
    for file in metadata_files(current.parent, before):
        ahead = _number(file) - number
        if ahead <= 0:
            break
        if ahead <= unsure and str(file) not in before:
            continue
        if begun is not None and file.stat().st_mtime < begun.timestamp():
            continue
        # A dropped table leaves its files, and its successor starts at zero again.
        if described(file).table_uuid == described(current).table_uuid:
            return file
    return None


def metadata_files(folder: Path, before: Committed = NOTHING) -> list[Path]:
    """The metadata files in a table's metadata folder, the newest first. Of files with the same
    number, all but one are from killed commits: the one that the catalog had ``before`` comes
    first.
    """
    found = []
    with suppress(OSError), os.scandir(folder) as files:
        for file in files:
            if numbered := _METADATA.fullmatch(file.name):
                found.append((int(numbered[1]), f"{folder / file.name}" in before, file.name))
    return [folder / name for *_, name in sorted(found, reverse=True)]


def _number(file: Path) -> int:
    found = _METADATA.fullmatch(file.name)
    return -1 if found is None else int(found[1])


def described(metadata: Path) -> Described:
    """The facts in a metadata file; empty if it is truncated or missing."""
    try:
        content = metadata.read_bytes()
        if ".gz." in metadata.name:
            content = gzip.decompress(content)
        return msgspec.json.decode(content, type=Described)
    except (OSError, EOFError, ValueError, zlib.error):
        return Described()
