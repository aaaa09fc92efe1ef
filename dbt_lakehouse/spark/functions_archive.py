"""An archive of our Python packages for the workers of a cluster, with the functions that they
call. They have Python itself, with pyarrow, msgspec and msgpack (docs/scale.md).
"""

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from threading import get_native_id
from typing import Final

import dbt_lakehouse
import python_udfs
from dbt_lakehouse.config.paths import cache_folder

_PACKAGES: Final = (dbt_lakehouse, python_udfs)
# The earliest time of a zip entry, so that the same code gives the same archive.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def is_local(settings: Mapping[str, str]) -> bool:
    """Whether Spark runs on this process's machine alone."""
    return settings.get("spark.master", "local").startswith("local")


def functions_archive() -> Path:
    """A zip file of the packages, named for its content."""
    files = {
        f"{package.__name__}/{path.relative_to(folder).as_posix()}": path.read_bytes()
        for package in _PACKAGES
        for folder in map(Path, package.__path__)
        for path in sorted(folder.rglob("*.py"))
    }
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    archive = cache_folder("functions") / f"functions-{digest[:16]}.zip"
    if not archive.exists():
        # Of this thread: others of this process may write it too.
        partial = archive.with_suffix(f".{get_native_id()}")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as written:
            for name, content in files.items():
                written.writestr(zipfile.ZipInfo(name, _TIME), content)
        partial.replace(archive)
    return archive
