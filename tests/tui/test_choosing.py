"""A list to choose from: what arrows mark, what typed words mean, what is taken."""

import pytest

from midstream.core.question import Question
from midstream.language.names import Json
from midstream.tui.choice_list import Choosing, Option, choices_in, choices_of

COLOURS = Choosing(options=tuple(Option(name, name) for name in ("red", "green", "blue")))
MANY = Choosing(options=COLOURS.options, many=True)
TWELVE = Choosing(options=tuple(Option(f"choice {n}", n) for n in range(1, 13)))


def test_down_marks_the_first_and_after_the_last_the_first_again() -> None:
    at = COLOURS
    marks = []
    for _ in range(4):
        at = at.moved(1)
        marks.append(at.at)

    assert marks == [0, 1, 2, 0]


def test_up_marks_the_last_and_leaves_the_list_at_its_beginning() -> None:
    assert COLOURS.moved(-1).at == 2
    assert COLOURS.moved(1).moved(-1).at is None


@pytest.mark.parametrize(
    ("text", "label"),
    [("2", "green"), ("GREEN", "green"), (" blue ", "blue"), ("4", ""), ("0", ""), ("re", "")],
)
def test_a_typed_line_marks_what_it_names(text: str, label: str) -> None:
    assert COLOURS.meant(text).label == label


def test_a_number_of_two_digits_is_one_number() -> None:
    assert TWELVE.meant("1").value == 1
    assert TWELVE.meant("12").value == 12
    assert not TWELVE.meant("13").is_made


def test_a_number_with_words_behind_it_is_words() -> None:
    assert not TWELVE.meant("2 files").is_made


def test_a_choices_own_words_count_before_a_number() -> None:
    numbers = Choosing(options=(Option("2", "2"), Option("1", "1")))

    assert numbers.meant("1").label == "1"


def test_an_empty_line_leaves_the_mark_where_the_arrows_put_it() -> None:
    assert COLOURS.moved(1).meant(" ").at == 0


def test_several_may_be_picked_and_let_go_again() -> None:
    both = MANY.moved(1).toggled().moved(-1).moved(-1).toggled()

    assert both.value == ["red", "blue"]
    assert both.toggled().value == ["red"]
    assert not COLOURS.moved(1).toggled().picked


def test_of_several_the_marked_one_is_taken_where_none_is_picked() -> None:
    assert MANY.moved(1).value == ["red"]


@pytest.mark.parametrize(
    ("text", "picked"),
    [("1 3", ["red", "blue"]), ("blue,1", ["red", "blue"]), ("green", ["green"]), ("1 4", None)],
)
def test_several_can_be_typed(text: str, picked: list[str] | None) -> None:
    meant = MANY.meant(text)

    assert meant.is_made == (picked is not None)
    assert picked is None or meant.value == picked


@pytest.mark.parametrize(
    ("spec", "labels"),
    [
        ({"enum": ["a", 1, None]}, ["a", "1", "null"]),
        ({"type": "boolean"}, ["yes", "no"]),
        ({"type": "array", "items": {"enum": ["x"]}}, ["x"]),
        ({"type": "array", "items": {"type": "string"}}, None),
        ({"enum": []}, None),
        ({"type": "string"}, None),
        (True, None),
    ],
)
def test_parts_of_a_schema_that_name_their_values_are_lists(
    spec: Json, labels: list[str] | None
) -> None:
    found = choices_in(spec)

    assert (None if found is None else [o.label for o in found.options]) == labels


@pytest.mark.parametrize(("text", "value"), [("y", True), ("False", False), ("2", False)])
def test_yes_and_no_have_other_names(text: str, value: bool) -> None:
    found = choices_in({"type": "boolean"})

    assert found is not None
    assert found.meant(text).value is value


def test_an_approval_is_never_a_list() -> None:
    question = Question(id="q", number=1, kind="approval", text="run", choices=("y", "n"))

    assert choices_of(question) is None
