"""Budgets of minutes: what counts is time at work, once however much is under way."""

import pytest
from decide_kit import (
    After,
    approves,
    call,
    done,
    flow,
    go,
    handler,
    of,
    replies,
    says,
    state,
    tell,
    within,
)

from midstream.core.decide.budgets import counts_minutes
from midstream.core.events import BudgetReached, TimeSpent
from midstream.core.inputs import Halt, HandlerLogged, Resume
from midstream.core.pending import RunHandler, pending
from midstream.core.question import AGAIN
from midstream.core.run import Run
from midstream.language.spec import Budget, Catch, ForEach, State

LOOPING = state("start", "dude", next="start")
LOOK = replies("", call("look"))


def owed(run: Run) -> list[str]:
    return [type(effect).__name__ for effect in pending(run)]


def test_used_up_the_run_asks_before_it_begins_anything_more() -> None:
    run, facts = tell(flow(LOOPING, budget=Budget(minutes=2)), After(60, LOOK))
    assert run.inbox.open_questions == ()
    run, _ = go(run, After(60.0, done("call_1")))

    assert [question.text for question in run.inbox.open_questions] == [
        "The workflow has used up its budget of 2 minutes. Go on?"
    ]
    assert pending(run) == ()
    assert [fact.seconds for fact in of(facts, TimeSpent)] == [60]


def test_as_much_again_is_as_many_minutes_again() -> None:
    run, _ = tell(flow(LOOPING, budget=Budget(minutes=0.5)), After(31, replies("x")))
    run, _ = go(run, says(AGAIN, question="q1"), After(20, replies("x")))
    assert owed(run) == ["AskModel"]
    run, _ = go(run, After(20, replies("x")))

    assert "budget of 1 minute" in run.inbox.open_questions[0].text


def test_what_is_under_way_is_let_end() -> None:
    run, _ = tell(flow(LOOPING, budget=Budget(minutes=1)))
    run, _ = go(run, After(90, says("more", policy="queue")))
    assert owed(run) == ["AskModel"]
    run, facts = go(run, replies("x"))

    assert owed(run) == []
    assert len(of(facts, BudgetReached)) == 1


def test_a_handler_under_way_is_let_end() -> None:
    start = state("start", "dude", pre_handler="prepare", next="start")
    run, _ = tell(flow(start, budget=Budget(minutes=1)))
    key = pending(run)[0].key
    run, _ = go(run, After(90, HandlerLogged(key=key, text="working")))
    assert owed(run) == ["RunHandler"]
    run, _ = go(run, handler())

    assert [question.about for question in run.inbox.open_questions] == ["budget"]


def test_time_in_which_only_a_person_can_move_it_on_does_not_count() -> None:
    run, _ = tell(flow(LOOPING, budget=Budget(minutes=1)), replies("", call("write")))
    run, _ = go(run, After(3600, approves("q1")))
    assert run.usage.active_s == 0
    run, _ = go(run, done("call_1"), Halt(), After(3600, Resume()))

    assert run.usage.active_s == 0


def test_branches_at_once_count_once_for_the_run_and_each_for_itself() -> None:
    fan = State(name="start", parallel=("left", "right"))
    workflow = flow(fan, state("left", "dude"), state("right", "dude"), budget=Budget(minutes=9))
    run, _ = tell(workflow, After(40, within("left", replies("a"))))
    run, _ = go(run, After(20, within("right", LOOK)))

    assert run.usage.active_s == 60
    assert (
        run.visit.branches["left"].usage.active_s,
        run.visit.branches["right"].usage.active_s,
    ) == (40, 60)


def test_a_new_visit_has_new_minutes() -> None:
    start = state("start", "dude", budget=Budget(minutes=1), next="start")
    run, _ = tell(flow(start), After(50, replies("x")), After(50, replies("x")))

    assert owed(run) == ["AskModel"]


def test_a_visit_that_was_cut_goes_on_with_what_it_had_used() -> None:
    start = state("start", "dude", budget=Budget(minutes=1), next="stop")
    talk = state("resume", "critic", next="$interrupted")
    run, _ = tell(flow(start, talk), After(50, says("wait")), After(500, replies("yes?")))
    assert owed(run) == ["AskModel"]
    assert run.visit.state == "start"
    run, _ = go(run, After(20, LOOK), done("call_1"))

    assert (
        "The state 'start' has used up its budget of 1 minute" in run.inbox.open_questions[0].text
    )


def test_where_nobody_is_there_the_state_fails() -> None:
    workflow = flow(LOOPING, budget=Budget(minutes=1))
    run, _ = tell(workflow, After(60, replies("x")), approvals="deny")

    assert run.status == "failed"
    assert "1 minute" in run.error


def test_what_a_person_limits_counts() -> None:
    run, _ = tell(flow(LOOPING), After(60, replies("x")), limits=Budget(minutes=1))

    assert run.inbox.open_questions[0].text == "The run has used up its budget of 1 minute. Go on?"


@pytest.mark.parametrize("budget", [Budget(minutes=1), Budget(transitions=2)])
def test_a_circle_of_handlers_alone_is_paused(budget: Budget) -> None:
    start = state("start", post_handler="count", next="start")
    run, _ = tell(flow(start, budget=budget), After(30, handler()), After(30, handler()))

    assert [question.about for question in run.inbox.open_questions] == ["budget"]
    assert run.is_parked
    assert pending(run) == ()
    run, _ = go(run, says(AGAIN, question="q1"))
    assert isinstance(pending(run)[0], RunHandler)


def test_a_circle_of_waits_alone_is_paused() -> None:
    start = state("start", wait=1.0, post_handler="count", next="start")
    run, _ = tell(flow(start, budget=Budget(minutes=1)), limits=Budget(transitions=1))
    assert owed(run) == ["AwaitTime"]
    run, _ = tell(
        flow(state("start", post_handler="a", next="rest"), State(name="rest", wait=1.0)),
        handler(),
        limits=Budget(transitions=1),
    )

    assert pending(run) == ()
    assert "1 transition" in run.inbox.open_questions[0].text
    run, _ = go(run, says(AGAIN, question="q1"))
    assert owed(run) == ["AwaitTime"]


def test_no_branch_more_is_begun_before_a_person_said_so() -> None:
    each = ForEach(items="input", states=(state("look", "dude"),), max_concurrency=1)
    start = State(name="start", for_each=each, next="stop")
    run, _ = tell(flow(start, budget=Budget(minutes=1)), input=["a", "b"])
    run, _ = go(run, After(60, within("1", replies("x"))))
    assert [question.about for question in run.inbox.open_questions] == ["budget"]
    assert run.is_parked
    assert pending(run) == ()
    run, _ = go(run, says(AGAIN, question="q1"), within("2", replies("y")))

    assert run.status == "finished"


def test_a_branch_that_is_not_begun_fails_the_state_where_that_is_caught() -> None:
    each = ForEach(items="input", states=(state("look", "dude"),), max_concurrency=1)
    caught = (Catch(on=("budget",), to="stop"),)
    start = State(name="start", for_each=each, budget=Budget(minutes=1), catch=caught)
    run, _ = tell(flow(start), After(60, within("1", replies("x"))), input=["a", "b"])

    assert run.status == "finished"
    assert list(run.visit.branches) == []


@pytest.mark.parametrize(
    ("workflow", "counts"),
    [
        (flow(LOOPING), False),
        (flow(LOOPING, budget=Budget(usd=1)), False),
        (flow(LOOPING, budget=Budget(minutes=1)), True),
        (flow(state("start", "dude", budget=Budget(minutes=1))), True),
        (
            flow(
                State(
                    name="start",
                    for_each=ForEach(
                        items="input", states=(state("in", "dude", budget=Budget(minutes=1)),)
                    ),
                )
            ),
            True,
        ),
    ],
)
def test_time_is_told_only_where_a_budget_counts_it(workflow: object, counts: bool) -> None:
    assert counts_minutes(tell(workflow, input=[])[0]) is counts  # type: ignore[arg-type]
