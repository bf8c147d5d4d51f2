"""Runs to travel in: with files, commands, questions and words, their models without a memory."""

from pathlib import Path
from typing import Any

from deadline import DEADLINE_S as DEADLINE_S

from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.time_travel import Fork, before_last_turn, fork
from midstream.runtime.ports import Model, ModelRequest, ToolOutcome, Tools
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    Gate,
    Line,
    ScriptedModel,
    asks,
    call,
    calls,
    define,
    fake_world,
)


async def undo(store: MemoryStore, id: str) -> Fork:
    """Return the fork of a run to before its last turn."""
    return await fork(store, id, await before_last_turn(store, id))


CHAT: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude", "awaits_input": True, "next": "start"},
    ],
}
ASKING: dict[str, Any] = {**CHAT, "states": [*CHAT["states"], {"name": "resume", "agent": "dude"}]}
LINE: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [
        {"name": "start", "agent": "dude", "next": "second"},
        {"name": "second", "agent": "dude"},
    ],
}


def tools(*, gate: Gate | None = None, listens: bool = True) -> FakeTools:
    """Return the tools; with a gate `shell` stands before it, and perhaps does not hear a stop."""
    stopped = ToolOutcome(outcome="stopped", text="stopped softly") if listens else None
    return FakeTools(
        FakeTool(name="look", effect="read"),
        FakeTool(name="shell", effect="once", gate=gate, when_stopped=stopped),
        FakeTool(name="write", effect="idempotent", needs_approval=True),
    )


def worker(request: ModelRequest) -> Line:
    """Say what comes next, going by the conversation alone: asked again, it says the same again."""
    made = [call.name for message in request.messages for call in message.calls]
    if request.state == "second":
        return "Second."
    if "look" not in made:
        return call("look")
    if "shell" not in made:
        return call("shell", command="make")
    if "request_users_input" not in made:
        return asks("Go on?")
    return "First."


def careful(request: ModelRequest) -> Line:
    """Call a tool that needs approval for each line of the user, then reply."""
    last = request.messages[-1]
    return "Done." if last.calls else calls(call("write", text=last.text), call("look"))


async def lived(machine: WorkflowStateMachine, *lines: str) -> Run:
    """Return the run once it has ended or has nothing left to be told.

    Approvals are granted, questions answered, doubts about a call called true.
    """
    todo = list(lines)
    while not (await machine.settled()).is_over:
        asked = next((q for q in machine.run.inbox.open_questions if q.kind != "input"), None)
        if asked is not None and asked.kind == "approval":
            await machine.approve(asked.id, Decision(granted=True))
        elif asked is not None:
            await machine.say(asked.choices[0] if asked.choices else "yes", question=asked.id)
        elif todo:
            await machine.say(todo.pop(0))
        else:
            break
    return machine.run


def store_engine(
    store: MemoryStore,
    model: Model,
    *,
    tools: Tools | None = None,
    workspace: Path = Path("/nowhere"),
) -> LocalEngine:
    world = fake_world(model, tools=tools, journal=store, blobs=store, workspace=workspace)
    return LocalEngine(world, store)


async def begun(
    engine: LocalEngine, flow: dict[str, Any], *, tools: Tools | None = None, input: Json = None
) -> WorkflowStateMachine:
    return await engine.start(define(flow, tools=tools), input=input)


async def chatted(store: MemoryStore, *lines: str) -> str:
    """Return a chat of these lines, left."""
    engine = store_engine(store, ScriptedModel(lambda request: "Hm."))
    machine = await begun(engine, CHAT)
    for line in lines:
        await machine.settled()
        await machine.say(line)
    await machine.settled()
    id = machine.id
    await machine.leave()
    await store.release(id)
    return id


def said(run: Run) -> list[str]:
    """Return what the user said in the run's one context."""
    (messages,) = run.contexts.values()
    return [
        message.text for message in messages if message.author == "user" or message.role == "user"
    ]
