"""Resolve where the rows of key updates get their values, see ``build.key_updates``."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Source(NamedTuple):
    """A row of a key update, the row whose values it gets, and the columns concerned."""

    place: str
    source: str
    columns: list[str]


def sources(resting: Mapping[str, tuple[str, Sequence[str]]]) -> list[Source]:
    """The row that gives each column's value, or for which nothing is known.

    ``resting``: for the place of a row, the place of the row that it rests on, and the columns in
    which both have the same value. A row may rest on one that itself rests on another: k1 became
    k2, and k2 became k3. Rows that rest on each other have no source.
    """
    found: dict[str, dict[str, str]] = {}
    for place in resting:
        path: list[str] = []
        there = place
        while there in resting and there not in found:
            # While unresolved: a row that comes up again rests on itself.
            found[there] = {}
            path.append(there)
            there = resting[there][0]
        for each in reversed(path):
            rests_on, columns = resting[each]
            others = resting.get(rests_on, ("", ()))[1]
            found[each] = {
                column: found[rests_on].get(column, "") if column in others else rests_on
                for column in columns
            }
    rows: dict[tuple[str, str], list[str]] = {}
    for place, by_column in found.items():
        for column, source in by_column.items():
            if source:
                rows.setdefault((place, source), []).append(column)
    return [Source(place, source, columns) for (place, source), columns in rows.items()]
