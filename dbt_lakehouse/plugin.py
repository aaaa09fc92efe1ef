"""The dbt plugin: opens the lake's Spark session before dbt asks for one, and lands what is
configured.
"""

from typing import Any, Final

import click
from dbt.plugins.manager import dbtPlugin
from dbt_common.exceptions import DbtRuntimeError

from python_udfs.registry import FORMATS

# The commands that never run SQL; each other one gets a session.
COMMANDS_WITHOUT_SQL: Final = frozenset({"clean", "deps", "init", "list", "parse", "serve"})
# The commands that change the lake, and so begin by landing what is new.
COMMANDS_THAT_LAND: Final = frozenset({"build", "run"})


class LakehousePlugin(dbtPlugin):
    """Loaded by every dbt command once profile and project are known."""

    def initialize(self) -> None:
        """Open the session for commands that run SQL; land captures for ``run`` and ``build``."""
        context: dict[str, Any] = click.get_current_context().obj
        command = context["flags"].WHICH
        credentials = context["profile"].credentials
        if command in COMMANDS_WITHOUT_SQL or getattr(credentials, "method", None) != "session":
            return
        # Imported here: the other commands should not pay for Spark.
        from dbt.adapters.spark.session import SessionConnectionWrapper

        from dbt_lakehouse import landing
        from dbt_lakehouse.functions import register_reference_fold
        from dbt_lakehouse.jars import JarError
        from dbt_lakehouse.session import ConfigurationError, open_session

        try:
            _check_topics(_variables(context))
            spark = open_session(credentials.server_side_parameters)
            if command in COMMANDS_THAT_LAND:
                landing.land_configured(spark, _variables(context))
            register_reference_fold(spark)
        except (ConfigurationError, JarError, landing.LandingError) as error:
            raise DbtRuntimeError(f"cdc_lakehouse\n{error}") from error
        # On Ctrl-C dbt asks each connection to cancel; dbt-spark's answer is nothing, so the
        # statement would go on.
        setattr(  # noqa: B010 (a typed assignment to a method is refused)
            SessionConnectionWrapper, "cancel", lambda _: spark.sparkContext.cancelAllJobs()
        )
        # dbt-spark would set these again before every statement, and so undo a model's own ``set``.
        credentials.server_side_parameters.clear()


def _check_topics(variables: dict[str, Any]) -> None:
    """Raises ``ConfigurationError`` for an entry of ``vars.topics`` that can't be meant."""
    from dbt_lakehouse.session import ConfigurationError

    for entry in variables.get("topics") or []:
        named = [name for name in ("topic", "pattern") if name in entry]
        if len(named) != 1 or entry.get("format") not in FORMATS:
            raise ConfigurationError(
                f"vars.topics in dbt_project.yml: {entry} needs a topic or a pattern, and a format:"
                f" one of {', '.join(FORMATS)}"
            )


def _variables(context: dict[str, Any]) -> dict[str, Any]:
    """The project's vars, those of its own scope and of ``--vars`` on top."""
    project = context["project"]
    declared = project.vars.to_dict()
    return {**declared, **declared.get(project.project_name, {}), **context["flags"].VARS}
