"""Routing: which question a line answers, if any."""

import pytest

from midstream.core.names import QuestionKind
from midstream.core.question import Question
from midstream.core.routing import Answer, Returned, Route, Unasked, Unclear, route


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
        ("#2", Returned(reason="Write the answer to #2 behind its number.")),
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
