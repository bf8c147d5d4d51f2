"""The live region in a terminal that breaks rows anew while what is drawn is still under way to it."""

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from deadline import DEADLINE_S
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.key_binding import KeyBindings
from reflowing import Reflowing

from midstream.tui.display import Display
from midstream.tui.layout import layout_of
from midstream.tui.reflow import TO_THE_BOTTOM
from midstream.tui.styled_lines import Row
from midstream.tui.themes import Look

WIDE = "漢字とかな"
SIZES = [(columns, lines) for columns in (100, 99, 61, 60, 41, 120) for lines in (30, 29, 24, 36)]


class Way:
    """What the console writes, on its way to a terminal that changes its size meanwhile."""

    def __init__(self, terminal: Reflowing, rng: random.Random) -> None:
        self.terminal = terminal
        self.size = os.terminal_size((terminal.columns, terminal.lines))
        self._rng = rng
        self._waiting = ""

    def send(self, data: bytes) -> None:
        """Take what the console writes."""
        self._waiting += data.decode()

    def go_on(self, *, is_resized: bool) -> None:
        """Let the terminal read a part of it, and then have another size. Who writes may hear of that."""
        end = self._rng.randrange(len(self._waiting) + 1)
        self.terminal.feed(self._waiting[:end])
        self._waiting = self._waiting[end:]
        if is_resized:
            self.terminal.resize(*self._rng.choice(SIZES))
        if self._rng.random() < 0.3:
            self.arrive()

    def arrive(self) -> None:
        """Let who writes hear of the size."""
        self.size = os.terminal_size((self.terminal.columns, self.terminal.lines))

    def end(self) -> None:
        """Let the terminal read all of it."""
        self.terminal.feed(self._waiting)
        self._waiting = ""


class Shown:
    """What the live region holds."""

    def __init__(self, rng: random.Random) -> None:
        self.rows: list[str] = []
        self._rng = rng

    def change(self, count: int) -> None:
        """Hold other rows, from empty ones to such as fill the widest window."""
        lengths = [self._rng.choice((0, 7, 40, 60, 95, 120)) for _ in range(count)]
        words = [f"live {WIDE if self._rng.random() < 0.3 else 'words'} " * 30 for _ in lengths]
        self.rows = [text[:length] for text, length in zip(words, lengths, strict=True)]

    def above(self) -> list[Row]:
        """Return them as the layout has them."""
        return [[("", row)] for row in self.rows]


@pytest.fixture
def nowhere() -> Iterator[TextIO]:
    with Path(os.devnull).open("w") as stdout:
        yield stdout


@pytest.fixture
def way(monkeypatch: pytest.MonkeyPatch, seed: int) -> Way:
    monkeypatch.setenv("TMUX", "/tmp/t,1,0")
    monkeypatch.delenv("STY", raising=False)
    monkeypatch.setenv("TERM", "tmux-256color")
    rng = random.Random(seed)
    found = Way(Reflowing(*rng.choice(SIZES)), rng)
    monkeypatch.setattr("midstream.tui.terminal.os.get_terminal_size", lambda *_: found.size)
    return found


async def drawn_over(
    way: Way, shown: Shown, rng: random.Random, stdout: TextIO, *, steps: int
) -> list[str]:
    """Draw and print while the terminal is resized between any two bytes; return what was printed."""
    printed: list[str] = []
    buffer = Buffer(document=Document("half a thought"))
    with create_pipe_input() as keys:
        display = Display(stdout, look=Look(), editing="emacs", input=keys)
        layout = layout_of(
            buffer,
            above=shown.above,
            prompt=lambda: "› ",
            bottom=lambda: [("2", "the bottom line, as long as many are: chat with dude")],
            editor_height=lambda: 3,
        )
        drawn = asyncio.Event()
        display.open(
            layout,
            KeyBindings(),
            before_frame=lambda: None,
            after_frame=drawn.set,
            before_key=lambda: None,
            after_key=lambda: None,
            gone=lambda: None,
        )
        assert display._terminal is not None
        display._terminal.writer.write = way.send  # type: ignore[method-assign]
        way.terminal.feed(TO_THE_BOTTOM)
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(display.run(lambda: False))
            await drawn.wait()
            for step in range(steps):
                shown.change(rng.randrange(4))
                if rng.random() < 0.05 and display.app is not None:
                    display.app.renderer.clear()
                text = ""
                for _ in range(rng.choice((0, 0, 1, 3))):
                    words = rng.choice((WIDE, "words", "ключ")) + " "
                    row = f"{len(printed):03} {words * rng.randrange(1, 12)}"[: way.size.columns]
                    printed.append(row.rstrip())
                    text += f"{printed[-1]}\r\n"
                assert display.draw(text)
                way.go_on(is_resized=step % 3 == 0)
            way.arrive()
            shown.rows = ["the last"]
            assert display.draw("")
            way.end()
            assert way.terminal.cursor_row().startswith("› half a thought")
            rows = way.terminal.rows()
            assert [row for row in rows if row and row not in printed] == [
                "the last",
                "› half a thought",
                "the bottom line, as long as many are: chat with dude"[: way.terminal.columns],
            ]
            display.exit()
            await running
    way.end()
    return printed


@pytest.mark.parametrize("seed", range(40))
async def test_whatever_becomes_of_the_window_each_row_stays_once(
    way: Way, nowhere: TextIO, seed: int
) -> None:
    rng = random.Random(seed)
    printed = await drawn_over(way, Shown(rng), rng, nowhere, steps=40)

    assert [row for row in way.terminal.rows() if row] == printed
