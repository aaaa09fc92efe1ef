"""`lakehouse serve`: what its clients see, and what they can't do."""

import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from commands import Command, lakehouse
from lakes import Lake
from pyhive import hive
from thrift.transport.TSSLSocket import TSSLSocket
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TTransportException
from thrift_sasl import TSaslClientTransport

from dbt_lakehouse.commands.serve.access import KEYSTORE_PASSWORD, Access, password_line
from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.errors import ConfigurationError

USER: Final = "ana"
PASSWORD: Final = "correct: hörse"
KEYSTORE_SECRET: Final = "opensesame"


class Server:
    """A running server, and its clients."""

    def __init__(self, command: Command, certificate: Path) -> None:
        self.command: Final = command
        self._certificate: Final = certificate

    @property
    def port(self) -> int:
        return int(self.command.said.partition("jdbc:hive2://127.0.0.1:")[2].partition("/")[0])

    def connect(self, password: str = PASSWORD, user: str = USER, **options: Any) -> Any:
        """A connection of PyHive's, encrypted."""
        context = ssl.create_default_context(cafile=str(self._certificate))
        return self._connect(
            TSSLSocket(LOOPBACK, self.port, ssl_context=context), user, password, options
        )

    def connect_in_clear(self) -> Any:
        """The same without TLS."""
        plain = TSocket(LOOPBACK, self.port)
        plain.setTimeout(5000)
        return self._connect(plain, USER, PASSWORD, {})

    def _connect(self, connected: TSocket, user: str, password: str, options: Any) -> Any:
        def login() -> Any:
            return hive.get_installed_sasl(
                host=LOOPBACK, sasl_auth="PLAIN", username=user, password=password
            )

        return hive.connect(
            thrift_transport=TSaslClientTransport(login, "PLAIN", connected), **options
        )

    def ask(self, *statements: str, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of the last of some statements of one connection."""
        with closing(self.connect(**options)) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows


@pytest.fixture(scope="module")
def server(demo: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serve")
    users, keystore, certificate = folder / "users", folder / "keystore", folder / "certificate"
    users.write_text(f"{password_line('bo', 'other')}\n{password_line(USER, PASSWORD)}\n")
    keytool = ["keytool", "-keystore", str(keystore), "-storepass", KEYSTORE_SECRET, "-alias", "s"]
    make = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=lake", "-ext", f"san=ip:{LOOPBACK}"]
    subprocess.run([*keytool, *make], check=True, capture_output=True)
    export = ["-exportcert", "-rfc", "-file", str(certificate)]
    subprocess.run([*keytool, *export], check=True, capture_output=True)
    options = ["--port", "0", "--users", str(users), "--keystore", str(keystore)]
    with (
        pytest.MonkeyPatch.context() as environment,
        lakehouse(demo, "serve", *options) as command,
    ):
        environment.setenv(KEYSTORE_PASSWORD, KEYSTORE_SECRET)
        command.wait_for("serving at ")
        yield Server(command, certificate)


def test_a_query_of_gold(server: Server) -> None:
    assert server.ask("select r_name from regions order by r_regionkey limit 2") == [
        ("AFRICA",),
        ("AMERICA",),
    ]
