"""The target `cluster`: workers of a Spark cluster build in a bucket what one process builds in a
folder, also when one of them is killed meanwhile.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pyspark
import pytest
from support.commands import dbt, wait_until
from support.lakes import Lake, copy_project
from support.s3 import ENVIRONMENT, KEY, SECRET, place_in_bucket, s3

from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.spark.functions_archive import functions_archive

# Text and binary payloads, for the workers to decode.
CAPTURES: Final = [
    f"seeds/{topic}.jsonl" for topic in ("debezium.sales.orders", "aerospike.users.profiles")
]
VARIABLES: Final[dict[str, Any]] = {"as_of": "2026-10-03 00:00:00", "captures": CAPTURES}
MODELS: Final = ("run", "-s", "+orders", "orders_history")
TABLES: Final = ("gold.orders", "gold.orders_history")
SPARK: Final = Path(pyspark.__file__).parent
# Six JVMs on this machine, none of which lives long enough to gain by HotSpot's second compiler.
JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Cluster:
    """A standalone master and two workers of a core each, on this machine alone."""

    def __init__(self, folder: Path) -> None:
        self._folder: Final = folder
        with socket.socket() as free:
            free.bind((LOOPBACK, 0))
            self.address: Final = f"spark://{LOOPBACK}:{free.getsockname()[1]}"
        self._processes: Final[list[subprocess.Popen[bytes]]] = []

    def start(self) -> None:
        """Start all three, and wait until the workers are the master's."""
        port = self.address.rpartition(":")[2]
        self._start("master.Master", "--port", port)
        self._wait_for("New state: ALIVE", of=0)
        for number in (1, 2):
            folder = str(self._folder / f"work{number}")
            size = ("--cores", "1", "--memory", "1g", "--work-dir", folder)
            self._start("worker.Worker", *size, self.address)
            self._wait_for("Successfully registered with master", of=number)

    def works(self, worker: int) -> bool:
        """Whether a worker has started something."""
        return any((self._folder / f"work{worker}").glob("app-*/*/stderr"))

    def kill(self, worker: int) -> None:
        """Kill a worker and all that it has started."""
        os.killpg(self._processes[worker].pid, signal.SIGKILL)

    def stop(self) -> None:
        """Kill what is left."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str, *arguments: str) -> None:
        with self._log(len(self._processes)).open("wb") as output:
            process = subprocess.Popen(
                [
                    *(str(SPARK / "bin/spark-class"), f"org.apache.spark.deploy.{name}"),
                    *("--host", LOOPBACK, "--webui-port", "0", *arguments),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "SPARK_HOME": str(SPARK),
                    "SPARK_LOCAL_IP": LOOPBACK,
                    "SPARK_DAEMON_MEMORY": "128m",
                    "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
                },
                # A group of its own: what a worker starts belongs to it.
                start_new_session=True,
            )
        self._processes.append(process)

    def _wait_for(self, text: str, *, of: int) -> None:
        wait_until(lambda: text in self._log(of).read_text(), f"{text} in {self._log(of)}")

    def _log(self, number: int) -> Path:
        return self._folder / f"{number}.log"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server. What it wants of AWS's SDK is in the environment, and of that
    the credentials are in the profile.
    """
    with (
        s3(tmp_path_factory.mktemp("s3") / "buckets", "lake") as address,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in ENVIRONMENT.items():
            if name not in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                environment.setenv(name, value)
        yield address


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def start_java_quickly(project: Path) -> None:
    """Give the JVMs of the driver and of the executors those options."""
    file = project / "profiles" / "profiles.yml"
    others, of_driver = file.read_text(), "'-XX:+UseParallelGC -Dspark.buffer.pageSize=4m'"
    assert others.count(of_driver) == 1 and others.endswith("PYTHON', '') }}\"\n")
    of_executors = f'        spark.executor.extraJavaOptions: "{JAVA_OPTIONS}"\n'
    file.write_text(others.replace(of_driver, f"'{JAVA_OPTIONS}'") + of_executors)


def python_without_us(folder: Path) -> Path:
    """A Python that has all that this one has, but not the project itself: as on a worker."""
    libraries = next(path for path in sys.path if path.endswith("site-packages"))
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    return python


def test_workers_build_what_one_process_builds(
    cluster: Cluster, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_without_us(tmp_path)
    lost = subprocess.run([python, "-c", "import python_udfs"], cwd=tmp_path, capture_output=True)
    assert b"No module named 'python_udfs'" in lost.stderr
    distributed = Lake(tmp_path / "distributed", copy_project(tmp_path / "project"))
    distributed.folder.mkdir()
    keys = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    storage = place_in_bucket(distributed.project, "s3://lake/warehouse", endpoint, **keys)
    start_java_quickly(distributed.project)
    monkeypatch.setenv("LAKEHOUSE_MASTER", cluster.address)
    monkeypatch.setenv("LAKEHOUSE_WORKERS_PYTHON", str(python))
    monkeypatch.setenv("SPARK_LOCAL_IP", LOOPBACK)
    # As for large lakes: adaptive execution, generated code, many partitions. Others have none.
    monkeypatch.setenv("LAKEHOUSE_SMALL", "false")
    project = distributed.project
    places = ("--project-dir", str(project), "--profiles-dir", str(project / "profiles"))
    with dbt(distributed, *MODELS, "--target", "cluster", *places, **VARIABLES) as command:
        # The others read what these two workers have decoded, and partly hold.
        command.wait_for("OK created sql change_log model")
        assert cluster.works(1) and cluster.works(2)
        cluster.kill(1)
        command.end()
    # All of it is in the bucket.
    assert not (distributed.folder / "lake" / "warehouse").exists()

    monkeypatch.setenv("LAKEHOUSE_SMALL", "true")
    local = Lake(tmp_path / "local")
    local.folder.mkdir()
    assert set(local.dbt(*MODELS, **VARIABLES).values()) == {"success"}
    for table in TABLES:
        rows = sorted(map(repr, local.read(table)))
        assert rows and sorted(map(repr, distributed.read(table, **storage))) == rows, table


def test_the_same_code_makes_the_same_archive() -> None:
    archive = functions_archive()
    written = archive.stat().st_mtime_ns
    content = archive.read_bytes()
    archive.unlink()
    assert functions_archive() == archive and archive.read_bytes() == content
    assert functions_archive().stat().st_mtime_ns >= written
