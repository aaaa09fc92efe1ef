"""Write the models of the tables in a profile, or update existing ones."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from dbt_lakehouse.commands.generate import edit, models, naming, rekey, sources, types
from dbt_lakehouse.commands.generate.cautions import cautions, cautions_of_rows
from dbt_lakehouse.commands.generate.choices import (
    GivenKeys,
    NoSuchTable,
    key_given,
    named_table,
    shipped_key,
)
from dbt_lakehouse.commands.generate.columns import (
    broken_type,
    describe,
    describe_hbase,
    doubts,
    is_guess,
    is_hbase,
    shown,
    spec_beside,
    spec_of,
    table_of,
)
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Outcome, Report
from dbt_lakehouse.commands.generate.models import GeneratedTable, Spec
from dbt_lakehouse.commands.generate.profile import TableId, TableProfile, TopicProfile
from dbt_lakehouse.commands.generate.project_files import ProjectFiles
from dbt_lakehouse.commands.generate.rekeying import Rekeying
from dbt_lakehouse.commands.generate.sources import ChangeLog, Entry, GoldModel
from dbt_lakehouse.declared.columns import WHOLE_IMAGE
from dbt_lakehouse.texts import listed

_POSITION: Final = "_position"


class Writer:
    """Writes the models of the tables in a profile of ``topics``.

    ``other_tables`` finds the tables of other topics, for their names. ``table``, ``name`` and
    ``keys`` are the call's: the only table, its model, keys.
    """

    def __init__(
        self,
        files: ProjectFiles,
        topics: Sequence[str],
        profile: TopicProfile,
        other_tables: Callable[[], Iterable[tuple[TableId, str]]],
        *,
        table: str | None,
        name: str | None,
        keys: GivenKeys,
    ) -> None:
        self._files = files
        self._topics = list(topics)
        self._other_tables = other_tables
        self._table = table
        self._name = name
        self._keys = keys
        self._keys_of_tables: dict[TableId, Sequence[str]] = {}
        self._models = files.models()
        self._tables = {
            table: each for table, each in profile.tables.items() if each.columns or each.images
        }
        self._undecodable = profile.undecodable
        self._folder = files.model_folders[0]

    def write(self, report: Report) -> None:
        """Write the models; each table's outcome goes into the report."""
        chosen = self._chosen()
        self._find_tables_of_keys(report)
        for path, reason in self._models.unreadable.items():
            report.notes.append(
                f"{self._files.shown(path)} can't be read by generate, so its table may get a"
                f" second model: {reason}"
            )
        logs = {table: self._log_of(table) for table in chosen}
        names = self._names([table for table in chosen if logs[table] is None])
        # A log that takes several tables treats them as one.
        sources_of: dict[str, list[TableId]] = {}
        for table, log in logs.items():
            sources_of.setdefault(names[table] if log is None else log.model, []).append(table)
        for tables in sources_of.values():
            outcome = Outcome(", ".join(str(table) for table in tables))
            log = logs[tables[0]]
            try:
                self._refuse_several_topics(tables[0], log)
                if log is not None:
                    outcome.name = log.entity
                    self._update(tables, log, outcome)
                else:
                    outcome.name = names[tables[0]]
                    self._create(tables[0], names[tables[0]], outcome)
            except GenerateError as error:
                outcome.status = "failed"
                outcome.error = str(error)
            report.tables.append(outcome)
        if len(report.tables) == 1 and report.failed:
            raise GenerateError(f"{report.tables[0].source}: {report.tables[0].error}")

    def _refuse_several_topics(self, table: TableId, log: ChangeLog | None) -> None:
        """Rows that name no table belong to their topic's table, so rows of two topics
        belong to two tables.
        """
        topics = sorted(self._tables[table].topics)
        if table.table is not None or table.is_aerospike or len(topics) == 1:
            return
        if log is None or not all(log.reads(table, [topic]) for topic in topics):
            raise GenerateError(
                f"{', '.join(topics)}: their rows name no table, so each has one of its own:"
                " generate one topic at a time"
            )

    # --- Which tables, which names

    def _chosen(self) -> list[TableId]:
        known = sorted(self._tables, key=lambda table: (str(table), table.order))
        if not known:
            text = f"the topic {', '.join(self._topics)} has no change of any row"
            if self._undecodable:
                text += f"; {self._undecodable}"
            raise GenerateError(f"{text}: nothing to generate")
        if self._table is not None:
            known = [named_table(known, self._table)]
        if len(known) > 1:
            for option, value in (("--name", self._name), ("--key", self._keys.key)):
                if value:
                    tables = listed("it has", [str(table) for table in known])
                    raise GenerateError(f"{option} is for one table: add --table ({tables})")
        return known

    def _find_tables_of_keys(self, report: Report) -> None:
        """Match the tables in the file of --keys; it may also have tables of other topics."""
        others = []
        for name, key in self._keys.of_tables.items():
            try:
                self._keys_of_tables[named_table(list(self._tables), name, "--keys")] = key
            except NoSuchTable:
                others.append(name)
        if others:
            report.notes.append(listed("--keys names tables that are not in the topic:", others))

    def _key_named(self, table: TableId) -> tuple[Sequence[str], str]:
        """The key that the call gives this table alone, and the option that gives it."""
        if self._keys.key:
            return self._keys.key, "--key"
        return self._keys_of_tables.get(table, ()), "--keys"

    def _log_of(self, table: TableId) -> ChangeLog | None:
        """The existing change log of a table."""
        name = self._name
        reading = [log for log in self._models.logs if log.reads(table, self._topics)]
        if name is not None:
            for log in self._models.logs:
                if log.entity == name:
                    if log not in reading:
                        raise GenerateError(
                            f"--name {name}: {self._files.shown(log.path)} is of another source"
                        )
                    return log
            if name in self._models.names or f"{name}{sources.SUFFIX}" in self._models.names:
                raise GenerateError(f"--name {name}: the project has a model of that name")
            return None
        fields = self._tables[table].columns.keys()

        def common(log: ChangeLog) -> int:
            return len(log.fields.keys() & fields)

        # A log without a topic reads the tables of that name from all servers.
        similar = [
            log for log in reading if log.topic is not None or 2 * common(log) >= len(log.fields)
        ]
        return max(similar, key=lambda log: (-log.source.wildcards, common(log)), default=None)

    def _names(self, tables: Sequence[TableId]) -> dict[TableId, str]:
        if self._name is not None:
            return dict.fromkeys(tables, self._name)
        if not tables:
            return {}
        others = set(self._other_tables())
        here = self._tables.items()
        others |= {(table, topic) for table, each in here for topic in each.topics}
        topics = {table: self._tables[table].topics for table in tables}
        return naming.entity_names(topics, others, self._models.names)

    # --- New tables

    def _create(self, table_id: TableId, name: str, outcome: Outcome) -> None:
        profile = self._tables[table_id]
        said: list[list[str]] = []
        key: list[str] = []
        if not table_id.is_aerospike:
            named, entity = self._key_named(table_id), table_id.table or ""
            given = key_given(named, self._keys.columns, profile, entity)
            if given:
                is_doubtful = rekey.doubt(profile, given, entity) is not None
                said = rekey.beside(profile, given, is_doubtful=is_doubtful)
            is_keyless = self._keys.keyless and not (given or is_hbase(profile))
            if is_keyless and rekey.newest_key(profile) is None:
                outcome.notes += cautions_of_rows(profile)
            else:
                key = given or shipped_key(
                    table_id, profile, outcome, is_only_table=len(self._tables) == 1
                )
        table = table_of(table_id, name, profile, key, outcome, said)
        outcome.notes += cautions(profile, key)
        for log in self._models.logs:
            if log.topic is not None and log.source.takes(table_id):
                outcome.notes.append(
                    f"{self._files.shown(log.path)} has a table of this name of another topic: for"
                    " one gold table of both, name both in its topic and delete these models"
                )
            elif log.reads(table_id, self._topics):
                outcome.notes.append(
                    f"{self._files.shown(log.path)} names no topic, so it takes this one's events"
                    ' too: give it topic="..."'
                )
        short = naming.shortest(table_id, min(profile.topics))
        if self._name is None and name != short:
            outcome.notes.append(
                f"it is not called {short}, because another table in bronze or another model has"
                " that name, or SQL reserves it; --name sets another"
            )
        self._files.write_new(
            {
                self._folder / "silver" / f"{name}_changes.sql": models.changes_sql(table),
                self._folder / "silver" / f"{name}_changes.yml": models.changes_yml(table),
                self._folder / "gold" / f"{name}.sql": models.gold_sql(table),
                self._folder / "gold" / f"{name}.yml": models.gold_yml(table),
            },
            outcome,
        )
        outcome.status = "created"
        for spec in table.key:
            outcome.changes.append(f"{shown(spec)}, key")
        outcome.changes += [shown(spec) for spec in table.columns]

    # --- Tables that have models

    def _update(self, tables: Sequence[TableId], log: ChangeLog, outcome: Outcome) -> None:
        profile = TableProfile()
        for table in tables:
            profile.merge(self._tables[table])
        gold = next((each for each in self._models.gold if each.changes == log.model), None)
        contract = None if gold is None else self._files.description_of(gold.model, gold.path)
        rekeying = Rekeying(self._files, tables[0], profile, gold, contract)
        log, key_added = rekeying.keyed_anew(log, self._key_named(tables[0]), outcome)
        descriptions = {}
        if gold is not None and contract is not None:
            descriptions = edit.column_descriptions(self._files.text(contract), gold.model)
        outcome.notes += doubts(profile)
        guessed = {column for column, text in descriptions.items() if is_guess(text)}
        # Its own note reports another key.
        outcome.notes += cautions(profile, [] if key_added else log.key_fields)
        if "keyless" in log.call.arguments:
            outcome.notes += cautions_of_rows(profile)
        added = self._new_specs(profile, log)
        retyped = self._retyped(profile, log, guessed, outcome)
        outcome.changes += [f"+ {shown(spec)}" for spec in added]
        outcome.changes += [
            f"~ {column}: {log.entries[column].type} -> {type_name}"
            for column, type_name in retyped.items()
        ]
        if added or retyped:
            pieces = [edit.retype(log.entries[each].type_at, retyped[each]) for each in retyped]
            if added:
                pieces.append(edit.more_entries(log.call, added))
            self._files.rewrite(log.path, edit.edited(log.call.text, pieces), outcome)
        if (added or retyped or key_added) and gold is not None and contract is not None:
            now = [self._now(log.entries[each], retyped[each], profile) for each in retyped]
            self._redescribe(gold, contract, log, (key_added, added), now, guessed, outcome)
        self._fill_gaps(tables[0], profile, log, gold, outcome)
        if outcome.files:
            outcome.status = "changed"

    def _new_specs(self, profile: TableProfile, log: ChangeLog) -> list[Spec]:
        if WHOLE_IMAGE in log.fields:
            return []
        fields = [
            name
            for name in profile.ordered_columns()
            if name not in log.fields and profile.columns[name].in_image
        ]
        names = naming.column_names(fields, log.taken)
        return [
            spec_of(name, names[name], profile.columns[name], is_hbase(profile)) for name in fields
        ]

    @staticmethod
    def _retyped(
        profile: TableProfile, log: ChangeLog, guessed: set[str], outcome: Outcome
    ) -> dict[str, str]:
        """The new types of columns that the source has outgrown.

        ``guessed``: columns whose types generate has guessed, and so may change.
        """
        retyped = {}
        for column, entry in log.entries.items():
            seen = profile.columns.get(entry.field)
            if seen is None or entry.is_inside:
                # A value inside of a field is its author's decision.
                continue
            if entry.encoding is not None:
                # generate does not interpret bytes, except for those that it took for text.
                if column in guessed and entry.type == "string" and not seen.values.utf8:
                    retyped[column] = "binary"
                    outcome.notes.append(
                        f"{column} was taken for text, and has binary values by now. Before, they"
                        " were null, and in _misfits"
                    )
                continue
            is_key = column in log.key
            declared = [each for each in seen.types() if each is not None]
            wanted = types.column_type(seen.types(), seen.values, is_key=is_key)
            has = entry.type.lower().replace(" ", "")
            fits = types.fits(has, seen.values, is_declared=has in declared)
            both = types.wider(has, wanted)
            if fits and (both == has or not declared):
                continue
            if not fits and not declared and column in guessed:
                retyped[column] = both if types.fits(both, seen.values) else wanted
                outcome.notes.append(
                    f"{column} was guessed to be {entry.type}, and has other values by now:"
                    f" {retyped[column]} holds them all. Before, they were null, and in"
                    " _misfits"
                )
                continue
            broken = broken_type(profile, seen)
            if broken is not None:
                # Text in a column of numbers is no reason to make texts of all the numbers.
                both = types.wider(has, broken)
                if both != has and has in declared:
                    retyped[column] = both
            elif has in declared or (
                not fits and both != "string" and types.fits(both, seen.values)
            ):
                if both != has:
                    retyped[column] = both
                continue
            if fits:
                outcome.notes.append(
                    f"{column} stays {entry.type}: all its values fit, though the source's own"
                    f" type is {wanted}"
                )
            else:
                outcome.notes.append(
                    f"{column} stays {retyped.get(column, entry.type)}, although some of its values"
                    f" are of another type (what can't be cast is in _misfits); {wanted} would hold"
                    " them as they are"
                )
        return retyped

    @staticmethod
    def _now(entry: Entry, type_name: str, profile: TableProfile) -> Spec:
        """A column with its new type."""
        if entry.encoding is None:
            description = describe(entry.field, profile.columns[entry.field], type_name)
        else:
            description = describe_hbase(entry.field, type_name)
        return Spec(entry.column, entry.field, type_name, description)

    def _redescribe(
        self,
        gold: GoldModel,
        contract: Path,
        log: ChangeLog,
        new: tuple[Sequence[Spec], Sequence[Spec]],
        retyped: Sequence[Spec],
        guessed: set[str],
        outcome: Outcome,
    ) -> None:
        """Update a gold table's contract to its columns. The new ones are those of its key, and
        the others.
        """
        key_added, added = new
        if gold.columns is not None and added:
            path, names = self._files.shown(gold.path), ", ".join(spec.column for spec in added)
            outcome.notes.append(f"{path} chooses its columns: {names} is in {log.model} only")
            added = []
        try:
            text = edit.described(
                self._files.text(contract),
                gold.model,
                [*key_added, *added],
                [*log.entries, "_namespace", "_set", "_digest"],
                retyped,
                [spec for spec in retyped if spec.column in guessed],
            )
        except LookupError:
            outcome.notes.append(
                f"{self._files.shown(contract)} lists no columns of {gold.model}: a contract needs"
                " these, by hand"
            )
            return
        self._files.rewrite(contract, text, outcome)

    def _fill_gaps(
        self,
        table_id: TableId,
        profile: TableProfile,
        log: ChangeLog,
        gold: GoldModel | None,
        outcome: Outcome,
    ) -> None:
        """Write the missing files beside a change log."""
        # The file's current state.
        current = self._files.read([log.path]).logs[0]
        specs = {
            column: spec_beside(entry.field, column, entry.type, is_header=entry.is_header)
            if entry.is_beside
            else spec_of(
                entry.field,
                column,
                None if entry.is_inside else profile.columns.get(entry.field),
            )._replace(type=entry.type, encoding=entry.encoding)
            for column, entry in current.entries.items()
        }
        key = [specs[column] for column in current.key if column in specs]
        table = GeneratedTable(
            current.entity,
            table_id,
            self._topics,
            sorted(profile.formats),
            key,
            [spec for column, spec in specs.items() if column not in current.key],
            log.source.is_several,
            order_by=current.order_by,
        )
        missing: dict[Path, str] = {}
        if self._files.description_of(log.model, log.path) is None:
            missing[log.path.with_suffix(".yml")] = models.changes_yml(table)
        if gold is None:
            if log.model == log.entity or log.entity in self._models.names:
                outcome.notes.append(f"no gold table is made of {log.model}")
            else:
                path = self._folder / "gold" / f"{log.entity}.sql"
                missing[path] = models.gold_sql(table)
                missing[path.with_suffix(".yml")] = models.gold_yml(table)
        elif (contract := self._files.description_of(gold.model, gold.path)) is None:
            missing[gold.path.with_suffix(".yml")] = models.gold_yml(table)
        else:
            self._follow_order(gold, contract, table, outcome)
        if missing:
            self._files.write_new(missing, outcome)

    def _follow_order(
        self, gold: GoldModel, contract: Path, table: GeneratedTable, outcome: Outcome
    ) -> None:
        """Give `_position` in a contract the type that the log's order makes it."""
        text = self._files.text(contract)
        has = edit.column_type(text, gold.model, _POSITION)
        made = table.fold.typed([_POSITION])[_POSITION]
        if has is None or "".join(has.split()) == made:
            return
        outcome.changes.append(f"~ {_POSITION}: {has} -> {made}")
        position = Spec(_POSITION, _POSITION, made, "")
        text = edit.described(text, gold.model, [], [], [position], [])
        self._files.rewrite(contract, text, outcome)
