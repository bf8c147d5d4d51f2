"""Waits, timeouts and deadlines: what comes when they ring, and when they do not count."""

import pytest
from decide_kit import (
    approves,
    asks,
    at,
    begins,
    call,
    dispositions,
    done,
    flow,
    go,
    keys,
    kinds,
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
from midstream.core.inputs import Halt, Recovered, TimerRang, TimerStarted
from midstream.core.pending import AwaitTime, pending
from midstream.core.run import Run
from midstream.language.spec import Ask, Branch, Catch, Retry, State, Wait

BACK = state("resume", "critic", next="$interrupted")
CAUGHT = (Catch(on=("timeout",), to="late"),)
LATE = state("late", "dude")


def until(run: Run) -> list[float | None]:
    """Return the times the run waits for."""
    return [effect.until for effect in pending(run) if isinstance(effect, AwaitTime)]


# --- waits --------------------------------------------------------------------------------------


def test_a_wait_that_was_halted_goes_on_to_the_same_time() -> None:
    run, _ = tell(flow(State(name="start", wait=3600.0), BACK), begins("wait", 5000.0))
    assert until(run) == [5000.0]
    run, facts = go(run, says("how long?"), replies("An hour."))

    assert until(run) == [5000.0]
    assert of(facts, e.TimerSet) == []
    assert run.visits["start"] == 1
    run, _ = go(run, rings("wait"))
    assert run.status == "finished"


def test_a_wait_until_a_time_needs_no_clock_to_begin() -> None:
    run, facts = tell(
        flow(State(name="start", wait=Wait(until="${input}"))), input="2030-01-01 00:00"
    )

    assert [fact.until for fact in of(facts, e.TimerSet)] == [1893456000.0]
    assert until(run) == [1893456000.0]


@pytest.mark.parametrize(
    "time", ["soon", "", True, None, "2030-13-01 00:00", "9999-99-99 00:00", 10**400]
)
def test_a_wait_until_what_is_no_time_is_an_error_of_its_author(time: object) -> None:
    run, facts = tell(flow(State(name="start", wait=Wait(until="${input}"))), input=time)

    assert "which is no time" in run.error
    assert of(facts, e.RunFailed)[0].fault == "author"


@pytest.mark.parametrize(
    ("time", "at"),
    [
        (7.5, 7.5),
        (-1, 0.0),
        ("0001-01-01T00:00:00+23:59", 0.0),
        ("2030-01-01t00:00:00z", 1893456000.0),
    ],
)
def test_a_time_may_be_a_number_or_long_past(time: object, at: float) -> None:
    run, _ = tell(flow(State(name="start", wait=Wait(until="${input}"))), input=time)

    assert until(run) == [at], "what is over before 1970 is over at once"


def test_a_wait_survives_a_crash() -> None:
    run, _ = tell(flow(State(name="start", wait=10.0)), begins("wait", 17.0), Recovered())
    assert until(run) == [17.0]


def test_a_time_that_rings_too_late_changes_nothing() -> None:
    run, _ = tell(flow(State(name="start", wait=10.0, next="then"), state("then", "dude")))
    early = TimerRang(key=(1, "timer", "wait 0"))
    assert go(run, early)[1] == []
    run, _ = go(run, begins("wait", 17.0), rings("wait"))

    assert go(run, early, TimerStarted(key=(1, "set", "wait 0"), until=1.0))[1] == []


# --- timeouts -----------------------------------------------------------------------------------


def test_a_timeout_counts_while_a_question_is_open() -> None:
    slow = state("start", "dude", timeout_s=60, catch=CAUGHT)
    run, _ = tell(flow(slow, LATE), replies("", asks("Which?")), begins("timeout", 60.0))
    assert not run.is_parked, "it moves on by itself"
    run, facts = go(run, rings("timeout"))

    assert run.visit.state == "late"
    assert len(of(facts, e.QuestionSuperseded)) == 1
    assert words(run.contexts["talk"])[-1][1] == "", (
        "the call has its result before the next request"
    )
    assert run.contexts["talk"][-1].results[0].outcome == "not_run"


def test_a_timeout_stands_still_while_the_run_is_held_and_begins_anew() -> None:
    slow = state("start", "dude", timeout_s=60, catch=CAUGHT)
    run, _ = tell(flow(slow, LATE, BACK), begins("timeout", 60.0), Halt())
    assert keys(run) == []
    run, _ = go(run, rings("timeout"), says("go on"), replies("Sure."))

    assert run.visit.state == "start"
    assert until(run) == [None], "the clock is asked anew"


def test_a_timeout_in_a_branch_is_the_branchs() -> None:
    slow = Branch(name="slow", states=(state("s", "dude", timeout_s=60, catch=CAUGHT), LATE))
    run, _ = tell(flow(State(name="start", parallel=(slow, "late")), LATE))
    run, facts = go(run, within("slow", begins("timeout", 60.0)), within("slow", rings("timeout")))

    assert path(facts) == ["late"]
    assert at(run, "slow").visit.state == "late"
    assert at(run, "late").visits == {"late": 1}


def test_a_timeout_of_a_parallel_state_ends_its_branches() -> None:
    fan = State(name="start", parallel=("left", "right"), timeout_s=60, catch=CAUGHT)
    run, _ = tell(
        flow(fan, state("left", "dude"), State(name="right", tool="shell"), LATE),
        begins("timeout", 60.0),
        rings("timeout"),
    )
    assert run.visit.phase == "halting", "the call is being stopped"
    run, _ = go(run, within("right", done("call_1", outcome="stopped")))
    assert (run.visit.state, run.visit.branches) == ("late", {})


def test_a_call_that_was_done_in_spite_of_its_timeout_is_done() -> None:
    slow = State(name="start", tool="shell", timeout_s=5, save_as="out", catch=CAUGHT, next="then")
    run, _ = tell(flow(slow, LATE, state("then", "dude")), begins("timeout", 5.0), rings("timeout"))
    run, facts = go(run, done("call_1", "deployed"))

    assert run.visit.state == "then"
    assert run.common_data["out"] == "deployed"
    assert of(facts, e.StateFailed) == []


@pytest.mark.parametrize("outcome", ["stopped", "unknown"])
def test_a_once_call_that_was_stopped_over_a_timeout_is_not_made_again(outcome: str) -> None:
    retry = Retry(max_attempts=3, on=("timeout",))
    slow = State(name="start", tool="shell", timeout_s=5, retry=retry, catch=CAUGHT)
    run, _ = tell(flow(slow, LATE), begins("timeout", 5.0), rings("timeout"))
    run, facts = go(run, done("call_1", outcome=outcome))  # type: ignore[arg-type]

    assert path(facts) == ["late"]


def test_a_call_that_harms_nothing_is_made_again_after_a_timeout() -> None:
    retry = Retry(max_attempts=2, backoff_s=3, on=("timeout",))
    run, _ = tell(flow(State(name="start", tool="look", timeout_s=5, retry=retry)))
    run, facts = go(run, begins("timeout", 5.0), rings("timeout"))
    assert run.visit.phase == "retrying"
    run, facts = go(run, begins("retry", 8.0), rings("retry"))

    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_2"]
    assert until(run) == [None], "each try has its own time"


def test_a_bare_stop_while_a_timeout_ends_a_call_holds() -> None:
    retry = Retry(max_attempts=2, on=("timeout",))
    slow = State(name="start", tool="shell", timeout_s=5, retry=retry)
    run, _ = tell(flow(slow, BACK), begins("timeout", 5.0), rings("timeout"), Halt())
    run, facts = go(run, done("call_1", outcome="unknown"))
    assert (run.visit.phase, kinds(facts)) == ("held", ["tool_returned"])
    run, facts = go(run, says("well?"), replies("Hm."))

    assert [fact.call_id for fact in of(facts, e.QuestionAsked)] == ["call_1"]


def test_words_while_a_timeout_ends_a_call_are_heard_and_the_call_is_not_forgotten() -> None:
    slow = State(name="start", tool="shell", timeout_s=5, catch=CAUGHT)
    run, _ = tell(flow(slow, LATE, BACK), begins("timeout", 5.0), rings("timeout"), says("why?"))
    run, facts = go(run, done("call_1", outcome="stopped"), replies("Slow."))

    assert path(facts) == ["resume", "start"]
    assert run.inbox.open_questions[0].call_id == "call_1"
    assert dispositions(run) == ["interrupted"]


# --- deadlines ------------------------------------------------------------------------------------


def asking(**fields: object) -> State:
    ask = Ask(question="Which?", deadline_s=60.0, **fields)  # type: ignore[arg-type]
    return State(name="start", ask=ask, save_as="out", catch=(Catch(on=("deadline",), to="late"),))


def test_a_question_that_waits_for_its_answer_says_so_once() -> None:
    run, _ = tell(flow(asking()), begins("deadline", 60.0))
    assert run.is_parked, "nobody but a person moves it on"
    run, facts = go(run, rings("deadline"))

    assert [fact.stays for fact in of(facts, e.QuestionExpired)] == [True]
    assert [fact.text for fact in of(facts, e.WorkflowOutput)] == [
        "Question #1 still waits for you."
    ]
    assert keys(run) == []
    run, _ = go(run, says("blue", "q1"))
    assert run.common_data["out"] == "blue"


def test_a_late_answer_to_an_expired_question_is_refused() -> None:
    run, _ = tell(
        flow(asking(on_timeout="fail"), LATE), begins("deadline", 60.0), rings("deadline")
    )
    run, _ = go(run, says("blue", "q1"))

    assert run.visit.state == "late"
    assert dispositions(run) == ["rejected"]
    assert next(iter(run.inbox.lines.values())).reason == "the time to answer it is over"


def test_an_answer_comes_before_the_deadline_it_ends() -> None:
    run, _ = tell(flow(asking(on_timeout="default", default="red")), begins("deadline", 60.0))
    ring = rings("deadline")
    late = ring(run) if callable(ring) else ring
    run, _ = go(run, says("blue", "q1"))

    assert run.output is None or run.common_data["out"] == "blue"
    assert go(run, late)[1] == []


def test_a_deadline_is_the_questions_own_after_a_halt() -> None:
    run, _ = tell(flow(asking(on_timeout="fail"), LATE, BACK), begins("deadline", 60.0), Halt())
    run, facts = go(run, says("hm"), replies("Well."))

    assert [fact.question_id for fact in of(facts, e.QuestionAsked)] == ["q2"]
    assert until(run) == [None]


def test_a_question_in_a_branch_expires_there() -> None:
    ask = Ask(question="Which?", deadline_s=9.0, on_timeout="default", default="red")
    quiz = Branch(name="quiz", states=(State(name="q", ask=ask),))
    run, _ = tell(flow(State(name="start", parallel=(quiz, "late"), save_as="out"), LATE))
    assert not run.is_parked
    run, _ = go(run, within("quiz", begins("deadline", 9.0)), within("quiz", rings("deadline")))

    assert at(run, "quiz").output == "red"
    assert [question.status for question in run.inbox.questions] == ["expired"]


def test_an_approval_may_come_in_time() -> None:
    slow = State(name="start", tool="write", timeout_s=5, save_as="out")
    run, _ = tell(flow(slow), begins("timeout", 5.0), approves("q1"), done("call_1", "written"))

    assert run.common_data["out"] == "written"
    assert go(run, rings_of_step_one())[1] == []


def rings_of_step_one() -> TimerRang:
    return TimerRang(key=(1, "timer", "timeout 0"))


def test_a_call_an_agent_made_ends_with_the_turn_that_took_too_long() -> None:
    slow = state("start", "dude", timeout_s=5, catch=CAUGHT)
    run, _ = tell(flow(slow, LATE), replies("", call("shell"), call("look"), call("write")))
    run, facts = go(
        run, begins("timeout", 5.0), rings("timeout"), done("call_1", outcome="unknown")
    )

    assert [f.outcome for f in of(facts, e.ToolReturned)] == ["not_run", "not_run", "unknown"]
    assert [r.outcome for r in run.contexts["talk"][-1].results] == [
        "unknown",
        "not_run",
        "not_run",
    ]
    assert run.visit.state == "late"
