"""The file that shows that a stream is alive (``--liveness``)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_EVERY_SECONDS: Final = 5.0


class Liveness:
    """A file to touch; None for no file."""

    def __init__(self, file: Path | None) -> None:
        self._file: Final = file

    def show(self) -> None:
        """Touch it. Raises ``OSError``."""
        if self._file is not None:
            self._file.touch()

    @contextmanager
    def while_it_gets_on(
        self, how_far: Callable[[], str], every_seconds: float = _EVERY_SECONDS
    ) -> Iterator[None]:
        """Touch it within the context whenever work has progressed, which another thread asks
        ``how_far``: work that hangs does not look alive.
        """
        if self._file is None:
            yield
            return
        is_done = threading.Event()

        def look() -> None:
            before = how_far()
            while not is_done.wait(every_seconds):
                if (found := how_far()) != before:
                    before = found
                    # The next touch reports the error.
                    with suppress(OSError):
                        self.show()

        thread = threading.Thread(target=look, name="liveness", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            # If even the question hangs, it is not waited for.
            thread.join(every_seconds)
