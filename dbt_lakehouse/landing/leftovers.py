"""Remove the files that a failed landing leaves in bronze's folder.

Iceberg removes the files of a failed task, but first it closes them, which also fails on a full
disk: then a file stays that no snapshot names, and each retry leaves one more.
"""

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.lake import bronze
from dbt_lakehouse.lake.iceberg import load_table
from dbt_lakehouse.lake.locks import run_lock
from dbt_lakehouse.spark.jvm import java_context
from dbt_lakehouse.telling import tell
from dbt_lakehouse.texts import counted

# Iceberg's names of data files: the number of Spark's partition and of its task, then a part that
# all files of a write share, then the number of the file.
_DATA_FILE: Final = re.compile(r"0*(\d+)-(\d+)-.+\.parquet")
# The longest that tasks may take to stop.
_TASKS_END_SECONDS: Final = 10.0
# File systems store times less precisely.
_CLOCK_SECONDS: Final = 2.0


@contextmanager
def leaving_no_files(spark: SparkSession) -> Iterator[None]:
    """Append to bronze, holding the landing lock; if Spark fails, the files that it has written
    are removed.

    Files that might belong to concurrent writers stay for ``lakehouse maintain``.
    """
    context = spark.sparkContext
    started = time.time() - _CLOCK_SECONDS
    tag = f"landing-{uuid.uuid4()}"
    context.addJobTag(tag)
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        # It is unknown then whether the commit succeeded.
        if "CommitStateUnknownException" not in str(error):
            _try_to_remove(spark, tag, started)
        raise
    finally:
        context.removeJobTag(tag)


def _try_to_remove(spark: SparkSession, tag: str, started: float) -> None:
    """Remove the files, and ignore errors, which the caller meets anyway."""
    try:
        # Commands that rewrite bronze's files hold this lock.
        lock = run_lock(spark)
        if lock.take("removing the files of a failed landing"):
            try:
                removed = _remove(spark, tag, started)
            finally:
                lock.release()
            if removed:
                tell(f"removed {counted(removed, 'file')} of the failed landing")
    except (Py4JError, CapturedException, LakehouseError, OSError):
        return


def _remove(spark: SparkSession, tag: str, started: float) -> int:
    """Remove the data files that tasks with the tag have written and no snapshot names. Returns
    their number.
    """
    store = java_context(spark.sparkContext).statusStore()
    _wait_for_tasks(store)
    tasks = _tasks(spark, store, tag)
    table = load_table(spark, bronze.TABLE)
    named = _named_since(table, started)
    io = table.io()
    removed = 0
    for folder in _folders(table, started):
        for file in list(io.listPrefix(folder).iterator()):
            name = _name(file)
            found = _DATA_FILE.fullmatch(name)
            if (
                found is not None
                and (int(found[1]), int(found[2])) in tasks
                and file.createdAtMillis() >= started * 1_000
                and name not in named
            ):
                io.deleteFile(file.location())
                removed += 1
    return removed


def _wait_for_tasks(store: Any) -> None:
    """Wait until no running task could still write."""
    deadline = time.monotonic() + _TASKS_END_SECONDS
    while time.monotonic() < deadline:
        executors = store.executorList(True)
        if not any(executors.apply(i).activeTasks() for i in range(executors.size())):
            return
        time.sleep(0.1)


def _tasks(spark: SparkSession, store: Any, tag: str) -> set[tuple[int, int]]:
    """The partition and task numbers of all tasks in the jobs with the tag."""
    tracker = java_context(spark.sparkContext).statusTracker()
    tasks = set()
    for job in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job)
        for stage in info.get().stageIds() if info.isDefined() else ():
            found = store.taskList(stage, 0, 2**31 - 1)
            for i in range(found.size()):
                task = found.apply(i)
                tasks.add((task.index(), task.taskId()))
    return tasks


def _named_since(table: Any, started: float) -> set[str]:
    """The names of the data files that snapshots have added since ``started``."""
    return {
        _name(file)
        for snapshot in list(table.snapshots())
        if snapshot.timestampMillis() >= started * 1_000
        for file in list(snapshot.addedDataFiles(table.io()))
    }


def _name(file: Any) -> str:
    """A file's name within its folder, which is unique. Tables and file systems write folders
    differently (file:/, file:///).
    """
    return str(file.location()).rpartition("/")[2]


def _folders(table: Any, started: float) -> list[str]:
    """The folders of the days on which rows landed between ``started`` and now."""
    days = {datetime.fromtimestamp(moment, UTC).date() for moment in (started, time.time())}
    locations = table.locationProvider()
    return [str(locations.newDataLocation(f"landed_at_day={day}/")) for day in sorted(days)]
