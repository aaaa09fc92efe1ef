"""Spark's daemon, which forks a session's Python workers with their imports done. Otherwise each
import would take a second of CPU, and again after a minute without work.

Spark runs it as the module of ``spark.python.daemon.module``.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def pass_over_archives() -> None:
    """Import PySpark from its installed folder, and not from its archives, which Spark puts
    first.

    A process compiles what it imports from an archive. And until CPython's issue 103200 was fixed
    (3.11 has the bug), Python reads the directories of all archives it has searched again before
    each task: docs/where-the-time-goes.md has the cost.
    """
    sys.path[:] = without_archives(sys.path)
    # Python has searched the archives for this module.
    sys.path_importer_cache.clear()


def without_archives(path: list[str]) -> list[str]:
    """The module path without the archives of a PySpark that is also installed."""
    folders = [entry for entry in path if Path(entry).suffix not in (".zip", ".jar")]
    found = PathFinder.find_spec("pyspark", folders)
    if found is None or found.origin is None:
        return path
    installed = Path(found.origin).parent
    archives = (installed / "python/lib", installed / "jars")
    return [entry for entry in path if Path(entry).parent not in archives]


if __name__ == "__main__":
    pass_over_archives()
    from pyspark.daemon import manager

    import dbt_lakehouse.spark.payload_functions  # noqa: F401 (for the workers)

    manager()
