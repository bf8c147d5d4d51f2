"""What the tests of the machine share: a scene with fakes, and what is true of every run in it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from deadline import DEADLINE_S as DEADLINE_S

from midstream.core import events as e
from midstream.core.fold.apply import apply
from midstream.core.notices import Envelope, TextDelta
from midstream.core.run import Run
from midstream.language.names import Json
from midstream.language.spec import Role
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import Hooks, ModelRequest
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.store.memory import MemoryStore
from midstream.testing.fakes import (
    Chronicle,
    FakeJournal,
    FakeTool,
    FakeTools,
    JumpingClock,
    Line,
    ScriptedModel,
    define,
    fake_world,
)
from midstream.tools.validation import validate


def flow(*states: dict[str, Json], **fields: Json) -> dict[str, Json]:
    """Return a workflow with `dude`, `critic` (on the user's side) and `judge` in one context."""
    return {
        "contexts": [{"name": "talk"}],
        "agents": [
            {"agent_role": "dude", "context": "talk"},
            {"agent_role": "critic", "context": "talk", "role": "user"},
        ],
        "states": list(states),
        **fields,
    }


START: dict[str, Json] = {"name": "start", "agent": "dude"}
RESUME: dict[str, Json] = {"name": "resume", "agent": "dude", "next": "$interrupted"}
PLAIN = flow(START)
RESUMING = flow(START, RESUME)


LET_GO = "the run was let go of here: resume it in an engine that is open"


class Scene:
    """A machine among fakes, with everything it told."""

    def __init__(
        self,
        workflow: dict[str, Json],
        script: Iterable[Line | Callable[[ModelRequest], Line]],
        tools: Iterable[FakeTool],
        handlers: Mapping[str, Callable[[HandlerRun], Json]],
        roles: dict[str, Role],
        journal: FakeJournal | MemoryStore,
        timeout_s: float,
        hooks: Hooks | None = None,
    ) -> None:
        self.model = ScriptedModel(*script)
        self.tools = FakeTools(*tools)
        self.clock = JumpingClock()
        self.journal = journal
        self.told = Chronicle()
        world = fake_world(
            self.model,
            tools=self.tools,
            journal=journal,
            clock=self.clock,
            validate=validate,
            hooks=hooks,
        )
        self.machine = WorkflowStateMachine(
            define(workflow, roles=roles, tools=self.tools),
            world,
            handlers=ScriptHandlers(handlers, timeout_s=timeout_s),
            tap=self.told,
        )

    @property
    def run(self) -> Run:
        return self.machine.run

    def question(self) -> str:
        """Return the id of the one open question."""
        (question,) = self.run.inbox.open_questions
        return question.id


@asynccontextmanager
async def scene(
    workflow: dict[str, Json],
    *script: Line | Callable[[ModelRequest], Line],
    tools: Iterable[FakeTool] = (),
    handlers: Mapping[str, Callable[[HandlerRun], Json]] | None = None,
    roles: dict[str, Role] | None = None,
    journal: FakeJournal | MemoryStore | None = None,
    timeout_s: float = DEADLINE_S,
    is_journaled: bool = True,
    hooks: Hooks | None = None,
) -> AsyncIterator[Scene]:
    """Yield a machine that has not begun. Afterwards nothing of it is left, and its story holds."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(DEADLINE_S):
        here = Scene(
            workflow,
            script,
            tools,
            handlers or {},
            roles or {},
            journal or MemoryStore(),
            timeout_s,
            hooks,
        )
        yield here
        if here.run.visit.phase != "new":
            await here.machine.stop()
        left = asyncio.all_tasks() - before
        assert not left, left
    if is_journaled:
        await check(here)


@asynccontextmanager
async def running(
    workflow: dict[str, Json],
    *script: Line | Callable[[ModelRequest], Line],
    input: Json = None,
    **how: Any,
) -> AsyncIterator[Scene]:
    """Yield a machine that has begun with an input; see `scene`."""
    async with scene(workflow, *script, **how) as here:
        await here.machine.start(input)
        yield here


@asynccontextmanager
async def at_rest(
    workflow: dict[str, Json], *script: Line | Callable[[ModelRequest], Line], **how: Any
) -> AsyncIterator[Scene]:
    """Yield a machine that has begun and waits for somebody, or has ended; see `running`."""
    async with running(workflow, *script, **how) as here:
        await here.machine.settled()
        yield here


async def begin(here: Scene, input: Json = "tidy", **start: Any) -> None:
    """Start the run and let it come to rest or to a gate."""
    await here.machine.start(input, **start)


async def end(here: Scene) -> Run:
    """Return the run once it has ended."""
    return await here.machine.wait()


async def rounds(count: int = 20) -> None:
    """Let everything that can happen now happen."""
    for _ in range(count):
        await asyncio.sleep(0)


async def all_of(*waiting: Awaitable[Any]) -> list[Any]:
    """Return the results of all, awaited at once."""
    return list(await asyncio.gather(*waiting))


# --- what is true of every run --------------------------------------------------------------------


async def check(here: Scene) -> None:
    """Fail unless what holds of every run that has ended holds of this one."""
    journaled = await here.journal.read(here.machine.id)
    told = [envelope for envelope in here.told.events if isinstance(envelope.event, e.Fact)]
    assert told == journaled, "what was told is what was journaled, in the same order"
    assert [envelope.seq for envelope in journaled] == list(range(1, len(journaled) + 1))
    assert replayed(here.machine.id, journaled) == here.run

    received = [fact.input_id for fact in here.told.of(e.InputReceived)]
    disposed = [fact.input_id for fact in here.told.of(e.InputDisposed)]
    assert len(set(received)) == len(received), "a line is received once"
    assert sorted(received) == sorted(disposed), "a line ends in exactly one way"

    for request in here.model.requests:
        check_request(request)
    specs = here.tools.specs()
    made = Counter((call.name, str(call.arguments)) for call in here.tools.calls)
    begun = Counter((fact.name, str(fact.arguments)) for fact in here.told.of(e.ToolCalled))
    for key, count in made.items():
        assert count <= begun[key], "no call is made without being told first"
    assert {call.name for call in here.tools.calls} <= set(specs)
    check_shown(here.told.events)


def check_request(request: ModelRequest) -> None:
    """Fail unless every call in a request has exactly one result, in call order."""
    for message in request.messages:
        made = [call.id for call in message.calls]
        assert [result.call_id for result in message.results] == made
    assert request.messages
    assert request.messages[-1].role != "assistant" or request.messages[-1].calls


def check_shown(events: Iterable[Envelope]) -> None:
    """Fail unless what a halt kept is what had been shown, and nothing of it was shown later."""
    shown: dict[tuple[str, str], str] = {}
    for event in (envelope.event for envelope in events):
        match event:
            case TextDelta(agent=agent, text=text, branch=branch):
                shown[branch, agent] = shown.get((branch, agent), "") + text
            case e.Interrupted(agent=agent, partial=partial, branch=branch) if partial:
                assert shown.get((branch, agent), "") == partial
            case e.ReplyCut(agent=agent, partial=partial, branch=branch):
                assert shown.get((branch, agent), "") == partial
            case _:
                pass
        if isinstance(event, e.Fact) and _ends_reply(event):
            # A reply, a halt: whatever streams next there is another reply.
            shown = {key: text for key, text in shown.items() if key[0] != event.branch}


def _ends_reply(event: e.Fact) -> bool:
    name = type(event).__name__
    return name in ("AgentResponded", "AgentFailed", "Interrupted", "ReplyCut", "RunFailed")


def replayed(run_id: str, journaled: Iterable[Envelope]) -> Run:
    """Return the run folded from its facts as a journal on disk would give them back."""
    run = Run(id=run_id)
    for envelope in journaled:
        text = msgspec.json.encode(envelope.event)
        fact: e.AnyFact = msgspec.json.decode(text, type=e.AnyFact)
        run = apply(run, fact)
    return run


def resumed(here: Scene) -> int:
    """Return how often the run entered `resume`."""
    return [t.target for t in here.told.of(e.StateTransition)].count("resume")
