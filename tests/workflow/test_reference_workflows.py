"""The reference workflows take the path they say they take, when nobody disturbs them."""

import asyncio

import pytest

from midstream.testing.fakes import Chronicle, fake_world
from midstream.testing.reference import (
    Reference,
    Stage,
    StagedModel,
    StagedTools,
    perform,
    references,
)
from midstream.workflow.state_machine import WorkflowStateMachine


@pytest.mark.parametrize("reference", references(), ids=lambda known: known.name)
async def test_a_reference_goes_its_way_and_leaves_its_ledger(reference: Reference) -> None:
    stage, story = Stage(), Chronicle()
    ledger: list[str] = []
    world = fake_world(
        StagedModel(reference, stage), tools=StagedTools(reference, stage, ledger.append)
    )
    machine = WorkflowStateMachine(
        reference.definition, world, handlers=reference.handlers, tap=story
    )
    async with asyncio.timeout(10):
        await machine.start(reference.input, allowed=reference.allowed)
        run = await perform(machine, reference, stage)
        await machine.wait()
    assert tuple(story.path()) == reference.path
    assert tuple(sorted(ledger)) == reference.ledger
    assert run.status == ("stopped" if reference.name == "chat" else "finished")
    assert [record for record in run.inbox.values() if record.disposition is None] == []
    unasked = [m for m in reference.moves if m.kind == "say"]
    assert {record.text for record in run.inbox.values()} == {move.text for move in unasked}
