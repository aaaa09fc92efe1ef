"""Take decoded events apart: the texts of a change log's columns, and which of them have changed,
for the part of a batch whose Python objects stay in a processor's cache.

A chunk takes the fast path if nothing in it is rare: no placeholder, no partial image, no key
update, no key that only the message has. All others take the careful path, also by columns.
"""

from collections.abc import Iterable, Sequence
from itertools import compress, repeat
from operator import and_, ne, not_, or_
from typing import Any, NamedTuple

import pyarrow as pa

from python_udfs.core.events import UPDATE
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.typed.batches import Batch, Changes, Image, TextBatch
from python_udfs.typed.declared import Layout, Log
from python_udfs.typed.images import (
    FieldColumn,
    Texts,
    field_columns,
    have_other_key,
    row_texts_of_many,
)
from python_udfs.typed.names import Names, named_fields
from python_udfs.typed.row import Change, Notes, notes_of, said
from python_udfs.typed.shipped import shipped_array

Column = Sequence[str | None]


class Chunk(NamedTuple):
    """Events taken apart. None means nothing for all of them."""

    length: int
    shipped: list[pa.Array]
    """For each column, its texts from the images that have them; or its values, if they came as
    such.
    """
    changed: Sequence[int | None]
    """The numbers of lists of names."""
    has_other_key: Sequence[bool]
    unchanged: Sequence[int] | None = None
    previous: list[Column] | None = None
    """For each column of the key, its text before."""
    has_row_before: Sequence[bool] | None = None
    """Whether there is an image before, for a keyless table."""
    unavailable: list[Sequence[bool] | None] | None = None
    """For each column, whether it is the placeholder: after, or of the key before."""
    parts: list[Column] | None = None
    updates: dict[int, tuple[Change, Notes]] | None = None


def taken_apart(log: Log, made: Layout, batch: Batch, names: Names) -> Chunk:
    """Events, with the numbers of lists of their columns' names.

    Raises ``msgspec.DecodeError`` for an image or a key that is not a JSON object.
    """
    chunk = None if log.former is not None else _fast_path(log, made, batch, names)
    return chunk or _long_way(log, made, batch.changes, names)


# --- The fast path --------------------------------------------------------------------------------


def _fast_path(log: Log, made: Layout, batch: Batch, names: Names) -> Chunk | None:
    """Events without anything rare; None if something is."""
    if made.key_columns and batch.may_be_of_key_updates():
        return None
    if log.keyless and any(batch.has_before) and UPDATE in batch.operation:
        return None
    columns = batch.rows(made)
    length = len(batch.operation)
    if columns is not None and len(columns[0].values) < length:
        columns = _with_keys(made, batch, columns)
    if columns is None:
        return None
    if made.key_columns and any(
        None in columns[place].values or UNAVAILABLE in columns[place].values
        for place in made.key_places
    ):
        return None
    columns_before: list[FieldColumn] | None = None
    both: list[bool] = list(map(and_, batch.has_before, batch.has_after))
    if any(both):
        if log.partial:
            # Each of the two images may contain what the other lacks.
            return None
        columns_before = batch.earlier(made)
        if columns_before is None:
            return None
    hidden = _hidden(columns, batch.has_after) if log.key and batch.may_hide() else {}
    unsaid = _unnamed(log, made, columns, batch) if log.partial else {}
    shipped = []
    for place, (column, spec) in enumerate(zip(columns, log.columns, strict=True)):
        if place in hidden:
            was = _expanded(columns_before[place].texts(), both) if columns_before else None
            texts = _without_hidden(column.values, hidden[place], was)
            is_unsaid = bytes(
                is_hidden and text is None
                for is_hidden, text in zip(hidden[place], texts, strict=True)
            )
            unsaid[place] = bytes(map(or_, is_unsaid, unsaid.get(place, bytes(length))))
            column = FieldColumn(texts)
        shipped.append(shipped_array(column, spec))
    changed: Sequence[int | None] = [None] * length
    if columns_before is not None:
        masks = [
            _differing(before, now, both)
            for before, now in zip(columns_before, columns, strict=True)
        ]
        if any(1 in masks[place] for place in made.key_places if made.key_columns):
            return None
        for place, mask in hidden.items():
            masks[place] = _and_not(masks[place], compress(mask, both))
        numbers = map(names.__getitem__, zip(*masks, strict=True))
        changed = [next(numbers) if each else None for each in both]
    chunk = Chunk(length, shipped, changed, batch.have_other_key(log.keys))
    if not unsaid:
        return chunk
    none = bytes(length)
    patterns = zip(*(unsaid.get(place, none) for place in range(len(columns))), strict=True)
    return chunk._replace(
        unchanged=list(map(names.__getitem__, patterns)),
        unavailable=[hidden.get(place) for place in range(len(columns))],
    )


def _with_keys(made: Layout, batch: Batch, columns: list[FieldColumn]) -> list[FieldColumn] | None:
    """The columns of all rows, from those with an image; for the others, the message has
    the key.
    """
    is_there = list(map(or_, batch.has_before, batch.has_after))
    columns = [FieldColumn(_expanded(each.values, is_there), each.kind) for each in columns]
    if not made.key_columns:
        return columns
    others = compress(batch.record_keys, map(not_, is_there))
    keys = [record_key for record_key in others if record_key is not None]
    if len(keys) < is_there.count(False):
        return None
    key = field_columns(keys, made.key_fields, made.key_fields)
    if key is None:
        return None
    for place, own in zip(made.key_places, key, strict=True):
        column, kind = columns[place], columns[place].kind
        if own.kind is not kind:
            column, own, kind = FieldColumn(column.texts()), FieldColumn(own.texts()), str
        left = iter(own.values)
        columns[place] = FieldColumn(
            [
                value if each else next(left)
                for value, each in zip(column.values, is_there, strict=True)
            ],
            kind,
        )
    return columns


def _unnamed(log: Log, made: Layout, columns: list[FieldColumn], batch: Batch) -> dict[int, bytes]:
    """Where partial images lack a column, by its place; key columns excluded."""
    places = [
        place
        for place, spec in enumerate(log.columns)
        # A column with a value is named.
        if spec.column not in made.key_columns and None in columns[place].values
    ]
    found = {}
    for place, is_named in zip(places, batch.named(log, places), strict=True):
        if not all(is_named):
            found[place] = bytes(
                after and not each for after, each in zip(batch.has_after, is_named, strict=True)
            )
    return found


def _hidden(columns: list[FieldColumn], has_after: Sequence[bool]) -> dict[int, list[bool]]:
    """Where a column is the placeholder after a change, by its place."""
    return {
        place: [
            text == UNAVAILABLE and after
            for text, after in zip(column.values, has_after, strict=True)
        ]
        for place, column in enumerate(columns)
        if column.kind is str and UNAVAILABLE in column.values
    }


def _without_hidden(texts: Column, hidden: list[bool], was: Column | None) -> Column:
    """Texts, with placeholders replaced by the texts of the image before."""
    if was is None:
        return list(map(said, texts))
    return [
        said(before if is_hidden else text)
        for text, is_hidden, before in zip(texts, hidden, was, strict=True)
    ]


def _expanded(values: Sequence[Any], there: list[bool]) -> list[Any]:
    """Values at their places; None at all others."""
    left = iter(values)
    return [next(left) if each else None for each in there]


def _differing(before: FieldColumn, now: FieldColumn, both: list[bool]) -> bytes:
    """Whether values differ, where there are both. Except for texts, integers and booleans, their
    texts are compared: one zero from another, and 1 from 1.0 in a list.
    """
    if before.kind is now.kind and now.kind in (str, int, bool):
        return bytes(map(ne, before.values, compress(now.values, both)))
    return bytes(map(ne, before.texts(), compress(now.texts(), both)))


# --- The careful path -----------------------------------------------------------------------------


def _long_way(log: Log, made: Layout, changes: Changes, names: Names) -> Chunk:
    """Any events."""
    length = len(changes.operation)
    updates = _updates(changes) if made.key_columns else {}
    befores = list(changes.before)
    for place, (_, notes) in updates.items():
        if befores[place] is None and notes.old_key is not None:
            befores[place] = notes.old_key.encode()
    texts = row_texts_of_many(
        befores,
        changes.after,
        changes.record_key,
        made.all_fields,
        made.all_key_fields,
    )
    width = len(made.all_fields)
    before, after, parts = (_columns(rows, width) for rows in (texts[0], texts[1], texts[3]))
    key = _columns(texts[2], len(made.all_key_fields))
    has_after = [row is not None for row in texts[1]]
    both = [
        image is not None and is_there
        for image, is_there in zip(changes.before, has_after, strict=True)
    ]
    all_fields = [spec.field for spec in log.columns]
    named = named_fields(changes.after, all_fields) if log.partial else None
    named_before = named_fields(changes.before, all_fields) if log.partial else None

    any_both = any(both)

    shipped: list[Column] = []
    unavailable: list[Sequence[bool] | None] = []
    changed_masks, unchanged_masks = [], []
    none = bytes(length)
    for place, spec in enumerate(log.columns):
        says = has_after if named is None else named[spec.field]
        now, was = after[place], before[place]
        column: Column = now if all(says) else _chosen(says, now, was)
        hidden = [text == UNAVAILABLE for text in now] if UNAVAILABLE in now else None
        is_key = spec.column in made.key_columns
        if is_key:
            number = made.key_places.index(place)
            column = _of_key(column, was, key[number], hidden, changes.before)
            name = made.former_names[number]
            if name is not None:
                other = made.all_fields.index(name)
                column = _first(
                    column,
                    _chosen(has_after, after[other], before[other]),
                    key[made.all_key_fields.index(name)],
                )
        elif log.key and hidden is not None:
            column = [
                said(b) if is_hidden else said(text)
                for is_hidden, b, text in zip(hidden, was, column, strict=True)
            ]
        elif log.key and UNAVAILABLE in column:
            column = list(map(said, column))
        shipped.append(column)
        differs = bytes(map(ne, was, now)) if any_both else none
        unsaid = none
        if log.key and hidden is not None:
            differs = _and_not(differs, hidden)
            if not is_key:
                unsaid = bytes(
                    is_hidden and text is None
                    for is_hidden, text in zip(hidden, column, strict=True)
                )
        if named is not None and named_before is not None and not all(says):
            if any_both:
                differs = bytes(map(min, differs, says))
            if not is_key:
                unsaid = bytes(
                    is_unsaid or (image is not None and not here and not there)
                    for is_unsaid, image, here, there in zip(
                        unsaid, changes.after, says, named_before[spec.field], strict=True
                    )
                )
        changed_masks.append(differs)
        unchanged_masks.append(unsaid)
        if is_key and UNAVAILABLE in was:
            hidden = [a == UNAVAILABLE or b == UNAVAILABLE for a, b in zip(now, was, strict=True)]
        unavailable.append(hidden)
    changed = map(names.__getitem__, _patterns(changed_masks, length))
    return Chunk(
        length,
        _arrays(shipped),
        [number if each else None for number, each in zip(changed, both, strict=True)],
        have_other_key(changes.record_key, log.keys),
        unchanged=list(map(names.__getitem__, _patterns(unchanged_masks, length))),
        previous=[before[place] for place in made.key_places],
        has_row_before=[row is not None for row in texts[0]],
        unavailable=unavailable,
        parts=None if texts[3].count(None) == length else parts,
        updates=updates,
    )


def _patterns(masks: list[bytes], length: int) -> Iterable[tuple[int, ...]]:
    """For each event, the columns that a mask chooses. A log may have no columns of the row."""
    return zip(*masks, strict=True) if masks else repeat((), length)


def _arrays(columns: list[Column]) -> list[pa.Array]:
    return [pa.array(column, pa.string()) for column in columns]


def _updates(changes: Changes) -> dict[int, tuple[Change, Notes]]:
    """The notes on key updates in events, by their places."""
    if not TextBatch(changes).may_be_of_key_updates():
        return {}
    found = {}
    for place, values in enumerate(zip(*changes, strict=True)):
        change = Change(*values)
        notes = notes_of(change.operation, change.metadata)
        if notes is not None:
            found[place] = change, notes
    return found


def _columns(rows: list[Texts], width: int) -> list[Column]:
    if not rows or not width:
        return [()] * width
    nothing = (None,) * width
    return list(zip(*(nothing if row is None else row for row in rows), strict=True))


def _of_key(
    column: Column, was: Column, key: Column, hidden: list[bool] | None, images: Sequence[Image]
) -> Column:
    """A key column's texts; where the row lacks them, those of the record key."""
    if hidden is None and None not in column and UNAVAILABLE not in column:
        return column
    found = []
    for place, text in enumerate(map(said, column)):
        if text is None and hidden is not None and hidden[place] and images[place] is not None:
            text = said(was[place])
        found.append(said(key[place]) if text is None else text)
    return found


def _first(*columns: Column) -> Column:
    """For each place, the first text that exists."""
    return [
        next((text for text in texts if text is not None), None)
        for texts in zip(*columns, strict=True)
    ]


def _chosen(says: Sequence[bool], texts: Column, others: Column) -> Column:
    return [
        text if is_said else other for is_said, text, other in zip(says, texts, others, strict=True)
    ]


def _and_not(mask: bytes, other: Iterable[int]) -> bytes:
    return bytes(a and not b for a, b in zip(mask, other, strict=True))
