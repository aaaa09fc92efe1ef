"""Spark's daemon, which forks the Python workers of a session, with what they call imported: each
would take a second of CPU for that otherwise, and again after a minute without work.

Spark runs it as the module of ``spark.python.daemon.module``.
"""

from pyspark.daemon import manager

import dbt_lakehouse.spark.payload_functions  # noqa: F401 (for the workers)

if __name__ == "__main__":
    manager()
