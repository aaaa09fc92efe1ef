"""The fast path for Aerospike's JSON: plain writes of the same bins of one set.

``core.fast_path`` explains fast paths. A layout's decoder checks names, order, types and
properties of the bins and the types of their values while it decodes, in C; all other messages go
to ``json.decode``. A write that is decoded and encoded again must give the bytes that were sent.
So there is no duplicate name, no white space, no extra comma, and no number that ``json.decode``
would write differently. Lists and maps are decoded separately, and then stay as they were sent.
"""

from collections.abc import Sequence
from decimal import Decimal
from operator import attrgetter, eq
from typing import Any, Final, Literal, NamedTuple

import msgspec

from python_udfs.aerospike.fast_writes import (
    MAX_NAMES_BYTES,
    USER_KEY_TYPES,
    Common,
    Digest,
    Parts,
    Writes,
    common,
    event_columns,
)
from python_udfs.core.events import EventColumns
from python_udfs.core.fast_path import MAX_BYTES, Format, Messages, Names
from python_udfs.core.limits import MAX_DEPTH
from python_udfs.text.json_lines import FAILURES, may_be_deep, read_lines

_KEY: Final = b'"key":['
_RECORD: Final = frozenset({"msg", "key", "gen", "exp", "lut", "bins"})
_NUMBERS: Final = ("gen", "exp", "lut")
_BIN: Final = frozenset({"name", "type", "value", "ordered", "order"})
# For arrays of such values.
_list = msgspec.json.Decoder(list[list[Any]], float_hook=Decimal)
_map = msgspec.json.Decoder(list[dict[str, Any]], float_hook=Decimal)
_CONTAINERS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "list": _list,
    "map": _map,
    "geojson": _map,
}
# The types of values by the page's names.
_VALUES: Final[dict[str, Any]] = {
    "str": str,
    "bool": bool,
    "int": int,
    "float": Decimal,
    "blob": bytes,
    **dict.fromkeys(_CONTAINERS, msgspec.Raw),
}

_load = msgspec.json.Decoder(dict[str, Any]).decode
_encoder = msgspec.json.Encoder(decimal_format="number")
_encode, _encode_lines = _encoder.encode, _encoder.encode_lines

# A bin's value lies in record, bins and bin.
_AROUND: Final = 3
# A shorter list or map can't be too deep.
_FLAT_BYTES: Final = 2 * (MAX_DEPTH - _AROUND) - 2

# For types that are created at run time.
_literal: Any = Literal
_tuple: Any = tuple


class _Bin(NamedTuple):
    properties: tuple[str, ...]
    """Their names, in order."""
    name: str
    type: str
    ordered: bool | None
    order: str | None


class _Shape(NamedTuple):
    """The common properties of a set's writes with the same bins of the same types."""

    properties: tuple[str, ...]
    """The names of a record's properties, in order."""
    namespace: str
    set_name: str | None
    user_key_type: type
    bins: tuple[_Bin, ...]


class _Layout(NamedTuple):
    """The decoder of a shape's writes."""

    shape: _Shape
    common: Common
    head: bytes
    """The common first bytes of the writes."""
    decoder: msgspec.json.Decoder[Any]
    containers: list[tuple[int, msgspec.json.Decoder[Any]]]
    """The indexes of lists and maps, each with its decoder."""
    ordered: list[tuple[int, bool]]
    """The indexes of bins with their required ``ordered``, which a decoder can't check."""


class JsonWrites(Format[_Shape, _Layout, Writes]):
    """Recognizes plain writes, and decodes them together."""

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        if value is None or len(value) > MAX_BYTES or not value.startswith(b"{"):
            return ()
        start = value.find(_KEY, 0, MAX_NAMES_BYTES)
        if start < 0:
            return ()
        end = value.find(b",", value.find(b",", start, start + MAX_NAMES_BYTES) + 1)
        return (value[start:end],) if start < end < start + MAX_NAMES_BYTES else ()

    def shape(self, names: Names, key: bytes | None, value: bytes) -> _Shape | None:
        try:
            record = _load(value)
            namespace, set_name, _, user_key = record["key"]
            bins = tuple(
                _Bin(
                    tuple(each), each["name"], each["type"], each.get("ordered"), each.get("order")
                )
                for each in record["bins"]
            )
        except (*FAILURES, LookupError, ValueError, AttributeError):
            return None
        shape = _Shape(tuple(record), namespace, set_name, type(user_key), bins)
        return shape if record.get("msg") == "write" and _is_plain(shape) else None

    def layout(self, names: Names, shape: _Shape) -> _Layout:
        bin_names = [each.name for each in shape.bins]
        if len(set(bin_names)) != len(bin_names):
            raise ValueError("a name that comes twice")
        set_type = None if shape.set_name is None else _literal[shape.set_name]
        types: dict[str, Any] = dict.fromkeys(_NUMBERS, int | None)
        types |= {
            "msg": Literal["write"],
            "key": _tuple[_literal[shape.namespace], set_type, Digest, shape.user_key_type],
            "bins": _tuple[tuple(map(_struct, shape.bins))],
        }
        record = msgspec.defstruct(
            "Record", [(name, types[name]) for name in shape.properties], gc=False
        )
        notes = {
            each.name: {
                name: getattr(each, name)
                for name in ("type", *each.properties)
                if name not in ("name", "value")
            }
            for each in shape.bins
        }
        head = b"{"
        if shape.properties[:2] == ("msg", "key"):
            head = b'{"msg":"write","key":%s,' % _encode([shape.namespace, shape.set_name])[:-1]
        return _Layout(
            shape,
            common(shape.namespace, shape.set_name, shape.user_key_type, notes),
            head,
            msgspec.json.Decoder(record),
            [
                (place, _CONTAINERS[each.type])
                for place, each in enumerate(shape.bins)
                if each.type in _CONTAINERS
            ],
            [
                (place, each.ordered)
                for place, each in enumerate(shape.bins)
                if each.ordered is not None
            ],
        )

    def rows(
        self, layout: _Layout, places: Sequence[int], keys: Messages, values: Messages
    ) -> Writes | None:
        head = layout.head
        fitting = [
            place
            for place in places
            if (value := values[place]) is not None
            and value.startswith(head)
            and len(value) <= MAX_BYTES
        ]
        texts: list[Any] = [values[place] for place in fitting]
        read = read_lines(layout.decoder, _encode_lines, texts) if texts else None
        if read is None:
            return None
        records, lines = read
        writes = Writes(fitting, records, keys)
        flags = list(map(eq, texts, lines))
        if False in flags:
            writes.keep(flags)
        if writes.places and writes.has_keys:
            own_keys = _encode_lines([record.key for record in writes.records])
            writes.keep_own_keys(own_keys.splitlines())
        return writes if writes.places else None

    def columns(self, layout: _Layout, rows: Writes) -> EventColumns | None:
        for place, ordered in layout.ordered:
            flags = [record.bins[place].ordered is ordered for record in rows.records]
            if False in flags:
                rows.keep(flags)
        trees = _trees_of(layout, rows.records)
        if trees is None:
            rows.keep([_trees_of(layout, [record]) is not None for record in rows.records])
            trees = _trees_of(layout, rows.records)
        if not rows.places or trees is None:
            return None
        records, properties = rows.records, layout.shape.properties
        generations, expiries, luts = (
            list(map(attrgetter(name), records)) if name in properties else None
            for name in _NUMBERS
        )
        bins = zip(*map(attrgetter("bins"), records), strict=True)
        columns = [list(map(attrgetter("value"), column)) for column in bins]
        for (place, _), column in zip(layout.containers, trees, strict=True):
            columns[place] = column
        record_keys = list(map(attrgetter("key"), records))
        return event_columns(
            layout.common, rows, Parts(record_keys, generations, expiries, luts, columns)
        )


def _trees_of(layout: _Layout, records: list[Any]) -> list[list[Any]] | None:
    """The columns of lists and maps; None if ``json.decode`` would write one of them
    differently.
    """
    columns: list[list[Any]] = []
    for place, decoder in layout.containers:
        trees = _trees(decoder, [record.bins[place].value for record in records])
        if trees is None:
            return None
        columns.append(trees)
    return columns


def _trees(decoder: msgspec.json.Decoder[Any], texts: list[msgspec.Raw]) -> list[Any] | None:
    # All as one array: the end of one can't be mistaken for the beginning of another, since each
    # is known to be a whole value.
    together = b"[%b]" % b",".join(texts)
    try:
        trees: list[Any] = decoder.decode(together)
    except FAILURES:
        return None
    if _encode(trees) != together:
        return None
    are_flat = max(map(len, texts), default=0) <= _FLAT_BYTES or not any(
        len(text) > _FLAT_BYTES and may_be_deep(text, _AROUND) for text in map(bytes, texts)
    )
    return trees if are_flat else None


def _is_plain(shape: _Shape) -> bool:
    return (
        _RECORD.issuperset(shape.properties)
        and type(shape.namespace) is str
        and (shape.set_name is None or type(shape.set_name) is str)
        and (shape.user_key_type is type(None) or shape.user_key_type in USER_KEY_TYPES)
        and len(shape.bins) > 0
        and all(
            _BIN.issuperset(each.properties)
            and "value" in each.properties
            and type(each.name) is str
            and type(each.type) is str
            and each.type in _VALUES
            and (each.ordered is None or type(each.ordered) is bool)
            and (each.order is None or type(each.order) is str)
            for each in shape.bins
        )
    )


def _struct(of_bin: _Bin) -> type[msgspec.Struct]:
    """A bin's Struct, in which only the value may differ."""
    types = {
        "name": _literal[of_bin.name],
        "type": _literal[of_bin.type],
        "value": _VALUES[of_bin.type],
        "ordered": None if of_bin.ordered is None else bool,
        "order": None if of_bin.order is None else _literal[of_bin.order],
    }
    return msgspec.defstruct("Bin", [(name, types[name]) for name in of_bin.properties], gc=False)
