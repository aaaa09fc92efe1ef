"""How fast landing from Kafka is, beside a plain Spark job that copies the topic to Parquet.

A real broker is started and one topic of it filled from a seed; then, in one Spark session and one
after the other, the plain job (``spark.read.format("kafka")`` to Parquet files), a batch landing
and a stream land the whole topic, several times over. What counts are ratios of the medians.

    python tools/benchmarks/kafka_landing.py --messages 1000000 --partitions 8
"""

import argparse
import os
import random
import statistics
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from dbt_lakehouse.config.kafka import KafkaSource
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.landing.kafka.batch import land_kafka
from dbt_lakehouse.landing.kafka.positions import GAPS, TABLE
from dbt_lakehouse.landing.kafka.stream import StreamOptions, run_stream
from dbt_lakehouse.session.project import ProjectOptions, load
from local_kafka.broker import Broker
from tools.benchmarks.measuring import wall_seconds

TOPIC = "debezium.benchmark"


def fill(servers: str, messages: int, partitions: int, size: int) -> None:
    """Produce that many messages of ``size`` bytes, half of each compressible."""
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(TOPIC, partitions, 1)]).values():
        created.result()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    rng = random.Random(20231114)
    for number in range(messages):
        value = b'{"payload":"' + rng.randbytes(size // 4).hex().encode() + b" " * (size // 2)
        producer.produce(TOPIC, value, b"%d" % number, partition=number % partitions)
        if number % 10_000 == 0:
            producer.poll(0)
            while len(producer) > 500_000:
                producer.poll(0.1)
    producer.flush()


def plain_copy(spark: SparkSession, source: KafkaSource, folder: Path) -> None:
    """What one would write without us."""
    (
        spark.read.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in source.settings.given.items()})
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .load()
        .write.parquet(str(folder))
    )


def stream(spark: SparkSession, source: KafkaSource, max_offsets: int) -> None:
    """Land all that is there as a stream."""
    options = StreamOptions(
        topics=[],
        interval_seconds=1.0,
        available_now=True,
        max_offsets=max_offsets,
        accept_loss=False,
    )
    run_stream(spark, source, options, threading.Event())


def empty_bronze(spark: SparkSession) -> None:
    """A lake as before the first landing."""
    for table in (bronze.TABLE, TABLE, GAPS):
        spark.sql(f"drop table if exists {table} purge")
    bronze.create_table(spark)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--bytes", type=int, default=250, help="size of a message")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-offsets-per-trigger", type=int, default=500_000)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        Broker(Path(name) / "kafka", memory="256m") as broker,
    ):
        folder = Path(name)
        fill(broker.bootstrap_servers, arguments.messages, arguments.partitions, arguments.bytes)
        os.environ["LAKEHOUSE_LAKE"] = str(folder / "lake")
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
        project = load(
            ProjectOptions(vars=f"{{topics: [{{topic: {TOPIC}, format: debezium_json}}]}}")
        )
        source = project.require_kafka()
        spark = project.open_session()
        seconds: dict[str, list[float]] = {"plain copy": [], "batch": [], "stream": []}
        # The first round warms the JVM up and does not count.
        for number in range(arguments.rounds + 1):
            jobs: dict[str, Callable[[], object]] = {
                "plain copy": partial(plain_copy, spark, source, folder / f"copy-{number}"),
                "batch": lambda: land_kafka(spark, source),
                "stream": lambda: stream(spark, source, arguments.max_offsets_per_trigger),
            }
            for job, run in jobs.items():
                empty_bronze(spark)
                taken = wall_seconds(run)
                if number:
                    seconds[job].append(taken)
        spark.stop()
    plain = statistics.median(seconds["plain copy"])
    for job, measured in seconds.items():
        median = statistics.median(measured)
        rate = arguments.messages / median
        print(f"{job:12} {median:6.1f} s {rate:10,.0f} messages/s {plain / median:6.2f} of plain")


if __name__ == "__main__":
    main()
