"""The columns of a change log from many decoded events: the results of ``row.change_row`` for
each.

Images are taken apart in chunks (``chunks``); the resulting text columns are typed for all events
at once.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, compress, repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.core.events import SNAPSHOT, UPDATE, EventColumns
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.typed.batches import (
    Batch,
    Changes,
    DecodedBatch,
    TextBatch,
    at_once,
    changes_of,
)
from python_udfs.typed.chunks import Chunk, Column, taken_apart
from python_udfs.typed.columns import typed_column
from python_udfs.typed.declared import (
    FORMER,
    HAS_OTHER_KEY,
    MISFIT_TYPE,
    MISFITS,
    NAMES,
    UNCHANGED,
    Log,
    LogColumn,
    layout,
    row_type,
)
from python_udfs.typed.headers import texts_of
from python_udfs.typed.images import decode_hbase, texts_inside_of_many
from python_udfs.typed.masked import clear, masked_rows
from python_udfs.typed.masks import MASKED
from python_udfs.typed.names import Names
from python_udfs.typed.row import NEW_ROWS, Change, change_row, key_update, said
from python_udfs.typed.source_places import source_place
from python_udfs.typed.values import Value, typed

Headers = Sequence[pa.Array]
"""The values of each header column of a log, as of ``headers.values_of``, one for each event; empty
if they are not known, or the log has no such column.
"""


def change_rows(log: Log, changes: Changes, headers: Headers = ()) -> pa.StructArray:
    """The rows of a log, one for each event, as structs of ``declared.row_type``.

    Raises ``ValueError`` for a type that the log's columns can't have, and
    ``msgspec.DecodeError`` for an image or a key that is not a JSON object.
    """
    rows = Rows(log)
    rows.add(changes)
    return rows.array(headers)


Given = Callable[[int, int], Iterable[Changes]]
"""Gives the events from one place to another, in small parts."""


def told_rows(log: Log, given: Given, length: int, headers: Headers = ()) -> pa.StructArray:
    """``change_rows`` of ``length`` events. If it raises for an event, its row is ``change_row``'s;
    if that raises too, the event gets nulls and a misfit with its image. The event comes from our
    decoder, so the error is ours, and one event must not stop a run.

    Raises ``ValueError`` for a type that the log's columns can't have.
    """
    layout(log)
    return _told_rows(log, given, headers, 0, length)


def _told_rows(log: Log, given: Given, headers: Headers, start: int, end: int) -> pa.StructArray:
    own = [each.slice(start, end - start) for each in headers]
    try:
        rows = Rows(log)
        for changes in given(start, end):
            rows.add(changes)
        return rows.array(own)
    except Exception:
        # Bisection finds the event.
        pass
    if end - start < 2:
        (changes,) = given(start, end)
        (change,) = map(Change, *changes)
        try:
            row = change_row(log, change, [each[0].as_py() for each in own])
            return pa.array([row], row_type(log))
        except Exception:
            return pa.array([_nothing(log, change)], row_type(log))
    half = (start + end) // 2
    return pa.concat_arrays(
        [_told_rows(log, given, headers, start, half), _told_rows(log, given, headers, half, end)]
    )


def _nothing(log: Log, change: Change) -> dict[str, Any]:
    images = (change.after, change.before, change.record_key, b"")
    text = next(image for image in images if image is not None).decode(errors="replace")
    row: dict[str, Any] = {field.name: None for field in row_type(log)}
    row[HAS_OTHER_KEY] = False
    told = text[:_LONGEST_IMAGE] if clear(log) is log else MASKED
    row[MISFITS] = [{"column": log.all_columns[0].column, "text": told}]
    if UNCHANGED in row:
        row[UNCHANGED] = []
    if FORMER in row:
        places = layout(log).key_places
        row[FORMER] = {"before": None, "texts": [None] * len(places), "hidden": []}
    return row


_LONGEST_IMAGE: Final = 1000


class Rows:
    """The rows of a log from events that are added as they are decoded: a few at a time stay in a
    processor's cache until their texts are in arrays.
    """

    def __init__(self, log: Log) -> None:
        """Raises ``ValueError`` for a type that the log's columns can't have."""
        self.declared = log
        self.log = log = clear(log)
        """The log without masks."""
        self.layout = layout(log)
        self.operations: list[str] = []
        self.names = Names([each.column for each in log.columns])
        self.chunks: list[Chunk] = []
        self.said_beside: list[list[pa.Array]] = []
        """For each chunk, the texts of the columns beside the row, and of parts of its place."""
        self.headers: Headers = ()

    def add(self, changes: Changes) -> None:
        """Take events apart, after all earlier ones."""
        length = at_once(changes)
        for start in range(0, len(changes.operation), length):
            self._add(TextBatch(changes.slice(start, length)))

    def add_columns(self, columns: EventColumns) -> None:
        """Take events apart that were decoded together."""
        images = columns.images
        are_paths = len(self.layout.plain_fields) < len(self.layout.fields)
        if images is None or are_paths or self.log.former is not None:
            self.add(changes_of(columns))
        else:
            self._add(DecodedBatch(columns, images))

    def _add(self, batch: Batch) -> None:
        self.operations += batch.operation
        self.chunks.append(taken_apart(self.log, self.layout, batch, self.names))
        paths = self.layout.paths + self.layout.place_paths
        if paths:
            said = texts_inside_of_many(batch.metadata, paths)
            self.said_beside.append([pa.array(texts, pa.string()) for texts in said])

    def array(self, headers: Headers = ()) -> pa.StructArray:
        """The rows of all events, as ``change_rows`` gives them. Nothing can be added
        afterwards.
        """
        self.headers = headers
        changed = [number for chunk in self.chunks for number in chunk.changed]
        columns = [*self.values, *self.values_beside, *self.values_headed]
        columns.append(self.names.array(changed))
        if self.log.key or self.log.partial:
            columns.append(self.unchanged)
        if self.log.key:
            columns.append(self.previous)
        if self.layout.key_columns:
            columns.append(self._key_updates())
        others = [each for chunk in self.chunks for each in chunk.has_other_key]
        columns += [self._misfits(), pa.array(others, pa.bool_())]
        if self.log.former is not None:
            columns.append(self._former())
        if self.log.order_by:
            columns.append(self._source_places())
        rows = pa.StructArray.from_arrays(columns, fields=list(row_type(self.log)))
        return rows if self.declared is self.log else masked_rows(self.declared, rows)

    @cached_property
    def _columns(self) -> list[tuple[pa.Array, pa.Array]]:
        return [
            _texts_and_values([chunk.shipped[place] for chunk in self.chunks], spec)
            for place, spec in enumerate(self.log.columns)
        ]

    @cached_property
    def texts(self) -> list[pa.Array]:
        """For each column, all texts; undefined for values that came as such."""
        return [texts for texts, _ in self._columns]

    @cached_property
    def values(self) -> list[pa.Array]:
        """For each column, all values."""
        return [values for _, values in self._columns]

    @cached_property
    def texts_beside(self) -> list[pa.Array]:
        """For each column beside the row, all texts."""
        return [
            _joined([texts[place] for texts in self.said_beside])
            for place in range(len(self.log.beside))
        ]

    @cached_property
    def values_beside(self) -> list[pa.Array]:
        """For each column beside the row, all values."""
        return [
            typed_column(texts, spec.type)
            for texts, spec in zip(self.texts_beside, self.log.beside, strict=True)
        ]

    @cached_property
    def texts_headed(self) -> list[tuple[pa.Array, pa.Array]]:
        """For each header column, ``headers.texts_of`` its values."""
        unknown = pa.nulls(len(self.operations), pa.binary())
        return [texts_of(values) for values in self.headers or [unknown] * len(self.log.headed)]

    @cached_property
    def values_headed(self) -> list[pa.Array]:
        """For each header column, all values."""
        return [
            typed_column(texts, spec.type)
            for (texts, _), spec in zip(self.texts_headed, self.log.headed, strict=True)
        ]

    def _source_places(self) -> pa.Array:
        """The places in the source's order, or null."""
        beside = iter(range(len(self.log.beside), len(self.layout.paths + self.layout.place_paths)))
        said: list[list[Any]] = []
        for part in self.log.order_by:
            if part.column is None:
                place = next(beside)
                said.append(_joined([texts[place] for texts in self.said_beside]).to_pylist())
            else:
                names = [each.column for each in self.log.all_columns]
                columns = [*self.values, *self.values_beside, *self.values_headed]
                values = columns[names.index(part.column)]
                said.append(_plain(values).to_pylist())
        forms = [part.form for part in self.log.order_by]
        places = [
            source_place(forms, each, is_read=operation == SNAPSHOT)
            for operation, *each in zip(self.operations, *said, strict=True)
        ]
        return pa.array(places, pa.string())

    @cached_property
    def unchanged(self) -> pa.Array:
        """Lists of the unchanged columns whose values are missing."""
        numbers = array("i")
        for chunk in self.chunks:
            numbers.extend(chunk.unchanged or repeat(self.names.none, chunk.length))
        return self.names.array(numbers)

    # --- Keys -------------------------------------------------------------------------------------

    @cached_property
    def previous(self) -> pa.StructArray:
        """The keys that updates have replaced; for a keyless table, the rows."""
        nothing = pa.nulls(len(self.operations), self.layout.key_type)
        if all(chunk.previous is None for chunk in self.chunks):
            return nothing
        keys = [self._key_column(number) for number in range(len(self.layout.key_places))]
        if self.log.keyless:
            is_there = pa.array(
                chain.from_iterable(
                    chunk.has_row_before or repeat(False, chunk.length) for chunk in self.chunks
                ),
                pa.bool_(),
            )
        else:
            is_there = pa.array([False] * len(self.operations), pa.bool_())
            for key, place in zip(keys, self.layout.key_places, strict=True):
                is_there = pc.or_(is_there, _differ(key, self.values[place]))
        is_there = pc.and_(is_there, pc.equal(pa.array(self.operations, pa.string()), UPDATE))
        if not pc.any(is_there).as_py():
            return nothing
        return pa.StructArray.from_arrays(
            keys, fields=list(self.layout.key_type), mask=pc.invert(is_there)
        )

    def _key_column(self, number: int) -> pa.Array:
        """A key column's values before; those after, where the former are missing."""
        place = self.layout.key_places[number]
        spec, values = self.log.columns[place], self.values[place]
        if spec.encoding and not self.log.keyless:
            return values
        columns: list[Column] = [
            (None,) * chunk.length if chunk.previous is None else chunk.previous[number]
            for chunk in self.chunks
        ]
        if not self.log.keyless:
            columns = [
                list(map(said, column)) if UNAVAILABLE in column else column for column in columns
            ]
        texts = _joined([pa.array(column, pa.string()) for column in columns])
        before = typed_column(texts, spec.type)
        return before if self.log.keyless else pc.coalesce(before, values)

    def _former(self) -> pa.StructArray:
        """Data about the rows of events with other keys."""
        wanted = self.layout.former_type
        length = len(self.operations)
        places = self.layout.key_places
        keys = []
        for number, place in enumerate(places):
            spec = self.log.columns[place]
            said_before = [None if spec.encoding else said(text) for text in self._before(number)]
            keys.append(typed_column(pa.array(said_before, pa.string()), spec.type))
        before = pa.StructArray.from_arrays(keys, fields=list(self.layout.key_type))
        texts = list(zip(*(self.texts[place].to_pylist() for place in places), strict=True))
        hidden: list[list[str]] = [[] for _ in range(length)]
        for place, spec in enumerate(self.log.columns):
            parts = self._parts(place)
            for start, chunk in self._with_starts():
                is_hidden = None if chunk.unavailable is None else chunk.unavailable[place]
                for row in compress(range(start, start + chunk.length), is_hidden or ()):
                    if row not in parts and spec.column in self.unchanged[row].as_py():
                        hidden[row].append(spec.column)
        columns = [before, pa.array(map(list, texts), NAMES), pa.array(hidden, NAMES)]
        return pa.StructArray.from_arrays(columns, fields=list(wanted))

    def _before(self, number: int) -> Iterator[str | None]:
        """A key column's texts in the images before."""
        for chunk in self.chunks:
            yield from repeat(None, chunk.length) if not chunk.previous else chunk.previous[number]

    def _key_updates(self) -> pa.Array:
        wanted = self.layout.update_type
        if not self.updates:
            return pa.nulls(len(self.operations), wanted)
        return pa.array(map(self.updates.get, range(len(self.operations))), wanted)

    @cached_property
    def updates(self) -> dict[int, dict[str, Any]]:
        """The notes on key updates in events, by their places."""
        found = {}
        for start, chunk in self._with_starts():
            for place, (change, notes) in (chunk.updates or {}).items():
                key = None
                if notes.old_key is not None and chunk.previous is not None:
                    key = self._key_before([column[place] for column in chunk.previous])
                unchanged = self.unchanged[start + place].as_py()
                update = key_update(change, notes, key, unchanged)
                if update is not None:
                    found[start + place] = update
        return found

    def _key_before(self, texts: Column) -> dict[str, Value] | None:
        key = {}
        for place, text in zip(self.layout.key_places, texts, strict=True):
            spec = self.log.columns[place]
            value = typed(said(text), spec.type)
            if value is None:
                return None
            key[spec.column] = value
        return key

    def _with_starts(self) -> Iterator[tuple[int, Chunk]]:
        """Chunks with the places of their first events."""
        starts = accumulate((chunk.length for chunk in self.chunks), initial=0)
        return zip(starts, self.chunks, strict=False)

    # --- Misfits ----------------------------------------------------------------------------------

    def _misfits(self) -> pa.ListArray:
        """The values that don't fit, changes inside of columns, and missing values."""
        found: list[tuple[int, int, str]] = []
        for place in range(len(self.texts)):
            unfit = _unfit(self.texts[place], self.values[place])
            texts = self._unsaid(place) | self._parts(place) | unfit
            found += [(row, place, text) for row, text in texts.items()]
        shown = [*self.texts_beside, *(shown for _, shown in self.texts_headed)]
        others = zip(shown, [*self.values_beside, *self.values_headed], strict=True)
        for place, (texts_shown, values) in enumerate(others, len(self.texts)):
            found += [(row, place, text) for row, text in _unfit(texts_shown, values).items()]
        found.sort()
        counts = array("i", bytes(4 * len(self.operations)))
        for row, _, _ in found:
            counts[row] += 1
        names = [self.log.all_columns[place].column for _, place, _ in found]
        structs = pa.StructArray.from_arrays(
            [pa.array(names, pa.string()), pa.array([text for _, _, text in found], pa.string())],
            fields=list(MISFIT_TYPE),
        )
        return pa.ListArray.from_arrays(
            pa.array(accumulate(counts, initial=0), pa.int32()), structs
        )

    def _parts(self, place: int) -> dict[int, str]:
        """The changes inside of a column, whose present value is unknown."""
        return {
            start + row: text
            for start, chunk in self._with_starts()
            if chunk.parts is not None
            for row, text in enumerate(chunk.parts[place])
            if text is not None
        }

    def _unsaid(self, place: int) -> dict[int, str]:
        """Placeholders of columns whose values are unknown: in the key, since it has no other
        source; in a row that is new or has a new key, since no row before it is known.
        """
        if not self.layout.key_columns:
            return {}
        spec = self.log.columns[place]
        rows: list[int] = []
        for start, chunk in self._with_starts():
            hidden = None if chunk.unavailable is None else chunk.unavailable[place]
            if hidden is not None:
                rows += compress(range(start, start + chunk.length), hidden)
        if place in self.layout.key_places:
            texts = self.texts[place]
            return {row: UNAVAILABLE for row in rows if not texts[row].is_valid}
        rows = [row for row in rows if self._is_new(row)]
        rows += [row for row, update in self.updates.items() if update["key_before"] is not None]
        return {row: UNAVAILABLE for row in rows if spec.column in self.unchanged[row].as_py()}

    def _is_new(self, row: int) -> bool:
        return self.operations[row] in NEW_ROWS or (
            self.operations[row] == UPDATE and self.previous[row].is_valid
        )


def _plain(values: pa.Array) -> pa.Array:
    """Dates and times as numbers: Python's own have fewer years."""
    if pa.types.is_temporal(values.type):
        return values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    return values


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays(arrays) if arrays else pa.array([], pa.string())


def _texts_and_values(shipped: Sequence[pa.Array], spec: LogColumn) -> tuple[pa.Array, pa.Array]:
    """The texts of a column as shipped, and its values: some chunks have them as such."""
    are_texts = [pa.types.is_string(each.type) for each in shipped]
    if not all(are_texts) and not any(are_texts):
        values = pa.concat_arrays(shipped)
        return values, values
    texts = _joined(list(compress(shipped, are_texts)))
    values = typed_column(_decoded(texts, spec.encoding, spec.type), spec.type)
    if all(are_texts):
        return texts, values
    shown, found, start = [], [], 0
    for each, is_text in zip(shipped, are_texts, strict=True):
        if is_text:
            shown.append(each)
            found.append(values.slice(start, len(each)))
            start += len(each)
        else:
            shown.append(pc.if_else(each.is_valid(), "", None))
            found.append(each)
    return pa.concat_arrays(shown), pa.concat_arrays(found)


def _unfit(texts: pa.Array, values: pa.Array) -> dict[int, str]:
    """Texts that are not values of their column, by row."""
    if texts.null_count == values.null_count:
        return {}
    rows = pc.indices_nonzero(pc.and_(texts.is_valid(), values.is_null()))
    return dict(zip(rows.to_pylist(), texts.take(rows).to_pylist(), strict=True))


def _decoded(texts: pa.Array, encoding: str | None, type: str) -> pa.Array:
    if encoding != "hbase":
        return texts
    return pa.array([decode_hbase(text, type) for text in texts.to_pylist()], pa.string())


def _differ(values: pa.Array, others: pa.Array) -> pa.Array:
    """Whether values differ, treating null and NaN as equal to themselves."""
    if pa.types.is_nested(values.type):
        # Python has no dates and times of all years.
        kind = _without_times(values.type)
        pairs = zip(values.cast(kind).to_pylist(), others.cast(kind).to_pylist(), strict=True)
        return pa.array([value != other for value, other in pairs], pa.bool_())
    differ = pc.not_equal(values, others).fill_null(False)
    if pa.types.is_floating(values.type):
        both = pc.and_(pc.is_nan(values), pc.is_nan(others)).fill_null(False)
        differ = pc.and_not(differ, both)
    return pc.or_(differ, pc.xor(values.is_valid(), others.is_valid()))


def _without_times(kind: pa.DataType) -> pa.DataType:
    """A type with the numbers of dates and times in their places."""
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _without_times(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) else kind
