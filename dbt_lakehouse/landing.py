"""Appends what is new to ``bronze.raw_payloads``: each call one atomic commit, each position
once.
"""

import glob
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dbt_lakehouse import bronze
from dbt_lakehouse.captures import CaptureError, read_captures
from dbt_lakehouse.paths import CACHE, ROOT
from dbt_lakehouse.project import open_project_session

_BATCH_ROWS: Final = 20_000
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
# What tells messages apart; the hash alone passes over nulls.
_FINGERPRINT: Final = "xxhash64(key, key is null, value, value is null)"


class LandingError(Exception):
    """Input that can't be landed; one line that names the file and says why."""


class LandingResult(NamedTuple):
    """Numbers of messages: appended now, and found to be there already."""

    landed: int
    skipped: int


def land_configured(spark: SparkSession, variables: dict[str, Any]) -> None:
    """Land the captures that ``vars.captures`` names (globs, relative to the checkout)."""
    patterns = variables.get("captures") or []
    paths = sorted({path for pattern in patterns for path in glob.glob(str(ROOT / pattern))})
    if paths:
        result = land_captures(spark, paths)
        print(
            f"landed {result.landed} messages of {len(paths)} captures, {result.skipped} were there"
        )


def land_files(paths: list[str], **project: str | None) -> LandingResult:
    """``land_captures`` in a session of its own, for the command line."""
    return land_captures(open_project_session(**project), paths)


def land_captures(spark: SparkSession, paths: Iterable[str]) -> LandingResult:
    """Append the messages of JSON-lines captures that are not in bronze yet, in one commit.

    Raises ``LandingError`` for a line that is no message with a position, and for a position that
    is there already, or twice in the captures, with other bytes; nothing is appended then.
    """
    scratch = CACHE / "tmp"
    scratch.mkdir(parents=True, exist_ok=True)
    # By way of a file: a capture may be larger than memory, and Spark reads Parquet in parallel.
    with tempfile.TemporaryDirectory(dir=scratch, prefix="landing-") as folder:
        parquet = Path(folder) / "captures.parquet"
        with pq.ParquetWriter(parquet, _SCHEMA) as writer:
            for batch in _batches(paths):
                writer.write_table(pa.Table.from_pylist(batch, schema=_SCHEMA))
        return _append(spark, parquet.as_uri())


def _batches(paths: Iterable[str]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for path in paths:
        try:
            with open(path, "rb") as stream:
                for line_number, capture in read_captures(stream):
                    if capture.topic is None or capture.partition is None or capture.offset is None:
                        raise LandingError(
                            f"{path}: line {line_number}: landing needs topic, partition and offset"
                        )
                    batch.append(
                        {
                            "topic": capture.topic,
                            "partition": capture.partition,
                            "offset": capture.offset,
                            "timestamp": None
                            if capture.timestamp_ms is None
                            else capture.timestamp_ms * 1000,
                            "key": capture.key,
                            "value": capture.value,
                            "headers": None
                            if capture.headers is None
                            else [{"key": key, "value": value} for key, value in capture.headers],
                        }
                    )
                    if len(batch) == _BATCH_ROWS:
                        yield batch
                        batch = []
        except OSError as error:
            raise LandingError(f"{path}: {error.strerror}") from error
        except CaptureError as error:
            raise LandingError(f"{path}: {error}") from error
    yield batch


def _append(spark: SparkSession, parquet: str) -> LandingResult:
    """Append what bronze doesn't hold of a Parquet file with the columns of ``_SCHEMA``."""
    messages = spark.read.parquet(parquet)
    messages.createOrReplaceTempView("incoming_messages")
    spark.sql(
        f"""
        cache table incoming_positions as
        with incoming as (
            select topic, partition, offset, min({_FINGERPRINT}) as fingerprint,
                count(distinct {_FINGERPRINT}) as variants,
                count(*) as copies
            from incoming_messages
            group by topic, partition, offset
        )
        select incoming.*, landed.offset is not null as is_landed,
            variants > 1 or landed.fingerprint <> incoming.fingerprint as is_conflict
        from incoming
        left join (
            select topic, partition, offset, {_FINGERPRINT} as fingerprint
            from {bronze.TABLE}
            where topic in (select distinct topic from incoming_messages)
        ) as landed using (topic, partition, offset)
        """
    )
    try:
        conflict = spark.sql(
            "select topic, partition, offset from incoming_positions where is_conflict "
            "order by topic, partition, offset limit 1"
        ).first()
        if conflict is not None:
            raise LandingError(
                f"topic {conflict.topic}, partition {conflict.partition}, offset {conflict.offset} "
                "is there already with other bytes: was the topic created anew? nothing was landed"
            )
        counts = spark.sql(
            "select sum(copies) as messages, count_if(not is_landed) as landed "
            "from incoming_positions"
        ).first()
        landed = counts.landed if counts is not None else 0
        total = (counts.messages or 0) if counts is not None else 0
        if landed:
            spark.sql(
                f"""
                insert into {bronze.TABLE}
                select topic, partition, offset, any_value(timestamp), 0 as timestamp_type,
                    any_value(key), any_value(value), any_value(headers), current_timestamp()
                from incoming_messages
                left semi join (select * from incoming_positions where not is_landed)
                    using (topic, partition, offset)
                group by topic, partition, offset
                """
            )
    finally:
        # Uncaches it too.
        spark.catalog.dropTempView("incoming_positions")
    return LandingResult(landed=landed, skipped=total - landed)
