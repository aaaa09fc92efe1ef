"""What a command says while it works, at a terminal and elsewhere."""

import logging
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from dbt.events.types import NodeFinished, NodeStart
from dbt_common.events.event_manager_client import cleanup_event_logger
from dbt_common.events.functions import fire_event

from dbt.adapters.lakehouse.connections.terminal import RunningNodes
from dbt_lakehouse import telling
from dbt_lakehouse.landing.progress import Reading
from dbt_lakehouse.telling import progress_text, tell, working


@contextmanager
def terminal() -> Iterator[int]:
    """Standard error is a terminal; what it shows is read here. (pytest would undo what a fixture
    does to it.)
    """
    shown, written = os.openpty()
    with pytest.MonkeyPatch.context() as patch, open(written, "w") as stream:
        patch.setattr(telling, "_PATIENCE", 0.05)
        # Not so often that a line fills the terminal while nobody reads.
        patch.setattr(telling, "_EVERY", 0.1)
        # A dbt command of another test may have been quiet.
        patch.setattr(telling, "_is_wanted", True)
        patch.setenv("TERM", "xterm")
        patch.setattr(sys, "stderr", stream)
        yield shown
    os.close(shown)


def until(shown: int, text: str) -> str:
    """What the terminal shows, up to this text; for any number of seconds 0 stands."""
    pattern = re.compile(re.escape(text).replace(r"\ 0\ s", r"\ \d+\ s").encode() + rb"\Z")
    seen = b""
    while not pattern.search(seen):
        assert select.select([shown], [], [], 60)[0], (text, seen)
        seen += os.read(shown, 1)
        assert len(seen) < 100_000, (text, seen[:1000])
    return re.sub(r"\d+ s\Z", "0 s", seen.decode())


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


def test_what_others_write_takes_the_lines_place() -> None:
    sentences: list[str] = []
    with terminal() as shown, telling.telling(sentences.append):
        console = telling.Beside(sys.stderr)
        with working("landing"):
            until(shown, "landing: 0 s")
            tell("landed")
            console.write("1 of 2 OK\n")
            assert until(shown, "1 of 2 OK\r\n").endswith("\r\x1b[K1 of 2 OK\r\n")
            until(shown, "\r\x1b[Klanding: 0 s")
        console.write("done\n")
        assert until(shown, "done\r\n").endswith("\r\x1b[Kdone\r\n")
    assert sentences == ["landed"]


def test_work_in_several_threads() -> None:
    with terminal() as shown, working("first"):
        until(shown, "first: 0 s")
        with working("second"):
            until(shown, "second: 0 s")
            # Quick work leaves the line to what takes long.
            longest = 0.0
            for _ in range(20):
                since = time.monotonic()
                with working("quick"):
                    time.sleep(0.01)
                longest = max(longest, time.monotonic() - since)
        seen = until(shown, "\r\x1b[Kfirst: 0 s")
        # On a machine with too much to do, it takes long too.
        assert "quick" not in seen or longest > telling._PATIENCE


@pytest.mark.parametrize("why", ["dumb", "not wanted"])
def test_a_terminal_that_gets_no_line(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    with terminal() as shown:
        if why == "dumb":
            monkeypatch.setenv("TERM", "dumb")
        else:
            monkeypatch.setattr(telling, "_is_wanted", False)
        with working("landing"):
            time.sleep(0.1)
        tell("next")
        assert until(shown, "next\r\n") == "next\r\n"


def test_each_node_of_dbt_has_its_line() -> None:
    # Others have left theirs.
    cleanup_event_logger()
    console = logging.getLogger("stdout_log")
    with terminal() as shown, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", sys.stderr)
        # As dbt makes it for a command.
        handler = logging.StreamHandler(sys.stdout)
        console.handlers[:], console.propagate = [handler], False
        # One that was quiet has left it at errors alone.
        console.setLevel(logging.INFO)
        flags = SimpleNamespace(QUIET=False, LOG_FORMAT="default")
        nodes = RunningNodes(flags, lambda: "3 of 4 tasks")
        model: dict[str, Any] = {
            "resource_type": "model",
            "unique_id": "model.p.users",
            "node_name": "users",
            "node_relation": {"schema": "gold", "alias": "users"},
        }
        fire_event(NodeStart(node_info=model))
        until(shown, "gold.users: 3 of 4 tasks, 0 s")
        console.warning("1 of 2 OK")
        assert until(shown, "1 of 2 OK\r\n").endswith("\r\x1b[K1 of 2 OK\r\n")
        fire_event(NodeFinished(node_info=model))
        test = {"resource_type": "unit_test", "unique_id": "unit_test.t", "node_name": "deletes"}
        fire_event(NodeStart(node_info=test))
        until(shown, "\r\x1b[Kunit test deletes: 3 of 4 tasks, 0 s")
        # It was interrupted.
        nodes.clear()
        console.warning("interrupted")
        assert until(shown, "interrupted\r\n").endswith("\r\x1b[Kinterrupted\r\n")
    cleanup_event_logger()
    console.handlers.clear()


def test_the_line_of_work() -> None:
    assert progress_text("starting Spark", "", 3.9) == "starting Spark: 3 s"
    assert progress_text("streaming", "landed 7", 125) == "streaming: landed 7, 2 min 5 s"
    reading = Reading(800_000_000, 120_000_000, 1_234_567)
    assert reading.how_far() == "120 of 800 MB, 1,234,567 messages"
