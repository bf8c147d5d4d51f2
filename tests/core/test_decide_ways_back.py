"""Words that lead straight back: a state whose own `resume` is `$interrupted`."""

import pytest
from decide_kit import (
    asks,
    at,
    begins,
    call,
    dispositions,
    done,
    flow,
    go,
    handler,
    of,
    path,
    replies,
    says,
    state,
    tell,
    within,
    words,
)

from midstream.core.events import Prompted, StateTransition, ToolCalled
from midstream.core.inputs import Halt
from midstream.core.pending import AwaitTime, pending
from midstream.language.spec import Branch, State

BACK = "$interrupted"


def test_the_agent_goes_on_in_its_turn_with_the_words() -> None:
    start = state("start", "dude", prompt="P", resume=BACK)
    run, facts = tell(flow(start), says("shorter", shown="Once upon"), replies("Once."))

    assert path(facts) == ["start", "start", "stop"]
    assert [fact.text for fact in of(facts, Prompted)] == ["P"], "the prompt is not put twice"
    said = [("user", "P"), ("dude", "Once upon"), ("@user", "shorter"), ("dude", "Once.")]
    assert words(run.contexts["talk"]) == said
    assert run.visits == {"start": 1, "stop": 1}


def test_a_call_that_was_cut_has_its_result_before_the_words() -> None:
    start = state("start", "dude", resume=BACK)
    run, _ = tell(flow(start), replies("", call("shell"), call("look")), says("no"))
    assert run.visit.phase == "halting"
    run, facts = go(run, done("call_1", "made half", "stopped"))

    assert [(f.source, f.target, f.resumes) for f in of(facts, StateTransition)] == [
        ("start", "start", True)
    ]
    *_, cut, line = run.contexts["talk"]
    assert [result.outcome for result in cut.results] == ["stopped", "not_run"]
    assert (line.author, line.text) == ("@user", "no")
    assert run.visit.phase == "turn"


def test_a_wait_goes_on_to_the_same_time() -> None:
    run, _ = tell(flow(State(name="start", wait=60.0, resume=BACK)), begins("wait", 900.0))
    run, _ = go(run, says("how long?"))

    assert [e.until for e in pending(run) if isinstance(e, AwaitTime)] == [900.0]


@pytest.mark.parametrize("first", [(), (Halt(),)], ids=["at work", "held"])
def test_branches_go_on_where_they_were(first: tuple[Halt, ...]) -> None:
    fan = State(name="start", parallel=("left", "right"), resume=BACK)
    workflow = flow(fan, state("left", "dude"), State(name="right", tool="look"))
    run, _ = tell(workflow, within("right", done("call_1")), *first)
    run, facts = go(run, says("well?"), within("left", replies("ok")))

    assert run.status == "finished"
    assert run.output == '{"left":"ok","right":"ok"}'
    assert of(facts, ToolCalled) == []


def test_a_branch_alone_goes_on_with_its_words() -> None:
    left = Branch(name="left", states=(state("l", "dude", prompt="L", resume=BACK),))
    run, _ = tell(flow(State(name="start", parallel=(left, "right")), state("right", "dude")))
    run, facts = go(run, says("@left shorter"))

    assert [(f.branch, f.target) for f in of(facts, StateTransition)] == [("left", "l")]
    assert words(at(run, "left").contexts["talk"]) == [("user", "L"), ("@user", "shorter")]
    assert at(run, "right").halt.epoch == 0


def test_a_question_of_its_agent_is_closed_for_the_words() -> None:
    start = state("start", "dude", resume=BACK)
    run, _ = tell(flow(start), replies("", asks("Which?")), says("neither"))

    assert run.inbox.open_questions == ()
    assert run.visit.phase == "turn"
    assert words(run.contexts["talk"])[-1] == ("@user", "neither")


def test_queued_words_have_no_cut_state_to_lead_back_to() -> None:
    """The state is done when they are heard: they lead where words of any other state do."""
    start = state("start", "dude", resume=BACK, on_input="queue")
    run, facts = tell(flow(start, state("resume", "critic")), says("hm"), replies("ok"))

    assert path(facts) == ["start", "resume"]
    assert words(run.contexts["talk"])[-1] == ("@user", "hm")
    assert dispositions(run) == ["queued"]


def test_a_resume_that_leads_back_without_a_cut_begins_anew() -> None:
    resume = state("resume", "critic", resume=BACK)
    run, facts = tell(flow(state("start", "dude", next="resume"), resume), replies("ok"))
    run, more = go(run, says("hm"))

    assert path([*facts, *more]) == ["start", "resume", "resume"]
    assert words(run.contexts["talk"])[-1] == ("@user", "hm")


def test_queued_words_lead_where_words_of_the_state_lead_they_were_typed_in() -> None:
    start = state("start", "dude", resume="mend", on_input="queue", next="after")
    after = state("after", "dude", resume="other")
    workflow = flow(start, after, state("mend", "critic", next=BACK), state("other", "critic"))
    run, facts = tell(workflow, says("hm"), replies("ok"), replies("Mended."))

    assert path(facts) == ["start", "mend", "after"]
    assert run.visit.state == "after"


def test_a_handler_that_was_cut_runs_again() -> None:
    start = state("start", pre_handler="brief", resume=BACK)
    run, _ = tell(flow(start), says("hm"), handler(done=True))

    assert run.status == "finished"
    assert run.common_data["done"] is True
