"""Addresses of files as Iceberg writes them.

The path in an address is literal, without percent encoding: ``#``, ``?`` and ``%41`` stand for
themselves. Hadoop and DuckDB read addresses the same way.
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
    """The part of a local file's address before its path."""
    found = _LOCAL.match(address)
    return "" if found is None else found[0]
