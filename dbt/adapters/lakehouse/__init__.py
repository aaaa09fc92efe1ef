"""The dbt adapter of the lake, `type: lakehouse` in a profile: dbt-spark's for the Spark session of
this process, which it opens with our jars, settings and functions.

dbt finds it by its place: it imports ``dbt.adapters.<type>``. So this folder has no
``dbt/__init__.py`` and no ``dbt/adapters/__init__.py``; they are dbt's, and take in this folder
because the checkout is on Python's path.
"""

from pathlib import Path

from dbt.adapters.base.plugin import AdapterPlugin

from dbt.adapters.lakehouse.connections import LakehouseCredentials
from dbt.adapters.lakehouse.impl import LakehouseAdapter

Plugin = AdapterPlugin(
    # dbt's protocol is of methods that its own base class declares otherwise.
    adapter=LakehouseAdapter,  # type: ignore[arg-type]
    credentials=LakehouseCredentials,
    include_path=str(Path(__file__).parents[2] / "include" / "lakehouse"),
    dependencies=["spark"],
)
