"""The result of ``payload_functions.other_events_batch``: events, and the counts of all others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from dbt_lakehouse.spark.event_arrays import EVENT, in_order, listed
from python_udfs.core.events import SOURCE_FIELDS, Source

LOOKED_AT: Final = pa.struct(
    [*EVENT, ("is_taken", pa.bool_()), ("events", pa.int64()), ("payloads", pa.int64())]
)
"""An event that no log takes, with ``events`` 1; or the number of ``events`` with an operation
and a source table that a log takes, with everything else null. ``payloads`` is the number of
payloads whose first event is among them, so all together count each payload once.
"""
_COUNTED: Final = (*SOURCE_FIELDS, "operation", "events", "payloads")

Operations = str | Sequence[str]


class Counts:
    """Counts the events in a batch of payloads, by the payload's topic, the source table and the
    operation.
    """

    def __init__(self, topics: pa.Array) -> None:
        distinct = topics.unique()
        self._topics: Final = topics.to_pylist() if len(distinct) > 1 else []
        """The topic of each payload; empty if all have the same one."""
        self._counts: Final[Counter[tuple[str | None, Source, str]]] = Counter()
        self._first: Final[dict[tuple[str | None, Source, str], int]] = {}
        """The first payload with such an event."""
        self._payloads: Final[Counter[tuple[str | None, Source, str]]] = Counter()

    def add(
        self,
        places: Sequence[int],
        source: Source,
        operations: Operations,
        *,
        are_first: bool = True,
    ) -> None:
        """Count an event for each of the payloads at these places, which ascend. ``are_first``:
        whether they are the first events of their payloads.
        """
        for topic, own, theirs in self._by_topic(places, operations):
            counted = {theirs: len(own)} if isinstance(theirs, str) else Counter(theirs)
            for operation, events in counted.items():
                key = (topic, source, operation)
                self._counts[key] += events
                self._payloads[key] += events if are_first else 0
                first = own[0 if isinstance(theirs, str) else theirs.index(operation)]
                self._first[key] = min(first, self._first.get(key, first))

    def _by_topic(
        self, places: Sequence[int], operations: Operations
    ) -> list[tuple[str | None, Sequence[int], Operations]]:
        if not places:
            return []
        if not self._topics:
            return [(None, places, operations)]
        numbers: dict[str | None, list[int]] = {}
        for number, place in enumerate(places):
            numbers.setdefault(self._topics[place], []).append(number)
        return [
            (
                topic,
                [places[number] for number in own],
                operations
                if isinstance(operations, str)
                else [operations[number] for number in own],
            )
            for topic, own in numbers.items()
        ]

    def beside(self, events: pa.Array, places: Sequence[int], length: int) -> pa.Array:
        """A list of ``LOOKED_AT`` for each of ``length`` payloads: the events of payloads at
        these places, and before them the counts, each with the first payload that it counts.
        """
        keys = sorted(self._first, key=lambda key: (self._first[key], repr(key)))
        found = [(*key[1], key[2], self._counts[key], self._payloads[key]) for key in keys]
        counted: Mapping[str, Sequence[str | int | None]] = dict(
            zip(_COUNTED, zip(*found, strict=True) if found else [()] * len(_COUNTED), strict=True)
        )
        counts = [
            pa.array(counted[field.name], field.type)
            if field.name in counted
            else pa.nulls(len(found), field.type)
            for field in EVENT
        ]
        structs = pa.concat_arrays(
            [
                _structs(
                    counts,
                    is_taken=True,
                    events=pa.array(counted["events"], pa.int64()),
                    payloads=pa.array(counted["payloads"], pa.int64()),
                ),
                _structs(
                    [events.field(field.name) for field in EVENT],
                    is_taken=False,
                    events=pa.repeat(pa.scalar(1, pa.int64()), len(events)),
                    payloads=pc.equal(events.field("event_index"), 0).cast(pa.int64()),
                ),
            ]
        )
        all_places = [*(self._first[key] for key in keys), *places]
        return listed(in_order(structs, all_places), all_places, length)


def _structs(
    columns: list[pa.Array], *, is_taken: bool, events: pa.Array, payloads: pa.Array
) -> pa.Array:
    flags = pa.repeat(pa.scalar(is_taken), len(events))
    return pa.StructArray.from_arrays([*columns, flags, events, payloads], fields=list(LOOKED_AT))
