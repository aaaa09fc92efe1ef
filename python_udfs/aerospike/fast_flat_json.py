"""The fast path for Aerospike's flat JSON: plain writes of one set.

As in ``fast_json``, a write that is decoded and encoded again must give the bytes that were
sent. Its metadata comes first, under the usual name; bins have values of any type, which none
declares. A mixed layout takes any bins.
"""

from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from itertools import repeat
from operator import attrgetter, eq
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

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
)
from python_udfs.core.events import EventColumns
from python_udfs.core.fast_path import MAX_BYTES, Format, Messages, Names
from python_udfs.text.json_lines import FAILURES, FLAT_BYTES, may_be_deep, read_lines

_HEAD: Final = b'{"metadata":{"namespace":'
_KEY: Final = ("namespace", "set", "userKey", "digest")
_NUMBERS: Final = ("gen", "exp", "lut")
_PROPERTIES: Final = frozenset({*_KEY, "msg", *_NUMBERS})

_load = msgspec.json.Decoder(dict[str, Any]).decode
_any = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_encode_lines = msgspec.json.Encoder(decimal_format="number").encode_lines


# For types that are created at run time.
_literal: Any = Literal
_array: Any = list


class _Shape(NamedTuple):
    """The common properties of a set's writes with the same bins."""

    properties: tuple[str, ...]
    """The names of the metadata's properties, in their order."""
    namespace: str
    set_name: str | None
    user_key_type: type
    bins: tuple[str, ...]


class _Mixed(NamedTuple):
    """The common properties of a set's writes with any bins."""

    properties: tuple[str, ...]
    namespace: str
    set_name: str | None
    user_key_type: type


class _MixedLayout(NamedTuple):
    """The types of a set's writes, whatever their bins."""

    shape: _Mixed
    metadata: type[msgspec.Struct]
    key: type[msgspec.Struct]
    """As of ``_Layout``."""


class _Record(msgspec.Struct, gc=False):
    """A write of a mixed layout."""

    metadata: msgspec.Struct
    bins: dict[str, Any]


class _Layout(NamedTuple):
    """The decoder of a shape's writes."""

    shape: _Shape
    common: Common
    decoder: msgspec.json.Decoder[Any]
    key: type[msgspec.Struct]
    """The record's own key in Kafka's form."""


class FlatWrites(Format[_Shape | _Mixed, _Layout | _MixedLayout, Writes]):
    """Recognizes plain writes, and decodes them together."""

    def names(self, key: bytes | None, value: bytes | None) -> Names:
        if value is None or len(value) > MAX_BYTES or not value.startswith(_HEAD):
            return ()
        ends = [
            value.find(b',"%b":' % name, 0, MAX_NAMES_BYTES) for name in (b"userKey", b"digest")
        ]
        end = ends[0] if 0 < ends[0] < ends[1] else ends[1]
        return (value[:end],) if end > 0 else ()

    def shape(self, names: Names, key: bytes | None, value: bytes) -> _Shape | None:
        try:
            record = _load(value)
            metadata, *bins = record
            fields = record[metadata]
            namespace, set_name = fields["namespace"], fields.get("set")
            is_write = fields["msg"] == "write"
        except (*FAILURES, LookupError, AttributeError, ValueError):
            return None
        is_plain = (
            metadata == "metadata"
            and is_write
            and "digest" in fields
            and _PROPERTIES.issuperset(fields)
            and type(namespace) is str
            and ("set" not in fields or type(set_name) is str)
            and ("userKey" not in fields or type(fields["userKey"]) in USER_KEY_TYPES)
            and bins
        )
        if not is_plain:
            return None
        user_key_type = type(fields.get("userKey"))
        return _Shape(tuple(fields), namespace, set_name, user_key_type, tuple(bins))

    def merged(self, known: _Shape | _Mixed, seen: _Shape | _Mixed) -> _Shape | _Mixed | None:
        if isinstance(known, _Mixed):
            return known if known == seen[:4] else None
        return super().merged(known, seen)

    def mixed(self, shapes: Sequence[_Shape | _Mixed]) -> _Mixed | None:
        of_all = {_Mixed(*shape[:4]) for shape in shapes}
        return of_all.pop() if len(of_all) == 1 else None

    def layout(self, names: Names, shape: _Shape | _Mixed) -> _Layout | _MixedLayout:
        metadata = _metadata_type(shape)
        key = msgspec.defstruct(
            "Key", [(name, Any) for name in _KEY if name in shape.properties], gc=False
        )
        if isinstance(shape, _Mixed):
            return _MixedLayout(shape, metadata, key)
        fields = {f"bin_{place}": name for place, name in enumerate(shape.bins)}
        record = msgspec.defstruct(
            "Record", [("metadata", metadata), *((field, Any) for field in fields)], rename=fields
        )
        of_all = common(shape.namespace, shape.set_name, {})
        image = msgspec.defstruct("Image", [(field, Any) for field in fields], rename=fields)
        return _Layout(
            shape,
            of_all._replace(image=image, bins=UNSET),
            msgspec.json.Decoder(record, float_hook=Decimal),
            key,
        )

    def rows(
        self,
        layout: _Layout | _MixedLayout,
        places: Sequence[int],
        keys: Messages,
        values: Messages,
    ) -> Writes | None:
        fitting = [
            place
            for place in places
            if (value := values[place]) is not None
            and len(value) <= MAX_BYTES
            and (len(value) <= FLAT_BYTES or not may_be_deep(value))
        ]
        texts: list[Any] = [values[place] for place in fitting]
        decoder = _any if isinstance(layout, _MixedLayout) else layout.decoder
        read = read_lines(decoder, _encode_lines, texts) if texts else None
        if read is None:
            return None
        records, lines = read
        writes = Writes(fitting, records, keys)
        flags = list(map(eq, texts, lines))
        if isinstance(layout, _MixedLayout):
            writes.records = _records(layout, [each or {} for each in records])
            flags = [
                fits and record is not None
                for fits, record in zip(flags, writes.records, strict=True)
            ]
        if False in flags:
            writes.keep(flags)
        if writes.places and writes.has_keys:
            parts = zip(*_columns(writes, layout.key.__struct_fields__), strict=True)
            own_keys = _encode_lines([layout.key(*part) for part in parts])
            writes.keep_own_keys(own_keys.splitlines())
        return writes if writes.places else None

    def columns(self, layout: _Layout | _MixedLayout, rows: Writes) -> EventColumns | None:
        if not rows.places:
            return None
        shape = layout.shape
        generations, expiries, luts = (
            _column(rows, name) if name in shape.properties else None for name in _NUMBERS
        )
        digests = _column(rows, "digest")
        user_keys: Sequence[Any] = [None] * len(digests)
        if "userKey" in shape.properties:
            user_keys = _column(rows, "userKey")
        record_keys = [
            (shape.namespace, shape.set_name, digest, user_key)
            for digest, user_key in zip(digests, user_keys, strict=True)
        ]
        parts = Parts(record_keys, generations, expiries, luts)
        if isinstance(layout, _MixedLayout):
            source = shape.namespace, shape.set_name
            images = list(map(attrgetter("bins"), rows.records))
            return mixed_columns(source, rows, parts, images, partial(repeat, UNSET))
        bins = [
            list(map(attrgetter(f"bin_{place}"), rows.records))
            for place in range(len(layout.shape.bins))
        ]
        return event_columns(layout.common, rows, parts, bins)


def _metadata_type(shape: _Shape | _Mixed) -> type[msgspec.Struct]:
    types: dict[str, Any] = dict.fromkeys(_NUMBERS, int | None)
    types |= {
        "namespace": _literal[shape.namespace],
        "set": _literal[shape.set_name],
        "userKey": shape.user_key_type,
        "digest": Digest,
        "msg": Literal["write"],
    }
    return msgspec.defstruct(
        "Metadata",
        [(name, types[name]) for name in shape.properties],
        gc=False,
        forbid_unknown_fields=isinstance(shape, _Mixed),
    )


def _records(layout: _MixedLayout, trees: list[dict[str, Any]]) -> list[_Record | None]:
    """The writes of decoded objects; None for one with other metadata or without bins."""
    metadata = [tree.pop("metadata", None) for tree in trees]
    try:
        found = msgspec.convert(metadata, _array[layout.metadata])
    except msgspec.ValidationError:
        found = [_converted(each, layout.metadata) for each in metadata]
    return [
        _Record(each, bins) if each is not None and bins else None
        for each, bins in zip(found, trees, strict=True)
    ]


def _converted(metadata: Any, expected: type[msgspec.Struct]) -> msgspec.Struct | None:
    try:
        return msgspec.convert(metadata, expected)
    except msgspec.ValidationError:
        return None


def _column(writes: Writes, name: str) -> list[Any]:
    """A metadata property of each write."""
    return list(map(attrgetter(f"metadata.{name}"), writes.records))


def _columns(writes: Writes, names: Sequence[str]) -> list[list[Any]]:
    return [_column(writes, name) for name in names]
