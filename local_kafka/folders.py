"""Data folders: one broker at a time."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_kafka.broker import BrokerError


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Keep others away from ``folder``, which need not be there yet, until the block ends.

    Raises ``BrokerError`` if another process is in such a block. The lock is a file beside the
    folder, which the system unlocks when its process ends, however it ends.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BrokerError(f"another one runs already with the data in {folder}") from None
        yield
