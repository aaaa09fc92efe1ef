"""Episodes of `make soak`: random streams for every wire format, and random steps between them.

A seed says all of an episode: its source tables, the events of its streams, the runs that they come
in, and what is done to the lake in between. A stream is a clone's events of one source table.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from support.row_events import POISON, Event, Source, marker
from support.row_streams import (
    KEYS,
    aerospike_stream,
    as_told,
    compacted_stream,
    debezium_stream,
    in_runs,
    key_number,
    keyless_stream,
    with_noise,
)

_SHARDS: Final = ("north", "south")
SOURCES: Final = (
    Source("soak.meters", "web", "meters", False, True, format="aerospike_messagepack"),
    Source("soak.gauges", "users", "gauges", True, True, format="aerospike_json"),
    # Of one namespace: a delete without a set is one of either.
    Source("soak.badges", "users", "badges", False, True, format="aerospike_flat_json"),
    Source("soak.tokens", "mint", "tokens", False, True, format="aerospike_avro"),
    Source("soak.tickets", "shop", "tickets"),
    Source("soak.branches", "shop", "branches", tables=_SHARDS),
    Source("soak.parcels", "shop", "parcels", True, True),
    Source("soak.bonds", "bank", "bonds", order_by_source_time=True),
    Source("soak.parts", "shop", "parts", is_ordered=True),
    Source("soak.visits", "web", "visits", has_key=False, tables=_SHARDS),
    Source("soak.regions", "tpch", "regions", format="arcion_json"),
    Source("soak.readings", "iot", "readings", format="lindorm_json"),
    Source("soak.staff", "hr", "staff", format="aws_dms_json"),
    Source("soak.rides", "movr", "rides", format="cockroachdb_json"),
    Source("soak.players", "game", "players", format="maxwell_json"),
    Source("soak.invoices", "erp", "invoices", format="canal_json"),
    Source("soak.carts", "mg", "carts", format="mongodb_json"),
    Source("soak.pages", "site", "pages", format="debezium_unwrapped_json"),
    Source("soak.letters", "post", "letters", order_by_source_time=True, format="debezium_avro"),
    Source("soak.stamps", "post", "stamps", format="debezium_unwrapped_avro"),
    Source("soak.crates", "depot", "crates", is_compacted=True),
    Source("soak.scales", "depot", "scales", format="arcion_json", is_compacted=True),
    Source("soak.labels", "depot", "labels", format="debezium_avro", is_compacted=True),
)
_TRUNCATED: Final = frozenset({"debezium_json", "aws_dms_json", "canal_json"})
# Keys of the other tables stay below.
_KEYS_OF: Final = {"badges": 500}
HISTORIES: Final = {
    f"{source.table}_history": source
    for source in SOURCES
    if source.table
    in (
        "meters",
        "gauges",
        "tickets",
        "branches",
        "bonds",
        "parts",
        "invoices",
        "letters",
        "crates",
    )
}


class Do(StrEnum):
    """What is done to the lake; each but the first with a run behind it."""

    RUN = "run"
    """The next messages land and are built."""
    LEAVE_OUT = "leave a model out of a run"
    REFRESH = "full refresh of a model"
    MAINTAIN = "maintenance that keeps no snapshot"
    ROLL_BACK = "rollback of a table"
    REDRIVE = "topic configured, redriven"
    FORGET = "forget"
    PURGE = "forget --purge"
    UPSTREAM = "gold reads another log, or other columns"
    TARGET = "a run of a second target"


class Step(NamedTuple):
    """``of`` is a table or a topic, ``number`` a random number that chooses in it."""

    do: Do
    of: str = ""
    number: float = 0.0
    hours: int = 1
    """That have passed since the last step."""


@dataclass(frozen=True)
class Episode:
    """All that happens to a lake: the events by run, and the steps, of which those that land take
    the next ones.
    """

    seed: int
    sources: tuple[Source, ...]
    batches: list[list[Event]]
    steps: list[Step]
    retention_days: int
    unknown: str | None
    """The topic that is not configured before it is redriven."""
    streams: int = 0

    @property
    def histories(self) -> dict[str, Source]:
        """The histories among its tables."""
        return {name: source for name, source in HISTORIES.items() if source in self.sources}


def wide(seed: int, clones: int) -> Episode:
    """Very many streams of all tables in three runs."""
    dice = random.Random(f"wide {seed}")
    steps = [Step(Do.RUN, hours=dice.choice([1, 24, 9 * 24])) for _ in range(3)]
    return episode_of(seed, SOURCES, clones, steps, dice, None)


def deep(seed: int, steps: int, clones: int) -> Episode:
    """A few streams of a few tables, with that many steps."""
    dice = random.Random(f"deep {seed}")
    chosen = dice.sample(SOURCES, 3)
    sources = tuple(each for each in SOURCES if each in chosen)
    unknown = dice.choice([None, dice.choice(sources).topic])
    return episode_of(
        seed, sources, clones, list(_steps(sources, steps, unknown, dice)), dice, unknown
    )


def _steps(
    sources: Sequence[Source], count: int, unknown: str | None, dice: random.Random
) -> Iterable[Step]:
    gold = [each.table for each in sources]
    gold += [name for name, source in HISTORIES.items() if source in sources]
    logs = [f"{each.table}_changes" for each in sources]
    # What is forgotten leaves what says no place behind it where it is, or does not.
    keyed = [each.table for each in sources if each.has_key and not each.is_ordered]
    redriven = dice.randrange(1, count) if unknown else -1
    yield Step(Do.RUN)
    for number in range(1, count):
        hours = dice.choice([1, 1, 5, 3 * 24, 9 * 24])
        others = [each for each in Do if each is not Do.REDRIVE]
        do: Do = Do.RUN if number % 2 else dice.choice(others)
        of = ""
        if number == redriven:
            do, of = Do.REDRIVE, unknown or ""
        elif do is Do.LEAVE_OUT:
            of = dice.choice([*gold, *logs])
        elif do in (Do.REFRESH, Do.ROLL_BACK):
            of = dice.choice([*gold, *logs, "other_events"])
        elif do in (Do.FORGET, Do.PURGE):
            if not keyed:
                continue
            of = dice.choice(keyed)
        elif do is Do.UPSTREAM:
            of = dice.choice([each.table for each in sources])
        yield Step(do, of, dice.random(), hours)


def episode_of(
    seed: int,
    sources: tuple[Source, ...],
    clones: int,
    steps: list[Step],
    dice: random.Random,
    unknown: str | None,
) -> Episode:
    """An episode with these steps; the streams are the seed's."""
    streams = [
        [event for source in sources for event in stream(source, seed, clone)]
        for clone in range(clones)
    ]
    runs = sum(each.do in (Do.RUN, Do.LEAVE_OUT) for each in steps)
    return Episode(
        seed,
        sources,
        in_runs(streams, runs, seed),
        steps,
        dice.choice([0, 7, 10_000]),
        unknown,
        streams=clones * len(sources),
    )


def stream(source: Source, seed: int, clone: int) -> list[Event]:
    """A clone's events of one source table."""
    stream_seed = seed * 10_000 + clone
    if source.is_aerospike:
        events = aerospike_stream(source, stream_seed, clone)
    elif source.is_compacted:
        events = compacted_stream(source, stream_seed, clone)
    else:
        truncates = 0.04 if source.format in _TRUNCATED else 0.0
        of = debezium_stream if source.has_key else keyless_stream
        events = of(source, stream_seed, clone, truncates=truncates)
    return [_marked(_moved(as_told(event)), clone) for event in with_noise(events, stream_seed)]


def _marked(event: Event, clone: int) -> Event:
    """With its key's marker, of poison too if a message key says whose it is."""
    source = event.source
    if not source.has_key:
        return event
    if event.operation == POISON and source.format == "debezium_json":
        key = key_number(clone, event.offset % KEYS)
        raw = b'{"op":"' + marker(source, key).encode()
        return event._replace(key=key, raw=raw, is_marked=True)
    return event._replace(is_marked=True)


def _moved(event: Event) -> Event:
    above = _KEYS_OF.get(event.source.table)
    if above is None or event.key is None:
        return event
    return event._replace(key=event.key + above)
