"""What dbt's pages and its catalog say, without dbt."""

import json
from pathlib import Path
from typing import Any

import pytest

from dbt_lakehouse.commands.docs import write_page
from dbt_lakehouse.dbt.catalog import shown_type

POSITION = "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
UNIT_TEST = "unit_test.shop.orders.orders_are_counted"


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("decimal(38,10)", "decimal(38,10)"),
        ("struct<a:int,b:int>", "struct<a:int,b:int>"),
        (POSITION, "struct"),
        (f"array<{POSITION}>", "array<struct>"),
        (f"map<{POSITION},{POSITION}>", "map<struct,struct>"),
        ("struct<names:array<struct<first:string,last:string>>>", "struct"),
        ("map<string,array<map<string,string>>>", "map<string,array<map<string,string>>>"),
    ],
)
def test_a_long_type_is_shown_without_its_fields(kind: str, shown: str) -> None:
    assert shown_type(kind) == shown


def test_the_page_shows_what_is_for_people(tmp_path: Path) -> None:
    orders = {"meta": {"current_state": {"columns": None}, "pager": "shop"}, "description": "</b>"}
    manifest: dict[str, Any] = {
        "metadata": {"send_anonymous_usage_stats": True},
        "nodes": {"model.shop.orders": orders},
        "sources": {},
        "exposures": {},
        "unit_tests": {UNIT_TEST: {}},
        "macros": {
            name: {"package_name": name} for name in ("dbt", "dbt_spark", "dbt_lakehouse", "shop")
        },
        "parent_map": {"model.shop.orders": [], UNIT_TEST: ["model.shop.orders"]},
        "child_map": {"model.shop.orders": [UNIT_TEST, "exposure.shop.book"]},
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "catalog.json").write_text('{"nodes": {}}')
    page = '<head></head><script>["MANIFEST.JSON INLINE DATA", "CATALOG.JSON INLINE DATA"]</script>'
    (tmp_path / "index.html").write_text(page)

    written = write_page(tmp_path).read_text()
    head, _, script = written.partition("<script>")
    assert head.endswith("</style></head>")
    told, catalog = json.loads(script.removesuffix("</script>"))
    assert catalog == {"nodes": {}}
    assert told == {
        "metadata": {"send_anonymous_usage_stats": False},
        "nodes": {"model.shop.orders": {"meta": {"pager": "shop"}, "description": "</b>"}},
        "sources": {},
        "exposures": {},
        "unit_tests": {},
        "macros": {"shop": {"package_name": "shop"}},
        "parent_map": {"model.shop.orders": []},
        "child_map": {"model.shop.orders": ["exposure.shop.book"]},
    }
    # dbt's own file is as dbt has written it.
    assert json.loads((tmp_path / "manifest.json").read_bytes()) == manifest
