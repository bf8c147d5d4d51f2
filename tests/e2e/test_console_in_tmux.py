"""The real console in a real tmux whose window changes its size while words stream."""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from console_kit import MIDSTREAM, environment
from deadline import DEADLINE_S
from support.openai_server import Gate, OpenAIServer, Reply

LINES = 60
TYPED = "half a thought"


class Pane:
    """A program in a window of a tmux of its own, and what a person finds in it afterwards."""

    def __init__(self, socket: str) -> None:
        self._tmux = ("tmux", "-f", "/dev/null", "-S", socket)

    def tmux(self, *command: str) -> str:
        """Tell tmux something; return what it says."""
        told = subprocess.run(
            [*self._tmux, *command], check=True, capture_output=True, timeout=DEADLINE_S
        )
        return told.stdout.decode()

    def resize(self, cols: int, rows: int) -> None:
        """Give the window another size."""
        self.tmux("resize-window", "-x", str(cols), "-y", str(rows))

    def resize_late(self, cols: int, rows: int) -> None:
        """Give it another size while frames for the old one wait to be read, as on a busy machine."""
        server = int(self.tmux("display-message", "-p", "#{pid}"))
        os.kill(server, signal.SIGSTOP)
        size = ("-x", str(cols), "-y", str(rows))
        with subprocess.Popen([*self._tmux, "resize-window", *size]) as asking:
            time.sleep(0.1)
            os.kill(server, signal.SIGCONT)
            assert asking.wait(DEADLINE_S) == 0

    def type(self, text: str) -> None:
        """Send keys."""
        self.tmux("send-keys", "-l", text)

    def lines(self) -> list[str]:
        """Return history and screen, each line whole that tmux has broken."""
        return [
            line.rstrip()
            for line in self.tmux(*["capture-pane", "-p", "-J", "-S", "-"]).split("\n")
        ]

    def wait_until(self, holds: Callable[[list[str]], bool], what: str) -> None:
        """Look until something holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not holds(found := self.lines()):
            assert time.monotonic() < deadline, f"waited for {what}; saw:\n" + "\n".join(found)
            time.sleep(0.01)

    def wait_for(self, text: str) -> None:
        """Look until a text stands somewhere."""
        self.wait_until(lambda found: any(text in line for line in found), repr(text))


@contextmanager
def in_tmux(home: Path, server: OpenAIServer, *, cols: int, rows: int) -> Iterator[Pane]:
    """Start the console in a tmux of its own, and end both."""
    folder = home / "workspace"
    folder.mkdir()
    argv = [*MIDSTREAM, "--workspace", str(folder), "--model", "openai:gpt-4o-mini"]
    # The names of sockets are short.
    with tempfile.TemporaryDirectory() as place:
        pane = Pane(os.path.join(place, "tmux"))
        new = ["new-session", "-d", "-x", str(cols), "-y", str(rows), *argv]
        subprocess.run(
            [*pane._tmux, *new], env=environment(home, server), check=True, timeout=DEADLINE_S
        )
        try:
            yield pane
        finally:
            pane.tmux("kill-server")


def told(number: int) -> str:
    """Return a line of a reply: known by its two ends, from short to three rows of a small window."""
    words = " ".join(f"word{at}" for at in range(number * 7 % 23))
    return f"begin{number:03} {words} end{number:03}"


def resize(pane: Pane, cols: int, rows: int, some: random.Random) -> None:
    """Make the window narrower or wider, lower or taller, and leave it so for a shorter or longer while."""
    width = some.choice((cols, cols * 9 // 10, cols * 3 // 4, cols * 5 // 4, cols - 1, cols + 1))
    height = some.choice((rows, rows * 3 // 4, rows * 5 // 4, rows - 1, rows + 1))
    some.choice((pane.resize, pane.resize, pane.resize_late))(width, height)
    time.sleep(some.choice((0.0, 0.0, 0.01, 0.03, 0.1, 0.3)))


def is_idle_after(words: str) -> Callable[[list[str]], bool]:
    """Return whether a reply is over."""

    # In the middle of a frame neither row may stand there.
    def is_idle(found: list[str]) -> bool:
        text = "\n".join(found)
        return words in found and "⋯" not in text and "chat with dude" in text

    return is_idle


@pytest.mark.needs("tmux")
@pytest.mark.parametrize("begins", ["at once", "as it streams"])
@pytest.mark.parametrize(("cols", "rows"), [(100, 30), (60, 20)])
def test_resizing_while_words_stream_leaves_each_line_once(
    tmp_path: Path, cols: int, rows: int, begins: str
) -> None:
    gate = Gate()
    text = "".join(f"{told(number)}\n" for number in range(LINES))
    chunks = tuple(f"{word} " for word in text.split(" "))
    replies = [
        Reply(text="Hello there.", delay_s=0.01),
        Reply(chunks=chunks, delay_s=0.004, gate=gate, gate_after=len(chunks) - 1),
        Reply(text="Good bye."),
    ]
    some = random.Random(os.environ.get("SEED", "1"))
    with (
        OpenAIServer(replies) as server,
        in_tmux(tmp_path, server, cols=cols, rows=rows) as pane,
    ):
        if begins == "as it streams":
            pane.wait_for("chat with dude")
        for _ in range(5):
            resize(pane, cols, rows, some)
        pane.wait_for("chat with dude")
        pane.type("hello\r")
        pane.wait_until(is_idle_after("Hello there."), "the end of the first reply")
        pane.type("tell me\r")
        pane.wait_for("begin003" if begins == "as it streams" else "› tell me")
        for key in TYPED:
            resize(pane, cols, rows, some)
            pane.type(key)
        pane.resize(cols, rows)
        gate.open()
        pane.wait_for(f"end{LINES - 1:03}")
        pane.wait_until(lambda found: f"› {TYPED}" in found, "what was typed")
        pane.type("\r")
        pane.wait_until(is_idle_after("Good bye."), "the end of the last reply")

        wanted = {f"{end}{number:03}": 1 for end in ("begin", "end") for number in range(LINES)}
        wanted |= dict.fromkeys(("› hello", "› tell me", f"› {TYPED}"), 1)
        wanted |= {"Hello there.": 1, "Good bye.": 1, "▌ dude": 3, "⋯": 0, "chat with dude": 1}

        def is_whole(found: list[str]) -> bool:
            text = "\n".join(found)
            return found.count("›") == 1 and {each: text.count(each) for each in wanted} == wanted

        # A tmux may be looked at in the middle of a frame.
        pane.wait_until(is_whole, "each line once")


@pytest.mark.needs("tmux")
def test_a_reply_is_copied_into_the_buffer_of_tmux(tmp_path: Path) -> None:
    with (
        OpenAIServer([Reply(text="Hello there.")]) as server,
        in_tmux(tmp_path, server, cols=100, rows=30) as pane,
    ):
        pane.wait_for("chat with dude")
        pane.type("hello\r")
        pane.wait_until(is_idle_after("Hello there."), "the end of the reply")
        pane.type("/copy\r")
        pane.wait_for("1 line in tmux's buffer, which prefix ] pastes")
        assert pane.tmux("show-buffer") == "Hello there."
