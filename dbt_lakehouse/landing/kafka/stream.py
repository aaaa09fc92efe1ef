"""Streaming landing: Structured Streaming into ``bronze.raw_payloads``, a commit every few
seconds.

Spark's checkpoint is only scratch space here, new at each start: a stream begins where bronze
ends, and a micro-batch lands only what bronze lacks. So neither a lost checkpoint nor expired
snapshots (by which Iceberg's own sink finds its last epoch) can land a row twice or leave one
out.
"""

import json
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, expr
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from dbt_lakehouse.config.kafka import KafkaSource
from dbt_lakehouse.config.paths import cache_folder
from dbt_lakehouse.config.topics import TopicMatcher, TopicRule
from dbt_lakehouse.errors import (
    ConfigurationError,
    DataLossError,
    KafkaError,
    LakehouseError,
)
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import ConcurrentAppendError
from dbt_lakehouse.lake.locks import hold_topic, landing_lock
from dbt_lakehouse.landing.kafka.admin import PartitionLog, read_logs, topic_ids
from dbt_lakehouse.landing.kafka.continuity import prepare, raise_stalled
from dbt_lakehouse.landing.kafka.partitions import partition_relation
from dbt_lakehouse.landing.kafka.positions import (
    Positions,
    advanced,
    read_positions,
    save_positions,
)
from dbt_lakehouse.landing.kafka.reading import bronze_rows, without_landed
from dbt_lakehouse.landing.leftovers import leaving_no_files
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark.jvm import packages
from dbt_lakehouse.telling import tell, working
from dbt_lakehouse.texts import counted, did_you_mean

# How often the stream checks whether to stop, and reports.
_POLL_SECONDS: Final = 0.3
# How long a stopped stream waits for the report of its last micro-batch.
_REPORT_SECONDS: Final = 10.0
# How often bronze.topic_partitions is updated.
_SAVE_SECONDS: Final = 30.0


class StreamOptions(NamedTuple):
    """How a stream runs: only the named topics (all if empty), a commit every
    ``interval_seconds`` or, with ``available_now``, until the present messages have landed;
    ``max_offsets`` for each commit.
    """

    topics: Sequence[str]
    interval_seconds: float
    available_now: bool
    max_offsets: int
    accept_loss: bool


def run_stream(
    spark: SparkSession, source: KafkaSource, options: StreamOptions, stopping: threading.Event
) -> int:
    """Land until ``stopping`` is set. Returns the number of landed messages.

    Raises ``LockedError`` for a topic that another stream lands, the errors of batch landing and,
    at the end, the errors of topics that could not be landed.
    """
    source = source._replace(rules=_chosen(spark, source.rules, options.topics))
    with ExitStack() as held:
        with landing_lock(spark).held("lakehouse stream", source.patience):
            logs, positions, stalled = prepare(spark, source, accept_loss=options.accept_loss)
            topics = sorted({log.topic for log in logs})
            if not topics:
                raise_stalled(stalled)
            for topic in topics:
                hold_topic(held, spark, topic, "lakehouse stream")
        tell(
            f"streaming {counted(len(logs), 'partition')} of {counted(len(topics), 'topic')}"
            f" from {source.settings.servers}"
        )
        for topic in sorted(stalled):
            tell(f"not topic {topic}: {stalled[topic]}")
        landed = _Stream(spark, source, options, logs, positions, stalled).run(stopping)
        raise_stalled(stalled)
        return landed


def refuse_unlisted(rules: Sequence[TopicRule], topics: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` for a topic that certainly no rule brings from Kafka. Only
    Spark's JVM can tell whether a pattern does.
    """
    if any(rule.from_kafka and rule.pattern is not None for rule in rules):
        return
    for topic in topics:
        if not any(rule.from_kafka and rule.topic == topic for rule in rules):
            raise _unlisted(topic, rules)


def _unlisted(topic: str, rules: Sequence[TopicRule]) -> ConfigurationError:
    known = [rule.topic for rule in rules if rule.from_kafka and rule.topic is not None]
    return ConfigurationError(
        f"vars.topics has no entry for {topic} from Kafka{did_you_mean(topic, known)}"
    )


def _chosen(
    spark: SparkSession, rules: Sequence[TopicRule], topics: Sequence[str]
) -> list[TopicRule]:
    """The rules, restricted to the named topics."""
    if not topics:
        return list(rules)
    matcher = TopicMatcher(packages(spark), rules)
    chosen = []
    for topic in topics:
        rule = matcher.rule(topic)
        if rule is None or not rule.from_kafka:
            raise _unlisted(topic, rules)
        chosen.append(rule._replace(topic=topic, pattern=None))
    return chosen


class _Stream:
    """A run of the stream."""

    def __init__(
        self,
        spark: SparkSession,
        source: KafkaSource,
        options: StreamOptions,
        logs: Sequence[PartitionLog],
        positions: Positions,
        stalled: Mapping[str, LakehouseError],
    ) -> None:
        self._spark = spark
        self._source = source
        self._options = options
        self._logs = logs
        self._positions = positions
        self._stalled = stalled
        self._names = {str(rule.topic): rule.land_as for rule in source.rules if rule.land_as}
        # For each topic that lands (Kafka's name), its id when it was first seen.
        self._topic_ids = {log.kafka_topic: log.topic_id for log in logs}
        self._query: StreamingQuery | None = None
        # Held while a micro-batch is landed, so that it is not stopped halfway.
        self._landing = threading.Lock()
        self._stopped = False
        self._error: Exception | None = None
        self._landed = 0
        # The last micro-batch that was not skipped.
        self._last_batch = -1
        # The messages of micro-batches not reported yet, by the batch's number.
        self._untold: dict[int, int] = {}
        self._saved_at = time.monotonic()

    def run(self, stopping: threading.Event) -> int:
        """Land until ``stopping`` is set, or all present messages have landed."""
        with tempfile.TemporaryDirectory(
            dir=cache_folder("tmp"), prefix="stream-", ignore_cleanup_errors=True
        ) as checkpoint:
            self._query = query = self._start(checkpoint)
            with working("streaming", lambda: f"landed {counted(self._landed, 'message')}"):
                while query.isActive and not stopping.wait(_POLL_SECONDS):
                    self._report(query)
            with self._landing:
                self._stopped = True
            # Spark reports what has landed a moment later, if it gets the time.
            deadline = time.monotonic() + _REPORT_SECONDS
            while self._untold and query.isActive and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)
                self._report(query)
            query.stop()
            self._report(query)
            if query.exception() is not None or self._error is not None:
                self._fail(query.exception())
        with landing_lock(self._spark).held("lakehouse stream", self._source.patience):
            self._save()
        return self._landed

    def _start(self, checkpoint: str) -> StreamingQuery:
        starts: dict[str, dict[str, int]] = {}
        for log in self._logs:
            position = self._positions.by_partition[log.topic, log.partition]
            starts.setdefault(log.kafka_topic, {})[str(log.partition)] = position.next_offset
        reader = self._spark.readStream.format("kafka").options(
            **self._source.settings.source_options()
        )
        if any(rule.pattern for rule in self._source.rules):
            pattern = _subscription(self._source.rules, self._stalled)
            reader = reader.option("subscribePattern", pattern)
        else:
            names = {log.kafka_topic for log in self._logs}
            reader = reader.option("subscribe", ",".join(sorted(names)))
        writer = (
            reader.option("startingOffsets", json.dumps(starts))
            .option("maxOffsetsPerTrigger", str(self._options.max_offsets))
            .load()
            .writeStream.foreachBatch(self._land)
            .option("checkpointLocation", checkpoint)
        )
        if self._options.available_now:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=f"{self._options.interval_seconds} seconds").start()

    def _land(self, messages: DataFrame, batch_id: int) -> None:
        """Append the rows of a micro-batch that bronze lacks. Spark calls it from its own
        thread.
        """
        with self._landing:
            if self._stopped:
                # The skipped batch is not recorded anywhere: the next start reads bronze.
                return
            try:
                with landing_lock(self._spark).held("lakehouse stream", self._source.patience):
                    if landed := self._append(messages):
                        self._landed += landed
                        self._untold[batch_id] = landed
                    self._last_batch = batch_id
                    if time.monotonic() - self._saved_at >= _SAVE_SECONDS:
                        self._save()
            except Exception as error:
                # Spark would pass on only its text.
                self._error = error
                raise

    def _append(self, messages: DataFrame) -> int:
        # The source has a task, and so a file, for each of Kafka's partitions.
        messages = messages.coalesce(self._spark.sparkContext.defaultParallelism)
        while True:
            if bronze.current_snapshot(self._spark) != self._positions.snapshot:
                # Another process has appended since.
                self._positions = read_positions(self._spark, self._logs)
            self._refuse_other_topics()
            rows = self._without_landed(bronze_rows(messages, self._names))
            if rows.isEmpty():
                return 0
            try:
                with leaving_no_files(self._spark):
                    commit = bronze.append(rows, self._positions.snapshot)
            except ConcurrentAppendError:
                tell("another host has landed meanwhile: once more")
                continue
            # Our own rows need no comparison: no later micro-batch brings them again.
            self._positions = self._positions._replace(snapshot=commit.snapshot)
            return commit.rows

    def _without_landed(self, rows: DataFrame) -> DataFrame:
        """The rows that were not in bronze when the positions were read."""
        positions = self._positions.by_partition
        ends = {key: position.next_offset for key, position in positions.items()}
        known = broadcast(partition_relation(self._spark, ends, "end")).alias("known")
        is_landed = (
            "rows.topic = known.topic and rows.partition = known.partition"
            " and rows.offset < known.end"
        )
        new = rows.alias("rows").join(known, expr(is_landed), "left_anti")
        return without_landed(new, positions)

    def _refuse_other_topics(self) -> None:
        """Raise ``DataLossError`` for a topic that is not the landed one: it was created again,
        or has come to match a pattern, since the stream began.
        """
        ids = topic_ids(self._spark, self._source.settings, self._source.rules)
        for topic in self._topic_ids:
            if ids.get(topic) != self._topic_ids[topic]:
                raise DataLossError(
                    f"topic {topic} was deleted or created again while it was streamed: its id is"
                    f" {ids.get(topic)} and no longer {self._topic_ids[topic]}. Start again to see"
                    " whether it can go on"
                )
        new = {
            topic: topic_id
            for topic, topic_id in ids.items()
            if topic not in self._topic_ids and self._names.get(topic, topic) not in self._stalled
        }
        if new:
            raise_stalled(
                prepare(self._spark, self._source, accept_loss=False).stalled, self._stalled
            )
            self._topic_ids.update(new)

    def _save(self) -> None:
        logs = [
            log
            for log in read_logs(self._spark, self._source.settings, self._source.rules).partitions
            if log.topic not in self._stalled
            # Nothing is saved for a topic that was created again.
            and self._topic_ids.get(log.kafka_topic) == log.topic_id
        ]
        positions = advanced(read_positions(self._spark, logs), self._read_ends())
        save_positions(self._spark, positions, logs, datetime.now(UTC))
        self._saved_at = time.monotonic()

    def _read_ends(self) -> dict[tuple[str, int], int]:
        """How far the finished micro-batches have read, by bronze's topics. For Spark, skipped
        batches are finished too.
        """
        for progress in reversed(self._query.recentProgress if self._query is not None else ()):
            if progress.batchId <= self._last_batch:
                return {
                    (self._names.get(topic, topic), partition): end
                    for (topic, partition), end in _offsets(progress, "endOffset").items()
                }
        return {}

    def _report(self, query: StreamingQuery) -> None:
        """Print a line for each finished micro-batch that has landed messages."""
        if not self._untold:
            return
        for progress in query.recentProgress:
            if progress.batchId not in self._untold:
                continue
            read, latest = _offsets(progress, "endOffset"), _offsets(progress, "latestOffset")
            if read == _offsets(progress, "startOffset"):
                # An idle report has the number of the next micro-batch.
                continue
            landed = self._untold.pop(progress.batchId)
            seconds = max(progress.batchDuration, 1) / 1000
            behind = sum(max(0, end - read.get(key, 0)) for key, end in latest.items())
            tell(
                f"{datetime.now(UTC):%H:%M:%S} landed {counted(landed, 'message')},"
                f" {landed / seconds:,.0f} a second; {counted(behind, 'offset')} behind"
            )

    def _fail(self, error: Exception | None) -> NoReturn:
        """Raise the error that stopped the query, translated for users."""
        if self._error is not None and not isinstance(
            self._error, Py4JJavaError | CapturedException
        ):
            raise self._error
        cause = self._error or error or KafkaError("the query ended by itself")
        # If the brokers can't be reached any more, or have deleted what was to be read, that is
        # the reason, and says more.
        raise_stalled(prepare(self._spark, self._source, accept_loss=False).stalled, self._stalled)
        raise KafkaError(
            f"streaming from {self._source.settings.servers} failed: {error_text(cause)}."
            " What has landed is complete: start again to go on"
        ) from cause


def _offsets(progress: StreamingQueryProgress, which: str) -> dict[tuple[str, int], int]:
    """Offsets of the source by topic and partition, empty before the first micro-batch."""
    # PySpark's own attributes hold Python's repr of the JSON.
    source: Mapping[str, Any] = json.loads(progress.json)["sources"][0]
    topics: Mapping[str, Mapping[str, int]] = source.get(which) or {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }


def _subscription(rules: Sequence[TopicRule], stalled: Iterable[str]) -> str:
    """A Java regular expression for the topics that the rules bring from Kafka, by each topic's
    first matching rule, without stalled topics (bronze's names).
    """
    kafka_names = {rule.land_as: rule.topic for rule in rules}
    kept_out = [f"\\Q{kafka_names.get(topic, topic)}\\E" for topic in stalled]
    chosen: list[str] = []
    for rule in rules:
        expression = rule.pattern if rule.topic is None else f"\\Q{rule.topic}\\E"
        if not rule.from_kafka:
            kept_out.append(f"(?:{expression})")
            continue
        unless = f"(?!(?:{'|'.join(kept_out)})$)" if kept_out else ""
        chosen.append(f"{unless}(?:{expression})")
    return "|".join(chosen)
