"""The part of a run that only dbt knows: seconds, failures, findings of tests. Each run leaves it
as a JSON file in dbt's artifacts folder; everything else on the page is read from the lake.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from dbt_lakehouse.findings import own_test
from dbt_lakehouse.redaction import without_secrets

# A folder in dbt's artifacts folder.
_FOLDER: Final = "report"
CYCLES: Final = "stream/cycles"
"""The folder there for the cycles of a stream, which are also runs, and many."""
# One run an hour for a week.
RUNS_KEPT: Final = 200
# On the page of one run.
RUNS_SHOWN: Final = 30
# Limits for failed tests: the rows shown, the tests queried, and the seconds of a test that is
# queried again. The width suffices for a `_position` including its offset.
ROWS_SHOWN: Final = 5
_TESTS_ASKED: Final = 10
_SECONDS_OF_A_TEST: Final = 10.0
_WIDTH: Final = 160

INTERRUPTED: Final = "interrupted"
"""The error of a run that its user has ended."""
FAILED: Final = frozenset({"error", "fail", "runtime error"})
WARNED: Final = frozenset({"warn"})
TESTS: Final = frozenset({"test", "unit_test"})


class Rows(msgspec.Struct, frozen=True):
    """Rows that a test has found."""

    columns: list[str]
    values: list[list[str | None]]


class Node(msgspec.Struct, frozen=True):
    """A model or test of a run, and its result."""

    unique_id: str
    name: str
    kind: str
    """dbt's resource type; ``operation`` for a hook."""
    status: str
    seconds: float
    table: str | None = None
    """The table that a model makes, ``schema.name``."""
    path: str | None = None
    """Its file, in the project or in a package."""
    compiled: str | None = None
    """The file of its SQL, in the project."""
    message: str | None = None
    failures: int | None = None
    of: list[str] = []
    """The unique ids of the nodes that it reads."""
    wanted: Any = None
    """The source tables whose events a change log takes, see ``runs.source_filter``."""
    rows: Rows | None = None
    test: str | None = None
    """The name of our test, see ``dbt_lakehouse.findings``."""

    @property
    def is_test(self) -> bool:
        """Whether it is a data test or a unit test."""
        return self.kind in TESTS

    @property
    def is_failure(self) -> bool:
        """Whether it made the run fail."""
        return self.status in FAILED

    @property
    def result(self) -> str:
        """The result of a test, in a word."""
        if self.is_failure:
            return "failed"
        return {"pass": "passed", "warn": "warned"}.get(self.status, self.status)


class Run(msgspec.Struct, frozen=True):
    """A dbt command that has built or tested tables."""

    invocation_id: str
    command: str
    target: str
    gold: str
    """The schema of its gold tables, which tells runs of other tables apart."""
    started_at: datetime
    ended_at: datetime
    nodes: list[Node]
    landed: list[str] = []
    """The messages of landing."""
    troubles: list[str] = []
    """The errors of topics that could not be landed."""
    error: str | None = None
    """The error that ended it before its models were done."""
    project: str | None = None
    """dbt's name of the project; None in runs from before it was recorded."""

    @property
    def seconds(self) -> float:
        """Its duration."""
        return (self.ended_at - self.started_at).total_seconds()

    @property
    def builds(self) -> bool:
        """Whether it was to build tables."""
        return self.command != "test"


def moment(naive: datetime) -> datetime:
    """dbt's times, which are UTC without a time zone."""
    return naive.replace(tzinfo=UTC)


def nodes_of(
    results: Iterable[Any], project: str, rows_of: Callable[[str], Rows | None]
) -> list[Node]:
    """The nodes in the results of a project, by its name. ``rows_of`` runs a query, for the rows
    that failed tests have found.
    """
    nodes = []
    asked = 0
    for result in results:
        node = _node(result, project)
        sql = getattr(result.node, "compiled_code", None)
        if node.kind == "test" and node.failures and sql and is_asked(node.seconds, asked):
            asked += 1
            node = msgspec.structs.replace(node, rows=rows_of(sql))
        nodes.append(node)
    return nodes


def _node(result: Any, project: str) -> Node:
    node = result.node
    # dbt's own notation for the files of packages.
    package = "" if node.package_name == project else f"{node.package_name}://"
    kind = str(node.resource_type)
    relation = getattr(node, "relation_name", None) if kind not in TESTS else None
    meta = getattr(node.config, "meta", None) or {}
    log = meta.get("change_log")
    return Node(
        unique_id=node.unique_id,
        name=node.name,
        kind=kind,
        status=str(result.status),
        seconds=result.execution_time,
        table=f"{node.schema}.{node.alias}" if relation else None,
        path=package + node.original_file_path,
        compiled=getattr(node, "compiled_path", None),
        message=None if result.message is None else without_secrets(result.message),
        failures=result.failures,
        of=_looked_at(node),
        wanted=log.get("sources") if isinstance(log, dict) else None,
        test=own_test(node) if kind == "test" else None,
    )


def _looked_at(node: Any) -> list[str]:
    """The upstreams of a node, or of a test; a unit test's is its model, since its input is made
    up.
    """
    tested = getattr(node, "tested_node_unique_id", None)
    return [tested] if tested else list(getattr(getattr(node, "depends_on", None), "nodes", []))


def is_asked(seconds: float, asked: int) -> bool:
    """Whether to query a failed test for its rows, by its time and the number of tests queried
    before.
    """
    return seconds <= _SECONDS_OF_A_TEST and asked < _TESTS_ASKED


def rows_of(found: Sequence[Any]) -> Rows | None:
    """Spark's rows in the form that the page shows, None without rows."""
    if not found:
        return None
    return Rows(list(found[0].__fields__), [cells(row) for row in found])


def cells(values: Sequence[Any]) -> list[str | None]:
    """A row's values in the form that the page shows."""
    return [None if value is None else _cell(value) for value in values]


def _cell(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return f"{len(value):,} bytes"
    struct = getattr(value, "asDict", None)
    parts = struct().items() if struct else ()
    text = ", ".join(f"{name} {each}" for name, each in parts) if struct else str(value)
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def keep(target: Path, run: Run, folder: str = _FOLDER, most: int = RUNS_KEPT) -> None:
    """Store a run in dbt's artifacts folder, and delete the oldest."""
    place = target / folder
    place.mkdir(parents=True, exist_ok=True)
    name = f"{run.started_at:%Y%m%dT%H%M%S.%f}-{re.sub(r'[^0-9A-Za-z-]', '', run.invocation_id)}"
    written = place / f".{name}"
    written.write_bytes(msgspec.json.encode(run))
    os.replace(written, place / f"{name}.json")
    for file in sorted(place.glob("*.json"))[:-most]:
        file.unlink(missing_ok=True)


def kept(target: Path, gold: str, most: int = RUNS_SHOWN, folder: str = _FOLDER) -> list[Run]:
    """The newest stored runs for this gold, the newest first; runs of another version are
    skipped.
    """
    return list(islice(_read(target / folder, gold), most))


def _read(folder: Path, gold: str) -> Iterator[Run]:
    for file in sorted(folder.glob("*.json"), reverse=True):
        with suppress(OSError, msgspec.DecodeError):
            run = msgspec.json.decode(file.read_bytes(), type=Run)
            if run.gold == gold:
                yield run
