"""A refused line: what comes back into the editor, and what is typed behind it. In a real pty."""

import pytest
from fake_session import FakeSession
from screen import CTRL_C, ENTER, UP, Screen, Spawn, editor_line, pasted

from midstream.app.commands.handler import CommandHandler

LEFT, RIGHT = "\x1b[D", "\x1b[C"


def refused(screen: Screen, line: str) -> None:
    """Send a line the session does not know, and wait until it is in the editor again."""
    screen.type(line + ENTER)
    screen.wait_for("There is no command")
    screen.wait_until(lambda s: editor_line(s) == f"› {line}")
    screen.settle()


@pytest.mark.parametrize("keys", ["/diff", pasted("/diff")])
def test_a_command_typed_behind_a_line_that_came_back_takes_its_place(
    screen: Screen, keys: str
) -> None:
    refused(screen, "/redx")
    screen.type(keys)
    screen.wait_until(lambda s: editor_line(s) == "› /diff")

    screen.type(CTRL_C)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.settle()
    screen.type(UP + UP)
    screen.wait_until(lambda s: editor_line(s) == "› /redx")


def test_words_that_came_back_are_not_glued_to_a_command(screen: Screen) -> None:
    screen.type("/refuse" + ENTER)
    screen.wait_for("› /refuse")
    screen.type("green" + ENTER)
    screen.wait_until(lambda s: editor_line(s) == "› green")
    screen.settle()
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc stops")
    screen.type(UP + UP)
    screen.wait_until(lambda s: editor_line(s) == "› green")


def test_a_folded_paste_that_came_back_is_kept_whole(screen: Screen) -> None:
    screen.type("/refuse" + ENTER)
    screen.wait_for("› /refuse")
    screen.type(pasted("many\n" * 8000))
    screen.wait_for("[pasted 8000 lines #1]")
    screen.type(ENTER)
    screen.wait_for("not one of the choices")
    screen.wait_until(lambda s: editor_line(s) == "› [pasted 8000 lines #1]")
    screen.settle()
    screen.type("/busy" + ENTER)
    screen.wait_for("Esc stops")
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "› [pasted 8000 lines #1]")
    screen.type(ENTER)
    screen.wait_for("got '40000 characters'")


@pytest.mark.parametrize("keys", [" a/b", LEFT + RIGHT + " /b", "x\x7f/"])
def test_a_line_that_came_back_is_mended_by_going_on(screen: Screen, keys: str) -> None:
    refused(screen, "/redx")
    screen.type(keys)
    shown = "› /redx" + keys.replace(LEFT + RIGHT, "").replace("x\x7f", "")
    screen.wait_until(lambda s: editor_line(s) == shown)


@pytest.mark.parametrize("keys", ["hello", pasted("hello")])
def test_what_was_typed_as_a_line_came_back_is_another_line(spawn: Spawn, keys: str) -> None:
    screen = spawn(fresh_s=600)
    refused(screen, "/redx")
    screen.type(keys)
    screen.wait_until(lambda s: editor_line(s) == "› hello")

    screen.type(CTRL_C)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.settle()
    screen.type(UP + UP)
    screen.wait_until(lambda s: editor_line(s) == "› /redx")


def test_a_command_with_nothing_to_mend_is_for_up_only(screen: Screen) -> None:
    screen.type("/redo" + ENTER)
    screen.wait_for("! nothing to redo")
    screen.settle()
    assert editor_line(screen) == "›"
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "› /redo")


def test_a_command_too_long_for_the_history_comes_back_though_nothing_in_it_can_be_mended(
    screen: Screen,
) -> None:
    screen.type("/redo ")
    screen.paste("x" * 30_000)
    screen.type(ENTER)
    screen.wait_for("! nothing to redo")
    screen.wait_until(lambda s: editor_line(s) == "› /redo [pasted 30000 characters #1]")


@pytest.mark.parametrize(
    ("line", "can"),
    [
        ("/redo", False),
        ("/REDO ", False),
        ("/undo", False),
        ("/undo files-sty", True),
        ("/redx", False),
        ("/attach", True),
        ("/attach ab12", True),
        ("/", False),
    ],
)
def test_what_is_unknown_or_has_or_wants_an_argument_can_be_mended(line: str, can: bool) -> None:
    session = FakeSession()  # Nothing is asked of it.

    assert CommandHandler(session).can_be_mended(line) is can  # type: ignore[arg-type]


# --- leaving ------------------------------------------------------------------------------------


def test_the_offer_to_leave_ends_with_any_other_key(screen: Screen) -> None:
    for other in ("?", UP, "\x1b[24~", "\x0f"):
        screen.type(CTRL_C)
        screen.wait_for("Ctrl-C again leaves")
        screen.type(other)
        screen.wait_gone("Ctrl-C again leaves")
        screen.settle()
    screen.type(CTRL_C)
    screen.wait_for("Ctrl-C again leaves")
    screen.type(CTRL_C)
    assert screen.wait_exit() == 0


def test_the_offer_to_leave_ends_by_itself(spawn: Spawn) -> None:
    screen = spawn(LEAVE_S="0.05")
    for _ in range(2):
        screen.type(CTRL_C)
        screen.rest(0.1)  # A frame may come too late to show an offer as short as this.
        screen.wait_gone("Ctrl-C again leaves")
    screen.type("here" + ENTER)
    screen.wait_for("got 'here'")
