"""The declarations in Connect's schema blocks: the columns of a table, and the Spark type of
each.

JsonConverter ships a block with each message, which stays the same until the table changes, so
each block is read once.
"""

import re
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec

from dbt_lakehouse.declared.columns import decimal_type
from python_udfs.debezium import cells
from python_udfs.debezium.unwrapped import is_added_name


class Declared(NamedTuple):
    """A schema's declaration of a column."""

    source: str
    """For the description: `int64`, `io.debezium.time.MicroTimestamp`."""
    type: str | None
    """The Spark type; None if it follows from the values."""
    lacks_placeholder: bool = False
    """Whether PostgreSQL's connector ships null for a value that the source did not log."""


class _Wrapper(msgspec.Struct):
    """A message's schema block as text, without its payload."""

    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_WRAPPER: Final = msgspec.json.Decoder(_Wrapper)
# A default may exceed all doubles.
_BLOCK: Final = msgspec.json.Decoder(float_hook=float)
_MAX_CACHED: Final = 2048
# MySQL's own names of unsigned 64-bit types, of which a bigint holds only half.
_UNSIGNED_64_BITS: Final = re.compile(r"(BIGINT|INT8) UNSIGNED( ZEROFILL)?(\(.*)?", re.IGNORECASE)

_LOGICAL_TYPES: Final[dict[str, str]] = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "string",
    "org.apache.kafka.connect.data.Timestamp": "timestamp",
    "io.debezium.time.Date": "date",
    "io.debezium.time.Time": "string",
    "io.debezium.time.MicroTime": "string",
    "io.debezium.time.NanoTime": "string",
    "io.debezium.time.Timestamp": "timestamp_ntz",
    "io.debezium.time.MicroTimestamp": "timestamp_ntz",
    "io.debezium.time.NanoTimestamp": "string",
    "io.debezium.time.ZonedTimestamp": "timestamp",
    "io.debezium.time.IsoDate": "date",
    "io.debezium.time.IsoTime": "string",
    "io.debezium.time.IsoTimestamp": "timestamp_ntz",
    "timestamp-micros": "timestamp",
    "timestamp-nanos": "string",
    "io.debezium.time.MicroDuration": "string",
    "io.debezium.time.NanoDuration": "string",
    "io.debezium.data.VariableScaleDecimal": "string",
}
# PostgreSQL's scales are from -1000 to 1000, in eleven bits.
_LEAST_SCALE_OF_11_BITS: Final = 2048 - 1000
# CockroachDB's, whose values are JSON numbers.
_DECIMAL_OF_COCKROACHDB: Final = "decimal"
_DECIMALS: Final = (
    "org.apache.kafka.connect.data.Decimal",
    "io.debezium.data.VariableScaleDecimal",
)
_TIMES: Final = ("io.debezium.time.", "org.apache.kafka.connect.data.")
_DATE_WITH_PLACEHOLDER: Final = "io.debezium.time.Date"
# Of elements; those of bigint, integer, text and bytea have one.
_WITHOUT_PLACEHOLDER: Final = ("int16", "float", "float32", "double", "float64", "boolean", "map")
_PLAIN_TYPES: Final[dict[str, str]] = {
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "bigint",
    "float32": "double",
    "float64": "double",
    "float": "double",
    "double": "double",
    "boolean": "boolean",
    "string": "string",
    "bytes": "binary",
    "struct": "string",
}


def declared_type(block: Any) -> Declared:
    """The declaration in a column's schema block, with the type of the values that
    ``python_udfs.debezium.values`` makes.
    """
    if type(block) is not dict:
        return Declared("", None)
    type_name, name = block.get("type"), block.get("name")
    parameters = block.get("parameters")
    if type(parameters) is not dict:
        parameters = {}
    shown = f"`{type_name}`"
    if type(name) is str:
        shown += f", `{name}`"
    # The connectors' column.propagate.source.type.
    source_type = parameters.get("__debezium.source.column.type")
    if type(source_type) is str:
        shown = f"`{source_type}`, shipped as {shown}"
    spark_type = _type_of_block(type_name, name, block, parameters)
    if type(source_type) is str and _UNSIGNED_64_BITS.fullmatch(source_type):
        # int64, or Decimal without a precision, depending on the connector's
        # bigint.unsigned.handling.mode.
        if spark_type in ("bigint", "decimal(38,0)"):
            spark_type = "decimal(20,0)"
    return Declared(shown, spark_type, _lacks_placeholder(block))


def _lacks_placeholder(block: dict[str, Any]) -> bool:
    """Whether a long value of this type comes as null where an update leaves it as it was, by
    ``docs/wire-formats.md``. A decimal with a precision is never so long that it lies out of line.
    """
    if block.get("type") != "array":
        return block.get("name") == "io.debezium.data.VariableScaleDecimal"
    items = block.get("items")
    if type(items) is not dict:
        return False
    name = items.get("name")
    if type(name) is not str:
        return items.get("type") in _WITHOUT_PLACEHOLDER
    return name in _DECIMALS or (name.startswith(_TIMES) and name != _DATE_WITH_PLACEHOLDER)


def _type_of_block(
    type_name: Any, name: Any, block: dict[str, Any], parameters: dict[str, Any]
) -> str | None:
    if name == "org.apache.kafka.connect.data.Decimal":
        return _type_of_decimal(parameters)
    if type(name) is str and name in _LOGICAL_TYPES:
        return _LOGICAL_TYPES[name]
    if name == _DECIMAL_OF_COCKROACHDB and type_name == "float64":
        precision, scale = (_whole(parameters.get(each)) for each in ("precision", "scale"))
        return None if precision is None or scale is None else decimal_type(precision, scale)
    if type_name == "array":
        return _type_of_parts("array<{}>", block.get("items"))
    if type_name == "map":
        keys = block.get("keys")
        if type(keys) is dict and keys.get("type") == "string":
            return _type_of_parts("map<string,{}>", block.get("values"))
        # Its entries are shipped as pairs.
        return "string"
    return _PLAIN_TYPES.get(type_name) if type(type_name) is str else None


def _type_of_decimal(parameters: dict[str, Any]) -> str | None:
    scale = _whole(parameters.get("scale"))
    precision = _whole(parameters.get("connect.decimal.precision"))
    if scale is None:
        return None
    if _LEAST_SCALE_OF_11_BITS <= scale < 2048:
        # How PostgreSQL's connector reads numeric(5,-2).
        scale -= 2048
    if scale < 0:
        return "string" if precision is None else decimal_type(precision - scale, 0)
    return decimal_type(38 if precision is None else precision, scale)


def _whole(value: Any) -> int | None:
    if type(value) is str and value.lstrip("-").isdecimal() and len(value) < 8:
        return int(value)
    return value if type(value) is int else None


def _type_of_parts(form: str, block: Any) -> str | None:
    if type(block) is not dict or block.get("type") in ("struct", "array", "map"):
        return "string"
    part = declared_type(block).type
    return None if part is None else form.format(part)


class Block:
    """The columns that a message's schema block declares, each in one or more ways. Equal blocks
    are the same object.
    """

    __slots__ = ("columns", "defaults", "is_image")

    def __init__(
        self,
        columns: dict[str, tuple[Declared, ...]],
        is_image: bool,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        self.columns = columns
        self.is_image = is_image
        """False for a key's."""
        self.defaults = defaults or {}
        """The source's defaults of columns that may be null."""


class Holds(Enum):
    """The content that a schema block describes."""

    KEY = "a Kafka key"
    ROW = "a row, and what Debezium's transform has added to it"
    ENVELOPE = "images in an envelope"


_cached: dict[tuple[bytes, Holds], Block] = {}


def block_of(text: bytes | None, holds: Holds) -> Block | None:
    """The schema block of a JsonConverter text, None if it has none."""
    if not text or not text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return None
    try:
        raw = _WRAPPER.decode(text.removeprefix(b"\xef\xbb\xbf")).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A key that is not JSON, or a text that only the decoder's careful path reads.
        return None
    if raw is msgspec.UNSET:
        return None
    schema = bytes(raw)
    block = _cached.get((schema, holds))
    if block is None:
        is_image = holds is not Holds.KEY
        defaults = _defaults(schema, holds) if is_image and b'"default"' in schema else None
        block = Block(_declared_columns(schema, holds), is_image, defaults)
        if len(_cached) >= _MAX_CACHED:
            _cached.clear()
        _cached[schema, holds] = block
    return block if block.columns else None


def _defaults(schema: bytes, holds: Holds) -> dict[str, Any]:
    try:
        whole = _BLOCK.decode(schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    blocks = _image_blocks(whole) if holds is Holds.ENVELOPE else [whole]
    fields = [field for block in blocks for field in _fields(block)]
    return {
        field["field"]: field["default"]
        for field in fields
        if field.get("optional") is True and field.get("default") is not None
    }


def _declared_columns(schema: bytes, holds: Holds) -> dict[str, tuple[Declared, ...]]:
    found: dict[str, tuple[Declared, ...]] = {}
    try:
        whole = _BLOCK.decode(schema)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    for block in _image_blocks(whole) if holds is Holds.ENVELOPE else [whole]:
        for name, field in _columns(block, holds):
            declared = declared_type(field)
            known = found.get(name, ())
            found[name] = known if declared in known else (*known, declared)
    return found


def _image_blocks(schema: Any) -> list[Any]:
    return [field for field in _fields(schema) if field["field"] in ("before", "after")]


def _columns(block: Any, holds: Holds) -> list[tuple[str, Any]]:
    """The columns of a row or a key, by their names; of cells, those of their values."""
    fields = [
        (field["field"], field)
        for field in _fields(block)
        if holds is not Holds.ROW or not is_added_name(field["field"])
    ]
    parts = {name: {each["field"]: each for each in _fields(field)} for name, field in fields}
    own = [name for name, _ in fields if not cells.is_bound(name, parts[name])]
    if own and all(cells.has_names(parts[name]) for name in own):
        return [(name, parts[name][cells.VALUE]) for name in own]
    return [
        (name, parts[name].get(cells.VALUE, field))
        if cells.is_named_cell(field.get("name"))
        else (name, field)
        for name, field in fields
    ]


def _fields(block: Any) -> list[Any]:
    fields = block.get("fields") if type(block) is dict else None
    if type(fields) is not list:
        return []
    return [each for each in fields if type(each) is dict and type(each.get("field")) is str]
