"""What tests of rehearsals share: running a reference for real, and writing down what it did."""

import asyncio
from collections.abc import Awaitable, Callable

from deadline import DEADLINE_S
from support.stage import Reference, Stage, StagedModel, StagedTools, perform

from midstream.language.spec import Definition
from midstream.rehearsal.format import Rehearsal
from midstream.rehearsal.record import from_facts
from midstream.runtime.ports import Handlers, Model, Tools
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import Chronicle, FakeJournal, fake_world

Person = Callable[[WorkflowStateMachine, Chronicle], Awaitable[object]]


async def recorded(reference: Reference) -> Rehearsal:
    """Return the rehearsal of a reference, played by its own person."""
    stage, journal = Stage(), FakeJournal()
    world = fake_world(
        StagedModel(reference, stage),
        tools=StagedTools(reference, stage, lambda key: None),
        journal=journal,
        clock=stage.clock,
    )
    machine = WorkflowStateMachine(reference.definition, world, handlers=reference.handlers)
    async with asyncio.timeout(DEADLINE_S):
        await machine.start(reference.input, allowed=reference.allowed)
        await perform(machine, reference, stage)
        await machine.wait()
    return from_facts(await journal.read(machine.id))


async def recorded_of(
    definition: Definition,
    model: Model,
    person: Person,
    *,
    handlers: Handlers | None = None,
    tools: Tools | None = None,
) -> Rehearsal:
    """Return the rehearsal of a run that `person` sees through; it is left where they leave it."""
    journal, story = FakeJournal(), Chronicle()
    world = fake_world(model, tools=tools, journal=journal)
    machine = WorkflowStateMachine(definition, world, handlers=handlers, tap=story)
    async with asyncio.timeout(DEADLINE_S):
        await machine.start("begin")
        await person(machine, story)
        rehearsal = from_facts(await journal.read(machine.id))
        await machine.leave()
    return rehearsal
