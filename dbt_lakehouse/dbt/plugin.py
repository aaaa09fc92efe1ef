"""The dbt plugin: opens the lake's Spark session before dbt asks for one, and lands what is
configured.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from dbt.plugins.manager import dbtPlugin
from dbt_common.exceptions import DbtRuntimeError

from dbt_lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from dbt_lakehouse.config.project import Project

# The commands that never run SQL; each other one gets a session.
COMMANDS_WITHOUT_SQL: Final = frozenset({"clean", "deps", "init", "list", "parse", "serve"})
# The commands that change the lake, and so begin by landing what is new.
COMMANDS_THAT_LAND: Final = frozenset({"build", "run"})
# The commands that write tables from what they read of others; a macro that is run may do so.
COMMANDS_THAT_BUILD: Final = COMMANDS_THAT_LAND | {"retry", "run-operation"}


class LakehousePlugin(dbtPlugin):
    """Loaded by every dbt command once profile and project are known."""

    def initialize(self) -> None:
        """Open the session for commands that run SQL, and land what is new for those that
        build.
        """
        context: dict[str, Any] = click.get_current_context().obj
        command = context["flags"].WHICH
        credentials = context["profile"].credentials
        if command in COMMANDS_WITHOUT_SQL or getattr(credentials, "method", None) != "session":
            return
        # Imported here: the other commands should not pay for Spark.
        from dbt.adapters.spark.session import Cursor, SessionConnectionWrapper

        from dbt_lakehouse.config.project import Project, variables_of
        from dbt_lakehouse.dbt import key_ranges, late_inserts, table_looks
        from dbt_lakehouse.spark import evaluated_views
        from dbt_lakehouse.spark.functions import register_references

        try:
            project = Project(
                dict(credentials.server_side_parameters),
                variables_of(context["project"], context["flags"].VARS),
                credentials.schema,
            )
            spark = _open(project, command)
        except LakehouseError as error:
            raise DbtRuntimeError(f"cdc_lakehouse\n{error}") from error
        # For the tests, which `dbt run` has none of.
        if command != "run":
            register_references(spark)
        cursor: Any = Cursor
        cursor.execute = table_looks.forgetting(evaluated_views.execute)
        table_looks.offer_to_macros()
        key_ranges.offer_to_macros()
        late_inserts.offer_to_macros()
        click.get_current_context().call_on_close(late_inserts.insert_all)
        # On Ctrl-C dbt asks each connection to cancel; dbt-spark's answer is nothing, so the
        # statement would go on.
        wrapper: Any = SessionConnectionWrapper
        wrapper.cancel = lambda _: spark.sparkContext.cancelAllJobs()
        # dbt-spark would set these again before every statement, and so undo a model's own ``set``.
        credentials.server_side_parameters.clear()


def _open(project: "Project", command: str) -> "SparkSession":
    """The session for a command, with the run's lock and what is new landed if it builds."""
    from dbt_lakehouse.config.project import lock_patience
    from dbt_lakehouse.config.topics import TopicMatcher, topic_rules
    from dbt_lakehouse.lake.locks import run_lock
    from dbt_lakehouse.landing.files import configured_captures, land_again
    from dbt_lakehouse.landing.kafka.batch import land_kafka, landing_text

    kafka = project.kafka() if command in COMMANDS_THAT_LAND else None
    spark = project.open_session()
    # Patterns are Java's: Spark tells which are none.
    TopicMatcher(spark._jvm, topic_rules(project.variables.get("topics")))
    if command in COMMANDS_THAT_BUILD:
        patience = lock_patience(project.variables)
        lock = run_lock(spark)
        lock.wait(f"dbt {command}", patience)
        # When dbt is done with the command; a process can run several.
        click.get_current_context().call_on_close(lock.release)
    if command in COMMANDS_THAT_LAND:
        if captures := configured_captures(project.variables):
            result = land_again(spark, captures, patience)
            print(
                f"landed {result.landed} messages of {len(captures)} captures,"
                f" {result.skipped} were there"
            )
        if kafka is not None:
            landing = land_kafka(spark, kafka)
            print(landing_text(landing))
            # The other topics are built first.
            click.get_current_context().call_on_close(partial(_end_with, landing.stalled))
    return spark


def _end_with(stalled: "Mapping[str, LakehouseError]") -> None:
    """End dbt's command with an error if topics have stalled."""
    from dbt_lakehouse.landing.kafka.continuity import raise_stalled

    try:
        raise_stalled(stalled)
    except LakehouseError as error:
        raise click.ClickException(str(error)) from error
