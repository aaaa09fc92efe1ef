"""The `lakehouse` command. Each failure is one line on stderr; only bugs show a traceback."""

import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import click

from dbt_lakehouse.cli import beginning, changing, landing, reading, serving
from dbt_lakehouse.commands.standard_streams import (
    FAILED,
    INTERRUPTED,
    UNUSABLE,
    Failure,
    say,
)
from dbt_lakehouse.errors import LakehouseError, comes_of
from dbt_lakehouse.redaction import without_secrets
from dbt_lakehouse.texts import printable

_EXIT_CODES: Final = """\b
Exit codes:
    0    done
    1    the machine or a server failed: disk full, no network, a locked lake; try again
    2    the call or its input can't be used
    3    status, doctor or why has found a problem
    130  interrupted
    141  the reader of the output went away

\b
Completion in bash (zsh and fish alike), a line for ~/.bashrc:
    eval "$(_LAKEHOUSE_COMPLETE=bash_source lakehouse)"
"""


def _print_versions(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from dbt_lakehouse.commands.version import versions

        say(versions())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXIT_CODES)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Print the versions of what works together here.",
)
def lakehouse() -> None:
    """Change events from Kafka as Iceberg tables."""


for _command in (
    *(beginning.init, beginning.add),
    *(landing.decode, landing.land, landing.stream),
    *(changing.generate, changing.redrive, changing.maintain, changing.forget),
    *(changing.migrate_catalog, changing.backup, changing.recover),
    *(reading.sql, reading.show, reading.why, reading.events, reading.explain, reading.peek),
    *(reading.quarantine, reading.status, reading.doctor, reading.report, reading.docs),
    *(serving.serve, serving.page, serving.password, serving.jars),
):
    lakehouse.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    try:
        # Returns the code of --help and --version, and None from a successful command.
        code = lakehouse.main(arguments, prog_name="lakehouse", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = UNUSABLE
    except Exception as error:
        told, code = _told(error)
        if told is None:
            _print_bug(error)
        else:
            _print_failure(told)
    sys.exit(code)


def _told(error: Exception) -> tuple[str | None, int]:
    """The message and exit code of the error that ended the command; no message for a bug."""
    # First: cleaning up after an interrupt may fail too.
    if comes_of(error, click.Abort, KeyboardInterrupt):
        return (
            "interrupted; what was committed is complete, and the next call continues",
            INTERRUPTED,
        )
    if isinstance(error, LakehouseError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        code = error.code if isinstance(error, Failure) else error.exit_code
        return _with_help(error), code
    return _told_by_spark(error), FAILED


def _with_help(error: click.ClickException) -> str:
    """click's message about a call, with a hint to --help if click has no suggestion."""
    text = error.format_message()
    is_of_value = isinstance(error, click.BadParameter) and not isinstance(
        error, click.MissingParameter
    )
    if not isinstance(error, click.UsageError) or is_of_value or error.ctx is None:
        return text
    if "Did you mean" in text:
        return text
    return f"{text.rstrip('.')}: `{error.ctx.command_path} --help` shows its usage"


def _told_by_spark(error: Exception) -> str | None:
    """A message for an error of Spark that is not a bug. Commands without Spark don't import its
    modules.
    """
    if "py4j" not in sys.modules:
        return None
    from dbt_lakehouse.session.troubles import known_trouble

    return known_trouble(error)


def _print_bug(error: Exception) -> None:
    """Print a bug's traceback, as Python prints it, without the secrets that its messages may
    repeat.
    """
    click.echo(without_secrets("".join(traceback.format_exception(error))), err=True, nl=False)


def _print_failure(message: str) -> None:
    """Print one line, whatever the message: scripts and logs read it."""
    click.echo("lakehouse: " + printable(" ".join(without_secrets(message).split())), err=True)
