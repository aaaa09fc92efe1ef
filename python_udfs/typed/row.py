"""A change log's row from one decoded event: the careful path, which defines the result.
``rows.change_rows`` gives the same for many events, by column.

Debezium's placeholder for a value that the source did not log is not a value: the column is
unchanged, and has its value from before the change if the image before contains it.

A column of data beside the row has its value from the event's own metadata, null without one; in
a delete or a truncate too. The rules about images don't apply to it. So it is with a column of the
message's headers.
"""

import re
from collections.abc import Sequence
from hashlib import md5
from typing import Any, Final, NamedTuple

import msgspec

from python_udfs.core.events import DELETE, INSERT, SNAPSHOT, UPDATE, UPSERT
from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.typed.declared import (
    CHANGED,
    FORMER,
    HAS_OTHER_KEY,
    KEY_UPDATE,
    MISFITS,
    PREVIOUS_KEY,
    SOURCE_PLACE,
    UNCHANGED,
    Log,
    LogColumn,
    layout,
)
from python_udfs.typed.headers import text_of
from python_udfs.typed.images import (
    Texts,
    decode_hbase,
    decode_object,
    have_other_key,
    row_texts_of_many,
    texts_inside,
)
from python_udfs.typed.masked import clear, masked_row
from python_udfs.typed.source_places import source_place
from python_udfs.typed.values import Value, typed

_decode_string = msgspec.json.Decoder(str).decode
_UNWRAPPED: Final = re.compile("debezium.unwrapped.")
OLD_KEY, NEW_KEY = b'"old_key":', b'"new_key":'
NEW_ROWS: Final = frozenset({SNAPSHOT, INSERT})
"""Operations before which there is no row to look up."""
_INSERTS: Final = frozenset({INSERT, UPSERT})
NOTING: Final = _INSERTS | {DELETE}
"""Operations of events that may be part of a key update."""


class Change(NamedTuple):
    """The input of a log's row: some of an event's fields, as in ``core.events``."""

    operation: str
    before: bytes | None = None
    after: bytes | None = None
    record_key: bytes | None = None
    metadata: bytes | None = None
    format: str = ""


class Notes(NamedTuple):
    """A header's note on a key update: the key of its other event."""

    old_key: str | None = None
    new_key: str | None = None


def notes_of(operation: str, metadata: bytes | None) -> Notes | None:
    """The note on a key update in an event's metadata; None without one."""
    if metadata is None:
        return None
    if operation in _INSERTS and OLD_KEY in metadata:
        text = in_metadata(metadata, "old_key")
        return None if text is None else Notes(old_key=text)
    if operation == DELETE and NEW_KEY in metadata:
        text = in_metadata(metadata, "new_key")
        return None if text is None else Notes(new_key=text)
    return None


def in_metadata(metadata: bytes | None, name: str) -> str | None:
    """The text of a field of metadata: a string unquoted, everything else as it is; None if it is
    missing.
    """
    raw = b"" if metadata is None else bytes(decode_object(metadata).get(name, b"null"))
    if raw in (b"", b"null"):
        return None
    return _decode_string(raw) if raw.startswith(b'"') else raw.decode()


def key_update(
    change: Change, notes: Notes, key_before: dict[str, Value] | None, unchanged: Sequence[str]
) -> dict[str, Any] | None:
    """The key update in an event: ``id``, which its delete and its insert share, and ``change``
    for the source's change; for the insert, the ``key_before`` of its row, and the ``columns``
    that are unchanged from there. None without useful data.
    """
    if key_before is None and notes.new_key is None:
        return None
    record_key = None if change.record_key is None else change.record_key.decode()
    keys = (
        record_key if notes.old_key is None else notes.old_key,
        record_key if notes.new_key is None else notes.new_key,
    )
    # A null value of the same change lacks what the transform adds to a row.
    source = None if _UNWRAPPED.match(change.format) else in_metadata(change.metadata, "source")
    return {
        "id": _md5(" ".join(key for key in keys if key is not None)),
        "change": None if source is None else _md5(source),
        "key_before": key_before,
        "columns": None if key_before is None else list(unchanged),
    }


def _md5(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


def said(text: str | None) -> str | None:
    """A text, or None where it is the placeholder."""
    return None if text == UNAVAILABLE else text


def change_row(log: Log, change: Change, headers: Sequence[bytes | None] = ()) -> dict[str, Any]:
    """The row of a change, by name, as in ``declared.row_type``; values as in ``typed.values``.
    ``headers`` are the values of the log's header columns; empty if they are not known.

    The images and the record key come from a decoder: text that is not a JSON object raises
    ``msgspec.DecodeError``.
    """
    plain = clear(log)
    row = _clear_row(plain, change, headers)
    return row if plain is log else masked_row(log, row)


def _clear_row(log: Log, change: Change, headers: Sequence[bytes | None]) -> dict[str, Any]:
    """The row of a change of a log without masks."""
    made = layout(log)
    notes = (notes_of(change.operation, change.metadata) if made.key_columns else None) or Notes()
    old_key = None if notes.old_key is None else notes.old_key.encode()
    texts = row_texts_of_many(
        [old_key if change.before is None else change.before],
        [change.after],
        [change.record_key],
        made.all_fields,
        made.all_key_fields,
    )
    before, after, key, parts = (each[0] for each in texts)
    after_names = _names(change.after) if log.partial else frozenset()
    before_names = _names(change.before) if log.partial else frozenset()

    row: dict[str, Any] = {}
    shipped: list[str | None] = []
    for place, spec in enumerate(log.columns):
        if log.partial:
            text = _at(after if spec.field in after_names else before, place)
        else:
            text = _at(before if after is None else after, place)
        is_unavailable = _at(after, place) == UNAVAILABLE
        if spec.column in made.key_columns:
            text = said(text)
            if text is None and is_unavailable and change.before is not None:
                text = said(_at(before, place))
            number = made.key_places.index(place)
            if text is None:
                text = said(_at(key, number))
            name = made.former_names[number]
            if text is None and name is not None:
                text = _at(before if after is None else after, made.all_fields.index(name))
                if text is None:
                    text = _at(key, made.all_key_fields.index(name))
        elif log.key:
            text = said(_at(before, place) if is_unavailable else text)
        shipped.append(text)
        is_binary = spec.encoding == "hbase"
        row[spec.column] = typed(decode_hbase(text, spec.type) if is_binary else text, spec.type)

    row[CHANGED] = None
    if change.before is not None and after is not None:
        row[CHANGED] = [
            spec.column
            for place, spec in enumerate(log.columns)
            if _at(before, place) != after[place]
            and not (log.key and after[place] == UNAVAILABLE)
            and not (log.partial and spec.field not in after_names)
        ]
    unchanged = [
        spec.column
        for place, spec in enumerate(log.columns)
        if spec.column not in made.key_columns
        and (
            (log.key and _at(after, place) == UNAVAILABLE and shipped[place] is None)
            or (
                log.partial
                and change.after is not None
                and spec.field not in after_names | before_names
            )
        )
    ]
    if log.key or log.partial:
        row[UNCHANGED] = unchanged
    previous_key = key_before = None
    if log.key:
        previous_key = _previous_key(log, change, before, row)
        row[PREVIOUS_KEY] = previous_key
    if made.key_columns:
        if notes.old_key is not None:
            key_before = _key_before(log, before)
        row[KEY_UPDATE] = key_update(change, notes, key_before, unchanged)
    row[MISFITS] = []
    for place, spec in enumerate(log.columns):
        text = None
        is_unavailable = _at(after, place) == UNAVAILABLE
        if shipped[place] is not None and row[spec.column] is None:
            text = shipped[place]
        elif _at(parts, place) is not None:
            # Its present value is unknown: in gold it keeps its former one.
            text = _at(parts, place)
        elif spec.column in made.key_columns:
            if shipped[place] is None and (is_unavailable or _at(before, place) == UNAVAILABLE):
                text = UNAVAILABLE
        elif made.key_columns and spec.column in unchanged:
            # A row that is new or has a new key has no known row before it.
            is_new = change.operation in NEW_ROWS or previous_key is not None
            if key_before is not None or (is_unavailable and is_new):
                text = UNAVAILABLE
        if text is not None:
            row[MISFITS].append({"column": spec.column, "text": text})
    told = texts_inside(change.metadata, made.paths)
    for spec, text in zip(log.beside, told, strict=True):
        row[spec.column] = typed(text, spec.type)
        if text is not None and row[spec.column] is None:
            row[MISFITS].append({"column": spec.column, "text": text})
    unknown = [None] * len(log.headed)
    for spec, value in zip(log.headed, headers or unknown, strict=True):
        text, shown = text_of(value)
        row[spec.column] = typed(text, spec.type)
        if shown is not None and row[spec.column] is None:
            row[MISFITS].append({"column": spec.column, "text": shown})
    (row[HAS_OTHER_KEY],) = have_other_key([change.record_key], log.keys)
    if log.former is not None:
        row[FORMER] = {
            "before": {
                log.columns[place].column: _value_before(log.columns[place], _at(before, place))
                for place in made.key_places
            },
            "texts": [shipped[place] for place in made.key_places],
            "hidden": [
                spec.column
                for place, spec in enumerate(log.columns)
                if spec.column in unchanged
                and _at(after, place) == UNAVAILABLE
                and _at(parts, place) is None
            ],
        }
    if log.order_by:
        said_beside = iter(texts_inside(change.metadata, made.place_paths))
        row[SOURCE_PLACE] = source_place(
            [part.form for part in log.order_by],
            [
                next(said_beside) if part.column is None else row[part.column]
                for part in log.order_by
            ],
            is_read=change.operation == SNAPSHOT,
        )
    return row


def _at(texts: Texts, place: int) -> str | None:
    return None if texts is None else texts[place]


def _names(image: bytes | None) -> frozenset[str]:
    return frozenset() if image is None else frozenset(decode_object(image))


def _previous_key(
    log: Log, change: Change, before: Texts, row: dict[str, Any]
) -> dict[str, Value | None] | None:
    """The key that an update has replaced; for a keyless table, the row."""
    if change.operation != UPDATE or (log.keyless and before is None):
        return None
    key: dict[str, Value | None] = {}
    for place in layout(log).key_places:
        spec = log.columns[place]
        text = _at(before, place)
        if log.keyless:
            key[spec.column] = typed(text, spec.type)
            continue
        value = _value_before(spec, text)
        key[spec.column] = row[spec.column] if value is None else value
    if not log.keyless and all(_is_same(value, row[name]) for name, value in key.items()):
        return None
    return key


def _value_before(spec: LogColumn, text: str | None) -> Value | None:
    """A key column's value in the image before the change; None for an encoded one."""
    return None if spec.encoding else typed(said(text), spec.type)


def _is_same(value: Value | None, other: Value | None) -> bool:
    # Spark's NaN is NaN.
    return value == other or (value != value and other != other)


def _key_before(log: Log, before: Texts) -> dict[str, Value] | None:
    """The key that a header names, which is read like an image before; None if it lacks a
    column.
    """
    key = {}
    for place in layout(log).key_places:
        spec: LogColumn = log.columns[place]
        value = typed(said(_at(before, place)), spec.type)
        if value is None:
            return None
        key[spec.column] = value
    return key
