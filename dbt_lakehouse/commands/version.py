"""`lakehouse --version`: the versions of the parts that work together."""

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from dbt_lakehouse.extras import missing

_PACKAGES: Final = ("dbt-core", "dbt-spark", "pyspark", "duckdb")


def versions() -> str:
    """A line for each part."""
    found = {"lakehouse": version("cdc_lakehouse")}
    found |= {name: _installed(name) for name in _PACKAGES}
    if not missing("lake"):
        from dbt_lakehouse.spark.jars import JARS

        iceberg = next(jar for jar in JARS if jar.coordinates.startswith("org.apache.iceberg:"))
        found["iceberg"] = iceberg.coordinates.split(":")[2]
    return "\n".join(f"{name} {number}" for name, number in found.items())


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
