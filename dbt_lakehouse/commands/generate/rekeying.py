"""Change a change log's key to the one that a call names, or that the source now has."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dbt_lakehouse.commands.generate import edit, models, rekey
from dbt_lakehouse.commands.generate.choices import named_key
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Outcome
from dbt_lakehouse.commands.generate.models import Spec
from dbt_lakehouse.commands.generate.profile import TableId, TableProfile
from dbt_lakehouse.commands.generate.project_files import ProjectFiles
from dbt_lakehouse.commands.generate.sources import ChangeLog, GoldModel


@dataclass(frozen=True, slots=True)
class Rekeying:
    """An existing table whose key changes."""

    files: ProjectFiles
    table: TableId
    profile: TableProfile
    gold: GoldModel | None
    contract: Path | None
    """The file that describes the gold table."""

    def keyed_anew(
        self, log: ChangeLog, named: tuple[Sequence[str], str], outcome: Outcome
    ) -> tuple[ChangeLog, list[Spec]]:
        """Give the log the key that the call names (its fields, and the option that names them),
        or the one that the messages have now. Returns the changed log, and its new columns.

        Notes doubts about the present key. Raises ``GenerateError`` if it can't be changed.
        """
        names, option = named
        if self.table.is_aerospike or "keyless" in log.call.arguments or not log.key_fields:
            if names:
                raise GenerateError(
                    f"{self.files.shown(log.path)} declares no key that generate could change:"
                    " change it by hand"
                )
            return log, []
        said: list[list[str]] = []
        if names:
            fields = named_key(names, self.profile, option)
            is_doubtful = self._doubt(fields) is not None
            said = rekey.beside(self.profile, fields, is_doubtful=is_doubtful)
        else:
            fields = rekey.changed_key(log, self.profile) or log.key_fields
            doubt = None if _is_certain(log, fields) else self._doubt(fields)
            if doubt is not None:
                outcome.notes.append(
                    f"{', '.join(fields)} doesn't seem to identify its rows: {doubt}. Name"
                    " their key: --key COLUMN,..."
                )
                return log, []
        if {*fields} == {*log.key_fields}:
            return self._written(log, rekey.message_key_pieces(log, said), outcome), []
        masked = [each.column for each in log.entries.values() if each.is_masked]
        if masked:
            raise GenerateError(
                f"{log.path.name} has masked columns ({', '.join(masked)}), and generate changes"
                " no key beside those, so that no mask is lost: change the key by hand"
            )
        new = rekey.rekeyed(log, fields, self.profile)
        self._refuse_choice(new)
        self._tell(log, new, outcome)
        self._describe(log, new, outcome)
        return self._written(log, rekey.pieces(log, new, said), outcome), new.added

    def _doubt(self, fields: Sequence[str]) -> str | None:
        return rekey.doubt(self.profile, fields, self.table.table or "")

    def _written(self, log: ChangeLog, pieces: Sequence[edit.Piece], outcome: Outcome) -> ChangeLog:
        """Write the changes. Returns the changed log."""
        if not pieces:
            return log
        self.files.rewrite(log.path, edit.edited(log.call.text, pieces), outcome)
        return self.files.read([log.path]).logs[0]

    def _refuse_choice(self, new: rekey.Rekeyed) -> None:
        """Refuse a gold model that selects a column as a value which is now in the key."""
        chosen = [] if self.gold is None else self.gold.columns or []
        moved = [spec.column for spec in new.key if spec.column in chosen]
        if moved and self.gold is not None:
            raise GenerateError(
                f"{self.files.shown(self.gold.path)} chooses its columns, and {', '.join(moved)} is"
                " of the key now: take it out of the list there, and generate again"
            )

    def _tell(self, log: ChangeLog, new: rekey.Rekeyed, outcome: Outcome) -> None:
        """Report the changes, and what a build will do."""
        key = ", ".join(spec.column for spec in new.key)
        outcome.changes.append(f"~ key: {', '.join(log.key)} -> {key}")
        of_gold = "" if self.gold is None else f", {self.gold.model}"
        outcome.notes.append(
            f"the next dbt build rebuilds {log.model}{of_gold} and its histories from all landed"
            f" events; rows are then told apart by {key}"
        )
        absent = rekey.without_value(self.profile, [spec.field for spec in new.key])
        if absent:
            outcome.notes.append(
                f"{absent:,} of {self.profile.afters:,} rows have no value of {key}. Where a column"
                " of the key has only got another name, they have it under the former one; others"
                " are in the change log, and not in gold, until the source ships them again"
            )

    def _describe(self, log: ChangeLog, new: rekey.Rekeyed, outcome: Outcome) -> None:
        """Update the description of the gold table to its key."""
        if self.gold is None or self.contract is None:
            return
        before, after = models.grain(log.key), models.grain(spec.column for spec in new.key)
        text = edit.regrained(self.files.text(self.contract), self.gold.model, before, after)
        self.files.rewrite(self.contract, text, outcome)


def _is_certain(log: ChangeLog, fields: Sequence[str]) -> bool:
    return log.message_key is not None and (
        isinstance(log.message_key, str) or sorted(fields) in log.message_key
    )
