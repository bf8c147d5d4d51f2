"""A budget is used up and nothing catches that: the run pauses and asks, and goes on when it may."""

import pytest
from decide_kit import call, define, done, flow, go, of, replies, says, state, tell, within

from midstream.core.events import BudgetReached, Interrupted, QuestionAsked, Usage
from midstream.core.inputs import Halt
from midstream.core.pending import pending
from midstream.core.question import AGAIN, NO_LIMIT, STOP_THERE
from midstream.core.run import Run
from midstream.language.spec import Budget, State, Workflow

USED = Usage(model="m", input_tokens=30, output_tokens=30, cost_usd="0.5")
LOOK = replies("", call("look"), usage=USED)
LOOPING = state("start", "dude", next="start")


def paused(workflow: Workflow | None = None) -> Run:
    start = flow(state("start", "dude"), budget=Budget(tokens=50)) if workflow is None else workflow
    return tell(start, LOOK, done("call_1"))[0]


def test_the_run_waits_for_a_person_and_begins_nothing() -> None:
    run, facts = tell(flow(LOOPING, budget=Budget(tokens=50)), LOOK, done("call_1"))

    assert [q.text for q in run.inbox.open_questions] == [
        "The workflow has used up its budget of 50 tokens. Go on?"
    ]
    assert run.inbox.open_questions[0].choices == (AGAIN, NO_LIMIT, STOP_THERE)
    assert pending(run) == ()
    assert run.is_parked
    assert [fact.state for fact in of(facts, BudgetReached)] == ["start"]


def test_as_much_again_is_asked_again_when_that_is_used_up() -> None:
    run, _ = go(paused(), says(AGAIN, question="q1"))
    assert [type(effect).__name__ for effect in pending(run)] == ["AskModel"]
    run, _ = go(run, LOOK, done("call_2"))

    assert [q.text for q in run.inbox.open_questions] == [
        "The workflow has used up its budget of 100 tokens. Go on?"
    ]


def test_without_a_limit_it_is_never_asked_again() -> None:
    run, _ = go(paused(), says(NO_LIMIT, question="q1"))
    for number in range(2, 6):
        run, _ = go(run, LOOK, done(f"call_{number}"))
        assert run.inbox.open_questions == ()


def test_a_person_may_stop_it_there() -> None:
    run, _ = go(paused(), says(STOP_THERE, question="q1"))

    assert run.status == "stopped"


def test_other_words_are_an_instruction_and_the_budget_stays_used_up() -> None:
    run, facts = go(paused(), says("what have you found?"))

    assert [fact.leads_to for fact in of(facts, Interrupted)] == ["words"]
    assert [q.about for q in run.inbox.open_questions] == ["budget"]
    assert pending(run) == ()
    run, _ = go(run, says(AGAIN, question=run.inbox.open_questions[0].id), replies("Nothing."))

    assert run.status == "finished"


def test_a_held_run_goes_on_to_ask_once_more() -> None:
    run, _ = go(paused(), Halt(), says("go on"))

    assert len([q for q in run.inbox.open_questions if q.about == "budget"]) == 1


def test_where_nobody_is_there_to_ask_the_state_fails() -> None:
    workflow = flow(state("start", "dude"), budget=Budget(tokens=50))
    run, facts = tell(workflow, LOOK, done("call_1"), approvals="deny")

    assert run.status == "failed"
    assert "50 tokens" in run.error
    assert of(facts, QuestionAsked) == []


@pytest.mark.parametrize(
    ("limits", "what"),
    [
        (Budget(tokens=50), "50 tokens"),
        (Budget(usd=0.5), "$0.5"),
        (Budget(tool_calls=1), "1 tool call"),
    ],
)
def test_what_a_person_limits_counts_whatever_the_workflow_says(limits: Budget, what: str) -> None:
    workflow = flow(state("start", "dude"), budget=Budget(tokens=5000))
    run, _ = tell(workflow, LOOK, done("call_1"), limits=limits)

    assert run.inbox.open_questions[0].text == f"The run has used up its budget of {what}. Go on?"


def test_a_loop_is_paused_after_so_many_transitions() -> None:
    run, _ = tell(flow(LOOPING, budget=Budget(transitions=3)), *[replies("x")] * 3)

    assert run.visits == {"start": 4}
    assert "3 transitions" in run.inbox.open_questions[0].text


def test_branches_pause_by_themselves_and_are_asked_about_once() -> None:
    fan = State(name="start", parallel=("left", "right"))
    workflow = flow(fan, state("left", "dude"), state("right", "dude"), budget=Budget(tokens=100))
    run, _ = tell(workflow, within("right", LOOK), within("left", LOOK))
    assert [q.text for q in run.inbox.open_questions] == [
        "The workflow has used up its budget of 100 tokens. Go on?"
    ]
    assert len(pending(run)) == 1, "the call of the other branch goes on"
    run, _ = go(run, within("right", done("call_1")))
    assert len(run.inbox.open_questions) == 1
    assert pending(run) == ()
    run, _ = go(run, says(AGAIN, question=run.inbox.open_questions[0].id))
    assert len(pending(run)) == 2
    run, _ = go(run, within("left", replies("a")), within("right", replies("b")))

    assert run.status == "finished"


def test_a_branch_that_is_over_again_asks_again() -> None:
    inner = flow(state("start", "dude"), budget=Budget(tokens=20))
    run, _ = tell(define(flow(State(name="start", workflow="inner")), inner=inner))
    run, _ = go(run, within("inner", LOOK), within("inner", done("call_1")))
    for number in (1, 2):
        assert [q.number for q in run.inbox.open_questions] == [number]
        run, _ = go(run, says(AGAIN, question=run.inbox.open_questions[0].id))
    run, _ = go(run, says(NO_LIMIT, question=run.inbox.open_questions[0].id))

    assert len(pending(run)) == 1, "the model is asked"
    run, _ = go(run, within("inner", replies("Done.")))
    assert run.status == "finished"


def test_a_budget_of_nothing_is_a_rule_and_no_question() -> None:
    inner = flow(State(name="start", tool="look", budget=Budget(tool_calls=0)))
    run, _ = tell(define(flow(State(name="start", workflow="inner")), inner=inner))

    assert run.status == "failed"
    assert "0 tool calls" in run.error


def test_a_sub_workflow_asks_at_the_top() -> None:
    inner = flow(state("start", "dude"), budget=Budget(tokens=50))
    run, _ = tell(define(flow(State(name="start", workflow="inner")), inner=inner))
    run, _ = go(run, within("inner", LOOK), within("inner", done("call_1")))

    assert run.inbox.open_questions[0].branch == ""
    run, _ = go(run, says(AGAIN, question="q1"), within("inner", replies("Done.")))
    assert run.status == "finished"
