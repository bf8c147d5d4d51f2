"""Steering as a person sees it, in a real pty: what keys do to running work and to open questions."""

from collections.abc import Callable
from pathlib import Path

import pytest
from screen import CTRL_C, DOWN, ENTER, ESC, TAB, UP, Screen, Spawn, editor_line

CTRL_ENTER = "\x1b[13;5u"


def bottom(screen: Screen) -> str:
    return next((line for line in reversed(screen.lines()) if line), "")


def at(prompt: str) -> Callable[[Screen], bool]:
    return lambda screen: editor_line(screen).startswith(prompt)


def wait_bottom(screen: Screen, text: str) -> None:
    screen.wait_until(lambda s: text in bottom(s), what=f"{text!r} in the bottom line")


def sends(screen: Screen, line: str, until: str = "") -> None:
    screen.type(line + ENTER)
    screen.wait_for(until or f"› {line.split()[0]}")
    screen.settle()


# --- while something runs -----------------------------------------------------------------------


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_the_bottom_line_says_what_enter_does_and_how_tab_differs(spawn: Spawn, cols: int) -> None:
    screen = spawn(cols=cols)
    assert "Tab" not in bottom(screen)
    sends(screen, "/busy")

    wait_bottom(screen, "chat with dude · Tab queues")
    screen.type("/hel")
    wait_bottom(screen, "⏎ runs the command")
    assert "Tab queues" not in bottom(screen)


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_tab_queues_the_line_and_it_stands_above_the_prompt_with_its_fate(
    spawn: Spawn, cols: int
) -> None:
    screen = spawn(cols=cols)
    sends(screen, "/busy")
    screen.type("and the tests?")
    screen.settle()
    screen.type(TAB)

    screen.wait_for("⏳ and the tests? · ")
    screen.wait_until(lambda s: editor_line(s) == "›")
    shown = next(line for line in screen.lines() if line.startswith("⏳"))
    assert ("after review" if cols == 40 else "waits until review is done") in shown
    screen.wait_for("policy=queue")


def test_tab_still_completes_what_can_be_completed(screen: Screen) -> None:
    sends(screen, "/busy")
    screen.type("/wor")
    screen.settle()
    screen.type(TAB)

    screen.wait_until(lambda s: editor_line(s) == "› /workflow")


def test_a_tab_in_a_paste_without_brackets_sends_nothing(screen: Screen) -> None:
    sends(screen, "/busy")
    screen.type("one\ttwo\tthree")
    screen.settle()

    assert "policy=queue" not in screen.text()


def test_ctrl_enter_joins_the_running_turn_and_alone_just_sends(screen: Screen) -> None:
    screen.type("hello" + CTRL_ENTER)
    screen.wait_for("got 'hello'")
    assert "policy" not in screen.text()
    sends(screen, "/busy")
    screen.type("in German" + CTRL_ENTER)

    screen.wait_for("policy=steer")
    screen.wait_for("⏳ in German · joins the next request of ada")


def test_up_takes_the_newest_waiting_line_back_and_esc_withdraws_it(screen: Screen) -> None:
    sends(screen, "/busy")
    for line in ("first words", "second words"):
        screen.type(line)
        screen.settle()
        screen.type(TAB)
        screen.wait_for(f"⏳ {line}")
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "› second words")
    wait_bottom(screen, "Esc withdraws it")
    screen.type(ESC)

    screen.wait_until(lambda s: editor_line(s) == "›")
    assert "halted" not in screen.text()
    screen.type(ESC)
    screen.wait_for("halted")


def test_esc_where_nothing_runs_withdraws_the_newest_waiting_line(screen: Screen) -> None:
    sends(screen, "/busy")
    screen.type("for later")
    screen.settle()
    screen.type(TAB)
    screen.wait_for("⏳ for later")
    sends(screen, "/idle")
    wait_bottom(screen, "Esc withdraws the last")
    screen.type(ESC)

    screen.wait_for("Withdrawn: for later")
    screen.wait_until(lambda s: "⏳" not in s.text())


# --- lists --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cols", [40, 80, 200])
def test_arrows_mark_a_choice_and_enter_answers_with_it(spawn: Spawn, cols: int) -> None:
    screen = spawn(cols=cols)
    sends(screen, "/ask", "│ 2 blue")
    screen.type(DOWN)
    screen.wait_for("│▸1 red")
    screen.type(DOWN)
    wait_bottom(screen, "⏎ answers #1: blue")
    assert "│▸2 blue" in screen.text()
    screen.type(ENTER)

    screen.wait_for("✓ #1 Which colour?  blue")


def test_a_number_of_two_digits_marks_as_it_is_typed(screen: Screen) -> None:
    sends(screen, "/list", "▸ #1 ada asks")
    screen.type("1")
    screen.wait_until(lambda s: "│▸1 choice 1" in s.lines())
    screen.type("2")
    wait_bottom(screen, "⏎ answers #1: choice 12")
    assert "│▸12 choice 12" in screen.lines()
    screen.type(ENTER)

    screen.wait_for("got '12' question=q1")


def test_an_arrow_or_a_number_counts_only_once_the_card_has_been_there(spawn: Spawn) -> None:
    screen = spawn(fresh_s=600.0)
    sends(screen, "/ask", "│ 2 blue")
    screen.type(DOWN)
    screen.settle()
    assert "▸2" not in screen.text()
    assert "│▸" not in screen.text()
    screen.type("2" + ENTER)

    screen.wait_for("a answer · n new instruction · e keep editing")
    assert editor_line(screen) == "› 2"


def test_an_enter_typed_ahead_answers_nothing(screen: Screen) -> None:
    sends(screen, "/ask", "│ 2 blue")
    screen.type(DOWN + ENTER + "x")
    screen.settle()

    assert "✓ #1" not in screen.text()
    assert editor_line(screen) == "› x"


def test_esc_marks_nothing_any_more_before_it_stops_the_turn(screen: Screen) -> None:
    sends(screen, "/busy")
    sends(screen, "/ask", "│ 2 blue")
    screen.type(DOWN)
    screen.wait_for("│▸1 red")
    wait_bottom(screen, "Esc unmarks")
    screen.type(ESC)

    screen.wait_for("│ 1 red")
    screen.wait_until(lambda s: "│▸" not in s.text())
    assert "halted" not in screen.text()


def test_several_are_picked_with_space_or_typed(screen: Screen) -> None:
    sends(screen, "/several", "│ 1 [ ] tests")
    for key in (DOWN, " ", DOWN, " "):
        screen.type(key)
        screen.settle()
    screen.wait_for("│▸2 [x] docs")
    screen.type(ENTER)
    screen.wait_for("✓ #4 Which of them?")
    assert any('"tests","docs"' in line for line in screen.scrollback())

    sends(screen, "/several")
    screen.type("types, 1")
    wait_bottom(screen, "⏎ answers #4: tests, types")
    screen.type(ENTER)
    screen.wait_until(lambda s: any('["tests","types"]' in line for line in s.scrollback()))


# --- forms --------------------------------------------------------------------------------------


def open_form(screen: Screen) -> None:
    sends(screen, "/form", "Enter: one by one")
    wait_bottom(screen, "⏎ fills in #3")
    screen.type(ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("kind ›"))
    screen.settle()


@pytest.mark.parametrize(("cols", "rows"), [(40, 16), (80, 24), (200, 50)])
def test_a_form_is_filled_in_one_field_after_the_other(spawn: Spawn, cols: int, rows: int) -> None:
    screen = spawn(cols=cols, rows=rows)
    open_form(screen)
    screen.type(DOWN)
    wait_bottom(screen, "⏎ takes bug")
    screen.type(ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("lines ›"))
    screen.type("0" + ENTER)
    screen.wait_for("✗ at least 1")
    assert editor_line(screen) == "lines › 0"
    screen.type("\x7f12" + ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("note ›"))
    screen.type("slow" + ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("send it?"))
    wait_bottom(screen, "⏎ answers #3")
    screen.type(ENTER)

    screen.wait_for("✓ #3 What is it?")
    assert "› #3 kind=bug lines=12 note=slow" in screen.scrollback()
    screen.wait_until(lambda s: editor_line(s) == "›")


def test_up_goes_back_and_esc_leaves_with_everything_kept(screen: Screen) -> None:
    open_form(screen)
    screen.type("bug" + ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("lines ›"))
    screen.type("12" + ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("note ›"))
    screen.type("half a no")
    screen.settle()
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "lines › 12")
    screen.type(ESC)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.wait_for("Enter goes on with it")
    assert "halted" not in screen.text()
    screen.type(ENTER)
    screen.wait_until(lambda s: editor_line(s) == "lines › 12")
    screen.type(DOWN)

    screen.wait_until(lambda s: editor_line(s) == "note › half a no")


def test_one_line_and_json_still_answer_a_form(screen: Screen) -> None:
    sends(screen, "/form", "Enter: one by one")
    screen.type("kind=bug lines=1" + ENTER)

    screen.wait_for("got 'kind=bug lines=1' question=q3")


def test_commands_work_while_a_form_is_open(screen: Screen) -> None:
    open_form(screen)
    screen.type("/busy")
    wait_bottom(screen, "⏎ runs the command")
    screen.type(ENTER)

    screen.wait_for("› /busy")
    screen.wait_until(lambda s: editor_line(s).startswith("kind ›"))


def test_a_form_whose_question_closes_keeps_what_is_being_typed(
    screen: Screen, tmp_path: Path
) -> None:
    sends(screen, f"/gone {tmp_path / 'now'}")
    open_form(screen)
    screen.type("bug" + ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("lines ›"))
    screen.type("12 or so")
    screen.settle()
    (tmp_path / "now").touch()
    wait_bottom(screen, "#3 is closed")
    screen.type(ENTER)

    screen.wait_for("What you typed stays in the line.")
    screen.wait_until(lambda s: editor_line(s) == "› 12 or so")
    assert "got '12 or so'" not in screen.text()


def test_a_form_whose_question_closes_while_nothing_is_typed_leaves_it_to_up(
    screen: Screen, tmp_path: Path
) -> None:
    sends(screen, f"/gone {tmp_path / 'now'}")
    open_form(screen)
    screen.type("bug" + ENTER)
    screen.wait_until(lambda s: editor_line(s).startswith("lines ›"))
    (tmp_path / "now").touch()

    screen.wait_for("#3 is closed. Up brings back what you had filled in.")
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.type(UP)
    screen.wait_until(lambda s: editor_line(s) == "› kind=bug")
    assert screen.text().count("#3 is closed") == 1, "it is said, and kept for Up, once"


def test_an_answer_that_does_not_fit_as_a_whole_comes_back_into_the_form(screen: Screen) -> None:
    sends(screen, "/refuse")
    open_form(screen)
    for value, after in (("bug", "lines ›"), ("1", "note ›"), ("slow", "send it?")):
        screen.type(value + ENTER)
        screen.wait_until(at(after))
    screen.settle()
    screen.type(ENTER)
    screen.wait_for("✗ that is not one of the choices")
    assert editor_line(screen).startswith("send it?")
    screen.type(ENTER)

    screen.wait_for("✓ #3 What is it?")


def test_a_question_mark_is_a_fields_first_character(screen: Screen) -> None:
    open_form(screen)
    screen.type("?")

    screen.wait_until(lambda s: editor_line(s) == "kind › ?")


def test_ctrl_c_on_an_empty_field_leaves_the_form_and_not_the_console(screen: Screen) -> None:
    open_form(screen)
    screen.type(CTRL_C)

    screen.wait_until(lambda s: editor_line(s) == "›")
    assert "again leaves" not in screen.text()


# --- several questions --------------------------------------------------------------------------


def test_tab_on_an_empty_line_marks_the_next_of_several_cards(screen: Screen) -> None:
    sends(screen, "/two", "▸ #1 ada asks")
    assert "? #2 ada asks" in screen.text()
    screen.type(TAB)
    screen.wait_for("▸ #2 ada asks")
    wait_bottom(screen, "answers #2")
    screen.type("yes" + ENTER)

    screen.wait_for("got 'yes' question=q2")


def test_a_card_never_takes_over_a_line_that_was_being_typed(
    screen: Screen, tmp_path: Path
) -> None:
    sends(screen, f"/later {tmp_path / 'now'}")
    screen.type("2")
    screen.settle()
    (tmp_path / "now").touch()
    screen.wait_for("▸ #1 ada asks")
    assert editor_line(screen) == "› 2"
    screen.type(DOWN + ENTER)

    screen.wait_for("a answer · n new instruction · e keep editing")
    assert editor_line(screen) == "› 2"


# --- the terminal -------------------------------------------------------------------------------


def test_the_terminal_is_asked_to_tell_ctrl_enter_and_told_when_it_is_over(screen: Screen) -> None:
    assert b"\x1b[>4;1m" in screen.raw
    sends(screen, "/exit")
    screen.wait_exit()

    assert bytes(screen.raw).rindex(b"\x1b[>4;0m") > bytes(screen.raw).rindex(b"\x1b[>4;1m")
