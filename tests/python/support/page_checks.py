"""What is to hold for a page in a browser, as scripts that run there and say what is wrong."""

from typing import Any, Final

from tools.documents.browser import Browser

# As WCAG 2 asks of level AA: 4.5, of large letters 3. What is transparent lets through what is
# behind it; pictures behind text, gradients and filters are none of our pages'.
_PALE: Final = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const over = (top, below) => {
    const alpha = top[3] ?? 1;
    return [0, 1, 2].map(at => top[at] * alpha + below[at] * (1 - alpha));
  };
  const background = element => {
    const own = element ? parts(getComputedStyle(element).backgroundColor) : [255, 255, 255];
    return (own[3] ?? 1) === 1 ? own : over(own, background(element.parentElement));
  };
  const light = colour => {
    const [r, g, b] = colour.map(each => each / 255).map(
      each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode.textContent.trim();
    const element = texts.currentNode.parentElement;
    if (!text || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const behind = background(element);
    const ink = over(parts(element instanceof SVGElement ? style.fill : style.color), behind);
    const [less, more] = [light(ink), light(behind)].sort((a, b) => a - b);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const contrast = (more + 0.05) / (less + 0.05);
    if (contrast < (large ? 3 : 4.5)) found.push(`${contrast.toFixed(2)}: ${text.slice(0, 60)}`);
  }
  return [...new Set(found)];
})()
"""
# The page itself is as wide as the window; what is wider scrolls within it.
_WIDE: Final = """
(() => {
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= width) return [];
  const scrolls = element => element && (
    getComputedStyle(element).overflowX !== 'visible' || scrolls(element.parentElement));
  return [...document.body.querySelectorAll('*')]
    .filter(each => each.getBoundingClientRect().right > width + 1 && !scrolls(each.parentElement))
    .map(each => each.outerHTML.slice(0, 100));
})()
"""
_STOPS: Final = """
[...document.querySelectorAll('a[href], button, input, select, summary, textarea, [tabindex="0"]')]
  .filter(each => each.checkVisibility() && !each.disabled)
"""
_FOCUSED: Final = f"""
(() => {{
  const focused = document.activeElement;
  const style = getComputedStyle(focused);
  const box = focused.getBoundingClientRect();
  return {{
    place: {_STOPS}.indexOf(focused),
    outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
    seen: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    tag: focused.tagName,
    html: focused.outerHTML.slice(0, 100),
  }};
}})()
"""


def pale_texts(browser: Browser) -> list[str]:
    """The texts that have too little contrast to what is behind them."""
    return list(browser.evaluate(_PALE))


def too_wide(browser: Browser) -> list[str]:
    """What makes the page wider than the window."""
    return list(browser.evaluate(_WIDE))


def walk(browser: Browser) -> list[dict[str, Any]]:
    """What Tab leads to, in its order, as far as there is something to lead to."""
    stops = browser.evaluate(f"{_STOPS}.length")
    found = []
    for _ in range(stops):
        browser.press("Tab")
        found.append(browser.evaluate(_FOCUSED))
    return found


def open_all(browser: Browser) -> None:
    """Open all that is folded."""
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
