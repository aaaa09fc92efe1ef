"""What `lakehouse sql` and `show` print at a terminal, and say of mistakes. PyIceberg has made the
lake: no Spark.
"""

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, LongType, NestedField, StringType

from dbt_lakehouse.commands.show import Choice, show_tables
from dbt_lakehouse.commands.sql_shell import Shell
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import CATALOG_URI, SQLITE, WAREHOUSE
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.drawing import expanded_lines, fitted, table_text
from dbt_lakehouse.queries.output import Screen
from dbt_lakehouse.queries.query import answer
from dbt_lakehouse.texts import shown_width

ORDERS: Final = Schema(
    NestedField(1, "order_id", LongType(), doc="Number of the order."),
    NestedField(2, "status", StringType(), doc="As the shop has it:\nnew, paid."),
    NestedField(3, "amount", DecimalType(10, 2)),
)
ORDER_ROWS: Final[list[dict[str, Any]]] = [
    {"order_id": 1, "status": "NULL", "amount": Decimal("10.50")},
    {"order_id": 22, "status": None, "amount": None},
]
PAYLOADS: Final = Schema(
    NestedField(1, "topic", StringType()),
    NestedField(2, "partition", LongType()),
    NestedField(3, "offset", LongType()),
)
WIDE: Final = Schema(
    *(NestedField(at, f"column_{at:02}", StringType()) for at in range(1, 13)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake."""
    folder = tmp_path_factory.mktemp("lake")
    warehouse = f"file://{folder}/warehouse"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=warehouse)
    tables: Sequence[tuple[str, Schema, list[dict[str, Any]]]] = (
        ("gold.orders", ORDERS, ORDER_ROWS),
        ("gold.wide", WIDE, [{field.name: field.name * 4 for field in WIDE.fields}]),
        ("bronze.raw_payloads", PAYLOADS, [{"topic": "t", "partition": 3, "offset": 7}]),
    )
    for name, schema, rows in tables:
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
        table = catalog.create_table(name, schema, properties={"comment": f"One row per\n{name}."})
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    catalog.engine.dispose()
    return folder


@pytest.fixture(scope="module")
def reader(folder: Path) -> Reader:
    """Of that lake and a project that declares more than it has."""
    project = folder / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text("name: shop\n")
    (project / "models" / "sessions.sql").touch()
    settings = {
        CATALOG_URI: f"{SQLITE}{folder}/catalog.db",
        WAREHOUSE: f"file://{folder}/warehouse",
    }
    return Reader(settings, "gold", root=project)


def written(reader: Reader, query: str, form: str = "table", screen: Screen | None = None) -> str:
    blocks: list[bytes] = []
    answer(reader, query, form, None, blocks.append, screen or Screen())
    return b"".join(blocks).decode()


def typed(reader: Reader, *lines: str, width: int | None = None) -> tuple[str, str]:
    """What the shell prints, and what it tells beside."""
    said: list[bytes] = []
    told: list[bytes] = []
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("".join(f"{line}\n" for line in (*lines, "\\q")))
        Shell(reader, "table", None, said.append, lambda: width).run(told.append)
    return b"".join(said[1:]).decode(), b"".join(told).decode()


@pytest.fixture(autouse=True)
def _own_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dbt_lakehouse.config.paths.CACHE", tmp_path)


def test_null_is_not_the_text_and_numbers_are_on_the_right(reader: Reader) -> None:
    assert written(reader, "from orders order by order_id").splitlines() == [
        "+--------+------+------+",
        "|order_id|status|amount|",
        "+--------+------+------+",
        "|       1|'NULL'| 10.50|",
        "|      22|NULL  |  NULL|",
        "+--------+------+------+",
        "2 rows",
    ]
    # Forms for machines have had the difference all the time.
    query = "select status from orders order by order_id"
    assert written(reader, query, "csv") == "status\nNULL\n\n"
    assert written(reader, query, "json") == '{"status":"NULL"}\n{"status":null}\n'


def test_no_two_texts_look_alike() -> None:
    texts = ["NULL", "'NULL'", "''NULL''", "null", "'null'", "NULL'", "'NULL", None, "nul", ""]
    lines = table_text(["text"], [[text] for text in texts]).splitlines()[3:-1]
    assert len({*lines}) == len(texts)
    assert [line.strip("|").strip() for line in lines if "NULL" not in line] == [
        *("'null'", "''null''", "nul", "")
    ]


def test_columns_without_a_number_are_on_the_side_of_their_type(reader: Reader) -> None:
    query = "select 'nan'::double as double, null::int as number, true as yes, date '2026-01-01'"
    assert written(reader, f"{query} as day_of_order").splitlines()[1:4:2] == [
        "|double|number|yes |day_of_order|",
        "|   NaN|  NULL|true|2026-01-01  |",
    ]


def test_what_takes_two_columns_of_a_terminal_is_aligned() -> None:
    # The last with an accent of its own.
    table = table_text(["text"], [["漢字"], ["e\u0301te\u0301"], ["👍"]])
    assert {shown_width(line) for line in table.splitlines()} == {len("+----+")}
    text, _ = fitted(["text"], [["漢字" * 20]], 11)
    assert text.splitlines()[3] == "|漢字漢字…|"


def test_nothing_is_cut_beside_a_terminal(reader: Reader) -> None:
    output = written(reader, "select repeat('x', 5000) as long, * from wide")
    assert "|" + "x" * 5000 + "|" in output and "column_12" in output and "…" not in output
    shown = show_tables(reader, ["wide"])
    assert all(field.name * 4 in shown for field in WIDE.fields)


@pytest.mark.parametrize(
    ("width", "columns"), [(20, 1), (45, 2), (80, 3), (150, 7), (252, 11), (253, 12), (400, 12)]
)
def test_a_table_fits_the_terminal(reader: Reader, width: int, columns: int) -> None:
    *table, count = written(reader, "from wide", screen=Screen(width)).splitlines()
    if columns < 12:
        assert table.pop() == (
            f"{columns} of 12 columns are shown: see all with --expanded, or name columns in the"
            " query"
        )
    assert count == "1 row" and max(map(len, table)) <= width
    names = [name.strip() for name in table[1].strip("|").split("|")]
    # The first ones, and the last ones.
    every = [field.name for field in WIDE.fields]
    left, right = (columns + 1) // 2, columns // 2
    gap = ["…"] if columns < 12 else []
    assert names == [*every[:left], *gap, *every[12 - right :]]
    # Shortened as little as may be.
    assert "…|" in table[3].replace("|…|", "|")
    if width == 400:
        assert len(table[3]) > width - 12


def test_what_fits_the_terminal_is_whole(reader: Reader) -> None:
    assert "…" not in written(reader, "from wide", screen=Screen(12 * 36 + 13))
    assert "…" in written(reader, "from wide", screen=Screen(12 * 36 + 12))
    # There is nothing to leave out.
    assert fitted(["an_address"], [["1 Long Street"]], 5) == (
        "+---+\n|an…|\n+---+\n|1 …|\n+---+\n",
        [],
    )


def test_numbers_are_never_shortened() -> None:
    number, text = 10**37, "x" * 99
    assert f"|{number}|{'x' * 19}…|" in fitted(["n", "text"], [[number, text]], 61).text
    narrow = fitted(["n", "text"], [[number, text]], 60)
    assert f"|{number}|…|" in narrow.text and narrow.left_out == [1]


def test_a_command_knows_how_wide_its_terminal_is(folder: Path) -> None:
    shown, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-m", "dbt_lakehouse.cli", "sql", "from wide"],
        cwd=ROOT,
        env={**environment, "LAKEHOUSE_LAKE": str(folder)},
        stdout=terminal,
        stderr=subprocess.PIPE,
        check=False,
        timeout=120,
    )
    os.close(terminal)
    assert done.returncode == 0, done.stderr
    lines = os.read(shown, 10_000).decode().splitlines()
    os.close(shown)
    assert lines[-2].startswith("2 of 12 columns are shown: see all with --expanded,")
    assert {len(line) for line in lines[:-2]} == {45}


def test_show_fits_the_terminal(reader: Reader) -> None:
    shown = show_tables(reader, ["wide"], Choice(width=60)).splitlines()
    left_out = ",".join(f"column_{at:02}" for at in range(2, 12))
    assert shown[-1] == f"2 of 12 columns are shown: --columns {left_out} shows the others"
    assert max(map(len, shown[1:-1])) <= 60


def test_expanded_rows() -> None:
    assert [*expanded_lines(["id", "a name"], [[7, None], [8, "two\nlines"]])] == [
        "-[ RECORD 1 ]",
        "id     | 7",
        "a name | NULL",
        "-[ RECORD 2 ]",
        "id     | 8",
        "a name | two\\nlines",
    ]


def test_the_shell_expands_and_times(reader: Reader) -> None:
    query = "select order_id, status from orders order by 1 limit 1;"
    said, told = typed(reader, "\\x", query, "\\x off", query, "\\timing on", query, "from ordrs;")
    expanded, _, table = said.partition("expanded display is off\n")
    assert expanded == (
        "expanded display is on\n-[ RECORD 1 ]\norder_id | 1\nstatus   | 'NULL'\n1 row\n"
    ).replace("-[ RECORD 1 ]\n", "-[ RECORD 1 ]\n")
    assert table.count("|order_id|status|") == 2 and "timing is on\n" in table
    # What fails has taken its time too.
    assert re.fullmatch(
        r"\d+\.\d{3} s\n\d+\.\d{3} s\nthere is no table ordrs \(did you mean gold\.orders\?\)\n",
        told,
    )


def test_the_shell_says_how_to_see_all(reader: Reader) -> None:
    said, _ = typed(reader, "from wide;", "from range(1001);", width=60)
    told = "2 of 12 columns are shown: see all with \\x, or name columns in the query\n1 row\n"
    assert told in said
    assert said.endswith("1,000 rows; there are more: \\limit\n")


def test_tables_and_columns_are_listed_with_their_descriptions(reader: Reader) -> None:
    said, _ = typed(reader, "\\d", "\\d orders;", "\\x", "\\d orders")
    assert "|gold.orders        |      3|One row per gold.orders.        |" in said
    lines = said.splitlines()
    start = lines.index("|column  |type         |description                   |")
    assert lines[start + 2 : start + 5] == [
        "|order_id|bigint       |Number of the order.          |",
        "|status  |varchar      |As the shop has it: new, paid.|",
        "|amount  |decimal(10,2)|                              |",
    ]
    assert "column      | order_id\ntype        | bigint\n" in said


def test_help_names_each_command(reader: Reader) -> None:
    (said, _), (same, _) = typed(reader, "\\?"), typed(reader, "\\h")
    assert said == same
    commands = {line.split()[0] for line in said.splitlines() if line.startswith("\\")}
    assert commands >= {"\\d", "\\x", "\\timing", "\\limit", "\\form", "\\as-of", "\\q"}


@pytest.mark.parametrize(
    ("query", "quoted"),
    [
        ("select offset from bronze.raw_payloads", '"offset"'),
        ("select topic, offset, 'é' from bronze.raw_payloads", '"offset"'),
        ("select topic from bronze.raw_payloads where 'é' < topic and OFFSET > 3", '"OFFSET"'),
        ("select max(offset) from bronze.raw_payloads limit 1 offset 0", '"offset"'),
        ("select partition, offset from bronze.raw_payloads order by offset limit 3", '"offset"'),
        # Of tables that have no such column.
        ("select offset from orders", None),
        # Quotes would not help, or nothing is missing but a number.
        ("selec offset from bronze.raw_payloads", None),
        ("select topic from bronze.raw_payloads limit 3 offset", None),
        ("select 1 offset2 offset_of, é offsetß from bronze.raw_payloads", None),
        ("from bronze.raw_payloads offset;", None),
    ],
)
def test_a_column_that_wants_quotes_is_told(reader: Reader, query: str, quoted: str | None) -> None:
    with pytest.raises(ConfigurationError) as refused:
        reader.query(query)
    told = str(refused.value)
    assert told.startswith("syntax error at")
    assert told.partition(" in quotes, ")[2] == (quoted or "")
    if quoted is not None:
        # And they do help.
        word = quoted.strip('"')
        assert reader.query(re.sub(rf"{word}(?! 0)", quoted, query)).fetchall() is not None


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("from golden.ordrs", "there is no table ordrs (did you mean gold.orders?)"),
        ("select STATIS from orders", "there is no column STATIS (did you mean status?)"),
        # Of another table than those that the query reads.
        ("select topik from orders", "there is no column topik"),
        ("from sessions", "models/sessions.sql declares sessions, which is not built yet: `dbt"),
    ],
)
def test_what_was_meant(reader: Reader, query: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        reader.query(query)
    told = str(refused.value)
    assert told.startswith(sentence) and ("mean" in told) == ("mean" in sentence)


def test_a_command_of_the_shell_is_no_query(reader: Reader) -> None:
    written: list[bytes] = []
    with pytest.raises(ConfigurationError, match=r"^\\d is a command of the shell, which"):
        answer(reader, r" \d orders", "table", None, written.append)
    assert not written


def test_show_says_what_was_meant(reader: Reader) -> None:
    for table, choice, sentence in (
        ("ordrs", Choice(), "there is no table ordrs (did you mean gold.orders?)"),
        ("sessions", Choice(), "`dbt build -s +sessions` builds it"),
        ("orders", Choice(columns=["statis"]), "no column statis (did you mean status?): its"),
        ("orders", Choice(where="statis = 1"), "no column statis (did you mean status?)"),
        ("bronze.raw_payloads", Choice(where="offset > 1"), 'in quotes, "offset"'),
    ):
        with pytest.raises(ConfigurationError) as refused:
            show_tables(reader, [table], choice)
        assert sentence in str(refused.value)
