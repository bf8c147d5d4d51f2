"""The user types between any two events of a run with handlers, tools and a question in it.

The reference run is told first, then once more for each of its events, with a line thrown in there;
then with many lines at random moments. Whatever the moment, what holds of every run holds.
"""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from machine_kit import Scene, flow, resumed, scene

from midstream.core.events import Interrupted, StateTransition, ToolCalled, ToolReturned
from midstream.core.notices import Envelope
from midstream.language.names import Policy
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.ports import ModelRequest, Receipt
from midstream.testing.fakes import FakeTool, Line, asks, call, calls, says

REFERENCE = flow(
    {
        "name": "start",
        "agent": "dude",
        "pre_handler": "note",
        "post_handler": "keep",
        "transition_handler": "choose",
    },
    {"name": "judge", "agent": "critic", "transition_handler": "choose"},
    {"name": "resume", "agent": "dude", "pre_handler": "note", "next": "$interrupted"},
)
NO_RESUME = {**REFERENCE, "states": REFERENCE["states"][:2]}
LINE = "no, rename"


def note(run: HandlerRun) -> None:
    run.log(f"in {run.state}")
    run.common_data.setdefault("seen", []).append(run.state)


async def keep(run: HandlerRun) -> None:
    await asyncio.sleep(0)
    run.contexts["talk"].add_message("assistant", run.last_response.text)


def choose(run: HandlerRun) -> str:
    return "judge" if run.state == "start" else "stop"


class Player:
    """A model that works in each state: tools twice, a question, then words."""

    def __init__(self) -> None:
        self._numbers = iter(range(10_000))

    def __call__(self, request: ModelRequest) -> Line:
        number = next(self._numbers)
        if request.state == "resume":
            return says("I see", ", I will.")
        answered = sum(len(message.calls) for message in request.messages)
        if request.state == "judge":
            return says("It ", "is ", "good.") if request.request > 1 else call("look", n=number)
        if request.request == 1:
            return calls(call("look", n=number), call("shell", n=number), text="Let me see.")
        if request.request == 2:
            return asks(f"Which, after {answered}?")
        return says("Done ", "with ", "it.")


async def work(_arguments: object) -> str:
    for _ in range(3):
        await asyncio.sleep(0)
    return "ok"


TOOLS = (
    FakeTool(name="look", answer=work),
    FakeTool(name="shell", effect="once", answer=work),
)
HANDLERS = {"note": note, "keep": keep, "choose": choose}


class Thrower:
    """Hears events, and says something in the moment of some of them."""

    def __init__(self, here: Scene, moments: dict[int, tuple[str, Policy | None]]) -> None:
        self._here = here
        self._moments = moments
        self._heard = 0
        self.speaking: list[asyncio.Task[Receipt]] = []

    def __call__(self, envelope: Envelope) -> None:
        self._here.told(envelope)
        thrown = self._moments.get(self._heard)
        self._heard += 1
        if thrown is not None:
            text, policy = thrown
            speak = self._here.machine.say(text, policy=policy, unasked=True)
            self.speaking.append(asyncio.ensure_future(speak))


async def played(
    workflow: dict[str, Any], moments: dict[int, tuple[str, Policy | None]]
) -> tuple[Scene, list[Receipt]]:
    """Return the scene of a run played to its end, and the receipts of what was thrown in."""
    async with scene(workflow, Player(), tools=TOOLS, handlers=HANDLERS) as here:
        thrower = Thrower(here, moments)
        here.machine._events.tap = thrower
        await here.machine.start("tidy")
        while not (run := await here.machine.settled()).is_over:
            question = run.inbox.open_questions[0].id if run.inbox.open_questions else None
            await here.machine.say("this one", question=question)
        receipts = await asyncio.gather(*thrower.speaking)
        await here.machine.wait()
    check_once_tools(here)
    return here, receipts


def check_once_tools(here: Scene) -> None:
    """Fail if a tool that acts once was called more often than told, or a call ended twice."""
    made = Counter(called.arguments["n"] for called in here.tools.calls if called.name == "shell")
    assert set(made.values()) <= {1}
    begun = [fact.call_id for fact in here.told.of(ToolCalled)]
    ended = [fact.call_id for fact in here.told.of(ToolReturned)]
    assert len(set(begun)) == len(begun)
    assert len(set(ended)) == len(ended)
    assert set(begun) <= set(ended)


async def test_the_reference_run_plays_to_its_end() -> None:
    here, _ = await played(REFERENCE, {})

    assert here.run.status == "finished"
    assert here.told.path() == ["start", "judge", "stop"]
    assert here.run.common_data == {"seen": ["start"]}
    assert len(here.told.events) > 30


@pytest.mark.parametrize("workflow", [REFERENCE, NO_RESUME], ids=["resume", "no_resume"])
async def test_a_line_at_every_event_is_heard_and_breaks_nothing(workflow: dict[str, Any]) -> None:
    reference, _ = await played(workflow, {})
    target = "resume" if workflow is REFERENCE else "start"
    became = Counter[str | None]()
    for moment in range(len(reference.told.events)):
        here, (receipt,) = await played(workflow, {moment: (LINE, None)})
        assert here.run.status == "finished", (moment, here.run.error)
        record = here.run.inbox.lines.get(receipt.input_id)
        if record is None:
            assert receipt.reason == "the run has ended", moment
            continue
        became[record.disposition] += 1
        if record.disposition == "interrupted":
            assert here.run.common_data["resume_input"] == LINE
            entered = [(fact.target, fact.reason) for fact in here.told.of(StateTransition)]
            assert (target, "interrupted") in entered

    assert became["interrupted"] > 20
    assert became.keys() <= {"interrupted", "rejected"}


@pytest.mark.parametrize("seed", range(40))
async def test_many_lines_at_random_moments_break_nothing(seed: int) -> None:
    chance = random.Random(seed)
    policies: list[Policy | None] = [None, None, "interrupt", "steer", "queue", "reject"]
    moments = {
        chance.randrange(120): (f"line {n}", chance.choice(policies))
        for n in range(chance.randrange(1, 9))
    }
    workflow = chance.choice([REFERENCE, NO_RESUME])
    here, _ = await played(workflow, moments)

    assert here.run.status == "finished", (seed, here.run.error)
    halts = len({fact.epoch for fact in here.told.of(Interrupted)})
    assert halts == here.run.halt.epoch
    if workflow is REFERENCE:
        assert resumed(here) >= bool(halts)


@pytest.mark.parametrize("seed", range(20))
async def test_a_stop_at_a_random_moment_ends_the_run(seed: int) -> None:
    chance = random.Random(seed)
    async with scene(REFERENCE, Player(), tools=TOOLS, handlers=HANDLERS) as here:
        moment = chance.randrange(2, 25)
        stopping: list[asyncio.Task[None]] = []
        tell = here.told.__call__

        def stop(envelope: Envelope) -> None:
            tell(envelope)
            if len(here.told.events) == moment:
                stopping.append(asyncio.ensure_future(here.machine.stop()))

        here.machine._events.tap = stop
        await here.machine.start("tidy")
        await here.machine.settled()
        await asyncio.gather(*stopping)
        if not stopping:
            await here.machine.stop()

        assert here.run.status == "stopped"
    check_once_tools(here)
