"""An LRU cache for everything that decoders remember."""

from collections import OrderedDict
from typing import Generic, TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Recent(Generic[_Key, _Value]):
    """A dict of the most recently used entries, limited by their number and total bytes."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: _Key) -> _Value | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def add(self, key: _Key, value: _Value, size: int) -> None:
        """Add a value that ``get`` has not found. ``size`` is approximate, in bytes."""
        self._entries[key] = value, size
        self._bytes += size
        while self._bytes > self._most_bytes or len(self._entries) > self._most:
            _, (_, size) = self._entries.popitem(last=False)
            self._bytes -= size
