"""The tree that a payload is shown as."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from python_udfs.core.paths import step_text

ELIDED: Final = "elided"
"""The kind of a node that stands for values which are not shown one by one."""


class Limits(NamedTuple):
    """How much of a payload gets nodes of its own; the rest is passed over, and counted."""

    nodes: int = 20_000
    children: int = 200
    """Of one array or map."""
    names: int = 2_000
    """Of one object: so many columns a table may have."""
    depth: int = 24


# What is wrong is shown, however far behind the others, in so many elements of a batch.
MOST_WANTED: Final = 20
# The decoders refuse what is deeper.
EVERYTHING: Final = Limits(nodes=2_000_000, children=2_000_000, names=2_000_000, depth=260)


class Node(Struct, omit_defaults=True):
    """A value in a payload: bytes from ``start`` to before ``end``."""

    start: int
    end: int
    kind: str
    """Its type, by the names of MessagePack or JSON; or ``ELIDED``."""
    step: int | str | None = None
    """Its index or name in what it is a part of; None of a key of a map."""
    name: str = ""
    """What the wire format calls it."""
    value: Any = None
    """Of what has no parts; None for nil and null too."""
    size: int = 0
    """How many elements, pairs or names it has, or has begun; values, of what is elided."""
    note: str = ""
    """What the value means."""
    declared: str = ""
    """The type that the schema block says."""
    became: list[str] = field(default_factory=list)
    """Columns of the decoded event that it is in, with their values."""
    wrong: list[str] = field(default_factory=list)
    """What the decoder says of it."""
    children: list["Node"] = field(default_factory=list)

    def part(self, step: int | str) -> "Node | None":
        """The part in this place; the last, of more with one name."""
        return next((each for each in reversed(self.children) if each.step == step), None)


class Tree(Struct, omit_defaults=True):
    """A payload. Around ``root`` there is nothing but white space, up to ``rest``."""

    size: int
    """Of the payload, in bytes."""
    root: Node | None = None
    rest: int | None = None
    """Where what can't be read begins; the payload's end, where it lacks something."""

    def nodes(self) -> Iterator[Node]:
        """All nodes, each before its parts."""
        waiting = [self.root] if self.root else []
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children)


class Located(NamedTuple):
    """The node that a sentence is about; one that it is in, if it has none of its own."""

    node: Node
    is_exact: bool


def located(root: Node, sentence: str, passed_by: str = "") -> Located | None:
    """The node that a sentence of a decoder is about, by the path that it begins with.

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
    """How long the step to a part is, if it is the next one in the sentence's path."""
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
