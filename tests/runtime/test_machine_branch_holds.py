"""A bare stop of a run with branches: what it waits for, and what goes on afterwards."""

from machine_kit import end, flow, rounds, running
from test_machine_branches import STOP, plays, state

from midstream.core.events import BranchStarted, InputDisposed, Prompted, ToolCalled, ToolReturned
from midstream.language.names import Json
from midstream.runtime.ports import ToolOutcome
from midstream.testing.fakes import FakeTool, Gate, says


def two_sides() -> dict[str, Json]:
    return flow(
        state("start", parallel=["left", "right"], save_as="out"),
        state("left", agent="dude", prompt="L"),
        state("right", tool="deploy"),
        state("resume", agent="critic", next="$interrupted"),
        STOP,
    )


async def test_a_bare_stop_awaits_a_once_call_in_a_branch_and_keeps_how_it_ended() -> None:
    gate, talk = Gate(), Gate()
    ended = ToolOutcome(outcome="completed", text="deployed")
    tool = FakeTool(name="deploy", effect="once", gate=gate, when_stopped=ended)
    lines = {"left": [says("Lef", gate=talk, after=1), says("Left")], "resume": says("Sure.")}
    async with running(two_sides(), *plays(lines), tools=[tool], input="tidy") as here:
        await gate.reached()
        await talk.reached()
        await here.machine.halt()
        await here.machine.settled()
        assert here.run.visit.phase == "held"
        assert [fact.outcome for fact in here.told.of(ToolReturned)] == ["completed"]
        await here.machine.say("go on")
        run = await end(here)

        assert run.status == "finished", run.error
        assert len(here.told.of(ToolCalled)) == 1
        assert [fact.branch for fact in here.told.of(Prompted)] == ["left"]
        assert len(here.told.of(BranchStarted)) == 2


async def test_a_held_run_goes_on_with_words_for_one_branch() -> None:
    gates = [Gate(), Gate()]
    workflow = flow(
        state("start", parallel=["left", "right"], save_as="out"),
        state("left", agent="dude", prompt="L"),
        state("right", agent="dude", prompt="R"),
        STOP,
    )
    lines = {
        "left": [says("Lef", gate=gates[0]), says("Left in src")],
        "right": [says("Rig", gate=gates[1]), says("Right")],
    }
    async with running(workflow, *plays(lines), input="tidy") as here:
        for gate in gates:
            await gate.reached()
        await here.machine.halt()
        await rounds()
        assert here.run.visit.phase == "held"
        await here.machine.say("@left only src")
        run = await end(here)

        assert run.output == {"left": "Left in src", "right": "Right"}
        assert [fact.disposition for fact in here.told.of(InputDisposed)] == ["interrupted"]
        assert [fact.branch for fact in here.told.of(Prompted)] == ["left", "right", "left"]
