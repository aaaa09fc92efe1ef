"""MariaDB as a real source: its tables, random changes of them, and its rows.

What Debezium itself loses is no difference; each is here by its reason, and in
``docs/wire-formats.md`` for who sets up a connector:

- A zero date (0000-00-00) is no date of Java's: null, or 1970-01-01 in a column that has no nulls.
- A zero timestamp is null in a snapshot, and 1970-01-01T00:00:00Z from the log, where it is 0
  seconds: there is none before the connector comes.
- The year 0000 is 1900 from the log.
- From the log, a comma of an ENUM's label has a backslash before it, which the decoder takes out
  by the labels in the schema block. Without a schema block it stays; a snapshot has none.
- A snapshot ends with an error at the year 0000: there is none before the connector comes.
- The connector can't read the definition of a table with a column of INET4 or INET6, and stops.
- A snapshot reads a FLOAT by text, of which MariaDB writes 6 digits: the floats that are there
  before the connector comes have no more.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.config.paths import LOOPBACK
from support.commands import wait_until
from support.mariadb import USER, client, mariadb
from support.real_source import DAYS, VISITS, Source, Writer
from support.real_values import Column, Kind, Table, span

CREATE: Final = """
create database shop;
use shop;

-- Two columns of key, one of them beyond a bigint; a column that the server works out.
create table orders (
    tenant int, id bigint unsigned, amount decimal(12, 2), placed timestamp(3) null,
    status varchar(20) default 'new', note longtext, gross decimal(18, 4) as (amount * 1.5) stored,
    pages int as (char_length(note)) virtual,
    primary key (tenant, id)
);

create table emptied (id int primary key, value int, at datetime(6));

create table `select` (`order` date primary key, `größe` float, `Is Late?` bit(1));

create table `größen` (`id` int primary key, `from` varchar(20), `日本` text);

-- Of its keys, 'a', 'A' and 'ä' are one.
create table labels (name varchar(20) collate utf8mb4_uca1400_ai_ci primary key, value int);
insert into labels values ('first', 0);

create table visits (page varchar(20), seconds double, day date);
insert into visits values ('/0', 1.5, '2024-02-29');

create table kinds (
    id smallint unsigned primary key,
    u8 bigint unsigned, i8 bigint, u4 int unsigned, m3 mediumint, u1 tinyint unsigned,
    t1 tinyint(1),
    n decimal(20, 6), n38 decimal(38, 10), n65 decimal(65, 30), f float, d double,
    b1 bit(1), b5 bit(5), b64 bit(64),
    e enum('fine', 'so so', '', 'it''s, fine'), s set('a', 'b', 'c d'),
    y year, da date, da0 date not null, d6 datetime(6), d3 datetime(3), d0 datetime,
    ts3 timestamp(3) null, ts6 timestamp(6) null, ti time, ti3 time(3), ti6 time(6),
    j json, bl blob, lt longtext, vb varbinary(40), bi binary(4), c char(5), v varchar(40),
    l1 varchar(20) character set latin1, u2 varchar(20) character set ucs2,
    l2 text character set latin2, gb varchar(20) character set gbk,
    sj varchar(20) character set sjis, kb varchar(20) character set koi8r,
    c12 varchar(20) character set cp1251, el enum('é', 'x') character set latin1,
    sl set('ä', 'ö') character set latin1, cb varchar(20) collate utf8mb4_bin,
    cbin varchar(10) character set binary, zf int(6) zerofill,
    nz decimal(10, 2) unsigned zerofill, n650 decimal(65, 0), b8 bit(8), b16 bit(16), tb tinyblob,
    mt mediumtext, uu uuid, inv int invisible, fu float(7, 3) unsigned, d2 double(10, 2)
);

-- Without a primary key: its unique column is the key.
create table loose (code varchar(10) not null unique, value int default 7);
create table parted (id int, at date, value int, primary key (id, at))
    partition by range columns (at) (
        partition old values less than ('2000-01-01'), partition rest values less than maxvalue);

create table marker (id int primary key, round int);
insert into marker values (1, 0);

create table signals (id varchar(60) primary key, type varchar(32), data varchar(2048));
"""
_WHOLE: Final = Column(Kind.WHOLE)
_TEXT: Final = Column(Kind.TEXT)
_BINARY: Final = Column(Kind.BINARY)
_DATE: Final = Column(Kind.DATE)
TABLES: Final = {
    "orders": Table(
        {
            "tenant": _WHOLE,
            "id": _WHOLE,
            "amount": Column(Kind.NUMBER, 2),
            "placed": Column(Kind.INSTANT, 3),
            "status": Column(Kind.TEXT, default="new"),
            "note": _TEXT,
            "gross": Column(Kind.NUMBER, 4),
            "pages": _WHOLE,
        },
        ("tenant", "id"),
    ),
    "emptied": Table({"id": _WHOLE, "value": _WHOLE, "at": Column(Kind.LOCAL, 6)}, ("id",)),
    "select": Table(
        {"order": _DATE, "größe": Column(Kind.SINGLE), "Is Late?": Column(Kind.BOOLEAN)},
        ("order",),
    ),
    "größen": Table({"id": _WHOLE, "from": _TEXT, "日本": _TEXT}, ("id",)),
    "labels": Table({"name": _TEXT, "value": _WHOLE}, ("name",)),
    "kinds": Table(
        {
            "id": _WHOLE,
            **dict.fromkeys(("u8", "i8", "u4", "m3", "u1", "t1"), _WHOLE),
            "n": Column(Kind.NUMBER, 6),
            "n38": Column(Kind.NUMBER, 10),
            "n65": Column(Kind.NUMBER, 30),
            "f": Column(Kind.SINGLE),
            "d": Column(Kind.DOUBLE),
            "b1": Column(Kind.BOOLEAN),
            "b5": Column(Kind.BITS, 5),
            "b64": Column(Kind.BITS, 64),
            "e": Column(Kind.LABEL),
            "s": _TEXT,
            "y": _WHOLE,
            "da": _DATE,
            "da0": Column(Kind.DATE, nullable=False),
            "d6": Column(Kind.LOCAL, 6),
            "d3": Column(Kind.LOCAL, 3),
            "d0": Column(Kind.LOCAL, 0),
            "ts3": Column(Kind.INSTANT, 3),
            "ts6": Column(Kind.INSTANT, 6),
            "ti": Column(Kind.TIME, 0),
            "ti3": Column(Kind.TIME, 3),
            "ti6": Column(Kind.TIME, 6),
            # The text as it was written: the type is another name of longtext.
            "j": _TEXT,
            "bl": _BINARY,
            "lt": _TEXT,
            "vb": _BINARY,
            "bi": _BINARY,
            "c": _TEXT,
            "v": _TEXT,
            **dict.fromkeys(("l1", "u2", "l2", "gb", "sj", "kb", "c12", "sl", "cb", "mt"), _TEXT),
            "el": Column(Kind.LABEL),
            "cbin": _BINARY,
            "zf": _WHOLE,
            "nz": Column(Kind.NUMBER, 2),
            # Of more digits than a decimal has here: text.
            "n650": Column(Kind.NUMBER, None),
            "b8": Column(Kind.BITS, 8),
            "b16": Column(Kind.BITS, 16),
            "tb": _BINARY,
            "uu": _TEXT,
            "inv": _WHOLE,
            "fu": Column(Kind.SINGLE),
            "d2": Column(Kind.DOUBLE),
        },
        ("id",),
    ),
    "loose": Table({"code": _TEXT, "value": Column(Kind.WHOLE, default=7)}, ("code",)),
    "parted": Table({"id": _WHOLE, "at": _DATE, "value": _WHOLE}, ("id", "at")),
    VISITS: Table({"page": _TEXT, "seconds": Column(Kind.DOUBLE), "day": _DATE}),
}
_IDS: Final = (1, 2, 3, 4, 5, 6, 2**63 - 1, 2**63, 2**64 - 1)
_LABELS: Final = ("a", "A", "ä", "b", "B ", "b ", "Straße", "STRASSE", "z\U0001f600", "z\U0001f680")
_TIMES: Final = (
    *("00:00:00", "23:59:59.999999", "24:00:00", "25:00:00.5", "838:59:59", "-838:59:59"),
    *("-00:00:00.000001", "-01:02:03.4", "-00:00:01"),
)
_DOUBLES: Final = ("0.1", "-0.0e0", "1.9999999999999998e23", "4.9e-324", "1.7976931348623157e308")
_FLOATS: Final = ("1.5", "0.1", "3.4e38", "-0.0e0", "1e-38")
# More than the 6 digits that MariaDB writes of one.
_LONG_FLOATS: Final = ("16777215", "0.333333343", "3.40282346e38")
_ZERO: Final = "0000-00-00"
_ZERO_YEAR: Final = "0000"
# Timestamps end in 2038.
_INSTANTS: Final = (
    *("1970-01-01 00:00:01", "2038-01-19 03:14:07.999999", "2024-02-29 12:34:56.789"),
    "2024-10-27 00:30:00.5",
)


@dataclass
class Database:
    """The server, by its port."""

    port: int

    def connector(self, folder: Path) -> dict[str, str]:
        """Debezium's settings: unsigned bigints are numbers, and the year 1 is not 2001."""
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": LOOPBACK,
            "database.port": str(self.port),
            "database.user": USER,
            "database.password": "",
            "database.server.id": "1001",
            "topic.prefix": "real",
            "database.include.list": "shop",
            "bigint.unsigned.handling.mode": "precise",
            "enable.time.adjuster": "false",
            "include.schema.changes": "false",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(folder / "definitions"),
        }

    def answers(self) -> bool:
        """Whether the server has started."""
        return self._client("select 1;").returncode == 0

    def run(self, script: str) -> str:
        """What a script prints."""
        done = self._client(f"use shop;\n{script}")
        assert done.returncode == 0, done.stderr[-500:]
        return done.stdout

    def create(self) -> None:
        """Make the tables."""
        done = self._client(CREATE)
        assert done.returncode == 0, done.stderr[-500:]

    def _client(self, script: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [
                *(str(client()), "--no-defaults", "--skip-ssl", "-h", LOOPBACK),
                *("-P", str(self.port), "-u", USER, "--default-character-set=utf8mb4"),
                *("--batch", "--raw", "--skip-column-names"),
            ],
            # Zero dates are allowed, values that are cut off aren't.
            input=f"set sql_mode = 'STRICT_ALL_TABLES', time_zone = '+00:00';\n{script}",
            capture_output=True,
            text=True,
        )

    def rows(self, name: str, table: Table) -> list[dict[str, Any]]:
        """All rows of a table. MariaDB writes each value as text, in hex."""
        columns = table.columns
        texts = ", ".join(
            f"ifnull({_hex(f'`{each}`', column)}, '-')" for each, column in columns.items()
        )
        printed = self.run(f"select concat_ws(' ', {texts}) from `{name}`;")
        return [
            {
                each: None if text == "-" else _plain(bytes.fromhex(text), columns[each])
                for each, text in zip(columns, line.split(" "), strict=True)
            }
            for line in printed.split("\n")
            if line
        ]


def _hex(name: str, column: Column) -> str:
    match column.kind:
        case Kind.BINARY:
            return f"hex({name})"
        case Kind.BITS | Kind.BOOLEAN:
            return f"hex(cast({name} + 0 as char))"
        case Kind.SINGLE:
            # All digits.
            return f"hex(cast(cast({name} as double) as char))"
    return f"hex(convert({name} using utf8mb4))"


def _plain(data: bytes, column: Column) -> Any:
    if column.kind is Kind.BINARY:
        return data
    text = data.decode()
    if text.startswith(_ZERO):
        if column.kind is Kind.INSTANT:
            return datetime(1970, 1, 1, tzinfo=UTC)
        return None if column.nullable else date(1970, 1, 1)
    if text == _ZERO_YEAR:
        return 1900
    match column.kind:
        case Kind.WHOLE | Kind.BITS:
            return int(text)
        case Kind.BOOLEAN:
            return text == "1"
        case Kind.NUMBER:
            return Decimal(text)
        case Kind.SINGLE | Kind.DOUBLE:
            return float(text)
        case Kind.DATE:
            return date.fromisoformat(text)
        case Kind.LOCAL:
            return datetime.fromisoformat(text)
        case Kind.INSTANT:
            return datetime.fromisoformat(text).replace(tzinfo=UTC)
        case Kind.TIME:
            return span(text)
    return text


class _Writer(Writer):
    TABLES = TABLES
    QUOTE = "`"
    ALTER = "alter table orders add column extra varchar(10), modify amount decimal(14, 3);"
    LINES = "'a\\nb'"

    @property
    def followed(self) -> list[str]:
        """Which labels are the same one, the server knows."""
        return [name for name in super().followed if name != "labels"]

    def key(self, table: str) -> tuple[str, ...]:
        dice = self.dice
        if table == "orders":
            return (str(dice.randrange(3)), str(dice.choice(_IDS)))
        if table == "select":
            return (f"'{dice.choice(DAYS)}'",)
        if table == "parted":
            return (str(dice.randrange(4)), f"'{dice.choice(DAYS)}'")
        if table == "loose":
            return (f"'{dice.randrange(9)}'",)
        return (str(dice.randrange(12)),)

    def visit(self) -> str:
        dice = self.dice
        if dice.random() < 0.5:
            return self._label()
        if dice.random() < 0.2 and self.live["emptied"]:
            return self._shift()
        row = f"'/{dice.randrange(3)}', {dice.choice(['1.5', 'null'])}, '{dice.choice(DAYS)}'"
        if dice.random() < 0.6:
            return f"insert into visits values ({row});"
        # One of rows that are alike.
        where = f"where page = '/{dice.randrange(3)}' limit 1"
        if dice.random() < 0.5:
            return f"update visits set seconds = {dice.choice(['0.1', '2e0', 'null'])} {where};"
        return f"delete from visits {where};"

    def _label(self) -> str:
        dice = self.dice
        self.count += 1
        name, other = (f"'{each}'" for each in dice.sample(_LABELS, 2))
        return dice.choice(
            [
                f"insert ignore into labels values ({name}, {self.count});",
                f"replace into labels values ({name}, {self.count});",
                f"insert into labels values ({name}, {self.count})"
                f" on duplicate key update value = {self.count};",
                f"update ignore labels set name = {other} where name = {name};",
                f"delete from labels where name = {name};",
            ]
        )

    def _shift(self) -> str:
        """A statement that gives each row the key that another one had."""
        self.live["emptied"] = [(str(int(key) + 1),) for (key,) in self.live["emptied"]]
        return "update emptied set id = id + 1 order by id desc;"

    def time(self) -> str:
        """A time, as SQL."""
        return f"'{self.dice.choice(_TIMES)}'"

    def values(self, table: str) -> dict[str, str]:
        dice = self.dice
        self.count += 1
        if table == "orders":
            return {
                "amount": dice.choice(["null", "0", "-1.5", "9999999999.99", f"{self.count}.25"]),
                "placed": dice.choice(["null", self._instant()]),
                "status": dice.choice(["'new'", "'paid'", "null"]),
                "note": self.text(),
            }
        if table == "emptied":
            return {"value": str(self.count), "at": self.moment()}
        if table == "select":
            return {
                "größe": dice.choice(["null", self._float()]),
                "Is Late?": dice.choice(["b'1'", "b'0'", "null"]),
            }
        if table == "größen":
            return {"from": dice.choice(["'\U0001f600'", "''", "null"]), "日本": self.text()}
        if table in ("loose", "parted"):
            return {"value": dice.choice(["null", str(self.count)])}
        values = {
            "l1": ["'é€'", "''"],
            "u2": ["'é日'"],
            "l2": ["'ł'"],
            "gb": ["'日'"],
            "sj": ["'日'"],
            "kb": ["'Я'"],
            "c12": ["'Я'"],
            "el": ["'é'", "'x'"],
            "sl": ["'ä'", "'ä,ö'"],
            "cb": ["'Ab '"],
            "cbin": ["x'00ff'"],
            "zf": ["12", "1234567"],
            "nz": ["1.5"],
            "n650": ["9" * 65],
            "b8": ["b'10000001'", "b'0'"],
            "b16": ["b'1000000100000000'"],
            "tb": ["x'00ff'", "''"],
            "mt": [self.text()],
            "uu": ["'6ccd780c-baba-1026-9564-5b8c656024db'"],
            "inv": ["5"],
            "fu": ["1.5", "1234.567" if not self.is_snapshot else "12.25"],
            "d2": ["1.25"],
            "u8": [str(2**64 - 1), str(2**63), "0"],
            "i8": [str(2**63 - 1), str(-(2**63))],
            "u4": [str(2**32 - 1), "0"],
            "m3": ["-8388608", "8388607"],
            "u1": ["255", "0"],
            "t1": ["0", "1", "-128", "127"],
            "n": ["12345678901234.567890", "-0.000001", "0", "1.5"],
            "n38": ["9999999999999999999999999999.9999999999", "-1.5"],
            "n65": ["12345678901234567890123456789012345.012345678901234567890123456789", "1e-30"],
            "f": [self._float()],
            "d": [*_DOUBLES],
            "b1": ["b'0'", "b'1'"],
            "b5": ["b'10001'", "b'0'", "b'11111'"],
            "b64": [str(2**64 - 1), "1", str(2**63)],
            "e": ["'fine'", "'so so'", "''", *([] if self.is_snapshot else ["'it''s, fine'"])],
            "s": ["''", "'a'", "'a,c d'", "'a,b,c d'"],
            "y": ["1901", "2155", "2024", *([] if self.is_snapshot else ["0"])],
            "da": [f"'{dice.choice([*DAYS, _ZERO])}'"],
            "d6": [self.moment(), f"'{_ZERO} 00:00:00'"],
            "d3": [self.moment(), f"'{_ZERO}'"],
            "d0": [self.moment()],
            "ts3": [self._instant(), *([] if self.is_snapshot else [f"'{_ZERO}'"])],
            "ts6": [self._instant()],
            "ti": [self.time()],
            "ti3": [self.time()],
            "ti6": [self.time()],
            "j": ["""'{"a": [1.50, null], "b": "é\U0001f600"}'""", "'[]'", "'null'", """'"a"'"""],
            "bl": ["x'00ff'", "''", "repeat(x'fe', 3000)"],
            "lt": [self.text()],
            "vb": ["x'00ff00'", "''", "x'20'"],
            "bi": ["x'00ff'", "x'00000000'", "x'20202020'", "''"],
            "c": ["'ab'", "''", "'é\U0001f600'"],
            "v": ["'ab '", "''", "'\U0001f600'", "'a\\\\b'"],
        }
        chosen = {name: dice.choice([*some, "null"]) for name, some in values.items()}
        return chosen | {"da0": f"'{dice.choice([*DAYS, _ZERO])}'"}

    def _float(self) -> str:
        return self.dice.choice(_FLOATS if self.is_snapshot else [*_FLOATS, *_LONG_FLOATS])

    def _instant(self) -> str:
        return f"'{self.dice.choice(_INSTANTS)}'"


@contextmanager
def _started(folder: Path) -> Iterator[Database]:
    # Elsewhere than where the tests are.
    with mariadb(folder, default_time_zone="+05:30") as port:
        database = Database(port)
        wait_until(database.answers, "MariaDB has started")
        database.create()
        yield database


MARIADB: Final = Source(
    name="mariadb",
    jars="debezium_mariadb_jars.txt",
    programs=(),
    tables=TABLES,
    database="shop",
    writer=_Writer,
    started=_started,
    own=lambda number: {"database.server.id": str(1001 + number)},
)
