"""Cases as SVG, and in words for those who can't see them.

Above the axis of the log stands what each event says, beneath it what became of it and the table
then; a history lies below, by the time when things happened.
"""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from dbt_lakehouse.commands.why.why_output import FATES
from dbt_lakehouse.reference.fates import Fate
from dbt_lakehouse.reference.history import Version
from tools.pictures.cases import MINUTE, Case, Event, Run, Step, Values

_WIDTH: Final = 860
_LEFT: Final = 116
"""Left of it are the names of the lines."""
_RIGHT: Final = 24
_SPAN: Final = _WIDTH - _LEFT - _RIGHT
_LINE: Final = 18
_ROW: Final = 24
_BAR: Final = 26
_LETTER: Final = 7.4
"""The width of one, at most and about."""

# On a light and on a dark ground; each is readable on that of the card, which comes with them.
_COLOURS: Final = {
    "card": ("#ffffff", "#0d1117"),
    "edge": ("#d0d7de", "#3d444d"),
    "ink": ("#1f2328", "#f0f6fc"),
    "soft": ("#59636e", "#9198a1"),
    "good": ("#1a7f37", "#3fb950"),
    "late": ("#9a6700", "#d29922"),
    "gone": ("#cf222e", "#ff7b72"),
    "idle": ("#59636e", "#9198a1"),
}
_TONES: Final = {
    Fate.APPLIED: "good",
    Fate.UNCHANGED: "idle",
    Fate.DELETE: "gone",
    Fate.LATE: "late",
    Fate.PLACED: "late",
    Fate.TRUNCATE: "gone",
    Fate.BEFORE_TRUNCATE: "gone",
    Fate.OTHER_TABLE: "idle",
}
_OPERATIONS: Final = {"upsert": "write"}
_NO_ROW: Final = "no row"


# --- words ----------------------------------------------------------------------------------------


def words(case: Case) -> str:
    """What the picture shows, for those who can't see it."""
    told = []
    for number, step in enumerate(case.steps(), 1):
        cause = step.cause
        parts = [f"{_operation(cause)}, logged at {_clock(cause.logged)}", *_said(case, cause)]
        if isinstance(cause, Event):
            parts.append(f"happened at {_clock(cause.happened)}")
        outcome = "; ".join(text for text, _ in _outcome(step))
        rows = " and ".join(f"{key} {_listed(row)}" for key, row in step.gold.items())
        told.append(f"{number}. {'; '.join(parts)}: {outcome}. Gold: {rows or _NO_ROW}.")
    if case.with_history:
        versions = [f"{_listed(each.values)} {_period(each)}" for each in case.steps()[-1].versions]
        told.append(f"History: {', '.join(versions)}.")
    return " ".join(told)


def _clock(minute: float) -> str:
    hours, minutes = divmod(600 + int(minute), 60)
    return f"{hours:02}:{minutes:02}"


def _operation(cause: Event | Run) -> str:
    if isinstance(cause, Run):
        return "a run"
    return _OPERATIONS.get(cause.operation, cause.operation)


def _said(case: Case, cause: Event | Run) -> list[str]:
    if isinstance(cause, Run):
        return ["nothing new"]
    lines = []
    if cause.replaces is not None:
        lines.append(f"id: {cause.replaces} → {cause.key}")
    elif len(case.keys) > 1 and cause.operation != "truncate":
        lines.append(f"id: {cause.key}")
    lines += [f"{name}: {_shown(value)}" for name, value in cause.named.items()]
    if cause.expires is not None:
        lines.append(f"expires at {_clock(cause.expires)}")
    return lines


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _listed(values: Values) -> str:
    return ", ".join(map(_shown, values))


def _outcome(step: Step) -> list[tuple[str, str]]:
    """What became of the cause, each part with its colour."""
    if isinstance(step.cause, Run):
        return [("the row has expired", "gone") if step.expired else ("changes nothing", "idle")]
    at_last = [(f"in the end: {text}", tone) for text, tone in _by_key(step.at_last)]
    return [*_by_key(step.fates), *at_last]


def _by_key(fates: dict[int, Fate]) -> list[tuple[str, str]]:
    told = {key: (FATES[fate], _TONES[fate]) for key, fate in fates.items()}
    if len({*fates.values()}) > 1:
        told = {key: (f"{key}: {text}", tone) for key, (text, tone) in told.items()}
    return list(dict.fromkeys(told.values()))


def _period(version: Version) -> str:
    begin = _clock((version.valid_from or 0) // MINUTE)
    if version.valid_to is None:
        return f"since {begin}"
    return f"{begin} to {_clock(version.valid_to // MINUTE)}"


# --- pictures -------------------------------------------------------------------------------------


def picture(case: Case) -> str:
    """The SVG of a case."""
    steps = case.steps()
    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", role="img")
    svg.set("font-family", "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif")
    svg.set("font-size", "13")
    SubElement(svg, "title").text = case.name.replace("-", " ")
    SubElement(svg, "desc").text = words(case)
    SubElement(svg, "style").text = _style()
    card = SubElement(svg, "rect", {"class": "card edge-line"}, x="0.5", y="0.5", rx="8")
    slot = _SPAN / len(steps)
    middles = [_LEFT + slot * (place + 0.5) for place in range(len(steps))]

    y: float = 30
    said = [_said(case, step.cause) for step in steps]
    _name(svg, y, "event")
    for x, step, lines in zip(middles, steps, said, strict=True):
        _text(svg, x, y, [_operation(step.cause)], "ink strong")
        _text(svg, x, y + _LINE, lines, "ink")
    y += _LINE * (1 + max(map(len, said))) + 4

    _name(svg, y, "happened at")
    for x, step in zip(middles, steps, strict=True):
        if isinstance(step.cause, Event):
            _text(svg, x, y, [_clock(step.cause.happened)], "late" if _is_late(step) else "ink")
    y += 46 if any(map(_is_late, steps)) else 28

    _name(svg, y + 4, "order of log")
    _name(svg, y + 31, "logged at")
    _axis(svg, y)
    for number, (x, step) in enumerate(zip(middles, steps, strict=True), 1):
        if _is_late(step):
            _pointer(svg, y, x, _place_by_time(steps, step, middles))
        _mark(svg, x, y, number, step)
        _text(svg, x, y + 31, [_clock(step.cause.logged)], "soft")
    y += 60

    outcomes = [
        [(line, tone) for text, tone in _outcome(step) for line in _wrapped(text, slot)]
        for step in steps
    ]
    _name(svg, y, "outcome")
    for x, outcome in zip(middles, outcomes, strict=True):
        for place, (line, tone) in enumerate(outcome):
            _text(svg, x, y + place * _LINE, [line], f"{tone} strong")
    y += _LINE * max(map(len, outcomes))

    _name(svg, y + _ROW + 15, "gold after it")
    before: dict[int, Values] = {}
    for x, step in zip(middles, steps, strict=True):
        _table(svg, x, y, min(slot - 16, 190), case.columns, step, before)
        before = step.gold
    y += _ROW * (1 + max(1, *(len(step.gold) for step in steps))) + 16

    if case.with_history:
        y = _history(svg, y + 14, steps)
    svg.set("viewBox", f"0 0 {_WIDTH} {y:g}")
    for element, width, height in ((svg, _WIDTH, y), (card, _WIDTH - 1, y - 1)):
        element.set("width", f"{width:g}")
        element.set("height", f"{height:g}")
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


def _style() -> str:
    def rules(ground: int) -> str:
        return "".join(
            f".{name}{{fill:{colours[ground]}}}.{name}-line{{stroke:{colours[ground]}}}"
            for name, colours in _COLOURS.items()
        )

    return (
        f"{rules(0)}.strong{{font-weight:600}}.small{{font-size:12px}}"
        f".line{{fill:none}}.wide{{stroke-width:2}}.dashed{{stroke-dasharray:4 3}}"
        f"@media (prefers-color-scheme:dark){{{rules(1)}}}"
    )


def _wrapped(text: str, width: float) -> list[str]:
    return textwrap.wrap(text, int(width / _LETTER))


def _text(
    svg: Element, x: float, y: float, lines: Iterable[str], style: str, anchor: str = "middle"
) -> None:
    for place, line in enumerate(lines):
        text = SubElement(svg, "text", {"class": style, "text-anchor": anchor})
        text.set("x", f"{x:g}")
        text.set("y", f"{y + place * _LINE:g}")
        text.text = line


def _name(svg: Element, y: float, *lines: str) -> None:
    _text(svg, 18, y, lines, "soft", "start")


def _path(svg: Element, way: str, style: str) -> None:
    SubElement(svg, "path", {"class": f"line {style}"}, d=way)


def _tone(step: Step) -> str:
    """The colour of its mark, and of the rows that it changes."""
    return _TONES[[*step.fates.values()][-1]] if step.fates else _outcome(step)[0][1]


def _is_late(step: Step) -> bool:
    return bool({Fate.LATE, Fate.PLACED} & {*step.fates.values()})


def _place_by_time(steps: Sequence[Step], late: Step, middles: Sequence[float]) -> float:
    """Where an event would stand among those before it if its time decided."""
    assert isinstance(late.cause, Event)
    place = next(
        n
        for n, step in enumerate(steps)
        if isinstance(step.cause, Event) and step.cause.happened > late.cause.happened
    )
    return middles[place] - (middles[1] - middles[0]) / 2 if place else middles[0] - 40


def _axis(svg: Element, y: float) -> None:
    end = _WIDTH - _RIGHT
    _path(svg, f"M{_LEFT} {y}H{end}M{end - 7} {y - 5}L{end} {y}L{end - 7} {y + 5}", "soft-line")


def _pointer(svg: Element, y: float, x: float, to: float) -> None:
    """From a late event to where it belongs."""
    top = y - 34
    way = f"M{x:g} {y - 15}C{x:g} {top} {to:g} {top} {to:g} {y - 6}"
    _path(svg, way, "late-line dashed")
    _path(svg, f"M{to - 5:g} {y - 13}L{to:g} {y - 5}L{to + 5:g} {y - 13}", "late-line")


def _mark(svg: Element, x: float, y: float, number: int, step: Step) -> None:
    """A disc for an event, a diamond for a run."""
    tone = _tone(step)
    if isinstance(step.cause, Run):
        way = f"M{x:g} {y - 15}L{x + 15:g} {y}L{x:g} {y + 15}L{x - 15:g} {y}Z"
        SubElement(svg, "path", {"class": tone}, d=way)
    else:
        SubElement(svg, "circle", {"class": tone}, cx=f"{x:g}", cy=f"{y}", r="13")
    _text(svg, x, y + 4.5, [str(number)], "card strong")


def _table(
    svg: Element,
    x: float,
    y: float,
    width: float,
    columns: Sequence[str],
    step: Step,
    before: dict[int, Values],
) -> None:
    left = x - width / 2
    if not step.gold:
        _box(svg, left, y + _ROW, width, _ROW - 3, "edge-line dashed")
        _text(svg, x, y + _ROW + 15, [_NO_ROW], "soft")
        return
    cell = width / (1 + len(columns))
    lefts = [left + cell * place for place in range(1 + len(columns))]
    for at, name in zip(lefts, ["id", *columns], strict=True):
        _text(svg, at + 8, y + 16.5, [name], "soft small", "start")
    for place, (key, row) in enumerate(step.gold.items(), 1):
        top = y + place * _ROW
        style = "edge-line" if before.get(key) == row else f"{_tone(step)}-line wide"
        _box(svg, left, top, width, _ROW - 3, style)
        for at, value in zip(lefts, [str(key), *row], strict=True):
            _text(svg, at + 8, top + 15, [_shown(value)], "ink" if value else "soft", "start")


def _box(svg: Element, x: float, y: float, width: float, height: float, style: str) -> None:
    box = {"x": f"{x:g}", "y": f"{y:g}", "width": f"{width:g}", "height": f"{height:g}"}
    SubElement(svg, "rect", {"class": f"line {style}", **box, "rx": "3"})


def _history(svg: Element, y: float, steps: Sequence[Step]) -> float:
    """The versions after each step; returns where they end."""
    times = sorted({step.cause.happened for step in steps if isinstance(step.cause, Event)})
    scale = _SPAN / (times[-1] - times[0] + 15)

    def place(minute: float) -> float:
        return _LEFT + (minute - times[0]) * scale

    _path(svg, f"M18 {y - 16}H{_WIDTH - _RIGHT}", "edge-line")
    _name(svg, y + 4, "history")
    y += 14
    top = y
    for number, step in enumerate(steps, 1):
        _text(svg, 18, y + 17, [f"after {number}"], "soft", "start")
        for version in step.versions:
            begin, is_open = place((version.valid_from or 0) / MINUTE), version.valid_to is None
            end = _WIDTH - _RIGHT if version.valid_to is None else place(version.valid_to / MINUTE)
            style = "good-line wide" if is_open else "soft-line"
            # One that still holds points on.
            edge = end - 10 if is_open else end
            tip = f"L{end:g} {y + _BAR / 2:g}L{edge:g} {y + _BAR}"
            _path(svg, f"M{begin:g} {y}H{edge:g}{tip}H{begin:g}Z", style)
            label = f"{_listed(version.values)} {_period(version)}"
            _text(svg, begin + 9, y + 17.5, [label], "ink", "start")
        y += _BAR + 8
    for minute in times:
        _path(svg, f"M{place(minute):g} {top - 8}V{y}", "edge-line dashed")
        _text(svg, place(minute), y + 15, [_clock(minute)], "soft")
    return y + 30
