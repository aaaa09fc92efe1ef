"""The commits of a lake, by name: told one by one, and stopped at.

A commit of a table is one change of its row in the catalog. Triggers in the SQLite catalog count
them, whoever makes them, and can hold one of them up for ever, or have it fail: so a process can be
killed exactly before a commit that a test names, and behind it.
"""

import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from support.commands import Command, wait_until

# Common table expressions may be in a view, and not in a trigger.
_TABLES: Final = """
create table if not exists seen_commits (number integer primary key, of text not null);
create table if not exists stops (of text not null, number int not null, fails int not null);
create view if not exists forever as
    with recursive numbers (n) as (select 1 union all select n + 1 from numbers)
    select max(n) as n from numbers;
"""
_TRIGGERS: Final = """
create trigger if not exists stop_{event} before {event} on iceberg_tables
when exists (select 1 from stops where {name} = of
    and number = (select count(*) from seen_commits where of = {name}))
begin
    select case when (select max(fails) from stops)
        then raise(abort, 'this commit is to fail') else (select n from forever) end;
end;
create trigger if not exists see_{event} after {event} on iceberg_tables
begin
    insert into seen_commits (of) values ({name});
end;
"""
# What `kill` ends.
KILLED: Final = ("both", "java", "python")
# How long a JVM may take to notice that its Python is gone, held up as it may be.
_ENDS_SECONDS: Final = 20.0
# How long the catalog is locked by one writer when that one is held up.
_HELD_UP_SECONDS: Final = 0.4


class Point(NamedTuple):
    """Before a table's commit of that number, or behind it; the first is 0."""

    table: str
    number: int
    is_behind: bool = False

    def __str__(self) -> str:
        place = "behind" if self.is_behind else "before"
        return f"{place} commit {self.number} of {self.table}"


def points_of(commits: Mapping[str, int]) -> list[Point]:
    """Before each commit of tables that are committed to so often, and behind it."""
    return [
        Point(table, number, is_behind)
        for table, count in commits.items()
        for number in range(count)
        for is_behind in (False, True)
    ]


class Commits:
    """The commits of the lake whose catalog is this file, from now on."""

    def __init__(self, catalog: Path) -> None:
        self._catalog: Final = catalog
        with self._opened() as lake:
            lake.executescript(_TABLES)
            for event, row in (("insert", "new"), ("update", "new"), ("delete", "old")):
                name = f"{row}.table_namespace || '.' || {row}.table_name"
                lake.executescript(_TRIGGERS.format(event=event, name=name))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._catalog, timeout=30)) as lake, lake:
            yield lake

    def seen(self) -> list[str]:
        """The tables of the commits since ``forget``, in their order."""
        with self._opened() as lake:
            rows = lake.execute("select of from seen_commits order by number").fetchall()
        return [table for (table,) in rows]

    def forget(self) -> None:
        """Count from now on, and stop nowhere."""
        self.stop_at(None)
        with self._opened() as lake:
            lake.execute("delete from seen_commits")

    def stop_at(self, point: Point | None, *, fails: bool = False) -> None:
        """Hold the commit up, or have it fail; none, let all through."""
        with self._opened() as lake:
            lake.execute("delete from stops")
            if point is not None:
                lake.execute("insert into stops values (?, ?, ?)", (*point[:2], fails))

    def lock(self, seconds: float) -> None:
        """Let nobody write to the catalog for so long."""
        with self._opened() as lake:
            lake.execute("begin immediate")
            time.sleep(seconds)

    def wait_for(self, point: Point, command: Command) -> None:
        """Wait until the command is at the point, where ``stop_at`` holds it up; or has just passed
        it, if that is behind the commit.
        """
        if point.is_behind:
            wait_until(lambda: self._has_passed(point, command), f"{point}: {command.said}")
        else:
            wait_until(lambda: self._is_held_up(point, command), f"{point}: {command.said}")

    def _has_passed(self, point: Point, command: Command) -> bool:
        passed = Counter(self.seen())[point.table] > point.number
        assert passed or command.process.poll() is None, f"ended before {point}: {command.said}"
        return passed

    def _is_held_up(self, point: Point, command: Command) -> bool:
        assert command.process.poll() is None, f"ended before {point}: {command.said}"
        if Counter(self.seen())[point.table] != point.number:
            return False
        deadline = time.monotonic() + _HELD_UP_SECONDS
        while time.monotonic() < deadline:
            if not self._is_locked():
                return False
            time.sleep(0.02)
        return True

    def _is_locked(self) -> bool:
        with closing(sqlite3.connect(self._catalog, timeout=0)) as lake:
            try:
                lake.execute("begin immediate")
            except sqlite3.OperationalError:
                return True
            lake.rollback()
        return False

    def save(self, copy: Path) -> None:
        """Keep the catalog as it is."""
        copy.unlink(missing_ok=True)
        with self._opened() as lake, closing(sqlite3.connect(copy)) as saved:
            lake.backup(saved)

    def restore(self, copy: Path) -> None:
        """Make the catalog what it was, for those too that have it open. Of the files, saved beside
        the copy, what tells of later commits goes: a catalog that is older than them is refused.
        """
        with closing(sqlite3.connect(copy)) as saved, self._opened() as lake:
            saved.backup(lake)
        warehouse = self._catalog.parent / "warehouse"
        for file in warehouse.rglob("*.metadata.json"):
            if not (copy.parent / "warehouse" / file.relative_to(warehouse)).exists():
                file.unlink()


def kill(command: Command, of: str = "both") -> None:
    """``kill -9`` of the command's processes; or of its JVM alone, of which Python then hears; or
    of Python alone, whose JVM ends by itself.
    """
    if of == "java":
        for process in javas_of(command.process.pid):
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        assert command.process.wait() != 0, command.said
    elif of == "python":
        command.kill()
        with suppress(AssertionError):
            command.said_by_all(_ENDS_SECONDS)
    command.leave_nothing()


def javas_of(process: int) -> list[int]:
    """The JVMs that a process has started and that still run, whichever thread has."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        # A thread, or a child, may have ended.
        with suppress(OSError):
            for each in children.read_text().split():
                if Path(f"/proc/{each}/comm").read_text().strip() == "java":
                    found.append(int(each))
    return found
