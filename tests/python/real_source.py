"""A PostgreSQL of a test's own as a source: its tables, random changes of them, and its rows.

``CREATE`` makes the tables, ``Writer`` changes them at random, ``Database.rows`` reads what is
there: PostgreSQL says what gold must have, nothing here works it out.
"""

import json
import random
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from postgres import USER

from dbt_lakehouse.config.paths import LOOPBACK

CREATE: Final = """
create schema shop;
set search_path = shop;

-- Two columns of key, and values out of line that a change leaves as they were.
create table orders (
    tenant int, id bigint, amount numeric(12, 2), placed timestamptz, status varchar(20), note text,
    primary key (tenant, id)
);
alter table orders alter column note set storage external;

-- The whole old row is in each change.
create table documents (id uuid primary key, title text, body text, version int);
alter table documents alter column body set storage external;
alter table documents replica identity full;

create table emptied (id int primary key, value int, at timestamp);

create table "select" ("order" date primary key, "größe" real, "Is Late?" boolean);

create table visits (page text, seconds double precision, day date);
alter table visits replica identity full;
-- A topic is made by its first message.
insert into visits values ('/0', 1.5, '2024-02-29');

create type mood as enum ('fine', 'so so', '');
create table kinds (
    id smallint primary key, c char(5), b bytea, j jsonb, a int[], t text[], m mood,
    n numeric, f double precision, tm time, ts timestamp(3), tz timestamptz, d date, v varchar,
    u uuid, bits bit(5), big bigint, iv interval
);

create table marker (id int primary key, round int);
insert into marker values (1, 0);
"""
KEYS: Final = {
    "orders": ("tenant", "id"),
    "documents": ("id",),
    "emptied": ("id",),
    "select": ("order",),
    "kinds": ("id",),
}
# What connectors say otherwise than PostgreSQL's JSON does; Debezium strips zeros of numerics that
# have no scale of their own.
SAID: Final = {
    "kinds": """jsonb_build_object(
        'iv', extract(epoch from iv), 'tm', to_char(tm, 'HH24:MI:SS.US'), 'bits', bits::int,
        'n', trim_scale(n)::text
    )""",
}
_LARGE: Final = 3_000
_DAYS: Final = ("0001-01-01", "0999-12-31", "1582-10-04", "1582-10-15", "2024-02-29", "9999-12-31")
_NUMBERS: Final = ("0", "10", "1e1", "2.5", "2.50", "-0.000001", "123456789012345678901234567890.5")
_FLOATS: Final = ("'NaN'", "'Infinity'", "'-Infinity'", "1.9999999999999998e23", "4.9e-324", "-0.0")


@dataclass
class Database:
    """The server: ``psql`` and its address."""

    psql: Path
    port: int

    def answers(self) -> bool:
        """Whether the server has started."""
        return self._psql("select 1;").returncode == 0

    def run(self, script: str) -> str:
        """What a script prints. Each statement is a transaction unless it says otherwise."""
        done = self._psql(script)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _psql(self, script: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                *(str(self.psql), "-h", LOOPBACK, "-p", str(self.port), "-U", USER, "postgres"),
                *("-v", "ON_ERROR_STOP=1", "-q", "-A", "-t", "-X"),
            ],
            input=f"set search_path = shop; set timezone = 'UTC';\n{script}",
            capture_output=True,
            text=True,
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        """All rows of a table, as PostgreSQL writes them as JSON; numbers as they are written."""
        said = SAID.get(table, "'{}'")
        text = self.run(f'select to_jsonb(_row) || {said} from "{table}" as _row;')
        return [json.loads(line, parse_float=str) for line in text.split("\n") if line]


@dataclass
class Writer:
    """Changes tables at random. The same seed makes the same statements."""

    seed: int
    live: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {table: [] for table in KEYS}
    )
    count: int = 0

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)

    def script(self, transactions: int) -> str:
        """Transactions of some changes each; some change a row twice, some take half of it back."""
        return "\n".join(self._transaction() for _ in range(transactions))

    def _transaction(self) -> str:
        dice = self.dice
        if dice.random() < 0.06:
            self.live["emptied"] = []
            return "begin; truncate emptied; commit;"
        before = {table: [*keys] for table, keys in self.live.items()}
        lines = ["begin;"]
        for _ in range(dice.randint(1, 5)):
            lines.append(self._change())
        kept = {table: [*keys] for table, keys in self.live.items()}
        if dice.random() < 0.15:
            lines += ["savepoint half;", self._change(), self._change(), "rollback to half;"]
            self.live = kept
        if dice.random() < 0.08:
            self.live = before
            return "\n".join([*lines, "rollback;"])
        return "\n".join([*lines, "commit;"])

    def _change(self) -> str:
        dice = self.dice
        if dice.random() < 0.1:
            return self._visit()
        table = dice.choice([*KEYS, "orders", "emptied"])
        live = self.live[table]
        what = dice.choice(["insert", "insert", "update", "update", "delete", "move"])
        if not live or (what == "insert" and len(live) < 40):
            key = self._key(table)
            if key in live:
                return ""
            live.append(key)
            columns = {**dict(zip(KEYS[table], key, strict=True)), **self._values(table)}
            names = ", ".join(f'"{name}"' for name in columns)
            return f'insert into "{table}" ({names}) values ({", ".join(columns.values())});'
        key = dice.choice(live)
        where = " and ".join(
            f'"{name}" = {value}' for name, value in zip(KEYS[table], key, strict=True)
        )
        if what == "delete":
            live.remove(key)
            return f'delete from "{table}" where {where};'
        changed = self._values(table)
        some = dice.sample([*changed], dice.randint(1, len(changed)))
        assignments = {name: changed[name] for name in some}
        if what == "move":
            other = self._key(table)
            if other not in live:
                live[live.index(key)] = other
                assignments |= dict(zip(KEYS[table], other, strict=True))
        said = ", ".join(f'"{name}" = {value}' for name, value in assignments.items())
        return f'update "{table}" set {said} where {where};'

    def _visit(self) -> str:
        dice = self.dice
        row = f"'/{dice.randrange(3)}', {dice.choice(['1.5', 'null'])}, '{dice.choice(_DAYS)}'"
        if dice.random() < 0.6:
            return f"insert into visits values ({row});"
        # One of rows that are alike.
        return (
            "delete from visits where ctid = (select ctid from visits"
            f" where page = '/{dice.randrange(3)}' limit 1);"
        )

    def _key(self, table: str) -> tuple[str, ...]:
        dice = self.dice
        if table == "orders":
            return (str(dice.randrange(3)), str(dice.choice([1, 2, 3, 4, 5, 6, 2**62])))
        if table == "documents":
            return (f"'00000000-0000-4000-8000-00000000000{dice.randrange(9)}'",)
        if table == "select":
            return (f"'{dice.choice(_DAYS)}'",)
        return (str(dice.randrange(12)),)

    def _text(self) -> str:
        dice = self.dice
        large = "".join(dice.choices("abcdefghijklmnop é\U0001f600", k=_LARGE))
        return dice.choice(["null", "''", "'it''s'", "e'a\\nb'", f"'{large}'", f"'{large}'"])

    def _time(self) -> str:
        dice = self.dice
        day = dice.choice(_DAYS)
        return f"'{day} {dice.randrange(24):02}:00:59.{dice.choice(['0', '123456', '999'])}'"

    def _values(self, table: str) -> dict[str, str]:
        dice = self.dice
        self.count += 1
        if table == "orders":
            return {
                "amount": dice.choice(["null", "0", "-1.5", "9999999999.99", f"{self.count}.25"]),
                "placed": dice.choice(["null", self._time() + "::timestamptz"]),
                "status": dice.choice(["'new'", "'paid'", "null"]),
                "note": self._text(),
            }
        if table == "documents":
            return {"title": f"'t {self.count}'", "body": self._text(), "version": str(self.count)}
        if table == "emptied":
            return {"value": str(self.count), "at": self._time()}
        if table == "select":
            return {
                "größe": dice.choice(["null", "1.5", "0.1", "3.4e38"]),
                "Is Late?": dice.choice(["true", "false", "null"]),
            }
        return {
            "c": dice.choice(["'ab'", "null"]),
            "b": dice.choice(["'\\x00ff'", "''", "null"]),
            "j": dice.choice(["""'{"a": [1.50, null], "b": "é"}'""", "'[]'", "null"]),
            "a": dice.choice(["'{1,null,3}'", "'{}'", "null"]),
            "t": dice.choice(["""'{"a b",null,""}'""", "null"]),
            "m": dice.choice(["'fine'", "'so so'", "''", "null"]),
            "n": dice.choice([*_NUMBERS, "null"]),
            "f": dice.choice([*_FLOATS, "null"]),
            "tm": dice.choice(["'00:00:00'", "'23:59:59.999999'", "null"]),
            "ts": dice.choice([self._time(), "null"]),
            "tz": dice.choice([self._time() + "::timestamptz", "null"]),
            "d": dice.choice([f"'{dice.choice(_DAYS)}'", "null"]),
            "v": self._text(),
            "u": dice.choice(["'6ccd780c-baba-1026-9564-5b8c656024db'", "null"]),
            "bits": dice.choice(["b'10001'", "b'00000'", "null"]),
            "big": dice.choice([str(2**63 - 1), str(-(2**63)), "null"]),
            "iv": dice.choice(["'1 day 02:03:04.5'", "'0'", "null"]),
        }
