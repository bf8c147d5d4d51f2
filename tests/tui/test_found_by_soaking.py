"""What a soak of random keys found once, each as the few keys it takes. See `torture.console_soak`."""

import msgspec
import pytest
from fake_session import FORM, asked
from prompt_toolkit.formatted_text import fragment_list_to_text
from screen import CTRL_C, ENTER, UP, Screen, Spawn, editor_line

from midstream.tui.answering import Answering
from midstream.tui.layout import toolkit_text
from midstream.tui.on_screen import OnScreen
from midstream.tui.styled_lines import Row

PAGE_UP, PAGE_DOWN = "\x1b[5~", "\x1b[6~"


@pytest.mark.parametrize("end", [ENTER, CTRL_C])
def test_a_line_left_for_the_history_is_in_it_once_another_is_sent_or_cleared(
    screen: Screen, end: str
) -> None:
    screen.type("an earlier line" + ENTER)
    screen.wait_for("got 'an earlier line'")
    screen.settle()
    screen.type("never sent")
    screen.settle()
    screen.type(PAGE_UP)
    screen.wait_until(lambda s: editor_line(s) == "› an earlier line")
    screen.type(end)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.settle()
    screen.type(UP + UP)

    screen.wait_until(lambda s: editor_line(s) == "› never sent")


def test_a_line_of_the_history_that_was_changed_and_left_is_in_it_too(screen: Screen) -> None:
    screen.type("an earlier line" + ENTER)
    screen.wait_for("got 'an earlier line'")
    screen.settle()
    screen.type(PAGE_UP)
    screen.wait_until(lambda s: editor_line(s) == "› an earlier line")
    screen.type(", changed")
    screen.settle()
    screen.type(PAGE_DOWN)
    screen.wait_until(lambda s: editor_line(s) == "›")
    screen.type("another" + ENTER)
    screen.wait_for("got 'another'")
    screen.settle()
    screen.type(UP + UP)

    screen.wait_until(lambda s: editor_line(s) == "› an earlier line, changed")


@pytest.mark.parametrize(
    ("cols", "line"),
    [(40, "x" * 38 * 4), (41, "漢" * 77)],
    ids=["the cursor behind a full row", "wide characters leave a cell empty at the end of rows"],
)
def test_the_cursor_stays_in_sight_in_a_line_taller_than_its_room(
    spawn: Spawn, cols: int, line: str
) -> None:
    screen = spawn(cols=cols, rows=12)
    screen.paste(line)
    screen.wait_for(line[:15])
    screen.settle()

    screen.wait_until(lambda s: s.lines()[s.cursor()[1] + 1].startswith("⏎ sends"))


def test_the_cursor_stays_in_sight_among_wrapped_lines_with_tabs(spawn: Spawn) -> None:
    screen = spawn(cols=40, rows=20)
    screen.paste("\n".join("\tif x:\t\treturn y  # for a while, then" for _ in range(9)))
    screen.type("the end")

    screen.wait_until(lambda s: editor_line(s).endswith("the end"))
    assert screen.cursor()[1] >= 5


def test_what_takes_a_cell_on_the_terminal_takes_one_where_things_are_laid_out() -> None:
    [fragment] = toolkit_text([[("", "👩\u200d💻")]])

    assert fragment[1] == "👩\ufffd💻"


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([[("", "▌ "), ("", "ก็")]], "▌ ก็ "),
        ([[("", "▌ "), ("", "ก็")], []], "▌ ก็ \n"),
        ([[("", "ก็ไ")]], "ก็ไ"),
    ],
)
def test_a_mark_at_the_end_of_a_row_is_drawn_once(rows: list[Row], text: str) -> None:
    assert fragment_list_to_text(toolkit_text(rows)) == text


def test_what_a_form_held_that_was_left_comes_back_when_nobody_asks_any_more() -> None:
    question = msgspec.structs.replace(asked(3, "What?"), schema=FORM)
    answering = Answering(OnScreen(fresh_s=0.0))
    answering.keep_to([question])
    answering.on_screen.frame({"q3"}, now=0.0)
    answering.enter(question, "", now=1.0)
    answering.enter(None, "bug", now=2.0)
    answering.leave("a dozen")
    assert answering.let_go == []

    answering.keep_to([])
    answering.keep_to([])

    assert answering.let_go == [(3, "kind=bug lines=a dozen")]
