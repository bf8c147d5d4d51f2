"""Runs within a run: what halts them, what they go on with, what they leave."""

from typing import Any

import pytest
from decide_kit import (
    Step,
    approves,
    asks,
    at,
    begins,
    call,
    define,
    dispositions,
    done,
    fails,
    flow,
    go,
    handler,
    keys,
    kinds,
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
from midstream.core import inputs
from midstream.core.codec import decode_run, encode_run
from midstream.core.decide.decide import judged
from midstream.core.pending import CallTool, handler_key, pending, request_key
from midstream.core.pinning import misfit_of
from midstream.core.run import Run
from midstream.language import spec
from midstream.language.names import Json

BACK = state("resume", "critic", next="$interrupted")


def fan(
    *branches: spec.Branch | str, states: tuple[spec.State, ...] = (), **fields: Any
) -> spec.Workflow:
    """Return a workflow that runs branches and comes back to them after words."""
    start = spec.State(name="start", parallel=branches, save_as="found", **fields)
    return flow(start, *states, BACK, spec.State(name="stop", input="common_data.found"))


def side(name: str, *states: spec.State, **fields: Any) -> spec.Branch:
    return spec.Branch(name=name, states=states, **fields)


LEFT = side("left", state("l", "dude", prompt="L"))
RIGHT = side("right", state("r", "dude", prompt="R"))
SHELL = side("right", spec.State(name="r", tool="shell", save_as="r"))
TWO = fan(LEFT, RIGHT)


def in_flight(run: Run) -> list[str]:
    """Return the tool calls the run is owed."""
    return [effect.call.id for effect in pending(run) if isinstance(effect, CallTool)]


# --- halting ------------------------------------------------------------------------------------


def test_a_bare_stop_waits_for_a_once_call_in_a_branch() -> None:
    run, _ = tell(fan(LEFT, SHELL), inputs.Halt())

    assert run.visit.phase == "halting", (
        "it is not held as long as something in it is being stopped"
    )
    assert in_flight(run) == ["call_1"], "the call is not lost sight of"
    run, facts = go(run, within("right", done("call_1", "done after all")))
    assert (run.visit.phase, at(run, "right").visit.phase) == ("held", "held")
    assert [fact.outcome for fact in of(facts, e.ToolReturned)] == ["completed"]


def test_what_was_held_goes_on_and_nothing_is_done_twice() -> None:
    run, _ = tell(fan(LEFT, SHELL), inputs.Halt(), within("right", done("call_1", "made")))
    run, facts = go(run, says("go on"), replies("Sure."), within("left", replies("layers")))

    assert run.output == {"left": "layers", "right": "made"}
    assert of(facts, e.ToolCalled) == []
    assert of(facts, e.BranchStarted) == []
    assert [p.branch for p in of(facts, e.Prompted)] == [], "the prompt was put before the halt"


def test_words_after_a_bare_stop_may_be_for_one_branch_and_the_others_go_on() -> None:
    run, _ = tell(TWO, inputs.Halt())
    assert run.visit.phase == "held"
    run, facts = go(run, says("@left only src"))

    assert run.visit.phase == "branches"
    assert path(facts, "") == ["start"], "the run goes on where it was, without its resume"
    assert path(facts, "left") == ["l"]
    assert words(at(run, "left").contexts["talk"])[-2:] == [("@user", "only src"), ("user", "L")]
    assert [f.branch for f in of(facts, e.Prompted)] == ["left"], "the other one goes on"
    assert dispositions(run) == ["interrupted"]


def test_a_branch_halted_for_words_of_its_own_is_held_with_the_run() -> None:
    run, _ = tell(fan(LEFT, SHELL), says("@right no!"), inputs.Halt())

    assert at(run, "right").halt.leads_to == "hold"
    run, _ = go(run, within("right", done("call_1", outcome="stopped")))
    assert (run.visit.phase, keys(run)) == ("held", []), "nothing in it goes on while it is held"
    run, facts = go(run, says("well?"), replies("Sure."))

    assert dispositions(run) == ["interrupted", "interrupted"]
    assert path(facts, "right") == ["r"], "the words it was halted for lead to its beginning"


def test_a_branch_that_is_stopped_takes_no_words() -> None:
    workflow = fan(LEFT, SHELL, join="any")
    run, _ = tell(workflow, within("left", replies("enough")), says("@right no!"))

    assert dispositions(run) == ["rejected"]
    run, facts = go(run, within("right", done("call_1", outcome="stopped")))
    assert run.output == {"left": "enough"}
    assert [fact.branch for fact in of(facts, e.BranchStopped)] == ["right"]


def test_words_for_a_branch_wait_while_the_run_around_it_is_being_halted() -> None:
    inner = spec.State(name="start", parallel=(LEFT, SHELL), resume="aside")
    aside = state("aside", "critic", next="$interrupted")
    workflow = flow(spec.State(name="start", workflow="inner"), BACK)
    definition = define(
        workflow, inner=flow(inner, aside, spec.State(name="stop", input="last.value"))
    )
    run, _ = tell(definition, says("@inner hm"), says("@right quick"))

    assert at(run, "inner").halt.leads_to == "words"
    assert at(run, "inner/right").halt.leads_to == "hold"
    run, facts = go(
        run,
        within("inner/right", done("call_1", outcome="stopped")),
        within("inner", replies("ok")),
    )
    assert path(facts, "inner") == ["aside", "start"]
    assert path(facts, "inner/right") == ["r"]
    assert dispositions(run) == ["interrupted", "interrupted"]


def test_words_while_a_state_that_took_too_long_is_ending_win() -> None:
    run, _ = tell(fan(LEFT, SHELL, timeout_s=5))
    run, _ = go(run, *timed_out())
    assert run.halt.leads_to == "trouble"
    run, _ = go(run, says("why?"), within("right", done("call_1", outcome="stopped")))
    assert run.visit.state == "resume"
    run, facts = go(run, replies("Sorry."))

    assert run.visit.phase == "branches"
    assert of(facts, e.BranchStarted) == [], "they go on"
    assert at(run, "left").visit.phase == "turn"
    assert [question.branch for question in run.inbox.open_questions] == ["right"], "did it happen?"


def timed_out() -> list[Any]:
    return [begins("timeout", 5.0), rings("timeout")]


def test_words_twice_and_a_bare_stop_between() -> None:
    run, facts = tell(
        TWO, says("hurry"), says("really"), inputs.Halt(), says("well?"), replies("Yes.")
    )

    assert path(facts, "") == ["start", "resume", "resume", "resume", "start"]
    assert run.common_data["resume_input"] == "well?"
    assert [b.visit.phase for b in run.visit.branches.values()] == ["turn", "turn"]
    assert len(of(facts, e.Prompted)) == 2
    assert dispositions(run) == ["interrupted"] * 3


def test_a_finished_branch_is_not_run_again_and_an_open_question_is_asked_again() -> None:
    run, _ = tell(
        TWO, within("left", replies("done")), within("right", replies("", asks("Which?")))
    )
    (first,) = run.inbox.open_questions
    run, facts = go(run, says("wait", policy="interrupt"), replies("Yes."))

    assert [fact.question_id for fact in of(facts, e.QuestionSuperseded)] == [first.id]
    assert at(run, "left").output == "done"
    assert [f.name for f in of(facts, e.BranchStarted)] == []
    run, _ = go(run, within("right", replies("", asks("Which?"))))
    assert run.inbox.open_questions[0].id != first.id
    run, _ = go(run, says("src", run.inbox.open_questions[0].id), within("right", replies("all")))
    assert run.output == {"left": "done", "right": "all"}


def test_a_state_in_a_branch_asks_again_after_a_halt() -> None:
    run, _ = tell(
        fan(LEFT, side("right", spec.State(name="r", ask="Which?"))), inputs.Halt(), says("hm")
    )
    assert run.inbox.open_questions == ()
    run, facts = go(run, replies("Well."))

    (question,) = of(facts, e.QuestionAsked)
    assert (question.branch, question.text) == ("right", "Which?")
    run, _ = go(run, says("src", question.question_id))
    assert at(run, "right").output == "src", "the answer ends the branch, whatever others do"


def test_a_once_call_of_unknown_outcome_in_a_branch_is_asked_about_after_a_halt() -> None:
    run, _ = tell(
        fan(LEFT, SHELL), inputs.Halt(), within("right", done("call_1", outcome="unknown"))
    )
    run, facts = go(run, says("go on"), replies("Sure."))

    (question,) = of(facts, e.QuestionAsked)
    assert (question.branch, question.call_id) == ("right", "call_1")
    run, facts = go(run, says("It happened", question.question_id))
    assert not of(facts, e.ToolCalled)
    assert not of(facts, e.ToolReturned)
    assert at(run, "right").status == "finished"


def test_a_call_that_did_not_happen_is_made_then() -> None:
    run, _ = tell(fan(LEFT, SHELL), inputs.Recovered())
    (question,) = run.inbox.open_questions
    run, facts = go(run, says("It did not happen", question.id))

    assert [fact.call_id for fact in of(facts, e.ToolCalled)] == ["call_2"]
    assert at(run, "right").visit.phase == "call"


def test_a_crash_while_branches_are_halted_ends_the_halt() -> None:
    run, _ = tell(fan(LEFT, SHELL), says("stop that"), inputs.Recovered())

    assert run.visit.state == "resume", "of a call being stopped nobody knows more than that"
    run, facts = go(run, replies("Sure."))
    assert [fact.call_id for fact in of(facts, e.QuestionAsked)] == ["call_1"]


def test_words_may_come_before_a_sub_workflow_has_its_own_words() -> None:
    inner = flow(
        state("start", "dude"), start_condition="on_user_input", input=spec.Input(name="wish")
    )
    workflow = flow(spec.State(name="start", workflow="inner"), BACK)
    run, _ = tell(define(workflow, inner=inner))
    (question,) = run.inbox.open_questions

    assert (question.kind, question.text, question.branch) == ("input", "wish?", "inner")
    assert run.is_parked
    run, _ = go(run, inputs.Halt())
    assert (run.visit.phase, run.inbox.open_questions) == ("held", ())
    run, _ = go(run, says("hm"), replies("Well."))
    (question,) = run.inbox.open_questions
    run, _ = go(run, says("a cat", question.id))
    assert words(at(run, "inner").contexts["talk"]) == [("@user", "a cat")]


@pytest.mark.parametrize("type", ["string", "integer"])
def test_what_a_sub_workflow_waits_for_may_be_sent_to_it_by_its_name(type: str) -> None:
    wanted = spec.Input(name="wish", type=type)
    inner = flow(state("start", "dude"), start_condition="on_user_input", input=wanted)
    workflow = flow(
        spec.State(
            name="start", parallel=(side("one", spec.State(name="w", workflow="inner")), LEFT)
        )
    )
    run, _ = tell(define(workflow, inner=inner), says("@inner a cat"))

    is_text = type == "string"
    assert dispositions(run) == ["answered" if is_text else "rejected"]
    assert at(run, "one/inner").input == ("a cat" if is_text else None)


def test_a_sub_workflow_hears_its_input_like_any_workflow() -> None:
    inner = flow(state("start", "dude"))
    sub = spec.SubWorkflow(name="inner", input="Draw ${input}")
    run, _ = tell(define(flow(spec.State(name="start", workflow=sub)), inner=inner), input="cats")

    assert words(at(run, "inner").contexts["talk"]) == [("@user", "Draw cats")]


def test_stop_ends_every_branch_once_its_tools_have_stopped() -> None:
    run, _ = tell(fan(LEFT, SHELL), inputs.Stop(reason="enough"))
    assert run.visit.phase == "halting"
    run, facts = go(run, within("right", done("call_1", outcome="stopped")))

    assert run.status == "stopped"
    assert [fact.branch for fact in of(facts, e.BranchStopped)] == ["right"]


def test_a_line_is_for_the_branch_it_names_though_another_waits_for_words() -> None:
    patient = side("right", state("r", "dude", awaits_input=True))
    run, facts = tell(fan(LEFT, patient), says("@left quick"))

    assert [fact.branch for fact in of(facts, e.Interrupted)] == ["left"]
    assert at(run, "right").visit.phase == "waiting"


def test_queued_words_for_a_branch_come_when_its_state_is_done() -> None:
    both = side("left", state("l", "dude", next="m"), state("m", "dude"))
    run, _ = tell(fan(both, RIGHT), says("@left and tests", policy="queue"))
    assert dispositions(run) == [None]
    run, facts = go(run, within("left", replies("first")))

    assert dispositions(run) == ["queued"]
    assert path(facts, "left") == ["l"], "without a resume of its own it begins anew"
    run, _ = go(run, within("left", replies("again")), within("left", replies("the end")))
    assert at(run, "left").output == "the end"


def test_steering_words_for_a_branch_join_its_next_request() -> None:
    run, facts = tell(TWO, says("@left and tests", policy="steer", id="x"))

    assert words(at(run, "left").contexts["talk"])[-1] == ("@user", "and tests")
    assert words(at(run, "right").contexts["talk"])[-1] == ("user", "R")
    assert dispositions(run) == ["steered"]
    assert of(facts, e.Interrupted) == []


# --- approvals ----------------------------------------------------------------------------------


def test_a_yes_for_the_run_counts_in_every_branch() -> None:
    run, _ = tell(
        TWO,
        within("left", replies("", call("write", n=1))),
        within("right", replies("", call("write", n=2))),
    )
    assert [q.branch for q in run.inbox.open_questions] == ["left", "right"]
    run, facts = go(run, approves(run.inbox.open_questions[0].id, for_run=True))

    assert [fact.branch for fact in of(facts, e.ToolCalled)] == ["left", "right"]
    run, facts = go(run, within("left", done("call_1")), within("left", replies("", call("write"))))
    assert len(of(facts, e.ToolCalled)) == 1


# --- joining ------------------------------------------------------------------------------------


def test_what_branches_change_deep_inside_of_an_object_is_merged() -> None:
    def writes(name: str) -> spec.Branch:
        return side(name, state(name[0], pre_handler="pre"))

    begin = state("start", pre_handler="pre", next="fan")
    workflow = flow(begin, spec.State(name="fan", parallel=(writes("left"), writes("right"))))
    report: Json = {"kept": 1, "old": 2, "deep": {"a": 1}}
    run, _ = tell(workflow, handler(report=report))
    run, _ = go(
        run,
        within("left", handler(report={"kept": 1, "old": 2, "deep": {"a": 1, "b": 2}}, x=1)),
        within("right", handler(report={"kept": True, "deep": {"a": 3}}, x=2)),
    )

    assert run.common_data == {"report": {"kept": True, "deep": {"a": 3, "b": 2}}, "x": 2}
    assert run.common_data["report"]["kept"] is True, "1 and true are two values"


def test_new_objects_of_two_branches_become_one() -> None:
    workflow = fan(
        side("left", state("l", "dude", save_as="both.left")),
        side("right", state("r", "dude", save_as="both.right")),
    )
    run, _ = tell(workflow, within("right", replies("R")), within("left", replies("L")))

    assert run.common_data["both"] == {"left": "L", "right": "R"}


def test_what_came_about_while_branches_were_halted_stays() -> None:
    noting = state("resume", "critic", post_handler="note", next="$interrupted")
    workflow = flow(spec.State(name="start", parallel=(LEFT, RIGHT)), noting)
    run, _ = tell(workflow, says("mind the tests"), replies("Yes."), handler(noted="tests"))
    run, _ = go(run, within("left", replies("a")), within("right", replies("b")))

    assert run.status == "finished"
    assert run.common_data["noted"] == "tests", "no branch knew of it, and none took it back"


def test_a_halt_of_a_branch_leaves_no_trace_in_the_data() -> None:
    run, _ = tell(TWO, says("@left quick"), within("left", replies("l")))
    run, _ = go(run, within("right", replies("r")))

    assert run.common_data == {"found": {"left": "l", "right": "r"}}


def test_losers_with_a_once_call_are_awaited() -> None:
    run, _ = tell(fan(LEFT, SHELL, join="any"), within("left", replies("first")))

    assert (run.visit.phase, in_flight(run)) == ("branches", ["call_1"])
    run, facts = go(run, within("right", done("call_1", "late", "completed")))
    assert [fact.outcome for fact in of(facts, e.ToolReturned)] == ["completed"]
    assert run.output == {"left": "first"}


def test_enough_can_no_longer_finish() -> None:
    third = side("third", state("t", "dude"))
    caught: dict[str, Any] = {"catch": (spec.Catch(on=("branch",), to="stop", save_as="found"),)}
    run, facts = tell(
        fan(LEFT, RIGHT, third, join=2, **caught),
        within("left", fails("no line")),
        within("right", fails("no luck")),
    )

    assert [fact.branch for fact in of(facts, e.BranchStopped)] == ["third"]
    assert run.output["error"] == "The branch left of 'start' failed: no line"


def test_a_catch_inside_of_a_branch_comes_before_the_one_around_it() -> None:
    sorry = (spec.Catch(on=("model",), to="sorry"),)
    inside = side("left", state("l", "dude", catch=sorry), state("sorry", "dude"))
    around: dict[str, Any] = {"catch": (spec.Catch(on=("any",), to="stop"),)}
    run, _ = tell(fan(inside, RIGHT, **around), within("left", fails()))
    assert at(run, "left").visit.state == "sorry"
    run, _ = go(run, within("left", fails("again")))

    assert run.status == "finished"
    assert run.output is None or "found" not in run.common_data


def test_a_parallel_state_is_tried_again_without_what_is_done() -> None:
    workflow = fan(LEFT, RIGHT, retry=spec.Retry(max_attempts=2, backoff_s=1, on=("branch",)))
    run, _ = tell(workflow, within("left", replies("done")), within("right", fails("no line")))
    assert run.visit.phase == "retrying"
    run, facts = go(run, begins("retry", 1.0), rings("retry"))

    assert [fact.name for fact in of(facts, e.BranchStarted)] == ["right"]
    run, _ = go(run, within("right", replies("at last")))
    assert run.output == {"left": "done", "right": "at last"}


def test_no_items_are_done_at_once_and_others_keep_their_order() -> None:
    each = spec.State(
        name="start",
        for_each=spec.ForEach(items="input", states=(state("one", "dude"),), max_concurrency=2),
        save_as="found",
    )
    workflow = flow(each, spec.State(name="stop", input="common_data.found"))
    run, _ = tell(workflow, input=[])
    assert run.output == []

    run, _ = tell(workflow, input=["a", "b", "c"])
    assert list(run.visit.branches) == ["1", "2"]
    run, _ = go(run, within("2", replies("B")), within("3", replies("C")))
    run, _ = go(run, within("1", replies("A")))
    assert run.output == ["A", "B", "C"]


def test_items_that_joined_the_list_meanwhile_are_run_and_no_other_again() -> None:
    each = spec.ForEach(
        items="common_data.items",
        states=(spec.State(name="do", tool="shell", arguments={"n": "${input}"}),),
        max_concurrency=9,
    )
    start = spec.State(name="start", pre_handler="find", next="each")
    resume = spec.State(name="resume", pre_handler="more", next="$interrupted")
    workflow = flow(start, spec.State(name="each", for_each=each, save_as="all"), resume)
    run, facts = tell(workflow, handler(items=list(range(9))))
    for n in range(1, 9):
        run, _ = go(run, within(str(n), done(f"call_{n}", f"{n}")))
    run, more = go(
        run,
        says("one more"),
        within("9", done("call_9", "no", "failed")),
        handler(items=list(range(10))),
    )
    made = [fact.arguments["n"] for fact in of([*facts, *more], e.ToolCalled)]
    run, _ = go(run, within("9", done("call_10", "9")), within("10", done("call_11", "10")))

    assert made == [*range(9), 8, 9], "the one that was cut is made again, as it failed"
    assert run.common_data["all"] == [str(n) for n in range(1, 11)]


def test_a_list_that_is_gone_when_the_run_goes_on_ends_the_branches_under_way() -> None:
    one = spec.State(name="one", tool="shell")
    each = spec.State(
        name="start",
        for_each=spec.ForEach(items="variables.items", states=(one,), max_concurrency=1),
        catch=(spec.Catch(on=("template",), to="stop"),),
    )
    forgetting = state("resume", post_handler="forget", next="$interrupted")
    run, _ = tell(flow(each, forgetting, variables={"items": ["a", "b"]}), says("wait"))
    run, _ = go(run, within("1", done("call_1")))
    assert run.visit.state == "resume"
    gone = inputs.HandlerReturned(key=handler_key(run), variables={"items": None})
    run, facts = go(run, gone)

    assert path(facts, "") == ["start", "stop"]
    assert run.status == "finished"


# --- shared contexts ----------------------------------------------------------------------------


def test_two_branches_write_to_one_context() -> None:
    workflow = fan(
        side("left", state("l", "dude", prompt="L"), shared=("talk",)),
        side("right", state("r", "critic", prompt="R"), shared=("talk",)),
    )
    run, _ = tell(workflow, within("right", replies("two")), within("left", replies("one")))

    assert words(run.contexts["talk"]) == [
        ("user", "L"),
        ("assistant", "R"),
        ("critic", "two"),
        ("dude", "one"),
    ]


def test_what_was_said_while_branches_were_halted_stays_in_what_they_share() -> None:
    workflow = fan(side("left", state("l", "dude", prompt="L"), shared=("talk",)), RIGHT)
    run, _ = tell(workflow, says("mind the tests"), replies("I will."))
    run, _ = go(run, within("left", replies("one")))

    assert words(run.contexts["talk"]) == [
        ("user", "L"),
        ("@user", "mind the tests"),
        ("critic", "I will."),
        ("dude", "one"),
    ]


# --- runs within runs within runs ------------------------------------------------------------------

DEEP = define(
    flow(
        spec.State(
            name="start", parallel=(side("a", spec.State(name="go", workflow="inner")), RIGHT)
        ),
        BACK,
    ),
    inner=flow(spec.State(name="start", parallel=(LEFT, SHELL)), BACK),
)


def test_words_reach_down_to_the_deepest_branch_and_back() -> None:
    run, _ = tell(DEEP, within("a/inner/left", replies("deep")), says("wait"))
    assert in_flight(run) == ["call_1"]
    run, _ = go(run, within("a/inner/right", done("call_1", "made")), replies("Yes."))

    assert at(run, "a").status == "finished", "both branches of its inner were done by then"
    run, _ = go(run, within("right", replies("r")))
    assert run.status == "finished"


@pytest.mark.parametrize("steps", range(7))
def test_a_run_with_branches_is_the_same_from_its_facts_and_from_a_snapshot(steps: int) -> None:
    happens = [
        within("a/inner/left", replies("", asks("Which?"))),
        says("wait", policy="interrupt"),
        within("a/inner/right", done("call_1", outcome="unknown")),
        says("again"),
        replies("Yes."),
        within("right", replies("done")),
    ]
    run, facts = tell(DEEP, *happens[:steps])

    assert replayed(facts) == run
    assert decode_run(*encode_run(run)) == run


def test_a_visit_asks_by_another_id_than_the_one_before() -> None:
    loop = spec.State(name="start", parallel=(LEFT, RIGHT), next="start")
    run, _ = tell(flow(loop), within("left", replies("", asks("Which?"))))
    first = run.inbox.open_questions[0].id
    run, _ = go(
        run, says("src", first), within("left", replies("l")), within("right", replies("r"))
    )
    run, _ = go(run, within("left", replies("", asks("Which?"))), says("late", first))

    assert run.inbox.open_questions[0].id != first
    assert dispositions(run) == ["answered", "rejected"]


# --- another definition ---------------------------------------------------------------------------


def test_a_definition_has_to_fit_where_branches_stand() -> None:
    workflow = fan("left", states=(state("left", "dude", next="more"), state("more", "dude")))
    run, _ = tell(workflow, within("left", replies("l")))
    assert at(run, "left").visit.state == "more"

    without = fan("left", states=(state("left", "dude"),))
    assert "no state 'more'" in misfit_of(run, define(without))
    other = fan("left", states=(state("left", "dude", next="more"), state("more", "critic")))
    assert "another agent" in misfit_of(run, define(other))
    run, _ = go(run, says("hm"))
    assert "no state 'more'" in misfit_of(run, define(without)), "also while it is cut"


def test_a_run_with_branches_goes_on_with_another_definition() -> None:
    workflow = fan("left", states=(state("left", "dude", next="more"), state("more", "dude")))
    run, _ = tell(workflow)
    contexts = (*workflow.contexts, spec.Context(name="new"))
    states = tuple(state("more", "critic") if s.name == "more" else s for s in workflow.states)
    changed = define(flow(*states, contexts=contexts))
    assert misfit_of(run, changed) == ""
    run, _ = go(run, inputs.Recovered(definition=changed), within("left", replies("l")))

    assert at(run, "left").visit.turn is not None
    assert at(run, "left").contexts["new"] == ()
    assert decode_run(*encode_run(run)) == run
    assert kinds(go(run, within("left", replies("m")))[1])[-1] == "run_finished"


def test_a_thousand_items_keep_a_thousand_copies_of_nothing() -> None:
    begin = state("start", pre_handler="read", next="each")
    one = state("one", "dude", prompt="${input}", save_as="last_one")
    each = spec.State(name="each", for_each=spec.ForEach(items="common_data.items", states=(one,)))
    items = [f"{number:0100}" for number in range(1_000)]
    run, _ = tell(flow(begin, each, spec.State(name="stop", input="common_data.last_one")))
    run = judged(run, outcome_of(handler(items=items), run)).run
    for _ in items[:-1]:
        (first, *_) = pending(run)
        run = judged(run, inputs.ModelReplied(key=first.key, text="done")).run

    assert [branch.is_over for branch in run.visit.branches.values()].count(False) == 1
    assert len(encode_run(run)[0]) < 5_000_000
    run = judged(run, inputs.ModelReplied(key=keys(run)[0], text="the last")).run
    assert run.output == "the last"


def outcome_of(step: Step, run: Run) -> inputs.AnyInput:
    return step(run) if callable(step) else step


def test_an_ended_branch_keeps_little() -> None:
    run, _ = tell(TWO, within("left", replies("x" * 1_000)), input="y" * 10_000)
    left = at(run, "left")

    assert (left.contexts, left.common_data, left.branch.base) == ({}, {}, None)
    assert left.output == "x" * 1_000
    assert of(tell(fan(LEFT), within("left", replies("x")))[1], e.WorkDone)[0].value == {
        "left": "x"
    }


def shows(text: str) -> Step:
    """More of the reply that streams was shown."""
    return lambda run: inputs.ReplyCheckpoint(key=request_key(run), text=text)


def test_what_branches_had_shown_is_kept_over_a_crash_each_its_own() -> None:
    seen = (("left", "Some la"), ("right", "The te"), ("left", "yers"))
    run, told = tell(TWO, *(within(name, shows(text)) for name, text in seen))
    assert replayed(told) == run
    run, facts = go(run, inputs.Recovered(was_cut=True))

    cuts = [(fact.branch, fact.partial) for fact in of(facts, e.ReplyCut)]
    assert cuts == [("left", "Some layers"), ("right", "The te")]
    run, _ = go(run, within("left", replies("layers")), within("right", replies("tests")))
    assert run.output == {"left": "layers", "right": "tests"}


def test_a_late_checkpoint_changes_nothing() -> None:
    run, _ = tell(TWO)
    late = within("left", shows("Some"))
    assert callable(late)
    input = late(run)
    run, _ = go(run, within("left", replies("layers")))

    assert judged(run, input).facts == []
