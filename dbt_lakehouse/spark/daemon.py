"""Spark's daemon, which forks the Python workers of a session, with what they call imported: each
would take a second of CPU for that otherwise, and again after a minute without work.

Spark runs it as the module of ``spark.python.daemon.module``.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path


def pass_over_archives() -> None:
    """Import PySpark from where it is installed, and not from its archives, which Spark puts first.

    A process compiles what it imports from an archive. And until CPython's issue 103200 was mended
    (3.11 has it), Python reads the directories of all archives that it has looked into again before
    each task: docs/where-the-time-goes.md has what that takes.
    """
    sys.path[:] = without_archives(sys.path)
    # Python has looked into the archives for this module.
    sys.path_importer_cache.clear()


def without_archives(path: list[str]) -> list[str]:
    """Where to look for modules, without the archives of a PySpark that is installed there too."""
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
