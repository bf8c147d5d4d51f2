"""Shift-Tab in a real pty: the permission mode goes on by one, and the bottom line says so."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from screen import ENTER, Screen, pasted

PROGRAM = str(Path(__file__).with_name("fake_session.py"))
SHIFT_TAB = "\x1b[Z"


@pytest.fixture(params=[40, 80, 200])
def screen(request: pytest.FixtureRequest) -> Iterator[Screen]:
    """A console over a session without runs, 0.4 s after which keys may decide."""
    spawned = Screen.spawn([sys.executable, PROGRAM, "", "0"], {}, cols=request.param, rows=24)
    with spawned:
        spawned.wait_for("chat ")
        yield spawned


def test_the_bottom_line_says_each_mode_until_the_next_key(screen: Screen) -> None:
    for mode in ("auto", "plan", "ask", "auto"):
        screen.type(SHIFT_TAB)
        screen.wait_for(f" {mode}: from the next call on")
    screen.type("x")
    screen.wait_gone("from the next call on")
    assert "› x" in screen.text()


def test_a_line_being_typed_stays_and_nothing_is_sent(screen: Screen) -> None:
    screen.type("half a line" + SHIFT_TAB)
    screen.settle()
    screen.type(SHIFT_TAB)
    screen.wait_for("auto: from the next call on")
    assert "plan" not in screen.text()
    screen.type(" more" + ENTER)
    screen.wait_for("got 'half a line more'")


def test_a_pasted_one_changes_nothing(screen: Screen) -> None:
    screen.type(pasted(f"a{SHIFT_TAB}b"))
    screen.settle()
    assert "from the next call on" not in screen.text()
    screen.type(f"{SHIFT_TAB}{SHIFT_TAB}c")
    screen.settle()
    assert "from the next call on" not in screen.text()
