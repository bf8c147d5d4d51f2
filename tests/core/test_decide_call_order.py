"""The tool calls of one reply are made in the model's order; only those that read go side by side."""

import pytest
from decide_kit import (
    TOOLS,
    Step,
    approves,
    asks,
    call,
    comes,
    define,
    done,
    flow,
    go,
    keys,
    kinds,
    of,
    replayed,
    replies,
    says,
    state,
    tell,
    within,
)
from msgspec.structs import replace

from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.decide.decide import judged
from midstream.core.inputs import Recovered, ToolFinished
from midstream.core.run import Run
from midstream.language.names import Outcome
from midstream.language.spec import Branch, State

DUDE = flow(state("start", "dude"))
DIED = Recovered(was_cut=True)


def owed(run: Run) -> list[str]:
    """Return what the run is owed for its calls: `tool 1`, `review 2`."""
    return [f"{key[-2]} {str(key[-1]).removeprefix('call_')}" for key in keys(run)]


def made(*names: str) -> Step:
    return replies("", *(asks("Which?") if name == "ask" else call(name) for name in names))


@pytest.mark.parametrize("changes", ["put", "shell"])
def test_a_change_waits_for_the_reads_before_it_and_the_reads_after_it_wait_for_it(
    changes: str,
) -> None:
    run, _ = tell(DUDE, made("look", "look", changes, "look", "look"))
    assert owed(run) == ["tool 1", "tool 2"]

    run, _ = go(run, done("call_2"))
    assert owed(run) == ["tool 1"]
    run, _ = go(run, done("call_1"))
    assert owed(run) == ["review 3"]
    run, _ = go(run, comes("call_3"))
    assert owed(run) == ["tool 3"]
    run, _ = go(run, done("call_3"))
    assert owed(run) == ["review 4"]
    run, _ = go(run, comes("call_4"))
    assert owed(run) == ["tool 4", "review 5"]
    run, _ = go(run, comes("call_5"))
    assert owed(run) == ["tool 4", "tool 5"]
    run, _ = go(run, done("call_5"), done("call_4"))
    assert keys(run) == [(1, "model", 2)]


def test_two_changes_are_made_one_after_the_other() -> None:
    run, facts = tell(DUDE, made("put", "shell", "put"))
    for number in (1, 2, 3):
        assert owed(run) == [f"{'tool' if number == 1 else 'review'} {number}"]
        run, more = go(run, comes(f"call_{number}"), done(f"call_{number}"))
        facts += more

    assert [f.call_id for f in facts if isinstance(f, e.ToolCalled | e.ToolReturned)] == [
        each for number in (1, 2, 3) for each in [f"call_{number}"] * 2
    ]


@pytest.mark.parametrize("outcome", ["failed", "denied", "unknown", "stopped", "not_run"])
def test_however_a_change_ends_the_calls_after_it_have_their_turn(outcome: Outcome) -> None:
    run, _ = tell(DUDE, made("shell", "shell"), done("call_1", outcome=outcome))

    assert owed(run) == ["review 2"]


def test_a_call_is_looked_at_when_its_turn_comes_and_so_is_its_card_drawn() -> None:
    run, facts = tell(DUDE, made("run", "run"))
    assert owed(run) == ["review 1"]
    run, facts = go(run, comes("call_1", "ask", asks=("exec: a", "shown: 1")))
    assert [q.call_id for q in run.inbox.open_questions] == ["call_1"]
    assert (owed(run), run.is_parked) == ([], True)

    run, _ = go(run, approves("q1"))
    assert owed(run) == ["tool 1"]
    run, _ = go(run, done("call_1"))
    assert owed(run) == ["review 2"]
    run, facts = go(run, comes("call_2", "ask", asks=("exec: b", "shown: 2")))
    assert [fact.question_id for fact in of(facts, e.QuestionAsked)] == ["q2"]


def test_after_a_no_the_next_call_is_looked_at() -> None:
    run, _ = tell(DUDE, made("write", "run"))
    run, _ = go(run, approves("q1", granted=False))

    assert owed(run) == ["review 2"]


def test_reads_that_are_looked_at_first_are_looked_at_in_order() -> None:
    looked_at = {"look": replace(TOOLS["look"], reviewed=True)}
    run, _ = tell(replace(define(DUDE), tools=looked_at), made("look", "look"))
    assert owed(run) == ["review 1"], "one card after the other"
    run, _ = go(run, comes("call_1", "ask", asks=("read: a", "shown: 1")))
    assert owed(run) == ["review 2"], "and neither waits for the answer to the other"
    run, _ = go(run, comes("call_2"), approves("q1"))
    assert owed(run) == ["tool 1", "tool 2"]


def test_questions_are_asked_in_their_turn_and_changes_wait_for_the_answers() -> None:
    run, _ = tell(DUDE, made("ask", "look", "ask", "shell"))
    assert [q.id for q in run.inbox.open_questions] == ["q1", "q2"]
    assert owed(run) == ["tool 2"]
    run, _ = go(run, done("call_2"), says("this", "q2"))
    assert (owed(run), run.is_parked) == ([], True)
    run, _ = go(run, says("that", "q1"))
    assert owed(run) == ["review 4"]

    run, _ = tell(DUDE, made("shell", "ask"))
    assert not run.inbox.open_questions, "what it did may be what the question is about"
    run, facts = go(run, done("call_1"), comes("call_2"))
    assert kinds(facts)[-2:] == ["tool_called", "question_asked"]


def test_what_can_only_fail_waits_for_nothing() -> None:
    run, facts = tell(
        DUDE, replies("", call("shell"), call("lok"), call("put", problem="at is required"))
    )

    assert [f.call_id for f in of(facts, e.ToolReturned)] == ["call_2", "call_3"]
    assert owed(run) == ["tool 1"]
    run, _ = go(run, done("call_1"))
    assert [r.outcome for r in run.contexts["talk"][-1].results] == [
        "completed",
        "failed",
        "failed",
    ]


def test_unasked_words_close_what_has_not_begun_as_not_run_in_order() -> None:
    run, _ = tell(DUDE, made("look", "shell", "put", "run", "look"), done("call_1"))
    run, facts = go(run, comes("call_2"), says("no"))
    closed = [(f.call_id, f.outcome) for f in of(facts, e.ToolReturned)]
    assert closed == [(f"call_{n}", "not_run") for n in (3, 4, 5)]
    assert owed(run) == ["tool 2"]

    run, _ = go(run, done("call_2", outcome="stopped"))
    results = run.contexts["talk"][-2].results
    assert [(r.call_id, r.outcome) for r in results] == [
        ("call_1", "completed"),
        ("call_2", "stopped"),
        ("call_3", "not_run"),
        ("call_4", "not_run"),
        ("call_5", "not_run"),
    ]


def test_a_late_look_at_a_call_that_was_not_run_begins_nothing() -> None:
    run, _ = tell(DUDE, made("put", "shell"), done("call_1"))
    run, _ = go(run, says("no"))

    assert go(run, comes("call_2")) == (run, [])


def test_a_look_begins_nothing_that_a_decision_of_another_time_let_begin() -> None:
    run, _ = tell(DUDE, made("run"), comes("call_1"))

    assert go(run, comes("call_1")) == (run, [])


def test_each_branch_has_an_order_of_its_own() -> None:
    start = (state("start", "dude"), State(name="stop"))
    sides = tuple(Branch(name=name, states=start) for name in ("left", "right"))
    run, _ = tell(flow(State(name="start", parallel=sides)))
    run, _ = go(run, within("left", made("put", "look")), within("right", made("shell", "look")))
    tools = [key[2:] for key in keys(run)]
    assert tools == [("left", 1, "tool", "call_1"), ("right", 1, "tool", "call_3")]

    run, _ = go(run, within("right", done("call_3")))
    assert [key[-2:] for key in keys(run)] == [("tool", "call_1"), ("review", "call_4")]
    run, _ = go(run, within("right", comes("call_4")), within("left", done("call_1")))
    assert [key[-2:] for key in keys(run)] == [("review", "call_2"), ("tool", "call_4")]


def test_calls_that_an_older_version_began_all_at_once_go_on_one_by_one() -> None:
    run, facts = tell(DUDE, made("look"))
    (reply,) = of(facts, e.AgentResponded)
    calls = tuple(
        ToolCall(id=f"call_{n}", name=name, arguments={})
        for n, name in enumerate(("put", "look", "put"), 1)
    )
    began = [e.ToolCalled(call_id=c.id, name=c.name, arguments={}, agent="dude") for c in calls]
    older = facts[: facts.index(reply)]
    new = e.AgentResponded(agent="dude", text="", calls=calls, is_final=False)
    run = replayed([*older, new, *began])

    run = judged(run, DIED).run
    for number in (1, 2, 3):
        assert owed(run) == [f"tool {number}"]
        run = judged(run, ToolFinished(key=keys(run)[0], outcome="completed", text="ok")).run
    assert keys(run) == [(1, "model", 2)]
