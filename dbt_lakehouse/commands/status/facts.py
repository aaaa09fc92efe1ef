"""The facts of `lakehouse status`: topics, tables, their sums and the last run."""

from dataclasses import dataclass, field
from enum import StrEnum

from dbt_lakehouse.runs.inventory import Kind


class Outcome(StrEnum):
    """The result of checking a sum."""

    WHOLE = "whole"
    BROKEN = "broken"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Topic:
    """The payloads of a topic: landed = decoded + invalid + waiting."""

    topic: str
    landed: int
    decoded: int
    """Payloads whose events are all good."""
    invalid: int
    """Payloads with an event that could not be decoded."""
    waiting: int
    """Payloads for the next run: not looked at yet, or not by the change logs that may have their
    events.
    """
    events: int
    """All events in tables."""
    changes: int
    """Events that are neither invalid nor tombstones."""
    is_all_quarantined: bool
    """Whether there are invalid payloads, and apart from them only tombstones, if any."""
    is_known_undecoded: bool
    """Whether vars.undecoded_topics names it."""
    is_compacted: bool
    """Whether its tombstones are read as possibly all that compaction has left of deletes."""
    last_event_at: str | None
    """Kafka's newest timestamp."""
    last_landed_at: str | None
    lag_messages: int | None
    """The lag at the last landing from Kafka; None if there was none."""
    lag_seconds: float | None
    lag_checked_at: str | None
    built_messages: int | None
    """Messages that `lakehouse stream --build` has brought to gold in the last hour; None without
    any.
    """
    built_seconds_p50: float | None
    """The median of the time from Kafka's timestamp to gold's commit, for these messages."""
    built_seconds_p99: float | None
    """The 99th percentile of that time."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table of the pipeline. Its counts are sums over all runs (silver.fold_counters)."""

    table: str
    kind: Kind
    upstream: str | None
    """The table that it is made from."""
    rows: int
    waiting: int | None
    """Rows of the upstream that the next run reads; None if unknown. For a change log, payloads,
    some of which may be of other tables, and events that no payload contains.
    """
    absent_keys: int | None
    """Of gold: keys of its log without a row, deleted or expired."""
    unread_keys: int | None
    """Of gold: keys with a row that the newest full snapshot of their source did not read, and no
    later event names: their deletes may be lost. None without such keys, and where the log
    reconciles snapshots.
    """
    unread_since: str | None
    """The end of that snapshot."""
    similar_source: str | None
    """Of a change log without events: a source table that no log takes, and whose name is like the
    declared one. None without one.
    """
    late_events: int
    expired_keys: int
    refolded_keys: int
    keys_beyond_log: int
    clock_ahead_events: int
    late_after_purge: int
    purged_keys: int
    last_event_at: str | None
    written_at: str | None
    """The time of its newest commit."""
    as_of: str | None
    """The moment by which expiry was last judged."""
    last_run: str | None
    """Its state in the last dbt command of this folder: success, error, skipped."""


@dataclass(frozen=True, slots=True)
class Link:
    """A sum that must agree."""

    link: str
    """landed_decoded, invalid_quarantined, events_logged, log_gold."""
    of: str
    """The topic, or the table made."""
    expected: int | None
    found: int | None
    outcome: Outcome
    told: str | None = None
    """The trouble and the remedy, or the reason why it can't be checked."""


@dataclass(frozen=True, slots=True)
class Run:
    """The last dbt command of the project's folder that has left results."""

    command: str
    ended_at: str
    is_failed: bool
    failed: list[str] = field(default_factory=list)
    """Failed models and tests."""
    statuses: dict[str, str] = field(default_factory=dict)
    """Of tables, by name."""
    error: str | None = None
    """The error that ended it before its models."""
    is_interrupted: bool = False
    """Whether its user has ended it, which is not a failure."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about the lake."""

    checked_at: str
    topics: list[Topic]
    tables: list[TableStatus]
    links: list[Link]
    last_run: Run | None
