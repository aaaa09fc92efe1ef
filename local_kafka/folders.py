"""Data folders, with one broker at a time in each."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from local_kafka.broker import BrokerError


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lock ``folder``, which need not exist yet, until the block ends.

    Raises ``BrokerError`` if another process has it locked. The lock is a file beside the folder,
    which is removed in the end. The system unlocks it when its process ends, however it ends.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    file = folder.with_name(f"{folder.name}.lock")
    while True:
        with file.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BrokerError(f"another one runs already with the data in {folder}") from None
            # Between opening and locking, its process may have removed it: another file may have
            # its name by now, and another process that one's lock.
            if not _is_at(lock, file):
                continue
            try:
                yield
            finally:
                # Still locked: no other process takes a file for the lock that is about to go.
                file.unlink(missing_ok=True)
            return


def _is_at(stream: IO[str], file: Path) -> bool:
    """Whether a path still names the file that was opened."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), file.stat())
    except FileNotFoundError:
        return False
