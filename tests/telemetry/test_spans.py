"""Facts to spans: a strict collector takes the traces of every kind of run there is."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from support.collector import Collector
from support.reference import references
from support.stage import Reference, Stage, StagedModel, StagedTools, perform
from telemetry_kit import told

from midstream.core.notices import Envelope
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import FakeJournal, fake_world


class Ticking(FakeJournal):
    """A journal whose facts have times half a second apart; what is journaled together has one."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[Envelope] = []
        self._appends = 0

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        self._appends += 1
        await super().append(run, expected, facts)
        self.facts += [replace(fact, at=fact.at + self._appends / 2) for fact in facts]


async def played(reference: Reference) -> list[Envelope]:
    """Return the facts of a reference that nobody disturbs."""
    stage, journal = Stage(), Ticking()
    tools = StagedTools(reference, stage, lambda key: None)
    model = StagedModel(reference, stage)
    world = fake_world(model, tools=tools, clock=stage.clock, journal=journal)
    machine = WorkflowStateMachine(reference.definition, world, handlers=reference.handlers)
    await machine.start(reference.input, allowed=reference.allowed)
    await perform(machine, reference, stage)
    await machine.wait()
    return journal.facts


@pytest.mark.parametrize("reference", references(), ids=lambda known: known.name)
async def test_every_kind_of_run_is_one_whole_trace(reference: Reference) -> None:
    facts = await played(reference)
    collector = Collector()

    trace = told(collector, facts)

    assert trace.open == 0
    spans = collector.whole()
    assert len({span.trace for span in spans.values()}) == 1
    assert {span.attributes["midstream.run.id"] for span in spans.values()} == {facts[0].run}
    before = {name: dict(point) for name, point in collector.points.items()}
    told(collector, facts)  # twice is once: the collector refuses another span of the same id
    assert collector.points == before
