"""The dbt adapter of the lake, `type: lakehouse` in a profile: dbt-spark's adapter for a Spark
session in this process, which it opens with our jars, settings and functions.

dbt imports ``dbt.adapters.<type>``. So this folder has no ``dbt/__init__.py`` and no
``dbt/adapters/__init__.py``: those are dbt's, and they include this folder because the checkout
is on Python's path.
"""

from pathlib import Path

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.lakehouse.connections import LakehouseCredentials
from dbt.adapters.lakehouse.impl import LakehouseAdapter

Plugin = AdapterPlugin(
    # dbt's protocol has methods that its own base class declares differently.
    adapter=LakehouseAdapter,  # type: ignore[arg-type]
    credentials=LakehouseCredentials,
    include_path=str(Path(__file__).parents[2] / "include" / "lakehouse"),
    dependencies=["spark"],
)
