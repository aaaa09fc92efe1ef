"""The `lakehouse` command. Each failure is one line on stderr; only bugs show a traceback."""

import json
import logging
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from dbt_lakehouse.commands.standard_streams import (
    FAILED,
    INTERRUPTED,
    UNUSABLE,
    Failure,
    Input,
    fail,
    opened,
    write,
    write_error,
)
from dbt_lakehouse.errors import LakehouseError, comes_of
from dbt_lakehouse.landing.captures import CaptureError
from python_udfs.core.errors import CODES
from python_udfs.registry import FORMATS

if TYPE_CHECKING:
    from dbt_lakehouse.config.profile import Place
    from dbt_lakehouse.config.project import Project, ProjectOptions

_EXIT_CODES: Final = """\b
Exit codes:
    0    done
    1    the machine or a server failed: disk full, no network, a lake at work; try again
    2    the call or its input can't be used
    130  interrupted
    141  the reader of the output went away

\b
Completion in bash (zsh and fish alike), a line for ~/.bashrc:
    eval "$(_LAKEHOUSE_COMPLETE=bash_source lakehouse)"
"""


def _print_versions(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from dbt_lakehouse.commands.version import versions

        click.echo(versions())
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


def _project_options(
    command: Callable[..., None], find: Callable[["ProjectOptions"], Any] | None = None
) -> Callable[..., None]:
    """The options that say which lake, named and found as dbt names and finds them; the command
    gets its ``Project``, or what ``find`` makes of them.
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
        from dbt_lakehouse.config.project import ProjectOptions, load

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


def _place_options(command: Callable[..., None]) -> Callable[..., None]:
    """The same options for a command without Spark, which gets the lake's ``Place``."""

    def find(options: "ProjectOptions") -> "Place":
        from dbt_lakehouse.config.profile import find

        return find(options)

    return _project_options(command, find)


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

    FILE (default or `-`: standard input) holds JSON lines with value_b64 (null for none) and,
    where they are known, topic, partition, offset, timestamp_ms, key_b64 and headers. A payload
    that can't be decoded gives an event with the operation `invalid`, and exit code 0 still; a line
    with another field, or without value_b64, ends the command.
    """
    from dbt_lakehouse.commands.decode import decode_stream

    name = "standard input" if file == "-" else file
    with opened(file, name) as stream:
        try:
            decode_stream(Input(stream, name), write, format_name)
        except CaptureError as error:
            fail(f"{name}: {error}")


@lakehouse.command()
@click.argument("files", nargs=-1)
@click.option("--kafka", "from_kafka", is_flag=True, help="Land what is new in Kafka.")
@click.option(
    "--until-caught-up",
    is_flag=True,
    help="With --kafka: go on, vars.max_messages_per_run at a time, up to the logs' ends.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="With --kafka: go on behind messages that Kafka has deleted unread, and record the gap.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@_project_options
def land(
    project: "Project",
    files: tuple[str, ...],
    from_kafka: bool,
    until_caught_up: bool,
    accept_loss: bool,
    as_json: bool,
) -> None:
    """Append messages to bronze.raw_payloads, those that are there already left out.

    FILES hold captured messages: JSON lines as `decode` reads them; topic, partition and offset are
    required here. All are appended in one commit or, if one line can't be used or another message
    has its position already, none is. With --kafka, what is new in the topics of vars.topics is
    appended, in one commit too.
    """
    from dbt_lakehouse.config.project import lock_patience
    from dbt_lakehouse.landing.files import land_captures

    if bool(files) == from_kafka:
        fail("land needs either capture FILES or --kafka")
    if (until_caught_up or accept_loss) and not from_kafka:
        fail("--until-caught-up and --accept-loss go with --kafka")
    project.refuse_landing_elsewhere()
    if from_kafka:
        _land_from_kafka(project, until_caught_up, accept_loss, as_json)
        return
    patience = lock_patience(project.variables)
    result = land_captures(project.open_session, files, patience)
    if as_json:
        click.echo(json.dumps({"landed": result.landed, "skipped": result.skipped}))
    else:
        click.echo(f"landed {result.landed}, skipped {result.skipped}")


def _land_from_kafka(
    project: "Project", until_caught_up: bool, accept_loss: bool, as_json: bool
) -> None:
    from dbt_lakehouse.landing.kafka.batch import land_kafka, landing_text
    from dbt_lakehouse.landing.kafka.continuity import raise_stalled

    source = project.require_kafka()
    spark = project.open_session()
    landed = 0
    while True:
        result = land_kafka(spark, source, accept_loss=accept_loss)
        landed += result.landed
        if not as_json:
            click.echo(landing_text(result))
        if not (until_caught_up and result.remaining):
            break
        # Others wait for the lake too, and look for it less often than this takes.
        time.sleep(0.5)
    if as_json:
        counts = {"landed": landed, "remaining": result.remaining}
        topics = {
            "left_to_stream": sorted(result.left_to_stream),
            "stalled": sorted(result.stalled),
        }
        click.echo(json.dumps({**counts, **topics}))
    raise_stalled(result.stalled)


@lakehouse.command()
@click.option("--topic", "topics", multiple=True, help="Only this topic; can be given again.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Seconds from one commit to the next.",
)
@click.option("--available-now", is_flag=True, help="End when all that is in Kafka now has landed.")
@click.option(
    "--max-offsets-per-trigger",
    type=click.IntRange(min=1),
    default=500_000,
    show_default=True,
    help="Offsets for one commit at most.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Go on behind messages that Kafka has deleted unread, and record the gap.",
)
@_project_options
def stream(
    project: "Project",
    topics: tuple[str, ...],
    interval: float,
    available_now: bool,
    max_offsets_per_trigger: int,
    accept_loss: bool,
) -> None:
    """Land from Kafka every few seconds, until SIGTERM or Ctrl-C.

    Begins where bronze is. While it runs, `dbt run` leaves its topics to it and builds from what
    has landed.
    """
    from py4j.protocol import Py4JError

    from dbt_lakehouse.landing.kafka.stream import StreamOptions, refuse_unlisted, run_stream
    from dbt_lakehouse.spark.session import has_ended

    project.refuse_landing_elsewhere()
    source = project.require_kafka()
    refuse_unlisted(source.rules, topics)
    spark = project.open_session()
    stopping = _set_by_signals(threading.Event())
    options = StreamOptions(
        topics=topics,
        interval_seconds=interval,
        available_now=available_now,
        max_offsets=max_offsets_per_trigger,
        accept_loss=accept_loss,
    )
    try:
        landed = run_stream(spark, source, options, stopping)
    except (Py4JError, OSError):
        # systemd and timeout send the signal to Spark's JVM too.
        if not (stopping.wait(1) and has_ended(patience=5)):
            raise
        click.echo("stopped together with Spark; what has landed is whole", err=True)
        return
    click.echo(f"kafka: landed {landed:,} messages")


def _set_by_signals(stopping: threading.Event) -> threading.Event:
    """The event, which SIGTERM and Ctrl-C set from now on."""

    def stop(*_: object) -> None:
        # Where the signal has ended Spark too, py4j logs a traceback of the call at work.
        logging.disable()
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopping


@lakehouse.command()
@click.option("--json", "as_json", is_flag=True, help="Print the partitions as JSON.")
@_project_options
def status(project: "Project", as_json: bool) -> None:
    """Print how far bronze lags behind Kafka, by topic and partition, and what keeps a topic from
    going on.
    """
    from dbt_lakehouse.landing.kafka.status import read_status, status_text

    source = project.require_kafka()
    rows = read_status(project.open_session(), source)
    click.echo(json.dumps(rows, default=str) if as_json else status_text(rows))


@lakehouse.command()
@click.option("--topic", "topics", multiple=True, required=True, help="A topic that has landed.")
@click.option("--table", help="Only this source table: TABLE, SCHEMA.TABLE or DB.SCHEMA.TABLE.")
@click.option("--name", help="Name of the gold table (default: like the source table).")
@click.option("--key", metavar="COLUMN,...", help="Key columns, where the messages have no key.")
@click.option(
    "--key-column",
    "key_columns",
    multiple=True,
    metavar="COLUMN,...",
    help="The same of all tables that have the columns; can be given again.",
)
@click.option(
    "--keys",
    "keys_file",
    type=click.Path(path_type=Path),
    help="The same of each table in a YAML file, like `shop.public.orders: [order_id]`.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help="Wire format of a topic that vars.topics does not list: adds it there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
@_project_options
def generate(
    project: "Project",
    topics: tuple[str, ...],
    table: str | None,
    name: str | None,
    key: str | None,
    key_columns: tuple[str, ...],
    keys_file: Path | None,
    format_name: str | None,
    as_json: bool,
) -> None:
    """Write the models of a topic's tables: change log, gold table, descriptions and tests.

    Looks at every message of the topic that has landed. Where the models are there already, shows
    what has changed at the source and changes only that. --topic can be given again: the same table
    in two topics becomes one.
    """
    from dbt_lakehouse.commands.generate.choices import GivenKeys, keys_in
    from dbt_lakehouse.commands.generate.command import Options
    from dbt_lakehouse.commands.generate.command import generate as write_models

    keys = GivenKeys(
        _names(key),
        {} if keys_file is None else keys_in(keys_file),
        [_names(each) for each in key_columns],
    )
    report = write_models(project, Options(topics, table, name, keys, format_name))
    click.echo(report.json() if as_json else report.text())
    if report.failed:
        fail(f"{len(report.failed)} of {len(report.tables)} tables got no models")


@lakehouse.command()
@click.option(
    "--code",
    "codes",
    multiple=True,
    type=click.Choice(CODES),
    help="Only this error code; can be given again.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; can be given again.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
@_project_options
def redrive(
    project: "Project", codes: tuple[str, ...], topics: tuple[str, ...], as_json: bool
) -> None:
    """Decode quarantined payloads again, with today's decoders and vars.topics.

    What can be decoded now goes to silver.change_events in its place in the log; the next `dbt run`
    takes it on. What fails still stays in quarantine, with today's reason.
    """
    from dbt_lakehouse.commands.redrive import redrive as decode_again

    done = decode_again(project, codes, topics)
    click.echo(done.json() if as_json else done.text())


@lakehouse.command()
@click.argument("tables", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Only say what there is to do.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON, a line each.")
@_project_options
def maintain(project: "Project", tables: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Keep tables quick to read: large files, few snapshots, none of no use.

    Rewrites small data files and deleted rows, merges manifests, expires old snapshots and deletes
    old files that no snapshot names, each where there is something to do; of TABLES, or of all of
    bronze, silver and gold. meta.maintenance of a model says otherwise for its table. What was done
    is in bronze.maintained too.
    """
    from dbt_lakehouse.commands.maintain import maintain as maintain_tables

    for done in maintain_tables(project, tables, dry_run=dry_run):
        click.echo(done.json() if as_json else done.text())


@lakehouse.command()
@click.option("--table", help="The gold table whose key it is.")
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
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@_project_options
def forget(
    project: "Project", table: str | None, keys: tuple[str, ...], purge: bool, as_json: bool
) -> None:
    """Remove all data of a key: from bronze, silver, gold, history and quarantine.

    Of messages that had only this key's data, their place in the log stays; of a batch, the other
    records. What was done is in bronze.forgotten, without personal data. Kafka, capture files and
    the source are not touched.
    """
    from dbt_lakehouse.commands.forget.command import Options
    from dbt_lakehouse.commands.forget.command import forget as forget_keys

    given = [line for key in keys for line in _key_lines(key)]
    report = forget_keys(project, Options(table, given, purge))
    click.echo(report.json() if as_json else report.text())


def _key_lines(key: str) -> list[str]:
    """A key, or those on standard input."""
    if key != "-":
        return [key]
    with opened("-", "standard input") as stream:
        return [line.decode(errors="replace") for line in stream.read().splitlines() if line]


@lakehouse.command()
@click.option("--to", "to", required=True, metavar="TARGET", help="The target with that catalog.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@_project_options
def migrate_catalog(project: "Project", to: str, as_json: bool) -> None:
    """Move the lake to the catalog of another target of the profile.

    Tables keep their files, identities and snapshots, so that the next `dbt run` goes on where the
    last one was. The old catalog is closed. A call that was broken off is repeated.
    """
    from dbt_lakehouse.commands.migrate_catalog import migrate_catalog as migrate

    done = migrate(project, to)
    click.echo(done.json() if as_json else done.text())


@lakehouse.command()
@click.option(
    "--format",
    "format_name",
    type=click.Choice(list(FORMATS)),
    metavar="FORMAT",
    help="Wire format (default: as it was decoded, else what the decoders accept): "
    + ", ".join(FORMATS)
    + ".",
)
@click.argument("file", required=False)
@click.option("--line", type=click.IntRange(min=1), help="FILE holds captures: the message there.")
@click.option("--hex", "hex_text", metavar="HEX", help="The payload in hexadecimal digits.")
@click.option("--base64", "base64_text", metavar="BASE64", help="The payload in base64.")
@click.option("--key-hex", metavar="HEX", help="The Kafka key.")
@click.option("--key-base64", metavar="BASE64", help="The Kafka key.")
@click.option("--topic", help="A message that has landed, with --offset.")
@click.option("--partition", type=click.IntRange(min=0), help="Its partition, if several have it.")
@click.option("--offset", type=click.IntRange(min=0), help="Its offset.")
@click.option("--kafka", "from_kafka", is_flag=True, help="Read it from Kafka, not from bronze.")
@click.option("--all", "everything", is_flag=True, help="Elide nothing, however large it is.")
@click.option("--json", "as_json", is_flag=True, help="Print the trees and events as JSON.")
@partial(_project_options, find=lambda options: options)
def explain(options: "ProjectOptions", everything: bool, as_json: bool, **given: Any) -> None:
    """Take a payload apart: each byte range, what it is, and what it became.

    The payload is the content of FILE (`-`: standard input), --hex, --base64, or a message that has
    landed. What can't be decoded is shown up to the byte where it breaks, with the code and the
    sentence of its `invalid` event; the exit code is 0 still. Needs no Spark, but for --kafka.
    """
    from dbt_lakehouse.commands.explain.arguments import Arguments
    from dbt_lakehouse.commands.explain.command import explain as take_apart
    from dbt_lakehouse.commands.explain.nodes import EVERYTHING, Limits

    def read(file: str) -> bytes:
        name = "standard input" if file == "-" else file
        with opened(file, name) as stream:
            return b"".join(iter(partial(Input(stream, name).read1, 1 << 20), b""))

    message = Arguments(**given).message(options, read)
    limits = EVERYTHING if everything else Limits()
    answer = take_apart(message.key, message.value, limits, message.told)
    text = answer.json() if as_json else answer.text(everything=everything)
    write(f"{text}\n".encode(errors="backslashreplace"))


@lakehouse.command()
@click.option("--topic", required=True, help="A topic of Kafka, landed or not.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=10_000),
    default=5,
    show_default=True,
    help="So many messages at most.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each message.")
@_project_options
def peek(project: "Project", topic: str, limit: int, as_json: bool) -> None:
    """Print the newest messages of a topic as Kafka has them now, decoded; lands nothing."""
    from dbt_lakehouse.commands.peek import peek_json, peek_text
    from dbt_lakehouse.landing.kafka.peeking import newest

    source = project.require_kafka()
    messages = newest(project.open_session(), source, topic, limit)
    click.echo((peek_json if as_json else peek_text)(topic, messages))


@lakehouse.command()
@click.option(
    "--code",
    "codes",
    multiple=True,
    type=click.Choice(CODES),
    help="Only this error code; can be given again.",
)
@click.option("--topic", "topics", multiple=True, help="Only this topic; can be given again.")
@click.option(
    "--examples",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="So many of the newest of each code and topic.",
)
@click.option("--show-payloads", is_flag=True, help="Show what payloads say; else it is masked.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@_place_options
def quarantine(place: "Place", show_payloads: bool, as_json: bool, **chosen: Any) -> None:
    """List what could not be decoded: codes, topics, how many, since when, and examples.

    Reads silver.quarantined_payloads, without Spark. Names and values of payloads are masked in the
    sentences unless --show-payloads is given.
    """
    from dbt_lakehouse.commands.quarantine import quarantine as look
    from dbt_lakehouse.lake.reader import Reader

    reader = Reader(place.settings, place.gold)
    found = look(reader, place.silver, **chosen, show_payloads=show_payloads)
    click.echo(found.json() if as_json else found.text())


@lakehouse.command()
@click.argument("tables", nargs=-1)
@click.option("--limit", type=click.IntRange(min=0), help="So many rows of each (default: 5).")
@click.option("--columns", metavar="COLUMN,...", help="Only these, in this order.")
@click.option("--where", metavar="CONDITION", help="Only rows that meet it, in DuckDB's SQL.")
@click.option("--json", "as_json", is_flag=True, help="Print the row counts as JSON.")
@_place_options
def show(
    place: "Place",
    tables: tuple[str, ...],
    limit: int | None,
    columns: str | None,
    where: str | None,
    as_json: bool,
) -> None:
    """Print tables with their row counts; without TABLES, all of gold.

    At a terminal lines are as wide as it is.
    """
    from dbt_lakehouse.commands.show import ROWS, Choice, show_tables
    from dbt_lakehouse.lake.reader import Reader

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    choice = Choice(ROWS if limit is None else limit, _names(columns), where, width)
    reader = Reader(place.settings, place.gold)
    click.echo(show_tables(reader, tables, choice, gold=place.gold, as_json=as_json))


def _names(columns: str | None) -> list[str]:
    """The names that an option has, separated by commas."""
    return [each.strip() for each in columns.split(",")] if columns else []


@lakehouse.command()
@click.option("--table", required=True, help="The gold table whose key it is.")
@click.option(
    "--key",
    required=True,
    metavar="JSON",
    help='Its key columns: {"id": 7}; `-` reads the key from standard input.',
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@_project_options
def why(project: "Project", table: str, key: str, as_json: bool) -> None:
    """Tell why a row of gold is what it is, or is absent.

    Prints each event of the key in log order, what became of it, and its message, without Spark.
    What gold must be is worked out anew from them: exit code 1 if it is not.
    """
    from dbt_lakehouse.commands.why.command import why as ask
    from dbt_lakehouse.commands.why.events import keyed_table
    from dbt_lakehouse.dbt.commands import read_manifest

    keys = _key_lines(key)
    if len(keys) != 1:
        fail("why is asked of one key")
    of_table = keyed_table(read_manifest(project).nodes, table)
    answer = ask(project.reader(), of_table, keys[0])
    click.echo(answer.json() if as_json else answer.text())
    if answer.differences:
        fail(
            f"{answer.table} is not what the events make of this key:"
            f" {'; '.join(answer.differences)}. `dbt run --full-refresh -s"
            f" {of_table.gold.partition('.')[2]}` builds it anew",
            FAILED,
        )


@lakehouse.command()
@click.option("--open", "opens", is_flag=True, help="Show it in the browser, too.")
@_project_options
def docs(project: "Project", opens: bool) -> None:
    """Write dbt's documentation as one file that needs no server, target/docs.html.

    It is what `dbt docs` shows of tables, columns, tests, lineage and owners, without unit tests
    and without what models tell the lake's macros.
    """
    import webbrowser

    from dbt_lakehouse.commands.docs import write_docs

    page = write_docs(project)
    click.echo(f"wrote {page}")
    if opens:
        webbrowser.open(page.as_uri())


@lakehouse.command()
@click.argument("query", required=False)
@click.option("--as-of", metavar="TIME", help="Read the tables as they were then (UTC).")
@click.option("--limit", type=click.IntRange(min=0), help="Print so many rows at most.")
@click.option("--csv", "form", flag_value="csv", help="Print CSV.")
@click.option("--json", "form", flag_value="json", help="Print JSON, a line for each row.")
@click.option("--parquet", "form", flag_value="parquet", help="Print a Parquet file.")
@_place_options
def sql(
    place: "Place", query: str | None, as_of: str | None, limit: int | None, form: str | None
) -> None:
    """Answer a QUERY of the lake's tables, without Spark, in DuckDB's SQL.

    Without QUERY it is read from standard input, and at a terminal a shell asks for queries. Tables
    are named as schema.table, those of gold without schema too. Nothing can be changed, and no
    rights to write are needed.
    """
    from dbt_lakehouse.commands.sql.command import answer, moment
    from dbt_lakehouse.lake.reader import Reader

    reader = Reader(place.settings, place.gold, moment(as_of))
    form = form or "table"
    if form == "parquet" and sys.stdout.isatty():
        fail("a Parquet file is not for the terminal: redirect it, `> rows.parquet`")
    if query is None and sys.stdin is not None and sys.stdin.isatty():
        from dbt_lakehouse.commands.sql.shell import Shell

        Shell(reader, form, limit, write).run(write_error)
        return
    if query is None or query == "-":
        with opened("-", "standard input") as stream:
            query = stream.read().decode(errors="replace")
    answer(reader, query, form, limit, write)


@lakehouse.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
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
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port of Spark Connect; 0 for any that is free. Without it there is none."
    " SPARK_CONNECT_AUTHENTICATE_TOKEN is what clients must know.",
)
@_project_options
def serve(
    project: "Project",
    host: str,
    port: int,
    users: Path | None,
    keystore: Path | None,
    connect: int | None,
) -> None:
    """Answer queries in Spark's SQL, for beeline, JDBC, PyHive and BI tools, until SIGTERM or
    Ctrl-C.

    It is HiveServer2 with the lake's functions. Clients read, and can neither write nor set
    anything. A host that other machines can reach needs both --users and --keystore. With
    --connect, PySpark's clients of Spark Connect are answered too, on this machine alone.
    """
    from py4j.protocol import Py4JError

    from dbt_lakehouse.commands.serve.access import Access
    from dbt_lakehouse.commands.serve.server import serve as answer
    from dbt_lakehouse.spark.session import has_ended

    access = Access(host, port, users, keystore, connect)
    stopping = threading.Event()
    try:
        answer(project, access, lambda: _set_by_signals(stopping))
    except (Py4JError, OSError):
        # systemd and timeout send the signal to Spark's JVM too.
        if not (stopping.wait(1) and has_ended(patience=5)):
            raise
    click.echo("stopped", err=True)


@lakehouse.command()
@click.argument("name")
def password(name: str) -> None:
    """Ask for a password of the user NAME, and print a line for the file of `serve --users`."""
    from dbt_lakehouse.commands.serve.access import password_line

    given = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    click.echo(password_line(name, given))


@lakehouse.command()
@click.option(
    "--archive", is_flag=True, help="Also make an archive of their classes: Spark starts sooner."
)
@click.option(
    "--s3", is_flag=True, help="Also those for a lake in a bucket, else fetched with its first use."
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


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script."""
    try:
        # Returns the code of --help and --version, and None from a command that ended well.
        code = lakehouse.main(arguments, prog_name="lakehouse", standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = UNUSABLE
    except Exception as error:
        told, code = _told(error)
        if told is None:
            raise
        _print_failure(told)
    sys.exit(code)


def _told(error: Exception) -> tuple[str | None, int]:
    """The sentence and the exit code of what ended the command; no sentence for a bug."""
    # First: to tidy up after an interrupt may fail in its turn.
    if comes_of(error, click.Abort, KeyboardInterrupt):
        return "interrupted; what was committed is whole, the next call goes on", INTERRUPTED
    if isinstance(error, LakehouseError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        code = error.code if isinstance(error, Failure) else error.exit_code
        return error.format_message(), code
    return _told_by_spark(error), FAILED


def _told_by_spark(error: Exception) -> str | None:
    """A sentence for what is no bug; commands without Spark don't pay for its modules."""
    if "py4j" not in sys.modules:
        return None
    from dbt_lakehouse.spark.java_errors import known_trouble

    return known_trouble(error)


def _print_failure(message: str) -> None:
    """One line, whatever the message: scripts and logs read it."""
    click.echo("lakehouse: " + " ".join(message.split()), err=True)


if __name__ == "__main__":
    main()
