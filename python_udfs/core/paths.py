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
    """One step of a path as it is written: ``[0]``, ``.name`` or ``["other name"]``."""
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


def shorten(text: str) -> str:
    """A path, or a name or value, for a sentence: the middle of a very long one is left out."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    half = _LONGEST_SHOWN // 2
    return f"{text[:half]}...{text[-half:]}"
