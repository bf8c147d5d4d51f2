"""The real `midstream web`, and a real browser that was let in, over a model that is scripted."""

import contextlib
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipes_kit import MODEL, started
from support.chromium import Chromium, Page
from support.openai_server import OpenAIServer

DESK = 1280
PHONE = 390

HOLDS_WIDTH = "document.documentElement.scrollWidth <= innerWidth"
"""Nothing sticks out to the right of the page."""


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


class Served:
    """The program. `address` lets one browser in."""

    def __init__(self, home: Path, server: OpenAIServer, port: int) -> None:
        self._home, self._server, self._port = home, server, port
        self.address = self.start()

    def start(self) -> str:
        """Start it; return the address it prints."""
        self._process: subprocess.Popen[bytes] = started(
            self._home, "web", "--port", str(self._port), *MODEL, server=self._server
        )
        assert self._process.stdout is not None
        out: IO[bytes] = self._process.stdout
        for line in iter(out.readline, b""):
            found = re.search(rb"http://\S+", line)
            if found:
                return found[0].decode()
        assert self._process.stderr is not None
        raise AssertionError(self._process.stderr.read().decode())

    def kill(self) -> None:
        """Kill it as a power cut would."""
        self._process.kill()
        self._ended()

    def stop(self) -> None:
        """End it as Ctrl-C does."""
        self._process.terminate()
        self._ended()

    def _ended(self) -> None:
        self._process.communicate()


@contextlib.contextmanager
def serving(home: Path, server: OpenAIServer) -> Iterator[Served]:
    """Give the program while the block runs."""
    served = Served(home, server, free_port())
    try:
        yield served
    finally:
        served.stop()


@contextlib.contextmanager
def page_of(
    home: Path, server: OpenAIServer, *, width: int = DESK
) -> Iterator[tuple[Page, Served]]:
    """Give a page that was let in, and the program behind it."""
    with serving(home, server) as served, Chromium(home / "browser") as browser:
        page = browser.page(width=width, height=844 if width == PHONE else 800)
        page.open(served.address)
        page.until("document.body.className")
        yield page, served


def begin(page: Page, words: str) -> None:
    """Begin a chat with the role dude, as a person does."""
    if page.value("document.body.className.includes('on-run') && innerWidth < 720"):
        page.click("#run .back")
    page.click("#begin")
    page.until("document.querySelector('#start-what input:checked')")
    first = page.value("document.querySelector('#start-what label:has(input:checked)').innerText")
    assert first == "Chat with dude"
    page.click("#start-input")
    page.type(words)
    page.click("#start-form button.main")
    page.until("document.body.classList.contains('on-run')")


def say(page: Page, words: str) -> None:
    """Type a line and press Enter."""
    take_line(page)
    page.type(words)
    page.press("Enter")


def take_line(page: Page) -> None:
    """Click into the line."""
    page.click("#line")
    page.until("document.activeElement.id === 'line'")


def decide(page: Page, button: str) -> None:
    """Press a button of the approval, once it has stood there long enough to be read."""
    page.until("document.querySelector('.card.approval')")
    page.value("new Promise((done) => setTimeout(done, 450))")
    page.click(".card.approval button", button)
    page.until("!document.querySelector('.card.approval')")
