"""Types created at run time for the names of JSON objects: msgspec checks them in C."""

from functools import lru_cache
from typing import Any, get_args

import msgspec
from msgspec import UNSET, UnsetType


def struct_of(types: dict[str, Any], may_lack: bool = True) -> type[msgspec.Struct]:
    """A Struct of fields with those names; its attributes are ``f0``, ``f1``, ...

    ``may_lack``: fields whose type allows ``UNSET`` may be absent, and are then not written.
    Raises ``ValueError`` for a name that JSON has to escape.
    """
    fields: list[Any] = []
    for place, field_type in enumerate(types.values()):
        optional = may_lack and (field_type is Any or UnsetType in get_args(field_type))
        fields.append((f"f{place}", field_type, *[UNSET] * optional))
    rename = {f"f{place}": name for place, name in enumerate(types)}
    # Keyword-only, since optional fields could otherwise not precede others.
    return msgspec.defstruct("Fields", fields, rename=rename, gc=False, kw_only=may_lack)


def shared_struct_of(types: dict[str, Any], may_lack: bool = True) -> type[msgspec.Struct]:
    """``struct_of``, the same for the same fields in the same order, as long as few others were
    asked for: many tables of a database have the same parts.
    """
    return _shared(tuple(types.items()), may_lack)


@lru_cache(64)
def _shared(types: tuple[tuple[str, Any], ...], may_lack: bool) -> type[msgspec.Struct]:
    return struct_of(dict(types), may_lack)


def merged_names(known: tuple[str, ...], seen: tuple[str, ...]) -> tuple[str, ...] | None:
    """The names of both, merged in their order; None if the orders differ."""
    if known == seen or not seen:
        return known
    if not known:
        return seen
    merged = list(known)
    position = 0
    there = set(known)
    for name in seen:
        if name not in there:
            merged.insert(position, name)
        else:
            try:
                position = merged.index(name, position)
            except ValueError:
                return None
        position += 1
    return tuple(merged)
