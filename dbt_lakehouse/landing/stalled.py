"""The end of a dbt command that could not land some of Kafka's topics, and has done everything
else.
"""

from collections.abc import Sequence
from typing import Any, Final

from dbt_common.exceptions import DbtRuntimeError


class TopicsStalledError(DbtRuntimeError):
    """Some Kafka topics have stalled. ``sentence`` names them and the reason; ``results`` are
    dbt's of everything that has run.
    """

    def __init__(self, sentence: str, results: Sequence[Any]) -> None:
        super().__init__(f"cdc_lakehouse\n{sentence}")
        self.sentence: Final = sentence
        self.results: Final = list(results)


def stalled_by(error: Exception) -> TopicsStalledError | None:
    """The stalled topics, if they are why a dbt command has ended with an error. Failed models or
    tests are in its results.
    """
    cause = error.__cause__
    return cause if isinstance(cause, TopicsStalledError) else None
