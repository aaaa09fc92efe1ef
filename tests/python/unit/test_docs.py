"""What dbt's pages and its catalog say, without dbt; and our own page of promises."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands.docs import write_page
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.declared.catalog_columns import shown_type
from python_udfs.registry import FORMATS
from tools.documents import commands

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
    ours = {"id": {"name": "id", "description": "Ours.", "data_type": "int"}}
    orders = {
        "meta": {"current_state": {"columns": None}, "pager": "shop"},
        "description": "</b>",
        "columns": ours,
    }
    in_lake = {
        "id": {"comment": "Theirs."},
        "note": {"comment": "Its text."},
        "x": {"comment": None},
    }
    described = {**ours, "note": {"name": "note", "description": "Its text."}}
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
    tables = {"model.shop.orders": {"columns": in_lake}, "model.shop.gone": {"columns": in_lake}}
    found: dict[str, Any] = {"nodes": tables, "sources": {}}
    (tmp_path / "catalog.json").write_text(json.dumps(found))
    page = '<head></head><script>["MANIFEST.JSON INLINE DATA", "CATALOG.JSON INLINE DATA"]</script>'
    (tmp_path / "index.html").write_text(page)

    written = write_page(tmp_path).read_text()
    head, _, script = written.partition("<script>")
    assert head.endswith("</style></head>")
    told, catalog = json.loads(script.removesuffix("</script>"))
    assert catalog == found
    assert told == {
        "metadata": {"send_anonymous_usage_stats": False},
        "nodes": {
            "model.shop.orders": {**orders, "meta": {"pager": "shop"}, "columns": described},
        },
        "sources": {},
        "exposures": {},
        "unit_tests": {},
        "macros": {"shop": {"package_name": "shop"}},
        "parent_map": {"model.shop.orders": []},
        "child_map": {"model.shop.orders": ["exposure.shop.book"]},
    }
    # dbt's own file is as dbt has written it.
    assert json.loads((tmp_path / "manifest.json").read_bytes()) == manifest


def test_the_promises_name_tests_that_there_are() -> None:
    page = (ROOT / "docs/reliability.md").read_text()
    promises = [
        line for line in page.splitlines() if line.startswith("|") and "proved by" not in line
    ]
    for line in promises:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", line)
        assert named or set(line) <= set("|-"), line
        for file, name in named:
            (path,) = (ROOT / "tests/python").rglob(file)
            text = path.read_text()
            assert f"\ndef {name}(" in text, (file, name)
    assert len(page.splitlines()) <= 80


def without_blocks(page: str) -> str:
    """A page's text without its examples."""
    return re.sub(r"^( *)(```|~~~).*?^\1\2 *$", "", page, flags=re.DOTALL | re.MULTILINE)


def anchors(page: str) -> set[str]:
    """What links to a page's headings are called, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", without_blocks(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        again = [f"{name}-{number}" for number in range(1, 10)]
        found.add(next(each for each in (name, *again) if each not in found))
    return found


def broken_links(file: Path) -> list[str]:
    """The links of a document that lead to no file, or to no heading of one."""
    text = re.sub(r"`[^`\n]*`", "", without_blocks(file.read_text()))
    found = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        # dbt's page has its own addresses.
        if re.match(r"[a-z]+:", link) or link.startswith("#!"):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(link)
    return found


def test_links_of_documents_lead_somewhere(tmp_path: Path) -> None:
    folders = ("docs", "examples", "models", "seeds", "shared")
    documents = [
        *ROOT.glob("*.md"),
        *(each for name in folders for each in (ROOT / name).rglob("*.md")),
    ]
    # What dbt has installed for an example is not ours.
    ours = [each for each in documents if "dbt_packages" not in each.parts]
    assert len(ours) > 40
    assert {str(each): links for each in ours if (links := broken_links(each))} == {}
    (tmp_path / "a.md").write_text("# A `b`: c\n[d](#a-b-c) [e](#a-b) [f](b.md) [g](a.md#a-b-c)\n")
    assert broken_links(tmp_path / "a.md") == ["#a-b", "b.md"]


def test_the_recipe_for_a_wire_format_carries(tmp_path: Path) -> None:
    """Its decoder and its tests, as they stand there."""
    recipe = (ROOT / "docs" / "add-a-wire-format.md").read_text()
    files = re.findall(r"```diff\n\+\+\+ (\S+_json\.py)\n(.*?)```", recipe, re.DOTALL)
    assert [name for name, _ in files] == [
        "python_udfs/outbox_json.py",
        "tests/python/unit/test_outbox_json.py",
    ]
    for name, lines in files:
        file = tmp_path / Path(name).name
        file.write_text("\n".join(line[1:] for line in lines.splitlines()) + "\n")
    # Beside the package, and not in it: nothing is written into the checkout.
    test = tmp_path / "test_outbox_json.py"
    test.write_text(
        test.read_text().replace("from python_udfs import outbox_json", "import outbox_json")
    )
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", test.name]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    # What is exchanged in the registry is there.
    registry = (ROOT / "python_udfs" / "registry.py").read_text()
    for line in (
        "from python_udfs import change_stream\n"
        "from python_udfs import cockroachdb as cockroachdb_json",
        '    "mongodb_json": change_stream.decode,\n}',
    ):
        assert line in registry


def test_the_formats_are_all_told() -> None:
    page = (ROOT / "docs" / "wire-formats.md").read_text()
    assert re.findall(r"^\| `(\w+_(?:json|messagepack|avro))` \|", page, re.MULTILINE) == list(
        FORMATS
    )


def test_the_options_of_commands_are_those_of_their_help() -> None:
    told = commands.PAGE.read_text()
    assert told == commands.page(), "make commands writes it anew"
    assert told.count("\n### ") == len(lakehouse.commands)


def test_the_commands_are_all_told() -> None:
    page = (ROOT / "docs" / "commands.md").read_text()
    told = dict(re.findall(r"^\| `lakehouse ([a-z-]+)` \| (.+) \|$", page, re.MULTILINE))
    assert page.count("\n| `lakehouse ") == len(told)
    assert told.keys() == lakehouse.commands.keys()
    for name, text in told.items():
        options = {option for each in lakehouse.commands[name].params for option in each.opts}
        assert set(re.findall(r"`(--[a-z-]+)`", text)) <= options, name
