"""`lakehouse add`: topics, from Kafka or captures to gold, with one start of Spark.

It does the work of `dbt deps`, `lakehouse land`, `lakehouse generate`, `dbt build` and `lakehouse
show`, in turn and in one process. After a failure, steps that have succeeded need not be
repeated.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.generate.choices import GivenKeys
from dbt_lakehouse.commands.generate.generate_output import GenerateError
from dbt_lakehouse.commands.generate.generated_models import Options, generate, refuse_unlistable
from dbt_lakehouse.commands.show import Choice, show_tables
from dbt_lakehouse.config.models import PACKAGES
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.landing.captures import CaptureError, read_captures
from dbt_lakehouse.landing.files import land_captures
from dbt_lakehouse.landing.kafka.batch import land_kafka, landing_text
from dbt_lakehouse.landing.kafka.continuity import raise_stalled
from dbt_lakehouse.landing.kafka.peeking import no_such_topic
from dbt_lakehouse.landing.stalled import stalled_by
from dbt_lakehouse.report.commits import added_since
from dbt_lakehouse.session.dbt_commands import DbtError, failed_nodes, run_dbt
from dbt_lakehouse.session.project import Project, lock_patience
from dbt_lakehouse.telling import tell, working
from dbt_lakehouse.texts import counted, listed, printable

_LISTS_OF_PACKAGES: Final = ("packages.yml", "dependencies.yml")
_LOOKED_AT: Final = 1_000
"""The most messages of a file whose topics a sentence names."""


class Addition(NamedTuple):
    """The arguments of the command."""

    topics: Sequence[str]
    captures: Sequence[str] = ()
    format: str | None = None
    table: str | None = None
    """The only source table to add; None for all."""
    key: Sequence[str] = ()
    keyless: bool = False
    """Whether the rows of tables whose messages have no key have none either."""
    width: int | None = None
    """The characters of a line; None for unlimited."""

    @property
    def options(self) -> Options:
        """The options of `lakehouse generate`."""
        return Options(
            self.topics,
            table=self.table,
            keys=GivenKeys(self.key, keyless=self.keyless),
            format=self.format,
            takes_suggestion=True,
            from_kafka=not self.captures,
        )


def add(project: Project, given: Addition) -> Iterator[str]:
    """Land topics, write their models, build the project. Yields the result of each step, and at
    the end the first rows of the topics' gold tables.

    Raises ``LandingError``, ``KafkaError``, ``GenerateError`` and ``DbtError``; ``GenerateError``
    also at the end, if some tables got no models while the others were built.
    """
    refuse_files(given.topics, from_kafka=not given.captures)
    project.refuse_landing_elsewhere()
    refuse_unlistable(project, given.topics, given.format)
    _install_packages(project)
    yield _land(project, given)
    report = generate(project, given.options)
    yield report.text(with_next=False)
    if len(report.failed) == len(report.tables):
        # No log would read the topics, whose messages a build would put into quarantine.
        raise GenerateError("no table got models, so nothing is built")
    began = datetime.now(UTC)
    results = _build(project)
    yield built_text(results)
    reader = project.reader()
    names = [f"{project.gold}.{each.name}" for each in report.tables if each.error is None]
    if others := others_text(results, names, reader.metadata(), began):
        yield others
    there = [name for name in names if name in reader.names]
    if there:
        yield show_tables(reader, there, Choice(width=given.width), gold=project.gold)
    if report.failed:
        raise GenerateError(
            f"{len(report.failed)} of {counted(len(report.tables), 'table')} got no models"
        )


def refuse_files(topics: Iterable[str], *, from_kafka: bool) -> None:
    """Raise ``ConfigurationError`` for a file that is given in place of a topic, and for a path
    that no topic of Kafka can have as its name.
    """
    for name in topics:
        if from_kafka and "/" in name and not Path(name).exists():
            raise ConfigurationError(
                f"{name}: there is no such file, and a Kafka topic can't have a / in its name:"
                " `lakehouse add TOPIC --captures FILE` adds a topic of captured messages"
            )
        if Path(name).is_file():
            found = _topics_in(name)
            named = " ".join(map(quote, found or ["TOPIC"]))
            raise ConfigurationError(
                f"{name} is a file, and add takes topics: `lakehouse add {named} --captures"
                f" {quote(name)}` adds those of captured messages"
            )


def _topics_in(path: str) -> list[str]:
    """The topics of a file's first messages; empty for a file of another kind."""
    try:
        with open(path, "rb") as stream:
            first = islice(read_captures(stream), _LOOKED_AT)
            return sorted({each.topic for _, each in first if each.topic})
    except (OSError, CaptureError):
        return []


def _land(project: Project, given: Addition) -> str:
    """Land the captures, or Kafka's new messages, also of topics that vars.topics lacks."""
    if given.captures:
        patience = lock_patience(project.variables)
        return land_captures(project.open_session, given.captures, patience).text()
    source = project.require_kafka(given.topics)
    result = land_kafka(project.open_session(), source)
    raise_stalled(
        {
            name: no_such_topic(source, name) if isinstance(why, ConfigurationError) else why
            for name, why in result.stalled.items()
            if name in given.topics
        }
    )
    return landing_text(result)


def _build(project: Project) -> Sequence[Any]:
    """The results of `dbt build`. Other topics that have stalled are reported, and are not an
    error of this command. Raises ``DbtError``.
    """
    try:
        with working("building"):
            results: Sequence[Any] = run_dbt(project, "build").results
            return results
    except DbtError as error:
        stalled = stalled_by(error)
        if stalled is None or failed_nodes(stalled.results):
            raise
        tell(stalled.sentence)
        return stalled.results


def _install_packages(project: Project) -> None:
    """Run `dbt deps` in a project whose packages are not installed."""
    is_listed = any((project.root / name).exists() for name in _LISTS_OF_PACKAGES)
    if is_listed and not (project.root / PACKAGES).exists():
        with working("installing packages"):
            run_dbt(project, "deps")


def others_text(
    results: Sequence[Any], names: Collection[str], tables: Mapping[str, Table], began: datetime
) -> str:
    """A sentence about the events of other tables that a build since a moment has taken, which is
    never of one topic only; empty without any. ``names`` are the tables that were asked for.
    """
    own = {
        upstream
        for each in results
        if f"{each.node.schema}.{each.node.name}" in names
        for upstream in each.node.depends_on.nodes
    }
    found = []
    for each in results:
        table = f"{each.node.schema}.{each.node.alias}"
        is_log = str(each.node.resource_type) == "model" and "change_log" in each.node.config.meta
        if is_log and each.node.unique_id not in own and table in tables:
            rows = added_since(tables[table], began)
            if rows is None:
                found.append(f"{table} rebuilt")
            elif rows:
                found.append(f"{table} {counted(rows, 'event')}")
    if not found:
        return ""
    return listed("the build also brought other tables up to date:", found)


def built_text(results: Iterable[Any]) -> str:
    """The result of `dbt build` as text: numbers and warnings."""
    results = list(results)
    kinds = Counter((str(each.node.resource_type), str(each.status)) for each in results)
    tests = sum(
        number
        for (kind, status), number in kinds.items()
        if kind in ("test", "unit_test") and status == "pass"
    )
    text = f"built {counted(kinds['model', 'success'], 'model')}, {counted(tests, 'test')} passed"
    warned = [each for each in results if str(each.status) == "warn"]
    return "\n".join(
        [text, *(f"  warning: {each.node.name}: {printable(str(each.message))}" for each in warned)]
    )
