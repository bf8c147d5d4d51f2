"""Minutes of a budget, by the clock: told while a run is at work, kept when it goes on elsewhere."""

from machine_kit import START, Scene, at_rest, flow, replayed, rounds, running, scene

from midstream.core.events import TimeSpent
from midstream.core.question import STOP_THERE, Decision
from midstream.core.run import Run
from midstream.language.errors import JournalFull
from midstream.language.names import Json
from midstream.language.spec import Budget
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.testing.fakes import FakeJournal, FakeTool, Gate, Scripted, call, calls, says

LOOPING: dict[str, Json] = {**START, "next": "start"}
WRITE = FakeTool(name="write", effect="idempotent", needs_approval=True)


def slow(gate: Gate) -> Scripted:
    return Scripted(pieces=("x",), gate=gate)


async def journaled(here: Scene) -> Run:
    return replayed(here.machine.id, await here.journal.read(here.machine.id))


async def test_a_run_asks_once_its_minutes_are_over() -> None:
    gates = [Gate(), Gate()]
    workflow = flow(LOOPING, budget={"minutes": 2})
    async with running(workflow, *map(slow, gates), input="tidy") as here:
        for gate in gates:
            await gate.reached()
            here.clock.jump(60)
            gate.open()
        run = await here.machine.settled()

        assert "2 minutes" in run.inbox.open_questions[0].text
        assert run.usage.active_s == (await journaled(here)).usage.active_s == 120
        await here.machine.say(STOP_THERE, question=run.inbox.open_questions[0].id)


async def test_an_hour_before_a_yes_does_not_count() -> None:
    workflow = flow(LOOPING, budget={"minutes": 2})
    gate = Gate()
    async with at_rest(
        workflow, calls(call("write")), slow(gate), tools=[WRITE], input="tidy"
    ) as here:
        here.clock.jump(3600)
        await here.machine.approve(here.question(), Decision(granted=True))
        await gate.reached()

        assert here.run.usage.active_s == 0


async def test_time_at_work_is_kept_when_the_run_goes_on_elsewhere() -> None:
    gate, again = Gate(), Gate()
    workflow = flow(LOOPING, budget={"minutes": 2})
    async with running(workflow, slow(gate), slow(again), is_journaled=False, input="tidy") as here:
        await gate.reached()
        here.clock.jump(90)
        left = await here.machine.leave()
        assert left.usage.active_s == 90
        here.clock.jump(3600)
        run = await journaled(here)
        assert run == left
        assert run.definition is not None
        machine = WorkflowStateMachine(run.definition, here.machine._world, id=run.id)
        await machine.resume(run, was_cut=False)
        await again.reached()
        here.clock.jump(30)
        again.open()
        await machine.settled()

        assert machine.run.usage.active_s == 120
        assert [question.about for question in machine.run.inbox.open_questions] == ["budget"]
        await machine.stop()


async def test_a_full_disk_keeps_nobody_from_leaving() -> None:
    gate, journal = Gate(), FakeJournal()
    workflow = flow(LOOPING, budget={"minutes": 2})
    async with running(
        workflow, slow(gate), journal=journal, is_journaled=False, input="tidy"
    ) as here:
        await gate.reached()
        here.clock.jump(90)
        journal.trouble = JournalFull("There is no room.", hint="Make room.")
        run = await here.machine.leave()

        assert run.status == "running"
        assert run.usage.active_s == 0


async def test_a_clock_that_is_set_back_takes_nothing_away() -> None:
    gate, second = Gate(), Gate()
    workflow = flow(LOOPING, budget={"minutes": 9})
    async with running(workflow, slow(gate), slow(second), input="tidy") as here:
        await gate.reached()
        here.clock.jump(90)
        await here.machine.say("later", policy="queue")
        here.clock.jump(-4000)
        gate.open()
        await second.reached()

        assert here.run.usage.active_s == 90


async def test_nothing_is_told_where_no_budget_counts_minutes() -> None:
    gate = Gate()
    async with scene(flow(START), slow(gate)) as here:
        await here.machine.start("tidy", limits=Budget(usd=1))
        await gate.reached()
        here.clock.jump(90)
        gate.open()
        await here.machine.wait()

        assert here.told.of(TimeSpent) == []


async def test_short_times_are_told_together() -> None:
    workflow = flow(LOOPING, budget={"minutes": 2})
    gates = [Gate() for _ in range(5)]
    async with running(workflow, *map(slow, gates), says("end"), input="tidy") as here:
        for gate in gates[:4]:
            await gate.reached()
            here.clock.jump(0.4)
            gate.open()
        await gates[4].reached()
        await rounds()

        assert [round(fact.seconds, 3) for fact in here.told.of(TimeSpent)] == [1.2]
