"""A page of a run's report as a browser reads it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

_VOID: Final = frozenset({"meta", "link", "br", "img", "input", "hr", "wbr"})
_LINKS: Final = frozenset({"href", "src", "action", "formaction", "data", "srcset", "poster"})


@dataclass
class Element:
    """An element with what is in it."""

    tag: str
    attributes: dict[str, str | None]
    children: list["Element | str"] = field(default_factory=list)

    def all(self, tag: str) -> list["Element"]:
        """The elements of a name within it."""
        found = []
        for child in self.children:
            if isinstance(child, Element):
                found += [child] if child.tag == tag else []
                found += child.all(tag)
        return found

    @property
    def text(self) -> str:
        """Its text, spaces squeezed."""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join(" ".join(parts).split())

    def rows(self) -> dict[str, dict[str, str]]:
        """Of a table: each row's cells by the headers of the columns, by the row's header."""
        heads = [each.text for each in self.all("thead")[0].all("th")]
        found = {}
        for row in self.all("tbody")[0].all("tr"):
            cells = [each for each in row.children if isinstance(each, Element)]
            texts = [each.text for each in cells]
            found[texts[0].split()[0]] = dict(zip(heads, texts, strict=True))
        return found


class Page(HTMLParser):
    """A page; elements that are not closed where they are opened are refused."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]
        self.feed(html)
        self.close()
        assert len(self.open) == 1, self.open[-1].tag

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        self.open[-1].children.append(data)

    def all(self, tag: str) -> list[Element]:
        """The elements of a name."""
        return self.root.all(tag)

    def table(self, caption: str) -> dict[str, dict[str, str]]:
        """The rows of the table with this caption."""
        (found,) = (
            each
            for each in self.all("table")
            for line in each.all("caption")
            if line.text == caption
        )
        return found.rows()

    def elements(self) -> list[Element]:
        """All of them."""

        def within(element: Element) -> list[Element]:
            inner = [each for each in element.children if isinstance(each, Element)]
            return [*inner, *(deeper for each in inner for deeper in within(each))]

        return within(self.root)


def is_sound(page: Page) -> None:
    """What holds for each page: it runs and fetches nothing, and can be read without eyes."""
    elements = page.elements()
    assert not {each.tag for each in elements} & {"script", "iframe", "object", "embed", "img"}
    for each in elements:
        assert not [name for name in each.attributes if name.startswith("on")], each
        links = [each.attributes[name] or "" for name in _LINKS & each.attributes.keys()]
        assert all(link.startswith(("#", "data:,", "docs.html")) for link in links), links
    ids = [each.attributes["id"] for each in elements if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    targets = [link.attributes["href"] or "" for link in page.all("a")]
    assert {link[1:] for link in targets if link.startswith("#")} <= {*ids}
    for plot in page.all("svg"):
        assert plot.attributes["role"] == "img" and plot.attributes["aria-label"]
    assert len(page.all("svg")) == len(page.all("figure"))
    assert all(head.attributes.get("scope") for head in page.all("th"))
    (html,) = page.all("html")
    assert html.attributes["lang"] == "en"
    assert [len(page.all(tag)) for tag in ("title", "h1", "main", "header", "footer")] == [1] * 5
