"""The landing at the start of `dbt run` and `dbt build`: captures and Kafka, as vars and profile
name them.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.landing.files import configured_captures, land_again
from dbt_lakehouse.landing.kafka.batch import land_kafka, landing_text
from dbt_lakehouse.session.project import Project, lock_patience
from dbt_lakehouse.texts import counted


class Landed(NamedTuple):
    """The result of a landing."""

    sentences: list[str]
    """A sentence for each configured transport."""
    stalled: Mapping[str, LakehouseError]
    """The errors of Kafka topics that could not be landed; the others were."""


def land_configured(spark: SparkSession, project: Project) -> Landed:
    """Land new messages. Raises the errors of ``land_captures`` and ``land_kafka``."""
    kafka = project.kafka()
    sentences = []
    stalled: Mapping[str, LakehouseError] = {}
    if captures := configured_captures(project.variables, project.root):
        result = land_again(spark, captures, lock_patience(project.variables))
        sentences.append(
            f"landed {counted(result.landed, 'message')} of {counted(len(captures), 'capture')},"
            f" {result.skipped} were there"
        )
    if kafka is not None:
        landing = land_kafka(spark, kafka)
        sentences.append(landing_text(landing))
        stalled = landing.stalled
    return Landed(sentences, stalled)
