"""What macros can ask of the lake: methods of ``adapter``, answered without SQL where Iceberg
itself knows.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from multiprocessing.context import SpawnContext
from typing import Any, Concatenate, Final, TypeVar, cast

from dbt.adapters.base.meta import available
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.contracts.connection import AdapterRequiredConfig
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.spark.column import SparkColumn
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.exceptions import DbtRuntimeError
from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.connections import (
    COMMANDS_THAT_LAND,
    LOGGER,
    LakehouseConnectionManager,
    LakehouseHandle,
)
from dbt_lakehouse.dbt import tables
from dbt_lakehouse.dbt.key_ranges import arguments_of, key_ranges, ranges_to_write
from dbt_lakehouse.dbt.tables import Look
from dbt_lakehouse.lake.catalog import CATALOG
from dbt_lakehouse.lake.iceberg import expire_own_history
from dbt_lakehouse.telling import telling

Result = TypeVar("Result")
Method = Callable[Concatenate["LakehouseAdapter", ...], Result]


def _told(method: Method[Result]) -> Method[Result]:
    """Makes dbt's errors, of one sentence, of Spark's."""

    @wraps(method)
    def asked(adapter: "LakehouseAdapter", *arguments: Any, **options: Any) -> Result:
        with adapter.connections.exception_handler(f"adapter.{method.__name__}"):
            return method(adapter, *arguments, **options)

    return asked


class LakehouseAdapter(SparkAdapter):
    """dbt-spark's adapter for Iceberg tables in the Spark session of this process."""

    ConnectionManager = LakehouseConnectionManager
    connections: LakehouseConnectionManager

    def __init__(self, config: AdapterRequiredConfig, mp_context: SpawnContext) -> None:
        super().__init__(config, mp_context)
        # By relation.
        self._notes: Final[dict[str, dict[str, str]]] = {}

    # -- the catalog, as dbt asks of it

    @_told
    def list_schemas(self, database: str) -> list[str]:
        return tables.schemas_of(self._spark)

    def check_schema_exists(self, database: str, schema: str) -> bool:
        return schema in self.list_schemas(database)

    @_told
    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """Tables and views. dbt-spark asks with ``show table extended``, which Iceberg's catalogs
        don't support, and its fallback misses views: a relation that dbt doesn't see is rebuilt at
        each run without a word.
        """
        schema = str(schema_relation.schema)
        found = dict.fromkeys(tables.tables_in(self._spark, schema), RelationType.Table)
        found.update(dict.fromkeys(tables.views_in(self._spark, schema), RelationType.View))
        return [
            self.Relation.create(
                schema=schema,
                identifier=name,
                type=kind,
                is_iceberg=kind == RelationType.Table,
            )
            for name, kind in found.items()
        ]

    @available.parse_list
    @_told
    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        """The columns of a table or view, none if it isn't there. dbt-spark asks with ``describe
        extended``, for which Spark adds up the sizes of all files.
        """
        return [
            SparkColumn(
                column=field.name,
                dtype=field.dataType.simpleString(),
                table_schema=relation.schema,
                table_name=relation.name,
                table_type=relation.type,
                column_index=index,
            )
            for index, field in enumerate(tables.columns_of(self._spark, relation.render()))
        ]

    def cleanup_connections(self) -> None:
        """dbt calls it when a command ends, however it ends.

        Raises ``DbtRuntimeError`` on Ctrl-C, of which dbt would show a traceback of its own.
        """
        interrupted = isinstance(sys.exception(), KeyboardInterrupt)
        try:
            super().cleanup_connections()
        finally:
            self.connections.end_command()
        if interrupted:
            raise DbtRuntimeError(
                "interrupted: Spark's jobs were cancelled, what was committed is whole, and the"
                " next run goes on from there"
            ) from None

    # -- tables

    @available.parse_none
    @_told
    def look_at_table(self, relation: BaseRelation) -> Look | None:
        """A table as it is now, None if there is no such table::

            properties  its properties: text by name
            snapshot    the id of its current snapshot as text, ``none`` for an empty table
            sequence    that snapshot's sequence number, 0 for an empty table
            comments    the descriptions of its columns by name, empty for none

        A node looks at a table once, and again after each command of its own that may have written
        something.
        """
        looks, name = self._handle.looks, relation.render()
        if name not in looks:
            looks[name] = tables.look_at(self._spark, name)
        return looks[name]

    @available.parse_none
    @_told
    def has_snapshot(self, relation: BaseRelation, snapshot: str) -> bool:
        """Whether a table has the snapshot of this id, which is gone once it has expired."""
        return tables.has_snapshot(self._spark, relation.render(), snapshot)

    @available.parse_none
    @_told
    def rows_since(self, relation: BaseRelation, snapshot: str) -> int | None:
        """How many rows more a table has than in the snapshot of this id (``none``: before the
        first); None if that has expired, or if who wrote one of the two didn't count.
        """
        return tables.rows_since(self._spark, relation.render(), snapshot)

    @available.parse_none
    @_told
    def may_have_rows(
        self, relation: BaseRelation, conditions: Sequence[tuple[str, str, Any]]
    ) -> bool:
        """Whether a table may have rows that meet all conditions, see ``tables.may_have_rows``;
        False is certain.
        """
        return tables.may_have_rows(self._spark, relation.render(), conditions)

    @available.parse_none
    @_told
    def set_table_properties(self, relation: BaseRelation, values: Mapping[str, Any]) -> None:
        """Set properties of a table and leave all others, in one commit."""
        tables.set_properties(self._spark, relation.render(), values)
        self._handle.looks.clear()

    @available.parse_none
    @_told
    def describe_columns(
        self, relation: BaseRelation, columns: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Write the descriptions of a table's columns (dbt's, by name) that differ, in one commit.
        A view has those that it was created with.
        """
        if relation.is_view:
            return
        descriptions = {name: str(column["description"]) for name, column in columns.items()}
        tables.describe_columns(self._spark, relation.render(), descriptions)
        self._handle.looks.clear()

    @available.parse_none
    @_told
    def expire_own_history(self, relation: BaseRelation) -> None:
        """Expire the earlier snapshots of a table whose history nobody reads, once it has many."""
        expire_own_history(self._spark, f"{CATALOG}.{relation.render()}")
        self._handle.looks.clear()

    @available.parse(lambda *_, **__: {})
    def noted_properties(self, relation: BaseRelation) -> dict[str, str]:
        """The properties to be written with the rows of the model whose table this is: what it
        reads, and more. For macros to note and to read as long as the dbt command runs: a model's
        compilation and its materialization share nothing else.
        """
        return self._notes.setdefault(relation.render(), {})

    # -- a model's statements

    @available.parse_none
    @_told
    def evaluate(self, name: str, query: str) -> int:
        """Evaluate a query once, as a temporary view for the statements of this model that follow;
        the number of its rows. See ``spark.evaluated_views``.
        """
        self.connections.log_statement(f"evaluate {name} as {query}")
        return self._handle.session.evaluate(name, query)

    @available.parse_none
    @_told
    def drop_evaluated(self, prefix: str) -> None:
        """Drop what this model has evaluated under names that begin so."""
        self._handle.session.views.drop_all(prefix)

    @available.parse_none
    @_told
    def hold_key_ranges(self, name: str, relation: str, column: str) -> int:
        """Hold the ranges in which the values of a relation's column are, as ``:name_low_0`` and
        ``:name_high_0`` and so on of this model's statements that follow; how many: 0 if its type
        has none. See ``dbt.key_ranges``.
        """
        ranges = key_ranges(self._spark, relation, column)
        self._handle.session.arguments.update(arguments_of(name, ranges))
        return len(ranges)

    @available.parse_none
    @_told
    def ranges_to_write(self, log: str, key: Sequence[str]) -> int:
        """How many ranges of keys, and files, a table should be written in by its log."""
        return ranges_to_write(self._spark, log, key)

    @available.parse_none
    def insert_late(
        self, relation: BaseRelation, columns: Sequence[str], values: Sequence[Any]
    ) -> None:
        """Keep a row, its values as SQL, to be inserted with those of other models when the command
        is done.
        """
        self.connections.late_inserts.keep(relation.render(), columns, values)

    # -- landing

    @available.parse_list
    @_told
    def land(self) -> list[str]:
        """Land what is new in the project's captures and in Kafka, if the command is one that
        lands; a sentence for each of the two.
        """
        if self.connections.command not in COMMANDS_THAT_LAND:
            return []
        from dbt_lakehouse.landing.configured import land_configured

        with telling(LOGGER.info):
            return land_configured(self._spark, self.connections.project())

    @property
    def _handle(self) -> LakehouseHandle:
        return cast(LakehouseHandle, self.connections.get_thread_connection().handle)

    @property
    def _spark(self) -> SparkSession:
        return self._handle.session.spark
