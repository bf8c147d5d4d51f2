"""The reference workflows take the path they say they take, when nobody disturbs them."""

import pytest
from support.reference import references
from support.stage import Reference, Stage, StagedModel, StagedTools, perform

from midstream.core.decide.steering import NOT_KNOWN
from midstream.core.events import StateTransition
from midstream.core.routing import address_of
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import Chronicle, fake_world


@pytest.mark.parametrize("reference", references(), ids=lambda known: known.name)
async def test_a_reference_goes_its_way_and_leaves_its_ledger(reference: Reference) -> None:
    stage, story = Stage(), Chronicle()
    ledger: list[str] = []
    tools = StagedTools(reference, stage, ledger.append)
    world = fake_world(StagedModel(reference, stage), tools=tools, clock=stage.clock)
    machine = WorkflowStateMachine(
        reference.definition, world, handlers=reference.handlers, tap=story
    )
    await machine.start(reference.input, allowed=reference.allowed)
    run = await perform(machine, reference, stage)
    await machine.wait()
    own = [fact for fact in story.of(StateTransition) if not fact.branch]
    assert tuple(fact.target for fact in own) == reference.path
    assert tuple(sorted(ledger)) == reference.ledger
    assert run.status == ("stopped" if reference.name in ("chat", "compacted") else "finished")
    assert [record for record in run.inbox.lines.values() if record.disposition is None] == []
    said = {address_of(move.text)[1] for move in reference.moves if move.kind == "say"}
    assert {record.text for record in run.inbox.lines.values()} - {NOT_KNOWN} == said
