"""The current metadata files of the lake's tables and views."""

import gzip
from collections.abc import Callable

import msgspec

from dbt_lakehouse.errors import DamageError, ReadError
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.lake.catalog import Entry


def metadata_of(entry: Entry, read: Callable[[str], bytes]) -> bytes:
    """The content of a table's or view's metadata file (JSON). ``read`` gives the bytes of a file
    by its path, or by its address if it is not local.

    Raises ``ReadError`` and ``DamageError``.
    """
    file = str(path_of(entry.metadata) or entry.metadata)
    try:
        content = read(file)
        content = gzip.decompress(content) if is_zipped(entry.metadata) else content
        msgspec.json.decode(content)
    except OSError as error:
        raise ReadError(f"{file}, a file of {entry}, can't be read: {error}") from error
    except (EOFError, msgspec.DecodeError) as error:
        raise DamageError(
            f"{file} is cut short, a file of {entry}: restore it from a backup"
        ) from error
    return content


def is_zipped(address: str) -> bool:
    """Whether the address of a metadata file is that of a compressed one."""
    return address.endswith(".gz.metadata.json")
