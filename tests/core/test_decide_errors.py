"""Errors of a state by their kinds: tried again, caught, or the end; budgets, visits, loops."""

from typing import Any

import msgspec
import pytest
from decide_kit import (
    VERDICT,
    approves,
    at,
    begins,
    call,
    define,
    done,
    fails,
    flow,
    go,
    handler,
    keys,
    of,
    path,
    replies,
    rings,
    says,
    state,
    tell,
    within,
    words,
)

from midstream.core import events as e
from midstream.core.decide.states import MAX_SILENT_TRANSITIONS
from midstream.core.inputs import Halt, HandlerFailed, Recovered
from midstream.core.pending import handler_key
from midstream.core.run import Run
from midstream.language.spec import Branch, Budget, Catch, Retry, State, SubWorkflow, Transition

BACK = state("resume", "critic", next="$interrupted")
AGAIN = Retry(max_attempts=3, backoff_s=2)
SORRY = state("sorry", "dude", prompt="${common_data.trouble.error}")
CAUGHT = (Catch(to="sorry", save_as="trouble"),)
CATCH = [{"to": "sorry", "save_as": "trouble"}]
USED = e.Usage(model="m", input_tokens=30, output_tokens=30, cost_usd="0.5")


def again(run: Run) -> Run:
    """Let the time pass until the state is tried again."""
    return go(run, begins("retry", 9.0), rings("retry"))[0]


# --- tried again ----------------------------------------------------------------------------------


def test_a_prompt_is_not_put_twice_however_often_the_turn_fails() -> None:
    run, facts = tell(
        flow(state("start", "dude", prompt="Write.", retry=AGAIN)), fails(shown="Onc")
    )
    assert [(f.then, f.attempt, f.of, f.wait_s) for f in of(facts, e.StateFailed)] == [
        ("retry", 1, 3, 2.0)
    ]
    run = again(run)
    run, facts = go(run, fails())
    assert of(facts, e.StateFailed)[0].wait_s == 4.0
    run = again(run)

    assert words(run.contexts["talk"])[0] == ("user", "Write.")
    assert [text for _, text in words(run.contexts["talk"])].count("Write.") == 1
    run, _ = go(run, fails("for good"))
    assert run.error == "for good"


def test_words_while_a_state_waits_to_be_tried_again() -> None:
    flowing = flow(state("start", "dude", prompt="Write.", retry=AGAIN), BACK)
    run, _ = tell(flowing, fails(), says("now!"))
    assert run.visit.state == "resume"
    run, facts = go(run, replies("Yes."))

    assert run.visit.state == "start"
    assert of(facts, e.Prompted) == [], "it stands in the conversation"
    run, facts = go(run, fails())
    assert of(facts, e.StateFailed)[0].attempt == 2, "it is the same visit: tries are not forgotten"


def test_a_bare_stop_while_a_state_waits_to_be_tried_again() -> None:
    run, _ = tell(
        flow(state("start", "dude", retry=AGAIN), BACK), fails(), begins("retry", 9.0), Halt()
    )

    assert (run.visit.phase, keys(run)) == ("held", [])


def test_a_crash_while_a_state_waits_to_be_tried_again() -> None:
    run, _ = tell(flow(state("start", "dude", retry=AGAIN)), fails(), begins("retry", 9.0))
    run, _ = go(run, Recovered(), rings("retry"))

    assert run.visit.phase == "turn"


def test_a_completed_call_of_a_turn_is_not_made_again_when_the_turn_is_tried_again() -> None:
    run, _ = tell(
        flow(state("start", "dude", prompt="Go.", retry=AGAIN)),
        replies("", call("shell")),
        done("call_1", "made"),
        fails(),
    )
    run = again(run)

    assert keys(run) == [(1, "model", 1)]
    assert run.contexts["talk"][1].results[0].text == "made", "the agent sees what it did"


@pytest.mark.parametrize("outcome", ["unknown", "stopped"])
def test_a_once_call_that_may_have_happened_is_asked_about_and_not_tried_again(
    outcome: str,
) -> None:
    shell = State(name="start", tool="shell", retry=AGAIN, catch=CAUGHT)
    run, _ = tell(flow(shell, SORRY), done("call_1", outcome=outcome))  # type: ignore[arg-type]
    (question,) = run.inbox.open_questions
    run, facts = go(run, says("Not known: let the agent verify", question.id))

    assert of(facts, e.ToolCalled) == []
    assert path(facts) == ["sorry"]


def test_a_call_that_is_refused_is_an_error_of_its_own_kind() -> None:
    denied = (Catch(on=("denied",), to="sorry", save_as="trouble"),)
    write = State(name="start", tool="write", retry=AGAIN, catch=denied)
    run, facts = tell(flow(write, SORRY), approves("q1", granted=False, note="not there"))

    assert path(facts)[-1] == "sorry"
    assert "not there" in run.common_data["trouble"]["error"]
    run, _ = tell(flow(write, SORRY), approvals="deny")
    assert "nobody is there to give it" in run.common_data["trouble"]["error"]


def test_a_handler_is_tried_again_alone() -> None:
    run, _ = tell(flow(state("start", "dude", post_handler="post", retry=AGAIN)), replies("hi"))
    run, _ = go(run, HandlerFailed(key=handler_key(run), error="raised"))
    run, facts = go(run, begins("retry", 9.0), rings("retry"))

    assert run.visit.phase == "post"
    assert of(facts, e.Prompted) == []


def test_an_error_is_over_once_an_agent_has_had_its_turn() -> None:
    start = state("start", agent="dude", next="start", on_failure="start")
    run, _ = tell(flow(start), fails("The line went dead."))
    assert run.error == "The line went dead."
    run, _ = go(run, replies("Here I am."))
    assert run.error == ""


# --- caught ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "kind", "words_of_it"),
    [
        ({"agent": "dude", "prompt": "${common_data.x}"}, "template", "There is no value at"),
        ({"tool": "shell", "arguments": {"a": "${x}"}}, "template", "arguments"),
        ({"tool": "none"}, "tool", "no tool 'none'"),
        ({"ask": "${variables.q}?"}, "template", "question"),
        ({"wait": {"until": "soon"}}, "template", "no time"),
        ({"for_each": {"items": "input", "state": "sorry"}}, "template", "no list"),
        ({"transitions": [{"when": "input.x > 1", "to": "stop"}]}, "template", "transition"),
    ],
)
def test_what_cannot_be_begun_is_caught(spec: dict[str, Any], kind: str, words_of_it: str) -> None:
    start = msgspec.convert({"name": "start", **spec, "catch": CATCH}, State)
    run, _ = tell(flow(start, SORRY))

    assert run.visit.state == "sorry", run.error
    assert run.common_data["trouble"]["kind"] == kind
    assert words_of_it in run.common_data["trouble"]["error"]
    assert run.common_data["trouble"]["state"] == "start"


def test_unusable_replies_are_of_a_kind() -> None:
    judge = state("start", "judge", catch=(Catch(on=("output",), to="sorry", save_as="trouble"),))
    run, _ = tell(flow(judge, SORRY), replies("no"), replies("no"), replies("no"))

    assert run.visit.state == "sorry"
    assert VERDICT.name in run.common_data["trouble"]["error"]


def test_a_state_that_catches_itself_turns_for_ever_and_is_stopped() -> None:
    itself = state("start", "dude", prompt="${common_data.x}", catch=(Catch(to="start"),))
    run, facts = tell(flow(itself))

    assert run.status == "failed"
    assert f"{MAX_SILENT_TRANSITIONS} transitions in a row" in run.error
    assert len(of(facts, e.RunFailed)) == 1


def test_states_that_catch_each_others_visits_turn_for_ever_and_are_stopped() -> None:
    def counted(name: str, other: str) -> State:
        caught = (Catch(on=("max_visits",), to=other),)
        return State(name=name, max_visits=1, next=other, catch=caught)

    run, _ = tell(flow(counted("start", "other"), counted("other", "start")))

    assert run.status == "failed"
    assert "max_visits" in run.error


def test_going_back_to_a_cut_state_is_no_visit() -> None:
    run, _ = tell(flow(state("start", "dude", max_visits=1), BACK), says("hm"), replies("Yes."))

    assert (run.visit.state, run.visits["start"]) == ("start", 1)


# --- budgets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "what"),
    [
        (Budget(tokens=100), "100 tokens"),
        (Budget(usd=1.0), "$1"),
        (Budget(tool_calls=2), "2 tool calls"),
    ],
)
def test_a_budget_of_a_state_ends_its_turn(budget: Budget, what: str) -> None:
    start = state("start", "dude", budget=budget, catch=CAUGHT)
    look = replies("", call("look"), usage=USED)
    run, _ = tell(flow(start, SORRY), look, done("call_1"), look, done("call_2"))

    assert run.visit.state == "sorry"
    assert run.common_data["trouble"]["kind"] == "budget"
    assert f"'start' has used up its budget of {what}" in run.common_data["trouble"]["error"]


def test_what_a_state_used_before_it_was_cut_counts_and_what_others_used_does_not() -> None:
    start = state("start", "dude", budget=Budget(tokens=150), catch=CAUGHT)
    look = replies("", call("look"), usage=USED)
    run, _ = tell(flow(start, SORRY, BACK), look, done("call_1"), says("hm"))
    run, _ = go(run, replies("Well.", usage=USED))
    assert run.visit.state == "start"
    run, _ = go(run, look, done("call_2"))
    assert run.visit.state == "start", "120 of 150: the 60 of resume are not its own"
    run, _ = go(run, look, done("call_3"))

    assert run.visit.state == "sorry"


def test_a_new_visit_has_a_new_budget() -> None:
    start = state("start", "dude", budget=Budget(tokens=50), next="start")
    run, _ = tell(flow(start), replies("a", usage=USED), replies("b", usage=USED))

    assert run.visits == {"start": 3}


def test_the_budget_of_the_workflow_counts_what_branches_use() -> None:
    fan = State(name="start", parallel=("left", "right"), catch=(Catch(on=("budget",), to="stop"),))
    workflow = flow(fan, state("left", "dude"), state("right", "dude"), budget=Budget(tokens=100))
    run, _ = tell(
        workflow,
        within("left", replies("", call("look"), usage=USED)),
        within("right", replies("", call("look"), usage=USED)),
    )

    assert run.status == "finished"
    assert run.visits == {"start": 1, "stop": 1}


def test_a_budget_that_is_used_up_cannot_be_caught_by_more_work_for_ever() -> None:
    start = state("start", "dude", catch=(Catch(to="start"),))
    run, _ = tell(flow(start, budget=Budget(tokens=50)), replies("a", call("look"), usage=USED))
    run, _ = go(run, done("call_1"))

    assert run.status == "failed"


def test_a_budget_of_a_sub_workflow_is_its_own() -> None:
    inner = flow(state("start", "dude"), budget=Budget(tokens=50))
    sub = State(
        name="start",
        workflow="inner",
        catch=(Catch(on=("workflow",), to="sorry", save_as="trouble"),),
    )
    run, _ = tell(define(flow(sub, SORRY), inner=inner))
    look = replies("", call("look"), usage=USED)
    run, facts = go(run, within("inner", look))

    assert [call.outcome for call in of(facts, e.ToolReturned)] == ["not_run"]
    assert run.visit.state == "sorry"
    assert "50 tokens" in run.common_data["trouble"]["error"]


# --- in branches -----------------------------------------------------------------------------------


def test_an_error_in_a_branch_is_tried_again_there() -> None:
    left = Branch(name="left", states=(state("l", "dude", prompt="L", retry=AGAIN),))
    run, _ = tell(flow(State(name="start", parallel=(left, "right")), state("right", "dude")))
    run, _ = go(run, within("left", fails()))
    assert at(run, "left").visit.phase == "retrying"
    run, _ = go(run, Halt(), says("hm"))

    assert run.visit.state == "start", "without a resume the run begins anew"
    assert [branch.visit.phase for branch in run.visit.branches.values()] == ["turn", "turn"]


def test_transitions_choose_unless_a_handler_does() -> None:
    choosing = state(
        "start",
        "dude",
        transition_handler="go",
        transitions=(Transition(when="last.text == 'a'", to="stop"), Transition(to="sorry")),
    )
    plain = state("sorry", "critic")
    run, _ = tell(flow(choosing, plain), replies("a"), handler("start"))
    assert run.visit.state == "start"
    run, _ = go(run, replies("b"), handler(None))
    assert run.visit.state == "sorry"


@pytest.mark.parametrize(
    "start",
    [
        State(name="start", workflow=SubWorkflow(name="inner", input="${common_data.none}")),
        State(name="start", transitions=(Transition(when="input < 3", to="stop"),)),
        State(name="start", ask="${common_data.none}"),
    ],
    ids=["input", "when", "question"],
)
def test_what_cannot_be_filled_in_is_its_authors_to_mend(start: State) -> None:
    _, facts = tell(define(flow(start), inner=flow(state("start", "dude"))))

    assert of(facts, e.RunFailed)[0].fault == "author"
