"""``bronze.topic_policies``: the cleanup policies of topics, as the brokers reported them.

A tombstone of a topic that was compacted may be all that is left of a delete
(``dbt_lakehouse.build.tombstones``). The broker's report is kept in the lake, so that a later
rebuild without the broker makes the same rows: once compacted, a topic counts as compacted.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.lake.small_tables import rows_of
from dbt_lakehouse.telling import tell

LABEL: Final = "bronze.topic_policies"
TABLE: Final = f"lake.{LABEL}"
COMPACT: Final = "compact"
_COLUMNS: Final = (
    "topic string not null comment 'topic as bronze.raw_payloads names it',"
    " cleanup_policy string not null comment 'its cleanup.policy in Kafka, words in order',"
    " noted_at timestamp not null comment 'when a landing first found it so'"
)


def is_compacting(policy: str) -> bool:
    """Whether a topic with this ``cleanup.policy`` is compacted."""
    return COMPACT in policy.split(",")


def note_policies(spark: SparkSession, policies: Mapping[str, str]) -> None:
    """Keep new reports of the brokers about topics, by bronze's names. Topics that were never
    compacted are left out.
    """
    known = _kept(spark)
    new = {
        topic: policy
        for topic, policy in policies.items()
        if known.get(topic, policy if not is_compacting(policy) else None) != policy
    }
    if not new:
        return
    spark.sql(
        f"create table if not exists {TABLE} ({_COLUMNS}) using iceberg"
        " comment 'One row per topic and change of its cleanup.policy, of compacted topics'"
    )
    now = datetime.now(UTC)
    rows = [(topic, policy, now) for topic, policy in sorted(new.items())]
    spark.createDataFrame(rows, spark.table(TABLE).schema).writeTo(TABLE).append()
    for topic, policy in sorted(new.items()):
        if is_compacting(policy) and topic not in known:
            tell(
                f"topic {topic} is compacted (cleanup.policy {policy}): a tombstone that no delete"
                " of its key stands before is a delete"
            )


def compacted_topics(spark: SparkSession) -> frozenset[str]:
    """The topics, by bronze's names, that a broker has ever reported as compacted."""
    rows = rows_of(spark, TABLE)
    return frozenset(row["topic"] for row in rows if is_compacting(row["cleanup_policy"]))


def _kept(spark: SparkSession) -> dict[str, str]:
    """The newest policy of each topic."""
    rows = sorted(rows_of(spark, TABLE), key=itemgetter("noted_at"))
    return {row["topic"]: row["cleanup_policy"] for row in rows}
