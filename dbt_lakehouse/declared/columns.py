"""The columns that a change log declares: their names, types, masks, and the origin of their
values.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from dbt_common.exceptions import CompilationError

from dbt_lakehouse.texts import did_you_mean
from python_udfs.typed.images import decode_hbase
from python_udfs.typed.masks import MASKS, NULL, has_text, masked_type
from python_udfs.typed.values import MOST_DIGITS, SCALARS, element_type, reader

# The columns of change logs, gold tables and histories, and Iceberg's own.
RESERVED: Final = frozenset(
    """
    _change_ordinal _change_type _changed_columns _commit_snapshot_id _copy _deleted _digest
    _expires_at _file _kafka_timestamp _key_update _last_updated_sequence_number _max_occurred_at
    _misfits _namespace _occurred_at _operation _partition _pos _position _previous_key _row _row_id
    _set _source _spec_id _unchanged_columns
    """.split()
)
_STEPS: Final = "_lh_"
"""The prefix of intermediate columns."""
# Other databases' names of types that Spark calls differently.
_OTHER_NAMES: Final = MappingProxyType(
    {
        "bool": "boolean",
        "byte": "tinyint",
        "short": "smallint",
        "integer": "int",
        "int32": "int",
        "long": "bigint",
        "int64": "bigint",
        "real": "float",
        "double precision": "double",
        "number": "decimal(p,s)",
        "numeric": "decimal(p,s)",
        "char": "string",
        "varchar": "string",
        "text": "string",
        "uuid": "string",
        "json": "string",
        "jsonb": "string",
        "time": "string",
        "datetime": "timestamp",
        "timestamptz": "timestamp",
        "blob": "binary",
        "bytea": "binary",
        "bytes": "binary",
    }
)
_SPEC: Final = frozenset({"type", "name", "encoding", "path", "from", "mask"})
WHOLE_IMAGE: Final = "$"
"""The path of the whole image."""
METADATA: Final = "metadata"
"""The origin of a column that is not in the row: the other data of an event's payload."""
HEADERS: Final = "headers"
"""The origin of a column that is a header of the event's Kafka message."""


def quoted(names: Iterable[str]) -> list[str]:
    """Column names in quotes, since a source's columns can have any name."""
    return [f"`{name.replace('`', '``')}`" for name in names]


def is_reserved(name: str) -> bool:
    """Whether the models have, or may have, a column of that name themselves."""
    return name.lower() in RESERVED or name.lower().startswith(_STEPS)


def column_of(name: str, declared: str | Mapping[str, Any]) -> dict[str, Any]:
    """A column in the form that a declaration keeps, from the model's type or mapping.

    Raises ``CompilationError`` for what can't be declared.
    """
    if "`" in name:
        raise CompilationError(
            f"a column can't be called {name}, because a quote ends its name in SQL: give it"
            " another, and name the image's field"
        )
    if is_reserved(name):
        raise CompilationError(
            f"a column can't be called {name}: the models have their own column of that name. Give"
            ' it another, and say what the image calls it: "other": {"type": ...,'
            f' "name": "{name}"}}'
        )
    spec = {"type": declared} if isinstance(declared, str) else declared
    # A type without quotes is an undefined name, or a number.
    if not isinstance(spec, Mapping) or not isinstance(spec.get("type", ""), str):
        raise CompilationError(
            f'column {name} has a type that is not text: put the type in quotes, "{name}":'
            ' "decimal(12,2)"'
        )
    if "type" not in spec or not spec.keys() <= _SPEC:
        meant = "".join(did_you_mean(each, _SPEC) for each in sorted(spec.keys() - _SPEC)[:1])
        raise CompilationError(
            f"column {name} is declared as {dict(spec)}{meant}: a column is a type, or a mapping of"
            " type, name (the field in the image) or path (address.city), encoding (hbase) and mask"
            " (hash, null, last4); for a value that the source sent beside the row, of type, from"
            " (metadata, headers), path (source.lsn, or the header's name) and mask"
        )
    if "from" in spec:
        return _beside(name, spec)
    type, encoding = spec["type"].lower(), spec.get("encoding")
    if encoding not in (None, "hbase"):
        # Any other would leave the image's base64 in the column.
        raise CompilationError(
            f"column {name} has the encoding {json.dumps(encoding, default=str)}: it is"
            ' "hbase" or left out'
        )
    if not isinstance(spec.get("name", name), str):
        raise CompilationError(
            f"column {name} has a name that is not text: put the image's field in quotes,"
            f' {{"type": "{type}", "name": "{name}"}}'
        )
    found = {
        "column": name,
        "type": type,
        "field": spec.get("name", name),
        "encoding": encoding,
    }
    _refuse_type(name, type, encoding)
    found |= _mask(name, spec)
    return found if "path" not in spec else found | _inside(name, spec)


def _beside(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A column of data that the source gave beside the row, or of a header of the message."""
    origin = spec["from"]
    if origin not in (METADATA, HEADERS) or spec.keys() - {"mask"} != {"type", "from", "path"}:
        raise CompilationError(
            f"column {name} is declared as {dict(spec)}: a value beside the row has"
            f' "from": "{METADATA}", a type and a path, and may have a mask:'
            ' {"type": "bigint", "from": "metadata", "path": "source.lsn"}. A Kafka header has'
            f' "from": "{HEADERS}", and its path is its name: {{"type": "string", "from":'
            ' "headers", "path": "trace_id"}'
        )
    type = spec["type"].lower()
    _refuse_type(name, type, None)
    found = {"column": name, "type": type, "encoding": None, "from": origin}
    return found | _mask(name, spec) | (_header if origin == HEADERS else _inside)(name, spec)


def _header(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the name of a header adds to a column. It is one name, whatever its characters."""
    header = spec["path"]
    if not isinstance(header, str) or not header:
        raise CompilationError(
            f"column {name} is declared as {dict(spec)}: the path of a header is its whole name, a"
            ' text in quotes, {"type": "string", "from": "headers", "path": "trace_id"}'
        )
    return {"field": header, "path": [header]}


def _mask(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a mask adds to a column: its type becomes that of the masked values."""
    if "mask" not in spec:
        return {}
    mask, type = spec["mask"], spec["type"].lower()
    if mask not in MASKS:
        raise CompilationError(
            f"column {name} has the mask {json.dumps(mask, default=str)}: it is"
            ' "hash", "null" (in quotes) or "last4"'
        )
    if mask != NULL and not has_text(type):
        raise CompilationError(
            f'column {name} is {type}, but the mask "{mask}" is only for strings, integers and'
            " decimals: declare the column as string, which keeps the text as it came, or give it"
            ' the mask "null"'
        )
    return {"type": masked_type(mask, type), "mask": mask, "clear": type}


def is_beside(spec: Mapping[str, Any]) -> bool:
    """Whether a declared column is of data that the source gave beside the row, or of a header."""
    return "from" in spec


def is_header(spec: Mapping[str, Any]) -> bool:
    """Whether a declared column is of a header of the event's message."""
    return spec.get("from") == HEADERS


def header_names(log: Mapping[str, Any]) -> list[str]:
    """The names of the headers that a log has columns of."""
    specs: Sequence[Mapping[str, Any]] = log["columns"]
    return list(dict.fromkeys(spec["field"] for spec in specs if is_header(spec)))


def _refuse_type(name: str, type: str, encoding: str | None) -> None:
    try:
        reader(type)
        if encoding == "hbase":
            decode_hbase(None, type)
    except ValueError as error:
        raise CompilationError(f"column {name}: {error}{_type_meant(type)}") from None


def decimal_type(precision: int, scale: int) -> str:
    """decimal(p,s), or string for a precision that Spark lacks. PostgreSQL's ``numeric(3,6)`` has
    fewer digits than its scale needs.
    """
    precision = max(precision, scale)
    if 0 <= scale and 1 <= precision <= MOST_DIGITS:
        return f"decimal({precision},{scale})"
    return "string"


def _type_meant(type: str) -> str:
    """``did_you_mean`` for a type, or for the element type of an array or a map."""
    unknown = element_type(type)
    if unknown in SCALARS:
        return ""
    bare, bracket, digits = unknown.partition("(")
    if bare.strip() in _OTHER_NAMES:
        other = _OTHER_NAMES[bare.strip()]
        if bracket and other == "decimal(p,s)":
            other = f"decimal({digits}"
        return f" (did you mean {other}?)"
    return did_you_mean(unknown, SCALARS)


def _inside(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a path adds to a column: the field that it begins with, and its names."""
    path = spec["path"]
    if "name" in spec or not isinstance(path, str) or not all(path.split(".")):
        raise CompilationError(
            f"column {name} is declared as {dict(spec)}: a path is the names that lead to a value,"
            " with dots between them, like address.city or tags.0; $ is the whole image. A column"
            " has a path or a name, not both"
        )
    if path == WHOLE_IMAGE:
        return {"field": path, "path": []}
    names = path.split(".")
    return {"field": names[0], "path": names}
