"""`lakehouse redrive`: decode quarantined payloads again, with dbt's macro of that name."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from dbt_lakehouse.declared.namesakes import OURS
from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.locks import run_lock
from dbt_lakehouse.lake.reader import Reader
from dbt_lakehouse.queries.query import rows_of
from dbt_lakehouse.session.dbt_commands import run_dbt
from dbt_lakehouse.session.project import Project, lock_patience
from dbt_lakehouse.spark.progress import tasks_of
from dbt_lakehouse.stored.quarantine import chosen
from dbt_lakehouse.stored.topics import landed_topics, refuse_missing
from dbt_lakehouse.telling import working
from dbt_lakehouse.texts import counted


class Redriven(NamedTuple):
    """The result of a call."""

    payloads: int
    """Payloads decoded again."""
    decoded: int
    """Those of them without any error now."""
    events: int
    """New events in other_events, without those that still report an error."""

    @property
    def left(self) -> int:
        """The number of payloads that stay in quarantine."""
        return self.payloads - self.decoded

    def json(self) -> str:
        """As JSON, for scripts."""
        return json.dumps({**self._asdict(), "left": self.left})

    def text(self) -> str:
        """As text."""
        if not self.payloads:
            return "no such payload is quarantined"
        text = (
            f"decoded {counted(self.payloads, 'payload')} again:"
            f" {counted(self.events, 'new event')}, {counted(self.left, 'payload')} still"
            " quarantined"
        )
        return f"{text}\nnext: dbt run" if self.events else text


def redrive(project: Project, codes: Sequence[str], topics: Sequence[str]) -> Redriven:
    """Decode again the quarantined payloads with one of the error codes, of one of the topics
    (empty: all).

    Waits for a dbt command that builds. Raises ``DbtError``, and ``ConfigurationError`` for a
    topic that bronze doesn't hold.
    """
    if project.looked(lambda reader: _has_none(reader, project.silver, codes, topics)):
        return Redriven(0, 0, 0)
    project.refuse_readers()
    spark = project.open_session()
    arguments = json.dumps({"codes": list(codes), "topics": list(topics)})
    with run_lock(spark).held("lakehouse redrive", lock_patience(project.variables)):
        with working("decoding payloads again", tasks_of(spark)):
            run_dbt(project, "run-operation", f"{OURS}.redrive", "--args", arguments)
        row = spark.table("global_temp.redriven").collect()[0]
    return Redriven(row.payloads, row.decoded, row.events)


def _has_none(reader: Reader, schema: str, codes: Sequence[str], topics: Sequence[str]) -> bool:
    """Whether there is no such payload. Raises ``ConfigurationError`` for a topic that has never
    landed.
    """
    table = f"{schema}.quarantined_payloads"
    if table not in reader.names:
        raise ConfigurationError(f"there is no table {table} yet: `dbt build`")
    known = reader.quoted(reader.known(table))
    if rows_of(reader, f"select 1 from {known} where {chosen(codes, topics)} limit 1"):
        return False
    refuse_missing(topics, landed_topics(reader))
    return True
