"""Leases in the catalog: locks among all processes that share it, on whatever host.

The table ``bronze.leases`` has no rows. The summary of its current snapshot names the holders:

    lakehouse.leases   {"run": {"id": ..., "purpose": "dbt run", "host": ..., "pid": ...,
                                "since": ..., "until": seconds since the epoch}, ...}

A lease is taken, renewed and given back by an empty snapshot that replaces the current one. It is
committed once, without retries, against the metadata from which the leases were read. That is
compare-and-swap with every catalog: those with a database or a metastore swap the metadata's
location, and a REST catalog asserts that the branch is still at the same snapshot. (Table
properties would not do: REST asserts nothing about them.) The same commit removes the earlier
snapshots, so the table stays small.

A holder renews its leases every ``RENEWAL_SECONDS`` and loses them ``LEASE_SECONDS`` after the
last renewal, which is how long others wait for a killed holder. The clocks of hosts may differ by
less than the difference between the two.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LakehouseError, LockedError
from dbt_lakehouse.lake.catalog import CATALOG, CATALOG_URI
from dbt_lakehouse.lake.iceberg import load_table
from dbt_lakehouse.lake.names import LEASES
from dbt_lakehouse.spark.jvm import java_class
from dbt_lakehouse.telling import tell

TABLE: Final = f"{CATALOG}.{LEASES}"
LEASE_SECONDS: Final = 60.0
RENEWAL_SECONDS: Final = 15.0

SUMMARY: Final = "lakehouse.leases"
_ATTEMPTS: Final = 20
_CHECKED: Final = "What each writes is checked: one of them may have to start over"
# The exceptions of catalogs if the table is not, or may not be, the one that the commit was made
# from, and Iceberg's if another commit has just removed that metadata.
_CONFLICTS: Final = (
    "NotFoundException",
    "CommitFailedException",
    "CommitStateUnknownException",
    "ValidationException",
    "BadRequestException",
)


class Lease(NamedTuple):
    """The holder of a name, and when the lease expires unless it is renewed (seconds since the
    epoch).
    """

    id: str
    purpose: str
    host: str
    pid: int
    since: str
    until: float

    def __str__(self) -> str:
        return f"`{self.purpose}` (process {self.pid} on {self.host}, since {self.since})"


_Leases = dict[str, Lease]


class HeldLease:
    """A lease of this process, renewed until it is given back."""

    def __init__(self, keeper: "_Keeper", name: str, lease_id: str) -> None:
        self._keeper: Final = keeper
        self._name: Final = name
        self._id: Final = lease_id

    def give_back(self) -> None:
        """Release the lease at once. If Spark or the catalog has gone, it expires."""
        self._keeper.give_back(self._name, self._id)


def catalog_of(spark: SparkSession) -> str:
    """The address of the session's catalog."""
    return str(spark.conf.get(CATALOG_URI, ""))


def take(spark: SparkSession, name: str, purpose: str) -> HeldLease | None:
    """Take the lease of this name; None if another process holds it."""
    return _Keeper.of(spark).take(name, purpose)


def current(spark: SparkSession) -> dict[str, Lease]:
    """The leases that are held now, by name."""
    return _unexpired(_State(spark).leases)


def unexpired(summary: str | None) -> dict[str, Lease]:
    """The leases in a summary's text that are held now, by name."""
    return _unexpired(_parsed(summary))


def _parsed(summary: str | None) -> _Leases:
    return {name: Lease(**fields) for name, fields in json.loads(summary or "{}").items()}


def _unexpired(leases: _Leases) -> _Leases:
    now = time.time()
    return {name: lease for name, lease in leases.items() if lease.until > now}


# --- The table ------------------------------------------------------------------------------------


class _State:
    """The table as it is now."""

    def __init__(self, spark: SparkSession) -> None:
        self._table: Final = _loaded(spark)
        self._operations: Final = self._table.operations()
        self._base: Final = self._operations.current()
        self._snapshot: Final = self._base.currentSnapshot()
        self.leases: Final = self._read()

    def _read(self) -> _Leases:
        text = None if self._snapshot is None else self._snapshot.summary().get(SUMMARY)
        return _parsed(text)

    def replace(self, leases: _Leases) -> bool:
        """Replace the leases that were read by these; False if another process has meanwhile
        written others.
        """
        text = json.dumps({name: lease._asdict() for name, lease in leases.items()})
        earlier = list(self._base.snapshots())
        try:
            # Reads the current snapshot's manifest list, unless it has been removed meanwhile.
            snapshot = self._table.newFastAppend().set(SUMMARY, text).apply()
            builder = java_class("org.apache.iceberg.TableMetadata").buildFrom(self._base)
            builder.setBranchSnapshot(snapshot, "main")
            if earlier:
                ids = java_class("java.util.ArrayList")()
                for each in earlier:
                    ids.add(each)
                builder.removeSnapshots(ids)
            self._operations.commit(self._base, builder.build())
        except Py4JJavaError as error:
            if not _is_conflict(error) and not self._is_superseded():
                raise
            return False
        for each in earlier:
            # A leftover is a file of some hundred bytes.
            with suppress(Py4JJavaError):
                self._table.io().deleteFile(each.manifestListLocation())
        return True

    def _is_superseded(self) -> bool:
        """Whether another commit came first. That commit removes the files that this process
        reads, so a reader's exception depends on how far it was.
        """
        now = self._operations.refresh()
        return bool(now.metadataFileLocation() != self._base.metadataFileLocation())


def _loaded(spark: SparkSession) -> Any:
    try:
        return load_table(spark, TABLE)
    except (Py4JJavaError, AnalysisException):
        # The first attempt.
        spark.sql(
            f"create table if not exists {TABLE} (nothing string comment 'the table has no rows')"
            " using iceberg"
            " comment 'Who is at work on the lake: the summary of the current snapshot'"
            " tblproperties ("
            "'write.metadata.delete-after-commit.enabled' = 'true',"
            " 'write.metadata.previous-versions-max' = '5')"
        )
        return load_table(spark, TABLE)


def _is_conflict(error: Py4JJavaError) -> bool:
    cause = error.java_exception
    while cause is not None:
        if cause.getClass().getSimpleName() in _CONFLICTS:
            return True
        cause = cause.getCause()
    return False


# --- Those that this process holds ----------------------------------------------------------------


class _Keeper:
    """Takes, renews and releases the leases of this process in one catalog."""

    _keepers: ClassVar[dict[str, "_Keeper"]] = {}

    def __init__(self) -> None:
        self._spark: SparkSession
        self._held: Final[_Leases] = {}
        # Guards the table and the held leases: commits of one process need not conflict.
        self._lock: Final = threading.RLock()
        self._changed: Final = threading.Condition(self._lock)
        self._renewing = False

    @classmethod
    def of(cls, spark: SparkSession) -> "_Keeper":
        """The keeper for the session's catalog."""
        keeper = cls._keepers.setdefault(catalog_of(spark), cls())
        keeper._spark = spark
        return keeper

    def take(self, name: str, purpose: str) -> HeldLease | None:
        lease = Lease(
            id=str(uuid.uuid4()),
            purpose=purpose,
            host=socket.gethostname(),
            pid=os.getpid(),
            since=f"{datetime.now(UTC):%FT%TZ}",
            until=0.0,
        )

        def with_it(leases: _Leases) -> _Leases | None:
            # The lease is there already if a commit succeeded whose answer was lost.
            if leases.get(name, lease).id != lease.id:
                return None
            return {**leases, name: _renewed(lease)}

        with self._lock:
            if not self._change(with_it):
                return None
            self._held[name] = lease
            if not self._renewing:
                self._renewing = True
                # Messages of the renewal go where this thread's messages go.
                renew = partial(copy_context().run, self._renew)
                threading.Thread(target=renew, name="leases", daemon=True).start()
        return HeldLease(self, name, lease.id)

    def give_back(self, name: str, lease_id: str) -> None:
        def without_it(leases: _Leases) -> _Leases | None:
            return {other: lease for other, lease in leases.items() if lease.id != lease_id}

        with self._lock:
            if self._held.pop(name, None) is None:
                # It was lost, which has been reported.
                return
            self._changed.notify()
            try:
                self._change(without_it)
            except (Py4JError, PySparkException, LakehouseError, OSError):
                # Spark or the catalog has gone, so the lease is not renewed any more.
                return

    def _change(self, change: Callable[[_Leases], _Leases | None]) -> bool:
        """Replace the held leases by the result of ``change``; False if that gives None. Raises
        ``LockedError`` if other commits come first again and again.
        """
        for attempt in range(_ATTEMPTS):
            state = _State(self._spark)
            leases = change(_unexpired(state.leases))
            if leases is None:
                return False
            if state.replace(leases):
                return True
            time.sleep(0.05 * (attempt + 1) * (1 + uuid.uuid4().int % 4))
        raise LockedError(
            f"gave up: {_ATTEMPTS} times others have changed {TABLE} meanwhile, or its files are"
            " missing"
        )

    def _renew(self) -> None:
        """Renew the held leases until there are none left."""
        while True:
            with self._lock:
                # A lease may have been released before this thread began.
                if self._held:
                    self._changed.wait(RENEWAL_SECONDS)
                if not self._held:
                    self._renewing = False
                    return
                try:
                    self._renew_once()
                except (Py4JError, PySparkException, LakehouseError, OSError):
                    # Retry later: a thread that ended here would let all leases expire. If the
                    # trouble lasts, they do.
                    continue

    def _renew_once(self) -> None:
        # Lost leases, with their present holder.
        lost: dict[str, Lease | None] = {}

        def with_ours(leases: _Leases) -> _Leases:
            # An attempt that conflicted is repeated.
            lost.clear()
            for name, lease in self._held.items():
                there = leases.get(name)
                if there is None or there.id != lease.id:
                    lost[name] = there
                if there is None or there.id == lease.id:
                    leases[name] = _renewed(lease)
            return leases

        self._change(with_ours)
        for name, other in lost.items():
            purpose = self._held[name].purpose
            if other is None:
                # Another process may have had the lease in the meantime without a trace.
                tell(
                    f"{purpose}: this process or the catalog was held up for longer than a lease"
                    f" lasts ({LEASE_SECONDS:.0f} s), and others may have been at work. {_CHECKED}"
                )
            else:
                del self._held[name]
                tell(
                    f"{purpose}: this process was held up for too long, and {other} has taken its"
                    f" place. {_CHECKED}"
                )


def _renewed(lease: Lease) -> Lease:
    return lease._replace(until=time.time() + LEASE_SECONDS)
