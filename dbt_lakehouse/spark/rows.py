"""A query's rows in Python."""

from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import col


def collected(rows: DataFrame) -> list[Row]:
    """All rows. Python has no year before 1 or after 9999: for such values, days and times become
    texts, as Spark writes them.
    """
    try:
        return rows.collect()
    except (OverflowError, ValueError):
        numbered = rows.toDF(*map(str, range(len(rows.columns))))
        texts = (
            col(field.name).cast("string")
            if any(name in field.dataType.simpleString() for name in ("date", "timestamp"))
            else col(field.name)
            for field in numbered.schema
        )
        return numbered.select(*texts).toDF(*rows.columns).collect()
