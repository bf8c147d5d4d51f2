"""Esc Esc: the list of earlier turns, by itself and in a real pty."""

import pytest
from fake_session import turns
from screen import DOWN, ENTER, ESC, UP, Screen, Spawn

from midstream.tui.turn_list import ARMED, TurnList, keys_for, turn_rows
from midstream.views.cells import width_of
from midstream.views.turns import Turn


def listed(count: int, at: int = 0) -> TurnList:
    return TurnList(turns=turns(count), at=at)


def text_of(shown: TurnList, width: int, height: int) -> list[str]:
    return [
        "".join(text for _, text in row) for row in turn_rows(shown, width=width, height=height)
    ]


@pytest.mark.parametrize("width", [4, 40, 80, 200])
@pytest.mark.parametrize("height", [6, 24, 60])
@pytest.mark.parametrize("at", [0, 7, 29])
def test_the_list_takes_a_third_and_has_the_marked_turn(width: int, height: int, at: int) -> None:
    rows = text_of(listed(30, at), width, height)

    assert len(rows) <= max(2, height // 3)
    assert max(map(width_of, rows)) <= width
    assert [row.split()[1] for row in rows if "▸" in row and width > 4] == [str(at + 1)] * (
        width > 4
    )
    assert width_of(keys_for(width)) < width or width < 40


def test_the_newest_is_first_its_words_on_one_row() -> None:
    assert text_of(listed(2), 40, 24) == [
        "↶ Back to before which turn?",
        "▸ 1  do thing 2 well",
        "  2  do thing 1 well",
    ]


def test_what_is_foreign_is_harmless() -> None:
    evil = (Turn(run="", at=1, words="a\x1b[2Jb\nc" + "x" * 300),)
    (_, row) = text_of(TurnList(turns=evil), 40, 24)

    assert "\x1b" not in row
    assert width_of(row) == 40


def test_a_number_marks_and_words_do_not() -> None:
    shown = listed(12)

    assert shown.means("1", is_fresh=True)
    assert shown.means("12", is_fresh=True)
    assert (shown.at, shown.marked.at, shown.number) == (11, 1, "12")
    shown.move(1)
    assert (shown.at, shown.number) == (11, "")
    assert [shown.means(text, is_fresh=True) for text in ("13", "0", "1 x", "x", "", "²")] == [
        *[False] * 4,
        True,
        False,
    ]
    assert not shown.means("1", is_fresh=False), "typed for what stood there before"


# --- in a real pty ------------------------------------------------------------------------------


@pytest.fixture
def talked(spawn: Spawn) -> Spawn:
    def started(*, fresh_s: float = 0.0, cols: int = 80, vi: bool = False) -> Screen:
        screen = spawn(fresh_s=fresh_s, cols=cols, **({"EDITING": "vi"} if vi else {}))
        screen.type(f"/turns 30{ENTER}")
        screen.wait_for("› /turns 30")
        screen.settle()
        return screen

    return started


def opens(screen: Screen) -> None:
    screen.type(ESC)
    screen.wait_for(ARMED)
    screen.type(ESC)
    screen.wait_for("Back to before which turn? 1 of 30")
    screen.settle()


def said(screen: Screen) -> str:
    return "\n".join([*screen.scrollback(), *screen.lines()])


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_esc_esc_picks_an_earlier_turn_and_its_words_come_back(talked: Spawn, cols: int) -> None:
    screen = talked(cols=cols)
    opens(screen)

    screen.type(DOWN)
    screen.wait_for("▸  2  do thing 29 well")
    screen.type(ENTER)

    screen.wait_for("back to 29")
    screen.wait_until(lambda s: "› do thing 29" in s.text() and "which turn" not in s.text())
    assert "got " not in said(screen)


def test_a_digit_picks_and_esc_closes_and_words_are_kept(talked: Spawn) -> None:
    screen = talked()
    opens(screen)
    screen.type("12")
    screen.wait_for("▸ 12  do thing 19 well")
    screen.type(ESC)
    screen.wait_until(lambda s: "which turn" not in s.text())
    screen.wait_for("› 12")
    screen.type("\x7f\x7f")
    screen.settle()

    opens(screen)
    screen.type("3")
    screen.wait_for("▸  3")
    screen.type(" more")
    screen.wait_until(lambda s: "which turn" not in s.text() and "› 3 more" in s.text())
    screen.type(ENTER)
    screen.wait_for("got '3 more'")
    assert "back to" not in said(screen)


def test_keys_typed_before_the_list_was_there_decide_nothing(talked: Spawn) -> None:
    screen = talked(fresh_s=1000.0)
    opens(screen)
    screen.type(ENTER)
    screen.settle()
    screen.type(UP)  # meant for the history
    screen.wait_until(lambda s: "which turn" not in s.text() and "› /turns 30" in s.text())

    assert "back to" not in said(screen)


def test_esc_that_has_something_to_do_opens_nothing(talked: Spawn) -> None:
    screen = talked()
    screen.type(f"/busy{ENTER}")
    screen.wait_for("Esc stops")
    screen.type(ESC)
    screen.wait_for("halted")
    screen.settle()
    screen.type(f"/ask{ENTER}")
    screen.wait_for("Which colour?")
    screen.settle()
    screen.type(ESC)
    screen.settle()
    screen.type(ESC)
    screen.settle()

    assert ARMED not in screen.text()
    assert "which turn" not in screen.text()


def test_both_may_come_at_once_and_a_key_between_them_begins_anew(talked: Spawn) -> None:
    screen = talked()
    screen.type(ESC)
    screen.wait_for(ARMED)
    screen.type("x\x7f")
    screen.wait_until(lambda s: ARMED not in s.text())
    screen.settle()
    screen.type(ESC)
    screen.wait_for(ARMED)
    assert "which turn" not in screen.text()
    screen.type("x\x7f")
    screen.settle()

    screen.type(ESC + ESC)
    screen.wait_for("which turn")
