"""One lake in each kind of catalog, its files in a bucket: built in SQLite, moved to PostgreSQL,
and on to REST. In each it lands, builds what is new, is read without Spark, and is maintained.

The tests stand in the order of the moves.
"""

import fcntl
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Final, TextIO

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from support.commands import SECONDS
from support.kafka_topics import Kafka, numbered
from support.lakes import Lake
from support.rest_catalog import rest_catalog
from support.s3 import ENVIRONMENT, KEY, SECRET, place_in_bucket, s3
from support.small_messages import row_change
from support.small_project import Log, add_gold, add_log, current_state, small_project
from support.streams import Message

from dbt_lakehouse.cli import lakehouse
from dbt_lakehouse.commands import migrate_catalog
from dbt_lakehouse.config.paths import LOOPBACK, ROOT
from dbt_lakehouse.errors import ConfigurationError, LockedError, ReadError, SessionError
from dbt_lakehouse.lake import leases
from dbt_lakehouse.lake.catalog import CATALOG_URI, sqlite_file
from dbt_lakehouse.lake.iceberg import lake_catalog
from dbt_lakehouse.lake.locks import landing_lock
from dbt_lakehouse.lake.moved_catalog import close
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.lake.rest import Server
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.lake.wholeness import BEGUN
from dbt_lakehouse.landing.files import land_captures
from dbt_lakehouse.session.dbt_commands import DbtError, run_dbt
from dbt_lakehouse.session.opening import open_session, start_session
from dbt_lakehouse.session.profile import find
from dbt_lakehouse.session.project import ProjectOptions, load
from local_kafka.broker import Broker
from local_kafka.postgres import USER, postgres

AS_OF: Final = "2026-10-01 12:00:00"
LOG: Final = Log("shops", "shops", {"id": "bigint"}, {"title": "string"}, "shop", "app")
CHANGES: Final = "silver.shops_changes"
LEASES: Final = "bronze.leases"
WAREHOUSE: Final = "s3://lake/warehouse"
# A file of no table's, long forgotten.
ORPHAN: Final = f"{WAREHOUSE}/gold/shops/data/orphan.parquet"
VIEW: Final = "create view lake.gold.titles as select upper(title) as title from lake.gold.shops"


def change(offset: int, op: str, key: int, title: str) -> Message:
    source = {"connector": "postgresql", "db": "shop", "schema": "app", "table": "shops"}
    return row_change("debezium.shops", offset, op, key, source, title=title)


# What lands in each catalog, and what of gold is another then: None is gone.
ROUNDS: Final[dict[str, tuple[list[Message], dict[int, str | None]]]] = {
    "dev": (
        [change(0, "c", 1, "one"), change(1, "c", 2, "two"), change(2, "c", 3, "three")],
        {1: "one", 2: "two", 3: "three"},
    ),
    "postgres": (
        [change(3, "u", 1, "uno"), change(4, "d", 2, "two")],
        {1: "uno", 2: None},
    ),
    "rest": (
        [change(5, "u", 1, "ein"), change(6, "c", 4, "vier")],
        {1: "ein", 4: "vier"},
    ),
}


@dataclass
class Moving:
    """The lake, which all targets of its project's profile name in one after the other."""

    lake: Lake
    at: str = ""
    """The target that has it now; none before it is built."""
    titles: dict[int, str] = field(default_factory=dict)
    """What gold must be by now."""

    def options(self, target: str) -> ProjectOptions:
        project = self.lake.project
        return ProjectOptions(str(project), str(project / "profiles"), target=target)

    def command(self, target: str, *arguments: str) -> str:
        """What the `lakehouse` command prints. Raises what it fails with."""
        options = self.options(target)
        places = ["--project-dir", str(options.project_dir)]
        places += ["--profiles-dir", str(options.profiles_dir), "--target", target]
        with self.lake.dbt_folders():
            result = CliRunner().invoke(lakehouse, [*arguments, *places], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def dbt(self, target: str, *arguments: str) -> None:
        """A dbt command. Raises ``DbtError`` if not all goes well."""
        variables = json.dumps({"captures": [], "as_of": AS_OF})
        with self.lake.dbt_folders():
            run_dbt(load(self.options(target)._replace(vars=variables)), *arguments)

    def tables(self, target: str) -> dict[str, Table]:
        """All tables, as their metadata has them; of leases each catalog has its own."""
        place = find(self.options(target))
        reader = Reader(place.settings, place.gold)
        names = set(reader.names) - {LEASES, "gold.titles"}
        return {name: reader.look_at(name) for name in names}

    def files(self) -> dict[Path, int]:
        """The files of data and of tables' metadata, and when they were written."""
        files = (self.lake.folder / "buckets").rglob("*.*")
        return {
            file: file.stat().st_mtime_ns
            for file in files
            if file.is_file() and not {"leases", "titles"} & {*file.parts}
        }


@pytest.fixture(scope="module")
def moving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    """The lake, in the catalog of the target ``dev``, and servers of the others."""
    folder = tmp_path_factory.mktemp("moving")
    project = small_project(folder / "project")
    add_log(project, LOG)
    add_gold(project, current_state(LOG))
    with ExitStack() as servers:
        environment = servers.enter_context(pytest.MonkeyPatch.context())
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        orphan = folder / "buckets" / ORPHAN.removeprefix("s3://")
        orphan.parent.mkdir(parents=True)
        orphan.touch()
        os.utime(orphan, (1, 1))
        endpoint = servers.enter_context(s3(folder / "buckets", "lake"))
        storage = place_in_bucket(project, WAREHOUSE, endpoint)
        profile = servers.enter_context((project / "profiles" / "profiles.yml").open("a"))
        uri = servers.enter_context(postgres(folder))
        target(profile, "postgres", uri=uri, **{"jdbc.user": USER})
        file_io = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
        file_io |= {"http-client.type": "urlconnection", **storage}
        uri = servers.enter_context(rest_catalog(folder, WAREHOUSE, **file_io))
        target(profile, "rest", type="rest", uri=uri, credential="me:secret")
        profile.flush()
        lake = Lake(folder, project)
        os.environ.update(lake.environment)
        yield Moving(lake)


def target(profile: TextIO, name: str, **properties: str) -> None:
    """Add a target to the profile, as docs/catalogs.md has it."""
    lines = [f"    {name}:", "      type: lakehouse", "      method: session", "      schema: gold"]
    lines += ["      threads: 4", "      server_side_parameters:", "        <<: *parameters"]
    lines += [f"        spark.sql.catalog.lake.{key}: {value}" for key, value in properties.items()]
    profile.write("\n".join(lines) + "\n")


# PostgreSQL's is reached by JDBC as SQLite's; in CI, test_shared_catalog has it.
@pytest.mark.parametrize(
    "catalog", ["dev", pytest.param("postgres", marks=pytest.mark.long), "rest"]
)
def test_a_lake_is_built_read_and_maintained_in_each_catalog(
    moving: Moving, broker: Broker, catalog: str
) -> None:
    earlier = moving.at
    before = moved(moving, earlier, catalog) if earlier else {}
    moving.at = catalog
    messages, changes = ROUNDS[catalog]
    known = {**moving.titles, **changes}
    moving.titles = {key: title for key, title in known.items() if title is not None}
    expected = moving.titles
    capture = moving.lake.folder / "capture.jsonl"
    capture.write_text("".join(json.dumps(each.line()) + "\n" for each in messages))
    spark = load(moving.options(catalog)).open_session()
    if not earlier:
        # The orphan is of this lake, which keeps its beginning where it moves to.
        spark.sql(f"alter schema lake.bronze set dbproperties ('{BEGUN}' = '1970-01-01T00:00:00Z')")
    assert land_captures(lambda: spark, [str(capture)], patience=60).landed == len(messages)
    moving.dbt(catalog, "run")
    if not earlier:
        spark.sql(VIEW)

    tables = moving.tables(catalog)
    # Only what is new was read, into the tables that were there.
    assert tables[CHANGES].chain[0].summary["added-records"] == str(len(messages))
    for name, table in before.items():
        assert tables[name].uuid == table.uuid
        assert table.snapshot in {each.name for each in tables[name].chain} | {"none"}
    count = moving.command(catalog, "show", "--json")
    assert json.loads(count) == {"gold.shops": len(expected), "gold.titles": len(expected)}
    rows = moving.command(catalog, "sql", "select id, title from shops order by id", "--csv")
    assert rows == "id,title\n" + "".join(f"{key},{expected[key]}\n" for key in sorted(expected))
    rows = moving.command(catalog, "sql", "select min(title) as title from titles", "--csv")
    assert rows == f"title\n{min(expected.values()).upper()}\n"
    answer = json.loads(
        moving.command(catalog, "why", "--table", "shops", "--key", '{"id": 1}', "--json")
    )
    assert answer["differences"] == []

    # Of the default catalog, test_kafka_stream and test_maintenance have it.
    if earlier:
        # Nothing has landed from Kafka so far.
        topic = f"shops-in-{catalog}"
        kafka = Kafka({"bootstrap.servers": broker.bootstrap_servers})
        kafka.send(kafka.create(topic), numbered(2))
        topics = {"topics": [{"topic": topic, "format": "debezium_json"}]}
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("KAFKA_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
            status = moving.command(catalog, "status", "--json", "--vars", json.dumps(topics))
        told = json.loads(status)
        (row,) = (each for each in told["partitions"] if each["topic"] == topic)
        assert [each for each in told["links"] if each["outcome"] == "broken"] == []
        assert (row["next_offset"], row["lag_messages"], row["problem"]) == (0, 2, None)
        moving.dbt(catalog, "run-operation", "maintain_tables")
        kept = moving.tables(catalog)["gold.shops"]
        moving.dbt(catalog, "run")
        # Its marks have survived: there was nothing to read.
        assert moving.tables(catalog)["gold.shops"] == kept
        assert "orphan.parquet" not in {file.name for file in moving.files()}


def test_a_lake_moves_back(moving: Moving) -> None:
    before = moving.tables(moving.at)
    text = moving.command(moving.at, "migrate-catalog", "--to", "dev")
    assert text.endswith(
        f"\n{len(before) + 1} tables moved. next: `target: dev` in profiles.yml, in every checkout;"
        " the old catalog is closed\n"
    )
    assert moving.tables("dev") == before
    rows = moving.command("dev", "sql", "from titles", "--csv").splitlines()
    assert len(rows) == 1 + len(moving.titles)


# In CI, test_forget holds that no file has any of it, and the rounds above maintain the bucket.
@pytest.mark.long
def test_a_key_is_forgotten_in_a_bucket(moving: Moving) -> None:
    models = Path("shared/models/silver")
    for file in (ROOT / models).glob("quarantined_payloads.*"):
        shutil.copy(file, moving.lake.project / models)
    moving.dbt("dev", "run", "-s", "quarantined_payloads")
    key = ("--table", "shops", "--key", '{"id": 3}', "--purge")
    assert any(b"three" in file.read_bytes() for file in moving.files())
    moving.command("dev", "forget", *key)
    rows = moving.command("dev", "sql", "select id from shops order by id", "--csv")
    assert rows == "id\n1\n4\n"
    assert not any(b"three" in file.read_bytes() for file in moving.files())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"s3.secret-access-key": "hunter2"}, "the S3 server doesn't know these credentials"),
        ({"s3.endpoint": "http://127.0.0.1:1"}, "can't be reached: .*http://127.0.0.1:1"),
    ],
)
def test_a_bucket_that_can_not_be_read_is_told(
    moving: Moving, settings: dict[str, str], sentence: str
) -> None:
    known = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, **settings}
    given = {f"spark.sql.catalog.lake.{name}": value for name, value in known.items()}
    place = find(moving.options("dev"))
    with pytest.raises(ReadError, match=sentence) as error:
        Reader({**place.settings, **given}, place.gold)
    assert "hunter2" not in str(error.value)
    started = time.monotonic()
    if active := SparkSession.getActiveSession():
        active.stop()
    with pytest.raises(SessionError, match=sentence) as refused:
        start_session({**place.settings, **given}, moving.lake.project)
    assert "hunter2" not in str(refused.value)
    # Iceberg alone would try for a minute and a half.
    assert time.monotonic() - started < 80


def test_a_bucket_that_is_not_there_is_told(moving: Moving) -> None:
    place = find(moving.options("dev"))
    settings = {
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{moving.lake.folder}/new.db",
        "spark.sql.catalog.lake.warehouse": "s3://nowhere/warehouse",
    }
    with pytest.raises(SessionError, match="there is no such bucket"):
        open_session({**place.settings, **settings}, moving.lake.project)


def moved(moving: Moving, old: str, new: str) -> dict[str, Table]:
    """Move the lake; its tables as they were before."""
    spark = start_session(load(moving.options(old)).parameters, moving.lake.project)
    refuse(moving, spark, old, new)
    before, files = moving.tables(old), moving.files()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(migrate_catalog, "_state", interrupted(migrate_catalog._state, at=5))
        with pytest.raises(KeyboardInterrupt):
            migrate_catalog.migrate_catalog(load(moving.options(old)), new)
    # Halfway nobody may write to the one or the other, nor who has waited for a lock.
    with ExitStack() as other:
        other.enter_context(at_work(spark, "landing"))
        end = threading.Timer(0.5, other.close)
        end.start()
        with pytest.raises(ConfigurationError, match="the lake has moved from "):
            landing_lock(spark).wait("a landing", patience=SECONDS)
        end.join()
    with at_work(spark, "landing"):
        pass
    told = {}
    for target, reason in ((old, "has moved"), (new, "is on its way")):
        with pytest.raises(ConfigurationError, match=f"the lake {reason} from ") as error:
            moving.tables(target)
        told[target] = str(error.value)
    done = json.loads(moving.command(old, "migrate-catalog", "--to", new, "--json"))["tables"]
    assert {*done} == {*before, "gold.titles"}
    assert done["gold.titles"] == "view created"
    said = [each.partition(",")[0] for name, each in done.items() if name != "gold.titles"]
    assert {*said} == {"registered", "is there already"}
    assert moving.tables(new) == before
    # Nothing was written but the view.
    assert moving.files() == files
    # Broken off at the last step.
    there = migrate_catalog._opened(spark, find(moving.options(new)).settings)
    close(there, told[new])
    assert moving.command(old, "migrate-catalog", "--to", new).startswith("0 tables moved. next: ")
    assert moving.tables(new) == before
    for command in (("show",), ("migrate-catalog", "--to", new)):
        with pytest.raises(ConfigurationError, match="the lake has moved from "):
            moving.command(old, *command)
    with pytest.raises(DbtError, match="the lake has moved from "):
        moving.dbt(old, "run")
    # And who doesn't ask finds no table.
    assert migrate_catalog._Catalog(lake_catalog(spark), "").names() == []
    return before


def refuse(moving: Moving, spark: SparkSession, old: str, new: str) -> None:
    """What keeps a lake from moving, and changes nothing."""
    with pytest.raises(ConfigurationError, match="is the catalog that the lake is in"):
        moving.command(old, "migrate-catalog", "--to", old)
    with (
        at_work(spark, "stream-1"),
        pytest.raises(LockedError, match=r"`lakehouse stream` .* stop it first"),
    ):
        moving.command(old, "migrate-catalog", "--to", new)
    here = lake_catalog(spark)
    there = migrate_catalog._opened(spark, find(moving.options(new)).settings)
    names = migrate_catalog._Catalog(here, "").tables()
    gold, bronze = names["gold.shops"], names["bronze.raw_payloads"]
    for name in (gold, bronze):
        there.createNamespace(name.namespace(), {})
    # As whoever has opened it has made it. It is replaced.
    there.buildTable(bronze, here.loadTable(bronze).schema()).create()
    changes = here.loadTable(names["silver.shops_changes"]).operations().current()
    there.registerTable(gold, changes.metadataFileLocation())
    with pytest.raises(ConfigurationError, match=r"has another table gold\.shops"):
        moving.command(old, "migrate-catalog", "--to", new)
    there.dropTable(gold, False)
    assert moving.tables(old)


@contextmanager
def at_work(spark: SparkSession, name: str) -> Iterator[None]:
    """Another process has a lock of the lake."""
    other = leases.Lease("1", "lakehouse stream", "elsewhere", 7, "now", until=4e9)
    file = sqlite_file(spark.conf.get(CATALOG_URI) or "")
    if file is None:
        assert leases.current(spark) == {}
        assert leases._State(spark).replace({name: other})
        yield
        assert leases._State(spark).replace({})
        return
    with (file.parent / "locks" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        json.dump(other._asdict(), lock)
        lock.flush()
        yield


def interrupted(function: Callable[..., Table], at: int) -> Callable[..., Table]:
    """The function, whose user loses patience at a call."""
    calls = iter(range(1, at))

    def called(*arguments: object) -> Table:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return function(*arguments)

    return called


class Unwilling(BaseHTTPRequestHandler):
    """A server that is no catalog for us."""

    def do_GET(self) -> None:
        known = self.headers["Authorization"] == "Bearer good"
        self.send_response(200 if known else 401)
        self.end_headers()
        reason = json.dumps({"error": {"message": "Not authorized: who are you?"}})
        self.wfile.write(b"<html>" if known else reason.encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_server_that_gives_no_answer_is_told_without_spark() -> None:
    with HTTPServer((LOOPBACK, 0), Unwilling) as server:
        address = f"http://{LOOPBACK}:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(ReadError, match=r"refuses: Not authorized: who are you\? \(401\)"):
            Server({"uri": address, "token": "bad"})
        with pytest.raises(ReadError, match="is not a REST catalog: its answer to"):
            Server({"uri": address, "token": "good"})
        with pytest.raises(ConfigurationError, match=r"and not with rest\.auth\.type sigv4"):
            Server({"uri": address, "rest.auth.type": "sigv4"})
        server.shutdown()
    with pytest.raises(ReadError, match=f"{address} can't be read: .*refused"):
        Server({"uri": address})
