"""`lakehouse why`: what became of each event of a key, by the reference folds."""

from types import ModuleType

import history_tables
import partial_tables
import pytest
import shard_tables
from row_events import Source, changes_by_key
from streams import DAY

from dbt_lakehouse.reference.fates import APPLIED, Fate, fates
from dbt_lakehouse.reference.fold import Change, State, fold, fold_partial, log_order

MODULES = (history_tables, partial_tables, shard_tables)
SOURCES = [
    (module, source) for module in MODULES for source in module.SOURCES if source.has_key
]
CLONES = range(100, 120)
WRITTEN = {Fate.APPLIED, Fate.UNCHANGED}


# --- fates ----------------------------------------------------------------------------------------


def told(source: Source, changes: list[Change]) -> list[tuple[Change, Fate]]:
    return fates(
        changes, order_by_source_time=source.order_by_source_time, partial=source.partial
    )


def folded(source: Source, changes: list[Change]) -> State | None:
    """Before anything expires."""
    return (fold_partial if source.partial else fold)(
        changes, order_by_source_time=source.order_by_source_time, as_of=-DAY * 10**6
    )


@pytest.mark.parametrize(("module", "source"), SOURCES, ids=[each.table for _, each in SOURCES])
def test_fates_are_what_each_event_does_to_the_fold(module: ModuleType, source: Source) -> None:
    seen = set()
    for clone in CLONES:
        for changes in changes_by_key(source, module.stream(clone)).values():
            log = sorted(changes, key=log_order)
            whole = told(source, changes)
            assert [change for change, _ in whole] == log
            before = None
            for place, (change, fate) in enumerate(whole):
                after = folded(source, log[: place + 1])
                then = told(source, log[: place + 1])[-1][1]
                refuse_wrong(then, change, before, after)
                later = {fate for _, fate in whole[place + 1 :]}
                if Fate.TRUNCATE in later and then is not Fate.OTHER_TABLE:
                    then = Fate.BEFORE_TRUNCATE
                elif Fate.PLACED in later and fate in WRITTEN:
                    # Whether it changes anything may depend on what is put before it later.
                    assert then in WRITTEN
                    then = fate
                assert fate is then
                before = after
                seen.add(fate)
            last = [change for change, fate in whole if fate in APPLIED]
            assert before is not None
            assert last[-1].position == before.position
    wanted = {Fate.APPLIED, Fate.UNCHANGED, Fate.DELETE}
    if source.order_by_source_time:
        wanted.add(Fate.PLACED if source.partial else Fate.LATE)
    if source.tables:
        wanted |= {Fate.TRUNCATE, Fate.BEFORE_TRUNCATE, Fate.OTHER_TABLE}
    assert seen >= wanted


def refuse_wrong(fate: Fate, change: Change, before: State | None, after: State | None) -> None:
    """Fail if an event's fate is not what the fold has made of it, when it came last."""
    if fate in (Fate.LATE, Fate.OTHER_TABLE):
        assert after == before
        assert (change.operation == "truncate") == (fate is Fate.OTHER_TABLE)
        return
    assert after is not None
    assert (after.position == change.position) == (fate in APPLIED)
    if fate in (Fate.DELETE, Fate.TRUNCATE):
        assert not after.is_live and change.operation == fate
    elif fate in APPLIED:
        assert after.is_live
        is_same = (
            before is not None
            and before.is_live
            and (list(before.values), before.expires_at) == (list(after.values), after.expires_at)
        )
        assert is_same == (fate is Fate.UNCHANGED)
    else:
        assert fate is Fate.PLACED
