"""`lakehouse serve`: what its clients see, and what they can't do."""

import gc
import hashlib
import os
import re
import shlex
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import grpc
import pyspark
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JJavaError
from pyhive import hive
from pyhive.exc import DatabaseError
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as f
from pyspark.sql.connect.proto import AnalyzePlanRequest, ExecutePlanRequest
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.connect.window import Window
from support.commands import Command, lakehouse, wait_until
from support.lakes import Lake
from support.serve_statements import (
    ANSWERED,
    CLASS_IN_A_SCHEMA,
    DOCUMENTS,
    OPTION_TAKERS,
    REACHING,
    REACHING_IN_VAIN,
    REFUSED,
)
from support.spark_connect_attacks import RANGE, attacks, execution, messages
from TCLIService import ttypes
from thrift.Thrift import TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TSSLSocket import TSSLSocket
from thrift_sasl import TSaslClientTransport

from dbt_lakehouse.cli import lakehouse as command_line
from dbt_lakehouse.commands.serve.access import (
    CONNECT_TOKEN,
    KEYSTORE_PASSWORD,
    Access,
    password_line,
)
from dbt_lakehouse.commands.serve.door import serve
from dbt_lakehouse.commands.serve.functions import (
    FUNCTIONS,
    FUNCTIONS_REFUSED,
    OPTIONS,
    OPTIONS_REFUSED,
)
from dbt_lakehouse.commands.serve.rules import PLANS, PLANS_ANALYZED, SETTINGS
from dbt_lakehouse.commands.serve.server import _java_set, _made
from dbt_lakehouse.config.paths import LOOPBACK, ROOT
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import CATALOG, CATALOG_URI, entries, read_only
from dbt_lakehouse.lake.iceberg import catalog_of
from dbt_lakehouse.session.project import Project
from dbt_lakehouse.spark.jvm import java_class

USER: Final = "ana"
PASSWORD: Final = "correct: hörse"
SECRET: Final = "opensesame"
TOKEN: Final = "sesame-open"
# It is counted for longer than anybody waits.
ENDLESS: Final = "select count(*) from range(100000000000000) a cross join range(100000) b"
PAGE: Final = ROOT / "docs" / "query.md"
JARS: Final = Path(pyspark.__file__).parent / "jars"


class Server:
    """A running server, and its clients."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command: Final = command
        self._folder: Final = folder
        address = command.said.partition("jdbc:hive2://0.0.0.0:")[2]
        self.port: Final = int(address.partition("/")[0])
        address = command.said.partition("sc://localhost:")[2]
        self.connect_port: Final = int(address.partition("/")[0])

    @property
    def jdbc(self) -> str:
        """The address for Java's clients."""
        trust = f"ssl=true;sslTrustStore={self._folder / 'trusted'};trustStorePassword={SECRET}"
        return f"jdbc:hive2://{LOOPBACK}:{self.port}/;{trust}"

    def connect(self, user: str = USER, password: str = PASSWORD, **options: Any) -> Any:
        """A connection of PyHive's over TLS."""
        context = ssl.create_default_context(cafile=str(self._folder / "certificate.pem"))
        connected = TSSLSocket(LOOPBACK, self.port, ssl_context=context)
        return self.connect_by(connected, user, password, **options)

    def remote(self, token: str = TOKEN) -> RemoteSession:
        """A session of PySpark's over Spark Connect."""
        address = f"sc://localhost:{self.connect_port}/;token={token}"
        session: RemoteSession = RemoteSession.builder.remote(address).create()
        return session

    def connect_by(self, connected: TSocket, user: str, password: str, **options: Any) -> Any:
        """The same by any socket."""

        def login() -> Any:
            return hive.get_installed_sasl(LOOPBACK, "PLAIN", username=user, password=password)

        connected.setTimeout(60_000)
        transport = TSaslClientTransport(login, "PLAIN", connected)
        return hive.connect(thrift_transport=transport, **options)

    def seconds_at_work(self) -> float:
        """Of the processor, within the next second."""
        before = self._seconds()
        time.sleep(1)
        return self._seconds() - before

    def _seconds(self) -> float:
        ticks = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # From the third on: what comes before may have blanks.
                fields = file.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self.command.process.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def ask(self, *statements: str, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements of one connection."""
        with closing(self.connect(**options)) as connection:
            return rows(connection, *statements)

    def refusal(self, *statements: str, **options: Any) -> str:
        """What the last of some statements is answered."""
        with pytest.raises(DatabaseError) as refused:
            self.ask(*statements, **options)
        return str(refused.value.args[0].status.errorMessage)


def rows(connection: Any, *statements: str) -> list[tuple[Any, ...]]:
    with closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
        answer: list[tuple[Any, ...]] = cursor.fetchall()
        return answer


def page_lines(program: str) -> list[str]:
    """The lines of docs/query.md that begin so."""
    lines = re.findall(rf"^    ({re.escape(program)}.*)$", PAGE.read_text(), re.M)
    assert lines, program
    return [line.replace("dns:lake.example.org", f"ip:{LOOPBACK}") for line in lines]


def shell(line: str, folder: Path, said: str, code: int = 0) -> str:
    """Run a line of the page for somebody who says this to its questions; its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(
        line,
        shell=True,
        capture_output=True,
        cwd=folder,
        env=environment,
        input=said.encode(),
        timeout=120,
    )
    assert done.returncode == code, done.stderr.decode()
    return (done.stdout + done.stderr).decode()


def two_catalogs(folder: Path) -> str:
    """A folder with the profile of the demo, and in it a catalog beside the lake's."""
    profile = (ROOT / "profiles" / "profiles.yml").read_text()
    other = f"""
        spark.sql.catalog.other: org.apache.iceberg.spark.SparkCatalog
        spark.sql.catalog.other.type: hadoop
        spark.sql.catalog.other.warehouse: "{folder / "other"}"
"""
    line = "        spark.sql.defaultCatalog: lake\n"
    assert line in profile
    (folder / "profiles.yml").write_text(profile.replace(line, line + other.lstrip("\n")))
    return str(folder)


@pytest.fixture(scope="module")
def server(demo: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server as docs/query.md starts one for other machines."""
    folder = tmp_path_factory.mktemp("serve")
    (folder / "users").write_text(f"{password_line('bo', 'other')}\n\n")
    (password,) = page_lines("lakehouse password")
    shell(password, folder, f"{PASSWORD}\n" * 2)
    for line in page_lines("keytool"):
        shell(line, folder, f"{SECRET}\n" * 2)
    # Python's clients read another form of it.
    shell("keytool -printcert -rfc -file certificate > certificate.pem", folder, "")
    (serve,) = page_lines(f"{KEYSTORE_PASSWORD}=... lakehouse serve")
    _, _, *options = shlex.split(serve)
    with ExitStack() as running:
        environment = running.enter_context(pytest.MonkeyPatch.context())
        environment.setenv(KEYSTORE_PASSWORD, SECRET)
        # So little is filled soon.
        environment.setenv("LAKEHOUSE_DRIVER_MEMORY", "1g")
        environment.setenv(CONNECT_TOKEN, TOKEN)
        options = [str(folder / each) if (folder / each).exists() else each for each in options]
        options += ["--port", "0", "--connect", "0", "--profiles-dir", two_catalogs(folder)]
        command = running.enter_context(lakehouse(demo, *options))
        command.wait_for("serving at jdbc:hive2://0.0.0.0:")
        command.wait_for("ssl=true")
        command.wait_for("token=...")
        yield Server(command, folder)


def test_queries_in_spark_sql(server: Server, demo: Lake) -> None:
    assert server.ask("select r_name from regions where r_regionkey = 1") == [("AMERICA",)]
    counts = " union all ".join(
        f"select '{each}' as name, count(*) as n from {each}"
        for each in demo.tables()
        if "gold" in each
    )
    counted = {row["name"]: row["n"] for row in demo.sql(counts)}
    assert dict(server.ask(counts)) == counted
    # What they choose is their own.
    with closing(server.connect()) as first, closing(server.connect(database="silver")) as second:
        assert rows(first, "set time zone '+02:00'", "select current_timezone()") == [("+02:00",)]
        assert rows(second, "select current_timezone()") == [("UTC",)]
        assert rows(second, "select count(*) > 0 from orders_changes") == [(True,)]
        assert rows(first, "select count(*) from orders") == [(36,)]
    decoded = "decode_payload('debezium_json', null, cast('x' as binary))"
    assert server.ask(f"select {decoded}[0].error_code") == [("not_json",)]
    # Each log's own decoder gives what the log has.
    events = "lateral view inline(decode_orders_changes('debezium_json', key, value)) event"
    decoded = f"from bronze.raw_payloads {events} where topic = 'debezium.sales.orders'"
    logged = "select order_id, amount, _operation, _changed_columns from silver.orders_changes"
    columns = "change.order_id, change.amount, operation, change._changed_columns"
    for sides in ((f"select {columns} {decoded}", logged), (logged, f"select {columns} {decoded}")):
        assert server.ask(" except all ".join(sides)) == []
    assert server.ask(f"select count(*) > 40 {decoded}") == [(True,)]
    assert server.ask("show views in gold") == []
    for statement in (
        "with some as (from gold.orders |> limit 3) select count(*) from some where order_id in"
        " (select order_id from silver.orders_changes)",
        "select order_id from orders intersect all select order_id from orders",
        "show tables in gold",
        "describe gold.orders",
        "explain select * from gold.orders",
        "select * from gold.orders.snapshots",
        "select * from gold.orders timestamp as of now()",
    ):
        assert server.ask(statement), statement


def test_nothing_can_be_written(server: Server, demo: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "written"
    storage = demo.folder / "lake"
    before = state(demo)
    with closing(server.connect()) as connection:
        for statement in REFUSED:
            statement = statement.format(folder=folder, warehouse=storage / "warehouse")
            with pytest.raises(DatabaseError) as refused:
                rows(connection, statement)
            answer = str(refused.value.args[0].status.errorMessage)
            # By us, and not for want of a table.
            assert "here, " in answer or "and not " in answer or "routine" in answer, statement
        assert (
            rows(connection, "select '${{env:HOME}} ${{spark.sql.catalog.lake.uri}}'")[0][0][0]
            == "$"
        )
        with pytest.raises(DatabaseError):
            rows(connection, CLASS_IN_A_SCHEMA)
    assert state(demo) == before
    assert not folder.exists()


_ANALYSED_IN_VAIN: Final = (
    "select transform(1) using 'cat' as (x string)",
    "select identifier('count')(1) filter (where (select max(x) from (select transform(1) using"
    " 'cat' as (x string))) is null)",
    "drop table gold.regions",
    "insert into gold.regions select * from gold.regions",
    "create table gold.x as select 1 as id",
    "insert overwrite directory '/tmp/x' using csv select 1",
    "add jar '/tmp/x.jar'",
    "reset",
)


def test_what_is_analysed_is_looked_at_once_more(server: Server, demo: Lake) -> None:
    """Whatever the parser has let pass: here it is Spark's own."""
    session = demo.spark._jsparkSession.newSession()
    parse, analyse = session.sessionState().sqlParser(), session.sessionState().analyzer()
    lake = session.sessionState().catalogManager().catalog(CATALOG)
    check = _made("Analyzed", _java_set(PLANS_ANALYZED), lake).apply(session)
    for statement, refusal in {
        **dict.fromkeys(_ANALYSED_IN_VAIN, "only queries are answered here, and this is "),
        "select * from text.`/etc/passwd`": "LogicalRelation",
        "create global temporary view x as select 1": "makes a view",
    }.items():
        for query in (statement, f"select 1 where exists ({statement})"):
            if query == statement or statement.startswith("select"):
                plan = analyse.execute(parse.parsePlan(query))
                with pytest.raises((Py4JJavaError, PySparkException), match=refusal):
                    check.apply(plan)
    metadata = max(
        (demo.folder / "lake" / "warehouse" / "gold" / "regions").rglob("*.metadata.json")
    )
    files = session.read().format("iceberg").load(str(metadata)).queryExecution().analyzed()
    with pytest.raises((Py4JJavaError, PySparkException), match="of the lake alone"):
        check.apply(files)
    check.apply(analyse.execute(parse.parsePlan("select count(*) from gold.regions")))
    # The server has it.
    with closing_session(server.remote()) as spark:
        regions = spark.table("gold.regions")
        within: Any = regions.dropDuplicatesWithinWatermark(["r_name"])
        for asking in (within.collect, lambda: within.schema):
            assert "looked at once more" in answer(asking)


def test_what_can_not_be_looked_into_is_refused(demo: Lake) -> None:
    parse = demo.spark._jsparkSession.newSession().sessionState().sqlParser()
    # As if a plan with a function in it were let pass by its name.
    plans = _java_set((*PLANS, "PlanWithUnresolvedIdentifier"))
    lake = catalog_of(demo.spark)
    rule = _made("ReadOnly", plans, _java_set(SETTINGS), None, CATALOG, lake, "gold")
    rule.check(parse.parsePlan("select identifier('count')(1) from gold.regions"))
    with pytest.raises((Py4JJavaError, PySparkException), match="it can't be looked into"):
        rule.check(parse.parsePlan("select * from identifier('regions')"))
    # An expression that Spark makes of a name, and that nothing else has.
    name = parse.parseExpression("'x'")
    late = java_class("org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier")
    for text, refusal in {
        "(select max(x) from (select transform(1) using 'cat' as (x string)))": "ScriptTransform",
        "exists(select * from spark_catalog.gold.regions)": "not spark_catalog",
        "upper('a')": None,
    }.items():
        # A map of Scala's is a function.
        builder = scala_object("scala.collection.immutable.Map").empty()
        builder = builder.withDefaultValue(parse.parseExpression(text))
        made = late(name, builder)
        assert "transform" not in str(made.otherExprs())
        with (
            pytest.raises((Py4JJavaError, PySparkException), match=refusal)
            if refusal
            else nullcontext()
        ):
            rule.check(made)


class Listener(BaseHTTPRequestHandler):
    """Answers whoever asks for anything, and remembers what."""

    asked: Final[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<a/>")

    do_HEAD = do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def listening() -> Iterator[str]:
    """The address of a listener."""
    with ThreadingHTTPServer((LOOPBACK, 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        Listener.asked.clear()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/x"
        finally:
            server.shutdown()
            thread.join()


def answer(asking: Callable[[], Any]) -> str:
    """What a statement is answered, by any of the protocols: its rows, or the error."""
    try:
        return f"rows: {asking()}"
    except DatabaseError as refused:
        return str(refused.args[0].status.errorMessage)
    except (PySparkException, grpc.RpcError) as refused:
        return str(refused)


def answers(connection: Any, spark: RemoteSession, statement: str) -> list[str]:
    """What both protocols answer."""
    return [
        answer(partial(rows, connection, statement)),
        answer(lambda: spark.sql(statement).collect()),
    ]


def test_no_statement_reaches_a_file_or_an_address(server: Server, tmp_path: Path) -> None:
    there, absent = tmp_path / "there.xml", tmp_path / "absent.xml"
    there.write_text("<sesame>1</sesame>")
    documents = [(each, False) for each in (*REACHING_IN_VAIN, *DOCUMENTS)]
    with (
        listening() as address,
        closing(server.connect()) as connection,
        closing_session(server.remote()) as spark,
    ):
        places = (address, str(there), str(absent))
        for statement, is_ours in [*((each, True) for each in REACHING), *documents]:
            told = set()
            for place in places:
                asked = statement.format(place=place)
                for said in answers(connection, spark, asked):
                    assert not Listener.asked, asked
                    assert "sesame" not in said, asked
                    if is_ours:
                        assert "here, " in said or "and not " in said, (asked, said)
                        told.add(said.replace(place, "").partition("(")[0])
            # Nor which files there are.
            if is_ours:
                assert len(told) <= 2, told


def test_every_function_of_spark_is_listed(server: Server, demo: Lake) -> None:
    assert demo.spark
    analysis = "org.apache.spark.sql.catalyst.analysis"
    registries = (
        scala_object(f"{analysis}.FunctionRegistry").builtin(),
        scala_object(f"{analysis}.FunctionRegistry").internal(),
        scala_object(f"{analysis}.TableFunctionRegistry").builtin(),
    )
    known = {name for each in registries for name in names(each.listFunction())}
    assert FUNCTIONS.isdisjoint(FUNCTIONS_REFUSED)
    assert known == FUNCTIONS | FUNCTIONS_REFUSED.keys()
    catalyst = "org.apache.spark.sql.catalyst"
    formats = ("json.JSONOptions", "csv.CSVOptions", "xml.XmlOptions")
    options = {
        name
        for each in formats
        for name in names(scala_object(f"{catalyst}.{each}").getAllOptions())
    }
    assert OPTIONS.isdisjoint(OPTIONS_REFUSED)
    assert options == OPTIONS | OPTIONS_REFUSED.keys()


def scala_object(name: str) -> Any:
    return getattr(java_class(f"{name}$"), "MODULE$")


def names(found: Any) -> set[str]:
    """The texts of a collection of Scala's."""
    return set(found.mkString("\n").split("\n"))


def test_functions_and_options_that_are_not_listed_are_refused(server: Server) -> None:
    with closing(server.connect()) as connection, closing_session(server.remote()) as spark:
        for name, reason in FUNCTIONS_REFUSED.items():
            refusal = f"are called here, and not {name}: {reason}"
            query = f"select * from {name}('x')" if "logs" in name else f"select {name}('x')"
            said = answer(partial(rows, connection, query))
            # Of Spark's internal ones, SQL has none.
            assert refusal in said or f"Cannot resolve routine `{name}`" in said, said
            function = {"function_name": name, "arguments": [{"literal": {"string": "x"}}]}
            columns = [{"unresolved_function": function}]
            call: dict[str, Any] = {"project": {"input": RANGE, "expressions": columns}}
            if "logs" in name:
                call = {"unresolved_table_valued_function": function}
            assert refusal in answer(partial(asked, spark, execution(root=call))), name
        options = [(OPTION_TAKERS[0], each) for each in OPTIONS_REFUSED]
        for taker, option in [
            *options,
            *((each, "rowValidationXSDPath") for each in OPTION_TAKERS),
        ]:
            query = "select " + taker.format(options=f"map('{option.upper()}', 'x')")
            for said in answers(connection, spark, query):
                assert f"are taken here, and not {option.lower()} of " in said, query


# In CI, test_every_function_of_spark_is_listed has their functions, and others ask like them.
@pytest.mark.long
def test_what_analysts_ask(server: Server) -> None:
    with closing(server.connect()) as connection, closing_session(server.remote()) as spark:
        for query, expected in ANSWERED.items():
            assert rows(connection, query)[0][0] == expected, query
            assert spark.sql(query).collect()[0][0] == expected, query


def test_other_catalogs_of_the_profile_are_the_servers_own(server: Server) -> None:
    with closing(server.connect()) as connection, closing_session(server.remote()) as spark:
        for query in (
            "use other",
            "select other.system.iceberg_version()",
            "show namespaces in other",
            "select * from other.a.b",
        ):
            for said in answers(connection, spark, query):
                assert "`other`" in said and "rows: " not in said, (query, said)


def state(lake: Lake) -> tuple[Any, ...]:
    """What the catalog and the storage of a lake hold."""
    settings = lake.load().parameters
    files = sorted(str(each) for each in (lake.folder / "lake" / "warehouse").rglob("*"))
    return entries(settings), files


def test_a_connection_brings_no_settings(server: Server) -> None:
    for name in (
        "spark.sql.catalog.lake.uri",
        "set:spark.sql.catalog.lake.uri",
        "set:hiveconf:spark.sql.runSQLOnFiles",
        "set:hivevar:spark.sql.runSQLOnFiles",
        # Of Java itself.
        "set:system:user.dir",
        "set:env:HOME",
        "set:metaconf:x",
    ):
        assert "settings can't be changed here" in server.refusal(
            "select 1", configuration={name: "x"}
        )
    zone = {"set:hiveconf:spark.sql.session.timeZone": "+05:00", "hive.server2.proxy.user": "root"}
    with closing(server.connect(configuration=zone)) as connection:
        # Nor does a statement.
        statement = ttypes.TExecuteStatementReq(
            sessionHandle=connection.sessionHandle,
            statement="select 1",
            confOverlay={"spark.sql.session.timeZone": "+09:00"},
        )
        connection.client.ExecuteStatement(statement)
        assert rows(connection, "select current_timezone()") == [("+05:00",)]


def test_the_catalog_itself_refuses_to_be_written(demo: Lake, tmp_path: Path) -> None:
    assert demo.spark
    connect = java_class("java.sql.DriverManager").getConnection
    for address, refuses in (
        (demo.load().parameters[CATALOG_URI], False),
        (read_only(demo.load().parameters)[CATALOG_URI], True),
    ):
        connection = connect(address)
        change = "update iceberg_tables set table_name = table_name where false"
        with pytest.raises(Py4JJavaError, match="READONLY") if refuses else nullcontext():
            connection.createStatement().execute(change)
        connection.close()
    with pytest.raises(ConfigurationError, match=r"there is no lake yet, because .* is missing"):
        read_only({CATALOG_URI: f"jdbc:sqlite:{tmp_path}/catalog.db"})


def test_only_the_right_password_over_tls(server: Server) -> None:
    for user, password in ((USER, "wrong"), ("bo", PASSWORD), ("nobody", "x"), ("", PASSWORD)):
        with pytest.raises(TException, match="Error validating the login"):
            server.connect(user, password)
    assert server.ask("select 1", user="bo", password="other") == [(1,)]
    with pytest.raises((TException, OSError)):
        server.connect_by(TSocket(LOOPBACK, server.port), USER, PASSWORD)


# PySpark's own call of pandas.
@pytest.mark.filterwarnings("ignore:The copy keyword is deprecated")
def test_spark_connect_reads(
    server: Server, demo: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing_session(server.remote()) as spark:
        orders = spark.table("orders")
        by_status = orders.filter("status <> 'new'").groupBy("status").agg(f.sum("amount"))
        expected = demo.sql("select status, sum(amount) from gold.orders group by 1 order by 1")
        assert [row.asDict() for row in by_status.sort("status").collect()] == [
            row for row in expected if row["status"] != "new"
        ]
        newest = f.row_number().over(Window.partitionBy("status").orderBy(f.desc("order_id")))
        per_status = orders.withColumn("n", newest).filter(f.col("n") == 1)
        # The rows of `show tables` are what the client sends back.
        assert per_status.count() == spark.sql("from orders |> select distinct status").count()
        assert spark.sql("show tables in gold").count() == sum(
            name.startswith("gold.") for name in demo.tables()
        )
        regions = spark.sql(
            "select * from {x} where r_regionkey = :key", {"key": 1}, x=spark.table("regions")
        )
        regions.select("r_name").show()
        regions.explain()
        said = capsys.readouterr().out
        assert "|AMERICA|" in said and "== Physical Plan ==" in said
        frame: Any = regions.toPandas()
        assert frame["r_name"].tolist() == ["AMERICA"]
        assert regions.toArrow()["r_name"].to_pylist() == ["AMERICA"]
        assert spark.table("silver.orders_changes").schema["_operation"].dataType.simpleString()
        described = next(each for each in spark.catalog.listTables() if each.name == "orders")
        assert str(described.description).startswith("One row per customer order that exists now.")
        assert spark.catalog.listColumns("orders")[0].description == "Number of the order."
        assert spark.catalog.currentDatabase() == "gold"
        decoded = f.call_function("decode_payload", *map(f.lit, ("debezium_json", None, b"x")))
        assert orders.select(decoded[0].error_code).limit(1).collect() == [("not_json",)]
        # What a client chooses is his own.
        spark.conf.set("spark.sql.session.timeZone", "+02:00")
        assert spark.sql("select current_timezone()").collect() == [("+02:00",)]
    with closing_session(server.remote()) as spark:
        assert spark.sql("select current_timezone()").collect() == [("UTC",)]


def test_spark_connect_only_reads(server: Server, demo: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "written"
    before = state(demo)
    with closing_session(server.remote()) as spark:
        statements: dict[str, Callable[[], Any]] = {
            each: partial(spark.sql, each.format(folder=folder, warehouse=folder))
            for each in REFUSED
        }
        for name, attack in {**statements, **attacks(spark, folder)}.items():
            with pytest.raises((PySparkException, grpc.RpcError)) as refused:
                attack()
            answer = str(refused.value)
            # By us, and not for want of a table.
            assert "here, " in answer or "and not " in answer or "routine" in answer, name
        for name, request in messages().items():
            with pytest.raises(grpc.RpcError) as refused:
                asked(spark, request)
            assert "only queries are answered here, " in str(refused.value.details()), name
        assert len(asked(spark, execution(root=RANGE))) > 1
    assert state(demo) == before
    assert not folder.exists()


@contextmanager
def closing_session(spark: RemoteSession) -> Iterator[RemoteSession]:
    # PySpark's client closes sessions that nobody has any more when the garbage collector finds
    # them. In a thread of gRPC's that is just beginning, it waits for ever.
    gc.collect()
    try:
        yield spark
    finally:
        spark.stop()


def asked(spark: RemoteSession, request: ExecutePlanRequest | AnalyzePlanRequest) -> list[Any]:
    """What a session's server answers to a message."""
    request.session_id = spark.session_id
    request.user_context.user_id = spark.client._user_id or ""
    stub = spark.client._stub
    if isinstance(request, AnalyzePlanRequest):
        return [stub.AnalyzePlan(request)]
    return [*stub.ExecutePlan(request)]


def test_spark_connect_wants_its_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = server.remote("wrong")
    with pytest.raises(PySparkException, match="Invalid authentication token"):
        stranger.range(1).count()
    # Else PySpark's client asks once more when this process ends, and waits for the server.
    stranger.client.close()
    monkeypatch.delenv(CONNECT_TOKEN)
    address = f"sc://localhost:{server.connect_port}"
    stranger = RemoteSession.builder.remote(address).create()
    with pytest.raises(PySparkException, match="No authentication token"):
        stranger.range(1).count()
    stranger.client.close()
    # Nobody else can come, whatever --host is.
    connections = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    assert re.findall(rf" (\w+):{server.connect_port:04X} 0+:0000 0A", connections) in (
        ["0100007F"],
        ["0000000000000000FFFF00000100007F"],
    )
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            assert TOKEN not in file.read_bytes().decode(errors="replace")


def test_bi_tools_find_tables_and_columns(server: Server, demo: Lake) -> None:
    gold = sorted(name.partition(".")[2] for name in demo.tables() if name.startswith("gold."))
    with closing(server.connect()) as connection:
        every = listed(connection, "Tables")
        assert [(row[1], row[2], row[3]) for row in every] == [
            ("gold", each, "TABLE") for each in gold
        ]
        orders = next(row for row in every if row[2] == "orders")
        assert orders[4].startswith("One row per customer order that exists now.")
        columns = listed(connection, "Columns", schemaName="gold", tableName="orders")
        assert [(row[3], row[5], row[11]) for row in columns[:2]] == [
            ("order_id", "BIGINT", "Number of the order."),
            ("customer_id", "INT", columns[1][11]),
        ]
        names = [row["col_name"] for row in demo.sql("describe gold.orders")]
        assert [row[3] for row in columns] == names
        assert "gold" in [row[0] for row in listed(connection, "Schemas")]
        # Tables that come, change and go.
        for change, columns in (
            ("create table gold.new (id int comment 'first')", [("id", "first")]),
            ("alter table gold.new add column other int", [("id", "first"), ("other", "")]),
            ("drop table gold.new", []),
        ):
            demo.sql(change)
            wait_until(partial(is_described, connection, "new", columns), change)


def is_described(connection: Any, table: str, columns: list[tuple[str, str]]) -> bool:
    found = listed(connection, "Columns", schemaName="gold", tableName=table)
    return [(row[3], row[11]) for row in found] == columns


def listed(connection: Any, what: str, **of: str) -> list[tuple[Any, ...]]:
    """The rows of a call that BI tools make."""
    request = getattr(ttypes, f"TGet{what}Req")(sessionHandle=connection.sessionHandle, **of)
    answer = getattr(connection.client, f"Get{what}")(request)
    assert answer.status.statusCode == ttypes.TStatusCode.SUCCESS_STATUS, answer.status
    with closing(connection.cursor()) as cursor:
        cursor._operationHandle = answer.operationHandle
        cursor._state = cursor._STATE_RUNNING
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found


def test_a_walk_by_jdbc(server: Server) -> None:
    # One of Java's own, for what Python's client does not do; `walk.txt` is what it should print.
    walk = Path(__file__).parent / "jdbc"
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", str(JARS / "*"), str(walk / "Walk.java")]
    done = subprocess.run(
        [*java, server.jdbc, "bo", "other"], capture_output=True, text=True, timeout=240
    )
    assert done.stdout.splitlines() == (walk / "walk.txt").read_text().splitlines(), done.stderr


# In CI, the test before it goes by the same driver of Java's.
@pytest.mark.long
def test_beeline(server: Server, tmp_path: Path) -> None:
    (jars,) = page_lines("jars=")
    (beeline,) = page_lines("java")
    beeline = beeline.replace("jdbc:hive2://127.0.0.1:10000/ -n ana", f"'{server.jdbc}' -n bo")
    (tmp_path / "said").write_text(
        "!outputformat csv2\n!primarykeys orders\n"
        "select r_regionkey, r_name from regions order by 1 limit 2;\ndelete from regions;\n"
    )
    said = shell(f"{jars}\n{beeline} -p other --silent=true -f said", tmp_path, "", code=2)
    assert said.split("\n") == [
        *("", "", "TABLE_CAT,TABLE_SCHEM,TABLE_NAME,COLUMN_NAME,KEY_SEQ,PK_NAME"),
        *("", "r_regionkey,r_name", "0,AFRICA", "1,AMERICA", ""),
        "Error: only queries are answered here, and this is DeleteFromTable: the lake's tables are"
        " written by `dbt run` (state=,code=0)",
        "",
    ]


def test_fifty_clients(server: Server) -> None:
    with ExitStack() as connected:
        many = [connected.enter_context(closing(server.connect())) for _ in range(50)]
        assert [rows(each, f"select {number}") for number, each in enumerate(many)] == [
            [(number,)] for number in range(50)
        ]


def test_queries_end_with_their_clients(server: Server) -> None:
    # Waited for by different calls: rows are computed when they are asked for, aggregates before.
    scan = "select id from range(100000000000000) where id < 0"
    asked = [
        (server.connect(), *each) for each in ((ENDLESS, True), (ENDLESS, False), (scan, False))
    ]
    asking = [threading.Thread(target=ask_in_vain, args=each) for each in asked]
    remote, _call = endless(server)
    wait_until(lambda: server.seconds_at_work() > 0.5, "the query of Spark Connect is at work")
    remote.client._channel.close()
    for each in asking:
        each.start()
    wait_until(lambda: server.seconds_at_work() > 0.5, "the queries are at work")
    for thread, (connection, *_) in zip(asking, asked, strict=True):
        # As if its machine was switched off, but for the end of the connection.
        handle = connection._transport._trans.handle
        handle.shutdown(socket.SHUT_RDWR)
        thread.join()
        handle.close()
    wait_until(lambda: server.seconds_at_work() < 0.3, "no query is at work", seconds=60)


def endless(server: Server) -> tuple[RemoteSession, Any]:
    """A session, and its query, which goes on as long as that is kept, and could be attached to
    again.
    """
    spark = server.remote()
    request = execution(root={"sql": {"query": ENDLESS}})
    request.session_id = spark.session_id
    request.operation_id = str(uuid4())
    request.request_options.add().reattach_options.reattachable = True
    return spark, spark.client._stub.ExecutePlan(request)


def ask_in_vain(connection: Any, query: str, runs_async: bool) -> None:
    cursor = connection.cursor()
    with suppress(TException, OSError):
        cursor.execute(query, async_=runs_async)
        if not runs_async:
            cursor.fetchall()


def test_rows_that_would_fill_the_memory_are_refused(server: Server) -> None:
    many = "select x, id from (select randstr(100000, 1) as x) cross join range(100000000)"
    for _ in range(2):
        assert "the rows need more memory than the server has" in server.refusal(many)
    with (
        closing_session(server.remote()) as spark,
        pytest.raises(PySparkException, match="the rows need more memory than the server has"),
    ):
        spark.sql(many).collect()
    # The refused query's tasks keep their rows until they end, and with them the memory.
    wait_until(lambda: server.seconds_at_work() < 0.3, "no query is at work", seconds=60)
    # A value that is larger than the memory: Spark ends its process then, unless it is told not to.
    assert "Java heap space" in server.refusal(
        "select size(sequence(id, id + 1000000000)) from range(1)"
    )
    assert server.ask("select count(*) from orders") == [(36,)]


def test_many_rows(server: Server) -> None:
    # In parts: the heap of the tests would not hold them in all.
    with closing(server.connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("select id from range(1000000)")
        assert [cursor.fetchone()[0] for _ in range(3)] == [0, 1, 2]


def test_it_stops_cleanly(server: Server) -> None:
    connection = server.connect()
    connection.cursor().execute("select count(*) from range(100000000000000)", async_=True)
    remote, _call = endless(server)
    server.command.process.send_signal(signal.SIGTERM)
    said = server.command.end()
    connection._transport.close()
    remote.client._channel.close()
    assert said.endswith("stopped\n")
    assert "Exception" not in said
    assert TOKEN not in said


def test_a_line_of_the_file_of_users() -> None:
    made = CliRunner().invoke(command_line, ["password", USER], input=f"{PASSWORD}\n{PASSWORD}\n")
    name, rounds, salt, digest = made.stdout.strip().split(":")
    assert (name, made.exit_code) == (USER, 0)
    expected = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b64decode(salt), int(rounds))
    assert b64decode(digest) == expected
    for user, password in (("a:b", "x"), ("", "x"), (" ", "x"), (USER, "")):
        with pytest.raises(ConfigurationError, match="can't be"):
            password_line(user, password)


@pytest.mark.parametrize(
    ("access", "said"),
    [
        (
            Access("0.0.0.0", 0),
            "0.0.0.0 can be reached .* needs --users FILE .* and --keystore FILE",
        ),
        (Access("::", 0), ":: can be reached from other machines"),
        (Access("0.0.0.0", 0, users=Path("{users}")), "reached .* needs --keystore FILE"),
        (Access("0.0.0.0", 0, keystore=Path("{users}")), "reached .* needs --users FILE"),
        (Access(LOOPBACK, 0, users=Path("{users}"), connect=0), f"{CONNECT_TOKEN} is not set"),
        (Access("no.such.host.invalid", 0), "--host no.such.host.invalid: "),
        (Access(LOOPBACK, 0, users=Path("missing")), "--users: missing can't be read"),
        (Access(LOOPBACK, 0, users=Path("{bad}")), "line 2 is not a user: `lakehouse password"),
        (Access(LOOPBACK, 0, users=Path("{empty}")), "has no users"),
    ],
)
def test_what_can_not_work_is_told_at_once(
    access: Access, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEYSTORE_PASSWORD, SECRET)
    monkeypatch.delenv(CONNECT_TOKEN, raising=False)
    line = password_line(USER, PASSWORD)
    contents = {"users": line, "bad": f"{line}\nana:secret", "empty": "\n"}
    paths = {name: tmp_path / name for name in contents}
    for name, text in contents.items():
        paths[name].write_text(text)
    users, keystore = (
        each and Path(str(each).format(**paths)) for each in (access.users, access.keystore)
    )
    with pytest.raises(ConfigurationError, match=said):
        access._replace(users=users, keystore=keystore).check()


def test_a_server_that_is_open_to_all_is_not_started_beside_it() -> None:
    plugin = "org.apache.spark.sql.connect.SparkConnectPlugin"
    project = Project({"spark.plugins": f"my.Plugin,{plugin}"}, {}, "gold", ROOT)
    with pytest.raises(ConfigurationError, match="take it out, and give --connect PORT"):
        serve(project, Access(LOOPBACK, 0), threading.Event)


def test_a_keystore_without_its_password_and_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEYSTORE_PASSWORD, raising=False)
    with pytest.raises(
        ConfigurationError, match=f"{KEYSTORE_PASSWORD}, which opens .*, is not set"
    ):
        Access(LOOPBACK, 0, keystore=Path(__file__)).check()
    with socket.socket() as taken:
        taken.bind((LOOPBACK, 0))
        taken.listen()
        with pytest.raises(ConfigurationError, match="can't be used: Address already in use"):
            Access(LOOPBACK, taken.getsockname()[1]).check()
        with pytest.raises(ConfigurationError, match=r"can't be used: .*; --connect names"):
            Access(LOOPBACK, 0, connect=taken.getsockname()[1]).check()
    Access("localhost", 0).check()
