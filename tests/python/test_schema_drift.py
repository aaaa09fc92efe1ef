"""A source's table grows: what is declared later is filled from earlier events, in place."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any, Final

import pytest
from lakes import Lake, Rows, copy_project
from streams import UNAVAILABLE

from dbt_lakehouse.dbt.commits import note
from dbt_lakehouse.dbt.declarations import digest
from dbt_lakehouse.dbt.node_run import DECLARED, LEAVES, keeping

TOPIC: Final = "debezium.shop.stock"
NOW: Final = 1_790_812_800_000
AS_OF: Final = "2026-11-21 00:00:00"
TABLES: Final = ("silver.stock_changes", "gold.stock", "gold.stock_history")
# What is declared in the end.
MORE: Final = {"quantity": "bigint", "shelf": "string", "grade": "tinyint"}

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


class Stock:
    """The table's project, its lake, and its messages."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake(folder, copy_project(folder / "project"))
        self.offset = 0

    def declare(self, columns: dict[str, str], follow: str = "none") -> None:
        """Write the models."""
        models = self.lake.project / "models"
        log = LOG.format(columns=json.dumps(columns), follow=follow)
        (models / "silver" / "stock_changes.sql").write_text(log)
        for name, macro in (("stock", "current_state"), ("stock_history", "history")):
            (models / "gold" / f"{name}.sql").write_text(FOLD.format(macro=macro))

    def change(self, op: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        """Land a message."""
        image = after or before or {}
        payload = {
            "op": op,
            "before": before,
            "after": after,
            "source": {"connector": "mysql", "db": "shop", "table": "stock", "ts_ms": self.time},
        }
        self.lake.land(
            [
                {
                    "topic": TOPIC,
                    "partition": 0,
                    "offset": self.offset,
                    "timestamp_ms": self.time,
                    "key_b64": _base64({"id": image["id"]}),
                    "value_b64": _base64(payload),
                }
            ]
        )
        self.offset += 1

    @property
    def time(self) -> int:
        return NOW + 1000 * self.offset

    def run(self) -> None:
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

    assert stock.gold() == [
        {"id": 1, "quantity": 11, "shelf": None, "grade": None},
        {"id": 2, "quantity": 2**40, "shelf": None, "grade": None},
        {"id": 3, "quantity": 30, "shelf": "B", "grade": None},
        {"id": 5, "quantity": 51, "shelf": "D", "grade": 7},
    ]
    log = lake.sql(
        "select id, quantity, shelf, _changed_columns, size(_misfits) as misfits"
        " from silver.stock_changes order by _position"
    )
    assert [tuple(row.values()) for row in log] == [
        (1, 10, None, None, 0),
        (2, 2**40, None, None, 0),
        (3, 30, "A", None, 0),
        (5, 50, "D", None, 0),
        (5, 51, None, None, 0),
        (3, 30, "B", ["shelf"], 0),
        (4, 40, "C", None, 0),
        (4, 40, "C", None, 0),
        (1, 11, None, None, 0),
    ]
    versions = lake.sql(
        "select id, quantity, shelf, is_current from gold.stock_history order by id, valid_from"
    )
    assert [tuple(row.values()) for row in versions] == [
        (1, 10, None, False),
        (1, 11, None, True),
        (2, 2**40, None, True),
        (3, 30, "A", False),
        (3, 30, "B", True),
        (4, 40, "C", False),
        (5, 50, "D", False),
        (5, 51, "D", True),
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
    assert "silver.stock_changes had rows and has none any more: no event is of" in log
    model.write_text(text)
    stock.run()
    assert stock.gold() == before


NUMBERS: Final = {"price": "decimal(12,2)", "pieces": "smallint", "weight": "float"}


def insert(stock: Stock, number: int, price: str, pieces: int = 1, weight: float = 0.5) -> None:
    """Land a row; the price is sent with its digits."""
    image = {"id": number, "price": f"@{price}@", "pieces": pieces, "weight": weight, "shelf": "E"}
    stock.change("c", None, image)


def test_columns_follow_what_outgrows_them(stock: Stock) -> None:
    """In the log, in gold and in its history, in place: they are the same tables, and what fits
    already is neither read nor folded again.
    """
    lake = stock.lake
    stock.declare({"shelf": "string", **NUMBERS})
    insert(stock, 20, "10.25")
    insert(stock, 21, "1.125")
    stock.run()
    before = {table: lake.look_at(table) for table in TABLES}

    def numbers() -> dict[int, tuple[Any, ...]]:
        rows = (row for row in stock.gold() if row["id"] >= 20)
        return {row["id"]: (str(row["price"]), row["pieces"], row["weight"]) for row in rows}

    assert numbers() == {20: ("10.25", 1, 0.5), 21: ("None", 1, 0.5)}
    # What was there before it is declared counts too.
    stock.declare({"shelf": "string", **NUMBERS}, follow='"widening"')
    stock.run()
    assert numbers() == {20: ("10.250", 1, 0.5), 21: ("1.125", 1, 0.5)}
    # A text is no number.
    insert(stock, 22, "much")
    insert(stock, 23, "123456789012.5", pieces=2**40, weight=1.00000000001)
    stock.change("u", None, {"id": 20, "price": 7, "pieces": 70_000, "weight": 0.5, "shelf": "E"})
    # These have fitted all the time.
    insert(stock, 24, "2.5")
    stock.change("u", None, {"id": 24, "price": 3, "pieces": 2, "weight": 0.5, "shelf": "F"})
    # And gold is not there yet, as one that lags behind the log.
    assert stock.lake.dbt("run", "-s", "stock_changes", "+change_events", as_of=AS_OF)
    insert(stock, 25, "4.75")
    insert(stock, 26, "0.00005")
    stock.run()
    expected = {
        20: ("7.00000", 70_000, 0.5),
        21: ("1.12500", 1, 0.5),
        22: ("None", 1, 0.5),
        23: ("123456789012.50000", 2**40, 1.00000000001),
        24: ("3.00000", 2, 0.5),
        25: ("4.75000", 1, 0.5),
        26: ("0.00005", 1, 0.5),
    }
    assert numbers() == expected
    for table in TABLES:
        now = lake.look_at(table)
        assert now.uuid == before[table].uuid
        assert now.chain[-1] == before[table].chain[-1], table
        types = {row["col_name"]: row["data_type"] for row in lake.sql(f"describe {table}")}
        assert [types[name] for name in NUMBERS] == ["decimal(17,5)", "bigint", "double"], table
    misfits = lake.sql(
        "select id, _misfits.text from silver.stock_changes where size(_misfits) > 0"
    )
    assert misfits == [{"id": 22, "text": ["much"]}]
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
    ]
    # Nothing is left to do, and a table that is made anew is the same one.
    state = {table: lake.current_snapshot(table) for table in TABLES}
    stock.run()
    assert {table: lake.current_snapshot(table) for table in TABLES} == state
    statuses = lake.dbt("run", "-s", "+stock", "+stock_history", "--full-refresh", as_of=AS_OF)
    assert set(statuses.values()) == {"success"}
    assert numbers() == expected


def test_what_does_not_fit_is_told_in_a_sentence(stock: Stock) -> None:
    """By the build that meets it, with the values and the command."""
    schema = {"version": 2, "models": [{"name": "stock_changes", "data_tests": ["no_misfits"]}]}
    (stock.lake.project / "models" / "silver" / "stock.yml").write_text(json.dumps(schema))
    outcomes = stock.lake.outcomes("test", "-s", "stock_changes", as_of=AS_OF)
    assert outcomes["no_misfits_stock_changes_"].status == "warn"
    assert outcomes["no_misfits_stock_changes_"].message == (
        "silver.stock_changes.price: 1 value does not fit decimal(17,5), 'much', and is null in"
        f" what is made of it (the log keeps the text); `lakehouse generate --topic {TOPIC}` writes"
        " a type that holds it, or says why not"
    )
