"""Places. Nothing is written outside the checkout, so two checkouts run side by side."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
CACHE: Final = ROOT / ".cache"
LOG4J: Final = ROOT / "dbt_lakehouse" / "spark" / "log4j2.properties"
# Spark binds to it: a host name that does not resolve must not stop a local session.
LOOPBACK: Final = "127.0.0.1"
