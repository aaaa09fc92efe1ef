"""A schema registry of a test's own: Apicurio's, by the API that Confluent's has, in memory."""

import json
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.lake import schema_registry
from dbt_lakehouse.spark.jars import Jar, ensure_jars
from dbt_lakehouse.spark.java import find_java
from local_kafka.broker import free_port
from local_kafka.servers import server
from python_udfs.debezium import avro

# The newest that runs with Java 17.
_VERSION: Final = "2.6.13.Final"
_PROGRAM: Final = Jar(
    f"io.apicurio:apicurio-registry-app:{_VERSION}:all@tar.gz",
    "3cda1b34aa020fb4ac4dd6a66018d757e81e437f97e20a1f92d366b70091c6ba",
)


class Registry:
    """A registry that runs."""

    def __init__(self, port: int) -> None:
        self.url = f"http://{LOOPBACK}:{port}/apis/ccompat/v7"
        self.own_url = f"http://{LOOPBACK}:{port}/apis/registry/v2"
        """Where Apicurio's own programs ask."""

    def register(
        self, subject: str, schema: Any, references: Sequence[tuple[str, str]] = ()
    ) -> int:
        """Register a schema, as AvroConverter does; its id. It may refer to the first versions of
        other subjects: the name by which it does, and the subject.
        """
        body = {
            "schema": json.dumps(schema),
            "references": [{"name": name, "subject": of, "version": 1} for name, of in references],
        }
        request = Request(
            f"{self.url}/subjects/{quote(subject, safe='')}/versions",
            json.dumps(body).encode(),
            {"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with urlopen(request, timeout=20) as response:
            return int(json.load(response)["id"])


@contextmanager
def running(folder: Path) -> Iterator[Registry]:
    """A registry on a port of this machine, killed on leaving."""
    (archive,) = ensure_jars([_PROGRAM])
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    port = free_port()
    registry = Registry(port)
    program = [
        *(str(find_java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        *(f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}"),
        *("-jar", str(folder / f"apicurio-registry-app-{_VERSION}-runner.jar")),
    ]

    def is_up() -> bool:
        try:
            with urlopen(f"{registry.url}/subjects", timeout=5):
                return True
        except URLError:
            return False

    with server(program, folder / "registry.log", is_up):
        yield registry


@contextmanager
def asked(folder: Path) -> Iterator[Registry]:
    """A registry that this process asks, with files of its own in ``folder``. Another one may have
    had its address.
    """
    files = folder / "schemas"
    files.mkdir()
    with running(folder) as registry, pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema_registry, "cache_folder", lambda _: files)
        patch.setenv("SCHEMA_REGISTRY_URL", registry.url)
        avro._known.clear()
        avro._compiled.clear()
        yield registry
