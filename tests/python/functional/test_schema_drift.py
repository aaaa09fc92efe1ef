"""A source's table grows: what is declared later is filled from earlier events, in place. And its
key changes: nothing of it is folded until the key is declared anew.
"""

import json
import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from support.lakes import Lake, Outcome, Rows, copy_project
from support.small_project import Log, add_gold, add_log, current_state, history
from support.streams import UNAVAILABLE

from dbt_lakehouse.declared.declarations import digest
from dbt_lakehouse.runs.commits import note
from dbt_lakehouse.runs.model_run import DECLARED, LEAVES, keeping

TOPIC: Final = "debezium.shop.stock"
NOW: Final = 1_790_812_800_000
AS_OF: Final = "2026-11-21 00:00:00"
TABLES: Final = ("silver.stock_changes", "gold.stock", "gold.stock_history")
# What is declared in the end.
MORE: Final = {
    **{"quantity": "bigint", "shelf": "string", "grade": "tinyint"},
    "written": {"type": "bigint", "from": "metadata", "path": "source.ts_ms"},
}

LOG: Final = """
{{{{
    change_log(
        source_database="shop", source_table="stock", key={{"id": "int"}}, columns={columns},
        follow={follow}
    )
}}}}
"""
FOLD: Final = """
{{{{ config(contract={{"enforced": false}}) }}}}
{{{{ {macro}(ref("stock_changes")) }}}}
"""


def at(offset: int) -> int:
    """When a message is written."""
    return NOW + 1000 * offset


class Stock:
    """The table's project, its lake, and its messages."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder, copy_project(folder / "project"))
        self.offset = 0
        # What the next run lands, in one commit.
        self.sent: list[dict[str, Any]] = []

    def declare(self, columns: dict[str, Any], follow: str = "none") -> None:
        """Write the models."""
        models = self.lake.project / "models"
        log = LOG.format(columns=json.dumps(columns), follow=follow)
        (models / "silver" / "stock_changes.sql").write_text(log)
        for name, macro in (("stock", "current_state"), ("stock_history", "history")):
            (models / "gold" / f"{name}.sql").write_text(FOLD.format(macro=macro))

    def change(
        self,
        op: str,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        **headers: dict[str, Any],
    ) -> None:
        """Send a message, with headers of a key update by their names."""
        image = after or before or {}
        payload = {
            "op": op,
            "before": before,
            "after": after,
            # The same for the delete and the insert of a key update.
            "source": {
                **{"connector": "mysql", "db": "shop", "table": "stock"},
                "ts_ms": NOW + 1_000_000 if headers else self.time,
            },
        }
        self.sent.append(
            {
                "topic": TOPIC,
                "partition": 0,
                "offset": self.offset,
                "timestamp_ms": self.time,
                "key_b64": _base64({"id": image["id"]}),
                "value_b64": _base64(payload),
                "headers": [[f"__debezium.{name}", _base64(key)] for name, key in headers.items()],
            }
        )
        self.offset += 1

    @property
    def time(self) -> int:
        return at(self.offset)

    def land(self) -> None:
        """Land what has been sent."""
        if self.sent:
            self.lake.land(self.sent)
        self.sent = []

    def run(self) -> None:
        self.land()
        statuses = self.lake.dbt("run", "-s", "+stock", "+stock_history", as_of=AS_OF)
        assert set(statuses.values()) == {"success"}

    def gold(self) -> Rows:
        rows = self.lake.read("gold.stock")
        return sorted(
            ({name: row[name] for name in row if name[:1] != "_"} for row in rows),
            key=lambda row: int(row["id"]),
        )

    def first_snapshot(self, table: str) -> str:
        """The one that the table has come from; a table that is made anew has another."""
        return self.lake.look_at(table).chain[-1].name

    def files(self, table: str) -> set[str]:
        rows = self.lake.sql(f"select file_path from {table}.files where content = 0")
        return {row["file_path"] for row in rows}


def _base64(document: object) -> str:
    # A number as it is written, whatever a float makes of it.
    text = re.sub(r'"@([0-9.]+)@"', r"\1", json.dumps(document))
    return b64encode(text.replace("@", "").encode()).decode()


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Stock:
    """The table with two columns declared, of rows that have more and a larger value."""
    stock = Stock(tmp_path_factory.mktemp("drift"))
    stock.declare({"quantity": "smallint"})
    stock.change("c", None, {"id": 1, "quantity": 10})
    stock.change("c", None, {"id": 2, "quantity": 2**40})
    stock.change("c", None, {"id": 3, "quantity": 30, "shelf": "A"})
    stock.change("c", None, {"id": 5, "quantity": 50, "shelf": "D", "grade": 7})
    # Of what is declared by now, no event leaves anything as it was.
    stock.change("u", None, {"id": 5, "quantity": 51, "shelf": UNAVAILABLE, "grade": 7})
    stock.run()
    stock.change(
        "u", {"id": 3, "quantity": 30, "shelf": "A"}, {"id": 3, "quantity": 30, "shelf": "B"}
    )
    stock.change("c", None, {"id": 4, "quantity": 40, "shelf": "C"})
    stock.change("d", {"id": 4, "quantity": 40, "shelf": "C"}, None)
    stock.run()
    return stock


def test_what_is_declared_later_is_filled_in_place(stock: Stock) -> None:
    lake = stock.lake
    assert stock.gold() == [
        {"id": 1, "quantity": 10},
        {"id": 2, "quantity": None},
        {"id": 3, "quantity": 30},
        {"id": 5, "quantity": 51},
    ]
    before = {table: (stock.first_snapshot(table), stock.files(table)) for table in TABLES}

    stock.declare(MORE)
    stock.change("u", None, {"id": 1, "quantity": 11})
    stock.run()

    # What the source said beside the row is of the last event, also where that leaves the shelf.
    assert stock.gold() == [
        {"id": 1, "quantity": 11, "shelf": None, "grade": None, "written": at(8)},
        {"id": 2, "quantity": 2**40, "shelf": None, "grade": None, "written": at(1)},
        {"id": 3, "quantity": 30, "shelf": "B", "grade": None, "written": at(5)},
        {"id": 5, "quantity": 51, "shelf": "D", "grade": 7, "written": at(4)},
    ]
    log = lake.sql(
        "select id, quantity, shelf, written, _changed_columns, _unchanged_columns,"
        " size(_misfits) as misfits from silver.stock_changes order by _position"
    )
    assert [tuple(row.values()) for row in log] == [
        (1, 10, None, at(0), None, [], 0),
        (2, 2**40, None, at(1), None, [], 0),
        (3, 30, "A", at(2), None, [], 0),
        (5, 50, "D", at(3), None, [], 0),
        (5, 51, None, at(4), None, ["shelf"], 0),
        (3, 30, "B", at(5), ["shelf"], [], 0),
        (4, 40, "C", at(6), None, [], 0),
        (4, 40, "C", at(7), None, [], 0),
        (1, 11, None, at(8), None, [], 0),
    ]
    versions = lake.sql(
        "select id, quantity, shelf, written, is_current from gold.stock_history"
        " order by id, valid_from"
    )
    assert [tuple(row.values()) for row in versions] == [
        (1, 10, None, at(0), False),
        (1, 11, None, at(8), True),
        (2, 2**40, None, at(1), True),
        (3, 30, "A", at(2), False),
        (3, 30, "B", at(5), True),
        (4, 40, "C", at(6), False),
        (5, 50, "D", at(3), False),
        (5, 51, "D", at(4), True),
    ]
    for table, (first_snapshot, files) in before.items():
        assert stock.first_snapshot(table) == first_snapshot, table
        # Old files stay: rows that changed are marked in them and written anew.
        assert stock.files(table) > files, table


def test_a_run_that_died_before_it_filled_is_repeated(stock: Stock) -> None:
    """The columns are there already, but not their values, nor what events leave as it was."""
    lake = stock.lake
    stock.declare(MORE)
    stock.run()
    expected = stock.gold(), lake.read("gold.stock_history"), lake.read("silver.stock_changes")
    for table in TABLES:
        lake.sql(f"update {table} set shelf = null")
        now = lake.look_at(table)
        declared = json.loads(now.properties[f"{DECLARED}.{now.noted(DECLARED)}"])
        columns = declared["columns"]
        declared["columns"] = [each for each in columns if "shelf" not in json.dumps(each)]
        before = json.dumps(declared, sort_keys=True)
        lake.set_properties(table, {f"{DECLARED}.{digest(before)}": before})
        note(lake.spark, table, {DECLARED: digest(before)})
    log = TABLES[0]
    lake.set_properties(log, {LEAVES: keeping(lake.look_at(log), False)})
    stock.run()
    found = stock.gold(), lake.read("gold.stock_history"), lake.read("silver.stock_changes")
    assert {row["id"]: row["shelf"] for row in stock.gold()}[5] == "D"
    for rows, again in zip(expected, found, strict=True):
        assert sorted(map(str, rows)) == sorted(map(str, again))


def test_a_column_that_goes_takes_a_rebuild(stock: Stock) -> None:
    before = {table: stock.first_snapshot(table) for table in TABLES}
    stock.declare({"shelf": "string"})
    stock.run()
    for table in TABLES:
        assert stock.first_snapshot(table) != before[table], table
    assert stock.gold() == [
        {"id": 1, "shelf": None},
        {"id": 2, "shelf": None},
        {"id": 3, "shelf": "B"},
        {"id": 5, "shelf": "D"},
    ]


def test_a_name_that_no_event_has_is_warned_of(stock: Stock) -> None:
    """And gold, which would lose its rows by it, keeps them."""
    model = stock.lake.project / "models/silver/stock_changes.sql"
    before, text = stock.gold(), model.read_text()
    model.write_text(text.replace('source_table="stock"', 'source_table="stok"'))
    outcomes = stock.lake.outcomes("run", "-s", "+stock", "+stock_history", as_of=AS_OF)
    for table in ("stock", "stock_history"):
        assert "would be lost" in outcomes[table].message
    assert stock.gold() == before
    log = (stock.lake.folder / "logs" / "dbt.log").read_text()
    assert "silver.stock_changes has lost all of its rows: no event is from" in log
    model.write_text(text)
    stock.run()
    assert stock.gold() == before


# --- Keys that change -----------------------------------------------------------------------------

INT: Final = {"id": "int"}
WIDE: Final = {"tenant": "int", "id": "int"}
# Of each table, the key and the columns that its model has, and what it has in the end.
KEYED: Final = {
    "parts": (Log("parts", "parts", INT, {"tenant": "int", "v": "string"}), WIDE, {"v": "string"}),
    "bins": (Log("bins", "bins", WIDE, {"v": "string"}), INT, {"tenant": "int", "v": "string"}),
    "crates": (Log("crates", "crates", INT, {"v": "string"}), {"number": "int"}, {"v": "string"}),
    # Debezium's message.key.columns: one with the key of its rows, one with the messages'.
    "lots": (Log("lots", "lots", INT, {"v": "string"}), None, None),
    "deals": (Log("deals", "deals", {"tenant": "int"}, {"id": "int", "v": "string"}), None, None),
}
OTHER: Final = ("lots", "deals", "stock")
SEEN: Final = {
    "parts": "offset 17 has a key of (id, tenant)",
    "bins": "offset 20 has a key of (id)",
    "crates": "offset 22 has a key of (number)",
}
FORMER: Final = tuple(SEEN)


class Keyed:
    """The tables whose keys change, in the lake of the stock."""

    def __init__(self, stock: Stock) -> None:
        self.stock = stock
        self.lake = stock.lake
        self.offset = 0
        for log, _, _ in KEYED.values():
            self.declare(log)

    def declare(self, log: Log) -> None:
        """Write the models of a table."""
        named = replace(log, database="keyed")
        add_log(self.lake.project, named)
        add_gold(self.lake.project, current_state(named))
        if log.name == "parts":
            add_gold(self.lake.project, history(named, "parts_history"))

    def send(self, table: str, *changes: tuple[str, Any, Any, Any]) -> None:
        """Send messages: op, key, the rows before and after."""
        for op, key, before, after in changes:
            source = {"connector": "mysql", "db": "keyed", "table": table}
            value = {"op": op, "before": before, "after": after, "source": source}
            self.stock.sent.append(
                {
                    "topic": f"debezium.keyed.{table}",
                    "partition": 0,
                    "offset": self.offset,
                    "timestamp_ms": NOW + 1000 * self.offset,
                    "key_b64": _base64(key),
                    "value_b64": _base64(value),
                }
            )
            self.offset += 1

    def run(self) -> dict[str, Outcome]:
        """What has become of each of the tables' models."""
        self.stock.land()
        chosen = [f"+{name}" for name in (*KEYED, "parts_history", "stock")]
        return self.lake.outcomes("run", "-s", *chosen, as_of=AS_OF)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a gold table, in order, without technical columns."""
        return sorted(
            tuple(row[name] for name in sorted(row) if name[:1] != "_")
            for row in self.lake.read(f"gold.{table}")
        )

    def warned(self, text: str) -> int:
        """How many warnings have had a text."""
        return len(re.findall(rf"\[warn \].*{text}", self.lake.log_text()))


def part(id: int, tenant: int | None = None, v: str | None = None, key: str = "id") -> Any:
    return {key: id, **({} if tenant is None else {"tenant": tenant}), "v": v}


@pytest.fixture(scope="module")
def keyed(stock: Stock) -> Keyed:
    """Tables whose models have the keys that their messages came with at first, and those after."""
    keyed = Keyed(stock)
    keyed.send(
        "parts",
        ("c", {"id": 1}, None, part(1, 7, "a")),
        ("c", {"id": 2}, None, part(2, 7, "b")),
        ("c", {"id": 3}, None, part(3, 7, "c")),
        # It says no more than the key that the row had then.
        ("d", {"id": 3}, {"id": 3, "tenant": None, "v": None}, None),
        # Of one key then, of another one now, and no row before.
        ("u", {"id": 2}, None, part(2, 9, "b")),
    )
    keyed.send(
        "bins",
        ("c", {"tenant": 7, "id": 1}, None, part(1, 7, "a")),
        ("c", {"tenant": 8, "id": 1}, None, part(1, 8, "b")),
        ("u", {"tenant": 8, "id": 1}, part(1, 8, "b"), part(1, 8, "B")),
        ("d", {"tenant": 8, "id": 1}, part(1, 8), None),
        ("c", {"tenant": 8, "id": 2}, None, part(2, 8, "n")),
    )
    keyed.send(
        "crates",
        ("c", {"id": 1}, None, part(1, v="a")),
        ("c", {"id": 2}, None, part(2, v="b")),
        ("d", {"id": 2}, None, None),
    )
    for table in ("lots", "deals"):
        keyed.send(
            table,
            ("c", {"tenant": 7}, None, part(1, 7, "a")),
            ("c", {"tenant": 7}, None, part(2, 7, "b")),
        )
    return keyed


def test_a_key_that_changes_stops_its_table_alone(keyed: Keyed, stock: Stock) -> None:
    assert {each.status for each in keyed.run().values()} == {"success"}
    assert keyed.rows("parts") == [(1, 7, "a"), (2, 9, "b")]
    assert keyed.rows("bins") == [(1, 7, "a"), (2, 8, "n")]
    assert keyed.rows("crates") == [(1, "a")]
    assert keyed.rows("lots") == [(1, "a"), (2, "b")]
    meant = r"silver.lots_changes: the declared key is \(id\), but the messages' own keys"
    doubted = r"gold.deals: \(tenant\) doesn't seem to identify its rows, .*offset 16"
    assert (keyed.warned(meant), keyed.warned(doubted)) == (1, 1)

    keyed.send(
        "parts",
        ("u", {"tenant": 7, "id": 1}, None, part(1, 7, "A")),
        ("c", {"tenant": 8, "id": 1}, None, part(1, 8, "x")),
        ("d", {"tenant": 9, "id": 2}, {"tenant": 9, "id": 2, "v": None}, None),
    )
    keyed.send(
        "bins",
        ("u", {"id": 2}, part(2, 8, "n"), part(2, 8, "N")),
        ("c", {"id": 5}, None, part(5, 8, "z")),
    )
    keyed.send("crates", ("c", {"number": 3}, None, part(3, v="c", key="number")))
    keyed.send("lots", ("c", {"tenant": 7}, None, part(3, 7, "c")))
    stock.change("c", None, {"id": 9, "shelf": "Z"})
    tables = [f"gold.{each}" for each in FORMER]
    tables += [f"silver.{each}_changes" for each in FORMER]
    before = {table: keyed.lake.current_snapshot(table) for table in tables}
    outcomes = keyed.run()
    # Also one that makes the table anew says it.
    anew = keyed.lake.outcomes("run", "--full-refresh", "-s", "parts_changes", as_of=AS_OF)
    for name, error in [*outcomes.items(), *anew.items()]:
        table = name.removesuffix("_changes").removesuffix("_history")
        if table not in FORMER:
            assert error.status == "success", name
        elif not name.endswith("_changes"):
            assert error.status == "skipped", name
        else:
            assert f"`lakehouse generate --topic debezium.keyed.{table}`" in error.message
            assert SEEN[table] in error.message
    assert {each: keyed.lake.current_snapshot(each) for each in tables} == before
    assert keyed.rows("lots")[-1] == (3, "c") and stock.gold()[-1]["id"] == 9
    # Each run says it, though nothing new does.
    assert (keyed.warned(meant), keyed.warned(doubted)) == (2, 2)


def test_a_key_that_is_declared_anew_makes_the_table_anew(keyed: Keyed) -> None:
    for log, key, columns in KEYED.values():
        if key is not None and columns is not None:
            keyed.declare(replace(log, key=key, columns=columns))
    for file, said in (("lots", '["tenant"]'), ("deals", '"*"')):
        path = keyed.lake.project / "models" / "silver" / f"{file}_changes.sql"
        path.write_text(path.read_text().replace("key=", f"message_key={said}, key=", 1))
    marks = {table: keyed.lake.build(f"silver.{table}_changes") for table in OTHER}
    warnings = keyed.warned("doesn't seem to identify"), keyed.warned("own keys are")
    assert {each.status for each in keyed.run().values()} == {"success"}
    right: dict[str, list[Any]] = {
        "parts": [(1, 7, "A"), (1, 8, "x")],
        "bins": [(1, 7, "a"), (2, 8, "N"), (5, 8, "z")],
        "crates": [(1, "a"), (3, "c")],
    }
    assert {table: keyed.rows(table) for table in FORMER} == right
    # What is said of messages' keys makes nothing anew, and ends the warnings.
    assert {table: keyed.lake.build(f"silver.{table}_changes") for table in OTHER} == marks
    assert (keyed.warned("doesn't seem to identify"), keyed.warned("own keys are")) == warnings
    changes = keyed.lake.sql(
        "select tenant, id, _operation, _previous_key from silver.parts_changes order by _position"
    )
    assert [tuple(row.values()) for row in changes[3:5]] == [
        (7, 3, "delete", None),
        (9, 2, "update", {"tenant": 7, "id": 2}),
    ]
    versions = keyed.lake.sql(
        "select tenant, id, v from gold.parts_history order by tenant, id, valid_from"
    )
    assert [tuple(row.values()) for row in versions] == [
        (7, 1, "a"),
        (7, 1, "A"),
        (7, 2, "b"),
        (7, 3, "c"),
        (8, 1, "x"),
        (9, 2, "b"),
    ]
    # It goes on from there.
    keyed.send("parts", ("c", {"tenant": 7, "id": 4}, None, part(4, 7, "d")))
    keyed.stock.land()
    tests = ["parts_history_is_history", *(f"{table}_equals_refold" for table in KEYED)]
    chosen = ("+parts", "+parts_history", *tests)
    outcomes = keyed.lake.dbt("build", "-s", *chosen, "--indirect-selection", "empty", as_of=AS_OF)
    assert {outcomes[test] for test in tests} == {"pass"}
    assert keyed.rows("parts") == [*right["parts"], (4, 7, "d")]


NUMBERS: Final = {
    **{"price": "decimal(12,2)", "pieces": "smallint", "weight": "float"},
    "written": {"type": "int", "from": "metadata", "path": "source.ts_ms"},
}


# 0.1 in a column of floats.
NEAR: Final = 0.10000000149011612


def insert(
    stock: Stock,
    number: int,
    price: str,
    pieces: int = 1,
    weight: float = 0.1,
    **headers: dict[str, Any],
) -> None:
    """Send a row, the price with its digits."""
    sent = f"@{price}@" if price[0].isdecimal() else price
    image = {"id": number, "price": sent, "pieces": pieces, "weight": weight, "shelf": "E"}
    stock.change("c", None, image, **headers)


# In CI, test_what_is_declared_later_is_filled_in_place changes columns in place, test_generate
# (test_a_source_that_grows) has types that widen, and test_change_log which of them follow.
@pytest.mark.long
def test_columns_follow_what_outgrows_them(stock: Stock) -> None:
    """In the log, in gold and in its history, in place: they are the same tables, and what fits
    already is neither read nor folded again.
    """
    lake = stock.lake
    stock.declare({"shelf": "string", **NUMBERS})
    insert(stock, 20, "10.25")
    insert(stock, 21, "1.125")
    # Its key changes, and what does not fit is stored out of line.
    insert(stock, 30, "5.125")
    stock.change("d", {"id": 30}, None, newkey={"id": 31})
    insert(stock, 31, UNAVAILABLE, oldkey={"id": 30})
    stock.run()
    before = {table: lake.look_at(table) for table in TABLES}

    def numbers() -> dict[int, tuple[Any, ...]]:
        rows = (row for row in stock.gold() if row["id"] >= 20)
        return {row["id"]: (str(row["price"]), row["pieces"], row["weight"]) for row in rows}

    def misfits() -> dict[int, list[str]]:
        rows = lake.sql(
            "select id, filter(_misfits, each -> each.column <> 'written').text as text"
            " from silver.stock_changes where id >= 20"
        )
        return {row["id"]: row["text"] for row in rows if row["text"]}

    def written() -> dict[int, Any]:
        return {row["id"]: row["written"] for row in stock.gold() if row["id"] in (20, 31)}

    assert numbers() == {
        **{20: ("10.25", 1, NEAR), 21: ("None", 1, NEAR)},
        31: ("None", 1, NEAR),
    }
    assert misfits() == {21: ["1.125"], 30: ["5.125"], 31: ["5.125"]}
    assert written() == {20: None, 31: None}
    first = stock.offset - 5
    # What was there before it is declared counts too.
    stock.declare({"shelf": "string", **NUMBERS}, follow='"widening"')
    stock.run()
    assert numbers() == {
        **{20: ("10.250", 1, NEAR), 21: ("1.125", 1, NEAR)},
        31: ("5.125", 1, NEAR),
    }
    assert written() == {20: at(first), 31: NOW + 1_000_000}
    # A text is no number, and an exponent that no number has stops nothing.
    insert(stock, 22, "much")
    insert(stock, 27, "1e-2147483648")
    insert(stock, 23, "123456789012.5", pieces=2**40, weight=1.00000000001)
    stock.change("u", None, {"id": 20, "price": 7, "pieces": 70_000, "weight": 0.5, "shelf": "E"})
    # These have fitted all the time.
    insert(stock, 24, "2.5")
    stock.change("u", None, {"id": 24, "price": 3, "pieces": 2, "weight": 0.5, "shelf": "F"})
    # And gold is not there yet, as one that lags behind the log.
    stock.land()
    assert stock.lake.dbt("run", "-s", "stock_changes", "+other_events", as_of=AS_OF)
    insert(stock, 25, "4.75")
    insert(stock, 26, "0.00005")
    stock.run()
    expected = {
        20: ("7.00000", 70_000, 0.5),
        21: ("1.12500", 1, 0.1),
        22: ("None", 1, 0.1),
        27: ("None", 1, 0.1),
        23: ("123456789012.50000", 2**40, 1.00000000001),
        24: ("3.00000", 2, 0.5),
        25: ("4.75000", 1, 0.1),
        26: ("0.00005", 1, 0.1),
        31: ("5.12500", 1, 0.1),
    }
    assert numbers() == expected
    for table in TABLES:
        now = lake.look_at(table)
        assert now.uuid == before[table].uuid
        assert now.chain[-1] == before[table].chain[-1], table
        types = {row["col_name"]: row["data_type"] for row in lake.sql(f"describe {table}")}
        wide = ["decimal(17,5)", "bigint", "double", "bigint"]
        assert [types[name] for name in NUMBERS] == wide, table
    assert written() == {20: at(first + 8), 31: NOW + 1_000_000}
    assert misfits() == {22: ["much"], 27: ["1e-2147483648"]}
    versions = lake.sql(
        "select id, price, pieces from gold.stock_history where id >= 20 order by id, valid_from"
    )
    assert [(row["id"], str(row["price"]), row["pieces"]) for row in versions] == [
        (20, "10.25000", 1),
        (20, "7.00000", 70_000),
        (21, "1.12500", 1),
        (22, "None", 1),
        (23, "123456789012.50000", 2**40),
        (24, "2.50000", 1),
        (24, "3.00000", 2),
        (25, "4.75000", 1),
        (26, "0.00005", 1),
        (27, "None", 1),
        (30, "5.12500", 1),
        (31, "5.12500", 1),
    ]
    # Nothing is left to do, and a table that is made anew is the same one.
    state = {table: lake.current_snapshot(table) for table in TABLES}
    stock.run()
    assert {table: lake.current_snapshot(table) for table in TABLES} == state
    statuses = lake.dbt("run", "-s", "+stock", "+stock_history", "--full-refresh", as_of=AS_OF)
    assert set(statuses.values()) == {"success"}
    assert numbers() == expected


# It goes on from the one before it. In CI, test_declarations has the sentence.
@pytest.mark.long
def test_what_does_not_fit_is_told_in_a_sentence(stock: Stock) -> None:
    """By the build that meets it, with the values and the command."""
    schema = {"version": 2, "models": [{"name": "stock_changes", "data_tests": ["no_misfits"]}]}
    (stock.lake.project / "models" / "silver" / "stock.yml").write_text(json.dumps(schema))
    outcomes = stock.lake.outcomes("test", "-s", "stock_changes", as_of=AS_OF)
    assert outcomes["no_misfits_stock_changes_"].status == "warn"
    assert outcomes["no_misfits_stock_changes_"].message == (
        "silver.stock_changes.price: 2 values do not fit decimal(17,5), '1e-2147483648', 'much',"
        " and are null in tables made from it (the log keeps the text); `lakehouse generate"
        f" --topic {TOPIC}` writes a type that holds them, or says why not"
    )
