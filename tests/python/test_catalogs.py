"""One lake in each kind of catalog: built in SQLite, moved to PostgreSQL, and on to REST. In each
it lands, builds what is new, is read without Spark, and is maintained.

The tests stand in the order of the moves.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import pytest
from click.testing import CliRunner
from lakes import Lake
from postgres import USER, postgres
from rest_catalog import rest_catalog
from small_messages import row_change
from small_project import Log, add_gold, add_log, current_state, small_project
from streams import Message

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands import migrate_catalog
from dbt_lakehouse.config.profile import find
from dbt_lakehouse.config.project import ProjectOptions, load
from dbt_lakehouse.dbt.commands import DbtError, run_dbt
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.iceberg import lake_catalog
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.landing.files import land_captures
from dbt_lakehouse.spark.session import start_session

AS_OF: Final = "2026-10-01 12:00:00"
LOG: Final = Log("shops", "shops", {"id": "bigint"}, {"title": "string"}, "shop", "app")
CHANGES: Final = "silver.change_events"
LEASES: Final = "bronze.leases"
VIEW: Final = "create view lake.gold.titles as select upper(title) as title from lake.gold.shops"


def change(offset: int, op: str, key: int, title: str) -> Message:
    source = {"connector": "postgresql", "db": "shop", "schema": "app", "table": "shops"}
    return row_change("debezium.shops", offset, op, key, source, title=title)


# What lands in each catalog, and what gold is then.
ROUNDS: Final = {
    "dev": (
        [change(0, "c", 1, "one"), change(1, "c", 2, "two"), change(2, "c", 3, "three")],
        {1: "one", 2: "two", 3: "three"},
    ),
    "postgres": (
        [change(3, "u", 1, "uno"), change(4, "d", 2, "two")],
        {1: "uno", 3: "three"},
    ),
    "rest": (
        [change(5, "u", 1, "ein"), change(6, "c", 4, "vier")],
        {1: "ein", 3: "three", 4: "vier"},
    ),
}


@dataclass
class Moving:
    """The lake, which all targets of its project's profile name in one after the other."""

    lake: Lake

    def options(self, target: str) -> ProjectOptions:
        project = self.lake.project
        return ProjectOptions(str(project), str(project / "profiles"), target=target)

    def command(self, target: str, *arguments: str) -> str:
        """What the `lakehouse` command prints. Raises what it fails with."""
        options = self.options(target)
        places = ["--project-dir", str(options.project_dir)]
        places += ["--profiles-dir", str(options.profiles_dir), "--target", target]
        with self.lake.dbt_folders():
            result = CliRunner().invoke(lakehouse, [*arguments, *places], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def dbt(self, target: str, *arguments: str) -> None:
        """A dbt command. Raises ``DbtError`` if not all goes well."""
        variables = json.dumps({"captures": [], "as_of": AS_OF})
        with self.lake.dbt_folders():
            run_dbt(load(self.options(target)._replace(vars=variables)), *arguments)

    def tables(self, target: str) -> dict[str, Table]:
        """All tables, as their metadata has them; of leases each catalog has its own."""
        place = find(self.options(target))
        reader = Reader(place.settings, place.gold)
        names = set(reader.names) - {LEASES, "gold.titles"}
        return {name: reader.look_at(name) for name in names}

    def files(self) -> dict[Path, int]:
        """The files of data and of tables' metadata, and when they were written."""
        files = (self.lake.folder / "lake" / "warehouse").rglob("*.*")
        return {
            file: file.stat().st_mtime_ns
            for file in files
            if not {"leases", "titles"} & {*file.parts}
        }


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    """The lake, in the catalog of the target ``dev``, and servers of the others."""
    folder = tmp_path_factory.mktemp("moving")
    project = small_project(folder / "project")
    add_log(project, LOG)
    add_gold(project, current_state(LOG))
    with ExitStack() as servers, (project / "profiles" / "profiles.yml").open("a") as profile:
        uri = servers.enter_context(postgres(folder))
        target(profile, "postgres", uri=uri, **{"jdbc.user": USER})
        uri = servers.enter_context(rest_catalog(folder, folder / "lake" / "warehouse"))
        target(profile, "rest", type="rest", uri=uri)
        profile.flush()
        lake = Lake(folder, project)
        os.environ.update(lake.environment)
        yield Moving(lake)


def target(profile: TextIO, name: str, **properties: str) -> None:
    """Add a target to the profile, as docs/catalogs.md has it."""
    lines = [f"    {name}:", "      type: lakehouse", "      method: session", "      schema: gold"]
    lines += ["      threads: 4", "      server_side_parameters:", "        <<: *parameters"]
    lines += [f"        spark.sql.catalog.lake.{key}: {value}" for key, value in properties.items()]
    profile.write("\n".join(lines) + "\n")


@pytest.mark.parametrize("catalog", ROUNDS)
def test_a_lake_is_built_read_and_maintained_in_each_catalog(moving: Moving, catalog: str) -> None:
    earlier = {"postgres": "dev", "rest": "postgres"}.get(catalog)
    before = moved(moving, earlier, catalog) if earlier else {}
    messages, expected = ROUNDS[catalog]
    capture = moving.lake.folder / "capture.jsonl"
    capture.write_text("".join(json.dumps(each.line()) + "\n" for each in messages))
    spark = load(moving.options(catalog)).open_session()
    assert land_captures(spark, [str(capture)], patience=60).landed == len(messages)
    moving.dbt(catalog, "run")
    if not earlier:
        spark.sql(VIEW)

    tables = moving.tables(catalog)
    # Only what is new was read, into the tables that were there.
    assert tables[CHANGES].chain[0].summary["added-records"] == str(len(messages))
    for name, table in before.items():
        assert tables[name].uuid == table.uuid
        assert table.snapshot in {each.name for each in tables[name].chain} | {"none"}
    count = moving.command(catalog, "show", "--json")
    assert json.loads(count) == {"gold.shops": len(expected), "gold.titles": len(expected)}
    rows = moving.command(catalog, "sql", "select id, title from shops order by id", "--csv")
    assert rows == "id,title\n" + "".join(f"{key},{expected[key]}\n" for key in sorted(expected))
    rows = moving.command(catalog, "sql", "select min(title) as title from titles", "--csv")
    assert rows == f"title\n{min(expected.values()).upper()}\n"
    answer = json.loads(
        moving.command(catalog, "why", "--table", "shops", "--key", '{"id": 1}', "--json")
    )
    assert answer["differences"] == []

    moving.dbt(catalog, "run-operation", "maintain_tables")
    kept = moving.tables(catalog)["gold.shops"]
    moving.dbt(catalog, "build")
    # Its marks have survived: there was nothing to read.
    assert moving.tables(catalog)["gold.shops"] == kept
    assert not spark.sql("show tables in lake.gold like '*__dbt_tmp'").collect()


def moved(moving: Moving, old: str, new: str) -> dict[str, Table]:
    """Move the lake; its tables as they were before."""
    before, files = moving.tables(old), moving.files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate_catalog, "_state", interrupted(migrate_catalog._state, at=5))
        with pytest.raises(KeyboardInterrupt):
            migrate_catalog.migrate_catalog(load(moving.options(old)), new)
    # Halfway nobody may write to the one or the other.
    for target, reason in ((old, "has moved"), (new, "is on its way")):
        with pytest.raises(ConfigurationError, match=f"the lake {reason} from "):
            moving.tables(target)
    done = json.loads(moving.command(old, "migrate-catalog", "--to", new, "--json"))["tables"]
    assert {*done} == {*before, "gold.titles"}
    assert done["gold.titles"] == "view created"
    said = [each.partition(",")[0] for name, each in done.items() if name != "gold.titles"]
    assert {*said} == {"registered", "is there already"}
    assert moving.tables(new) == before
    # Nothing was written but the view.
    assert moving.files() == files
    for command in (("show",), ("migrate-catalog", "--to", new)):
        with pytest.raises(ConfigurationError, match="the lake has moved from "):
            moving.command(old, *command)
    with pytest.raises(DbtError, match="the lake has moved from "):
        moving.dbt(old, "run")
    # And who doesn't ask finds no table.
    spark = start_session(load(moving.options(old)).parameters, moving.lake.project)
    assert migrate_catalog._Catalog(lake_catalog(spark), "").names() == []
    return before


def interrupted(function: Callable[..., Table], at: int) -> Callable[..., Table]:
    """The function, whose user loses patience at a call."""
    calls = iter(range(1, at))

    def called(*arguments: object) -> Table:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return function(*arguments)

    return called
