"""The server, its users, and the jars that Spark needs."""

import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dbt_lakehouse.cli.options import (
    Count,
    needs,
    page_beside,
    page_option,
    project_options,
    set_by_signals,
)
from dbt_lakehouse.commands.standard_streams import fail, say

if TYPE_CHECKING:
    from dbt_lakehouse.session.project import Project, ProjectOptions


@click.command()
@needs("lake")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=Count(0, 65535),
    default=10000,
    show_default=True,
    help="Port; 0 for any that is free.",
)
@click.option(
    "--users",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Users and passwords, lines of `lakehouse password`. Without it, any password will do.",
)
@click.option(
    "--keystore",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Key and certificate for TLS; LAKEHOUSE_KEYSTORE_PASSWORD opens it.",
)
@click.option(
    "--connect",
    type=Count(0, 65535),
    metavar="PORT",
    help="Port of Spark Connect; 0 for any that is free. Without it, Spark Connect is off."
    " Clients must know the value of SPARK_CONNECT_AUTHENTICATE_TOKEN.",
)
@page_option
@project_options
def serve(
    project: "Project",
    host: str,
    port: int,
    users: Path | None,
    keystore: Path | None,
    connect: int | None,
    page: int | None,
) -> None:
    """Answer queries in Spark's SQL, for beeline, JDBC, PyHive and BI tools, until SIGTERM or
    Ctrl-C.

    It is HiveServer2 with the lake's functions. Clients can only read. A host that other machines
    can reach needs both --users and --keystore. With --connect it also serves Spark Connect to
    PySpark, only on this machine.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from dbt_lakehouse.commands.serve.door import Access
    from dbt_lakehouse.commands.serve.door import serve as answer
    from dbt_lakehouse.session.opening import has_ended

    if page is not None and users is not None:
        fail(
            "--page needs no password, while --users makes this server ask for one: give only one"
            " of them"
        )
    access = Access(host, port, users, keystore, connect)
    stopping = threading.Event()
    try:
        with page_beside(project.options, page):
            answer(project, access, lambda: set_by_signals(stopping))
    except (Py4JError, PySparkException, OSError):
        # systemd and timeout send the signal to Spark's JVM too.
        if not (stopping.wait(1) and has_ended(patience=5)):
            raise
    click.echo("stopped", err=True)


@click.command()
@needs("lake", "page")
@click.option(
    "--port",
    type=Count(0, 65535),
    default=8088,
    show_default=True,
    help="Port; 0 for any that is free.",
)
@click.option("--open", "opens", is_flag=True, help="Show it in the browser, too.")
@partial(project_options, find=lambda options: options)
def page(options: "ProjectOptions", port: int, opens: bool) -> None:
    """Serve a page with the state of the lake, only to this machine, until SIGTERM or Ctrl-C.

    It shows lags, the last cycles and runs, tables and quarantine, as the report does, and
    refreshes them. It answers queries, explains rows, and takes messages apart. It can't change
    anything. Needs no Spark.
    """
    import webbrowser

    from dbt_lakehouse.commands.page.lake import Lake
    from dbt_lakehouse.commands.page.server import served
    from dbt_lakehouse.session.profile import find

    stopping = set_by_signals(threading.Event())
    with served(Lake(find(options), options), port) as address:
        say(address)
        if opens:
            webbrowser.open(address)
        stopping.wait()
    click.echo("stopped", err=True)


@click.command()
@click.argument("name")
def password(name: str) -> None:
    """Ask for a password of the user NAME, and print a line for the file of `serve --users`.

    If standard input is not a terminal, its first line is the password.
    """
    from dbt_lakehouse.commands.serve.door import check_user, password_line

    check_user(name)
    if sys.stdin.isatty():
        given = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    say(password_line(name, given))


@click.command()
@needs("lake")
@click.option(
    "--archive", is_flag=True, help="Also make an archive of their classes: Spark starts sooner."
)
@click.option(
    "--s3", is_flag=True, help="Also those for a lake in a bucket, otherwise fetched on first use."
)
def jars(archive: bool, s3: bool) -> None:
    """Fetch the jars that Spark needs and the checkout's cache does not hold yet."""
    from dbt_lakehouse.spark.jars import JARS, S3_JARS, ensure_jars

    ensure_jars(JARS + S3_JARS if s3 else JARS)
    if not archive:
        return
    from dbt_lakehouse.commands.jars import make_class_archive

    if not make_class_archive():
        click.echo("Spark will start more slowly: no archive of its classes was made", err=True)
