"""`lakehouse generate`: from topics in bronze to the models of their tables."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import yaml
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.generate import edit, models, naming, scan, sources, types
from dbt_lakehouse.generate.models import Spec, Table
from dbt_lakehouse.generate.profile import Column, TableId, TableProfile, TopicProfile
from dbt_lakehouse.generate.sources import ChangeLog, GoldModel, Models
from dbt_lakehouse.project import Project
from dbt_lakehouse.topics import topic_rules
from python_udfs.registry import FORMATS

_PROJECT_FILE: Final = "dbt_project.yml"
_HBASE_KEY: Final = "ROW"
_MAX_LISTED: Final = 12


class GenerateError(LakehouseError):
    """What keeps a model from being written; the message says what to do about it."""


class Options(NamedTuple):
    """What the command line was given."""

    topics: Sequence[str]
    table: str | None = None
    name: str | None = None
    key: Sequence[str] = ()
    format: str | None = None


@dataclass
class Outcome:
    """What has become of a source table."""

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
    """What a call has done."""

    topics: list[str]
    messages: int
    notes: list[str] = field(default_factory=list)
    tables: list[Outcome] = field(default_factory=list)

    @property
    def failed(self) -> list[Outcome]:
        """The tables that got no models."""
        return [each for each in self.tables if each.error is not None]

    def json(self) -> str:
        """For scripts."""
        return json.dumps(asdict(self))

    def text(self) -> str:
        """For people."""
        tables = f"{len(self.tables)} table{'s' if len(self.tables) != 1 else ''}"
        lines = [f"{', '.join(self.topics)}: {self.messages:,} messages, {tables}"]
        lines += [f"  note: {note}" for note in self.notes]
        for each in self.tables:
            lines.append(f"{each.source}{f' -> {each.name}' if each.name else ''}: {each.status}")
            lines += [f"  {change}" for change in each.changes]
            lines += [f"  note: {note}" for note in each.notes]
            lines += [f"  wrote {path}" for path in each.files]
            if each.error is not None:
                lines.append(f"  {each.error}")
        written = [each for each in self.tables if each.files]
        if written:
            lines.append("next: dbt build")
        return "\n".join(lines)


def generate(project: Project, options: Options) -> Report:
    """Write or bring up to date the models of the topics' tables.

    Raises ``GenerateError`` if nothing can be done; a table that can't be while others can is in
    the report.
    """
    _check(options)
    rules = topic_rules(project.variables.get("topics"))
    spark = project.open_session()
    landed = scan.landed_topics(spark)
    missing = [topic for topic in options.topics if topic not in landed]
    if missing:
        raise GenerateError(
            f"bronze holds no message of the topic {', '.join(missing)}: land it first"
            f" (lakehouse land). {_listed('It holds', landed)}"
        )
    files = _ProjectFiles(project.root)
    formats, unlisted = {}, []
    for topic in options.topics:
        rule = scan.matching_rule(spark, rules, topic)
        if rule is None:
            unlisted.append(topic)
        elif options.format not in (None, rule.format):
            raise GenerateError(
                f"the topic {topic} is {rule.format} by {rule.topic or rule.pattern!r} in"
                f" vars.topics of {_PROJECT_FILE}: put an entry of its own in front of that one"
            )
        else:
            formats[topic] = rule.format
    for topic in unlisted:
        formats[topic] = options.format or _no_format(spark, topic)
    profile = scan.profile_topics(spark, formats)
    report = Report(list(options.topics), profile.messages)
    if profile.errors:
        errors = ", ".join(f"{count} {code}" for code, count in sorted(profile.errors.items()))
        report.notes.append(
            f"payloads that can't be decoded say nothing here: {errors} (such as:"
            f" {profile.error_example})"
        )
    writer = _Writer(files, profile, options)
    writer.write(report)
    if unlisted and len(report.failed) < len(report.tables):
        _list_topics(spark, files, unlisted, formats, report)
    return report


def _check(options: Options) -> None:
    if not options.topics:
        raise GenerateError("generate needs a topic: --topic NAME")
    if options.name is not None and not naming.MODEL_NAME.fullmatch(options.name):
        raise GenerateError(
            f"--name {options.name}: a model's name is of lower-case letters, digits and"
            " underscores, and begins with a letter"
        )


def _no_format(spark: SparkSession, topic: str) -> str:
    suggested = scan.suggested_format(spark, topic)
    hint = f"; its payloads look like {suggested}" if suggested else ""
    raise GenerateError(
        f"no entry of vars.topics in {_PROJECT_FILE} matches the topic {topic}: give --format, and"
        f" the entry is added. Formats are {', '.join(FORMATS)}{hint}"
    )


def _list_topics(
    spark: SparkSession,
    files: "_ProjectFiles",
    topics: Sequence[str],
    formats: Mapping[str, str],
    report: Report,
) -> None:
    """Add the topics to ``vars.topics``."""
    text = files.project_file.read_text()
    for topic in topics:
        text = edit.with_topic(text, topic, formats[topic])
    files.project_file.write_text(text)
    added = ", ".join(f"{topic}: {formats[topic]}" for topic in topics)
    report.notes.append(f"added to vars.topics in {_PROJECT_FILE}: {added}")
    if scan.decoded_without_format(spark, topics):
        report.notes.append(
            "payloads of it were quarantined as unknown_format by earlier runs:"
            " `dbt run --full-refresh -s change_events+` decodes them anew"
        )


def _listed(start: str, names: Sequence[str]) -> str:
    if not names:
        return f"{start} nothing"
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{start} {', '.join(names[:_MAX_LISTED])}{more}"


class _ProjectFiles:
    """The files of the dbt project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.project_file = root / _PROJECT_FILE
        settings = yaml.safe_load(self.project_file.read_text())
        self.model_folders = [root / each for each in settings.get("model-paths") or ["models"]]
        others = [root / each for each in settings.get("seed-paths") or ["seeds"]]
        others += [root / each for each in settings.get("snapshot-paths") or ["snapshots"]]
        self._named = [*self.model_folders, *others]

    def models(self) -> Models:
        """What the project has."""
        return sources.read_models(
            path
            for folder in self._named
            for path in folder.rglob("*")
            if path.suffix in (".sql", ".py", ".csv")
        )

    def description_of(self, model: str, path: Path) -> Path | None:
        """The YAML file that describes a model."""
        beside = path.with_suffix(".yml")
        candidates = [beside] if beside.exists() else []
        for folder in self.model_folders:
            candidates += sorted((*folder.rglob("*.yml"), *folder.rglob("*.yaml")))
        for candidate in candidates:
            text = candidate.read_text()
            if model in text and edit.describes(text, model):
                return candidate
        return None

    def shown(self, path: Path) -> str:
        """A file's name within the project."""
        return path.relative_to(self.root).as_posix()


class _Writer:
    """Writes the models of the tables in a profile."""

    def __init__(self, files: _ProjectFiles, profile: TopicProfile, options: Options) -> None:
        self._files = files
        self._options = options
        self._models = files.models()
        self._topics = list(options.topics)
        self._tables = {
            table: each for table, each in profile.tables.items() if each.columns or each.images
        }
        self._folder = files.model_folders[0]

    def write(self, report: Report) -> None:
        """Write what is to be written; each table's outcome goes into the report."""
        chosen = self._chosen()
        for path in self._models.unreadable:
            report.notes.append(
                f"{self._files.shown(path)} can't be read by generate: it has other expressions"
                " than literals, so its table may get a second model"
            )
        outcomes = {table: Outcome(str(table)) for table in chosen}
        logs = {table: self._log_of(table) for table in chosen}
        names = self._names([table for table in chosen if logs[table] is None])
        for table, outcome in outcomes.items():
            log = logs[table]
            try:
                if log is not None:
                    outcome.name = log.entity
                    self._update(table, log, outcome)
                else:
                    outcome.name = names[table]
                    self._create(table, names[table], outcome)
            except GenerateError as error:
                outcome.status = "failed"
                outcome.error = str(error)
            report.tables.append(outcome)
        if len(chosen) == 1 and report.failed:
            raise GenerateError(f"{report.tables[0].source}: {report.tables[0].error}")

    # --- Which tables, which names

    def _chosen(self) -> list[TableId]:
        known = sorted(self._tables, key=str)
        if not known:
            raise GenerateError(
                f"the topic {', '.join(self._topics)} has no change of any row: nothing to generate"
            )
        wanted = self._options.table
        if wanted is not None:
            known = _matching(known, wanted)
        if len(known) > 1:
            for option, value in (("--name", self._options.name), ("--key", self._options.key)):
                if value:
                    shown = _listed("it has", [str(table) for table in known])
                    raise GenerateError(f"{option} is for one table: add --table ({shown})")
        return known

    def _log_of(self, table: TableId) -> ChangeLog | None:
        """The change log that is there for a table."""
        name = self._options.name
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
        similar = [
            log
            for log in reading
            if log.topic is not None
            or 2 * len(log.fields.keys() & fields) >= max(1, len(log.fields))
        ]
        return max(similar, key=lambda log: len(log.fields.keys() & fields), default=None)

    def _names(self, tables: Sequence[TableId]) -> dict[TableId, str]:
        if self._options.name is not None:
            return dict.fromkeys(tables, self._options.name)
        topics = {table: min(self._tables[table].topics) for table in tables}
        return naming.entity_names(topics, self._models.names)

    # --- New tables

    def _create(self, table_id: TableId, name: str, outcome: Outcome) -> None:
        profile = self._tables[table_id]
        key = [] if table_id.is_aerospike else self._key_fields(table_id, profile, outcome)
        table = _table(table_id, name, profile, key, outcome)
        for log in self._models.logs:
            if log.topic is not None and log.source == table_id:
                outcome.notes.append(
                    f"{self._files.shown(log.path)} has this table of another topic: for one gold"
                    " table of both, name both in its topic and delete these models"
                )
            elif log.reads(table_id, self._topics):
                outcome.notes.append(
                    f"{self._files.shown(log.path)} names no topic, so it takes this one's events"
                    ' too: give it topic="..."'
                )
        self._write_new(
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
            outcome.changes.append(f"{_shown(spec)}, key")
        outcome.changes += [_shown(spec) for spec in table.columns]

    def _write_new(self, files: Mapping[Path, str], outcome: Outcome) -> None:
        taken = [self._files.shown(path) for path in files if path.exists()]
        if taken:
            raise GenerateError(f"{', '.join(taken)} would be overwritten: move it, or give --name")
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            outcome.files.append(self._files.shown(path))

    def _key_fields(
        self, table_id: TableId, profile: TableProfile, outcome: Outcome
    ) -> Sequence[str]:
        if self._options.key:
            return _resolved_key(self._options.key, profile)
        if profile.keys:
            newest = max(profile.keys, key=lambda names: profile.keys[names])
            if len(profile.keys) > 1:
                others = sorted({", ".join(names) for names in profile.keys if names != newest})
                outcome.notes.append(
                    f"the newest message keys are of {', '.join(newest)}; there are others, of"
                    f" {'; '.join(others)}"
                )
            if profile.keyless:
                outcome.notes.append(
                    f"{profile.keyless:,} changes have no message key; theirs is read from the row"
                )
            # record_key has them by name; a table's own order tells more.
            place = {name: index for index, name in enumerate(profile.ordered_columns())}
            return sorted(newest, key=lambda name: place[name])
        if _is_hbase(profile):
            return [_HBASE_KEY]
        candidates = [
            name
            for name, column in profile.columns.items()
            if profile.afters == column.afters and not column.unavailable
        ]
        shown = sorted(candidates, key=lambda name: _key_likeness(name, table_id))
        listed = (
            _listed("columns that always have a value are", shown)
            if shown
            else ("no column always has a value")
        )
        which = f"--table {table_id} " if len(self._tables) > 1 else ""
        raise GenerateError(f"its messages have no key: give {which}--key COLUMN,... ({listed})")

    # --- Tables that have models

    def _update(self, table_id: TableId, log: ChangeLog, outcome: Outcome) -> None:
        profile = self._tables[table_id]
        if self._options.key:
            asked = set(_resolved_key(self._options.key, profile))
            if asked != {log.entries[column].field for column in log.key if column in log.entries}:
                raise GenerateError(
                    f"{self._files.shown(log.path)} has the key {', '.join(log.key)}: another one"
                    " is another table; change it by hand, and in the gold table too"
                )
        added = self._new_specs(profile, log)
        retyped = self._retyped(profile, log, outcome)
        outcome.changes += [f"+ {_shown(spec)}" for spec in added]
        outcome.changes += [
            f"~ {column}: {log.entries[column].type} -> {type_name}"
            for column, type_name in retyped.items()
        ]
        gold = next((each for each in self._models.gold if each.changes == log.model), None)
        if added or retyped:
            pieces = [edit.retype(log.entries[each].type_at, retyped[each]) for each in retyped]
            if added:
                pieces.append(edit.more_entries(log.call, added))
            self._rewrite(log.path, edit.edited(log.call.text, pieces), outcome)
            if gold is not None and added:
                piece = edit.more_names(gold.call, [spec.column for spec in added])
                self._rewrite(gold.path, edit.edited(gold.call.text, [piece]), outcome)
            self._redescribe(log.model, log.path, log, added, retyped, outcome)
            if gold is not None:
                self._redescribe(gold.model, gold.path, log, added, retyped, outcome)
        self._fill_gaps(table_id, log, gold, outcome)
        if outcome.files:
            outcome.status = "changed"

    def _new_specs(self, profile: TableProfile, log: ChangeLog) -> list[Spec]:
        fields = [
            name
            for name in profile.ordered_columns()
            if name not in log.fields and profile.columns[name].in_image
        ]
        taken = {column: entry.field for column, entry in log.entries.items()}
        names = naming.column_names(fields, taken)
        return [
            _spec(name, names[name], profile.columns[name], _is_hbase(profile)) for name in fields
        ]

    @staticmethod
    def _retyped(profile: TableProfile, log: ChangeLog, outcome: Outcome) -> dict[str, str]:
        """The new types of columns whose type the source has outgrown."""
        retyped = {}
        for column, entry in log.entries.items():
            seen = profile.columns.get(entry.field)
            if seen is None or entry.encoding is not None:
                continue
            is_key = column in log.key
            declared = [each for each in seen.types() if each is not None]
            wanted = types.column_type(seen.types(), seen.values, is_key=is_key)
            has = entry.type.lower().replace(" ", "")
            fits = types.fits(has, seen.values)
            both = types.wider(has, wanted)
            if fits and (both == has or not declared):
                continue
            if has in declared or (not fits and both != "string" and types.fits(both, seen.values)):
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
                    f"{column} stays {entry.type}, although some of its values don't fit (they are"
                    f" in _misfits); {wanted} would hold them"
                )
        return retyped

    def _redescribe(
        self,
        model: str,
        path: Path,
        log: ChangeLog,
        added: Sequence[Spec],
        retyped: Mapping[str, str],
        outcome: Outcome,
    ) -> None:
        """Bring a model's description up to its columns."""
        described_in = self._files.description_of(model, path)
        if described_in is None:
            return
        text = described_in.read_text()
        try:
            described = edit.Described(text, model)
        except LookupError:
            outcome.notes.append(
                f"{self._files.shown(described_in)} lists no columns of {model}: add these by hand"
            )
            return
        pieces = [described.retype(column, retyped[column]) for column in retyped]
        if any(column in log.key for column in retyped):
            parts = [(each, retyped.get(each, log.entries[each].type)) for each in log.key]
            pieces.append(described.retype("_previous_key", models.struct_type(parts)))
        new = [spec for spec in added if spec.column not in described]
        if new:
            behind = [*log.entries, "_namespace", "_set", "_digest"]
            if model == log.model:
                behind.append("_expires_at")
            pieces.append(described.add(new, behind))
        self._rewrite(
            described_in, edit.edited(text, [each for each in pieces if each is not None]), outcome
        )

    def _rewrite(self, path: Path, text: str, outcome: Outcome) -> None:
        if path.read_text() != text:
            path.write_text(text)
            shown = self._files.shown(path)
            if shown not in outcome.files:
                outcome.files.append(shown)

    def _fill_gaps(
        self, table_id: TableId, log: ChangeLog, gold: GoldModel | None, outcome: Outcome
    ) -> None:
        """Write the files that a change log should have beside it and hasn't."""
        profile = self._tables[table_id]
        # As the file is now.
        current = sources.read_models([log.path]).logs[0]
        specs = {
            column: _spec(
                entry.field,
                column,
                profile.columns.get(entry.field),
                False,
            )._replace(type=entry.type, encoding=entry.encoding)
            for column, entry in current.entries.items()
        }
        key = [specs[column] for column in current.key if column in specs]
        table = Table(
            current.entity,
            table_id,
            self._topics,
            sorted(profile.formats),
            key,
            [spec for column, spec in specs.items() if column not in current.key],
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
        elif self._files.description_of(gold.model, gold.path) is None:
            missing[gold.path.with_suffix(".yml")] = models.gold_yml(table)
        if missing:
            self._write_new(missing, outcome)


# --- Columns --------------------------------------------------------------------------------------


def _table(
    table_id: TableId,
    name: str,
    profile: TableProfile,
    key: Sequence[str],
    outcome: Outcome,
) -> Table:
    fields = [each for each in profile.ordered_columns() if each not in key]
    value_fields = [
        each for each in fields if profile.columns[each].in_image or table_id.is_aerospike
    ]
    names = naming.column_names([*key, *value_fields], {})
    is_hbase = _is_hbase(profile)
    unavailable = [each for each in value_fields if profile.columns[each].unavailable]
    if unavailable:
        outcome.notes.append(
            f"Debezium could not read all values of {', '.join(unavailable)}: gold keeps the last"
            " one that it could"
        )
    return Table(
        name,
        table_id,
        sorted(profile.topics),
        sorted(profile.formats),
        [_spec(each, names[each], profile.columns[each], is_hbase, is_key=True) for each in key],
        [_spec(each, names[each], profile.columns[each], is_hbase) for each in value_fields],
    )


def _spec(
    name: str, column_name: str, column: Column | None, is_hbase: bool, *, is_key: bool = False
) -> Spec:
    if column is None:
        return Spec(column_name, name, "string", f"Field `{name}` of the source.")
    if is_hbase:
        if not column.values.utf8:
            text = f"HBase value `{name}`, the bytes as they are stored."
            return Spec(column_name, name, "binary", text)
        text = f"HBase value `{name}`, stored as text."
        return Spec(column_name, name, "string", text, "hbase")
    type_name = types.column_type(column.types(), column.values, is_key=is_key)
    return Spec(column_name, name, type_name, _describe(name, column, type_name))


def _describe(name: str, column: Column, type_name: str) -> str:
    start = f"Field `{name}` of the source"
    if not column.in_image:
        start = f"Field `{name}` of the message key"
    newest_first = sorted(column.declared.items(), key=lambda item: item[1][1], reverse=True)
    declared = list(dict.fromkeys(each.source for each, _ in newest_first if each.source))
    if not column.values.count and not declared:
        return f"{start}; always null so far."
    if not declared:
        of_values = "mixed values as text" if type_name == "string" else "the type of its values"
        if type_name == "string" and column.values.count == column.values.texts:
            of_values = "text"
        return f"{start}, which ships no schema: {of_values}."
    former = f", formerly {' and '.join(declared[1:])}" if len(declared) > 1 else ""
    known = [each for each in column.types() if each is not None]
    why = ""
    if known and type_name == "string" and "string" not in known:
        why = "; text, because no other type holds all its values"
    return f"{start}, declared as {declared[0]}{former}{why}."


def _is_hbase(profile: TableProfile) -> bool:
    """Whether a Lindorm table is one of HBase: a field ROW, and all values base64."""
    return (
        profile.formats == {"lindorm_json"}
        and _HBASE_KEY in profile.columns
        and all(
            column.values.count == column.values.texts and column.values.base64
            for column in profile.columns.values()
        )
    )


def _resolved_key(key: Sequence[str], profile: TableProfile) -> list[str]:
    """The fields that --key names, as they are spelt at the source."""
    fields = profile.columns
    folded: dict[str, list[str]] = {}
    for name in fields:
        folded.setdefault(name.lower(), []).append(name)
    resolved = []
    for name in key:
        matching = [name] if name in fields else folded.get(name.lower(), [])
        if len(matching) != 1:
            raise GenerateError(
                f"--key {name}: no such column. {_listed('There are', profile.ordered_columns())}"
            )
        resolved.append(matching[0])
    if len(set(resolved)) < len(resolved):
        raise GenerateError(f"--key {','.join(key)}: a column is named twice")
    return resolved


def _key_likeness(name: str, table: TableId) -> tuple[int, str]:
    """Sorts columns whose names look like keys to the front."""
    plain = naming.snake(name)
    entity = naming.snake(table.table or "").removesuffix("s")
    likely = ("id", f"{entity}_id", "uuid", "key", "pk", "code")
    if plain in likely:
        return likely.index(plain), name
    return (len(likely) if plain.endswith(("_id", "_key", "_no", "_nr")) else len(likely) + 1), name


def _matching(tables: Sequence[TableId], wanted: str) -> list[TableId]:
    """The one table that --table names, with or without schema and database."""
    for fold in (str, str.lower):
        matching = [
            table for table in tables if fold(wanted) in {fold(name) for name in _spellings(table)}
        ]
        exact = [table for table in matching if fold(str(table)) == fold(wanted)]
        if len(exact or matching) == 1:
            return exact or matching
        if matching:
            listed = _listed("it may be", [str(table) for table in matching])
            raise GenerateError(f"--table {wanted} is ambiguous: {listed}")
    listed = _listed("There are", [str(table) for table in tables])
    raise GenerateError(f"--table {wanted}: no such table in the topic. {listed}")


def _spellings(table: TableId) -> set[str]:
    database, schema, name = table[:3]
    if name is None:
        return {str(table), schema} if table.is_aerospike and schema else {str(table)}
    prefixes = [(), (schema,), (database,), (database, schema)]
    return {".".join([*(part for part in prefix if part), name]) for prefix in prefixes} | {
        str(table)
    }


def _shown(spec: Spec) -> str:
    renamed = f" (from {spec.field})" if spec.field != spec.column else ""
    return f"{spec.column} {spec.type}{renamed}"
