"""A process died, or let go of its run, and another one goes on: what is repeated, asked and counted."""

from collections.abc import Callable

import msgspec
import pytest
from decide_kit import (
    Step,
    approves,
    asks,
    call,
    check,
    comes,
    dispositions,
    done,
    flow,
    go,
    handler,
    keys,
    kinds,
    of,
    path,
    replayed,
    replies,
    says,
    state,
    tell,
    words,
)

from midstream.app.run_sentences import way_on_here
from midstream.core import events as e
from midstream.core import inputs
from midstream.core.decide import steering
from midstream.core.decide.decide import CRASH_LOOP, CRASHES
from midstream.core.decide.steering import DID_NOT_HAPPEN, HAPPENED, NOT_KNOWN, OUTCOMES, UNKNOWN
from midstream.core.fold.apply import apply
from midstream.core.pending import call_key, handler_key, pending
from midstream.core.run import Run
from midstream.views.run_status import way_on

PLAIN = flow(state("start", "dude"))
RESUMING = flow(state("start", "dude"), state("resume", "dude", next="$interrupted"))
HANDLED = flow(
    state("start", "dude", pre_handler="pre", post_handler="post", transition_handler="go")
)
CUT = e.RunRecovered(was_cut=True)
IDLE = e.RunRecovered(was_cut=True, was_idle=True)
DIED = inputs.Recovered(was_cut=True)
LEFT = inputs.Recovered(was_cut=False)


# --- in every phase -----------------------------------------------------------------------------


def test_a_run_that_has_not_started_has_nothing_to_recover() -> None:
    assert go(Run(id="r"), DIED) == (Run(id="r"), [])


@pytest.mark.parametrize("steps", range(4))
def test_a_handler_or_a_request_that_was_under_way_is_owed_again(steps: int) -> None:
    run, _ = tell(HANDLED, *[handler(), replies("hi"), handler()][:steps])
    recovered, facts = go(run, DIED)

    assert facts == [CUT]
    assert keys(recovered) == keys(run) != []
    assert msgspec.structs.replace(recovered, crashes=0, seq=run.seq) == run


def test_a_run_that_waits_for_words_waits_on_with_the_same_question() -> None:
    run, _ = tell(flow(state("start", "dude", awaits_input=True)), input=None)
    run, facts = go(run, DIED)

    assert (run.visit.phase, facts) == ("waiting", [IDLE])
    run, _ = go(run, says("hello"))
    assert dispositions(run) == ["answered"]


def test_an_open_question_stays_open_and_takes_its_answer() -> None:
    run, _ = tell(PLAIN, replies("", asks("Which?")), DIED)
    run, facts = go(run, says("src", "q1"))

    assert [fact.result for fact in of(facts, e.ToolReturned)] == ["src"]


def test_an_open_approval_stays_open_and_takes_its_yes() -> None:
    run, _ = tell(PLAIN, replies("", call("write")), DIED)
    run, facts = go(run, approves("q1"))

    assert kinds(facts) == ["question_answered", "tool_called"]
    assert keys(run) == [(1, "tool", "call_1")]


def test_calls_that_harm_nothing_are_made_again_and_of_a_once_call_a_person_is_asked() -> None:
    run, _ = tell(PLAIN, replies("", call("look"), call("look"), asks("Which?"), call("put")))
    run, facts = go(run, DIED)
    assert of(facts, e.QuestionAsked) == []
    assert keys(run) == [(1, "tool", "call_1"), (1, "tool", "call_2")]
    run, _ = go(run, done("call_1"), done("call_2"), says("it", "q1"), comes("call_4"), DIED)
    assert keys(run) == [(1, "tool", "call_4")]

    run, _ = tell(PLAIN, replies("", call("shell", n=1), call("look"), asks("Which?")))
    run, facts = go(run, DIED)

    (asked,) = of(facts, e.QuestionAsked)
    assert (asked.call_id, asked.choices) == ("call_1", tuple(OUTCOMES))
    assert 'shell {"n":1}' in asked.text
    assert facts[-1] == CUT
    assert keys(run) == [], "what comes after it waits for the answer"
    run, _ = go(run, says("2", "q1"))
    assert keys(run) == [(1, "review", "call_2")]


def test_a_halt_that_waited_for_a_tool_is_finished() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), says("no"))
    run, facts = go(run, DIED)

    assert kinds(facts) == [
        "tool_returned",
        "run_recovered",
        "input_disposed",
        "state_transition",
        "words_joined",
    ]
    (returned,) = of(facts, e.ToolReturned)
    assert (returned.outcome, returned.result) == ("unknown", UNKNOWN)


def test_a_bare_halt_that_waited_for_a_tool_holds() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), inputs.Halt())
    run, facts = go(run, DIED)

    assert run.visit.phase == "held"
    assert [fact.outcome for fact in of(facts, e.ToolReturned)] == ["unknown"]


def test_a_stop_that_waited_for_a_tool_ends_the_run() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), inputs.Stop(reason="bye"))
    run, facts = go(run, DIED)

    assert run.status == "stopped"
    assert kinds(facts)[-1] == "run_stopped"


def test_a_held_run_stays_held() -> None:
    run, _ = tell(PLAIN, inputs.Halt())
    recovered, facts = go(run, DIED)

    assert (recovered.visit.phase, facts) == ("held", [IDLE])


def test_a_run_that_has_ended_is_left_alone() -> None:
    run, _ = tell(PLAIN, replies("bye"))

    assert go(run, DIED, LEFT) == (run, [])


def test_a_run_cut_between_two_facts_of_one_decision_goes_on_from_there() -> None:
    _, facts = tell(flow(state("start", next="work"), state("work", "dude")), replies("Done."))
    whole = replayed(facts)
    for kept in range(1, len(facts)):
        run = replayed(facts[:kept])
        run, _ = _and_check(run, DIED)
        while not run.is_over:
            run, _ = go(run, replies("Done."))
        assert (run.output, run.visits) == (whole.output, whole.visits), kept


def _and_check(run: Run, step: Step) -> tuple[Run, list[object]]:
    after, facts = go(run, step)
    check(run, after, facts)
    return after, list(facts)


def test_words_not_yet_delivered_are_delivered_once() -> None:
    run, _ = tell(flow(state("start", "dude", on_input="steer")), replies("", call("look")))
    run, _ = go(run, says("faster", id="a"), DIED)
    run, facts = go(run, says("faster", id="a"), done("call_1"))

    assert dispositions(run) == ["steered"]
    assert words(run.contexts["talk"])[-1] == ("@user", "faster")
    assert [fact.input_id for fact in of(facts, e.InputDisposed)] == ["a"]


# --- what became of it --------------------------------------------------------------------------


def _asked(*more: Step) -> Run:
    run, _ = tell(PLAIN, replies("", call("shell")), DIED, *more)
    return run


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (HAPPENED, "completed"),
        (DID_NOT_HAPPEN.upper(), "not_run"),
        (NOT_KNOWN, "unknown"),
        ("1", "completed"),
        (" 2 ", "not_run"),
        ("3", "unknown"),
    ],
)
def test_what_the_person_says_becomes_the_calls_result(line: str, outcome: str) -> None:
    run, facts = go(_asked(), says(line, "q1"))

    (returned,) = of(facts, e.ToolReturned)
    assert returned.outcome == outcome
    assert returned.result == next(text for name, text in OUTCOMES.values() if name == outcome)
    assert keys(run) == [(1, "model", 2)]
    assert not of(facts, e.ToolCalled)


def test_a_command_that_was_cut_is_shown_as_it_is() -> None:
    run, _ = tell(PLAIN, replies("", call("shell", command='echo "a"')), DIED)

    assert run.inbox.open_questions[0].text.endswith('What became of it?\nshell $ echo "a"')


def test_anything_else_goes_back_to_the_editor() -> None:
    run, facts = go(_asked(), says("hm", "q1"))

    assert kinds(facts) == ["input_received", "answer_refused", "input_disposed"]
    assert run.inbox.open_questions[0].id == "q1"


def test_unasked_words_instead_leave_the_outcome_unknown() -> None:
    run, facts = go(_asked(), says("leave that"))

    (returned,) = of(facts, e.ToolReturned)
    assert (returned.outcome, returned.result) == ("unknown", UNKNOWN)
    assert of(facts, e.QuestionSuperseded)[0].question_id == "q1"
    assert path(facts) == ["start"]
    assert words(run.contexts["talk"])[-1] == ("@user", "leave that")


def test_esc_instead_leaves_the_outcome_unknown() -> None:
    run, facts = go(_asked(), inputs.Halt())

    assert [fact.outcome for fact in of(facts, e.ToolReturned)] == ["unknown"]
    assert run.visit.phase == "held"


def test_a_stop_instead_leaves_the_outcome_unknown() -> None:
    run, facts = go(_asked(), inputs.Stop(reason="bye"))

    assert [fact.outcome for fact in of(facts, e.ToolReturned)] == ["unknown"]
    assert run.status == "stopped"


def test_a_key_press_does_not_answer_what_became_of_a_call() -> None:
    run = _asked()

    assert go(run, approves("q1"), approves("q1", granted=False)) == (run, [])


def test_an_approval_beside_it_is_its_own() -> None:
    run, _ = tell(PLAIN, replies("", call("shell"), call("write")), DIED)
    run, facts = go(run, approves("q1"))
    assert facts == [], "no key press says what became of it"
    run, facts = go(run, says("1", "q1"), comes("call_2"), approves("q2"))
    assert keys(run) == [(1, "tool", "call_2")]
    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_2"]

    run, _ = go(run, done("call_2"))
    assert [result.outcome for result in run.contexts["talk"][-1].results] == ["completed"] * 2


def test_each_call_a_process_dies_in_is_asked_about_when_its_turn_has_come() -> None:
    run, _ = tell(PLAIN, replies("", *[call("shell", n=n) for n in range(3)]), DIED)
    assert [question.call_id for question in run.inbox.open_questions] == ["call_1"]
    assert run.is_parked

    run, _ = go(run, says("1", "q1"), comes("call_2"), DIED, says("2", "q2"))
    run, _ = go(run, comes("call_3"), DIED, says("3", "q3"))
    results = run.contexts["talk"][-1].results
    assert [result.outcome for result in results] == ["completed", "not_run", "unknown"]


def test_a_second_crash_asks_nothing_twice() -> None:
    run = _asked()
    again, facts = go(run, DIED, DIED)

    assert facts == [IDLE, IDLE]
    assert again.inbox.open_questions == run.inbox.open_questions


def test_a_late_result_of_the_dead_process_changes_nothing() -> None:
    run = _asked()

    assert go(run, done("call_1", "late")) == (run, [])


def test_a_run_that_was_left_asks_too_what_became_of_a_call_without_an_end() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")))
    _, facts = go(run, LEFT)

    assert kinds(facts) == ["question_asked", "run_recovered"]


# --- crashes that repeat --------------------------------------------------------------------------


def test_five_crashes_without_progress_suspend_the_run() -> None:
    run, facts = tell(HANDLED, *[DIED] * (CRASHES - 1))
    assert (run.crashes, run.suspended) == (CRASHES - 1, "")

    run, facts = go(run, DIED)

    assert facts == [CUT, e.RunSuspended(reason=CRASH_LOOP)]
    assert run.suspended == CRASH_LOOP
    assert pending(run) == ()
    assert run.is_parked


def test_a_suspended_run_that_is_taken_up_again_stays_suspended() -> None:
    run, _ = tell(HANDLED, *[DIED] * CRASHES)
    run, facts = go(run, DIED, LEFT, DIED)

    assert facts == [IDLE, e.RunRecovered(), IDLE]
    assert pending(run) == ()


@pytest.mark.parametrize(
    "progress",
    [
        [handler()],
        [handler(), replies("", call("look"))],
        [handler(), replies("", call("look")), done("call_1")],
        [says("go on")],
    ],
)
def test_progress_begins_the_count_anew(progress: list[Step]) -> None:
    run, _ = tell(HANDLED, *[DIED] * 4, *progress)
    assert run.crashes == 0

    run, _ = go(run, *[DIED] * 4)
    assert not run.suspended


def test_what_a_handler_says_is_no_progress() -> None:
    run, _ = tell(HANDLED, *[DIED] * 4)
    run, _ = go(run, inputs.HandlerLogged(key=handler_key(run), text="once more"), DIED)

    assert run.suspended == CRASH_LOOP


def test_leaving_is_no_crash() -> None:
    run, _ = tell(HANDLED, *[DIED] * 4, LEFT)
    assert run.crashes == 0

    run, _ = go(run, *[LEFT] * 20)
    assert not run.suspended


def _suspended(*steps: Step) -> Run:
    run, _ = tell(PLAIN, *steps, *[DIED] * CRASHES)
    assert run.suspended
    return run


def test_a_person_lets_it_go_on() -> None:
    run, facts = go(_suspended(), inputs.Resume())

    assert facts == [e.RunResumed()]
    assert (run.suspended, run.crashes) == ("", 0)
    assert keys(run) == [(1, "model", 1)]


def test_what_is_not_suspended_is_not_resumed() -> None:
    run, _ = tell(PLAIN, DIED)

    assert go(run, inputs.Resume()) == (run, [])


def test_a_run_that_was_stopped_goes_on_where_it_was_cut() -> None:
    held, _ = tell(PLAIN, replies("", call("look")), inputs.Halt())
    run, facts = go(held, inputs.Resume())

    assert facts == [
        e.StateTransition(source="start", target="start", reason="going on", resumes=True)
    ]
    assert (run.visit.phase, keys(run)) == ("turn", [(2, "model", 2)])
    assert go(run, inputs.Resume()) == (run, [])


def test_words_let_it_go_on() -> None:
    run, facts = go(_suspended(), says("try something else"))

    assert kinds(facts)[:2] == ["run_resumed", "input_received"]
    assert pending(run)


def test_the_same_words_again_do_not() -> None:
    run, _ = tell(PLAIN, replies("", call("look")), says("x", id="a", policy="queue"))
    run, _ = go(run, *[DIED] * CRASHES)

    assert go(run, says("x", id="a")) == (run, [])


def test_an_answer_lets_it_go_on() -> None:
    run, facts = go(_suspended(replies("", asks("Which?"))), says("src", "q1"))

    assert kinds(facts)[0] == "run_resumed"
    assert keys(run) == [(1, "model", 2)]


@pytest.mark.parametrize("granted", [True, False])
def test_a_decision_lets_it_go_on(granted: bool) -> None:
    run, facts = go(_suspended(replies("", call("write"))), approves("q1", granted))

    assert kinds(facts)[0] == "run_resumed"
    assert pending(run)


def test_a_suspended_run_can_be_held_and_stopped() -> None:
    held, _ = go(_suspended(replies("", call("look"))), inputs.Halt())
    stopped, _ = go(held, inputs.Stop(reason="enough"))

    assert (held.visit.phase, stopped.status) == ("held", "stopped")


def test_a_late_result_of_a_suspended_run_is_kept() -> None:
    # Nothing of it is in flight, but should one come all the same, the call has it once.
    run, _ = go(_suspended(replies("", call("look"))), done("call_1"), inputs.Resume())

    assert keys(run) == [(1, "model", 2)]


# --- files --------------------------------------------------------------------------------------


def _changing(call_id: str = "call_1", **fields: str) -> Callable[[Run], inputs.FileChanging]:
    return lambda run: inputs.FileChanging(
        key=call_key(run, call_id), path="/w/a.txt", before=fields.get("before"), after="beef"
    )


@pytest.mark.parametrize("tool", ["look", "shell"])
def test_a_write_is_recorded_before_it_happens(tool: str) -> None:
    run, facts = tell(PLAIN, replies("", call(tool)), _changing(before="abad"))

    written = e.FileWritten(call_id="call_1", path="/w/a.txt", before="abad", after="beef")
    assert facts[-1] == written
    assert keys(run) == [(1, "tool", "call_1")]


def test_a_call_that_is_being_stopped_may_still_say_what_it_writes() -> None:
    _, facts = tell(PLAIN, replies("", call("shell")), inputs.Halt(), _changing())

    assert of(facts, e.FileWritten)


@pytest.mark.parametrize(
    "before",
    [
        [replies("", call("write"))],
        [replies("", call("shell")), DIED],
        [replies("", call("look"), call("look")), done("call_1")],
        [replies("", call("look")), inputs.Halt()],
        [],
    ],
    ids=["parked", "unknown", "done", "halted", "another turn"],
)
def test_nothing_is_written_for_a_call_that_nobody_is_owed(before: list[Step]) -> None:
    run, _ = tell(PLAIN, *before)

    assert go(run, _changing()) == (run, [])


def test_the_key_of_an_earlier_turn_writes_nothing() -> None:
    run, _ = tell(PLAIN, replies("", call("look")))
    late = inputs.FileChanging(key=(0, "tool", "call_1"), path="/w/a", before=None, after=None)
    foreign = inputs.FileChanging(key=(1, "model", 1), path="/w/a", before=None, after=None)

    assert go(run, late, foreign) == (run, [])


# --- the facts alone -----------------------------------------------------------------------------


def test_a_recovered_run_folds_to_the_same() -> None:
    steps = [replies("", call("shell"), call("write")), DIED, says("1", "q2"), approves("q1")]
    run, facts = tell(RESUMING, *steps, *[DIED] * CRASHES, says("no"))

    assert replayed(facts) == run


def test_a_start_in_a_folder_keeps_it() -> None:
    run, facts = tell(PLAIN, workspace="/w")

    assert of(facts, e.RunStarted)[0].workspace == run.workspace == "/w"


def test_an_answer_to_a_question_a_model_asked_is_not_taken_for_an_outcome() -> None:
    run, _ = tell(PLAIN, replies("", asks("Well?", choices=list(OUTCOMES))), DIED)
    _, facts = go(run, says(HAPPENED, "q1"))

    assert of(facts, e.ToolReturned)[0].result == HAPPENED
    assert of(facts, e.QuestionAnswered)[0].answer == HAPPENED


def test_recovery_of_a_cut_run_goes_back_to_where_it_was_cut() -> None:
    run, _ = tell(RESUMING, replies("", call("look")), done("call_1"), says("no"), DIED)
    run, facts = go(run, replies("I see."), DIED, replies("Done."))

    assert path(facts) == ["start", "stop"]
    assert steering.STOPPED not in str(run.contexts)


def test_a_tool_finished_twice_over_a_crash_counts_once() -> None:
    run, _ = tell(PLAIN, replies("", call("look"), call("look")), done("call_1"), DIED)
    late = inputs.ToolFinished(key=(1, "tool", "call_1"), outcome="completed", text="again")
    run, facts = go(run, late)

    assert facts == []
    assert keys(run) == [(1, "tool", "call_2")]


def test_starting_a_run_that_was_recovered_changes_nothing() -> None:
    run, _ = tell(PLAIN, DIED)
    assert run.definition is not None

    assert go(run, inputs.Start(definition=run.definition)) == (run, [])
    assert apply(run, CUT).crashes == 2


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "is kept where it stopped: R goes on."),
        (
            [inputs.Halt()],
            "is stopped: `midstream send r TEXT` tells it what to do, and R goes on then.",
        ),
        (
            [replies("", asks("Which?"))],
            "is kept: `midstream send r TEXT` answers it, and R goes on.",
        ),
        (
            [replies("", call("write"))],
            "is kept until you decide on its tool call: start midstream, then /resume r.",
        ),
        ([inputs.Recovered(was_cut=True)] * CRASHES, "is suspended: R goes on."),
    ],
)
def test_how_a_run_goes_on_fits_how_it_stands(steps: list[Step], words: str) -> None:
    run, _ = tell(PLAIN, *steps)
    assert way_on(run, "r", resume="R") == words


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([], "The run is kept: /resume r goes on with it here."),
        (
            [inputs.Halt()],
            "The run is stopped: after /resume r your next line tells it what to do.",
        ),
        ([replies("", asks("Which?"))], "The run is kept: /resume r shows its question here."),
        ([replies("", call("write"))], "The run is kept: /resume r shows its question here."),
        (
            [inputs.Recovered(was_cut=True)] * CRASHES,
            "The run is kept: /resume r goes on with it here.",
        ),
    ],
)
def test_how_a_run_is_taken_up_here_fits_how_it_stands(steps: list[Step], words: str) -> None:
    run, _ = tell(PLAIN, *steps)
    assert way_on_here(run, "r") == words
