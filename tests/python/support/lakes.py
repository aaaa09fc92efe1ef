"""A lake of a test's own: captures landed, dbt run in this process, tables read back.

One Spark session serves all dbt commands on a lake, so that each costs seconds instead of the time
that Spark takes to start. The project is the checkout itself, or a changed copy of it; the lake,
dbt's target and its logs are in the test's temporary folder.
"""

import json
import os
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from dbt.cli.main import dbtRunner
from dbt.constants import PARTIAL_PARSE_FILE_NAME
from dbt.parser.manifest import ManifestLoader
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.metadata import TableMetadata
from pyspark.sql import SparkSession

from dbt_lakehouse.commands.status.facts import Outcome as Sum
from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.config.kafka import KafkaSource
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake.catalog import CATALOG_URI, SQLITE, WAREHOUSE
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.landing.files import LandingResult, land_captures
from dbt_lakehouse.landing.kafka.batch import KafkaLanding, land_kafka
from dbt_lakehouse.landing.kafka.continuity import raise_stalled
from dbt_lakehouse.runs.formats import formats_of
from dbt_lakehouse.runs.marks import Mark, marks_of
from dbt_lakehouse.runs.tables import look_at
from dbt_lakehouse.session.project import Project, ProjectOptions, load
from python_udfs.core.events import Event
from python_udfs.registry import decode_payload

# Spark as the Makefile sets it up for small lakes, whoever starts pytest.
os.environ.setdefault("LAKEHOUSE_SMALL", "true")

# The day as of which the demo is built.
DEMO_AS_OF: Final = "2026-11-21 00:00:00"

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Rows = list[dict[str, Any]]

# Vars that are asked for while models and commands run. dbt parses a project anew, for five
# seconds, when any var is another one than in the run before.
_OF_RUNS: Final = (
    *("as_of", "captures", "topics", "undecoded_topics", "max_messages_per_run"),
    *("snapshot_retention_days", "tombstone_retention_days"),
)
_PARSED: Final[dict[str, bytes]] = {}
"""What dbt has parsed of the checkout's project, or of the first copy, by the other vars. To parse
a copy from there takes dbt half of the time.
"""
_state_check: Final[Callable[[ManifestLoader], Any]] = ManifestLoader.build_manifest_state_check


def _state_of_parsing(loader: ManifestLoader) -> Any:
    config = loader.root_project
    given = config.cli_vars, config.args
    config.cli_vars = {name: value for name, value in given[0].items() if name not in _OF_RUNS}
    # Our own commands name those that dbt takes without a name.
    config.args = Namespace(profile=config.profile_name, target=config.target_name)
    try:
        return _state_check(loader)
    finally:
        config.cli_vars, config.args = given


# dbt's public way, `dbtRunner(manifest)`, takes a manifest of its own for each command, since the
# command changes it: 3.7 s of CPU to read the checkout's project, where this takes 0.2. One can't
# be copied: in dbt 1.11 `Manifest.deepcopy` fails at selectors, and a pickled one has its lookups
# mixed up. Its own method has no types.
ManifestLoader.build_manifest_state_check = _state_of_parsing  # type: ignore[method-assign]


class Snapshot(NamedTuple):
    """A commit of a table: Iceberg's operation and its summary of what was added and removed."""

    snapshot_id: int
    operation: str
    summary: dict[str, str]


class Outcome(NamedTuple):
    """What became of a node of a dbt command, and what dbt says of it."""

    status: str
    message: str


def as_of_text(moment: datetime) -> str:
    """A moment as ``vars.as_of`` takes it."""
    return f"{moment:%F %T}"


def copy_project(project: Path) -> Path:
    """A copy of the dbt project, for a test to change."""
    project.mkdir()
    shutil.copy(ROOT / "dbt_project.yml", project)
    for folder in ("models", "shared", "profiles", "seeds"):
        shutil.copytree(ROOT / folder, project / folder)
    return project


def topic_entries(topics: Iterable[str | dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries of ``vars.topics``; a name becomes one with some format."""
    return [
        {"topic": each, "format": "debezium_json"} if isinstance(each, str) else each
        for each in topics
    ]


@dataclass
class Lake:
    """A lake in ``folder``. ``project`` is the dbt project that builds it."""

    folder: Path
    project: Path = ROOT

    @property
    def _storage(self) -> Path:
        return self.folder / "lake"

    @property
    def environment(self) -> dict[str, str]:
        """What leads commands to this lake."""
        return {"LAKEHOUSE_LAKE": str(self._storage)}

    @property
    def target(self) -> Path:
        """Where dbt writes to."""
        return self.folder / f"target-{self.project.name}"

    @property
    def spark(self) -> SparkSession:
        """The session of this lake, opened if the process has none or another lake's."""
        active = SparkSession.getActiveSession()
        catalog = f"{SQLITE}{self._storage / 'catalog.db'}?"
        if active is not None and str(active.conf.get(CATALOG_URI)).startswith(catalog):
            os.environ.update(self.environment)
            return active
        return self.load().open_session()

    def load(self, **variables: Any) -> Project:
        """The project as the ``lakehouse`` command loads it for this lake, with ``--vars``."""
        os.environ.update(self.environment)
        return load(
            ProjectOptions(
                project_dir=str(self.project),
                profiles_dir=str(self.project / "profiles"),
                vars=json.dumps(variables),
            )
        )

    def reader(self, as_of: datetime | None = None) -> Reader:
        """The lake as commands without Spark read it."""
        settings = {
            CATALOG_URI: f"{SQLITE}{self._storage / 'catalog.db'}",
            WAREHOUSE: f"file://{self._storage / 'warehouse'}",
        }
        return Reader(settings, "gold", as_of)

    @contextmanager
    def dbt_folders(self) -> Iterator[None]:
        """Lead dbt's target and logs here too when a command starts dbt itself, not ``dbt``: to the
        same target, for what has been parsed there.
        """
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("DBT_TARGET_PATH", str(self.target))
            environment.setenv("DBT_LOG_PATH", str(self.folder / "logs"))
            yield

    def land(self, lines: Iterable[dict[str, Any]]) -> LandingResult:
        """Land capture lines in one commit."""
        spark = self.spark
        capture = self.folder / "capture.jsonl"
        capture.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return land_captures(lambda: spark, [str(capture)], patience=60)

    def kafka(self, topics: Sequence[str | dict[str, Any]], **variables: Any) -> KafkaSource:
        """Kafka as the environment names it, for names of topics or entries of ``vars.topics``."""
        return self.load(topics=topic_entries(topics), **variables).require_kafka()

    def land_kafka(
        self,
        topics: Sequence[str | dict[str, Any]],
        *,
        accept_loss: bool = False,
        **variables: Any,
    ) -> KafkaLanding:
        """Land what is new in Kafka, for the topics of ``kafka``; as the command, raise what keeps
        a topic from going on when the others have landed.
        """
        source = self.kafka(topics, **variables)
        landing = land_kafka(self.spark, source, accept_loss=accept_loss)
        raise_stalled(landing.stalled)
        return landing

    def dbt(self, *arguments: str, as_of: str | None, **variables: Any) -> dict[str, str]:
        """Run a dbt command; the status of each node by its name.

        Failed nodes are for the caller to judge; a command that can't run at all (a bad call, a
        project that doesn't parse) raises.
        """
        outcomes = self.outcomes(*arguments, as_of=as_of, **variables)
        return {name: outcome.status for name, outcome in outcomes.items()}

    def outcomes(self, *arguments: str, as_of: str | None, **variables: Any) -> dict[str, Outcome]:
        """``dbt`` with what it says of each node."""
        os.environ.update(self.environment)
        options = {
            "vars": json.dumps({"captures": [], "as_of": as_of, **variables}),
            "project-dir": str(self.project),
            "profiles-dir": str(self.project / "profiles"),
            "target-path": str(self.target),
            "log-path": str(self.folder / "logs"),
        }
        flags = [text for name, value in options.items() for text in (f"--{name}", value)]
        # A third of what dbt itself takes for a run without news is two manifests that few read.
        json_flag = [] if "--write-json" in arguments else ["--no-write-json"]
        parsed = self.target / PARTIAL_PARSE_FILE_NAME
        others = {name: value for name, value in variables.items() if name not in _OF_RUNS}
        same = json.dumps([self.project == ROOT, others], sort_keys=True)
        if same in _PARSED and not parsed.exists():
            parsed.parent.mkdir(parents=True, exist_ok=True)
            parsed.write_bytes(_PARSED[same])
        result = dbtRunner().invoke(["--quiet", "--no-use-colors", *arguments, *flags, *json_flag])
        if result.exception is not None:
            raise result.exception
        if same not in _PARSED and parsed.exists():
            _PARSED[same] = parsed.read_bytes()
        nodes = getattr(result.result, "results", [])
        return {
            each.node.name: Outcome(str(each.status), each.message or "")
            for each in nodes
            # One that fails has raised.
            if "-on-run-" not in each.node.name
        }

    def log_text(self) -> str:
        """All that dbt has written to its log."""
        return (self.folder / "logs" / "dbt.log").read_text()

    def sql(self, query: str) -> Rows:
        """The rows of a query through Spark, times in UTC."""
        rows: Rows = self.spark.sql(query).toArrow().to_pylist()
        return rows

    def read(self, table: str, **storage: str) -> Rows:
        """The rows of a table through PyIceberg, as any reader but Spark sees them; ``storage`` has
        the properties that lead to a bucket.
        """
        with self._catalog(**storage) as catalog:
            rows: Rows = catalog.load_table(table).scan().to_arrow().to_pylist()
        return rows

    @contextmanager
    def _catalog(self, **storage: str) -> Iterator[SqlCatalog]:
        catalog = SqlCatalog(
            "lake",
            uri=f"sqlite:///{self._storage / 'catalog.db'}",
            warehouse=(self._storage / "warehouse").as_uri(),
            **storage,
        )
        try:
            yield catalog
        finally:
            catalog.engine.dispose()

    def snapshots(self, table: str) -> list[Snapshot]:
        """The commits of a table, the oldest first."""
        (metadata,) = self._metadata([table])
        commits = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
        return [
            Snapshot(
                each.snapshot_id, each.summary.operation.value, each.summary.additional_properties
            )
            for each in commits
            if each.summary is not None
        ]

    def current_snapshot(self, table: str) -> str:
        """The id of the table's current snapshot, ``none`` for an empty one."""
        return self.current_snapshots([table])[table]

    def current_snapshots(self, tables: Iterable[str]) -> dict[str, str]:
        """``current_snapshot`` of each."""
        tables = [*tables]
        found = (metadata.current_snapshot_id for metadata in self._metadata(tables))
        names = ("none" if each is None else str(each) for each in found)
        return dict(zip(tables, names, strict=True))

    def files(self, table: str, *, of_deletes: bool = False) -> int:
        """How many data files the table has, or delete files. Not through Spark either."""
        with self._catalog() as catalog:
            loaded = catalog.load_table(table)
            now = loaded.current_snapshot()
            manifests = [] if now is None else now.manifests(loaded.io)
            entries = [each for one in manifests for each in one.fetch_manifest_entry(loaded.io)]
        kinds = [each.data_file.content is not DataFileContent.DATA for each in entries]
        return kinds.count(of_deletes)

    def _metadata(self, tables: Iterable[str]) -> list[TableMetadata]:
        """What the tables' metadata says. Not through Spark, which takes a statement for each:
        tests ask for those of all tables, before and after.
        """
        with self._catalog() as catalog:
            return [catalog.load_table(table).metadata for table in tables]

    def build(self, table: str) -> int | None:
        """Which build of a table it is: its first snapshot. One that is replaced has another."""
        chain = self.look_at(table).chain
        return chain[-1].snapshot_id if chain else None

    def properties(self, table: str) -> dict[str, str]:
        """The table's properties."""
        return {row["key"]: row["value"] for row in self.sql(f"show tblproperties {table}")}

    def set_properties(self, table: str, properties: dict[str, str]) -> None:
        """Write the properties and leave all others."""
        escaped = str.maketrans({"\\": "\\\\", "'": "\\'"})
        assignments = ", ".join(
            f"'{name}' = '{value.translate(escaped)}'" for name, value in properties.items()
        )
        self.sql(f"alter table {table} set tblproperties ({assignments})")

    def look_at(self, table: str) -> Table:
        """The table as the pipeline sees it: its commits and what they note."""
        found = look_at(self.spark, table)
        assert found is not None, table
        return found

    def decoded(self) -> list[tuple[dict[str, Any], Event]]:
        """All events of the payloads in bronze, each with its payload's row, as the decoders tell
        them: nothing but bronze is read for it, and the formats that topics have.
        """
        formats = formats_of(self.look_at("silver.other_events"))
        found = []
        for row in self.read("bronze.raw_payloads"):
            headers = [(each["key"], each["value"]) for each in row["headers"] or ()]
            key, value = row["key"], row["value"]
            of = formats.get(row["topic"])
            landed_at = (row["landed_at"] - EPOCH) // timedelta(microseconds=1)
            format = None if of is None else of.then(landed_at).of(key, value, headers)
            found += [(row, event) for event in decode_payload(format, key, value, headers)]
        return found

    def broken_sums(self) -> list[str]:
        """What `lakehouse status` says of sums that don't agree."""
        links = gather(self.reader(), "silver").links
        return [str(link.told) for link in links if link.outcome is Sum.BROKEN]

    def marks(self, table: str) -> dict[str, Mark]:
        """What the table has read, by the name of the upstream."""
        return marks_of(self.look_at(table))

    def roll_back(self, table: str, snapshot: str) -> None:
        """Make a snapshot the current one again."""
        self.sql(f"call lake.system.set_current_snapshot('{table}', {snapshot})")

    @contextmanager
    def tampered(self, *statements: str) -> Iterator[None]:
        """Run SQL that changes tables; on leaving, the tables are what they were."""
        before = self.current_snapshots(self.tables())
        try:
            for statement in statements:
                self.sql(statement)
            yield
        finally:
            for table, snapshot in self.current_snapshots(before).items():
                if snapshot != before[table]:
                    self.roll_back(table, before[table])

    def tables(self) -> list[str]:
        """All tables of the lake, as ``schema.name``."""
        with self._catalog() as catalog:
            return [
                ".".join(name)
                for schema in ("bronze", "silver", "gold")
                for name in catalog.list_tables(schema)
            ]
