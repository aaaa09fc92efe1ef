"""Access control: checked before Spark starts."""

import base64
import hashlib
import ipaddress
import os
import secrets
import socket
from pathlib import Path
from typing import Final, NamedTuple

from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.errors import ConfigurationError

KEYSTORE_PASSWORD: Final = "LAKEHOUSE_KEYSTORE_PASSWORD"
# Spark's own names, for its server and its clients.
CONNECT_TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
_ROUNDS: Final = 200_000


class Access(NamedTuple):
    """The addresses of the server, and its authentication."""

    host: str
    port: int
    """0 for any free port."""
    users: Path | None = None
    """A file with lines of ``password_line``; without one, any password is accepted."""
    keystore: Path | None = None
    """Key and certificate for TLS."""
    connect: int | None = None
    """The port of Spark Connect, always on loopback; 0 for any free port, None for no such
    server.
    """

    @property
    def keystore_password(self) -> str:
        """The password of the keystore. It has no option, which all users of the machine could
        see.
        """
        return os.environ.get(KEYSTORE_PASSWORD, "")

    def check(self) -> None:
        """Raise ``ConfigurationError`` for settings that can't work, or would be open to all."""
        addresses = self._addresses()
        for file, option in ((self.users, "--users"), (self.keystore, "--keystore")):
            if file is not None and not os.access(file, os.R_OK):
                raise ConfigurationError(f"{option}: {file} can't be read")
        if self.users is not None:
            _check_users(self.users)
        if self.keystore is not None and not self.keystore_password:
            raise ConfigurationError(
                f"the environment variable {KEYSTORE_PASSWORD}, which opens {self.keystore}, is"
                " not set"
            )
        missing = [
            needed
            for file, needed in (
                (self.users, "--users FILE (passwords, made by `lakehouse password`)"),
                (self.keystore, "--keystore FILE (key and certificate for TLS, made by keytool)"),
            )
            if file is None
        ]
        if missing and not all(each.is_loopback for each in addresses):
            raise ConfigurationError(
                f"{self.host} can be reached from other machines, and so needs"
                f" {' and '.join(missing)}; 127.0.0.1 needs neither"
            )
        _check_port(self.host, self.port, "--port")
        if self.connect is not None:
            self._check_connect(self.connect)

    def _addresses(self) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
        try:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigurationError(f"--host {self.host}: {error.strerror}") from error
        return [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]

    def _check_connect(self, port: int) -> None:
        if self.users is not None and not os.environ.get(CONNECT_TOKEN):
            raise ConfigurationError(
                f"the environment variable {CONNECT_TOKEN} is not set: without it, anyone on this"
                " machine could read by --connect what --users protects"
            )
        _check_port(LOOPBACK, port, "--connect")


def _check_port(host: str, port: int, option: str) -> None:
    """Check what Java reports late, and at length."""
    ((family, *_, address), *_) = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise ConfigurationError(
                f"port {port} of {host} can't be used: {error.strerror}; {option} names another"
            ) from error


def check_user(name: str) -> None:
    """Raise ``ConfigurationError`` for an invalid user name."""
    if not name or ":" in name or name != name.strip() or not name.isprintable():
        raise ConfigurationError(f"{name!r} can't be a user's name: it has a colon, or blanks")


def password_line(name: str, password: str) -> str:
    """A line for the users file: name, rounds, salt and hash (PBKDF2 with HMAC-SHA-256).

    Raises ``ConfigurationError`` for an invalid name or password.
    """
    check_user(name)
    if not password:
        raise ConfigurationError("a password can't be empty")
    salt = secrets.token_bytes(16)
    made = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ROUNDS)
    texts = (base64.b64encode(each).decode() for each in (salt, made))
    return ":".join((name, str(_ROUNDS), *texts))


def _check_users(file: Path) -> None:
    lines = [line.strip() for line in file.read_text().splitlines()]
    for number, line in enumerate(lines, 1):
        fields = line.split(":")
        if line and (len(fields) != 4 or not fields[1].isdecimal()):
            raise ConfigurationError(
                f"{file}, line {number} is not a user: `lakehouse password NAME` makes such lines"
            )
    if not any(lines):
        raise ConfigurationError(f"{file} has no users: `lakehouse password NAME` makes a line")
