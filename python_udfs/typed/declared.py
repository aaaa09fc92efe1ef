"""The part of a change log's declaration that concerns its rows, and the Arrow types of these."""

from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import pyarrow as pa

from python_udfs.typed.columns import arrow_type
from python_udfs.typed.images import Field, Path

CHANGED: Final = "_changed_columns"
UNCHANGED: Final = "_unchanged_columns"
PREVIOUS_KEY: Final = "_previous_key"
KEY_UPDATE: Final = "_key_update"
MISFITS: Final = "_misfits"
HAS_OTHER_KEY: Final = "_lh_has_other_key"
FORMER: Final = "_lh_former"
SOURCE_PLACE: Final = "_lh_source_place"

NAMES: Final = pa.list_(pa.string())
MISFIT_TYPE: Final = pa.struct([("column", pa.string()), ("text", pa.string())])


class LogColumn(msgspec.Struct, frozen=True):
    """A column of a change log."""

    column: str
    type: str
    """A Spark SQL type in lower case, as of ``typed.values``."""
    field: str
    """The field in the images that it is, or is inside of."""
    path: tuple[str, ...] | None = None
    """The path inside of images; empty for the whole image, None for the field itself. For data
    beside the row, the path in metadata; for a header, its name.
    """
    encoding: str | None = None
    """``hbase`` for base64 of HBase's binary values."""
    mask: str | None = None
    """The mask of its values, see ``typed.masks``; ``type`` is then that of masked values."""
    clear: str | None = None
    """The type of its values before masking."""


class PlacePart(msgspec.Struct, frozen=True):
    """A part of an event's place in its source's own order (``typed.source_places``)."""

    form: str
    column: str | None = None
    """The column of the log that has it, if any."""
    path: tuple[str, ...] | None = None
    """Its path in metadata, if no column has it."""


class Log(msgspec.Struct, frozen=True):
    """A change log. ``dbt_lakehouse.declared.declarations.rows_of`` makes one from what a model's
    meta keeps of its declaration.
    """

    columns: tuple[LogColumn, ...]
    """The columns of the row, in the images. The key's come first."""
    key: tuple[str, ...] = ()
    """The names of the key columns; for a keyless table those of all columns, for a log whose key
    is none of its columns (Aerospike's) empty. Never one of ``beside``.
    """
    keyless: bool = False
    partial: bool = False
    """Whether images have only some of the columns: the others are unchanged."""
    keys: tuple[tuple[str, ...], ...] = ()
    """The names that record keys may have, each a set of them; empty for any."""
    former: tuple[tuple[str, str], ...] | None = None
    """If events with other keys come before all others: the former names of key fields in those,
    by their names. None if there are no such events.
    """
    beside: tuple[LogColumn, ...] = ()
    """Columns of data that the source gave beside the row (a position in its log, a transaction),
    by their paths in metadata. Their values are each event's own, whatever its images contain:
    they are never among the changed or unchanged columns.
    """
    headed: tuple[LogColumn, ...] = ()
    """Columns of the message's Kafka headers, each with a header's name as its field. They follow
    the rules of ``beside``.
    """
    order_by: tuple[PlacePart, ...] = ()
    """The source's own order; empty where Kafka's log decides."""
    texts: tuple[str, ...] = ()
    """The fields of its events, beside ``events.HEAD_FIELDS``' own, that its statement needs: a
    condition of its author's on their images, for one. ``record_key`` and ``metadata`` are texts
    of all of its events if they are named here.
    """

    @property
    def all_columns(self) -> tuple[LogColumn, ...]:
        """The columns of the row, those beside it, and those of headers."""
        return self.columns + self.beside + self.headed


class Layout(NamedTuple):
    """Precomputed parts of a log's rows."""

    fields: tuple[Field, ...]
    """The field of each column."""
    plain_fields: tuple[str, ...]
    """The fields, without paths."""
    key_columns: tuple[str, ...]
    """The key columns, if the log's key identifies the row of a change."""
    key_places: tuple[int, ...]
    """The indexes of the log's key among its columns; for a keyless table, of all."""
    key_fields: tuple[str, ...]
    """The names of key columns in record keys."""
    all_fields: tuple[Field, ...]
    """``fields``, and the former names of key fields in events with other keys."""
    all_key_fields: tuple[str, ...]
    """``key_fields``, and the former names."""
    former_names: tuple[str | None, ...]
    """The former name of each key column."""
    paths: tuple[Path, ...]
    """The path in metadata of each column beside the row."""
    place_paths: tuple[Path, ...]
    """The paths in metadata of the parts of places that no column has."""
    types: tuple[pa.DataType, ...]
    """The types of all columns."""
    key_type: pa.StructType
    update_type: pa.StructType
    former_type: pa.StructType


@lru_cache(256)
def layout(log: Log) -> Layout:
    """The layout of a log. Raises ``ValueError`` for a type that its columns can't have."""
    fields = tuple(each.field if each.path is None else each.path for each in log.columns)
    key_columns = () if log.keyless else log.key
    key_places = tuple(place for place, each in enumerate(log.columns) if each.column in log.key)
    key_type = pa.struct(
        [(log.columns[place].column, arrow_type(log.columns[place].type)) for place in key_places]
    )
    key_fields = tuple(log.columns[place].field for place in key_places if key_columns)
    former = dict(log.former or ())
    names = tuple(former.values())
    return Layout(
        fields=fields,
        plain_fields=tuple(each for each in fields if isinstance(each, str)),
        key_columns=key_columns,
        key_places=key_places,
        key_fields=key_fields,
        all_fields=fields + tuple(name for name in dict.fromkeys(names) if name not in fields),
        all_key_fields=tuple(dict.fromkeys(key_fields + names)),
        former_names=tuple(map(former.get, key_fields)),
        paths=tuple(each.path or () for each in log.beside),
        place_paths=tuple(each.path for each in log.order_by if each.path is not None),
        types=tuple(arrow_type(each.type) for each in log.all_columns),
        key_type=key_type,
        update_type=pa.struct(
            [
                ("id", pa.string()),
                ("change", pa.string()),
                ("key_before", key_type),
                ("columns", NAMES),
            ]
        ),
        former_type=pa.struct([("before", key_type), ("texts", NAMES), ("hidden", NAMES)]),
    )


@lru_cache(256)
def row_type(log: Log) -> pa.StructType:
    """The Arrow type of a log's rows: its columns by name, those of headers last, and

    _changed_columns    list<string>; null where one of the images was not shipped
    _unchanged_columns  list<string>, of logs with a key or partial images
    _previous_key       struct of the key columns, of logs with a key or keyless
    _key_update         struct<id, change, key_before, columns>, of logs with a key
    _misfits            list<struct<column, text>>
    _has_other_key      boolean, whether the record key is of other columns than it may be
    _former             where events with other keys come before all others, what tells of their
                        rows: struct<before, the key columns in the image before the change; texts,
                        of the key columns as they were shipped; hidden, the columns that have a
                        placeholder and no value>
    _source_place       string, the place that the source says, of logs that are ordered by it
    """
    made = layout(log)
    fields = [(each.column, kind) for each, kind in zip(log.all_columns, made.types, strict=True)]
    fields.append((CHANGED, NAMES))
    if log.key or log.partial:
        fields.append((UNCHANGED, NAMES))
    if log.key:
        fields.append((PREVIOUS_KEY, made.key_type))
    if made.key_columns:
        fields.append((KEY_UPDATE, made.update_type))
    fields += [(MISFITS, pa.list_(MISFIT_TYPE)), (HAS_OTHER_KEY, pa.bool_())]
    if log.former is not None:
        fields.append((FORMER, made.former_type))
    if log.order_by:
        fields.append((SOURCE_PLACE, pa.string()))
    return pa.struct(fields)
