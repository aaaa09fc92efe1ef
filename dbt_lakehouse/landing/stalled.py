"""How a dbt command ends that could not land some of Kafka's topics, and has done all the rest."""

from collections.abc import Sequence
from typing import Any, Final

from dbt_common.exceptions import DbtRuntimeError


class TopicsStalledError(DbtRuntimeError):
    """``sentence`` is what is wrong with the topics, ``results`` are dbt's of all that has run."""

    def __init__(self, sentence: str, results: Sequence[Any]) -> None:
        super().__init__(f"cdc_lakehouse\n{sentence}")
        self.sentence: Final = sentence
        self.results: Final = list(results)


def stalled_by(error: Exception) -> TopicsStalledError | None:
    """The topics that a command of dbt could not land, if that is what has ended it with an error;
    models or tests that have failed too are told by its results.
    """
    cause = error.__cause__
    return cause if isinstance(cause, TopicsStalledError) else None
