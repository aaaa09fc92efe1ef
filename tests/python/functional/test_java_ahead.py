"""A JVM that starts while dbt parses the project."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from dbt_lakehouse.config.paths import ROOT

# A process of its own: that of the tests has a JVM.
_SCRIPT = """
import json
from dbt_lakehouse.spark import java

def ahead(**settings):
    java.start_ahead(lambda: settings)
    return java._ahead

small = {"spark.driver.memory": "200m"}
first = ahead(**small).launched.result().process
taken = java.start_java(small)
taken.shutdown()
taken.proc.communicate()
other = ahead(**small).launched.result().process
unlike = java.start_java({"spark.driver.memory": "300m"})
heap = unlike.jvm.java.lang.Runtime.getRuntime().maxMemory() >> 20
unlike.shutdown()
unlike.proc.communicate()
unused = ahead(**small).launched.result().process
print(json.dumps({
    "takes it": taken.proc is first,
    "ends one with other settings": other.poll() == -9,
    "has its own": heap,
    "unused": unused.pid,
}))
"""


def test_a_jvm_that_was_started_ahead_is_taken_or_ended() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name[:6] != "SPARK_"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(said.stdout)
    assert found.pop("has its own") > 250
    unused = Path("/proc", str(found.pop("unused")))
    assert found == dict.fromkeys(found, True)
    deadline = time.monotonic() + 10
    while unused.exists() and "(java) Z" not in (unused / "stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "Traceback" not in said.stderr
