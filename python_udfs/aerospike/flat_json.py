"""Aerospike's outbound connectors (Kafka, Pulsar, JMS, ...) with ``format: flat-json``.

Implements the vendor's page "Flat JSON format for Aerospike Kafka source (outbound) connector". A
payload is one record, or, if the connector batches, an array of records. A record's bins are at the
top level, beside its metadata, an object with the name in the connector's ``metadata-key``:

    key       {"namespace": string, "set": string, "userKey": any, "digest": base64}
    metadata  {"namespace", "set", "userKey", "digest", "msg": "write" | "delete",
               "gen": number, "lut": number, "exp": number, "durable": bool}

    {"metadata":{"namespace":"test","set":"demo","userKey":123,"digest":"WVp7Y+sYXb69hCVTpEgCsaMOwVk=",
     "msg":"write","gen":1,"lut":1698586936461,"exp":1701178936},"tval":"first"}

Quirks of real payloads: ``set`` and ``userKey`` are absent if a record has none, ``lut`` is 0 if
the server ships none; deletes of older connectors have ``durable``, those of newer ones ``gen`` and
``lut``.

Losses of the format, and policies:

- Bins have no types. Values stay as they were sent: blobs, HyperLogLogs and Java objects are base64
  text (a model that declares the column ``binary`` decodes it), a float without a fraction looks
  like an integer, NaN and the infinities are strings, GeoJSON has the connector's form.
  ``generate`` guesses types from the values.
- Keys of maps are text. A map with one name twice (from the keys 1 and "1") is an array of [key,
  value] pairs, and ``metadata.bins`` says so. Other bins are not in ``metadata.bins``.
- The metadata is an object with ``msg``, ``namespace`` and ``digest``: the member ``metadata``,
  else the first such member (its name is in ``metadata.metadata_key``). If there is none, but the
  record itself has the three, its metadata is among the bins, and a bin can't have one of those
  names. Without either a write could not be told from a delete: ``bad_field``.
- A bin with the same name as the metadata, or as another bin, is ``bad_field``: one would be lost.
- A binary user key is base64 text and can't be told from a string.
- A delete has no bins. Other members beside its metadata are kept in ``metadata``.
- Kafka keys are kept as ``[namespace, set, digest, user key]``, as in the other two formats; other
  keys as base64 text.

Numbers, truncated batches and all else are as in ``aerospike_json``.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final

from python_udfs.aerospike.fast_flat_json import FlatWrites
from python_udfs.aerospike.json import (
    METADATA_NAMES,
    check_key,
    check_object,
    decode_records,
    event_of,
    keep_others,
    kind_of,
    metadata_of,
    operation_of,
    with_pairs,
)
from python_udfs.aerospike.records import NestedKinds
from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, TooLarge
from python_udfs.core.events import FORGOTTEN, UPSERT, Decoded, Event
from python_udfs.core.fast_path import FastPath
from python_udfs.core.paths import step_text
from python_udfs.text import json_text
from python_udfs.text.pairs import Pairs

METADATA: Final = "metadata"
"""The usual name of the metadata; another name is in ``metadata.metadata_key``."""

KEY: Final = ("namespace", "set", "digest", "userKey")
_KEY_PLACES: Final = tuple(f".{name}" for name in KEY)
_NEEDED: Final = frozenset({"msg", "namespace", "digest"})
PROPERTIES: Final = frozenset({*KEY, "msg", "gen", "exp", "lut", "durable"})
_NAMES: Final = METADATA_NAMES | {"metadata_key", "beside"}
_CONTAINERS: Final = frozenset({dict, list, Pairs})


def decode(key: bytes | None, value: bytes | None) -> list[Event]:
    """Decode one Kafka message: a record, a batch of records, or a tombstone.

    Returns one event per record, in the order of the batch; never empty.
    """
    return decode_records(key, value, _record, parse_key)


_FAST_PATH = FastPath(decode, FlatWrites())


def fast_path() -> FastPath:
    """What ``decode_batch`` has learned."""
    return _FAST_PATH


def decode_batch(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Decoded:
    """``decode`` for many messages; those of one layout are decoded together."""
    return _FAST_PATH.decode_batch(keys, values)


def metadata_name(record: dict[str, Any], at: str) -> str | None:
    """The name of the member with a record's metadata; None if the metadata is among its bins."""
    for name in chain((METADATA,), record):
        member = record.get(name)
        if type(member) is dict and _NEEDED <= member.keys():
            return name
    if METADATA not in record and _NEEDED <= record.keys():
        return None
    found = record.get(METADATA)
    if type(found) is dict or type(found) is Pairs:
        return METADATA  # The code that reads it reports its errors.
    got = "nothing" if METADATA not in record else kind_of(found)
    raise BadField(
        f"{at}.{METADATA}: expected an object with msg, namespace and digest, got {got}: does the"
        " connector's format have a metadata-key?"
    )


def _record(record: Any, index: int, at: str, columns: dict[str, Any], budget: Budget) -> Event:
    """The event of one record; ``columns`` is the metadata so far."""
    check_object(record, at)

    def note(bins: dict[str, Any], metadata: dict[str, Any]) -> None:
        _note_pairs(bins, metadata, at, budget)

    return event_of_flat(record, metadata_name(record, at), index, at, columns, note)


def event_of_flat(
    record: dict[str, Any],
    name: str | None,
    index: int,
    at: str,
    columns: dict[str, Any],
    note: Callable[[dict[str, Any], dict[str, Any]], None],
) -> Event:
    """The event of a record with its metadata in the member ``name``, or among the bins.

    ``columns`` is the metadata so far; ``note`` adds what JSON can't say about the bins.
    """
    if name is None:
        fields = record
        bins = {each: value for each, value in record.items() if each not in PROPERTIES}
    else:
        bins = record
        fields = bins.pop(name)
        at += step_text(name)
        check_object(fields, at)
    operation = operation_of(fields, at)
    key = [fields.get(each) for each in KEY]
    digest = check_key(key, at, _KEY_PLACES)
    metadata = metadata_of(fields, key[3], at)
    metadata.update(columns)
    if name is not None:
        if name != METADATA:
            metadata["metadata_key"] = name
        keep_others(fields, PROPERTIES, metadata, _NAMES, at)
    after = None
    if operation == UPSERT:
        note(bins, metadata)
        after = json_text.dumps(bins)
    elif name is None or bins.keys().isdisjoint(fields.keys() - PROPERTIES):
        keep_others(bins, frozenset(), metadata, _NAMES, at)
    else:
        # Both have a member of the same name.
        metadata["beside"] = {}
        keep_others(bins, frozenset(), metadata["beside"], frozenset(), at)
    return event_of(index, operation, key, digest, after, metadata)


def _note_pairs(bins: dict[str, Any], metadata: dict[str, Any], at: str, budget: Budget) -> None:
    """Turn maps that JSON can't hold as objects into arrays, and note them in ``metadata``."""
    nested = NestedKinds(budget)
    for name, value in bins.items():
        if type(value) in _CONTAINERS:
            try:
                bins[name] = with_pairs(value, None, nested)
            except TooLarge as error:
                raise TooLarge(f"{at}{step_text(name)}{error}") from None
            if kinds := nested.of_bin():
                metadata.setdefault("bins", {})[name] = {"nested": kinds}


def parse_key(raw: bytes) -> Any:
    """Parse a Kafka key as ``[namespace, set, digest, user key]``, or several of them."""
    tree = json_text.parse(raw, trailing_commas=True)
    if type(tree) is list:
        return [each if each == FORGOTTEN else key_of(each) for each in tree]
    return key_of(tree)


def key_of(tree: Any) -> Any:
    """A key as ``[namespace, set, digest, user key]``; None for anything else."""
    is_key = type(tree) is dict and tree.keys() <= frozenset(KEY)
    return [tree.get(name) for name in KEY] if is_key else None
