"""The progress of reading files of messages, for ``telling.working``."""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import BinaryIO, Final

from dbt_lakehouse.landing.captures import Readable
from dbt_lakehouse.texts import counted


@dataclass
class Reading:
    """The amount read so far, of ``total`` bytes; None if that is unknown."""

    total: int | None
    bytes: int = 0
    messages: int = 0

    def how_far(self) -> str:
        """The progress as text."""
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
    """The total size in bytes of the files that exist."""
    return sum(os.path.getsize(file) for file in files if os.path.isfile(file))


def size_of_stream(stream: BinaryIO) -> int | None:
    """The size in bytes of a stream's file, None if it is not a file."""
    try:
        status = os.fstat(stream.fileno())
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
