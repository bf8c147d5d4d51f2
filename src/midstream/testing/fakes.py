"""Fakes of the ports, for tests of workflows: no network, no disk, no waiting, no chance.

A user's own test in a few lines:

    async def test_the_haiku_is_criticised():
        model = ScriptedModel("An old silent pond", "Too old.", "A new silent pond")
        story = Chronicle()
        machine = WorkflowStateMachine(define(HAIKU), fake_world(model), tap=story)
        await machine.start("rain")
        await machine.wait()
        assert story.path() == ["start", "criticise", "rewrite", "stop"]

What happens in the middle is reached with a `Gate`: a reply or a tool stands before it until the
test opens it. `Chronicle.until` waits for an event. So a test never sleeps, and always meets the
run in the same place.
"""

import asyncio
import copy
import hashlib
import heapq
import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from midstream.core.events import Fact, StateTransition, Usage
from midstream.core.inputs import RequestedCall
from midstream.core.notices import Envelope, TextDelta
from midstream.language.errors import JournalMoved, WorldTrouble
from midstream.language.names import JOIN_WORKTREE, OPEN_WORKTREE, REQUEST_USERS_INPUT, Effect, Json
from midstream.language.spec import Definition, Role, ToolSpec, Workflow
from midstream.runtime.ports import (
    BlobStore,
    Clock,
    Hooks,
    Journal,
    Model,
    ModelReply,
    ModelRequest,
    ReplyListener,
    Review,
    ToolContext,
    ToolOutcome,
    Tools,
    Validator,
    World,
    completed,
)

T = TypeVar("T")


class Gate:
    """A place where something stands still until the test opens it."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._opened = asyncio.Event()

    async def reached(self) -> None:
        """Return once something stands before the gate."""
        await self._reached.wait()

    def open(self) -> None:
        """Let through what stands here, and all that comes."""
        self._opened.set()

    async def passed(self) -> None:
        """Stand before the gate; return when it is open."""
        self._reached.set()
        await self._opened.wait()


# --- time -------------------------------------------------------------------------------------


class JumpingClock:
    """A clock that stands still until the test jumps. See the port `Clock`."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._began = now
        self._passed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._cut = 0

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""
        return self._began + self._passed

    def monotonic(self) -> float:
        """Return how many seconds have passed."""
        return self._passed

    def set(self, now: float) -> None:
        """Set the clock, as people and time servers do: no time passes, nobody wakes."""
        self._began = now - self._passed

    async def sleep(self, seconds: float) -> None:
        """Return once the clock has jumped so far. No time, or less, passes at once."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), waiter))
        try:
            await waiter
        finally:
            if waiter.cancelled():
                self._forget_cut()

    def _forget_cut(self) -> None:
        """Let go of those who were cut off before their time came, once they are the most."""
        self._cut += 1
        if 2 * self._cut > len(self._sleepers):
            self._sleepers = [each for each in self._sleepers if not each[2].done()]
            heapq.heapify(self._sleepers)
            self._cut = 0

    def jump(self, seconds: float) -> None:
        """Move the time on and wake whose time has come, the earliest first."""
        self._passed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._passed:
            _, _, waiter = heapq.heappop(self._sleepers)
            if not waiter.done():
                waiter.set_result(None)

    def sleepers(self) -> int:
        """Return how many sleep."""
        return sum(not waiter.done() for _, _, waiter in self._sleepers)


# --- models -----------------------------------------------------------------------------------


class Scripted(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a `ScriptedModel`.

    `pieces` stream one by one; with a `gate` the stream stands before it after `gate_after` pieces
    (None: after the last one). `error` is raised then instead of replying. `stubborn` goes on
    streaming and replies although it was cancelled, as a bad adapter does.
    """

    pieces: tuple[str, ...] = ()
    calls: tuple[RequestedCall, ...] = ()
    thinking: str = ""
    usage: Usage | None = None
    gate: Gate | None = None
    gate_after: int | None = None
    error: BaseException | None = None
    stubborn: bool = False


Line: TypeAlias = Scripted | str | RequestedCall | BaseException
"""A reply in short: words, one tool call, an error to raise, or a `Scripted` in full."""


def says(*pieces: str, gate: Gate | None = None, after: int | None = None) -> Scripted:
    """Return a reply in words, streamed in these pieces, perhaps held by a gate after so many."""
    return Scripted(pieces=pieces, gate=gate, gate_after=after)


def call(name: str, /, **arguments: Json) -> RequestedCall:
    """Return a tool call as a model asks for it."""
    return RequestedCall(name=name, arguments=arguments)


def calls(*requested: RequestedCall, text: str = "") -> Scripted:
    """Return a reply that calls tools, all at once."""
    return Scripted(pieces=(text,) if text else (), calls=requested)


def asks(question: str, **arguments: Json) -> Scripted:
    """Return a reply that asks the user; `choices` and `schema` may be given."""
    return calls(call(REQUEST_USERS_INPUT, question=question, **arguments))


class Asked:
    """A request a `ScriptedModel` got: what was asked, what was streamed, and how it ended."""

    def __init__(self, request: ModelRequest) -> None:
        self.request = request
        self.streamed: list[str] = []
        self.ended: Literal["", "replied", "failed", "cancelled"] = ""

    def words(self) -> list[tuple[str, str]]:
        """Return the conversation it was shown, as (side, words) pairs."""
        return [(message.role, message.text) for message in self.request.messages]


class ScriptedModel:
    """A model that gives the replies of its script, in order, to whoever asks. See the port `Model`.

    Args:
        script: the replies; or one function that returns the reply to a request.

    A request after the last reply fails, so that a run that asks too much is seen.
    """

    def __init__(self, *script: Line | Callable[[ModelRequest], Line]) -> None:
        self._script: list[Line | Callable[[ModelRequest], Line]] = list(script)
        self._is_function = len(script) == 1 and callable(script[0])
        self.asked: list[Asked] = []

    @property
    def requests(self) -> list[ModelRequest]:
        """Return the requests so far, the oldest first."""
        return [asked.request for asked in self.asked]

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the script's next reply, its words told to `listener` piece by piece."""
        asked = Asked(request)
        self.asked.append(asked)
        try:
            reply = await self._play(self._next(request), asked, listener)
        except asyncio.CancelledError:
            asked.ended = "cancelled"
            raise
        except BaseException:
            asked.ended = "failed"
            raise
        asked.ended = "replied"
        return reply

    def _next(self, request: ModelRequest) -> Scripted:
        if not self._script:
            raise WorldTrouble(
                f"The scripted model has no reply left for {request.agent} in {request.state!r}.",
                hint="Add one to the script, or see why the run asks once more.",
            )
        line = self._script[0] if self._is_function else self._script.pop(0)
        return _in_full(line(request) if callable(line) else line)

    async def _play(self, line: Scripted, asked: Asked, listener: ReplyListener) -> ModelReply:
        if line.thinking:
            listener.thinking(line.thinking)
        if (usage := line.usage) is not None:
            listener.metered(lambda: msgspec.structs.replace(usage, is_estimate=True))
        gate_after = len(line.pieces) if line.gate_after is None else line.gate_after
        for number, piece in enumerate((*line.pieces, "")):
            if line.gate is not None and number == gate_after:
                await _passed(line.gate, line.stubborn)
            if piece:
                asked.streamed.append(piece)
                listener.text(piece)
                await asyncio.sleep(0)
        for call in line.calls:
            listener.calling(call.name)
        if line.error is not None:
            raise line.error
        return ModelReply(text="".join(line.pieces), calls=line.calls, usage=line.usage)


def _in_full(line: Line) -> Scripted:
    match line:
        case str():
            return Scripted(pieces=(line,))
        case RequestedCall():
            return Scripted(calls=(line,))
        case BaseException():
            return Scripted(error=line)
        case _:
            return line


async def _passed(gate: Gate, is_stubborn: bool) -> None:
    try:
        await gate.passed()
    except asyncio.CancelledError:
        if not is_stubborn:
            raise


# --- tools ------------------------------------------------------------------------------------

Answer: TypeAlias = str | ToolOutcome
Function: TypeAlias = Callable[[dict[str, Json]], Answer | Awaitable[Answer]]


class FakeTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of `FakeTools`.

    `answer` is the result, or a function of the arguments that returns it. With a `gate` the call
    stands before it; told to stop there, it ends with `when_stopped` (None: it does not listen). With a
    `review`, or a function that makes one of the arguments and context, its calls are reviewed.
    """

    name: str
    answer: Answer | Function = "ok"
    effect: Effect = "read"
    needs_approval: bool = False
    review: Review | Callable[[dict[str, Json], ToolContext], Review] | None = None
    parameters: dict[str, Json] = msgspec.field(default_factory=lambda: {"type": "object"})
    gate: Gate | None = None
    when_stopped: ToolOutcome | None = ToolOutcome(outcome="stopped", text="stopped softly")


class Called:
    """A call `FakeTools` got, and how it ended: "" while it runs, else its outcome or `cancelled`."""

    def __init__(self, name: str, arguments: dict[str, Json], context: ToolContext) -> None:
        self.name = name
        self.arguments = arguments
        self.context = context
        self.ended = ""


class FakeTools:
    """Tools made of plain functions, and the one that asks the user. See the port `Tools`."""

    def __init__(self, *tools: FakeTool) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.calls: list[Called] = []

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name."""
        asking = FakeTool(name=REQUEST_USERS_INPUT)
        return {
            tool.name: ToolSpec(
                name=tool.name,
                description=f"The fake {tool.name}.",
                parameters=tool.parameters,
                effect=tool.effect,
                needs_approval=tool.needs_approval,
                reviewed=tool.review is not None,
            )
            for tool in (*self._tools.values(), asking)
        }

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Return the tool's own review; what is not reviewed is allowed."""
        tool = self._tools.get(name)
        if tool is None or tool.review is None:
            return Review()
        return tool.review(arguments, context) if callable(tool.review) else tool.review

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return how the call ended."""
        if name in (OPEN_WORKTREE, JOIN_WORKTREE) and name not in self._tools:
            # Fakes change no files: a branch that is to have a worktree does without.
            return ToolOutcome(outcome="completed", text="No file was changed.")
        called = Called(name, copy.deepcopy(arguments), context)
        self.calls.append(called)
        try:
            ended = await self._ended(self._tools.get(name), arguments, context)
        except asyncio.CancelledError:
            called.ended = "cancelled"
            raise
        called.ended = ended.outcome
        return ended

    async def _ended(
        self, tool: FakeTool | None, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        if tool is None:
            return ToolOutcome(outcome="failed", text="There is no such tool.")
        if tool.gate is not None and await _is_stopped(tool.gate, context.stop, tool):
            assert tool.when_stopped is not None
            return tool.when_stopped
        try:
            answer = tool.answer(arguments) if callable(tool.answer) else tool.answer
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            return ToolOutcome(outcome="failed", text=f"{type(error).__name__}: {error}")
        if isinstance(answer, ToolOutcome):
            return answer
        return ToolOutcome(outcome="completed", text=answer)


async def _is_stopped(gate: Gate, stop: asyncio.Event, tool: FakeTool) -> bool:
    """Return whether the call was told to stop before the gate opened, and listens."""
    waits: set[asyncio.Future[Any]] = {asyncio.ensure_future(gate.passed())}
    if tool.when_stopped is not None:
        waits.add(asyncio.ensure_future(stop.wait()))
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        return tool.when_stopped is not None and stop.is_set()
    finally:
        for waiting in waits:
            waiting.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


# --- journals ---------------------------------------------------------------------------------


class FakeJournal:
    """A journal in memory that can be slow (`gate`) or fail (`trouble`). See the port `Journal`.

    Set `trouble` to an error and every append raises it, keeping nothing, until it is None again.
    With a `gate` every append stands before it first.
    """

    def __init__(self, *, gate: Gate | None = None) -> None:
        self.gate = gate
        self.trouble: Exception | None = None
        self._runs: dict[str, list[Envelope]] = {}

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`."""
        if self.gate is not None:
            await self.gate.passed()
        if self.trouble is not None:
            raise self.trouble
        kept = self._runs.get(run, [])
        if len(kept) != expected:
            raise JournalMoved(f"Run {run} has {len(kept)} facts where {expected} were expected.")
        if facts:
            self._runs[run] = [*kept, *facts]

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the run's facts after position `after`, to `upto` or the last."""
        return self._runs.get(run, [])[after:upto]


class FakeBlobStore:
    """A blob store in memory. See the port `BlobStore`."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Return the key of the data."""
        key = hashlib.sha256(data).hexdigest()
        self.kept[key] = data
        return key

    async def get(self, key: str) -> bytes:
        """Return the data of a key."""
        key = completed(key, self.kept)
        if key not in self.kept:
            raise WorldTrouble(f"There is nothing under {key}.")
        return self.kept[key]


# --- a world, a definition, and what happened in it -----------------------------------------------


def fake_world(
    model: Model | None = None,
    *,
    tools: Tools | None = None,
    journal: Journal | None = None,
    blobs: BlobStore | None = None,
    clock: Clock | None = None,
    validate: Validator | None = None,
    workspace: Path = Path("/nowhere"),
    hooks: Hooks | None = None,
    has_worktrees: bool = False,
) -> World:
    """Return a world of fakes, but for what is given. Its model has no replies unless one is given."""
    return World(
        model=model or ScriptedModel(),
        tools=tools or FakeTools(),
        journal=journal or FakeJournal(),
        blobs=blobs or FakeBlobStore(),
        clock=clock or JumpingClock(),
        validate=validate or fits_type,
        workspace=workspace,
        hooks=hooks,
        has_worktrees=has_worktrees,
    )


def define(
    workflow: Workflow | dict[str, Json],
    *,
    roles: dict[str, Role] | None = None,
    tools: Tools | None = None,
) -> Definition:
    """Return a workflow ready to run.

    Args:
        workflow: as it stands in a file; a `stop` state is added where there is none.
        roles: the roles that matter; any other an agent names is a plain one.
        tools: the tools agents may use; by default only the one that asks the user.
    """
    if isinstance(workflow, dict):
        workflow = msgspec.convert({"workflow_name": "test", **workflow}, Workflow)
    if all(state.name != "stop" for state in workflow.states):
        stop = msgspec.convert({"name": "stop"}, type(workflow.states[0]))
        workflow = msgspec.structs.replace(workflow, states=(*workflow.states, stop))
    plain = {agent.agent_role: Role() for agent in workflow.agents}
    return Definition(
        workflow=workflow, roles=plain | (roles or {}), tools=(tools or FakeTools()).specs()
    )


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def fits_type(value: Json, schema: dict[str, Json]) -> str:
    """Return why the value does not fit, by the schema's `type` and `enum` alone. See `Validator`."""
    wanted = schema.get("type")
    is_bool = isinstance(value, bool) and wanted != "boolean"
    if isinstance(wanted, str) and (is_bool or not isinstance(value, _TYPES[wanted])):
        return f"{value!r} is not of type {wanted!r}"
    if value not in schema.get("enum", [value]):
        return f"{value!r} is not one of {schema['enum']!r}"
    return ""


class Chronicle:
    """What was told of a run, in order. Give it to a machine as its `tap`; of a run of an
    engine, `RunHandle.events` tell the same.
    """

    def __init__(self) -> None:
        self.events: list[Envelope] = []
        self._awaited: list[tuple[str, Callable[[Any], bool], int, asyncio.Future[Any]]] = []

    def __call__(self, envelope: Envelope) -> None:
        """Hear one event."""
        self.events.append(envelope)
        for kind, fits, count, waiter in self._awaited:
            if not waiter.done() and len(found := self._found(kind, fits)) >= count:
                waiter.set_result(found[count - 1])
        self._awaited = [waiting for waiting in self._awaited if not waiting[3].done()]

    async def until(
        self, kind: str, fits: Callable[[Any], bool] = lambda event: True, *, count: int = 1
    ) -> Any:
        """Return the event of that wire name, once so many were told that `fits` holds of."""
        found = self._found(kind, fits)
        if len(found) >= count:
            return found[count - 1]
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._awaited.append((kind, fits, count, waiter))
        return await waiter

    def kinds(self) -> list[str]:
        """Return the wire names of the facts."""
        return [told.type for told in self.events if isinstance(told.event, Fact)]

    def of(self, kind: type[T]) -> list[T]:
        """Return the events of one class."""
        return [told.event for told in self.events if isinstance(told.event, kind)]

    def path(self) -> list[str]:
        """Return the states entered."""
        return [transition.target for transition in self.of(StateTransition)]

    def shown(self, agent: str | None = None) -> str:
        """Return the words streamed so far, of one agent or of all."""
        deltas: Iterable[TextDelta] = self.of(TextDelta)
        return "".join(delta.text for delta in deltas if agent in (None, delta.agent))

    def _found(self, kind: str, fits: Callable[[Any], bool]) -> list[Any]:
        return [told.event for told in self.events if told.type == kind and fits(told.event)]
