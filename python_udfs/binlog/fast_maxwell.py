"""The fast path for ``maxwell_json``. A Kafka key is a table's, in either format; others are not
plain. ``fast_path`` does the rest.
"""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from msgspec import UnsetType

from python_udfs.binlog.fast_path import ChangeFormat, Layout, RecordKey, Rows, Shape
from python_udfs.binlog.maxwell import (
    COLUMNS,
    OPERATIONS,
    PK,
    ROWS,
    camel,
    decode,
    milliseconds,
    name_in,
)
from python_udfs.core.events import Decoded
from python_udfs.core.fast_path import FastPath
from python_udfs.text.structs import struct_of

# For types that are created at run time.
_tuple: Any = tuple
_NAMED: Final = ("database", "table")


class _Key(NamedTuple):
    """The form of a Kafka key."""

    names: tuple[str, ...]
    """The names of its parts, in their order."""
    is_array: bool


class MaxwellRows(ChangeFormat):
    """Recognizes Maxwell's rows, and decodes them together."""

    operations: ClassVar = {name: each for name, each in OPERATIONS.items() if each in ROWS}
    constant_names = frozenset({COLUMNS, camel(COLUMNS)})
    needed = frozenset({"ts"})
    without_columns = b'"data":{}'

    def key_shape(self, key: Any) -> _Key | None:
        if type(key) is dict and all(type(key.get(name)) is str for name in _NAMED):
            return _Key(tuple(key), False)
        if type(key) is list and len(key) == 3 and type(key[2]) is list:
            *named, parts = key
            if all(type(name) is str for name in named) and all(
                type(part) is dict and len(part) == 1 for part in parts
            ):
                names = tuple(name for part in parts for name in part)
                return _Key(names, True) if len({*names}) == len(names) else None
        return None

    def key_type(self, shape: Shape) -> Any:
        if shape.key is None:
            return Any
        names, is_array = shape.key
        if is_array:
            parts = tuple(struct_of({name: Any}, False) for name in names)
            return _tuple[str, str, _tuple[parts]]
        return struct_of({name: str if name in _NAMED else Any for name in names}, False)

    def more_types(self, row: Any, old: Any) -> dict[str, Any]:
        return {"data": row, "old": old | UnsetType, "ts": int}

    def record_key(self, shape: Shape) -> RecordKey | None:
        names: dict[str, str] = {}
        if shape.key is not None:
            prefix = "" if shape.key.is_array else PK
            names = {
                name.removeprefix(prefix): name
                for name in shape.key.names
                if name.startswith(prefix)
            }
        is_kafka_key = bool(names)
        if not is_kafka_key:
            constants = dict(shape.constants)
            text = constants.get(COLUMNS, constants.get(camel(COLUMNS), b"null"))
            found = msgspec.json.decode(text)
            if type(found) is list and not all(type(name) is str for name in found):
                raise ValueError("names that are none")
            names = {name: name for name in found} if type(found) is list else {}
        row = dict.fromkeys(shape.columns)
        in_row: dict[str, str] = {}
        for name, part in names.items():
            found_name = name_in(row, name)
            if found_name is None or found_name in in_row:
                raise ValueError("a name of the key that the row has not")
            in_row[found_name] = part
        return RecordKey({n: in_row[n] for n in sorted(in_row)}, is_kafka_key) if in_row else None

    def key_columns(self, layout: Layout, rows: Rows, names: list[str]) -> list[list[Any]]:
        of_key, is_array = layout.shape.key
        places = [of_key.index(name) for name in names]
        if is_array:
            return [[key[2][place].f0 for key in rows.keys] for place in places]
        return [list(map(attrgetter(f"f{place}"), rows.keys)) for place in places]

    def times(self, layout: Layout, rows: Rows) -> Sequence[int | None]:
        return list(map(milliseconds, rows.field(layout.of_message["ts"])))


_FAST_PATH: Final = FastPath(decode, MaxwellRows())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``maxwell_json.decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
