"""Bitemporal histories as plain folds, with which the SQL is compared."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dbt_lakehouse.reference.history import Version


class Belief(NamedTuple):
    """A version that runs believed from ``recorded_from`` until ``recorded_to`` (None: still);
    UTC microseconds since the epoch.
    """

    version: Version
    recorded_from: int
    recorded_to: int | None


def beliefs(runs: Iterable[tuple[int, Sequence[Version]]]) -> list[Belief]:
    """The beliefs about one key, in the order of their beginning, from each run's moment and the
    versions by all events until then. A version believed for no time, in two runs of one moment,
    does not count.
    """
    ended: list[Belief] = []
    held: dict[Version, int] = {}
    for moment, versions in runs:
        for version in held.keys() - set(versions):
            if (begun := held.pop(version)) < moment:
                ended.append(Belief(version, begun, moment))
        for version in versions:
            held.setdefault(version, moment)
    open_ones = [Belief(version, begun, None) for version, begun in held.items()]
    return sorted([*ended, *open_ones], key=lambda each: (each.recorded_from, str(each.version)))
