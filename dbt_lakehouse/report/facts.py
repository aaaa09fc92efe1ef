"""The content of the page, as values: tables, runs and counts. Unknown values are None."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dbt_lakehouse.landing.lags import Buckets, Spread, spread_of
from dbt_lakehouse.report.runs import RUNS_KEPT, Node, Run
from dbt_lakehouse.stored.quarantine import Group


@dataclass(slots=True)
class TableFacts:
    """A table, as it is and as the run has left it. Unknown values are None."""

    name: str
    rows: int | None
    rows_before: int | None
    written_at: datetime | None
    made_of: list[str] = field(default_factory=list)
    """The upstream tables of its rows."""
    log: str | None = None
    """The change log among them."""
    newest_event: datetime | None = None
    """Kafka's timestamp of the newest message that it has applied."""
    waiting: bool | None = None
    """Whether there is something that it has not read."""
    unread: int | None = None
    """The number of unread rows, or of messages that are not decoded for it and may have its
    events.
    """
    new: int | None = None
    """The rows that the run has added, and those that it has removed by any means; an updated row
    is neither.
    """
    gone: int | None = None
    events: int | None = None
    deletes: int | None = None
    misfits: int | None = None
    late: int | None = None
    expired: int | None = None
    refolded: int | None = None
    node: Node | None = None
    """Its model in the newest run that has built it."""
    seconds: float | None = None
    """The seconds that its model took in the run; None if the run has not built it."""
    tests: list[Node] = field(default_factory=list)

    @property
    def state(self) -> str:
        """Its state in words."""
        if self.node is not None and self.node.is_failure:
            return "failed"
        if self.node is not None and self.node.status == "skipped":
            return "skipped"
        if self.waiting is None:
            return "not known"
        return "behind" if self.waiting else "up to date"


@dataclass(slots=True)
class Counters:
    """The counts of a run's folds, in all tables (``silver.fold_counters``)."""

    at: datetime
    """When it was done; if that commit has expired, the run's moment."""
    late: int | None
    expired: int | None
    refolded: int | None


@dataclass(slots=True)
class Decoded:
    """The events that a run has decoded, from a commit of other_events."""

    at: datetime
    events: int
    quarantined: int


@dataclass(slots=True)
class PastRun:
    """A run of a period."""

    at: datetime
    """When it began; if only the lake knows it, when it had decoded."""
    run: Run | None
    """dbt's record of it, if that is kept."""
    decoded: int | None
    quarantined: int | None


@dataclass(slots=True)
class Lag:
    """How far bronze was behind Kafka when that was last checked."""

    messages: int
    seconds: float | None
    partitions: int
    checked_at: datetime


@dataclass(slots=True)
class Facts:
    """The content of the page."""

    now: datetime
    run: Run | None
    """The newest run that was to build tables; without one, the newest."""
    runs: list[Run]
    """All kept runs, the newest first."""
    period: list[PastRun] | None = None
    """The runs since ``since``, the newest first, for a page about all of them."""
    project: str = ""
    """The name of the dbt project."""
    since: datetime | None = None
    """The run, or the period, includes commits from this moment on."""
    trouble: str | None = None
    """Why the lake can't be read."""
    landed: int | None = None
    """Messages that have landed in bronze since the run began."""
    read: int | None = None
    """Messages that it has decoded, whichever command landed them."""
    undecoded: int | None = None
    """Messages that no run has decoded yet."""
    operations: dict[str, int] | None = None
    """The events that the run has decoded, by operation, the most frequent first."""
    newly_quarantined: int | None = None
    quarantined: int | None = None
    groups: list[Group] = field(default_factory=list)
    gold: list[TableFacts] = field(default_factory=list)
    """The tables of gold that the run was to build; all, if that is unknown."""
    others: list[TableFacts] = field(default_factory=list)
    """Bronze, and the other tables that the run was to build."""
    rest: list[TableFacts] = field(default_factory=list)
    """Tables that it was not to build."""
    tests: list[Node] = field(default_factory=list)
    lag: Lag | None = None
    built: Mapping[str, Buckets] = field(default_factory=dict)
    """The lags from Kafka to gold in the last hour, by topic."""
    decoded_by_run: list[Decoded] = field(default_factory=list)
    gold_rows: list[tuple[datetime, int | None]] = field(default_factory=list)
    counters: list[Counters] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        """Whether the period may have had runs of which dbt's results are no longer kept."""
        if self.since is None or len(self.runs) < RUNS_KEPT:
            return False
        return self.runs[-1].started_at > self.since

    @property
    def decoded(self) -> int | None:
        """The events that the run has decoded, without invalid ones."""
        if self.operations is None:
            return None
        return sum(count for name, count in self.operations.items() if name != "invalid")

    @property
    def deletes(self) -> int | None:
        """The deletes among them."""
        return None if self.operations is None else self.operations.get("delete", 0)

    @property
    def failures(self) -> list[Node]:
        """The failed nodes of the run, without tests."""
        nodes = [] if self.run is None else self.run.nodes
        return [node for node in nodes if node.is_failure and not node.is_test]

    @property
    def misfits(self) -> int | None:
        """The changes with a misfit value, each counted once."""
        known = {table.log: table.misfits for table in self.gold if table.misfits is not None}
        return sum(filter(None, known.values())) if known else None

    @property
    def spread(self) -> Spread | None:
        """The distribution of the lags from Kafka to gold, over all topics."""
        return spread_of(self.built.values())

    @property
    def spreads(self) -> dict[str, Spread]:
        """The distribution for each topic."""
        found = {topic: spread_of([lags]) for topic, lags in self.built.items()}
        return {topic: spread for topic, spread in found.items() if spread is not None}

    def total(self, name: str) -> int | None:
        """The sum of a count over all gold tables, None if none of them knows it."""
        known = [value for table in self.gold if (value := getattr(table, name)) is not None]
        return sum(known) if known else None


def of_runs(runs: Sequence[Run], now: datetime, since: datetime | None = None) -> Facts:
    """The facts that the kept runs, the newest first, give without the lake: about the newest
    one, or all since a moment.
    """
    about = list(runs) if since is None else [run for run in runs if run.started_at >= since]
    newest = next((place for place, run in enumerate(about) if run.builds), 0)
    run = about[newest] if about else None
    facts = Facts(now, run, list(runs))
    facts.project = (runs[0].project or "") if runs else ""
    facts.since = since
    if since is None:
        # Including later tests of it.
        about = about[: newest + 1]
        facts.since = None if run is None else run.started_at
    facts.tests = _latest_tests(about)
    return facts


def _latest_tests(runs: Sequence[Run]) -> list[Node]:
    """The latest result of each test."""
    found: dict[str, Node] = {}
    for run in runs:
        for node in run.nodes:
            if node.is_test:
                found.setdefault(node.unique_id, node)
    return list(found.values())
