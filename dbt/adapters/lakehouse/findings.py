"""Messages for the results of our tests, in place of the number of rows that they have found."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dbt_common.exceptions import DbtRuntimeError
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from dbt.adapters.lakehouse.lake import SparkLake
from dbt_lakehouse import findings
from dbt_lakehouse.declared import misfits
from dbt_lakehouse.spark.rows import collected

if TYPE_CHECKING:
    from pyspark.sql import Row


class Findings:
    """Queries the rows that a command's tests have found."""

    def __init__(self, lake: SparkLake) -> None:
        self._lake: Final = lake

    def tell(self, results: Sequence[Any], found: Callable[[str], "list[Row]"]) -> None:
        """Set the messages of our tests' results to their findings, in place of the number of
        rows. dbt prints them when the command ends.
        """
        from dbt_lakehouse.report.runs import is_asked

        asked = 0
        for result in results:
            test = findings.own_test(result.node)
            if test is None or not result.failures:
                continue
            # A result that can't be queried again keeps dbt's own message.
            with suppress(CapturedException, Py4JJavaError, DbtRuntimeError, KeyError):
                if test == misfits.TEST:
                    self._tell_misfits(result)
                    continue
                rows = []
                if is_asked(result.execution_time, asked):
                    asked += 1
                    rows = found(result.node.compiled_code)
                table, columns = self._tested(result.node, test)
                first = rows[0].asDict() if rows else {}
                result.message = findings.told(test, table, columns, result.failures, first)

    def _tested(self, node: Any, test: str) -> tuple[str, Sequence[str]]:
        """The table that a test is of, and the columns that it names."""
        if (table := findings.TESTS[test].table) is not None:
            return f"{self._lake.connections.project().silver}.{table}", ()
        tested = self._lake.nodes.get(getattr(node, "attached_node", None) or "")
        if tested is not None:
            table = f"{tested.schema}.{tested.alias}"
        else:
            # A source, whose id ends with its schema and its name.
            table = ".".join(node.depends_on.nodes[0].split(".")[-2:])
        return table, node.test_metadata.kwargs.get("columns") or ()

    def _tell_misfits(self, result: Any) -> None:
        log = self._lake.nodes[result.node.attached_node]
        table = self._lake.Relation.create(schema=log.schema, identifier=log.alias)
        rows = self._lake.spark.sql(misfits.summary_sql(result.node.compiled_code)).collect()
        found = [misfits.Misfits(*row) for row in rows]
        declared = self._lake.declared.followed(log.config.meta["change_log"], table)
        result.message = misfits.told(str(table), declared, found)

    def rows_of(self, sql: str) -> "list[Row]":
        """The first rows of a test's query; empty if it can't be run again."""
        from dbt_lakehouse.report.runs import ROWS_SHOWN

        with suppress(CapturedException, Py4JJavaError):
            return collected(self._lake.spark.sql(f"select * from (\n{sql}\n) limit {ROWS_SHOWN}"))
        return []
