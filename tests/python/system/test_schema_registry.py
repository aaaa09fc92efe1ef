"""A topic in Avro, from a registry that runs to gold; what becomes of it without the registry; and
how the registry is asked.
"""

import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from support import apicurio
from support.avro_messages import Writer, avro_schema, avro_value
from support.lakes import Lake, copy_project
from test_debezium_avro import CONNECT, TIME, envelope, field

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.cli import main as command_line
from dbt_lakehouse.commands import doctor
from dbt_lakehouse.commands.explain.explained_message import explain
from dbt_lakehouse.commands.explain.landed import from_bronze
from dbt_lakehouse.commands.explain.nodes import Limits
from dbt_lakehouse.commands.redrive import Redriven, redrive
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake import schema_registry
from dbt_lakehouse.lake.schema_registry import Registry, RegistryError, find_schemas
from dbt_lakehouse.queries.query import rows_of
from dbt_lakehouse.runs.log_decoders import register_decoders
from local_kafka.broker import free_port
from python_udfs.core.budget import Budget
from python_udfs.debezium import avro

AS_OF: Final = "2026-11-21 00:00:00"
TOPIC: Final = "shop.orders"
TOPICS: Final = [{"topic": TOPIC, "format": "debezium_avro"}]
START: Final = 1_790_000_000_000
SOURCE: Final = {"connector": "mysql", "db": "shop", "schema": None, "table": "orders"}
COLUMNS: Final = [
    {"field": "id", "type": "int32"},
    field("total", "bytes", CONNECT + "Decimal", parameters={"scale": "2"}),
    field("day", "int32", TIME + "Date"),
]
KEY: Final = {"type": "struct", "name": "shop.Key", "fields": COLUMNS[:1]}
OLD: Final = envelope(*COLUMNS)
NEW: Final = envelope(*COLUMNS, field("note", "string"))


class Topic:
    """Messages of the topic, as its connector writes them."""

    def __init__(self, registry: apicurio.Registry) -> None:
        self._registry = registry
        self._offset = 0
        self.key = registry.register(f"{TOPIC}-key", avro_schema(KEY))
        self.old = registry.register(f"{TOPIC}-value", avro_schema(OLD))
        # That of the next version; other tests may register others first.
        self.new = self.old

    def evolve(self) -> None:
        """The table gets a column."""
        self.new = self._registry.register(f"{TOPIC}-value", avro_schema(NEW))

    def change(self, op: str, row: dict[str, Any]) -> dict[str, Any]:
        block, number = (NEW, self.new) if "note" in row else (OLD, self.old)
        images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        time = START + self._offset
        payload = {**images, "source": {**SOURCE, "ts_ms": time}, "op": op, "ts_ms": time}
        value = Writer(number, avro_schema(block)).write(avro_value(block, payload))
        return self.raw(Writer(self.key, avro_schema(KEY)).write({"id": row["id"]}), value)

    def raw(self, key: bytes, value: bytes) -> dict[str, Any]:
        self._offset += 1
        return {
            **{"topic": TOPIC, "partition": 0, "offset": self._offset},
            **{"timestamp_ms": START + self._offset},
            **{"key_b64": b64encode(key).decode(), "value_b64": b64encode(value).decode()},
        }


def row(number: int, total: bytes, day: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "total": b64encode(total).decode(), "day": day, **more}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apicurio.Registry]:
    with apicurio.running(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No schemas on disk yet, and none in this process."""

    def folder(name: str) -> Path:
        found = tmp_path / "cache" / name
        found.mkdir(parents=True, exist_ok=True)
        return found

    monkeypatch.setattr(schema_registry, "cache_folder", folder)
    for name in ("URL", "USER", "PASSWORD", "CA_FILE"):
        monkeypatch.delenv(f"SCHEMA_REGISTRY_{name}", raising=False)
    forget()
    return tmp_path / "cache"


def forget() -> None:
    """Another process begins."""
    avro._known.clear()
    avro._compiled.clear()


# --- To gold --------------------------------------------------------------------------------------


def test_a_topic_in_avro_comes_to_gold(
    registry: apicurio.Registry,
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lake = Lake(tmp_path, copy_project(tmp_path / "project"))
    topic = Topic(registry)
    lake.land(
        [
            topic.change("c", row(1, b"\x26\xde", 20_000)),
            topic.change("c", row(2, b"\x00\xff", 20_001)),
            topic.change("d", row(2, b"\x00\xff", 20_001)),
        ]
    )

    def built(*arguments: str) -> dict[str, str]:
        return {
            name: each.status + each.message * (each.status == "error")
            for name, each in lake.outcomes(*arguments, as_of=AS_OF, topics=TOPICS).items()
        }

    # Without the registry the run stops, and says so.
    port = free_port()
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", f"http://me:hunter2@127.0.0.1:{port}")
    stopped = built("run", "-s", "other_events")["other_events"]
    assert f"http://127.0.0.1:{port} can't be reached" in stopped
    assert "hunter2" not in stopped + lake.log_text()
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    assert built("run", "-s", "other_events") == {"other_events": "success"}
    kept_on_disk = sorted(int(each.stem) for each in cache.rglob("*.json"))
    assert kept_on_disk == sorted([topic.key, topic.old])

    # From here on, the lake has what it takes.
    monkeypatch.delenv("SCHEMA_REGISTRY_URL")
    forget()
    options = ["--project-dir", str(lake.project), "--profiles-dir", str(lake.project / "profiles")]
    variables = ["--vars", json.dumps({"topics": TOPICS, "captures": []})]
    with lake.dbt_folders():
        lakehouse.main(
            ["generate", "--topic", TOPIC, "--name", "sales", *options, *variables],
            standalone_mode=False,
        )
    said = capsys.readouterr().out
    for column in ("id int, key", "total decimal(38,2)", "day date"):
        assert column in said
    # A column more, an id that the registry doesn't know yet, and bytes that are cut off.
    topic.evolve()
    later = topic.change("u", row(1, b"\x26\xdf", 20_002, note="paid"))
    number = topic.new + 1
    unknown = topic.raw(
        b64decode(later["key_b64"]), number.to_bytes(5, "big") + b64decode(later["value_b64"])[5:]
    )
    lake.land([later, unknown, topic.raw(b"plain", b64decode(later["value_b64"])[:-3])])
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    assert set(built("run", "-s", "+sales", "quarantined_payloads").values()) == {"success"}
    (sale,) = lake.read("gold.sales")
    assert (sale["id"], sale["total"], sale["day"]) == (1, Decimal("99.51"), date(2024, 10, 6))
    assert quarantined(lake) == {5: "unknown_schema", 6: "truncated"}
    kept = lake.sql("select id, kind, registry from lake.bronze.avro_schemas order by id")
    assert [each["id"] for each in kept] == sorted({topic.key, topic.old, topic.new})
    assert {(each["kind"], each["registry"]) for each in kept} == {("AVRO", registry.url)}

    # Read without Spark, and without the registry.
    monkeypatch.delenv("SCHEMA_REGISTRY_URL")
    forget()
    told = from_bronze(lake.reader(), "silver.other_events", TOPIC, 0, 1)
    assert told.told is not None and told.told.format == "debezium_avro"
    assert explain(told.key, told.value, Limits(), told.told).events[0].operation == "insert"
    forget()
    decoder = "decode_sales_changes('debezium_avro', key, value)"
    query = f"""select "offset", unnest({decoder}).operation from bronze.raw_payloads order by 1"""
    operations = [(1, "insert"), (2, "insert"), (3, "delete"), (4, "update")]
    assert rows_of(lake.reader(), query) == operations
    assert register_decoders(lake.spark, "silver") == ["decode_sales_changes"]
    events = f"lateral view inline({decoder}) event order by 1"
    found = lake.sql(f"select offset, event.operation from bronze.raw_payloads {events}")
    assert [(each["offset"], each["operation"]) for each in found] == operations
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)

    # Once it knows the id, the payload takes its place.
    assert registry.register("again-value", {**avro_schema(NEW), "doc": "again"}) == number
    project = lake.load(topics=TOPICS, as_of=AS_OF, captures=[])
    assert redrive(project, ["unknown_schema"], []) == Redriven(1, 1, 1)
    assert quarantined(lake) == {6: "truncated"}
    # All of it once more, from the lake alone.
    monkeypatch.delenv("SCHEMA_REGISTRY_URL")
    models = ("-s", "other_events", "sales_changes")
    assert set(built("run", *models).values()) == {"success"}
    before = changes(lake)
    assert [offset for offset, *_ in before] == [1, 2, 3, 4, 5]
    assert set(built("run", "--full-refresh", *models).values()) == {"success"}
    assert changes(lake) == before
    assert [each["offset"] for each in lake.read("silver.other_events")] == [6]


def quarantined(lake: Lake) -> dict[int, str]:
    return {each["offset"]: each["error_code"] for each in lake.read("silver.quarantined_payloads")}


def changes(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(
        (each["_position"]["offset"], each["_operation"], each["id"], each["total"], each["day"])
        for each in lake.read("silver.sales_changes")
    )


def test_doctor_asks_the_registry(
    registry: apicurio.Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def found(topics: Any) -> list[tuple[str, str]]:
        checks = doctor._schema_registry(Lake(tmp_path).load(topics=topics))
        return [(str(each.state), each.told) for each in checks]

    # Only where a topic needs it.
    assert found([]) == []
    ((state, told),) = found(TOPICS)
    assert (state, "SCHEMA_REGISTRY_URL names no registry" in told) == ("warn", True)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    assert found(TOPICS) == [("ok", f"{registry.url} answers")]
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", f"http://127.0.0.1:{free_port()}")
    ((state, told),) = found(TOPICS)
    assert (state, "can't be reached" in told) == ("fail", True)


# --- Asked without Spark --------------------------------------------------------------------------


def test_a_message_is_decoded_and_explained_without_spark(
    registry: apicurio.Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    line = Topic(registry).change("c", row(7, b"\x26\xde", 20_000))
    file = tmp_path / "messages.jsonl"
    file.write_text(json.dumps(line) + "\n")

    def said(*arguments: str, code: int = 0) -> tuple[str, str]:
        forget()
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            command_line([*arguments])
        assert (ended.value.code or 0) == code
        out, error = capfdbinary.readouterr()
        return out.decode(), error.decode()

    decode = ("decode", "--format", "debezium_avro", str(file))
    _, error = said(*decode, code=2)
    assert "SCHEMA_REGISTRY_URL is to say where it is" in error
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    decoded = json.loads(said(*decode)[0])
    assert (decoded["record_key"], decoded["after"]["day"]) == ({"id": 7}, "2024-10-04")
    out, _ = said("explain", str(file), "--line", "1")
    assert "debezium_avro (sure: no other decoder accepts it)" in out
    # What was asked for once is on disk: nobody answers there.
    monkeypatch.setattr(Registry, "_ask", None)
    assert json.loads(said(*decode)[0]) == decoded


def test_a_schema_comes_with_what_it_refers_to(
    registry: apicurio.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over two steps, by a subject whose name has a slash."""
    names = ("A", "B", "C")
    schemas: list[Any] = [
        {"type": "record", "name": "r.A", "fields": [{"name": "x", "type": "int"}]}
    ]
    for name, of in zip(names[1:], names[:-1], strict=True):
        part = {"name": "of", "type": f"r.{of}"}
        schemas.append({"type": "record", "name": f"r.{name}", "fields": [part]})
    number = 0
    for place, (name, schema) in enumerate(zip(names, schemas, strict=True)):
        before = [(f"r.{names[place - 1]}", f"r/{names[place - 1]}")] if place else []
        number = registry.register(f"r/{name}", schema, before)
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    found = find_schemas([number, 999_999])
    assert found[999_999] is None
    registered = found[number]
    assert registered is not None
    assert [json.loads(text)["name"] for text in registered.texts] == ["r.A", "r.B", "r.C"]
    avro.know(found)
    text = b"\0" + number.to_bytes(4, "big") + b"\x02"
    assert avro.take_apart(text, Budget(6)).payload == {"of": {"of": {"x": 1}}}


@contextmanager
def answering(answers: dict[str, tuple[int, Any]], asked: list[Any]) -> Iterator[str]:
    """A server that answers paths so; what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Authorization")))
            status, said = answers.get(self.path, (404, {"error_code": 40403, "message": "no"}))
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "http://localhost/schemas/ids/1")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


SCHEMA: Final = {"schema": '"long"'}


def test_who_asks_is_said_and_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answers = {
        "/schemas/ids/1": (200, SCHEMA),
        "/schemas/ids/2": (401, {"error_code": 40101, "message": "who is me:hunter2?"}),
        "/schemas/ids/3": (302, b""),
        "/schemas/ids/4": (500, {"error_code": 50001, "message": "no store"}),
        "/schemas/ids/5": (200, b"<html>"),
        "/schemas/ids/6": (404, b"<html>"),
        "/schemas/ids/7": (200, {**SCHEMA, "schemaType": "JSON"}),
        "/schemas/ids/9": (200, {**SCHEMA, "references": [{"subject": "s"}]}),
    }
    with answering(answers, asked) as url:
        registry = Registry(
            f"{url}/", {"SCHEMA_REGISTRY_USER": "me", "SCHEMA_REGISTRY_PASSWORD": "hunter2"}
        )
        assert registry.find(1) == avro.Registered("AVRO", ('"long"',))
        assert registry.find(7) == avro.Registered("JSON", ('"long"',))
        assert registry.find(8) is None
        # No registry is asked for what can't be an id.
        assert registry.find(2**31) is None
        assert {header for _, header in asked} == {"Basic bWU6aHVudGVyMg=="}
        assert len(asked) == 3
        # Kept; and not that there is none.
        assert (registry.find(1) is None, registry.find(8)) == (False, None)
        assert len(asked) == 4
        for number, sentence in {
            2: "refuses (401): set SCHEMA_REGISTRY_USER and SCHEMA_REGISTRY_PASSWORD",
            3: "it sends on to http://localhost (302)",
            4: "answers 500: no store",
            5: "does not answer like one",
            6: "answers 404",
            9: "references of schema 9 that can't be read",
        }.items():
            with pytest.raises(RegistryError) as raised:
                registry.find(number)
            assert sentence in str(raised.value)
            assert "hunter2" not in str(raised.value)
        # The first of several that answers; both parts of a name in the address.
        named = url.replace("//", "//me:hunter%32@")
        several = Registry(f"http://127.0.0.1:{free_port()}, {named}", {})
        assert "hunter" not in several.name
        several.probe()
        assert asked[-1] == ("/schemas/ids/0", "Basic bWU6aHVudGVyMg==")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"SCHEMA_REGISTRY_URL": "registry:8081"}, "write one like"),
        (
            {"SCHEMA_REGISTRY_URL": "https://registry", "SCHEMA_REGISTRY_CA_FILE": "/nowhere.pem"},
            "/nowhere.pem has no certificates",
        ),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        Registry(settings["SCHEMA_REGISTRY_URL"], settings)
