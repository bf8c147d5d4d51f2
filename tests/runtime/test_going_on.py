"""A run taken up without a person: what was given beforehand is given, and nothing else."""

import asyncio
from typing import Any

import pytest
from deadline import DEADLINE_S as DEADLINE_S

from midstream.app.headless import Given, go_on, unapproved
from midstream.language.errors import WorldTrouble
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import mail_taken
from midstream.runtime.ports import ModelRequest
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import Mail
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    Gate,
    Scripted,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
    says,
)

TALK: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}


def engine(store: MemoryStore, tools: FakeTools, *script: Any) -> LocalEngine:
    """Return an engine as a new process has it."""
    beside = store.beside()
    return LocalEngine(fake_world(ScriptedModel(*script), tools=tools, journal=beside), beside)


async def left(store: MemoryStore, tools: FakeTools, *script: Any) -> str:
    """Return a run that waits for a person and was left."""
    first = engine(store, tools, *script)
    machine = await first.start(define(TALK, tools=tools))
    await machine.settled()
    await first.close()
    return machine.id


async def test_answers_are_given_in_the_order_asked_and_no_more_is_invented() -> None:
    store, tools = MemoryStore(), FakeTools()
    id = await left(store, tools, asks("One?"))
    second = engine(store, tools, asks("Two?"), asks("Three?"))
    run = await go_on(await second.resume(id), Given(answers=("1", "2")))
    await second.close()

    assert [record.text for record in run.inbox.lines.values()] == ["1", "2"]
    assert [question.text for question in run.inbox.open_questions] == ["Three?"]


async def test_only_tools_that_are_allowed_now_are_approved() -> None:
    store = MemoryStore()
    tools = FakeTools(
        FakeTool(name="shoot", needs_approval=True), FakeTool(name="burn", needs_approval=True)
    )
    id = await left(store, tools, calls(call("shoot"), call("burn")))
    second = engine(store, tools)
    run = await go_on(await second.resume(id), Given(allowed=("shoot",)))
    await second.close()

    assert [called.name for called in tools.calls] == ["shoot"]
    said = unapproved(run)
    assert said is not None
    assert "waits for your approval of burn. Decide in the console" in said
    assert said.endswith(f"midstream resume {id} --allow burn")


async def test_a_tool_that_is_allowed_is_approved_in_a_branch_too() -> None:
    tools = FakeTools(FakeTool(name="shoot", needs_approval=True))
    workflow: dict[str, Any] = {
        **TALK,
        "states": [{"name": "start", "parallel": ["in"]}, {"name": "in", "tool": "shoot"}],
    }
    here = engine(MemoryStore(), tools)
    machine = await here.start(define(workflow, tools=tools))
    assert "approval of shoot" in (unapproved(machine.run) or "")
    run = await go_on(machine, Given(allowed=("shoot",)))
    await here.close()

    assert run.status == "finished"
    assert [called.name for called in tools.calls] == ["shoot"]


async def test_what_was_sent_meanwhile_is_heard_before_the_run_is_said_to_wait() -> None:
    store, tools = MemoryStore(), FakeTools()
    id = await left(store, tools, asks("One?"))
    await store.post(Mail(id="a", run=id, at=0.0, text="1"))
    await store.post(Mail(id="b", run=id, at=0.0, text="2", question="q1"))
    second = engine(store, tools, "Done.")
    machine = await second.resume(id)
    await mail_taken(machine, second.store)
    run = await go_on(machine, Given())
    await second.close()

    assert run.status == "finished"
    assert run.inbox.lines["a"].disposition == "answered"
    assert await store.mail("") == []


async def test_an_answer_is_given_as_soon_as_it_is_asked_for() -> None:
    """Neither the end of the time there is to answer nor the branches beside it are waited for."""
    gate = Gate()

    def reply(request: ModelRequest) -> Scripted:
        return says("Now.") if request.state == "first" else says("Done.", gate=gate)

    workflow: dict[str, Any] = {
        **TALK,
        "states": [
            {"name": "start", "parallel": ["first", "work"]},
            {"name": "first", "agent": "dude", "next": "ask"},
            {
                "name": "ask",
                "ask": {"question": "Which?", "deadline_s": 5, "on_timeout": "fail"},
            },
            {"name": "work", "agent": "dude"},
        ],
    }
    here = engine(MemoryStore(), FakeTools(), reply, reply)
    told = Chronicle()
    here.listen(told)
    machine = await here.start(define(workflow))
    going = asyncio.ensure_future(go_on(machine, Given(answers=("main",))))
    await gate.reached()
    await told.until("branch_finished")
    gate.open()
    run = await going
    await here.close()

    assert run.status == "finished"


async def test_a_run_that_can_be_followed_no_more_is_not_said_to_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def settled(_: WorkflowStateMachine) -> None:
        raise WorldTrouble("The journal cannot be read.")

    here = engine(MemoryStore(), FakeTools(), asks("Which?"))
    machine = await here.start(define(TALK))
    await machine.settled()
    with monkeypatch.context() as patch:
        patch.setattr(WorkflowStateMachine, "settled", settled)
        with pytest.raises(WorldTrouble, match="cannot be read"):
            await go_on(machine, Given())
    await here.close()
