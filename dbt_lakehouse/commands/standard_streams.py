"""The standard streams of a command, and how it ends when they fail."""

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
    """An error with its own exit code."""

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
        # Buffered output would fail again while the interpreter ends, and be reported.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(READER_GONE)
        fail(f"can't write to standard output: {error.strerror}", FAILED)


def say(text: str) -> None:
    """Write lines of text to standard output. On a full disk, click's own echo ends with a
    traceback.
    """
    out = sys.stdout
    if out is None:
        return
    if not hasattr(out, "buffer"):
        # A notebook's, or a caller's replacement.
        out.write(f"{text}\n")
        return
    write(f"{text}\n".encode(out.encoding or "utf-8", errors="backslashreplace"))


def terminal_width() -> int | None:
    """The line width of the terminal at standard output; None if it is not a terminal."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_terminal else None


def write_error(block: bytes) -> None:
    click.echo(block, err=True, nl=False)


class Input:
    """A stream whose read errors name its file, unlike errors of the output."""

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
