"""The landing of a dbt command before it builds, and the report of it at the end."""

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from dbt.adapters.lakehouse.connections import COMMANDS_THAT_LAND, LOGGER
from dbt.adapters.lakehouse.findings import Findings
from dbt.adapters.lakehouse.lake import SparkLake
from dbt_lakehouse.config.topics import unlisted_text
from dbt_lakehouse.errors import LakehouseError
from dbt_lakehouse.landing.stalled import TopicsStalledError
from dbt_lakehouse.runs.formats import no_longer_listed
from dbt_lakehouse.telling import telling


class Landing:
    """The landing of a command. Modules for Kafka and the report are imported only by commands
    that need them.
    """

    def __init__(self, lake: SparkLake) -> None:
        self._lake: Final = lake
        self._stalled: Mapping[str, LakehouseError] = MappingProxyType({})
        self._landed: Sequence[str] = ()

    def land(self) -> list[str]:
        """Land new messages of the project's captures and Kafka, if the command lands. Returns
        a sentence for each of the two.
        """
        connections = self._lake.connections
        self._stalled, self._landed = {}, ()
        if connections.command not in COMMANDS_THAT_LAND:
            return []
        self._lake.runs.begin_landing()
        from dbt_lakehouse.landing.kafka.configured import land_configured

        elsewhere = connections.lands_elsewhere()
        if elsewhere is not None:
            return [elsewhere]
        with telling(LOGGER.info):
            landed = land_configured(self._lake.spark, connections.project())
        self._stalled, self._landed = landed.stalled, landed.sentences
        self._warn_of_unlisted()
        return landed.sentences

    def _warn_of_unlisted(self) -> None:
        events = self._lake.catalog.look_at(self._lake.catalog.relation_of("other_events"))
        if events is None:
            return
        unlisted = no_longer_listed(events, self._lake.connections.project().variables)
        if unlisted:
            LOGGER.warning(unlisted_text(unlisted))

    def end(self, results: Sequence[Any]) -> None:
        """Store dbt's results for the run's report, and raise the errors of topics that ``land``
        could not land.
        """
        from dbt_lakehouse.landing.kafka.continuity import raise_stalled
        from dbt_lakehouse.report.runs import rows_of

        stalled, self._stalled = self._stalled, {}
        troubles = [str(error) for error in stalled.values()]
        findings = Findings(self._lake)
        found = cache(findings.rows_of)
        findings.tell(results, found)
        self._lake.connections.keep_results(
            results, self._landed, troubles, lambda sql: rows_of(found(sql))
        )
        try:
            raise_stalled(stalled)
        except LakehouseError as error:
            raise TopicsStalledError(str(error), results) from None
