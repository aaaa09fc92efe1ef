"""The cases of docs/current-state.md as examples for the lake of built_rows: the plan is the label,
the city is the note.
"""

from typing import Final

from support.history_tables import METERS, TICKETS
from support.partial_tables import GAUGES
from support.row_events import Event, Source, Value
from support.row_examples import SENT, Sent, Step, events_of, example_key, row
from tools.pictures.cases import CASES, Case
from tools.pictures.cases import Event as Pictured

# Behind the numbers of all other examples.
_NUMBERS: Final = {case.name: 100 + place for place, case in enumerate(CASES)}
# Before other tables' rows that a truncate would take away, and behind the streams' truncates.
_BEGINS: Final = {"truncate": 26}


def source_of(case: Case) -> Source:
    """The table that is folded as the case's is."""
    if case.partial:
        return GAUGES
    return METERS if case.order_by_source_time else TICKETS


def key_of(case: Case, key: int) -> int:
    """What a key of the case is in that table."""
    return example_key(_NUMBERS[case.name], case.keys.index(key))


def example_events() -> list[tuple[int, Event]]:
    """The events of all cases, each with its run."""
    return [
        placed
        for case in CASES
        for placed in events_of(source_of(case), _NUMBERS[case.name], _steps(case))
    ]


def _steps(case: Case) -> list[Step]:
    begin = _BEGINS.get(case.name, SENT)
    return [
        _step(case, event, begin + place, run=place // 2)
        for place, event in enumerate(case.causes)
        if isinstance(event, Pictured)
    ]


def _step(case: Case, event: Pictured, minute: int, run: int) -> Step:
    columns = {"plan": "label", "city": "note"}
    image: dict[str, Value] = {} if case.partial else {**row()}
    image |= {columns[name]: value for name, value in event.named.items()}
    return Step(
        event.operation,
        event.happened,
        image,
        key=case.keys.index(event.key) if event.key in case.keys else 0,
        run=run,
        sent=Sent(minute),
        expires=event.expires,
        previous_key=None if event.replaces is None else case.keys.index(event.replaces),
    )
