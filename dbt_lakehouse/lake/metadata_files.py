"""The files that say what a table or view of the lake is now."""

import gzip
from collections.abc import Callable

import msgspec

from dbt_lakehouse.errors import DamageError, ReadError
from dbt_lakehouse.lake.addresses import path_of
from dbt_lakehouse.lake.catalog import Entry


def metadata_of(entry: Entry, read: Callable[[str], bytes]) -> bytes:
    """What the file of a table or view says (JSON); ``read`` gives the bytes of a file by its path,
    or by its address where it is not on this machine.

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
    """Whether a metadata file is compressed, by its address."""
    return address.endswith(".gz.metadata.json")
