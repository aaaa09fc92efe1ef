"""From a real database to change events, by every setting of its connector: decoded and folded,
each table has the rows that the source has, value by value. All settings read the same changes,
each by a connector of its own; no Spark and no dbt, so it takes seconds for each.

``test_real_source`` goes the whole way to gold, by one setting.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import apicurio
import pytest
from kafka_topics import Kafka
from real_feed import Feed
from real_mariadb import MARIADB
from real_postgres import POSTGRES
from real_settings import DEFAULT, SETTINGS, Setting, connector
from real_source import VISITS, Database, Source, Writer, differing
from real_values import READERS, Column, Kind, Table

from local_kafka.broker import Broker
from local_kafka.connect import AVRO_JARS, kafka_connect
from python_udfs.core.events import DELETE, TOMBSTONE, TRUNCATE, Event
from python_udfs.debezium.types import UNAVAILABLE

TRANSACTIONS: Final = 60


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each database with each seed and setting that the call asks for, all unless it names some.
    Apart from others are those whose snapshots read all that is written: some values none can read.
    """
    options = metafunc.config.option
    is_all = options.settings in (DEFAULT, "all")
    asked = (
        {name: SETTINGS[name] for name in options.settings.split(",")} if not is_all else SETTINGS
    )
    metafunc.parametrize("source", [POSTGRES, MARIADB], ids=lambda source: source.name)
    apart = {name: each for name, each in asked.items() if each.is_incremental}
    together = {name: each for name, each in asked.items() if name not in apart}
    groups = {"all": together, "incremental": apart}
    groups = {name: some for name, some in groups.items() if some}
    metafunc.parametrize("settings", [*groups.values()], ids=[*groups])
    metafunc.parametrize("seed", range(options.seed, options.seed + options.seeds))


@pytest.mark.real
def test_events_equal_the_source(
    source: Source,
    settings: dict[str, Setting],
    seed: int,
    tmp_path: Path,
    broker: Broker,
    kafka: Kafka,
    pytestconfig: pytest.Config,
) -> None:
    for name in ("database", "registry"):
        (tmp_path / name).mkdir()
    prefixes = {name: f"{source.name}-{seed}-{name}" for name in settings}
    with (
        apicurio.asked(tmp_path / "registry") as registry,
        source.started(tmp_path / "database") as database,
    ):
        # Of those that are together none asks for anything else.
        first, *_ = settings.values()
        writer = source.writer(seed, first)
        database.run(writer.script(TRANSACTIONS))
        connectors = {}
        for number, (name, prefix) in enumerate(prefixes.items()):
            folder = tmp_path / "connect" / name
            folder.mkdir(parents=True)
            own = {**database.connector(folder), **source.own(number)}
            # In one partition all is in the source's order.
            connectors[name] = connector(own, settings[name], prefix, 1, registry.own_url)
        jars = [source.jars, AVRO_JARS]
        with kafka_connect(
            tmp_path / "connect", broker.bootstrap_servers, connectors, jars, memory="1g"
        ) as check:
            feeds = {
                name: Feed(kafka, settings[name], prefix, check)
                for name, prefix in prefixes.items()
            }
            for feed in feeds.values():
                feed.wait_for_snapshot(0)
            rounds = pytestconfig.option.rounds
            for number in range(1, rounds + 1):
                if number > 1 or first.is_incremental:
                    database.run(writer.round(number, rounds, TRANSACTIONS))
                for feed in feeds.values():
                    feed.wait_for_snapshot(number)
                database.run(f"update marker set round = {number} where id = 1;")
                for feed in feeds.values():
                    feed.wait_for_round(number)
            found = []
            for name, feed in feeds.items():
                lines = _differences(feed, database, writer, source, settings[name])
                found += [f"{name}, {line}" for line in lines]
    assert found == [], "\n".join([f"{len(found)} differences", *found[:60]])


def _differences(
    feed: Feed, database: Database, writer: Writer, source: Source, setting: Setting
) -> Iterator[str]:
    for table in source.tables:
        # The transform leaves out truncates, and what names the row of a table without a key.
        if setting.unwrapped and table in ("emptied", VISITS):
            continue
        events = feed.events(table)
        declared = writer.tables[table].without(setting.left_out)
        there = database.rows(table, declared)
        images = _rows(events) if declared.key else _copies(events)
        ours = [_plain(image, declared, setting) for image in images]
        if declared.key:
            yield from (f"{table} {line}" for line in differing(ours, there, declared, setting))
        elif _counted(ours) != _counted(there):
            yield f"{table}: {_counted(ours) - _counted(there)}"


def _rows(events: list[Event]) -> list[dict[str, Any]]:
    """What is left of a table's rows."""
    rows: dict[bytes, dict[str, Any]] = {}
    gone: dict[bytes, dict[str, Any]] = {}
    for event in events:
        assert event.operation != "invalid", event
        if event.operation == TRUNCATE:
            rows.clear()
            continue
        key = event.record_key
        assert key is not None, event
        if event.operation in (DELETE, TOMBSTONE):
            if key in rows:
                gone[key] = rows.pop(key)
            continue
        noted = json.loads(event.metadata or b"{}")
        old = noted.get("old_key")
        was = gone.get(old.encode(), {}) if old else rows.get(key, {})
        image = _image(event.after)
        # With incremental snapshots an update may come before its row was read.
        rows[key] = {
            name: was.get(name) if value == UNAVAILABLE else value for name, value in image.items()
        }
    return list(rows.values())


def _copies(events: list[Event]) -> list[dict[str, Any]]:
    """What is left of the rows of a table without a key."""
    rows: Counter[bytes] = Counter()
    for event in events:
        if event.before is not None:
            rows[event.before] -= 1
        if event.after is not None:
            rows[event.after] += 1
    assert min(rows.values()) >= 0
    return [_image(each) for each in rows.elements()]


def _image(text: bytes | None) -> dict[str, Any]:
    assert text is not None
    image: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return image


def _plain(image: dict[str, Any], table: Table, setting: Setting) -> dict[str, Any]:
    return {
        name: setting.of_gold(_typed(image.get(setting.named(name)), column, setting), column)
        for name, column in table.columns.items()
    }


def _typed(value: Any, column: Column, setting: Setting) -> Any:
    """What a table's column of the declared type has of a value of an image."""
    if value is None or not setting.schemas:
        # A value with parts is text.
        return json.dumps(value) if isinstance(value, dict) else value
    match column.kind:
        case Kind.NUMBER:
            if Kind.NUMBER in setting.loses:
                return float(value)
            return value if type(value) is str else Decimal(value)
        case Kind.SINGLE | Kind.DOUBLE:
            return float(value)
        case Kind.BINARY | Kind.BITS:
            shipped = setting.readers.get(column.kind, READERS[column.kind])
            is_bytes = shipped is READERS[column.kind]
            return base64.b64decode(value, validate=True) if is_bytes else value
        case Kind.DATE:
            return date.fromisoformat(value)
        case Kind.LOCAL | Kind.INSTANT:
            return datetime.fromisoformat(value)
        case Kind.LIST:
            return [_typed(each, column.part, setting) for each in value]
    return value


def _counted(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(repr, row.values())) for row in rows)
