"""Plots as SVG embedded in a page: their text is text, their colours are the page's."""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree

import pygal

# It has added a finder for its plugins to Python's, in a way that Python warns of at each later
# import.
sys.meta_path[:] = [each for each in sys.meta_path if type(each).__module__ != pygal.__name__]

_SVG: Final = "http://www.w3.org/2000/svg"
_WIDTH: Final = 560
_HEIGHT: Final = 230
_LABELS: Final = 4
# pygal's scripts and tooltips, styles that the page has itself, and duplicate texts.
_LEFT_OUT: Final = frozenset({"script", "style", "desc", "defs", "title"})
_GROUPS_LEFT_OUT: Final = frozenset({"tooltip", "plot text-overlay", "plot tooltip-overlay"})


def bars(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], text: str) -> str:
    """Stacked bars, one for each label; ``text`` is the alternative for screen readers."""
    return _drawn(pygal.StackedBar, labels, series, text)


def line(labels: Sequence[str], series: Mapping[str, Sequence[float | None]], text: str) -> str:
    """A line for each series, with a gap where a value is unknown."""
    return _drawn(pygal.Line, labels, series, text)


def _drawn(
    kind: Callable[..., Any],
    labels: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    text: str,
) -> str:
    chart = kind(
        css=[],
        js=[],
        width=_WIDTH,
        height=_HEIGHT,
        margin=6,
        show_legend=len(series) > 1,
        legend_at_bottom=True,
        legend_box_size=10,
        legend_at_bottom_columns=len(series),
        x_labels_major_count=min(_LABELS, len(labels)),
        show_minor_x_labels=False,
        truncate_label=-1,
        truncate_legend=-1,
        value_formatter=lambda value: f"{value:,.0f}" if value == int(value) else f"{value:,.1f}",
        max_scale=6,
        min_scale=2,
        include_x_axis=True,
        allow_interruptions=True,
        dots_size=2,
    )
    chart.x_labels = labels
    for name, values in series.items():
        chart.add(name, list(values))
    root = chart.render_tree()
    _strip(root)
    root.set("role", "img")
    root.set("aria-label", text)
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _strip(element: Any) -> None:
    # The same in all plots of a page.
    element.attrib.pop("id", None)
    for child in list(element):
        tag = child.tag.rpartition("}")[2] if isinstance(child.tag, str) else None
        if tag is None or tag in _LEFT_OUT or child.get("class") in _GROUPS_LEFT_OUT:
            element.remove(child)
        else:
            _strip(child)
