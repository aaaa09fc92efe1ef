"""The fast path for ``canal_json``: messages of one row whose types are the same, whose values
are all text, and whose numbers are numbers. ``fast_path`` does the rest.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from python_udfs.binlog.canal import (
    BYTES,
    NUMBER,
    ONLY_KEY,
    OPERATIONS,
    ROWS,
    Kind,
    key_names,
    kinds_of,
    names_in,
)
from python_udfs.binlog.canal import decode as decode
from python_udfs.binlog.fast_path import ChangeFormat, Convert, Layout, RecordKey, Rows, Shape
from python_udfs.binlog.labels import Labels
from python_udfs.core.errors import DecodeError
from python_udfs.core.events import MAX_TIME_MS, Decoded
from python_udfs.core.fast_path import FastPath

_MYSQL_TYPE: Final = "mysqlType"
_TIDB: Final = "_tidb"
_NUMBERS: Final = re.compile(rf"(?:{NUMBER.pattern}\n)*+", re.ASCII)

_load = msgspec.json.Decoder(Any).decode
# For types that are created at run time.
_tuple: Any = tuple


class CanalRows(ChangeFormat):
    """Recognizes Canal's rows, and decodes them together."""

    operations: ClassVar = {name: each for name, each in OPERATIONS.items() if each in ROWS}
    required = str | None
    optional = str | None | UnsetType
    constant_names = frozenset({_MYSQL_TYPE, "sqlType", "pkNames"})
    without_columns = b'"data":[{}]'

    def row_of(self, data: Any) -> Any:
        return data if data is UNSET or data is None else data[0]

    def layout(self, names: tuple[bytes, ...], shape: Shape) -> Layout:
        layout = super().layout(names, shape)
        try:
            kinds = kinds_of({name: _load(text) for name, text in shape.constants})
        except DecodeError as error:
            raise ValueError(error) from None
        layout.converters = [
            (attribute, _converter(kinds[name]))
            for name, attribute in layout.of_row.items()
            if name in kinds
        ]
        return layout

    def key_shape(self, key: Any) -> Any:
        return True

    def key_type(self, shape: Shape) -> Any:
        return Any

    def more_types(self, row: Any, old: Any) -> dict[str, Any]:
        return {
            "data": _tuple[row],
            "old": _tuple[old] | None | UnsetType,
            "es": int | None | UnsetType,
        }

    def record_key(self, shape: Shape) -> RecordKey | None:
        text = dict(shape.constants).get("pkNames", b"null")
        try:
            names = key_names({"pkNames": _load(text)})
        except DecodeError as error:
            raise ValueError(error) from None
        row: dict[str, Any] = dict.fromkeys(shape.columns)
        in_row = names if names <= row.keys() else names_in(row, names)
        if not in_row <= row.keys():
            raise ValueError("a name of the key that the row has not")
        return RecordKey({name: name for name in sorted(in_row)}, False) if in_row else None

    def key_columns(self, layout: Layout, rows: Rows, names: list[str]) -> list[list[Any]]:
        raise AssertionError("the keys of Canal's rows are columns of theirs")

    def is_same(self, name: str, sent: bytes, known: bytes) -> bool:
        # TiCDC has types in any order. With the same parts no name is duplicate, and no number is
        # written differently.
        if name != _MYSQL_TYPE or _parts(sent) != _parts(known):
            return False
        try:
            return bool(_load(sent) == _load(known))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return False

    def unfit(self, layout: Layout, rows: Rows) -> set[int]:
        unfit = super().unfit(layout, rows)
        if _TIDB in layout.of_message:
            extensions = rows.field(layout.of_message[_TIDB])
            unfit.update(
                place
                for place, extension in enumerate(extensions)
                if type(extension) is dict and any(extension.get(field) for field in ONLY_KEY)
            )
        return unfit

    def times(self, layout: Layout, rows: Rows) -> Sequence[int | None]:
        times = rows.field(layout.of_message.get("es"))
        return [
            time if time and time is not UNSET and 0 < time <= MAX_TIME_MS else None
            for time in times
        ]


def _parts(text: bytes) -> list[bytes]:
    """The parts between an object's commas, sorted."""
    return sorted(text[1:-1].split(b","))


def _converter(kind: Kind) -> Convert:
    if type(kind) is Labels:
        return partial(_labels, kind)
    return _base64 if kind == BYTES else _numbers


def _labels(labels: Labels, texts: list[Any]) -> tuple[Sequence[Any], set[int]]:
    known = {text: labels.text(text) for text in set(texts)}
    found = list(map(known.__getitem__, texts))
    if None not in found:
        return found, set()
    return found, {place for place, text in enumerate(found) if text is None}


def _numbers(texts: list[Any]) -> tuple[Sequence[Any], set[int]]:
    lines = "\n".join(texts)
    misfits = set()
    if lines.count("\n") >= len(texts) or not _NUMBERS.fullmatch(f"{lines}\n"):
        misfits = {place for place, text in enumerate(texts) if not NUMBER.fullmatch(text)}
        texts = [text if NUMBER.fullmatch(text) else "null" for text in texts]
        lines = "\n".join(texts)
    return list(map(Raw, lines.encode().split(b"\n"))), misfits


def _base64(texts: list[Any]) -> tuple[Sequence[Any], set[int]]:
    found, misfits = [], set()
    for place, text in enumerate(texts):
        try:
            found.append(b64encode(text.encode("latin-1")).decode())
        except UnicodeEncodeError:
            found.append("")
            misfits.add(place)
    return found, misfits


_FAST_PATH: Final = FastPath(decode, CanalRows())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``canal_json.decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)
