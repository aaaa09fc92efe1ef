"""The page's server: on loopback alone, in threads of the process that starts it."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from werkzeug.serving import WSGIRequestHandler, make_server

from dbt_lakehouse.commands.page.app import app_of
from dbt_lakehouse.commands.page.lake import Lake
from dbt_lakehouse.config.paths import LOOPBACK
from dbt_lakehouse.errors import ConfigurationError


class _Quiet(WSGIRequestHandler):
    """Requests have keys of rows in them, which no log is to have."""

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Say nothing."""


@contextmanager
def served(lake: Lake, port: int) -> Iterator[str]:
    """The page of a lake is served within, at the address that this gives; port 0 is any that is
    free.

    Raises ``ConfigurationError``.
    """
    try:
        listening = socket.create_server((LOOPBACK, port))
    except OSError as error:
        raise ConfigurationError(
            f"port {port} of {LOOPBACK} can't be used: {os.strerror(error.errno or 0)}; choose"
            " another, or 0 for any that is free"
        ) from error
    with listening:
        # A socket of its own: where it has to open one, Werkzeug ends the process if it can't.
        server = make_server(
            LOOPBACK,
            port,
            app_of(lake),
            threaded=True,
            request_handler=_Quiet,
            fd=listening.fileno(),
        )
        thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{listening.getsockname()[1]}/"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
