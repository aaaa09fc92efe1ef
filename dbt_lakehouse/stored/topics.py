"""Check the topics on the command line against bronze."""

from collections.abc import Sequence
from typing import Final

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.names import BRONZE
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of
from dbt_lakehouse.texts import did_you_mean, listed

_LANDED: Final = f"select distinct topic from {BRONZE} order by topic"


def landed_topics(reader: Reader) -> list[str]:
    """The topics that bronze holds."""
    return [topic for (topic,) in rows_of(reader, _LANDED)]


def refuse_missing(topics: Sequence[str], landed: Sequence[str]) -> None:
    """Raise ``ConfigurationError`` for a topic that has not landed."""
    missing = [topic for topic in topics if topic not in landed]
    if missing:
        meant = did_you_mean(missing[0], landed)
        raise ConfigurationError(
            f"bronze holds no message of the topic {', '.join(missing)}{meant}: land it first"
            f" (lakehouse land). {listed('It holds', landed)}"
        )
