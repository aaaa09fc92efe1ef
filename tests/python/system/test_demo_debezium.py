"""The demo with a database of its own, as a user starts it."""

import re

import pytest

from local_kafka import demo_debezium


@pytest.mark.real
def test_gold_equals_the_shop_in_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo_debezium.main(["--seconds", "20", "--rate", "10"]) == 0
    said = capfd.readouterr().out
    assert re.search(r"gold equals the source, value by value, .* orders \d\d+,", said), said
    # Nothing is left behind, no lock either.
    folder = demo_debezium.FOLDER
    assert [*folder.parent.glob(f"{folder.name}*")] == []
