"""The page: one HTML file that needs no network and runs no script.

Everything shown (names of topics, sentences, rows) may be hostile: the template escapes all of
it.
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import jinja2

from dbt_lakehouse import findings
from dbt_lakehouse.config.paths import cache_folder
from dbt_lakehouse.errors import CacheError, WriteError
from dbt_lakehouse.report import plots
from dbt_lakehouse.report.facts import Facts, TableFacts
from dbt_lakehouse.report.runs import INTERRUPTED, RUNS_SHOWN, WARNED, Node
from dbt_lakehouse.texts import counted

# The file of `lakehouse docs`, beside the page.
_DOCS: Final = "docs.html"
_NOTHING: Final = "-"
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"))


class Trend(NamedTuple):
    """A plot, and its numbers."""

    title: str
    note: str
    svg: str
    names: list[str]
    rows: list[tuple[datetime, list[str]]]


class Verdict(NamedTuple):
    """The headline of the page."""

    word: str
    """``good``, ``look`` or ``failed``."""
    sentence: str


def write_page(facts: Facts, path: Path, target: Path) -> None:
    """Write the page, with a link to dbt's documentation if that is in dbt's artifacts folder. It
    is replaced atomically. Raises ``WriteError``.
    """
    docs = target / _DOCS
    link = None
    if docs.exists():
        same = docs.parent.resolve() == path.parent.resolve()
        link = _DOCS if same else docs.resolve().as_uri()
    html = page(facts, link)
    written = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(html, encoding="utf-8")
        os.replace(written, path)
    except OSError as error:
        with suppress(OSError):
            written.unlink(missing_ok=True)
        raise WriteError(
            f"{path} can't be written: {error.strerror}; let this user write it, or name another"
            " file by `lakehouse report --output`"
        ) from error


def page(facts: Facts, docs: str | None = None) -> str:
    """The HTML of the page; ``docs`` is a link to dbt's documentation."""
    return (
        environment("dbt_lakehouse.report")
        .get_template("page.html.j2")
        .render(said(facts, docs), live=False)
    )


def environment(*packages: str) -> jinja2.Environment:
    """The templates of packages, which are searched in this order."""
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(each, "") for each in packages]),
        bytecode_cache=_compiled(),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        number=number,
        seconds=seconds,
        iso=iso,
        minute=minute,
        ago=_ago,
        counted=counted,
        shell=shlex.quote,
    )
    return made


@jinja2.pass_context
def _ago(context: jinja2.runtime.Context, moment: datetime | None) -> str:
    return ago(moment, context["facts"].now)


def said(facts: Facts, docs: str | None = None) -> dict[str, Any]:
    """The values for the page's template."""
    tables = (*facts.gold, *facts.others, *facts.rest)
    by_table, run = _tests_by_table(facts), facts.run
    return {
        "facts": facts,
        # Names may contain characters that are invalid in ids and addresses.
        "ids": {table.name: f"table-{place}" for place, table in enumerate(tables)},
        "tests_by_table": by_table,
        "tables_of": _tables_of(by_table),
        "choices": _choices(facts, [name for _, name, _ in by_table]),
        "run": run,
        "verdict": verdict(facts),
        "trends": trends(facts),
        "meanings": findings.lines(),
        "codes": findings.CODES,
        "troubled": [test for test in facts.tests if test.is_failure or test.status in WARNED],
        "passed": sum(test.status == "pass" for test in facts.tests),
        "broken": facts.failures,
        "tested": facts.runs[0] if facts.runs and facts.runs[0] is not run else None,
        "skipped": [] if run is None else [n for n in run.nodes if n.status == "skipped"],
        "docs": None if docs is None else partial(_address, docs),
        "docs_home": docs,
    }


def _compiled() -> jinja2.BytecodeCache | None:
    """The cache of compiled templates, since compiling takes longer than the rest of a page."""
    with suppress(CacheError):
        return jinja2.FileSystemBytecodeCache(str(cache_folder("templates")))
    return None


def _address(docs: str, node: Node, part: str = "") -> str:
    """The address of a node in dbt's page: its details, its ``lineage`` or its ``code``."""
    place = f"{docs}#!/{_kind(node)}/{_part(node)}"
    if part == "lineage":
        chosen = quote(f"+{node.name}+", safe="")
        return f"{place}?g_v=1&g_i={chosen}"
    return f"{place}#{part}" if part else place


def _tests_by_table(facts: Facts) -> list[tuple[TableFacts | None, str, list[Node]]]:
    """The tests of each table, and at the end those without a table."""
    tables = (*facts.gold, *facts.others, *facts.rest)
    found: list[tuple[TableFacts | None, str, list[Node]]] = [
        (table, table.name, table.tests) for table in tables if table.tests
    ]
    told = {test.unique_id for _, _, tests in found for test in tests}
    others = [test for test in facts.tests if test.unique_id not in told]
    return [*found, (None, "No table of the lake", others)] if others else found


def _tables_of(
    tests: Sequence[tuple[TableFacts | None, str, Sequence[Node]]],
) -> dict[str, list[str]]:
    """The tables that each test checks, by its unique id."""
    found: dict[str, list[str]] = {}
    for _, name, of in tests:
        for test in of:
            found.setdefault(test.unique_id, []).append(name)
    return found


def _choices(facts: Facts, tested: Sequence[str]) -> dict[str, list[str]]:
    """The filter options, with which rows and tests are marked."""
    tables = (*facts.gold, *facts.others, *facts.rest)
    return {
        "state": sorted({table.state for table in tables}),
        "result": sorted({test.result for test in facts.tests}),
        "table": list(tested),
        "code": sorted({group.error_code for group in facts.groups}),
        "topic": sorted({group.topic for group in facts.groups}),
    }


def _kind(node: Node) -> str:
    return node.kind if node.kind in ("model", "test", "seed", "snapshot") else "model"


def _part(node: Node) -> str:
    return quote(node.unique_id)


# --- what is said first ---------------------------------------------------------------------------


def verdict(facts: Facts) -> Verdict:
    """Whether the run needs attention, with the most important numbers."""
    parts = []
    if facts.trouble is not None:
        parts.append("the lake could not be read for this page")
    else:
        parts += _of_messages(facts)
        if facts.undecoded:
            parts.append(counted(facts.undecoded, "message") + " not yet decoded")
        parts.append(_of_tables(facts.gold))
        if facts.newly_quarantined:
            parts.append(counted(facts.newly_quarantined, "event") + " quarantined")
    if facts.failures:
        parts.append(counted(len(facts.failures), "model") + " failed")
    bad = [test for test in facts.tests if test.is_failure]
    warned = [test for test in facts.tests if test.status in WARNED]
    if bad:
        parts.append(counted(len(bad), "test") + " failed")
    if warned:
        parts.append(counted(len(warned), "test") + " warned")
    if skipped := sum(test.status == "skipped" for test in facts.tests):
        parts.append(counted(skipped, "test") + " skipped")
    if facts.tests and not bad and not warned and not skipped:
        every = "all " if len(facts.tests) > 1 else ""
        parts.append(f"{every}{counted(len(facts.tests), 'test')} passed")
    troubles = [] if facts.run is None else facts.run.troubles
    error = None if facts.run is None else facts.run.error
    # By its user, which is not a failure: the next run goes on.
    is_interrupted = error == INTERRUPTED
    if error is not None:
        ended = "was interrupted" if is_interrupted else "ended early"
        parts.insert(0, f"the command {ended}")
    if troubles:
        parts.append(counted(len(troubles), "topic") + " could not be landed")
    sentence = ", ".join(parts)
    if facts.failures or bad or troubles or (error is not None and not is_interrupted):
        word = "failed"
    elif (
        warned
        or skipped
        or is_interrupted
        or facts.trouble
        or facts.newly_quarantined
        or facts.undecoded
        or any(table.state in ("behind", "skipped") for table in facts.gold)
    ):
        word = "look"
    else:
        word = "good"
    return Verdict(word, f"{sentence[:1].upper()}{sentence[1:]}.")


def _of_messages(facts: Facts) -> list[str]:
    """The landed messages and their results; messages that landed earlier are read too."""
    parts = ["nothing landed" if not facts.landed else counted(facts.landed, "message") + " landed"]
    if facts.landed is None and facts.read is not None:
        parts = [f"{counted(facts.read, 'message')} read"]
    elif facts.landed is None:
        parts = ["how many messages landed is not known"]
    elif facts.read is not None and facts.read != facts.landed:
        parts.append(f"{number(facts.read)} read")
    if facts.decoded is None:
        return [*parts, "how many events were decoded is not known"]
    return [*parts, counted(facts.decoded, "event") + " decoded"]


def _of_tables(tables: Sequence[TableFacts]) -> str:
    late = [table.name for table in tables if table.state not in ("up to date", "not known")]
    if not tables:
        return "no table in gold yet"
    if not late:
        return "all tables up to date"
    named = ", ".join(late[:3]) + (f" and {len(late) - 3} more" if len(late) > 3 else "")
    return f"{len(late)} of {counted(len(tables), 'table')} not up to date ({named})"


# --- over the last runs ---------------------------------------------------------------------------


def trends(facts: Facts) -> list[Trend]:
    """The plots with something to draw."""
    runs = facts.decoded_by_run
    timed = facts.runs[:RUNS_SHOWN][::-1]
    found = [
        _trend(
            "Events decoded",
            "per run that decoded something, as silver.other_events has counted them",
            [run.at for run in runs],
            {
                "decoded": [run.events - run.quarantined for run in runs],
                "quarantined": [run.quarantined for run in runs],
            },
            is_line=False,
        ),
        _trend(
            "Rows in gold",
            "after each of these runs, of all tables made of change logs, from their commits",
            [at for at, _ in facts.gold_rows],
            {"rows": [rows for _, rows in facts.gold_rows]},
            is_line=True,
        ),
        _trend(
            "Late, expired, refolded",
            "events rejected as late, keys expired, and keys with changes out of order,"
            " per run, from silver.fold_counters",
            [each.at for each in facts.counters],
            {
                "late events": [each.late for each in facts.counters],
                "expired keys": [each.expired for each in facts.counters],
                "refolded keys": [each.refolded for each in facts.counters],
            },
            is_line=False,
        ),
        _trend(
            "Seconds of a run",
            "of the dbt commands that this folder remembers",
            [run.started_at for run in timed],
            {"seconds": [round(run.seconds, 1) for run in timed]},
            is_line=False,
        ),
    ]
    return [each for each in found if each is not None]


def _trend(
    title: str,
    note: str,
    moments: Sequence[datetime],
    series: Mapping[str, Sequence[float | None]],
    *,
    is_line: bool,
) -> Trend | None:
    """A plot; None if each value is 0 or unknown."""
    if not any(value for values in series.values() for value in values):
        return None
    is_one_day = len({moment.date() for moment in moments}) == 1
    labels = [f"{moment:%H:%M:%S}" if is_one_day else f"{moment:%d %b %H:%M}" for moment in moments]
    last = ", ".join(f"{name} {number(values[-1])}" for name, values in series.items())
    most = ", ".join(
        f"{name} {number(max((each for each in values if each is not None), default=None))}"
        for name, values in series.items()
    )
    text = f"{title}, {note}. Newest of {len(moments)}: {last}. Most: {most}."
    draw = plots.line if is_line else plots.bars
    svg = draw(labels, series, text)
    rows = [
        (moment, [number(values[at]) for values in series.values()])
        for at, moment in enumerate(moments)
    ]
    return Trend(title, note, svg, list(series), rows[::-1])


# --- values ---------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """A number with thousands separators; a dash for an unknown one."""
    if value is None:
        return _NOTHING
    return f"{value:,}" if isinstance(value, int) or value % 1 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """A duration: ``0.42 s``, ``12 s``, ``3 min 4 s``."""
    if value is None:
        return _NOTHING
    if value < 10:
        return f"{value:.2f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def iso(moment: datetime | None) -> str:
    """ISO 8601 in UTC, to the second."""
    return _NOTHING if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def minute(moment: datetime) -> str:
    """ISO 8601 in UTC, to the minute."""
    return f"{moment:%Y-%m-%dT%H:%MZ}"


def ago(moment: datetime | None, now: datetime) -> str:
    """A moment relative to now: ``3 d ago``."""
    if moment is None:
        return ""
    passed = (now - moment).total_seconds()
    if passed < 0:
        return "in the future"
    for size, unit in _UNITS:
        if passed >= size:
            return f"{int(passed // size):,} {unit} ago"
    return f"{int(passed)} s ago"
