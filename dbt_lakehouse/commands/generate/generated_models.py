"""`lakehouse generate`: from topics in bronze to the models of their tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.generate import edit, naming, scan
from dbt_lakehouse.commands.generate.choices import GivenKeys
from dbt_lakehouse.commands.generate.generate_output import GenerateError, Report
from dbt_lakehouse.commands.generate.profile import TableId
from dbt_lakehouse.commands.generate.project_files import PROJECT_FILE, ProjectFiles
from dbt_lakehouse.commands.generate.writer import Writer
from dbt_lakehouse.config.topics import Formats, TopicMatcher, topic_rules
from dbt_lakehouse.lake.policies import compacted_topics
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.spark.jvm import packages
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.stored.topics import landed_topics, refuse_missing
from dbt_lakehouse.telling import working
from python_udfs.registry import FORMATS


class Options(NamedTuple):
    """The arguments of the command."""

    topics: Sequence[str]
    table: str | None = None
    name: str | None = None
    keys: GivenKeys = GivenKeys()
    format: str | None = None
    takes_suggestion: bool = False
    """Whether a topic without a format gets the suggested one."""
    from_kafka: bool = True
    """Whether topics that vars.topics does not list come from Kafka."""


class Chosen(NamedTuple):
    """The formats of topics."""

    formats: dict[str, Formats]
    unlisted: dict[str, str]
    """The formats of topics that vars.topics does not list."""
    why: list[str]
    """The reasons for these, a sentence each."""


def generate(project: Project, options: Options) -> Report:
    """Write or update the models of the topics' tables.

    Raises ``GenerateError`` if nothing can be done; a single table's failure is in the report.
    """
    _check(options)
    rules = topic_rules(project.variables.get("topics"))
    files = ProjectFiles(project.root)
    files.refuse_unwritable()
    landed = project.looked(landed_topics)
    if landed is not None:
        refuse_missing(options.topics, landed)
    spark = project.open_session()
    if landed is None:
        landed = scan.landed_topics(spark)
        refuse_missing(options.topics, landed)
    matcher = TopicMatcher(packages(spark), rules)
    formats, unlisted, why = choose_formats(
        matcher, options, lambda topic: scan.suggested_format(spark, topic)
    )
    listed_text = text_with_topics(files, unlisted, from_kafka=options.from_kafka)
    with working("looking at all messages", tasks_of(spark)):
        profile = scan.profile_topics(spark, formats)
    report = Report(list(options.topics), profile.messages)
    if options.takes_suggestion:
        report.notes += why
    if profile.undecodable:
        report.notes.append(profile.undecodable)
    report.notes += _compaction(spark, matcher, formats)

    def other_tables() -> set[tuple[TableId, str]]:
        return scan.tables_of(
            spark,
            {topic: matcher.formats_in_bronze(topic) for topic in landed if topic not in formats},
        )

    writer = Writer(
        files,
        options.topics,
        profile,
        other_tables,
        table=options.table,
        name=options.name,
        keys=options.keys,
    )
    writer.write(report)
    if unlisted and len(report.failed) < len(report.tables):
        files.project_file.write_text(listed_text)
        report.notes += _notes_of_listed(spark, unlisted, from_kafka=options.from_kafka)
    return report


def refuse_unlistable(project: Project, topics: Sequence[str], format: str | None) -> None:
    """Raise ``ConfigurationError`` if a project lists no topics, and topics can't be added."""
    if not project.variables.get("topics"):
        text_with_topics(ProjectFiles(project.root), dict.fromkeys(topics, format or "..."))


def text_with_topics(
    files: ProjectFiles, formats: Mapping[str, str], *, from_kafka: bool = True
) -> str:
    """The text of the project's file with the topics in ``vars.topics``."""
    text = files.text(files.project_file)
    return edit.with_topics(text, formats, from_kafka=from_kafka) if formats else text


def _check(options: Options) -> None:
    if not options.topics:
        raise GenerateError("generate needs a topic: --topic NAME")
    if options.name is not None and not naming.MODEL_NAME.fullmatch(options.name):
        raise GenerateError(
            f"--name {options.name}: a model's name has lower-case letters, digits and"
            " underscores, and begins with a letter"
        )


def choose_formats(
    matcher: TopicMatcher, options: Options, suggested: Callable[[str], scan.Suggestion | None]
) -> Chosen:
    """The formats of the topics: those that vars.topics lists, otherwise the given or the
    suggested one.

    Raises ``GenerateError``.
    """
    chosen = Chosen({}, {}, [])
    for topic in options.topics:
        listed = matcher.formats_in_bronze(topic)
        if listed is None:
            found = _format_of(suggested(topic), topic, options)
            chosen.unlisted[topic] = found.format
            chosen.why.append(f"topic {topic} is {found.format}, {found.why}")
            listed = Formats.only(found.format)
        elif options.format not in (None, *listed.names):
            raise GenerateError(
                f"the topic {topic} is {' or '.join(listed.names)} by vars.topics of"
                f" {PROJECT_FILE}: put an entry of its own in front of that one"
            )
        chosen.formats[topic] = listed
    return chosen


def _format_of(suggestion: scan.Suggestion | None, topic: str, options: Options) -> scan.Suggestion:
    """The format of a topic that vars.topics does not list: the given one, if it is possible."""
    given = options.format
    suggested = None if suggestion is None else suggestion.format
    looks = f"its payloads look like {suggested}"
    if given is None and suggestion is not None and options.takes_suggestion:
        return suggestion
    if given is None:
        raise GenerateError(
            f"no entry of vars.topics in {PROJECT_FILE} matches the topic {topic}: give --format,"
            " and the entry is added. Formats are"
            f" {', '.join(FORMATS)};"
            f" {looks if suggested else 'its payloads alone do not tell which one is theirs'}"
        )
    if suggested not in (None, given):
        raise GenerateError(
            f"--format {given}: the topic {topic} is of another format, {looks}. If they are"
            f" {given} all the same, list the topic in vars.topics of {PROJECT_FILE} yourself"
        )
    return suggestion or scan.Suggestion(given, "by --format")


def _compaction(
    spark: SparkSession, matcher: TopicMatcher, formats: Mapping[str, Formats]
) -> list[str]:
    """Notes on the compaction of the topics."""
    by_broker = compacted_topics(spark)
    said = {topic: matcher.compacted_in_bronze(topic) for topic in formats}
    notes = [
        f"topic {topic} is compacted: a tombstone that no delete of its key stands before is a"
        " delete"
        for topic in formats
        if said[topic] or (said[topic] is None and topic in by_broker)
    ]
    unsaid = {
        topic: each
        for topic, each in formats.items()
        if said[topic] is None and topic not in by_broker
    }
    for topic in scan.looks_compacted(spark, unsaid) if unsaid else ():
        notes.append(
            f"topic {topic} looks compacted: tombstones follow missing offsets, without the"
            " deletes of their keys, so rows stay. If it is, write `compacted: true` into its entry"
            f" in vars.topics of {PROJECT_FILE}; if not, `false`"
        )
    return notes


def _notes_of_listed(
    spark: SparkSession, formats: Mapping[str, str], *, from_kafka: bool
) -> list[str]:
    added = ", ".join(f"{topic}: {name}" for topic, name in formats.items())
    beside = "" if from_kafka else ", with kafka: false, since captures bring it"
    notes = [f"added to vars.topics in {PROJECT_FILE}: {added}{beside}"]
    if scan.decoded_without_format(spark, list(formats)):
        notes.append(
            "payloads of it were quarantined as unknown_format by earlier runs:"
            " `lakehouse redrive --code unknown_format` decodes them again"
        )
    return notes
