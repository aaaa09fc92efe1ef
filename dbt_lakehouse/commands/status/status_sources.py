"""The sources of `lakehouse status`: the lake without Spark, then Kafka."""

from datetime import UTC, datetime
from typing import Any

from dbt_lakehouse.commands.status.gathering import gather
from dbt_lakehouse.commands.status.last_run import read_run
from dbt_lakehouse.commands.status.status_output import Report, report_of
from dbt_lakehouse.config.topics import unlisted_topics
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.landing.lags import hour_file, last_hour
from dbt_lakehouse.session.project import Project, target_folder


def status(project: Project, *, ask_kafka: bool) -> tuple[Report, LakehouseError | None]:
    """The report, and the error if Kafka could not be reached.

    Raises ``ConfigurationError`` if there is no lake yet, and the errors of reading.
    """
    target = target_folder(project.root)
    facts = gather(
        project.reader(),
        project.silver,
        undecoded=project.variables.get("undecoded_topics") or (),
        last_run=read_run(target, project.gold),
        built=last_hour(hour_file(target, project.settings, project.gold), datetime.now(UTC)),
    )
    topics = [each.topic for each in facts.topics if not each.is_known_undecoded]
    unlisted = unlisted_topics(project.variables.get("topics"), topics)
    partitions, error = _partitions(project) if ask_kafka else (None, None)
    return report_of(facts, partitions, unlisted), error


def _partitions(project: Project) -> tuple[list[dict[str, Any]] | None, LakehouseError | None]:
    """Kafka's partitions, None if no broker is configured; and the error if none answers."""
    try:
        source = project.reachable_kafka()
        if source is None:
            return None, None
        from dbt_lakehouse.landing.kafka.status import read_status

        return read_status(project.open_session(), source), None
    except LakehouseError as error:
        return None, error
