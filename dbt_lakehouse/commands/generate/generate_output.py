"""The report of `lakehouse generate`, and its errors."""

import json
from dataclasses import asdict, dataclass, field

from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.texts import counted, printable


class GenerateError(LakehouseError):
    """A model can't be written. The message gives the remedy."""


@dataclass
class Outcome:
    """The result for a source table."""

    source: str
    name: str | None = None
    status: str = "unchanged"
    """created, changed, unchanged or failed."""
    files: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass
class Report:
    """The result of a call."""

    topics: list[str]
    messages: int
    notes: list[str] = field(default_factory=list)
    tables: list[Outcome] = field(default_factory=list)

    @property
    def failed(self) -> list[Outcome]:
        """The tables without models."""
        return [each for each in self.tables if each.error is not None]

    def json(self) -> str:
        """As JSON, for scripts."""
        return json.dumps(asdict(self))

    def text(self, *, with_next: bool = True, is_planned: bool = False) -> str:
        """As text. ``with_next``: the last line says what to do next. ``is_planned``: the files
        are not written.
        """
        would_be = "would be " if is_planned else ""
        wrote = "would write" if is_planned else "wrote"
        found = f"{counted(self.messages, 'message')}, {counted(len(self.tables), 'table')}"
        lines = [f"{', '.join(self.topics)}: {found}"]
        lines += [f"  note: {note}" for note in self.notes]
        for each in self.tables:
            if each.error is not None:
                continue
            status = f"{would_be if each.files else ''}{each.status}"
            lines.append(f"{each.source}{f' -> {each.name}' if each.name else ''}: {status}")
            lines += [f"  {change}" for change in each.changes]
            lines += [f"  note: {note}" for note in each.notes]
            lines += [f"  {wrote} {path}" for path in each.files]
        # Last: among hundreds of tables they would be overlooked.
        failed = self.failed
        if failed:
            lines.append(f"{len(failed)} of {counted(len(self.tables), 'table')} got no models:")
            lines += [f"  {each.source}: {each.error}" for each in failed]
        if with_next and 2 * len(failed) > len(self.tables):
            lines.append("next: generate again for these tables, then dbt build")
        elif with_next and any(each.files for each in self.tables):
            lines.append("next: dbt build")
        return "\n".join(map(printable, lines))
