"""The models of a project from its files, for commands that don't start dbt."""

from pathlib import Path
from typing import Any, Final

import yaml

from dbt_lakehouse.config.mistakes import PROJECT

_FOLDERS: Final = ["models"]
# The folder in which dbt installs packages, with models of their own.
PACKAGES: Final = "dbt_packages"


def declared_models(root: Path) -> dict[str, Path]:
    """The file of each model of the project in a folder, and of its packages, by name; relative
    to the folder. A project that can't be read has none; dbt explains why.
    """
    found: dict[str, Path] = {}
    for project in (root, *sorted((root / PACKAGES).glob("*"))):
        for folder in _model_folders(project):
            for file in sorted((project / folder).rglob("*.sql")):
                found.setdefault(file.stem, file.relative_to(root))
    return found


def _model_folders(project: Path) -> list[str]:
    try:
        settings: Any = yaml.safe_load((project / PROJECT).read_bytes())
        folders = settings.get("model-paths") or _FOLDERS
    except (OSError, yaml.YAMLError, AttributeError):
        return []
    return [each for each in folders if isinstance(each, str)]
