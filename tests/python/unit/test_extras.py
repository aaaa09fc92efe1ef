"""What is installed without an extra works without its packages, and says so where it can't.

An environment here is a folder with links to those packages alone that pip would install: nothing
is imported that isn't in it.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dbt.adapters.lakehouse import connections
from dbt_lakehouse import extras as extras_of_ours
from dbt_lakehouse.cli import lakehouse, main
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.extras import MODULES

Environment = Callable[..., Path]

PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
DYNAMIC: Final[dict[str, Any]] = PROJECT["tool"]["setuptools"]["dynamic"]
EXTRAS: Final[dict[str, list[str]]] = {
    name: table["file"] for name, table in DYNAMIC["optional-dependencies"].items()
}
OURS: Final = {"cdc_lakehouse", "dbt_lakehouse", "python_udfs"}
ORDERS: Final = ROOT / "seeds" / "debezium.sales.orders.jsonl"


def packages(files: list[str]) -> set[str]:
    """The packages that requirement files name."""
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    return {
        canonicalize_name(re.split(r"[\[=]", line)[0])
        for line in lines
        if line and not line.startswith("#")
    }


BASE: Final = packages(DYNAMIC["dependencies"]["file"])


@cache
def modules() -> dict[str, set[str]]:
    """The packages that each module comes with, by the names that requirements have."""
    found = packages_distributions()
    return {module: {canonicalize_name(each) for each in of} for module, of in found.items()}


@cache
def imported(folder: Path) -> dict[str, set[str]]:
    """The files that import each module of others, wherever in them."""
    found: dict[str, set[str]] = {}
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in {each.partition(".")[0] for each in names}:
                if name not in sys.stdlib_module_names | OURS:
                    found.setdefault(name, set()).add(file.relative_to(ROOT).as_posix())
    return found


@cache
def loads(name: str) -> tuple[str, list[str]]:
    """The file of a module of ours, and what it imports as it is imported. A name that is imported
    from a module, and is no module itself, has none.
    """
    path = ROOT / name.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: list[str] = []
    for node in ast.parse(file.read_text()).body if file.exists() else ():
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        if isinstance(node, ast.ImportFrom):
            found += [f"{node.module}", *(f"{node.module}.{each.name}" for each in node.names)]
    return file.relative_to(ROOT).as_posix(), found


def loaded(names: Iterable[str]) -> dict[str, str]:
    """The modules of others that modules load as they are imported, themselves or by others of
    ours, each with a file that does.
    """
    found: dict[str, str] = {}
    left = [*names]
    seen = {*left}
    while left:
        file, imports = loads(left.pop())
        for name in imports:
            top = name.partition(".")[0]
            if top not in OURS and not name.startswith("dbt.adapters.lakehouse"):
                if top not in sys.stdlib_module_names:
                    found.setdefault(top, file)
            elif name not in seen:
                seen.add(name)
                left.append(name)
    return found


def needs(arguments: list[ast.expr]) -> tuple[str, ...]:
    return tuple(str(each.value) for each in arguments if isinstance(each, ast.Constant))


def commands() -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """The functions of the commands with the extras that they need, and the modules of ours that
    they import once they are called.
    """
    for file in (ROOT / "dbt_lakehouse" / "cli").glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            calls = getattr(node, "decorator_list", [])
            asked = {ast.unparse(each.func): each.args for each in calls if hasattr(each, "func")}
            if isinstance(node, ast.FunctionDef) and "click.command" in asked:
                inner = [each for each in ast.walk(node) if isinstance(each, ast.ImportFrom)]
                loaded = [str(each.module) for each in inner]
                yield node.name, needs(asked.get("needs", [])), loaded


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Makes one of what `pip install cdc_lakehouse[...]` would install."""

    def made(*extras: str) -> Path:
        folder = tmp_path_factory.mktemp("-".join(("base", *extras)))
        files = [*DYNAMIC["dependencies"]["file"], *(f for each in extras for f in EXTRAS[each])]
        for name in closure(packages(files)) | {"cdc-lakehouse"}:
            package = distribution(name)
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            if name == "cdc-lakehouse":
                # Modules of ours are those of the checkout.
                tops = {top for top in tops if top.endswith(".dist-info")}
            for top in tops:
                link = folder / top
                # `dbt` is of several packages.
                if not link.exists():
                    link.symlink_to(Path(str(package.locate_file(top))))
        return folder

    return cache(made)


def closure(names: set[str]) -> set[str]:
    """The packages with all that they depend on. Binary parts of psycopg are of an extra of it."""
    found: set[str] = set()
    left = [*names, *({"psycopg-binary"} if "psycopg" in names else ())]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            for each in map(Requirement, distribution(name).requires or ()):
                if each.marker is None or each.marker.evaluate({"extra": ""}):
                    left.append(canonicalize_name(each.name))
    return found


def run(folder: Path, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A Python that sees the environment and the checkout."""
    # Without -S, the packages that the tests have would be there too.
    return subprocess.run(
        [sys.executable, "-S", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_each_import_is_of_the_base_or_of_an_extra() -> None:
    asked = BASE | packages([file for files in EXTRAS.values() for file in files])
    # What dbt hands over: its tables are agate's, and its own packages are one module.
    handed = {"agate"}
    for folder in ("python_udfs", "dbt_lakehouse", "dbt"):
        for module, files in imported(ROOT / folder).items():
            assert module in handed or asked & modules().get(module, set()), (module, files)


def test_decoders_import_no_more_than_the_base_but_for_columns_of_arrow() -> None:
    where_it_is_installed = {
        "python_udfs/debezium/temporal_columns.py",
        "python_udfs/text/avro_columns.py",
    }
    for module, files in imported(ROOT / "python_udfs").items():
        if module in MODULES["avro"]:
            others = {file for file in files if not file.startswith("python_udfs/typed/")}
            assert others <= where_it_is_installed
        else:
            assert BASE & modules()[module], (module, files)


def test_modules_are_looked_for_that_the_extras_install() -> None:
    assert MODULES.keys() | {"all"} == EXTRAS.keys()
    for extra, looked_for in MODULES.items():
        asked = packages(EXTRAS[extra])
        found = {name for name in looked_for if modules()[name] & asked}
        # Each package of the extra has one of them. Those of dbt have one together.
        without = {name for name in asked if not any(name in modules()[each] for each in found)}
        assert found == {*looked_for}
        assert without <= {"dbt-adapters", "dbt-core", "dbt-spark"}, extra


def test_all_is_all_of_them() -> None:
    files = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("requirements/*.in")}
    assert {*EXTRAS["all"]} == files - {*DYNAMIC["dependencies"]["file"]}
    pinned = (ROOT / "requirements.txt").read_text()
    for file in files:
        for line in (ROOT / file).read_text().splitlines():
            if not line.startswith("#"):
                name, _, version = line.partition("  #")[0].partition("==")
                package = canonicalize_name(name.partition("[")[0])
                assert f"\n{package}=={version} \\\n" in f"\n{pinned}", line


def test_decoders_need_the_base_alone(environment: Environment) -> None:
    base = environment()
    decode = ("-m", "dbt_lakehouse.cli", "decode", "--format", "debezium_json", str(ORDERS))
    said = run(base, *decode)
    assert said.returncode == 0 and said.stdout.startswith('{"topic":"debezium.sales.orders"')
    assert said.stdout.count("\n") == len(ORDERS.read_text().splitlines())
    said = run(base, "-m", "dbt_lakehouse.cli", "explain", str(ORDERS), "--line", "1")
    assert said.returncode == 0 and "\nevent: snapshot\n" in said.stdout
    said = run(base, "-m", "dbt_lakehouse.cli", "--version")
    assert said.stdout.splitlines()[1:3] == ["dbt-core not installed", "dbt-spark not installed"]
    # Columns that Arrow would convert are left to what converts a value.
    times = "from python_udfs.debezium.temporal_columns import OF_MANY as many"
    said = run(base, "-c", f"{times}; print({{convert([0, 1]) for convert in many.values()}})")
    assert said.stdout == "{None}\n", said.stderr


def test_each_command_says_which_extras_it_lacks(environment: Environment) -> None:
    program = """
from dbt_lakehouse import extras as extras_of_ours
from dbt_lakehouse.cli import lakehouse, main
from dbt_lakehouse.errors import ConfigurationError
for name, command in lakehouse.commands.items():
    command.get_help(command.make_context(name, [], resilient_parsing=True))
    try:
        command.callback()
    except ConfigurationError as error:
        print(command.callback.__name__, error)
    except TypeError:
        print(command.callback.__name__, "begins")
"""
    said = run(environment(), "-c", program)
    assert said.returncode == 0, said.stderr
    told = dict(line.split(" ", 1) for line in said.stdout.splitlines())
    needed = {name: extras for name, extras, _ in commands()}
    assert told.keys() == needed.keys() and len(told) == len(lakehouse.commands)
    for name, extras in needed.items():
        if extras:
            assert told[name].endswith(f"pip install 'cdc_lakehouse[{','.join(extras)}]'"), name
    begins = {name for name, text in told.items() if text == "begins"}
    assert begins == {"decode", "explain", "password"}


def test_a_command_without_its_extra_ends_with_a_sentence(environment: Environment) -> None:
    said = run(environment(), "-m", "dbt_lakehouse.cli", "sql", "select 1")
    sentence = "duckdb is not installed, which this needs: pip install 'cdc_lakehouse[sql]'"
    assert (said.returncode, said.stdout, said.stderr) == (2, "", f"lakehouse: {sentence}\n")


def test_a_command_needs_no_more_than_it_asks_for() -> None:
    """What it loads when it is called is of the base or of the extras that it names."""
    # With --openmetrics, for which it asks then.
    later = "dbt_lakehouse.commands.status.openmetrics"
    for name, extras, modules_of_ours in commands():
        there = BASE | packages([file for extra in extras for file in EXTRAS[extra]])
        for module, file in loaded(each for each in modules_of_ours if each != later).items():
            assert module == "agate" or there & modules()[module], (name, module, file)


def test_a_lake_without_an_extra_says_so_where_it_needs_it(environment: Environment) -> None:
    program = """
from dbt_lakehouse.session.project import ProjectOptions, load
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import CATALOG_URI, entries
from dbt_lakehouse.lake.duckdb_connection import extension_files
def told(call):
    try:
        call()
    except ConfigurationError as error:
        print(error)
extension_files()
told(lambda: extension_files(of_buckets=True))
told(lambda: entries({CATALOG_URI: "jdbc:postgresql://localhost:1/lake"}))
told(lambda: load(ProjectOptions()))
"""
    said = run(environment("sql"), "-c", program)
    assert said.returncode == 0, said.stderr
    wanted = (("duckdb_extension_aws", "s3"), ("psycopg", "postgres"), ("pyspark", "lake"))
    assert said.stdout.splitlines() == [
        f"{module} is not installed, which this needs: pip install 'cdc_lakehouse[{extra}]'"
        for module, extra in wanted
    ]


def test_queries_can_call_decoders(environment: Environment) -> None:
    """DuckDB imports by itself what it passes values to functions with."""
    program = """
from types import SimpleNamespace
import duckdb
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.decoders import add_decoders
reader = SimpleNamespace(functions=set(), names=[], logs_first=list, _duck=duckdb.connect())
reader.add_function = lambda *function: Reader.add_function(reader, *function)
add_decoders(reader, "decode_payload")
events = "decode_payload('debezium_json', null, case when range then 'x'::blob end)"
print(reader._duck.sql(f"select {events}[1].operation from range(2)").fetchall())
"""
    said = run(environment("lake", "sql"), "-c", program)
    assert said.stdout == "[('tombstone',), ('invalid',)]\n", said.stderr


def test_metrics_without_their_extra_are_refused_before_the_lake_is_read(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras_of_ours, "MODULES", {**MODULES, "openmetrics": ("nobody",)})
    project = ("--project-dir", str(ROOT), "--profiles-dir", str(ROOT / "profiles"))
    with pytest.raises(SystemExit) as ended:
        main(["status", "--openmetrics", "lake.prom", *project])
    assert ended.value.code == 2
    install = "pip install 'cdc_lakehouse[openmetrics]'"
    told = f"lakehouse: nobody is not installed, which this needs: {install}\n"
    assert capfd.readouterr().err == told


def test_a_run_without_the_extra_for_its_report_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(connections, "LOGGER", SimpleNamespace(info=told.append))
    monkeypatch.setattr(extras_of_ours, "MODULES", {**MODULES, "report": ("nobody",)})
    # `dbt debug` has such a profile.
    profile: Any = SimpleNamespace()
    manager = connections.LakehouseConnectionManager(profile, get_context("spawn"))
    run: Any = object()
    manager._run = run
    for _ in range(2):
        manager.leave_report(None)
    sentence = "nobody is not installed, which this needs: pip install 'cdc_lakehouse[report]'"
    assert told == [f"no report of this run: {sentence}"]
