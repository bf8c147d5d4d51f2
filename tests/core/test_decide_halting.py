"""Implicit input: what unasked words, Esc and stop do to each phase of a run."""

import pytest
from decide_kit import (
    Step,
    asks,
    call,
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
    replies,
    says,
    state,
    tell,
    words,
)

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.conversation import seen_by

HANDLERS = {"pre_handler": "pre", "post_handler": "post", "transition_handler": "go"}
RESUMING = flow(
    state("start", "dude", **HANDLERS),
    state("resume", "dude", next="$interrupted"),
)
PLAIN = flow(state("start", "dude"))
PHASES: dict[str, list[Step]] = {
    "pre": [],
    "turn": [handler()],
    "post": [handler(), replies("hello")],
    "transition": [handler(), replies("hello"), handler()],
}


@pytest.mark.parametrize("phase", PHASES)
def test_unasked_words_halt_every_phase_and_enter_resume(phase: str) -> None:
    run, _ = tell(RESUMING, *PHASES[phase])
    assert run.visit.phase == phase

    run, facts = go(run, says("no, rename", shown="I will"))

    assert kinds(facts) == [
        "input_received",
        "interrupted",
        "input_disposed",
        "state_transition",
        "words_joined",
    ]
    assert of(facts, e.StateTransition) == [
        e.StateTransition(source="start", target="resume", reason="interrupted")
    ]
    assert run.common_data["resume_input"] == "no, rename"
    assert run.common_data["interrupted_state"] == "start"
    assert run.common_data["interrupted_text"] == ("I will" if phase == "turn" else "")
    assert (run.halt.resume_input, run.halt.interrupted_state, run.halt.epoch) == (
        "no, rename",
        "start",
        1,
    )
    assert dispositions(run) == ["interrupted"]


@pytest.mark.parametrize("phase", PHASES)
def test_a_late_reply_of_any_kind_changes_nothing(phase: str) -> None:
    run, _ = tell(RESUMING, *PHASES[phase])
    late: list[Step] = [
        inputs.ModelReplied(key=(1, "model", 1), text="late"),
        inputs.ModelFailed(key=(1, "model", 1), error="late"),
        inputs.HandlerReturned(key=(1, phase, 0), changed={"late": True}, chosen="stop"),
        inputs.ToolFinished(key=(1, "tool", "call_1"), outcome="completed", text="late"),
    ]
    run, _ = go(run, says("no, rename"))

    assert go(run, *late) == (run, [])


@pytest.mark.parametrize(
    ("phase", "owed"),
    [("pre", "pre"), ("turn", "model"), ("post", "post"), ("transition", "transition")],
)
def test_interrupted_goes_on_where_it_was_cut_and_runs_nothing_twice(phase: str, owed: str) -> None:
    run, _ = tell(RESUMING, *PHASES[phase], says("also rename"))
    run, facts = go(run, replies("noted"))

    assert facts[-1] == e.StateTransition(
        source="resume", target="start", reason="next", resumes=True
    )
    assert [key[1] for key in keys(run)] == [owed]
    assert run.visits == {"start": 1, "resume": 1}
    rest = {"pre": 0, "turn": 1, "post": 2, "transition": 3}[phase]
    left = [handler(), replies("hello"), handler(), handler("stop")][rest:]
    run, facts = go(run, *left)
    assert run.status == "finished"
    ran = {"pre": 3, "turn": 2, "post": 2, "transition": 1}[phase]
    assert len(of(facts, e.HandlerRan)) == ran


def test_what_the_cut_state_had_said_is_there_for_its_handlers() -> None:
    run, _ = tell(RESUMING, handler(), replies("hello"), says("also rename"), replies("noted"))

    assert run.visit.phase == "post"
    assert run.visit.last_response is not None
    assert run.visit.last_response.text == "hello"


def test_a_turn_goes_on_after_the_tool_calls_it_had_made() -> None:
    workflow = flow(state("start", "dude"), state("resume", "dude", next="$interrupted"))
    run, _ = tell(workflow, replies("", call("look")), done("call_1"), says("hm"), replies("noted"))

    assert keys(run) == [(3, "model", 2)]


def test_a_turn_cut_among_its_tool_calls_does_not_make_them_again() -> None:
    run, _ = tell(RESUMING, handler(), replies("", call("look")), says("hm"), replies("noted"))

    assert keys(run) == [(3, "model", 2)]
    assert run.contexts["talk"][0].results[0].outcome == "stopped"


def test_a_workflow_that_never_goes_back_keeps_one_cut_a_state() -> None:
    workflow = flow(
        state("start", "dude", next="after"),
        state("after", "dude"),
        state("resume", next="start"),
    )
    run, _ = tell(workflow, says("a"), says("b"), replies("hi"), says("c"), says("d"))

    assert [cut.state for cut in run.halt.cuts] == ["start"]
    assert run.halt.interrupted_state == "start"


def test_without_a_resume_state_the_workflow_starts_again_and_keeps_its_contexts() -> None:
    run, facts = tell(PLAIN, replies("", call("look")), done("call_1"), says("more"), input="tidy")

    assert path(facts) == ["start", "start"]
    assert words(run.contexts["talk"]) == [("@user", "tidy"), ("dude", ""), ("@user", "more")]


def test_a_resume_state_with_a_pre_handler_decides_itself_what_the_words_become() -> None:
    workflow = flow(state("start", "dude"), state("resume", "dude", pre_handler="pre"))
    run, facts = tell(workflow, says("more"), input=None)

    assert run.visit.phase == "pre"
    assert run.contexts["talk"] == ()
    assert run.common_data["resume_input"] == "more"
    assert "words_joined" not in kinds(facts)


def test_a_resume_state_without_an_agent_lets_the_cut_agent_hear_the_words() -> None:
    workflow = flow(state("start", "judge"), state("resume", transition_handler="go"))
    run, _ = tell(workflow, says("more"), input=None)

    assert words(run.contexts["court"]) == [("@user", "more")]


def test_words_that_cut_a_state_without_an_agent_are_heard_by_the_next_agent_once() -> None:
    workflow = flow(
        state("start", tool="look", next="talk"),
        state("talk", "dude", prompt="Go on.", next="more"),
        state("more", "dude", prompt="And?"),
    )
    run, facts = tell(workflow, says("be brief"), says("and kind"), input=None)
    assert path(facts) == ["start", "start", "start"]

    run, _ = go(run, done("call_3"), replies("Well."))
    heard = ["be brief\nand kind", "Go on.", "Well.", "And?"]
    assert [text for _, text in words(run.contexts["talk"])] == heard


def test_typed_words_are_the_users_to_agents_on_both_sides() -> None:
    run, _ = tell(flow(state("start", "critic")), says("more"), input="tidy")
    messages = run.contexts["talk"]

    for agent, side in (("dude", "assistant"), ("critic", "user")):
        seen = seen_by(messages, agent=agent, side=side)  # type: ignore[arg-type]
        assert [(m.role, m.text) for m in seen] == [("user", "tidy"), ("user", "more")]


# --- running tools ----------------------------------------------------------------------------


def test_read_and_idempotent_calls_stop_at_once() -> None:
    for one, other in (("look", "look"), ("put", "look")):
        run, _ = tell(PLAIN, replies("on it", call(one), call(other)))
        run, facts = go(run, says("no"))

        ended = ["stopped", "stopped" if one == "look" else "not_run"]
        assert [fact.outcome for fact in of(facts, e.ToolReturned)] == ended
        assert path(facts) == ["start"]


def test_a_once_call_is_stopped_softly_and_its_outcome_awaited() -> None:
    run, _ = tell(PLAIN, replies("", call("look"), call("shell"), asks("Sure?"), call("write")))
    run, facts = go(run, done("call_1"), comes("call_2"), says("no"))
    assert run.visit.phase == "halting"
    assert keys(run) == [(1, "tool", "call_2")]
    assert dispositions(run) == [None]

    run, facts = go(run, done("call_2", "SIGINT", "stopped"))
    assert kinds(facts) == [
        "tool_returned",
        "input_disposed",
        "state_transition",
        "words_joined",
    ]
    results = run.contexts["talk"][-2].results
    assert [r.call_id for r in results] == ["call_1", "call_2", "call_3", "call_4"]
    assert [r.outcome for r in results] == ["completed", "stopped", "not_run", "not_run"]
    assert words(run.contexts["talk"])[-1] == ("@user", "no")


def test_a_finished_result_is_kept_as_it_is() -> None:
    run, _ = tell(PLAIN, replies("", call("shell"), call("look")), done("call_1", "all 3 passed"))
    run, _ = go(run, says("no"))

    assert run.contexts["talk"][-2].results[0].text == "all 3 passed"


def test_more_words_while_a_tool_stops_join_the_same_halt() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), says("no"), says("rename it", policy="queue"))
    assert run.halt.epoch == 1

    run, _ = go(run, done("call_1", "", "stopped"))

    assert run.halt.resume_input == "no\nrename it"
    assert dispositions(run) == ["interrupted", "interrupted"]
    assert words(run.contexts["talk"])[-1] == ("@user", "no\nrename it")


def test_words_during_resume_are_a_new_halt() -> None:
    run, _ = tell(RESUMING, says("no"))
    run, facts = go(run, says("again", shown="Yes, I"))

    assert of(facts, e.Interrupted)[0].epoch == 2
    assert run.visit.state == "resume"
    assert run.halt.resume_input == "again"
    assert [text for _, text in words(run.contexts["talk"])] == ["no", "Yes, I", "again"]


def test_words_that_no_handler_has_seen_yet_are_not_lost_to_later_ones() -> None:
    workflow = flow(state("start", "dude"), state("resume", "dude", pre_handler="pre"))
    run, _ = tell(workflow, says("no"), says("again"))
    assert run.halt.resume_input == "no\nagain"

    run, _ = go(run, inputs.Halt(), says("now"))
    assert run.common_data["resume_input"] == "no\nagain\nnow"

    run, _ = go(run, handler(), says("fresh"))
    assert run.halt.resume_input == "fresh"


def test_going_back_after_a_halt_of_resume_leads_to_what_was_cut_first() -> None:
    run, _ = tell(RESUMING, handler(), says("no"), says("again"), replies("noted"))

    assert (run.visit.state, run.visit.phase) == ("start", "turn")


def test_halts_on_the_way_back_are_gone_back_to_one_by_one() -> None:
    workflow = flow(
        state("start", "dude"),
        state("resume", next="think"),
        state("think", "critic", next="$interrupted"),
    )
    run, _ = tell(workflow, says("one"))
    assert run.visit.state == "think"
    run, _ = go(run, says("two"))
    assert (run.visit.state, run.halt.interrupted_state) == ("think", "think")

    run, facts = go(run, replies("thought"), replies("thought again"))
    assert path(facts) == ["think", "start"]
    run, _ = go(run, replies("done"))
    assert run.status == "finished"


def test_going_back_twice_fails_instead_of_going_round_for_ever() -> None:
    workflow = flow(
        state("start", "dude", next="$interrupted"), state("resume", "dude", next="$interrupted")
    )
    run, _ = tell(workflow, says("no"), replies("noted"), replies("done"))

    assert run.status == "failed"
    assert "no interrupted state is left" in run.error


def test_queued_words_on_the_way_back_do_not_forget_where_it_was_cut() -> None:
    run, _ = tell(RESUMING, handler(), says("no"), says("and", policy="queue"), replies("noted"))
    assert run.visit.state == "resume"
    run, _ = go(run, replies("noted too"))

    assert (run.visit.state, run.visit.phase) == ("start", "turn")


# --- Esc --------------------------------------------------------------------------------------


def test_esc_keeps_what_was_shown_and_holds() -> None:
    run, _ = tell(PLAIN, input=None)
    run, facts = go(run, inputs.Halt(shown=(inputs.Shown(key=(1, "model", 1), text="I thi"),)))

    assert kinds(facts) == ["interrupted"]
    assert (run.visit.phase, run.is_parked) == ("held", True)
    assert run.contexts["talk"][-1].text == "I thi"
    assert run.contexts["talk"][-1].interrupted


def test_words_after_esc_resume() -> None:
    run, _ = tell(RESUMING, inputs.Halt())
    run, facts = go(run, says("go on"))

    assert path(facts) == ["resume"]
    assert dispositions(run) == ["interrupted"]
    assert run.halt.epoch == 1


def test_esc_waits_for_once_tools_before_it_holds() -> None:
    run, _ = tell(PLAIN, replies("", call("shell"), call("look")), inputs.Halt())
    assert run.visit.phase == "halting"

    run, _ = go(run, done("call_1", "", "unknown"))

    assert run.visit.phase == "held"
    assert [r.outcome for r in run.contexts["talk"][-1].results] == ["unknown", "not_run"]


def test_words_during_the_stopping_of_esc_lead_on() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), inputs.Halt(), says("go on"))
    run, facts = go(run, done("call_1"))

    assert path(facts) == ["start"]


@pytest.mark.parametrize("where", ["waiting", "held", "halting"])
def test_esc_where_nothing_runs_changes_nothing(where: str) -> None:
    workflow = flow(state("start", "dude", awaits_input=True))
    steps: dict[str, list[Step]] = {
        "waiting": [],
        "held": [says("hi"), inputs.Halt()],
        "halting": [says("hi"), replies("", call("shell")), says("no")],
    }
    run, _ = tell(workflow, *steps[where], input=None)
    assert run.visit.phase == where

    assert go(run, inputs.Halt()) == (run, [])


# --- stop -------------------------------------------------------------------------------------


def test_stop_waits_for_once_tools_and_refuses_words_meanwhile() -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), inputs.Stop(reason="bye"))
    run, facts = go(run, says("wait"))
    assert of(facts, e.InputDisposed)[0].reason == "the run is stopping"

    run, facts = go(run, done("call_1", "", "stopped"))

    assert facts[-1] == e.RunStopped(reason="bye")
    assert run.contexts["talk"][-1].results[0].outcome == "stopped"


@pytest.mark.parametrize("first", [says("no"), inputs.Halt()])
def test_stop_overtakes_a_halt(first: Step) -> None:
    run, _ = tell(PLAIN, replies("", call("shell")), first, inputs.Stop(reason="bye"))
    run, facts = go(run, done("call_1", "", "stopped"))

    assert facts[-1] == e.RunStopped(reason="bye")
    assert set(dispositions(run)) <= {"rejected"}


def test_stop_ends_a_held_run() -> None:
    run, _ = tell(PLAIN, inputs.Halt(), inputs.Stop(reason="bye"))

    assert run.status == "stopped"


def test_the_conversation_after_a_halt_ends_with_the_users_words() -> None:
    run, facts = tell(PLAIN, replies("a", call("look"), call("look")), says("no"), replies("ok"))

    assert of(facts, e.AgentResponded)[-1].is_final
    assert [text for _, text in words(run.contexts["talk"])] == ["tidy", "a", "no", "ok"]


def test_calls_of_a_run_that_is_stopped_do_not_say_the_user_interrupted() -> None:
    _, facts = tell(PLAIN, replies("", call("look"), asks("Which?")), inputs.Stop(reason="bye"))

    assert [fact.result for fact in of(facts, e.ToolReturned)] == ["The run was stopped."] * 2
