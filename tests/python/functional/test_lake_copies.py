"""Lakes that are saved, restored, moved, or there by half: each is told in one sentence, before
anything is written, and nothing of another lake goes.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from support.lakes import Lake

from dbt_lakehouse.commands.backup import backup, recover
from dbt_lakehouse.errors import ConfigurationError, DamageError, LakehouseError, WriteError
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.lake.avro_files import read
from dbt_lakehouse.lake.catalog import (
    WAREHOUSE,
    Entry,
    checkpoint,
    contents,
    cut_short,
    entries,
    log_of_changes,
    refuse_unfit_to_write,
)
from dbt_lakehouse.lake.locks import locks_beside
from dbt_lakehouse.lake.wholeness import ANEW, BEGUN, newer_metadata, refuse_filled, refuse_half
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.texts import counted

BRONZE: Final = "bronze.raw_payloads"


@pytest.fixture(scope="module")
def saved(demo: Lake, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A backup of the demo's lake, which tests damage and mend again."""
    copy = Lake(tmp_path_factory.mktemp("saved"))
    backup(demo.load(), copy.folder / "lake")
    return copy


def catalog_of(lake: Lake) -> Path:
    return lake.folder / "lake" / "catalog.db"


def tables_in(file: Path) -> set[str]:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as catalog:
        found = catalog.execute("select table_namespace || '.' || table_name from iceberg_tables")
        return {name for (name,) in found}


def told(ask: Callable[[], object]) -> str:
    """The one sentence that a lake is refused with."""
    with pytest.raises(LakehouseError) as caught:
        ask()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def to_write(project: Project) -> str:
    """What who would write the lake is told, before Spark starts."""
    return told(lambda: refuse_unfit_to_write(project.settings))


def to_read(project: Project) -> str:
    return told(lambda: entries(project.settings))


@contextmanager
def away(*paths: Path) -> Iterator[None]:
    """Paths that are not there for a while, and whatever came in their place isn't afterwards."""
    for path in paths:
        path.rename(path.with_name(f"{path.name}.away"))
    try:
        yield
    finally:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.away").rename(path)


def entry_of(lake: Lake, name: str) -> Entry:
    (found,) = (each for each in entries(lake.load().settings) if str(each) == name)
    return found


def metadata_of(lake: Lake, name: str) -> Path:
    path = path_of(entry_of(lake, name).metadata)
    assert path is not None
    return path


def later(file: Path, commits: int) -> Path:
    """The name of the metadata file so many commits later."""
    number, _, rest = file.name.partition("-")
    return file.with_name(f"{int(number) + commits:05}-{rest}")


def metadata_file(
    warehouse: Path, table: str, number: int, uuid: str = "u", *, at: int = 0
) -> Path:
    """A table's metadata of that number, as a commit ``at`` some millisecond writes it."""
    folder = warehouse / "gold" / table / "metadata"
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{number:05}-{uuid4()}.metadata.json"
    file.write_text(json.dumps({"table-uuid": f"{table}-{uuid}", "last-updated-ms": at}))
    return file


@pytest.mark.parametrize("name", ["lake#1", "lake?x=1", "lake%41", "a b", "läke"])
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    """Addresses have it as it is, and no character of it divides them."""
    warehouse = tmp_path / name / "warehouse"
    current = metadata_file(warehouse, "orders", 1)
    entry = Entry("gold", "orders", f"file://{current}", is_view=False)
    refuse_half(None, {}, [entry])
    assert newer_metadata(entry) is None and cut_short(entry) is None
    assert "gold.orders for one" in told(
        lambda: refuse_filled("the catalog", f"file://{warehouse}")
    )
    newest = metadata_file(warehouse, "orders", 3)
    assert newer_metadata(entry) == newest
    current.unlink()
    assert "all of their files are missing" in told(lambda: refuse_half(None, {}, [entry]))


def test_a_copy_of_the_catalogs_file_alone_has_all_tables(demo: Lake, tmp_path: Path) -> None:
    copied = shutil.copy(catalog_of(demo), tmp_path)
    assert {BRONZE, "gold.orders"} <= tables_in(Path(copied)) == tables_in(catalog_of(demo))


def test_a_checkpoint_waits_for_nobody_and_is_made_up_for(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    connect = sqlite3.connect
    with closing(connect(file)) as writer, closing(connect(file)) as reader:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table iceberg_tables (name)")
        reader.execute("begin")
        reader.execute("select * from iceberg_tables").fetchall()
        writer.execute("insert into iceberg_tables values ('one')")
        writer.commit()
        checkpoint(file)
        assert log_of_changes(file).stat().st_size
        reader.rollback()
        # As each process that gives back a lock of the lake.
        (lock,) = locks_beside(file, f"file://{tmp_path}", ["run"], lambda: None)
        with lock.held("a test", patience=0):
            pass
        assert not log_of_changes(file).stat().st_size
    checkpoint(tmp_path / "nothing")


def test_a_backup_names_no_file_of_the_original(demo: Lake, saved: Lake) -> None:
    assert tables_in(catalog_of(saved)) == tables_in(catalog_of(demo))
    original = f"{demo.folder}/lake/".encode()
    files = [each for each in (saved.folder / "lake").rglob("*") if each.is_file()]
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".avro":
            content = repr(read(content)).encode()
        assert original not in content, file
    for table in ("gold.orders", "gold.profiles_history", "silver.deleted_keys", BRONZE):
        assert sorted(map(repr, saved.read(table))) == sorted(map(repr, demo.read(table))), table
    assert saved.broken_sums() == []


def test_a_file_that_is_cut_off_is_not_copied(saved: Lake, tmp_path: Path) -> None:
    file = max((metadata_of(saved, "gold.orders").parent.parent / "data").glob("*.parquet"))
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    try:
        sentence = told(lambda: backup(saved.load(), tmp_path / "copy"))
        assert f"{file}, a file of gold.orders: it has {len(content) - 1:,} bytes" in sentence
        assert not (tmp_path / "copy" / "catalog.db").exists()
    finally:
        file.write_bytes(content)


def test_where_a_backup_can_not_go(demo: Lake, saved: Lake) -> None:
    assert "is not empty: a backup takes a folder of its own" in told(
        lambda: backup(demo.load(), saved.folder / "lake")
    )
    inside = demo.folder / "lake" / "warehouse" / "copy"
    assert "is in the lake's own warehouse" in told(lambda: backup(demo.load(), inside))
    (saved.folder / "file").touch()
    with pytest.raises(WriteError, match=r"can't be written: .*delete it"):
        backup(demo.load(), saved.folder / "file" / "lake")
    shared = demo.load()
    there = {**shared.parameters, "spark.sql.catalog.lake.uri": "jdbc:postgresql://db/lake"}
    with pytest.raises(ConfigurationError, match=r"SQLite catalog.*docs/maintenance\.md"):
        backup(shared._replace(parameters=there), saved.folder / "other")


def test_files_without_a_catalog(saved: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    project = saved.load()
    with away(catalog_of(saved)):
        sentence = to_write(project)
        assert "has no lake, but the warehouse" in sentence and ANEW in sentence
        # So is one that was copied without its log of changes.
        with closing(sqlite3.connect(catalog_of(saved))) as copied:
            copied.execute("pragma journal_mode=wal")
        assert to_write(project) == to_read(project) == sentence
        monkeypatch.setenv(ANEW, "true")
        refuse_unfit_to_write(project.settings)


def test_a_catalog_without_files(saved: Lake) -> None:
    project = saved.load()
    with away(saved.folder / "lake" / "warehouse"):
        for sentence in (to_write(project), to_read(project)):
            assert "all of their files are missing" in sentence and "restore a backup" in sentence
    with away(metadata_of(saved, "gold.orders")):
        refuse_unfit_to_write(project.settings)
        error = cut_short(entry_of(saved, "gold.orders"))
        assert error is not None and "is missing, a file of gold.orders" in str(error)


def test_a_copied_and_a_moved_lake(saved: Lake, tmp_path: Path) -> None:
    copied = Lake(tmp_path)
    shutil.copytree(saved.folder / "lake", tmp_path / "lake")
    project = copied.load()
    for sentence in (to_write(project), to_read(project)):
        assert f"is a copy of the catalog {catalog_of(saved)}" in sentence
        assert "`lakehouse backup`" in sentence
    # The same lake by another path is no copy.
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "lake").symlink_to(saved.folder / "lake")
    assert entries(Lake(tmp_path / "linked").load().settings)
    with away(saved.folder / "lake"):
        for sentence in (to_write(project), to_read(project)):
            assert "put the warehouse back where it was" in sentence
            assert f"the lake was at {catalog_of(saved)}" in sentence


def test_a_catalog_that_is_older_than_the_files(
    saved: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, current = saved.load(), metadata_of(saved, BRONZE)
    killed, committed = later(current, 1), later(current, 2)
    try:
        # A commit that was killed leaves this one.
        shutil.copy(current, killed)
        refuse_unfit_to_write(project.settings)
        # A table of that name that was dropped leaves its own.
        committed.write_text(current.read_text().replace('"table-uuid": "', '"table-uuid": "0'))
        refuse_unfit_to_write(project.settings)
        # No file is ever overwritten.
        committed.unlink()
        shutil.copy(current, committed)
        sentence = to_write(project)
        assert f"is older than the files of its tables: {BRONZE} has {current.name}" in sentence
        assert committed.name in sentence and "`lakehouse recover`" in sentence
        # To read is no danger.
        assert entries(project.settings)
        with monkeypatch.context() as environment:
            environment.setenv(ANEW, "true")
            refuse_unfit_to_write(project.settings)
        assert recover(project).tables == {BRONZE: str(committed)}
        assert metadata_of(saved, BRONZE) == committed
        refuse_unfit_to_write(project.settings)
        assert newer_metadata(entry_of(saved, BRONZE)) is None
        assert "there is nothing to recover" in told(lambda: recover(project))
    finally:
        with closing(sqlite3.connect(catalog_of(saved))) as catalog, catalog:
            catalog.execute(
                "update iceberg_tables set metadata_location = ? where table_name = 'raw_payloads'",
                [f"file://{current}"],
            )
        for file in (killed, committed):
            file.unlink(missing_ok=True)


FOUR: Final = ("customers", "items", "orders", "payments")


@pytest.fixture
def small(tmp_path: Path) -> Lake:
    """A lake of four tables that each have a commit, without rows; made without Spark."""
    lake = Lake(tmp_path)
    for table in FOUR:
        metadata_file(tmp_path / "lake" / "warehouse", table, 1, at=1)
    recover(lake.load())
    return lake


def end_a_command(lake: Lake) -> None:
    """As each that has written ends."""
    settings = lake.load().settings
    (lock,) = locks_beside(catalog_of(lake), settings[WAREHOUSE], ["run"], lambda: None)
    with lock.held("a test", patience=0):
        pass


def commit(lake: Lake, table: str, number: int) -> Path:
    """Commit to a table, with its catalog."""
    file = metadata_file(lake.folder / "lake" / "warehouse", table, number, at=number)
    with closing(sqlite3.connect(catalog_of(lake))) as catalog, catalog:
        catalog.execute(
            "insert or replace into iceberg_tables values ('lake', 'gold', ?, ?, null, 'TABLE')",
            [table, f"file://{file}"],
        )
    return file


def test_a_process_that_was_killed_leaves_no_older_catalog(small: Lake) -> None:
    """Each of its threads was about to commit to a table."""
    for number in (1, 2):
        for table in FOUR:
            metadata_file(small.folder / "lake" / "warehouse", table, number + 1, at=2)
        refuse_unfit_to_write(small.load().settings)
        # Nor does another command that ends, before these tables are written again.
        end_a_command(small)
        refuse_unfit_to_write(small.load().settings)
        assert "there is nothing to recover" in told(lambda: recover(small.load()))
        for table in FOUR:
            commit(small, table, number + 1)
        # This one has not ended: the note is from before it.
        refuse_unfit_to_write(small.load().settings)
        end_a_command(small)


@pytest.mark.parametrize("behind", [FOUR, FOUR[:1]])
def test_a_catalog_from_before_the_last_command(
    small: Lake, behind: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, catalog = small.load(), catalog_of(small)
    old = catalog.with_name("old.db")
    shutil.copy(catalog, old)
    # Of the same number, one of a killed commit.
    for table in behind:
        metadata_file(small.folder / "lake" / "warehouse", table, 2, at=2)
    newest = {f"gold.{table}": str(commit(small, table, 2)) for table in behind}
    end_a_command(small)
    refuse_unfit_to_write(project.settings)
    shutil.copy(old, catalog)
    for _ in range(2):
        sentence = to_write(project)
        assert f"{catalog} is older than the files of its tables" in sentence
        assert f"({counted(len(behind), 'table')} alike)" in sentence
        # Who goes on by it, or only looks, makes nobody forget.
        end_a_command(small)
    with monkeypatch.context() as environment:
        environment.setenv(ANEW, "true")
        refuse_unfit_to_write(project.settings)
    assert recover(project).tables == newest
    refuse_unfit_to_write(project.settings)


def test_an_older_catalog_gets_single_commits_and_new_tables_too(small: Lake) -> None:
    project, catalog = small.load(), catalog_of(small)
    warehouse = small.folder / "lake" / "warehouse"
    metadata_file(warehouse, "dropped", 7, at=0)
    metadata_file(warehouse, "orders__dbt_tmp", 1, at=9)
    sentence = told(lambda: recover(project))
    assert "there is nothing to recover" in sentence and "gold.dropped" in sentence
    # No command has ended in between, as in a lake of an earlier version.
    twice, once = (metadata_file(warehouse, *each, at=3) for each in (("orders", 3), ("items", 2)))
    made = metadata_file(warehouse, "made", 1, at=4)
    assert f"{catalog} is older" in to_write(project)
    recovered = recover(project)
    assert recovered.tables == {
        "gold.items": str(once),
        "gold.orders": str(twice),
        "gold.made": str(made),
    }
    assert recovered.left_out == ["gold.dropped"] and "gold.dropped" in recovered.text()
    assert {str(each) for each in entries(project.settings)} >= {"gold.made", "gold.customers"}
    refuse_unfit_to_write(project.settings)


def test_a_lost_catalog_is_made_anew_from_the_files(saved: Lake) -> None:
    project = saved.load()
    known = {str(each): each.metadata for each in entries(project.settings)}
    # Of two, the one that is whole.
    half = later(metadata_of(saved, "gold.orders"), 1)
    half.write_text('{"table-uuid": ')
    try:
        with away(catalog_of(saved)):
            assert recover(project).tables.keys() == known.keys()
            found = {str(each): each.metadata for each in entries(project.settings)}
            assert {name: Path(each).name for name, each in found.items()} == {
                name: Path(each).name for name, each in known.items()
            }
            assert saved.read("gold.orders")
            refuse_unfit_to_write(project.settings)
    finally:
        half.unlink()


@pytest.mark.parametrize("is_noted", [True, False])
def test_a_lost_catalog_over_the_files_of_two_lakes(small: Lake, is_noted: bool) -> None:
    """A lake that was begun anew over the files of another one, whose tables had more commits."""
    project, catalog = small.load(), catalog_of(small)
    warehouse = small.folder / "lake" / "warehouse"
    known = {str(each): str(path_of(each.metadata)) for each in entries(project.settings)}
    for table in ("orders", "theirs"):
        metadata_file(warehouse, table, 9, "older", at=0)
    if is_noted:
        end_a_command(small)
    else:
        (warehouse / ".committed.json").unlink()
    catalog.unlink()
    recovered = recover(project)
    assert {name: recovered.tables[name] for name in known} == known
    left_out = {*recovered.left_out}
    assert left_out | recovered.tables.keys() == known.keys() | {"gold.theirs"}
    assert left_out == ({"gold.theirs"} if is_noted else set())
    # Maintenance deletes nothing of the other lake.
    notes = contents(project.settings).notes
    assert BEGUN in notes
    refuse_unfit_to_write(project.settings)


def test_a_table_whose_newest_metadata_is_cut_short_comes_back_as_it_was(small: Lake) -> None:
    newest = commit(small, "orders", 2)
    end_a_command(small)
    newest.write_text('{"table-uuid": ')
    catalog_of(small).unlink()
    recovered = recover(small.load())
    assert recovered.left_out == []
    assert Path(recovered.tables["gold.orders"]).name.startswith("00001-")


def test_a_view_is_recovered_as_one(small: Lake) -> None:
    metadata = metadata_file(small.folder / "lake" / "warehouse", "seen", 1)
    metadata.write_text(json.dumps({"view-uuid": "v", "versions": [{"timestamp-ms": 5}]}))
    catalog_of(small).unlink()
    recover(small.load())
    assert entry_of(small, "gold.seen").is_view


def test_the_log_of_changes_of_another_catalog(saved: Lake, demo: Lake, tmp_path: Path) -> None:
    """Whatever SQLite makes of both, it isn't taken for this lake."""
    project, catalog = saved.load(), catalog_of(saved)
    log = log_of_changes(catalog)
    other = Path(shutil.copy(catalog_of(demo), tmp_path))
    with closing(sqlite3.connect(other, isolation_level=None)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("update iceberg_tables set previous_metadata_location = hex(zeroblob(300))")
        with away(catalog):
            shutil.copy(catalog.with_name("catalog.db.away"), catalog)
            with closing(sqlite3.connect(catalog)) as copied:
                copied.execute("pragma journal_mode=wal")
            shutil.copy(log_of_changes(other), log)
            sentence = to_read(project)
            assert "is damaged" in sentence or "is a copy of the catalog" in sentence
            log.unlink(missing_ok=True)
            catalog.with_name("catalog.db-shm").unlink(missing_ok=True)


def test_a_catalog_that_is_damaged(saved: Lake) -> None:
    project, catalog = saved.load(), catalog_of(saved)
    with away(catalog):
        content = bytearray(catalog.with_name("catalog.db.away").read_bytes())
        content[4096 : 3 * 4096] = os.urandom(2 * 4096)
        catalog.write_bytes(content)
        with pytest.raises(DamageError, match=r"catalog\.db is damaged .*-wal that was beside it"):
            refuse_unfit_to_write(project.settings)
