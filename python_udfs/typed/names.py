"""Names of columns: lists of them as an array, and which of them images contain."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from python_udfs.typed.declared import NAMES
from python_udfs.typed.images import decode_object


class Names(dict[tuple[int, ...], int]):
    """Distinct lists of column names, by the columns in them."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.lists: list[list[str]] = []
        self.none = self[(0,) * len(names)]

    def __missing__(self, chosen: tuple[int, ...]) -> int:
        self.lists.append(list(compress(self.names, chosen)))
        self[chosen] = len(self.lists) - 1
        return len(self.lists) - 1

    def array(self, numbers: Iterable[int | None]) -> pa.Array:
        """The lists of these numbers."""
        return pa.array(self.lists, NAMES).take(pa.array(numbers, pa.int32()))


def named_fields(images: Sequence[bytes | None], fields: Iterable[str]) -> dict[str, list[bool]]:
    """For each field, whether the images contain it."""
    fields = tuple(dict.fromkeys(fields))
    there = [image for image in images if image is not None]
    if not there or not fields:
        return {field: [False] * len(images) for field in fields}
    found = {}
    for field, is_named in zip(fields, _named(there, fields), strict=True):
        if len(there) < len(images):
            left = iter(is_named)
            is_named = [image is not None and next(left) for image in images]
        found[field] = is_named
    return found


def _named(images: list[bytes], fields: tuple[str, ...]) -> Iterator[list[bool]]:
    """For each field, whether the images contain it."""
    decoder = _names_decoder(fields)
    if decoder is None:
        objects = list(map(decode_object, images))
        yield from ([field in each for each in objects] for field in fields)
        return
    rows = decoder.decode_lines(b"\n".join(images))
    if len(rows) != len(images):
        # A line break between tokens.
        rows = list(map(decoder.decode, images))
    for column in zip(*map(structs.astuple, rows), strict=True):
        yield [name is not None for name in column]


@lru_cache(256)
def _names_decoder(fields: tuple[str, ...]) -> msgspec.json.Decoder[Any] | None:
    """A decoder of objects' fields as written, with None for a missing one; None where a name is
    one that JSON escapes, which msgspec's Structs can't have.
    """
    attributes = {f"f{place}": name for place, name in enumerate(fields)}
    names = [(name, msgspec.Raw, None) for name in attributes]
    try:
        row = msgspec.defstruct("Names", names, rename=attributes, gc=False)
    except ValueError:
        return None
    return msgspec.json.Decoder(row)
