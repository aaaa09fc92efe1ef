"""The entry point of this package: all that the command line uses of it (README.md)."""

import threading
from collections.abc import Callable

from dbt_lakehouse.commands.serve.access import Access, check_user, password_line
from dbt_lakehouse.session.project import Project

__all__ = ["Access", "check_user", "password_line", "serve"]


def serve(project: Project, access: Access, stopping: Callable[[], threading.Event]) -> None:
    """Answer queries until the event is set. ``stopping`` is called once Spark has started, which
    handles Ctrl-C itself until then.

    Raises ``ConfigurationError`` and ``SessionError``.
    """
    access.check()
    # `lakehouse password` needs no Spark.
    from dbt_lakehouse.commands.serve.server import answer

    answer(project, access, stopping)
