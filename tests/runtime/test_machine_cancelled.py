"""A cancellation thrown at every await of three flows: nothing is leaked, nothing is swallowed.

Each flow is driven by one call after the other. The n-th time a driving call is suspended it is
cancelled; then the flow is driven on from wherever the run stands. For every n until the flow gets
through untouched: the cancellation comes out of the call, no task is left, the run is what its
journal folds to, and it ends as it would have.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from machine_kit import Scene, check, flow, replayed, scene

from midstream.core.notices import Envelope
from midstream.runtime.handler_run import HandlerRun
from midstream.testing.fakes import FakeJournal, FakeTool, Gate, Line, asks, call, says

MOST = 400


class Slow(FakeJournal):
    """A journal each of whose appends gives the loop a round before and after it is kept."""

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        await asyncio.sleep(0)
        await super().append(run, expected, facts)
        await asyncio.sleep(0)


class Driver:
    """Drives a flow, and cancels the call that is under way when the n-th suspension comes."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.has_struck = False

    async def __call__(self, doing: Awaitable[Any]) -> None:
        """Do it, or be cancelled in the midst of it: then nothing but the cancellation comes out."""
        task = asyncio.ensure_future(doing)
        while not task.done():
            if self.left == 0 and not self.has_struck:
                self.has_struck = True
                task.cancel()
                await asyncio.wait((task,))
                assert task.cancelled(), "swallowed, or turned into something else"
                return
            self.left -= 1
            await asyncio.sleep(0)
        task.result()


async def note(run: HandlerRun) -> None:
    run.common_data["noted"] = run.common_data.get("noted", 0) + 1
    await asyncio.sleep(0)


WORK = flow(
    {"name": "start", "agent": "dude", "pre_handler": "note"},
    {"name": "resume", "agent": "critic", "next": "$interrupted"},
)
HANDLERS = {"note": note}


async def begins(here: Scene, drive: Driver) -> None:
    """Start the run. Cancelled, it has begun all the same, or can."""
    await drive(here.machine.start("tidy"))
    if here.machine._task is None:
        await here.machine.start("tidy")
    while here.run.visit.phase == "new":  # noqa: ASYNC110 - each round is a step of the flow
        await asyncio.sleep(0)


async def to_the_end(here: Scene, drive: Driver) -> None:
    """Drive the run to its end from wherever it stands."""
    while not here.run.is_over:
        await drive(here.machine.settled())
        if here.run.inbox.open_questions:
            await drive(here.machine.say("src", question=here.question()))
        elif here.run.visit.phase == "held":
            # Cancelled before they were said; the same id again would change nothing.
            await drive(here.machine.say("no, rename", id="words"))
    await drive(here.machine.wait())


async def works(here: Scene, drive: Driver) -> None:
    await begins(here, drive)
    await to_the_end(here, drive)


async def asks_and_hears(here: Scene, drive: Driver) -> None:
    await begins(here, drive)
    await drive(here.machine.settled())
    if here.run.inbox.open_questions:
        await drive(here.machine.say("src", question=here.question(), id="answer"))
        await drive(here.machine.say("src", question="q1", id="answer"))
    await to_the_end(here, drive)


def interrupted(gate: Gate) -> Callable[[Scene, Driver], Awaitable[None]]:
    async def flow(here: Scene, drive: Driver) -> None:
        await begins(here, drive)
        await drive(gate.reached())
        await drive(here.machine.halt())
        await drive(here.machine.say("no, rename", id="words"))
        gate.open()
        await to_the_end(here, drive)

    return flow


Flow = tuple[list[Line], Callable[[Scene, Driver], Awaitable[None]]]


def flows(name: str) -> Flow:
    if name == "works":
        return [call("look"), call("shell"), says("Done ", "now.")], works
    if name == "asks":
        return [asks("Which?"), says("Done.")], asks_and_hears
    gate = Gate()
    script: list[Line] = [says("one ", "two", gate=gate, after=1)]
    return [*script, *["I see." for _ in range(3)]], interrupted(gate)


@pytest.mark.parametrize("name", ["works", "asks", "interrupts"])
async def test_a_cancellation_anywhere_leaves_a_run_that_goes_on(name: str) -> None:
    for step in range(MOST):
        script, play = flows(name)
        tools = [FakeTool(name="look"), FakeTool(name="shell", effect="once")]
        drive = Driver(step)
        async with scene(WORK, *script, tools=tools, handlers=HANDLERS, journal=Slow()) as here:
            await play(here, drive)
            assert here.run.status == "finished", (step, here.run.error)
            assert here.run.common_data["noted"] == 1
            shells = [called for called in here.tools.calls if called.name == "shell"]
            assert len(shells) == (name == "works")
        await check(here)
        if not drive.has_struck:
            assert step > 15
            return
    raise AssertionError("the flow never got through")


@pytest.mark.parametrize("name", ["works", "asks", "interrupts"])
@pytest.mark.parametrize("ending", ["stop", "leave"])
async def test_a_cancellation_anywhere_leaves_a_run_that_can_be_ended(
    name: str, ending: str
) -> None:
    for step in range(MOST):
        script, play = flows(name)
        tools = [FakeTool(name="look"), FakeTool(name="shell", effect="once")]
        drive = Driver(step)

        class Struck(Exception):
            """The flow ends here."""

        class Once(Driver):
            async def __call__(self, doing: Awaitable[Any]) -> None:
                await super().__call__(doing)
                if self.has_struck:
                    raise Struck

        drive = Once(step)
        async with scene(
            WORK,
            *script,
            tools=tools,
            handlers=HANDLERS,
            journal=Slow(),
            is_journaled=False,
        ) as here:
            try:
                await play(here, drive)
            except Struck:
                again = Driver(step % 7)
                end = here.machine.stop if ending == "stop" else here.machine.leave
                if here.machine._task is None:
                    await here.machine.leave()
                else:
                    await again(end())
                    await end()
                    assert here.machine.is_closed
            run = replayed(here.machine.id, await here.journal.read(here.machine.id))
            assert run == here.run, step
            if ending == "stop" and here.machine._task is not None:
                assert run.is_over
        if not drive.has_struck:
            return
    raise AssertionError("the flow never got through")
