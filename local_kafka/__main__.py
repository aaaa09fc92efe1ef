"""``make kafka``: a broker with the demo's topics, until Ctrl-C.

python -m local_kafka [--port 9092] [--fresh]
"""

import argparse
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from confluent_kafka import KafkaException

from dbt_lakehouse.config.paths import CACHE, ROOT
from dbt_lakehouse.errors import JarError
from dbt_lakehouse.landing.captures import CaptureError
from local_kafka.broker import Broker, BrokerError, PortError
from local_kafka.captures import FillError, fill, read
from local_kafka.folders import only_one

FOLDER: Final = CACHE / "kafka"
PORT: Final = 9092
LOOK_SECONDS: Final = 0.5

USAGE: Final = """\
Kafka is at {address}, with {topics} topics. In another terminal, in this folder:

    export KAFKA_BOOTSTRAP_SERVERS={address} LAKEHOUSE_LAKE=lake-kafka
    .venv/bin/dbt build --vars '{{captures: []}}'
    .venv/bin/lakehouse status

Ctrl-C stops it. Its data stays in {folder} (--fresh empties it)."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the broker until SIGINT or SIGTERM. Returns 0, or 1 after a line on stderr with the
    reason.
    """
    options = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        _run(options.folder, options.port, fresh=options.fresh)
    except KeyboardInterrupt:
        print("\nKafka is stopped.")
    except PortError as error:
        another = f"another one: make kafka PORT={options.port % 64_000 + 100}"
        print(f"local_kafka: {error}; {another}", file=sys.stderr)
        return 1
    except (BrokerError, CaptureError, FillError, JarError, KafkaException) as error:
        print(f"local_kafka: {error}", file=sys.stderr)
        return 1
    return 0


def _run(folder: Path, port: int, *, fresh: bool) -> None:
    with only_one(folder):
        if fresh and folder.exists():
            shutil.rmtree(folder)
        captures = read((ROOT / "seeds").glob("*.jsonl"))
        # For experiments: writing to a topic creates it.
        settings = {"auto.create.topics.enable": "true"}
        with Broker(folder, port=port, settings=settings) as broker:
            sent = fill({"bootstrap.servers": broker.bootstrap_servers}, captures)
            if sent:
                print(f"Sent the demo's {sum(sent.values())} messages to {len(sent)} new topics.")
            shown = folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder
            print(
                USAGE.format(address=broker.bootstrap_servers, topics=len(captures), folder=shown),
                flush=True,
            )
            while broker.running:
                time.sleep(LOOK_SECONDS)
            raise BrokerError(f"the broker ended by itself: see {broker.log}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m local_kafka",
        description="A Kafka broker on this machine with the demo's topics, until Ctrl-C.",
    )
    parser.add_argument(
        "--port", type=_port, default=PORT, help="port on 127.0.0.1 (default: %(default)s)"
    )
    parser.add_argument("--fresh", action="store_true", help="empty the data folder first")
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="data folder (default: .cache/kafka)"
    )
    return parser


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"{text} is no port")
    return int(text)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
