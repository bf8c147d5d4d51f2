"""Explicit input: questions as records, and approvals."""

import pytest
from decide_kit import (
    approves,
    asks,
    call,
    comes,
    dispositions,
    done,
    flow,
    go,
    keys,
    kinds,
    of,
    replies,
    says,
    state,
    tell,
)

from midstream.core import events as e
from midstream.core.inputs import Stop

DUDE = flow(state("start", "dude"))


def test_asking_parks_only_its_call_and_the_answer_becomes_its_result() -> None:
    run, facts = tell(DUDE, replies("", asks("Red or blue?"), call("look")))
    (question,) = of(facts, e.QuestionAsked)
    assert (question.question_id, question.number, question.text) == ("q1", 1, "Red or blue?")
    assert (question.kind, question.agent, question.call_id) == ("question", "dude", "call_1")
    assert keys(run) == [(1, "tool", "call_2")]

    run, _ = go(run, done("call_2"))
    assert run.is_parked

    run, facts = go(run, says("red", "q1"))
    assert kinds(facts) == [
        "input_received",
        "question_answered",
        "input_disposed",
        "tool_returned",
    ]
    assert of(facts, e.ToolReturned)[0].result == "red"
    assert keys(run) == [(1, "model", 2)]


def test_an_answer_does_not_wait_for_a_running_sibling() -> None:
    run, _ = tell(DUDE, replies("", call("look"), asks("Which?")), says("that", "q1"))
    run, _ = go(run, done("call_1", "seen"))

    assert [r.text for r in run.contexts["talk"][-1].results] == ["seen", "that"]


@pytest.mark.parametrize("line", ["blue", " BLUE ", "2"])
def test_a_choice_is_made_by_its_words_or_its_number(line: str) -> None:
    run, _ = tell(DUDE, replies("", asks("Which?", choices=["Red", "Blue"])))
    _, facts = go(run, says(line, "q1"))

    assert of(facts, e.QuestionAnswered)[0].answer == "Blue"
    assert of(facts, e.ToolReturned)[0].result == "Blue"


@pytest.mark.parametrize("line", ["green", "0", "3", "²", ""])
def test_a_wrong_answer_is_explained_and_the_question_stays_open(line: str) -> None:
    run, _ = tell(DUDE, replies("", asks("Which?", choices=["Red", "Blue"])))
    run, facts = go(run, says(line, "q1"))

    assert kinds(facts) == ["input_received", "answer_refused", "input_disposed"]
    assert "1 Red, 2 Blue" in of(facts, e.AnswerRefused)[0].reason
    assert dispositions(run) == ["rejected"]
    assert len(run.inbox.open_questions) == 1

    run, _ = go(run, says("red", "q1"))
    assert dispositions(run) == ["rejected", "answered"]


def test_an_answer_that_does_not_fit_the_schema_is_refused() -> None:
    run, facts = tell(DUDE, replies("", asks("How many?", schema={"type": "integer"})))
    assert of(facts, e.QuestionAsked)[0].schema == {"type": "integer"}
    run, facts = go(run, says("many", "q1", problem="'many' is no integer"))
    assert of(facts, e.AnswerRefused)[0].reason == "'many' is no integer"

    run, facts = go(run, says("3", "q1", answer=3))
    assert of(facts, e.QuestionAnswered)[0].answer == 3
    assert of(facts, e.ToolReturned)[0].result == "3"


def test_the_loser_of_two_answers_hears_that_it_is_answered() -> None:
    run, _ = tell(DUDE, replies("", asks("Which?")), says("a", "q1"))
    run, facts = go(run, says("b", "q1"))

    assert of(facts, e.InputDisposed)[0].reason == "already answered"
    assert dispositions(run) == ["answered", "rejected"]


def test_an_answer_to_no_question_is_returned() -> None:
    run, facts = tell(DUDE, says("b", "q7"))

    assert of(facts, e.InputDisposed)[0].reason == "there is no question q7"
    assert run.visit.phase == "turn"


def test_several_questions_have_their_own_numbers() -> None:
    run, facts = tell(DUDE, replies("", asks("a?"), asks("b?")))
    assert [q.number for q in of(facts, e.QuestionAsked)] == [1, 2]

    run, _ = go(run, says("B", "q2"), says("A", "q1"))
    assert [r.text for r in run.contexts["talk"][-1].results] == ["A", "B"]


def test_waiting_for_input_takes_no_number() -> None:
    workflow = flow(state("start", "dude", awaits_input=True))
    run, facts = tell(workflow, says("hi"), replies("", asks("which?")), input=None)

    assert [(q.kind, q.number) for q in of(facts, e.QuestionAsked)] == [
        ("input", 0),
        ("question", 1),
    ]
    assert run.inbox.last_number == 1


@pytest.mark.parametrize("choices", ["red", 7, None, []])
def test_choices_that_are_no_list_are_none(choices: object) -> None:
    _, facts = tell(DUDE, replies("", asks("Which?", choices=choices, schema="x")))

    (question,) = of(facts, e.QuestionAsked)
    assert (question.choices, question.schema) == ((), None)


def test_unasked_words_close_the_question_as_superseded() -> None:
    run, _ = tell(DUDE, replies("", asks("Which?")))
    run, facts = go(run, says("forget it"))

    assert of(facts, e.QuestionSuperseded)[0].question_id == "q1"
    assert of(facts, e.ToolReturned)[0].result == "Not answered: the user interrupted instead."
    _, facts = go(run, says("red", "q1"))
    assert "interrupted" in of(facts, e.InputDisposed)[0].reason


# --- approvals --------------------------------------------------------------------------------


def test_a_call_that_needs_approval_waits_and_runs_after_a_yes() -> None:
    run, facts = tell(DUDE, replies("", call("write", path="a")))
    (question,) = of(facts, e.QuestionAsked)
    assert (question.kind, question.text) == ("approval", 'write {"path":"a"}')
    assert of(facts, e.ToolCalled) == []
    assert run.is_parked

    run, facts = go(run, approves("q1"))
    assert kinds(facts) == ["question_answered", "tool_called"]
    assert keys(run) == [(1, "tool", "call_1")]


def test_a_no_is_told_to_the_model_with_its_note() -> None:
    run, facts = tell(DUDE, replies("", call("write")), approves("q1", False, note="not there"))

    (returned,) = of(facts, e.ToolReturned)
    assert returned.outcome == "denied"
    assert returned.result == "The user refused this call. They said: not there"
    assert keys(run) == [(1, "model", 2)]


def test_a_yes_for_the_run_covers_the_calls_to_come() -> None:
    run, _ = tell(DUDE, replies("", call("write"), call("write"), asks("Which?")))
    run, facts = go(run, approves("q1", for_run=True))
    assert of(facts, e.PermissionGranted) == [e.PermissionGranted(tool="write")]
    run, facts = go(run, done("call_1"), comes("call_2"))
    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_2"]

    run, facts = go(run, done("call_2"), comes("call_3"), says("this", "q2"))
    _, facts = go(run, replies("", call("write")))
    assert of(facts, e.QuestionAsked) == []
    assert len(of(facts, e.ToolCalled)) == 1


def test_what_is_allowed_from_the_start_is_not_asked() -> None:
    _, facts = tell(DUDE, replies("", call("write")), allowed=("write",))

    assert of(facts, e.QuestionAsked) == []
    assert len(of(facts, e.ToolCalled)) == 1


def test_where_nobody_is_there_to_ask_the_call_is_refused() -> None:
    run, facts = tell(DUDE, replies("", call("write")), approvals="deny")

    assert of(facts, e.ToolReturned)[0].outcome == "denied"
    assert "--allow write" in of(facts, e.ToolReturned)[0].result
    assert not run.inbox.open_questions


def test_words_never_approve() -> None:
    run, _ = tell(DUDE, replies("", call("write")))
    run, facts = go(run, says("yes", "q1"))

    assert of(facts, e.ToolCalled) == []
    assert "do not approve" in of(facts, e.AnswerRefused)[0].reason
    assert dispositions(run) == ["rejected"]
    assert len(run.inbox.open_questions) == 1


def test_unasked_words_do_not_approve_either_but_halt() -> None:
    run, _ = tell(DUDE, replies("", call("write")))
    _, facts = go(run, says("yes"))

    assert of(facts, e.ToolCalled) == []
    assert of(facts, e.ToolReturned)[0].outcome == "not_run"


def test_a_key_press_does_not_answer_a_question() -> None:
    run, _ = tell(DUDE, replies("", asks("Sure?")))

    assert go(run, approves("q1"))[1] == []


def test_a_second_decision_changes_nothing() -> None:
    run, _ = tell(DUDE, replies("", call("write")), approves("q1"))

    assert go(run, approves("q1", False))[1] == []
    assert go(run, approves("q9"))[1] == []


def test_a_late_yes_does_not_start_a_halted_call() -> None:
    run, _ = tell(DUDE, replies("", asks("Sure?"), call("write")), says("stop that"))
    run, facts = go(run, says("sure", "q1"))
    assert kinds(facts) == ["input_received", "input_disposed"]

    run, _ = tell(DUDE, replies("", call("write")), says("stop that"))
    assert go(run, approves("q1"))[1] == []
    run, _ = tell(DUDE, replies("", call("write"), call("shell")), approves("q1"), says("stop"))
    assert run.visit.phase == "halting"
    run, facts = go(run, says("sure", "q1"))
    assert kinds(facts) == ["input_received", "input_disposed"]


def test_the_end_closes_what_is_open() -> None:
    _, facts = tell(DUDE, replies("", asks("a?"), asks("b?")), Stop(reason="bye"))

    closed = [fact.question_id for fact in of(facts, e.QuestionSuperseded)]
    assert closed == ["q1", "q2"]
