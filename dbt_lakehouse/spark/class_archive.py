"""A class data sharing archive for Spark's JVM. Loading and verifying classes takes half of the
time until a session is open; with the archive, the JVM maps them from a file instead.

``lakehouse jars --archive`` makes it once, and it can always be deleted. The JVM uses it only
with the Java and the jars that it was made from; otherwise, or without an archive, it loads
classes as usual and silently.
"""

import os
from typing import Final

from dbt_lakehouse.config.paths import CACHE
from dbt_lakehouse.spark.java import java_option

ARCHIVE: Final = CACHE / "classes.jsa"
# Tells the process that makes the archive where to write it.
TARGET: Final = "LAKEHOUSE_CLASS_ARCHIVE"
# Otherwise it warns, on standard output, of an archive that it can't use.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options() -> str:
    """The JVM options that use the archive; empty without an archive."""
    if target := os.environ.get(TARGET):
        return f"{_QUIET} {java_option(f'-XX:ArchiveClassesAtExit={target}')}"
    if not ARCHIVE.exists():
        return ""
    return f"{_QUIET} {java_option(f'-XX:SharedArchiveFile={ARCHIVE}')}"
