"""Runs that reach a budget are written down, and played again they reach it at the same place."""

import asyncio

import pytest
from deadline import DEADLINE_S
from rehearsing import recorded_of

from midstream.core.question import AGAIN
from midstream.language.spec import Budget
from midstream.rehearsal import format as form
from midstream.rehearsal.comparison import replay
from midstream.rehearsal.record import from_facts
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import (
    Chronicle,
    FakeJournal,
    Gate,
    JumpingClock,
    Scripted,
    ScriptedModel,
    define,
    fake_world,
    says,
)

FLOW = {
    "contexts": [{"name": "desk"}],
    "agents": [{"agent_role": "host", "context": "desk"}],
    "states": [
        {"name": "start", "agent": "host", "next": "more"},
        {"name": "more", "agent": "host"},
    ],
}
NOTHING = ScriptHandlers({})


async def timed(limits: Budget | None, **budget: object) -> form.Rehearsal:
    """Return the rehearsal of a run whose first reply takes 90 seconds, and the yes to go on an hour."""
    gate, journal, clock = Gate(), FakeJournal(), JumpingClock()
    model = ScriptedModel(Scripted(pieces=("x",), gate=gate), says("y"))
    definition = define({**FLOW, **budget})
    world = fake_world(model, journal=journal, clock=clock)
    machine = WorkflowStateMachine(definition, world, tap=Chronicle())
    async with asyncio.timeout(DEADLINE_S):
        await machine.start("begin", limits=limits)
        await gate.reached()
        clock.jump(90)
        gate.open()
        run = await machine.settled()
        clock.jump(3600)
        await machine.say(AGAIN, question=run.inbox.open_questions[0].id)
        await machine.wait()
    return from_facts(await journal.read(machine.id))


@pytest.mark.parametrize(
    ("limits", "budget"),
    [(None, {"budget": {"minutes": 1}}), (Budget(minutes=1), {})],
    ids=["of the workflow", "of the settings"],
)
async def test_minutes_are_used_up_where_they_were(
    limits: Budget | None, budget: dict[str, object]
) -> None:
    rehearsal = form.decoded(form.encoded(await timed(limits, **budget)))
    assert [step.after_s for step in rehearsal.steps] == [90, 3690, 3690]
    async with asyncio.timeout(DEADLINE_S):
        again = await replay(rehearsal, define({**FLOW, **budget}), NOTHING)

    assert again.difference is None
    assert from_facts(again.facts) == rehearsal


async def test_with_more_minutes_it_is_another_run() -> None:
    rehearsal = await timed(None, budget={"minutes": 1})
    again = await replay(rehearsal, define({**FLOW, "budget": {"minutes": 9}}), NOTHING)

    assert again.difference is not None


async def test_where_no_minutes_count_no_times_are_written() -> None:
    rehearsal = await recorded_of(
        define(FLOW), ScriptedModel(says("x"), says("y")), lambda machine, _: machine.wait()
    )

    assert [step.after_s for step in rehearsal.steps] == [0, 0]
