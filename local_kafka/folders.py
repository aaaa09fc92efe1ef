"""Data folders, with one broker at a time in each."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_kafka.broker import BrokerError


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Lock ``folder``, which need not exist yet, until the block ends.

    Raises ``BrokerError`` if another process has it locked. The lock is a file beside the folder,
    which the system unlocks when its process ends, however it ends.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BrokerError(f"another one runs already with the data in {folder}") from None
        yield
