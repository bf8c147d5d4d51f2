"""Routing: which question a line answers, if any."""

import pytest

from midstream.core.question import Question
from midstream.core.routing import Answer, Returned, Route, Unasked, Unclear, route
from midstream.language.names import QuestionKind


def question(number: int, kind: QuestionKind = "question") -> Question:
    return Question(id=f"q{number}", number=number, kind=kind, text="?")


ONE = [question(1)]
TWO = [question(1), question(2)]
APPROVAL = question(3, "approval")
WAITING = question(9, "input")


def test_no_question_makes_the_line_unasked() -> None:
    assert route("hi", open_questions=[], seen=()) == Unasked(text="hi")


def test_a_question_that_was_seen_takes_the_line() -> None:
    assert route("red", open_questions=ONE, seen={"q1"}) == Answer(question="q1", text="red")


def test_a_question_that_came_up_while_typing_makes_the_line_unclear() -> None:
    assert route("red", open_questions=ONE, seen=()) == Unclear(question="q1")


def test_of_two_questions_the_one_that_was_seen_takes_the_line() -> None:
    assert route("red", open_questions=TWO, seen={"q2"}) == Answer(question="q2", text="red")


def test_of_several_the_focused_one_takes_the_line() -> None:
    routed = route("red", open_questions=TWO, seen={"q1", "q2"}, focused="q2")

    assert routed == Answer(question="q2", text="red")


def test_without_a_focus_several_questions_return_the_line_with_their_numbers() -> None:
    routed = route("red", open_questions=TWO, seen={"q1", "q2"})

    assert routed == Returned(reason="Several questions are open: begin with #1 or #2.")


def test_a_focus_on_a_question_that_is_gone_does_not_count() -> None:
    assert isinstance(route("x", open_questions=TWO, seen={"q1", "q2"}, focused="q0"), Returned)


def test_a_focus_on_a_question_that_came_up_while_typing_does_not_count() -> None:
    three = [*TWO, question(3)]

    assert isinstance(route("x", open_questions=three, seen={"q1", "q2"}, focused="q3"), Returned)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#2 red", Answer(question="q2", text="red")),
        ("  #1   a  b ", Answer(question="q1", text="a  b ")),
        ("#7 red", Returned(reason="No open question has the number 7. Open: #1 or #2.")),
        ("#2", Returned(reason="Write the answer to #2 after its number.")),
    ],
)
def test_a_number_picks_its_question_seen_or_not(line: str, expected: Route) -> None:
    assert route(line, open_questions=TWO, seen=()) == expected


@pytest.mark.parametrize("line", ["#2red", "# 2 red", "#x", "#"])
def test_what_is_no_number_is_plain_text(line: str) -> None:
    assert route(line, open_questions=ONE, seen={"q1"}) == Answer(question="q1", text=line)


@pytest.mark.parametrize("open_questions", [[], [APPROVAL]])
def test_a_number_without_open_questions_is_plain_text(open_questions: list[Question]) -> None:
    assert route("#2 red", open_questions=open_questions, seen={"q3"}) == Unasked(text="#2 red")


def test_an_approval_takes_no_words() -> None:
    assert route("yes", open_questions=[APPROVAL], seen={"q3"}) == Unasked(text="yes")
    assert route("yes", open_questions=[APPROVAL, *ONE], seen={"q3", "q1"}) == Answer(
        question="q1", text="yes"
    )


def test_a_run_that_waits_for_words_takes_the_line_without_a_card() -> None:
    assert route("#2 red", open_questions=[WAITING], seen=()) == Answer(
        question="q9", text="#2 red"
    )


def test_a_line_to_an_agent_stays_as_it_is() -> None:
    assert route("@critic hm", open_questions=[], seen=()) == Unasked(text="@critic hm")


# --- branches ---------------------------------------------------------------------------------


def asked_in(branch: str, number: int = 1, kind: QuestionKind = "question") -> Question:
    return Question(id=f"{branch}/q{number}", number=number, kind=kind, text="?", branch=branch)


def to_branches(line: str, *open_questions: Question) -> Route:
    """Return where a line goes while `tests` and `spots` are at work and all is on the screen."""
    seen = [question.id for question in open_questions]
    return route(
        line,
        open_questions=open_questions,
        seen=seen,
        addressees=("tests", "spots", "dude"),
        gone=("test",),
        shared={"critic": ("left", "right/inner")},
    )


def test_a_line_to_a_branch_answers_nothing() -> None:
    assert to_branches("@tests only src", asked_in("spots")) == Unasked(text="@tests only src")
    assert to_branches("@dude hm", asked_in("spots", kind="input")) == Unasked(text="@dude hm")


def test_a_file_that_is_called_nearly_like_a_branch_is_no_branch() -> None:
    line = "@tests.py what does it do?"
    assert to_branches(line) == Unasked(text=line)
    assert to_branches("@./tests is a folder") == Unasked(text="@./tests is a folder")


def test_a_name_that_is_nearly_right_comes_back() -> None:
    assert to_branches("@testz only src") == Returned(
        reason="No branch 'testz' is at work. Did you mean @tests?"
    )
    assert to_branches("@dataclass(frozen=True) is what I meant") == Unasked(
        text="@dataclass(frozen=True) is what I meant"
    )


@pytest.mark.parametrize("open_questions", [[], [asked_in("left")]])
def test_a_name_that_means_several_branches_comes_back(open_questions: list[Question]) -> None:
    assert to_branches("@critic only src", *open_questions) == Returned(
        reason="@critic is at work in several branches: begin with @left or @right/inner."
    )


def test_a_line_to_a_branch_that_is_done_comes_back() -> None:
    assert to_branches("@test only src") == Returned(reason="The branch 'test' is done.")


def test_a_name_without_words_comes_back() -> None:
    assert to_branches("@tests ", asked_in("spots")) == Returned(
        reason="Write what @tests should hear after its name."
    )


def test_a_branchs_question_is_answered_by_its_number_while_another_waits_for_words() -> None:
    both = (asked_in("tests", 3), asked_in("spots", 0, "input"))

    assert to_branches("#3 red", *both) == Answer(question="tests/q3", text="red")
    assert to_branches("red", *both) == Returned(
        reason="spots waits for words, too: begin with #3, or with @spots."
    )
    assert to_branches("red", both[1]) == Answer(question="spots/q0", text="red")
