"""Commands that change a project's models, or existing tables."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dbt_lakehouse.cli.options import (
    KEYLESS,
    OneOf,
    TableName,
    key_lines,
    names,
    needs,
    project_options,
    quarantine_options,
)
from dbt_lakehouse.commands.standard_streams import FAILED, fail, say
from python_udfs.registry import FORMATS

if TYPE_CHECKING:
    from dbt_lakehouse.session.project import Project


@click.command()
@needs("lake", "sql")
@click.option("--topic", "topics", multiple=True, required=True, help="A topic that has landed.")
@click.option("--table", help="Only this source table: TABLE, SCHEMA.TABLE or DB.SCHEMA.TABLE.")
@click.option("--name", help="Name of the gold table (default: the source table's).")
@click.option("--key", metavar="COLUMN,...", help="Key columns, if the messages have no key.")
@click.option(
    "--key-column",
    "key_columns",
    multiple=True,
    metavar="COLUMN,...",
    help="Key columns of all tables that have them, and no key; can be given again.",
)
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path),
    help="YAML file with each table's key, like `shop.public.orders: [order_id]`.",
)
@click.option("--keyless", is_flag=True, help=KEYLESS)
@click.option(
    "--format",
    "format_name",
    type=OneOf(FORMATS),
    metavar="FORMAT",
    help="Wire format of a topic that vars.topics does not list; adds the topic there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@project_options
def generate(
    project: "Project",
    topics: tuple[str, ...],
    table: str | None,
    name: str | None,
    key: str | None,
    key_columns: tuple[str, ...],
    keys_file: Path | None,
    keyless: bool,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Write the models of a topic's tables: change log, gold table, descriptions and tests.

    Looks at every landed message of the topic. If the models already exist, it shows what has
    changed at the source and changes only that. --topic can be given again: the same table in two
    topics becomes one.
    """
    from dbt_lakehouse.commands.generate.choices import GivenKeys, keys_in
    from dbt_lakehouse.commands.generate.generated_models import Options
    from dbt_lakehouse.commands.generate.generated_models import generate as write_models

    keys = GivenKeys(
        names(key),
        {} if keys_file is None else keys_in(keys_file),
        [names(each) for each in key_columns],
        keyless,
    )
    report = write_models(project, Options(topics, table, name, keys, format_name))
    say(report.json() if as_json else report.text())
    if report.failed:
        fail(f"{len(report.failed)} of {len(report.tables)} tables got no models")


@click.command()
@needs("lake", "sql")
@quarantine_options
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@project_options
def redrive(
    project: "Project", codes: tuple[str, ...], topics: tuple[str, ...], as_json: bool
) -> None:
    """Decode quarantined payloads again, with today's decoders and vars.topics.

    Payloads that can now be decoded go to silver.other_events, at their places in the log; the next
    `dbt run` processes them. Payloads that fail again stay in quarantine, with today's reason.
    """
    from dbt_lakehouse.commands.redrive import redrive as decode_again

    done = decode_again(project, codes, topics)
    say(done.json() if as_json else done.text())


@click.command()
@needs("lake")
@click.argument("tables", nargs=-1, type=TableName())
@click.option("--dry-run", is_flag=True, help="Only report what is due.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON, a line each.")
@project_options
def maintain(project: "Project", tables: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Keep tables quick to read: compact files, expire snapshots, delete orphan files.

    Compacts small data files and deleted rows, merges manifests, expires old snapshots and deletes
    orphan files, where necessary, for TABLES or for all of bronze, silver and gold.
    meta.maintenance of a model sets its table's policy. bronze.maintained records the work.
    """
    from dbt_lakehouse.commands.maintain import maintain as maintain_tables

    for done in maintain_tables(project, tables, dry_run=dry_run):
        say(done.json() if as_json else done.text())


@click.command()
@needs("lake")
@click.option("--table", type=TableName(gold_only=True), help="The gold table whose key it is.")
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="JSON",
    help='Its key columns: {"id": 7}; can be given again. `-` reads one key per line from standard'
    " input, which no process list shows.",
)
@click.option(
    "--purge",
    is_flag=True,
    help="Rewrite the files that hold what was forgotten, now or before, and expire all earlier"
    " snapshots of their tables.",
)
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@click.option("--yes", "is_sure", is_flag=True, help="Don't ask, even at a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@project_options
def forget(
    project: "Project",
    table: str | None,
    keys: tuple[str, ...],
    purge: bool,
    dry_run: bool,
    is_sure: bool,
    as_json: bool,
) -> None:
    """Remove all data of a key: from bronze, silver, gold, history and quarantine.

    A message that had only this key's data keeps its place in the log; a batch keeps its other
    records. bronze.forgotten says what was done, without personal data. Kafka, capture files and
    the source are not touched. At a terminal it says what would be removed, and asks first.
    """
    from dbt_lakehouse.commands.forget.forget_steps import Options
    from dbt_lakehouse.commands.forget.forget_steps import forget as forget_keys

    given = [line for key in keys for line in key_lines(key)]
    if not (dry_run or is_sure) and sys.stdin is not None and sys.stdin.isatty():
        found = forget_keys(project, Options(table, given, purge, dry_run=True))
        click.echo(found.text(), err=True)
        if found.finds_something and not click.confirm("Nobody can undo this. Go on?", err=True):
            fail("nothing was forgotten", FAILED)
    report = forget_keys(project, Options(table, given, purge, dry_run))
    say(report.json() if as_json else report.text())


@click.command()
@needs("lake")
@click.option("--to", "to", required=True, metavar="TARGET", help="The target with that catalog.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@project_options
def migrate_catalog(project: "Project", to: str, as_json: bool) -> None:
    """Move the lake to the catalog of another target of the profile.

    Tables keep their files, identities and snapshots, so that the next `dbt run` goes on where the
    last one stopped. The old catalog is closed. Repeat an interrupted call.
    """
    from dbt_lakehouse.commands.migrate_catalog import migrate_catalog as migrate

    done = migrate(project, to)
    say(done.json() if as_json else done.text())


@click.command()
@needs("lake")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what was copied as JSON.")
@project_options
def backup(project: "Project", folder: Path, as_json: bool) -> None:
    """Copy the lake to FOLDER, which is then a lake itself.

    It has all tables as of one moment, with their snapshots. Landings and queries go on; builds and
    maintenance wait. LAKEHOUSE_LAKE=FOLDER opens the copy; `backup` from there to a folder of the
    lake's old name restores it. For a SQLite catalog with its warehouse in a folder.
    """
    from dbt_lakehouse.commands.backup import backup as copy_lake

    done = copy_lake(project, folder)
    say(done.json() if as_json else done.text())


@click.command()
@needs("lake")
@click.option("--json", "as_json", is_flag=True, help="Print what was recovered as JSON.")
@project_options
def recover(project: "Project", as_json: bool) -> None:
    """Rebuild a lost catalog from the files of its tables, or bring an older one up to them.

    For a SQLite catalog whose file was lost, or restored from before the last commits. Afterwards
    the catalog names the newest metadata of each table in the warehouse. If the catalog was lost, a
    dropped table whose files still exist comes back.
    """
    from dbt_lakehouse.commands.backup import recover as recover_catalog

    done = recover_catalog(project)
    say(done.json() if as_json else done.text())
