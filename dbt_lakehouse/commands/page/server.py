"""The page's server: on loopback only, in threads of the process that starts it."""

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
    """Requests contain keys of rows, which no log may have."""

    def log_request(self, code: Any = "-", size: Any = "-") -> None:
        """Log nothing."""


@contextmanager
def served(lake: Lake, port: int) -> Iterator[str]:
    """Serve the page of a lake within the context, at the address that it yields; port 0 means
    any free one.

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
        # Our own socket: if Werkzeug can't open one, it ends the process.
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
