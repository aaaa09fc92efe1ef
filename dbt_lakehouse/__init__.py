"""What dbt and the command line need around the decoders: session, jars, functions, landing,
commands.

dbt loads every top-level package whose name starts with ``dbt_`` and that has ``plugins``; that is
how plain ``dbt run`` finds an open Spark session with our functions in it.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    # Made on demand: `lakehouse decode` imports this package too and should not pay for dbt.
    if name == "plugins":
        from dbt_lakehouse.dbt.plugin import LakehousePlugin

        return [LakehousePlugin]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
