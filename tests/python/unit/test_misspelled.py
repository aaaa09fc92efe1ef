"""Queries with a misspelled or missing keyword: the keyword that was meant."""

import duckdb
import pytest

from dbt_lakehouse.lake.misspelled import misspelled


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("select * form orders", [("form", "from")]),
        ("SELECT * FORM orders", [("FORM", "from")]),
        ("selct * from orders", [("selct", "select")]),
        ("selec é from orders", [("selec", "select")]),
        ("select é form orders", [("form", "from")]),
        ("select 1 from orders were status = 'paid'", [("were", "where")]),
        ("select status from orders gruop by status", [("gruop", "group")]),
        ("select * from orders limt 3", [("limt", "limit")]),
        ("select * from orders order status", [("order", "order by")]),
        ("select status, count(*) from orders group status", [("group", "group by")]),
        ("select * from orders oder status", [("oder", "order by")]),
        ("selct * form orders", [("selct", "select"), ("form", "from")]),
        # A text is no word, and these lack something else.
        ("select 'form' from orders where (", []),
        ("select sum(amount from orders", []),
        ("select 'a from orders", []),
        ("", []),
        # Too many words that may be wrong.
        (f"select {'form, ' * 25} 1 form orders", []),
    ],
)
def test_the_keyword_that_was_meant(query: str, wrong: list[tuple[str, str]]) -> None:
    with duckdb.connect() as duck:
        assert misspelled(duck, query) == wrong
