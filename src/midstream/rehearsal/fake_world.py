"""A fake world: whatever a run is owed stands still until the driver lets it end.

The machine is the real one, and so are the handlers of the script. Its model, its tools, its journal
and its clock are fakes. So nothing happens by itself: the run is *quiet* when everything it is
owed stands here, and what happens next is the driver's to say. No time passes that is not said to.

A run can be killed: from then on its journal takes nothing, and another machine goes on with what was
kept, read back from the very bytes.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from midstream.core.codec import decode_fact, encode_fact
from midstream.core.events import Fact
from midstream.core.fold.apply import apply
from midstream.core.inputs import EffectKey
from midstream.core.notices import Envelope
from midstream.core.pending import AwaitTime, pending
from midstream.core.run import WITHIN, Run, owner_of
from midstream.language.errors import JournalMoved, OurBug, WorldTrouble
from midstream.language.names import JOIN_WORKTREE, OPEN_WORKTREE, Json
from midstream.language.spec import Definition, ToolSpec
from midstream.runtime.effects import CHECKPOINT_S
from midstream.runtime.ports import (
    HandlerResult,
    Handlers,
    ModelReply,
    ModelRequest,
    ReplyListener,
    Review,
    ToolContext,
    ToolOutcome,
    Validator,
    World,
)
from midstream.runtime.state_machine import WorkflowStateMachine
from midstream.safety.redaction import Vault

RUN_ID = "rehearsal"
BEGAN_AT = 1_700_000_000.0
MAX_ROUNDS = 100_000
"""Rounds of the loop a run may take to become quiet. A few are usual; so many are a bug of ours."""

USUAL_ROUNDS = 1_000
REST_S = 0.001
"""After the usual ones each round rests: a thread reads a long text, and a machine may be slow at it."""


class Standing(msgspec.Struct, eq=False, kw_only=True):
    """An effect that stands still. `name` is the agent, the tool, the handler or the timer.

    `branch` is where in the run it stands, `state` the state there, `until` when a timer rings.
    """

    kind: Literal["model", "tool", "handler", "timer"]
    key: EffectKey
    name: str
    branch: str
    state: str
    done: "asyncio.Future[Json]"
    arguments: dict[str, Json] = {}
    call_id: str = ""
    until: float = 0.0
    tell_done: Callable[[ToolOutcome], Awaitable[None]] | None = None
    request: ModelRequest | None = None
    listener: ReplyListener | None = None

    def show(self, text: str, *, calling: bool | str = False) -> None:
        """Stream words of a model's reply, and perhaps that it begins to ask for a tool."""
        if self.listener is not None and text:
            self.listener.text(text)
        if self.listener is not None and calling:
            self.listener.calling(calling if isinstance(calling, str) else "")


class Notebook:
    """A journal of one run, as bytes. `kept` is called after each append, `keeping` before it.

    Where either raises, so does the append: before, nothing was kept; after, everything was.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[float, bytes]] = []
        self.is_dead = False
        self.keeping: Callable[[int], None] = lambda seq: None
        self.kept: Callable[[int], None] = lambda seq: None

    async def append(self, run: str, expected: int, facts: Sequence[Envelope]) -> None:
        """Keep the facts after position `expected`. See `midstream.runtime.ports.Journal`."""
        if self.is_dead or len(self.rows) != expected:
            raise JournalMoved("The rehearsal has killed this run.")
        rows = [
            (each.at, encode_fact(each.event)) for each in facts if isinstance(each.event, Fact)
        ]
        last = expected + len(rows)
        self.keeping(last)
        self.rows += rows
        self.kept(last)

    async def read(self, run: str, after: int = 0, upto: int | None = None) -> list[Envelope]:
        """Return the facts after position `after`, decoded."""
        return self.envelopes()[after:upto]

    def envelopes(self) -> list[Envelope]:
        """Return all facts, decoded."""
        return [
            Envelope(run=RUN_ID, at=at, event=decode_fact(data), seq=seq)
            for seq, (at, data) in enumerate(self.rows, 1)
        ]

    def folded(self) -> Run:
        """Return the run that the bytes tell of."""
        run = Run(id=RUN_ID)
        for _, data in self.rows:
            run = apply(run, decode_fact(data))
        return run


class _Clock:
    """The clock of one life. Who waits for a time stands still until the driver lets it come.

    However early or late that is by the clock: to whom waits it is never yet time, and then it is.
    """

    def __init__(self, life: "_Life") -> None:
        self._life = life
        self._rung: set[EffectKey] = set()

    def now(self) -> float:
        """Return the time in seconds since 1970 (UTC)."""
        key = self._life.key_of_timer()
        if key is None:
            return self._life.fake.time
        return math.inf if key in self._rung else -math.inf

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        key = self._life.key_of_timer()
        if key is None:
            return self._life.fake.time
        return math.inf if key in self._rung else 0.0

    async def sleep(self, seconds: float) -> None:
        """Return when the driver says so; else never (checkpoints: `nap`)."""
        key = self._life.key_of_timer()
        if key is None:
            await self._life.nap(seconds)
            return
        await self._life.wait(key)
        self._rung.add(key)


class _Blobs:
    """A blob store in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes) -> str:
        """Return the key of the data."""
        key = f"{len(self._kept)}"
        self._kept[key] = data
        return key

    async def get(self, key: str) -> bytes:
        """Return the data of a key."""
        if key not in self._kept:
            raise WorldTrouble(f"There is nothing under {key}.")
        return self._kept[key]


class FakeWorld:
    """A run in a fake world.

    Args:
        definition: what to run.
        handlers: the functions of its script; they really run.
        validate: checks answers against the schemas of questions.

    `time` is in seconds since 1970: the driver moves it. `requests` are everything a model was asked,
    `effects` how often each `once` call was begun, by its id: these outlive the machine. `foreseen` says
    what the review of a call by name and arguments, in a branch, comes to.
    """

    def __init__(self, definition: Definition, handlers: Handlers, validate: Validator) -> None:
        self.definition = definition
        self.notebook = Notebook()
        self.time = BEGAN_AT
        self.requests: list[ModelRequest] = []
        self.effects: dict[str, int] = {}
        self.foreseen: Callable[[str, dict[str, Json], str], Review] = _allowed
        self._handlers = handlers
        self._validate = validate
        self._life: _Life | None = None

    @property
    def life(self) -> "_Life":
        """Return the machine that goes on with the run now, and what stands still in it."""
        assert self._life is not None, "the run has not begun"
        return self._life

    @property
    def run(self) -> Run:
        """Return the run as it stands."""
        return self.life.machine.run

    def born(self) -> "_Life":
        """Return a new machine for the run; the one before is dead or was never."""
        self._life = _Life(self, self._handlers, self._validate)
        return self._life

    def states(self, branch: str = "") -> list[str]:
        """Return the states the run, or a branch of it, has entered."""
        return self._ways().get(branch, [])

    def branches(self) -> list[str]:
        """Return the paths of the branches that have entered states."""
        return [path for path in self._ways() if path]

    def _ways(self) -> dict[str, list[str]]:
        ways: dict[str, list[str]] = {}
        for _, data in self.notebook.rows:
            fact = msgspec.json.decode(data)
            if fact["type"] == "state_transition":
                ways.setdefault(fact.get("branch", ""), []).append(fact["target"])
        return ways


def _allowed(_name: str, _arguments: dict[str, Json], _branch: str) -> Review:
    return Review()


class _Life:
    """One machine, from its birth to its end or to its being killed."""

    def __init__(self, fake: FakeWorld, handlers: Handlers, validate: Validator) -> None:
        self.fake = fake
        self.standing: dict[EffectKey, Standing] = {}
        self._handlers = handlers
        self._is_killed = False
        self._at_work = 0
        self._rested = asyncio.Event()
        self._checkpoints: list[asyncio.Future[None]] = []
        self._notebook = fake.notebook
        self._notebook.is_dead = False
        world = World(
            model=self,
            tools=self,
            journal=self._notebook,
            blobs=_Blobs(),
            clock=_Clock(self),
            validate=validate,
            workspace=Path("/nowhere"),
            has_worktrees=False,
            vault=Vault(is_verbatim=True),
        )
        self.machine = WorkflowStateMachine(fake.definition, world, handlers=_Held(self), id=RUN_ID)

    @property
    def is_over(self) -> bool:
        """Return whether this machine does nothing more: the run has ended, or was killed."""
        return self._is_killed or self.machine.is_closed or self.machine.run.is_over

    # --- what the driver does -------------------------------------------------------------

    async def quiet(self) -> None:
        """Return once nothing happens by itself any more: all that is owed stands, or it is over."""
        for number in range(MAX_ROUNDS):
            if self._at_work:
                self._rested.clear()
                await self._rested.wait()
                continue
            run = self.machine.run
            is_under_way = run.visit.phase != "new" and not run.is_over
            owed = {effect.key for effect in pending(run)}
            if self.machine.is_closed or (is_under_way and owed == self.standing.keys()):
                return
            await asyncio.sleep(0 if number < USUAL_ROUNDS else REST_S)
        raise OurBug(f"The run does not come to rest: {self.machine.run.visit.phase}.")

    def finish(self, standing: Standing, result: Json) -> None:
        """Let an effect end; an exception as the result is raised in it."""
        del self.standing[standing.key]
        if standing.kind == "timer":
            self.fake.time = max(self.fake.time, standing.until)
        if standing.done.done():
            return
        if isinstance(result, Exception):
            standing.done.set_exception(result)
        else:
            standing.done.set_result(result)

    async def kill(self) -> None:
        """Be gone as a killed process is: nothing more is journaled, nobody is told."""
        self._is_killed = True
        self._notebook.is_dead = True
        for standing in tuple(self.standing.values()):
            standing.done.cancel()
        self.standing.clear()
        if not self.machine.is_closed:
            await self.machine.leave()

    async def checkpoint(self) -> None:
        """Have what was shown of replies journaled, as after a while; return once it is."""
        await asyncio.sleep(0)  # who was just shown something begins to wait for it
        due, self._checkpoints = self._checkpoints, []
        for checkpoint in due:
            if not checkpoint.done():
                checkpoint.set_result(None)
        await asyncio.sleep(0)
        await self.machine.withdraw("")  # it changes nothing: once it is taken, so is all before it

    async def nap(self, seconds: float) -> None:
        """Return when a checkpoint is due, if that is waited for; else never."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if seconds == CHECKPOINT_S:
            self._checkpoints.append(waiter)
        await waiter

    # --- the model, the tools and the handlers -------------------------------------------------

    async def request(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Return the reply the driver gives. See `midstream.runtime.ports.Model`."""
        self.fake.requests.append(request)
        reply: ModelReply = await self._stand(
            "model",
            self._key(),
            request.agent,
            state=request.state,
            request=request,
            listener=listener,
        )
        return reply

    def specs(self) -> dict[str, ToolSpec]:
        """Return what each tool is, by name."""
        return self.fake.definition.tools

    async def review(self, name: str, arguments: dict[str, Json], context: ToolContext) -> Review:
        """Return what the review of a call came to then. See `midstream.runtime.ports.Tools`."""
        return self.fake.foreseen(name, arguments, path_of(self._key()))

    async def call(
        self, name: str, arguments: dict[str, Json], context: ToolContext
    ) -> ToolOutcome:
        """Return the outcome the driver gives. See `midstream.runtime.ports.Tools`."""
        key = self._key()
        call_id = str(key[-1])
        spec = self.fake.definition.tools.get(name)
        is_repeatable = name in (OPEN_WORKTREE, JOIN_WORKTREE)
        if not is_repeatable and (spec is None or spec.effect == "once"):
            self.fake.effects[call_id] = self.fake.effects.get(call_id, 0) + 1
        outcome: ToolOutcome = await self._stand(
            "tool",
            key,
            name,
            arguments=arguments,
            call_id=call_id,
            tell_done=context.done,
        )
        return outcome

    async def handle(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the script's handler did, once the driver has let it run."""
        await self._stand("handler", self._key(), name)
        self._at_work += 1
        try:
            return await self._handlers.call(name, run, log)
        finally:
            self._at_work -= 1
            self._rested.set()

    async def wait(self, key: EffectKey) -> None:
        """Return once the driver lets the time come that a timer waits for."""
        owed = (each for each in pending(self.machine.run) if isinstance(each, AwaitTime))
        until = next((each.until for each in owed if each.key == key), None)
        await self._stand("timer", key, timer_of(key), until=until or 0.0)

    def key_of_timer(self) -> EffectKey | None:
        """Return the key of the timer that the task which asks waits for; None: it waits for none."""
        key = self._found_key()
        return key if key is not None and key[-2] == "timer" else None

    def _key(self) -> EffectKey:
        """Return the key of the effect that the task which asks is."""
        key = self._found_key()
        assert key is not None, "an effect the machine does not know"
        return key

    def _found_key(self) -> EffectKey | None:
        # What an adapter is given does not say which of several branches it is for.
        return self.machine._in_flight.key_of(asyncio.current_task())

    async def _stand(
        self,
        kind: Literal["model", "tool", "handler", "timer"],
        key: EffectKey,
        name: str,
        **more: Any,
    ) -> Json:
        standing = Standing(
            kind=kind,
            key=key,
            name=name,
            branch=path_of(key),
            done=asyncio.get_running_loop().create_future(),
            **{"state": owner_of(self.machine.run, key).visit.state, **more},
        )
        self.standing[key] = standing
        try:
            return await standing.done
        finally:
            if self.standing.get(key) is standing:
                del self.standing[key]


class _Held:
    """The handlers as the machine sees them: each waits for the driver first."""

    def __init__(self, life: _Life) -> None:
        self._life = life

    async def call(self, name: str, run: Run, log: Callable[[str], None]) -> HandlerResult:
        """Return what the handler of that name did. See `midstream.runtime.ports.Handlers`."""
        return await self._life.handle(name, run, log)


def path_of(key: EffectKey) -> str:
    """Return the path of the branch an effect belongs to, "" for the run itself."""
    names = []
    while len(key) > 3 and key[1] == WITHIN:
        names.append(str(key[2]))
        key = key[3:]
    return "/".join(names)


def timer_of(key: EffectKey) -> str:
    """Return the name of the timer an effect is about."""
    return str(key[-1]).partition(" ")[0]
