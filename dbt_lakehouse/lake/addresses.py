"""Addresses of files as Iceberg writes them down.

The path in one is the file's as it is, without a percent encoding: ``#``, ``?`` and ``%41`` stand
for themselves. Hadoop and DuckDB read them so too.
"""

import re
from pathlib import Path
from typing import Final

_LOCAL: Final = re.compile(r"(?:file:(?://)?)?(?=/)")


def path_of(address: str) -> Path | None:
    """The path that an address names on this machine; None for other storage."""
    found = _LOCAL.match(address)
    return None if found is None else Path(address[found.end() :])


def beginning_of(address: str) -> str:
    """What an address of a file of this machine has before its path."""
    found = _LOCAL.match(address)
    return "" if found is None else found[0]
