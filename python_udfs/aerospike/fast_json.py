"""The fast path for Aerospike's JSON: plain writes of one set.

``core.fast_path`` explains fast paths. The decoder of a layout of the same bins checks their names,
order, types and properties and the types of their values while it decodes, in C. A mixed layout
takes any bins; their types are checked afterwards. All other messages go to ``json.decode``. A
write that is decoded and encoded again must give the bytes that were sent.
So there is no duplicate name, no white space, no extra comma, and no number that ``json.decode``
would write differently. Lists and maps are decoded separately, and then stay as they were sent.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from itertools import chain
from operator import attrgetter, eq
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from python_udfs.aerospike.fast_writes import (
    MAX_NAMES_BYTES,
    USER_KEY_TYPES,
    Common,
    Digest,
    Parts,
    Writes,
    common,
    event_columns,
    mixed_columns,
    plain_images,
)
from python_udfs.core.events import EventColumns
from python_udfs.core.fast_path import MAX_BYTES, Format, Messages, Names
from python_udfs.core.limits import MAX_DEPTH
from python_udfs.text.json_lines import FAILURES, may_be_deep, read_lines
from python_udfs.text.structs import merged_names

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

# Those that a mixed layout takes, each with the types of its values there.
_KINDS: Final = frozenset(
    {
        ("str", str),
        ("bool", bool),
        ("int", int),
        ("float", int),
        ("float", Decimal),
        ("blob", str),
        ("list", list),
        ("map", dict),
        ("geojson", dict),
    }
)

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
_array: Any = list


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


class _Mixed(NamedTuple):
    """The common properties of a set's writes with any plain bins."""

    properties: tuple[str, ...]
    namespace: str
    set_name: str | None
    of_bins: tuple[str, ...]
    """The names of bins' properties, in order; a bin may lack some."""


class _MixedLayout(NamedTuple):
    """The decoder of a set's writes, whatever their bins."""

    shape: _Mixed
    head: bytes
    """The common first bytes of the writes."""
    decoder: msgspec.json.Decoder[Any]


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


class JsonWrites(Format[_Shape | _Mixed, _Layout | _MixedLayout, Writes]):
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

    def merged(self, known: _Shape | _Mixed, seen: _Shape | _Mixed) -> _Shape | _Mixed | None:
        return (
            self.mixed((known, seen)) if isinstance(known, _Mixed) else super().merged(known, seen)
        )

    def mixed(self, shapes: Sequence[_Shape | _Mixed]) -> _Mixed | None:
        if len({shape[:3] for shape in shapes}) > 1:
            return None
        of_bins: tuple[str, ...] = ()
        # Those with most properties first, as they tell the order of most.
        seen = dict.fromkeys(chain.from_iterable(map(_of_bins, shapes)))
        for properties in sorted(seen, key=len, reverse=True):
            of_both = merged_names(of_bins, properties)
            if of_both is None:
                return None
            of_bins = of_both
        return _Mixed(*shapes[0][:3], of_bins)

    def layout(self, names: Names, shape: _Shape | _Mixed) -> _Layout | _MixedLayout:
        if isinstance(shape, _Mixed):
            return _mixed_layout(shape)
        bin_names = [each.name for each in shape.bins]
        if len(set(bin_names)) != len(bin_names):
            raise ValueError("a name that comes twice")
        bins = _tuple[tuple(map(_struct, shape.bins))]
        record = _record_type(shape, shape.user_key_type, bins)
        notes = {
            each.name: {
                name: getattr(each, name)
                for name in ("type", *each.properties)
                if name not in ("name", "value")
            }
            for each in shape.bins
        }
        return _Layout(
            shape,
            common(shape.namespace, shape.set_name, notes),
            _head(shape),
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
        self,
        layout: _Layout | _MixedLayout,
        places: Sequence[int],
        keys: Messages,
        values: Messages,
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

    def columns(self, layout: _Layout | _MixedLayout, rows: Writes) -> EventColumns | None:
        if isinstance(layout, _MixedLayout):
            return _of_mixed(layout, rows)
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
        bins = zip(*map(attrgetter("bins"), rows.records), strict=True)
        columns = [list(map(attrgetter("value"), column)) for column in bins]
        for (place, _), column in zip(layout.containers, trees, strict=True):
            columns[place] = column
        return event_columns(layout.common, rows, _parts(layout.shape, rows), columns)


def _of_bins(shape: _Shape | _Mixed) -> list[tuple[str, ...]]:
    """The names of its bins' properties."""
    return (
        [shape.of_bins] if isinstance(shape, _Mixed) else [each.properties for each in shape.bins]
    )


def _head(shape: _Shape | _Mixed) -> bytes:
    """The common first bytes of its writes."""
    if shape.properties[:2] != ("msg", "key"):
        return b"{"
    return b'{"msg":"write","key":%s,' % _encode([shape.namespace, shape.set_name])[:-1]


def _record_type(shape: _Shape | _Mixed, user_key_type: Any, bins: Any) -> type[msgspec.Struct]:
    set_type = None if shape.set_name is None else _literal[shape.set_name]
    types: dict[str, Any] = dict.fromkeys(_NUMBERS, int | None)
    types |= {
        "msg": Literal["write"],
        "key": _tuple[_literal[shape.namespace], set_type, Digest, user_key_type],
        "bins": bins,
    }
    return msgspec.defstruct("Record", [(name, types[name]) for name in shape.properties], gc=False)


def _parts(shape: _Shape | _Mixed, rows: Writes) -> Parts:
    generations, expiries, luts = (
        list(map(attrgetter(name), rows.records)) if name in shape.properties else None
        for name in _NUMBERS
    )
    return Parts(list(map(attrgetter("key"), rows.records)), generations, expiries, luts)


def _mixed_layout(shape: _Mixed) -> _MixedLayout:
    types: dict[str, Any] = {
        "name": str,
        "type": str,
        "value": Any,
        "ordered": bool | None | UnsetType,
        "order": str | None | UnsetType,
    }
    of_bin = msgspec.defstruct(
        "Bin",
        [(name, types[name], *[UNSET] * (name in ("ordered", "order"))) for name in shape.of_bins],
        kw_only=True,
    )
    record = _record_type(shape, str | int | None, _array[of_bin])
    return _MixedLayout(shape, _head(shape), msgspec.json.Decoder(record, float_hook=Decimal))


def _of_mixed(layout: _MixedLayout, rows: Writes) -> EventColumns | None:
    """The events of writes of a mixed layout. Those that turn out not to be plain are dropped; None
    if none is left.
    """
    images = plain_images(rows, attrgetter("bins"), _images)
    if images is None:
        return None
    source = layout.shape.namespace, layout.shape.set_name
    notes = partial(_notes, layout.shape, list(map(attrgetter("bins"), rows.records)))
    return mixed_columns(source, rows, _parts(layout.shape, rows), images, notes)


def _images(bins: Sequence[Sequence[Any]]) -> list[dict[str, Any]] | None:
    """The bins of each write by their names; None if ``json.decode`` would write those of one
    differently.
    """
    if not all(bins):
        return None
    for each in chain.from_iterable(bins):
        kind = type(each.value)
        if (each.type, kind) not in _KINDS:
            return None
        if each.type == "blob":
            if not _is_base64(each.value):
                return None
        elif kind is list or kind is dict:
            text = _encode(each.value)
            if len(text) > _FLAT_BYTES and may_be_deep(text, _AROUND):
                return None
    images = [{each.name: each.value for each in of_one} for of_one in bins]
    # A name that comes twice.
    return images if list(map(len, images)) == list(map(len, bins)) else None


def _is_base64(text: str) -> bool:
    """Whether a text is base64 as it is written again."""
    try:
        return b64encode(b64decode(text, validate=True)).decode() == text
    except ValueError:
        return False


def _notes(shape: _Mixed, bins: Sequence[Sequence[Any]]) -> list[dict[str, dict[str, Any]]]:
    """``metadata.bins`` of each write."""
    told = ("type", *(name for name in shape.of_bins if name not in ("name", "type", "value")))
    return [
        {
            each.name: {name: said for name in told if (said := getattr(each, name)) is not UNSET}
            for each in of_one
        }
        for of_one in bins
    ]


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
