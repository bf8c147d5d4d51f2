"""Of several questions on the screen, the marked one takes a line that names none."""

import pytest
from fake_desk import asked

from midstream.tui.dialog import Dialog
from midstream.tui.editor import Typed

TWO = (asked(1, "First?"), asked(2, "Second?"))


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ("red", "q2"),
        ("#1 red", None),
        ("/state", None),
        ("@tests red", None),
        ("@nobody red", None),
        ("@ red", "q2"),
    ],
)
def test_a_line_that_is_for_another_answers_not_the_marked_question(
    line: str, question: str | None
) -> None:
    dialog = Dialog(focus="q2")
    typed = Typed(text=line, shown=line, seen=frozenset({"q1", "q2"}))

    assert dialog.answered_by(typed, TWO, ("tests",)) == question


def test_without_branches_nobody_is_spoken_to() -> None:
    typed = Typed(text="@home", shown="@home", seen=frozenset({"q1", "q2"}))

    assert Dialog(focus="q2").answered_by(typed, TWO) == "q2"
