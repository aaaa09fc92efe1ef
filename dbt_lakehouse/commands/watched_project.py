"""A project as dbt has parsed it, for many commands in one process. It is parsed again when its
files change.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.commands.upkeep import now
from dbt_lakehouse.session.parsed_project import ParsedProject
from dbt_lakehouse.session.project import Project, load
from dbt_lakehouse.telling import tell

# What dbt reads beside its folders, and the defaults of those that the project does not set.
_OF_PROJECT: Final = (
    *("dbt_project.yml", "packages.yml", "dependencies.yml", "package-lock.yml"),
    *("selectors.yml", "dbt_catalogs.yml", "vars.yml"),
    *("models", "macros", "seeds", "snapshots", "tests", "analyses", "functions"),
)

Files = Mapping[Path, tuple[int, int] | None]
"""Files and folders, each with its modification time (ns) and size; None if it does not exist."""


class WatchedProject:
    """A project as dbt has parsed it, for many commands, and parsed again when its files change.

    Parsing raises ``ProjectError``, ``ConfigurationError`` and ``KafkaError``.
    """

    def __init__(self, project: Project) -> None:
        # First before it is parsed.
        self._read(project, looked_at(files_beside(project)))

    @property
    def has_changed(self) -> bool:
        """Whether its files have changed since it was read."""
        return looked_at(self._files) != self._files

    def read_again(self) -> bool:
        """Parse the project again if its files have changed. Returns whether they have."""
        # Before parsing: changes made meanwhile are seen the next time.
        found = looked_at(self._files)
        if found == self._files:
            return False
        tell(f"{now()} the project has changed, reading it again")
        project = load(self.project.options)
        self._read(project, {**looked_at(files_beside(project)), **found})
        return True

    def manifest(self) -> Any:
        """dbt's manifest, with nothing compiled (``ParsedProject.manifest``)."""
        return self._parsed.manifest()

    def _read(self, project: Project, found: Files) -> None:
        source, parsed = project.require_kafka(), ParsedProject(project)
        self.project, self.source, self._parsed = project, source, parsed
        as_read = looked_at(files_of(parsed.manifest(), project))
        self._files: Files = {path: found.get(path, state) for path, state in as_read.items()}


def files_beside(project: Project) -> Collection[Path]:
    """The files of a project that dbt may read, without packages, before it is parsed."""
    found = _files_of_settings(project)
    for folder in project.folders:
        found.update((folder, *folder.rglob("*")))
    return found


def _files_of_settings(project: Project) -> set[Path]:
    found = {project.root / name for name in _OF_PROJECT}
    if project.options.profiles_dir is not None:
        found.add(Path(project.options.profiles_dir) / "profiles.yml")
    return found


def files_of(manifest: Any, project: Project) -> Collection[Path]:
    """The files that dbt has read of a project and its packages, and the folders in which new
    ones may appear.
    """
    found = _files_of_settings(project)
    for file in manifest.files.values():
        if (path := getattr(file.path, "full_path", None)) is None:
            continue
        found.add(Path(path))
        top = Path(file.path.project_root) / file.path.searched_path
        found.update(each for each in Path(path).parents if each.is_relative_to(top))
    return found


def looked_at(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """The current state of files."""
    return {path: _state_of(path) for path in paths}


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
