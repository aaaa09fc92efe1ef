"""An archive of the classes that Spark's JVM loads: half of the time until a session is open is
their loading and verification, and with the archive (class data sharing) the JVM maps them from a
file instead.

It is made once, by ``lakehouse jars --archive``, and can always be thrown away. The JVM uses it
only with the Java and the jars that it was made of; where they have changed, or there is none, it
loads classes as ever and says nothing.
"""

import os
from typing import Final

from dbt_lakehouse.config.paths import CACHE
from dbt_lakehouse.spark.java import java_option

ARCHIVE: Final = CACHE / "classes.jsa"
# Where the process that makes the archive is told to write it.
TARGET: Final = "LAKEHOUSE_CLASS_ARCHIVE"
# Else it warns, on standard output, of an archive that it can't use.
_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off"


def java_options() -> str:
    """The options by which a JVM uses the archive; none if there is no archive."""
    if target := os.environ.get(TARGET):
        return f"{_QUIET} {java_option(f'-XX:ArchiveClassesAtExit={target}')}"
    if not ARCHIVE.exists():
        return ""
    return f"{_QUIET} {java_option(f'-XX:SharedArchiveFile={ARCHIVE}')}"
