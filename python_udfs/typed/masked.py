"""Rows of change logs with masks, single or many.

A row is first made from clear values, so that the changed columns and the former key are the same
as without a mask. Then every place with a value of a masked column gets its mask: the column, the
keys before, and the texts of misfits.
"""

from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from python_udfs.debezium.types import UNAVAILABLE
from python_udfs.typed.declared import (
    FORMER,
    KEY_UPDATE,
    MISFIT_TYPE,
    MISFITS,
    PREVIOUS_KEY,
    Log,
    LogColumn,
    layout,
    row_type,
)
from python_udfs.typed.masks import HASH, MASKED, NULL, masked


def clear(log: Log) -> Log:
    """The log without masks: itself, if it has none."""
    # Outside of the cache, which would return an equal log of an earlier task.
    if all(each.mask is None for each in log.all_columns):
        return log
    return _clear(log)


@lru_cache(256)
def _clear(log: Log) -> Log:
    return msgspec.structs.replace(
        log,
        columns=tuple(map(_clear_column, log.columns)),
        beside=tuple(map(_clear_column, log.beside)),
        headed=tuple(map(_clear_column, log.headed)),
    )


def _clear_column(spec: LogColumn) -> LogColumn:
    if spec.mask is None:
        return spec
    return msgspec.structs.replace(spec, type=spec.clear or spec.type, mask=None, clear=None)


def has_hash(log: Log) -> bool:
    """Whether the rows of a log need the mask key."""
    return any(each.mask == HASH for each in log.all_columns)


# --- One row --------------------------------------------------------------------------------------


def masked_row(log: Log, row: dict[str, Any]) -> dict[str, Any]:
    """A row of ``clear(log)``, as ``row.change_row`` gives it, masked."""
    masks = _masks(log)
    found = {name: masked(value, masks.get(name)) for name, value in row.items()}
    if row.get(PREVIOUS_KEY) is not None:
        found[PREVIOUS_KEY] = _masked_key(masks, row[PREVIOUS_KEY])
    update = row.get(KEY_UPDATE)
    if update is not None:
        of_id, of_change = _digest_masks(log)
        found[KEY_UPDATE] = update | {
            "id": MASKED if of_id == NULL else masked(update["id"], of_id),
            "change": masked(update["change"], of_change),
            "key_before": _masked_key(masks, update["key_before"]),
        }
    found[MISFITS] = [
        each | {"text": _told(each["text"])} if each["column"] in masks else each
        for each in row[MISFITS]
    ]
    if row.get(FORMER) is not None:
        found[FORMER] = _masked_former(log, row[FORMER])
    return found


def _masks(log: Log) -> dict[str, str]:
    return {each.column: each.mask for each in log.all_columns if each.mask is not None}


def _masked_key(masks: dict[str, str], key: dict[str, Any] | None) -> dict[str, Any] | None:
    if key is None:
        return None
    return {name: masked(value, masks.get(name)) for name, value in key.items()}


def _digest_masks(log: Log) -> tuple[str | None, str | None]:
    """The masks of a key update's ``id`` and ``change``, plain digests by which values could be
    guessed and verified: ``id`` is of the keys of both messages, which may contain masked columns
    outside of the log's key, and ``change`` of everything that the source gave beside the row.
    """
    if has_hash(log):
        return HASH, HASH
    names = {name for each in log.keys for name in each}
    in_keys = any(each.mask and (not names or each.field in names) for each in log.columns)
    # Headers that the source adds are also in metadata.
    is_beside = any(each.mask for each in log.beside + log.headed)
    # The old key, and the change, then identify its delete and its insert.
    return NULL if in_keys else None, NULL if is_beside else None


def _told(text: str) -> str:
    return text if text == UNAVAILABLE else MASKED


def _masked_former(log: Log, former: dict[str, Any]) -> dict[str, Any]:
    return former | {
        "before": _masked_key(_masks(log), former["before"]),
        "texts": _masked_texts(log, former["texts"]),
    }


def _masked_texts(log: Log, texts: list[str | None]) -> list[str | None]:
    """The texts of key columns."""
    specs = [log.columns[place] for place in layout(log).key_places]
    return [
        text if text is None or spec.mask is None else _told(text)
        for spec, text in zip(specs, texts, strict=True)
    ]


# --- Many rows ------------------------------------------------------------------------------------


def masked_rows(log: Log, rows: pa.StructArray) -> pa.StructArray:
    """Rows of ``clear(log)``, as ``rows.change_rows`` gives them, masked."""
    wanted, masks = row_type(log), _masks(log)
    found = {field.name: rows.field(field.name) for field in wanted}
    for spec in log.all_columns:
        found[spec.column] = _masked_column(found[spec.column], spec.mask)
    if PREVIOUS_KEY in found:
        found[PREVIOUS_KEY] = _masked_keys(masks, found[PREVIOUS_KEY])
    if KEY_UPDATE in found:
        found[KEY_UPDATE] = _masked_updates(log, masks, found[KEY_UPDATE])
    found[MISFITS] = _masked_misfits(masks, found[MISFITS])
    if FORMER in found:
        texts = [_masked_texts(log, each) for each in found[FORMER].field("texts").to_pylist()]
        before = _masked_keys(masks, found[FORMER].field("before"))
        kind = wanted.field(FORMER).type
        found[FORMER] = pa.StructArray.from_arrays(
            [before, pa.array(texts, kind.field("texts").type), found[FORMER].field("hidden")],
            fields=list(kind),
        )
    return pa.StructArray.from_arrays([found[each.name] for each in wanted], fields=list(wanted))


def _masked_column(values: pa.Array, mask: str | None) -> pa.Array:
    if mask is None:
        return values
    if mask == NULL:
        return pa.nulls(len(values), values.type)
    return pa.array([masked(value, mask) for value in values.to_pylist()], pa.string())


def _masked_keys(masks: dict[str, str], keys: pa.StructArray) -> pa.StructArray:
    names = [field.name for field in keys.type]
    columns = [_masked_column(keys.field(name), masks.get(name)) for name in names]
    return pa.StructArray.from_arrays(columns, names=names, mask=keys.is_null())


def _masked_updates(log: Log, masks: dict[str, str], updates: pa.StructArray) -> pa.StructArray:
    kind = layout(log).update_type
    of_id, of_change = _digest_masks(log)
    ids = _masked_column(updates.field("id"), of_id)
    if of_id == NULL:
        ids = pc.if_else(updates.is_null(), pa.scalar(None, pa.string()), MASKED)
    changes = _masked_column(updates.field("change"), of_change)
    before = _masked_keys(masks, updates.field("key_before"))
    columns = [ids, changes, before, updates.field("columns")]
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=updates.is_null())


def _masked_misfits(masks: dict[str, str], misfits: pa.ListArray) -> pa.ListArray:
    columns, texts = misfits.values.field("column"), misfits.values.field("text")
    is_hidden = pc.and_(
        pc.is_in(columns, pa.array(list(masks), pa.string())), pc.not_equal(texts, UNAVAILABLE)
    )
    told = pa.StructArray.from_arrays(
        [columns, pc.if_else(is_hidden, MASKED, texts)], fields=list(MISFIT_TYPE)
    )
    return pa.ListArray.from_arrays(misfits.offsets, told)
