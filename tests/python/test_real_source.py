"""From a real database to gold: PostgreSQL, Debezium in Kafka Connect, Kafka, landing, the models
that ``lakehouse generate`` writes, dbt. After each round of random changes each gold table must
have the rows that the source has, value by value.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from ctypes import c_float
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from commands import wait_until
from kafka_connect import kafka_connect
from kafka_topics import Kafka
from lakes import Lake
from postgres import USER, postgres, programs
from real_source import CREATE, KEYS, Database, Writer
from small_project import Log, add_gold, add_log, current_state, small_project

from dbt_lakehouse.commands.generate.choices import GivenKeys
from dbt_lakehouse.commands.generate.command import Options, generate
from local_kafka.broker import Broker

SEED: Final = 7
ROUNDS: Final = 3
TRANSACTIONS: Final = 60
PARTITIONS: Final = 3
PREFIX: Final = "real.shop"
TOPICS: Final = {table: f"{PREFIX}.{table}" for table in (*KEYS, "visits")}
# What generate calls columns that no name in SQL should have.
RENAMED: Final = {"Is Late?": "Is_Late"}
# How gold's value of a column is read, to be compared with the source's.
READ: Final[dict[str, Callable[[Any], Any]]] = {
    "iv": lambda text: seconds(text),
    "bits": lambda data: int.from_bytes(data, "little"),
}
VISITS: Final = Log(
    "visits",
    "visits",
    {},
    {"page": "string", "seconds": "double", "day": "date"},
    database="postgres",
    schema="shop",
)


def connector(port: int) -> dict[str, str]:
    """Debezium's settings: defaults, but for truncates."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(port),
        "database.user": USER,
        "database.password": "",
        "database.dbname": "postgres",
        "topic.prefix": "real",
        "plugin.name": "pgoutput",
        "schema.include.list": "shop",
        "skipped.operations": "none",
        "topic.creation.default.partitions": str(PARTITIONS),
        "topic.creation.default.replication.factor": "1",
        "poll.interval.ms": "50",
    }


def seconds(text: str) -> Decimal:
    """Those of an interval in ISO 8601 of hours, minutes and seconds."""
    hours, _, rest = text.removeprefix("PT").partition("H")
    minutes, _, rest = rest.partition("M")
    return Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(rest.removesuffix("S"))


def is_same(gold: Any, source: Any) -> bool:
    """Whether gold has a value of PostgreSQL's JSON, whose fractions are texts."""
    if gold is None or source is None:
        return gold is source
    if isinstance(gold, bool | int):
        return type(gold) is type(source) and bool(gold == source)
    if isinstance(gold, Decimal):
        return gold == Decimal(source)
    if isinstance(gold, float):
        given = float(source)
        return (math.isnan(gold) and math.isnan(given)) or gold in (given, c_float(given).value)
    if isinstance(gold, datetime):
        return gold == datetime.fromisoformat(source)
    if isinstance(gold, date):
        return gold == date.fromisoformat(source)
    if isinstance(gold, bytes):
        return bool("\\x" + gold.hex() == source)
    if isinstance(gold, list):
        return len(gold) == len(source) and all(map(is_same, gold, source))
    if isinstance(source, list | dict):
        return bool(json.loads(gold, parse_float=str) == source)
    if isinstance(source, int):
        return bool(gold == str(source))
    return bool(gold == source)


def differences(
    gold: list[dict[str, Any]], source: list[dict[str, Any]], key: tuple[str, ...]
) -> list[str]:
    """What is not as it is at the source: a line for each value, or row."""
    ours = {tuple(str(row[name]) for name in key): row for row in gold}
    theirs = {tuple(str(row[name]) for name in key): row for row in source}
    assert len(ours) == len(gold) and len(theirs) == len(source)
    found = [f"{each}: not at the source" for each in sorted(ours.keys() - theirs.keys())]
    found += [f"{each}: not in gold" for each in sorted(theirs.keys() - ours.keys())]
    for each in sorted(ours.keys() & theirs.keys()):
        for name, value in theirs[each].items():
            ours_is = ours[each][RENAMED.get(name, name)]
            if ours_is is not None and name in READ:
                ours_is = READ[name](ours_is)
            if not is_same(ours_is, value):
                found.append(f"{each}.{name}: {ours_is!r}, at the source {value!r}"[:300])
    return found


@pytest.mark.real
def test_gold_equals_the_source(tmp_path: Path, broker: Broker, kafka: Kafka) -> None:
    (tmp_path / "postgres").mkdir()
    with postgres(tmp_path / "postgres", wal_level="logical", max_replication_slots="4") as url:
        port = int(url.rpartition(":")[2].partition("/")[0])
        database = Database(programs() / "psql", port)
        wait_until(database.answers, "PostgreSQL has started")
        database.run(CREATE)
        writer = Writer(SEED)
        # What is there before Debezium comes is its snapshot.
        database.run(writer.script(TRANSACTIONS))
        settings = {"source": connector(port)}
        with kafka_connect(tmp_path / "connect", broker.bootstrap_servers, settings):
            play(tmp_path, database, writer, kafka)


def settled(database: Database, kafka: Kafka, number: int) -> None:
    """Wait until all that the source has committed is in Kafka."""
    database.run(f"update marker set round = {number} where id = 1;")
    last = b'"round":%d}' % number

    def has_come() -> bool:
        if not kafka.partitions(f"{PREFIX}.marker"):
            return False
        return any(last in (each.value or b"") for each in kafka.records(f"{PREFIX}.marker"))

    wait_until(has_come, f"the changes of round {number} are in Kafka")
    # Its producer sends to partitions side by side.
    counts: list[int] = []

    def is_still() -> bool:
        counts.append(sum(len(kafka.records(topic)) for topic in TOPICS.values()))
        return len(counts) > 3 and len({*counts[-3:]}) == 1

    wait_until(is_still, "no more comes")


def play(folder: Path, database: Database, writer: Writer, kafka: Kafka) -> None:
    """Rounds of changes, each landed, built and held against the source."""
    project = small_project(folder / "project")
    lake = Lake(folder, project)
    add_log(project, VISITS)
    add_gold(project, current_state(VISITS))
    topics = [{"topic": topic, "format": "debezium_json"} for topic in TOPICS.values()]
    for number in range(1, ROUNDS + 1):
        if number > 1:
            database.run(writer.script(TRANSACTIONS))
        settled(database, kafka, number)
        lake.land_kafka(topics)
        for table in KEYS:
            generate(lake.load(topics=topics), Options((TOPICS[table],), keys=GivenKeys(())))
        assert set(lake.dbt("run", as_of=None, topics=topics).values()) == {"success"}
        for table, key in KEYS.items():
            (model,) = (each.stem for each in (project / "models" / "gold").glob(f"*{table}.sql"))
            found = differences(lake.read(f"gold.{model}"), database.rows(table), key)
            assert found == [], (number, table)
        # Its rows have no key: as texts they are as often here as there.
        visits, there = (
            Counter(tuple(str(row[name]) for name in VISITS.columns) for row in rows)
            for rows in (lake.read("gold.visits"), database.rows("visits"))
        )
        assert visits == there, number
