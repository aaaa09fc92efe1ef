"""`lakehouse --version`: which versions work together here."""

from importlib.metadata import version

from dbt_lakehouse.spark.jars import JARS

_PACKAGES = ("dbt-core", "dbt-spark", "pyspark", "duckdb")


def versions() -> str:
    """A line for each part."""
    iceberg = next(jar for jar in JARS if jar.coordinates.startswith("org.apache.iceberg:"))
    found = {"lakehouse": version("cdc_lakehouse")}
    found |= {name: version(name) for name in _PACKAGES}
    found["iceberg"] = iceberg.coordinates.split(":")[2]
    return "\n".join(f"{name} {number}" for name, number in found.items())
