"""The steps of `lakehouse forget`, in order, and its report."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.forget import requests
from dbt_lakehouse.commands.forget.entities import (
    BRONZE,
    BuiltTable,
    Entity,
    Pipeline,
    exists,
    read_models,
)
from dbt_lakehouse.commands.forget.erasing import steps
from dbt_lakehouse.commands.forget.finding import drop_views, find
from dbt_lakehouse.commands.forget.leaving import EVENTS
from dbt_lakehouse.commands.forget.purging import purge
from dbt_lakehouse.commands.keys import given_key
from dbt_lakehouse.config.topics import TopicRule, topic_rules
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake.locks import landing_lock, run_lock
from dbt_lakehouse.maintenance.marks_kept import has_read_all, readers_in, rewriting
from dbt_lakehouse.runs.moving import before_of
from dbt_lakehouse.runs.source_filter import Wanted
from dbt_lakehouse.session.project import Project, lock_patience
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import counted


class ForgetError(LakehouseError):
    """A key can't be forgotten. The message gives the remedy."""


class Options(NamedTuple):
    """The arguments of the command."""

    table: str | None
    keys: Sequence[str]
    purge: bool = False
    dry_run: bool = False


@dataclass
class Report:
    """The result of a call, or of its dry run. Nothing in it tells whose data it was."""

    table: str | None = None
    dry_run: bool = False
    request_id: str | None = None
    keys: int = 0
    linked_keys: int = 0
    payloads: int = 0
    records: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    other_tables: list[str] = field(default_factory=list)
    """Change logs of other models that read the same events."""
    dependents: list[str] = field(default_factory=list)
    """Tables that other models have made from the changed ones."""
    other_targets: list[str] = field(default_factory=list)
    """Schemas of other targets whose tables have read bronze."""
    unmodelled: list[str] = field(default_factory=list)
    """Tables of this target that have read bronze, and that no model builds any more."""
    purged: dict[str, dict[str, int]] = field(default_factory=dict)
    to_purge: list[str] = field(default_factory=list)
    """Tables whose files still hold forgotten data; in a dry run, those that it would purge."""

    @property
    def finds_something(self) -> bool:
        """Whether there is, or was, anything to do."""
        return bool(self.rows or self.to_purge or self.purged)

    def json(self) -> str:
        """As JSON, for scripts."""
        return json.dumps(asdict(self))

    def text(self) -> str:
        """As text."""
        lines = []
        if self.table is not None and not self.rows:
            lines.append(f"{self.table}: nothing is known of {_keys(self.keys)}")
        elif self.table is not None:
            lines.append(
                f"{self.table}: {'would forget' if self.dry_run else 'forgot'} {_keys(self.keys)}:"
                f" {counted(self.records, 'event')} in {counted(self.payloads, 'message')}"
            )
            if self.linked_keys:
                lines.append(
                    f"  {counted(self.linked_keys, 'more key')} by updates of the key: the same row"
                    " at the source"
                )
            lines += [f"  {name}: {counted(rows, 'row')}" for name, rows in self.rows.items()]
            if self.request_id is not None:
                lines.append(f"  request {self.request_id} in bronze.forgotten")
        lines += [
            f"note: {name} reads the same events: forget the key in its tables too"
            for name in self.other_tables
        ]
        lines += [
            f"note: {name} reads these tables and keeps its rows: rebuild it, and expire its"
            " snapshots"
            for name in self.dependents
        ]
        if self.rows:
            lines += [
                f"note: {name} belongs to another target and keeps its rows: forget the key there"
                " too, with --target"
                for name in self.other_targets
            ]
            lines += [
                f"note: {name}, which no model builds any more, keeps its rows: drop it, and tables"
                " that were made from it"
                for name in self.unmodelled
            ]
        for name, done in self.purged.items():
            lines.append(
                f"purged {name}: {counted(done['rewritten_files'], 'file')} rewritten,"
                f" {counted(done['expired_snapshots'], 'snapshot')} expired,"
                f" {counted(done['deleted_files'], 'file')} without a name deleted"
            )
            if done["older_files"]:
                lines.append(
                    f"note: {counted(done['older_files'], 'file')} of {name} are from before this"
                    " lake was begun, of another one, and stay: look into them yourself"
                )
        if self.to_purge and self.dry_run:
            lines.append(
                f"would rewrite files of {', '.join(self.to_purge)}, and expire all their earlier"
                " snapshots"
            )
        elif self.to_purge:
            lines.append(
                f"the files and earlier snapshots of {', '.join(self.to_purge)} still hold it"
                " until `lakehouse forget --purge`"
            )
        return "\n".join(lines) or "nothing to purge"


def _keys(number: int) -> str:
    return "the key" if number == 1 else f"{number:,} keys"


def forget(project: Project, options: Options) -> Report:
    """Forget keys of a table, purge forgotten data, or both; or say what would be removed.

    Raises ``LakehouseError``s that never repeat a key.
    """
    if bool(options.table) != bool(options.keys) or not (options.keys or options.purge):
        raise ForgetError("forget needs --table and --key, or --purge, or all three")
    pipeline, entity = read_models(project, options.table)
    if entity is not None:
        # Spark reads them again, since its types count.
        for text in options.keys:
            given_key(text, entity.key, entity.types)
    project.require_lake()
    project.refuse_readers()
    spark = project.open_session()
    patience = lock_patience(project.variables)
    rules = topic_rules(project.variables.get("topics"))
    with (
        run_lock(spark).held("lakehouse forget", patience),
        landing_lock(spark).held("lakehouse forget", patience),
    ):
        requests.create_table(spark)
        report = Report(dry_run=options.dry_run)
        readers = {
            upstream: {name: pipeline.wanted.get(name) for name in names}
            for upstream, names in readers_in(spark).items()
            # Its rows are changed in place: readers go by sequence numbers.
            if upstream != pipeline.deleted_keys.label
        }
        own = {table.label for table in pipeline.models}
        _refuse_unmoved(spark, pipeline)
        others = [name for name in readers.get(BRONZE.label, {}) if name not in own]
        _refuse_behind(spark, others)
        schemas = {name.partition(".")[0] for name in own}
        report.unmodelled = sorted(name for name in others if name.partition(".")[0] in schemas)
        report.other_targets = sorted({name.partition(".")[0] for name in others} - schemas)
        concerned: list[str] = []
        if entity is not None:
            try:
                concerned = _forget(spark, pipeline, entity, readers, rules, options, report)
            finally:
                drop_views(spark)
        tables = [table for table in requests.unpurged(spark) if exists(spark, table)]
        if options.dry_run:
            labels = {*(table.label for table in tables), *concerned}
            report.to_purge = sorted(labels) if options.purge else []
        elif options.purge:
            for table in tables:
                with working(f"purging {table.label}", tasks_of(spark)):
                    done = purge(spark, table, readers.get(table.label, {}))
                report.purged[table.label] = done._asdict()
            requests.purged(spark)
        else:
            report.to_purge = [table.label for table in tables]
    return report


def _forget(
    spark: SparkSession,
    pipeline: Pipeline,
    entity: Entity,
    readers: Mapping[str, Mapping[str, Wanted]],
    rules: Sequence[TopicRule],
    options: Options,
    report: Report,
) -> list[str]:
    """Forget the keys. Returns the tables that may have held data of them, even if only in files
    and snapshots: a row that was deleted at the source is in gold's earlier ones.
    """
    _refuse_unread(spark, pipeline, entity)
    with working("looking for the key", tasks_of(spark)):
        found = find(spark, pipeline, entity, options.keys, rules)
        todo = steps(spark, pipeline, entity)
        rows = {step.table.label: spark.sql(step.counting).collect()[0][0] for step in todo}
    report.table, report.keys = options.table, len(options.keys)
    if not any(rows.values()):
        return []
    report.linked_keys = found.linked_keys
    report.payloads, report.records = found.payloads, found.records
    report.rows = {name: count for name, count in rows.items() if count}
    report.other_tables = _other_logs(spark, pipeline, entity)
    report.dependents = [table.label for table in entity.dependents if exists(spark, table)]
    if options.dry_run:
        return [*rows]
    report.request_id = requests.begin(spark, entity_name(entity, options), found, rows)
    for step in todo:
        name = step.table.label
        with rewriting(spark, readers.get(name, {}), name):
            if rows[name]:
                with working(f"forgetting in {name}", tasks_of(spark)):
                    step.run()
    requests.forgotten(spark, report.request_id)
    return [*rows]


def entity_name(entity: Entity, options: Options) -> str:
    """The table's name for the audit row: one that the models declare, not the one typed."""
    name = (options.table or "").removeprefix("gold.")
    return next((table.label for table in entity.tables if table.name == name), entity.log.label)


def _refuse_unread(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> None:
    """Raise ``ForgetError`` if some data of the key may not have been processed yet."""
    events, log = pipeline.other_events, entity.log
    needed = [(events, BRONZE), (pipeline.quarantine, events), (log, events)]
    pairs = [
        *needed,
        (pipeline.set_less_deletes, events),
        (pipeline.deleted_keys, pipeline.set_less_deletes),
        *((table, log) for table in entity.tables),
        # To a reader that is behind, the rest of a payload looks new.
        *((neighbour.table, events) for neighbour in entity.neighbours),
    ]
    for reader, upstream in pairs:
        if (reader, upstream) not in needed and not exists(spark, reader):
            continue
        wanted = pipeline.wanted.get(reader.label)
        if not has_read_all(spark, reader.label, upstream.label, wanted):
            raise ForgetError(
                f"{reader.label} has not read all of {upstream.label}: `dbt run` first, so that"
                " nothing of the key is on its way"
            )


def _refuse_unmoved(spark: SparkSession, pipeline: Pipeline) -> None:
    """Raise ``ForgetError`` while the former table exists that other_events has taken over."""
    before = BuiltTable(*before_of(pipeline.other_events.label).split("."))
    if exists(spark, before):
        raise ForgetError(
            f"{before.label} still has every event as text: `dbt run`, then `dbt run-operation"
            " drop_change_events`, then forget"
        )


def _refuse_behind(spark: SparkSession, others: Sequence[str]) -> None:
    """Raise ``ForgetError`` if another target's table would take changed rows for new ones."""
    for name in others:
        if not has_read_all(spark, name, BRONZE.label):
            raise ForgetError(
                f"{name}, which no model of this target builds, has not read all of"
                f" {BRONZE.label}: `dbt run` in its target first, or drop it if it is no longer"
                " needed"
            )


def _other_logs(spark: SparkSession, pipeline: Pipeline, entity: Entity) -> list[str]:
    """Other change logs with rows of the removed events."""
    return [
        log.label
        for log in pipeline.logs
        if log != entity.log
        and exists(spark, log)
        and not spark.sql(
            f"select 1 from {log.path} as log left semi join {EVENTS} as event"
            " on log._position.topic = event.topic and log._position.partition = event.partition"
            " and log._position.offset = event.offset"
            " and log._position.event_index = event.event_index limit 1"
        ).isEmpty()
    ]
