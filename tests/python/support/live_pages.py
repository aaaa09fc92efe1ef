"""The live page of a lake that tests have built."""

from pathlib import Path

from dbt_lakehouse.commands.page.lake import Lake
from dbt_lakehouse.session.profile import Place
from dbt_lakehouse.session.project import ProjectOptions
from support.lakes import Lake as BuiltLake


def page_of(built: BuiltLake, root: Path) -> Lake:
    """The lake for a page of a project in an empty folder, with what its builds have left."""
    (root / "target").symlink_to(built.folder / f"target-{built.project.name}")
    settings = built.load().settings
    return Lake(Place(settings, "gold", root, "shop"), ProjectOptions(target="dev"))
