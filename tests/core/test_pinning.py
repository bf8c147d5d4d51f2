"""A run and another definition: what has changed, and where the run could not go on."""

from typing import Any

import pytest
from decide_kit import (
    AGENTS,
    ROLES,
    TOOLS,
    Step,
    call,
    comes,
    define,
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
from msgspec.structs import replace

from midstream.core.events import DefinitionChanged
from midstream.core.inputs import Recovered, Stop
from midstream.core.pinning import changes, misfit_of
from midstream.core.run import Run
from midstream.language import spec

FULL = state("start", "dude", pre_handler="pre", post_handler="post", transition_handler="go")
AWAITING = state("start", "dude", awaits_input=True)


# --- what has changed -----------------------------------------------------------------------------


def test_the_same_definition_has_not_changed() -> None:
    assert changes(define(flow(FULL)), define(flow(FULL))) == ()


def test_where_it_was_found_and_its_digest_are_no_change() -> None:
    now = replace(define(flow(FULL)), digest="other", found_as="elsewhere")

    assert changes(define(flow(FULL)), now) == ()


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"workflow": flow(FULL, description="new")}, "description: changed"),
        ({"workflow": flow(FULL, variables={"a": 1})}, "variables: changed"),
        ({"workflow": flow(FULL, state("more"))}, "the state more is new"),
        ({"workflow": flow(state("start"))}, "the state start changed"),
        ({"workflow": flow()}, "the state start is gone"),
        ({"roles": {**ROLES, "dude": spec.Role(systemMessage="be kind")}}, "the role dude changed"),
        ({"roles": {**ROLES, "eve": spec.Role()}}, "the role eve is new"),
        ({"tools": {k: v for k, v in TOOLS.items() if k != "look"}}, "the tool look is gone"),
        ({"tools": {**TOOLS, "put": TOOLS["look"]}}, "the tool put changed"),
        ({"script": "a = 1\n"}, "the script is new"),
    ],
)
def test_a_change_is_named(fields: dict[str, Any], line: str) -> None:
    pinned = define(flow(FULL))

    assert changes(pinned, replace(pinned, **fields)) == (line,)


def test_a_changed_script_is_counted_in_lines() -> None:
    pinned = replace(define(flow(FULL)), script="a\nb\nc\n")

    assert changes(pinned, replace(pinned, script="a\nx\ny\nc\n")) == (
        "script.py changed (+2 -1 lines)",
    )
    assert changes(pinned, replace(pinned, script=None)) == ("the script is gone",)


def test_script_lines_that_look_like_a_difference_are_counted_right() -> None:
    pinned = replace(define(flow(FULL)), script="-- a\n++ b\n")

    assert changes(pinned, replace(pinned, script="")) == ("script.py changed (+0 -2 lines)",)


# --- would it fit ---------------------------------------------------------------------------------


def at(phase: str) -> Run:
    """Return a run of FULL (or AWAITING) that stands in this phase of `start`."""
    if phase == "waiting":
        return tell(flow(AWAITING), input=None)[0]
    order = ["pre", "turn", "post", "transition"]
    steps: list[Step] = [handler(), replies("hi"), handler()]
    run, _ = tell(flow(FULL), *steps[: order.index(phase)])
    assert run.visit.phase == phase
    return run


@pytest.mark.parametrize("phase", ["waiting", "pre", "turn", "post", "transition"])
def test_a_run_fits_what_it_is_pinned_to(phase: str) -> None:
    run = at(phase)
    assert run.definition is not None

    assert misfit_of(run, run.definition) == ""


@pytest.mark.parametrize(
    ("phase", "now"),
    [
        ("waiting", replace(AWAITING, awaits_input=False)),
        ("pre", replace(FULL, pre_handler=None)),
        ("turn", replace(FULL, agent=None)),
        ("post", replace(FULL, post_handler=None)),
        ("transition", replace(FULL, transition_handler=None)),
    ],
)
def test_a_state_without_the_phase_the_run_is_in_does_not_fit(phase: str, now: spec.State) -> None:
    assert misfit_of(at(phase), define(flow(now))) == f"the state 'start' has no {phase} any more"


def test_what_comes_later_in_the_state_may_change() -> None:
    now = replace(FULL, post_handler=None, transition_handler="other", next="stop")

    assert misfit_of(at("turn"), define(flow(now))) == ""


def test_another_agent_in_the_midst_of_a_turn_does_not_fit() -> None:
    now = define(flow(replace(FULL, agent="critic")))

    assert misfit_of(at("turn"), now) == "the state 'start' has another agent"
    assert misfit_of(at("pre"), now) == ""


def test_an_agent_that_is_gone_does_not_fit() -> None:
    now = define(flow(FULL, agents=AGENTS[1:]))

    assert misfit_of(at("turn"), now) == "it has no agent 'dude', whose turn it is"


def test_a_state_that_is_gone_does_not_fit() -> None:
    run, _ = tell(flow(state("start", next="work"), state("work", "dude")))
    now = define(flow(state("start", "dude")))

    assert misfit_of(run, now) == "it has no state 'work', where the run is now"


def test_an_agent_in_no_context_does_not_fit() -> None:
    now = define(flow(FULL, agents=(*AGENTS, spec.Agent(agent_role="dude", context="x", name="y"))))

    assert misfit_of(at("pre"), now) == "it has no context 'x'"


def test_a_run_that_ended_fits_nothing() -> None:
    run, _ = tell(flow(FULL), Stop(reason="bye"))

    assert misfit_of(run, define(flow(FULL))) == "the run has ended"


CUTTABLE = flow(
    state("start", "dude", post_handler="post"),
    state("resume", "critic", next="$interrupted"),
)


def _cut_in_post() -> Run:
    run, _ = tell(CUTTABLE, replies("hi"), says("no"))
    assert (run.visit.state, run.halt.cuts[-1].phase) == ("resume", "post")
    return run


def test_where_an_interruption_cut_the_run_has_to_be_there_still() -> None:
    run = _cut_in_post()
    gone = flow(state("resume", "critic", next="$interrupted"))
    without = flow(state("start", "dude"), state("resume", "critic", next="$interrupted"))

    assert misfit_of(run, define(gone)) == "it has no state 'start', where the run is now"
    assert misfit_of(run, define(without)) == "the state 'start' has no post any more"


def test_a_state_cut_before_it_was_entered_may_change() -> None:
    workflow = flow(
        state("start", "dude", next="work", on_input="queue"),
        state("work", "critic"),
        state("resume", "dude", next="$interrupted"),
    )
    run, _ = tell(workflow, says("and?"), replies("hi"))
    assert run.halt.cuts[-1].phase == "new"
    states = {s.name: s for s in workflow.states}
    now = flow(states["start"], state("work", pre_handler="x"), states["resume"])

    assert misfit_of(run, define(now)) == ""


# --- following it ---------------------------------------------------------------------------------


def recovered(workflow: spec.Workflow | spec.Definition, *steps: Step) -> Step:
    definition = define(workflow) if isinstance(workflow, spec.Workflow) else workflow
    return Recovered(was_cut=False, definition=definition)


def test_the_run_follows_what_a_person_chose() -> None:
    now = flow(
        replace(FULL, post_handler=None, transition_handler=None, next="more"), state("more")
    )
    run, facts = tell(flow(FULL), handler(), recovered(now))
    assert kinds(facts)[-2:] == ["definition_changed", "run_recovered"]

    run, more = go(run, replies("hi"))

    assert path(more) == ["more", "stop"]
    assert replayed([*facts, *more]) == run


def test_contexts_keep_their_messages_and_new_ones_begin() -> None:
    hello = spec.StartingMessage(role="system", content="hello")
    talk, court = spec.Context(name="talk", starting_messages=(hello,)), spec.Context(name="court")
    more = spec.Context(name="more", starting_messages=(hello,))
    works = state("start", "dude", transition_handler="go")
    run, _ = tell(flow(works), replies("hi"))
    run, _ = go(run, recovered(flow(works, contexts=(talk, court, more))))

    assert words(run.contexts["talk"]) == [("@user", "tidy"), ("dude", "hi")]
    assert words(run.contexts["more"]) == [("system", "hello")]


def test_variables_keep_their_values_and_new_ones_begin() -> None:
    run, _ = tell(flow(FULL, variables={"a": 1}), variables={"a": 2})
    run, _ = go(run, recovered(flow(FULL, variables={"a": 3, "b": 4})))

    assert run.variables == {"a": 2, "b": 4}


def test_an_open_call_goes_on_under_it() -> None:
    workflow = flow(state("start", "dude"))
    run, _ = tell(workflow, replies("", call("shell"), call("look")))
    run, _ = go(run, recovered(replace(define(workflow), tools={})))

    assert keys(run) == []
    assert [question.call_id for question in run.inbox.open_questions] == ["call_1"]
    run, _ = go(run, says("1", "q1"), comes("call_2"))
    assert "There is no tool 'look'" in run.contexts["talk"][-1].results[1].text


def test_what_does_not_fit_is_not_followed() -> None:
    run, facts = tell(flow(FULL), recovered(flow(state("start", "dude"))))

    assert not of(facts, DefinitionChanged)
    assert run.definition == define(flow(FULL))
