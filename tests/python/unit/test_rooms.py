"""How the rooms of the house may use each other, and the JVM."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import ROOT

HANDLES: Final = ROOT / "dbt_lakehouse" / "spark" / "jvm.py"
# PySpark's private attributes that lead to the JVM.
PRIVATE: Final = re.compile(
    r"\._(?:jvm|jsc|jdf|jsparkSession|gateway|gateway_client|active_spark_context"
    r"|accumulatorServer|origin)\b|\"_origin\""
)


def sources() -> Iterator[Path]:
    """The product's own modules."""
    for folder in ("dbt", "dbt_lakehouse", "python_udfs", "local_kafka"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def test_one_module_has_the_private_handles_of_the_jvm() -> None:
    users = [path for path in sources() if PRIVATE.search(path.read_text())]

    assert users == [HANDLES]
