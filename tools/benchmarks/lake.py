"""A lake and a dbt project of a benchmark's own: bronze filled from Parquet files, dbt run in this
process with one Spark session, so that what is timed is no start-up.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from dbt.cli.main import dbtRunner, dbtRunnerResult
from pyspark.sql import SparkSession

from dbt_lakehouse.build.decoding import Decoding
from dbt_lakehouse.build.lake import Lake
from dbt_lakehouse.config.paths import ROOT
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.session.dbt_commands import run_dbt
from dbt_lakehouse.session.parsed_project import ParsedProject
from dbt_lakehouse.session.project import Project, ProjectOptions, load
from tools.benchmarks.measuring import wall_seconds

TECHNICAL_COLUMNS: Final = {
    "_occurred_at": "timestamp",
    "_max_occurred_at": "timestamp",
    "_position": (
        "struct<log_time:timestamp,topic:string,partition:int,offset:bigint,event_index:int>"
    ),
}
"""What every gold table has beside the source's columns, with the types."""


class Models(NamedTuple):
    """A source table's models, by name: what is in their files."""

    silver: Mapping[str, str]
    gold: Mapping[str, str]
    gold_yaml: str
    """The gold models' contracts."""


def write_project(project: Path, models: Models | None = None) -> Path:
    """A dbt project in a new folder: the models that all sources share, and these."""
    project.mkdir(parents=True)
    shutil.copy(ROOT / "dbt_project.yml", project)
    for name in ("profiles", "shared"):
        shutil.copytree(ROOT / name, project / name)
    for schema in ("silver", "gold"):
        (project / "models" / schema).mkdir(parents=True)
    shutil.copy(ROOT / "models" / "groups.yml", project / "models")
    # It would read all payloads once more.
    for file in (project / "shared").rglob("quarantined_payloads.*"):
        file.unlink()
    if models is not None:
        for schema, files in (("silver", models.silver), ("gold", models.gold)):
            for name, text in files.items():
                (project / "models" / schema / f"{name}.sql").write_text(text)
        (project / "models/gold/gold.yml").write_text(models.gold_yaml)
    return project


def seconds_to_copy(spark: SparkSession, table: str, copy: str) -> float:
    """Wall seconds of ``insert ... select`` of a table's rows into an empty table of its columns,
    whose files are written as the table's, in the place of what was there.
    """
    spark.sql(f"drop table if exists {copy} purge")
    spark.sql(f"create table {copy} using iceberg as select * from {table} where false")
    for name, value in spark.sql(f"show tblproperties {table}").collect():
        if name.startswith("write.parquet."):
            spark.sql(f"alter table {copy} set tblproperties ('{name}' = '{value}')")
    return wall_seconds(lambda: spark.sql(f"insert into {copy} select * from {table}"))


def contracts(tables: Mapping[str, Mapping[str, str]]) -> str:
    """The contracts of gold tables, as YAML (of which JSON is a part), by the types of their
    columns.
    """
    models = []
    for name, columns in tables.items():
        described = [{"name": column, "data_type": type_} for column, type_ in columns.items()]
        models.append({"name": name, "columns": described})
    return json.dumps({"models": models})


class Run(NamedTuple):
    """What a ``dbt run`` took, in seconds as dbt reports them."""

    models: dict[str, float]
    """Each model's own, by its name."""
    total: float
    """From the start of the first model to the end of the last; models overlap."""


@dataclass
class BenchmarkLake:
    """A lake in ``folder``, built by the dbt project in ``project``. One process has one."""

    folder: Path
    project: Path
    variables: Mapping[str, Any] = field(default_factory=dict)
    """Values of the project's ``vars``."""

    def open_session(self) -> SparkSession:
        """The lake's session, set up as for production."""
        return self._loaded().open_session()

    def empty(self) -> None:
        """Drop all tables; bronze is there again, without rows."""
        spark = self.open_session()
        for schema in ("silver", "gold"):
            for row in spark.sql(f"show tables in lake.{schema}").collect():
                if row.namespace == schema:
                    spark.sql(f"drop table lake.{schema}.{row.tableName} purge")
        spark.sql(f"drop table if exists {bronze.TABLE} purge")
        bronze.create_table(spark)

    def land(self, files: Iterable[Path]) -> int:
        """Append the rows of Parquet files to bronze in one commit; how many."""
        spark = self.open_session()
        rows = spark.read.parquet(*(str(file) for file in files))
        return bronze.append(rows, bronze.current_snapshot(spark)).rows

    def run(self, *arguments: str) -> Run:
        """``dbt run`` in the open session. What dbt does before and after its models (parsing, its
        cache of relations) does not count. Raises ``RuntimeError`` if a model fails.
        """
        return _run_of(self._invoke("run", *arguments).result)

    def run_again(self) -> Run:
        """``run``, as a cycle of `lakehouse stream --build` runs dbt: the project is parsed once,
        and no artifacts are written.
        """
        parsed = self._parsed
        flags = ("run", "--no-write-json")
        return _run_of(run_dbt(parsed.project, *flags, manifest=parsed.manifest()))

    @cached_property
    def _parsed(self) -> ParsedProject:
        return ParsedProject(self._loaded())

    def _loaded(self) -> Project:
        self._enter()
        folders = (str(self.project), str(self.project / "profiles"))
        variables = json.dumps({"captures": [], **self.variables})
        return load(ProjectOptions(*folders, vars=variables))

    def decoded(self, payloads: str) -> str:
        """A query of the events of a relation of payloads, by the project's ``vars.topics``, as the
        commands that decode have it.
        """
        topics = self._loaded().variables.get("topics")
        # Without schemas of a registry, nothing is asked of a lake.
        decoding = Decoding(cast(Lake, None), topics, runs=False)
        return f"select * from {decoding.decoded_events(payloads)}"

    def _enter(self) -> None:
        """Lead what reads the profile to this lake."""
        os.environ["LAKEHOUSE_LAKE"] = str(self.folder / "lake")
        os.environ["LAKEHOUSE_SMALL"] = "false"

    def _invoke(self, *arguments: str) -> dbtRunnerResult:
        self._enter()
        options = {
            "vars": json.dumps({"captures": [], **self.variables}),
            "project-dir": str(self.project),
            "profiles-dir": str(self.project / "profiles"),
            "target-path": str(self.folder / "target"),
            "log-path": str(self.folder / "logs"),
        }
        flags = [text for name, value in options.items() for text in (f"--{name}", value)]
        result = dbtRunner().invoke(["--quiet", "--no-use-colors", *arguments, *flags])
        if result.exception is not None:
            raise result.exception
        return result


def _run_of(nodes: Any) -> Run:
    failed = [f"{each.node.name}: {each.message}" for each in nodes if each.status != "success"]
    if failed:
        raise RuntimeError("\n".join(failed))
    timings = [timing for each in nodes for timing in each.timing]
    span = max(each.completed_at for each in timings) - min(each.started_at for each in timings)
    return Run({each.node.name: float(each.execution_time) for each in nodes}, span.total_seconds())
