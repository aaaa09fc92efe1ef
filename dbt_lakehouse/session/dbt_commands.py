"""Run dbt's own commands inside those of `lakehouse`: in this process, and so in the same
session.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from dbt.cli.exceptions import DbtInternalException, DbtUsageException
from dbt.cli.main import dbtRunner
from dbt_common.exceptions import DbtBaseException

from dbt_lakehouse.config.mistakes import dbt_text
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.session.project import Project, log_folder, target_folder
from dbt_lakehouse.telling import working

_OF_DBT: Final = (DbtBaseException, DbtUsageException, DbtInternalException)
# It returns the manifest. To write that takes longer than to parse a small project.
_PARSE: Final = ("parse", "--no-write-json")
_FAILED: Final = ("error", "fail", "runtime error", "partial success")
_SEE_LOG: Final = "failed, see dbt.log in the project's log folder"


class DbtError(LakehouseError):
    """A failed dbt command. The message is dbt's, and ``result`` is what dbt returned."""

    exit_code = 1

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result: Final = result


class ProjectError(DbtError):
    """A project that dbt can't read: its contents have to be changed."""

    exit_code = 2


def run_dbt(
    project: Project,
    *arguments: str,
    manifest: Any = None,
    hear: Callable[[Any], None] | None = None,
) -> Any:
    """The result of a dbt command for the project as it was loaded. It prints nothing; its events
    go to ``hear``. With a ``manifest``, which it changes, it does not read the project.

    Raises ``DbtError``, ``ProjectError`` if the command was only to read the project, and
    exceptions other than dbt's, such as an interrupt, unchanged.
    """
    # Failures are reported below, and are in dbt's log. dbt counts its users by a file that it
    # leaves, and these calls are ours.
    ours = ["--log-level", "none", "--no-send-anonymous-usage-stats"]
    runner = dbtRunner(manifest, [] if hear is None else [hear])
    done = runner.invoke([*ours, *arguments, *project.options.arguments()])
    if done.success:
        return done.result
    if done.exception is not None and not isinstance(done.exception, _OF_DBT):
        raise done.exception
    failed = failed_nodes(getattr(done.result, "results", ()))
    messages = [str(each.message) for each in failed if each.message]
    said = "; ".join(messages) if done.exception is None else dbt_text(done.exception)
    kind = ProjectError if arguments[0] == _PARSE[0] else DbtError
    raise kind(f"dbt {arguments[0]}: {said or _SEE_LOG}", done.result) from done.exception


def failed_nodes(results: Iterable[Any]) -> list[Any]:
    """The nodes and hooks in a dbt command's results that made it fail."""
    return [each for each in results if str(each.status) in _FAILED]


def read_manifest(project: Project) -> Any:
    """dbt's manifest of the project, also for users who may not write into its folder.

    Raises ``ProjectError``.
    """
    with working("reading the project"):
        if all(map(may_write, (target_folder(project.root), log_folder(project.root)))):
            return run_dbt(project, *_PARSE)
        with TemporaryDirectory() as folder:
            return run_dbt(project, *_PARSE, "--target-path", folder, "--log-path", folder)


def may_write(folder: Path) -> bool:
    """Whether files can be created in a folder, which may not exist yet."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)
