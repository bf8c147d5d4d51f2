"""A run that was told of its surroundings is recorded, and played again without them."""

import msgspec

from midstream.core.events import ModeTold, ToolReturned, WorkflowOutput
from midstream.core.run import definition_of
from midstream.language.spec import Role
from midstream.rehearsal.comparison import replay
from midstream.rehearsal.format import decoded, encoded
from midstream.rehearsal.record import from_facts
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import ToolContext, ToolOutcome
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.capability import PermissionMode
from midstream.testing.fakes import (
    Chronicle,
    FakeTool,
    FakeTools,
    ScriptedModel,
    call,
    define,
    fake_world,
)

FLOW = {
    "contexts": [{"name": "talk"}],
    "agents": [{"agent_role": "dude", "context": "talk"}],
    "states": [{"name": "start", "agent": "dude"}],
}


class Planning:
    """What stays in plan mode."""

    mode: PermissionMode = "plan"

    def switch(self, mode: str) -> None:
        """Stay."""


class Looking(FakeTools):
    """Tools whose calls read a file of a folder."""

    async def call(self, name: str, arguments: object, context: ToolContext) -> ToolOutcome:
        ended = await super().call(name, arguments, context)  # type: ignore[arg-type]
        return msgspec.structs.replace(ended, touched=("sub/a.py", "new/a.py"))


async def test_the_mode_and_what_folders_say_are_no_part_of_a_rehearsal() -> None:
    tools = Looking(FakeTool(name="look", answer="seen"), FakeTool(name="propose_plan"))
    words = {"sub/AGENTS.md": "Use tabs.", "new/AGENTS.md": ""}
    world = msgspec.structs.replace(
        fake_world(ScriptedModel(call("look"), "Done."), tools=tools),
        permits=Planning(),
        words_below=lambda _: words,
    )
    told = Chronicle()
    roles = {"dude": Role(systemMessage="Look.", agentsFile=True)}
    machine = WorkflowStateMachine(define(FLOW, roles=roles, tools=tools), world, tap=told)
    await machine.start("tidy")
    run = await machine.wait()

    assert (len(told.of(ModeTold)), len(told.of(WorkflowOutput))) == (1, 2)
    assert [fact.below for fact in told.of(ToolReturned)] == [
        {"sub/AGENTS.md": 9, "new/AGENTS.md": 0}
    ]
    rehearsal = from_facts([each for each in told.events if each.seq])
    again = await replay(decoded(encoded(rehearsal)), definition_of(run), ScriptHandlers({}))

    assert again.difference is None
    assert from_facts(again.facts) == rehearsal
