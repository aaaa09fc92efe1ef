"""PostgreSQL as a real source: its tables, random changes of them, and its rows.

What Debezium itself loses is no difference; each is here by its reason, and in
``docs/wire-formats.md`` for who sets up a connector. No message says what these values were. A
generated column is in the tables, and null in what is expected of gold; nothing here writes the
others:

- A stored generated column is null after a row's first change, for ``pgoutput`` leaves it out; a
  snapshot has it.
- A numeric that is NaN or infinite is null: Connect's Decimal has no such number.
- An array of an enum is null, from a snapshot only if an element is null: the connector knows no
  type for it.
- A date before Christ, or infinity as one, is another date from a snapshot: Java's driver reads it
  as a date of its calendar. The log's are read as text.
- A value that is out of line and that an update leaves as it was is null, not the placeholder, if
  it is a numeric, or an array of anything but text, varchar, json, jsonb, bytea, int, bigint, date
  and uuid; the connector's log says "Failed to properly convert data value". None here is so long.
- An element of a time[] has milliseconds.
- An interval with months is approximate in numeric mode: a month has 30.4375 days.

What is lost by a setting is taken out of the source's values (``real_settings``): digits by
``decimal-double`` and ``time-connect``, nulls of columns with a default by Apicurio's AvroConverter
and by ByLogicalTableRouter, a bytea out of line by ``binary-base64``, a bytea[] by it and by
``binary-hex``, a date[] by ``time-connect`` and ``time-isostring``.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.config.paths import LOOPBACK
from local_kafka.postgres import USER, postgres, programs
from support import postgres_contrib
from support.commands import wait_until
from support.real_source import DAYS, VISITS, Source, Writer
from support.real_values import Column, Kind, Table, json_value, span

CREATE: Final = """
create schema shop;
set search_path = shop;

-- Two columns of key, and values out of line that a change leaves as they were.
create table orders (
    tenant int, id bigint, amount numeric(12, 2), placed timestamptz, status varchar(20), note text,
    scan bytea, primary key (tenant, id)
);
alter table orders alter column note set storage external, alter column scan set storage external;

-- The whole old row is in each change.
create table documents (id uuid primary key, title text, body text, version int,
    sums numeric[]
);
alter table documents
    alter column body set storage external, alter column sums set storage external;
alter table documents replica identity full;

create table emptied (id int primary key, value int, at timestamp);

create table "select" ("order" date primary key, "größe" real, "Is Late?" boolean);

create table visits (page text, seconds double precision, day date);
alter table visits replica identity full;
-- A topic is made by its first message.
insert into visits values ('/0', 1.5, '2024-02-29');

-- Its rows lie in two tables, and move from one to the other with their key.
create table parts (region text, id int, value int, primary key (region, id))
    partition by list (region);
create table parts_north partition of parts for values in ('north');
create table parts_rest partition of parts default;

-- The server works out a column.
create table prices (
    id int primary key, net int, twice int generated always as (net * 2) stored
);
-- No change comes to it.
insert into prices (id, net) values (99, 4);

create extension hstore;
create extension citext;
create extension ltree;
create type mood as enum ('fine', 'so so', '');
create domain positive as int check (value > 0);
create table kinds (
    id smallint primary key, c char(5), b bytea, j jsonb, a int[], t text[], m mood,
    n numeric, f double precision, tm time, ts timestamp(3), tz timestamptz, d date, v varchar,
    u uuid, bits bit(5), big bigint, iv interval,
    r int4range, tr tstzrange, na numeric(10, 2)[], da date[], ba boolean[], ua uuid[], ip inet,
    mac macaddr, vb bit varying(12), po positive, ch "char",
    h hstore,
    js json, x xml, ci citext, lq ltree, t0 timestamp(0), tz3 timestamptz(3), re real, sm smallint,
    od oid, nr numrange, dr daterange, cd cidr, m8 macaddr8, mo money, tsv tsvector,
    -- Scales that are negative, and larger than the precision.
    nn numeric(5, -2), ns numeric(3, 5),
    nv numeric[], ta timestamp[], tza timestamptz[], tma time[], va varchar(5)[], ia bigint[],
    sa smallint[], fa double precision[], ra real[], bya bytea[], ja jsonb[], ea inet[],
    dl date[]
);
-- Each long value may be out of line; of ltree none is long.
do $$ declare name text; begin
    for name in
        select attname from pg_attribute
        where attrelid = 'kinds'::regclass and attnum > 0 and attlen = -1 and attname <> 'lq'
    loop
        execute format('alter table kinds alter column %I set storage external', name);
    end loop;
end $$;

create table marker (id int primary key, round int);
insert into marker values (1, 0);

create table signals (id varchar(60) primary key, type varchar(32), data varchar(2048));
"""
_WHOLE: Final = Column(Kind.WHOLE)
_TEXT: Final = Column(Kind.TEXT)
_DATE: Final = Column(Kind.DATE)
_INSTANT: Final = Column(Kind.INSTANT, 6)
TABLES: Final = {
    "orders": Table(
        {
            "tenant": _WHOLE,
            "id": _WHOLE,
            "amount": Column(Kind.NUMBER, 2),
            "placed": _INSTANT,
            "status": _TEXT,
            "note": _TEXT,
            "scan": Column(Kind.BINARY),
        },
        ("tenant", "id"),
    ),
    "documents": Table(
        {
            "id": _TEXT,
            "title": _TEXT,
            "body": _TEXT,
            "version": _WHOLE,
            "sums": Column(Kind.LIST, elements=Kind.NUMBER),
        },
        ("id",),
    ),
    "emptied": Table({"id": _WHOLE, "value": _WHOLE, "at": Column(Kind.LOCAL, 6)}, ("id",)),
    "select": Table(
        {"order": _DATE, "größe": Column(Kind.SINGLE), "Is Late?": Column(Kind.BOOLEAN)},
        ("order",),
    ),
    "parts": Table({"region": _TEXT, "id": _WHOLE, "value": _WHOLE}, ("region", "id")),
    "prices": Table(
        {"id": _WHOLE, "net": _WHOLE, "twice": Column(Kind.WHOLE, is_generated=True)}, ("id",)
    ),
    "kinds": Table(
        {
            "id": _WHOLE,
            "c": _TEXT,
            "b": Column(Kind.BINARY),
            "j": Column(Kind.JSON),
            "a": Column(Kind.LIST, elements=Kind.WHOLE),
            "t": Column(Kind.LIST, elements=Kind.TEXT),
            "m": _TEXT,
            "n": Column(Kind.NUMBER),
            "f": Column(Kind.DOUBLE),
            "tm": Column(Kind.TIME, 6),
            "ts": Column(Kind.LOCAL, 3),
            "tz": _INSTANT,
            "d": _DATE,
            "v": _TEXT,
            "u": _TEXT,
            "bits": Column(Kind.BITS, 5),
            "big": _WHOLE,
            "iv": Column(Kind.SPAN),
            "r": _TEXT,
            "tr": _TEXT,
            "na": Column(Kind.LIST, elements=Kind.NUMBER),
            "da": Column(Kind.LIST, elements=Kind.DATE),
            "ba": Column(Kind.LIST, elements=Kind.BOOLEAN),
            "ua": Column(Kind.LIST, elements=Kind.TEXT),
            "ip": _TEXT,
            "mac": _TEXT,
            "vb": Column(Kind.BITS, 12),
            "po": _WHOLE,
            "ch": _TEXT,
            "h": Column(Kind.JSON),
            **dict.fromkeys(("x", "ci", "lq", "nr", "dr", "cd", "m8", "tsv"), _TEXT),
            "js": Column(Kind.JSON),
            "t0": Column(Kind.LOCAL, 0),
            "tz3": Column(Kind.INSTANT, 3),
            "re": Column(Kind.SINGLE),
            "sm": _WHOLE,
            "od": _WHOLE,
            "mo": Column(Kind.NUMBER, 2),
            "nn": Column(Kind.NUMBER, -2),
            "ns": Column(Kind.NUMBER, 5),
            "nv": Column(Kind.LIST, elements=Kind.NUMBER),
            "ta": Column(Kind.LIST, elements=Kind.LOCAL),
            "tza": Column(Kind.LIST, elements=Kind.INSTANT),
            "tma": Column(Kind.LIST, elements=Kind.TIME),
            "va": Column(Kind.LIST, elements=Kind.TEXT),
            "ia": Column(Kind.LIST, elements=Kind.WHOLE),
            "sa": Column(Kind.LIST, elements=Kind.WHOLE),
            "fa": Column(Kind.LIST, elements=Kind.DOUBLE),
            "ra": Column(Kind.LIST, elements=Kind.SINGLE),
            "bya": Column(Kind.LIST, elements=Kind.BINARY),
            "ja": Column(Kind.LIST, elements=Kind.JSON),
            "ea": Column(Kind.LIST, elements=Kind.TEXT),
            "dl": Column(Kind.LIST, elements=Kind.DATE),
        },
        ("id",),
    ),
    VISITS: Table({"page": _TEXT, "seconds": Column(Kind.DOUBLE), "day": _DATE}),
}
_NUMBERS: Final = ("0", "10", "1e1", "2.5", "2.50", "-0.000001", "123456789012345678901234567890.5")
_UUID: Final = "6ccd780c-baba-1026-9564-5b8c656024db"
_WORDS: Final = " ".join(f"word{number}" for number in range(700))
_FLOATS: Final = ("'NaN'", "'Infinity'", "'-Infinity'", "1.9999999999999998e23", "4.9e-324", "-0.0")


# The transaction behind the connector's snapshot: what a later one has written came by the log.
_SNAPSHOT: Final = "select xmin::text::bigint from marker where id = 0"


@dataclass
class Database:
    """The server: ``psql`` and its address."""

    psql: Path
    port: int

    def connector(self, folder: Path) -> dict[str, str]:
        """Debezium's settings."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname": LOOPBACK,
            "database.port": str(self.port),
            "database.user": USER,
            "database.password": "",
            "database.dbname": "postgres",
            "topic.prefix": "real",
            "plugin.name": "pgoutput",
            "schema.include.list": "shop",
            # Else each partition is a table of its own.
            "publish.via.partition.root": "true",
            "table.exclude.list": r"shop\.parts_.*",
        }

    def answers(self) -> bool:
        """Whether the server has started."""
        return self._psql("select 1;").returncode == 0

    def run(self, script: str) -> str:
        """What a script prints."""
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

    def rows(self, name: str, table: Table) -> list[dict[str, Any]]:
        """All rows of a table, as PostgreSQL writes them as JSON."""
        spans = [each for each, column in table.columns.items() if column.kind is Kind.SPAN]
        told = [f"'{each}', extract(epoch from {each})" for each in spans]
        told += [
            f"'{each}', case when xmin::text::bigint < ({_SNAPSHOT}) then {each} end"
            for each, column in table.columns.items()
            if column.is_generated
        ]
        said = ", ".join(told)
        query = f'select to_jsonb(_row) || jsonb_build_object({said}) from "{name}" as _row;'
        rows = [json_value(line) for line in self.run(query).split("\n") if line]
        return [
            {each: _plain(row[each], column) for each, column in table.columns.items()}
            for row in rows
        ]


def _plain(value: Any, column: Column) -> Any:
    if value is None:
        return None
    match column.kind:
        case Kind.WHOLE:
            # An oid is text.
            return int(value)
        case Kind.NUMBER | Kind.SPAN:
            # Money is text, with its sign.
            return Decimal(str(value).replace("$", ""))
        case Kind.SINGLE | Kind.DOUBLE:
            return float(value)
        case Kind.BINARY:
            return bytes.fromhex(value.removeprefix("\\x"))
        case Kind.BITS:
            return int(value, 2)
        case Kind.DATE:
            return date.fromisoformat(value)
        case Kind.LOCAL | Kind.INSTANT:
            return datetime.fromisoformat(value)
        case Kind.TIME:
            return span(value)
        case Kind.LIST:
            return [_plain(each, column.part) for each in value]
    return value


class _Writer(Writer):
    TABLES = TABLES
    OFTEN = (*Writer.OFTEN, "kinds")
    ALTER = """
        alter table orders add column extra varchar(10);
        alter table orders alter column amount type numeric(14, 3);
    """
    LINES = "e'a\\nb'"

    def script(self, transactions: int) -> str:
        said = super().script(transactions)
        return f"{said}\ninsert into marker values (0, 0) on conflict do nothing;"

    def key(self, table: str) -> tuple[str, ...]:
        dice = self.dice
        if table == "orders":
            return (str(dice.randrange(3)), str(dice.choice([1, 2, 3, 4, 5, 6, 2**62])))
        if table == "documents":
            return (f"'00000000-0000-4000-8000-00000000000{dice.randrange(9)}'",)
        if table == "select":
            return (f"'{dice.choice(DAYS)}'",)
        if table == "parts":
            return (dice.choice(["'north'", "'south'", "''"]), str(dice.randrange(4)))
        return (str(dice.randrange(12)),)

    def visit(self) -> str:
        dice = self.dice
        row = f"'/{dice.randrange(3)}', {dice.choice(['1.5', 'null'])}, '{dice.choice(DAYS)}'"
        if dice.random() < 0.6:
            return f"insert into visits values ({row});"
        # One of rows that are alike.
        return (
            "delete from visits where ctid = (select ctid from visits"
            f" where page = '/{dice.randrange(3)}' limit 1);"
        )

    def values(self, table: str) -> dict[str, str]:
        dice = self.dice
        self.count += 1
        if table == "orders":
            return {
                "amount": dice.choice(["null", "0", "-1.5", "9999999999.99", f"{self.count}.25"]),
                "placed": dice.choice(["null", self.moment() + "::timestamptz"]),
                "status": dice.choice(["'new'", "'paid'", "null"]),
                "note": self.text(),
                "scan": dice.choice(
                    [
                        "null",
                        "''",
                        "'\\x00ff'",
                        f"decode(repeat('{dice.randrange(16):x}f', 3000), 'hex')",
                    ]
                ),
            }
        if table == "documents":
            return {
                "title": f"'t {self.count}'",
                "body": self.text(),
                "version": str(self.count),
                "sums": dice.choice(["'{1.5}'", _filled("1.25"), "null"]),
            }
        if table == "emptied":
            return {"value": str(self.count), "at": self.moment()}
        if table == "parts":
            return {"value": str(self.count)}
        if table == "prices":
            return {"net": dice.choice([str(self.count), "null"])}
        if table == "select":
            return {
                "größe": dice.choice(["null", "1.5", "0.1", "3.4e38"]),
                "Is Late?": dice.choice(["true", "false", "null"]),
            }
        return {
            "c": dice.choice(["'ab'", "null"]),
            "m": dice.choice(["'fine'", "'so so'", "''", "null"]),
            "n": dice.choice([*_NUMBERS, "null"]),
            "f": dice.choice([*_FLOATS, "null"]),
            "tm": dice.choice(["'00:00:00'", "'23:59:59.999999'", "null"]),
            "ts": dice.choice([self.moment(), "null"]),
            "tz": dice.choice([self.moment() + "::timestamptz", "null"]),
            "d": dice.choice([f"'{dice.choice(DAYS)}'", "null"]),
            "v": self.text(),
            "u": dice.choice(["'6ccd780c-baba-1026-9564-5b8c656024db'", "null"]),
            "bits": dice.choice(["b'10001'", "b'00000'", "null"]),
            "big": dice.choice([str(2**63 - 1), str(-(2**63)), "null"]),
            "iv": dice.choice(["'1 day 02:03:04.5'", "'0'", "null"]),
            "r": dice.choice(["'[1,5)'", "'empty'", "'(,7]'", "null"]),
            "tr": dice.choice(["'[2024-01-01 00:00:00+02,)'", "null"]),
            "na": dice.choice(["'{1.50,null,-0.01}'", "'{}'", "null"]),
            "ba": dice.choice(["'{t,f,null}'", "null"]),
            "ip": dice.choice(["'10.0.0.1/8'", "'::1'", "null"]),
            "mac": dice.choice(["'08:00:2b:01:02:03'", "null"]),
            "vb": dice.choice(["b'1'", "b'101000000001'", "null"]),
            "po": dice.choice(["1", str(2**31 - 1), "null"]),
            "ch": dice.choice(["'x'", "null"]),
            **self._more(),
        }

    def _more(self) -> dict[str, str]:
        choices = {
            "b": ["'\\x00ff'", "''"],
            "j": ["""'{"a": [1.50, null], "b": "é"}'""", "'[]'", f"to_jsonb({_filled('1.5')})"],
            "a": ["'{1,null,3}'", "'{}'", _filled("7")],
            "t": ["""'{"a b",null,""}'""", _filled("'ab'::text")],
            "da": ["'{2024-02-29,null,1999-12-31}'"],
            "dl": ["'{}'", _filled("'2024-02-29'::date")],
            "ua": [f"'{{{_UUID}}}'", "'{null}'", _filled(f"'{_UUID}'::uuid")],
            "h": [
                """'a => 1, "b c" => null, "é" => "\U0001f600, => \\\"", d => ""'""",
                "''",
                "hstore('a', repeat('b', 4000))",
            ],
            "js": ["""'{"a":  1.50, "a": 2}'""", f"to_json({_filled('true')})"],
            "x": ["'<a>é</a>'", "('<a>' || repeat('b', 4000) || '</a>')::xml"],
            "ci": ["'Ab'", "repeat('Ab', 3000)"],
            "lq": ["'a.b'"],
            "t0": ["'2024-02-29 12:34:56'"],
            "tz3": ["'2024-02-29 12:34:56.789+02'"],
            "re": ["'NaN'", "'Infinity'", "0.1", "1e-45"],
            "sm": ["-32768"],
            "od": ["4294967295"],
            "nr": ["'[1.50,2)'", "'empty'"],
            "dr": ["'[2024-01-01,infinity)'"],
            "cd": ["'10.0.0.0/8'"],
            "m8": ["'08:00:2b:01:02:03:04:05'"],
            "mo": ["'12.34'", "'-0.01'"],
            "tsv": ["'a b'", f"array_to_tsvector(string_to_array('{_WORDS}', ' '))"],
            "nn": ["12300", "-9999900"],
            "ns": ["0.00123"],
            "va": ["'{a,null}'", _filled("'ab'::varchar")],
            "ia": ["'{9223372036854775807}'", _filled("7::bigint")],
            "bya": ["array['\\x00ff'::bytea, null]", _filled("'\\x00ff'::bytea")],
            "ja": ["""array['{"a": 1.50}'::jsonb]""", _filled("""'{"a": 1.50}'::jsonb""")],
            "nv": ["'{1.50,2,1e3,null}'"],
            "ta": ["'{2024-01-01 00:00:00.123456}'"],
            "tza": ["'{2024-01-01 00:00:00.123456+02}'"],
            "tma": ["'{12:34:56.123}'"],
            "sa": ["'{-1,null}'"],
            "fa": ["'{1.5,Infinity,0.1}'"],
            "ra": ["'{1.5,0.1}'"],
            "ea": ["'{10.0.0.1}'"],
        }
        return {name: self.dice.choice([*some, "null"]) for name, some in choices.items()}


def _filled(element: str) -> str:
    """An array that is long enough to lie out of line."""
    return f"array_fill({element}, array[700])"


@contextmanager
def _started(folder: Path) -> Iterator[Database]:
    slots = {"max_replication_slots": "40", "max_wal_senders": "40"}
    with postgres(folder, postgres_contrib.programs(), wal_level="logical", **slots) as url:
        database = Database(programs() / "psql", int(url.rpartition(":")[2].partition("/")[0]))
        wait_until(database.answers, "PostgreSQL has started")
        database.run(CREATE)
        yield database


POSTGRES: Final = Source(
    name="postgres",
    jars="debezium_postgres_jars.txt",
    programs=(postgres_contrib.JARS,),
    tables=TABLES,
    database="postgres",
    schema="shop",
    writer=_Writer,
    started=_started,
    own=lambda number: {"slot.name": f"slot_{number}", "publication.name": f"changes_{number}"},
)
