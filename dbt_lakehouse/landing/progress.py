"""How far files of messages have been read, for ``telling.working``."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

from dbt_lakehouse.landing.captures import Readable
from dbt_lakehouse.texts import counted


@dataclass
class Reading:
    """How far has been read, of so many bytes; None if their number is unknown."""

    total: int | None
    bytes: int = 0
    messages: int = 0

    def how_far(self) -> str:
        """For people."""
        of = "" if self.total is None else f" of {self.total / 1e6:,.0f}"
        return f"{self.bytes / 1e6:,.0f}{of} MB, {counted(self.messages, 'message')}"


class Counted:
    """A stream whose bytes are counted."""

    def __init__(self, stream: Readable, reading: Reading) -> None:
        self._stream: Final = stream
        self._reading: Final = reading

    def read1(self, size: int, /) -> bytes:
        data = self._stream.read1(size)
        self._reading.bytes += len(data)
        return data


def size_of(files: Iterable[str]) -> int:
    """The bytes of those that are there."""
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def size_of_stream(stream: BinaryIO) -> int | None:
    """The bytes of the file that a stream is of, None if it is of none."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
