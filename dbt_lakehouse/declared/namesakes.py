"""Macros of a project that have the name of one of ours.

Our own macros call each other by their whole names, ``dbt.<name>``, which no project can take. A
plain name in a project's model calls the project's own macro if it has one of that name. The same
holds for generic tests and materializations, which dbt itself looks up. dbt does not report it.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

# The package of the adapter's macros, as in dbt/include/lakehouse/dbt_project.yml.
OURS: Final = "dbt_lakehouse"
# In the meta of a macro that models or people call by its name: its whole name.
PUBLIC: Final = "public"


class _Called(NamedTuple):
    """What dbt takes from a project instead of ours, and the remedy."""

    what: str
    remedy: str


def told(macros: Iterable[Any], project: str) -> list[str]:
    """A sentence for each macro of the root project that dbt takes instead of one of ours.
    ``macros`` are those of dbt's manifest.
    """
    every = list(macros)
    ours = {each.name: each for each in every if each.package_name == OURS}
    found = (each for each in every if each.package_name == project and each.name in ours)
    sentences = []
    for macro in sorted(found, key=lambda each: str(each.name)):
        called = _called(ours[macro.name])
        if called is not None:
            sentences.append(
                f"{macro.original_file_path}: this project's {called.what} takes the place of the"
                f" lakehouse's of the same name: {called.remedy}"
            )
    return sentences


def _called(ours: Any) -> _Called | None:
    """How a project calls one of our macros; None if it does not, so that nothing can take its
    place.
    """
    if PUBLIC in ours.meta:
        remedy = f"rename it, or call ours by its whole name, {ours.meta[PUBLIC]}"
        return _Called(f"macro {ours.name}", remedy)
    if ours.name.startswith("test_"):
        return _Called(f"generic test {ours.name.removeprefix('test_')}", "rename it")
    if ours.name.startswith("materialization_"):
        name = ours.name.removeprefix("materialization_").removesuffix("_lakehouse")
        return _Called(f"materialization {name}", "rename it")
    return None
