"""The names of the tables that every lake has, ``schema.name``. In Spark's SQL, the catalog's name
comes before them.
"""

from typing import Final, NamedTuple

BRONZE: Final = "bronze.raw_payloads"
"""All messages as they landed."""
AVRO_SCHEMAS: Final = "bronze.avro_schemas"
TOPIC_PARTITIONS: Final = "bronze.topic_partitions"
FORGOTTEN: Final = "bronze.forgotten"
LEASES: Final = "bronze.leases"


class Silver(NamedTuple):
    """A target's own tables of silver, in the order in which runs write them."""

    other_events: str
    log_times: str
    quarantined_payloads: str
    set_less_deletes: str
    deleted_keys: str
    fold_counters: str

    @classmethod
    def of(cls, schema: str) -> "Silver":
        """Those of the target with this schema of silver."""
        return cls(*(f"{schema}.{name}" for name in cls._fields))
