"""How the rooms of the house use each other, and the JVM. A room is a folder of modules."""

import ast
import re
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from dbt_lakehouse.config.paths import ROOT

HANDLES: Final = ROOT / "dbt_lakehouse" / "spark" / "jvm.py"
# PySpark's private attributes that lead to the JVM.
PRIVATE: Final = re.compile(
    r"\._(?:jvm|jsc|jdf|jsparkSession|gateway|gateway_client|active_spark_context"
    r"|accumulatorServer|origin)\b|\"_origin\""
)


def modules() -> dict[str, Path]:
    """The product's own modules, by their names."""
    paths = [
        path
        for folder in ("dbt", "dbt_lakehouse", "python_udfs", "local_kafka")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return {name.removesuffix(".__init__"): path for name, path in zip(names, paths, strict=True)}


def room_of(path: Path) -> str:
    """The folder of a module."""
    return str(path.parent.relative_to(ROOT))


def part_of(path: Path) -> str:
    """The folder of ``dbt_lakehouse`` that a module is in, or in whose folders; another package."""
    return "/".join(path.parent.relative_to(ROOT).parts[:2])


def imported(path: Path) -> Iterator[str]:
    """What a module imports, whenever it does: modules, or names in them."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_one_module_has_the_private_handles_of_the_jvm() -> None:
    users = [path for path in modules().values() if PRIVATE.search(path.read_text())]

    assert users == [HANDLES]


@pytest.mark.parametrize("room", [room_of, part_of])
def test_no_room_uses_one_that_uses_it(room: Callable[[Path], str]) -> None:
    known = modules()
    uses: dict[str, set[str]] = {}
    for path in known.values():
        for name in imported(path):
            module = name if name in known else name.rpartition(".")[0]
            if module in known and room(known[module]) != room(path):
                uses.setdefault(room(path), set()).add(room(known[module]))

    assert "dbt_lakehouse/spark" in uses["dbt_lakehouse/lake"]
    # A CycleError names the rooms of a circle.
    assert [*TopologicalSorter(uses).static_order()][-1] in uses


def test_the_room_of_serve_has_one_door() -> None:
    known = modules()
    room = "dbt_lakehouse.commands.serve"
    used = {
        name if name in known else name.rpartition(".")[0]
        for module, path in known.items()
        if not module.startswith(room)
        for name in imported(path)
        if name.startswith(f"{room}.")
    }

    assert used == {f"{room}.door"}
