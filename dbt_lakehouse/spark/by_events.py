"""The reference implementation of the functions of ``payload_functions``, from all events of
payloads with all their texts. It is also their fallback where they fail.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dbt_lakehouse.spark.counts import Counts
from dbt_lakehouse.spark.event_arrays import EVENT, listed
from dbt_lakehouse.spark.functions import change_rows_batch
from python_udfs.core.events import (
    CHANGES,
    DELETE,
    SOURCE_FIELDS,
    Event,
    Source,
    fields_with,
)
from python_udfs.registry import AEROSPIKE_FORMATS
from python_udfs.typed.declared import KEY_UPDATE, Log, row_type


class Taken(NamedTuple):
    """The source tables whose row changes all belong to some change log."""

    of_records: frozenset[Source]
    """In Aerospike's formats."""
    of_rows: frozenset[Source]
    """In all other formats."""

    def of_format(self, format: str | None) -> frozenset[Source]:
        """The source tables whose events have this format."""
        return self.of_records if format in AEROSPIKE_FORMATS else self.of_rows

    def has(self, format: str | None, event: Event) -> bool:
        """Whether an event belongs to a change log. An Aerospike delete without a set belongs to
        several, so it never does.
        """
        if event.operation not in CHANGES or event.source not in self.of_format(format):
            return False
        is_of_record = format in AEROSPIKE_FORMATS
        return not (is_of_record and event.operation == DELETE and event.source_table is None)


def log_type(log: Log) -> pa.StructType:
    """The Arrow type of the events of ``log_events_batch``: their origin and the input of the
    log's technical columns, the texts that its statement needs, and their row (``change``).
    """
    return pa.struct([*map(EVENT.field, fields_with(log.texts)), ("change", row_type(log))])


def log_events_of(
    log: Log, sources: frozenset[Source] | None, decoded: pa.Array, *headers: pa.Array
) -> pa.Array:
    """``payload_functions.log_events_batch`` from all events of each payload."""
    events, parents = decoded.flatten(), pc.list_parent_indices(decoded)
    is_wanted = pc.is_in(events.field("operation"), pa.array(sorted(CHANGES)))
    if sources is not None:
        is_wanted = pc.and_(is_wanted, _is_of(events, sources))
    events, parents = events.filter(is_wanted), parents.filter(is_wanted)
    is_record = not log.key
    nothing = pa.nulls(len(events), pa.string())
    rows = change_rows_batch(
        log,
        events.field("operation"),
        events.field("before"),
        events.field("after"),
        nothing if is_record else events.field("record_key"),
        events.field("metadata"),
        *(each.take(parents) for each in headers if log.headed),
    )
    head = {name: events.field(name) for name in fields_with(log.texts)}
    if not is_record and "record_key" not in log.texts:
        head["record_key"] = nothing
    if "metadata" not in log.texts:
        head["metadata"] = nothing
        if row_type(log).get_field_index(KEY_UPDATE) >= 0:
            is_update = pc.is_valid(rows.field(KEY_UPDATE))
            head["metadata"] = pc.if_else(is_update, events.field("metadata"), None)
    structs = pa.StructArray.from_arrays([*head.values(), rows], fields=list(log_type(log)))
    return listed(structs, parents.to_pylist(), len(decoded))


def others_of(taken: Taken, topics: pa.Array, formats: pa.Array, decoded: pa.Array) -> pa.Array:
    """``payload_functions.other_events_batch`` from all events of each payload."""
    events, parents = decoded.flatten(), pc.list_parent_indices(decoded)
    of_format = pc.take(formats, parents)
    is_record = pc.fill_null(pc.is_in(of_format, pa.array(AEROSPIKE_FORMATS)), False)
    is_set_less = pc.and_(
        is_record,
        pc.and_(
            pc.equal(events.field("operation"), DELETE), pc.is_null(events.field("source_table"))
        ),
    )
    is_taken = pc.and_(
        pc.is_in(events.field("operation"), pa.array(sorted(CHANGES))),
        pc.if_else(is_record, _is_of(events, taken.of_records), _is_of(events, taken.of_rows)),
    )
    is_taken = pc.and_not(is_taken, is_set_less)
    counts = Counts(topics)
    names = ("event_index", "operation", *SOURCE_FIELDS)
    theirs = [events.field(name).filter(is_taken).to_pylist() for name in names]
    for place, index, operation, database, schema, table in zip(
        parents.filter(is_taken).to_pylist(), *theirs, strict=True
    ):
        counts.add([place], (database, schema, table), operation, are_first=index == 0)
    is_other = pc.invert(is_taken)
    return counts.beside(
        events.filter(is_other), parents.filter(is_other).to_pylist(), len(decoded)
    )


def _is_of(events: pa.Array, sources: frozenset[Source]) -> pa.Array:
    """Whether events are from one of the sources."""
    found = pa.repeat(pa.scalar(False), len(events))
    for source in sources:
        is_it = pa.repeat(pa.scalar(True), len(events))
        for name, value in zip(SOURCE_FIELDS, source, strict=True):
            column = events.field(name)
            same = (
                pc.is_null(column)
                if value is None
                else pc.fill_null(pc.equal(column, value), False)
            )
            is_it = pc.and_(is_it, same)
        found = pc.or_(found, is_it)
    return found
