"""A browser without a window, spoken to over two pipes in Chromium's own protocol.

    with Chromium(folder) as browser:
        page = browser.page(width=390)
        page.open("http://127.0.0.1:8377/")
        page.until("document.querySelector('h1')")
        page.type("hello")
        page.press("Enter")

Keys and clicks are those of a person as far as a page can tell (`isTrusted`). `until` waits in the page for
an expression to become true. What the page asked for and wrote to its console, and dialogs it opened, is
remembered.
"""

import contextlib
import json
import os
import subprocess
import threading
from collections import deque
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any, Final, Self

from deadline import DEADLINE_S

_FLAGS: Final = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--no-proxy-server",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)

_KEYS: Final = {
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
    "Tab": ("Tab", 9, ""),
    "Space": ("Space", 32, " "),
    "ArrowLeft": ("ArrowLeft", 37, ""),
    "ArrowRight": ("ArrowRight", 39, ""),
    "ArrowDown": ("ArrowDown", 40, ""),
    "Home": ("Home", 36, ""),
    "End": ("End", 35, ""),
}
_SHIFT: Final = 8
_NAVIGATIONS: Final = 5


class BrowserError(Exception):
    """What the browser answered was an error."""


class Chromium:
    """The process. `folder` is its profile: what pages keep stays there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._next = 0
        self._lock = threading.Lock()
        self._answers: dict[int, Queue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Self:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        # The numbers of the two pipes are the protocol's; a shell puts them there.
        self._process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash"),
                *("chromium", *_FLAGS, *sandbox, f"--user-data-dir={self._folder}", "about:blank"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self.ask("Browser.close")
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(20)
        os.close(self._out)
        os.close(self._in)

    def ask(self, method: str, session: str = "", **arguments: Any) -> dict[str, Any]:
        """Return the browser's answer to a command.

        Raises:
            BrowserError: it refused, or is gone.
        """
        answer: Queue[dict[str, Any]] = Queue()
        with self._lock:
            self._next += 1
            number = self._next
            self._answers[number] = answer
            message = {"id": number, "method": method, "params": arguments}
            asked = json.dumps(message | ({"sessionId": session} if session else {}))
            os.write(self._out, asked.encode() + b"\0")
        found = answer.get(timeout=DEADLINE_S)
        if "error" in found:
            raise BrowserError(f"{method}: {found['error'].get('message')}")
        result: dict[str, Any] = found["result"]
        return result

    def page(self, *, width: int = 1280, height: int = 800, is_dark: bool = False) -> "Page":
        """Return a new page of that size; up to 720 it is a phone's, with a finger for a mouse."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Network", "Runtime", "Accessibility"):
            page.ask(f"{domain}.enable")
        page.resize(width, height)
        if width < 720:
            page.ask("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=1)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        page.ask("Emulation.setEmulatedMedia", features=[scheme])
        return page

    def _read(self) -> None:
        left = b""
        while piece := os.read(self._in, 1 << 16):
            *whole, left = (left + piece).split(b"\0")
            for message in map(json.loads, whole):
                if "id" in message:
                    self._answers.pop(message["id"]).put(message)
                elif (page := self._pages.get(message.get("sessionId", ""))) is not None:
                    page.heard(message["method"], message["params"])
        for answer in self._answers.values():
            answer.put({"error": {"message": "the browser is gone"}})


class Page:
    """One page. `requests` are the addresses it asked for, `said` what was written to its console."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session
        self.requests: deque[str] = deque()
        self.said: deque[str] = deque()
        self.dialogs: deque[str] = deque()
        self._loaded = threading.Event()

    def heard(self, method: str, told: dict[str, Any]) -> None:
        """Remember an event. Called by the thread that reads."""
        match method:
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Page.javascriptDialogOpening":
                self.dialogs.append(told["message"])
            case "Runtime.exceptionThrown":
                details = told["exceptionDetails"]
                self.said.append(str(details.get("exception", details).get("description", details)))
            case "Runtime.consoleAPICalled":
                self.said.append(" ".join(str(each.get("value")) for each in told["args"]))
            case "Page.loadEventFired":
                self._loaded.set()

    def ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return the browser's answer to a command for this page."""
        return self._browser.ask(method, self._session, **arguments)

    def resize(self, width: int, height: int = 800) -> None:
        """Give the page another size."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 720,
        )

    def open(self, address: str) -> None:
        """Go to an address; return when it is loaded."""
        self._loaded.clear()
        if "loaderId" not in self.ask("Page.navigate", url=address):
            return  # another place in the same document
        assert self._loaded.wait(DEADLINE_S), address

    def reload(self) -> None:
        """Load the page again."""
        self._loaded.clear()
        self.ask("Page.reload")
        assert self._loaded.wait(DEADLINE_S)

    def value(self, expression: str) -> Any:
        """Return what an expression comes to in the page, awaited where it is a promise.

        Raises:
            BrowserError: it raised.
        """
        found = self.ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            raise BrowserError(details.get("exception", {}).get("description", details["text"]))
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """Return what an expression comes to once it is true in the page."""
        ends = f"Date.now() > {DEADLINE_S * 500:.0f} + began"  # before the answer is given up
        asked = (
            "new Promise((found) => { const began = Date.now(); const look = () => {"
            f"let now; try {{ now = ({expression}); }} catch {{}}"
            f"if (now || {ends}) found(now instanceof Node || now || null);"
            " else setTimeout(look, 15); }; look(); })"
        )
        for _ in range(_NAVIGATIONS):
            # A page that goes on to another takes the question with it.
            with contextlib.suppress(BrowserError):
                found = self.value(asked)
                break
        else:
            found = self.value(asked)
        if not found:
            text = self.value("document.body.innerText")
            raise AssertionError(f"never: {expression}\n{text}\n{[*self.said]}")
        return found

    def text(self, selector: str = "body") -> str:
        """Return the text a person sees there."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def shows(self, words: str, selector: str = "body") -> None:
        """Return once these words stand there."""
        where, what = json.dumps(selector), json.dumps(words)
        self.until(f"document.querySelector({where})?.innerText.includes({what})")

    def click(self, selector: str, words: str = "") -> None:
        """Click the first thing a selector names that holds the words, can be seen, and stands still.

        What moved away before the button was down was missed: it is clicked where it stands now.
        """
        where, what = json.dumps(selector), json.dumps(words)
        at = self.until(
            f"(() => {{ const node = [...document.querySelectorAll({where})].find((each) =>"
            f" each.textContent.includes({what}) && each.getClientRects().length);"
            " if (!node) return null; node.scrollIntoView({block: 'nearest'});"
            " const box = node.getBoundingClientRect(), before = window.stood;"
            " window.stood = {x: box.x + box.width / 2, y: box.y + box.height / 2};"
            " if (before?.x !== stood.x || before.y !== stood.y) return null;"
            " window.aimed = node; window.hit = null;"
            " addEventListener('pointerdown', (event) => (window.hit = event.target),"
            " {capture: true, once: true}); return stood; })()"
        )
        self.value("window.stood = null")
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)
        # A page that went on to another was hit.
        with contextlib.suppress(BrowserError):
            if self.value("!!window.hit && !aimed.contains(hit)"):
                self.click(selector, words)

    def type(self, text: str) -> None:
        """Type text into what has the focus."""
        self.ask("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press and let go of a key: a name such as `Enter`, or a character."""
        code, number, text = _KEYS.get(key, ("", ord(key[0].upper()), key))
        name = " " if key == "Space" else key
        told = {
            "key": name,
            "code": code,
            "windowsVirtualKeyCode": number,
            "modifiers": _SHIFT * shift,
        }
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        self.ask("Input.dispatchKeyEvent", **told, **down)
        self.ask("Input.dispatchKeyEvent", **told, type="keyUp")

    def close(self) -> None:
        """Close it, as a person closes a tab."""
        with contextlib.suppress(BrowserError):
            self.ask("Page.close")

    def names(self) -> list[tuple[str, str]]:
        """Return role and name of all that a screen reader meets, in its order."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [
            (node.get("role", {}).get("value", ""), node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]
