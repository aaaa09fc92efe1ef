"""Our own paths. A checkout writes nothing outside of itself, so two checkouts can run side by
side; an installed package writes to the user's cache folder.

``LAKEHOUSE_CACHE`` names another folder for jars and temporary files.
"""

import os
from pathlib import Path
from typing import Final

from dbt_lakehouse.errors import CacheError

ROOT: Final = Path(__file__).resolve().parent.parent.parent


def _cache() -> Path:
    if given := os.environ.get("LAKEHOUSE_CACHE"):
        return Path(given).resolve()
    if (ROOT / "pyproject.toml").exists():
        return ROOT / ".cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cdc_lakehouse"


CACHE: Final = _cache()
LOG4J: Final = ROOT / "dbt_lakehouse" / "spark" / "log4j2.properties"
# Spark binds to it: an unresolvable host name must not stop a local session.
LOOPBACK: Final = "127.0.0.1"


def cache_folder(name: str) -> Path:
    """A folder of the cache, created if needed. Raises ``CacheError`` if it isn't writable."""
    folder = CACHE / name
    reason = "this user may not write there"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CacheError(
            f"the cache {folder} can't be written: {reason}; let this user write it, or name"
            " another folder by LAKEHOUSE_CACHE"
        )
    return folder
