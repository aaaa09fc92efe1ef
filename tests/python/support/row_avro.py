"""Row events in Avro: each set of columns that an image can name has a schema of its own, as a
registry has one for each version of a table.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import product
from typing import Any, Final

from python_udfs.debezium.avro import Registered
from support.avro_messages import Writer, avro_schema, avro_value
from support.row_events import Image

_NAMES: Final = ("level", "label", "note", "seen", "new_column", "about")
_KEY: Final = {
    "type": "struct",
    "name": "soak.Key",
    "fields": [{"field": "id", "type": "int64"}],
}
_KEY_ID: Final = 1
# Aerospike's: one for deletes, and one that names every bin, each of the types that it may have.
_DELETE_ID: Final = 2
_WRITE_ID: Final = 3
_METADATA: Final[dict[str, Any]] = {
    **{"namespace": "string", "set": ["null", "string"], "digest": "bytes", "msg": "string"},
    **{"gen": ["null", "int"], "lut": ["null", "long"], "exp": ["null", "int"]},
}
_FIRST: Final = 10

Columns = tuple[tuple[str, str], ...]
"""Names and types, by which a schema is found."""


def framed_key(key: int) -> bytes:
    """The message key of a row."""
    return Writer(_KEY_ID, avro_schema(_KEY)).write({"id": key})


def framed(envelope: Mapping[str, Any]) -> bytes:
    """An envelope with ``before`` and ``after``, of which the image before has no more columns than
    the one after, if there is one.
    """
    number, block = _blocks()["envelope", _columns(envelope["after"] or envelope["before"] or {})]
    return Writer(number, avro_schema(block)).write(avro_value(block, envelope))


def framed_row(row: Mapping[str, Any]) -> bytes:
    """A row without an envelope, with the columns that Debezium adds."""
    number, block = _blocks()["row", _columns(row)]
    return Writer(number, avro_schema(block)).write(avro_value(block, row))


def framed_record(record: Mapping[str, Any]) -> bytes:
    """A record of Aerospike's, by the schema of writes if it has metadata beside its bins."""
    number = _WRITE_ID if "metadata" in record else _DELETE_ID
    return Writer(number, _records()[number]).write(record)


def registered() -> dict[int, Registered]:
    """All schemas, as a registry tells them."""
    blocks = {_KEY_ID: _KEY, **dict(_blocks().values())}
    schemas = {number: avro_schema(block) for number, block in blocks.items()} | _records()
    return {number: Registered("AVRO", (json.dumps(schema),)) for number, schema in schemas.items()}


def _records() -> dict[int, dict[str, Any]]:
    """The schemas of Aerospike's records."""
    bins = {name: ["null", "long", "string", "boolean"] for name in _NAMES}
    of_write = {"metadata": _record("Metadata", _METADATA), **bins}
    return {_DELETE_ID: _record("Delete", _METADATA), _WRITE_ID: _record("Write", of_write)}


def _record(name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    parts = [{"name": each, "type": kind} for each, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "soak", "fields": parts}


def _columns(image: Image) -> Columns:
    kinds = {name: "int64" if name == "new_column" else "string" for name in _NAMES}
    kinds["level"] = "string" if isinstance(image.get("level"), str) else "int64"
    return tuple((name, kinds[name]) for name in _NAMES if name in image)


@cache
def _blocks() -> dict[tuple[str, Columns], tuple[int, dict[str, Any]]]:
    """The number and the schema block of each shape."""
    shapes = [(kind, columns) for kind in ("envelope", "row") for columns in _all_columns()]
    make = {"envelope": _envelope, "row": _row}
    return {
        (kind, columns): (_FIRST + place, make[kind](columns))
        for place, (kind, columns) in enumerate(shapes)
    }


def _all_columns() -> Iterator[Columns]:
    kinds: dict[str, tuple[str | None, ...]] = dict.fromkeys(_NAMES, (None, "string"))
    kinds |= {"level": (None, "int64", "string"), "new_column": (None, "int64")}
    for chosen in product(*kinds.values()):
        yield tuple((name, kind) for name, kind in zip(kinds, chosen, strict=True) if kind)


def _field(name: str, kind: str) -> dict[str, Any]:
    return {"field": name, "type": kind, "optional": True}


def _envelope(columns: Columns) -> dict[str, Any]:
    fields = [*_KEY["fields"], *(_field(*column) for column in columns)]
    image = {"type": "struct", "name": "soak.Value", "optional": True, "fields": fields}
    texts = ("connector", "db", "schema", "table", "query")
    source = [*(_field(name, "string") for name in texts), _field("ts_ms", "int64")]
    parts = [
        {**image, "field": "before"},
        {**image, "field": "after"},
        {"type": "struct", "name": "soak.Source", "field": "source", "fields": source},
        {"field": "op", "type": "string"},
    ]
    return {"type": "struct", "name": "soak.Envelope", "fields": parts}


def _row(columns: Columns) -> dict[str, Any]:
    told = [_field(f"__{name}", "string") for name in ("deleted", "db", "schema", "table", "op")]
    fields = [*_KEY["fields"], *(_field(*column) for column in columns), *told]
    fields.append(_field("__source_ts_ms", "int64"))
    return {"type": "struct", "name": "soak.Value", "fields": fields}
