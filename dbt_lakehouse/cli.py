"""The `lakehouse` command.

Exit codes: 0 done; 1 the machine failed (disk full, no network for the jars); 2 the call or its
input can't be used; 130 interrupted; 141 the reader of the output went away. Each failure is one
line on stderr; only bugs show a traceback.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO, Final, NoReturn

import click

from dbt_lakehouse.captures import CaptureError
from python_udfs.registry import FORMATS

FAILED: Final = 1
UNUSABLE: Final = 2
INTERRUPTED: Final = 128 + signal.SIGINT
READER_GONE: Final = 141  # 128 + SIGPIPE, as a shell reports it


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="cdc_lakehouse", message="%(version)s")
def lakehouse() -> None:
    """Change events from Kafka as Iceberg tables."""


def _project_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say which lake, named as dbt names them. What is not given is None."""
    for name, text in (
        ("--project-dir", "Folder of dbt_project.yml (default: the checkout)."),
        ("--profiles-dir", "Folder of profiles.yml (default: profiles/ in the project)."),
        ("--target", "Target of the profile (default: the profile's)."),
    ):
        command = click.option(name, help=text)(command)
    return command


@lakehouse.command()
@click.option(
    "--format",
    "format_name",
    required=True,
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help="Wire format of the payloads: " + ", ".join(FORMATS) + ".",
)
@click.argument("file", default="-")
def decode(format_name: str, file: str) -> None:
    """Decode captured messages; one JSON line per change event.

    FILE (default or `-`: standard input) holds JSON lines with topic, partition, offset,
    timestamp_ms, key_b64 and value_b64. A payload that can't be decoded gives an event with the
    operation `invalid`, and exit code 0 still.
    """
    from dbt_lakehouse.decode import decode_stream

    name = "standard input" if file == "-" else file
    with _opened(file, name) as stream:
        try:
            decode_stream(_Input(stream, name), _write, format_name)
        except CaptureError as error:
            _fail(f"{name}: {error}")


@lakehouse.command()
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@_project_options
def land(files: tuple[str, ...], as_json: bool, **project: str | None) -> None:
    """Append captured messages to bronze.raw_payloads, those that are there already left out.

    FILES hold JSON lines as `decode` reads them; topic, partition and offset are required here. All
    are appended in one commit or, if one line can't be used or another message has its position
    already, none is.
    """
    from dbt_lakehouse import landing
    from dbt_lakehouse.jars import JarError
    from dbt_lakehouse.session import ConfigurationError

    try:
        result = landing.land_files(list(files), **project)
    except (landing.LandingError, ConfigurationError) as error:
        _fail(str(error))
    except JarError as error:
        _fail(str(error), FAILED)
    if as_json:
        click.echo(json.dumps({"landed": result.landed, "skipped": result.skipped}))
    else:
        click.echo(f"landed {result.landed}, skipped {result.skipped}")


@lakehouse.command()
@click.argument("tables", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the tables as JSON.")
@_project_options
def show(tables: tuple[str, ...], as_json: bool, **project: str | None) -> None:
    """Print tables with their row counts; without TABLES, all of gold."""
    from dbt_lakehouse.jars import JarError
    from dbt_lakehouse.session import ConfigurationError
    from dbt_lakehouse.show import show_tables

    try:
        click.echo(show_tables(list(tables), as_json=as_json, **project))
    except ConfigurationError as error:
        _fail(str(error))
    except JarError as error:
        _fail(str(error), FAILED)


@lakehouse.command()
def jars() -> None:
    """Fetch the jars that Spark needs and the checkout's cache does not hold yet."""
    from dbt_lakehouse.jars import JarError, ensure_jars

    try:
        ensure_jars()
    except JarError as error:
        _fail(str(error), FAILED)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    try:
        # Returns the code of --help and --version, and None from a command that ended well.
        code = lakehouse.main(arguments, prog_name="lakehouse", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = UNUSABLE
    except click.ClickException as error:
        # One line, whatever the message: scripts and logs read it.
        click.echo("lakehouse: " + " ".join(error.format_message().split()), err=True)
        code = error.code if isinstance(error, _Failure) else error.exit_code
    except click.Abort:
        code = INTERRUPTED
    sys.exit(code)


def _write(block: bytes) -> None:
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
        _fail(f"can't write to standard output: {error.strerror}", FAILED)


class _Input:
    """A stream whose reading errors say which file they are about, unlike those of the output."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream: Any = stream
        self._name = name

    def read1(self, size: int, /) -> bytes:
        try:
            data: bytes = self._stream.read1(size)
        except OSError as error:
            _fail(f"can't read {self._name}: {error.strerror}")
        return data


def _opened(file: str, name: str) -> contextlib.AbstractContextManager[BinaryIO]:
    if file == "-":
        if sys.stdin is None:
            _fail("standard input is closed")
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return open(file, "rb")
    except OSError as error:
        _fail(f"can't read {name}: {error.strerror}")
    except ValueError as error:
        _fail(f"can't read {name!r}: {error}")


class _Failure(click.ClickException):
    """An error with an exit code of its own."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _fail(message: str, code: int = UNUSABLE) -> NoReturn:
    """End with one line on stderr."""
    raise _Failure(message, code)


if __name__ == "__main__":
    main()
