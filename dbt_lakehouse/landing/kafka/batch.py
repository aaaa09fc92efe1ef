"""Batch landing: everything new in the topics, as one atomic append to ``bronze.raw_payloads``.

bronze tells where to begin, and the end is pinned at the log ends of the start, so a run is
finite under any producer. A run that dies before its commit has landed nothing; one that dies
after it has landed everything, which the next run sees in bronze.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import (
    AnalysisException,
    CapturedException,
    IllegalArgumentException,
    ParseException,
)
from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import KafkaSource
from dbt_lakehouse.errors import ConfigurationError, KafkaError, LakehouseError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import ConcurrentAppendError
from dbt_lakehouse.lake.locks import landing_lock, streamed_topics
from dbt_lakehouse.landing.kafka.continuity import Prepared, prepare, raise_stalled
from dbt_lakehouse.landing.kafka.positions import advanced, behind_own_append, save_positions
from dbt_lakehouse.landing.kafka.progress import read_of
from dbt_lakehouse.landing.kafka.reading import (
    Range,
    by_topic,
    capped,
    has_rows,
    new_ranges,
    offsets_in,
    read_ranges,
)
from dbt_lakehouse.landing.leftovers import leaving_no_files
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import tell, working
from dbt_lakehouse.texts import counted

# How often a run starts over because another host has appended meanwhile.
_ATTEMPTS: Final = 10


class KafkaLanding(NamedTuple):
    """The result of a run: messages appended, offsets still to be read below the log ends that it
    saw, topics that were left to a running stream, with its description, and stalled topics with
    the remedy for each (``raise_stalled``).
    """

    landed: int
    remaining: int
    left_to_stream: dict[str, str]
    stalled: Mapping[str, LakehouseError] = MappingProxyType({})


def land_kafka(
    spark: SparkSession, source: KafkaSource, *, accept_loss: bool = False
) -> KafkaLanding:
    """Append Kafka's new messages, up to ``source.max_messages`` offsets.

    With ``accept_loss``, messages that Kafka has deleted unread are recorded in
    ``bronze.kafka_gaps``, and landing continues after them. Stalled topics are left out. Raises
    ``KafkaError`` and ``ConfigurationError``; nothing was landed then.
    """
    lock = landing_lock(spark)
    for attempt in range(_ATTEMPTS):
        try:
            with lock.held("landing from Kafka", source.patience):
                return _land(spark, source, accept_loss=accept_loss)
        except ConcurrentAppendError:
            tell("another host has landed meanwhile: starting over")
            time.sleep(min(attempt, 3))
    raise KafkaError(
        f"gave up: {_ATTEMPTS} times another host has landed messages while this one read them;"
        " land from one host only, or at other times"
    )


def landing_text(result: KafkaLanding) -> str:
    """A run's result as a line of text."""
    text = f"kafka: landed {counted(result.landed, 'message')}"
    if result.remaining:
        verb = "is" if result.remaining == 1 else "are"
        text += f", {counted(result.remaining, 'offset')} {verb} left for the next run"
    for topic, holder in result.left_to_stream.items():
        text += f"; topic {topic} is left to {holder}, which lands it"
    for topic in sorted(result.stalled):
        text += f"; topic {topic} can't go on"
    return text


def _land(spark: SparkSession, source: KafkaSource, *, accept_loss: bool) -> KafkaLanding:
    with _explained(spark, source, {}), working("asking Kafka", tasks_of(spark)):
        prepared = prepare(spark, source, accept_loss=accept_loss)
    with _explained(spark, source, prepared.stalled):
        return _land_prepared(spark, source, prepared)


def _land_prepared(spark: SparkSession, source: KafkaSource, prepared: Prepared) -> KafkaLanding:
    logs, positions, stalled = prepared
    checked_at = datetime.now(UTC)
    # No stream can begin while we hold the landing lock.
    streamed = streamed_topics(spark, {log.topic for log in logs})
    new = new_ranges([log for log in logs if log.topic not in streamed], positions)
    chosen = capped(new, source.max_messages)
    landed = 0
    if chosen:
        _report(new, chosen)
        rows = read_ranges(spark, source.settings, chosen, logs)
        with working("landing from Kafka", read_of(spark, offsets_in(chosen))):
            # Without rows, each run would make an empty commit.
            if has_rows(source.settings, chosen, rows):
                with leaving_no_files(spark):
                    commit = bronze.append(by_topic(rows, chosen), positions.snapshot)
                landed = commit.rows
                positions = behind_own_append(spark, logs, positions, commit, checked_at)
        ends = {(each.log.topic, each.log.partition): each.end for each in chosen}
        positions = advanced(positions, ends)
    failed = f"{counted(landed, 'message')} landed, but that could not be noted"
    with _explained(spark, source, stalled, failed):
        save_positions(spark, positions, logs, checked_at)
    return KafkaLanding(landed, offsets_in(new) - offsets_in(chosen), streamed, stalled)


@contextmanager
def _explained(
    spark: SparkSession,
    source: KafkaSource,
    known: Mapping[str, LakehouseError],
    failed: str | None = None,
) -> Iterator[None]:
    """Translate Spark's errors for users. ``known`` are topics that had stalled before;
    ``failed`` says what failed, if not the reading.
    """
    try:
        yield
    except (AnalysisException, ParseException):
        # A bug of ours.
        raise
    except IllegalArgumentException as error:
        raise ConfigurationError(
            f"Spark's Kafka source refuses the profile's kafka.* settings: {error_text(error)}"
        ) from error
    except (Py4JJavaError, CapturedException) as error:
        # If the brokers can't be reached any more, or have deleted what was being read, that is
        # the reason, and says more than the failed task.
        raise_stalled(prepare(spark, source, accept_loss=False).stalled, known)
        failed = failed or f"reading from {source.settings.servers} failed, nothing was landed"
        raise KafkaError(f"{failed}: {error_text(error)}") from error


def _report(new: Sequence[Range], chosen: Sequence[Range]) -> None:
    topics = sorted({each.log.topic for each in chosen})
    names = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
    read, total = offsets_in(chosen), offsets_in(new)
    offsets = (
        counted(total, "offset") if read == total else f"{read:,} of {counted(total, 'offset')}"
    )
    tell(f"kafka: reading {offsets} in {counted(len(chosen), 'partition')} of {names}")
