"""Commands that land messages in bronze, or decode them without a lake."""

import json
import shlex
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from dbt_lakehouse.cli.options import (
    Count,
    OneOf,
    needs,
    page_beside,
    page_option,
    project_options,
    set_by_signals,
)
from dbt_lakehouse.commands.standard_streams import Input, fail, opened, say, write
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.landing.captures import CaptureError
from dbt_lakehouse.landing.progress import Counted, Reading, size_of_stream
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import counted
from python_udfs.registry import FORMATS

if TYPE_CHECKING:
    from dbt_lakehouse.session.project import Project

_MAX_OFFSETS: Final = 500_000
_MAINTAIN_SECONDS: Final = 3_600.0


@click.command()
@click.option(
    "--format",
    "format_name",
    required=True,
    type=OneOf(FORMATS),
    metavar="FORMAT",
    help="Wire format of the payloads: " + ", ".join(FORMATS) + ".",
)
@click.argument("file", default="-")
def decode(format_name: str, file: str) -> None:
    """Decode captured messages; one JSON line per change event.

    FILE (default or `-`: standard input) holds JSON lines with value_b64 (null for none) and, if
    known, topic, partition, offset, timestamp_ms, key_b64 and headers. An undecodable payload gives
    an event with the operation `invalid`, and exit code 0; a line with another field, or without
    value_b64, ends the command.
    """
    from dbt_lakehouse.commands.decode import decode_stream

    name = "standard input" if file == "-" else file
    with opened(file, name) as stream:
        reading = Reading(size_of_stream(stream))
        source = Counted(Input(stream, name), reading)
        # At a terminal the events show the progress, and would run into its line.
        is_silent = not sys.stdout.isatty()
        try:
            with working("decoding", reading.how_far) if is_silent else nullcontext():
                decode_stream(source, write, format_name, reading)
        except CaptureError as error:
            fail(f"{name}: {error}")


@click.command()
@needs("lake")
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
    help="With --kafka: skip messages that Kafka has deleted unread, and record the gap.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
# `lakehouse add` takes topics, and so captures by an option.
@click.option("--captures", multiple=True, hidden=True)
@project_options
def land(
    project: "Project",
    files: tuple[str, ...],
    captures: tuple[str, ...],
    from_kafka: bool,
    until_caught_up: bool,
    accept_loss: bool,
    as_json: bool,
) -> None:
    """Append messages to bronze.raw_payloads, except those that it has already.

    FILES hold captured messages: JSON lines as `decode` reads them; topic, partition and offset are
    required here. All are appended in one commit; if a line is invalid, or another message already
    has its position, nothing is. With --kafka, new messages in the topics of vars.topics are
    appended, also in one commit.
    """
    from dbt_lakehouse.landing.files import land_captures
    from dbt_lakehouse.session.project import lock_patience

    if captures:
        fail(f"land takes captures without an option: lakehouse land {shlex.join(captures)}")
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
        say(json.dumps({"landed": result.landed, "skipped": result.skipped}))
    else:
        say(result.text())


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
            say(landing_text(result))
        if not (until_caught_up and result.remaining):
            break
        # Others wait for the lake too, and check it less often than this takes.
        time.sleep(0.5)
    if as_json:
        counts = {"landed": landed, "remaining": result.remaining}
        topics = {
            "left_to_stream": sorted(result.left_to_stream),
            "stalled": sorted(result.stalled),
        }
        say(json.dumps({**counts, **topics}))
    raise_stalled(result.stalled)


@click.command()
@needs("lake")
@click.option("--topic", "topics", multiple=True, help="Only this topic; can be given again.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=5.0,
    show_default=True,
    help="Seconds from one commit to the next.",
)
@click.option(
    "--available-now", is_flag=True, help="End when all messages now in Kafka have landed."
)
@click.option(
    "--max-offsets-per-trigger",
    type=Count(min=1),
    help=f"The maximum number of offsets for one commit (default: {_MAX_OFFSETS:,}).",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Skip messages that Kafka has deleted unread, and record the gap.",
)
@click.option("--build", is_flag=True, help="Build too, in the same process: see above.")
@click.option("--select", "-s", multiple=True, help="With --build: only these models, as dbt's.")
@click.option("--exclude", multiple=True, help="With --build: not these models, as dbt's.")
@click.option("--test", "with_tests", is_flag=True, help="With --build: run data tests too.")
@click.option(
    "--liveness",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --build: touch this file whenever everything known is built, and while maintenance"
    " makes progress.",
)
@click.option(
    "--maintain-every",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --build: maintain each table at most this often, in pauses (default: 3600).",
)
@click.option("--no-maintain", is_flag=True, help="With --build: leave all tables as they are.")
@page_option
@project_options
def stream(
    project: "Project",
    topics: tuple[str, ...],
    interval: float,
    available_now: bool,
    max_offsets_per_trigger: int | None,
    accept_loss: bool,
    build: bool,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    with_tests: bool,
    liveness: Path | None,
    maintain_every: float | None,
    no_maintain: bool,
    page: int | None,
) -> None:
    """Land from Kafka every few seconds, until SIGTERM or Ctrl-C.

    Resumes where bronze ends. While it runs, `dbt run` leaves its topics to it and builds from what
    has landed.

    With --build, each cycle lands one batch (vars.max_messages_per_run) and builds what depends on
    the topics with news, as `dbt run` does. A cycle begins when there is news and the last one is
    done, at most every --interval seconds; in pauses, tables are maintained as by `lakehouse
    maintain`. The project is read again when its files change. A failed cycle is reported and
    repeated, with growing pauses; the tenth failure in a row ends the command.
    """
    from dbt_lakehouse.landing.kafka.stream import StreamOptions, refuse_unlisted, run_stream

    if build and (topics or accept_loss or max_offsets_per_trigger):
        fail(
            "--build lands as `dbt run` does: all topics, vars.max_messages_per_run at once."
            " --topic, --max-offsets-per-trigger and --accept-loss go without it"
        )
    if not build and (select or exclude or with_tests or liveness or maintain_every or no_maintain):
        fail(
            "--select, --exclude, --test, --liveness, --maintain-every and --no-maintain go with"
            " --build"
        )
    if maintain_every and no_maintain:
        fail("--maintain-every and --no-maintain don't go together")
    project.refuse_landing_elsewhere()
    if build:
        from dbt_lakehouse.commands.cycles import CycleOptions, run_cycles

        often = None if no_maintain else maintain_every or _MAINTAIN_SECONDS
        cycles = CycleOptions(interval, available_now, select, exclude, with_tests, liveness, often)
        with page_beside(project.options, page):
            built = _until_stopped(lambda stopping: run_cycles(project, cycles, stopping), "built")
        if built is not None:
            say(f"built {counted(built, 'time')}")
        return
    source = project.require_kafka()
    refuse_unlisted(source.rules, topics)
    spark = project.open_session()
    options = StreamOptions(
        topics=topics,
        interval_seconds=interval,
        available_now=available_now,
        max_offsets=max_offsets_per_trigger or _MAX_OFFSETS,
        accept_loss=accept_loss,
    )
    with page_beside(project.options, page):
        landed = _until_stopped(
            lambda stopping: run_stream(spark, source, options, stopping), "landed"
        )
    if landed is not None:
        say(f"kafka: landed {landed:,} messages")


def _until_stopped(work: Callable[[threading.Event], int], done: str) -> int | None:
    """The count of work that a signal stops; None if Spark was stopped with it."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from dbt_lakehouse.session.opening import has_ended

    stopping = set_by_signals(threading.Event())
    try:
        return work(stopping)
    except (Py4JError, PySparkException, OSError, LakehouseError):
        # systemd and timeout send the signal to Spark's JVM too.
        if not (stopping.wait(1) and has_ended(patience=5)):
            raise
        click.echo(f"stopped together with Spark; what has {done} is complete", err=True)
        return None
