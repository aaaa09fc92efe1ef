"""The base class of the lake's parts."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.connections import LakehouseConnectionManager, LakehouseHandle

if TYPE_CHECKING:
    from dbt.adapters.lakehouse.lake import SparkLake


class LakePart:
    """A part of ``SparkLake``, through which it finds the other parts."""

    def __init__(self, lake: "SparkLake") -> None:
        self._lake: Final = lake

    @property
    def _connections(self) -> LakehouseConnectionManager:
        return self._lake.connections

    @property
    def _handle(self) -> LakehouseHandle:
        """The thread's connection."""
        return self._lake.handle

    @property
    def _spark(self) -> SparkSession:
        """The session of the thread's connection."""
        return self._lake.handle.session.spark
