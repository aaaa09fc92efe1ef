"""What real databases of tests have in common: tables, random changes of them, and their rows.

Each database has a module that makes its tables, writes statements in its SQL and reads what is
there (``real_postgres``, ``real_mariadb``). The database says what gold must have, nothing here
works it out.
"""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from support.real_settings import Setting
from support.real_values import Column, Kind, Table, is_same

# The table of the last change of a round, and the one without a key.
MARKER: Final = "marker"
VISITS: Final = "visits"
# What generate calls columns that no name in SQL should have.
RENAMED: Final = {"Is Late?": "Is_Late"}
# Days that calendars and types differ about.
DAYS: Final = ("0001-01-01", "0999-12-31", "1582-10-04", "1582-10-15", "2024-02-29", "9999-12-31")
_LARGE: Final = 3_000
_MOST_ROWS: Final = 40


class Database(Protocol):
    """A server with the tables, whose changes a connector reads."""

    def connector(self, folder: Path) -> dict[str, str]:
        """Debezium's settings: defaults, but for truncates; ``folder`` is for its files."""

    def run(self, script: str) -> str:
        """What a script prints. Each statement is a transaction unless it says otherwise."""

    def rows(self, name: str, table: Table) -> list[dict[str, Any]]:
        """All rows of a table, plain values by column."""


class Writer(ABC):
    """Changes tables at random. The same seed makes the same statements."""

    TABLES: ClassVar[Mapping[str, Table]]
    """As they are at first."""
    ALTER: ClassVar[str]
    """A column more, and one that becomes wider, of ``orders``."""
    ADDED: ClassVar[str] = "extra"
    OFTEN: ClassVar[tuple[str, ...]] = ("orders", "emptied")
    """Tables that change twice as often."""
    QUOTE: ClassVar[str] = '"'

    def __init__(self, seed: int, setting: Setting) -> None:
        self.dice: Final = random.Random(seed)
        self.live: dict[str, list[tuple[str, ...]]] = {table: [] for table in self.followed}
        self.tables: Final = {**self.TABLES}
        self.count = 0
        self.is_snapshot = True
        """Whether a snapshot reads what is written."""
        self._is_incremental: Final = setting.is_incremental
        self._truncates: Final = not setting.unwrapped

    @property
    def followed(self) -> list[str]:
        """The tables whose keys are known here."""
        return [name for name, table in self.TABLES.items() if table.key]

    def script(self, transactions: int) -> str:
        """Transactions of some changes each; some change a row twice, some take half of it back."""
        lines = [self._transaction() for _ in range(transactions)]
        # A topic is made by its first message.
        lines += [
            self._insert(table, self.key(table)) for table, keys in self.live.items() if not keys
        ]
        # What is there when the connector comes is its first snapshot.
        self.is_snapshot = self._is_incremental
        return "\n".join(lines)

    def alter(self) -> str:
        """A change of a table's definition, which later changes follow."""
        orders = self.tables["orders"]
        columns = {**orders.columns, self.ADDED: Column(Kind.TEXT)}
        self.tables["orders"] = replace(orders, columns=columns)
        return self.ALTER

    def round(self, number: int, rounds: int, transactions: int) -> str:
        """The script of a round. The last one begins with another definition. If snapshots are
        incremental, one is asked for: it reads the tables a few rows at a time, between changes.
        """
        altered = self.alter() if 1 < number == rounds else ""
        asked = self._signal(number) if self._is_incremental else ""
        return altered + asked + self.script(transactions)

    def _signal(self, number: int) -> str:
        tables = [f"shop.{name}" for name, table in self.TABLES.items() if table.key]
        data = json.dumps({"data-collections": tables, "type": "incremental"}, ensure_ascii=False)
        return f"insert into signals values ('round {number}', 'execute-snapshot', '{data}');\n"

    def _transaction(self) -> str:
        dice = self.dice
        if self._truncates and dice.random() < 0.06:
            self.live["emptied"] = []
            return "begin; truncate emptied; commit;"
        before = self._copied()
        lines = ["begin;"]
        for _ in range(dice.randint(1, 5)):
            lines.append(self._change())
        kept = self._copied()
        if dice.random() < 0.15:
            lines += ["savepoint half;", self._change(), self._change(), "rollback to half;"]
            self.live = kept
        if dice.random() < 0.08:
            self.live = before
            return "\n".join([*lines, "rollback;"])
        return "\n".join([*lines, "commit;"])

    def _copied(self) -> dict[str, list[tuple[str, ...]]]:
        return {table: [*keys] for table, keys in self.live.items()}

    def _change(self) -> str:
        dice = self.dice
        if dice.random() < 0.15:
            return self.visit()
        table = dice.choice([*self.live, *self.OFTEN])
        live = self.live[table]
        what = dice.choice(["insert", "insert", "update", "update", "delete", "move"])
        if not live or (what == "insert" and len(live) < _MOST_ROWS):
            key = self.key(table)
            return "" if key in live else self._insert(table, key)
        key = dice.choice(live)
        names = self.TABLES[table].key
        where = " and ".join(
            f"{self.quoted(name)} = {value}" for name, value in zip(names, key, strict=True)
        )
        if what == "delete":
            live.remove(key)
            return f"delete from {self.quoted(table)} where {where};"
        changed = self._all_values(table)
        some = dice.sample([*changed], dice.randint(1, len(changed)))
        assignments = {name: changed[name] for name in some}
        if what == "move":
            other = self.key(table)
            if other not in live:
                live[live.index(key)] = other
                assignments |= dict(zip(names, other, strict=True))
        said = ", ".join(f"{self.quoted(name)} = {value}" for name, value in assignments.items())
        return f"update {self.quoted(table)} set {said} where {where};"

    def _insert(self, table: str, key: tuple[str, ...]) -> str:
        self.live[table].append(key)
        columns = {**dict(zip(self.TABLES[table].key, key, strict=True)), **self._all_values(table)}
        names = ", ".join(map(self.quoted, columns))
        return f"insert into {self.quoted(table)} ({names}) values ({', '.join(columns.values())});"

    def _all_values(self, table: str) -> dict[str, str]:
        values = self.values(table)
        if self.ADDED in self.tables[table].columns:
            values[self.ADDED] = f"'+{self.count}'"
            values["amount"] = self.dice.choice([values["amount"], "0.125", "99999999999.125"])
        return values

    def quoted(self, name: str) -> str:
        """A name as this SQL quotes it."""
        return f"{self.QUOTE}{name}{self.QUOTE}"

    @abstractmethod
    def key(self, table: str) -> tuple[str, ...]:
        """A key of a table, as SQL."""

    @abstractmethod
    def values(self, table: str) -> dict[str, str]:
        """Values for all columns of a table but the key, as SQL."""

    @abstractmethod
    def visit(self) -> str:
        """A change of the table without a key."""

    def text(self) -> str:
        """A text, large or small, as SQL."""
        dice = self.dice
        large = "".join(dice.choices("abcdefghijklmnop é\U0001f600", k=_LARGE))
        return dice.choice(["null", "''", "'it''s'", self.LINES, f"'{large}'", f"'{large}'"])

    LINES: ClassVar[str]
    """A text of two lines, as SQL."""

    def moment(self) -> str:
        """A day and a time of it, as SQL."""
        dice = self.dice
        day = dice.choice(DAYS)
        return f"'{day} {dice.randrange(24):02}:00:59.{dice.choice(['0', '123456', '999'])}'"


@dataclass(frozen=True)
class Source:
    """A kind of database."""

    name: str
    jars: str
    """The file with the jars of its connector."""
    programs: tuple[str, ...]
    """Files with the jars of its server, of those that ``make test`` has fetched."""
    tables: Mapping[str, Table]
    writer: Callable[[int, Setting], Writer]
    """By a seed, for a setting."""
    started: Callable[[Path], AbstractContextManager[Database]]
    """A server with its data in a folder, and with the tables."""
    database: str
    own: Callable[[int], dict[str, str]]
    """What tells several connectors of one database apart, by a number."""
    schema: str | None = None
    """Database and schema, as events name them."""

    @property
    def keyed(self) -> dict[str, Table]:
        """The tables that have a key."""
        return {name: table for name, table in self.tables.items() if table.key}


def differences(
    gold: list[dict[str, Any]], source: list[dict[str, Any]], table: Table, setting: Setting
) -> Iterator[str]:
    """What of gold is not as it is at the source: a line for each value, or row."""
    return differing(plain(gold, table, setting), source, table, setting)


def differing(
    ours: list[dict[str, Any]], source: list[dict[str, Any]], table: Table, setting: Setting
) -> Iterator[str]:
    """The same of rows with plain values."""
    theirs = [
        {name: setting.of_source(row[name], column) for name, column in table.columns.items()}
        for row in source
    ]
    by_key = {tuple(repr(row[name]) for name in table.key): row for row in ours}
    wanted = {tuple(repr(row[name]) for name in table.key): row for row in theirs}
    assert len(by_key) == len(ours) and len(wanted) == len(source)
    yield from (f"{each}: not at the source" for each in sorted(by_key.keys() - wanted.keys()))
    yield from (f"{each}: not in gold" for each in sorted(wanted.keys() - by_key.keys()))
    for each in sorted(by_key.keys() & wanted.keys()):
        for name, value in wanted[each].items():
            found = by_key[each][name]
            if not is_same(found, value, table.columns[name].kind):
                yield f"{each}.{name}: {found!r}, at the source {value!r}"[:300]


def plain(gold: list[dict[str, Any]], table: Table, setting: Setting) -> list[dict[str, Any]]:
    """Gold's rows with plain values."""
    return [
        {
            name: setting.of_gold(row[_column_of(setting.named(name))], column)
            for name, column in table.columns.items()
        }
        for row in gold
    ]


def _column_of(name: str) -> str:
    return RENAMED.get(name, name)
