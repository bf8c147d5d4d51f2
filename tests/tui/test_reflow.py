"""Our own rows in a terminal that breaks them anew."""

import os

import pyte
import pytest
from prompt_toolkit.output import ColorDepth
from reflowing import Reflowing

from midstream.tui.reflow import TO_THE_BOTTOM, beginning, breakable, reflows
from midstream.tui.styled_lines import broken_there
from midstream.tui.terminal import TerminalOutput


@pytest.mark.parametrize(
    ("environ", "does"),
    [({"TMUX": "/tmp/t,1,0"}, True), ({"TMUX": "t", "STY": "1.pts"}, False), ({}, False)],
)
def test_only_tmux_is_known_to(environ: dict[str, str], does: bool) -> None:
    assert reflows(environ) is does


@pytest.mark.parametrize(("columns", "lines"), [(40, 10), (20, 10), (12, 10), (50, 8)])
def test_enough_backspaces_lead_to_the_beginning_of_a_row_at_any_width(
    columns: int, lines: int
) -> None:
    terminal = Reflowing(40, 10)
    terminal.feed(TO_THE_BOTTOM + "above\r\n" + "a" * 40 + "\r\n-" + "漢" * 19 + "\r\nlast")
    terminal.resize(columns, lines)
    terminal.feed(f"{beginning(40)}\x1b[A{beginning(40)}X\x1b[A{beginning(40)}Y")

    assert [row for row in terminal.rows() if row] == [
        "above",
        "Y" + "a" * 39,
        "X" + "漢" * 19,
        "last",
    ]


@pytest.mark.parametrize(
    ("row", "breaks"),
    [
        ("plain \x1b[1mbold\x1b[0m and Übel, ключ, 漢字", True),
        ("▌ dude", True),
        ("✓ read_files(a.py) · 3 lines", True),
        ("👩\u200d👧 a family", False),
        ("क्\u200dष", False),
        ("heart ❤️", False),
        ("e\u0301", False),
        ("a\x1b[2Jb", False),
        ("", False),
    ],
)
def test_rows_whose_width_is_certain_are_broken_not_cut_off(row: str, breaks: bool) -> None:
    printed = breakable(f"{row}\r\n{row}\r\n")

    assert printed == (f"{broken_there(row) if breaks else row}\v\r" * 2)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_in_tmux_erasing_from_the_first_cell_is_no_clearing_of_the_screen(
    row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "/tmp/t,1,0")
    monkeypatch.delenv("STY", raising=False)
    read, write = os.openpty()
    with open(read, "rb", buffering=0) as screen_side, open(write, "w") as stdout:
        output = TerminalOutput(stdout, depth=ColorDepth.DEPTH_1_BIT, term="tmux")
        output.erase_down()
        output.flush()
        output.writer.close()
        sent = screen_side.read(100).decode()
    shown = pyte.Screen(5, 3)
    stream = pyte.Stream(shown)
    stream.feed(f"one\r\ntwo\r\nthree\x1b[{row + 1};1H{sent}")

    # Below the last row there is one then.
    kept = ["one", "two", "three"][:row][-2:]
    assert not sent.startswith("\x1b[J")
    assert [line.strip() for line in shown.display] == kept[row == 2 :] + [""] * (3 - min(row, 1))
    assert (shown.cursor.x, shown.cursor.y) == (0, min(row, 1))
