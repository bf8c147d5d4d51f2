"""The marked question's card: its list or its form, with what matters whole."""

import pytest

from midstream.core.question import Question
from midstream.language.names import Json
from midstream.tui.cards import card_rows, form_rows, list_rows
from midstream.tui.choice_list import Choosing, Option
from midstream.tui.form import form_of
from midstream.tui.styled_lines import Row
from midstream.views.cells import width_of

LONG = "a colour that nobody has ever thought of before and that takes more than one row to tell"
ASKED = Question(id="q1", number=1, kind="question", text="Which?", choices=("red", LONG, "blue"))
WHY = "A title as it will stand in the changelog, for somebody who has never seen the project."
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": WHY},
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "kind": {"enum": ["bug", "feature"], "description": "What it is."},
    },
    "required": ["title"],
}


def choosing(at: int | None = None) -> Choosing:
    return Choosing(options=tuple(Option(text, text) for text in ASKED.choices), at=at)


def texts(rows: list[Row]) -> list[str]:
    return ["".join(text for _, text in row).rstrip() for row in rows]


def words(rows: list[Row]) -> str:
    return " ".join(text.strip("│▸ ") for text in texts(rows))


@pytest.mark.parametrize("width", [40, 80, 200])
def test_choices_of_several_rows_are_whole_where_there_is_room(width: int) -> None:
    rows = list_rows(ASKED, choosing(), height=10, width=width)

    assert LONG in words(rows)
    assert all(width_of(text) <= width for text in texts(rows))


@pytest.mark.parametrize("height", [5, 6])
def test_without_room_the_marked_choice_has_the_rows(height: int) -> None:
    others = list_rows(ASKED, choosing(0), height=height, width=40)
    marked = list_rows(ASKED, choosing(1), height=height, width=40)

    assert len(others) <= height
    assert len(marked) <= height
    assert words(marked).count("a colour that nobody has ever") == 1
    assert len(words(marked)) > len(words(others))
    assert "…" in words(others)


@pytest.mark.parametrize("height", [6, 8, 12])
def test_choices_stand_there_however_long_the_question_is(height: int) -> None:
    text = "\n".join(f"line {number}" for number in range(40))
    asked = Question(
        id="q", number=1, kind="question", text=text, choices=("a", "日本語" * 30, "c")
    )
    options = tuple(Option(choice, choice) for choice in asked.choices)
    shown = texts(list_rows(asked, Choosing(options=options), height=height, width=40))

    assert len(shown) == height
    assert shown[1] == ("│ line 0" if height > 6 else "│ +39 more lines, in full above")
    assert "more lines, in full above" in "".join(shown)
    assert shown[-4] == "│ line 39"
    assert shown[-3] == "│ 1 a"
    assert shown[-2].startswith("│ 2 日本語日本語")
    assert shown[-2].endswith("…")
    assert shown[-1] == "│ 3 c"


def test_a_card_that_has_one_row_says_what_is_asked() -> None:
    [row] = card_rows(ASKED, is_focused=False, height=1, width=60)

    assert texts([row]) == ["? #1 the workflow asks: Which?"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_field_one_is_at_is_described_whole(width: int) -> None:
    form = form_of(Question(id="q1", number=1, kind="question", text="?", schema=SCHEMA))
    assert form is not None

    assert WHY in words(form_rows(ASKED, form, None, height=14, width=width))
    refused = form.entered("x").entered("9")
    shown = words(form_rows(ASKED, refused, None, height=14, width=width))
    assert "9  (not entered yet)" in shown
    assert "integer, 1 to 5, default 2" in shown
    assert "at most 5" in shown
    at_list = form.entered("x").entered("3")
    assert at_list.choices is not None
    shown = words(
        form_rows(ASKED, at_list.left("perhaps"), at_list.choices, height=14, width=width)
    )
    assert shown.count("What it is.") == 1
