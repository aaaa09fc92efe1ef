"""The tree that shows a payload."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from python_udfs.core.paths import step_text

ELIDED: Final = "elided"
"""The kind of a node for values that are not shown one by one."""


class Limits(NamedTuple):
    """Limits of nodes in a payload; the rest is skipped and counted."""

    nodes: int = 20_000
    children: int = 200
    """The most parts of an array or map."""
    names: int = 2_000
    """The most names of an object: a table may have as many columns."""
    depth: int = 24


# The most faulty elements of a batch that are shown, however far behind.
MOST_WANTED: Final = 20
# The decoders refuse deeper nesting.
EVERYTHING: Final = Limits(nodes=2_000_000, children=2_000_000, names=2_000_000, depth=260)


class Node(Struct, omit_defaults=True):
    """A value in a payload: bytes from ``start`` to before ``end``."""

    start: int
    end: int
    kind: str
    """Its type, by the names of MessagePack or JSON; or ``ELIDED``."""
    step: int | str | None = None
    """Its index or name in its parent; None for a key of a map."""
    name: str = ""
    """The wire format's name for it."""
    value: Any = None
    """The value of a node without parts; None for nil and null too."""
    size: int = 0
    """The number of its elements, pairs or names, including incomplete ones; of an elided node,
    of its values.
    """
    note: str = ""
    """What the value means."""
    declared: str = ""
    """The type that the schema block declares."""
    became: list[str] = field(default_factory=list)
    """The columns of the decoded event that contain it, with their values."""
    wrong: list[str] = field(default_factory=list)
    """The decoder's errors about it."""
    children: list["Node"] = field(default_factory=list)

    def part(self, step: int | str) -> "Node | None":
        """The part with this index or name; the last of several."""
        return next((each for each in reversed(self.children) if each.step == step), None)


class Tree(Struct, omit_defaults=True):
    """A payload. ``root`` is surrounded by white space only, up to ``rest``."""

    size: int
    """The size of the payload in bytes."""
    root: Node | None = None
    rest: int | None = None
    """Where the unreadable part begins; the payload's end, if it is incomplete."""

    def nodes(self) -> Iterator[Node]:
        """All nodes, each before its parts."""
        waiting = [self.root] if self.root else []
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


class Located(NamedTuple):
    """The node that a sentence is about, or the nearest one that contains it."""

    node: Node
    is_exact: bool


def located(root: Node, sentence: str, passed_by: str = "") -> Located | None:
    """The node that a decoder's sentence is about, from the path with which it begins.

    Paths leave out the step to a node with the name ``passed_by``.
    """
    if not sentence.startswith("$"):
        return None
    node, known = root, 1
    while True:
        for part in _parts(node, passed_by):
            end = known + _matched(part, sentence, known)
            if end > known:
                node, known = part, end
                break
        else:
            return Located(node, sentence[known : known + 1] in _PATH_ENDS)


def _parts(node: Node, passed_by: str) -> Iterator[Node]:
    for child in node.children:
        yield child
        if passed_by and child.name == passed_by:
            yield from child.children


def _matched(part: Node, sentence: str, known: int) -> int:
    """The length of the step to a part, if it is next in the sentence's path."""
    steps = [f".{part.name}"] if part.name.isidentifier() else []
    if isinstance(part.step, int):
        steps.append(f"[{part.step}]")
    elif part.step is not None:
        steps.append(step_text(part.step))
    for step in steps:
        if sentence.startswith(step, known) and sentence[known + len(step)] in _STEP_ENDS:
            return len(step)
    return 0


_PATH_ENDS: Final = (":", " ", ",")
_STEP_ENDS: Final = (*_PATH_ENDS, ".", "[")
