"""Commands that only read."""

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dbt_lakehouse.cli.options import (
    Count,
    OneOf,
    Span,
    TableName,
    key_lines,
    names,
    needs,
    place_options,
    project_options,
    quarantine_options,
)
from dbt_lakehouse.commands.standard_streams import (
    NOT_WELL,
    Input,
    fail,
    opened,
    say,
    terminal_width,
    write,
    write_error,
)
from dbt_lakehouse.extras import require
from dbt_lakehouse.report import WEBHOOK_FORMATS
from dbt_lakehouse.telling import tell
from python_udfs.registry import FORMATS

if TYPE_CHECKING:
    from dbt_lakehouse.session.profile import Place
    from dbt_lakehouse.session.project import Project, ProjectOptions


@click.command()
@needs("sql")
@click.argument("query", required=False)
@click.option("--as-of", metavar="TIME", help="Read the tables as they were then (UTC).")
@click.option("--limit", type=Count(min=0), help="Print at most this many rows.")
@click.option(
    "--expanded",
    "forms",
    flag_value="expanded",
    multiple=True,
    help="Print a line for each column.",
)
@click.option("--csv", "forms", flag_value="csv", multiple=True, help="Print CSV.")
@click.option(
    "--json", "forms", flag_value="json", multiple=True, help="Print JSON, a line for each row."
)
@click.option(
    "--parquet", "forms", flag_value="parquet", multiple=True, help="Print a Parquet file."
)
@place_options
def sql(
    place: "Place",
    query: str | None,
    as_of: str | None,
    limit: int | None,
    forms: tuple[str, ...],
) -> None:
    """Answer a QUERY of the lake's tables, without Spark, in DuckDB's SQL.

    Without QUERY it reads standard input, or opens a shell at a terminal. Tables are named
    schema.table; those of gold need no schema. It can't change anything, and needs no write access.
    """
    if len(set(forms)) > 1:
        fail(f"{', '.join(f'--{each}' for each in forms)}: which? Rows are printed in one form")
    from dbt_lakehouse.lake.reader import Reader
    from dbt_lakehouse.queries.output import Screen
    from dbt_lakehouse.queries.query import answer, moment

    reader = Reader(place.settings, place.gold, moment(as_of), root=place.root)
    form = forms[0] if forms else "table"
    if form == "parquet" and sys.stdout.isatty():
        fail("a Parquet file is not for the terminal: redirect it, `> rows.parquet`")
    if query is None and sys.stdin is not None and sys.stdin.isatty():
        from dbt_lakehouse.commands.sql_shell import Shell

        Shell(reader, form, limit, write, terminal_width).run(write_error)
        return
    if query is None or query == "-":
        with opened("-", "standard input") as stream:
            query = stream.read().decode(errors="replace")
    answer(reader, query, form, limit, write, Screen(terminal_width()))


@click.command()
@needs("sql")
@click.argument("tables", nargs=-1, type=TableName())
@click.option("--limit", type=Count(min=0), help="The number of rows of each table (default: 5).")
@click.option("--columns", metavar="COLUMN,...", help="Only these, in this order.")
@click.option("--where", metavar="CONDITION", help="Only rows that meet it, in DuckDB's SQL.")
@click.option("--json", "as_json", is_flag=True, help="Print the row counts as JSON.")
@place_options
def show(
    place: "Place",
    tables: tuple[str, ...],
    limit: int | None,
    columns: str | None,
    where: str | None,
    as_json: bool,
) -> None:
    """Print tables with their row counts; without TABLES, all of gold.

    At a terminal, lines are as wide as the terminal.
    """
    from dbt_lakehouse.commands.show import ROWS, Choice, show_tables
    from dbt_lakehouse.lake.reader import Reader

    choice = Choice(ROWS if limit is None else limit, names(columns), where, terminal_width())
    reader = Reader(place.settings, place.gold, root=place.root)
    say(show_tables(reader, tables, choice, gold=place.gold, as_json=as_json))


@click.command()
@needs("lake", "sql")
@click.option(
    "--table",
    required=True,
    type=TableName(gold_only=True),
    help="The gold table whose key it is.",
)
@click.option(
    "--key",
    required=True,
    metavar="JSON",
    help='Its key columns: {"id": 7}; `-` reads the key from standard input.',
)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@project_options
def why(project: "Project", table: str, key: str, as_json: bool) -> None:
    """Say why a row of gold is what it is, or is absent.

    Prints each event of the key in log order, with its outcome and its message, without Spark.
    Computes from them what gold must be; exit code 3 if gold differs.
    """
    from dbt_lakehouse.commands.why.events import keyed_table
    from dbt_lakehouse.commands.why.explained_row import why as ask
    from dbt_lakehouse.session.dbt_commands import read_manifest

    keys = key_lines(key)
    if len(keys) != 1:
        fail("why is asked of one key")
    # Before dbt reads the project, and writes its files.
    project.require_lake()
    of_table = keyed_table(read_manifest(project).nodes, table)
    answer = ask(project.reader(), of_table, keys[0])
    say(answer.json() if as_json else answer.text())
    if answer.differences:
        fail(
            f"{answer.table} differs from what its events give for this key:"
            f" {'; '.join(answer.differences)}. `dbt run --full-refresh -s"
            f" {of_table.gold.partition('.')[2]}` rebuilds it",
            NOT_WELL,
        )


@click.command()
@click.option(
    "--format",
    "format_name",
    type=OneOf(FORMATS),
    metavar="FORMAT",
    help="Wire format (default: as it was decoded, else what the decoders accept): "
    + ", ".join(FORMATS)
    + ".",
)
@click.argument("file", required=False)
@click.option("--line", type=Count(min=1), help="FILE holds captures: the message there.")
@click.option("--hex", "hex_text", metavar="HEX", help="The payload in hexadecimal digits.")
@click.option("--base64", "base64_text", metavar="BASE64", help="The payload in base64.")
@click.option("--key-hex", metavar="HEX", help="The Kafka key.")
@click.option("--key-base64", metavar="BASE64", help="The Kafka key.")
@click.option("--topic", help="A message that has landed, with --offset.")
@click.option("--partition", type=Count(min=0), help="Its partition, if several have it.")
@click.option("--offset", type=Count(min=0), help="Its offset.")
@click.option("--kafka", "from_kafka", is_flag=True, help="Read it from Kafka, not from bronze.")
@click.option("--all", "everything", is_flag=True, help="Print everything, whatever its size.")
@click.option("--json", "as_json", is_flag=True, help="Print the trees and events as JSON.")
@partial(project_options, find=lambda options: options)
def explain(options: "ProjectOptions", everything: bool, as_json: bool, **given: Any) -> None:
    """Take a payload apart: each byte range, what it is, and what it became.

    The payload is the content of FILE (`-`: standard input), --hex, --base64, or a message that has
    landed. An undecodable payload is shown up to the byte where it breaks, with the code and the
    sentence of its `invalid` event, and the exit code is still 0. Needs no Spark, except for
    --kafka.
    """
    from dbt_lakehouse.commands.explain.arguments import Arguments
    from dbt_lakehouse.commands.explain.explained_message import explain as take_apart
    from dbt_lakehouse.commands.explain.nodes import EVERYTHING, Limits

    def read(file: str) -> bytes:
        name = "standard input" if file == "-" else file
        with opened(file, name) as stream:
            return b"".join(iter(partial(Input(stream, name).read1, 1 << 20), b""))

    message = Arguments(**given).message(options, read)
    limits = EVERYTHING if everything else Limits()
    answer = take_apart(message.key, message.value, limits, message.told, message.headers)
    text = answer.json() if as_json else answer.text(everything=everything)
    write(f"{text}\n".encode(errors="backslashreplace"))


@click.command()
@needs("lake")
@click.option("--topic", required=True, help="A topic of Kafka, landed or not.")
@click.option(
    "--limit",
    type=Count(min=1, max=10_000),
    default=5,
    show_default=True,
    help="The most messages to print.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each message.")
@project_options
def peek(project: "Project", topic: str, limit: int, as_json: bool) -> None:
    """Print the newest messages of a topic as Kafka has them now, decoded; lands nothing."""
    from dbt_lakehouse.commands.peek import peek_json, peek_text
    from dbt_lakehouse.landing.kafka.peeking import newest

    source = project.require_broker()
    messages = newest(project.open_session(), source, topic, limit)
    say((peek_json if as_json else peek_text)(topic, messages))


@click.command()
@needs("lake", "sql")
@click.option("--topic", required=True, help="A topic that has landed.")
@click.option("--partition", type=Count(min=0), help="Only of this partition.")
@click.option("--offset", type=Count(min=0), help="Only of the message with this offset.")
@click.option("--from", "first", type=Count(min=0), help="Only from this offset on.")
@click.option("--to", "last", type=Count(min=0), help="Only up to and including this offset.")
@click.option(
    "--key",
    metavar="JSON",
    help='Only events with these values in their key or a row: {"id": 7}; `-`: standard input.',
)
@click.option(
    "--limit", type=Count(min=1), help="The most events to print (default: 100; all with --json)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, a line for each event.")
@place_options
def events(
    place: "Place",
    topic: str,
    partition: int | None,
    offset: int | None,
    first: int | None,
    last: int | None,
    key: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Print the events of landed messages, decoded again, in the order of the log.

    Change logs and silver.other_events are made from these events, which have row images and
    metadata; JSON has the fields of `lakehouse decode`. Needs no Spark. A range of offsets is
    quick; for a key all messages of the topic are read.
    """
    from dbt_lakehouse.commands.events import Choice, find, write_json, write_text
    from dbt_lakehouse.lake.reader import Reader

    if offset is not None and not (first is last is None):
        fail("--offset is one message, --from and --to are a range: give one or the other")
    keys = [None] if key is None else key_lines(key)
    if len(keys) != 1:
        fail("--key: one key can be asked for")
    reader = Reader(place.settings, place.gold, root=place.root)
    least, greatest = (first, last) if offset is None else (offset, offset)
    choice = Choice(topic, partition, least, greatest, keys[0])
    found = find(reader, f"{place.silver}.other_events", choice)
    (write_json if as_json else write_text)(found, limit, write)


@click.command()
@needs("sql")
@quarantine_options
@click.option(
    "--examples",
    type=Count(min=1),
    default=1,
    show_default=True,
    help="The number of newest examples of each code and topic.",
)
@click.option(
    "--show-payloads",
    is_flag=True,
    help="Show the contents of payloads, which are masked otherwise.",
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@place_options
def quarantine(place: "Place", show_payloads: bool, as_json: bool, **chosen: Any) -> None:
    """List payloads that could not be decoded: codes, topics, counts, times and examples.

    Reads silver.quarantined_payloads, without Spark. Names and values of payloads are masked in the
    sentences unless --show-payloads is given.
    """
    from dbt_lakehouse.lake.reader import Reader
    from dbt_lakehouse.stored.quarantine import quarantine as look

    reader = Reader(place.settings, place.gold, root=place.root)
    found = look(reader, place.silver, **chosen, show_payloads=show_payloads)
    say(found.json() if as_json else found.text())


@click.command()
@needs("lake", "sql")
@click.option("--json", "as_json", is_flag=True, help="Print it as one JSON document.")
@click.option("--openmetrics", metavar="FILE", help="Write the numbers for Prometheus, too.")
@click.option("--no-kafka", is_flag=True, help="Leave out Kafka, which needs Spark.")
@project_options
def status(project: "Project", as_json: bool, openmetrics: str | None, no_kafka: bool) -> None:
    """Print what became of everything that landed, by topic and table, and whether the sums agree.

    Reads the lake without Spark. If the profile names a Kafka broker, it shows how far bronze lags
    behind, by partition, and why a topic can't go on. Exit code 3 if it finds a problem: a sum that
    does not agree, a topic that can't be decoded at all, a failed run, a topic that can't go on.
    """
    from dbt_lakehouse.commands.status.status_sources import status as look

    if openmetrics is not None:
        require("openmetrics")
        if not Path(openmetrics).absolute().parent.is_dir():
            fail(f"--openmetrics {openmetrics}: there is no such folder")
    report, trouble = look(project, ask_kafka=not no_kafka)
    if openmetrics is not None:
        from dbt_lakehouse.commands.status.openmetrics import write_metrics

        write_metrics(Path(openmetrics), report)
    say(report.json() if as_json else report.text())
    if trouble is not None:
        raise trouble
    if report.alerts:
        fail(report.summary(), NOT_WELL)


@click.command()
@needs("lake")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@partial(project_options, find=lambda options: options)
def doctor(options: "ProjectOptions", as_json: bool) -> None:
    """Check all that a run needs: a line for each check, with `ok`, `warn` or `fail` in front.

    Project, profile and target, Python, Java, packages and jars, catalog, storage, locks, clock,
    Kafka and schema registry; a check that is not ok says what to do. It starts no Spark, writes
    nothing, and shows no secrets. Exit code 3 if anything fails.
    """
    from dbt_lakehouse.commands.doctor import State, checks_json
    from dbt_lakehouse.commands.doctor import doctor as look

    checks = look(options)
    say(checks_json(checks) if as_json else "\n".join(each.text() for each in checks))
    if failed := [each.about for each in checks if each.state is State.FAIL]:
        fail(f"not well: {', '.join(failed)}", NOT_WELL)


@click.command()
@needs("lake", "report")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser, too.")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it to this file instead of target/report.html.",
)
@click.option(
    "--since",
    type=Span(),
    help="All runs in this time until now (7d, 12h) instead of the newest.",
)
@click.option(
    "--payloads",
    is_flag=True,
    help="Show the contents of quarantined payloads, which are masked otherwise.",
)
@click.option(
    "--notify",
    metavar="URL",
    envvar="LAKEHOUSE_NOTIFY_URL",
    show_envvar=True,
    help="Post failures, if there are any, to this webhook.",
)
@click.option(
    "--notify-format",
    type=OneOf(WEBHOOK_FORMATS),
    help="The format of the message; by default `slack` to hooks.slack.com, and `json` to others.",
)
@place_options
def report(
    place: "Place",
    opens: bool,
    output: Path | None,
    since: timedelta | None,
    payloads: bool,
    notify: str | None,
    notify_format: str | None,
) -> None:
    """Rewrite the report of the newest run, one HTML page, target/report.html.

    `dbt build` and `dbt run` also leave it. It accounts for the new messages, table by table, and
    shows failed tests and how the last runs compare. Needs no Spark. If a webhook can't be reached,
    standard error says so, and the exit code is still that of the page.
    """
    from dbt_lakehouse.commands.report import report as write_report
    from dbt_lakehouse.report.webhook import notify as tell_webhook
    from dbt_lakehouse.report.webhook import webhook_of

    webhook = webhook_of(notify, notify_format) if notify else None
    facts, page = write_report(place, output, since, show_payloads=payloads)
    if webhook is not None:
        tell(tell_webhook(webhook, facts, page))
    show_page(page, opens=opens)


@click.command()
@needs("lake")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser, too.")
@project_options
def docs(project: "Project", opens: bool) -> None:
    """Write dbt's documentation as one file that needs no server, target/docs.html.

    It has the tables, columns, tests, lineage and owners of `dbt docs`, without unit tests and the
    models' declarations in meta.
    """
    from dbt_lakehouse.commands.docs import write_docs

    show_page(write_docs(project), opens=opens)


def show_page(page: Path, *, opens: bool) -> None:
    """Report a page's path, and open it in the browser if requested."""
    import webbrowser

    say(f"wrote {page}")
    if opens:
        webbrowser.open(page.resolve().as_uri())
