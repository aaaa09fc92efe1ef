"""What Iceberg's readers of Parquet leave behind in a JVM."""

from typing import Final

from pyspark.sql import SparkSession

from dbt_lakehouse.spark.jvm import java_class

_ALLOCATION: Final = "org.apache.iceberg.arrow.ArrowAllocation"
_CLOSING: Final = "org.apache.iceberg.shaded.org.apache.arrow.util.AutoCloseables"


def close_allocators(spark: SparkSession) -> None:
    """Close the Arrow allocators of readers that have ended, in a process whose queries have ended.
    Iceberg makes one for each file that it reads, and never closes any (its issue 13937): some
    seven for each table in a cycle, which a stream of a day holds by the hundred thousand. Nothing
    is closed while a job runs or a reader has memory.
    """
    if spark.sparkContext.statusTracker().getActiveJobsIds():
        return
    root = java_class(_ALLOCATION).rootAllocator()
    if root.getAllocatedMemory() == 0:
        # A copy of the set: each allocator leaves its parent.
        java_class(_CLOSING).close(root.getChildAllocators())
