"""``make demo-kafka``: change events on their way from Kafka to gold, while a producer writes.

    python -m local_kafka.demo [--rounds 3] [--rate 300]

A broker and a lake of its own, both empty at first. A thread plays the connector of the demo's
``sales.orders`` and never waits; ``dbt run`` builds ``gold.orders`` again and again meanwhile. At
the end the producer stops, dbt runs once more, and gold must hold exactly the rows that the
producer knows to be live.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pyiceberg.catalog.sql import SqlCatalog

from dbt_lakehouse.config.paths import CACHE, ROOT
from dbt_lakehouse.errors import JarError
from local_kafka.broker import Broker, BrokerError
from local_kafka.captures import QUIET, FillError, create_topics, partition_counts, read
from local_kafka.folders import only_one

FOLDER: Final = CACHE / "demo-kafka"
TOPIC: Final = "debezium.sales.orders"
BRONZE: Final = "bronze.raw_payloads"
GOLD: Final = "gold.orders"
# For one command, which a small machine may spend compiling.
COMMAND_SECONDS: Final = 300.0
FLUSH_SECONDS: Final = 30.0
TICKS_PER_SECOND: Final = 20
STATUSES: Final = ("paid", "packed", "shipped", "delivered", "on hold", "refunded")
CURRENCIES: Final = ("EUR", "EUR", "PLN", "DKK")
COLUMNS: Final = ("round", "produced", "landed", "gold.orders", "lag", "seconds")

Image = dict[str, Any]


class DemoError(Exception):
    """A step of the demo failed. The message names it, and shows its output."""


class Order(NamedTuple):
    """The columns that are compared in the end."""

    order_id: int
    status: str
    amount: Decimal


class Shop:
    """A table of orders and the connector that watches it: each step is a change and its
    messages.

    The messages are in the form of Debezium's PostgreSQL connector without schema blocks, like
    those of the demo's capture, so that its models fit. Random choices are seeded; times are
    current.
    """

    def __init__(self) -> None:
        self._dice = random.Random("orders")
        self._rows: dict[int, Image] = {}
        # Lists, because choosing a random member of a dict takes a scan.
        self._keys: list[int] = []
        self._next_key = 100_001
        self._lsn = 24_023_128

    def step(self) -> list[tuple[int, bytes, bytes | None]]:
        """One change: the order's id, and key and value of each message."""
        chance = self._dice.random()
        if len(self._keys) < 50 or chance < 0.35:
            return self._insert()
        place = self._dice.randrange(len(self._keys))
        return self._delete(place) if chance > 0.85 else self._update(self._keys[place])

    def orders(self) -> list[Order]:
        """The orders that exist, by id."""
        return sorted(
            Order(key, row["status"], Decimal(bytes(row["amount"]).decode()))
            for key, row in self._rows.items()
        )

    def _insert(self) -> list[tuple[int, bytes, bytes | None]]:
        key = self._next_key
        self._next_key += 1
        self._keys.append(key)
        now = datetime.now(UTC)
        row = {
            "order_id": key,
            "customer_id": self._dice.randint(2000, 2027),
            "status": "new",
            "amount": self._amount(),
            "currency": self._dice.choice(CURRENCIES),
            "placed_at": f"{now:%FT%T.%f}Z",
            "shipped_at": None,
            "note": None if key % 7 else "leave with the neighbour, 2nd floor",
        }
        self._rows[key] = row
        return [self._message(key, "c", None, row)]

    def _update(self, key: int) -> list[tuple[int, bytes, bytes | None]]:
        row = {**self._rows[key], "status": self._dice.choice(STATUSES)}
        if row["status"] == "shipped":
            row["shipped_at"] = time.time_ns() // 1_000
        if row["status"] == "refunded":
            row["amount"] = self._amount()
        self._rows[key] = row
        return [self._message(key, "u", None, row)]

    def _delete(self, place: int) -> list[tuple[int, bytes, bytes | None]]:
        key = self._keys[place]
        self._keys[place] = self._keys[-1]
        self._keys.pop()
        message = self._message(key, "d", self._rows.pop(key), None)
        # The tombstone lets Kafka forget the key.
        return [message, (key, message[1], None)]

    def _amount(self) -> msgspec.Raw:
        """Between 0.10 and 999.99, as the digits that the connector writes."""
        return msgspec.Raw(f"{self._dice.randint(10, 99_999) / 100:.2f}".encode())

    def _message(
        self, key: int, op: str, before: Image | None, after: Image | None
    ) -> tuple[int, bytes, bytes]:
        self._lsn += self._dice.randint(40, 900)
        now = time.time_ns()
        value = {
            "before": before,
            "after": after,
            "source": {
                "version": "3.0.8.Final",
                "connector": "postgresql",
                "name": "shop",
                "ts_ms": now // 1_000_000,
                "snapshot": "false",
                "db": "shop",
                "sequence": f'["{self._lsn - 56}","{self._lsn}"]',
                "ts_us": now // 1_000,
                "ts_ns": now,
                "schema": "sales",
                "table": "orders",
                "txId": 700 + self._lsn % 997,
                "lsn": self._lsn,
                "xmin": None,
            },
            "op": op,
            "ts_ms": now // 1_000_000 + 1,
            "transaction": None,
        }
        return key, msgspec.json.encode({"order_id": key}), msgspec.json.encode(value)


class Writer(threading.Thread):
    """Writes a shop's changes to the topic at ``rate`` per second, until stopped."""

    def __init__(self, shop: Shop, servers: str, partitions: int, rate: int) -> None:
        super().__init__(name="writer", daemon=True)
        self._shop = shop
        self._producer = Producer(
            {**QUIET, "bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5}
        )
        self._partitions = partitions
        self._rate = rate
        self._stopping = threading.Event()
        self._problem: str | None = None
        self.confirmed = 0

    def run(self) -> None:
        """Write at the average rate, however long a single tick takes."""
        start = time.monotonic()
        changes = 0
        while not self._stopping.wait(1 / TICKS_PER_SECOND):
            due = int((time.monotonic() - start) * self._rate)
            for _ in range(due - changes):
                for key, key_bytes, value in self._shop.step():
                    self._producer.produce(
                        TOPIC,
                        value,
                        key_bytes,
                        partition=key % self._partitions,
                        on_delivery=self._delivered,
                    )
            changes = due
            self._producer.poll(0)

    def stop(self) -> None:
        """Stop, and wait until the broker has everything. Raises ``DemoError`` if it does not."""
        self._stopping.set()
        self.join()
        if self._producer.flush(FLUSH_SECONDS) or self._problem is not None:
            raise DemoError(f"the broker did not take every message: {self._problem or 'timeout'}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._problem = error.str()
        else:
            self.confirmed += 1


class Commands:
    """dbt and lakehouse on the demo's lake and broker, each in its own process."""

    def __init__(self, folder: Path, servers: str) -> None:
        self.lake: Final = folder / "lake"
        self._folder = folder
        foreign = ("DBT_", "KAFKA_")
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(foreign)},
            "KAFKA_BOOTSTRAP_SERVERS": servers,
            "LAKEHOUSE_LAKE": str(self.lake),
            "LAKEHOUSE_SMALL": "true",
            "DBT_TARGET_PATH": str(folder / "target"),
            "DBT_LOG_PATH": str(folder / "logs"),
        }

    def dbt_run(self) -> None:
        """Land new messages and build gold.orders with its upstream models."""
        self._run("dbt", "--quiet", "run", "-s", "+orders", "--vars", "{captures: []}")

    def count(self) -> dict[str, int]:
        """The numbers of rows in bronze and gold."""
        counts: dict[str, int] = json.loads(self._run("lakehouse", "show", "--json", BRONZE, GOLD))
        return counts

    def lag(self) -> int:
        """The number of messages in Kafka that bronze lacks now."""
        rows = json.loads(self._run("lakehouse", "status", "--json"))
        return sum(row["lag_messages"] for row in rows if row["topic"] == TOPIC)

    def gold(self) -> list[Order]:
        """The rows of gold, read without Spark, as other readers see them; by id."""
        catalog = SqlCatalog(
            "lake",
            uri=f"sqlite:///{self.lake / 'catalog.db'}",
            warehouse=(self.lake / "warehouse").as_uri(),
        )
        try:
            table = catalog.load_table(GOLD).scan(selected_fields=Order._fields).to_arrow()
        finally:
            catalog.engine.dispose()
        return sorted(Order(**row) for row in table.to_pylist())

    def _run(self, program: str, *arguments: str) -> str:
        """The output of a command. Raises ``DemoError`` if it fails."""
        try:
            done = subprocess.run(
                [str(Path(sys.executable).with_name(program)), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                cwd=ROOT,
                env=self._environment,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DemoError(f"{program} {arguments[0]} took over {COMMAND_SECONDS:.0f} s") from None
        if done.returncode != 0:
            raise DemoError(f"{program} {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
        return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo. Returns 0 if gold equals what the producer holds, else 1."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _run(options.rounds, options.rate)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 1
    except (BrokerError, DemoError, FillError, JarError, KafkaException) as error:
        print(f"demo-kafka: {error}", file=sys.stderr)
        return 1
    return 0


def _run(rounds: int, rate: int) -> None:
    with only_one(FOLDER):
        shutil.rmtree(FOLDER, ignore_errors=True)
        # All topics of the demo exist, since the project expects them; one gets messages.
        partitions = partition_counts(read((ROOT / "seeds").glob("*.jsonl")))
        with Broker(FOLDER / "kafka") as broker:
            servers = broker.bootstrap_servers
            create_topics({"bootstrap.servers": servers}, partitions)
            shop = Shop()
            commands = Commands(FOLDER, servers)
            writer = Writer(shop, servers, partitions[TOPIC], rate)
            print(f"A producer writes {rate} changes of orders a second to {TOPIC} at {servers}.")
            print("  ".join(f"{name:>11}" for name in COLUMNS), flush=True)
            writer.start()
            for number in range(1, rounds + 1):
                _round(str(number), commands, writer)
            writer.stop()
            _round("last", commands, writer)
        compare(shop.orders(), commands.gold())


def _round(name: str, commands: Commands, writer: Writer) -> None:
    """One run of dbt, and a line about it."""
    start = time.monotonic()
    commands.dbt_run()
    seconds = time.monotonic() - start
    produced = writer.confirmed
    counts = commands.count()
    cells = (
        name,
        f"{produced:,}",
        f"{counts[BRONZE]:,}",
        f"{counts[GOLD]:,}",
        f"{commands.lag():,}",
        f"{seconds:.1f}",
    )
    print("  ".join(f"{cell:>11}" for cell in cells), flush=True)


def compare(held: list[Order], gold: list[Order]) -> None:
    """Check that gold equals what the producer holds. Raises ``DemoError``, with examples, if
    not.
    """
    if held != gold:
        missing, extra = set(held) - set(gold), set(gold) - set(held)
        examples = "\n".join(
            f"{place}: {order}"
            for place, orders in (("only at the producer", missing), ("only in gold", extra))
            for order in sorted(orders)[:3]
        )
        raise DemoError(
            f"gold has {len(gold)} rows, the producer {len(held)}; {len(missing)} are not in gold"
            f" and {len(extra)} only there\n{examples}"
        )
    print(f"gold equals what the producer holds: {len(gold):,} rows")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local_kafka.demo",
        description="Events from a Kafka producer that never stops to gold, run by run of dbt.",
    )
    parser.add_argument("--rounds", type=_positive, default=3, help="runs of dbt meanwhile (3)")
    parser.add_argument("--rate", type=_positive, default=300, help="changes a second (300)")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number above zero")
    return int(text)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
