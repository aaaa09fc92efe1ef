"""Options and argument types that commands share."""

import logging
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from dbt_lakehouse.commands.standard_streams import fail, opened
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.extras import missing, require
from dbt_lakehouse.telling import tell
from dbt_lakehouse.texts import did_you_mean
from python_udfs.core.errors import CODES

if TYPE_CHECKING:
    from dbt_lakehouse.session.profile import Place
    from dbt_lakehouse.session.project import ProjectOptions

KEYLESS: Final = "Tables whose messages have no key have none: gold counts their equal rows."
"""The help of the option of that name."""

_PROJECT_OPTIONS: Final = ("project_dir", "profiles_dir", "profile", "target", "variables")


class OneOf(click.Choice[str]):
    """A choice of names, which the shell completes; for another name, the nearest is suggested."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return (
            f"{value!r} is not known{did_you_mean(str(value), self.choices)}; known are"
            f" {', '.join(self.choices)}"
        )


class Count(click.IntRange):
    """An integer in a range; click would call a word an invalid `integer range`."""

    name = "integer"


class Span(click.ParamType[timedelta]):
    """A period in days, hours, minutes or weeks: 7d, 12h, 30m, 2w."""

    name = "span"
    _UNITS: Final = MappingProxyType({"w": "weeks", "d": "days", "h": "hours", "m": "minutes"})

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        found = re.fullmatch(r"([1-9][0-9]{0,4})([wdhm])", str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration such as 7d, 12h, 30m or 2w", param, ctx)
        return timedelta(**{self._UNITS[found[2]]: int(found[1])})


class TableName(click.ParamType[str]):
    """The name of a table, which the shell completes: gold's without a schema, those of other
    layers with it unless it is `gold_only`.
    """

    name = "text"

    def __init__(self, *, gold_only: bool = False) -> None:
        self._gold_only = gold_only

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        if missing("sql"):
            return []
        from dbt_lakehouse.lake.catalog import entries
        from dbt_lakehouse.session.profile import find
        from dbt_lakehouse.session.project import ProjectOptions

        try:
            place = find(ProjectOptions(*(ctx.params.get(name) for name in _PROJECT_OPTIONS)))
            found = entries(place.settings)
        except LakehouseError:
            # The command itself reports it when it runs.
            return []
        names = [each.name if each.schema == place.gold else str(each) for each in found]
        return [
            CompletionItem(name)
            for name in names
            if name.startswith(incomplete) and not (self._gold_only and "." in name)
        ]


def needs(*extras: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command report the missing ones of its extras before it does anything."""

    def with_extras(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def checked(**options: Any) -> None:
            require(*extras)
            command(**options)

        return checked

    return with_extras


def project_options(
    command: Callable[..., None], find: Callable[["ProjectOptions"], Any] | None = None
) -> Callable[..., None]:
    """The options that choose the lake, with dbt's names and rules; the command gets its
    ``Project``, or the result of ``find``.
    """

    @wraps(command)
    def with_project(
        project_dir: str | None,
        profiles_dir: str | None,
        profile: str | None,
        target: str | None,
        variables: str | None,
        **options: Any,
    ) -> None:
        from dbt_lakehouse.session.project import ProjectOptions, load

        found_by = ProjectOptions(project_dir, profiles_dir, profile, target, variables)
        command((find or load)(found_by), **options)

    decorated: Callable[..., None] = with_project
    for names, text in (
        (("--project-dir",), "Folder of dbt_project.yml (default: this one, or one above it)."),
        (("--profiles-dir",), "Folder of profiles.yml (default: this one, else ~/.dbt)."),
        (("--profile",), "Profile (default: the project's)."),
        (("--target",), "Target of the profile (default: the profile's)."),
        (("--vars", "variables"), "YAML or JSON that overrides vars of dbt_project.yml."),
    ):
        decorated = click.option(*names, help=text)(decorated)
    return decorated


def place_options(command: Callable[..., None]) -> Callable[..., None]:
    """``project_options`` for a command without Spark, which gets the lake's ``Place``."""

    def find(options: "ProjectOptions") -> "Place":
        from dbt_lakehouse.session.profile import find

        return find(options)

    return project_options(command, find)


def quarantine_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options that choose quarantined payloads; the command gets them as ``codes`` and
    ``topics``.
    """
    of_topic = click.option(
        "--topic", "topics", multiple=True, help="Only this topic; can be given again."
    )
    of_code = click.option(
        "--code",
        "codes",
        multiple=True,
        type=OneOf(CODES),
        help="Only this error code; can be given again.",
    )
    return of_code(of_topic(command))


def names(columns: str | None) -> list[str]:
    """The comma-separated names of an option; empty if it is not given."""
    found = [] if columns is None else [each.strip() for each in columns.split(",")]
    if "" in found:
        fail(f"{columns!r}: expected names, with a comma between two")
    return found


def key_lines(key: str) -> list[str]:
    """A key, or those on standard input. Raises ``UnusableKeyError`` for one that is not JSON."""
    from dbt_lakehouse.commands.keys import refuse_no_json

    lines = [key]
    if key == "-":
        with opened("-", "standard input") as stream:
            lines = [line.decode(errors="replace") for line in stream.read().splitlines() if line]
    for line in lines:
        refuse_no_json(line)
    return lines


def page_option(command: Callable[..., None]) -> Callable[..., None]:
    """The option that serves the page alongside a command, see ``page_beside``."""
    return click.option(
        "--page",
        type=Count(0, 65535),
        metavar="PORT",
        help="Serve `lakehouse page` there, too; 0 for any port that is free.",
    )(command)


@contextmanager
def page_beside(options: "ProjectOptions", port: int | None) -> Iterator[None]:
    """Serve the page within the context, if there is a port."""
    if port is None:
        yield
        return
    require("page")
    from dbt_lakehouse.commands.page.lake import Lake
    from dbt_lakehouse.commands.page.server import served
    from dbt_lakehouse.session.profile import find

    with served(Lake(find(options), options), port) as address:
        tell(f"the page is at {address}")
        yield


def set_by_signals(stopping: threading.Event) -> threading.Event:
    """The event, which SIGTERM and Ctrl-C set from now on."""

    def stop(*_: object) -> None:
        # If the signal has ended Spark too, py4j logs a traceback of the current call.
        logging.disable()
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopping
