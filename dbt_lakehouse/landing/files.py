"""Land captures in ``bronze.raw_payloads``: each call is one atomic commit, and each position
lands once.
"""

import glob
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import (
    AnalysisException,
    CapturedException,
    ParseException,
)
from pyspark.sql import DataFrame, SparkSession

from dbt_lakehouse.config.paths import cache_folder
from dbt_lakehouse.errors import ConfigurationError, LandingError, WriteError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import ConcurrentAppendError
from dbt_lakehouse.lake.locks import landing_lock
from dbt_lakehouse.landing import landed_captures
from dbt_lakehouse.landing.captures import Capture, CaptureError, read_captures
from dbt_lakehouse.landing.leftovers import leaving_no_files
from dbt_lakehouse.landing.progress import Counted, Reading, size_of
from dbt_lakehouse.session.troubles import error_text
from dbt_lakehouse.spark.evaluated_views import EvaluatedViews
from dbt_lakehouse.spark.java import settings_of
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.telling import tell, working
from dbt_lakehouse.texts import counted

# The most in memory at a time, as Python's objects and as Arrow's: this many messages, or this
# many bytes of keys, values and headers plus the message that crosses the limit. One message may
# have 10 MB.
_BATCH_MESSAGES: Final = 20_000
_BATCH_BYTES: Final = 8 << 20
_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


class LandingResult(NamedTuple):
    """Numbers of messages: appended now, and skipped because they were there already."""

    landed: int
    skipped: int

    def text(self) -> str:
        """The numbers as text."""
        return f"landed {self.landed}, skipped {self.skipped}"


def configured_captures(variables: Mapping[str, Any], root: Path) -> list[str]:
    """The files that ``vars.captures`` names (globs, relative to the project's folder).

    Raises ``ConfigurationError`` for a glob without a file.
    """
    paths = set()
    for pattern in variables.get("captures") or []:
        found = glob.glob(str(root / pattern))
        if not found:
            raise ConfigurationError(
                f"vars.captures in dbt_project.yml names {pattern}, but there is no such file; []"
                " for no captures"
            )
        paths.update(found)
    return sorted(paths)


def land_again(spark: SparkSession, paths: Sequence[str], patience: float) -> LandingResult:
    """``land_captures`` for files that each run names again. While the files are the same as when
    bronze held all their messages, and bronze has only grown since, positions are not compared.
    """
    digest = landed_captures.digest_of(paths)
    messages = landed_captures.messages_held(spark, digest)
    if messages is not None:
        return LandingResult(landed=0, skipped=messages)
    result, snapshot = _land(lambda: spark, paths, patience)
    # Unless the files have changed meanwhile.
    if snapshot is not None and landed_captures.digest_of(paths) == digest:
        landed_captures.note(spark, digest, snapshot, result.landed + result.skipped)
    return result


def land_captures(
    session: Callable[[], SparkSession], paths: Iterable[str], patience: float
) -> LandingResult:
    """Append the messages of JSON-lines captures that are not in bronze yet, in one commit. The
    session is requested only after all captures have been read.

    Waits up to ``patience`` seconds for another process that lands.

    Raises ``LandingError`` for a line that is not a message with a position, and for a position
    that is in bronze, or twice in the captures, with different bytes; nothing is appended then.
    """
    return _land(session, paths, patience)[0]


def _land(
    session: Callable[[], SparkSession], paths: Iterable[str], patience: float
) -> tuple[LandingResult, int | None]:
    """``land_captures``, with the snapshot of bronze that is known to hold all messages; None if
    another process has written meanwhile.
    """
    # Through a file: a capture may be larger than memory, and Spark reads Parquet in parallel.
    with tempfile.TemporaryDirectory(dir=cache_folder("tmp"), prefix="landing-") as folder:
        parquet = Path(folder) / "captures.parquet"
        messages = _write_parquet(list(paths), parquet)
        if not messages:
            tell("the captures hold no messages")
            return LandingResult(0, 0), None
        spark = session()
        with (
            landing_lock(spark).held("landing captures", patience),
            working(f"appending {counted(messages, 'message')} to bronze", tasks_of(spark)),
        ):
            return _append(spark, f"file://{parquet}")


def _write_parquet(paths: Sequence[str], target: Path) -> int:
    """Write the messages of captures with the columns of ``_SCHEMA``, a row group for each batch.
    Returns the number of messages.

    Raises ``LandingError``.
    """
    reading = Reading(size_of(paths))
    with (
        pq.ParquetWriter(target, _SCHEMA) as writer,
        working("reading captures", reading.how_far),
    ):
        batch: list[dict[str, Any]] = []
        size = 0
        for capture in positioned(paths, reading):
            row = _row(capture)
            batch.append(row)
            size += _size(row)
            if size >= _BATCH_BYTES or len(batch) == _BATCH_MESSAGES:
                writer.write_table(pa.Table.from_pylist(batch, schema=_SCHEMA))
                batch, size = [], 0
        writer.write_table(pa.Table.from_pylist(batch, schema=_SCHEMA))
    return reading.messages


def positioned(paths: Iterable[str], reading: Reading) -> Iterator[Capture]:
    """The messages of captures, each with its position. Raises ``LandingError``."""
    for path in paths:
        try:
            with open(path, "rb") as stream:
                for line_number, capture in read_captures(Counted(stream, reading)):
                    if not capture.topic or capture.partition is None or capture.offset is None:
                        raise LandingError(
                            f"{path}: line {line_number}: landing needs topic, partition and offset"
                        )
                    reading.messages += 1
                    yield capture
        except OSError as error:
            raise LandingError(f"{path}: {error.strerror}") from error
        except CaptureError as error:
            raise LandingError(f"{path}: {error}") from error


def _row(capture: Capture) -> dict[str, Any]:
    return {
        "topic": capture.topic,
        "partition": capture.partition,
        "offset": capture.offset,
        "timestamp": None if capture.timestamp_ms is None else capture.timestamp_ms * 1000,
        "key": capture.key,
        "value": capture.value,
        # As Kafka's source gives it for messages without headers.
        "headers": [{"key": key, "value": value} for key, value in capture.headers]
        if capture.headers
        else None,
    }


def _size(row: dict[str, Any]) -> int:
    """The size of a message in bytes, without its small fields."""
    headers = sum(len(each["key"]) + len(each["value"] or b"") for each in row["headers"] or ())
    return len(row["key"] or b"") + len(row["value"] or b"") + headers


def _append(spark: SparkSession, parquet: str) -> tuple[LandingResult, int | None]:
    """Append the messages of a Parquet file with the columns of ``_SCHEMA`` that bronze lacks.
    Returns the same as ``_land``.
    """
    spark.read.parquet(parquet).createOrReplaceTempView("incoming_messages")
    views = EvaluatedViews(spark, settings_of(spark))
    while True:
        snapshot = bronze.current_snapshot(spark)
        views.create("incoming_positions", _positions(spark))
        try:
            return _append_chosen(spark, snapshot)
        except ConcurrentAppendError:
            tell("another host has landed meanwhile: starting over")
        finally:
            views.drop("incoming_positions")


def _positions(spark: SparkSession) -> DataFrame:
    """Each position of the captures, and whether it is landed."""
    return spark.sql(
        f"""
        with incoming as (
            select topic, partition, offset, min({bronze.FINGERPRINT}) as fingerprint,
                count(distinct {bronze.FINGERPRINT}) as variants,
                count(*) as copies
            from incoming_messages
            group by topic, partition, offset
        )
        select incoming.*, landed.offset is not null as is_landed,
            variants > 1 or landed.fingerprint <> incoming.fingerprint as is_conflict
        from incoming
        left join (
            select topic, partition, offset, {bronze.FINGERPRINT} as fingerprint
            from {bronze.TABLE}
            where topic in (select distinct topic from incoming_messages)
        ) as landed using (topic, partition, offset)
        """
    )


def _append_chosen(spark: SparkSession, snapshot: int | None) -> tuple[LandingResult, int | None]:
    """Append the messages at new positions, which ``snapshot`` told. Returns the same as
    ``_land``.
    """
    conflict = spark.sql(
        "select topic, partition, offset, variants from incoming_positions where is_conflict "
        "order by topic, partition, offset limit 1"
    ).first()
    if conflict is not None:
        where = (
            "comes twice in the captures, with other bytes"
            if conflict.variants > 1
            else "is there already with other bytes: was the topic created again?"
        )
        raise LandingError(
            f"topic {conflict.topic}, partition {conflict.partition}, offset {conflict.offset}"
            f" {where}{';' if conflict.variants > 1 else ''} nothing was landed"
        )
    counts = spark.sql(
        "select coalesce(sum(copies), 0) as messages, count_if(not is_landed) as new "
        "from incoming_positions"
    ).collect()[0]
    result = LandingResult(landed=counts.new, skipped=counts.messages - counts.new)
    if counts.new:
        rows = spark.sql(
            """
            select topic, partition, offset, any_value(timestamp) as timestamp, 0 as timestamp_type,
                any_value(key) as key, any_value(value) as value, any_value(headers) as headers,
                current_timestamp() as landed_at
            from incoming_messages
            left semi join (select * from incoming_positions where not is_landed)
                using (topic, partition, offset)
            group by topic, partition, offset
            """
        )
        with _explained(), leaving_no_files(spark):
            return result, bronze.append(rows, snapshot).snapshot
    return result, snapshot if bronze.current_snapshot(spark) == snapshot else None


@contextmanager
def _explained() -> Iterator[None]:
    """Translate Spark's errors for users."""
    try:
        yield
    except (AnalysisException, ParseException):
        # A bug of ours.
        raise
    except (Py4JJavaError, CapturedException) as error:
        raise WriteError(
            f"{bronze.TABLE} can't be written, nothing was landed: {error_text(error)}"
        ) from error
