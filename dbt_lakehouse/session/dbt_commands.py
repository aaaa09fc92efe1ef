"""Runs dbt's own commands inside those of `lakehouse`: in this process, so in the same session."""

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
# It gives the manifest back, which takes longer to write than a small project to parse.
_PARSE: Final = ("parse", "--no-write-json")
_FAILED: Final = ("error", "fail", "runtime error", "partial success")
_SEE_LOG: Final = "failed, dbt.log in the project's folder of logs says why"


class DbtError(LakehouseError):
    """A dbt command that failed; the message is dbt's, and ``result`` what it returns."""

    exit_code = 1

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result: Final = result


class ProjectError(DbtError):
    """A project that dbt can't read; what is in it has to be changed."""

    exit_code = 2


def run_dbt(
    project: Project,
    *arguments: str,
    manifest: Any = None,
    hear: Callable[[Any], None] | None = None,
) -> Any:
    """What a dbt command returns, run for the project as it was loaded. It prints nothing; its
    events go to ``hear``. With a ``manifest``, which it changes, it does not read the project.

    Raises ``DbtError``, ``ProjectError`` if all that it had to do was to read the project, and what
    was none of dbt's, an interrupt say, as it is.
    """
    # What it has to say of a failure is said below, and stands in its log. It counts who uses it by
    # a file that it leaves, and these are calls of ours.
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
    """Of a dbt command's results, those of nodes and hooks that are why it has failed."""
    return [each for each in results if str(each.status) in _FAILED]


def read_manifest(project: Project) -> Any:
    """dbt's manifest of the project, for those too who may not write into its folder.

    Raises ``ProjectError``.
    """
    with working("reading the project"):
        if all(map(may_write, (target_folder(project.root), log_folder(project.root)))):
            return run_dbt(project, *_PARSE)
        with TemporaryDirectory() as folder:
            return run_dbt(project, *_PARSE, "--target-path", folder, "--log-path", folder)


def may_write(folder: Path) -> bool:
    """Whether files can be made in a folder, which may still have to be made."""
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)
