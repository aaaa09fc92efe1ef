"""Rows of cells: the images of the connectors of Cassandra, ScyllaDB and YugabyteDB.

A column is not a value but a cell, an object that contains it. The change doesn't touch a column
without a cell (null), so an image has only some columns:

    YugabyteDB   {"id": {"value": 1, "set": true}, "a": {"value": null, "set": true}, "b": null}
    Cassandra    {"id": {"value": 1, "deletion_ts": null, "set": true}, "a": null,
                  "_range_start": null, "_range_end": null}
    ScyllaDB     {"id": 1, "a": {"value": null}, "b": null}

They become the rows of all other formats: ``id`` is 1, ``a`` is null, and ``b`` is unavailable,
which means unchanged. Sources: the documentation of Debezium's connector for Cassandra and of
YugabyteDB's gRPC connector; ScyllaDB's CDC Source Connector (legacy output format); beyond these,
the source code of all three.

- After a change, a column without a cell, or with one that is not set, is the placeholder of an
  unavailable value. Before it, it is absent, because its value is unknown. A snapshot has whole
  rows: a column without a cell is null.
- For a delete, Cassandra's connector ships the key in ``after``: that is the row before. The cells
  of deleted columns don't have their values.
- An insert (``c``, Cassandra's ``i``) is an ``upsert``: the row may exist, and columns that it does
  not name stay.
- Keys are cells in YugabyteDB's messages (``of_key``); in ScyllaDB's the key's columns in the image
  are plain values, as all columns are in its advanced output format.
- ``metadata.cells`` has the rest of the cells: the ``deletion_ts`` of a cell that expires, in
  microseconds, and cells that are not set. Values stay in the table when their time to live is
  over, because nothing is shipped then.

Changes that a table can't apply are ``bad_type``: Cassandra's deletes of a range of rows (op ``r``,
or ``t`` after Debezium's EnvelopeTransformation), and changes whose key lacks columns: a delete of
a whole partition, an update of its static columns.

Cells are recognised by the connector's name in ``source`` and by the shape of the images. Without a
connector's name, all columns that are not null must be cells with ``set``; other connectors have no
cells, because any table may have a column ``{"value": ..., "set": ...}``. YugabyteDB's connector
for logical replication, a fork of PostgreSQL's, may have PostgreSQL's name: then all columns, and
those of the Kafka key, must be cells of only ``value`` and ``set``. ScyllaDB's cells are recognised
by the name of their schema, which ends in ``.Cell``; without a schema by their shape. If all
columns but the key are null, they are cells, because the legacy format is the default.

All of this applies to Debezium's own formats, with or without an envelope.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from python_udfs.core.errors import BadType
from python_udfs.core.events import UPSERT
from python_udfs.debezium.types import UNAVAILABLE, Schema, plain_placeholders
from python_udfs.text.json_as_sent import load, shown

CASSANDRA: Final = "cassandra"
SCYLLA: Final = "scylla"
CONNECTORS: Final = frozenset({CASSANDRA, SCYLLA, "yugabytedb"})
POSTGRESQL: Final = "postgresql"
"""The name that YugabyteDB's connector, a fork of PostgreSQL's, may have."""
UPSERTING: Final = frozenset({CASSANDRA, SCYLLA})
"""Connectors of databases whose inserts may meet an existing row, whatever the images are."""
MARK: Final = b'"set":'
"""Compact text without it has no cells of unknown connectors."""
NO_DATABASE: Final = "NULL"
"""The database's name from Cassandra's connector, since there are no databases."""

VALUE: Final = "value"
_SET: Final = "set"
_PAIR: Final = frozenset({VALUE, _SET})
_WITH_SET: Final = (_PAIR, _PAIR | {"deletion_ts"})
_RANGE: Final = ("_range_start", "_range_end")
_CELL: Final = ".Cell"


class Form(Enum):
    """How cells are written."""

    WITH_SET = "value and set"
    VALUE_ALONE = "value"


def is_cell(value: Any) -> bool:
    """Whether a value is a cell with ``set``."""
    return type(value) is dict and value.keys() in _WITH_SET and type(value[_SET]) is bool


def has_names(names: Iterable[str]) -> bool:
    """Whether those are the fields of a cell with ``set``."""
    return frozenset(names) in _WITH_SET


def is_named_cell(name: Any) -> bool:
    """Whether a schema's name denotes a cell of ScyllaDB."""
    return type(name) is str and name.endswith(_CELL)


def is_bound(name: str, names: Iterable[str]) -> bool:
    """Whether a field of a row, with parts of these names, is a bound of a range rather than a
    column.
    """
    return name in _RANGE and set(names) == {"method", "values"}


def are_cells(row: Mapping[str, Any]) -> bool:
    """Whether all columns of a row or key that are not null are cells with ``set``."""
    found = [is_cell(value) for name, value in row.items() if value is not None]
    return bool(found) and all(found)


def of_key(columns: Any) -> Any:
    """The columns of a key that may be of cells, as plain values."""
    if type(columns) is dict and are_cells(columns):
        return {name: None if cell is None else cell[VALUE] for name, cell in columns.items()}
    return columns


def are_pairs(columns: Any) -> bool:
    """Whether all columns of a row or key that are not null are cells of value and set alone."""
    return (
        type(columns) is dict
        and are_cells(columns)
        and all(value is None or value.keys() == _PAIR for value in columns.values())
    )


class Cells(NamedTuple):
    """The known facts about the cells of a change."""

    connector: str | None
    form: Form | None
    """The form of the images' cells; None without cells."""
    key: Mapping[str, Any]
    """The columns of the Kafka key, as plain values."""

    def operation_of(self, op: Any, known: str | None) -> str | None:
        """The operation of a change; ``known`` is the one for changes without cells."""
        is_upsert = self.form is not None or self.connector in UPSERTING
        return UPSERT if is_upsert and op in ("c", "i") else known


NONE: Final = Cells(None, None, {})
"""For a change without cells."""


def cells_of(
    connector: Any,
    images: Iterable[Any],
    schemas: Iterable[Schema | None],
    record_key: bytes | None,
    is_key_of_pairs: bool,
) -> Cells:
    """The known facts about the cells of a change, from its source's connector, the images that are
    rows and their schemas, and the Kafka key. ``is_key_of_pairs``: ``are_pairs`` of its columns.
    """
    connector = connector.lower() if type(connector) is str else None
    may_have = connector is None or connector in CONNECTORS
    if not (may_have or (connector == POSTGRESQL and is_key_of_pairs)):
        return NONE
    key = load(record_key) if record_key else {}
    rows = [image for image in images if type(image) is dict]
    return Cells(connector, _form_of(connector, rows, schemas, key), key)


def _form_of(
    connector: str | None,
    images: Sequence[dict[str, Any]],
    schemas: Iterable[Schema | None],
    key: Mapping[str, Any],
) -> Form | None:
    """The form of the images' cells, without a connector or for one that may have them."""
    if connector == POSTGRESQL:
        rows = [image for image in images if image]
        return Form.WITH_SET if rows and all(map(are_pairs, rows)) else None
    values = [
        (name, value)
        for image in images
        for name, value in image.items()
        if value is not None and name not in _RANGE
    ]
    if connector == SCYLLA:
        names = [part.name for each in schemas if each is not None for part in each.fields.values()]
        if names:
            return Form.VALUE_ALONE if any(map(is_named_cell, names)) else None
        others = [value for name, value in values if name not in key]
        if not key:
            others = [value for value in others if type(value) is dict]
        is_legacy = all(type(each) is dict and each.keys() == {VALUE} for each in others)
        return Form.VALUE_ALONE if is_legacy else None
    found = [is_cell(value) for _, value in values]
    if connector in CONNECTORS:
        return Form.WITH_SET if any(found) or not found else None
    return Form.WITH_SET if found and all(found) else None


def refuse_ranges(where: str, op: Any, after: Any, known: Cells) -> None:
    """Raise ``BadType`` for a change of anything but a single row. ``where`` is the path of its
    ``op``.
    """
    has_range = type(after) is dict and any(type(after.get(name)) is dict for name in _RANGE)
    if has_range or (known.connector == CASSANDRA and op in ("r", "t")):
        raise BadType(
            f"{where}: {shown(op)} is a delete of a range of rows in Cassandra, which doesn't"
            " name them: delete them one by one at the source, or fill the table anew"
        )
    lacking = [name for name, value in known.key.items() if value is None]
    if lacking and op != "t":
        raise BadType(
            f"{where}: {shown(op)} is a change of more than one row, for {shown(lacking[0])} of"
            " the key is null: a delete of a whole partition, or an update of its static columns,"
            " names no row"
        )


def plain_placeholders_in(image: Any) -> None:
    """Replace placeholders of unavailable values in the cells of an image by plain ones, in
    place.
    """
    for cell in image.values() if type(image) is dict else ():
        if type(cell) is dict:
            plain_placeholders(cell)


def plain(image: dict[str, Any], known: Cells, op: Any, *, is_after: bool) -> dict[str, Any]:
    """Replace the cells of an image by their values, in place. Returns the cells' other
    information.

    ``is_after``: whether it is the image after the change. By ``op``, a delete's cells without a
    value are of removed columns, and a snapshot's rows are whole; a key's columns are never
    unchanged.
    """
    if known.connector in (CASSANDRA, None):
        # The bounds of a range, which Cassandra's schema has beside the columns.
        for name in _RANGE:
            if name in image and image[name] is None:
                del image[name]
    told: dict[str, Any] = {}
    for name, cell in list(image.items()):
        value, is_said = cell, cell is not None
        if known.form is Form.VALUE_ALONE:
            if type(cell) is dict and cell.keys() == {VALUE} and name not in known.key:
                value = cell[VALUE]
        elif is_cell(cell):
            value, is_said = cell[VALUE], cell[_SET]
            if not is_said:
                told[name] = cell
            elif cell.get("deletion_ts") is not None:
                told[name] = {"deletion_ts": cell["deletion_ts"]}
        if op == "d" and value is None:
            is_said = False
        if is_said or name in known.key or (op == "r" and cell is None):
            image[name] = value
        elif is_after and op != "d":
            image[name] = UNAVAILABLE
        else:
            del image[name]
    return told
