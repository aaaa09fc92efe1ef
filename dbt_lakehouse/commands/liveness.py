"""The file by which others see that a stream is alive (``--liveness``)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_EVERY_SECONDS: Final = 5.0


class Liveness:
    """A file that is touched; None: there is none."""

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
        """Within, touch it whenever work has come further, which another thread asks ``how_far``:
        work that hangs is not shown as alive.
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
                    # Who shows it next tells of what is wrong.
                    with suppress(OSError):
                        self.show()

        thread = threading.Thread(target=look, name="liveness", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            # Where not even the question comes back, it is not waited for.
            thread.join(every_seconds)
