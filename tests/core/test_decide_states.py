"""States: their order, their transitions, and how a run begins and ends."""

import pytest
from decide_kit import (
    ROLES,
    STOP_STATE,
    check,
    define,
    dispositions,
    fails,
    flow,
    go,
    handler,
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
from midstream.core.decide.decide import decide
from midstream.core.pending import handler_key
from midstream.core.routing import Destination
from midstream.core.run import Run
from midstream.language.plan import chat_definition
from midstream.language.spec import Context, Input, Role, StartingMessage, State

FULL = flow(
    state("start", "dude", pre_handler="pre", post_handler="post", transition_handler="go"),
    state("next"),
)


def test_a_state_runs_pre_then_the_turn_then_post_then_the_transition() -> None:
    run, facts = tell(
        FULL, handler(a=1), replies("hello"), handler(b=2), handler("next"), input=None
    )

    assert kinds(facts) == [
        "run_started",
        "state_transition",
        "handler_ran",
        "agent_responded",
        "handler_ran",
        "handler_ran",
        "state_transition",
        "state_transition",
        "workflow_output",
        "run_finished",
    ]
    assert [fact.slot for fact in of(facts, e.HandlerRan)] == [
        "pre_handler",
        "post_handler",
        "transition_handler",
    ]
    assert run.common_data == {"a": 1, "b": 2}
    assert run.status == "finished"


def test_without_a_post_handler_the_reply_joins_the_context() -> None:
    run, _ = tell(flow(state("start", "dude")), replies("hello"), input=None)

    assert words(run.contexts["talk"]) == [("dude", "hello")]


def test_with_a_post_handler_the_handler_decides_what_joins_the_context() -> None:
    workflow = flow(state("start", "dude", post_handler="post"))
    add = e.ContextChange(context="talk", action="add", role="assistant", text="HELLO")
    run, _ = tell(workflow, replies("hello"), handler(contexts=[add]), input=None)

    assert words(run.contexts["talk"]) == [("assistant", "HELLO")]
    assert run.visit.last_response is not None
    assert run.visit.last_response.text == "hello"


def test_a_handler_can_clear_a_context_to_its_starting_messages() -> None:
    first = StartingMessage(role="system", content="be brief")
    context = Context(name="talk", starting_messages=(first,))
    workflow = flow(
        state("start", "dude", transition_handler="go"), contexts=(context, Context(name="court"))
    )
    clear = e.ContextChange(context="talk", action="clear")
    run, _ = tell(workflow, replies("hello"), handler(contexts=[clear]))

    assert words(run.contexts["talk"]) == [("system", "be brief")]


def test_the_first_agent_hears_the_runs_input() -> None:
    run, _ = tell(flow(state("start", "dude")), input="tidy the shed")

    assert words(run.contexts["talk"]) == [("@user", "tidy the shed")]


def test_a_pre_handler_says_itself_what_the_first_agent_hears() -> None:
    run, _ = tell(flow(state("start", "dude", pre_handler="pre")), handler(), input="tidy the shed")

    assert run.contexts["talk"] == ()


def test_a_removed_key_is_gone_from_common_data() -> None:
    workflow = flow(state("start", pre_handler="pre", transition_handler="go"))

    def removes(run: Run) -> inputs.AnyInput:
        return inputs.HandlerReturned(key=handler_key(run), removed=("a",))

    run, _ = tell(workflow, handler(a=1, b=2), removes)

    assert run.common_data == {"b": 2}


def test_a_transition_says_who_chose_it() -> None:
    workflow = flow(
        state("start", transition_handler="go"), state("next", next="last"), state("last")
    )
    _, facts = tell(workflow, handler("next"))

    assert [(f.source, f.target, f.reason) for f in of(facts, e.StateTransition)] == [
        ("", "start", "started"),
        ("start", "next", "go"),
        ("next", "last", "next"),
        ("last", "stop", "no transition given"),
    ]


def test_a_transition_handler_that_returns_nothing_leaves_it_to_next() -> None:
    workflow = flow(state("start", transition_handler="go", next="other"), state("other", "dude"))
    run, _ = tell(workflow, handler(None))

    assert run.visit.state == "other"


@pytest.mark.parametrize(
    ("chosen", "error", "hint"),
    [
        ("nxet", "leads to 'nxet'", "Did you mean 'next'?"),
        (7, "returned 7", "Return the name of the next state"),
        ("$interrupted", "no interrupted state", "at most once"),
    ],
)
def test_a_handler_that_chooses_what_is_no_state_fails_the_run(
    chosen: object, error: str, hint: str
) -> None:
    workflow = flow(state("start", transition_handler="go"), state("next"))
    run, facts = tell(workflow, handler(chosen))

    (failed,) = of(facts, e.RunFailed)
    assert error in failed.error
    assert hint in failed.hint
    assert (failed.fault, failed.state) == ("author", "start")
    assert run.status == "failed"


def test_a_handler_that_changes_an_unknown_context_fails_the_run() -> None:
    change = e.ContextChange(context="tlak", action="add", text="x")
    run, facts = tell(flow(state("start", pre_handler="pre")), handler(contexts=[change]))

    assert "'tlak'" in run.error
    assert of(facts, e.RunFailed)[0].hint == "Did you mean 'talk'?"


def test_a_handler_that_raises_fails_the_run_and_returns_what_was_typed() -> None:
    def raises(run: Run) -> inputs.AnyInput:
        return inputs.HandlerFailed(key=handler_key(run), error="pre raised", hint="see line 3")

    workflow = flow(state("start", pre_handler="pre"))
    run, facts = tell(workflow, says("and more", policy="queue"), raises)

    assert kinds(facts)[-2:] == ["input_disposed", "run_failed"]
    assert dispositions(run) == ["rejected"]
    assert run.error == "pre raised"


def test_states_that_lead_round_in_silence_fail_the_run() -> None:
    workflow = flow(state("start", next="other"), state("other", next="start"))
    run, facts = tell(workflow)

    assert run.status == "failed"
    assert "transitions in a row" in run.error
    assert of(facts, e.RunFailed)[0].fault == "author"


def test_a_line_a_running_handler_logs_is_output() -> None:
    def logs(run: Run) -> inputs.AnyInput:
        return inputs.HandlerLogged(key=handler_key(run), text="half-way")

    _, facts = tell(flow(state("start", pre_handler="pre")), logs)

    assert facts[-1] == e.WorkflowOutput(text="half-way")


# --- the turn fails ---------------------------------------------------------------------------


def test_a_failing_model_fails_the_run() -> None:
    run, facts = tell(flow(state("start", "dude")), fails("429 ten times", shown="I thi"))

    assert kinds(facts)[-2:] == ["agent_failed", "run_failed"]
    assert of(facts, e.RunFailed)[0].fault == "world"
    assert run.contexts["talk"][-1].interrupted
    assert run.contexts["talk"][-1].text == "I thi"


def test_on_failure_says_where_a_failed_turn_leads() -> None:
    workflow = flow(state("start", "dude", on_failure="sorry"), state("sorry", "critic"))
    run, facts = tell(workflow, fails())

    assert run.visit.state == "sorry"
    assert facts[-1] == e.StateTransition(source="start", target="sorry", reason="model error")


def test_on_failure_to_no_state_fails_the_run() -> None:
    run, _ = tell(flow(state("start", "dude", on_failure="srory")), fails())

    assert run.status == "failed"
    assert "'srory'" in run.error


def test_words_queued_during_a_failing_turn_are_acted_on_after_it() -> None:
    chat = chat_definition("dude", Role(), {})
    run, _ = tell(chat, says("hi"), says("one more thing", policy="queue"), fails(), input=None)

    assert dispositions(run) == ["answered", "queued"]
    assert run.visit.phase == "turn"
    assert words(run.contexts["chat"])[-1] == ("@user", "one more thing")


# --- the end ----------------------------------------------------------------------------------


def test_stop_names_the_output_by_its_path() -> None:
    stop = State(name="stop", input="common_data.report.lines.1")
    workflow = flow(state("start", pre_handler="pre"), stop)
    run, facts = tell(workflow, handler(report={"lines": ["a", "b"]}))

    assert run.output == "b"
    assert of(facts, e.WorkflowOutput) == [e.WorkflowOutput(text="b", kind="result")]


@pytest.mark.parametrize(
    "where", ["common_data.nothing", "common_data.a.x", "nowhere", "common_data.list.²", "input.9"]
)
def test_an_output_nobody_wrote_is_said_and_the_last_reply_stands_in(where: str) -> None:
    workflow = flow(
        state("start", "dude", transition_handler="go"), State(name="stop", input=where)
    )
    run, facts = tell(workflow, replies("fine"), handler(a=1, list=[1]))

    assert run.output == "fine"
    log, result = of(facts, e.WorkflowOutput)
    assert where in log.text
    assert result == e.WorkflowOutput(text="fine", kind="result")


def test_without_a_path_the_last_reply_is_the_output() -> None:
    run, _ = tell(flow(state("start", "dude")), replies("fine"))

    assert run.output == "fine"


def test_an_output_that_is_no_text_is_kept_as_it_is() -> None:
    workflow = flow(state("start", pre_handler="pre"), State(name="stop", input="common_data"))
    _, facts = tell(workflow, handler(a=1))

    assert of(facts, e.WorkflowOutput) == []
    assert facts[-1] == e.RunFinished(output={"a": 1})


def test_after_the_end_nothing_is_true_any_more() -> None:
    run, _ = tell(flow(state("start", "dude")), replies("fine"))
    late: list[inputs.AnyInput] = [
        inputs.UserSaid(id="x", to=Destination(text="hello?"), at=0.0),
        inputs.Stop(reason="again"),
        inputs.Recovered(),
        inputs.Start(definition=define(FULL)),
    ]

    for input in late:
        assert decide(run, input) == ()


def test_before_the_start_nothing_is_true_yet() -> None:
    assert decide(Run(id="r"), inputs.Stop(reason="early")) == ()
    assert decide(Run(id="r"), inputs.UserSaid(id="x", to=Destination(text="hello?"), at=0.0)) == ()


def test_a_second_start_changes_nothing() -> None:
    run, _ = tell(FULL)

    assert decide(run, inputs.Start(definition=define(FULL))) == ()


# --- waiting for words ------------------------------------------------------------------------


def test_on_user_input_the_first_line_becomes_the_input() -> None:
    workflow = flow(
        state("start", "dude"),
        start_condition="on_user_input",
        input=Input(name="wish", description="What shall I build?"),
    )
    run, facts = tell(workflow, input=None)

    (question,) = of(facts, e.QuestionAsked)
    assert (question.kind, question.text, question.schema) == ("input", "What shall I build?", None)
    assert run.visit.phase == "waiting"

    run, facts = go(run, says("a shed"))

    assert run.input == "a shed"
    assert dispositions(run) == ["answered"]
    assert path(facts) == ["start"]
    assert words(run.contexts["talk"]) == [("@user", "a shed")]


def test_on_user_input_with_an_input_given_starts_at_once() -> None:
    run, _ = tell(flow(state("start", "dude"), start_condition="on_user_input"), input="a shed")

    assert run.visit.state == "start"


@pytest.mark.parametrize(
    ("type_name", "schema"), [("integer", {"type": "integer"}), ("file_path", None)]
)
def test_an_input_that_is_no_text_is_asked_with_a_schema(type_name: str, schema: object) -> None:
    wanted = Input(type=type_name)
    workflow = flow(state("start"), start_condition="on_user_input", input=wanted)
    _, facts = tell(workflow, input=None)

    assert of(facts, e.QuestionAsked)[0].schema == schema


def test_a_state_that_awaits_input_waits_and_its_agent_hears_the_words() -> None:
    workflow = flow(state("start", "dude", awaits_input=True, pre_handler="pre"))
    run, _ = tell(workflow, input=None)
    assert (run.visit.phase, run.is_parked) == ("waiting", True)

    run, facts = go(run, says("hello"))

    assert e.WordsJoined(context="talk", text="hello") in facts
    assert run.visit.phase == "pre"


# --- chat -------------------------------------------------------------------------------------


def chat() -> Run:
    return tell(chat_definition("dude", ROLES["dude"], {}), input=None)[0]


def test_a_chat_waits_for_words_answers_and_waits_again() -> None:
    run = chat()
    run, _ = go(run, says("hi"), replies("hello"), says("how are you"), replies("fine"))

    assert words(run.contexts["chat"]) == [
        ("@user", "hi"),
        ("dude", "hello"),
        ("@user", "how are you"),
        ("dude", "fine"),
    ]
    assert run.visit.phase == "waiting"
    assert dispositions(run) == ["answered", "answered"]


def test_a_failing_model_leaves_the_chat_alive() -> None:
    run = chat()
    run, facts = go(run, says("hi"), fails("500"))

    assert of(facts, e.AgentFailed)[0].error == "500"
    assert run.visit.phase == "waiting"


def test_words_during_a_chat_turn_halt_it_and_are_answered_next() -> None:
    run = chat()
    run, _ = go(run, says("tell me all"), says("shorter", shown="Once upon"), replies("Ok."))

    assert [(m.author, m.text, m.interrupted) for m in run.contexts["chat"]] == [
        ("@user", "tell me all", False),
        ("dude", "Once upon", True),
        ("@user", "shorter", False),
        ("dude", "Ok.", False),
    ]
    assert run.visit.phase == "waiting"


def test_words_in_a_waiting_start_without_resume_are_not_asked_for_again() -> None:
    workflow = flow(state("start", "dude", awaits_input=True, next="start"))
    run, _ = tell(workflow, says("hi"), says("no, bye"), input=None)

    assert run.visit.phase == "turn"
    assert words(run.contexts["talk"]) == [("@user", "hi"), ("@user", "no, bye")]


def test_a_long_chat_keeps_few_things_open() -> None:
    run = chat()
    for n in range(30):
        run, _ = go(run, says(f"line {n}"), replies("yes"))

    assert len(run.inbox.open_questions) == 1
    assert run.inbox.undelivered == ()


# --- stopping ---------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_stop_ends_the_run_in_every_phase(steps: int) -> None:
    before = [handler(), replies("hello"), handler()][:steps]
    run, facts = tell(FULL, *before, inputs.Stop(reason="bye"))

    assert facts[-1] == e.RunStopped(reason="bye")
    assert run.status == "stopped"


def test_stop_closes_what_is_open_and_returns_what_was_not_delivered() -> None:
    run, _ = tell(flow(state("start", "dude", awaits_input=True)), input=None)
    run, facts = go(run, inputs.Stop(reason="bye"))

    assert kinds(facts) == ["interrupted", "question_superseded", "run_stopped"]
    check(run, run, [])


def test_stop_is_a_place_of_its_own() -> None:
    run, facts = tell(flow(STOP_STATE, state("start")))

    assert path(facts) == ["start", "stop"]
    assert run.status == "finished"
