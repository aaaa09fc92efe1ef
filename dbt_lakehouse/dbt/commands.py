"""Runs dbt's own commands inside those of `lakehouse`: in this process, so in the same session."""

from typing import Any, Final

from dbt.cli.main import dbtRunner

from dbt_lakehouse.config.project import Project
from dbt_lakehouse.errors import LakehouseError

_SEE_LOG: Final = "failed, dbt.log in the project's folder of logs says why"


class DbtError(LakehouseError):
    """A dbt command that failed; the message is dbt's."""

    exit_code = 1


def run_dbt(project: Project, *arguments: str) -> Any:
    """What a dbt command returns, run for the project as it was loaded.

    Raises ``DbtError``.
    """
    flags = []
    for name, value in project.options._asdict().items():
        if value is not None:
            flags += [f"--{name.replace('_', '-')}", value]
    done = dbtRunner().invoke(["--quiet", "--no-use-colors", *arguments, *flags])
    if done.success:
        return done.result
    messages = [str(each.message) for each in getattr(done.result, "results", []) if each.message]
    raise DbtError(f"dbt {arguments[0]}: {done.exception or '; '.join(messages) or _SEE_LOG}")
