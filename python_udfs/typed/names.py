"""Names of columns: lists of them as an array, and which of them images contain."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import compress
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs

from python_udfs.typed.declared import NAMES


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
    rows = _names_decoder(fields).decode_lines(b"\n".join(there))
    if len(rows) != len(there):
        # A line break between tokens.
        rows = [_names_decoder(fields).decode(image) for image in there]
    found = {}
    for field, column in zip(fields, zip(*map(structs.astuple, rows), strict=True), strict=True):
        is_named = [name is not None for name in column]
        if len(there) < len(images):
            left = iter(is_named)
            is_named = [image is not None and next(left) for image in images]
        found[field] = is_named
    return found


@lru_cache(256)
def _names_decoder(fields: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """A decoder of objects' fields as written; None for a missing one."""
    attributes = {f"f{place}": name for place, name in enumerate(fields)}
    row = msgspec.defstruct(
        "Names", [(name, msgspec.Raw, None) for name in attributes], rename=attributes, gc=False
    )
    return msgspec.json.Decoder(row)
