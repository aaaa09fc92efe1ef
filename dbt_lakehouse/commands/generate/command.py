"""`lakehouse generate`: from topics in bronze to the models of their tables."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from pyspark.sql import SparkSession

from dbt_lakehouse.commands.generate import edit, naming, scan
from dbt_lakehouse.commands.generate.project_files import PROJECT_FILE, ProjectFiles
from dbt_lakehouse.commands.generate.report import GenerateError, Report, listed
from dbt_lakehouse.commands.generate.writer import Writer
from dbt_lakehouse.config.project import Project
from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
from python_udfs.registry import FORMATS


class Options(NamedTuple):
    """What the command line was given."""

    topics: Sequence[str]
    table: str | None = None
    name: str | None = None
    key: Sequence[str] = ()
    format: str | None = None


def generate(project: Project, options: Options) -> Report:
    """Write or bring up to date the models of the topics' tables.

    Raises ``GenerateError`` if nothing can be done; a table that can't be while others can is in
    the report.
    """
    _check(options)
    rules = topic_rules(project.variables.get("topics"))
    spark = project.open_session()
    landed = scan.landed_topics(spark)
    missing = [topic for topic in options.topics if topic not in landed]
    if missing:
        raise GenerateError(
            f"bronze holds no message of the topic {', '.join(missing)}: land it first"
            f" (lakehouse land). {listed('It holds', landed)}"
        )
    files = ProjectFiles(project.root)
    matcher = TopicMatcher(spark._jvm, rules)
    formats, unlisted = {}, []
    for topic in options.topics:
        rule = matcher.rule_in_bronze(topic)
        if rule is None:
            unlisted.append(topic)
        elif options.format not in (None, rule.format):
            raise GenerateError(
                f"the topic {topic} is {rule.format} by {rule.topic or rule.pattern!r} in"
                f" vars.topics of {PROJECT_FILE}: put an entry of its own in front of that one"
            )
        else:
            formats[topic] = rule.format
    for topic in unlisted:
        formats[topic] = options.format or _no_format(spark, topic)
    profile = scan.profile_topics(spark, formats)
    report = Report(list(options.topics), profile.messages)
    if profile.undecodable:
        report.notes.append(profile.undecodable)
    writer = Writer(
        files,
        options.topics,
        profile,
        table=options.table,
        name=options.name,
        key=options.key,
    )
    writer.write(report)
    if unlisted and len(report.failed) < len(report.tables):
        _list_topics(spark, files, unlisted, formats, report)
    return report


def _check(options: Options) -> None:
    if not options.topics:
        raise GenerateError("generate needs a topic: --topic NAME")
    if options.name is not None and not naming.MODEL_NAME.fullmatch(options.name):
        raise GenerateError(
            f"--name {options.name}: a model's name is of lower-case letters, digits and"
            " underscores, and begins with a letter"
        )


def _no_format(spark: SparkSession, topic: str) -> NoReturn:
    suggested = scan.suggested_format(spark, topic)
    hint = f"; its payloads look like {suggested}" if suggested else ""
    raise GenerateError(
        f"no entry of vars.topics in {PROJECT_FILE} matches the topic {topic}: give --format, and"
        f" the entry is added. Formats are {', '.join(FORMATS)}{hint}"
    )


def _list_topics(
    spark: SparkSession,
    files: ProjectFiles,
    topics: Sequence[str],
    formats: Mapping[str, str],
    report: Report,
) -> None:
    """Add the topics to ``vars.topics``."""
    text = files.project_file.read_text()
    for topic in topics:
        text = edit.with_topic(text, topic, formats[topic])
    files.project_file.write_text(text)
    added = ", ".join(f"{topic}: {formats[topic]}" for topic in topics)
    report.notes.append(f"added to vars.topics in {PROJECT_FILE}: {added}")
    if scan.decoded_without_format(spark, topics):
        report.notes.append(
            "payloads of it were quarantined as unknown_format by earlier runs:"
            " `lakehouse redrive --code unknown_format` decodes them again"
        )
