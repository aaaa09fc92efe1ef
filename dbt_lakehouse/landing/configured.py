"""What `dbt run` and `dbt build` land first: captures and Kafka, as vars and profile name them."""

from pyspark.sql import SparkSession

from dbt_lakehouse.config.project import Project, lock_patience
from dbt_lakehouse.landing.files import configured_captures, land_again
from dbt_lakehouse.landing.kafka.batch import land_kafka, landing_text


def land_configured(spark: SparkSession, project: Project) -> list[str]:
    """Land what is new; a sentence for each transport that is configured.

    Raises what ``land_captures`` and ``land_kafka`` raise.
    """
    # Before captures land: a broker that is not there is found out at once.
    kafka = project.kafka()
    landed = []
    if captures := configured_captures(project.variables, project.root):
        result = land_again(spark, captures, lock_patience(project.variables))
        landed.append(
            f"landed {result.landed} messages of {len(captures)} captures,"
            f" {result.skipped} were there"
        )
    if kafka is not None:
        landed.append(landing_text(land_kafka(spark, kafka)))
    return landed
