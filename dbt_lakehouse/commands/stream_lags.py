"""Record lags for `lakehouse stream --build`: messages by their age when a cycle has landed them,
until gold has them (``lags``). It never makes a cycle fail.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from dbt_lakehouse.commands.models_with_news import topics_of
from dbt_lakehouse.landing.lags import Buckets, HourOfLags, grown
from dbt_lakehouse.report.runs import moment

# What makes gold of change logs.
_FOLDED: Final = frozenset({"current_state", "history"})


class Landing(NamedTuple):
    """The messages of a topic that a cycle has landed, by their age at a moment."""

    topic: str
    at: datetime
    ages: Buckets


TablesOf = Callable[[Collection[str]], Mapping[str, Collection[str]]]
"""The models that make gold from topics' events, as ``tables_of_topics`` gives them."""


class StreamLags:
    """The lags of one stream. ``tell`` takes a message for the user."""

    def __init__(self, hour: HourOfLags, tell: Callable[[str], None]) -> None:
        self._hour: Final = hour
        self._tell: Final = tell
        # Landed messages that gold does not have yet, by topic.
        self._waiting: dict[str, Landing] = {}
        self._told = ""

    def landed(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record a landing: by partition its topic, ages and when it was checked."""
        with self._telling():
            self._wait(rows)

    def built(
        self, tables: TablesOf, models: Sequence[Any], topics: Collection[str] | None = None
    ) -> None:
        """Record a build. ``models`` are the results for the models of some topics, or of all
        (None).
        """
        with self._telling():
            mine = self._waiting.keys() if topics is None else self._waiting.keys() & topics
            self._count(tables(mine), models, mine)

    def _wait(self, rows: Sequence[Mapping[str, Any]]) -> None:
        for topic in sorted({row["topic"] for row in rows if row["landed_ages"]}):
            ages: Counter[int] = Counter()
            for row in rows:
                if row["topic"] == topic:
                    ages.update(dict(row["landed_ages"] or ()))
            # All rows are from one landing. Messages already waiting have become older.
            at = rows[0]["checked_at"]
            if (before := self._waiting.get(topic)) is not None:
                ages += grown(before.ages, (at - before.at).total_seconds())
            self._waiting[topic] = Landing(topic, at, ages)

    def _count(
        self,
        tables: Mapping[str, Collection[str]],
        models: Sequence[Any],
        topics: Collection[str],
    ) -> None:
        waiting = {name: each for name, each in self._waiting.items() if name not in topics}
        for landing in [self._waiting[name] for name in topics]:
            at, is_built = done_at(tables.get(landing.topic, ()), models)
            if not is_built:
                waiting[landing.topic] = landing
            elif at is not None:
                seconds = (at - landing.at).total_seconds()
                self._hour.add(landing.topic, at, grown(landing.ages, seconds))
        self._waiting = waiting
        self._hour.keep(datetime.now(UTC))

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Report failures, once if they repeat."""
        try:
            yield
        # Gold has its rows in any case.
        except Exception as error:
            sentence = f"the lags of the last hour can't be noted: {error}"
            if sentence != self._told:
                self._told = sentence
                self._tell(sentence)


def tables_of_topics(
    pairs: Collection[Sequence[str | None]], nodes: Mapping[str, Any]
) -> dict[str, set[str]]:
    """The models that make gold from each topic's events, by their unique ids. ``pairs``: topic
    and source table (database, schema, table) of all events; ``nodes``: those of dbt's manifest.
    """
    models = {name: each for name, each in nodes.items() if each.resource_type == "model"}
    gold: dict[str, set[str]] = {}
    for name, node in models.items():
        if node.config.materialized in _FOLDED:
            for upstream in node.depends_on.nodes:
                gold.setdefault(upstream, set()).add(name)
    found: dict[str, set[str]] = {}
    for name in gold.keys() & models.keys():
        log = models[name].config.meta.get("change_log")
        for topic in () if log is None else topics_of(log, pairs):
            found.setdefault(topic, set()).update(gold[name])
    return found


def done_at(tables: Collection[str], models: Iterable[Any]) -> tuple[datetime | None, bool]:
    """The time at which the last of these models was done, among those that a command had to
    build, and whether all of them are.
    """
    done, is_built = [], True
    for each in models:
        if each.node.unique_id not in tables:
            continue
        if str(each.status) != "success":
            is_built = False
        done += [timing.completed_at for timing in each.timing if timing.name == "execute"]
    return max(map(moment, done), default=None), is_built
