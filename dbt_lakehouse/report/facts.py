"""What the page says, as values: tables, runs and counts. What is not known is None."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dbt_lakehouse.commands.stored.quarantine import Group
from dbt_lakehouse.landing.lags import Buckets, Spread, spread_of
from dbt_lakehouse.report.runs import RUNS_KEPT, Node, Run


@dataclass(slots=True)
class TableFacts:
    """A table, as it is and as the run has left it; what is not known is None."""

    name: str
    rows: int | None
    rows_before: int | None
    written_at: datetime | None
    made_of: list[str] = field(default_factory=list)
    """The tables whose rows become its own."""
    log: str | None = None
    """The change log among them."""
    newest_event: datetime | None = None
    """Kafka's time of the newest message that it has applied."""
    waiting: bool | None = None
    """Whether there is something that it has not read."""
    unread: int | None = None
    """How many rows that is, or messages that are not decoded for it and may have its events."""
    new: int | None = None
    """The rows that the run has added, and those that are gone by it, whatever took them: what is
    updated is neither.
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
    """What its model took in the run; None if that has not built it."""
    tests: list[Node] = field(default_factory=list)

    @property
    def state(self) -> str:
        """How it stands."""
        if self.node is not None and self.node.is_failure:
            return "failed"
        if self.node is not None and self.node.status == "skipped":
            return "skipped"
        if self.waiting is None:
            return "not known"
        return "behind" if self.waiting else "up to date"


@dataclass(slots=True)
class Counters:
    """What a run of the fold has met, in all tables (``silver.fold_counters``)."""

    at: datetime
    """When it was done; where that has been forgotten, as of when."""
    late: int | None
    expired: int | None
    refolded: int | None


@dataclass(slots=True)
class Decoded:
    """What a run has decoded, as a commit of other_events has it."""

    at: datetime
    events: int
    quarantined: int


@dataclass(slots=True)
class PastRun:
    """One of the runs of a period."""

    at: datetime
    """When it began; where only the lake knows of it, when it had decoded."""
    run: Run | None
    """What dbt knows of it, if that is kept."""
    decoded: int | None
    quarantined: int | None


@dataclass(slots=True)
class Lag:
    """How far bronze was behind Kafka when it was last asked."""

    messages: int
    seconds: float | None
    partitions: int
    checked_at: datetime


@dataclass(slots=True)
class Facts:
    """All that the page says."""

    now: datetime
    run: Run | None
    """The newest that was to build tables; the newest, if none was."""
    runs: list[Run]
    """All that are kept, the newest first."""
    period: list[PastRun] | None = None
    """The runs since ``since``, the newest first, of a page that is about all of them."""
    project: str = ""
    """The name of the dbt project."""
    since: datetime | None = None
    """What was committed since then is the run's, or the period's."""
    trouble: str | None = None
    """Why the lake can't be read."""
    landed: int | None = None
    """Messages that have come into bronze since the run began."""
    read: int | None = None
    """Those that it has decoded, whichever command landed them."""
    undecoded: int | None = None
    """Those that no run has decoded yet."""
    operations: dict[str, int] | None = None
    """The events that the run has decoded, by what they are, the most first."""
    newly_quarantined: int | None = None
    quarantined: int | None = None
    groups: list[Group] = field(default_factory=list)
    gold: list[TableFacts] = field(default_factory=list)
    """The tables of gold that the run was to build; all, if that is not known."""
    others: list[TableFacts] = field(default_factory=list)
    """Bronze, and what else the run was to build."""
    rest: list[TableFacts] = field(default_factory=list)
    """What it was not to build."""
    tests: list[Node] = field(default_factory=list)
    lag: Lag | None = None
    built: Mapping[str, Buckets] = field(default_factory=dict)
    """The lags from Kafka to gold in the last hour, by topic."""
    decoded_by_run: list[Decoded] = field(default_factory=list)
    gold_rows: list[tuple[datetime, int | None]] = field(default_factory=list)
    counters: list[Counters] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        """Whether the period may have had runs of which dbt's results are not kept any more."""
        if self.since is None or len(self.runs) < RUNS_KEPT:
            return False
        return self.runs[-1].started_at > self.since

    @property
    def decoded(self) -> int | None:
        """The events that the run has decoded, but for those that say what could not be."""
        if self.operations is None:
            return None
        return sum(count for name, count in self.operations.items() if name != "invalid")

    @property
    def deletes(self) -> int | None:
        """Those of them that are deletes."""
        return None if self.operations is None else self.operations.get("delete", 0)

    @property
    def failures(self) -> list[Node]:
        """What has failed in the run, but for tests."""
        nodes = [] if self.run is None else self.run.nodes
        return [node for node in nodes if node.is_failure and not node.is_test]

    @property
    def misfits(self) -> int | None:
        """The changes with a value that doesn't fit, each once."""
        known = {table.log: table.misfits for table in self.gold if table.misfits is not None}
        return sum(filter(None, known.values())) if known else None

    @property
    def spread(self) -> Spread | None:
        """How the lags from Kafka to gold are spread, of all topics."""
        return spread_of(self.built.values())

    @property
    def spreads(self) -> dict[str, Spread]:
        """And of each topic."""
        found = {topic: spread_of([lags]) for topic, lags in self.built.items()}
        return {topic: spread for topic, spread in found.items() if spread is not None}

    def total(self, name: str) -> int | None:
        """A count of all gold tables together, None if none of them knows it."""
        known = [value for table in self.gold if (value := getattr(table, name)) is not None]
        return sum(known) if known else None


def of_runs(runs: Sequence[Run], now: datetime, since: datetime | None = None) -> Facts:
    """What the runs that are kept, the newest first, say without the lake: of the newest one, or of
    all since a moment.
    """
    about = list(runs) if since is None else [run for run in runs if run.started_at >= since]
    newest = next((place for place, run in enumerate(about) if run.builds), 0)
    run = about[newest] if about else None
    facts = Facts(now, run, list(runs))
    facts.project = (runs[0].project or "") if runs else ""
    facts.since = since
    if since is None:
        # What was tested behind it, too.
        about = about[: newest + 1]
        facts.since = None if run is None else run.started_at
    facts.tests = _latest_tests(about)
    return facts


def _latest_tests(runs: Sequence[Run]) -> list[Node]:
    """Each test as it came out last."""
    found: dict[str, Node] = {}
    for run in runs:
        for node in run.nodes:
            if node.is_test:
                found.setdefault(node.unique_id, node)
    return list(found.values())
