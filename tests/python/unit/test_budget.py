"""No payload takes more memory than 40 times its bytes plus 64 MiB, nor more than linear time."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbt_lakehouse.config.paths import ROOT
from python_udfs.core import paths
from python_udfs.core.budget import Budget
from python_udfs.core.errors import TooLarge
from python_udfs.core.limits import BUDGET_BYTES, BUDGET_FACTOR
from python_udfs.core.paths import PathTexts, path_text

# In a process of its own for each payload: the system refuses what is beyond the limit. The process
# it is forked from has loaded everything and decoded something already.
LIMITED = """
import os, resource, sys, time
from support.bombs import BOMBS, DIGEST
from python_udfs.registry import FORMATS, decode_batch

STEPS = bytes(100_000)

def size_of_process():
    return int(open("/proc/self/statm").read().split()[0]) * os.sysconf("SC_PAGE_SIZE")

def seconds(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result

def is_slow(taken, size):
    # Ten times as long as on a quiet machine, by what this one takes for a simple step with each of
    # a million bytes. That is asked only where it matters: no machine takes a hundredth of it.
    if taken < 0.04:
        return False
    simple = 10 * min(seconds(lambda: sum(1 for _ in STEPS))[0] for _ in range(3))
    return taken > simple * (40 + 700 * size / 1e6)

def decode_within_limits(format, name, part, payload):
    most = size_of_process() + 40 * len(payload) + 64 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    key, value = (payload, None) if part == "key" else (None, payload)
    taken, events = seconds(lambda: FORMATS[format](key, value))
    # One alone goes the same way, which is long for a large one.
    tried = part == "value" and len(payload) < 10**6
    fast = decode_batch(format, [key], [value]).payloads() if tried else []
    codes = {event.error_code for event in events}
    if not events or "decoder_failed" in codes or any(each != events for each in fast):
        print(format, name, part, "gives", codes)
    if is_slow(taken, len(payload)):
        print(format, name, part, "takes", taken, "s for", len(payload), "bytes")

for format, bombs in BOMBS.items():
    for name, make in bombs.items():
        for size in [100_000] + [2_000_000] * (name in sys.argv[1:]):
            for part in ("value", "key") if size < 10**6 else ("value",):
                payload = make(size if part == "value" else size // 4)
                if (child := os.fork()) == 0:
                    try:
                        decode_within_limits(format, name, part, payload)
                    except BaseException as error:
                        print(format, name, part, len(payload), repr(error)[:300])
                    sys.stdout.flush()
                    os._exit(0)
                if os.waitpid(child, 0)[1] != 0:
                    print(format, name, part, "killed")
print("done")
"""


LARGE = ("empty lists", "empty maps", "maps of integers", "a GeoJSON text with blanks")


def test_no_payload_exceeds_the_limits() -> None:
    """The largest of them where only a large one can."""
    result = subprocess.run(
        [sys.executable, "-c", LIMITED, *LARGE],
        cwd=ROOT / "tests/python",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (result.stdout, result.stderr) == ("done\n", "")


def test_a_budget() -> None:
    budget = Budget(1000)
    most = BUDGET_FACTOR * 1000 + BUDGET_BYTES
    budget.spend(most - 100)
    with pytest.raises(TooLarge, match=f"more than the {most} bytes"):
        budget.spend(101)
    # What was refused was not made, and something smaller may be.
    budget.spend(100)
    with pytest.raises(TooLarge):
        budget.spend_text("")
    wide, narrow = Budget(0), Budget(0)
    wide.spend_text("\U0001f600" * 1000)
    narrow.spend_text("n" * 1000)
    assert narrow.left - wide.left > 2900


def test_what_paths_have_in_common_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    def counted(step: int) -> str:
        steps.append(step)
        return f"[{step}]"

    monkeypatch.setattr(paths, "step_text", counted)
    deep: paths.Path = None
    for _ in range(240):
        deep = (deep, 0)
    texts = PathTexts()
    for number in range(1000):
        assert texts.of(((deep, number), 5)) == "$" + "[0]" * 240 + f"[{number}][5]"
    assert len(steps) == 240 + 2 * 1000


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9) | st.text(max_size=3))))
def test_path_texts_are_those_of_each_path(steps: list[tuple[int, int | str]]) -> None:
    """Each path is one of those before and a step more."""
    known: list[paths.Path] = [None]
    texts = PathTexts()
    for parent, step in steps:
        known.append((known[parent % len(known)], step))
    for path in [*known, *reversed(known)]:
        assert texts.of(path) == path_text(path)
