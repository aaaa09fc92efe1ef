"""Gather the state of each topic and table from the lake's own tables, and check that their sums
agree.

Everything is read without Spark: counts by DuckDB, and how far a table has read from its marks.
Each link of the chain

    bronze.raw_payloads -> other_events -> quarantined_payloads
                        -> change logs  -> gold tables

is a sum that must agree, over what the reader has read, without what waits for the next run. No
payload is decoded for it (``places``).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType

from dbt_lakehouse.commands.status.facts import Facts, Run
from dbt_lakehouse.commands.status.lake import TargetTables
from dbt_lakehouse.commands.status.places import Places
from dbt_lakehouse.commands.status.tables import table_of
from dbt_lakehouse.commands.status.topics import topics_of
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.landing.lags import Buckets


def gather(
    reader: Reader,
    silver: str,
    *,
    undecoded: Sequence[str] = (),
    last_run: Run | None = None,
    built: Mapping[str, Buckets] = MappingProxyType({}),
) -> Facts:
    """The facts of the target with this schema of silver; ``built`` are the lags of the last hour
    by topic.

    Raises ``ConfigurationError`` if there is no lake yet, and the errors of reading.
    """
    if BRONZE not in reader.tables:
        raise ConfigurationError(f"there is no lake yet, because {BRONZE} is missing: `dbt build`")
    lake = TargetTables(reader, silver)
    places = Places(lake)
    topics, links = topics_of(lake, places, frozenset(undecoded), built)
    tables = []
    for name in lake.tables:
        table, link = table_of(lake, places, name, last_run)
        tables.append(table)
        links += [link] if link else []
    return Facts(
        checked_at=f"{datetime.now(UTC):%FT%TZ}",
        topics=topics,
        tables=tables,
        links=links,
        last_run=last_run,
    )
