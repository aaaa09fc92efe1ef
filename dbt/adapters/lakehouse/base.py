"""What the parts of the adapter share: the connection's session, and errors of one sentence."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, TypeVar, cast

from dbt.adapters.spark.impl import SparkAdapter
from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.connections import LakehouseConnectionManager, LakehouseHandle
from dbt_lakehouse.lake.tables import Table
from dbt_lakehouse.runs import tables

Result = TypeVar("Result")
Method = Callable[Concatenate[Any, ...], Result]


def told(method: Method[Result]) -> Method[Result]:
    """Makes dbt's errors, of one sentence, of Spark's and ours."""

    @wraps(method)
    def asked(adapter: "SessionAdapter", *arguments: Any, **options: Any) -> Result:
        with adapter.connections.exception_handler(f"adapter.{method.__name__}"):
            return method(adapter, *arguments, **options)

    return asked


class SessionAdapter(SparkAdapter):
    """dbt-spark's adapter with connections of ours."""

    ConnectionManager = LakehouseConnectionManager
    connections: LakehouseConnectionManager

    def look_at(self, name: Any) -> Table | None:
        """A table as it is now, None if there is none; once between a node's statements that may
        have written something.
        """
        looks = self.handle.looks
        if str(name) not in looks:
            looks[str(name)] = tables.look_at(self.spark, str(name))
        return looks[str(name)]

    @property
    def handle(self) -> LakehouseHandle:
        """The thread's connection."""
        return cast(LakehouseHandle, self.connections.get_thread_connection().handle)

    @property
    def spark(self) -> SparkSession:
        """The session of the thread's connection."""
        return self.handle.session.spark
