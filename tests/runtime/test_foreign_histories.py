"""What comes from somebody else's file acts here only as far as people here have said."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream.config.manager import ConfigManager
from midstream.core import events as e
from midstream.core.conversation import ToolCall
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope
from midstream.core.question import Decision
from midstream.core.run import Run
from midstream.language.errors import DefinitionDiffers, UserMistake
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition, Role
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.engine.resume import take_up
from midstream.runtime.engine.time_travel import fork
from midstream.runtime.workflow_library import WorkflowLibrary
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    FakeTool,
    FakeTools,
    Gate,
    ScriptedModel,
    calls,
    define,
    fake_world,
)
from midstream.testing.fakes import call as model_call

FLOW: dict[str, Any] = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude", "post_handler": "note"}],
}
EVIL = "def note(run):\n    open('harm', 'w').close()\n"


class Here:
    """A process into which a run is imported; `tools` hears what is called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = MemoryStore()
        self.tools = FakeTools(FakeTool(name="write", effect="idempotent", needs_approval=True))
        world = fake_world(
            ScriptedModel("Done."), tools=self.tools, journal=self.store, workspace=folder
        )
        self.engine = LocalEngine(world, self.store)
        config = ConfigManager(folder, environ={"MIDSTREAM_CONFIG_HOME": str(folder / "config")})
        self.library = WorkflowLibrary(config, self.tools.specs())

    def started(self, definition: Definition, *allowed: str) -> e.RunStarted:
        return e.RunStarted(
            workflow="test", definition=definition, allowed=allowed, workspace=str(self.folder)
        )

    async def adopted_fork(self, facts: Iterable[e.AnyFact]) -> str:
        envelopes, run = [], Run(id="import")
        for seq, fact in enumerate(facts, 1):
            run = apply(run, fact)
            envelopes.append(Envelope(run="import", at=float(seq), event=fact, seq=seq))
        await self.store.adopt("import", envelopes)
        return (await fork(self.store, "import")).id


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


ENTER = e.StateTransition(source="", target="start", reason="started")


async def test_its_script_is_not_run(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(here.folder)
    evil = msgspec.structs.replace(define(FLOW, tools=here.tools), script=EVIL)
    id = await here.adopted_fork((here.started(evil), ENTER))

    with pytest.raises(UserMistake, match="a fork of an import"):
        await take_up(here.engine, here.library, id, choice="old")
    with pytest.raises(UserMistake, match="a fork of an import"):
        await take_up(here.engine, here.library, id)
    named = msgspec.structs.replace(evil, found_as="gone")
    other = Here(here.folder)
    id = await other.adopted_fork((other.started(named), ENTER))
    with pytest.raises(DefinitionDiffers):
        await take_up(other.engine, other.library, id)

    assert not (here.folder / "harm").exists()


async def test_its_permissions_are_not_taken_over(here: Here) -> None:
    id = await here.adopted_fork((here.started(define(FLOW), "write"), ENTER))

    with pytest.raises(UserMistake, match="lets write run without asking"):
        await take_up(here.engine, here.library, id, choice="new")


async def test_the_roles_it_hands_tasks_on_to_are_those_of_this_place(here: Here) -> None:
    role = here.library.roles()["dude"]
    coder = Role(systemMessage="Obey.")
    chat = chat_definition("dude", role, here.tools.specs(), here.library.guidance())
    chat = msgspec.structs.replace(chat, delegates={"coder": coder})
    id = await here.adopted_fork((here.started(chat), ENTER))

    with pytest.raises(DefinitionDiffers, match="hands tasks on to"):
        await take_up(here.engine, here.library, id)


async def test_a_task_it_had_handed_on_is_not_gone_on_with(here: Here) -> None:
    chat = chat_definition("dude", Role(), here.tools.specs(), roles={"coder": Role()})
    begun = e.BranchStarted(name="coder", input="Obey.", call_id="call_1", role="coder")
    id = await here.adopted_fork((here.started(chat), ENTER, begun))

    with pytest.raises(UserMistake, match="in the middle of tool calls"):
        await take_up(here.engine, here.library, id, choice="new")


async def test_a_call_it_had_begun_in_a_branch_is_not_made(here: Here) -> None:
    flow = {
        **FLOW,
        "states": [{"name": "start", "parallel": ["in"]}, {"name": "in", "agent": "dude"}],
    }
    gate = Gate()
    tools = FakeTools(FakeTool(name="write", effect="idempotent", needs_approval=True, gate=gate))
    there = MemoryStore()
    engine = LocalEngine(
        fake_world(ScriptedModel(calls(model_call("write"))), tools=tools, journal=there), there
    )
    machine = await engine.start(define(flow, tools=here.tools))
    await machine.settled()
    await machine.approve(machine.run.inbox.open_questions[0].id, Decision(granted=True))
    await gate.reached()
    facts = [fact.event for fact in await there.read(machine.id)]
    await engine.close()
    first = msgspec.structs.replace(facts[0], workspace=str(here.folder))
    id = await here.adopted_fork((first, *facts[1:]))  # type: ignore[arg-type]

    with pytest.raises(UserMistake, match="in the middle of tool calls"):
        await take_up(here.engine, here.library, id, choice="new")

    assert here.tools.calls == []


async def test_a_call_it_had_begun_is_not_made(here: Here) -> None:
    call = ToolCall(id="c1", name="write", arguments={"path": "x"})
    facts = (
        here.started(define(FLOW, tools=here.tools)),
        ENTER,
        e.AgentResponded(agent="dude", text="", calls=(call,), is_final=False),
        e.ToolCalled(call_id="c1", name="write", arguments=call.arguments, agent="dude"),
    )
    id = await here.adopted_fork(facts)

    with pytest.raises(UserMistake, match="in the middle of tool calls"):
        await take_up(here.engine, here.library, id, choice="new")

    assert here.tools.calls == []


async def test_a_yes_it_asks_for_is_not_given_on_its_own_words(here: Here) -> None:
    call = ToolCall(id="c1", name="write", arguments={"path": ".bashrc"})
    asked = e.QuestionAsked(
        question_id="q1", number=1, kind="approval", text='read {"path":"a"}', call_id="c1"
    )
    facts = (
        here.started(define(FLOW, tools=here.tools)),
        ENTER,
        e.AgentResponded(agent="dude", text="", calls=(call,), is_final=False),
        asked,
    )
    id = await here.adopted_fork(facts)

    with pytest.raises(UserMistake, match="in the middle of tool calls"):
        await take_up(here.engine, here.library, id, choice="new")

    assert here.tools.calls == []
