"""The decisions of a gold table's run, from what it has found; without Spark and without SQL.

A run folds the new events of its log, one state for each key they touch, and asks for a summary
of those states (``Found``). That settles most keys: everything known of them is older, so it
makes no difference. ``plan`` says what else to look up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.texts import sql_text

# The keys of a first load's file. Each file costs later runs about as much as reading this many
# keys.
KEYS_OF_A_FILE: Final = 50_000
# The most rows of a table whose keys are shuffled in a task for each core.
SMALL_TABLE: Final = 5_000_000
# The most new rows that are folded in one task, without a shuffle.
ROWS_OF_ONE_TASK: Final = 200_000
# Compiling code for a query takes longer than not having it, for so many new rows, and so many in
# the table that they are merged into.
FEW_ROWS: Final = 5_000
FEW_ROWS_OF_A_TABLE: Final = 200_000


class Newest(NamedTuple):
    """The newest times of all known states of a gold table's keys, rows and remembered states, in
    microseconds since the epoch; None if no key has one.

    A new event with a later log time, and a source time that is not earlier, is not late for any
    key. The value may be newer than all that is still known, since rows are deleted and states
    purged; it is never older.
    """

    log_time: int | None
    time: int | None

    def __str__(self) -> str:
        return "|".join("" if each is None else str(each) for each in self)

    def and_those(self, log_time: int | None, time: int | None) -> "Newest":
        """The maximum of these times and others."""
        return Newest(_newer(self.log_time, log_time), _newer(self.time, time))


def newest(text: str | None) -> Newest | None:
    """The times from their text, None without one."""
    if not text:
        return None
    log_time, time = (int(each) if each else None for each in text.split("|"))
    return Newest(log_time, time)


def _newer(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


class Truncate(NamedTuple):
    """A truncate: its place in the log and its time as SQL, and the source table that it
    truncated.

    ``source`` is JSON; it is empty in a log of one source table.
    """

    position: str
    time: str
    source: str
    is_new: bool
    is_of_snapshot: bool = False
    """Whether it stands for a full snapshot (``full_snapshots``)."""


@dataclass(frozen=True, slots=True)
class Found:
    """The summary of folded states; times in microseconds since the epoch."""

    keys: int = 0
    events: int = 0
    clock_ahead: int = 0
    late_events: int = 0
    expired: int = 0
    absent: int = 0
    """Keys without a row at the end."""
    possibly_late: int = 0
    """Keys with an event that may be older than their known state."""
    out_of_order: int = 0
    """Keys with an event before their known state, of those that were folded with it."""
    leaving: int = 0
    """Keys with an event that leaves columns unchanged without giving their values."""
    reinserted: int = 0
    """Keys for which several rows were inserted (dbt_lakehouse/build/sql/fold.sql)."""
    reinserted_at: str | None = None
    """The place of one of those inserts, as JSON of topic, partition and offset."""
    log_time: int | None = None
    time: int | None = None
    key_values: tuple[Any, ...] = ()
    """The values of the first key column, in the form in which they leave Spark
    (``key_ranges.values_sql``).
    """
    key_type: str = ""
    """The type of that column."""


class Rebuilt(NamedTuple):
    """The summary of a rebuild's states: the numbers of live and of absent keys."""

    live: int
    absent: int
    newest: Newest
    reinserted: int = 0
    reinserted_at: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Which known state a run looks up, and for which keys."""

    all_keys: bool
    """Whether the known state of all keys with a new event is looked up."""
    late_keys: bool
    """Whether it is looked up for keys that may have a late event."""
    hit_keys: bool
    """Whether rows may be hit without an event of their own: they expire, or a delete without a
    set concerns them.
    """
    truncated: bool
    """Whether a truncate may lie before known state."""
    filled: bool
    """Whether columns are to be filled from earlier events."""
    resting: bool
    """Whether events may have got values of another key's row, since a key update."""

    @property
    def is_of_new_events(self) -> bool:
        """Whether only the known state of keys with new events is looked up."""
        return not (self.hit_keys or self.truncated or self.filled or self.resting)

    @property
    def looks_up(self) -> bool:
        """Whether anything is looked up."""
        return any(
            (
                self.all_keys,
                self.late_keys,
                self.hit_keys,
                self.truncated,
                self.filled,
                self.resting,
            )
        )


def plan(
    fold: Fold,
    found: Found,
    *,
    newest_known: Newest | None,
    truncates: Sequence[Truncate],
    may_be_hit: bool,
    has_set_less_deletes: bool,
    to_fill: bool,
    resting: bool,
) -> Plan:
    """Decide what to look up.

    ``may_be_hit``: whether the table may have rows that have expired, or that a delete without a
    set hits. ``has_set_less_deletes``: whether a delete without a set is remembered for the
    namespace. ``resting``: whether any event may have got values of another key's row.
    """
    has_events = found.keys > 0
    leaves = fold.may_leave and (fold.partial or found.leaving > 0)
    new_truncate = any(each.is_new for each in truncates)
    all_keys = has_events and (leaves or newest_known is None or has_set_less_deletes)
    return Plan(
        all_keys=all_keys,
        late_keys=has_events and not all_keys and found.possibly_late > 0,
        hit_keys=may_be_hit,
        truncated=new_truncate,
        filled=to_fill,
        resting=resting,
    )


def last_event_decides(
    fold: Fold, *, fills: bool, doubts: bool, truncates: Sequence[Truncate]
) -> bool:
    """Whether a key's state is just its last event in the log: an event before a known
    state then makes no difference, and the key's log need not be read.

    ``fills``: whether any event may leave columns unchanged. ``doubts``: whether all inserts of a
    key are compared. A source's own order has places that only the log knows.
    """
    by_time_or_source = fold.order_by_source_time or bool(fold.order_by)
    of_others = fold.namespace is not None or bool(truncates)
    return not (by_time_or_source or of_others or fills or doubts)


def found_in(row: Mapping[str, Any], key_type: str) -> Found:
    """The ``Found`` in a row of ``summary.sql``; ``key_type`` is the type of the first key
    column.
    """
    values = row["key_values"] or ()
    if key_type.startswith("decimal"):
        # JSON has whole decimals as integers, which may exceed the integers that Spark accepts.
        values = map(Decimal, values)
    return Found(**{**row, "key_values": tuple(values), "key_type": key_type})


def truncate(row: Mapping[str, Any]) -> Truncate:
    """The truncate in a row of a query: its place (a struct), times in microseconds since the
    epoch, its source and whether it is new.
    """
    place = row["position"]
    source = f"'source', {_text(place['source'])}, " if "source" in place else ""
    position = (
        f"named_struct({source}'log_time', {moment(row['log_time'])},"
        f" 'topic', {sql_text(place['topic'])}, 'partition', {place['partition']},"
        f" 'offset', cast({place['offset']} as bigint), 'event_index', {place['event_index']})"
    )
    # Only the truncate of a snapshot has a negative event index.
    is_of_snapshot = place["event_index"] < 0
    return Truncate(position, moment(row["time"]), row["source"], row["is_new"], is_of_snapshot)


def _text(text: str | None) -> str:
    return "cast(null as string)" if text is None else sql_text(text)


def moment(micros: int | None) -> str:
    """A timestamp literal from microseconds since the epoch, or a null of that type."""
    return "cast(null as timestamp)" if micros is None else f"timestamp_micros({micros})"


def ranges_to_write(keys: int, cores: int) -> int:
    """The number of key ranges, and files, into which a first load divides its table: one for few
    keys, otherwise at least one for each core.
    """
    ranges = max(-(-keys // KEYS_OF_A_FILE), 1)
    return ranges if ranges == 1 else max(ranges, cores)
