"""Locks of a lake, among all processes that write to it.

They are stored where the catalog is, so every writer of the lake can see them:

- Beside a SQLite catalog, which is local to a host, they are files that the kernel unlocks when
  their holder dies, however it dies.
- In any other catalog, which many hosts and checkouts may share, they are leases
  (``dbt_lakehouse.lake.leases``). Their holder renews them, and they expire when it dies.

A lock saves the loser useless work, and keeps two runs from building the same tables. It is not a
guarantee: a machine that was asleep can lose a lease. The tables themselves refuse what must not
happen twice (``bronze.append``).
"""

import fcntl
import hashlib
import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LockedError, WriteError
from dbt_lakehouse.lake import leases
from dbt_lakehouse.lake.catalog import (
    CATALOG_URI,
    WAREHOUSE,
    checkpoint,
    note_committed,
    sqlite_file,
)
from dbt_lakehouse.lake.moved_catalog import refuse_closed
from dbt_lakehouse.telling import tell

# Of locks, beside a SQLite catalog.
_FOLDER: Final = "locks"
# An observer takes a stream's lock for an instant, so a stream waits that long.
_LOOKS_SECONDS: Final = 1.0


class LakeLock(ABC):
    """A named lock of a lake. A process may take it again while it holds it."""

    _retry_seconds: ClassVar[float]

    def __init__(self, check: Callable[[], object]) -> None:
        """``check`` raises ``ConfigurationError`` if the lake can't be written any more."""
        self._check: Final = check

    @abstractmethod
    def _take(self, purpose: str) -> bool:
        """Take the lock unless another process holds it. Returns whether this process has
        it now.
        """

    @abstractmethod
    def release(self) -> None:
        """Release the lock."""

    @abstractmethod
    def held_elsewhere(self) -> bool:
        """Whether another process has the lock now. Observers don't hinder each other."""

    @abstractmethod
    def holder(self) -> str:
        """A description of the lock's holder."""

    def take(self, purpose: str, patience: float = 0.0) -> bool:
        """Take the lock unless another process holds it, waiting up to ``patience`` seconds.
        Returns whether this process has it now.

        ``purpose`` is shown to other processes while the lock is held.
        """
        deadline = time.monotonic() + patience
        while not self._take(purpose):
            if time.monotonic() >= deadline:
                return False
            time.sleep(self._retry_seconds)
        return True

    @contextmanager
    def held(self, purpose: str, patience: float) -> Iterator[None]:
        """Hold the lock, waiting up to ``patience`` seconds with a message.

        Raises ``LockedError`` after that time, and ``ConfigurationError`` if the lake has moved
        to another catalog meanwhile.
        """
        self.wait(purpose, patience)
        try:
            yield
        finally:
            self.release()

    def wait(self, purpose: str, patience: float) -> None:
        """Take the lock as ``held`` does."""
        if self.take(purpose):
            return
        tell(f"waiting for {self.holder()}")
        if not self.take(purpose, patience):
            raise LockedError(
                f"gave up after {patience:g} s: {self.holder()} is at work on this lake"
            )
        try:
            self._check()
        except BaseException:
            self.release()
            raise


def lake_lock(spark: SparkSession, name: str) -> LakeLock:
    """The lock of that name of the session's lake."""
    uri = spark.conf.get(CATALOG_URI, "") or ""
    catalog = sqlite_file(uri)
    if catalog is None:
        return _LeasedLock(spark, name)
    warehouse = spark.conf.get(WAREHOUSE, "") or ""
    return _FileLock(partial(refuse_closed, spark), catalog, warehouse, name)


def locks_beside(
    catalog: Path, warehouse: str, names: Sequence[str], check: Callable[[], object]
) -> list[LakeLock]:
    """The locks with those names of a SQLite catalog's lake, for commands without a session;
    ``check`` raises ``ConfigurationError`` if the lake has moved to another catalog.
    """
    return [_FileLock(check, catalog, warehouse, name) for name in names]


def run_lock(spark: SparkSession) -> LakeLock:
    """The lock that a dbt command holds while it builds tables: two commands at once would both
    read what is new, and both add it.
    """
    return lake_lock(spark, "run")


def landing_lock(spark: SparkSession) -> LakeLock:
    """The lock that a process holds while it appends to bronze."""
    return lake_lock(spark, "landing")


def stream_lock(spark: SparkSession, topic: str) -> LakeLock:
    """The lock that a stream holds while it lands a topic (bronze's name)."""
    # Not the name itself: that may be too long for a file's name, and ``land_as`` is any text.
    return lake_lock(spark, f"stream-{hashlib.sha256(topic.encode()).hexdigest()[:32]}")


def hold_topic(held: ExitStack, spark: SparkSession, topic: str, purpose: str) -> None:
    """Take the stream's lock of a topic until ``held`` closes. Raises ``LockedError``."""
    lock = stream_lock(spark, topic)
    if not lock.take(purpose, _LOOKS_SECONDS):
        raise LockedError(f"topic {topic} is landed already, by {lock.holder()}")
    held.callback(lock.release)


def streamed_topics(spark: SparkSession, topics: Iterable[str]) -> dict[str, str]:
    """The topics that streams of other processes land now, with their descriptions."""
    locks = {topic: stream_lock(spark, topic) for topic in sorted(topics)}
    return {topic: lock.holder() for topic, lock in locks.items() if lock.held_elsewhere()}


def running_streams(spark: SparkSession) -> list[str]:
    """The descriptions of other processes' streams that land any topic now."""
    catalog = sqlite_file(spark.conf.get(CATALOG_URI, "") or "")
    if catalog is None:
        names = [*leases.current(spark)]
    else:
        names = [file.stem for file in (catalog.parent / _FOLDER).glob("*.lock")]
    locks = [lake_lock(spark, name) for name in sorted(names) if name.startswith("stream-")]
    return [lock.holder() for lock in locks if lock.held_elsewhere()]


def held_beside(catalog: Path) -> dict[str, str]:
    """The locks beside a SQLite catalog that are held now, with their holders' descriptions."""
    files = sorted((catalog.parent / _FOLDER).glob("*.lock"))
    return {file.stem: _holder(file) for file in files if _is_held(file)}


def _is_held(file: Path) -> bool:
    with file.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _holder(file: Path) -> str:
    try:
        holder: dict[str, object] = json.loads(file.read_text())
    except (OSError, ValueError):
        # It has just been taken or released.
        return "another process"
    return "`{purpose}` (process {pid}, since {since})".format(**holder)


class _FileLock(LakeLock):
    """A lock file with the kernel's lock on it."""

    _retry_seconds = 0.2

    # File descriptors by path, with the number of times that this process holds the lock.
    _held: ClassVar[dict[Path, tuple[int, int]]] = {}

    def __init__(
        self, check: Callable[[], object], catalog: Path, warehouse: str, name: str
    ) -> None:
        super().__init__(check)
        self._catalog: Final = catalog
        self._warehouse: Final = warehouse
        self._path: Final = catalog.parent / _FOLDER / f"{name}.lock"

    def _take(self, purpose: str) -> bool:
        if self._path in self._held:
            descriptor, count = self._held[self._path]
            self._held[self._path] = (descriptor, count + 1)
            return True
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise WriteError(
                f"the lock {self._path} can't be written: {error.strerror}; users who may only"
                " read the lake have `lakehouse sql`, `show` and `status`"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        holder = {"pid": os.getpid(), "purpose": purpose, "since": f"{datetime.now(UTC):%FT%TZ}"}
        # On a full disk other processes don't see the holder.
        with suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.write(descriptor, json.dumps(holder).encode())
        self._held[self._path] = (descriptor, 1)
        return True

    def release(self) -> None:
        """Release the lock. The file stays, since removing it would race with the next holder."""
        descriptor, count = self._held.pop(self._path)
        if count > 1:
            self._held[self._path] = (descriptor, count - 1)
        else:
            # A long-lived process, such as a stream, ends each piece of its work here.
            checkpoint(self._catalog)
            note_committed(self._catalog, self._warehouse)
            os.close(descriptor)

    def held_elsewhere(self) -> bool:
        return self._path not in self._held and self._path.exists() and _is_held(self._path)

    def holder(self) -> str:
        return _holder(self._path)


class _LeasedLock(LakeLock):
    """A lease in the catalog."""

    _retry_seconds = 1.0

    # Leases by catalog and name, with the number of times that this process holds them.
    _held: ClassVar[dict[tuple[str, str], tuple[leases.HeldLease, int]]] = {}

    def __init__(self, spark: SparkSession, name: str) -> None:
        super().__init__(partial(refuse_closed, spark))
        self._spark: Final = spark
        self._name: Final = name
        self._key: Final = (leases.catalog_of(spark), name)

    def _take(self, purpose: str) -> bool:
        if self._key in self._held:
            lease, count = self._held[self._key]
            self._held[self._key] = (lease, count + 1)
            return True
        taken = leases.take(self._spark, self._name, purpose)
        if taken is None:
            return False
        self._held[self._key] = (taken, 1)
        return True

    def release(self) -> None:
        lease, count = self._held.pop(self._key)
        if count > 1:
            self._held[self._key] = (lease, count - 1)
        else:
            lease.give_back()

    def held_elsewhere(self) -> bool:
        return self._key not in self._held and self._name in leases.current(self._spark)

    def holder(self) -> str:
        lease = leases.current(self._spark).get(self._name)
        return "another process" if lease is None else str(lease)
