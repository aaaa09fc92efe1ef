"""Paths inside a decoded value, for metadata and sentences.

A path is ``$`` followed by steps ``[0]``, ``.name`` or ``["any other name"]``: ``$.tags[2]``.
"""

import json
import re
from typing import Any, Final

Path = tuple[Any, ...] | None
"""A path as a chain: None is the root, ``(parent, step)`` an index or a name below the parent."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_SHOWN: Final = 200


def step_text(step: int | str) -> str:
    """One step of a path as text: ``[0]``, ``.name`` or ``["other name"]``."""
    if isinstance(step, int):
        return f"[{step}]"
    if _IDENTIFIER.fullmatch(step):
        return f".{step}"
    return f"[{json.dumps(step, ensure_ascii=False)}]"


def path_text(path: Path, root: str = "$") -> str:
    """The text of a path: ``$.tags[2]``."""
    steps = []
    while path is not None:
        path, step = path
        steps.append(step_text(step))
    return root + "".join(reversed(steps))


class PathTexts:
    """``path_text`` of successive paths. The common part with the previous path is not written
    again: many values may be below the same two hundred steps.
    """

    __slots__ = ("_ends", "_places", "_steps", "_text")

    def __init__(self) -> None:
        self._text = "$"
        self._steps: list[tuple[Any, ...]] = []
        """The path of the current text, as all paths from the root to it."""
        self._ends: list[int] = [1]
        """The length of the text of the root, and of each of those paths."""
        self._places: dict[int, int] = {}
        """The index of each of them, by identity, not by value: as long as they are kept, nothing
        else can have their ids.
        """

    def of(self, path: Path) -> str:
        """The text of a path."""
        more = []
        while path is not None and id(path) not in self._places:
            more.append(path)
            path = path[0]
        known = 0 if path is None else self._places[id(path)] + 1
        for gone in self._steps[known:]:
            del self._places[id(gone)]
        del self._steps[known:], self._ends[known + 1 :]
        written = [self._text[: self._ends[-1]]]
        for each in reversed(more):
            text = step_text(each[1])
            self._places[id(each)] = len(self._steps)
            self._steps.append(each)
            self._ends.append(self._ends[-1] + len(text))
            written.append(text)
        self._text = "".join(written)
        return self._text


def shorten(text: str) -> str:
    """A path, or a name or value, for a sentence: a very long one loses its middle."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    half = _LONGEST_SHOWN // 2
    return f"{text[:half]}...{text[-half:]}"
