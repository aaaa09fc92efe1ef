"""A project as dbt has read it, for many commands of one process, and its files, by whose changes
it is read again.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from dbt.contracts.graph.nodes import CompiledNode, ModelNode

from dbt_lakehouse.commands.upkeep import now
from dbt_lakehouse.session.dbt_commands import read_manifest
from dbt_lakehouse.session.project import Project, load
from dbt_lakehouse.telling import tell

# What dbt reads beside its folders, and these where the project does not say otherwise.
_OF_PROJECT: Final = (
    *("dbt_project.yml", "packages.yml", "dependencies.yml", "package-lock.yml"),
    *("selectors.yml", "dbt_catalogs.yml", "vars.yml"),
    *("models", "macros", "seeds", "snapshots", "tests", "analyses", "functions"),
)

Files = Mapping[Path, tuple[int, int] | None]
"""Files and folders, each with when it was changed (ns) and its size; None is not there."""


class WatchedProject:
    """A project as dbt has read it, for many commands, and read again when its files change.

    Raises ``ProjectError``, ``ConfigurationError`` and ``KafkaError`` where it is read.
    """

    def __init__(self, project: Project) -> None:
        # A first time, before it is read.
        self._read(project, looked_at(files_beside(project)))

    @property
    def has_changed(self) -> bool:
        """Whether its files have changed since it was read."""
        return looked_at(self._files) != self._files

    def read_again(self) -> bool:
        """Whether its files have changed; then it is read."""
        # Before it is read: what is changed meanwhile is seen the next time.
        found = looked_at(self._files)
        if found == self._files:
            return False
        tell(f"{now()} the project has changed, reading it again")
        project = load(self.project.options)
        self._read(project, {**looked_at(files_beside(project)), **found})
        return True

    def manifest(self) -> Any:
        """dbt's manifest, in which nothing is compiled. dbt puts ephemeral models into a node that
        it takes for new, and leaves out those of one that has them from the last command; of a
        foreign key's `ref` it leaves the name of a table, which is none.
        """
        for node in self._manifest.nodes.values():
            if isinstance(node, CompiledNode):
                node.extra_ctes, node.extra_ctes_injected = [], False
                node._pre_injected_sql = None
        for constraint, to in self._references:
            constraint.to = to
        return self._manifest

    def _read(self, project: Project, found: Files) -> None:
        source, manifest = project.require_kafka(), read_manifest(project)
        self.project, self.source, self._manifest = project, source, manifest
        self._references = [
            (constraint, constraint.to)
            for node in manifest.nodes.values()
            if isinstance(node, ModelNode)
            for constraint in node.all_constraints
        ]
        as_read = looked_at(files_of(manifest, project))
        self._files: Files = {path: found.get(path, state) for path, state in as_read.items()}


def files_beside(project: Project) -> Collection[Path]:
    """What dbt may read of a project before it is known what it does, without packages."""
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
    """What dbt has read of a project and its packages, and the folders in which more may come."""
    found = _files_of_settings(project)
    for file in manifest.files.values():
        if (path := getattr(file.path, "full_path", None)) is None:
            continue
        found.add(Path(path))
        top = Path(file.path.project_root) / file.path.searched_path
        found.update(each for each in Path(path).parents if each.is_relative_to(top))
    return found


def looked_at(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | None]:
    """Files as they are now."""
    return {path: _state_of(path) for path in paths}


def _state_of(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
