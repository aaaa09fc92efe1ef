"""What a command reads and writes, and how it ends when that fails."""

import contextlib
import os
import shutil
import signal
import sys
from typing import Any, BinaryIO, Final, NoReturn

import click

FAILED: Final = 1
UNUSABLE: Final = 2
NOT_WELL: Final = 3
INTERRUPTED: Final = 128 + signal.SIGINT
READER_GONE: Final = 141  # 128 + SIGPIPE, as a shell reports it


class Failure(click.ClickException):
    """An error with an exit code of its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def fail(message: str, code: int = UNUSABLE) -> NoReturn:
    """End with one line on stderr."""
    raise Failure(message, code)


def write(block: bytes) -> None:
    """Write to standard output and flush: events should not wait for a full buffer."""
    out = sys.stdout.buffer
    try:
        out.write(block)
        out.flush()
    except OSError as error:
        # What is still buffered would fail again while the interpreter ends, and be reported.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(READER_GONE)
        fail(f"can't write to standard output: {error.strerror}", FAILED)


def say(text: str) -> None:
    """Write a text of lines to standard output, which click's own echo does with a traceback where
    it is full.
    """
    out = sys.stdout
    if out is None:
        return
    if not hasattr(out, "buffer"):
        # A notebook's, or what a caller has put in its place.
        out.write(f"{text}\n")
        return
    write(f"{text}\n".encode(out.encoding or "utf-8", errors="backslashreplace"))


def terminal_width() -> int | None:
    """The characters of a line of the terminal that standard output is; None if it is none."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def write_error(block: bytes) -> None:
    click.echo(block, err=True, nl=False)


class Input:
    """A stream whose reading errors say which file they are about, unlike those of the output."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream: Any = stream
        self._name = name

    def read1(self, size: int, /) -> bytes:
        try:
            data: bytes = self._stream.read1(size)
        except OSError as error:
            fail(f"can't read {self._name}: {error.strerror}")
        return data


def opened(file: str, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if file == "-":
        if sys.stdin is None:
            fail("standard input is closed")
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open(file, "rb")
    except OSError as error:
        fail(f"can't read {name}: {error.strerror}")
    except ValueError as error:
        fail(f"can't read {name!r}: {error}")
