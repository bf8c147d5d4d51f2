"""Routing: which question a line answers, if any, and which branch it is for."""

from collections.abc import Collection, Sequence

import pytest
from msgspec.structs import replace

from midstream.core.question import Question
from midstream.core.routing import Destination, Returned, Route, Unclear, answering
from midstream.core.routing import route as route_in
from midstream.core.run import BranchOf, Inbox, Run, Turn, Visit
from midstream.language.names import QuestionKind


def question(number: int, kind: QuestionKind = "question") -> Question:
    return Question(id=f"q{number}", number=number, kind=kind, text="?")


ONE = [question(1)]
TWO = [question(1), question(2)]
APPROVAL = question(3, "approval")
WAITING = question(9, "input")


def answer(question: str, text: str) -> Destination:
    return Destination(text=text, run="r", question=question)


def words(text: str, branch: str = "") -> Destination:
    return Destination(text=text, run="r", branch=branch)


def route(
    line: str,
    *,
    open_questions: Sequence[Question],
    seen: Collection[str],
    focused: str = "",
    run: Run | None = None,
    is_new: bool = False,
) -> Route:
    """Return where a line goes in a run; questions are named by their ids there."""
    run = run or Run(id="r")
    run = replace(run, inbox=Inbox(open_questions=tuple(open_questions)))
    shown = {f"r/{id}" for id in seen}
    return route_in(line, run, seen=shown, focused=f"r/{focused}", is_new=is_new)


def test_no_question_makes_the_line_unasked() -> None:
    assert route("hi", open_questions=[], seen=()) == words("hi")


def test_a_question_that_was_seen_takes_the_line() -> None:
    assert route("red", open_questions=ONE, seen={"q1"}) == answer("q1", "red")


def test_a_question_that_came_up_while_typing_makes_the_line_unclear() -> None:
    assert route("red", open_questions=ONE, seen=()) == Unclear(question="r/q1")


def test_of_two_questions_the_one_that_was_seen_takes_the_line() -> None:
    assert route("red", open_questions=TWO, seen={"q2"}) == answer("q2", "red")


def test_of_several_the_focused_one_takes_the_line() -> None:
    routed = route("red", open_questions=TWO, seen={"q1", "q2"}, focused="q2")

    assert routed == answer("q2", "red")


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
        ("#2 red", answer("q2", "red")),
        ("  #1   a  b ", answer("q1", "a  b ")),
        ("#7 red", Returned(reason="No open question has the number 7. Open: #1 or #2.")),
        ("#2", Returned(reason="Write the answer to #2 after its number.")),
    ],
)
def test_a_number_picks_its_question_seen_or_not(line: str, expected: Route) -> None:
    assert route(line, open_questions=TWO, seen=()) == expected


@pytest.mark.parametrize("line", ["#2red", "# 2 red", "#x", "#"])
def test_what_is_no_number_is_plain_text(line: str) -> None:
    assert route(line, open_questions=ONE, seen={"q1"}) == answer("q1", line)


@pytest.mark.parametrize("open_questions", [[], [APPROVAL]])
def test_a_number_without_open_questions_is_plain_text(open_questions: list[Question]) -> None:
    assert route("#2 red", open_questions=open_questions, seen={"q3"}) == words("#2 red")


def test_an_approval_takes_no_words() -> None:
    assert route("yes", open_questions=[APPROVAL], seen={"q3"}) == words("yes")
    assert route("yes", open_questions=[APPROVAL, *ONE], seen={"q3", "q1"}) == answer("q1", "yes")


def test_a_run_that_waits_for_words_takes_the_line_without_a_card() -> None:
    assert route("#2 red", open_questions=[WAITING], seen=()) == words("#2 red")


def test_a_line_to_an_agent_stays_as_it_is() -> None:
    assert route("@critic hm", open_questions=[], seen=()) == words("@critic hm")


# --- branches ---------------------------------------------------------------------------------


def asked_in(branch: str, number: int = 1, kind: QuestionKind = "question") -> Question:
    return Question(id=f"{branch}/q{number}", number=number, kind=kind, text="?", branch=branch)


def branch(path: str, agent: str = "", *within: Run, is_over: bool = False) -> Run:
    turn = Turn(agent=agent) if agent else None
    phase = "ended" if is_over else "turn" if agent else "branches"
    inner = {each.branch.path.rpartition("/")[2]: each for each in within}
    status = "finished" if is_over else "running"
    visit = Visit(phase=phase, turn=turn, branches=inner)  # type: ignore[arg-type]
    return Run(id="", branch=BranchOf(path=path), visit=visit, status=status)  # type: ignore[arg-type]


AT_WORK = branch(
    "",
    "",
    branch("tests", "dude"),
    branch("spots", "ada"),
    branch("left", "critic"),
    branch("right", "", branch("right/inner", "critic")),
    branch("test", is_over=True),
)


def to_branches(line: str, *open_questions: Question) -> Route:
    """Return where a line goes while branches are at work and all questions are on the screen."""
    seen = [question.id for question in open_questions]
    run = replace(AT_WORK, id="r")
    return route(line, open_questions=open_questions, seen=seen, run=run)


def test_a_line_to_a_branch_answers_nothing() -> None:
    assert to_branches("@tests only src", asked_in("spots")) == words("only src", "tests")
    assert to_branches("@dude hm", asked_in("spots", kind="input")) == words("hm", "tests")


def test_a_file_that_is_called_nearly_like_a_branch_is_no_branch() -> None:
    line = "@tests.py what does it do?"
    assert to_branches(line) == words(line)
    assert to_branches("@./tests is a folder") == words("@./tests is a folder")


def test_a_name_that_is_nearly_right_comes_back() -> None:
    assert to_branches("@testz only src") == Returned(
        reason="No branch 'testz' is at work. Did you mean @tests?"
    )
    assert to_branches("@dataclass(frozen=True) is what I meant") == words(
        "@dataclass(frozen=True) is what I meant"
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

    assert to_branches("#3 red", *both) == answer("tests/q3", "red")
    assert to_branches("red", *both) == Returned(
        reason="spots waits for words, too: begin with #3, or with @spots."
    )
    assert to_branches("red", both[1]) == answer("spots/q0", "red")


# --- the marked question ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("red", answer("q2", "red")),
        ("#1 red", answer("q1", "red")),
        ("@tests red", words("red", "tests")),
        ("@testz red", Returned(reason="No branch 'testz' is at work. Did you mean @tests?")),
        ("@ red", answer("q2", "@ red")),
        ("#x", Returned(reason="Several questions are open: begin with #1 or #2.")),
    ],
)
def test_a_line_that_is_for_another_answers_not_the_marked_question(
    line: str, expected: Route
) -> None:
    run = replace(AT_WORK, id="r")

    routed = route(line, open_questions=TWO, seen={"q1", "q2"}, focused="q2", run=run)

    assert routed == expected


def test_the_marked_question_takes_the_line_though_a_branch_waits_for_words() -> None:
    asked = [*TWO, asked_in("spots", 0, "input")]

    assert route("red", open_questions=asked, seen={"q1", "q2"}, focused="q2") == answer(
        "q2", "red"
    )


# --- what is known already --------------------------------------------------------------------


def test_a_new_instruction_answers_nothing_but_may_be_for_a_branch() -> None:
    run = replace(AT_WORK, id="r")

    assert route("red", open_questions=ONE, seen={"q1"}, is_new=True) == words("red")
    assert route("@left x", open_questions=ONE, seen=(), run=run, is_new=True) == words("x", "left")


def test_an_answer_counts_only_in_the_run_whose_question_was_shown() -> None:
    here = Run(id="r", inbox=Inbox(open_questions=tuple(ONE)))
    closed = Returned(reason="That question is not open any more.")

    assert route_in("red", here, seen=(), answers="r/q1") == answer("q1", "red")
    assert route_in("red", here, seen=(), answers="other/q1") == closed
    assert route_in("red", None, seen=(), answers="r/q1") == closed


def test_a_line_for_a_run_that_has_not_begun_is_words() -> None:
    assert route_in("@left red", None, seen={"r/q1"}) == Destination(text="@left red")


def test_who_has_all_questions_in_sight_answers_the_only_one_or_names_it() -> None:
    def asks(*questions: Question) -> Run:
        return Run(id="r", inbox=Inbox(open_questions=questions))

    assert answering("red", asks(*ONE)) == answer("q1", "red")
    assert answering("#2 red", asks(*TWO)) == answer("q2", "red")
    assert isinstance(answering("red", asks(*TWO)), Returned)
    assert answering("red", asks(APPROVAL)) is None
