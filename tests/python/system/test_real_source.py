"""From a real database to gold: PostgreSQL or MariaDB, Debezium in Kafka Connect, Kafka, landing,
the models that ``lakehouse generate`` writes, dbt. After each round of random changes each gold
table must have the rows that the source has, value by value, and after a full refresh too.

PostgreSQL and JSON with schema blocks are in ``make test``. Both databases, and what else is asked
for: ``make real PYTEST="-k mariadb --seed 3 --seeds 2 --settings schemaless,decimal-string"``; with
``--ordered`` logs go by the source's own order, with ``--killed`` Kafka Connect is killed while it
sends the changes of a round, and sends again what it has no note of.
"""

import re
import signal
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from support import apicurio, postgres_contrib
from support.commands import wait_until
from support.kafka_topics import Kafka
from support.lakes import Lake
from support.real_feed import Feed
from support.real_mariadb import MARIADB
from support.real_postgres import POSTGRES
from support.real_settings import DEFAULT, SETTINGS, Setting, connector
from support.real_source import VISITS, Database, Source, Writer, differences, plain
from support.small_project import Log, add_gold, add_log, current_state, small_project

from dbt_lakehouse.commands.generate.generated_models import Options, generate
from dbt_lakehouse.commands.generate.naming import snake
from local_kafka.broker import Broker
from local_kafka.connect import AVRO_JARS, has_jars, kafka_connect

TRANSACTIONS: Final = 60
PARTITIONS: Final = 3
# Of nothing new in Kafka, when the last change is there.
STILL_SECONDS: Final = 1.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each database with each seed and setting that the call asks for. One is in ``make test``."""
    options = metafunc.config.option
    names = [*SETTINGS] if options.settings == "all" else options.settings.split(",")
    unknown = [name for name in names if name not in SETTINGS]
    if unknown:
        raise pytest.UsageError(f"--settings: no {unknown[0]}; there are {', '.join(SETTINGS)}")
    more = pytest.mark.real
    sources = [POSTGRES, pytest.param(MARIADB, marks=more)]
    settings = [
        SETTINGS[name] if name == DEFAULT else pytest.param(SETTINGS[name], marks=more)
        for name in names
    ]
    metafunc.parametrize("source", sources, ids=[POSTGRES.name, MARIADB.name])
    metafunc.parametrize("setting", settings, ids=names)
    metafunc.parametrize("seed", range(options.seed, options.seed + options.seeds))


def test_gold_equals_the_source(
    source: Source,
    setting: Setting,
    seed: int,
    tmp_path: Path,
    broker: Broker,
    kafka: Kafka,
    pytestconfig: pytest.Config,
) -> None:
    # A test has no time to fetch what `make test` needs; the others are not in it.
    if source is POSTGRES and not postgres_contrib.runs_here():
        pytest.skip("the server with all extensions is for Linux on x86-64")
    if source is POSTGRES and not has_jars([source.jars, *source.programs]):
        pytest.skip("no jars of Debezium's are here; `make -B .venv/.connect` fetches them (53 MB)")
    options = pytestconfig.option
    for name in ("database", "connect", "registry"):
        (tmp_path / name).mkdir()
    # One broker has the topics of all.
    prefix = re.sub("[^a-z0-9]", "-", tmp_path.name.lower())
    with ExitStack() as servers:
        registry = ""
        if setting.avro:
            registry = servers.enter_context(apicurio.asked(tmp_path / "registry")).own_url
        database = servers.enter_context(source.started(tmp_path / "database"))
        writer = source.writer(seed, setting)
        # What is there before Debezium comes is its snapshot.
        database.run(writer.script(TRANSACTIONS))
        own = database.connector(tmp_path / "connect")
        connectors = {source.name: connector(own, setting, prefix, PARTITIONS, registry)}
        connect = partial(
            kafka_connect,
            *(tmp_path / "connect", broker.bootstrap_servers, connectors),
            [source.jars, *([AVRO_JARS] if setting.avro else [])],
            stop=signal.SIGKILL if options.killed else signal.SIGTERM,
        )
        with ExitStack() as worker:
            feed = Feed(kafka, setting, prefix, worker.enter_context(connect()))
            run = Run(tmp_path, source, setting, database, writer, kafka, feed)
            run.is_ordered = options.ordered
            feed.wait_for_snapshot(0)
            for number in range(1, options.rounds + 1):
                if number > 1 or setting.is_incremental:
                    database.run(writer.round(number, options.rounds, TRANSACTIONS))
                if number > 1 and options.killed:
                    worker.close()
                    feed.check = worker.enter_context(connect())
                run.build(number)
            run.compare("after a full refresh", "--full-refresh")
            run.check_versions()


class Run:
    """A lake that follows a source."""

    def __init__(
        self,
        folder: Path,
        source: Source,
        setting: Setting,
        database: Database,
        writer: Writer,
        kafka: Kafka,
        feed: Feed,
    ) -> None:
        self.is_ordered = False
        """Whether logs go by what generate proposes of their source's own order."""
        self._source: Final = source
        self._setting: Final = setting
        self._database: Final = database
        self._writer: Final = writer
        self._kafka: Final = kafka
        self._feed: Final = feed
        followed = source.keyed if setting.unwrapped else source.tables
        self._topics: Final = {table: feed.topic(table) for table in followed}
        self._entries: Final = [
            {"topic": topic, "format": setting.format}
            for topic in dict.fromkeys(self._topics.values())
        ]
        self._project: Final = small_project(folder / "project")
        _take_version_2(self._project)
        self._lake: Final = Lake(folder, self._project)
        self._visits: Final = Log(
            VISITS,
            VISITS,
            {},
            # Without a schema block a day is a number.
            {"page": "string", "seconds": "double", "day": "date" if setting.schemas else "int"},
            database=source.database,
            schema=source.schema,
        )
        if VISITS in followed:
            add_log(self._project, self._visits)
            add_gold(self._project, current_state(self._visits))

    def build(self, number: int) -> None:
        """Land what is new, write the models, build them, and hold them against the source."""
        self._wait_for(number)
        self._lake.land_kafka(self._entries)
        topics = [*dict.fromkeys(self._topics[table] for table in self._source.keyed)]
        # Unwrapped, a topic is the table: one at a time.
        for some in [[each] for each in topics] if self._setting.unwrapped else [topics]:
            self._generate(some)
            if self.is_ordered:
                found = self._take_order()
                assert found or number > 1, "generate proposes no order"
                # The contracts follow.
                self._generate(some)
        self.compare(f"round {number}")

    def _generate(self, topics: list[str]) -> None:
        report = generate(self._lake.load(topics=self._entries), Options(topics))
        # Where one topic has all tables, that without a key is among them.
        is_among = self._setting.unwrapped and self._setting.is_one_topic
        assert [each.name for each in report.failed] == [VISITS] * is_among, report

    def _take_order(self) -> bool:
        """Take what generate proposes; whether there was anything."""
        found = False
        for file in (self._project / "models" / "silver").glob("*.sql"):
            text = file.read_text()
            if proposed := re.search(r"[ ]*\{# (order_by=\"\w+\") .*?#\}\n", text, re.DOTALL):
                rest = text.replace(proposed[0], "")
                file.write_text(re.sub(r"change_log\(\n", rf"\g<0>        {proposed[1]},\n", rest))
                found = True
        return found

    def compare(self, when: str, *options: str) -> None:
        """Build all, and hold it against the source."""
        built = self._lake.outcomes("run", *options, as_of=None, topics=self._entries)
        assert {name: each for name, each in built.items() if each.status != "success"} == {}
        found: list[str] = []
        for table in self._source.keyed:
            declared = self._writer.tables[table].without(self._setting.left_out)
            gold, there = self._gold(table), self._database.rows(table, declared)
            lines = differences(gold, there, declared, self._setting)
            found += [f"{when}, {table} {line}" for line in lines]
        assert found == [], _shown(found)
        if VISITS in self._topics:
            # Its rows have no key: as texts they are as often here as there.
            declared = self._source.tables[VISITS]
            gold = plain(self._gold(VISITS), declared, self._setting)
            assert _counted(gold) == _counted(self._database.rows(VISITS, declared)), when

    def check_versions(self) -> None:
        """Readers of Iceberg's version 2 can read gold, and runs go on from tables of version 3."""
        for table in self._lake.tables():
            version = self._lake.properties(table)["format-version"]
            wanted = {"gold": {"2"}, "bronze": {"2", "3"}}.get(table.partition(".")[0], {"3"})
            assert version in wanted, table

    def _gold(self, table: str) -> list[dict[str, Any]]:
        # Rows that name no table are named after their topic.
        names = (snake(table), snake(self._topics[table].rpartition(".")[2]))
        (model,) = (
            each.stem
            for each in (self._project / "models" / "gold").glob("*.sql")
            if each.stem.endswith(names)
        )
        return self._lake.read(f"gold.{model}")

    def _wait_for(self, number: int) -> None:
        """Wait until all that the source has committed is in Kafka."""
        self._feed.wait_for_snapshot(number)
        self._database.run(f"update marker set round = {number} where id = 1;")
        self._feed.wait_for_round(number)
        # Its producer sends to partitions side by side.
        count, since = -1, time.monotonic()

        def is_still() -> bool:
            nonlocal count, since
            if (found := self._kafka.count({*self._topics.values()})) != count:
                count, since = found, time.monotonic()
            return time.monotonic() - since > STILL_SECONDS

        wait_until(is_still, "no more comes")


def _take_version_2(project: Path) -> None:
    """Have all gold tables in Iceberg's format version 2 (docs/query.md)."""
    profiles = project / "profiles" / "profiles.yml"
    text = profiles.read_text()
    asked = text.replace('format-version: "3"', 'format-version: "2"')
    assert asked != text
    profiles.write_text(asked)


def _counted(rows: Iterable[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(repr, row.values())) for row in rows)


def _shown(found: list[str]) -> str:
    """Differences, the first of each column."""
    first: dict[str, str] = {}
    for line in found:
        first.setdefault(re.sub(r"\(.*?\)", "", line).partition(":")[0], line)
    return "\n".join([f"{len(found)} differences", *first.values()])
