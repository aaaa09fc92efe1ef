"""What a run of a gold table decides, from what it has found; without Spark, and without SQL.

A run folds the new events of its log, one state for each key they touch, and asks for a summary of
those states (``Found``). Most keys are settled by that: nothing that is known of them can make a
difference, since all of it is older. What else has to be looked at is said by ``plan``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from dbt_lakehouse.declared.fold_of_log import Fold
from dbt_lakehouse.texts import sql_text

# Of a first load's files. A file costs each later run about as much as to read so many keys.
KEYS_OF_A_FILE: Final = 50_000
# So many rows a table may have for its keys to be shuffled in a task for each core.
SMALL_TABLE: Final = 5_000_000
# So many new rows are folded in one task, which shuffles nothing.
ROWS_OF_ONE_TASK: Final = 200_000


class Newest(NamedTuple):
    """The newest of all that is known of a gold table's keys, rows and remembered states, in
    microseconds since the epoch; None where no key has one.

    A new event with a later log time, and a source time that is no earlier, is late for no key. It
    may be newer than what is known, for rows go and states are forgotten; it is never older.
    """

    log_time: int | None
    time: int | None

    def __str__(self) -> str:
        return "|".join("" if each is None else str(each) for each in self)

    def and_those(self, log_time: int | None, time: int | None) -> "Newest":
        """The newest of these and others."""
        return Newest(_newer(self.log_time, log_time), _newer(self.time, time))


def newest(text: str | None) -> Newest | None:
    """The one whose text this is, None for none."""
    if not text:
        return None
    log_time, time = (int(each) if each else None for each in text.split("|"))
    return Newest(log_time, time)


def _newer(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)


class Truncate(NamedTuple):
    """A truncate: its place in the log and its time as SQL, and the source table that it emptied.

    ``source`` is JSON, the empty text in a log of one source table.
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
    """Keys with an event that may be older than what is known of them."""
    leaving: int = 0
    """Keys with an event that leaves columns as they were without saying their values."""
    reinserted: int = 0
    """Keys with several rows inserted (dbt_lakehouse/build/sql/fold.sql)."""
    reinserted_at: str | None = None
    """The place of one of those, as JSON of topic, partition and offset."""
    log_time: int | None = None
    time: int | None = None
    key_values: tuple[Any, ...] = ()
    """The values of the first key column, as they leave Spark (``key_ranges.values_sql``)."""
    key_type: str = ""
    """The type of that column."""


class Rebuilt(NamedTuple):
    """The summary of the states of a rebuild: so many keys are live, so many absent."""

    live: int
    absent: int
    newest: Newest
    reinserted: int = 0
    reinserted_at: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does about what is known already."""

    all_keys: bool
    """Whether it is looked up for all keys with a new event."""
    late_keys: bool
    """Whether it is for those that may have a late one."""
    hit_keys: bool
    """Whether rows may be hit without an event of theirs: they expire, or a delete without a set is
    theirs.
    """
    truncated: bool
    """Whether a truncate may lie before what is known."""
    filled: bool
    """Whether columns are to be filled from earlier events."""
    resting: bool
    """Whether events have got values of another key's row, since its key became theirs."""

    @property
    def is_of_new_events(self) -> bool:
        """Whether nothing is looked up but what is known of keys with new events."""
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
    """What has to be looked up.

    ``may_be_hit``: whether the table may have rows that have expired, or that a delete without a
    set hits. ``has_set_less_deletes``: whether any is remembered of the namespace. ``resting``:
    whether any event may have got values of another key's row.
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


def found_in(row: Mapping[str, Any], key_type: str) -> Found:
    """What ``summary.sql`` has found; ``key_type`` is the type of the first key column."""
    values = row["key_values"] or ()
    if key_type.startswith("decimal"):
        # JSON has whole ones as integers, which may be greater than any that Spark is handed.
        values = map(Decimal, values)
    return Found(**{**row, "key_values": tuple(values), "key_type": key_type})


def truncate(row: Mapping[str, Any]) -> Truncate:
    """A truncate that a query has found: its place (a struct), times in microseconds since the
    epoch, its source and whether it is new.
    """
    place = row["position"]
    source = f"'source', {_text(place['source'])}, " if "source" in place else ""
    position = (
        f"named_struct({source}'log_time', {moment(row['log_time'])},"
        f" 'topic', {sql_text(place['topic'])}, 'partition', {place['partition']},"
        f" 'offset', cast({place['offset']} as bigint), 'event_index', {place['event_index']})"
    )
    # Of an index that no event of a payload has.
    is_of_snapshot = place["event_index"] < 0
    return Truncate(position, moment(row["time"]), row["source"], row["is_new"], is_of_snapshot)


def _text(text: str | None) -> str:
    return "cast(null as string)" if text is None else sql_text(text)


def moment(micros: int | None) -> str:
    """A timestamp literal from microseconds since the epoch, or a null of that type."""
    return "cast(null as timestamp)" if micros is None else f"timestamp_micros({micros})"


def ranges_to_write(keys: int, cores: int) -> int:
    """Into how many ranges of keys, and files, a first load divides its table: little is one, all
    else has a range for each core.
    """
    ranges = max(-(-keys // KEYS_OF_A_FILE), 1)
    return ranges if ranges == 1 else max(ranges, cores)
