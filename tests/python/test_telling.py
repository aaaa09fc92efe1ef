"""What a command says while it works, at a terminal and elsewhere."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dbt_lakehouse import telling
from dbt_lakehouse.landing.files import _Reading
from dbt_lakehouse.telling import progress_text, tell, working


@contextmanager
def terminal() -> Iterator[int]:
    """Standard error is a terminal; what it shows is read here. (pytest would undo what a fixture
    does to it.)
    """
    shown, written = os.openpty()
    with pytest.MonkeyPatch.context() as patch, open(written, "w") as stream:
        patch.setattr(telling, "_PATIENCE", 0.05)
        patch.setattr(telling, "_EVERY", 0.01)
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stderr", stream)
        yield shown
    os.close(shown)


def until(shown: int, text: str) -> str:
    """What the terminal shows, up to this text."""
    seen = b""
    while not seen.endswith(text.encode()):
        seen += os.read(shown, 1)
    return seen.decode()


def test_a_terminal_shows_what_takes_its_time() -> None:
    with terminal() as shown:
        with working("landing", lambda: "3 of 4 MB"):
            assert until(shown, "landing: 3 of 4 MB, 0 s") == "\r\x1b[Klanding: 3 of 4 MB, 0 s"
            with working("waiting"):
                until(shown, "\r\x1b[Kwaiting: 0 s")
            # A sentence takes the line's place, and it is back below.
            tell("another host has landed")
            until(shown, "\r\x1b[Kanother host has landed\r\n")
            until(shown, "\r\x1b[Klanding: 3 of 4 MB, 0 s")
        tell("landed")
        assert until(shown, "landed\r\n").endswith("\r\x1b[Klanded\r\n")
        # What is quick is not shown.
        with working("quick"):
            tell("done")
        assert until(shown, "done\r\n") == "done\r\n"


def test_a_log_has_sentences_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(telling, "_PATIENCE", 0)
    monkeypatch.setattr(telling, "_EVERY", 0.01)
    with working("landing"):
        time.sleep(0.05)
        tell("landed")
    assert capsys.readouterr().err == "landed\n"


def test_dbt_tells_in_its_own_way() -> None:
    sentences: list[str] = []
    with terminal() as shown:
        with telling.telling(sentences.append), working("landing"):
            time.sleep(0.1)
            tell("landed")
        tell("next")
        assert until(shown, "next\r\n") == "next\r\n"
    assert sentences == ["landed"]


def test_the_line_of_work() -> None:
    assert progress_text("starting Spark", "", 3.9) == "starting Spark: 3 s"
    assert progress_text("streaming", "landed 7", 125) == "streaming: landed 7, 2 min 5 s"
    reading = _Reading(800_000_000, 120_000_000, 1_234_567)
    assert reading.how_far() == "120 of 800 MB, 1,234,567 messages"
