"""Every kind of state at any moment: words before, during and after its work, halts, crashes."""

from typing import Any

import pytest
from decide_kit import (
    OBJECT,
    Step,
    approves,
    asks,
    begins,
    call,
    check,
    define,
    dispositions,
    done,
    flow,
    go,
    handler,
    keys,
    of,
    path,
    replayed,
    replies,
    rings,
    says,
    state,
    tell,
    within,
    words,
)

from midstream.core import events as e
from midstream.core.codec import decode_run, encode_run
from midstream.core.inputs import Halt, Recovered, Stop
from midstream.core.run import Run
from midstream.language import spec
from midstream.language.names import Json

BACK = state("resume", "critic", next="$interrupted")
THEN = state("then", "dude")
INNER = flow(state("start", "dude", prompt="Inner."))

KINDS: dict[str, tuple[spec.State, tuple[Step, ...]]] = {
    "prompt": (
        state("start", "dude", prompt="Go.", next="then"),
        (replies("", call("shell")), done("call_1"), replies("made")),
    ),
    "schema": (
        state("start", "dude", output_schema=OBJECT, save_as="out", next="then"),
        (replies("no"), replies("", call("submit", a=1))),
    ),
    "once": (spec.State(name="start", tool="shell", next="then"), (done("call_1"),)),
    "approved": (
        spec.State(name="start", tool="write", next="then"),
        (approves("q1"), done("call_1")),
    ),
    "ask": (spec.State(name="start", ask="Which?", next="then"), (says("src", "q1"),)),
    "wait": (
        spec.State(name="start", wait=5.0, next="then"),
        (begins("wait", 5.0), rings("wait")),
    ),
    "parallel": (
        spec.State(name="start", parallel=("left", "right"), next="then"),
        (within("left", replies("l")), within("right", done("call_1"))),
    ),
    "for_each": (
        spec.State(
            name="start", for_each=spec.ForEach(items="variables.items", state="left"), next="then"
        ),
        (within("1", replies("a")), within("2", replies("b"))),
    ),
    "workflow": (
        spec.State(name="start", workflow="inner", next="then"),
        (within("inner", replies("i")),),
    ),
    "retried": (
        spec.State(
            name="start", tool="look", retry=spec.Retry(backoff_s=1), timeout_s=9, next="then"
        ),
        (
            begins("timeout", 9.0),
            done("call_1", outcome="failed"),
            begins("retry", 1.0),
            rings("retry"),
            done("call_2"),
        ),
    ),
}
MOMENTS = [(kind, moment) for kind, (_, steps) in KINDS.items() for moment in range(len(steps))]
EVERY_MOMENT = pytest.mark.parametrize(("kind", "moment"), MOMENTS)


def workflow_of(kind: str) -> spec.Workflow:
    others = (state("left", "dude", prompt="L"), spec.State(name="right", tool="shell"), THEN, BACK)
    return flow(KINDS[kind][0], *others, variables={"items": ["a", "b"]})


def begun(kind: str, moment: int) -> tuple[Run, list[Any]]:
    """Return a run in a state of the kind after some of what can happen in it."""
    return tell(define(workflow_of(kind), inner=INNER), *KINDS[kind][1][:moment])


def let_stop(run: Run) -> tuple[Run, list[Any]]:
    """Let the calls that are being stopped end; what became of them is not known."""
    facts: list[Any] = []
    for key in keys(run):
        if run.visit.phase == "halting" and key[-2] == "tool":
            step = done(str(key[-1]), outcome="unknown")
            place = "/".join(str(part) for part in key[2:-3:3])
            run, more = go(run, within(place, step) if place else step)
            facts += more
    return run, facts


@EVERY_MOMENT
def test_words_lead_to_resume_and_back_and_nothing_is_done_twice(kind: str, moment: int) -> None:
    run, before = begun(kind, moment)
    run, halting = go(run, says("wait", policy="interrupt"))
    run, stopped = let_stop(run)
    assert run.visit.state == "resume"
    assert dispositions(run)[-1] == "interrupted"
    run, after = go(run, replies("Sure."))

    assert run.visit.state == "start"
    assert run.visits["start"] == 1
    facts = [*before, *halting, *stopped, *after]
    prompted = [fact.branch for fact in of(facts, e.Prompted)]
    assert len(set(prompted)) == len(prompted), "a prompt is put once"
    unsure = {f.call_id for f in of(facts, e.ToolReturned) if f.outcome in ("unknown", "stopped")}
    by_states = {f.call.id for f in of(facts, e.CallPlanned) if f.call.name == "shell"}
    asked = {f.call_id for f in of(after, e.QuestionAsked)}
    assert unsure & by_states == asked & by_states, "what may have happened is asked about"
    assert not [f for f in of(after, e.ToolCalled) if f.name == "shell"], (
        "no once call is made again"
    )


@EVERY_MOMENT
def test_a_bare_stop_holds_and_words_then_go_on(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    run, _ = go(run, Halt())
    run, _ = let_stop(run)
    assert (run.visit.phase, keys(run), run.is_parked) == ("held", [], True)
    assert not run.inbox.open_questions, "what is held asks nothing"
    assert go(run, Halt())[1] == []
    run, _ = go(run, says("go on"), replies("Sure."))

    assert run.visit.state == "start"
    assert run.visits["start"] == 1


@EVERY_MOMENT
def test_words_twice_are_one_halt_or_two_and_lead_back_once(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    run, _ = go(run, says("wait", policy="interrupt"), says("really"))
    run, _ = let_stop(run)
    run, _ = go(run, says("now"), replies("Sure."))

    assert run.visit.state == "start"
    assert dispositions(run)[-3:] == ["interrupted"] * 3
    assert run.common_data["resume_input"].splitlines()[-1] == "now"
    assert run.halt.cuts == ()


@EVERY_MOMENT
def test_a_queued_line_comes_when_the_state_is_done(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    run, _ = go(run, says("then this", policy="queue"))
    assert (run.visit.state, dispositions(run)[-1]) == ("start", None)
    run, facts = go(run, *KINDS[kind][1][moment:])

    assert path(facts, "")[-1] == "resume"
    assert dispositions(run)[-1] == "queued" or "queued" in dispositions(run)
    run, _ = go(run, replies("Yes."))
    assert run.visit.state == "then"


@EVERY_MOMENT
def test_a_steering_line_joins_a_turn_or_waits(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    run, _ = go(run, says("mind this", policy="steer"))

    assert run.visit.state == "start"
    is_heard = run.visit.phase == "turn" and run.visit.turn is not None and not run.visit.turn.calls
    assert dispositions(run)[-1] == ("steered" if is_heard else None)


@EVERY_MOMENT
def test_stop_ends_it_once_its_tools_have_stopped(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    run, _ = go(run, says("later", policy="queue"), Stop(reason="enough"))
    run, _ = let_stop(run)

    assert run.status == "stopped"
    assert dispositions(run)[-1] == "rejected"
    assert keys(run) == []


@EVERY_MOMENT
def test_a_crash_repeats_nothing_that_may_have_happened(kind: str, moment: int) -> None:
    run, facts = begun(kind, moment)
    again = replayed(facts)
    assert again == run
    assert decode_run(*encode_run(run)) == run
    run, after = go(again, Recovered())

    assert run.visit.state == "start"
    assert not of(after, e.ToolCalled)
    assert not of(after, e.Prompted)
    in_doubt = [k for k in keys(again) if k[-2] == "tool" and kind not in ("retried", "approved")]
    assert len(of(after, e.QuestionAsked)) == len(in_doubt) or kind == "approved"


@EVERY_MOMENT
def test_a_crash_while_it_is_halted_ends_the_halt(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    run, _ = go(run, says("wait", policy="interrupt"), Recovered())

    assert run.visit.state == "resume"
    assert dispositions(run)[-1] == "interrupted"
    check(run, run, [])


@EVERY_MOMENT
def test_a_definition_that_is_the_same_fits_anywhere(kind: str, moment: int) -> None:
    run, _ = begun(kind, moment)
    same = define(workflow_of(kind), inner=INNER)
    run, facts = go(run, Recovered(definition=same))

    assert run.definition == same
    assert of(facts, e.Prompted) == []
    assert decode_run(*encode_run(run)) == run


@pytest.mark.parametrize("kind", KINDS)
def test_it_leads_on_when_it_is_done(kind: str) -> None:
    run, facts = begun(kind, len(KINDS[kind][1]))

    assert run.visit.state == "then"
    assert of(facts, e.QuestionSuperseded) == []


# --- a state's own call ---------------------------------------------------------------------------


def test_a_halt_while_a_person_is_asked_what_became_of_a_call_asks_again() -> None:
    run, _ = begun("once", 0)
    run, _ = go(run, Recovered(), says("first this", policy="interrupt"), replies("Yes."))
    (question,) = run.inbox.open_questions
    run, _ = go(run, says("and this", policy="interrupt"), replies("Yes."))
    (again,) = run.inbox.open_questions

    assert (question.call_id, again.call_id) == ("call_1", "call_1")
    assert question.id != again.id
    run, facts = go(run, says("It did not happen", again.id))
    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_2"]
    assert of(facts, e.ToolReturned) == [], "a call has one end"


@pytest.mark.parametrize("said", ["It happened", "It did not happen"])
def test_a_run_that_begins_anew_asks_of_the_call_in_doubt_first(said: str) -> None:
    run, _ = tell(flow(spec.State(name="start", tool="shell", next="then"), THEN), says("wait"))
    run, facts = go(run, done("call_1", outcome="unknown"))
    (question,) = run.inbox.open_questions
    assert path(facts) == ["start"], "there is no resume"
    assert of(facts, e.ToolCalled) == []
    run, facts = go(run, says(said, question.id))

    assert run.visit.state == ("then" if said == "It happened" else "start")
    assert len(of(facts, e.ToolCalled)) == (said != "It happened")
    run, facts = go(run, Recovered())
    assert len(of(facts, e.QuestionAsked)) == (said != "It happened"), "it is asked about once"


def test_a_call_in_doubt_is_not_forgotten_over_a_halt_before_it_is_asked_about() -> None:
    begin = spec.State(name="start", tool="shell", pre_handler="pre")
    run, _ = tell(flow(begin), handler(), says("wait"), done("call_1", outcome="stopped"))
    run, _ = go(run, says("and wait"))
    assert run.visit.phase == "pre"
    run, facts = go(run, handler())

    assert [fact.call_id for fact in of(facts, e.QuestionAsked)] == ["call_1"]


def test_a_call_that_is_completed_while_it_is_stopped_has_done_the_states_work() -> None:
    run, _ = begun("once", 0)
    run, _ = go(run, Halt(), done("call_1", '{"n": 1}'))
    assert run.visit.phase == "held"
    run, facts = go(run, says("hm"), replies("Yes."))

    assert path(facts) == ["resume", "start", "then"]
    assert of(facts, e.ToolCalled) == []


def test_an_answer_of_a_state_may_be_of_a_schema() -> None:
    form = spec.Ask(question="How many?", schema={"type": "integer"})
    run, _ = tell(flow(spec.State(name="start", ask=form, save_as="n")))
    run, _ = go(run, says("many", "q1", problem="no integer"))
    assert dispositions(run) == ["rejected"]
    run, _ = go(run, says("3", "q1", answer=3))

    assert run.common_data == {"n": 3}


def test_choices_are_templates_and_an_answer_is_one_of_them() -> None:
    ask = spec.Ask(question="Which of ${input}?", choices=("${variables.a}", "none"))
    run, _ = tell(flow(spec.State(name="start", ask=ask), variables={"a": ["x"]}), says("1", "q1"))

    assert run.inbox.questions[0].choices == ('["x"]', "none")
    assert run.output == '["x"]', "what was chosen, not the number it was chosen by"


# --- sub-workflows ----------------------------------------------------------------------------------


def test_a_sub_workflow_leaves_what_its_mapping_says() -> None:
    inner = flow(
        state("start", "dude", prompt="${input.n}: ${variables.v}", save_as="report.text"),
        spec.State(name="stop", input="common_data.report"),
    )
    sub = spec.SubWorkflow(
        name="inner",
        input={"n": "${input}"},
        variables={"v": "${variables.w}"},
        output={"a.b": "output.text", "a.c": "common_data.report", "d": "output.none"},
    )
    outer = flow(spec.State(name="start", workflow=sub, save_as="all"), variables={"w": [1]})
    run, facts = tell(define(outer, inner=inner), within("inner", replies("ok")), input=7)

    assert [fact.text for fact in of(facts, e.Prompted)] == ["7: [1]"]
    report: Json = {"text": "ok"}
    assert run.common_data == {"a": {"b": "ok", "c": report}, "d": None, "all": report}


def test_a_part_of_a_list_is_named_by_its_number_in_what_a_sub_workflow_leaves() -> None:
    inner = flow(spec.State(name="start", tool="look"), spec.State(name="stop", input="input"))
    sub = spec.SubWorkflow(
        name="inner",
        input="${input}",
        output={"first": "output.0.name", "second": "output.1.name", "third": "output.2.name"},
    )
    run, _ = tell(
        define(flow(spec.State(name="start", workflow=sub)), inner=inner),
        within("inner", done("call_1")),
        input=[{"name": "a"}, {"name": "b"}],
    )

    assert run.common_data == {"first": "a", "second": "b", "third": None}


def test_a_sub_workflow_without_an_output_leaves_no_words() -> None:
    inner = flow(spec.State(name="start", wait=1.0))
    run, _ = tell(define(flow(spec.State(name="start", workflow="inner"), THEN), inner=inner))
    run, _ = go(run, within("inner", begins("wait", 1.0)), within("inner", rings("wait")))

    assert run.visit.last_response is not None
    assert run.visit.last_response.text == ""


def test_an_agent_in_a_sub_workflow_asks_at_the_top() -> None:
    run, _ = begun("workflow", 0)
    run, _ = go(run, within("inner", replies("", asks("Which?"))))
    (question,) = run.inbox.open_questions
    assert (question.branch, question.number) == ("inner", 1)
    run, _ = go(run, says("src", question.id), within("inner", replies("ok")))

    assert run.visit.state == "then"


def test_words_in_a_sub_workflow_lead_to_its_own_resume() -> None:
    inner = flow(state("start", "dude"), state("resume", "critic", next="$interrupted"))
    outer = flow(spec.State(name="start", workflow="inner"), BACK)
    run, facts = tell(define(outer, inner=inner), says("@inner mind the tests"))

    assert path(facts, "inner") == ["start", "resume"]
    assert path(facts, "") == ["start"]
    run, facts = go(run, Halt(), says("hm"), replies("Sure."))
    assert path(facts, "inner") == ["resume"], "it goes on in its own resume"
    run, facts = go(run, within("inner", replies("Yes.")))
    assert path(facts, "inner") == ["start"]


def test_a_resume_of_branches_is_a_state_like_any() -> None:
    both = spec.State(name="resume", parallel=("left", "right"), next="$interrupted")
    workflow = flow(state("start", "dude"), state("left", "dude"), state("right", "critic"), both)
    run, _ = tell(workflow, says("look"), within("left", replies("l")))
    run, _ = go(run, says("there, too"))
    assert (run.visit.state, len(run.visit.branches)) == ("resume", 2), "new words begin it anew"
    run, _ = go(run, within("left", replies("l")), within("right", replies("r")))

    assert run.visit.state == "start"


def test_handlers_and_prompts_of_one_state_come_in_their_order() -> None:
    begin = state(
        "start", "dude", pre_handler="pre", prompt="${common_data.a}", post_handler="post"
    )
    run, facts = tell(flow(begin), handler(a="hello"), replies("hi"), handler(b=2))

    assert [fact.text for fact in of(facts, e.Prompted)] == ["hello"]
    assert words(run.contexts["talk"])[0] == ("user", "hello")
    assert run.common_data == {"a": "hello", "b": 2}


def test_a_branch_may_have_contexts_of_its_own() -> None:
    left = spec.Branch(
        name="left",
        states=(state("l", "dude"),),
        contexts=(spec.Context(name="talk", max_length=9),),
    )
    run, _ = tell(flow(spec.State(name="start", parallel=(left, "then")), THEN))

    assert run.visit.branches["left"].plan is not None
    assert run.visit.branches["left"].plan.contexts["talk"].max_length == 9
