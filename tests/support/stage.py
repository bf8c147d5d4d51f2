"""The stage of the reference workflows: who takes part in a small run that is to be broken on purpose.

Each can be played in one process, or be killed anywhere and taken up by the next: its model is a
function of the request alone, its person knows from the run itself what is still to be said, and
what its `once` tools do goes to a ledger outside of the store.

    stage = Stage()
    tools = StagedTools(reference, stage, ledger.append)
    world = fake_world(StagedModel(reference, stage), tools=tools, clock=stage.clock)
    machine = WorkflowStateMachine(reference.definition, world, handlers=reference.handlers)
    await machine.start(reference.input, allowed=reference.allowed)
    run = await perform(machine, reference, stage)

A model asks for a `once` call with a key that is in no message it sees. So a key stands in the ledger
twice only if midstream repeated a call by itself.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, Literal, TypeAlias

import msgspec

from midstream.core.decide.steering import NOT_KNOWN, OUTCOMES
from midstream.core.inputs import RequestedCall
from midstream.core.pending import AwaitTime, pending
from midstream.core.question import Decision, Question
from midstream.core.run import Run
from midstream.core.summaries import why_not
from midstream.language.errors import WorldTrouble
from midstream.language.names import REQUEST_USERS_INPUT, Effect, Json, Policy
from midstream.language.spec import Definition, ToolSpec
from midstream.runtime.handler_run import HandlerRun
from midstream.runtime.handlers import ScriptHandlers
from midstream.runtime.ports import (
    Handlers,
    Machine,
    ModelReply,
    ModelRequest,
    ReplyListener,
    Review,
    ToolContext,
    ToolOutcome,
)
from midstream.testing.fakes import FakeTool, FakeTools, JumpingClock, call, define

Ledger: TypeAlias = Callable[[str], None]
"""Hears the key of a `once` call when it takes effect, such as a function that appends to a file."""

INPUT: Final = "(input)"
"""As the cue of a move: a state waits for the person's words."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a reference's model says to a request.

    `pieces` stream one by one. With a `cue` it stands still after the first piece until it is cut
    off, or let go because the person has nothing (more) to say there. `is_stubborn` replies although
    it was cut off. `error` is why the request fails.
    """

    pieces: tuple[str, ...] = ()
    calls: tuple[RequestedCall, ...] = ()
    cue: str = ""
    is_stubborn: bool = False
    error: str = ""


class StageTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a reference; it returns its `key`. With a `cue` it stands still in the middle.

    One that `is_checked` has done its work by then, and says so.
    """

    name: str
    effect: Effect = "read"
    needs_approval: bool = False
    cue: str = ""
    is_checked: bool = False


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """What the person does at a cue: one a model or a tool stands at, a question's text, or `INPUT`.

    Moves that follow each other with the same cue are made in a row. What a person is asked without
    a move for it, `perform` answers by itself: the first choice, a plain word, a yes. `wait` does
    nothing until the time the run waits for has come. `compact`, at `INPUT`, has the older turns
    summarised before the next line.
    """

    cue: str
    text: str = ""
    kind: Literal["say", "refuse", "wait", "compact"] = "say"
    policy: Policy | None = None


class Reference(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A workflow with everyone who takes part in it.

    `path` are the states of a run nobody disturbs, `ledger` the keys its `once` calls leave (sorted).
    `forks_in`: a state; a driver with a store forks the run where it stands after entering it.
    """

    name: str
    definition: Definition
    handlers: Handlers
    model: Callable[[ModelRequest], Reply]
    tools: tuple[StageTool, ...] = ()
    moves: tuple[Move, ...] = ()
    input: Json = None
    allowed: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()
    forks_in: str = ""


# --- the stage ----------------------------------------------------------------------------------


class _StageClock(JumpingClock):
    """A clock that tells when somebody begins to wait for a time."""

    def __init__(self, changed: asyncio.Event) -> None:
        super().__init__()
        self._changed = changed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has jumped so far."""
        self._changed.set()
        await super().sleep(seconds)


class Stage:
    """Where a reference is played in this process: who stands still, and at which cue.

    `clock` is the world's: time passes when nobody has anything else to do.
    """

    def __init__(self) -> None:
        self._standing: list[tuple[str, asyncio.Event]] = []
        self.changed = asyncio.Event()
        self.clock: JumpingClock = _StageClock(self.changed)

    @property
    def cue(self) -> str:
        """Return the cue somebody has stood at the longest, "" if nobody stands."""
        return self._standing[0][0] if self._standing else ""

    def go_on(self, cue: str) -> None:
        """Let go who stands at a cue."""
        for name, event in self._standing:
            if name == cue:
                event.set()

    @contextlib.asynccontextmanager
    async def stand(self, cue: str) -> AsyncIterator[asyncio.Event]:
        """Stand at a cue while the block runs; its event is set when the person says go on."""
        standing = (cue, asyncio.Event())
        self._standing.append(standing)
        self.changed.set()
        try:
            yield standing[1]
        finally:
            self._standing.remove(standing)
            self.changed.set()


class StagedModel:
    """The model of a reference. See the port `Model`. `requests` are those it got, the oldest first."""

    def __init__(self, reference: Reference, stage: Stage) -> None:
        self._reference = reference
        self._stage = stage
        self.requests: list[ModelRequest] = []

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply to one request, its words told to `listener` as they come."""
        self.requests.append(request)
        reply = self._reference.model(request)
        for number, piece in enumerate(reply.pieces):
            listener.text(piece)
            await asyncio.sleep(0)
            if number == 0 and reply.cue:
                await self._stand(reply)
        if reply.error:
            raise WorldTrouble(reply.error)
        for each in reply.calls:
            listener.calling(each.name)
        return ModelReply(text="".join(reply.pieces), calls=reply.calls)

    async def _stand(self, reply: Reply) -> None:
        try:
            async with self._stage.stand(reply.cue) as gate:
                await gate.wait()
        except asyncio.CancelledError:
            if not reply.is_stubborn:
                raise


class StagedTools:
    """The tools of a reference. See the port `Tools`."""

    def __init__(self, reference: Reference, stage: Stage, ledger: Ledger) -> None:
        self._reference = reference
        self._tools = {tool.name: tool for tool in reference.tools}
        self._stage = stage
        self._ledger = ledger

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name."""
        return self._reference.definition.tools

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Allow every call: what needs a yes says so in its spec."""
        return Review()

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended. A `once` call takes effect at once, and ends later."""
        tool = self._tools[name]
        if tool.effect == "once":
            self._ledger(str(arguments["key"]))
        await asyncio.sleep(0)
        done = ToolOutcome(outcome="completed", text=f"done: {arguments['key']}")
        if tool.is_checked:
            await context.done(done)
        if tool.cue:
            async with self._stage.stand(tool.cue) as gate:
                await _first_of(gate.wait(), context.stop.wait())
            if context.stop.is_set() and not tool.is_checked:
                return ToolOutcome(outcome="stopped", text=f"stopped after {arguments['key']}")
        return done


# --- the person ---------------------------------------------------------------------------------


async def perform(machine: Machine, reference: Reference, stage: Stage) -> Run:
    """Be the person until the run has ended, or the machine is closed; return the run.

    What was said already is read off the run: a person who comes back after a crash goes on there.
    """
    while not (machine.run.is_over or machine.is_closed):
        stage.changed.clear()
        seq = machine.run.seq
        if not await _acted(machine, reference, stage):
            await _something_new(machine, stage, seq)
    return machine.run


async def _something_new(machine: Machine, stage: Stage, seq: int) -> None:
    await _first_of(stage.changed.wait(), machine.settled(), _moved(machine, seq))


async def _moved(machine: Machine, seq: int) -> None:
    while machine.run.seq == seq:  # noqa: ASYNC110  # a machine may be of another process
        await asyncio.sleep(0.01)


async def _first_of(*awaited: Awaitable[object]) -> None:
    """Return when one of them has happened; the others are cancelled, and awaited."""
    waits = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for waiting in waits:
            waiting.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


async def _acted(machine: Machine, reference: Reference, stage: Stage) -> bool:
    """Make the next move; False if there is nothing to do now."""
    run = machine.run
    if run.compacting is not None and not stage.cue:
        return False
    if (until := _awaited(run, reference, stage)) is not None:
        stage.clock.jump(until - stage.clock.now())
        await asyncio.sleep(0)
        return True
    for id, move in _unsaid(run, reference):
        is_burst = _is_burst(run, reference, id)
        if move.cue == stage.cue or is_burst:
            await machine.say(move.text, unasked=True, policy=move.policy, id=id)
            return True
    if stage.cue:
        stage.go_on(stage.cue)
        await asyncio.sleep(0)
        return True
    for question in run.inbox.open_questions:
        if _kind_at(reference, _cue_of(question)) != "wait":
            await _answer(machine, reference, question)
            return True
    if run.is_parked:
        await machine.say("Go on.")
        return True
    return False


def _awaited(run: Run, reference: Reference, stage: Stage) -> float | None:
    """Return the time that is to come now, None while somebody has something else to do."""
    owed = pending(run)
    times = [each.until for each in owed if isinstance(each, AwaitTime) and each.until is not None]
    cues = (
        [stage.cue] if stage.cue else [_cue_of(question) for question in run.inbox.open_questions]
    )
    is_idle = all(isinstance(each, AwaitTime) for each in owed) and not cues
    if times and (is_idle or any(_kind_at(reference, cue) == "wait" for cue in cues)):
        return min(times)
    return None


def _kind_at(reference: Reference, cue: str) -> str:
    return next((move.kind for move in reference.moves if move.cue == cue), "say")


def _unsaid(run: Run, reference: Reference) -> Iterator[tuple[str, Move]]:
    """Yield the moves at cues of models and tools that have not been made, with the words' ids."""
    for number, move in enumerate(reference.moves):
        id = f"{reference.name}-{number}"
        if id not in run.inbox.lines and move.kind == "say":
            yield id, move


def _is_burst(run: Run, reference: Reference, id: str) -> bool:
    """Return whether the move before, at the same cue, has been made: then this one follows."""
    number = int(id.rpartition("-")[2])
    if number == 0 or reference.moves[number - 1].cue != reference.moves[number].cue:
        return False
    return f"{reference.name}-{number - 1}" in run.inbox.lines


async def _answer(machine: Machine, reference: Reference, question: Question) -> None:
    move = next((move for move in reference.moves if move.cue == _cue_of(question)), None)
    if question.kind == "approval":
        granted = move is None or move.kind != "refuse"
        await machine.approve(question.id, Decision(granted=granted))
        return
    if question.choices == tuple(OUTCOMES):
        text = NOT_KNOWN
    elif question.kind == "input":
        asked = sum(q.kind == "input" for q in machine.run.inbox.questions)
        if _is_to_compact(machine.run, reference, asked):
            await machine.compact("what was said")
            return
        lines = [m.text for m in reference.moves if m.cue == INPUT and m.kind == "say"]
        if asked > len(lines):
            await machine.stop("nothing is left to say")
            return
        text = lines[asked - 1]
    elif move is not None:
        text = move.text
    else:
        text = question.choices[0] if question.choices else "As you like."
    await machine.say(text, question=question.id, id=f"{reference.name}-{question.id}")


def _is_to_compact(run: Run, reference: Reference, asked: int) -> bool:
    """Return whether a summary comes before the next line, and there is something to summarise."""
    moves = [move.kind for move in reference.moves if move.cue == INPUT]
    before = [kind for n, kind in enumerate(moves) if moves[:n].count("say") < asked]
    return before.count("compact") > run.compactions and not why_not(run)


def _cue_of(question: Question) -> str:
    if question.kind == "approval":
        return question.text.partition(" ")[0]
    return question.text


# --- what the references are made of ---------------------------------------------------------

RECORD: Final = StageTool(name="record", effect="once")
LOOK: Final = StageTool(name="look", effect="read")
TOUCH: Final = StageTool(name="touch", effect="idempotent")

State: TypeAlias = dict[str, Json]


def desk(states: list[State], tools: tuple[StageTool, ...] = (), **more: Json) -> Definition:
    """Return a workflow of these states with one agent, `worker`, at one desk."""
    fakes = FakeTools(
        *(
            FakeTool(name=tool.name, effect=tool.effect, needs_approval=tool.needs_approval)
            for tool in tools
        )
    )
    workflow = {
        "contexts": [{"name": "desk"}],
        "agents": [{"agent_role": "worker", "context": "desk"}],
        "states": [*states, {"name": "stop"}],
        **more,
    }
    return define(workflow, tools=fakes)


def script(**functions: Callable[[HandlerRun], object]) -> ScriptHandlers:
    """Return the handlers of a reference."""
    return ScriptHandlers(functions, where="the reference's script")


def says(*pieces: str, cue: str = "", is_stubborn: bool = False) -> Reply:
    """Return a reply in words."""
    return Reply(pieces=pieces, cue=cue, is_stubborn=is_stubborn)


def unmade(request: ModelRequest, *wanted: RequestedCall) -> tuple[RequestedCall, ...]:
    """Return those calls whose key is in no message the model sees."""
    known = {c.arguments.get("key") for m in request.messages for c in m.calls}
    return tuple(one for one in wanted if one.arguments.get("key") not in known)


def works(request: ModelRequest, *wanted: RequestedCall, then: str) -> Reply:
    """Return the calls not made so far, or the words that end the turn."""
    calls = unmade(request, *wanted)
    return Reply(pieces=("Working. ",), calls=calls) if calls else says(then)


def asking(question: str, *choices: str) -> RequestedCall:
    """Return a call by which an agent asks the person."""
    more: dict[str, Json] = {"choices": list(choices)} if choices else {}
    return call(REQUEST_USERS_INPUT, key=question, question=question, **more)
