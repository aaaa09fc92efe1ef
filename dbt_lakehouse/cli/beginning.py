"""Commands that begin a project, or a topic in it."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dbt_lakehouse.cli.options import KEYLESS, OneOf, names, needs, project_options
from dbt_lakehouse.commands.standard_streams import say, terminal_width
from python_udfs.registry import FORMATS

if TYPE_CHECKING:
    from dbt_lakehouse.session.project import Project


@click.command()
@needs("lake")
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option("--name", help="Name of the project (default: the folder's name).")
@click.option(
    "--kafka",
    "servers",
    metavar="HOST:PORT,...",
    help="Bootstrap servers, used if KAFKA_BOOTSTRAP_SERVERS is not set.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    type=(str, OneOf(FORMATS)),
    metavar="TOPIC FORMAT",
    help="List this topic in vars.topics, with its wire format; can be given again.",
)
@click.option(
    "--catalog",
    metavar="ADDRESS",
    help="Catalog that several machines share: jdbc:postgresql://HOST:PORT/DATABASE, or the https://"
    " address of a REST catalog (default: a file in the folder `lake`).",
)
@click.option("--warehouse", metavar="ADDRESS", help="Storage of the tables of --catalog.")
def init(
    folder: Path,
    name: str | None,
    servers: str | None,
    topics: tuple[tuple[str, str], ...],
    catalog: str | None,
    warehouse: str | None,
) -> None:
    """Write a dbt project into FOLDER (default: this one), which may be new.

    It gets settings, a profile with a lake in the folder `lake`, and the package of models that
    each lake has. No existing file is changed, and a folder that already has a dbt project is
    refused.
    """
    from dbt_lakehouse.commands.init.new_project import Choice
    from dbt_lakehouse.commands.init.new_project import init as write_project

    choice = Choice(folder, name, servers, topics, catalog, warehouse)
    say(write_project(choice).text())


@click.command()
@needs("lake", "sql")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@click.option(
    "--captures",
    multiple=True,
    metavar="FILE",
    help="Land this file of captured messages instead of Kafka's; can be given again.",
)
@click.option(
    "--format",
    "format_name",
    type=OneOf(FORMATS),
    metavar="FORMAT",
    help="Wire format of topics that vars.topics does not list (default: guessed from messages).",
)
@click.option("--table", help="Only this source table: TABLE, SCHEMA.TABLE or DB.SCHEMA.TABLE.")
@click.option("--key", metavar="COLUMN,...", help="Key columns, if the messages have no key.")
@click.option("--keyless", is_flag=True, help=KEYLESS)
@click.option(
    "--dry-run", is_flag=True, help="Only show what would be written; land and build nothing."
)
@project_options
def add(
    project: "Project",
    topics: tuple[str, ...],
    captures: tuple[str, ...],
    format_name: str | None,
    table: str | None,
    key: str | None,
    keyless: bool,
    dry_run: bool,
) -> None:
    """Take topics to gold: land them, write their models, build the project, show the tables.

    It is `lakehouse land`, `lakehouse generate`, `dbt build` and `lakehouse show` with one start of
    Spark, and says what the messages are. A topic that vars.topics does not list is added there. If
    called again, it repeats no finished step. With --dry-run it looks at messages and shows the
    models and settings that it would write; captures need no Spark for that.
    """
    from dbt_lakehouse.commands.add import Addition
    from dbt_lakehouse.commands.add import add as take_to_gold

    width = terminal_width()
    given = Addition(topics, captures, format_name, table, names(key), keyless, width)
    if dry_run:
        from dbt_lakehouse.commands.add_dry_run import foresee

        taken = foresee(project, given)
    else:
        taken = take_to_gold(project, given)
    for text in taken:
        say(text)
