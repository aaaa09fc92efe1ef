"""The last change of each key into gold: the second half of both handwritten jobs."""

from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from tools.benchmarks.handwritten.watermarks import Tables, news, noted

_PROPERTIES: Final = (
    "'format-version' = '3', 'write.merge.mode' = 'merge-on-read',"
    " 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none'"
)


class Target(NamedTuple):
    """A gold table. Its change log has the same columns and ``is_delete``."""

    key: str
    order: tuple[str, ...]
    """The columns that order the changes of a key."""
    columns: dict[str, str]
    """Names and types."""

    def create(self, spark: SparkSession, tables: Tables) -> None:
        """Create the change log and the table."""
        columns = ", ".join(f"{name} {type}" for name, type in self.columns.items())
        for table, more in ((tables.change_log, "is_delete boolean, "), (tables.gold, "")):
            spark.sql(
                f"create table {table} ({more}{columns}) using iceberg"
                f" tblproperties ({_PROPERTIES})"
            )


def merge_last(spark: SparkSession, tables: Tables, target: Target) -> None:
    """Bring gold up to its change log. The first time there is nothing to merge with."""
    changes = news(spark, tables.change_log, tables.gold)
    if changes is None:
        return
    changes.rows.createOrReplaceTempView("new_changes")
    names = ", ".join(target.columns)
    newest_first = ", ".join(f"{name} desc" for name in target.order)
    last = f"""
        select {names}, is_delete
        from (
            select *, row_number() over (partition by {target.key} order by {newest_first}) as n
            from new_changes
            where {target.key} is not null
        )
        where n = 1
    """
    with noted(spark, changes):
        if changes.first:
            spark.sql(f"insert into {tables.gold} select {names} from ({last}) where not is_delete")
        else:
            spark.sql(_merge(target, tables.gold, last))


def _merge(target: Target, gold: str, last: str) -> str:
    names = list(target.columns)
    newer = f"{_of('change', target.order)} > {_of('gold', target.order)}"
    return f"""
        merge into {gold} as gold
        using ({last}) as change
        on gold.{target.key} = change.{target.key}
        when matched and change.is_delete and {newer} then delete
        when matched and {newer} then update set {", ".join(f"{n} = change.{n}" for n in names)}
        when not matched and not change.is_delete then
            insert ({", ".join(names)}) values ({", ".join(f"change.{n}" for n in names)})
    """


def _of(relation: str, order: tuple[str, ...]) -> str:
    return f"struct({', '.join(f'{relation}.{name}' for name in order)})"
