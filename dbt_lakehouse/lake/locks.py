"""Locks of a lake among the processes of one host: files that the kernel unlocks when their holder
dies, however it dies.

Several hosts are kept apart by the tables themselves (``bronze.append``); a lock only spares them
the work that the loser would have done.
"""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from pyspark.sql import SparkSession

from dbt_lakehouse.config.paths import CACHE
from dbt_lakehouse.errors import LockedError
from dbt_lakehouse.lake.catalog import CATALOG_URI, SQLITE
from dbt_lakehouse.telling import tell

_RETRY_SECONDS: Final = 0.2


class LakeLock:
    """One named lock of a lake. A process may take it again while it holds it."""

    # Open files by path: what this process holds, and how often.
    _held: ClassVar[dict[Path, tuple[int, int]]] = {}

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._path = _folder(spark) / f"{name}.lock"

    def take(self, purpose: str, patience: float = 0.0) -> bool:
        """Take the lock unless another process holds it, ``patience`` seconds long; whether this
        one has it now.

        ``purpose`` is what others are told while it is held.
        """
        deadline = time.monotonic() + patience
        while not self._take(purpose):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_RETRY_SECONDS)
        return True

    def _take(self, purpose: str) -> bool:
        if self._path in self._held:
            descriptor, count = self._held[self._path]
            self._held[self._path] = (descriptor, count + 1)
            return True
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        holder = {"pid": os.getpid(), "purpose": purpose, "since": f"{datetime.now(UTC):%FT%TZ}"}
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder).encode())
        self._held[self._path] = (descriptor, 1)
        return True

    def release(self) -> None:
        """Give the lock back; the file stays, for removing it would race with the next holder."""
        descriptor, count = self._held.pop(self._path)
        if count > 1:
            self._held[self._path] = (descriptor, count - 1)
        else:
            os.close(descriptor)

    @contextmanager
    def held(self, purpose: str, patience: float) -> Iterator[None]:
        """Hold the lock, waiting ``patience`` seconds for it at most, and say so.

        Raises ``LockedError`` when they are over.
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

    def held_elsewhere(self) -> bool:
        """Whether another process has the lock now. Who looks does not hinder another who looks."""
        if self._path in self._held or not self._path.exists():
            return False
        with self._path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def holder(self) -> str:
        """Who holds the lock, in words."""
        try:
            holder: dict[str, Any] = json.loads(self._path.read_text())
        except (OSError, ValueError):
            # It has just been taken, or just been given back.
            return "another process"
        return "`{purpose}` (process {pid}, since {since})".format(**holder)


def run_lock(spark: SparkSession) -> LakeLock:
    """What a dbt command holds while it builds tables: two at once would both read what is new, and
    both add it.
    """
    return LakeLock(spark, "run")


def landing_lock(spark: SparkSession) -> LakeLock:
    """What a process of this host holds while it appends to bronze."""
    return LakeLock(spark, "landing")


def stream_lock(spark: SparkSession, topic: str) -> LakeLock:
    """What a stream holds as long as it lands a topic (bronze's name)."""
    return LakeLock(spark, f"stream-{topic}")


def streamed_topics(spark: SparkSession, topics: Iterable[str]) -> dict[str, str]:
    """The topics that a stream of another process lands now, and which."""
    locks = {topic: stream_lock(spark, topic) for topic in sorted(topics)}
    return {topic: lock.holder() for topic, lock in locks.items() if lock.held_elsewhere()}


def _folder(spark: SparkSession) -> Path:
    """Where the locks of the session's lake are: beside a SQLite catalog, so that every checkout
    finds them, else in this checkout, by the catalog's address.
    """
    uri = spark.conf.get(CATALOG_URI, "") or ""
    if uri.startswith(SQLITE):
        return Path(uri.removeprefix(SQLITE).partition("?")[0]).parent / "locks"
    return CACHE / "locks" / hashlib.sha256(uri.encode()).hexdigest()[:16]
