"""Chromium without a window, through the DevTools protocol on two pipes: for tests and pictures.

https://chromedevtools.github.io/devtools-protocol/: each message is JSON and ends with a zero byte;
what the browser reads is its descriptor 3, what it writes 4.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# A machine that is busy with Spark takes some seconds to draw.
_PATIENCE: Final = 60.0
_OPTIONS: Final = (
    *("--headless=new", "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars"),
    *("--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--mute-audio"),
    # Else it asks its maker for news.
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    # The same letters in each picture.
    *("--force-color-profile=srgb", "--font-render-hinting=none"),
)
_KEYS: Final = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowDown": 40}
_COMPLAINTS: Final = frozenset({"error", "warning", "assert"})


class BrowserError(Exception):
    """The browser is not there, has ended, or has refused a command."""


class Role(NamedTuple):
    """What a screen reader is told of an element."""

    role: str
    name: str
    level: int | None = None


def find_browser() -> str | None:
    """The program, None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class Browser:
    """A browser with one tab, and a profile of its own that is gone afterwards."""

    def __init__(self) -> None:
        program = find_browser()
        if program is None:
            raise BrowserError(f"none of these browsers is there: {', '.join(_NAMES)}")
        self._profile: Final = tempfile.mkdtemp(prefix="browser-")
        there, self._write = _pipe()
        self._read, back = _pipe()
        root = ("--no-sandbox",) if os.geteuid() == 0 else ()
        command = (program, *_OPTIONS, *root, f"--user-data-dir={self._profile}", "about:blank")
        # A shell moves descriptors without running Python after a fork; not each knows numbers of
        # two digits.
        self._process: Final = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{there} 4>&{back}', "bash", *command],
            pass_fds=(there, back),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(back)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser."""
        os.close(self._write)
        try:
            # It ends with the pipe.
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command of the protocol. Raises ``BrowserError``."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._send(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") != self._number:
                self._events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                result: dict[str, Any] = answer["result"]
                return result

    def _send(self, message: bytes) -> None:
        with suppress(BrokenPipeError):
            while message:
                message = message[os.write(self._write, message) :]

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._read], [], [], left)[0]:
                raise BrowserError(f"the browser has not answered for {_PATIENCE:.0f} s")
            read = os.read(self._read, 1 << 20)
            if not read:
                raise BrowserError("the browser has ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    # --- a page -----------------------------------------------------------------------------------

    def look(self, width: int, height: int, *, dark: bool) -> None:
        """Have a window of a size, and a reader who likes it dark or light."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    def open(self, address: str, until: str = "true") -> None:
        """Go to a page, and wait until it is loaded and a condition (JavaScript) holds there."""
        self._events.clear()
        # A page that only another fragment leads to is not loaded again.
        self.call("Page.navigate", url="about:blank")
        self._events.clear()
        failed = self.call("Page.navigate", url=address).get("errorText")
        if failed:
            raise BrowserError(f"{address}: {failed}")
        self.wait_for(f"document.readyState == 'complete' && ({until})")

    def wait_for(self, condition: str) -> None:
        """Wait until a condition (JavaScript) holds."""
        deadline = time.monotonic() + _PATIENCE
        while not self._is_met(condition):
            if time.monotonic() > deadline:
                raise BrowserError(f"this has not come true: {condition}")
            time.sleep(0.02)

    def _is_met(self, condition: str) -> bool:
        try:
            return bool(self.evaluate(condition))
        except BrowserError as error:
            # Asked while a link was being followed: the page to be asked is the next one.
            if "navigated or closed" in str(error):
                return False
            raise

    def evaluate(self, script: str) -> Any:
        """The value of an expression of JavaScript, as JSON can say it."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(f"{script}: {_exception(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def press(self, key: str, modifiers: int = 0) -> None:
        """Press a key, one of ``_KEYS``."""
        told = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS[key]}
        if key == "Enter":
            told["text"] = "\r"
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, modifiers=modifiers, **told)

    def roles(self) -> list[Role]:
        """What a screen reader is told of the page, in its order."""
        nodes = {each["nodeId"]: each for each in self.call("Accessibility.getFullAXTree")["nodes"]}
        found = []
        ahead = [next(iter(nodes))]
        while ahead:
            node = nodes[ahead.pop()]
            found += [] if node["ignored"] else [_role(node)]
            ahead += node.get("childIds", [])[::-1]
        return found

    def complaints(self) -> list[str]:
        """What the page has written to the console as error or warning, and uncaught exceptions."""
        self.evaluate("0")
        return [text for event in self._events if (text := _complaint(event)) is not None]

    def requests(self) -> list[str]:
        """The addresses that the page has asked for, itself not among them."""
        self.evaluate("0")
        asked = (
            event["params"]
            for event in self._events
            if event.get("method") == "Network.requestWillBeSent"
        )
        return [
            each["request"]["url"]
            for each in asked
            if each.get("type") != "Document" and not each["request"]["url"].startswith("data:")
        ]

    def photograph(self, picture: Path) -> None:
        """Draw what the window shows, as PNG."""
        drawn = self.call("Page.captureScreenshot", format="png")["data"]
        picture.write_bytes(base64.b64decode(drawn))


def _pipe() -> tuple[int, int]:
    """The ends of a pipe, neither of them 3 or 4."""
    low = os.pipe()
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in low]
    for each in low:
        os.close(each)
    return high[0], high[1]


def _role(node: Mapping[str, Any]) -> Role:
    levels = [
        each["value"]["value"] for each in node.get("properties", ()) if each["name"] == "level"
    ]
    return Role(
        node["role"]["value"],
        " ".join(str(node.get("name", {}).get("value", "")).split()),
        levels[0] if levels else None,
    )


def _complaint(event: Mapping[str, Any]) -> str | None:
    told = event.get("params", {})
    match event.get("method"):
        case "Runtime.exceptionThrown":
            return _exception(told["exceptionDetails"])
        case "Runtime.consoleAPICalled" if told["type"] in _COMPLAINTS:
            values: Sequence[Mapping[str, Any]] = told["args"]
            words = [str(each.get("value", each.get("description"))) for each in values]
            return f"{told['type']}: {' '.join(words)}"
        case "Log.entryAdded" if told["entry"]["level"] in _COMPLAINTS:
            return f"{told['entry']['level']}: {told['entry']['text']}"
    return None


def _exception(details: Mapping[str, Any]) -> str:
    return str(details.get("exception", {}).get("description") or details["text"])
