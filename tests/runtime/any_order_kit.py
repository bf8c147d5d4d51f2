"""A small world for runs whose every effect waits until a test lets it end.

    Disk     what all processes share: is there room, and what has really happened
    Console  a process: a store of its own, an engine, a fake world; it can be left, and it can be killed
    Shadow   what a run should be: the pure core alone, fed with the same inputs

Nothing here sleeps or draws lots: between two things a test does, everything that can happen has.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from deadline import DEADLINE_S as DEADLINE_S
from deadline import wait_until
from decide_kit import check
from postgres_kit import lives

from midstream.core.decide.decide import judged
from midstream.core.events import AnyFact, RunStarted
from midstream.core.fold.apply import apply
from midstream.core.inputs import AnyInput, EffectKey, Shown
from midstream.core.notices import Envelope
from midstream.core.pending import (
    AnyEffect,
    AskModel,
    AwaitTime,
    CallTool,
    ReviewCall,
    RunHandler,
    pending,
)
from midstream.core.run import Run
from midstream.language.errors import JournalFull, WorldTrouble
from midstream.language.names import REQUEST_USERS_INPUT, Effect, Json
from midstream.language.plan import chat_definition
from midstream.language.spec import Definition, Role, ToolSpec
from midstream.runtime.engine.local import LocalEngine
from midstream.runtime.ports import (
    HandlerResult,
    ModelReply,
    ModelRequest,
    ReplyListener,
    Review,
    ToolContext,
    ToolOutcome,
)
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.runtime.storage import Claim, Mail
from midstream.store.memory import MemoryStore
from midstream.store.postgres.store import PostgresStore
from midstream.store.sqlite import SqliteStore
from midstream.testing.fakes import FakeTools, JumpingClock, define, fake_world, fits_type

EFFECTS: dict[str, Effect] = {
    "look": "read",
    "put": "idempotent",
    "send": "once",
    "guarded": "once",
}

_PARAMETERS: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}}}

SPECS = {
    name: ToolSpec(
        name=name,
        description=name,
        parameters=_PARAMETERS,
        effect=effect,
        needs_approval=name == "guarded",
    )
    for name, effect in EFFECTS.items()
} | {REQUEST_USERS_INPUT: FakeTools().specs()[REQUEST_USERS_INPUT]}


# --- workflows of several shapes ---------------------------------------------------------------


class _Specs:
    def specs(self) -> dict[str, ToolSpec]:
        return SPECS

    async def review(self, *given: Any) -> Review:
        raise AssertionError("only for its specs")

    async def call(self, *given: Any) -> ToolOutcome:
        raise AssertionError("only for its specs")


def _flow(name: str, *states: dict[str, Json]) -> Definition:
    return define(
        {
            "workflow_name": name,
            "contexts": [{"name": "talk"}, {"name": "court"}],
            "agents": [
                {"agent_role": "dude", "context": "talk"},
                {"agent_role": "critic", "context": "talk", "role": "user"},
                {"agent_role": "judge", "context": "court"},
            ],
            "states": list(states),
        },
        tools=_Specs(),
    )


DEFINITIONS = (
    _flow(
        "resuming",
        {"name": "start", "agent": "dude", "next": "judge"},
        {"name": "judge", "agent": "judge", "next": "stop", "on_failure": "start"},
        {"name": "resume", "agent": "dude", "next": "$interrupted"},
    ),
    _flow(
        "deciding",
        {"name": "start", "agent": "dude", "next": "judge", "post_handler": "keep"},
        {"name": "judge", "agent": "critic", "transition_handler": "choose"},
        {"name": "resume", "pre_handler": "note", "transition_handler": "back"},
    ),
    _flow(
        "policies",
        {"name": "start", "agent": "dude", "next": "second", "on_input": "steer"},
        {"name": "second", "agent": "critic", "next": "third", "on_input": "queue"},
        {"name": "third", "agent": "judge", "next": "start", "on_input": "reject"},
    ),
    _flow(
        "loop",
        {
            "name": "start",
            "agent": "dude",
            "pre_handler": "note",
            "post_handler": "keep",
            "transition_handler": "choose",
            "awaits_input": True,
        },
    ),
    chat_definition("dude", Role(), SPECS),
)


# --- what is shared by all processes --------------------------------------------------------------


class Disk:
    """What outlives a process: whether there is room, the time, and what really happened."""

    def __init__(self) -> None:
        self.is_full = False
        self.clock = JumpingClock()
        self.jobs: dict[str, str] = {}
        self.made: Counter[int] = Counter()
        self.wrong: list[str] = []
        self.deaths: dict[str, int] = {}
        """What the last claim of a run said of those who had died with it."""

    def hear(self, envelope: Envelope) -> None:
        """Know which run has which job, which is its input: a request to a model names no run."""
        if isinstance(envelope.event, RunStarted):
            self.jobs[str(envelope.event.input)] = envelope.run

    def room(self) -> None:
        """Raise where there is none."""
        if self.is_full:
            raise JournalFull("There is no room.", hint="Make some.")


class MemoryDisk(MemoryStore):
    """A store in memory which takes its time, and on which there may be no room."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self._turns = itertools.cycle((1, 0, 3, 1, 2, 0, 5))
        super().__init__()

    async def takes_time(self) -> None:
        """Let others have their turn, now more, now less often."""
        for _ in range(next(self._turns)):
            await asyncio.sleep(0)

    def beside(self) -> "MemoryDisk":
        other = MemoryDisk(self.disk)
        other._open(self._contents)
        return other

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        await self.takes_time()
        self.disk.room()
        await super().append(run, expected, facts)
        await self.takes_time()

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        await self.takes_time()
        return await super().read(run, after, upto)

    async def claim(self, run: str) -> Claim:
        await self.takes_time()
        claim = await super().claim(run)
        self.disk.deaths[run] = claim.deaths
        await self.takes_time()
        return claim

    async def post(self, mail: Mail) -> Mail:
        self.disk.room()
        return await super().post(mail)

    async def mail(self, owner: str) -> list[Mail]:
        await self.takes_time()
        mails = await super().mail(owner)
        await self.takes_time()
        return mails

    async def undelivered(self, run: str) -> list[Mail]:
        await self.takes_time()
        mails = await super().undelivered(run)
        await self.takes_time()
        return mails

    async def delivered(self, run: str, id: str) -> None:
        await self.takes_time()
        await super().delivered(run, id)
        await self.takes_time()

    def cut(self) -> None:
        """Be dead, as a killed process is."""
        self.die()


class _Roomy:
    """Before a store that lasts: on its disk there may be no room."""

    disk: Disk

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        self.disk.room()
        await super().append(run, expected, facts)  # type: ignore[misc]

    async def post(self, mail: Mail) -> Mail:
        self.disk.room()
        return await super().post(mail)  # type: ignore[misc, no-any-return]

    def cut(self) -> None:
        """Be dead, as a killed process is."""
        self.close(is_cut=True)  # type: ignore[attr-defined]


class SqliteDisk(_Roomy, SqliteStore):
    """A store on the disk."""


class PostgresDisk(_Roomy, PostgresStore):
    """A store in a database."""

    address: str

    async def claim(self, run: str) -> Claim:
        claim = await super().claim(run)
        self.disk.deaths[run] = claim.deaths
        return claim

    def cut(self) -> None:
        """Be dead, as a killed process is once the server has seen the end of its connection."""
        super().cut()
        wait_until(lambda: not lives(self.address, self.me), "the server sees a death")


AnyDisk: TypeAlias = MemoryDisk | SqliteDisk | PostgresDisk


def memory_disks(disk: Disk) -> Callable[[], AnyDisk]:
    """Return what opens another store on the same contents."""
    return MemoryDisk(disk).beside


def sqlite_disks(disk: Disk, path: Path) -> Callable[[], AnyDisk]:
    """Return what opens another store on the same file."""

    def opened() -> AnyDisk:
        store = SqliteDisk.opened(path)
        assert isinstance(store, SqliteDisk)
        store.disk = disk
        return store

    return opened


def postgres_disks(disk: Disk, address: str) -> Callable[[], AnyDisk]:
    """Return what opens another store on the same database."""

    def opened() -> AnyDisk:
        store = PostgresDisk.opened(address)
        assert isinstance(store, PostgresDisk)
        store.disk, store.address = disk, address
        return store

    return opened


# --- effects that wait ----------------------------------------------------------------------------


class Waiting:
    """An effect in flight. It ends when `end` says how, and not before.

    `what` names it as `named` names what a run is owed.
    """

    def __init__(self, run: str, what: tuple[Json, ...]) -> None:
        self.run = run
        self.what = what
        self.end: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.listener: ReplyListener | None = None
        self.log: Callable[[str], None] | None = None
        self.stop: asyncio.Event | None = None
        self.changing: Callable[..., Coroutine[Any, Any, None]] | None = None
        self.streamed = ""
        self.calls: list[str] = []
        self.stopped_at = 0.0
        self.is_cut_off = False

    @property
    def kind(self) -> str:
        return str(self.what[0])

    def stream(self, text: str, *, calling: bool) -> None:
        """Let a piece of the reply be shown."""
        assert self.listener is not None
        if calling:
            self.listener.calling("look")
            self.calls.append("look")
        self.listener.text(text)
        self.streamed += text

    def call_id(self, run: Run) -> str:
        """Return the id of the tool call this is."""
        assert run.visit.turn is not None
        calls = (open_call.call for open_call in run.visit.turn.calls)
        return next(call.id for call in calls if call.arguments.get("n") == self.what[2])

    @property
    def calling(self) -> str:
        """Return which tools it has begun to ask for: the last eight."""
        names = self.calls[-8:]
        return ", ".join(["...", *names] if len(names) < len(self.calls) else names)

    def shown(self, key: EffectKey) -> Shown:
        has_calls = bool(self.calls)
        return Shown(key=key, text=self.streamed, has_calls=has_calls, calling=self.calling)


def named(run: Run, effect: AnyEffect) -> tuple[Json, ...]:
    """Return a name for an effect, which the fake it reaches can tell too."""
    if isinstance(effect, AskModel):
        return ("model", effect.agent, run.visit.state, effect.key[2])
    if isinstance(effect, CallTool):
        return ("tool", effect.call.name, effect.call.arguments["n"])
    if isinstance(effect, RunHandler):
        return ("handler", effect.handler, effect.slot)
    if isinstance(effect, ReviewCall):
        return ("review", effect.name, effect.arguments["n"])
    assert isinstance(effect, AwaitTime)
    return ("time", effect.seconds)


def _awaiting(doing: Callable[..., Awaitable[None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    async def done(*given: Any) -> None:
        await doing(*given)

    return done


class FakeWorld:
    """The model, the tools and the handlers of one process."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.waiting: list[Waiting] = []

    async def _ended(self, waiting: Waiting) -> Any:
        self.waiting.append(waiting)
        try:
            ended = await waiting.end
        finally:
            self.waiting.remove(waiting)
        if isinstance(ended, Exception):
            raise ended
        return ended

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        for message in request.messages:
            made = [call.id for call in message.calls]
            if made != [result.call_id for result in message.results]:
                self._disk.wrong.append(f"a request has the calls {made}, and other results")
        what = ("model", request.agent, request.state, request.request)
        waiting = Waiting(self._disk.jobs[str(request.input)], what)
        waiting.listener = listener
        reply: ModelReply = await self._ended(waiting)
        return reply

    def specs(self) -> dict[str, ToolSpec]:
        return SPECS

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Say in its time that the turn of a call has come: nothing here is judged."""
        review: Review = await self._ended(Waiting(context.run, ("review", name, arguments["n"])))
        return review

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        number = arguments["n"]
        self._disk.made[number] += 1
        if self._disk.made[number] > 1 and EFFECTS[name] == "once":
            self._disk.wrong.append(f"{name} {number} happened twice")
        waiting = Waiting(context.run, ("tool", name, number))
        waiting.stop, waiting.changing = context.stop, _awaiting(context.changing)
        outcome: ToolOutcome = await self._ended(waiting)
        return outcome

    def handlers(self) -> "FakeHandlers":
        """Return the handlers of a run's script."""
        return FakeHandlers(self)

    async def handle(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        effect = pending(run)[0]
        waiting = Waiting(run.id, named(run, effect))
        if waiting.what[1] != name:
            self._disk.wrong.append(f"the handler {name} ran instead of {waiting.what[1]}")
        waiting.log = log
        result: HandlerResult = await self._ended(waiting)
        return result


class FakeHandlers:
    """The handlers of a script, faked."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world

    async def call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        return await self._world.handle(name, run, log)


# --- processes ------------------------------------------------------------------------------------

_PROCESS: ContextVar["Console | None"] = ContextVar("process", default=None)


def noted_task(
    loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None, **more: Any
) -> "asyncio.Task[Any]":
    """Make a task that its process knows of: a task factory."""
    task = asyncio.Task(coro, loop=loop, context=context, **more)
    process = _PROCESS.get() if context is None else context.get(_PROCESS)
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None))
    return task


class Console:
    """A process: everything in it ends at once when it is killed, and nothing of it is written then."""

    def __init__(self, store: AnyDisk, disk: Disk) -> None:
        self.store = store
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.world = FakeWorld(disk)
        self.engine = LocalEngine(
            fake_world(
                self.world,
                tools=self.world,
                journal=store,
                blobs=store,
                clock=disk.clock,
                validate=fits_type,
            ),
            store,
        )
        self.engine.listen(disk.hear)
        self._context = copy_context()
        self._context.run(_PROCESS.set, self)

    def begin(self, doing: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Do something in this process."""
        return asyncio.get_running_loop().create_task(doing, context=self._context.copy())

    def machine(self, id: str) -> WorkflowStateMachine:
        machine = self.engine.machine(id)
        assert machine is not None
        return machine

    def of(self, run: str) -> list[Waiting]:
        """Return the effects of a run that are in flight here, and wait for an end."""
        return [w for w in self.world.waiting if w.run == run and not w.end.done()]

    async def killed(self) -> None:
        """Be killed."""
        self.store.cut()
        while left := tuple(self.tasks):
            for task in left:
                task.cancel()
            await asyncio.wait(left)
            for task in left:
                with suppress(asyncio.CancelledError):
                    task.exception()
        assert not self.world.waiting


# --- the model ------------------------------------------------------------------------------------


class Shadow:
    """What a run should be by the pure core alone.

    `held` are ends of effects the machine could not journal yet; `mails` those not delivered yet.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.run = Run(id=id)
        self.facts: list[AnyFact] = []
        self.ends: list[int] = [0]
        self.held: list[AnyInput] = []
        self.mails: list[Mail] = []
        self.is_stopping_by_mail = False
        self.owner: Console | None = None
        self.was_cut = False

    def feed(self, input: AnyInput) -> tuple[AnyFact, ...]:
        """Take an input; return what it makes true."""
        story = judged(self.run, input)
        check(self.run, story.run, story.facts)
        self.run = story.run
        self.facts += story.facts
        return tuple(story.facts)

    def would(self, input: AnyInput) -> bool:
        """Return whether an input would make anything true."""
        return bool(judged(self.run, input).facts)

    def effect(self, what: tuple[Json, ...]) -> AnyEffect:
        """Return the effect of that name that the run is owed."""
        found = [e for e in pending(self.run) if named(self.run, e) == what]
        assert len(found) == 1, f"{what} is in flight, but owed is {pending(self.run)}"
        return found[0]

    def shown(self) -> tuple[Shown, ...]:
        """Return what of a reply was shown."""
        if self.owner is None:
            return ()
        owed = {named(self.run, effect): effect.key for effect in pending(self.run)}
        in_flight = (w for w in self.owner.of(self.id) if w.kind == "model" and w.what in owed)
        return tuple(w.shown(owed[w.what]) for w in in_flight)


def folded(id: str, facts: Sequence[AnyFact]) -> Run:
    """Return the run of facts as a journal gives them back."""
    run = Run(id=id)
    for fact in facts:
        run = apply(run, msgspec.json.decode(msgspec.json.encode(fact), type=AnyFact))
    return run


def failure() -> WorldTrouble:
    """Return what a model fails with."""
    return WorldTrouble("The model is out.", hint="Wait.")
