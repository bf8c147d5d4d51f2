"""Tasks in another role: a call of an agent that is a branch of the run."""

from typing import Any

import msgspec
import pytest
from decide_kit import (
    ROLES,
    TOOLS,
    Step,
    at,
    call,
    define,
    dispositions,
    done,
    fails,
    flow,
    go,
    handler,
    keys,
    of,
    path,
    replayed,
    replies,
    says,
    state,
    tell,
    within,
    words,
)

from midstream.core import events as e
from midstream.core import inputs
from midstream.core.codec import decode_run, encode_run
from midstream.core.decide.delegating import MAX_TASKS
from midstream.core.pending import (
    AskModel,
    CallTool,
    RunHandler,
    call_key,
    pending,
    request_key,
)
from midstream.core.pinning import changes, misfit_of
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.plan import chat_definition, tools_for
from midstream.language.spec import Budget, Definition, Input, Role, State, ToolSpec

DELEGATE = ToolSpec(name="delegate", description="Hand on.", parameters={}, effect="read")
RUN = ToolSpec(name="run_workflow", description="Run.", parameters={}, effect="read")
ALL = {**TOOLS, "delegate": DELEGATE, "run_workflow": RUN}
WORKERS = {
    "coder": Role(description="Changes code."),
    "reader": Role(includedTools=("look", "delegate")),
}
CHAT = chat_definition("dude", ROLES["dude"], ALL, roles=WORKERS, workflows={"tidy": "Tidies."})


def hands_on(role: str, task: str = "mend it", **more: Any) -> inputs.RequestedCall:
    return call("delegate", role=role, task=task, **more)


def chat(*steps: Step) -> tuple[Run, list[e.AnyFact]]:
    """Return a chat after a first line and the steps, and its facts."""
    return tell(CHAT, says("hello"), *steps, input=None)


def results(facts: list[e.AnyFact], branch: str = "") -> list[tuple[str, str]]:
    found = of(facts, e.ToolReturned)
    return [(fact.outcome, fact.result) for fact in found if fact.branch == branch]


def asked(run: Run) -> list[str]:
    """Return the agents whose request the run is owed."""
    return [effect.agent for effect in pending(run) if isinstance(effect, AskModel)]


def offered(definition: Definition) -> tuple[ToolSpec, ...]:
    """Return the tools of a definition's only agent."""
    agent = definition.workflow.agents[0]
    return tools_for(definition, agent)


def calls_owed(run: Run) -> list[str]:
    return [effect.call.id for effect in pending(run) if isinstance(effect, CallTool)]


# --- from the call to its result ----------------------------------------------------------------


def test_a_call_is_a_branch_whose_first_words_are_the_task_and_its_last_reply_the_result() -> None:
    run, facts = chat(replies("", hands_on("coder", files=["a.py", "b.py"])))

    (begun,) = of(facts, e.BranchStarted)
    assert (begun.name, begun.call_id, begun.role) == ("coder", "call_1", "coder")
    coder = at(run, "coder")
    assert words(coder.contexts["task"]) == [("@user", "mend it\n\n@a.py @b.py")]
    assert asked(run) == ["coder"]
    run, facts = go(run, within("coder", replies("Mended.")))

    assert results(facts) == [("completed", "Mended.")]
    assert [
        (effect.agent, effect.key) for effect in pending(run) if isinstance(effect, AskModel)
    ] == [("dude", request_key(run))]
    run, _ = go(run, replies("The coder has mended it."))
    assert run.visit.phase == "waiting"
    assert "mend it" not in str(words(run.contexts["chat"])), "it has a conversation of its own"


def test_calls_of_one_reply_run_at_once_each_with_a_name_of_its_own() -> None:
    run, _ = chat(replies("", hands_on("coder"), hands_on("coder"), hands_on("reader")))

    assert list(run.visit.branches) == ["coder", "coder-2", "reader"]
    assert len(pending(run)) == 3
    run, facts = go(run, within("reader", replies("R")), within("coder-2", replies("2")))
    assert results(facts) == [("completed", "R"), ("completed", "2")]
    assert asked(run) == ["coder"], "the turn waits for all of them"
    run, _ = go(run, within("coder", replies("1")), replies("", hands_on("coder")))
    assert "coder-3" in run.visit.branches


def test_a_change_after_it_in_the_same_reply_waits_for_it() -> None:
    run, _ = chat(replies("", hands_on("coder"), call("shell")))

    assert calls_owed(run) == []
    run, _ = go(run, within("coder", replies("Done.")))
    assert [type(effect).__name__ for effect in pending(run)] == ["ReviewCall"]


def test_a_task_may_be_handed_on_once_more_and_not_twice() -> None:
    run, _ = chat(
        replies("", hands_on("coder")),
        within("coder", replies("", hands_on("reader"))),
        within("coder/reader", replies("", hands_on("reader"))),
    )
    (told,) = [m for m in at(run, "coder/reader").contexts["task"] if m.results]
    assert told.results[0].outcome == "failed"
    assert "at most 2 times" in told.results[0].text

    run, facts = go(run, within("coder/reader", replies("Read.")))
    assert results(facts, "coder") == [("completed", "Read.")]
    run, facts = go(run, within("coder", replies("Coded.")))
    assert results(facts) == [("completed", "Coded.")]


def test_so_many_are_at_work_at_once_and_no_more() -> None:
    _, facts = chat(replies("", *[hands_on("coder") for _ in range(MAX_TASKS + 1)]))

    assert len(of(facts, e.BranchStarted)) == MAX_TASKS
    ((outcome, text),) = results(facts)
    assert outcome == "failed"
    assert f"{MAX_TASKS} tasks are at work already" in text


@pytest.mark.parametrize(
    ("requested", "said"),
    [
        (hands_on("codr"), "Did you mean 'coder'?"),
        (hands_on("zzzzzz"), "There are: coder, reader."),
        (hands_on("coder", " "), "The task is empty"),
    ],
)
def test_what_cannot_be_handed_on_is_a_failed_call(
    requested: inputs.RequestedCall, said: str
) -> None:
    run, facts = chat(replies("", requested))

    ((outcome, text),) = results(facts)
    assert outcome == "failed"
    assert said in text
    assert run.visit.turn is not None
    assert run.visit.turn.request == 2, "the agent is told, and goes on"


def test_a_task_that_fails_is_a_failed_call() -> None:
    run, facts = chat(replies("", hands_on("coder")), within("coder", fails("no model")))

    assert results(facts) == [("failed", "no model")]
    assert run.visit.phase == "turn"


# --- whose tools ----------------------------------------------------------------------------------


def test_a_role_has_its_own_tools_and_none_that_were_taken_from_who_hands_on() -> None:
    careful = Role(excludedTools=("shell",))
    definition = chat_definition("dude", careful, ALL, roles=WORKERS)
    run, _ = tell(
        definition,
        says("hello"),
        replies("", hands_on("coder"), hands_on("reader")),
        input=None,
    )

    def names(place: str) -> set[str]:
        inner = at(run, place)
        assert inner.definition is not None
        return {tool.name for tool in offered(inner.definition)}

    assert names("reader") == {"look", "delegate"}
    assert names("coder") == set(ALL) - {"shell", "run_workflow"}, "no workflow is known here"


def test_a_role_without_the_tool_cannot_call_it_and_the_others_are_told_the_roles() -> None:
    plain = chat_definition("dude", Role(includedTools=("look",)), ALL, roles=WORKERS)
    assert plain.delegates == {}
    _, facts = tell(plain, says("hello"), replies("", hands_on("coder")), input=None)
    assert of(facts, e.BranchStarted) == []
    assert results(facts) == [("failed", "There is no tool 'delegate'. Tools: look.")]

    (spec,) = [t for t in offered(CHAT) if t.name == "delegate"]
    assert spec.description == "Hand on.\nThere are:\ncoder: Changes code.\nreader"
    alone = chat_definition("dude", Role(), ALL)
    assert "delegate" not in {t.name for t in offered(alone)}


# --- words and halts --------------------------------------------------------------------------


def test_words_to_one_task_halt_it_alone_and_it_goes_on_with_them() -> None:
    run, _ = chat(replies("", hands_on("coder"), hands_on("reader")))
    before = keys(run)
    run, facts = go(run, says("@coder only src"))

    assert [fact.branch for fact in of(facts, e.Interrupted)] == ["coder"]
    assert path(facts) == ["resume"]
    assert words(at(run, "coder").contexts["task"])[-1] == ("@user", "only src")
    assert set(keys(run)) & set(before), "the reader's request is the same one"
    run, facts = go(run, within("coder", replies("Only src.")))
    assert results(facts) == [("completed", "Only src.")]


def test_words_to_the_run_halt_the_turn_and_what_its_tasks_had_come_to_is_told() -> None:
    run, _ = chat(
        replies("", hands_on("coder"), hands_on("reader")),
        within("coder", replies("I look first.", call("look"))),
        within("coder", done("call_3")),
    )
    run, facts = go(run, says("no, stop"))

    assert [f.branch for f in of(facts, e.BranchStopped)] == ["coder", "reader"]
    first, second = results(facts)
    assert first == (
        "stopped",
        "Stopped: the user interrupted. It had made 1 tool call. Its last words: I look first.",
    )
    assert second == ("stopped", "Stopped: the user interrupted.")
    assert run.visit.state == "resume"
    assert asked(run) == ["dude"]
    assert dispositions(run)[-1] == "interrupted"


def test_words_that_were_shown_are_kept_and_marked() -> None:
    run, _ = chat(replies("", hands_on("coder")))
    key = pending(run)[0].key
    _, facts = go(run, inputs.Halt(shown=(inputs.Shown(key=key, text="I would"),)))

    ((_, text),) = results(facts)
    assert text.endswith("Its last words, interrupted: I would")


@pytest.mark.parametrize("halted_by", [says("no!"), inputs.Halt(), inputs.Stop(reason="enough")])
def test_a_halt_waits_for_a_once_call_in_a_task(halted_by: Step) -> None:
    run, facts = chat(
        replies("", hands_on("coder")), within("coder", replies("", call("shell"))), halted_by
    )
    assert run.visit.phase == "halting"
    assert results(facts) == [], "the call is open as long as something in it is being stopped"
    assert calls_owed(run) == ["call_2"]
    run, facts = go(run, within("coder", done("call_2", "made", outcome="unknown")))

    ((outcome, text),) = results(facts)
    assert outcome == "stopped"
    assert "verify before repeating" in text
    assert run.visit.phase in ("turn", "held", "ended")


def test_after_a_bare_stop_the_next_words_are_answered_and_no_task_is_left() -> None:
    run, _ = chat(replies("", hands_on("coder")), inputs.Halt())
    assert run.visit.phase == "held"
    run, _ = go(run, says("go on"), replies("Fine."))
    assert run.visit.phase == "waiting"
    assert run.visit.branches == {}


def test_a_question_of_a_task_parks_the_run_and_its_answer_lets_it_go_on() -> None:
    run, _ = chat(
        replies("", hands_on("coder")),
        within("coder", replies("", call("request_users_input", question="Which?"))),
    )
    assert run.is_parked
    (question,) = run.inbox.open_questions
    assert (question.branch, question.agent) == ("coder", "coder")
    run, facts = go(run, says("this", question.id))
    assert results(facts, "coder") == [("completed", "this")]
    assert not run.is_parked


def test_the_budget_of_the_run_counts_what_a_task_uses() -> None:
    spent = e.Usage(model="m", input_tokens=10)
    run, _ = tell(
        CHAT,
        says("hello"),
        replies("", hands_on("coder")),
        within("coder", replies("", call("look"), usage=spent)),
        within("coder", done("call_2")),
        input=None,
        limits=Budget(tokens=5),
    )
    assert run.usage.requests[0][0] == "coder"
    assert [q.about for q in run.inbox.open_questions] == ["budget"]
    assert pending(run) == ()


# --- afterwards -------------------------------------------------------------------------------


def test_a_crash_changes_nothing_but_a_once_call_is_asked_about() -> None:
    run, _ = chat(
        replies("", hands_on("coder"), hands_on("reader")),
        within("coder", replies("", call("shell"))),
    )
    run, facts = go(run, inputs.Recovered(was_cut=True))

    (question,) = of(facts, e.QuestionAsked)
    assert (question.branch, question.call_id) == ("coder", "call_3")
    assert asked(run) == ["reader"]


def test_a_snapshot_and_the_facts_give_the_same_run() -> None:
    run, facts = chat(
        replies("", hands_on("coder")), within("coder", replies("", hands_on("reader")))
    )
    assert replayed(facts) == run
    head, pages = encode_run(run)
    assert decode_run(head, pages) == run


def test_roles_that_changed_ask_nobody_and_one_that_is_gone_is_missed_while_it_is_at_work() -> None:
    run, _ = chat(replies("", hands_on("coder")))
    fewer = msgspec.structs.replace(CHAT, delegates={"reader": WORKERS["reader"]})

    assert changes(CHAT, fewer) == ()
    assert "no role 'coder'" in misfit_of(run, fewer)
    run, _ = go(run, within("coder", replies("Done.")))
    assert misfit_of(run, fewer) == ""


def test_an_agent_of_a_workflow_hands_on_and_the_state_goes_on() -> None:
    definition: Definition = msgspec.structs.replace(
        define(flow(state("start", "dude", next="stop"))), tools=ALL, delegates=WORKERS
    )
    run, facts = tell(
        definition,
        replies("", hands_on("coder")),
        within("coder", replies("Mended.")),
        replies("All is mended."),
    )
    assert run.output == "All is mended."
    assert [f.output for f in of(facts, e.BranchFinished)] == ["Mended."]


# --- workflows --------------------------------------------------------------------------------

TIDY = msgspec.structs.replace(
    define(
        flow(
            state("start", "critic", next="count", save_as="common_data.said"),
            state("count", pre_handler="count", next="stop"),
            State(name="stop", input="common_data.said"),
            input=Input(name="what"),
        )
    ),
    digest="d1",
    found_as="tidy",
)


def runs(name: str = "tidy", input: Json = "src") -> inputs.RequestedCall:
    return inputs.RequestedCall(name="run_workflow", arguments={"name": name, "input": input})


def found(call_id: str, definition: Definition = TIDY) -> Step:
    """The workflow is found that a call names."""
    return lambda run: inputs.WorkflowFound(key=call_key(run, call_id), definition=definition)


def test_a_workflow_is_found_then_run_and_its_output_is_the_result() -> None:
    run, facts = chat(replies("", runs()))
    assert calls_owed(run) == ["call_1"]
    assert of(facts, e.BranchStarted) == []
    run, facts = go(run, found("call_1"))

    (begun,) = of(facts, e.BranchStarted)
    assert (begun.name, begun.input, begun.call_id) == ("tidy", "src", "call_1")
    tidy = at(run, "tidy")
    assert tidy.common_data == {"what": "src"}
    assert tidy.definition is not None
    assert tidy.definition.tools == ALL, "the tools are those of the run, whatever was found"
    assert (calls_owed(run), asked(run)) == ([], ["critic"])
    run, facts = go(run, within("tidy", replies("Tidied.")))
    (owed,) = pending(run)
    assert isinstance(owed, RunHandler)
    run, facts = go(run, within("tidy", handler()))
    assert results(facts) == [("completed", "Tidied.")]
    assert asked(run) == ["dude"]


def test_a_workflow_found_after_a_halt_is_not_begun() -> None:
    run, _ = chat(replies("", runs()))
    late = inputs.WorkflowFound(key=call_key(run, "call_1"), definition=TIDY)
    run, facts = go(run, says("no!"))
    assert results(facts) == [("stopped", "Stopped: the user interrupted.")]
    _, facts = go(run, late)
    assert facts == []


def test_a_workflow_that_is_not_found_is_a_failed_call() -> None:
    _, facts = chat(replies("", runs("tdy")), done("call_1", "There is none.", "failed"))
    assert results(facts) == [("failed", "There is none.")]


def test_a_workflow_under_way_is_kept_with_the_run_and_needs_no_definition_anew() -> None:
    run, facts = chat(replies("", runs()), found("call_1"))
    assert replayed(facts) == run
    head, pages = encode_run(run)
    assert decode_run(head, pages) == run
    assert misfit_of(run, CHAT) == ""
    run, facts = go(run, inputs.Recovered(was_cut=True), says("no, leave it"))
    assert results(facts) == [("stopped", "Stopped: the user interrupted.")]


def test_workflows_that_run_each_other_come_to_an_end() -> None:
    calling = msgspec.structs.replace(TIDY, runnable={"tidy": "Tidies."})
    run, _ = chat(replies("", runs()), found("call_1", calling))
    run, _ = go(
        run,
        within("tidy", replies("", runs())),
        within("tidy", found("call_2", calling)),
        within("tidy/tidy", replies("", runs())),
    )
    run, facts = go(run, within("tidy/tidy", found("call_3", calling)))
    ((outcome, text),) = results(facts, "tidy/tidy")
    assert (outcome, "at most 2 times" in text) == ("failed", True)


def test_a_crash_before_a_workflow_was_found_has_it_looked_for_again() -> None:
    run, _ = chat(replies("", runs()))
    run, facts = go(run, inputs.Recovered(was_cut=True))
    assert calls_owed(run) == ["call_1"]
    run, facts = go(run, found("call_1"))
    assert [fact.name for fact in of(facts, e.BranchStarted)] == ["tidy"]


def test_only_a_call_that_runs_a_workflow_begins_one() -> None:
    run, _ = chat(replies("", call("look")))
    _, facts = go(run, found("call_1"))
    assert facts == []
