"""The readers' result for a JSON or MessagePack map that no ``dict`` can hold."""

from typing import Any


class Pairs(list[Any]):
    """A map as ``(key, value)`` pairs, because its keys aren't all strings or not all different."""

    __slots__ = ()
