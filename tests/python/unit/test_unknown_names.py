"""Names in a query that nothing has: what was meant, and what is declared and not built yet."""

from pathlib import Path
from typing import Final

import duckdb
import pytest

from dbt_lakehouse.config.models import declared_models
from dbt_lakehouse.lake.unknown_names import (
    column_missed,
    missing_column,
    missing_table,
    table_missed,
)

TABLES: Final = {
    "gold.orders": ["order_id", "amount"],
    "gold.customers": ["customer_id", "email"],
    "silver.orders_changes": ["order_id", "_operation"],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project that declares more than is built, in a folder of its own and in a package."""
    (tmp_path / "dbt_project.yml").write_text("name: shop\nmodel-paths: [tables]\n")
    package = tmp_path / "dbt_packages" / "more"
    for file in (
        *(tmp_path / f"tables/gold/{name}.sql" for name in ("orders", "sessions")),
        package / "models/silver/other_events.sql",
        # Of no project, and no model.
        tmp_path / "dbt_packages/other/models/nothing.sql",
        tmp_path / "tables/gold/sessions.yml",
    ):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (package / "dbt_project.yml").write_text("name: more\n")
    return tmp_path


def said(query: str) -> str:
    """What DuckDB says of a query, whose tables are there."""
    with duckdb.connect() as duck:
        for table, columns in TABLES.items():
            duck.execute(f"create schema if not exists {table.partition('.')[0]}")
            values = ", ".join(f"1 as {each}" for each in columns)
            duck.execute(f"create view {table} as select {values}")
        duck.execute("use gold")
        with pytest.raises(duckdb.Error) as raised:
            duck.execute(query)
    return str(raised.value)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("from ordrs", "there is no table ordrs (did you mean gold.orders?)"),
        ("from GOLD.ORDRS", "there is no table ORDRS (did you mean gold.orders?)"),
        ("from silver.orders", "there is no table orders (did you mean gold.orders?)"),
        ("from order_changes", "silver.orders_changes?)"),
        ("from bronze.orders", "there is no table orders (did you mean gold.orders"),
        ("describe zzz", "there is no table zzz; `lakehouse sql 'show all tables'` lists"),
        (
            "from sessions",
            "tables/gold/sessions.sql declares sessions, which is not built yet:"
            " `dbt build -s +sessions` builds it",
        ),
        (
            "from gold.sesions",
            "there is no table sesions (did you mean sessions?): tables/gold/sessions.sql declares"
            " it",
        ),
        (
            "from silver.other_events",
            "dbt_packages/more/models/silver/other_events.sql declares other_events, which is",
        ),
        ("from nothing", "there is no table nothing"),
    ],
)
def test_a_table_that_is_not_there(root: Path, query: str, sentence: str) -> None:
    name = table_missed(said(query))
    assert name is not None
    told = missing_table(name, [*TABLES], root)
    assert sentence.removesuffix(" declares it") in told
    assert ("not built yet" in told) == ("declares" in sentence)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("select ordr_id from orders", "there is no column ordr_id (did you mean order_id?)"),
        ("select ORDR_ID from orders", "there is no column ORDR_ID (did you mean order_id?)"),
        ("select zzz from orders", "there is no column zzz"),
        (
            "select * exclude (amont) from orders",
            "there is no column amont (did you mean amount?)",
        ),
        (
            "from orders join customers using (ordr_id)",
            "there is no column ordr_id (did you mean order_id?)",
        ),
        ("select orders.emial from orders", "there is no column emial of orders"),
        (
            "select c.emial from customers as c",
            "there is no column emial of c (did you mean email?)",
        ),
        (
            "select customers.emial from gold.customers",
            "there is no column emial of customers (did you mean email?)",
        ),
    ],
)
def test_a_column_that_is_not_there(query: str, sentence: str) -> None:
    missed = column_missed(said(query))
    assert missed is not None
    assert missing_column(*missed, TABLES) == sentence


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        (
            """from orders where amount = "it's paid\"""",
            "there is no column it's paid: a name is in double quotes, a text in single ones,"
            " 'it''s paid'",
        ),
        ("from orders where amount = paid", "there is no column paid"),
        (
            'select "amont" from orders',
            "there is no column amont (did you mean amount?)",
        ),
    ],
)
def test_a_text_in_double_quotes(query: str, sentence: str) -> None:
    missed = column_missed(said(query))
    assert missed is not None
    assert missing_column(*missed, TABLES, query) == sentence


def test_another_error_is_about_no_name() -> None:
    text = said("select foo(1)")
    assert table_missed(text) is None and column_missed(text) is None


def test_a_project_that_can_not_be_read_declares_nothing(tmp_path: Path) -> None:
    assert declared_models(tmp_path) == {}
    for text in ("- no mapping", "model-paths: [1]", "\tno yaml"):
        (tmp_path / "dbt_project.yml").write_text(text)
        assert declared_models(tmp_path) == {}
