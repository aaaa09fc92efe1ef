"""Read payloads of bronze, and their events by the current decoders."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr

from dbt_lakehouse.commands.forget.entities import BRONZE
from dbt_lakehouse.config.topics import TopicMatcher, TopicRule
from dbt_lakehouse.lake.avro_schemas import ids_in, schemas_of
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs.formats import format_sql, formats_then
from dbt_lakehouse.spark.functions import register_decoder
from dbt_lakehouse.spark.jvm import packages
from dbt_lakehouse.texts import sql_text, sql_texts
from python_udfs.registry import AVRO_FORMATS

READ: Final = "forget_read"
"""The payloads that were read: topic, partition, offset, timestamp, landed_at, key, value, headers,
format.
"""
DECODED: Final = "forget_decoded"
"""Their events: topic, partition, offset, event_index, format, operation, source_schema,
record_key, metadata.
"""
POSITION: Final = "topic, partition, offset"
EVENT: Final = f"{POSITION}, event_index"
_POSITIONS: Final = "forget_positions"
_LOOKED_AT: Final = "forget_looked_at"
_FOUND: Final = "forget_found"
VIEWS: Final = (READ, DECODED, _POSITIONS, _LOOKED_AT, _FOUND)
_COLUMNS: Final = f"{POSITION}, timestamp, landed_at, key, value, headers"
# The most ranges: Spark skips files only by literals, and more of them gain nothing.
_MOST_RANGES: Final = 100


def keep(rows: DataFrame, view: str) -> None:
    """Evaluate rows once, as a view."""
    rows.localCheckpoint(eager=True).createOrReplaceTempView(view)


class Payloads:
    """Makes the views and adds to them; each payload is read once."""

    def __init__(
        self, spark: SparkSession, other_events: Table, rules: Sequence[TopicRule]
    ) -> None:
        self._spark: Final = spark
        self._other_events: Final = other_events
        self._matcher: Final = TopicMatcher(packages(spark), rules)
        self.table: Final = BRONZE.path
        self._add(spark.sql(f"select {_COLUMNS} from {self.table} where false"), is_first=True)

    def read(self, positions: str) -> None:
        """Read the payloads at the positions of a query."""
        places = self._spark.sql(
            f"select distinct {POSITION} from ({positions})"
            f" left anti join {READ} using ({POSITION})"
        ).localCheckpoint()
        if not places.isEmpty():
            places.createOrReplaceTempView(_POSITIONS)
            near = self._near(_POSITIONS)
            self._add(
                self._spark.sql(
                    f"select {_COLUMNS} from {self.table}"
                    f" left semi join {_POSITIONS} using ({POSITION}) where {near}"
                )
            )

    def read_those_with(self, condition: str, topics: Sequence[str] | None) -> None:
        """Read the payloads of some topics, None for all, with events that meet a condition. It
        knows no registry schemas.
        """
        if topics != []:
            is_meant = "true" if topics is None else f"topic in ({sql_texts(topics)})"
            rows = self._spark.sql(f"select {_COLUMNS} from {self.table} where {is_meant}")
            self._with_formats(rows).createOrReplaceTempView(_LOOKED_AT)
            self.read(f"select {POSITION} from {_events_in(_LOOKED_AT)} where {condition}")

    def _add(self, rows: DataFrame, *, is_first: bool = False) -> None:
        found = self._with_formats(rows.localCheckpoint()).localCheckpoint()
        found.createOrReplaceTempView(_FOUND)
        self._know_schemas()
        decoded = self._spark.sql(f"select * from {_events_in(_FOUND)}").localCheckpoint()
        for view, more in ((READ, found), (DECODED, decoded)):
            rows = more if is_first else self._spark.table(view).unionAll(more)
            rows.createOrReplaceTempView(view)

    def _near(self, positions: str) -> str:
        """A condition that holds for all positions of a view, and for few others."""
        ranges = self._spark.sql(
            f"select topic, partition, min(offset), max(offset) from {positions}"
            " group by topic, partition"
        ).collect()
        if len(ranges) > _MOST_RANGES:
            return "true"
        return " or ".join(
            f"(topic = {sql_text(topic)} and partition = {partition}"
            f" and offset between {first} and {last})"
            for topic, partition, first, last in ranges
        )

    def _with_formats(self, rows: DataFrame) -> DataFrame:
        topics = [row.topic for row in rows.select("topic").distinct().collect()]
        # The formats by which other_events looked at them.
        formats = formats_then(self._other_events, topics, lambda: self._matcher)
        return rows.withColumn("format", expr(format_sql(formats)))

    def _know_schemas(self) -> None:
        """Make the schemas known to the decoder that the payloads name."""
        is_avro = f"format in ({sql_texts(AVRO_FORMATS)})"
        texts = "select explode(array(key, value) || coalesce(headers.value, array())) as text"
        query = ids_in(f"({texts} from {_FOUND} where {is_avro})")
        numbers = [row.id for row in self._spark.sql(query).collect()]
        if numbers:
            register_decoder(self._spark, schemas_of(self._spark, numbers))


def _events_in(payloads: str) -> str:
    """The events of a view of payloads, to select from."""
    return f"""(
        select
            {POSITION}, event.event_index, format, event.operation, event.source_schema,
            event.record_key, event.metadata
        from {payloads}
        lateral view explode(decode_payload(format, key, value, headers)) events as event
    )"""
