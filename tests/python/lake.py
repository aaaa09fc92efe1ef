"""A lake of a test's own: captures landed, dbt run in this process, tables read back.

One Spark session serves all dbt commands on a lake, so that each costs seconds instead of the time that Spark takes to
start. The project is the checkout itself, or a changed copy of it; the lake, dbt's target and its logs are in the
test's temporary folder.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from dbt.cli.main import dbtRunner
from pyiceberg.catalog.sql import SqlCatalog
from dbt_common.context import set_invocation_context
from pyspark.sql import Row, SparkSession

from dbt_lakehouse.landing import LandingResult, land_captures
from dbt_lakehouse.paths import ROOT
from dbt_lakehouse.project import open_project_session


class Snapshot(NamedTuple):
    """A commit of a table: Iceberg's operation and its summary of what was added and removed."""

    operation: str
    summary: dict[str, str]


@dataclass
class Lake:
    """A lake in ``folder``. ``project`` is the dbt project that builds it."""

    folder: Path
    project: Path = ROOT

    @property
    def spark(self) -> SparkSession:
        """The session of this lake, opened if the process has none or another lake's."""
        os.environ["LAKEHOUSE_LAKE"] = str(self.folder / "lake")
        set_invocation_context(os.environ)
        return open_project_session(project_dir=str(self.project))

    def land(self, lines: Iterable[dict[str, Any]]) -> LandingResult:
        """Land capture lines in one commit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        capture = self.folder / "capture.jsonl"
        capture.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return land_captures(self.spark, [str(capture)])

    def dbt(self, *arguments: str, as_of: str | None = None, **variables: Any) -> dict[str, str]:
        """Run a dbt command; the status of each node by its name, of data tests without hash.

        A command that failed to run at all (bad call, parse error) raises; failed nodes don't.
        """
        os.environ["LAKEHOUSE_LAKE"] = str(self.folder / "lake")
        variables = {"captures": [], "as_of": as_of, **variables}
        result = dbtRunner().invoke(
            [
                "--quiet",
                *arguments,
                *("--vars", json.dumps(variables)),
                *("--project-dir", str(self.project), "--profiles-dir", str(self.project / "profiles")),
                *("--target-path", str(self.folder / "target")),
                *("--log-path", str(self.folder / "logs")),
            ]
        )
        if result.exception is not None:
            raise result.exception
        statuses: dict[str, str] = {}
        for each in getattr(result.result, "results", []):
            statuses[each.node.name] = str(each.status)
        return statuses

    def sql(self, query: str) -> list[Row]:
        """The rows of a query, through Spark."""
        return self.spark.sql(query).collect()
