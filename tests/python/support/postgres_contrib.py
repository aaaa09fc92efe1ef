"""PostgreSQL's programs with the extensions that it comes with, as a source of changes has them:
the server of ``local_kafka.postgres`` has no hstore.

They come from Maven Central, in the jar by which Zonky's embedded database brings them, for Linux
on x86-64. They are unpacked into the cache once.
"""

import platform
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import CACHE, cache_folder
from dbt_lakehouse.spark.jars import ensure_jars
from local_kafka.connect import locked_jars

JARS: Final = "postgres_jars.txt"
"""The list with that jar."""
_PACKED: Final = "postgres-linux-x86_64.txz"


def runs_here() -> bool:
    """Whether this machine can run the programs."""
    return (platform.system(), platform.machine()) == ("Linux", "x86_64")


def programs() -> Path:
    """The folder of the programs, which are unpacked if they are not there yet."""
    (jar,) = locked_jars(JARS)
    folder = CACHE / jar.path.stem
    if not folder.exists():
        (path,) = ensure_jars([jar])
        # A rename is atomic, so no process sees half of it.
        with tempfile.TemporaryDirectory(dir=cache_folder("tmp")) as partial:
            unpacked = Path(partial) / "linux"
            with zipfile.ZipFile(path) as files, files.open(_PACKED) as packed:
                with tarfile.open(fileobj=packed, mode="r|xz") as archive:
                    archive.extractall(unpacked, filter="data")
            unpacked.rename(folder)
    return folder / "bin"
