"""The functions on bronze that Spark calls: from payloads to a change log's typed rows, and to
the events that no log takes.

Both take from the decoded payloads only what they return. ``by_events`` defines their result: if
a bug of ours raises anywhere, the batch goes that way, on which a failing payload affects only
itself.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from dbt_lakehouse.spark.by_events import Taken as Taken
from dbt_lakehouse.spark.by_events import log_events_of, others_of
from dbt_lakehouse.spark.by_events import log_type as log_type
from dbt_lakehouse.spark.counts import LOOKED_AT, Counts
from dbt_lakehouse.spark.event_arrays import EventArrays, Texts, in_order, listed, parts_of
from dbt_lakehouse.spark.functions import (
    decode_payload_batch,
    register,
    with_mask_key,
    with_schemas,
    without_collector,
)
from python_udfs.core.events import CHANGES, Event, EventColumns, Source, fields_with
from python_udfs.debezium.avro import Registered
from python_udfs.typed.batches import Changes
from python_udfs.typed.declared import KEY_UPDATE, Log, layout, row_type
from python_udfs.typed.headers import values_of
from python_udfs.typed.rows import Headers, Rows

# Events that are decoded one by one are usually few; up to this many are converted together.
_TOGETHER: Final = 256


@without_collector
def log_events_batch(
    log: Log,
    sources: frozenset[Source] | None,
    formats: pa.Array,
    keys: pa.Array,
    values: pa.Array,
    *headers: pa.Array,
) -> pa.Array:
    """Decode payloads, as ``decode_payload_batch`` takes them, to a list each of the log's
    events, structs of ``log_type``: those that change a row of one of the sources, or of any
    (None). For a log with header columns, ``headers`` has those in any format.

    Unless the log needs these texts, ``record_key`` is only set for a log whose key is not a column
    (a record's digest), and ``metadata`` for a row with a ``_key_update``.
    """
    layout(log)
    try:
        events = _LogEvents(log)
        for _, places, decoded in parts_of(formats, keys, values, *headers):
            for indexes, columns in decoded.columns:
                if sources is None or columns.source in sources:
                    events.add_columns(list(map(places.__getitem__, indexes)), columns)
            for index, several in decoded.events.items():
                for event in several:
                    if event.operation in CHANGES and (sources is None or event.source in sources):
                        events.add_event(places[index], event)
        of_log = [each for said in headers for each in values_of(log, said)]
        return events.array(len(values), of_log)
    except Exception:
        # The fallback finds which payload.
        pass
    decoded_events = decode_payload_batch(formats, keys, values, *headers)
    return log_events_of(log, sources, decoded_events, *headers)


class _LogEvents:
    """Collects the events of a log as they are decoded."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._is_of_records = not log.key
        self._texts = Texts(
            record_key=self._is_of_records or "record_key" in log.texts,
            images=not {"before", "after"}.isdisjoint(log.texts),
            metadata="metadata" in log.texts,
        )
        self._heads = EventArrays()
        self._rows = Rows(log)
        self._places: list[int] = []
        """The places of the rows' payloads."""
        self._single: list[tuple[int, Event]] = []
        """Events that have no rows yet."""

    def add_columns(self, places: Sequence[int], columns: EventColumns) -> None:
        """Add events of payloads at these places."""
        self._heads.add_columns(places, columns, self._texts)
        if self._is_of_records:
            columns = columns._replace(record_key=None, key_names=())
        self._rows.add_columns(columns)
        self._places += places

    def add_event(self, place: int, event: Event) -> None:
        """Add an event of the payload at this place, after all earlier ones."""
        head, change = event, event
        if not self._texts.images:
            head = head._replace(before=None, after=None)
        if self._is_of_records:
            change = event._replace(record_key=None)
        if not self._texts.record_key:
            head = head._replace(record_key=None)
        self._heads.add_events(place, [head])
        self._single.append((place, change))
        if len(self._single) == _TOGETHER:
            self._add_single()

    def _add_single(self) -> None:
        if not self._single:
            return
        places, events = zip(*self._single, strict=True)
        self._single = []
        self._places += places
        self._rows.add(
            Changes(
                [event.operation for event in events],
                [event.before for event in events],
                [event.after for event in events],
                [event.record_key for event in events],
                [event.metadata for event in events],
                [""] * len(events),
            )
        )

    def array(self, length: int, headers: Headers) -> pa.Array:
        """A list of events for each of ``length`` payloads. ``headers`` are the values of the log's
        header columns in these.
        """
        self._add_single()
        payloads = pa.array(self._places, pa.int32()) if headers else None
        own = [each.take(payloads) for each in headers]
        rows = in_order(self._rows.array(own), self._places)
        places = self._heads.places
        heads = in_order(self._heads.structs(), places)
        columns = {name: heads.field(name) for name in fields_with(self._log.texts)}
        if not self._texts.metadata:
            metadata = pa.nulls(len(rows), pa.string())
            if row_type(self._log).get_field_index(KEY_UPDATE) >= 0:
                is_update = pc.is_valid(rows.field(KEY_UPDATE))
                metadata = pc.if_else(is_update, columns["metadata"], None)
            columns["metadata"] = metadata
        structs = pa.StructArray.from_arrays(
            [*columns.values(), rows], fields=list(log_type(self._log))
        )
        return listed(structs, places, length)


@without_collector
def other_events_batch(
    taken: Taken,
    topics: pa.Array,
    formats: pa.Array,
    keys: pa.Array,
    values: pa.Array,
    *headers: pa.Array,
) -> pa.Array:
    """Decode payloads, as ``decode_payload_batch`` takes them, with their topics (string), to a
    list of ``counts.LOOKED_AT`` each: their events that no log takes, and in the lists of some
    payloads the number of events in the batch that change a row of a taken source.

    An Aerospike delete without a set belongs to no single log, so it is never taken.
    """
    try:
        counts, others = Counts(topics), EventArrays()
        for format, places, decoded in parts_of(formats, keys, values, *headers):
            for indexes, columns in decoded.columns:
                own = list(map(places.__getitem__, indexes))
                if columns.source in taken.of_format(format):
                    counts.add(own, columns.source, columns.operation)
                else:
                    others.add_columns(own, columns, Texts())
            for index, events in decoded.events.items():
                for event in events:
                    if taken.has(format, event):
                        is_first = event.event_index == 0
                        counts.add(
                            [places[index]], event.source, event.operation, are_first=is_first
                        )
                    else:
                        others.add_events(places[index], [event])
        return counts.beside(others.structs(), others.places, len(values))
    except Exception:
        pass
    decoded_events = decode_payload_batch(formats, keys, values, *headers)
    return others_of(taken, topics, formats, decoded_events)


def register_log_events(
    spark: SparkSession,
    name: str,
    log: Log,
    sources: frozenset[Source] | None,
    schemas: Mapping[int, Registered | None],
) -> None:
    """Register ``log_events_batch`` of a log under this name, with registry schemas."""
    log_events = with_mask_key(log, partial(log_events_batch, log, sources))
    register(spark, name, with_schemas(schemas, log_events), pa.list_(log_type(log)))


def register_other_events(
    spark: SparkSession, name: str, taken: Taken, schemas: Mapping[int, Registered | None]
) -> None:
    """Register ``other_events_batch`` under this name, with registry schemas."""
    other_events = partial(other_events_batch, taken)
    register(spark, name, with_schemas(schemas, other_events), pa.list_(LOOKED_AT))
