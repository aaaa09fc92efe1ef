"""Log times of new payloads: the newest Kafka timestamp so far in their partition, by offset.

other_events keeps the last log time of each partition, so that a run need not read all events
again. Most payloads' log time is their own timestamp.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dbt_lakehouse.runs.decisions import moment
from dbt_lakehouse.texts import sql_text

# Beyond this number partitions are not kept: each run would rewrite all of them.
_MOST_PARTITIONS: Final = 1000

Known = Mapping[str, Sequence[int | None]]
"""By partition (JSON of topic and partition): its last offset, and that offset's log time in
microseconds.
"""


@dataclass(frozen=True, slots=True)
class LogTimes:
    """The known log times of new payloads."""

    needs_correction: bool
    """Whether any payload's log time may differ from its timestamp."""
    carried: list[dict[str, str]]
    """The last log times of earlier runs, for partitions whose payloads all come behind them:
    topic, partition and log time, each as SQL.
    """
    between: list[dict[str, str]]
    """Partitions with payloads before offsets that came earlier, whose log times only the log
    tells: topic, partition and the first new offset, each as SQL.
    """
    known: dict[str, list[int | None]] | None
    """The state after the run; None if it is not to be kept."""


def log_times(partitions: Sequence[Mapping[str, Any]], known: Known) -> LogTimes:
    """The log times of new payloads, which come from ``partitions`` (``build.other_events``)."""
    after = {name: list(each) for name, each in known.items()}
    carried, between = [], []
    goes_back = False
    for each in partitions:
        times, last_offset = [each["newest"]], int(each["last_offset"])
        place = {"topic": sql_text(each["topic"]), "partition": str(each["partition"])}
        goes_back = goes_back or bool(each["goes_back"])
        if each["name"] in known:
            offset, log_time = known[each["name"]]
            goes_back = goes_back or (log_time is not None and int(each["oldest"] or 0) < log_time)
            times.append(log_time)
            if int(each["first_offset"]) > (offset or 0):
                carried.append(place | {"log_time": moment(log_time)})
            else:
                between.append(place | {"first_offset": str(each["first_offset"])})
            if last_offset < (offset or 0):
                continue
        newest = max((int(time) for time in times if time is not None), default=None)
        after[each["name"]] = [last_offset, newest]
    return LogTimes(
        needs_correction=bool(between) or goes_back,
        carried=carried,
        between=between,
        known=None if len(after) > _MOST_PARTITIONS else after,
    )
