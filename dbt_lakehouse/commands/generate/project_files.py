"""Read and write the files of models and their descriptions in a dbt project."""

from collections.abc import Iterable, Mapping
from difflib import unified_diff
from pathlib import Path
from textwrap import indent
from typing import Final

from dbt_lakehouse.commands.generate import documents, edit, sources
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Outcome
from dbt_lakehouse.commands.generate.sources import Models
from dbt_lakehouse.session.dbt_commands import may_write

PROJECT_FILE: Final = "dbt_project.yml"


class ProjectFiles:
    """The files of the dbt project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project_file = root / PROJECT_FILE
        settings = documents.loaded(self.project_file.read_text())
        self.model_folders = [root / each for each in settings.get("model-paths") or ["models"]]
        self._snapshot_folders = [
            root / each for each in settings.get("snapshot-paths") or ["snapshots"]
        ]
        self._seed_folders = [root / each for each in settings.get("seed-paths") or ["seeds"]]

    def refuse_unwritable(self) -> None:
        """Raise ``GenerateError`` if models can't be written."""
        folder = self.model_folders[0]
        if not may_write(folder):
            raise GenerateError(f"{folder} can't be written, and models are made there")

    def models(self) -> Models:
        """The models of the project."""
        return self.read(
            path
            for folders, suffixes in (
                ([*self.model_folders, *self._snapshot_folders], (".sql", ".py")),
                (self._seed_folders, (".csv",)),
            )
            for folder in folders
            for path in folder.rglob("*")
            if path.suffix in suffixes
        )

    def read(self, paths: Iterable[Path]) -> Models:
        """The models in these files."""
        return sources.read_models(paths, self.text)

    def text(self, path: Path) -> str:
        """The text of one of its files."""
        return path.read_text()

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def description_of(self, model: str, path: Path) -> Path | None:
        """The YAML file that describes a model. Raises ``GenerateError`` if it is ambiguous."""
        beside = path.with_suffix(".yml")
        candidates = [beside] if beside.exists() else []
        for folder in self.model_folders:
            candidates += sorted((*folder.rglob("*.yml"), *folder.rglob("*.yaml")))
        for candidate in candidates:
            text = self.text(candidate)
            try:
                if model in text and edit.describes(text, model):
                    return candidate
            except documents.YAMLError as error:
                first_line = str(error).splitlines()[0]
                raise GenerateError(f"{self.shown(candidate)} is not YAML: {first_line}") from None
        return None

    def shown(self, path: Path) -> str:
        """A file's name within the project."""
        return path.relative_to(self.root).as_posix()

    def write_new(self, files: Mapping[Path, str], outcome: Outcome) -> None:
        """Write new files. Raises ``GenerateError`` if one exists."""
        taken = [self.shown(path) for path in files if path.exists()]
        if taken:
            raise GenerateError(f"{', '.join(taken)} would be overwritten: move it, or give --name")
        for path, text in files.items():
            self._write(path, text)
            outcome.files.append(self.shown(path))

    def rewrite(self, path: Path, text: str, outcome: Outcome) -> None:
        """Change a file's text, if it differs."""
        if self.text(path) != text:
            self._write(path, text)
            shown = self.shown(path)
            if shown not in outcome.files:
                outcome.files.append(shown)


class PlannedFiles(ProjectFiles):
    """The files of the dbt project, without writing any: new texts are kept in memory."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._planned: dict[Path, str] = {}

    def text(self, path: Path) -> str:
        """The text that a file would have."""
        return self._planned[path] if path in self._planned else path.read_text()

    def plan(self, path: Path, text: str) -> None:
        """Plan a file's text."""
        self._planned[path] = text

    def _write(self, path: Path, text: str) -> None:
        self.plan(path, text)

    def shown_texts(self) -> str:
        """The planned changes as text: new files in full, and the changed lines of others."""
        return "\n\n".join(self._shown_text(path, text) for path, text in self._planned.items())

    def _shown_text(self, path: Path, text: str) -> str:
        name = self.shown(path)
        if not path.exists():
            return f"{name}:\n{indent(text.rstrip(), '    ')}"
        lines = path.read_text().splitlines(), text.splitlines()
        differing = unified_diff(*lines, name, name, lineterm="", n=1)
        return "\n".join([f"{name}, changed:", *(f"    {line}" for line in [*differing][2:])])
