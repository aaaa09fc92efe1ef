"""``make demo-debezium``: a shop in PostgreSQL that lives, and gold beside its own tables.

    python -m local_kafka.demo_debezium [--seconds 60] [--rate 5]

Orders come, change and go in a PostgreSQL of the demo's own; Debezium in Kafka Connect writes them
to a broker; `lakehouse init` and `lakehouse add` make a project of the topics, and
`lakehouse stream --build` follows them. Every few seconds a line tells what the source has and what
gold has. At Ctrl-C, or after the given seconds, the shop closes, and gold must have the source's
rows, value by value. Then everything is stopped, and nothing is left behind.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import psycopg
from confluent_kafka.admin import AdminClient
from pyiceberg.catalog.sql import SqlCatalog

from dbt_lakehouse.config.paths import CACHE, LOOPBACK
from dbt_lakehouse.errors import JarError
from local_kafka.broker import Broker, BrokerError
from local_kafka.connect import kafka_connect
from local_kafka.folders import only_one
from local_kafka.postgres import USER, postgres
from local_kafka.servers import ServerError, ended_with_us

FOLDER: Final = CACHE / "demo-debezium"
SCHEMA: Final = """
create schema shop;
create table shop.customers (
    customer_id int primary key, name text not null, city text, is_member boolean not null
);
create table shop.orders (
    order_id bigint primary key, customer_id int not null, status text not null,
    total numeric(10, 2) not null, placed_at timestamptz not null
);
create table shop.order_lines (
    order_id bigint, line int, product text not null, quantity int not null,
    price numeric(10, 2) not null,
    primary key (order_id, line)
);
"""
# The columns of each table, with the key's first.
TABLES: Final[Mapping[str, str]] = {
    "customers": "customer_id, name, city, is_member",
    "orders": "order_id, customer_id, status, total, placed_at",
    "order_lines": "order_id, line, product, quantity, price",
}
_PREFIX: Final = "pg"
_CONNECTOR_JARS: Final = "debezium_postgres_jars.txt"
_NAMES: Final = ("Ada", "Edsger", "Grace", "Barbara", "Alan", "Frances", "Niklaus", "Radia")
_CITIES: Final = ("Berlin", "Kraków", "Aarhus", "Porto", "Lyon", "Ghent", None)
_PRODUCTS: Final = ("teapot", "lamp", "chair", "kettle", "rug", "clock")
_STATUSES: Final = ("paid", "packed", "shipped", "delivered")
_CUSTOMERS: Final = 20
_TELLS_SECONDS: Final = 5.0
# For one command, and for what is in flight when the shop has closed: a small machine may spend
# much time compiling.
_COMMAND_SECONDS: Final = 300.0
_CLOSING_SECONDS: Final = 180.0
_COLUMNS: Final = ("seconds", *(f"{table} source/gold" for table in TABLES))

Rows = list[tuple[Any, ...]]


class DemoError(Exception):
    """A step of the demo failed. The message names it, and shows its output."""


class Order(NamedTuple):
    """An existing order, and the number of its lines."""

    number: int
    lines: int


class Shop(threading.Thread):
    """Customers and orders that change at a rate, until it is closed."""

    def __init__(self, connection: psycopg.Connection, rate: float) -> None:
        super().__init__(name="shop", daemon=True)
        self._connection: Final = connection
        self._rate: Final = rate
        self._dice: Final = random.Random("shop")
        self._closing: Final = threading.Event()
        self._orders: Final[list[Order]] = []
        self._count = 0
        self._problem: psycopg.Error | None = None

    def open_with_customers(self) -> None:
        """Create the tables, with customers and orders from before Debezium."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(SCHEMA)
            cursor.executemany(
                "insert into shop.customers values (%s, %s, %s, %s)",
                [
                    (number, self._dice.choice(_NAMES), self._dice.choice(_CITIES), number % 3 == 0)
                    for number in range(1, _CUSTOMERS + 1)
                ],
            )
            for _ in range(10):
                self._place(cursor)

    def run(self) -> None:
        """Make changes at the rate."""
        try:
            while not self._closing.wait(self._dice.expovariate(self._rate)):
                with self._connection.transaction(), self._connection.cursor() as cursor:
                    self._change(cursor)
        except psycopg.Error as error:
            self._problem = error

    def close(self) -> None:
        """Stop changing. Raises ``DemoError`` if a change has failed."""
        self._closing.set()
        self.join()
        if self._problem is not None:
            raise DemoError(f"the shop could not go on: {self._problem}")

    def _change(self, cursor: psycopg.Cursor) -> None:
        chance = self._dice.random()
        if chance < 0.3 or not self._orders:
            self._place(cursor)
        elif chance < 0.7:
            cursor.execute(
                "update shop.orders set status = %s where order_id = %s",
                (self._dice.choice(_STATUSES), self._dice.choice(self._orders).number),
            )
        elif chance < 0.8:
            self._cancel(cursor)
        elif chance < 0.9:
            cursor.execute(
                "update shop.customers set city = %s, is_member = not is_member"
                " where customer_id = %s",
                (self._dice.choice(_CITIES), self._dice.randint(1, _CUSTOMERS)),
            )
        else:
            self._renumber(cursor)

    def _place(self, cursor: psycopg.Cursor) -> None:
        self._count += 1
        order = Order(self._count, self._dice.randint(1, 3))
        prices = [self._dice.randint(100, 99_999) / 100 for _ in range(order.lines)]
        cursor.execute(
            "insert into shop.orders values (%s, %s, 'new', %s, now())",
            (order.number, self._dice.randint(1, _CUSTOMERS), f"{sum(prices):.2f}"),
        )
        cursor.executemany(
            "insert into shop.order_lines values (%s, %s, %s, 1, %s)",
            [
                (order.number, line, self._dice.choice(_PRODUCTS), f"{price:.2f}")
                for line, price in enumerate(prices, 1)
            ],
        )
        self._orders.append(order)

    def _cancel(self, cursor: psycopg.Cursor) -> None:
        order = self._orders.pop(self._dice.randrange(len(self._orders)))
        cursor.execute("delete from shop.order_lines where order_id = %s", (order.number,))
        cursor.execute("delete from shop.orders where order_id = %s", (order.number,))

    def _renumber(self, cursor: psycopg.Cursor) -> None:
        """An update of a key: Debezium ships it as a delete and an insert."""
        order = self._dice.choice(self._orders)
        cursor.execute(
            "update shop.order_lines set line = line + 10, quantity = quantity + 1"
            " where order_id = %s",
            (order.number,),
        )


class Project:
    """The user's project and lake, and the commands that a user would type in it."""

    def __init__(self, folder: Path, servers: str) -> None:
        self._folder: Final = folder
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("DBT_")},
            "KAFKA_BOOTSTRAP_SERVERS": servers,
            "LAKEHOUSE_LAKE": "lake",
            "LAKEHOUSE_SMALL": "true",
            # Goes with the rest: a command that is killed does not tidy up.
            "TMPDIR": str(folder.with_name("tmp")),
        }
        folder.mkdir()
        folder.with_name("tmp").mkdir()
        self._how: Final[dict[str, Any]] = {
            "stdin": subprocess.DEVNULL,
            "cwd": folder,
            "env": environment,
            # Ctrl-C closes the shop, and ends no command.
            "start_new_session": True,
        }

    def run(self, *arguments: str) -> None:
        """Run a command of lakehouse, and show it. Raises ``DemoError``."""
        print(f"$ lakehouse {' '.join(arguments)}", flush=True)
        began = time.monotonic()
        with subprocess.Popen(
            _command(arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **self._how,
        ) as process:
            try:
                with ended_with_us(-process.pid):
                    said, _ = process.communicate(timeout=_COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                _kill(process)
                raise DemoError(f"it took over {_COMMAND_SECONDS:.0f} s") from None
            except KeyboardInterrupt:
                _kill(process)
                raise
        if process.returncode != 0:
            raise DemoError(f"lakehouse {arguments[0]}:\n{said}")
        print(f"  {time.monotonic() - began:.0f} s", flush=True)

    @contextmanager
    def following(self, log: Path) -> Iterator[None]:
        """Run `lakehouse stream --build` within the context. Raises ``DemoError`` if it has ended
        by then.
        """
        arguments = ("stream", "--build", "--interval", "1")
        print(f"$ lakehouse {' '.join(arguments)}", flush=True)
        with log.open("wb") as out:
            process = subprocess.Popen(_command(arguments), stdout=out, stderr=out, **self._how)
        try:
            with ended_with_us(-process.pid):
                yield
            if process.poll() is not None:
                raise DemoError(f"the stream has ended:\n{log.read_text()[-2_000:]}")
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_COMMAND_SECONDS)
            except (KeyboardInterrupt, subprocess.TimeoutExpired):
                _kill(process)
                raise

    def gold(self) -> dict[str, Rows]:
        """The rows of gold by table, read without Spark, as other readers see them."""
        lake = self._folder / "lake"
        catalog = SqlCatalog(
            "lake",
            uri=f"sqlite:///{lake / 'catalog.db'}",
            warehouse=(lake / "warehouse").as_uri(),
        )
        try:
            return {
                table: sorted(
                    tuple(row.values())
                    for row in catalog.load_table(f"gold.{table}")
                    .scan(selected_fields=tuple(columns.split(", ")))
                    .to_arrow()
                    .select(columns.split(", "))
                    .to_pylist()
                )
                for table, columns in TABLES.items()
            }
        finally:
            catalog.engine.dispose()


def _command(arguments: Sequence[str]) -> list[str]:
    return [str(Path(sys.executable).with_name("lakehouse")), *arguments]


def _kill(process: subprocess.Popen[Any]) -> None:
    """Kill a command, and Spark's JVM with it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if gold has the source's rows in the end, else 1."""
    options = _parser().parse_args(arguments)
    # In the background of a shell SIGINT would be ignored. A terminal that is closed hangs up.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        with only_one(FOLDER):
            shutil.rmtree(FOLDER, ignore_errors=True)
            FOLDER.mkdir(parents=True)
            # A demo that fails leaves its logs.
            with _removed_if_interrupted(FOLDER):
                _run(options.seconds, options.rate)
            shutil.rmtree(FOLDER)
    except KeyboardInterrupt:
        print("\nstopped before gold was held against the source", file=sys.stderr)
        return 1
    except (BrokerError, DemoError, JarError, ServerError, psycopg.Error) as error:
        print(f"demo-debezium: {error}", file=sys.stderr)
        if not isinstance(error, BrokerError):
            print(f"its logs are in {FOLDER}", file=sys.stderr)
        return 1
    return 0


@contextmanager
def _removed_if_interrupted(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        shutil.rmtree(folder)
        raise


def _run(seconds: float | None, rate: float) -> None:
    with (
        Broker(FOLDER / "kafka") as broker,
        postgres(_made(FOLDER / "postgres"), wal_level="logical") as address,
        psycopg.connect(_dsn(address)) as shops,
        psycopg.connect(_dsn(address), autocommit=True) as source,
    ):
        servers = broker.bootstrap_servers
        shop = Shop(shops, rate)
        shop.open_with_customers()
        print(f"PostgreSQL at {address.removeprefix('jdbc:')}, Kafka at {servers}", flush=True)
        port = int(address.rpartition(":")[2].partition("/")[0])
        with kafka_connect(
            FOLDER / "connect", servers, {"shop": _connector(port)}, [_CONNECTOR_JARS]
        ) as check:
            shop.start()
            project = Project(FOLDER / "shop", servers)
            project.run("init", "--kafka", servers)
            _wait_for_topics(servers, check)
            project.run("add", *map(_topic, TABLES))
            with project.following(FOLDER / "stream.log"):
                _watch(source, project, seconds)
                shop.close()
                check()
                _compare(source, project)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _topic(table: str) -> str:
    return f"{_PREFIX}.shop.{table}"


def _dsn(address: str) -> str:
    return f"{address.removeprefix('jdbc:')}?user={USER}"


def _connector(port: int) -> dict[str, str]:
    """The settings of Debezium's connector; only truncates are added to its defaults."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": LOOPBACK,
        "database.port": str(port),
        "database.user": USER,
        "database.password": "",
        "database.dbname": "postgres",
        "plugin.name": "pgoutput",
        "schema.include.list": "shop",
        "topic.prefix": _PREFIX,
        "skipped.operations": "none",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }


def _wait_for_topics(servers: str, check: Callable[[], None]) -> None:
    """Wait until Debezium has written to each table's topic, which its first message creates."""
    deadline = time.monotonic() + _COMMAND_SECONDS
    admin = AdminClient({"bootstrap.servers": servers})
    while not {_topic(table) for table in TABLES} <= admin.list_topics(timeout=10).topics.keys():
        check()
        if time.monotonic() > deadline:
            raise DemoError("Debezium has written nothing")
        time.sleep(0.2)


def _watch(source: psycopg.Connection, project: Project, seconds: float | None) -> None:
    """Show both sides' numbers of rows until Ctrl-C, or for ``seconds``."""
    print(f"The shop is open{'; Ctrl-C closes it' if seconds is None else ''}.")
    print("  ".join(_COLUMNS), flush=True)
    began = time.monotonic()
    try:
        while seconds is None or time.monotonic() - began < seconds:
            time.sleep(_TELLS_SECONDS)
            there, gold = _source_rows(source), project.gold()
            cells = [f"{time.monotonic() - began:.0f}"]
            cells += [f"{len(there[table])} / {len(gold[table])}" for table in TABLES]
            print(
                "  ".join(
                    cell.rjust(len(name)) for cell, name in zip(cells, _COLUMNS, strict=True)
                ),
                flush=True,
            )
    except KeyboardInterrupt:
        print("\nThe shop closes.", flush=True)


def _source_rows(source: psycopg.Connection) -> dict[str, Rows]:
    return {
        table: sorted(source.execute(f"select {columns} from shop.{table}").fetchall())
        for table, columns in TABLES.items()
    }


def _compare(source: psycopg.Connection, project: Project) -> None:
    """Wait until gold has the source's rows, and report it. Raises ``DemoError`` with examples if
    it never has.
    """
    there, began = _source_rows(source), time.monotonic()
    while (gold := project.gold()) != there:
        if time.monotonic() - began > _CLOSING_SECONDS:
            examples = [
                f"{table}: {row}, only in {where}"
                for table in TABLES
                for where, one, other in (("source", there, gold), ("gold", gold, there))
                for row in one[table]
                if row not in other[table]
            ]
            raise DemoError("gold does not equal the source:\n" + "\n".join(examples[:6]))
        time.sleep(0.5)
    numbers = ", ".join(f"{table} {len(rows):,}" for table, rows in there.items())
    print(
        f"gold equals the source, value by value, {time.monotonic() - began:.0f} s after it closed:"
        f" {numbers} rows"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local_kafka.demo_debezium",
        description="A PostgreSQL whose rows change, Debezium, and gold that follows.",
    )
    parser.add_argument("--seconds", type=_positive, help="close the shop after so many (Ctrl-C)")
    parser.add_argument("--rate", type=_positive, default=5.0, help="transactions a second (5)")
    return parser


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above zero")
    return number


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
