"""The lake for the models of a dbt command: an implementation of ``build.lake.Lake`` by Spark,
Iceberg and dbt's graph.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

from dbt.adapters.spark.impl import SparkAdapter
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.invocation import get_invocation_id
from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.connections import LakehouseConnectionManager, LakehouseHandle
from dbt.adapters.lakehouse.lake.catalog import Catalog
from dbt.adapters.lakehouse.lake.commits import Commits
from dbt.adapters.lakehouse.lake.declared import Declared
from dbt.adapters.lakehouse.lake.events import Events
from dbt.adapters.lakehouse.lake.functions import Functions
from dbt.adapters.lakehouse.lake.runs import Runs
from dbt.adapters.lakehouse.lake.statements import Statements
from dbt_lakehouse.texts import sql_text


class SparkLake:
    """The parts of the lake. State that differs by thread is in the thread's connection."""

    Relation: Final = SparkRelation

    def __init__(self, adapter: SparkAdapter) -> None:
        self._adapter: Final = adapter
        self.sql: Final = Statements(self)
        self.catalog: Final = Catalog(self)
        self.runs: Final = Runs(self)
        self.commits: Final = Commits(self)
        self.declared: Final = Declared(self)
        self.events: Final = Events(self)
        self.functions: Final = Functions(self)

    @property
    def args(self) -> Any:
        """The options of dbt's command."""
        return self._adapter.config.args

    @property
    def connections(self) -> LakehouseConnectionManager:
        """The connections of the command's threads."""
        return cast(LakehouseConnectionManager, self._adapter.connections)

    @property
    def handle(self) -> LakehouseHandle:
        """The thread's connection."""
        return cast(LakehouseHandle, self.connections.get_thread_connection().handle)

    @property
    def spark(self) -> SparkSession:
        """The session of the thread's connection."""
        return self.handle.session.spark

    @property
    def nodes(self) -> Mapping[str, Any]:
        """The project's nodes by their unique ids, from dbt's manifest."""
        return getattr(self._adapter.get_macro_resolver(), "nodes", {})

    @property
    def macros(self) -> Any:
        """dbt's manifest, for finding macros."""
        return self._adapter.get_macro_resolver()

    @property
    def only_compiles(self) -> bool:
        """Whether the command compiles SQL without running any."""
        return self.connections.only_compiles

    @property
    def is_full_refresh(self) -> bool:
        """Whether the command rebuilds all tables."""
        return bool(getattr(self.args, "full_refresh", False))

    def tell(self, message: str) -> None:
        """Tell the user."""
        self.connections.tell(message)

    def count(self, table: str, counters: Mapping[str, int | None], as_of: str) -> None:
        """Add counters of a table to those of the command; they are written when it ends."""
        self.connections.late_inserts.keep(
            self.catalog.own_table("fold_counters").render(),
            ["invocation_id", "gold_table", "as_of", *counters],
            [
                sql_text(get_invocation_id()),
                sql_text(table),
                f"timestamp '{as_of}'",
                *counters.values(),
            ],
        )
