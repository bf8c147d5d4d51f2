"""Budgets, to the last of them: what is begun before one is used up is let end, nothing after."""

import msgspec
import pytest
from decide_kit import (
    Step,
    at,
    call,
    comes,
    define,
    done,
    fails,
    flow,
    go,
    keys,
    kinds,
    of,
    replies,
    says,
    state,
    tell,
    within,
)

from midstream.core import inputs
from midstream.core.events import (
    BranchStarted,
    ReplyCut,
    StateFailed,
    ToolCalled,
    ToolReturned,
    Usage,
)
from midstream.core.pending import request_key
from midstream.language.names import Policy
from midstream.language.spec import Branch, Budget, Catch, ForEach, State

USED = Usage(model="m", input_tokens=40, output_tokens=20)
CAUGHT = (Catch(on=("budget",), to="sorry", save_as="trouble"),)
SORRY = state("sorry", "critic")
TWO = (state("left", "dude"), state("right", "dude"))


def test_the_last_branch_may_use_up_the_budget_of_its_state() -> None:
    fan = State(name="start", parallel=("left", "right"), budget=Budget(tokens=120))
    run, _ = tell(
        flow(fan, *TWO),
        within("left", replies("a", usage=USED)),
        within("right", replies("b", usage=USED)),
    )

    assert run.output == '{"left":"a","right":"b"}'


def test_calls_that_use_up_a_budget_are_let_end() -> None:
    fan = State(name="start", parallel=("one", "two"), budget=Budget(tool_calls=2))
    calling = (State(name="one", tool="shell"), State(name="two", tool="shell"))
    run, facts = tell(flow(fan, *calling))
    assert len(of(facts, ToolCalled)) == 2
    run, _ = go(run, within("one", done("call_1")), within("two", done("call_2")))

    assert run.status == "finished"


@pytest.mark.parametrize("policy", ["interrupt", "steer"])
def test_words_that_cut_a_reply_do_not_give_its_budget_back(policy: Policy) -> None:
    limited = state("start", "dude", budget=Budget(tokens=100))
    cut = msgspec.structs.replace(USED, is_estimate=True)

    def again(number: int) -> Step:
        return says("no", id=f"in{number}", policy=policy, shown="Once", usage=cut)

    run, _ = tell(flow(limited, state("resume", next="$interrupted")), again(1))
    assert keys(run)
    run, _ = go(run, again(2))

    assert run.usage.requests == (("dude", cut),) * 2
    assert not keys(run)
    assert [q.about for q in run.inbox.open_questions] == ["budget"]


def test_what_a_lost_reply_used_counts_once_however_it_was_lost() -> None:
    cut = msgspec.structs.replace(USED, is_estimate=True)
    chat = define(flow(state("start", "dude")))
    run, _ = tell(chat)
    shown = inputs.ReplyCheckpoint(key=request_key(run), text="Once", so_far=cut)
    died, facts = go(run, shown, inputs.Recovered())
    failed, _ = go(run, fails(shown="Once", usage=cut))
    asked_on, _ = go(run, fails(shown="Once", usage=cut, is_broken=True))

    assert [fact.usage for fact in of(facts, ReplyCut)] == [cut]
    for after in (died, failed, asked_on):
        assert after.usage.requests == (("dude", cut),)


def test_a_branch_that_would_use_more_fails_the_state_over_its_budget() -> None:
    fan = State(name="start", parallel=("left", "right"), budget=Budget(tokens=100), catch=CAUGHT)
    run, _ = tell(flow(fan, *TWO, SORRY), within("left", replies("a", usage=USED)))
    look = replies("", call("look"), usage=USED)
    run, facts = go(run, within("right", look))

    assert [(f.branch, f.kind) for f in of(facts, StateFailed)] == [("", "budget")]
    assert run.visit.state == "sorry"
    assert "'start' has used up its budget of 100 tokens" in run.common_data["trouble"]["error"]


def test_a_branch_may_catch_that_and_end_without_more() -> None:
    left = state("left", "dude", catch=(Catch(to="stop"),))
    fan = State(name="start", parallel=("left",), budget=Budget(tokens=50), next="stop")
    look = replies("", call("look"), usage=USED)
    run, _ = tell(flow(fan, left), within("left", look))

    assert run.status == "finished"


def test_no_item_is_begun_after_the_budget_and_those_under_way_are_let_end() -> None:
    each = ForEach(items="input", states=(state("do", "dude"),), max_concurrency=2)
    start = State(name="start", for_each=each, budget=Budget(tokens=60), catch=CAUGHT)
    run, facts = tell(flow(start, SORRY), within("1", replies("a", usage=USED)), input=[1, 2, 3])
    assert [fact.name for fact in of(facts, BranchStarted)] == ["1", "2"]
    assert at(run, "2").visit.phase == "turn"
    run, facts = go(run, within("2", replies("b", usage=USED)))

    assert kinds(facts)[-2:] == ["state_failed", "state_transition"]
    assert run.visit.state == "sorry"


def test_another_error_of_a_branch_is_none_of_the_budget() -> None:
    fan = State(name="start", parallel=("left", "right"), budget=Budget(tokens=60), catch=CAUGHT)
    run, _ = tell(flow(fan, *TWO, SORRY), within("left", replies("a", usage=USED)))
    run, _ = go(run, within("right", fails("the line is dead")))

    assert run.status == "failed"
    assert run.error == "The branch right of 'start' failed: the line is dead"


def test_a_budget_around_branches_within_branches_is_told_as_such() -> None:
    deep = State(name="deep", parallel=(Branch(name="low", states=(state("l", "dude"),)),))
    fan = State(
        name="start",
        parallel=(Branch(name="mid", states=(deep,)),),
        budget=Budget(tokens=50),
        catch=CAUGHT,
    )
    look = replies("", call("look"), usage=USED)
    run, _ = tell(flow(fan, SORRY), within("mid/low", look))

    assert run.visit.state == "sorry"


def test_a_budget_of_the_workflow_around_a_sub_workflow_is_told_as_such() -> None:
    start = State(name="start", workflow="inner", catch=CAUGHT)
    outer = flow(start, SORRY, budget=Budget(tokens=50))
    look = replies("", call("look"), usage=USED)
    _, facts = tell(define(outer, inner=flow(state("start", "dude"))), within("inner", look))

    assert of(facts, StateFailed)[0].kind == "budget"


@pytest.mark.parametrize("most", [0, 2])
def test_of_the_calls_of_one_reply_only_so_many_are_made(most: int) -> None:
    start = state("start", "dude", budget=Budget(tool_calls=most))
    many = [call("shell", n=n) for n in range(4)]
    run, facts = tell(flow(start), replies("", *many))
    for n in range(1, most + 1):
        run, later = go(run, done(f"call_{n}"), comes(f"call_{n + 1}"))
        facts += later
    for n in range(most + 2, 5):
        run, later = go(run, comes(f"call_{n}"))
        facts += later

    assert len(of(facts, ToolCalled)) == most
    refused = [fact for fact in of(facts, ToolReturned) if fact.outcome == "not_run"]
    assert len(refused) == 4 - most
    assert f"used up its budget of {most} tool calls" in refused[0].result


def test_without_any_calls_to_make_an_agent_may_still_answer() -> None:
    start = state("start", "dude", budget=Budget(tool_calls=0))
    run, _ = tell(flow(start), replies("", call("look")), replies("By heart, then."))

    assert run.output == "By heart, then."


def test_a_state_that_may_make_no_calls_makes_not_its_own() -> None:
    start = State(name="start", tool="shell", budget=Budget(tool_calls=0))
    run, facts = tell(flow(start), approvals="deny")

    assert of(facts, ToolCalled) == []
    assert "used up its budget of 0 tool calls" in run.error


def test_what_a_reply_has_used_up_already_is_not_used_for_its_calls() -> None:
    start = state("start", "dude", budget=Budget(tokens=60), catch=CAUGHT)
    run, facts = tell(flow(start, SORRY), replies("", call("shell"), usage=USED))

    assert of(facts, ToolCalled) == []
    assert run.visit.state == "sorry"
    assert [result.outcome for m in run.contexts["talk"] for result in m.results] == ["not_run"]


def test_branches_stand_in_each_other_eight_deep_and_no_deeper() -> None:
    again = State(name="start", parallel=("inner",))
    run, facts = tell(flow(again, State(name="inner", parallel=("inner",))))

    assert run.status == "failed"
    assert "a branch within 8 others" in run.error
    assert max(fact.branch.count("/") for fact in facts) == 7, "the eighth is the last that began"
