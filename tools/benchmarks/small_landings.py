"""How long small landings take in a warm process, and what they ask of Spark.

A real broker gets some messages for each of a few topics, and they are landed, many times over in
one process, as the cycles of `lakehouse stream --build` do. The second half of the landings counts:
seconds, CPU seconds of this process and of Spark's, and Spark's executions and jobs.

    python -m tools.benchmarks.small_landings --landings 30 --topics 5 --messages 600
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from dbt_lakehouse.lake import bronze
from dbt_lakehouse.landing.kafka.batch import land_kafka
from dbt_lakehouse.session.project import ProjectOptions, load
from local_kafka.broker import Broker
from local_kafka.captures import QUIET, create_topics
from tools.benchmarks.measuring import wall_seconds
from tools.benchmarks.statements import asked_by

PARTITIONS = 2


def send(producer: Producer, topics: list[str], messages: int) -> None:
    """Send so many messages to each topic."""
    for topic in topics:
        for number in range(messages):
            value = b'{"op":"c","after":{"id":%d}}' % number
            producer.produce(topic, value, b"%d" % number, partition=number % PARTITIONS)
    producer.flush()


def cpu_seconds(spark: SparkSession) -> float:
    """The CPU seconds of this process and of Spark's."""
    ticks = 0
    for process in (os.getpid(), spark.sparkContext._gateway.proc.pid):  # type: ignore[union-attr]
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--landings", type=int, default=30)
    parser.add_argument("--topics", type=int, default=5)
    parser.add_argument("--messages", type=int, default=600, help="of a landing, for each topic")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        Broker(Path(name) / "kafka", memory="256m") as broker,
    ):
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        topics = [f"debezium.orders_{number}" for number in range(arguments.topics)]
        create_topics(servers, dict.fromkeys(topics, PARTITIONS))
        os.environ["LAKEHOUSE_LAKE"] = str(Path(name) / "lake")
        os.environ["KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
        entries = [{"topic": topic, "format": "debezium_json"} for topic in topics]
        project = load(ProjectOptions(vars=json.dumps({"topics": entries})))
        source, spark = project.require_kafka(), project.open_session()
        bronze.create_table(spark)
        producer = Producer({**QUIET, **servers})
        seconds, cpu = [], []
        for _ in range(arguments.landings):
            send(producer, topics, arguments.messages)
            before = cpu_seconds(spark)
            seconds.append(wall_seconds(lambda: land_kafka(spark, source)))
            cpu.append(cpu_seconds(spark) - before)
        send(producer, topics, arguments.messages)
        asked = asked_by(spark, lambda: land_kafka(spark, source))
        spark.stop()
    half = arguments.landings // 2
    print(
        f"{statistics.median(seconds[half:]):.2f} s ({min(seconds[half:]):.2f} at least),"
        f" {statistics.median(cpu[half:]):.2f} CPU s,"
        f" {asked.executions} executions, {asked.jobs} jobs"
    )


if __name__ == "__main__":
    main()
