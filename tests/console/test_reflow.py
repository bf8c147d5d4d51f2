"""Where the cursor is after a terminal has broken our rows anew."""

import os

import pyte
import pytest
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Char, Screen

from midstream.console.reflow import Written, cursor_after, reflows
from midstream.console.terminal import TerminalOutput


def drawn(*rows: str) -> Screen:
    screen = Screen()
    for y, row in enumerate(rows):
        for x, char in enumerate(row):
            screen.data_buffer[y][x] = Char(char)
    return screen


@pytest.mark.parametrize(
    ("columns", "x", "y"),
    [(80, 45, 3), (60, 45, 3), (40, 5, 5), (33, 12, 6), (10, 5, 14)],
)
def test_rows_above_the_cursor_are_counted_as_they_are_broken(columns: int, x: int, y: int) -> None:
    screen = drawn("a" * 40, "", "b" * 41 + " " * 30, "c" * 45)

    assert cursor_after(screen, Point(x=45, y=3), columns) == Point(x=x, y=y)


@pytest.mark.parametrize(
    ("environ", "does"),
    [({"TMUX": "/tmp/t,1,0"}, True), ({"TMUX": "t", "STY": "1.pts"}, False), ({}, False)],
)
def test_only_tmux_is_known_to(environ: dict[str, str], does: bool) -> None:
    assert reflows(environ) is does


@pytest.mark.parametrize("row", [0, 1, 2])
def test_in_tmux_erasing_from_the_first_cell_is_no_clearing_of_the_screen(
    row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/t,1,0")
    monkeypatch.delenv("STY", raising=False)
    read, write = os.openpty()
    with open(read, "rb", buffering=0) as screen_side, open(write, "w") as stdout:
        output = TerminalOutput(stdout, colour=False, term="tmux")
        output.erase_down()
        output.flush()
        output.writer.close()
        sent = screen_side.read(100).decode()
    shown = pyte.Screen(5, 3)
    stream = pyte.Stream(shown)
    stream.feed(f"one\r\ntwo\r\nthree\x1b[{row + 1};1H{sent}")

    assert not sent.startswith("\x1b[J")
    assert [line.strip() for line in shown.display] == ["one", "two", "three"][:row] + [""] * (
        3 - row
    )
    assert (shown.cursor.x, shown.cursor.y) == (0, row)


def test_a_row_that_holds_less_than_was_written_there_is_to_be_drawn_anew() -> None:
    written = Written()

    assert not written.drew(drawn("a" * 40, "b"), rows=2, is_anew=True)
    assert not written.drew(drawn("a" * 50, "b"), rows=2, is_anew=False)
    assert written.drew(drawn("a" * 30, "b"), rows=2, is_anew=False)
    assert written.drew(drawn("a" * 30, "b"), rows=2, is_anew=False)
    assert not written.drew(drawn("a" * 30, "b"), rows=2, is_anew=True)
    assert not written.drew(drawn("a" * 30), rows=1, is_anew=False)
    assert not written.drew(drawn("a" * 30, "b" * 9), rows=2, is_anew=False)
    assert not written.drew(drawn(), rows=0, is_anew=False)
