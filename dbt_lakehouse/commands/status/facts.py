"""What `lakehouse status` tells of topics, tables, their sums and the last run."""

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What a table of the pipeline is."""

    EVENTS = "events"
    QUARANTINE = "quarantine"
    LOG = "change_log"
    DELETES = "set_less_deletes"
    STATE = "state"
    GOLD = "gold"
    KEYLESS = "keyless_gold"
    HISTORY = "history"
    OTHER = "other"


class Outcome(StrEnum):
    """What has become of the check of a sum."""

    WHOLE = "whole"
    BROKEN = "broken"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Topic:
    """What has become of a topic's payloads: landed = decoded + invalid + waiting."""

    topic: str
    landed: int
    decoded: int
    """All of whose events are good."""
    invalid: int
    """With an event that could not be decoded."""
    waiting: int
    """That the next run decodes: they were not looked at yet, or not by the change logs that may
    have their events.
    """
    events: int
    """All that are in tables."""
    changes: int
    """Those that are neither invalid nor tombstones."""
    is_all_quarantined: bool
    """Whether there are invalid payloads, and beside them at most tombstones."""
    is_known_undecoded: bool
    """Whether vars.undecoded_topics names it."""
    is_compacted: bool
    """Whether its tombstones are read as all that compaction may have left of deletes."""
    last_event_at: str | None
    """Kafka's newest timestamp."""
    last_landed_at: str | None
    lag_messages: int | None
    """As the last landing from Kafka found it; None if there was none."""
    lag_seconds: float | None
    lag_checked_at: str | None
    built_messages: int | None
    """Those that `lakehouse stream --build` has brought to gold in the last hour; None if none."""
    built_seconds_p50: float | None
    """The median of the time from Kafka's timestamp to gold's commit, of these."""
    built_seconds_p99: float | None
    """What 99 of 100 did not exceed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the pipeline. What is counted is the sum of all runs (silver.fold_counters)."""

    table: str
    kind: Kind
    upstream: str | None
    """What it is made of."""
    rows: int
    waiting: int | None
    """Rows of that which the next run reads; None where that can't be told. Of a change log
    payloads, some of which may be of other tables, and events that no payload says by itself.
    """
    absent_keys: int | None
    """Of gold: keys of its log without a row, deleted or expired."""
    unread_keys: int | None
    """Of gold: keys with a row that the newest full snapshot of their source did not read, and
    nothing later names: their deletes may be lost. None for none, and where the log reconciles
    snapshots.
    """
    unread_since: str | None
    """When that snapshot ended."""
    late_events: int
    expired_keys: int
    refolded_keys: int
    keys_beyond_log: int
    clock_ahead_events: int
    late_after_purge: int
    purged_keys: int
    last_event_at: str | None
    written_at: str | None
    """Its newest commit."""
    as_of: str | None
    """The moment of which expiry was last judged."""
    last_run: str | None
    """What the last dbt command of this folder says of it: success, error, skipped."""


@dataclass(frozen=True, slots=True)
class Link:
    """A sum that must agree."""

    link: str
    """landed_decoded, invalid_quarantined, events_logged, log_gold."""
    of: str
    """The topic, or the table that is made."""
    expected: int | None
    found: int | None
    outcome: Outcome
    told: str | None = None
    """What is wrong and what to do; why it can't be checked."""


@dataclass(frozen=True, slots=True)
class Run:
    """The last dbt command of the project's folder that has left its results."""

    command: str
    ended_at: str
    is_failed: bool
    failed: list[str] = field(default_factory=list)
    """Models and tests."""
    statuses: dict[str, str] = field(default_factory=dict)
    """Of tables, by name."""
    error: str | None = None
    """What has ended it before its models."""
    is_interrupted: bool = False
    """Whether its user has ended it, which is no failure."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the lake says of itself."""

    checked_at: str
    topics: list[Topic]
    tables: list[Table]
    links: list[Link]
    last_run: Run | None
