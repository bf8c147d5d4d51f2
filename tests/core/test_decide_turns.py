"""An agent's turn: requests, tool calls, parsing tools, and models that misbehave."""

from decide_kit import (
    call,
    done,
    flow,
    go,
    keys,
    of,
    replies,
    state,
    tell,
)

from midstream.core import events as e
from midstream.core.conversation import ToolResult
from midstream.core.decide.decide import MAX_REQUESTS
from midstream.core.run import Correction

DUDE = flow(state("start", "dude"))
JUDGE = flow(state("start", "judge"))


def test_calls_that_only_read_run_at_once_and_their_results_stand_in_call_order() -> None:
    run, facts = tell(DUDE, replies("on it", *(call("look", at=at) for at in "abc")))
    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_1", "call_2", "call_3"]
    assert len(keys(run)) == 3

    run, _ = go(run, done("call_3", "third"), done("call_1", "first"))
    assert len(keys(run)) == 1
    run, _ = go(run, done("call_2", "second", "failed"))

    message = run.contexts["talk"][-1]
    assert message.text == "on it"
    assert message.results == (
        ToolResult(call_id="call_1", outcome="completed", text="first"),
        ToolResult(call_id="call_2", outcome="failed", text="second"),
        ToolResult(call_id="call_3", outcome="completed", text="third"),
    )
    assert keys(run) == [(1, "model", 2)]


def test_call_ids_are_unique_in_a_run() -> None:
    run, facts = tell(DUDE, replies("", call("look")), done("call_1"), replies("", call("look")))

    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_1", "call_2"]
    assert run.usage.calls_made == 2


def test_an_unknown_tool_is_an_error_for_the_model_and_its_siblings_go_on() -> None:
    run, facts = tell(DUDE, replies("", call("lok"), call("look")))

    (returned,) = of(facts, e.ToolReturned)
    assert (returned.outcome, returned.call_id) == ("failed", "call_1")
    assert "'lok'" in returned.result
    assert "look" in returned.result
    assert len(keys(run)) == 1


def test_unusable_arguments_are_an_error_for_the_model() -> None:
    run, facts = tell(DUDE, replies("", call("look", problem="at is required")))

    assert of(facts, e.ToolCalled) == []
    assert of(facts, e.ToolReturned)[0].result == "at is required"
    assert keys(run) == [(1, "model", 2)]


def test_a_role_is_not_offered_what_it_may_not_use() -> None:
    _, facts = tell(DUDE, replies("", call("verdict")))

    assert of(facts, e.ToolReturned)[0].outcome == "failed"


def test_an_empty_reply_is_asked_again_with_a_word_of_why() -> None:
    run, facts = tell(DUDE, replies("  "))

    assert not of(facts, e.AgentResponded)[0].is_final
    assert run.visit.turn is not None
    problem = "Your reply was empty. Answer, or call a tool."
    after = run.contexts["talk"][-1]
    assert run.visit.turn.corrections == (Correction(text="  ", problem=problem, after=after),)
    assert keys(run) == [(1, "model", 2)]


def test_three_unusable_replies_fail_the_turn() -> None:
    run, facts = tell(DUDE, replies(""), replies(""), replies(""))

    assert "3 unusable replies" in of(facts, e.AgentFailed)[0].error
    assert of(facts, e.RunFailed)[0].fault == "world"
    assert run.status == "failed"


def test_a_usable_reply_between_does_not_forgive_the_misses() -> None:
    run, _ = tell(
        DUDE, replies(""), replies("", call("look")), done("call_1"), replies(""), replies("")
    )

    assert run.status == "failed"


def test_a_model_that_calls_tools_for_ever_is_stopped() -> None:
    run, _ = tell(DUDE)
    for n in range(1, MAX_REQUESTS):
        run, _ = go(run, replies("", call("look")), done(f"call_{n}"))
    assert run.status == "running"

    run, facts = go(run, replies("", call("look")))

    assert run.status == "failed"
    assert of(facts, e.ToolReturned)[-1].outcome == "not_run"
    assert run.contexts["talk"][-1].results[0].outcome == "not_run"


def test_usage_is_kept_by_agent() -> None:
    usage = e.Usage(model="m", input_tokens=3, output_tokens=2, cost_usd="0.1")
    run, _ = tell(DUDE, replies("hi", usage=usage))

    assert run.usage.requests == (("dude", usage),)


# --- parsing tools ----------------------------------------------------------------------------


def test_a_parsing_tool_ends_the_turn_and_nothing_runs() -> None:
    run, facts = tell(JUDGE, replies("so be it", call("verdict", guilty=False)))

    assert of(facts, e.ToolCalled) == []
    assert run.visit.last_response is not None
    assert [c.arguments for c in run.visit.last_response.calls] == [{"guilty": False}]
    assert run.contexts["court"][-1].results[0].outcome == "completed"
    assert run.status == "finished"


def test_words_instead_of_the_parsing_tool_are_asked_again() -> None:
    run, _ = tell(JUDGE, replies("not guilty"))

    assert run.visit.turn is not None
    problem = "Answer by calling one of these tools: verdict."
    after = run.contexts["court"][-1]
    assert run.visit.turn.corrections == (
        Correction(text="not guilty", problem=problem, after=after),
    )


def test_wrong_arguments_of_a_parsing_tool_are_told_and_asked_again() -> None:
    run, facts = tell(JUDGE, replies("", call("verdict", problem="guilty is required")))

    assert of(facts, e.ToolReturned)[0].result == "guilty is required"
    assert run.visit.turn is not None
    assert run.visit.turn.misses == 1
    run, _ = go(run, replies("", call("verdict", guilty=True)))
    assert run.status == "finished"


def test_three_wrong_verdicts_fail_the_turn() -> None:
    bad = replies("", call("verdict", problem="guilty is required"))
    run, facts = tell(JUDGE, bad, bad, bad)

    assert run.status == "failed"
    assert "guilty is required" in of(facts, e.AgentFailed)[0].error


def test_a_judge_may_use_other_tools_before_the_verdict() -> None:
    run, _ = tell(JUDGE, replies("", call("look")), done("call_1"), replies("", call("verdict")))

    assert run.status == "finished"


def test_a_call_beside_a_verdict_is_said_not_to_have_run() -> None:
    calls = (call("shell"), call("verdict", guilty=True), call("verdict", problem="bad"))
    workflow = flow(state("start", "judge", transition_handler="go"))
    run, facts = tell(workflow, replies("", *calls))

    assert of(facts, e.ToolCalled) == []
    assert [r.outcome for r in run.contexts["court"][-1].results] == ["not_run", "completed"]
    assert run.visit.last_response is not None
    assert [c.name for c in run.visit.last_response.calls] == ["verdict"]


def test_a_tools_result_counts_once() -> None:
    run, _ = tell(DUDE, replies("", call("look"), call("put")), done("call_1", "first"))

    assert go(run, done("call_1", "second"), done("call_9")) == (run, [])
