"""From a real database to change events, by every setting of its connector: decoded and folded,
each table has the rows that the source has, value by value. All settings read the same changes,
each by a connector of its own; no Spark and no dbt, so it takes seconds for each.

``test_real_source`` goes the whole way to gold, by one setting.

What Debezium itself makes of some of PostgreSQL's values, as ``docs/wire-formats.md`` has it, is
tried value by value: another version of it may make something else of them.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from support import apicurio
from support.kafka_topics import Kafka
from support.real_feed import Feed
from support.real_mariadb import MARIADB
from support.real_postgres import POSTGRES
from support.real_settings import DEFAULT, SETTINGS, Setting, connector
from support.real_source import VISITS, Database, Source, Writer, differing
from support.real_values import READERS, Column, Kind, Table

from local_kafka.broker import Broker
from local_kafka.connect import AVRO_JARS, kafka_connect
from python_udfs.core.events import DELETE, TOMBSTONE, TRUNCATE, Event
from python_udfs.debezium.types import UNAVAILABLE

TRANSACTIONS: Final = 60


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each database with each seed and setting that the call asks for, all unless it names some.
    Apart from others are those whose snapshots read all that is written: some values none can read.
    """
    if "settings" not in metafunc.fixturenames:
        return
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


_SAME: Final = object()
_ANOTHER: Final = object()
_ABSENT: Final = object()
# Types, values, and what comes of them from the log and from a snapshot.
_VALUES: Final[list[tuple[str, str, Any, Any]]] = [
    ("hstore", "'a => 1, b => null'", {"a": "1", "b": None}, _SAME),
    ("date", "'0044-03-15 BC'", "-0043-03-15", _ANOTHER),
    ("date", "'infinity'", "infinity", _ANOTHER),
    ("date", "'-infinity'", "-infinity", _ANOTHER),
    ("date", "'5874897-12-31'", "+5874897-12-31", _SAME),
    ("timestamp", "'0044-03-15 01:02:03.5 BC'", "-0043-03-15T01:02:03.500000", _SAME),
    ("timestamp", "'infinity'", "infinity", _SAME),
    ("timestamp", "'294276-12-31 23:59:59.999999'", "-290308-12-21T19:59:06.224190", _SAME),
    ("timestamptz", "'0044-03-15 01:02:03.5 BC'", "-0043-03-15T01:02:03.500000Z", _SAME),
    ("timestamptz", "'-infinity'", "-infinity", _SAME),
    ("timetz", "'12:34:56.123456+02'", "10:34:56.123456Z", _SAME),
    ("timetz[]", "array['12:34:56+02'::timetz]", ["10:34:56Z"], _SAME),
    ("date[]", "'{infinity,2024-02-29}'", ["-1701532-04-05", "2024-02-29"], _SAME),
    ("timestamp[]", "'{infinity}'", ["infinity"], _SAME),
    ("int[]", "'{{1,2},{3,4}}'", [None, None], _SAME),
    ("name", "'a name'", None, "a name"),
    ("point", "'(1.5,Infinity)'", {"x": 1.5, "y": "Infinity"}, _SAME),
    *(
        (type_name, value, _ABSENT, _ABSENT)
        for type_name, value in {
            "line": "'{1,2,3}'",
            "lseg": "'[(0,0),(1,1)]'",
            "box": "'(1,1),(0,0)'",
            "path": "'[(0,0),(1,1)]'",
            "polygon": "'((0,0),(1,1),(1,0))'",
            "circle": "'<(0,0),2>'",
            "int4multirange": "'{[1,5),[7,9)}'",
            "tsquery": "'a & b'",
            "jsonpath": "'$.a'",
            "pg_lsn": "'16/B374D848'",
            "xid": "'5'",
            "txid_snapshot": "'10:20:10,14'",
            "regclass": "'pg_class'",
            "point[]": "array[point '(1,2)']",
            "money[]": "'{1.25}'",
        }.items()
    ),
]
# Whether a value out of line that an update leaves as it was has a placeholder, by its type.
_OUT_OF_LINE: Final = {
    **dict.fromkeys(("text", "varchar", "json", "jsonb", "bytea", "int", "bigint"), True),
    **dict.fromkeys(("date", "uuid"), True),
    **dict.fromkeys(("smallint", "real", "double precision", "numeric", "boolean"), False),
    **dict.fromkeys(("time", "timestamp", "timestamptz", "inet", "hstore"), False),
}
_ELEMENTS: Final = {
    **dict.fromkeys(("json", "jsonb"), "1"),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "2024-02-29"),
    "time": "12:34:56",
    "uuid": "6ccd780c-baba-1026-9564-5b8c656024db",
    "inet": "10.0.0.1",
    "hstore": "a => 1",
    "text": "ab",
    "varchar": "ab",
}


@pytest.mark.real
def test_what_debezium_makes_of_postgresql_values(
    tmp_path: Path, broker: Broker, kafka: Kafka
) -> None:
    (tmp_path / "database").mkdir()
    setting = Setting({"hstore.handling.mode": "map"})
    names = [f"v{place}" for place in range(len(_VALUES))]
    columns = [f"{name} {each[0]}" for name, each in zip(names, _VALUES, strict=True)]
    values = ", ".join(each[1] for each in _VALUES)
    long = [f'"{type_name}"' for type_name in _OUT_OF_LINE]
    arrays = [f"{name} {each}[]" for name, each in zip(long, _OUT_OF_LINE, strict=True)]
    filled = [
        f"array_fill('{_ELEMENTS.get(each, '1')}'::{each}, array[4000])" for each in _OUT_OF_LINE
    ]
    stored = ", ".join(f"alter {name} set storage external" for name in [*long, "n", "h"])
    with POSTGRES.started(tmp_path / "database") as database:
        database.run(
            f"create table others (id int primary key, {', '.join(columns)});"
            f"create table long (id int primary key, t text, n numeric, h hstore,"
            f" {', '.join(arrays)}); alter table long {stored};"
            f"insert into others values (1, {values});"
            f"insert into long values (1, 'a', ('1e' || 9000)::numeric + 1,"
            f" hstore('a', repeat('b', 4000)), {', '.join(filled)});"
        )
        connect = tmp_path / "connect"
        own = {**database.connector(connect), "interval.handling.mode": "string"}
        made = connector(own, setting, "others", 1, "")
        jars = [POSTGRES.jars]
        with kafka_connect(connect, broker.bootstrap_servers, {"o": made}, jars) as check:
            feed = Feed(kafka, setting, "others", check)
            feed.wait_for_round(0)
            database.run(f"insert into others values (2, {values}); update long set t = 'b';")
            database.run("update marker set round = 1;")
            feed.wait_for_round(1)
            read, inserted = (_image(each.after) for each in feed.events("others"))
            updated = _image(feed.events("long")[-1].after)
    found, wanted = {}, {}
    for name, (type_name, value, of_log, of_snapshot) in zip(names, _VALUES, strict=True):
        now, before = (image.get(name, _ABSENT) for image in (inserted, read))
        if type_name == "point":
            now, before = ({each: said[each] for each in ("x", "y")} for said in (now, before))
        if of_snapshot is _ANOTHER:
            before = _ANOTHER if before != now else now
        found[type_name, value] = now, before
        wanted[type_name, value] = of_log, of_log if of_snapshot is _SAME else of_snapshot
    assert found == wanted
    assert (updated["t"], updated["n"], updated["h"]) == ("b", None, UNAVAILABLE)
    held = {type_name: updated[type_name] for type_name in _OUT_OF_LINE}
    assert held == {each: UNAVAILABLE if is_so else None for each, is_so in _OUT_OF_LINE.items()}


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
