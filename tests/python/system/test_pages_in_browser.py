"""The pages that people look at, in Chromium: of any width, light and dark, by keyboard and by
screen reader, and without a word on the console.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise, product
from pathlib import Path

import pytest
from support.lakes import Lake
from support.live_pages import page_of
from support.page_checks import open_all, pale_texts, too_wide, walk
from test_report import hostile_facts

from dbt_lakehouse.commands.page.server import served
from dbt_lakehouse.report.gather import gather
from dbt_lakehouse.report.page import write_page
from dbt_lakehouse.report.runs import kept
from tools.documents.browser import Browser, find_browser

pytestmark = pytest.mark.skipif(
    find_browser() is None,
    reason="no Chromium is here to open pages in; on Debian `apt-get install chromium` brings it",
)

WIDE, NARROW = 1280, 375
LOOKS = [*product((WIDE, NARROW), (False, True)), (768, False), (1920, True)]
# Of dbt's page: once it has drawn a table.
DRAWN = "document.querySelectorAll('table tr').length > 3"
GRAPH = "document.querySelectorAll('canvas').length > 0"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def good(demo: Lake, demo_docs: Path) -> Path:
    """The report of the demo's build, whatever has been run since, beside dbt's documentation."""
    (built,) = (run for run in kept(demo_docs.parent, "gold") if run.command == "build")
    facts = gather(demo.reader(), "gold", "silver", [built], datetime.now(UTC))
    page = demo_docs.with_name("built.html")
    write_page(facts, page, demo_docs.parent)
    return page


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run in which all has failed, in words that would be HTML."""
    folder = tmp_path_factory.mktemp("failed")
    write_page(hostile_facts(), folder / "report.html", folder)
    return folder / "report.html"


@pytest.fixture(scope="module")
def live(demo: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the live page of the demo's lake."""
    with served(page_of(demo, tmp_path_factory.mktemp("live")), 0) as address:
        yield address


@pytest.fixture(params=["good", "failed", "live"])
def page(request: pytest.FixtureRequest) -> str:
    """The address of each of them."""
    found: Path | str = request.getfixturevalue(request.param)
    return found.as_uri() if isinstance(found, Path) else found


def is_quiet(browser: Browser) -> None:
    assert browser.complaints() == []
    own = browser.evaluate("location.protocol == 'http:' ? [`${location.origin}/live.js`] : []")
    assert browser.requests() == own


def test_a_report_can_be_read(browser: Browser, page: str) -> None:
    browser.open(page)
    papers = {}
    for is_open, (width, dark) in product((False, True), LOOKS):
        browser.look(width, 900, dark=dark)
        if is_open:
            open_all(browser)
        assert too_wide(browser) == [], (width, is_open)
        assert pale_texts(browser) == [], (dark, is_open)
        papers[dark] = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert papers == {False: "rgb(255, 255, 255)", True: "rgb(20, 24, 28)"}
    is_quiet(browser)


def test_no_column_is_cut_off_on_a_small_laptop(browser: Browser, good: Path) -> None:
    browser.look(WIDE, 900, dark=False)
    browser.open(good.as_uri())
    table = "document.querySelector('[aria-label=\"Tables of gold\"]')"
    assert browser.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


def test_a_report_by_keyboard(browser: Browser, page: str) -> None:
    """Tab leads to all that can be followed, opened or scrolled, in the order of the page."""
    browser.look(WIDE, 900, dark=False)
    browser.open(page)
    stops = walk(browser)
    assert [stop["place"] for stop in stops] == [*range(len(stops))]
    assert [stop for stop in stops if not (stop["outlined"] and stop["seen"])] == []
    assert {"A", "SUMMARY", "DIV"} <= {stop["tag"] for stop in stops}
    browser.open(page)
    browser.press("Tab")
    browser.press("Enter")
    assert browser.evaluate("document.activeElement.id") == "main"
    browser.evaluate("document.querySelector('#tests summary').focus()")
    browser.press("Enter")
    assert browser.evaluate("document.querySelector('#tests details').open")


def test_a_report_by_screen_reader(browser: Browser, page: str) -> None:
    browser.look(WIDE, 900, dark=False)
    browser.open(page)
    open_all(browser)
    roles = browser.roles()
    names: dict[str, list[str]] = {}
    for each in roles:
        names.setdefault(each.role, []).append(each.name)
    # One of each, in this order.
    landmarks = ("banner", "navigation", "main", "contentinfo")
    assert [each.role for each in roles if each.role in landmarks] == [*landmarks]
    levels = [each.level or 0 for each in roles if each.role == "heading"]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= level + 1 for level, later in pairwise(levels))
    assert len(names["image"]) == len(names["figure"]) >= 3
    for role in (
        "image",
        "figure",
        "table",
        "region",
        "link",
        "DisclosureTriangle",
        "columnheader",
        *("textbox", "button", "checkbox"),
    ):
        assert all(names.get(role, ())), role
    assert "Gold" in names["table"]
    assert len(set(names["figure"])) == len(names["figure"])


def test_a_live_page_is_asked_by_keyboard(browser: Browser, live: str) -> None:
    browser.look(NARROW, 900, dark=True)
    browser.open(live)
    browser.evaluate("document.querySelector('#query').value = 'select order_id from orders'")
    browser.evaluate("document.querySelector('#query').focus()")
    browser.press("Tab")
    browser.press("Enter")
    browser.wait_for("location.pathname == '/sql' && document.querySelectorAll('td').length == 36")
    assert too_wide(browser) == [] and pale_texts(browser) == []
    roles = {(each.role, each.name) for each in browser.roles()}
    assert {("heading", "Answer"), ("region", "Rows"), ("columnheader", "order_id")} <= roles
    assert ("textbox", "Query") in roles
    assert browser.complaints() == []


def test_a_live_page_is_renewed_but_for_what_holds_the_focus(browser: Browser, live: str) -> None:
    browser.open(live)
    for focused, shown in (("#query", True), ("#runs .scroll", False)):
        browser.evaluate("document.querySelector('#runs-title').textContent = 'old'")
        browser.evaluate(f"document.querySelector('{focused}').focus()")
        browser.evaluate("renew()")
        assert browser.evaluate("document.querySelector('#runs-title').textContent == 'Runs'") == (
            shown
        )
        assert browser.evaluate(f"document.activeElement.matches('{focused}')")
    browser.evaluate("document.querySelector('#renewed').click()")
    browser.evaluate("document.querySelector('#query').focus()")
    browser.evaluate("renew()")
    assert browser.evaluate("document.querySelector('#runs-title').textContent") == "old"


def test_what_is_chosen_hides_all_else(browser: Browser, good: Path) -> None:
    """Without a script, by mouse or by keyboard."""
    browser.look(WIDE, 900, dark=False)
    browser.open(good.as_uri())
    open_all(browser)

    def shown(rows: str) -> list[str]:
        each = f"[...document.querySelectorAll('{rows}')].filter(each => each.checkVisibility())"
        return list(browser.evaluate(f"{each}.map(each => each.innerText)"))

    rows, tests = "#quarantine tbody tr", "#tests ul.tests"
    before = shown(rows)
    chosen = "[...document.querySelector('#choose-code').options].find(each => each.text == '{}')"
    browser.evaluate(f"{chosen.format('bad_shape')}.selected = true")
    assert 0 < len(shown(rows)) < len(before)
    assert all(each.startswith("bad_shape") for each in shown(rows))
    browser.evaluate(f"{chosen.format('all')}.selected = true")
    assert shown(rows) == before
    browser.evaluate("document.querySelector('#choose-table').focus()")
    browser.press("ArrowDown")
    assert len(shown(tests)) == 1 and "accounts" in shown(tests)[0]


def test_links_of_a_report_lead_there(browser: Browser, good: Path) -> None:
    """From a table to what it is made of, though that is folded, and its tests; to its lineage and
    its SQL on dbt's page.
    """
    browser.look(WIDE, 900, dark=False)
    browser.open(good.as_uri())
    starts = "each.innerText.startsWith('gold.orders')"
    row = f"[...document.querySelectorAll('tr')].find(each => {starts})"
    for link, shown in (
        (f"{row}.querySelector('th small a[href^=\"#\"]')", "silver.orders_changes"),
        (f"{row}.querySelector('a[href^=\"#tests-of\"]')", "gold.orders"),
    ):
        browser.evaluate(f"{link}.click()")
        target = "document.querySelector(location.hash)"
        assert browser.evaluate(f"{target}.innerText").split()[0] == shown
        assert browser.evaluate(f"{target}.checkVisibility()")
    assert browser.evaluate("document.querySelectorAll('.tests a').length") > 60
    for part, condition in (
        ("lineage", f"{GRAPH} && {DRAWN}"),
        (
            "orders.sql",
            f"{DRAWN} && document.querySelector('.nav-tabs .active')?.innerText == 'Code'",
        ),
    ):
        browser.open(good.as_uri())
        link = f"[...{row}.querySelectorAll('a')].find(each => each.innerText.endsWith('{part}'))"
        browser.evaluate(f"{link}.click()")
        browser.wait_for(f"location.pathname.endsWith('/docs.html') && {condition}")
        assert "orders" in browser.evaluate("document.querySelector('h1').innerText")
        is_quiet(browser)


@pytest.mark.parametrize("place", ["", "#!/model/model.cdc_lakehouse.profiles"])
def test_dbts_documentation_can_be_read(browser: Browser, demo_docs: Path, place: str) -> None:
    browser.look(WIDE, 900, dark=False)
    browser.open(demo_docs.as_uri() + place, DRAWN)
    for width, dark in LOOKS:
        browser.look(width, 900, dark=dark)
        assert too_wide(browser) == [], width
        is_turned = browser.evaluate("getComputedStyle(document.documentElement).filter") != "none"
        assert is_turned == dark
    # In the dark all is turned round, with what contrast it has.
    browser.look(WIDE, 900, dark=False)
    assert pale_texts(browser) == []
    stops = walk(browser)
    # To the browser, what scrolls is a stop too.
    places = [stop["place"] for stop in stops if stop["place"] >= 0]
    assert places == [*range(len(places))] and len(places) > 15
    assert all(stop["outlined"] for stop in stops)
    roles = browser.roles()
    assert {"navigation", "main", "table"} <= {each.role for each in roles}
    unnamed = [each.role for each in roles if not each.name]
    assert not {"image", "link", "button", "textbox", "heading"} & {*unnamed}
    # By its icon one knows a folder.
    icons = "[...document.querySelectorAll('.app-menu use')].filter(each => each.checkVisibility())"
    assert browser.evaluate(f"{icons}.map(each => each.href.baseVal)").count("") == 0
    is_quiet(browser)


def test_what_is_wrong_with_a_page_is_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        "<body style='background: #fff'><p style='color: #999'>pale</p>"
        "<p style='color: #0009'>dark enough</p><p style='width: 500px'>broad</p>"
        "<a href='#a' tabindex=2>second</a> <a href='#b' tabindex=1 style='outline: 0'>first</a>"
        "<svg role=img></svg><img src=none.png alt=x>"
        "<script>console.warn('a', 1); nothing()</script>"
    )
    browser.look(NARROW, 900, dark=False)
    browser.open(page.as_uri())
    assert pale_texts(browser) == ["2.85: pale"]
    assert ["broad" in each for each in too_wide(browser)] == [True]
    assert [(stop["place"], stop["outlined"]) for stop in walk(browser)] == [(1, False), (0, True)]
    assert [each.name for each in browser.roles() if each.role == "image"] == ["", "x"]
    complaints = "".join(browser.complaints())
    assert "warning: a 1" in complaints and "nothing is not defined" in complaints
    assert browser.requests() == [(tmp_path / "none.png").as_uri()]
