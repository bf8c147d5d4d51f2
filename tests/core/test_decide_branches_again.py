"""Branches of a state that is tried again: what they did is not done twice."""

from typing import Any

import pytest
from decide_kit import (
    approves,
    asks,
    at,
    begins,
    call,
    define,
    dispositions,
    done,
    fails,
    flow,
    go,
    kinds,
    of,
    replayed,
    replies,
    rings,
    says,
    state,
    tell,
    within,
    words,
)

from midstream.core.codec import decode_run, encode_run
from midstream.core.events import (
    BranchStarted,
    BranchStopped,
    Prompted,
    QuestionAsked,
    RunFailed,
    StateFailed,
    ToolCalled,
)
from midstream.core.inputs import Halt, Recovered, TimerRang
from midstream.core.pending import pending
from midstream.core.run import Run
from midstream.language.spec import Branch, Catch, Definition, Retry, State

ON_BRANCH = Retry(max_attempts=2, backoff_s=1, on=("branch", "workflow"))
ON_TIME = Retry(max_attempts=2, backoff_s=1, on=("timeout",))
BACK = state("resume", "critic", next="$interrupted")
SAY = state("say", "dude", prompt="P")
MAKE = Branch(
    name="make",
    states=(State(name="m", tool="shell", next="tell"), state("tell", "dude", prompt="Made.")),
)


def fan(*branches: Branch | str, **fields: Any) -> Definition:
    start = State(name="start", parallel=branches, save_as="found", **fields)
    return define(flow(start, SAY, BACK))


def again(run: Run) -> tuple[Run, list[Any]]:
    """Let the time pass until the state is tried again."""
    assert run.visit.phase == "retrying"
    return go(run, begins("retry", 1.0), rings("retry"))


def test_one_that_was_under_way_goes_on_and_its_call_is_not_made_again() -> None:
    run, _ = tell(fan("say", MAKE, retry=ON_BRANCH), within("make", done("call_1")))
    run, facts = go(run, within("say", fails("500")))
    assert of(facts, BranchStopped) == []
    run, facts = again(run)

    assert [fact.name for fact in of(facts, BranchStarted)] == ["say"]
    assert (at(run, "make").visit.state, at(run, "make").visit.phase) == ("tell", "turn")
    assert of(facts, ToolCalled) == []
    assert [fact.branch for fact in of(facts, Prompted)] == ["say"], "it has its prompt"
    run, _ = go(run, within("say", replies("ok")), within("make", replies("It is made.")))
    assert run.common_data["found"] == {"say": "ok", "make": "It is made."}


def test_a_once_call_is_let_end_first_and_counts() -> None:
    run, _ = tell(fan("say", MAKE, retry=ON_BRANCH), within("say", fails("500")))
    assert (run.visit.phase, at(run, "make").visit.phase) == ("branches", "halting")
    run, _ = go(run, within("make", done("call_1", "made")))
    run, facts = again(run)

    assert of(facts, ToolCalled) == []
    assert at(run, "make").visit.state == "tell"


def test_a_once_call_that_may_have_happened_is_asked_about_when_it_goes_on() -> None:
    run, _ = tell(fan("say", MAKE, retry=ON_BRANCH), within("say", fails("500")))
    run, _ = go(run, within("make", done("call_1", "cut", "unknown")))
    run, facts = again(run)

    assert of(facts, ToolCalled) == []
    assert [q.branch for q in of(facts, QuestionAsked)] == ["make"]
    assert "What became of it?" in run.inbox.open_questions[0].text


def test_a_timeout_of_the_state_around_holds_them_too() -> None:
    run, _ = tell(fan(SAY.name, MAKE, retry=ON_TIME, timeout_s=5), begins("timeout", 5.0))
    run, _ = go(run, within("make", done("call_1")))
    run, facts = go(run, rings("timeout"))
    assert [fact.kind for fact in of(facts, StateFailed)] == ["timeout"]
    run, facts = again(run)

    assert of(facts, BranchStarted) == []
    assert of(facts, Prompted) == []
    assert [at(run, name).visit.phase for name in ("say", "make")] == ["turn", "turn"]
    assert any(effect.key[1] == "set" for effect in pending(run)), "each try has the whole time"


def test_the_last_try_stops_them() -> None:
    run, _ = tell(fan("say", MAKE, retry=ON_BRANCH), within("say", fails("500")))
    run, _ = go(run, within("make", done("call_1")))
    run, _ = again(run)
    run, facts = go(run, within("say", fails("501")))

    assert [fact.branch for fact in of(facts, BranchStopped)] == ["make"]
    assert of(facts, RunFailed)[0].error == "The branch say of 'start' failed: 501"


def test_the_agents_of_those_that_were_held_are_told_why() -> None:
    run, _ = tell(fan("say", Branch(name="two", state="say"), retry=ON_BRANCH))
    run, _ = go(run, within("two", replies("", call("look"))), within("say", fails()))
    results = [r.text for m in at(run, "two").contexts["talk"] for r in m.results]

    assert results == ["Stopped: another branch failed, and the state is tried again."]


def test_over_a_timeout_they_are_told_of_that() -> None:
    run, _ = tell(fan("say", retry=ON_TIME, timeout_s=5), begins("timeout", 5.0))
    run, _ = go(run, within("say", replies("", call("look"))), rings("timeout"))
    results = [r.text for m in at(run, "say").contexts["talk"] for r in m.results]

    assert results == ["Stopped: the state ran out of its time or budget."]


def test_words_that_come_while_a_timeout_ends_them_let_them_go_on() -> None:
    """One had made its call and was done with it; another was still being stopped."""
    two = Branch(name="two", states=(State(name="t", tool="shell"),))
    run, _ = tell(fan(MAKE, two, timeout_s=5), begins("timeout", 5.0))
    run, _ = go(run, within("make", done("call_1")), rings("timeout"))
    assert run.halt.leads_to == "trouble"
    run, facts = go(run, says("why?"), within("two", done("call_2", "made")), replies("Well."))

    assert of(facts, BranchStarted) == []
    assert of(facts, ToolCalled) == []
    assert [branch.status for branch in run.visit.branches.values()] == ["running", "finished"]


def test_over_a_timeout_that_is_not_tried_again_they_are_stopped() -> None:
    two = Branch(name="two", states=(State(name="t", tool="shell"),))
    caught = (Catch(to="say"),)
    run, _ = tell(fan(MAKE, two, timeout_s=5, catch=caught), begins("timeout", 5.0))
    run, _ = go(run, within("make", done("call_1")), rings("timeout"))
    run, facts = go(run, within("two", done("call_2", "cut", "stopped")))

    stops = [(fact.branch, fact.reason) for fact in of(facts, BranchStopped)]
    assert stops == [(name, "The state 'start' took longer than 5 s.") for name in ("make", "two")]
    assert run.visit.state == "say"


def test_a_question_of_theirs_is_asked_again() -> None:
    ask = Branch(name="ask", states=(State(name="q", ask="Which?", save_as="which"),))
    run, _ = tell(fan("say", ask, retry=ON_BRANCH), within("say", fails()))
    assert run.inbox.open_questions == ()
    run, _ = again(run)

    (question,) = run.inbox.open_questions
    run, _ = go(run, says("this", question.id), within("say", replies("ok")))
    assert run.common_data["which"] == "this"


def test_words_for_one_while_the_state_waits_to_be_tried_again() -> None:
    run, _ = tell(fan("say", MAKE, retry=ON_BRANCH), within("make", done("call_1")))
    run, _ = go(run, within("say", fails()), says("@make shorter"))
    assert dispositions(run) == [None]
    run, _ = again(run)

    assert dispositions(run) == ["interrupted"]
    assert at(run, "make").halt.resume_input == "shorter"


@pytest.mark.parametrize("what", [says("hm"), Halt()], ids=["words", "hold"])
def test_a_halt_while_the_state_waits_to_be_tried_again(what: Any) -> None:
    run, _ = tell(fan("say", MAKE, retry=ON_BRANCH), within("make", done("call_1")))
    run, _ = go(run, within("say", fails()), what)
    run, _ = go(run, *([says("hm")] if run.visit.phase == "held" else []), replies("Well."))

    assert run.visit.state == "start"
    assert [at(run, name).visit.state for name in ("make", "say")] == ["tell", "say"]
    assert len(of(replied(run), ToolCalled)) == 0


def replied(run: Run) -> list[Any]:
    """Let both branches reply."""
    run, facts = go(run, within("say", replies("ok")), within("make", replies("made")))
    assert run.status == "finished"
    return facts


def test_a_crash_while_the_state_waits_to_be_tried_again() -> None:
    run, facts = tell(fan("say", MAKE, retry=ON_BRANCH), within("make", done("call_1")))
    run, more = go(run, within("say", fails()), Recovered())
    assert replayed([*facts, *more]) == run
    assert decode_run(*encode_run(run)) == run
    run, facts = again(run)

    assert of(facts, ToolCalled) == []


def test_one_that_failed_over_a_call_in_doubt_is_not_begun_anew() -> None:
    slow = State(name="slow", tool="shell", timeout_s=3)
    deploy = Branch(name="deploy", states=(slow,))
    caught = (Catch(to="say"),)
    run, _ = tell(fan(deploy, "say", retry=ON_BRANCH, catch=caught))
    run, _ = go(run, within("deploy", begins("timeout", 3.0)), within("deploy", rings("timeout")))
    run, facts = go(run, within("deploy", done("call_1", "cut", "unknown")))

    assert [fact.then for fact in of(facts, StateFailed)] == ["catch"]
    assert run.visit.state == "say"


def test_one_that_failed_otherwise_is_begun_anew() -> None:
    deploy = Branch(name="deploy", states=(State(name="d", tool="shell"),))
    run, _ = tell(fan(deploy, retry=ON_BRANCH), within("deploy", done("call_1", "no", "failed")))
    run, facts = again(run)

    assert [fact.call_id for fact in of(facts, ToolCalled)] == ["call_2"]


def test_a_sub_workflow_that_failed_over_a_call_in_doubt_is_not_begun_anew() -> None:
    inner = flow(State(name="start", tool="shell", timeout_s=3))
    outer = flow(State(name="start", workflow="inner", retry=ON_BRANCH))
    run, _ = tell(define(outer, inner=inner), within("inner", begins("timeout", 3.0)))
    run, _ = go(run, within("inner", rings("timeout")))
    run, facts = go(run, within("inner", done("call_1", "cut", "stopped")))

    assert "run_failed" in kinds(facts)


def test_an_agents_calls_are_known_to_it_when_it_goes_on() -> None:
    run, _ = tell(fan("say", Branch(name="two", state="say"), retry=ON_BRANCH))
    run, _ = go(run, within("two", replies("", call("shell"), asks("And?"))))
    run, _ = go(run, within("two", done("call_1", "made")), within("say", fails()))
    run, _ = again(run)

    heard = at(run, "two").contexts["talk"]
    assert [r.outcome for m in heard for r in m.results] == ["completed", "not_run"]
    assert words(heard)[0] == ("user", "P")


def test_an_approval_of_theirs_is_not_left_open() -> None:
    write = Branch(name="write", states=(State(name="w", tool="write"),))
    run, _ = tell(fan("say", write, retry=ON_BRANCH), within("say", fails()))
    assert run.inbox.open_questions == ()
    run, _ = again(run)
    run, facts = go(run, approves(run.inbox.open_questions[0].id))

    assert [fact.call_id for fact in of(facts, ToolCalled)] == ["call_2"]


def test_a_timer_of_theirs_that_rings_meanwhile_changes_nothing() -> None:
    wait = Branch(name="wait", states=(State(name="w", wait=9.0),))
    run, _ = tell(fan("say", wait, retry=ON_BRANCH), within("wait", begins("wait", 9.0)))
    late = next(e.key for e in pending(run) if e.key[-1] == "wait 0")
    run, _ = go(run, within("say", fails()))
    run, facts = go(run, TimerRang(key=late))

    assert facts == []
    run, _ = again(run)
    assert {e.key[2] for e in pending(run)} == {"say", "wait"}
