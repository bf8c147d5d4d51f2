"""What unasked words do where they do not interrupt: steer, queue, reject, storms, withdrawing."""

import pytest
from decide_kit import (
    call,
    dispositions,
    done,
    flow,
    go,
    handler,
    keys,
    kinds,
    of,
    path,
    replies,
    says,
    state,
    tell,
    words,
)

from midstream.core.decide.steering import STORM_COUNT
from midstream.core.events import InputDisposed, InputReceived, ReplyCut, RunFinished
from midstream.core.inputs import Withdraw
from midstream.language.names import Policy

PLAIN = flow(state("start", "dude", next="after"), state("after", "critic"))


@pytest.mark.parametrize(
    ("workflow_says", "state_says", "message_says", "handling"),
    [
        ("interrupt", None, None, "interrupt"),
        ("queue", None, None, "queue"),
        ("queue", "steer", None, "steer"),
        ("queue", "steer", "reject", "reject"),
        ("reject", None, "interrupt", "interrupt"),
    ],
)
def test_the_message_overrides_the_state_and_the_state_the_workflow(
    workflow_says: Policy, state_says: Policy | None, message_says: Policy | None, handling: str
) -> None:
    workflow = flow(state("start", "dude", on_input=state_says), on_input=workflow_says)
    _, facts = tell(workflow, says("hm", policy=message_says))

    assert of(facts, InputReceived)[0].handling == handling


def test_a_rejected_line_has_no_effect_and_says_why() -> None:
    run, facts = tell(PLAIN, says("hm", policy="reject"))

    assert kinds(facts)[-2:] == ["input_received", "input_disposed"]
    assert "'start' accepts no input" in of(facts, InputDisposed)[0].reason
    assert keys(run) == [(1, "model", 1)]


def test_a_clock_that_is_set_back_makes_no_storm_of_a_talk() -> None:
    workflow = flow(state("start", "dude"), state("resume", "dude"))
    talk = [says("hm", id=f"{n}", at=5000.0 + 60 * n) for n in range(STORM_COUNT)]
    run, _ = tell(workflow, *talk, says("hm", id="later", at=1000.0))

    assert run.inbox.lines["later"].handling == "interrupt"


# --- steer ------------------------------------------------------------------------------------


def test_a_steer_cuts_words_and_joins_the_next_request_of_the_turn() -> None:
    run, facts = tell(PLAIN, says("in French", policy="steer", shown="Once"))

    assert of(facts, ReplyCut) == [ReplyCut(agent="dude", partial="Once")]
    assert words(run.contexts["talk"]) == [
        ("@user", "tidy"),
        ("dude", "Once"),
        ("@user", "in French"),
    ]
    assert keys(run) == [(1, "model", 2)]
    assert (run.halt.epoch, dispositions(run)) == (0, ["steered"])


def test_a_steer_does_not_cut_a_reply_that_asks_for_a_tool() -> None:
    run, facts = tell(PLAIN, says("in French", policy="steer", has_calls=True))
    assert of(facts, ReplyCut) == []
    assert dispositions(run) == [None]

    run, _ = go(run, replies("", call("look")))
    assert dispositions(run) == [None]
    run, _ = go(run, done("call_1"))

    assert words(run.contexts["talk"])[-2:] == [("dude", ""), ("@user", "in French")]
    assert dispositions(run) == ["steered"]


def test_steers_during_tool_calls_wait_for_their_results() -> None:
    run, _ = tell(PLAIN, replies("", call("look")))
    run, _ = go(run, says("one", policy="steer"), says("two", policy="steer"), done("call_1"))

    assert words(run.contexts["talk"])[-2:] == [("@user", "one"), ("@user", "two")]
    assert dispositions(run) == ["steered", "steered"]


def test_a_steer_before_the_turn_joins_its_first_request() -> None:
    workflow = flow(state("start", "dude", pre_handler="pre"))
    run, _ = tell(workflow, says("in French", policy="steer"), handler(), input=None)

    assert words(run.contexts["talk"]) == [("@user", "in French")]


def test_a_steer_after_the_turn_is_acted_on_after_the_state() -> None:
    workflow = flow(state("start", "dude", transition_handler="go"), state("resume", "critic"))
    run, facts = tell(workflow, replies("hi"), says("hm", policy="steer"), handler("stop"))

    assert path(facts) == ["start", "resume"]
    assert dispositions(run) == ["queued"]


# --- queue ------------------------------------------------------------------------------------


def test_queued_words_are_acted_on_when_the_state_is_done() -> None:
    workflow = flow(
        state("start", "dude", next="after"),
        state("after", "critic"),
        state("resume", "dude", next="$interrupted"),
    )
    run, _ = tell(workflow, says("one", policy="queue"), says("two", policy="queue"))
    assert dispositions(run) == [None, None]

    run, facts = go(run, replies("hello"))
    assert path(facts) == ["resume"]
    assert run.halt.interrupted_state == "after"
    assert run.halt.resume_input == "one\ntwo"
    assert dispositions(run) == ["queued", "queued"]

    run, facts = go(run, replies("noted"))
    assert (run.visit.state, run.visits["after"]) == ("after", 1)


def test_queued_words_come_before_the_end() -> None:
    workflow = flow(state("start", "dude"), state("resume", "critic", next="$interrupted"))
    run, facts = tell(workflow, says("one", policy="queue"), replies("hi"), replies("noted"))

    assert path(facts) == ["start", "resume", "stop"]
    assert isinstance(facts[-1], RunFinished)
    assert run.status == "finished"


# --- storms -----------------------------------------------------------------------------------


def test_a_storm_of_interruptions_turns_to_queueing_and_says_so() -> None:
    run, _ = tell(PLAIN)
    for n in range(STORM_COUNT):
        run, _ = go(run, says(f"line {n}", at=100.0 + n))
    assert run.halt.epoch == STORM_COUNT

    run, facts = go(run, says("one more", at=106.5))
    (received,) = of(facts, InputReceived)
    assert received.handling == "queue"
    assert "interruptions within" in received.reason
    assert run.halt.epoch == STORM_COUNT

    run, facts = go(run, says("later", at=200.0))
    assert of(facts, InputReceived)[0].handling == "interrupt"


# --- ids and withdrawing ----------------------------------------------------------------------


def test_the_same_id_again_changes_nothing() -> None:
    run, _ = tell(PLAIN, says("hm", id="a", policy="queue"))

    assert go(run, says("something else", id="a")) == (run, [])


def test_a_queued_line_can_be_withdrawn() -> None:
    run, _ = tell(PLAIN, says("hm", id="a", policy="queue"), Withdraw(input_id="a"))
    assert dispositions(run) == ["withdrawn"]

    run, facts = go(run, replies("hello"))
    assert path(facts) == ["after"]


def test_a_delivered_line_cannot_be_withdrawn() -> None:
    run, _ = tell(PLAIN, says("hm", id="a"))

    assert go(run, Withdraw(input_id="a"), Withdraw(input_id="b")) == (run, [])


def test_while_a_tool_stops_a_queued_line_can_be_withdrawn_but_not_the_one_that_halts() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), says("later", id="a", policy="queue"))
    run, _ = go(run, says("no", id="b"), Withdraw(input_id="a"), Withdraw(input_id="b"))

    assert dispositions(run) == ["withdrawn", None]


def test_what_is_left_when_the_run_ends_is_returned() -> None:
    run, facts = tell(PLAIN, says("hm", policy="queue"), replies(""), replies(""), replies(""))

    assert run.status == "failed"
    assert dispositions(run) == ["rejected"]
    assert of(facts, InputDisposed)[0].reason == "the run ended first"
